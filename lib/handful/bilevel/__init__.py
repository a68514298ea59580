"""Bilevel coresets (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024).

`Network` needs torch, which is imported when one is used.
"""

from handful.bilevel.any_estimator import AnyEstimatorCoreset
from handful.bilevel.design import OptimalDesign, design_gradient, design_objective
from handful.bilevel.exchange import Elimination, Exchange
from handful.bilevel.forward import Forward
from handful.bilevel.problems.mixture import GaussianMixture
from handful.bilevel.problems.network import Network, TrainConfig
from handful.bilevel.proxy_coreset import ProxyCoreset
from handful.bilevel.regularised import Regularised
from handful.bilevel.selector import BilevelCoreset
from handful.checks import ConvergenceError
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
    "Network",
    "NeumannSeries",
    "OptimalDesign",
    "Problem",
    "ProxyCoreset",
    "Regularised",
    "TrainConfig",
    "design_gradient",
    "design_objective",
]
