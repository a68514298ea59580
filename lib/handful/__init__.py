"""Train on a handful of points: coresets, importance sampling and clustering from four papers."""

from importlib.metadata import version

from handful.baselines import KCenter, KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset, LeastSquares, Logistic
from handful.coreset import Coreset, CoresetEstimator, Selector
from handful.sensitivity.logistic import LogisticSensitivity

__version__ = version("handful")

__all__ = [
    "BilevelCoreset",
    "Coreset",
    "CoresetEstimator",
    "KCenter",
    "KMeansPlusPlus",
    "LeastSquares",
    "Logistic",
    "LogisticSensitivity",
    "Selector",
    "UniformCoreset",
]
