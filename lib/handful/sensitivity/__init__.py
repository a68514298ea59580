"""Sensitivity sampling: draw points by bounds on their largest share of the loss."""

from handful.lazy import lazy_names
from handful.sensitivity.gmm import MixtureSensitivity
from handful.sensitivity.lightweight import LightweightCoreset
from handful.sensitivity.logistic import LogisticSensitivity
from handful.sensitivity.svm import SVMCoreset

__all__ = ["LightweightCoreset", "LogisticSensitivity", "MixtureSensitivity", "SVMCoreset"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {},
    gone={
        "LewisCoreset": (
            "take LogisticSensitivity or SVMCoreset, which have a guarantee for their loss, "
            "or LightweightCoreset, which needs no labels."
        ),
    },
)
