"""A draw that misses a class says so, and names what keeps it."""

import warnings
from functools import partial

import numpy as np
import pytest
from handful import (
    BilevelCoreset,
    CoresetEstimator,
    LightweightCoreset,
    Logistic,
    SVMCoreset,
    UniformCoreset,
)
from handful.baselines import BalancedCoreset, KCenter, StratifiedCoreset
from handful.blocks import Blocks
from handful.parts import class_totals
from handful.sensitivity import LogisticSensitivity, MixtureSensitivity
from handful.streaming import MergeReduce
from sklearn.linear_model import SGDClassifier

N = 20_000
RARE = 123
X = np.random.default_rng(0).normal(size=(N, 3))
Y = (np.arange(N) == RARE).astype(int)
DRAWS = [
    UniformCoreset,
    BalancedCoreset,
    LightweightCoreset,
    MixtureSensitivity,
    LogisticSensitivity,
    SVMCoreset,
]
every_draw = pytest.mark.parametrize("draw", DRAWS)


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if "drew no row of class" in str(w.message)]


@every_draw
@pytest.mark.parametrize(
    "y", [Y, Y.astype(bool), Y.astype(float), np.where(Y, "rare", "common")], ids="ibfw"
)
def test_a_class_without_a_row_is_named_with_its_share_where_and_only_where_it_is_missed(draw, y):
    for seed in range(3):
        selector = draw(100, random_state=seed)
        said = warned(partial(selector.fit, X, y))
        missed = RARE not in selector.indices_
        assert len(said) == missed
        if missed:
            label = y[RARE].item()
            assert said[0].startswith(
                f"{draw.__name__} drew no row of class {label!r} (0.005 % of all): "
            )
            assert "StratifiedCoreset and BilevelCoreset keep each class" in said[0]
    # one row cannot have two classes
    assert len(warned(lambda: draw(1, random_state=0).fit(X, y))) == 0


@pytest.mark.parametrize(
    "draw", [UniformCoreset, BalancedCoreset, MixtureSensitivity, LogisticSensitivity, SVMCoreset]
)
def test_rows_in_blocks_are_told_of_alike(draw):
    selector = draw(100, random_state=0)
    said = warned(lambda: selector.fit(Blocks(X, Y, rows=3000)))
    assert len(said) == (RARE not in selector.indices_)
    assert all("class 1 (0.005 % of all)" in text for text in said)


def test_what_has_no_classes_or_keeps_them_or_looks_at_none_is_not_told_of():
    whole = np.random.default_rng(0).integers(0, 10_000, N)
    for selector, y in [
        (UniformCoreset(100), None),
        (UniformCoreset(100), X[:, 0]),
        (UniformCoreset(5000), whole),
        (UniformCoreset(5000), whole.astype(float)),
        (UniformCoreset(5), np.arange(N) % 10),
        (StratifiedCoreset(100), Y),
        (BilevelCoreset(Logistic(), size=10, random_state=0), Y),
        (KCenter(20), Y),
    ]:
        assert warned(partial(selector.fit, X, y)) == []
    # rows of weight zero are of no class
    absent = np.where(Y, 0.0, 1.0)
    assert warned(lambda: UniformCoreset(100, random_state=0).fit(X, Y, absent)) == []


def test_the_share_is_that_of_the_weight_and_the_largest_lost_classes_come_first():
    y = np.concatenate([np.zeros(N - 15, int), np.repeat([1, 2, 3, 4, 5], 3)])
    weight = np.where(y == 4, 100.0, 1.0)
    (said,) = warned(lambda: SVMless(6, random_state=1).fit(np.zeros((N, 1)), y, weight))
    assert "class 4 (1.5 % of all), 1 (0.015 % of all), 2 (0.015 % of all) and 2 more:" in said


class SVMless(UniformCoreset):
    """Takes the first rows, which are of class 0."""

    def _select(self, X, y, sample_weight, rng):
        return np.arange(self.size), np.full(self.size, sample_weight.sum() / self.size)


def test_an_estimator_says_it_in_fit_and_parts_of_the_data_say_nothing():
    model = CoresetEstimator(UniformCoreset(100, random_state=1), SGDClassifier())
    with (
        pytest.raises(ValueError, match="1 class"),
        pytest.warns(UserWarning, match="drew no row of class 1"),
    ):
        model.fit(X, Y)
    assert warned(lambda: model.partial_fit(X, Y, classes=[0, 1])) == []
    stream = MergeReduce(UniformCoreset(), size=50, leaf_size=1000, random_state=0)
    assert warned(lambda: stream.fit(X, Y).rows()) == []


def test_a_stream_names_a_class_of_which_no_row_is_left():
    stream = MergeReduce(LogisticSensitivity(), size=20, leaf_size=1000, random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="no row of class 1 is left of the stream, of 2 classes"):
        _, y, _ = stream.rows()
    assert set(y) == {0}


def test_class_totals_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, 500).astype(float)
    for y in (
        rng.integers(-3, 4, 500),
        rng.integers(-3, 4, 500).astype(float),
        rng.integers(0, 2, 500) * 10**12,
        rng.integers(0, 3, 500) + 2**60,
        rng.integers(0, 3, 500).astype(np.uint64) + np.uint64(2**64 - 3),
        rng.choice(["a", "bb"], 500),
        rng.choice(["a", "bb"], 500).astype(object),
        rng.random(500) < 0.5,
        rng.integers(0, 2, 500).astype(object),
        rng.integers(0, 2, 500).astype(np.uint8),
    ):
        naive = {}
        for label, weight in zip(y.tolist(), weights.tolist()):
            if weight:
                naive[label] = naive.get(label, 0) + weight
        assert class_totals(y, weights) == naive
    for y in (
        None,
        rng.random(500),
        np.eye(500),
        np.arange(500),
        np.array(["2020-01-01"] * 500, "M8[D]"),
    ):
        assert class_totals(y, weights) is None
