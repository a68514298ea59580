"""Train on a handful of points: coresets, importance sampling and clustering from four papers."""

import handful.compiling  # noqa: F401 (says so when a first call compiles)
from handful.baselines import KCenter, KMeansPlusPlus, StratifiedCoreset, UniformCoreset
from handful.bilevel import BilevelCoreset, LeastSquares, Logistic
from handful.clustering import VCGMM
from handful.comparison import compare
from handful.coreset import Coreset, Selector
from handful.estimator import CoresetEstimator
from handful.sampling import MixtureSampler
from handful.sensitivity import LightweightCoreset, LogisticSensitivity, SVMCoreset
from handful.streaming import MergeReduce
from handful.svm import LinearSVM
from handful.version import __version__ as __version__

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
    "StratifiedCoreset",
    "UniformCoreset",
    "compare",
]
