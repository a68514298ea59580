"""Linear models as inner problems: logistic regression and least squares."""

from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from handful.bilevel.numerics.multinomial_solver import SELECTION_TOL, WEIGHTS_TOL
from handful.bilevel.numerics.passes import LOGISTIC, SQUARED
from handful.bilevel.problems.base import Problem
from handful.bilevel.selections.linear import LinearSelection
from handful.bilevel.selections.softmax import SoftmaxSelection
from handful.checks import check_magnitude, check_memory, check_number, signed_labels, two_integers
from handful.types import Table

SOFT_TOLERANCE = 1e-4  # by which the sum of soft targets may miss one: float16 probabilities do, by rounding


class LinearProblem(Problem):
    """Mean weighted loss of a linear model plus ``l2 / 2 * |coefficients|^2``.

    With weights that add up to n this is scikit-learn's problem at ``C = 1 / (l2 * n)``
    (`LogisticRegression`) or ``alpha = l2 * n`` (`Ridge`), on the full data and on the coreset alike.
    """

    takes_sparse = True

    def __init__(self, l2: float = 1e-2, *, fit_intercept: bool = True, penalise_intercept: bool = False) -> None:
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.penalise_intercept = penalise_intercept

    def check(self) -> Any:
        """ValueError unless l2 is a positive finite number."""
        why = "without a penalty the inner problem of a small coreset has no unique solution"
        check_number("l2", self.l2, above=0, why=why)

    def variants(self) -> Any:
        """Problems of trainers one may meet: penalty tenfold off either way, intercept treated the other way."""
        same = dict(fit_intercept=self.fit_intercept, penalise_intercept=self.penalise_intercept)
        problems = [type(self)(self.l2 * factor, **same) for factor in (1, 0.1, 10)]
        if self.fit_intercept:
            problems.append(type(self)(self.l2, penalise_intercept=not self.penalise_intercept))
        return problems

    def selection(self, rows: Any, rng: Any, *, ihvp: Any = None, weighted: bool = False) -> Any:
        """An empty `LinearSelection`, for several classes a `SoftmaxSelection`; ValueError for huge targets."""
        check_magnitude(rows.y, "y", rows.X.dtype)
        if rows.y.ndim == 1:
            return LinearSelection(self, rows, rng, ihvp)
        rows = rows.with_targets(np.ascontiguousarray(rows.y, dtype=rows.X.dtype))
        return SoftmaxSelection(self, rows, rng, ihvp, WEIGHTS_TOL if weighted else SELECTION_TOL)


class Logistic(LinearProblem):
    """Logistic regression, binary or multinomial as the labels are (Borsos et al. 2024, Sections 5.1 and 5.2.2).

    Targets may be soft: a matrix, shape (n, classes), of rows that add up to one.

    Parameters
    ----------
    l2 : strength of the penalty ``l2 / 2 * |coefficients|^2`` beside the mean loss; the paper: .01 as weight decay
    fit_intercept : whether the model has an intercept
    penalise_intercept : whether the penalty covers it, as in the authors' code. False is scikit-learn's
        `LogisticRegression`. Select with the problem that trains: binary coresets notice the difference.

    Examples
    --------
    Three kinds of iris, thirty flowers:

    >>> from handful import BilevelCoreset, Logistic
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> coreset = BilevelCoreset(Logistic(l2=1e-2), size=30, random_state=0).fit(X, y)
    >>> X_small, y_small, w = coreset.take(X, y)
    >>> model = LogisticRegression(C=1 / (1e-2 * len(y)), max_iter=1000).fit(X_small, y_small, sample_weight=w)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    kind = LOGISTIC
    classifies = True

    def encode(self, y: Table) -> Any:
        """Two classes as -1 and +1, in the order of `numpy.unique`; more as rows of 0 and 1; soft targets as they are.

        Raises
        ------
        ValueError
            for less than two classes, and for soft targets that are negative or do not add up to one
        """
        y = np.asarray(y)
        if y.ndim == 2:
            return soft_targets(y)
        if two_integers(y) is not None or type_of_target(y) != "multiclass":
            return signed_labels(y, "logistic regression")[1]
        classes, codes = np.unique(y, return_inverse=True)
        check_memory(
            f"multinomial regression of {len(y):,} rows in {len(classes):,} classes",
            32 * len(y) * len(classes),
            "are these targets of a regression? There is LeastSquares; else take fewer classes",
        )
        targets = np.zeros((len(y), len(classes)))
        targets[np.arange(len(y)), codes] = 1.0
        return targets


def soft_targets(y):
    """Rows of probabilities in float64, shape (n, classes); ValueError unless they are, to rounding."""
    y = y.astype(np.float64)
    if y.shape[1] < 2:
        raise ValueError(f"soft targets need a column for each of at least 2 classes, got shape {y.shape}.")
    if y.min() < 0.0:
        row = int(np.argmin(y.min(axis=1)))
        raise ValueError(f"soft targets must not be negative, got {y[row].min():.3g} in row {row}.")
    off = np.abs(y.sum(axis=1) - 1.0)
    if off.max() > SOFT_TOLERANCE:
        row = int(np.argmax(off))
        raise ValueError(
            f"soft targets must add up to one in every row, got {y[row].sum():.6g} in row {row}: divide each row by "
            "its sum."
        )
    return y / y.sum(axis=1, keepdims=True)


class LeastSquares(LinearProblem):
    """Ridge regression: half the squared error as loss (Borsos et al. 2024, Section 3.4.2).

    Parameters
    ----------
    l2, fit_intercept, penalise_intercept : as in `Logistic`

    Examples
    --------
    >>> from handful import BilevelCoreset, LeastSquares
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X = X / X.std(0)
    >>> coreset = BilevelCoreset(LeastSquares(l2=0.1), size=60, weighting="optimised", random_state=0).fit(X, y)
    >>> X_small, y_small, w = coreset.take(X, y)
    >>> small = Ridge(alpha=0.1 * len(y)).fit(X_small, y_small, sample_weight=w)
    >>> full = Ridge(alpha=0.1 * len(y)).fit(X, y)
    >>> bool(full.score(X, y) - small.score(X, y) < 0.02)
    True
    """

    kind = SQUARED
    classifies = False

    def encode(self, y: Table) -> Any:
        """Targets as float64; ValueError for anything that is not numeric, or so large that squares overflow."""
        if np.ndim(y) != 1:
            raise ValueError(f"LeastSquares needs y as a 1d array, one target a row, got shape {np.shape(y)}.")
        if type_of_target(y) == "unknown" or np.asarray(y).dtype.kind in "OUS":
            try:
                y = np.asarray(y, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"LeastSquares needs numeric targets y, got dtype {np.asarray(y).dtype}.") from None
        y = np.asarray(y, dtype=np.float64)
        check_magnitude(y, "y", y.dtype)
        return y
