"""Sensitivity sampling: draw points by bounds on their largest share of the loss."""

from handful.sensitivity.gmm import MixtureSensitivity
from handful.sensitivity.lewis import LewisCoreset
from handful.sensitivity.lightweight import LightweightCoreset
from handful.sensitivity.logistic import LogisticSensitivity
from handful.sensitivity.svm import SVMCoreset

__all__ = ["LewisCoreset", "LightweightCoreset", "LogisticSensitivity", "MixtureSensitivity", "SVMCoreset"]
