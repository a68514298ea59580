"""Train on a handful of points: coresets, importance sampling and clustering from four papers."""

from handful.bilevel import BilevelCoreset, LeastSquares, Logistic
from handful.coreset import Coreset, CoresetEstimator, Selector

__all__ = ["BilevelCoreset", "Coreset", "CoresetEstimator", "LeastSquares", "Logistic", "Selector"]
