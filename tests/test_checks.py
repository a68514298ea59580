"""The checks that estimators share: what is bad is refused by name, what is good passes."""

from fractions import Fraction

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, Logistic, LogisticSensitivity, MergeReduce, UniformCoreset
from handful.bilevel import ConjugateGradients, Forward, GaussianMixture
from handful.checks import (
    as_generator,
    check_integer,
    check_magnitude,
    check_number,
    check_sample_weight,
    check_size,
)
from handful.clustering.minibatch import MiniBatchKMeans
from handful.clustering.vcgmm import VCGMM
from handful.continual import ReplayBuffer
from handful.proxies import RBF, Nystrom
from handful.sampling import KDPP, UniformSampler
from handful.sensitivity.gmm import MixtureSensitivity

X = np.random.default_rng(0).normal(size=(30, 3))
y = np.tile([0, 1], 15)


@pytest.mark.parametrize("value", [0, 1, np.int64(4), np.uint8(2)])
def test_integers_within_the_limits_pass(value):
    check_integer("size", value, least=0, most=4)


@pytest.mark.parametrize("value", [True, np.True_, 2.0, np.float64(2), "2", None, np.nan, np.array(2), -1, 5])
def test_what_is_no_integer_within_the_limits_is_refused(value):
    with pytest.raises(ValueError, match=r"^size must be an integer of at least 0 and at most 4, got size="):
        check_integer("size", value, least=0, most=4)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.25), np.int8(1), Fraction(1, 3)])
def test_numbers_within_the_limits_pass(value):
    check_number("share", value, above=0, most=1)


@pytest.mark.parametrize("value", [0, -1.0, 1.5, np.nan, np.inf, -np.inf, True, "1", None, 1j, 10**400])
def test_what_is_no_number_within_the_limits_is_refused(value):
    with pytest.raises(ValueError, match=r"^share must be a finite number greater than 0 and at most 1, got share="):
        check_number("share", value, above=0, most=1)


def test_closed_limits_are_allowed_and_open_ones_are_not():
    check_number("x", 0, least=0, below=1)
    check_number("x", -1e308)
    with pytest.raises(ValueError, match=r"^x must be a finite number of at least 0 and less than 1, got x=1\.$"):
        check_number("x", 1, least=0, below=1)
    with pytest.raises(ValueError, match=r"^x must be a finite number, got x=nan\.$"):
        check_number("x", np.nan)


def test_the_message_ends_with_the_owner_and_the_reason_that_were_given():
    with pytest.raises(ValueError, match=r"^l2 of Logistic must be .* greater than 0, got l2=0: no penalty\.$"):
        check_number("l2", 0, above=0, of=Logistic(), why="no penalty")


def test_a_size_beyond_the_rows_is_refused_under_its_own_name():
    check_size(9, 5, 7, repeats=True)
    with pytest.raises(ValueError, match=r"k must be at most .* got k=6 for n_samples=7 of which 5 have a positive"):
        check_size(6, 5, 7, name="k")


COUNTS = {
    "size": lambda: UniformCoreset(True).fit(X),
    "batch_size of a strategy": lambda: BilevelCoreset(size=5, strategy=Forward(batch_size=True)).fit(X, y),
    "n_start": lambda: BilevelCoreset(size=5, strategy=Forward(n_start=True)).fit(X, y),
    "n_steps of conjugate gradients": lambda: BilevelCoreset(size=5, ihvp=ConjugateGradients(n_steps=True)).fit(X, y),
    "n_components": lambda: MixtureSensitivity(5, n_components=True).fit(X),
    "n_init": lambda: BilevelCoreset(GaussianMixture(1, n_init=True), size=5).fit(X),
    "n_clusters": lambda: LogisticSensitivity(5, n_clusters=True).fit(X, y),
    "n_slots": lambda: MergeReduce(UniformCoreset(), size=5, n_slots=True).fit(X),
    "leaf_size": lambda: MergeReduce(UniformCoreset(), size=5, leaf_size=True).fit(X),
    "n_landmarks": lambda: Nystrom(RBF(), n_landmarks=True).fit(X),
    "coreset_size": lambda: VCGMM(2, coreset_size=True).fit(X),
    "n_steps": lambda: MiniBatchKMeans(2, n_steps=True).fit(X),
    "batch_size": lambda: UniformSampler(30, batch_size=True),
    "k": lambda: KDPP(X, True),
    "memory": lambda: ReplayBuffer(UniformCoreset(), size=True).add(X, y),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_bool_is_no_count(name):
    with pytest.raises(ValueError, match=r"must be an integer of at least 1.* got \w+=True"):
        COUNTS[name]()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"shape \(3,\), one weight a row, got \(2,\)"),
        ([[1], [2], [3]], r"shape \(3,\), one weight a row, got \(3, 1\)"),
        ([1, -0.5, 1], "must not be negative, got -0.5 at row 1"),
        ([0, 0, 0], "zero for all 3 rows"),
        ([1, np.nan, 1], "sample_weight contains NaN"),
        ([1, np.inf, 1], "sample_weight contains infinity"),
        ([1e308, 1e308, 1], "finite sum of at least 2e-308, got inf"),
        ([5e-324, 0, 0], "finite sum of at least 2e-308, got 4.94e-324"),
    ],
)
def test_a_bad_sample_weight_is_named(weights, message):
    with pytest.raises(ValueError, match=message):
        check_sample_weight(weights, 3)


def test_float_targets_are_told_of_least_squares():
    targets = np.random.default_rng(0).normal(size=30)
    with pytest.raises(ValueError, match=r"^Unknown label type: continuous\. .* BilevelCoreset\(LeastSquares\("):
        BilevelCoreset(size=5).fit(X, targets)
    assert len(BilevelCoreset(LeastSquares(), size=5).fit(X, targets).indices_) == 5


def test_no_sample_weight_is_ones():
    np.testing.assert_array_equal(check_sample_weight(None, 3), np.ones(3))
    assert check_sample_weight([1, 2, 3], 3).dtype == np.float64


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 4e9), (np.float64, 1e77)])
def test_values_up_to_the_limit_do_not_overflow_and_larger_ones_are_refused(dtype, limit):
    values = np.array([0.9 * limit, -0.9 * limit], dtype=dtype)
    check_magnitude(values, "X", dtype)
    assert np.isfinite(values**4).all()
    for sign in (1, -1):
        with pytest.raises(ValueError, match=r"X must not have entries larger than [14]e\+.* got .* scale the data"):
            check_magnitude(np.array([0, sign * 1.3 * limit], dtype=dtype), "X", dtype)


def test_a_generator_comes_from_all_that_scikit_learn_takes():
    draws = [as_generator(state).random() for state in (0, np.int64(0), np.random.default_rng(0))]
    assert draws[0] == draws[1] == draws[2]
    same = [as_generator(np.random.RandomState(0)).random() for _ in range(2)]
    assert same[0] == same[1]
    assert as_generator(None).random() != as_generator(None).random()
    with pytest.raises(ValueError, match="random_state must be"):
        as_generator("zero")
