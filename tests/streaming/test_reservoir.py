"""Reservoirs: uniform over the stream, or balanced over its classes."""

import warnings

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, StratifiedCoreset, UniformCoreset
from handful.blocks import Blocks
from handful.streaming import ClassBalancedReservoir, Reservoir, ReservoirCoreset
from scipy.stats import chisquare


def chunks(n, rng):
    return np.split(np.arange(n), np.sort(rng.integers(0, n + 1, size=4)))


def test_every_row_of_a_stream_is_held_equally_often_however_it_is_cut():
    counts = np.zeros(40)
    for seed in range(800):
        stream = Reservoir(7, random_state=seed)
        for part in chunks(40, np.random.default_rng(seed)):
            stream.partial_fit(part[:, None].astype(float))
        held = stream.indices_
        assert len(set(held)) == 7
        np.testing.assert_array_equal(stream.rows()[0][:, 0], held)
        counts[held] += 1
    assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("cls", [Reservoir, ClassBalancedReservoir])
def test_short_streams_are_kept_whole_with_weight_one(cls):
    y = np.array([0, 1, 1, 2, 0])
    stream = cls(8, random_state=0)
    for i in range(5):
        stream.partial_fit(np.full((1, 2), i), y[i : i + 1])
    X, labels, weights = stream.rows()
    assert X[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert labels.tolist() == y.tolist()
    assert weights.tolist() == [1] * 5
    assert stream.n_seen_ == stream.n_rows_held_ == 5


def naive_cbrs(y, size, rng):
    # the algorithm's own words, a list of rows; returns the rows held
    memory = []
    full = set()
    seen = {}
    for i, label in enumerate(y):
        seen[label] = seen.get(label, 0) + 1
        if len(memory) < size:
            memory.append(i)
            continue
        count = {c: sum(y[j] == c for j in memory) for c in seen}
        largest = [c for c in count if count[c] == max(count.values())]
        full |= set(largest)
        if label not in full:
            loser = rng.choice(largest)
            memory[memory.index(rng.choice([j for j in memory if y[j] == loser]))] = i
        elif rng.random() <= count[label] / seen[label]:
            memory[memory.index(rng.choice([j for j in memory if y[j] == label]))] = i
    return memory


def test_class_balanced_reservoir_has_the_law_of_the_naive_loop():
    y = np.array([0] * 12 + [1] * 3 + [0] * 6 + [2] * 2 + [1] * 8 + [2] * 4)
    n_draws = 600
    ours = np.zeros(len(y))
    naive = np.zeros(len(y))
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        stream = ClassBalancedReservoir(6, random_state=seed)
        for part in chunks(len(y), rng):
            stream.partial_fit(part[:, None], y[part])
        ours[stream.indices_] += 1
        naive[naive_cbrs(y, 6, rng)] += 1
    spread = np.sqrt((ours * (1 - ours / n_draws) + naive * (1 - naive / n_draws)).clip(1))
    assert (np.abs(ours - naive) < 4.5 * spread).all()


def test_rare_classes_are_held_and_weights_count_what_was_seen():
    rng = np.random.default_rng(0)
    y = np.array(["rare"] * 5 + ["common"] * 900 + ["late"] * 40)
    X = rng.normal(size=(len(y), 2))
    stream = ClassBalancedReservoir(30, random_state=0)
    for part in np.array_split(np.arange(len(y)), 9):
        stream.partial_fit(X[part], y[part])
    held = y[stream.indices_]
    counts = dict(zip(*np.unique(held, return_counts=True)))
    assert counts["rare"] == 5
    assert 12 <= counts["late"] <= 13
    np.testing.assert_array_equal(stream.rows()[1], held)
    np.testing.assert_array_equal(stream.take(X)[0], X[stream.indices_])
    for label in counts:
        assert stream.weights_[held == label].sum() == pytest.approx((y == label).sum())


@pytest.mark.filterwarnings("ignore:y holds . classes so far for 2 places")
@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_class_that_is_not_held_passes_its_weight_on_to_the_others(cut):
    y = np.repeat([3, 1, 2, 0], [100, 60, 30, 10])
    stream = ClassBalancedReservoir(2, random_state=0)
    for part in np.array_split(np.arange(200), 200 // cut):
        stream.partial_fit(part[:, None], y[part])
    held = y[stream.indices_]
    assert stream.classes_.tolist() == [3, 1, 2, 0]
    assert len(set(held)) == 2
    seen = np.array([(y == label).sum() for label in held])
    np.testing.assert_allclose(stream.weights_, 200 * seen / seen.sum())


def test_what_a_reservoir_refuses():
    with pytest.raises(ValueError, match="no row of positive weight so far"):
        Reservoir(3).partial_fit(np.empty((0, 2))).coreset_  # noqa: B018
    with pytest.raises(ValueError, match="fit needs at least 1 row, got 0"):
        Reservoir(3).fit(np.empty((0, 2)))
    with pytest.raises(ValueError, match="takes no sample_weight"):
        Reservoir(3).fit(Blocks(np.zeros((4, 1)), None, np.arange(4.0)))


def test_a_coreset_of_a_reservoir_is_the_selectors_choice_among_the_rows_held():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = (np.arange(3000) % 50 == 0).astype(int)
    stream = ReservoirCoreset(StratifiedCoreset(), size=20, random_state=3).fit(X[:1000], y[:1000])
    stream.partial_fit(X[1000:], y[1000:])
    held = ClassBalancedReservoir(200, random_state=3).fit(X, y)
    assert stream.n_rows_held_ == 200
    assert np.isin(stream.indices_, held.indices_).all()
    assert stream.weights_.sum() == pytest.approx(3000)
    np.testing.assert_array_equal(stream.rows()[1], y[stream.indices_])
    unlabelled = ReservoirCoreset(UniformCoreset(), size=20, n_held=50, random_state=3).fit(X)
    assert np.isin(unlabelled.indices_, Reservoir(50, random_state=3).fit(X).indices_).all()
    targets = ReservoirCoreset(
        UniformCoreset(), size=20, n_held=50, balanced=False, random_state=3
    ).fit(X, X[:, 0])
    np.testing.assert_array_equal(targets.indices_, unlabelled.indices_)


@pytest.mark.parametrize("X", [np.zeros((4, 2)), ["a", "b", "c", "d"], [["a", "b"]] * 4])
def test_a_reservoir_that_is_balanced_over_classes_asks_for_them(X):
    """Of numbers and of words alike."""
    with pytest.raises(ValueError, match="ClassBalancedReservoir requires y to be passed"):
        ClassBalancedReservoir(2).fit(X)
    assert len(Reservoir(2).fit(X).indices_) == 2


BALANCED = {
    "balanced=False": lambda size: ReservoirCoreset(
        BilevelCoreset(LeastSquares(l2=1e-3)), size=size, n_held=size, random_state=0
    ),
    "Reservoir": lambda size: ClassBalancedReservoir(size, random_state=0),
}


@pytest.mark.parametrize("way_out", BALANCED)
def test_continuous_targets_are_no_classes_to_be_balanced_over(way_out):
    """Each would be a class of its own, so that the newest rows drove out all others."""
    X = np.arange(60.0)[:, None]
    whole = np.round(X[:, 0])
    stream = BALANCED[way_out](40).partial_fit(X[:30], whole[:30])
    with pytest.raises(ValueError, match=f"continuous numbers.*: {way_out} takes them"):
        stream.partial_fit(X[30:], whole[30:] + 0.5)
    again = BALANCED[way_out](40).partial_fit(X[:30], whole[:30])
    for one in (stream, again):
        one.partial_fit(X[30:40], whole[30:40])
    np.testing.assert_array_equal(stream.indices_, again.indices_)


def test_the_targets_of_a_drifting_regression_are_held_uniformly_if_asked_for():
    rng = np.random.default_rng(0)
    X = np.linspace(-2, 2, 4000)[:, None]
    y = X[:, 0] ** 2 + 0.1 * rng.normal(size=4000)
    stream = ReservoirCoreset(
        BilevelCoreset(LeastSquares(l2=1e-3)), size=20, balanced=False, random_state=0
    ).fit(X, y)
    held = Reservoir(200, random_state=0).fit(X, y)
    assert np.isin(stream.indices_, held.indices_).all()
    assert abs(np.mean(stream.indices_) / 4000 - 0.5) < 0.25


@pytest.mark.parametrize("way_out", BALANCED)
def test_more_classes_than_places_are_told_once(way_out):
    years = np.arange(100.0)
    stream = BALANCED[way_out](40).partial_fit(years[:40, None], years[:40])
    with pytest.warns(UserWarning, match=f"41 classes so far for 40 places.*{way_out} takes"):
        stream.partial_fit(years[40:41, None], years[40:41])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.partial_fit(years[41:, None], years[41:])


def test_a_coreset_cannot_have_more_rows_than_the_reservoir():
    X = np.arange(200.0)[:, None]
    stream = ReservoirCoreset(UniformCoreset(), size=100, n_held=50, random_state=0)
    with pytest.raises(ValueError, match="n_held must be at least size, got n_held=50 for size=1"):
        stream.fit(X)
    assert len(stream.set_params(n_held=100).fit(X).indices_) == 100
