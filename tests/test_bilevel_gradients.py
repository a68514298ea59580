"""Implicit gradients, predicted gains and sensitivities against differences of the whole bilevel objective."""

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, Logistic
from handful.bilevel import Forward
from handful.bilevel.selections import linear
from handful.bilevel.selections.base import Rows
from handful.bilevel.selections.linear import LinearSelection
from naive_bilevel import derivative, inner_solution, outer_after_training, outer_loss, share
from scipy import sparse
from scipy.stats import spearmanr

PROBLEMS = [
    kind(0.1, fit_intercept=fit, penalise_intercept=penalise)
    for kind in (Logistic, LeastSquares)
    for fit, penalise in ((True, False), (True, True), (False, False))
]
LAYOUTS = {
    "fortran": np.asfortranarray,
    "c": np.ascontiguousarray,
    "csr": sparse.csr_matrix,
}


def name(problem):
    intercept = "none" if not problem.fit_intercept else "penalised" if problem.penalise_intercept else "free"
    return f"{type(problem).__name__}-{intercept}"


def data_of(problem, *, n=60, d=4, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) + 0.3
    z = X @ rng.normal(size=d) + 0.5
    y = np.where(z + rng.normal(size=n) > 0, 1.0, -1.0) if problem.classifies else z + rng.normal(size=n)
    return X, y, rng


def selection_of(problem, X, y, u, chosen, *, c=None):
    model = LinearSelection(problem, Rows(X, y, u, np.flatnonzero(u == 0)), np.random.default_rng(0))
    model.add(chosen)
    model.solve(c)
    return model


CHOSEN = np.array([3, 41, 17, 28, 50, 9, 12])


@pytest.mark.parametrize("problem", PROBLEMS, ids=name)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-6), (np.float32, 1e-4)])
@pytest.mark.parametrize("span", [False, True], ids=["", "span"])
def test_linear_scores_are_minus_the_derivatives_of_the_outer_loss(problem, layout, dtype, tol, span, monkeypatch):
    X, y, rng = data_of(problem, n=40 if span else 60, d=12 if span else 4)
    chosen = np.array([i for i in CHOSEN if i < len(y)])
    if span:
        monkeypatch.setattr(linear, "SPAN_ABOVE", 1)
    u, c = rng.exponential(size=len(y)), rng.dirichlet(np.ones(len(chosen)))
    X = X.astype(dtype)
    model = selection_of(problem, LAYOUTS[layout](X), y, u, chosen, c=c)
    assert (model.A.shape[1] < X.shape[1] + 1) == span
    scores = model.linear_scores().astype(float)
    assert (scores[chosen] == -np.inf).all()
    rows = np.setdiff1d(np.arange(len(y)), chosen)
    naive = [-derivative(problem, X.astype(float), y, u, share(len(y), chosen, c), k) for k in rows]
    np.testing.assert_allclose(scores[rows], naive, atol=tol * np.abs(naive).max())


@pytest.mark.parametrize("problem", PROBLEMS, ids=name)
def test_the_span_of_the_chosen_rows_changes_no_score_gain_or_sensitivity(problem, monkeypatch):
    X, y, rng = data_of(problem, d=20)
    X[CHOSEN[3]] = X[CHOSEN[1]]  # adds no direction to the span
    u = rng.exponential(size=len(y))
    results = []
    for limit in (1024, 5):
        monkeypatch.setattr(linear, "SPAN_ABOVE", limit)
        model = selection_of(problem, X, y, u, CHOSEN)
        scores = model.linear_scores().copy()
        rows = np.flatnonzero(scores > -np.inf)
        gains = [model.predicted_gains(rows, free_weights=free) for free in (False, True)]
        loss = model.outer_loss()
        jacobian, gradient, hessian = model.weight_sensitivities()
        results.append([scores, *gains, loss, gradient @ jacobian, jacobian.T @ hessian @ jacobian])
    assert model.A.shape[1] < X.shape[1] + 1
    for wide, narrow in zip(*results):
        np.testing.assert_allclose(narrow, wide, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    "options",
    [
        dict(rule="linear"),
        dict(rule="quadratic"),
        dict(weighting="optimised"),
        dict(weighting="corrective", rule="linear"),
        dict(robust=True),
        dict(problem=LeastSquares(0.1), strategy=Forward(3)),
    ],
    ids=str,
)
def test_the_span_of_the_chosen_rows_changes_no_selection(kind, options, monkeypatch):
    problem = options.get("problem", Logistic(0.1))
    X, y, _ = data_of(problem, n=80, d=30)
    selector = BilevelCoreset(**{"problem": problem, "size": 12, "random_state": 0} | options)
    chosen = []
    for limit in (1024, 5):
        monkeypatch.setattr(linear, "SPAN_ABOVE", limit)
        chosen.append(selector.fit(kind(X), y).coreset_)
    assert (chosen[0].indices == chosen[1].indices).all()
    np.testing.assert_allclose(chosen[0].weights, chosen[1].weights, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("problem", PROBLEMS[3:], ids=name)
def test_predicted_gains_are_exact_where_the_losses_are_quadratic(problem):
    X, y, rng = data_of(problem)
    u = rng.exponential(size=len(y))
    # with so small a penalty it does not matter whether it is counted once a set or once a point
    problem = LeastSquares(1e-8, fit_intercept=problem.fit_intercept, penalise_intercept=problem.penalise_intercept)
    model = selection_of(problem, X, y, u, CHOSEN)
    model.linear_scores()
    rows = np.setdiff1d(np.arange(len(y)), CHOSEN)
    now = outer_after_training(problem, X, y, u, share(len(y), CHOSEN))
    theta = inner_solution(problem, X, y, share(len(y), CHOSEN))
    naive, free = [], []
    for k in rows:
        moved = inner_solution(problem, X, y, share(len(y), [*CHOSEN, k]))
        along = [outer_loss(problem, X, y, u, theta + f * (moved - theta)) for f in np.linspace(0, 1, 201)]
        naive.append(now - along[-1])
        free.append(now - min(along))
    np.testing.assert_allclose(model.predicted_gains(rows), naive, rtol=1e-5, atol=1e-8)
    # where weights are free, as much of the newcomer joins as does best
    np.testing.assert_allclose(model.predicted_gains(rows, free_weights=True), free, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("penalise", [False, True])
def test_predicted_gains_rank_the_rows_as_training_anew_with_each_does(penalise):
    # n / m weights after the newcomer joins, as the coreset has them: what the user's refit would show
    problem = Logistic(0.1, penalise_intercept=penalise)
    correlations = []
    for seed in range(3):
        X, y, _ = data_of(problem, n=200, seed=seed)
        u, chosen = np.ones(len(y)), np.arange(10)
        model = selection_of(problem, X, y, u, chosen)
        linear_scores = model.linear_scores().astype(float)[10:]
        gains = model.predicted_gains(np.arange(10, len(y)))
        naive = [-outer_after_training(problem, X, y, u, share(len(y), [*chosen, k])) for k in range(10, len(y))]
        correlations.append((spearmanr(gains, naive)[0], spearmanr(linear_scores, naive)[0]))
    quadratic, first_order = np.mean(correlations, axis=0)
    assert quadratic > 0.97
    assert quadratic > first_order  # why the quadratic rule is the default


@pytest.mark.parametrize("problem", PROBLEMS, ids=name)
def test_weight_sensitivities_are_the_derivatives_by_the_weights(problem):
    X, y, rng = data_of(problem)
    u, c = rng.exponential(size=len(y)), rng.dirichlet(np.ones(len(CHOSEN)))
    model = selection_of(problem, X, y, u, CHOSEN, c=c)
    assert model.outer_loss() == pytest.approx(
        outer_after_training(problem, X, y, u, share(len(y), CHOSEN, c)), rel=1e-7
    )
    jacobian, gradient, hessian = model.weight_sensitivities()
    eps = 1e-5
    for j, step in enumerate(eps * np.eye(len(c))):
        ends = [inner_solution(problem, X, y, share(len(y), CHOSEN, c + sign * step)) for sign in (1, -1)]
        slope = np.roll((ends[0] - ends[1]) / (2 * eps), 1)  # the selection has the intercept first
        np.testing.assert_allclose(jacobian[:, j], slope, atol=1e-6)
    theta = inner_solution(problem, X, y, share(len(y), CHOSEN, c))
    gradient, hessian = np.roll(gradient, -1), np.roll(hessian, -1, axis=(0, 1))
    for j, step in enumerate(eps * np.eye(len(theta))[: 4 + problem.fit_intercept]):
        ends = [outer_loss(problem, X, y, u, theta + sign * step) for sign in (1, -1)]
        assert gradient[j] == pytest.approx((ends[0] - ends[1]) / (2 * eps), abs=1e-8)
        shifted = [model.passes.outer_gradient(theta + sign * step) for sign in (1, -1)]
        difference = (shifted[0] - shifted[1]) / (2 * eps)
        if not problem.fit_intercept:
            difference[-1] = 0
        np.testing.assert_allclose(hessian[j], difference, atol=1e-7)


# The greedy choice ---------------------------------------------------------------------------------------------------


def greedy(problem, size, strategy, *, rule="linear", **options):
    return BilevelCoreset(problem, size=size, strategy=strategy, rule=rule, random_state=1, **options)


def steps(indices, first):
    return [(indices[:s], indices[s]) for s in range(first, len(indices))]


@pytest.mark.parametrize("problem", PROBLEMS[:2] + PROBLEMS[3:4], ids=name)
def test_the_linear_rule_takes_the_steepest_descent_of_the_outer_loss(problem):
    X, y, rng = data_of(problem, n=25, d=2)
    u = rng.exponential(size=25)
    chosen = greedy(problem, 8, Forward(n_start=2)).fit(X, y, u).indices_
    for before, after in steps(chosen, 2):
        rows = np.setdiff1d(np.arange(25), before)
        slopes = [derivative(problem, X, y, u, share(25, before), k) for k in rows]
        assert after == rows[np.argmin(slopes)]


def test_the_quadratic_rule_takes_the_largest_decrease_where_the_losses_are_quadratic():
    problem = LeastSquares(1e-8)
    X, y, rng = data_of(problem, n=40, d=3)
    u = rng.exponential(size=40)
    chosen = greedy(problem, 14, Forward(n_start=6), rule="quadratic").fit(X, y, u).indices_
    for before, after in steps(chosen, 6):
        rows = np.setdiff1d(np.arange(40), before)
        refits = [outer_after_training(problem, X, y, u, share(40, [*before, k])) for k in rows]
        assert after == rows[np.argmin(refits)]


def test_a_batch_holds_the_steepest_descents():
    problem = Logistic(0.1)
    X, y, _ = data_of(problem, n=25, d=2)
    u = np.ones(25)
    chosen = greedy(problem, 12, Forward(4, n_start=4)).fit(X, y).indices_
    for s in (4, 8):
        rows = np.setdiff1d(np.arange(25), chosen[:s])
        slopes = [derivative(problem, X, y, u, share(25, chosen[:s]), k) for k in rows]
        assert (chosen[s : s + 4] == rows[np.argsort(slopes)[:4]]).all()


def test_the_robust_rule_takes_the_steepest_descent_of_the_mean_over_trainers():
    problem = Logistic(0.1)
    X, y, _ = data_of(problem, n=25, d=2)
    u = np.ones(25)
    chosen = greedy(problem, 7, Forward(n_start=3), robust=True).fit(X, y).indices_
    trainers = [Logistic(0.1), Logistic(0.01), Logistic(1.0), Logistic(0.1, penalise_intercept=True)]
    for before, after in steps(chosen, 3):
        rows = np.setdiff1d(np.arange(25), before)
        slopes = [sum(derivative(p, X, y, u, share(25, before), k) for p in trainers) for k in rows]
        assert after == rows[np.argmin(slopes)]
