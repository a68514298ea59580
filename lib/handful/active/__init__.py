"""Batch active learning (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024, Section 4.3): what to label next.

Networks and semi-supervised training need torch: `handful.active.mixmatch`, `handful.active.networks`.
"""

from handful.active.acquisition import Acquisition, Badge, Consistency, KCenterQuery, MaxEntropy, UniformQuery
from handful.active.bilevel import BilevelQuery

__all__ = [
    "Acquisition",
    "Badge",
    "BilevelQuery",
    "Consistency",
    "KCenterQuery",
    "MaxEntropy",
    "UniformQuery",
]
