"""`LinearSVM`: the exact soft-margin SVM, with a certificate."""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from handful.blocks import by_blocks
from handful.checks import (
    check_in_memory,
    check_labels,
    check_magnitude,
    check_rows,
    check_sample_weight,
    check_vector,
    signed_labels,
    validate_data,
)
from handful.distances import centred
from handful.options import Count, Options, Positive, all_or_nothing, check_options
from handful.running import one_blas_thread, warn
from handful.scales import warn_of_scales
from handful.svm.interior_point import with_ones
from handful.svm.smoothing import solve
from handful.tables import readable
from handful.types import Table


def hinge_price(l2: Any, total_weight: Any) -> Any:
    """What a unit of hinge loss costs beside ``1/2 |w|^2``: 1 / (l2 U), or 1 where `l2` is None.

    It is the lambda of "On Coresets for Support Vector Machines" (2020), and the `C` of
    scikit-learn.

    Parameters
    ----------
    l2 : float > 0 or None; strength of the penalty, per mean loss
    total_weight : float; U, the sum of the weights

    Returns
    -------
    float

    Raises
    ------
    ValueError
        for an `l2` that is no positive number, or so small that the price overflows
    """
    if l2 is None:
        return 1.0
    strength = float(l2) * float(total_weight)
    if not np.finfo(float).tiny <= strength < np.inf:
        raise ValueError(
            f"l2 times the sum of the weights must be 2e-308 to 2e308, got {l2!r} x "
            f"{total_weight:.3g}."
        )
    return 1.0 / strength


def svm_objective(
    X: Table, y: Table, w: Any, *, l2: float | None = None, sample_weight: Table = None
) -> Any:
    """The SVM objective of "On Coresets for Support Vector Machines" (2020), Definition 1.

    ``F(w) = 1/2 |w_1..d|^2 + 1 / (l2 U) sum_i u_i [1 - y_i (<x_i, w_1..d> + w_d+1)]_+``, U the sum
    of the weights u; the bias is not penalised.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d)
    y : shape (n,), -1 or +1
    w : shape (d + 1,), the bias last
    l2 : float > 0 or None; strength of the penalty, per mean loss. None: 1 / U
    sample_weight : shape (n,), the weights u; ones if None

    Returns
    -------
    float
    """
    X = check_rows(X, accept_sparse="csr")
    y = check_vector(y, "y", X.shape[0])
    w = check_vector(w, "w", X.shape[1] + 1)
    if not np.isin(y, (-1, 1)).all():
        raise ValueError(f"y must hold the labels -1 and +1, got {np.unique(y)[:5]}.")
    u = check_sample_weight(sample_weight, len(y))
    hinge = np.maximum(0.0, 1.0 - y * (X @ w[:-1] + w[-1]))
    return 0.5 * w[:-1] @ w[:-1] + hinge_price(l2, u.sum()) * (u @ hinge)


class LinearSVM(ClassifierMixin, Options):
    """Linear support vector classifier, solved to a certified duality gap; several classes one
    against the rest.

    Minimises the weighted mean of the hinge losses ``[1 - y_i (<x_i, w> + b)]_+`` plus ``l2 / 2 *
    |w|^2``, the bias not penalised: the problem of ``SVC(kernel="linear", C=1 / (l2 * n))``, unlike
    that of `sklearn.svm.LinearSVC`. It has two methods, and takes the one that needs fewer
    operations. Up to some hundred features that is a primal-dual interior-point method (Mehrotra
    1992) whose cost is O(n d^2) an iteration; of many rows it gets only those that a smoothed
    solution leaves near the margin. For more features it is dual coordinate descent (Hsieh et al.
    2008), whose cost is O(nnz) a pass and whose memory is O(nnz + n + d); it is slow on features of
    very different scales.

    As the bias is free, centring the features changes nothing but the bias. They are centred here,
    so that columns far from zero cost no digits; of a CSR matrix those columns of which more than
    half is stored.

    Parameters
    ----------
    l2 : float or None, default=None
        Strength of the penalty, per mean loss. None: 1 / U, U the sum of the weights, which is
        lambda = 1 in "On Coresets for Support Vector Machines" (2020) and ``C=1`` in
        scikit-learn.
    class_weight : dict, "balanced" or None, default=None
        None, a dict of factors by class, or "balanced", which makes all classes weigh alike;
        they multiply the `sample_weight` in the losses, as they multiply the C of
        `sklearn.svm.SVC`.
    tol : float, default=1e-08
        Relative duality gap at which to stop.
    max_iter : int, default=200
        Interior-point iterations in each stage; for each, 50 passes of the coordinate descent.
    warm_start : bool, default=False
        Start from the previous `fit`'s solution (the coordinate descent: from its bias).

    Attributes
    ----------
    coef_ : float array, shape (1, d); of k > 2 classes (k, d), each class against the rest
    intercept_ : float array, shape (1,) or (k,)
    classes_ : array, shape (2,) or (k,)
    objective_ : float, or array of shape (k,); the objective at the solution as in that paper's
        Definition 1: `svm_objective`, the mean loss and penalty over `l2`
    lower_bound_ : float or array; no solution has a lower objective (the dual objective at a
        feasible point)
    gap_ : float; ``(objective_ - lower_bound_) / objective_``, the largest of the k
    n_iter_ : int; iterations over all stages, or passes of the coordinate descent, the most of the
        k
    method_ : "interior point" or "coordinate descent"

    Notes
    -----
    In a test of 2,000 random problems (condition numbers to 1e12, weights over ten decades,
    features up to 1e8 from zero), one kept a gap above 1e-8, of 1e-6. Where rounding stops the
    solver, `fit` warns, and the bound still holds. The objective and the bound are those of the
    centred features: with features at 1e8 `intercept_` has an absolute rounding error of about 1e-8
    times the coefficients, and `decision_function` with it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svm = LinearSVM(l2=0.01).fit((X - X.mean(0)) / X.std(0), y)
    >>> bool(svm.gap_ < 1e-8)
    True
    """

    _: KW_ONLY
    l2: Positive | None = None
    class_weight: Any = None
    tol: Positive = 1e-8
    max_iter: Count = 200
    warm_start: bool = False

    _elsewhere = {
        "C": "of n rows, or of rows whose weights add up to n, l2 = 1 / (C n); l2=None is C=1"
    }

    @all_or_nothing
    def fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Solve the SVM of (X, y).

        Parameters
        ----------
        X : array, data frame or CSR matrix, shape (n, d)
        y : labels of two classes or more, shape (n,)
        sample_weight : shape (n,), non-negative

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for bad values, wrong lengths, a single class, and `l2` or `tol` not positive.
        """
        check_options(self)
        check_in_memory("LinearSVM", X, y, sample_weight)
        warm = getattr(self, "coef_", None) if self.warm_start else None
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        check_magnitude(X.data if sparse.issparse(X) else X, "X", X.dtype)
        sample_weight = check_sample_weight(sample_weight, X.shape[0])
        present = sample_weight > 0
        if not present.all():
            X = X[present]
            y = y[present]
            sample_weight = sample_weight[present]
        way_out = "Scale them first: make_pipeline(StandardScaler(), LinearSVM(...))."
        warn_of_scales(X, "LinearSVM", way_out)
        self.classes_, signs = signed_labels(y, "an SVM", several=True)
        signs = np.atleast_2d(signs)
        c = (
            hinge_price(self.l2, sample_weight.sum())
            * sample_weight
            * self._class_factors(y, sample_weight)
        )
        X, center = centred(X, c)
        starts: Any = [None] * len(signs)
        if warm is not None and warm.shape == (len(signs), X.shape[1]):
            # mypy has not seen the lines below.
            intercepts = self.intercept_ + warm @ center  # type: ignore[has-type]
            starts = np.column_stack([warm, intercepts])
        options = dict(tol=self.tol, max_iter=self.max_iter)
        A = with_ones(X)
        with one_blas_thread():
            solutions = [
                solve(A, mine, c, start=start, **options) for mine, start in zip(signs, starts)
            ]
        w = np.stack([solution.w for solution in solutions])
        self.coef_ = w[:, :-1]
        self.intercept_ = w[:, -1] - w[:, :-1] @ center
        objective, lower_bound = np.array(
            [(s.objective, s.lower_bound) for s in solutions], dtype=float
        ).T
        # of the dual point 0: at prices like 1e200 rounding spoils others
        lower_bound = np.maximum(lower_bound, 0.0)
        several = len(signs) > 1
        self.objective_ = objective if several else float(objective[0])
        self.lower_bound_ = lower_bound if several else float(lower_bound[0])
        self.gap_ = float((1.0 - lower_bound / objective).max())
        self.n_iter_ = max(s.n_iter for s in solutions)
        self.method_ = solutions[0].method
        if not self.gap_ <= self.tol:
            warn(
                f"LinearSVM stopped after {self.n_iter_} iterations with a duality gap of "
                f"{self.gap_:.1e} "
                f"> tol={self.tol:.1e}; raise max_iter, tol or l2, or standardise the features.",
                ConvergenceWarning,
            )
        return self

    def _class_factors(self, y, sample_weight):
        # The factor of each row's class.
        if self.class_weight is None:
            return 1.0
        try:
            factors = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=sample_weight
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                "class_weight of LinearSVM must be None, 'balanced' or a dict with a positive "
                f"number for each of the classes {self.classes_.tolist()}, got "
                f"{self.class_weight!r}."
            ) from error
        if not ((factors > 0) & np.isfinite(factors)).all():
            raise ValueError(
                f"class_weight of LinearSVM must hold positive numbers, got {factors}: leave out "
                "the rows of a class "
                "that is not to count."
            )
        return factors[np.searchsorted(self.classes_, y)]

    @by_blocks
    def decision_function(self, X: Table) -> np.ndarray:
        """Signed margins ``<x, w> + b``, shape (n,), positive for ``classes_[1]``; of k > 2 classes
        shape (n, k)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        margins = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return margins.ravel() if len(self.coef_) == 1 else margins

    @by_blocks
    def predict(self, X: Table) -> np.ndarray:
        """The predicted class of each row, shape (n,)."""
        margins = self.decision_function(X)
        return self.classes_[
            (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        ]

    def score(self, X: Table, y: Table, sample_weight: Table = None) -> float:
        """The share of the rows, by weight, whose class is predicted."""
        check_labels(y)
        return super().score(X, readable(y), sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
