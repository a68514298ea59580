"""Batch active learning (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024, Section 4.3): what to
label next."""

from handful.active.acquisition import (
    Badge,
    ClusterMarginQuery,
    KCenterQuery,
    KMeansQuery,
    MaxEntropyQuery,
    UniformQuery,
)
from handful.active.bilevel import BilevelQuery
from handful.active.loop import ActiveLoop
from handful.active.panel import LabellingPanel

__all__ = [
    "ActiveLoop",
    "Badge",
    "BilevelQuery",
    "ClusterMarginQuery",
    "KCenterQuery",
    "KMeansQuery",
    "LabellingPanel",
    "MaxEntropyQuery",
    "UniformQuery",
]
