"""Selection for multinomial logistic regression: against scikit-learn, finite differences and the binary model."""

import numpy as np
import pytest
from handful import BilevelCoreset, Logistic
from handful.bilevel import Cholesky, ConjugateGradients, Exact, NeumannSeries
from handful.bilevel.numerics.multinomial_solver import MultinomialSolver
from handful.bilevel.numerics.span import Design
from handful.bilevel.selections.base import Rows
from handful.bilevel.selections.softmax import SoftmaxSelection
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

NONE = np.array([], dtype=int)
WIDE, TALL = 40, 5  # features: more and fewer than the twelve chosen rows
L2 = 0.05


def three_classes(n=60, d=TALL, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, d)) / np.sqrt(d) + np.eye(3, d)[y], y


def selection(X, Y, *, ihvp=None, problem=None, tol=1e-10, u=None):
    u = np.ones(len(X)) if u is None else u
    model = SoftmaxSelection(problem or Logistic(L2), Rows(X, Y, u, NONE), np.random.default_rng(0), ihvp, tol=tol)
    model.add(range(12))
    model.solve()
    return model


def trained(X, y, weights):
    """scikit-learn's model for weights that add up to about one, and a penalty of L2 / 2."""
    held = weights > 0
    model = LogisticRegression(C=1 / L2, solver="newton-cholesky", tol=1e-12, max_iter=200)
    return model.fit(X[held].astype(float), y[held], sample_weight=weights[held])


def chosen_weights(n):
    return np.where(np.arange(n) < 12, 1 / 12, 0.0)


@pytest.mark.parametrize("d", [TALL, WIDE])
def test_the_inner_solution_is_scikit_learns(d):
    X, y = three_classes(d=d)
    model = selection(X, np.eye(3)[y])
    reference = trained(X, y, chosen_weights(len(y)))
    np.testing.assert_allclose(model.coefficients[1:], reference.coef_.T, atol=1e-7)
    assert model.outer_loss() == pytest.approx(log_loss(y, reference.predict_proba(X)), abs=1e-8)


IHVP = {
    "auto": Exact(),
    "cholesky": Cholesky(),
    "cg": ConjugateGradients(200),
    "neumann": NeumannSeries(4000),
}


@pytest.mark.parametrize("method", IHVP)
@pytest.mark.parametrize("d", [TALL, WIDE])
def test_scores_are_minus_the_derivatives_of_the_outer_loss(d, method):
    X, y = three_classes(d=d)
    u = np.random.default_rng(1).exponential(size=len(y))
    scores = selection(X, np.eye(3)[y], ihvp=IHVP[method], u=u).row_scores()

    def outer(k, h):
        w = chosen_weights(len(y))
        w[k] += h
        return log_loss(y, trained(X, y, w).predict_proba(X), sample_weight=u)

    h, base = 1e-4, outer(0, 0.0)
    for k in (0, 5, 13, 30, 59):  # chosen rows and others; a weight must not be negative: one-sided, second order
        slope = (-3 * base + 4 * outer(k, h) - outer(k, 2 * h)) / (2 * h)
        assert scores[k] == pytest.approx(-slope, rel=2e-3, abs=2e-4 * np.abs(scores).max())


def test_damping_is_added_to_the_hessian():
    X, y = three_classes()
    dense = selection(X, np.eye(3)[y], ihvp=Cholesky(damping=0.3)).row_scores()
    for ihvp in (Exact(damping=0.3), ConjugateGradients(300, damping=0.3), NeumannSeries(3000, damping=0.3)):
        np.testing.assert_allclose(selection(X, np.eye(3)[y], ihvp=ihvp).row_scores(), dense, rtol=1e-4, atol=1e-6)
    assert np.abs(dense).max() < np.abs(selection(X, np.eye(3)[y]).row_scores()).max()


def test_few_steps_of_an_iteration_give_shorter_directions():
    X, y = three_classes()
    full = selection(X, np.eye(3)[y], ihvp=NeumannSeries(4000))
    short = selection(X, np.eye(3)[y], ihvp=NeumannSeries(2))
    full.row_scores(), short.row_scores()
    assert np.linalg.norm(short.direction) < 0.5 * np.linalg.norm(full.direction)


@pytest.mark.parametrize("rule", ["linear", "quadratic"])
def test_two_columns_of_soft_targets_are_the_binary_model(rule):
    X, y = three_classes(n=90)
    y = (y > 0).astype(int)
    options = dict(size=25, rule=rule, random_state=0)
    binary = BilevelCoreset(Logistic(L2), **options).fit(X, y).indices_
    soft = BilevelCoreset(Logistic(L2), **options).fit(X, np.eye(2)[y]).indices_
    # inner problems are solved to a tolerance, leverages come from another preconditioner: near-ties fall otherwise
    assert len(np.intersect1d(binary, soft)) >= 15
    assert rule == "quadratic" or binary[:14].tolist() == soft[:14].tolist()  # ten of them the random start


def test_one_hot_targets_are_labels():
    X, y = three_classes(n=90)
    options = dict(size=20, rule="linear", random_state=0)
    labels = BilevelCoreset(Logistic(L2), **options).fit(X, np.array(["a", "b", "c"])[y]).indices_
    assert labels.tolist() == BilevelCoreset(Logistic(L2), **options).fit(X, np.eye(3)[y]).indices_.tolist()


def test_a_soft_target_is_its_classes_in_proportion():
    # a row of targets (p, 1 - p, 0) is a row of class 0 with weight p and one of class 1 with weight 1 - p
    X, y = three_classes()
    Y = np.eye(3)[y]
    Y[:12] = [0.7, 0.3, 0.0]
    Y[:12:3] = [0.0, 0.2, 0.8]
    model = selection(X, Y)
    rows = np.repeat(np.arange(12), 3)
    reference = trained(X[rows], np.tile([0, 1, 2], 12), Y[:12].ravel() / 12)
    np.testing.assert_allclose(model.coefficients[1:], reference.coef_.T, atol=1e-6)


def test_prefixes_are_the_smaller_coresets_and_hold_every_class():
    X, y = three_classes(n=300)
    long = BilevelCoreset(Logistic(L2), size=30, rule="linear", random_state=1).fit(X, y)
    short = BilevelCoreset(Logistic(L2), size=12, rule="linear", random_state=1).fit(X, y)
    assert long.indices_[:12].tolist() == short.indices_.tolist()
    assert set(y[long.indices_[:3]]) == {0, 1, 2}


@pytest.mark.parametrize("options", [{}, {"rule": "linear"}, {"weighting": "optimised"}], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_coreset_trains_better_than_random_points(options, dtype):
    X, y = three_classes(n=600, d=12, seed=3)
    X = X.astype(dtype)

    def loss(rows, weights):
        return log_loss(y, trained(X, y, np.bincount(rows, weights / weights.sum(), len(y))).predict_proba(X))

    coreset = BilevelCoreset(Logistic(L2), size=20, random_state=0, **options).fit(X, y)
    assert coreset.weights_.sum() == pytest.approx(600, rel=1e-5)
    random = [np.random.default_rng(s).choice(600, 20, replace=False) for s in range(10)]
    assert loss(coreset.indices_, coreset.weights_) < min(loss(rows, np.ones(20)) for rows in random)


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.full((60, 3), 0.5), "soft targets must add up to one in every row, got 1.5 in row 0"),
        (np.tile([1.2, -0.2, 0.0], (60, 1)), r"soft targets must not be negative, got -0\.2 in row 0"),
        (np.full((60, 3), np.nan), "NaN"),
    ],
)
def test_soft_targets_that_are_no_probabilities_are_refused(Y, message):
    with pytest.raises(ValueError, match=message):
        BilevelCoreset(Logistic(L2), size=9).fit(three_classes()[0], Y)


def test_a_hessian_too_large_to_factor_is_refused():
    design = Design(4000, 1.0, np.dtype(float), 1e-7, in_span=False)
    solver = MultinomialSolver(design, L2, True, 3, 1e-6, 0.0)
    with pytest.raises(ValueError, match="ihvp='cholesky' would factor a Hessian of 12003 unknowns, more than 8000"):
        solver.dense_solve(np.zeros((4001, 3)))
