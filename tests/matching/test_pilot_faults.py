"""Likelihoods on which no pilot can stand are named; starts that lead nowhere are left."""

import warnings

import numpy as np
import pytest
from handful import MatchedCoreset
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import Likelihood
from handful.matching.pilot_faults import jumping
from scipy.special import expit


def step_data(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x[:, None], (x >= 0.6) + rng.normal(size=n)


def step(theta, X, y):
    return -0.5 * (y - (X[:, 0] >= theta)) ** 2


def changing_level(theta, X, y):
    """A step beside two parameters that are smooth."""
    level = np.where(X[:, 0] >= theta[:, :1], theta[:, 1:2], theta[:, 2:3])
    return -0.5 * (y - level) ** 2


@pytest.mark.parametrize("n", [1000, 3000])
@pytest.mark.parametrize(
    ("function", "start"),
    [
        (step, [0.4]),
        (changing_level, [0.4, 0.5, 0.0]),
        (lambda t, X, y: -0.5 * (y - np.floor(5 * X[:, 0] + t)) ** 2, [0.4]),
    ],
)
def test_a_step_in_a_parameter_is_told_and_has_no_divergence(function, start, n):
    matched = MatchedCoreset(function, at="posterior", start=start, random_state=0)
    with pytest.warns(UserWarning, match=r"jumps with parameters \[0\]"):
        matched.fit(*step_data(n))
    assert np.isnan(matched.kl_)


def of_step(theta, X, y):
    """A step beside a slope."""
    return -0.5 * (y - theta[:, 1:2] * (X[:, 0] >= theta[:, :1]) - theta[:, 2:] * X[:, 0]) ** 2


@pytest.mark.parametrize("effect", [0.0, 3.0])
@pytest.mark.parametrize(
    ("function", "start"),
    [
        (changing_level, [3.0, 0.1, 0.0]),
        (of_step, [0.0, 0.1, 0.0]),
        (lambda t, X, y: -0.5 * (y - np.round(t[:, :1] * 6 * X[:, 0])) ** 2, [1.0]),
    ],
)
def test_where_a_step_leaves_no_mode_or_draws_the_step_is_named(function, start, effect):
    X, y = step_data(3000)
    y = y + (effect - 1) * (X[:, 0] >= 0.6)
    matched = MatchedCoreset(function, at="posterior", start=start, random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            matched.fit(X, y)
        except ValueError as error:
            words = str(error)
        else:
            words = str(told[-1].message)
            assert not matched.laplace_.suffices
            assert "no guide here: the log-likelihood jumps" in str(matched.laplace_)
            draws = np.random.default_rng(0).normal(start, 0.01, (200, len(start)))
            assert matched.check(draws, X, y).why.startswith("the log-likelihood jumps")
    assert "jumps with parameters [0], so that it has no slope" in words
    assert "columns" not in words


def test_a_step_between_given_parameters_is_told():
    X, y = step_data(3000)
    draws = np.random.default_rng(0).normal([0.6, 1.0, 0.0], 0.05, (50, 3))
    with pytest.warns(UserWarning, match=r"jumps with parameters \[0\]"):
        MatchedCoreset(changing_level, at=draws).fit(X, y)


@pytest.mark.parametrize("n", [300, 3000])
def test_steps_so_wide_that_nothing_changes_are_refused(n):
    def wide(theta, X, y):
        return step(np.round(theta, 1), X, y)

    with pytest.raises(ValueError, match="a function of steps has no slope"):
        MatchedCoreset(wide, at="posterior", start=[0.4]).fit(*step_data(n))
    # so few rows that none lies near a start
    with pytest.raises(ValueError, match="a function of steps has no slope"):
        MatchedCoreset(step, at="posterior", start=[0.4]).fit(*step_data(100))


SMOOTH = {
    "steep": lambda t, X, y: -0.5 * (y - expit(300 * (X[:, 0] - t))) ** 2,
    "kinks": lambda t, X, y: -np.abs(y - t * X[:, 0]),
    "hinges": lambda t, X, y: -0.5 * (y - np.maximum(0, X[:, 0] - t)) ** 2,
    "tiny": lambda t, X, y: -0.5 * (y - 1e-6 * t * X[:, 0]) ** 2,
    "large": lambda t, X, y: -0.5 * (y - 1e6 * t * X[:, 0]) ** 2,
    "waves": lambda t, X, y: -0.5 * (y - np.sin(50 * t * X[:, 0])) ** 2,
    "even": lambda t, X, y: -0.5 * (y - np.exp(-((20 * (t - 0.4)) ** 2)) * X[:, 0]) ** 2,
    "overflow": lambda t, X, y: -np.exp(3000 * t * X[:, 0]),
    "bounded": lambda t, X, y: np.where(t > 0, np.log(np.maximum(t, 1e-300)) - t * y**2, -np.inf),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("n", [50, 300, 3000])
def test_what_is_continuous_does_not_jump(name, n):
    X, y = step_data(n)
    rows = LikelihoodSums(Likelihood(SMOOTH[name]), X, y, np.ones(n))
    assert not jumping(rows, np.array([[0.4], [0.1], [0.7]]), np.eye(1)).any()


def product(theta, X, y):
    return -0.5 * (y - theta[:, :1] * theta[:, 1:] * X[:, 0]) ** 2


def non_centred(theta, X, y):
    """A slope, the logarithm of a deviation, and an intercept of each of six groups times it."""
    group = X[:, 1].astype(int)
    eta = theta[:, :1] * X[:, 0] + np.exp(theta[:, 1:2]) * theta[:, 2:][:, group]
    return -0.5 * (y - eta) ** 2


def test_starts_that_are_saddles_or_flat_are_left():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    y = 2 * x + rng.normal(size=2000)
    matched = MatchedCoreset(product, at="posterior", start=np.zeros(2), random_state=0).fit(
        x[:, None], y
    )
    assert np.allclose(matched.modes_.prod(1), 2, atol=0.1)
    group = rng.integers(0, 6, 2000)
    X = np.column_stack([x, group])
    y = y + rng.normal(size=6)[group]
    matched = MatchedCoreset(non_centred, at="posterior", start=np.zeros(8), random_state=0).fit(
        X, y
    )
    assert matched.kl_ < 1e-3


def test_what_is_flat_everywhere_is_refused_and_a_ridge_is_named():
    X, y = step_data(500)
    with pytest.raises(ValueError, match="no row changes with any parameter"):
        MatchedCoreset(lambda t, X, y: 0 * t + y, at="posterior", start=[0.0]).fit(X, y)

    def ridge(theta, X, y):
        return -0.5 * (y - theta[:, :1] - theta[:, 1:]) ** 2

    with pytest.warns(UserWarning, match=r"flat along a direction of parameters \[0, 1\]"):
        MatchedCoreset(
            ridge, at="posterior", start=[0.0, 0.1], prior=lambda t: 0 * t[:, 0], random_state=0
        ).fit(X, y)


@np.errstate(invalid="ignore")
def standardised(theta, X, y):
    return -0.5 * (y - theta * (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()) ** 2


def at_risk(theta, X, y):
    """A risk set: Cox's partial likelihood."""
    eta = theta * X[:, 0]
    later = np.cumsum(np.exp(eta)[:, ::-1], axis=1)[:, ::-1]
    return eta - np.log(later)


@pytest.mark.parametrize(
    "function",
    [
        standardised,
        at_risk,
        lambda t, X, y: step(t, X, y) / len(X),
        lambda t, X, y: -0.5 * (y - t + y.mean()) ** 2,
    ],
)
@pytest.mark.parametrize("at", ["posterior", np.linspace(0.1, 1, 9)[:, None]])
def test_a_likelihood_that_looks_at_its_block_is_named(function, at):
    with pytest.raises(ValueError, match=r"of row \d+ is .* alone and .* in company"):
        MatchedCoreset(function, at=at, start=[0.4]).fit(*step_data(500))


def test_a_likelihood_of_random_numbers_is_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="in company"):
        MatchedCoreset(
            lambda t, X, y: -0.5 * (y - t - rng.normal(size=len(X))) ** 2,
            at="posterior",
            start=[0.4],
        ).fit(*step_data(500))


def test_no_draw_and_one_row_are_no_division_by_zero():
    X, y = step_data(500)

    def normal(theta, X, y):
        return -0.5 * (y - theta) ** 2

    for size in (1, 2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            matched = MatchedCoreset(
                normal, at="posterior", start=[0.0], size=size, random_state=0
            ).fit(X, y)
        assert len(matched.indices_) <= size


# What a function gets -----------------------------------------------------------------------------


def test_integers_stay_integers_and_y_may_have_two_columns():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 5, size=(2000, 2))
    y = rng.normal(size=2000) + 0.3 * group[:, 0]

    def of_groups(theta, X, y):
        return -0.5 * (y - theta[:, X[:, 0]]) ** 2

    matched = MatchedCoreset(of_groups, at="posterior", start=np.zeros(5), random_state=0)
    matched.fit(group, y)
    assert matched.kl_ < 1e-3
    assert matched.log_likelihood(matched.modes_, group, y).shape == (1, 2000)
    X = rng.normal(size=(2000, 2))
    time = np.exp(X @ [0.5, -0.3]) * rng.weibull(1.5, 2000)
    both = np.column_stack([np.minimum(time, 2), time < 2])

    def censored(theta, X, y):
        z = np.exp(theta[:, 2:]) * (np.log(y[:, 0]) - theta[:, :2] @ X.T)
        return y[:, 1] * (theta[:, 2:] + z) - np.exp(z)

    matched = MatchedCoreset(censored, at="posterior", start=np.zeros(3), random_state=0)
    matched.fit(X, both)
    assert matched.kl_ < 1e-3
    _, y_small, w = matched.take(X, both)
    assert y_small.shape == (len(w), 2)
    draws = np.repeat(matched.laplace_.draws, 2, axis=0)
    assert matched.check(draws, X, both).variance < 0.01
    with pytest.raises(ValueError, match="y has missing labels"):
        matched.fit(X, np.where(both > 1.9, np.nan, both))


def test_what_laplace_gives_by_itself_is_right_where_it_suffices():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = (rng.random(5000) < expit(X @ [1.0, -0.5, 0.0])).astype(int)
    matched = MatchedCoreset(at="posterior", random_state=0).fit(X, y)
    laplace = matched.laplace_
    assert laplace.suffices
    assert str(laplace).startswith("Laplace with importance weights suffices here (variance")
    assert abs(laplace.weights.sum() - 1) < 1e-12
    assert laplace.draws.shape == (200, 4)
    # the weighted mean is the mode to a part of a deviation
    mean = laplace.weights @ laplace.draws
    assert (np.abs(mean - matched.modes_[0]) < 0.3 * laplace.draws.std(0)).all()
    rare = np.eye(3)[np.where(np.arange(5000) < 4, 0, 1 + np.arange(5000) % 2)]
    few = (np.arange(5000) % 3 == 0) & (np.arange(5000) > 3)
    far = MatchedCoreset(at="posterior", prior=20.0, random_state=0).fit(rare, few)
    assert not far.laplace_.suffices


def test_draws_far_out_are_refused_in_words_and_not_by_an_infinite_score():
    X, y = step_data(500)

    def normal(theta, X, y):
        return -0.5 * (y - theta) ** 2

    matched = MatchedCoreset(normal, at="posterior", start=[0.0], random_state=0).fit(X, y)
    far = np.random.default_rng(0).normal(5.0, 1.0, (500, 1))
    report = matched.check(far, X, y)
    assert report.verdict == "refuse"
    assert "median draw lies more than 10 nats a parameter below the mode" in str(report)
    assert "inf" not in str(report)
    # copies of the mode
    assert "z-score is 1e+12" in str(matched.check(np.repeat(matched.modes_, 500, axis=0), X, y))


def test_advice_is_given_once_and_is_no_warning(caplog, monkeypatch):
    monkeypatch.setattr("handful.running._told", set())
    X, y = step_data(500)

    def normal(theta, X, y):
        return -0.5 * (y - theta) ** 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            MatchedCoreset(normal, at="posterior", start=[0.0], random_state=0).fit(X, y)
    assert [line for line in caplog.messages if "suffices here" in line] == caplog.messages
    assert len(caplog.messages) == 1
