"""Data Summarization via Bilevel Optimization.

A module and an entry for each figure, published numbers, and what several figures share.
"""

from handful_papers.style import methods

METHODS = methods("bico")
