"""Rank rows by how likely their label or target is wrong: by out-of-fold loss or by influence on validation rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.utils import check_consistent_length, check_X_y

from handful.bilevel.problems.base import check_problem
from handful.bilevel.problems.joint import selection_for
from handful.bilevel.problems.linear import LeastSquares, Logistic
from handful.bilevel.selections.base import Rows
from handful.checks import MAX_SEED, as_generator, check_integer, check_magnitude
from handful.coreset import take_rows
from handful.types import Seed, Table

RULES = ("loss", "influence")


@dataclass(frozen=True)
class Suspects:
    """A ranking of rows by suspicion. It is no index: ``X[found.indices[:20]]`` or ``found.take(20, X)`` gives rows.

    Attributes
    ----------
    indices : int array, shape (n,), positions of rows from the most suspect to the least
    scores : float array, shape (n,), of the rows in their own order; large is suspect
    """

    indices: np.ndarray
    scores: np.ndarray

    def __repr__(self):
        first = ", ".join(f"{i} ({self.scores[i]:.3g})" for i in self.indices[:10])
        more = ", ..." if len(self.indices) > 10 else ""
        return f"Suspects of {len(self.indices)} rows, the most suspect first, with scores: {first}{more}"

    def take(self, size, *data):
        """The `size` most suspect rows of each of `data`, in the type in which it came: a frame keeps its own index.

        Parameters
        ----------
        size : int
        data : X, y, or whatever has a row for each that was ranked

        Returns
        -------
        list, or what was given if it is one thing
        """
        check_integer("size", size, most=len(self.indices))
        check_consistent_length(self.indices, *data)
        taken = [take_rows(one, self.indices[:size]) for one in data]
        return taken[0] if len(taken) == 1 else taken


def suspects(
    problem: Any, X: Table, y: Table, *, rule: str = "loss", n_folds: int = 5, random_state: Seed = None
) -> Suspects:
    """Rank the rows by how suspect their labels are.

    Parameters
    ----------
    problem : Logistic or LeastSquares; for "influence" any Problem
    X : array, data frame or CSR matrix, shape (n, d)
    y : labels or targets, shape (n,)
    rule : "loss", the loss of a row under the model trained on the other folds (for classes: minus the logarithm of
        what cleanlab calls self-confidence); or "influence", by how much the loss on held-out rows rises with a row's
        weight: minus the implicit gradient at a coreset of all training rows, which is the influence function (Borsos
        et al. 2024, Proposition 1), averaged over the folds held out. Where labels were flipped at random the loss
        found them better (`benchmarks/results/suspects.md`)
    n_folds : int, at least 2, parts held out in turn; classes keep their shares
    random_state : int, RandomState, Generator or None, for the folds

    Returns
    -------
    Suspects : `indices`, the most suspect row first, and `scores`; its `take` gives the rows

    Raises
    ------
    ValueError
        for bad options, a class of one row, and rows that the problem refuses
    TypeError
        for anything that is no Problem, and "loss" with another than Logistic or LeastSquares

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from handful import Logistic, suspects
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> y[:20] = 1 - y[:20]
    >>> found = suspects(Logistic(l2=1e-2), X, y, random_state=0)
    >>> bool((found.indices[:20] < 20).mean() > 0.5)  # of rows drawn by chance: 0.04
    True
    >>> X_worst, y_worst = found.take(20, X, y)  # to look at
    >>> X_worst.shape
    (20, 30)
    """
    from sklearn.model_selection import KFold, StratifiedKFold  # here, as importing it takes a while

    check_problem(problem)
    problem.check()
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}, got {rule!r}.")
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
    check_magnitude(getattr(X, "data", X) if hasattr(X, "tocsr") else X, "X", X.dtype)
    check_integer("n_folds", n_folds, least=2, most=len(y), why="parts held out in turn")
    problem.encode(y)  # refuses what cannot be trained on
    if problem.classifies:
        labels, counts = np.unique(y, return_counts=True)
        if counts.min() < 2:
            label = labels[counts.argmin()].item()
            raise ValueError(f"class {label!r} has one row: a model trained without it cannot judge it. Leave it out.")
    rng = as_generator(random_state)
    folds = (StratifiedKFold if problem.classifies else KFold)(
        n_folds, shuffle=True, random_state=int(rng.integers(MAX_SEED))
    )
    scores = _losses(problem, X, y, folds) if rule == "loss" else _influences(problem, X, y, folds, rng)
    return Suspects(np.argsort(-scores, kind="stable"), scores)


def _influences(problem, X, y, folds, rng):
    n = len(y)
    scores = np.zeros(n)
    for train, held_out in folds.split(X, y):
        outer = np.zeros(n)
        outer[held_out] = 1.0
        model = selection_for(problem, Rows(X, y, outer, held_out), rng)
        model.add(train)
        model.solve()
        scores[train] -= model.row_scores()[train] / (folds.n_splits - 1)
    return scores


def _losses(problem, X, y, folds):
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import cross_val_predict

    if not isinstance(problem, Logistic | LeastSquares):
        name = type(problem).__name__
        raise TypeError(f"rule='loss' knows how to train Logistic and LeastSquares, got {name}: take 'influence'.")
    n = len(y) * (1 - 1 / folds.n_splits)
    if problem.penalise_intercept and problem.fit_intercept:
        raise ValueError("rule='loss' trains with a free intercept or none: give penalise_intercept=False.")
    if not problem.classifies:
        model = Ridge(problem.l2 * n, fit_intercept=problem.fit_intercept)
        return 0.5 * (cross_val_predict(model, X, y, cv=folds) - y) ** 2
    model = LogisticRegression(C=1 / (problem.l2 * n), fit_intercept=problem.fit_intercept, max_iter=1000)
    z = cross_val_predict(model, X, y, cv=folds, method="decision_function")
    logs = log_softmax(z if z.ndim == 2 else np.column_stack([np.zeros(len(z)), z]), axis=1)  # finite, however sure
    return -logs[np.arange(len(y)), np.unique(y, return_inverse=True)[1]]
