"""On Coresets for Support Vector Machines.

Protocols, items and claims, published numbers, looks of its methods.
"""

from handful_papers.style import methods

METHODS = methods("svm")
