"""Bilevel coresets (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024)."""

from handful.bilevel.any_estimator import AnyEstimatorCoreset
from handful.bilevel.bilevel_coreset import BilevelCoreset
from handful.bilevel.design import OptimalDesign
from handful.bilevel.proxy_coreset import ProxyCoreset
from handful.bilevel.regularised import Regularised
from handful.bilevel.strategy import Forward
from handful.checks import ConvergenceError
from handful.lazy import lazy_names

__all__ = [
    "AnyEstimatorCoreset",
    "BilevelCoreset",
    "ConvergenceError",
    "Forward",
    "OptimalDesign",
    "ProxyCoreset",
    "Regularised",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {},
    moved={
        "ConjugateGradients": "handful.models.inverse.ConjugateGradients",
        "Elimination": "handful.bilevel.exchange.Elimination",
        "Exact": "handful.models.inverse.Exact",
        "Exchange": "handful.bilevel.exchange.Exchange",
        "GaussianMixture": "handful.models.GaussianMixture",
        "Joint": "handful.models.Joint",
        "LeastSquares": "handful.models.LeastSquares",
        "Logistic": "handful.models.Logistic",
        "Network": "handful.models.Network",
        "NeumannSeries": "handful.models.inverse.NeumannSeries",
        "Problem": "handful.models.Problem",
        "TrainConfig": "handful.models.network.TrainConfig",
    },
)
