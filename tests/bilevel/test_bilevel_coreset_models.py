"""Generalised linear models as inner problems, and optimised weights: against scikit-learn, finite
differences of the whole bilevel objective, and quadratic programs."""

import tracemalloc

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, Logistic
from handful.bilevel import Forward
from handful.bilevel.strategy import top_candidates
from handful.bilevel.weights import optimise_weights, simplex_quadratic
from handful.blocks import Blocks
from handful.models import Joint, Poisson, glm
from handful.models.base import OuterRows
from handful.models.inverse import ConjugateGradients, Exact, NeumannSeries
from handful.models.joint import JointModel
from handful.models.links import LogisticLink, PoissonLink, SoftmaxLink, SquaredLink
from hypothesis import example, given, settings
from hypothesis import strategies as st
from naive_bilevel import (
    derivative,
    inner_solution,
    outer_after_training,
    outer_loss,
    penalties,
    share,
)
from qp_oracle import on_the_simplex
from scipy import sparse
from scipy.special import expit
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

PROBLEMS = [
    kind(0.1, fit_intercept=fit, penalise_intercept=penalise)
    for kind in (Logistic, LeastSquares)
    for fit, penalise in ((True, False), (True, True), (False, False))
]
LAYOUTS = {"fortran": np.asfortranarray, "c": np.ascontiguousarray, "csr": sparse.csr_matrix}
CHOSEN = np.array([3, 41, 17, 28, 50, 9, 12])
# of three classes
L2 = 0.05


def name(problem):
    intercept = (
        "none"
        if not problem.fit_intercept
        else "penalised"
        if problem.penalise_intercept
        else "free"
    )
    return f"{type(problem).__name__}-{intercept}"


def data_of(problem, *, n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) + 0.3
    z = X @ rng.normal(size=d) + 0.5
    y = (
        np.where(z + rng.normal(size=n) > 0, 1.0, -1.0)
        if problem.classifies
        else z + rng.normal(size=n)
    )
    return X, y, rng


def model_of(problem, X, y, rows=None, *, u=None, c=None, ihvp=None, weighted=False, pen=False):
    """A trained model that holds some rows, all by default."""
    u = np.ones(X.shape[0]) if u is None else u
    data = OuterRows(X, y, u, np.flatnonzero(u == 0), penalised=pen)
    model = problem.model(data, np.random.default_rng(0), ihvp=ihvp, weighted=weighted)
    model.add_rows(np.arange(X.shape[0]) if rows is None else rows)
    model.fit(c)
    return model


def in_span(monkeypatch):
    """The next models solve in the span of their rows, however few features there are."""
    monkeypatch.setattr(glm, "STAY", 0)


# Links and coordinates ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "K"), [(LogisticLink(), 1), (SoftmaxLink(), 4), (SquaredLink(), 1), (PoissonLink(), 1)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_links_are_their_losses_derivatives(link, K, dtype):
    rng = np.random.default_rng(0)
    eps = 1e-5
    Z = 3 * rng.normal(size=(50, K))
    Y = rng.dirichlet(np.ones(max(K, 2)), 50)[:, :K]
    P = link.mean(Z)
    hessians = link.hessians(P)
    for k, step in enumerate(eps * np.eye(K)):
        np.testing.assert_allclose(
            (P - Y)[:, k], (link.loss(Z + step, Y) - link.loss(Z - step, Y)) / (2 * eps), atol=1e-8
        )
        np.testing.assert_allclose(
            hessians[:, k], (link.mean(Z + step) - link.mean(Z - step)) / (2 * eps), atol=1e-8
        )
    T = rng.normal(size=(7, K))
    forms = np.einsum("ka,nab,lb->nkl", T, hessians, T)
    np.testing.assert_allclose(
        sum(F[:, :, None] * F[:, None] for F in link.factors(P, T)), forms, atol=1e-12
    )
    np.testing.assert_allclose(link.forms(P, T), np.einsum("nkk->nk", forms), atol=1e-12)
    np.testing.assert_allclose(link.diagonal(P), np.einsum("nkk->n", hessians) / K, atol=1e-12)
    huge = np.tile(np.array([[-3e4], [3e4]], dtype), (1, K)) * np.arange(1, K + 1, dtype=dtype)
    assert np.isfinite(link.mean(huge)).all()
    assert np.isfinite(link.loss(huge, np.full_like(huge, 1 / K))).all()


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5000), st.integers(2, 10**6))
def test_top_candidates_are_the_largest_with_ties_to_the_smaller_index(seed, k, n, n_values):
    rng = np.random.default_rng(seed)
    scores = rng.integers(n_values, size=n).astype(float)
    scores[rng.random(n) < 0.1] = -np.inf
    naive = np.argsort(-scores, kind="stable")[:k]
    np.testing.assert_array_equal(
        top_candidates(scores, k), np.sort(naive[scores[naive] > -np.inf])
    )


# Inner solutions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("l2", [1e-5, 1e-2, 10.0])
@pytest.mark.parametrize("problem", [Logistic, LeastSquares, "multinomial", Poisson], ids=str)
@pytest.mark.parametrize(("d", "layout"), [(5, "c"), (80, "csr"), (80, "c")])
def test_inner_solutions_are_those_of_the_estimator_that_the_problem_hands_over(
    problem, l2, fit_intercept, d, layout
):
    rng = np.random.default_rng(0)
    n = 60
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    target = X @ rng.normal(size=d) + 1 + rng.normal(size=n)
    y = (
        target
        if problem is LeastSquares
        else np.digitize(target, [-1, 2] if problem == "multinomial" else [0])
    )
    y = rng.poisson(np.exp(np.minimum(target, 3))) if problem is Poisson else y
    problem = (Logistic if problem == "multinomial" else problem)(l2, fit_intercept=fit_intercept)
    w = rng.exponential(size=n)
    w *= n / w.sum()
    model = model_of(problem, LAYOUTS[layout](X), y)
    model.tol = 1e-9
    model.fit(w / n)
    exact = (
        dict(solver="newton-cholesky", tol=1e-10) if not isinstance(problem, LeastSquares) else {}
    )
    trained = problem.estimator(n).set_params(**exact).fit(X, y, sample_weight=w)
    theta = np.atleast_2d(trained.coef_).T
    if fit_intercept:
        # of the classes' common part nobody but rounding decides
        intercepts = np.atleast_1d(trained.intercept_)
        common = intercepts.mean() if len(intercepts) > 1 else 0.0
        theta = np.vstack([theta, intercepts - common])
    np.testing.assert_allclose(
        model.coefficients, theta, rtol=1e-5, atol=2e-5 * np.abs(theta).max()
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(-6, 2), st.floats(-3, 2))
def test_inner_solutions_minimise_whatever_the_scales(seed, separable, log_l2, log_scale):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    d = int(rng.integers(1, 8))
    X = 10**log_scale * rng.normal(size=(n, d))
    y = np.sign(X[:, 0] + 1e-9) if separable else rng.choice([-1.0, 1.0], n)
    y[:2] = 1, -1
    model = model_of(Logistic(10**log_l2, penalise_intercept=bool(rng.integers(2))), X, y)
    slope = -y[:, None] * expit(-y[:, None] * (model.A @ model.theta)) / n
    gradient = model.A.T @ slope + model.penalty * model.theta
    unit = np.abs(model.A.T @ (y / 2 / n)).max()
    assert np.abs(gradient).max() <= 1e-6 * max(unit, 1e-6 * np.abs(model.A).max())


@pytest.mark.parametrize("n_pairs", [1, 3, 5, 11])
def test_an_inner_problem_whose_gradient_at_zero_is_rounding_is_solved(n_pairs):
    # every row comes once with each label, in shuffled order: the solution is zero
    rng = np.random.default_rng(n_pairs)
    order = rng.permutation(2 * n_pairs)
    X = np.repeat(rng.normal(size=(n_pairs, 3)) * 1e3, 2, axis=0)[order]
    y = np.tile([-1.0, 1.0], n_pairs)[order]
    for problem in (Logistic(1e-3), LeastSquares(1e-3)):
        np.testing.assert_allclose(model_of(problem, X, y).theta, 0, atol=1e-12)


# Implicit gradients and gains --------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS, ids=name)
@pytest.mark.parametrize(
    ("layout", "dtype", "tol"),
    [("c", np.float64, 1e-5), ("csr", np.float64, 1e-5), ("fortran", np.float32, 1e-4)],
)
@pytest.mark.parametrize("span", [False, True], ids=["", "span"])
@pytest.mark.parametrize("pen", [False, True], ids=["", "penalised"])
def test_candidate_scores_are_minus_the_derivatives_of_the_outer_loss(
    problem, layout, dtype, tol, span, pen, monkeypatch
):
    X, y, rng = data_of(problem, n=40 if span else 60, d=12 if span else 4)
    chosen = np.array([i for i in CHOSEN if i < len(y)])
    if span:
        in_span(monkeypatch)
    u = rng.exponential(size=len(y))
    c = rng.dirichlet(np.ones(len(chosen)))
    X = X.astype(dtype)
    model = model_of(problem, LAYOUTS[layout](X), y, chosen, u=u, c=c, pen=pen)
    assert (model.A.shape[1] < X.shape[1] + problem.fit_intercept) == span
    scores = model.candidate_scores().astype(float)
    assert (scores[chosen] == -np.inf).all()
    rows = np.setdiff1d(np.arange(len(y)), chosen)
    at = X.astype(float), y, u, share(len(y), chosen, c)
    naive = [-derivative(problem, *at, k, penalised=pen) for k in rows]
    np.testing.assert_allclose(scores[rows], naive, atol=tol * np.abs(naive).max())


@pytest.mark.parametrize(
    "problem", [*PROBLEMS, "multinomial"], ids=lambda p: p if isinstance(p, str) else name(p)
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("pen", [False, True], ids=["", "penalised"])
def test_the_span_of_the_chosen_rows_changes_no_score_gain_or_curvature(
    problem, kind, pen, monkeypatch
):
    X, y, rng = data_of(LeastSquares() if problem == "multinomial" else problem, d=20)
    if problem == "multinomial":
        problem = Logistic(0.1)
        y = np.digitize(y, [-0.5, 2])
    # adds no direction to the span
    X[CHOSEN[3]] = X[CHOSEN[1]]
    results = []
    ranks = []
    # features; their span; and the outer curvature by rows
    for stay, narrow in ((64, 512), (0, 512), (0, 1)):
        monkeypatch.setattr(glm, "STAY", stay)
        monkeypatch.setattr(glm, "NARROW", narrow)
        model = model_of(
            problem,
            kind(X),
            y,
            CHOSEN,
            u=rng.exponential(size=60) if narrow < 0 else None,
            weighted=True,
            pen=pen,
        )
        # several outputs are solved for to few digits
        model.tol = 1e-9
        model.fit()
        if model.Y.shape[1] == 1 and narrow == 1:
            model._sample = np.arange(60)
        scores = model.candidate_scores().copy()
        rows = np.flatnonzero(scores > -np.inf)
        gains = [model.predicted_gains(rows, free_weights=free) for free in (False, True)]
        loss = model.outer_loss()
        curvature, slope = model.weight_quadratic()
        results.append([scores[rows], *gains, loss, slope, curvature])
        ranks.append(model.span.rank)
    assert ranks == [20, 6, 6]
    for other in results[1:]:
        for ours, theirs in zip(other, results[0]):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("problem", PROBLEMS[3:], ids=name)
def test_predicted_gains_are_exact_where_the_losses_are_quadratic(problem):
    X, y, rng = data_of(problem)
    u = rng.exponential(size=len(y))
    # with so small a penalty it does not matter whether it is counted once a set or once a point
    problem = LeastSquares(
        1e-8, fit_intercept=problem.fit_intercept, penalise_intercept=problem.penalise_intercept
    )
    model = model_of(problem, X, y, CHOSEN, u=u)
    model.candidate_scores()
    rows = np.setdiff1d(np.arange(len(y)), CHOSEN)
    now = outer_after_training(problem, X, y, u, share(len(y), CHOSEN))
    theta = inner_solution(problem, X, y, share(len(y), CHOSEN))
    naive = []
    free = []
    for k in rows:
        moved = inner_solution(problem, X, y, share(len(y), [*CHOSEN, k]))
        along = [
            outer_loss(problem, X, y, u, theta + f * (moved - theta))
            for f in np.linspace(0, 1, 201)
        ]
        naive.append(now - along[-1])
        free.append(now - min(along))
    np.testing.assert_allclose(model.predicted_gains(rows), naive, rtol=1e-4, atol=1e-6)
    # where weights are free, as much of the newcomer joins as does best
    np.testing.assert_allclose(
        model.predicted_gains(rows, free_weights=True), free, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("penalise", [False, True])
def test_predicted_gains_rank_the_rows_as_training_anew_with_each_does(penalise):
    # n / m weights after the newcomer joins, as the coreset has them: what the user's refit would
    # show
    problem = Logistic(0.1, penalise_intercept=penalise)
    correlations = []
    for seed in range(3):
        X, y, _ = data_of(problem, n=200, seed=seed)
        u = np.ones(len(y))
        chosen = np.arange(10)
        model = model_of(problem, X, y, chosen)
        linear = model.candidate_scores().astype(float)[10:]
        gains = model.predicted_gains(np.arange(10, len(y)))
        naive = [
            -outer_after_training(problem, X, y, u, share(len(y), [*chosen, k]))
            for k in range(10, len(y))
        ]
        correlations.append((spearmanr(gains, naive)[0], spearmanr(linear, naive)[0]))
    quadratic, first_order = np.mean(correlations, axis=0)
    assert quadratic > 0.97
    # why the quadratic rule is the default
    assert quadratic > first_order


@pytest.mark.parametrize("problem", PROBLEMS[3:], ids=name)
def test_predicted_gains_know_what_a_step_adds_to_the_penalty(problem):
    X, y, _ = data_of(problem)
    few = np.arange(30)
    rows = np.arange(30, 60)
    theta = inner_solution(problem, X, y, share(60, few))
    moved = [inner_solution(problem, X, y, share(60, [*few, k])) for k in rows]
    added = [
        outer_loss(problem, X, y, np.ones(60), t, penalised=True)
        - outer_loss(problem, X, y, np.ones(60), t)
        for t in [theta, *moved]
    ]
    plain, penalised = (model_of(problem, X, y, few, pen=pen) for pen in (False, True))
    for model in (plain, penalised):
        model.candidate_scores()
    adds = plain.predicted_gains(rows) - penalised.predicted_gains(rows)
    exact = np.array(added[1:]) - added[0]
    # The penalty of the set counts once a point in the step, for 30 points and not for 31.
    np.testing.assert_allclose(adds, exact, rtol=0.05, atol=0.01 * np.abs(exact).max())


@pytest.mark.parametrize("problem", PROBLEMS, ids=name)
@pytest.mark.parametrize("pen", [False, True], ids=["", "penalised"])
def test_the_weights_slope_and_curvature_are_those_of_the_outer_loss(problem, pen):
    X, y, rng = data_of(problem)
    u = rng.exponential(size=len(y))
    c = rng.dirichlet(np.ones(len(CHOSEN)))
    model = model_of(problem, X, y, CHOSEN, u=u, c=c, pen=pen)

    def outer(c):
        return outer_after_training(problem, X, y, u, share(len(y), CHOSEN, c), penalised=pen)

    assert model.outer_loss() == pytest.approx(outer(c), rel=1e-7)
    curvature, slope = model.weight_quadratic()
    eps = 1e-5
    solutions = [
        [inner_solution(problem, X, y, share(len(y), CHOSEN, c + sign * step)) for sign in (1, -1)]
        for step in eps * np.eye(len(c))
    ]
    jacobian = np.array([(up - down) / (2 * eps) for up, down in solutions])
    z = np.column_stack([X, np.full(len(y), float(problem.fit_intercept))])
    p = expit(z @ inner_solution(problem, X, y, share(len(y), CHOSEN, c)))
    # of the outer loss
    bent = (u / u.sum() * (p * (1 - p) if problem.classifies else 1))[:, None] * z
    outer_hessian = z.T @ bent + pen * np.diag(penalties(problem, z.shape[1]))
    exact = jacobian @ outer_hessian @ jacobian.T
    np.testing.assert_allclose(curvature, exact, atol=1e-5 * np.abs(exact).max())
    naive = [(outer(c + step) - outer(c - step)) / (2 * eps) for step in eps * np.eye(len(c))]
    np.testing.assert_allclose(slope, naive, atol=1e-5 * np.abs(naive).max())


def greedy(problem, size, strategy, *, rule="linear", **options):
    return BilevelCoreset(
        problem,
        size=size,
        strategy=strategy,
        rule=rule,
        weighting="equal",
        random_state=1,
        **options,
    )


def steps(indices, first):
    return [(indices[:s], indices[s]) for s in range(first, len(indices))]


TRAINERS = [Logistic(0.1), Logistic(0.01), Logistic(0.1, penalise_intercept=True)]
JOINT = Joint(Joint(*TRAINERS[:2]), TRAINERS[2])


@pytest.mark.parametrize("problem", [*PROBLEMS[:2], PROBLEMS[3], JOINT], ids=str)
@pytest.mark.parametrize("pen", [False, True], ids=["", "penalised"])
def test_the_linear_rule_takes_the_steepest_descent_of_the_outer_loss(problem, pen):
    X, y, rng = data_of(problem, n=25, d=2)
    u = rng.exponential(size=25)
    few = greedy(problem, 8, Forward(n_start=2), outer_penalty=pen)
    chosen = few.fit(X, y, u).indices_
    for before, after in steps(chosen, 2):
        rows = np.setdiff1d(np.arange(25), before)
        parts = TRAINERS if problem is JOINT else [problem]
        at = X, y, u, share(25, before)
        slopes = [sum(derivative(p, *at, k, penalised=pen) for p in parts) for k in rows]
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


# Several classes ---------------------------------------------------------------------------------


def three_classes(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, d)) / np.sqrt(d) + np.eye(3, d)[y], y


def multinomial(X, Y, *, ihvp=None, u=None):
    u = np.ones(len(X)) if u is None else u
    model = glm.GLM(
        Logistic(L2),
        OuterRows(X, Y, u, np.array([], int)),
        np.random.default_rng(0),
        ihvp,
        tol=1e-10,
    )
    model.add_rows(range(12))
    model.fit()
    return model


def trained(X, y, weights):
    """scikit-learn's model for weights that add up to about one, and a penalty of L2 / 2."""
    held = weights > 0
    model = LogisticRegression(C=1 / L2, solver="newton-cholesky", tol=1e-12, max_iter=200)
    return model.fit(X[held].astype(float), y[held], sample_weight=weights[held])


@pytest.mark.parametrize("ihvp", [None, ConjugateGradients(200), NeumannSeries(4000)], ids=str)
@pytest.mark.parametrize("d", [5, 70])
def test_multinomial_scores_are_minus_the_derivatives_of_the_outer_loss(d, ihvp):
    X, y = three_classes(d=d)
    u = np.random.default_rng(1).exponential(size=len(y))
    scores = multinomial(X, np.eye(3)[y], ihvp=ihvp, u=u).implicit_gradients()

    def outer(k, h):
        w = np.where(np.arange(len(y)) < 12, 1 / 12, 0.0)
        w[k] += h
        return log_loss(y, trained(X, y, w).predict_proba(X), sample_weight=u)

    h = 1e-4
    base = outer(0, 0.0)
    # chosen rows and others; a weight must not be negative: one-sided, second order
    for k in (0, 5, 13, 30, 59):
        slope = (-3 * base + 4 * outer(k, h) - outer(k, 2 * h)) / (2 * h)
        assert scores[k] == pytest.approx(-slope, rel=2e-3, abs=2e-4 * np.abs(scores).max())


@pytest.mark.parametrize("classes", [2, 3])
def test_damping_is_added_to_the_hessian(classes):
    X, y = three_classes()
    Y = np.eye(3)[y] if classes == 3 else (y[:, None] > 0).astype(float)
    directions = []
    for ihvp in (
        Exact(damping=0.3),
        ConjugateGradients(300, damping=0.3),
        NeumannSeries(3000, damping=0.3),
    ):
        model = multinomial(X, Y, ihvp=ihvp)
        model.implicit_gradients()
        directions.append(model.direction)
        image = model.hessian_product(model.direction) + 0.3 * model.direction
        np.testing.assert_allclose(image, model.gradient, atol=1e-5)
    np.testing.assert_allclose(directions[1:], [directions[0]] * 2, rtol=1e-3, atol=1e-5)
    short = multinomial(X, Y, ihvp=NeumannSeries(2))
    short.implicit_gradients()
    assert np.linalg.norm(short.direction) < np.linalg.norm(
        multinomial(X, Y).inverse_hessian(short.gradient)
    )


def test_soft_targets_are_classes_in_proportion():
    X, y = three_classes(n=90)
    options = dict(size=20, random_state=0)
    labels = BilevelCoreset(Logistic(L2), **options).fit(X, np.array(["a", "b", "c"])[y]).indices_
    assert (
        labels.tolist()
        == BilevelCoreset(Logistic(L2), **options).fit(X, np.eye(3)[y]).indices_.tolist()
    )
    # two columns are the binary model
    y = (y > 0).astype(int)
    labels = BilevelCoreset(Logistic(L2), **options).fit(X, y).indices_
    assert (
        labels.tolist()
        == BilevelCoreset(Logistic(L2), **options).fit(X, np.eye(2)[y]).indices_.tolist()
    )
    # a row of targets (p, 1 - p, 0) is a row of class 0 with weight p and one of class 1 with
    # weight 1 - p
    X, y = three_classes()
    Y = np.eye(3)[y]
    Y[:12] = [0.7, 0.3, 0.0]
    Y[:12:3] = [0.0, 0.2, 0.8]
    rows = np.repeat(np.arange(12), 3)
    reference = trained(X[rows], np.tile([0, 1, 2], 12), Y[:12].ravel() / 12)
    np.testing.assert_allclose(multinomial(X, Y).coefficients[:-1], reference.coef_.T, atol=1e-6)


# Memory ------------------------------------------------------------------------------------------


def sparse_rows(n, d, density=0.3):
    return sparse.random(
        n,
        d,
        density,
        format="csr",
        random_state=0,
        data_rvs=np.random.default_rng(0).standard_normal,
    )


def labels_of(X):
    rng = np.random.default_rng(0)
    z = X @ rng.normal(size=X.shape[1])
    return (z + 0.5 * z.std() * rng.normal(size=len(z)) > 0).astype(int)


def test_sparse_rows_of_many_features_are_never_made_dense():
    n = 800
    d = 60_000
    X = sparse_rows(n, d, density=2e-4)
    y = labels_of(X)
    for weighting in ("equal", "optimised"):
        selector = BilevelCoreset(Logistic(1e-2), size=20, random_state=0, weighting=weighting)
        tracemalloc.start()
        selector.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # a hundred dense rows; the candidates alone would be 128
        assert peak < 8 * 100 * d


def test_a_matrix_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("handful.checks.physical_memory", lambda: 100_000)
    X = sparse_rows(150, 300)
    with pytest.raises(
        MemoryError,
        match=r"inner problem of 100 points in 100 coordinates needs [\d,]+ bytes, more",
    ):
        BilevelCoreset(Logistic(), size=100).fit(X, labels_of(X))
    with pytest.raises(
        MemoryError, match=r"150 rows in 150 classes needs [\d,]+ bytes.*There is LeastSquares"
    ):
        BilevelCoreset(Logistic(), size=10).fit(X[:, :2], np.arange(150))


# Weights -----------------------------------------------------------------------------------------


@settings(max_examples=200)
# rows that must come back, then block the way
@example(7, 7, 2, -4.0, 0.1)
# so ill-conditioned that the sum is off by rounding
@example(0, 8, 1, -8.0, 1)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 25),
    st.integers(1, 30),
    st.floats(-8, 0),
    st.sampled_from([0.1, 1, 30]),
)
def test_simplex_quadratic_is_the_quadratic_program(seed, s, rank, log_damping, size):
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(rank, s)) * 10.0 ** rng.uniform(-1, 1, size=s)
    Q = J.T @ J
    Q += 10**log_damping * np.trace(Q) / s * np.eye(s)
    b = size * rng.normal(size=s) * np.sqrt(np.diag(Q))
    start = rng.dirichlet(np.ones(s)) * (rng.random(s) < 0.7)
    start = start / start.sum() if start.any() else np.full(s, 1 / s)
    c = simplex_quadratic(Q, b, start)
    naive = on_the_simplex(Q, b)
    assert c.min() >= 0
    assert c.sum() == pytest.approx(1, abs=1e-9)
    value, best = (0.5 * x @ Q @ x - b @ x for x in (c, naive))
    assert value <= best + 1e-7 * (abs(best) + np.abs(Q).max())


def blobs(problem, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    target = X @ rng.normal(size=d) + 0.5 + rng.normal(size=n)
    return X, np.sign(target) if problem.classifies else target


@pytest.mark.parametrize(
    "problem", [Logistic(0.01), Logistic(1e-4, fit_intercept=False), LeastSquares(0.01)], ids=str
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_optimised_weights_never_increase_the_outer_loss(problem, seed):
    X, y = blobs(problem, seed=seed)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(y), 12, replace=False))
    for start in (None, rng.dirichlet(np.full(12, 0.3))):
        model = model_of(problem, X, y, rows)
        losses = [outer_after_training(problem, X, y, np.ones(300), share(300, rows, start))]
        for max_iter in (1, 2, 5, 40):
            c = optimise_weights(model, start, max_iter=max_iter)
            assert c.min() >= 0
            assert c.sum() == pytest.approx(1, abs=1e-12)
            losses.append(outer_after_training(problem, X, y, np.ones(300), share(300, rows, c)))
        assert (np.diff(losses) <= 1e-9).all(), losses
        assert losses[-1] < losses[0] - 1e-3


@pytest.mark.parametrize(
    "problems", [[Logistic(1e-3)], [LeastSquares(1e-3)], [Logistic(1e-3), Logistic(1.0)]], ids=str
)
def test_optimised_weights_are_a_local_minimum_of_the_sum_of_the_outer_losses(problems):
    X, y = blobs(problems[0])
    rows = np.arange(15)
    models = [model_of(problem, X, y, rows) for problem in problems]
    c = optimise_weights(
        models[0] if len(models) == 1 else JointModel(models, [1.0, 1.0]), max_iter=200, tol=1e-12
    )

    def outer(c):
        return sum(
            outer_after_training(p, X, y, np.ones(300), share(300, rows, c)) for p in problems
        )

    best = outer(c)
    for j in range(15):
        for step in (1e-3, 1e-2):
            assert outer((1 - step) * c + step * (np.arange(15) == j)) > best - 1e-8


def excess_objective(X, y, chosen, l2):
    """How much worse a ridge regression on some rows is for all, by its mean loss and penalty."""

    def objective(model):
        residual = y - model.predict(X)
        return (residual**2).mean() / 2 + l2 / 2 * (model.coef_**2).sum()

    few = Ridge(alpha=l2 * len(y)).fit(*(a[chosen.indices_] for a in (X, y)), chosen.weights_)
    return objective(few) - objective(Ridge(alpha=l2 * len(y)).fit(X, y))


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["array", "blocks"])
def test_targets_far_from_zero_cost_nothing(offset, dtype, form, rng):
    X = rng.normal(size=(2000, 5))
    y = X @ [1.0, 2, 3, 0, 1] + rng.normal(size=2000)
    given = X.astype(dtype), y + offset
    chosen = BilevelCoreset(LeastSquares(1e-2), size=30, random_state=0)
    chosen.fit(*given) if form == "array" else chosen.fit(Blocks(*given, rows=700))
    # that of a uniform draw is .1
    assert excess_objective(X, y, chosen, 1e-2) < 1e-8


@pytest.mark.parametrize("unit", [1e-30, 1e-13, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["array", "blocks"])
def test_the_unit_of_the_targets_costs_nothing(unit, dtype, form, rng):
    X = rng.normal(size=(2000, 5))
    y = X @ [1.0, 2, 3, 0, 1] + rng.normal(size=2000)
    given = X.astype(dtype), unit * y
    chosen = BilevelCoreset(LeastSquares(1e-2), size=30, random_state=0)
    chosen.fit(*given) if form == "array" else chosen.fit(Blocks(*given, rows=700))
    assert excess_objective(X, y, chosen, 1e-2) < 1e-8


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("nested", [False, True])
def test_columns_far_from_zero_cost_two_linear_problems_nothing(offset, nested, rng):
    X = rng.normal(size=(1000, 4))
    y = X @ [1.0, 2, 0, 1] + rng.normal(size=1000)
    problem = Joint(LeastSquares(1e-2), LeastSquares(1e-1))
    problem = Joint(problem, LeastSquares(1.0)) if nested else problem
    chosen = BilevelCoreset(problem, size=30, random_state=0)
    chosen.fit(X + offset, y)
    assert excess_objective(X, y, chosen, 1e-2) < 1e-6


def test_a_joint_problem_moves_rows_only_where_both_do(rng):
    X = rng.normal(size=(60, 3)) + 1e4
    rows = OuterRows(X, rng.normal(size=60) + 1e4, np.full(60, 1 / 60), np.zeros(0, int))
    free = LeastSquares()
    for other in (LeastSquares(fit_intercept=False), LeastSquares(penalise_intercept=True)):
        assert Joint(free, other).near_zero(rows) is rows
        assert Joint(other, free).near_zero(rows) is rows
        assert other.near_zero(rows) is rows
    moved = Joint(free, LeastSquares(1.0)).near_zero(rows)
    assert abs(moved.X.mean(axis=0)).max() < 1e-8
    assert abs(moved.y.mean()) < 1e-8


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e4])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("other", [Logistic(), Poisson()], ids=str)
def test_problems_of_other_targets_go_together_whatever_the_columns(other, turned, offset, rng):
    X = rng.normal(size=(600, 3))
    y = (rng.poisson(1, 600) > 1).astype(int)
    parts = (other, LeastSquares()) if turned else (LeastSquares(), other)
    near = BilevelCoreset(Joint(*parts), size=10, random_state=0).fit(X, y)
    far = BilevelCoreset(Joint(*parts), size=10, random_state=0).fit(X + offset, y)
    assert len(np.intersect1d(near.indices_, far.indices_)) >= 9


def test_soft_targets_may_be_off_by_the_rounding_of_half_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    soft = rng.dirichlet(np.ones(10), 300)
    expected = BilevelCoreset(Logistic(), size=12, random_state=0).fit(X, soft)
    found = BilevelCoreset(Logistic(), size=12, random_state=0).fit(X, soft.astype(np.float16))
    assert len(found.indices_) == len(expected.indices_) == 12
    with pytest.raises(ValueError, match="soft targets must add up to one"):
        BilevelCoreset(Logistic(), size=12).fit(X, 1.01 * soft)
