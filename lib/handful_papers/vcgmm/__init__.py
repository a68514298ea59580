"""Large Scale Clustering with Variational EM for Gaussian Mixture Models.

Protocols, items and claims, published numbers, looks of its methods.
"""

from handful_papers.style import methods

METHODS = methods("vcgmm")
