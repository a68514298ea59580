"""Bilevel coresets (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024).

`Network` and `TrainConfig` need torch, which is imported when they are asked for.
"""

from importlib import import_module

from handful.bilevel.design import OptimalDesign
from handful.bilevel.joint import Joint
from handful.bilevel.mixture import GaussianMixture
from handful.bilevel.problems import LeastSquares, Logistic, Problem
from handful.bilevel.selector import BilevelCoreset

__all__ = ["BilevelCoreset", "GaussianMixture", "Joint", "LeastSquares", "Logistic", "OptimalDesign", "Problem"]

NEED_TORCH = ("Network", "TrainConfig")


def __getattr__(name):
    if name in NEED_TORCH:
        return getattr(import_module("handful.bilevel.network"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *NEED_TORCH})
