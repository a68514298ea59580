"""`LinearSVM`: the exact soft-margin SVM, with a certificate."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.checks import check_number, check_sample_weight, signed_labels
from handful.svm.staged import solve


def svm_objective(X, y, w, *, lam=1.0, sample_weight=None):
    """The SVM objective of "On Coresets for Support Vector Machines" (2020), Definition 1.

    F(w) = 1/2 |w_1..d|^2 + lam sum_i u_i [1 - y_i (<x_i, w_1..d> + w_d+1)]_+ ; the bias is not penalised.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d)
    y : shape (n,), -1 or +1
    w : shape (d + 1,), the bias last
    lam : float
    sample_weight : shape (n,), the weights u; ones if None

    Returns
    -------
    float
    """
    hinge = np.maximum(0.0, 1.0 - y * (X @ w[:-1] + w[-1]))
    total = hinge.sum() if sample_weight is None else sample_weight @ hinge
    return 0.5 * w[:-1] @ w[:-1] + lam * total


class LinearSVM(ClassifierMixin, BaseEstimator):
    """Linear support vector classifier, solved to a certified duality gap.

    Minimises ``1/2 |w|^2 + lam sum_i u_i [1 - y_i (<x_i, w> + b)]_+`` ("On Coresets for Support Vector
    Machines", 2020, Definition 1): the problem of ``SVC(kernel="linear", C=lam)``, bias not penalised,
    and unlike `sklearn.svm.LinearSVC`. A primal-dual interior-point method (Mehrotra 1992) whose cost is
    O(n d^2) an iteration; large data are solved in stages, on the points that decide the solution.

    As the bias is free, centring the features changes nothing but the bias: sparse data are standardised
    with ``StandardScaler(with_mean=False)``, which leaves them sparse and the problem the same.

    Parameters
    ----------
    lam : float > 0; the price of the hinge loss (`C` of scikit-learn)
    tol : float > 0; relative duality gap at which to stop
    max_iter : int; interior-point iterations in each stage
    warm_start : bool; start from the previous `fit`'s solution

    Attributes
    ----------
    coef_ : float array, shape (1, d)
    intercept_ : float array, shape (1,)
    classes_ : array, shape (2,)
    objective_ : float; the objective at the solution
    lower_bound_ : float; no solution has a lower objective (the dual objective at a feasible point)
    gap_ : float; ``(objective_ - lower_bound_) / objective_``
    n_iter_ : int; iterations over all stages

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svm = LinearSVM(lam=0.1).fit((X - X.mean(0)) / X.std(0), y)
    >>> bool(svm.gap_ < 1e-8)
    True
    """

    def __init__(self, *, lam=1.0, tol=1e-8, max_iter=200, warm_start=False):
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def fit(self, X, y, sample_weight=None):
        """Solve the SVM of (X, y).

        Parameters
        ----------
        X : array, data frame or CSR matrix, shape (n, d)
        y : labels of two classes, shape (n,)
        sample_weight : shape (n,), non-negative

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for bad values, wrong lengths, other than two classes, and `lam` or `tol` not positive.
        """
        for name in ("lam", "tol"):
            check_number(name, getattr(self, name), above=0)
        warm = getattr(self, "coef_", None) if self.warm_start else None
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        sample_weight = check_sample_weight(sample_weight, X.shape[0])
        present = sample_weight > 0
        if not present.all():
            X, y, sample_weight = X[present], y[present], sample_weight[present]
        self.classes_, signs = signed_labels(y, "an SVM")
        start = None
        if warm is not None and warm.shape[1] == X.shape[1]:
            start = np.append(warm[0], self.intercept_)
        solution = solve(X, signs, self.lam * sample_weight, tol=self.tol, start=start, max_iter=self.max_iter)
        self.coef_, self.intercept_ = solution.w[None, :-1], solution.w[-1:]
        self.objective_, self.lower_bound_ = float(solution.objective), float(solution.lower_bound)
        self.gap_, self.n_iter_ = float(solution.gap), solution.n_iter
        if not self.gap_ <= self.tol:
            warnings.warn(
                f"LinearSVM stopped after {self.n_iter_} iterations with a duality gap of {self.gap_:.1e} "
                f"> tol={self.tol:.1e}; raise max_iter or tol, or standardise the features.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def decision_function(self, X):
        """Signed margins ``<x, w> + b``, shape (n,); positive for ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return safe_sparse_dot(X, self.coef_[0], dense_output=True) + self.intercept_[0]

    def predict(self, X):
        """The predicted class of each row, shape (n,)."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags
