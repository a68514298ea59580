"""Train on a handful of points: coresets, importance sampling and clustering from four papers."""

from handful.attribution import influence, suspects
from handful.baselines import (
    BalancedCoreset,
    KCenter,
    KMeansPlusPlus,
    StratifiedCoreset,
    UniformCoreset,
)
from handful.bilevel import AnyEstimatorCoreset, BilevelCoreset
from handful.clustering import VCGMM
from handful.compare import compare
from handful.coreset import Coreset, Selector
from handful.estimator import CoresetEstimator
from handful.lazy import lazy_names
from handful.matching import MatchedCoreset
from handful.models import LeastSquares, Logistic, Poisson
from handful.sampling import MixtureSampler
from handful.sensitivity import LightweightCoreset, LogisticSensitivity, SVMCoreset
from handful.streaming import MergeReduce
from handful.svm import LinearSVM
from handful.version import __version__ as __version__

__all__ = [
    "VCGMM",
    "AnyEstimatorCoreset",
    "BalancedCoreset",
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
    "MatchedCoreset",
    "MergeReduce",
    "MixtureSampler",
    "Poisson",
    "SVMCoreset",
    "Selector",
    "StratifiedCoreset",
    "UniformCoreset",
    "compare",
    "influence",
    "suspects",
]

# So that `handful.data.load` works after `import handful` alone.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "active": "handful.active",
        "continual": "handful.continual",
        "data": "handful.data",
        "dictionary": "handful.dictionary",
    },
    gone={
        name: (
            "it scores the public tables of attribution, from a checkout: "
            f"handful_papers.public.{name}."
        )
        for name in ("network_influence", "unrolled")
    },
)
