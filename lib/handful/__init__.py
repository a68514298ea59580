"""Train on a handful of points: coresets, importance sampling and clustering from four papers."""

from importlib.metadata import version

from handful.baselines import KCenter, KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset, LeastSquares, Logistic
from handful.clustering.vcgmm import VCGMM
from handful.coreset import Coreset, CoresetEstimator, Selector
from handful.sampling import MixtureSampler
from handful.sensitivity.lightweight import LightweightCoreset
from handful.sensitivity.logistic import LogisticSensitivity
from handful.sensitivity.svm import SVMCoreset
from handful.streaming import MergeReduce
from handful.svm import LinearSVM

__version__ = version("handful")

__all__ = [
    "VCGMM",
    "BilevelCoreset",
    "Coreset",
    "CoresetEstimator",
    "KCenter",
    "KMeansPlusPlus",
    "LeastSquares",
    "LightweightCoreset",
    "LinearSVM",
    "Logistic",
    "LogisticSensitivity",
    "MergeReduce",
    "MixtureSampler",
    "SVMCoreset",
    "Selector",
    "UniformCoreset",
]
