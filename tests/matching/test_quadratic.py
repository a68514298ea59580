"""Rows and a quadratic form: the log density of all rows, proper, and told where it is not."""

import numpy as np
import pytest
from handful import (
    CoresetEstimator,
    LeastSquares,
    Logistic,
    MatchedCoreset,
    MergeReduce,
    Poisson,
    compare,
)
from handful.blocks import Blocks
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import likelihood
from handful.matching.pilot import find_pilot
from handful.matching.quadratic import REACH, QuadraticForm, systematic
from handful.models import Problem
from scipy.special import expit, gammaln, log_softmax
from sklearn.linear_model import LogisticRegression

N, D = 6000, 60


def rare_events(n=N, d=D, seed=0, rate=-2.0):
    """A table of many columns and few events."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    eta = X @ rng.normal(size=d) * (1.5 / np.sqrt(d)) + rate
    return X, (rng.random(n) < expit(eta)).astype(int)


def bernoulli(theta, X, y):
    """Log-likelihoods by row, shape (K, n), by hand."""
    eta = theta[:, :-1] @ X.T + theta[:, -1:]
    return np.where(y > 0, -np.log1p(np.exp(-eta)), -np.log1p(np.exp(eta)))


def poisson(theta, X, y):
    """As `bernoulli`, of counts."""
    eta = theta[:, :-1] @ X.T + theta[:, -1:]
    return y * eta - np.exp(eta) - gammaln(y + 1)


def softmax(theta, X, y):
    """As `bernoulli`, of three classes."""
    theta = theta.reshape(len(theta), 3, -1)
    eta = theta[:, :, :-1] @ X.T + theta[:, :, -1:]
    log_chances = log_softmax(eta, axis=1)
    return np.array([chances[y, range(len(y))] for chances in log_chances])


class Events(Problem):
    """Bernoulli regression as somebody writes it: no linear problem."""

    needs_y = True
    classifies = False

    def encode(self, y):
        return np.asarray(y, float)

    def losses(self, theta, X, y):
        return -bernoulli(theta[None], X, y)[0]

    def gradients(self, theta, X, y):
        error = expit(X @ theta[:-1] + theta[-1]) - y
        return error[:, None] * np.column_stack([X, np.ones(len(X))])

    def hessian(self, theta, X, y, w):
        chance = expit(X @ theta[:-1] + theta[-1])
        A = np.column_stack([X, np.ones(len(X))])
        return (A.T * (w * chance * (1 - chance))) @ A

    def start(self, X, y):
        return np.zeros(X.shape[1] + 1)


def cases(name):
    """Problem, X, y and the log-likelihood by hand."""
    X, y = rare_events()
    if name == "counts":
        rng = np.random.default_rng(1)
        return Poisson(), X, rng.poisson(np.exp(0.1 * X[:, :20].sum(1) - 1)), poisson
    if name == "three classes":
        X = X[:, :20]
        return Logistic(), X, np.minimum(2, y + (X[:, 0] > 1)), softmax
    if name == "columns far from zero":
        return Logistic(), X + 1000 * (np.arange(D) < 5), y, bernoulli
    if name == "a problem of one's own":
        return Events(), X, y, bernoulli
    return Logistic(), X, y, bernoulli


CASES = ["events", "counts", "three classes", "columns far from zero", "a problem of one's own"]


def posterior_draws(problem, X, y, n=400, prior=1.0):
    """Draws of the posterior of all rows: short chains from the Gaussian at its mode."""
    model, target = likelihood(problem, y)
    rows = LikelihoodSums(model, X, target, np.ones(len(X))).moved("posterior")
    pilot, _, _ = find_pilot(rows, prior, None)
    return model.outer(pilot.draws(n, np.random.default_rng(3)))


def by_hand(of_rows, rows, X, y, theta):
    """The log density that `form_` says a chain on the rows has, without the prior, in loops."""
    form = rows.form_
    found = []
    for one in theta:
        values = of_rows(one[None], X[rows.indices_], y[rows.indices_])[0]
        move = one - form.center
        total = rows.weights_ @ values + form.constant + form.slope @ move
        for direction, bend in zip(form.directions.T, form.bends):
            z = abs(direction @ move)
            square = z**2
            if bend > 0 and z > REACH:
                share = min(z / REACH - 1, 1)
                square = REACH**2 * (1 + 2 * share - share**2)
            total += 0.5 * bend * square
        found.append(total)
    return np.array(found)


@pytest.mark.parametrize("name", CASES)
def test_rows_and_form_are_the_log_density_of_all_rows_at_draws(name):
    problem, X, y, of_rows = cases(name)
    rows = MatchedCoreset(
        problem, at="posterior", remainder="quadratic", size=1500, random_state=0
    ).fit(X, y)
    assert len(rows.indices_) == 1500
    theta = posterior_draws(problem, X, y)
    plain = by_hand(of_rows, rows, X, y, theta)
    every = of_rows(theta, X, y).sum(1)
    missed = np.var(every - plain)
    assert missed < 0.1
    # The divergence was told from other draws, and the constant is kept.
    assert 0.3 < 2 * rows.kl_ / missed < 3
    assert abs(np.mean(every - plain)) < 0.3
    # What check sees is what was computed by hand, wherever the columns lie.
    report = rows.check(theta, X, y)
    assert report.variance == pytest.approx(missed, rel=1e-3)
    # Uniform rows of the same number miss much more.
    few = np.random.default_rng(0).choice(len(X), 1500, replace=False)
    alone = len(X) / 1500 * of_rows(theta, X[few], y[few]).sum(1)
    assert np.var(every - alone) > 50 * missed


def test_the_form_beats_taylors_at_equal_rows():
    X, y = rare_events()
    theta = posterior_draws(Logistic(), X, y)
    every = bernoulli(theta, X, y).sum(1)
    ours, taylors = [], []
    for seed in range(4):
        rows = MatchedCoreset(
            Logistic(), at="posterior", remainder="quadratic", size=1000, random_state=seed
        ).fit(X, y)
        ours.append(np.var(every - by_hand(bernoulli, rows, X, y, theta)))
        # Slope and curvature of uniform rows at the mode, as in subsampling MCMC.
        few = np.random.default_rng(seed).choice(len(X), 1000, replace=False)
        mode = rows.modes_[0]
        A = np.column_stack([X, np.ones(len(X))])
        chance = expit(A @ mode)
        rest = bernoulli(theta, X, y) - bernoulli(mode[None], X, y)
        move = (theta - mode) @ A.T
        rest -= (y - chance) * move - 0.5 * chance * (1 - chance) * move**2
        taylors.append(np.var(rest.sum(1) - len(X) / 1000 * rest[:, few].sum(1)))
    assert np.mean(ours) < 0.4 * np.mean(taylors)


def form_of(rng, p=5):
    """A form with bends of both signs."""
    directions = rng.normal(size=(p, p))
    bends = np.array([-2.0, -0.5, 0.0, 0.4, 1.5])
    return QuadraticForm(rng.normal(size=p), 0.7, rng.normal(size=p), directions, bends)


@pytest.mark.parametrize("size", [0.1, 3.0, 8.0, 30.0])
def test_slopes_and_curvature_of_the_form_are_its_own(size):
    rng = np.random.default_rng(0)
    form = form_of(rng)
    for theta in form.center + size * rng.normal(size=(5, 5)):
        h = 1e-5
        E = h * np.eye(5)
        expansion = form.expansion(theta)
        slope = (form(theta + E) - form(theta - E)) / (2 * h)
        hessian = (form.slopes(theta + E) - form.slopes(theta - E)) / (2 * h)
        np.testing.assert_allclose(form.slopes(theta[None])[0], slope, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(expansion[0, 1:], slope, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(-expansion[1:, 1:], hessian, rtol=1e-4, atol=1e-4)
        assert expansion[0, 0] == pytest.approx(form(theta[None])[0])
    near = form.center + 1e-3 * rng.normal(size=5)
    move = near - form.center
    plain = form.constant + form.slope @ move + 0.5 * move @ form.matrix @ move
    assert form(near) == pytest.approx(plain)


def test_a_form_in_other_parameters_is_the_same_function():
    rng = np.random.default_rng(0)
    form = form_of(rng)
    L = rng.normal(size=(5, 5))
    theta = rng.normal(size=(7, 5))
    np.testing.assert_allclose(form.of(lambda t: t @ L)(theta), form(theta @ L))


def test_a_density_whose_form_is_indefinite_is_proper():
    rises = []
    for seed in range(4):
        # Of so few events the curvatures of the rows are far from those of all.
        X, y = rare_events(seed=seed, rate=-4.5)
        options = dict(remainder="quadratic", size=1500, prior=100.0, random_state=seed)
        rows = MatchedCoreset(Logistic(), at="posterior", **options).fit(X, y)
        form = rows.form_
        rises.append(form.bends.max())
        rng = np.random.default_rng(seed)
        lengths = np.array([0.0, 3.0, 6.0, 9.0, 12.0, 30.0, 100.0, 1000.0])
        # Along each axis of the form, and any other direction, the density falls without end.
        axes = np.linalg.inv(form.directions)
        others = rng.normal(size=axes.shape) @ axes / np.sqrt(len(axes))
        for axis in np.vstack([axes[-5:], -axes[-5:], others[:5]]):
            theta = form.center + lengths[:, None] * axis
            density = by_hand(bernoulli, rows, X, y, theta) - 0.5 * (theta**2).sum(1) / 100**2
            assert (np.diff(density) < 0).all()
    assert 0.1 < max(rises) < 1 + 1e-9


def nuts_like(log_density, slopes, start, root, rng, n):
    """Hamiltonian Monte Carlo in units of the Gaussian, shape (n, p): plain leapfrog steps."""
    p = len(start)
    theta = start
    value = log_density(theta[None])[0]
    found = []
    for _ in range(n):
        step = rng.uniform(0.1, 0.3)
        momentum = rng.standard_normal(p)
        energy = value - 0.5 * momentum @ momentum
        there = theta
        slope = root.T @ slopes(there[None])[0]
        for _ in range(8):
            momentum = momentum + step / 2 * slope
            there = there + step * (root @ momentum)
            slope = root.T @ slopes(there[None])[0]
            momentum = momentum + step / 2 * slope
        new = log_density(there[None])[0]
        if np.log(rng.random()) < new - 0.5 * momentum @ momentum - energy:
            theta = there
            value = new
        found.append(theta)
    return np.array(found)


def test_chains_on_rows_and_form_are_right_and_the_check_knows_the_form():
    X, y = rare_events()
    A = np.column_stack([X, np.ones(N)])
    matched = MatchedCoreset(
        Logistic(), at="posterior", remainder="quadratic", size=1500, random_state=0
    ).fit(X, y)
    X_few, y_few, w = matched.take(X, y)
    A_few = np.column_stack([X_few, np.ones(len(X_few))])
    form = matched.form_

    def log_density(theta):
        values = bernoulli(theta, X_few, y_few)
        return values @ w + form(theta) - 0.5 * (theta**2).sum(1)

    def slopes(theta):
        errors = w * (y_few - expit(theta @ A_few.T))
        return errors @ A_few + form.slopes(theta) - theta

    chance = expit(A @ matched.modes_[0])
    curvature = (A.T * (chance * (1 - chance))) @ A + np.eye(D + 1)
    root = np.linalg.cholesky(np.linalg.inv(curvature))
    rng = np.random.default_rng(1)
    draws = np.array(
        [nuts_like(log_density, slopes, form.center, root, rng, 400) for _ in range(2)]
    )
    report = matched.check(draws, X, y)
    every = bernoulli(draws.reshape(-1, D + 1), X, y).sum(1)
    plain = by_hand(bernoulli, matched, X, y, draws.reshape(-1, D + 1))
    assert report.variance == pytest.approx(np.var(every - plain), rel=1e-3)
    assert report.verdict in ("use the draws", "use the weights", "make more draws")

    # Draws of the rows without the form are not the posterior's, nor are those of another prior.
    def without(theta):
        return log_density(theta) - form(theta)

    def slopes_without(theta):
        return slopes(theta) - form.slopes(theta)

    wrong = nuts_like(without, slopes_without, form.center, root, rng, 400)
    assert matched.check(wrong, X, y).verdict == "refuse"
    assert matched.check(draws, X, y, prior=0.1).verdict == "refuse"


def test_blocks_and_weights_give_what_rows_in_memory_give():
    X, y = rare_events()
    options = dict(at="posterior", remainder="quadratic", size=1500)
    blocks = Blocks(X, y, rows=2500)
    whole = MatchedCoreset(Logistic(), **options, random_state=0).fit(X, y)
    cut = MatchedCoreset(Logistic(), **options, random_state=0).fit(blocks)
    theta = posterior_draws(Logistic(), X, y)
    assert cut.check(theta, X, y).variance < 3 * whole.check(theta, X, y).variance
    # A row of weight two is a row that is there twice.
    w = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    w[::7] = 0
    weighted = MatchedCoreset(Logistic(), **options, random_state=0).fit(X, y, sample_weight=w)
    assert w[weighted.indices_].min() > 0
    missed = bernoulli(theta, X, y) @ w - by_hand(bernoulli, weighted, X, y, theta)
    assert np.var(missed) < 0.1


def test_rows_are_as_many_as_tol_asks_for():
    X, y = rare_events()
    n_rows = []
    for tol in (0.1, 0.02, 0.005):
        rows = MatchedCoreset(
            Logistic(), at="posterior", remainder="quadratic", tol=tol, random_state=0
        ).fit(X, y)
        assert rows.kl_ <= tol
        n_rows.append(len(rows.indices_))
    assert n_rows[0] < n_rows[1] < n_rows[2] <= N / 3


def test_draws_have_their_chances():
    rng = np.random.default_rng(0)
    chances = np.array([1.0, 0.5, 0.2, 0.9, 0.4, 1.0])
    counts = np.zeros(6)
    for _ in range(4000):
        found = systematic(chances, 4, rng)
        assert len(found) == 4
        counts[found] += 1
    np.testing.assert_allclose(counts / 4000, chances, atol=4 * 0.5 / np.sqrt(4000))


def test_what_a_form_is_not_for_is_refused_by_name():
    X, y = rare_events(500, 8)
    options = dict(at="posterior", remainder="quadratic")

    def function(theta, X, y):
        return bernoulli(theta, X, y)

    with pytest.raises(ValueError, match="LeastSquares, whose log-likelihood is a quadratic form"):
        MatchedCoreset(LeastSquares(), **options).fit(X, y.astype(float))
    with pytest.raises(ValueError, match="needs slopes"):
        MatchedCoreset(function, **options, start=np.zeros(9)).fit(X, y)
    with pytest.raises(ValueError, match="remainder is for at='posterior'"):
        MatchedCoreset(Logistic(), at="path", remainder="quadratic").fit(X, y)
    with pytest.raises(ValueError, match="remainder is for at='posterior'"):
        MatchedCoreset(Logistic(), at=np.zeros((3, 9)), remainder="quadratic").fit(X, y)
    with pytest.raises(ValueError, match="remainder must be None in a stream"):
        MergeReduce(MatchedCoreset(Logistic(), **options), size=100).partial_fit(X, y)
    with pytest.raises(ValueError, match="remainder of MatchedCoreset must be one of"):
        MatchedCoreset(Logistic(), at="posterior", remainder="cubic").fit(X, y)


def test_rows_that_need_their_form_train_nothing_and_many_columns_hear_of_it():
    X, y = rare_events()
    selector = MatchedCoreset(Logistic(), at="posterior", remainder="quadratic", size=500)
    with pytest.raises(ValueError, match="remainder must be None where a model is trained"):
        CoresetEstimator(selector, LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="remainder must be None where a model is trained"):
        compare([selector], LogisticRegression(), X, y, sizes=[500], seeds=1)
    few = MatchedCoreset(Logistic(), at="posterior", size=300, random_state=0)
    with pytest.warns(UserWarning, match="remainder='quadratic' takes so many parameters"):
        few.fit(X, y)
