"""The exact linear SVM of the coreset paper: hinge loss, weights, a bias that is not penalised."""

from handful.lazy import lazy_names
from handful.svm.linear_svm import LinearSVM

__all__ = ["LinearSVM"]

__getattr__, __dir__ = lazy_names(
    __name__, {}, moved={"svm_objective": "handful.svm.linear_svm.svm_objective"}
)
