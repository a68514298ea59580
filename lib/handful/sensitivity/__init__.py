"""Sensitivity sampling: draw points by bounds on their largest share of the loss."""

from handful.sensitivity.gmm import MixtureSensitivity
from handful.sensitivity.lewis import LewisCoreset, lewis_weights
from handful.sensitivity.lightweight import LightweightCoreset, lightweight_coreset
from handful.sensitivity.logistic import LogisticSensitivity
from handful.sensitivity.svm import SVMCoreset

__all__ = [
    "LewisCoreset",
    "LightweightCoreset",
    "LogisticSensitivity",
    "MixtureSensitivity",
    "SVMCoreset",
    "lewis_weights",
    "lightweight_coreset",
]
