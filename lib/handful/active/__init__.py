"""Batch active learning (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024, Section 4.3): what to label next.

`MixMatch` and `SupervisedNetwork` need torch, which is imported when they are asked for.
"""

from importlib import import_module

from handful.active.acquisition import Acquisition, Badge, Consistency, KCenterQuery, MaxEntropy, UniformQuery
from handful.active.bilevel import BilevelQuery
from handful.active.loop import ActiveLoop
from handful.active.panel import LabellingPanel

__all__ = [
    "Acquisition",
    "ActiveLoop",
    "Badge",
    "BilevelQuery",
    "Consistency",
    "KCenterQuery",
    "LabellingPanel",
    "MaxEntropy",
    "UniformQuery",
]

NEED_TORCH = ("MixMatch", "SupervisedNetwork")


def __getattr__(name):
    if name in NEED_TORCH:
        return getattr(import_module("handful.active.mixmatch"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *NEED_TORCH})
