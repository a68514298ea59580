"""Bilevel coresets (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024).

`Network` and `TrainConfig` need torch, which is imported when they are asked for.
"""

from handful.bilevel.any_estimator import AnyEstimatorCoreset
from handful.bilevel.bilevel_coreset import BilevelCoreset
from handful.bilevel.design import OptimalDesign
from handful.bilevel.exchange import Elimination, Exchange
from handful.bilevel.proxy_coreset import ProxyCoreset
from handful.bilevel.regularised import Regularised
from handful.bilevel.strategy import Forward
from handful.checks import ConvergenceError
from handful.lazy import lazy_names
from handful.models.gaussian_mixture import GaussianMixture
from handful.models.inverse import ConjugateGradients, Exact, NeumannSeries
from handful.models.joint import Joint
from handful.models.linear import LeastSquares, Logistic
from handful.models.problem import Problem

__all__ = [
    "AnyEstimatorCoreset",
    "BilevelCoreset",
    "ConjugateGradients",
    "ConvergenceError",
    "Elimination",
    "Exact",
    "Exchange",
    "Forward",
    "GaussianMixture",
    "Joint",
    "LeastSquares",
    "Logistic",
    "NeumannSeries",
    "OptimalDesign",
    "Problem",
    "ProxyCoreset",
    "Regularised",
]

__getattr__, __dir__ = lazy_names(
    __name__, {name: "handful.models.network" for name in ("Network", "TrainConfig")}
)
