"""Data Summarization via Bilevel Optimization.

Protocols, items and claims, published numbers, looks of its methods.
"""

from handful_papers.style import methods

METHODS = methods("bico")
