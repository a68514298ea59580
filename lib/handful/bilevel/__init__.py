"""Bilevel coresets (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024).

`Network` needs torch, which is imported when one is used.
"""

from handful.bilevel.any_estimator import AnyEstimatorCoreset
from handful.bilevel.design import OptimalDesign, design_gradient, design_objective
from handful.bilevel.numerics.ihvp import Cholesky, ConjugateGradients, Exact, NeumannSeries
from handful.bilevel.problems.base import Problem
from handful.bilevel.problems.joint import Joint
from handful.bilevel.problems.linear import LeastSquares, Logistic
from handful.bilevel.problems.mixture import GaussianMixture
from handful.bilevel.problems.network import Network, TrainConfig
from handful.bilevel.proxy_coreset import ProxyCoreset
from handful.bilevel.selector import BilevelCoreset
from handful.bilevel.strategies.forward import Forward
from handful.bilevel.strategies.regularised import Regularised
from handful.bilevel.strategies.subsets import Elimination, Exchange
from handful.checks import ConvergenceError

__all__ = [
    "AnyEstimatorCoreset",
    "BilevelCoreset",
    "Cholesky",
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
