"""Optimal experimental design: which experiments to make before any label is known (Section 3.4.2,
Appendix A)."""

from dataclasses import KW_ONLY
from typing import Annotated, Literal

import numpy as np

from handful.checks import Accepts, check_number, check_rows, check_vector
from handful.coreset import Selector
from handful.options import Count, number
from handful.running import Bar
from handful.types import Seed

ENOUGH = "without it fewer experiments than features determine nothing"
MAX_UPDATES = 2000
TOL = 1e-8
# Updates of rank one lose as many digits as the leverage has; after so much, or so many, all is
# computed anew.
MAX_LEVERAGE = 1e4
MAX_AGE = 64


def design_objective(X, weights, *, design="V", prior_precision=1e-2):
    """The expected error of ridge regression on weighted experiments, for noise of variance 1.

    "A" is ``1/2 tr F^-1``, half the mean squared error of the parameters; "V" is ``1/(2n) tr X F^-1
    X'``, half that of the predictions, with ``F = X' D(w) X + prior_precision I`` (Propositions 5,
    6 and 8). These are Bayesian designs for a prior of variance 1 / prior_precision on the
    parameters. Frequentist designs have none: precision 0.

    Parameters
    ----------
    X : shape (n, d); weights : shape (n,), how often each experiment is made
    design : "A" or "V"
    prior_precision : at least 0, the paper's lambda sigma^2

    Returns
    -------
    float

    Raises
    ------
    ValueError
        for bad options, shapes or negative weights, and where the experiments do not determine all
        parameters
    """
    X = check_rows(X).astype(np.float64)
    weights = check_vector(weights, "weights", len(X), least=0)
    check_number("prior_precision", prior_precision, least=0)
    if design not in ("A", "V"):
        raise ValueError(f"design must be one of ('A', 'V'), got {design!r}.")
    M = np.eye(X.shape[1]) if design == "A" else X.T @ X / len(X)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        trace, _ = design_traces(X, weights, M, prior_precision)
    return 0.5 * _determined(trace, prior_precision)


def design_traces(X, weights, M, prior_precision):
    """Twice the objective, ``tr F^-1 M``, and minus twice its gradient, ``x' F^-1 M F^-1 x`` for
    each row (Lemma 10).

    Parameters
    ----------
    X, weights, prior_precision : as in `design_objective`
    M : shape (d, d), the identity for "A" and ``X' X / n`` for "V"
    """
    covariance = _covariance(X, weights, prior_precision)
    Z = X @ covariance
    return float(np.sum(covariance * M)), np.einsum("ij,ij->i", Z @ M, Z)


def _determined(value, precision):
    if not np.isfinite(value).all():
        raise ValueError(
            "the experiments of these weights do not determine all parameters at "
            f"prior_precision={precision:g}: take "
            "a larger one, other weights, or scale X."
        )
    return value


def _covariance(X, weights, precision):
    # (X' D(w) X + precision I)^-1; by eigenvalues, which cannot fall below the precision
    F = (X.T * weights) @ X
    values, vectors = np.linalg.eigh(F) if np.isfinite(F).all() else (np.full(len(F), np.nan), F)
    values = np.maximum(values, 0.0)
    if precision == 0:
        # rounding, which determines nothing
        values[values <= len(F) * np.finfo(np.float64).eps * values[-1]] = 0.0
    return (vectors / (values + precision)) @ vectors.T


class OptimalDesign(Selector):
    """The experiments after which a linear model errs least, chosen from a pool without labels.

    Bilevel coresets of least squares turn into classical optimal designs when the outer objective
    is an expectation over the labels (Borsos et al. 2024, Propositions 5 to 9): the error of the
    parameters gives A-optimal designs, that of the predictions V-optimal ones. Rows are added one
    by one.

    Parameters
    ----------
    design : {"A", "V"}, default="V"
        "A", smallest expected error of the parameters, or "V", of the predictions on the whole
        pool.
    size : int, default=100
        Number of experiments m.
    prior_precision : float, default=0.01
        Noise variance over the prior variance of a parameter (the paper's lambda sigma^2),
        positive; a small one stands for designs without a prior. The estimator is ridge
        regression with ``alpha=prior_precision``.
    rule : {"exact", "linear"}, default="exact"
        "exact" adds the row after which the objective is smallest, in closed form; "linear" the
        one with the smallest implicit gradient, as `BilevelCoreset` does for models without
        closed form (Equation 4).
    repeat : bool, default=False
        False makes every chosen experiment once; True shares out m repetitions among the chosen
        rows so that the objective is smallest, a convex problem (Lemma 10).
    fit_intercept : bool, default=True
        Whether the model has an intercept; its prior is that of the other parameters.
    random_state : int, Generator, RandomState or None, default=None
        Not used: the design depends on the pool alone.

    Attributes
    ----------
    indices_ : array of int, shape (m,)
        In the order of selection: ``indices_[:k]`` is the design of size k.
    weights_ : array of float, shape (m,)
        They add up to the total sample_weight, as for every selector; ``weights_ * m / sum`` are
        the numbers of repetitions.
    objective_ : float
        `design_objective` of the chosen experiments, with a column of ones if `fit_intercept`.

    Notes
    -----
    `sample_weight` says how much each row of the pool counts among the predictions of a V-design.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> chosen = OptimalDesign("V", size=20).fit(X)
    >>> random = design_objective(np.column_stack([X, np.ones(1000)]), np.arange(1000) < 20)
    >>> bool(chosen.objective_ < 0.75 * random)
    True
    """

    _accepts = Accepts("unread")

    design: Literal["A", "V"] = "V"
    _: KW_ONLY
    size: Count = 100
    prior_precision: Annotated[float, number(above=0, why=ENOUGH)] = 1e-2
    rule: Literal["exact", "linear"] = "exact"
    repeat: bool = False
    fit_intercept: bool = True
    random_state: Seed = None

    def _select(self, X, y, sample_weight, rng):
        X = X.astype(np.float64)
        if self.fit_intercept:
            X = np.column_stack([X, np.ones(len(X))])
        share = sample_weight / sample_weight.sum()
        M = np.eye(X.shape[1]) if self.design == "A" else (X.T * share) @ X
        with np.errstate(over="ignore", invalid="ignore"):
            chosen = self._greedy(X, M)
        weights = np.ones(self.size)
        if self.repeat:
            weights = optimal_repetitions(X[chosen], M, self.prior_precision, self.size)
        self.objective_ = 0.5 * design_traces(X[chosen], weights, M, self.prior_precision)[0]
        return chosen, weights * (sample_weight.sum() / weights.sum())

    def _greedy(self, X, M):
        # One row more changes F^-1 by a matrix of rank one: two matrix-vector products a step for
        # all candidates.
        chosen = []
        age = MAX_AGE
        with Bar(range(self.size), desc=type(self).__name__, unit="row") as steps:
            for _ in steps:
                if age >= MAX_AGE:
                    covariance = _covariance(X[chosen], np.ones(len(chosen)), self.prior_precision)
                    Z = X @ covariance
                    leverage = np.einsum("ij,ij->i", Z, X)
                    # x' F^-1 M F^-1 x
                    gain = np.einsum("ij,ij->i", Z @ M, Z)
                    age = 0
                scores = gain / (1.0 + leverage) if self.rule == "exact" else gain.copy()
                scores[chosen] = -np.inf
                k = int(np.argmax(scores))
                _determined(scores[k], self.prior_precision)
                chosen.append(k)
                a = covariance @ X[k]
                c = 1.0 + X[k] @ a
                along = X @ a
                cross = X @ (covariance @ (M @ a))
                gain += (along / c) * ((a @ M @ a / c) * along - 2.0 * cross)
                leverage -= along**2 / c
                np.maximum(leverage, 0.0, out=leverage)
                covariance -= np.outer(a, a) / c
                age = age + 1 if c <= MAX_LEVERAGE else MAX_AGE
        return np.array(chosen)


def optimal_repetitions(X, M, prior_precision, budget):
    """Weights of given experiments, adding up to `budget`, that minimise ``tr F^-1 M``.

    F is ``X' D(w) X + prior_precision I``. The multiplicative updates of design theory (Silvey,
    Titterington and Torsney 1978) multiply each weight by the square root of its derivative, which
    lowers the convex objective.

    Parameters
    ----------
    X : shape (m, d), the experiments
    M : shape (d, d), positive semi-definite
    prior_precision : positive; budget : sum of the weights

    Returns
    -------
    shape (m,), non-negative
    """
    weights = np.full(len(X), budget / len(X))
    value = np.inf
    for _ in range(MAX_UPDATES):
        new, slopes = design_traces(X, weights, M, prior_precision)
        # by convexity the optimum is no further below than the difference on the left
        if (
            not slopes.any()
            or slopes.max() * budget - slopes @ weights <= TOL * new
            or not new < value
        ):
            break
        value = new
        weights = weights * np.sqrt(slopes)
        weights *= budget / weights.sum()
    return weights
