"""Sensitivity sampling: draw points by bounds on their largest share of the loss."""

from handful.sensitivity.gmm import MixtureSensitivity
from handful.sensitivity.lightweight import LightweightCoreset, lightweight_coreset
from handful.sensitivity.logistic import LogisticSensitivity
from handful.sensitivity.svm import SVMCoreset

__all__ = ["LightweightCoreset", "LogisticSensitivity", "MixtureSensitivity", "SVMCoreset", "lightweight_coreset"]
