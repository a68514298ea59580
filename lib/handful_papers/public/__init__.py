"""The tables that others publish of their own libraries, on their protocols: our rows beside their
printed ones.

A module and an entry for each figure; the printed numbers and where each stands in
``published.csv``.
"""

from handful_papers.style import methods

METHODS = methods("public")
