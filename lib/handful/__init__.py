"""Train on a handful of points."""

from handful.coreset import Coreset, CoresetEstimator, Selector

__all__ = ["Coreset", "CoresetEstimator", "Selector"]
