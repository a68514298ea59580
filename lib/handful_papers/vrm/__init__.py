"""Online Variance Reduction with Mixtures.

Protocols, items and claims, published numbers, looks of its methods.
"""

from handful_papers.style import methods

METHODS = methods("vrm")
