"""The variants of Section 3.5: exchange, elimination, Algorithm 2, outer losses, implicit
gradients, joint problems."""

import numpy as np
import pytest
from handful import BilevelCoreset, CoresetEstimator, LeastSquares, Logistic
from handful.bilevel import ConvergenceError, Forward, Regularised
from handful.bilevel.exchange import Elimination, Exchange
from handful.models import Joint, Problem
from handful.models.base import OuterRows, outer_rows
from handful.models.inverse import ConjugateGradients, Exact, NeumannSeries
from handful.models.problem import GenericModel
from naive_bilevel import derivative, outer_after_training, share
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from tqdm import tqdm

N = 40
PROBLEMS = [Logistic(0.05), LeastSquares(0.1)]
NONE = np.array([], dtype=int)


def data(n=N, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return rng.normal(size=(n, d)) + 0.7 * y[:, None] * np.eye(d)[0], y


def selection(problem, X, y, chosen, *, ihvp=None, penalised=False):
    rows = OuterRows(X, y, np.ones(len(X)), NONE, penalised)
    return opened(problem, rows, chosen, ihvp=ihvp)


def opened(problem, rows, chosen, *, ihvp=None):
    model = problem.model(rows, np.random.default_rng(0), ihvp=ihvp)
    model.add_rows(chosen)
    return model


def slopes(problem, X, y, chosen, rows, u=None, *, penalised=False):
    u = np.ones(len(X)) if u is None else u
    at = X, y, u, share(len(X), chosen)
    return np.array([derivative(problem, *at, k, penalised=penalised) for k in rows])


def run(strategy, model, size):
    return strategy.run(
        model, size, rule="linear", weighting="equal", labels=None, bar=tqdm(disable=True)
    )


# --- exchange and elimination


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_an_exchange_swaps_the_largest_for_the_smallest_implicit_gradient(problem):
    X, y = data()
    chosen = np.arange(12)
    others = np.arange(12, N)
    model = selection(problem, X, y, chosen)
    run(Exchange(1, max_iter=1), model, 12)
    out = chosen[np.argmax(slopes(problem, X, y, chosen, chosen))]
    into = others[np.argmin(slopes(problem, X, y, chosen, others))]
    swapped = [*np.setdiff1d(chosen, [out]), into]
    before, after = (
        outer_after_training(problem, X, y, np.ones(N), share(N, rows))
        for rows in (chosen, swapped)
    )
    assert sorted(model.indices) == sorted(swapped if after < before else chosen)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_elimination_drops_the_points_of_the_largest_implicit_gradient(problem):
    X, y = data()
    model = selection(problem, X, y, range(N))
    run(Elimination(3), model, N - 3)
    worst = np.argsort(-slopes(problem, X, y, np.arange(N), np.arange(N)))[:3]
    assert sorted(model.indices) == sorted(set(range(N)) - set(worst.tolist()))


@pytest.mark.parametrize("strategy", ["exchange", "elimination", "regularised"])
def test_every_class_stays_however_few_points_are_left(strategy):
    X, y = data(60)
    y = y.copy()
    y[:58] = 1.0
    y[58:] = -1.0
    # weights decide there, and a class may lose all of its own
    if strategy == "regularised":
        y[30:] = -1.0
    coreset = BilevelCoreset(Logistic(0.05), size=4, strategy=strategy, random_state=0).fit(X, y)
    assert set(y[coreset.indices_]) == {-1.0, 1.0}


# --- Algorithm 2


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_regularised_weights_train_better_than_equal_ones_on_the_same_points(problem):
    X, y = data(120)
    coreset = BilevelCoreset(problem, size=15, strategy="regularised", random_state=0).fit(X, y)
    assert (coreset.weights_ >= 0).all()
    assert coreset.weights_.sum() == pytest.approx(120)
    w = share(120, coreset.indices_, coreset.weights_ / 120)
    every = share(120, np.arange(120))
    everything, weighted, equal = (
        outer_after_training(problem, X, y, np.ones(120), v, penalised=True)
        for v in (every, w, share(120, coreset.indices_))
    )
    assert weighted < equal
    assert weighted < 1.05 * everything


def test_one_run_of_algorithm_2_gives_every_size_and_fewer_weights_all_the_time():
    X, y = data(120)
    model = selection(Logistic(0.05), X, y, range(120))
    support = []
    path = list(Regularised().path(model, [10, 60, 30], watch=support.append))
    assert [m for m, _, _ in path] == [60, 30, 10]
    assert [len(rows) for _, rows, _ in path] == [60, 30, 10]
    assert all(w.sum() == pytest.approx(1) and (w >= 0).all() for _, _, w in path)
    assert support[0] == 120
    assert support[-1] < 12


# --- the outer loss


@pytest.mark.parametrize("outer", ["train", "train+validation", "validation"])
def test_scores_are_about_the_rows_of_the_outer_loss(outer):
    X, y = data(60)
    given = None if outer == "train" else (X[40:], y[40:], np.full(20, 2.0))
    rows = outer_rows(X[:40], y[:40], np.ones(40), outer, given, classes=False)
    model = opened(PROBLEMS[1], rows, range(10))
    model.fit()
    scores = model.candidate_scores()
    assert np.isneginf(scores[40:]).all()
    expected = -slopes(
        PROBLEMS[1], rows.X, rows.y, np.arange(10), range(10, 40), u=rows.sample_weight
    )
    np.testing.assert_allclose(scores[10:40], expected, atol=1e-5 * np.abs(expected).max())


# --- implicit gradients


class OwnLogistic(Problem):
    """The binary model through the protocol for problems of one's own; the last column is the
    intercept."""

    def __init__(self, l2=0.05):
        self.l2 = l2

    def losses(self, theta, X, y):
        return np.logaddexp(0, -y * (X @ theta))

    def gradients(self, theta, X, y):
        return (-y * expit(-y * (X @ theta)))[:, None] * X

    def hessian(self, theta, X, y, weights):
        p = expit(X @ theta)
        return (X.T * (weights * p * (1 - p))) @ X + self.l2 * np.eye(X.shape[1])


@pytest.mark.parametrize(
    "ihvp", [None, Exact(), ConjugateGradients(), NeumannSeries(3000)], ids=str
)
@pytest.mark.parametrize("problem", [*PROBLEMS, OwnLogistic()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("pen", [False, True], ids=["", "penalised"])
def test_implicit_gradients_are_the_derivatives_however_they_are_solved(problem, ihvp, pen):
    X, y = data()
    plain = Logistic(0.05, penalise_intercept=True) if isinstance(problem, OwnLogistic) else problem
    A = np.column_stack([X, np.ones(N)]) if isinstance(problem, OwnLogistic) else X
    model = selection(problem, A, y, range(12), ihvp=ihvp, penalised=pen)
    model.fit()
    expected = -slopes(plain, X, y, np.arange(12), range(12, N), penalised=pen)
    np.testing.assert_allclose(
        model.candidate_scores()[12:], expected, atol=1e-3 * np.abs(expected).max()
    )


@pytest.mark.parametrize(
    ("size", "way_out"),
    [
        (8, r"larger size, or a smaller n_start, as in strategy=Forward\(n_start=2\)\."),
        (2, r"larger size\."),
    ],
)
def test_a_start_that_is_the_whole_coreset_is_told_with_a_way_out(size, way_out):
    X, y = data(150)
    options = dict(size=size, rule="linear", random_state=0)
    with pytest.warns(UserWarning, match=f"nothing was selected: take a {way_out}$"):
        BilevelCoreset(Logistic(0.05), strategy=Forward(n_start=10), **options).fit(X, y)


def test_a_problem_of_ones_own_chooses_what_the_built_in_one_does():
    X, y = data(150)
    # which of the two classes comes first is known to the built-in one only
    options = dict(
        size=20, rule="linear", weighting="equal", strategy=Forward(n_start=6, every_class=False)
    )
    built_in = BilevelCoreset(Logistic(0.05, penalise_intercept=True), random_state=0, **options)
    own = BilevelCoreset(OwnLogistic(), random_state=0, **options)
    A = np.column_stack([X, np.ones(150)])
    assert built_in.fit(X, y).indices_.tolist() == own.fit(A, y).indices_.tolist()


def test_a_problem_of_ones_own_has_the_gains_and_weights_of_the_built_in_one():
    X, y = data()
    A = np.column_stack([X, np.ones(N)])
    built_in = selection(Logistic(0.05, penalise_intercept=True), X, y, range(12), penalised=True)
    own = selection(OwnLogistic(), A, y, range(12), penalised=True)
    rows = np.arange(12, N)
    found = []
    for model in (built_in, own):
        model.fit()
        model.candidate_scores()
        gains = [model.predicted_gains(rows, free_weights=free) for free in (False, True)]
        found.append([*gains, model.outer_loss(), *model.weight_quadratic()])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-8)


class Singular(OwnLogistic):
    """Without a penalty, and with a feature that is there twice."""

    def hessian(self, theta, X, y, weights):
        return super().hessian(theta, X, y, weights) - self.l2 * np.eye(X.shape[1])

    def solve(self, X, y, weights, start=None):
        return np.zeros(X.shape[1])


def test_a_singular_hessian_is_an_error_and_damping_the_way_out():
    X, y = data()
    twice = np.column_stack([X, np.zeros(N)])
    with pytest.raises(
        ConvergenceError, match=r"not positive definite .* raise the penalty, or damping"
    ):
        BilevelCoreset(Singular(), size=15).fit(twice, y)
    rows = OuterRows(twice, y, np.ones(N), NONE)
    model = GenericModel(Singular(), rows, np.random.default_rng(0), Exact(damping=0.1))
    model.add_rows(range(10))
    model.fit()
    assert np.isfinite(model.implicit_gradients()).all()


def test_an_inner_problem_that_does_not_converge_is_an_error():
    class Diverging(OwnLogistic):
        def solve(self, X, y, weights, start=None):
            return np.full(X.shape[1], np.nan)

    X, y = data()
    with pytest.raises(
        ConvergenceError,
        match=r"Diverging.solve must give finite numbers .* 3 entries that are not",
    ):
        BilevelCoreset(Diverging(), size=15).fit(X, y)


class Empty(Problem):
    pass


class Half(OwnLogistic):
    gradients = Problem.gradients


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            Empty(),
            "Empty must implement .* and lacks losses, gradients, hessian; or a loss in torch "
            "alone: see",
        ),
        (Half(), "Half must implement .* and lacks gradients; or a loss in torch alone: see"),
        (
            Joint(OwnLogistic(), Half()),
            "Half must implement .* and lacks gradients; or a loss in torch alone: see",
        ),
    ],
)
def test_a_problem_without_its_methods_is_told_which(problem, message, monkeypatch):
    # no numerical work
    monkeypatch.setattr(GenericModel, "__init__", None)
    X, y = data()
    with pytest.raises(TypeError, match=message):
        BilevelCoreset(problem, size=5).fit(X, y)


# --- joint problems


def test_joint_scores_add_up():
    X, y = data()
    a = Logistic(0.05)
    b = LeastSquares(0.1)
    scores = []
    for problem in (a, b, Joint(a, b, 0.3)):
        model = selection(problem, X, y, range(12))
        model.fit()
        scores.append(model.candidate_scores()[12:])
    np.testing.assert_allclose(scores[2], scores[0] + 0.3 * scores[1], rtol=1e-8)


# --- options


def test_options_of_options_are_parameters_of_the_selector():
    selector = BilevelCoreset(strategy=Forward(3), ihvp=ConjugateGradients(7))
    other = clone(selector).set_params(strategy__batch_size=5, ihvp__damping=0.5)
    assert (other.strategy.batch_size, other.ihvp.n_steps, other.ihvp.damping) == (5, 7, 0.5)
    assert (selector.strategy.batch_size, selector.ihvp.damping) == (3, 0.0)
    X, y = data(90)
    model = CoresetEstimator(
        BilevelCoreset(size=12, strategy=Forward(), random_state=0), LogisticRegression()
    )
    search = GridSearchCV(model, {"selector__strategy__batch_size": [2, 5]}, cv=3).fit(X, y)
    best = search.best_estimator_.selector_
    assert best.strategy.batch_size == search.best_params_["selector__strategy__batch_size"]
    single = BilevelCoreset(
        size=12, strategy=Forward(best.strategy.batch_size), random_state=0
    ).fit(X, y)
    np.testing.assert_array_equal(best.indices_, single.indices_)


@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        (
            dict(ihvp=ConjugateGradients),
            {},
            r"ihvp must be one of .* or an object such as ConjugateGradients\(",
        ),
        (
            dict(strategy="exchange", weighting="corrective"),
            {},
            "take 'optimised', which does so at the end",
        ),
        (dict(outer="validation"), {}, "with no validation set"),
        ({}, dict(validation=(np.ones((4, 3)), np.ones(4))), "with a validation set"),
        (
            dict(outer="validation"),
            dict(validation=(np.ones((4, 2)), np.ones(4))),
            "validation: X has 2 features, but .* 3",
        ),
        (
            dict(outer="validation"),
            dict(validation=(np.ones((4, 3)), 7 * np.ones(4))),
            "classes that y has not",
        ),
    ],
    ids=str,
)
def test_bad_options_are_named(options, fit, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        BilevelCoreset(**{"size": 10} | options).fit(X, y, **fit)


@pytest.mark.parametrize(
    "problem", [Logistic(0.01), LeastSquares(0.01), Joint(Logistic(0.01), Logistic(0.1))], ids=str
)
def test_regularised_selection_follows_a_slope_and_not_its_rounding(problem, rng):
    n = 300
    X = rng.normal(size=(n, 5))
    y = 2 * X[:, 0] + rng.logistic(size=n)
    y = y if isinstance(problem, LeastSquares) else (y > 0).astype(int)
    found = []
    for order in (np.arange(n), np.arange(n)[::-1], rng.permutation(n)):
        chosen = BilevelCoreset(problem, size=20, strategy="regularised", random_state=0)
        found.append(order[chosen.fit(X[order], y[order]).indices_])
    # equal losses may part ways at the last digit
    assert all(len(np.intersect1d(found[0], other)) >= 18 for other in found)


def test_the_penalty_of_the_outer_loss_can_be_left_out_and_counted_again(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    rows = OuterRows(X, y, np.ones(60), np.zeros(0, int), True)
    for problem in (Logistic(0.5), Joint(Logistic(0.5), Logistic(0.1))):
        model = problem.model(rows, np.random.default_rng(0))
        model.add_rows(range(60))
        model.fit()
        with_penalty = model.outer_loss()
        slope = np.abs(model.implicit_gradients()).max()
        # the least there is on all rows
        assert slope < 1e-6
        model.count_penalty(False)
        assert model.outer_loss() < with_penalty - 1e-3
        assert np.abs(model.implicit_gradients()).max() > 1e-3
        model.count_penalty(True)
        assert model.outer_loss() == pytest.approx(with_penalty)
