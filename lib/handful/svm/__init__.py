"""The exact linear SVM of the coreset paper: hinge loss, weights, a bias that is not penalised."""

from handful.svm.linear_svm import LinearSVM, svm_objective

__all__ = ["LinearSVM", "svm_objective"]
