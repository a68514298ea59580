"""Propositions 1, 2 and 5 to 9, Lemma 10 and Theorem 3 of the bilevel paper, as numbers."""

import numpy as np
import pytest
from handful.models import Poisson
from handful_papers.bico.theory import (
    LinearModel,
    PricedDesign,
    implicit_scores,
    influence_by_refit,
    matching_pursuit,
    rate_bounds,
    smoothness_bound,
    v_hessian,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_bilevel import share
from scipy.optimize import approx_fprime

# Proposition 1 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_proposition_1_influence_is_the_selection_rule(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    y = rng.poisson(np.exp(X @ [0.5, -0.3, 0.1])).astype(float)
    weights = share(40, rng.choice(40, 10, replace=False))
    problem = Poisson(l2=0.01, fit_intercept=False)
    y = problem.encode(y)
    scores = implicit_scores(problem, X, y, weights)
    influence = influence_by_refit(problem, X, y, weights, np.arange(40))
    assert -influence == pytest.approx(scores, rel=1e-3, abs=1e-3)
    assert np.argmin(influence) == np.argmax(scores)


# Propositions 2 and 5 to 9 -----------------------------------------------------------------------


def settings_of(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 4)) * [2, 1, 1, 0.5]
    rows = rng.choice(50, 9, replace=False)
    if kind == "fixed":
        return LinearModel(X, 0.7, theta=rng.normal(size=4)), rows, rng
    return LinearModel(X, 0.7, prior=0.8), rows, rng


def agrees(draws, value):
    return abs(draws.mean() - value) < 4 * draws.std(ddof=1) / np.sqrt(len(draws))


@pytest.mark.parametrize(
    ("kind", "outer"),
    [
        pytest.param("fixed", "A", id="Proposition 5"),
        pytest.param("fixed", "V", id="Proposition 6"),
        pytest.param("random", "V", id="Proposition 8"),
        pytest.param("random", "A", id="its A-optimal sister"),
    ],
)
def test_expected_outer_objectives_are_the_classical_designs(kind, outer):
    model, rows, rng = settings_of(kind)
    draws = model.simulated(rows, outer, 40_000, rng=rng)
    assert agrees(draws, model.closed_form(rows, outer))
    # the test could tell
    assert not agrees(draws, 1.05 * model.closed_form(rows, outer))


@pytest.mark.parametrize(
    "kind", [pytest.param("fixed", id="Proposition 7"), pytest.param("random", id="2 and 9")]
)
def test_summaries_lose_what_v_designs_lose_plus_the_noise(kind):
    model, rows, _ = settings_of(kind)
    difference = model.simulated(rows, "data", 60_000, rng=np.random.default_rng(1))
    # the same labels
    difference -= model.simulated(rows, "V", 60_000, rng=np.random.default_rng(1))
    assert agrees(difference, model.gap(rows))
    # only in the limit
    assert not agrees(difference, model.noise**2 / 2)


# Lemma 10 ----------------------------------------------------------------------------------------


def test_lemma_10s_hessian_is_the_second_derivative():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    weights = rng.exponential(size=8)
    priced = PricedDesign(X, 0.4, price=0.0)
    numeric = np.array(
        [approx_fprime(weights, lambda w, i=i: priced.gradient(w)[i], 1e-7) for i in range(8)]
    )
    assert v_hessian(X, weights, ridge=0.4) == pytest.approx(numeric, abs=1e-5)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 20), st.floats(-2, 2), st.floats(-2, 2)
)
def test_lemma_10_the_objective_is_convex_and_smooth(seed, d, n, log_prior, log_noise):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    weights = rng.exponential(size=n) * rng.integers(0, 2, n)
    prior = 10.0**log_prior
    noise = 10.0**log_noise
    values = np.linalg.eigvalsh(v_hessian(X, weights, ridge=prior * noise**2, noise=noise))
    assert values[0] >= -1e-9 * values[-1]
    assert values[-1] <= smoothness_bound(X, prior=prior, noise=noise) * (1 + 1e-9)
    # no weights bend the objective more than none at all
    at_zero = np.linalg.eigvalsh(v_hessian(X, np.zeros(n), ridge=prior * noise**2, noise=noise))
    assert values[-1] <= at_zero[-1] * (1 + 1e-9)


# Theorem 3 ---------------------------------------------------------------------------------------


def pursuit(X, ridge, price, n_steps):
    objective = PricedDesign(X, ridge, price)
    best = objective.minimise()
    # first-order conditions
    assert np.abs(np.minimum(objective.gradient(best), best)).max() < 1e-4 * price + 1e-8
    steps = matching_pursuit(objective, n_steps)
    return rate_bounds(steps, objective.smoothness(), objective.value(best), best.sum())


@pytest.mark.parametrize("seed", range(4))
def test_theorem_3_algorithm_1_converges_at_the_rate(seed):
    X = np.random.default_rng(seed).normal(size=(50, 6))
    rates = pursuit(X, 0.5, 1e-3, 50)
    assert (rates.gap <= rates.scaled).all()
    assert (np.diff(rates.value) < 1e-9).all()
    assert rates.gap.iloc[-1] < 1e-6 * rates.gap.iloc[0]


def test_theorem_3_needs_the_size_of_the_weights():
    # independent experiments, each worth the same: the gap falls by the same amount a step, which
    # 1/t does not allow
    rates = pursuit(np.eye(60), 1.0, 0.1 / 120, 60)
    assert len(rates) == 60
    assert (rates.gap <= rates.scaled).all()
    assert (rates.gap > rates.printed).sum() > 30
