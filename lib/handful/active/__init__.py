"""Batch active learning (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024, Section 4.3): what to label next.

`MixMatch`, `SupervisedNetwork` and the networks need torch, which is imported when they are asked for.
"""

from handful.active.acquisition import (
    Acquisition,
    Badge,
    Consistency,
    KCenterQuery,
    KMeansQuery,
    MaxEntropyQuery,
    UniformQuery,
)
from handful.active.bilevel import BilevelQuery
from handful.active.loop import ActiveLoop
from handful.active.panel import LabellingPanel
from handful.lazy import lazy_names

__all__ = [
    "Acquisition",
    "ActiveLoop",
    "Badge",
    "BilevelQuery",
    "Consistency",
    "KCenterQuery",
    "KMeansQuery",
    "LabellingPanel",
    "MaxEntropyQuery",
    "UniformQuery",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ConvNet": "handful.active.networks",
        "MLP": "handful.active.networks",
        "MixMatch": "handful.active.mixmatch",
        "SupervisedNetwork": "handful.active.supervised",
        "WideResNet": "handful.active.networks",
    },
)
