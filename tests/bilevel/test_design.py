"""Optimal designs: experiments chosen without labels."""

from itertools import combinations

import numpy as np
import pytest
from handful.bilevel.design import (
    OptimalDesign,
    design_objective,
    design_traces,
    optimal_repetitions,
)
from scipy.optimize import approx_fprime, minimize


def objective(X, weights, design, ridge):
    # the textbook's trace
    F = sum(w * np.outer(x, x) for w, x in zip(weights, X)) + ridge * np.eye(X.shape[1])
    inverse = np.linalg.inv(F)
    return 0.5 * np.trace(inverse) if design == "A" else 0.5 * np.trace(X @ inverse @ X.T) / len(X)


@pytest.fixture(scope="module")
def pool():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 4)) * [3.0, 1, 1, 0.3]


def gradient(pool, weights, design, ridge):
    M = np.eye(pool.shape[1]) if design == "A" else pool.T @ pool / len(pool)
    return -0.5 * design_traces(pool, weights, M, ridge)[1]


@pytest.mark.parametrize("design", ["A", "V"])
def test_objective_and_gradient_are_the_textbooks(pool, design):
    weights = np.random.default_rng(1).exponential(size=60)
    assert design_objective(pool, weights, design=design, prior_precision=0.3) == pytest.approx(
        objective(pool, weights, design, 0.3)
    )
    numeric = approx_fprime(weights, lambda w: objective(pool, w, design, 0.3), 1e-6)
    assert gradient(pool, weights, design, 0.3) == pytest.approx(numeric, abs=1e-5)


@pytest.mark.parametrize("design", ["A", "V"])
@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 1.0])
def test_exact_selection_adds_the_row_that_helps_most(pool, design, ridge):
    fit = OptimalDesign(design, size=12, prior_precision=ridge, fit_intercept=False).fit(pool)
    chosen = []
    for k in fit.indices_:
        values = [
            np.inf if i in chosen else objective(pool, indicator([*chosen, i]), design, ridge)
            for i in range(60)
        ]
        assert values[k] == pytest.approx(min(values), rel=1e-6)
        chosen.append(k)
    assert fit.objective_ == pytest.approx(
        objective(pool, indicator(chosen), design, ridge), rel=1e-6
    )


def indicator(rows, n=60):
    return np.isin(np.arange(n), rows).astype(float)


@pytest.mark.parametrize("design", ["A", "V"])
def test_linear_selection_adds_the_row_of_the_smallest_gradient(pool, design):
    fit = OptimalDesign(
        design, size=10, prior_precision=0.1, rule="linear", fit_intercept=False
    ).fit(pool)
    chosen = []
    for k in fit.indices_:
        slopes = gradient(pool, indicator(chosen), design, 0.1)
        slopes[chosen] = np.inf
        assert slopes[k] == pytest.approx(slopes.min(), rel=1e-6)
        chosen.append(k)


@pytest.mark.parametrize("design", ["A", "V"])
def test_greedy_designs_are_near_the_best_of_all_subsets(design):
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(14, 3))
        best = min(objective(X, indicator(S, 14), design, 0.1) for S in combinations(range(14), 5))
        fit = OptimalDesign(design, size=5, prior_precision=0.1, fit_intercept=False).fit(X)
        assert (1 - 1e-9) * best <= fit.objective_ <= 1.15 * best


def test_repetitions_are_those_of_a_general_optimiser(pool):
    rows = pool[:8]
    ridge = 0.05
    M = pool.T @ pool
    weights = optimal_repetitions(rows, M, ridge, 8)
    assert weights.sum() == pytest.approx(8)
    assert weights.min() >= 0

    def trace(w):
        return np.trace(np.linalg.solve((rows.T * w) @ rows + ridge * np.eye(4), M))

    peer = minimize(
        trace,
        np.ones(8),
        bounds=[(0, None)] * 8,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 8},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert trace(weights) <= peer.fun * (1 + 1e-5)
    assert trace(weights) < 0.99 * trace(np.ones(8))


def test_repeating_experiments_is_never_worse(pool):
    once, repeated = (
        OptimalDesign("V", size=15, repeat=repeat).fit(pool) for repeat in (False, True)
    )
    assert (once.indices_ == repeated.indices_).all()
    assert repeated.objective_ < once.objective_
    assert repeated.weights_.sum() == pytest.approx(60)
