"""The parts of BilevelCoreset: passes over the data, inner solves, outer optimisation of the weights."""

import clarabel
import numpy as np
import pytest
from handful import LeastSquares, Logistic
from handful.bilevel import ConvergenceError
from handful.bilevel.numerics.newton import cholesky_inverse, cholesky_solve, moved_derivative, pointwise
from handful.bilevel.numerics.passes import LOGISTIC, SQUARED, DataPasses, residuals
from handful.bilevel.selections import softmax
from handful.bilevel.selections.base import Rows
from handful.bilevel.selections.joint import JointSelection
from handful.bilevel.selections.linear import LinearSelection
from handful.bilevel.strategies.base import CANDIDATES, top_candidates
from handful.bilevel.strategies.weights import optimise_weights, simplex_quadratic
from hypothesis import example, given, settings
from hypothesis import strategies as st
from naive_bilevel import inner_solution, outer_after_training, share
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

# Passes over the data ------------------------------------------------------------------------------------------------

LAYOUTS = {"fortran": np.asfortranarray, "c": np.ascontiguousarray, "csr": sparse.csr_matrix}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-13), (np.float32, 2e-5)])
@pytest.mark.parametrize("kind", [LOGISTIC, SQUARED])
def test_passes_are_the_textbook_sums(layout, dtype, tol, kind):
    # sizes about a block of narrow and of wide rows and around the unrolled columns, and fewer rows than threads
    about_a_block = [(2047, 260), (2049, 270), (8191, 4), (8192, 5), (8193, 12), (16_500, 17)]
    for n, d in [(1, 1), (2, 3), (3, 20), (4, 8), (5, 9), (130, 7), *about_a_block]:
        rng = np.random.default_rng(n)
        X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
        y = rng.choice([-1.0, 1.0], n) if kind == LOGISTIC else rng.normal(size=n)
        theta, v = rng.normal(size=d + 1), rng.normal(size=d + 1)
        for u in (np.ones(n), rng.exponential(size=n) * (rng.random(n) < 0.8) + 1e-3):
            data = DataPasses(LAYOUTS[layout](X.astype(dtype)), y, u, kind)
            A = np.column_stack([X.astype(dtype).astype(float), np.ones(n)])
            z = A @ theta
            r = -y * expit(-y * z) if kind == LOGISTIC else z - y
            loss = np.logaddexp(0, -y * z) if kind == LOGISTIC else 0.5 * r**2
            scale = tol * 10 * np.sqrt(d)
            np.testing.assert_allclose(data.outer_gradient(theta), A.T @ (u * r) / u.sum(), atol=scale)
            np.testing.assert_allclose(data.linear_scores(v), r * (A @ v), atol=5 * scale)
            assert data.mean_loss() == pytest.approx(u @ loss / u.sum(), rel=scale, abs=scale)


@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-14), (np.float32, 3e-7)])
def test_residuals_are_exact_for_small_and_huge_logits(dtype, tol):
    z = np.concatenate([np.linspace(-120, 120, 4001), [0.0, 1e-30, -1e-30, 1e5, -1e5, 3e38, -3e38]]).astype(dtype)
    for y in (1.0, -1.0):
        r = np.empty_like(z)
        residuals(LOGISTIC, z, np.full_like(z, y), r)
        assert (np.sign(r) == -y).all() or np.abs(z[r == 0]).min() > 80  # only tiny ones may vanish
        np.testing.assert_allclose(r, -y * expit(-y * z.astype(float)), rtol=tol * 10, atol=tol * 1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3, 1e8])
def test_the_mean_loss_keeps_its_digits_at_every_scale_of_the_logits(dtype, scale):
    rng, n = np.random.default_rng(0), 3001
    X = rng.normal(size=(n, 1)).astype(dtype)
    y = np.where(rng.random(n) < 0.7, np.sign(X[:, 0]), -np.sign(X[:, 0])).astype(float)
    theta = np.array([scale, 0.0])
    for u in (np.ones(n), rng.exponential(size=n)):
        data = DataPasses(X, y, u, LOGISTIC)
        data.outer_gradient(theta)
        naive = u @ np.logaddexp(0, -y * data.z.astype(float)) / u.sum()
        assert data.mean_loss() == pytest.approx(naive, rel=1e-13 if dtype is np.float64 else 1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_weight_of_two_counts_as_the_row_twice(layout):
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(50, 3)), rng.normal(size=4)
    y, u = rng.choice([-1.0, 1.0], 50), rng.integers(1, 4, 50)
    once = DataPasses(LAYOUTS[layout](X), y, u.astype(float), LOGISTIC)
    twice = DataPasses(LAYOUTS[layout](np.repeat(X, u, axis=0)), np.repeat(y, u), np.ones(u.sum()), LOGISTIC)
    np.testing.assert_allclose(once.outer_gradient(theta), twice.outer_gradient(theta), rtol=1e-12)
    assert once.mean_loss() == pytest.approx(twice.mean_loss(), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-35, 1e35])
def test_the_unit_of_the_weights_does_not_matter_in_float32(scale):
    rng = np.random.default_rng(0)
    X, theta, u = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=4), rng.exponential(size=50)
    y = rng.choice([-1.0, 1.0], 50)
    passes = [DataPasses(X, y, w, LOGISTIC) for w in (u, scale * u)]
    gradients = [p.outer_gradient(theta) for p in passes]
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5)
    assert passes[1].mean_loss() == pytest.approx(passes[0].mean_loss(), rel=1e-6)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5000), st.integers(2, 10**6))
def test_top_candidates_are_the_largest_with_ties_to_the_smaller_index(seed, k, n, n_values):
    rng = np.random.default_rng(seed)
    scores = rng.integers(n_values, size=n).astype(float)
    scores[rng.random(n) < 0.1] = -np.inf
    naive = np.argsort(-scores, kind="stable")[:k]
    np.testing.assert_array_equal(top_candidates(scores, k), np.sort(naive[scores[naive] > -np.inf]))
    assert CANDIDATES > 40  # the rule that uses it asks for more than these


# Inner solves --------------------------------------------------------------------------------------------------------


def selection(problem, X, y, rows=None, **options):
    rows_ = Rows(X, y, np.ones(len(y)), np.array([], dtype=int))
    model = LinearSelection(problem, rows_, np.random.default_rng(0))
    model.add(np.arange(len(y)) if rows is None else rows)
    return model


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("l2", [1e-5, 1e-2, 10.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inner_solutions_are_those_of_scikit_learn_on_weighted_data(fit_intercept, l2, dtype):
    rng = np.random.default_rng(0)
    n, d = 60, 5
    X = rng.normal(size=(n, d)).astype(dtype)
    target = X.astype(float) @ rng.normal(size=d) + 1 + rng.normal(size=n)
    w = rng.exponential(size=n)
    w *= n / w.sum()
    for problem, y, model in [
        (Logistic(l2, fit_intercept=fit_intercept), np.sign(target), LogisticRegression(C=1 / (l2 * n), tol=1e-10)),
        (LeastSquares(l2, fit_intercept=fit_intercept), target, Ridge(alpha=l2 * n)),
    ]:
        if problem.classifies:
            model.set_params(solver="newton-cholesky", max_iter=500)
        model.set_params(fit_intercept=fit_intercept).fit(X.astype(float), y, sample_weight=w)
        inner = selection(problem, X, y)
        inner.solve(w / n)
        theta = np.append(model.intercept_, np.ravel(model.coef_))
        np.testing.assert_allclose(inner.theta, theta, rtol=1e-5, atol=1e-5 * np.abs(theta).max())


def test_a_penalised_intercept_is_scikit_learns_column_of_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.sign(X[:, 0] + 1 + rng.normal(size=40))
    inner = selection(Logistic(0.1, penalise_intercept=True), X, y)
    inner.solve()
    A = np.column_stack([np.ones(40), X])
    model = LogisticRegression(C=1 / (0.1 * 40), fit_intercept=False, solver="newton-cholesky", tol=1e-10).fit(A, y)
    np.testing.assert_allclose(inner.theta, model.coef_[0], rtol=1e-6)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(-6, 2), st.floats(-3, 2))
def test_inner_solutions_minimise_whatever_the_scales(seed, separable, log_l2, log_scale):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 30)), int(rng.integers(1, 8))
    X = 10**log_scale * rng.normal(size=(n, d))
    y = np.sign(X[:, 0] + 1e-9) if separable else rng.choice([-1.0, 1.0], n)
    y[:2] = 1, -1
    problem = Logistic(10**log_l2, penalise_intercept=bool(rng.integers(2)))
    inner = selection(problem, X, y)
    inner.solve()
    slope = -y * expit(-y * (inner.A @ inner.theta)) / n
    gradient = inner.A.T @ slope + inner.penalty * inner.theta
    unit = np.abs(inner.A.T @ (y / 2 / n)).max()
    assert np.abs(gradient).max() <= 1e-6 * max(unit, 1e-6 * np.abs(inner.A).max())


@pytest.mark.parametrize("n_pairs", [1, 3, 5, 11])
def test_an_inner_problem_whose_gradient_at_zero_is_rounding_is_solved(n_pairs):
    # every row comes once with each label, in shuffled order: the solution is zero
    rng = np.random.default_rng(n_pairs)
    order = rng.permutation(2 * n_pairs)
    X = np.repeat(rng.normal(size=(n_pairs, 3)) * 1e3, 2, axis=0)[order]
    y = np.tile([-1.0, 1.0], n_pairs)[order]
    for problem in (Logistic(1e-3), LeastSquares(1e-3)):
        inner = selection(problem, X, y)
        inner.solve()
        np.testing.assert_allclose(inner.theta, 0, atol=1e-12)


def test_an_inner_problem_that_loses_its_targets_is_solved():
    # all the weight on rows with target zero, from a start that fitted the others
    X, y = np.random.default_rng(0).normal(size=(8, 3)), np.array([0.0, 0, 0, 0, 5, -3, 2, 1])
    inner = selection(LeastSquares(1e-2), X, y)
    inner.solve()
    inner.solve(np.array([0.25] * 4 + [0.0] * 4))
    np.testing.assert_allclose(inner.theta, 0, atol=1e-10)


def test_an_inner_problem_that_is_singular_to_rounding_is_refused_by_name():
    X = np.random.default_rng(0).normal(size=(6, 9)) * 1e12
    inner = selection(Logistic(1e-9), X, np.array([-1.0, 1] * 3))
    with pytest.raises(ConvergenceError, match=r"features.* l2"):
        inner.solve()


def test_pointwise_losses_and_their_derivatives():
    z, eps = np.linspace(-30, 30, 601), 1e-5
    loss, r, h, up, down, scratch = (np.empty_like(z) for _ in range(6))
    for kind in (LOGISTIC, SQUARED):
        for y in (np.ones_like(z), -np.ones_like(z)):
            pointwise(kind, z, y, loss, r, h)
            naive = np.logaddexp(0, -y * z) if kind == LOGISTIC else 0.5 * (z - y) ** 2
            np.testing.assert_allclose(loss, naive, rtol=1e-13)
            pointwise(kind, z + eps, y, scratch, up, scratch)
            pointwise(kind, z - eps, y, scratch, down, scratch)
            np.testing.assert_allclose(h, (up - down) / (2 * eps), atol=1e-8)
            np.testing.assert_allclose(r, np.gradient(naive, z), atol=5e-2 if kind == SQUARED else 3e-3)


@settings(max_examples=200)
@given(st.floats(-1e3, 1e3), st.sampled_from([-1.0, 1.0]), st.floats(-3, 12), st.sampled_from([LOGISTIC, SQUARED]))
@example(0.0, 1.0, -np.inf, LOGISTIC)
def test_losses_move_logits_to_the_root_that_a_bracket_finds(z, y, log_reach, kind):
    reach = 10.0**log_reach

    def derivative(t):
        return -y * expit(-y * t) if kind == LOGISTIC else t - y

    ends = sorted((z, z - reach * derivative(z)))
    root = z if ends[0] == ends[1] else brentq(lambda t: t + reach * derivative(t) - z, *ends, xtol=1e-13, rtol=1e-14)
    assert moved_derivative(kind, z, y, reach) == pytest.approx(derivative(root), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(("d", "l2", "most"), [(5, 0.1, 0.1), (5, 1e-9, 1e-6), (100, 0.1, 0.1)])
@pytest.mark.parametrize("options", [{}, {"penalise_intercept": True}, {"fit_intercept": False}])
def test_the_start_that_a_row_more_predicts_is_near_its_solution(d, l2, most, options):
    # in the features, where nothing is left out for squares once the penalty vanishes, and in the span of the rows
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, d))
    logits = X @ rng.normal(size=d) + 0.5
    for problem, y in ((LeastSquares(l2, **options), logits), (Logistic(0.1, **options), np.sign(logits))):
        model, gained = selection(problem, X, y, np.arange(9)), []
        model.solve()
        for row in range(9, 40):
            model.add([row])
            before, start = model.theta, model._theta_with_last()
            model.solve()
            gained.append(np.linalg.norm(start - model.theta) / np.linalg.norm(before - model.theta))
        assert max(gained) < (most if problem.kind == SQUARED else 0.5)
        assert np.median(gained) < 0.1


def test_a_row_that_moves_nothing_predicts_where_the_solution_stays():
    X, y = np.vstack([np.eye(2), np.zeros((1, 2))]), np.array([1.0, -1.0, 1.0])
    model = selection(Logistic(0.1, fit_intercept=False), X, y, [0, 1])
    model.solve()
    model.add([2])
    start = model._theta_with_last()
    model.solve()
    np.testing.assert_allclose(start, model.theta, rtol=0.1)
    np.testing.assert_allclose(model.theta[1:], inner_solution(model.problem, X, y, np.full(3, 1 / 3))[:2], rtol=1e-6)


def test_cholesky_factors_solve_and_invert():
    rng = np.random.default_rng(0)
    M = rng.normal(size=(7, 9))
    M, b = M @ M.T, rng.normal(size=7)
    factor = np.linalg.cholesky(M)
    np.testing.assert_allclose(M @ cholesky_solve(factor, b), b, rtol=1e-10)
    np.testing.assert_allclose(cholesky_inverse(factor), np.linalg.inv(M), rtol=1e-8)


# Weights -------------------------------------------------------------------------------------------------------------


def quadratic_program(Q, b):
    s = len(b)
    quiet = clarabel.DefaultSettings()
    quiet.verbose = False
    quiet.tol_gap_abs = quiet.tol_gap_rel = quiet.tol_feas = 1e-12
    A = sparse.vstack([np.ones((1, s)), -sparse.eye(s)]).tocsc()
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(s)]
    solver = clarabel.DefaultSolver(sparse.triu(Q).tocsc(), -b, A, np.r_[1, np.zeros(s)], cones, quiet)
    return np.array(solver.solve().x)


@settings(max_examples=200)
@example(7, 7, 2, -4.0, 0.1)  # rows that must come back, then block the way
@example(0, 8, 1, -8.0, 1)  # so ill-conditioned that the sum is off by rounding
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 25), st.integers(1, 30), st.floats(-8, 0), st.sampled_from([0.1, 1, 30])
)
def test_simplex_quadratic_is_the_quadratic_program(seed, s, rank, log_damping, size):
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(rank, s)) * 10.0 ** rng.uniform(-1, 1, size=s)
    Q = J.T @ J
    Q += 10**log_damping * np.trace(Q) / s * np.eye(s)
    b = size * rng.normal(size=s) * np.sqrt(np.diag(Q))
    start = rng.dirichlet(np.ones(s)) * (rng.random(s) < 0.7)
    start = start / start.sum() if start.any() else np.full(s, 1 / s)
    c, naive = simplex_quadratic(Q, b, start), quadratic_program(Q, b)
    assert c.min() >= 0
    assert c.sum() == pytest.approx(1, abs=1e-9)
    value, best = (0.5 * x @ Q @ x - b @ x for x in (c, naive))
    assert value <= best + 1e-7 * (abs(best) + np.abs(Q).max())


def blobs(problem, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    target = X @ rng.normal(size=d) + 0.5 + rng.normal(size=n)
    return X, np.sign(target) if problem.classifies else target


@pytest.mark.parametrize("problem", [Logistic(0.01), Logistic(1e-4, fit_intercept=False), LeastSquares(0.01)], ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_optimised_weights_never_increase_the_outer_loss(problem, seed):
    X, y = blobs(problem, seed=seed)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(y), 12, replace=False))
    for start in (None, rng.dirichlet(np.full(12, 0.3))):
        model = selection(problem, X, y, rows)
        losses = [outer_after_training(problem, X, y, np.ones(300), share(300, rows, start))]
        for max_iter in (1, 2, 5, 40):
            c = optimise_weights(model, start, max_iter=max_iter)
            assert c.min() >= 0
            assert c.sum() == pytest.approx(1, abs=1e-12)
            losses.append(outer_after_training(problem, X, y, np.ones(300), share(300, rows, c)))
        assert (np.diff(losses) <= 1e-9).all(), losses
        assert losses[-1] < losses[0] - 1e-3


@pytest.mark.parametrize("problem", [Logistic(1e-3), LeastSquares(1e-3)], ids=str)
def test_optimised_weights_are_a_local_minimum(problem):
    X, y = blobs(problem)
    rows = np.arange(15)
    c = optimise_weights(selection(problem, X, y, rows), max_iter=200, tol=1e-12)
    best = outer_after_training(problem, X, y, np.ones(300), share(300, rows, c))
    for j in range(15):
        for step in (1e-3, 1e-2):
            moved = (1 - step) * c + step * (np.arange(15) == j)
            assert outer_after_training(problem, X, y, np.ones(300), share(300, rows, moved)) > best - 1e-9


@pytest.mark.parametrize("problem", [Logistic(1e-3), LeastSquares(1e-3)], ids=str)
def test_with_generously_many_points_optimised_weights_reach_the_full_datas_optimum(problem):
    # d + 1 = 5 parameters, 60 points: some weights give them the gradient of the whole data set
    X, y = blobs(problem)
    c = optimise_weights(selection(problem, X, y, np.arange(60)), max_iter=200, tol=1e-12)
    coreset = outer_after_training(problem, X, y, np.ones(300), share(300, np.arange(60), c))
    full = outer_after_training(problem, X, y, np.ones(300), np.full(300, 1 / 300))
    assert coreset <= full + 1e-6  # the outer loss has no penalty, so that it may end below


def test_joint_weights_serve_the_sum_of_the_outer_losses():
    trainers = [Logistic(1e-3), Logistic(1.0)]
    X, y = blobs(trainers[0])
    rows = np.arange(10)
    c = optimise_weights(JointSelection([selection(p, X, y, rows) for p in trainers]), max_iter=200, tol=1e-12)

    def joint(c):
        return sum(outer_after_training(p, X, y, np.ones(300), share(300, rows, c)) for p in trainers)

    best = joint(c)
    for j in range(10):
        assert joint(0.99 * c + 0.01 * (np.arange(10) == j)) > best - 1e-8


def test_weights_that_change_nothing_are_kept():
    # one row whose target is fitted exactly: no weight has an effect
    model = selection(LeastSquares(1.0), np.ones((3, 1)), np.zeros(3))
    np.testing.assert_allclose(optimise_weights(model), 1 / 3)


def test_the_model_is_left_solved_for_the_weights_returned():
    problem = Logistic(0.01)
    X, y = blobs(problem)
    model = selection(problem, X, y, np.arange(10))
    c = optimise_weights(model)
    theta = np.roll(inner_solution(problem, X, y, share(300, np.arange(10), c)), 1)
    np.testing.assert_allclose(model.theta, theta, atol=1e-5 * np.abs(theta).max())


# Multinomial selection -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enter", [1, 2])
def test_a_design_that_goes_from_float32_back_to_float64_solves_the_same_problem(enter, monkeypatch):
    # many rows keep the type of X, few are solved in float64; Algorithm 2 goes from many to few, and back by a row
    monkeypatch.setattr(softmax, "LARGE", 60 * 7)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 6)).astype(np.float32), np.eye(3)[rng.integers(3, size=120)]
    model = softmax.SoftmaxSelection(Logistic(1e-2), Rows(X, y, np.ones(120), np.array([], dtype=int)), rng, tol=1e-6)
    model.add(range(100))
    model.solve()
    model.row_scores()
    model.keep(np.arange(100) < 20)
    model.solve()
    model.add(range(100, 100 + enter))
    model.solve()
    chosen = np.array(model.indices)
    reference = LogisticRegression(C=1 / (1e-2 * len(chosen)), tol=1e-8, max_iter=1000)
    reference.fit(X[chosen].astype(float), y[chosen].argmax(axis=1))
    np.testing.assert_allclose(model.coefficients[1:], reference.coef_.T, atol=2e-3)
