import itertools
import tracemalloc

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, LogisticSensitivity, MatchedCoreset
from handful.baselines import UniformCoreset
from handful.coreset import Selector
from handful.sensitivity.svm import SVMCoreset
from handful.streaming import MergeReduce
from handful.streaming.merge_reduce import first_to_merge


def make(rng, n, d=3):
    X = rng.normal(size=(n, d))
    y = np.sign(X.sum(axis=1) + 0.5 * rng.normal(size=n))
    return X, y


class First(Selector):
    """The first rows of what it sees, weights scaled: a selector whose merges can be written
    down."""

    def __init__(self, size=2, *, random_state=None):
        self.size = size
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        kept = sample_weight[: self.size]
        return np.arange(self.size), kept * sample_weight.sum() / kept.sum()


def test_the_tree_is_the_binary_one_written_by_hand():
    """Seven leaves of two rows: ((0 1) (2 3)) ((4 5) 6), every node keeping the first two rows of
    its union."""
    X = np.arange(14.0)[:, None]
    stream = MergeReduce(First(), size=3, leaf_size=2, random_state=0).fit(X)

    def join(a, b):
        rows = a[0] + b[0]
        weights = np.array(a[1] + b[1])
        if len(rows) <= 3:
            return rows, list(weights)
        return rows[:3], list(weights[:3] * weights.sum() / weights[:3].sum())

    leaves = [([2 * i, 2 * i + 1], [1.0, 1.0]) for i in range(7)]
    left = join(join(leaves[0], leaves[1]), join(leaves[2], leaves[3]))
    rows, weights = join(left, join(join(leaves[4], leaves[5]), leaves[6]))
    np.testing.assert_array_equal(stream.indices_, rows)
    np.testing.assert_allclose(stream.weights_, weights)
    X_held, y_held, w_held = stream.rows()
    np.testing.assert_array_equal(X_held, X[rows])
    assert y_held is None
    assert w_held.sum() == pytest.approx(14)


def test_memory_is_logarithmic_and_the_coreset_is_valid_at_any_time(rng):
    X, y = make(rng, 8000)
    stream = MergeReduce(SVMCoreset(rule="tight"), size=50, leaf_size=100, random_state=0)
    for start in range(0, 8000, 500):
        stream.partial_fit(X[start : start + 500], y[start : start + 500])
        seen = start + 500
        assert stream.n_rows_held_ <= 100 + 50 * np.ceil(np.log2(seen / 100 + 1))
        assert len(stream.coreset_) <= 50
        assert stream.indices_.max() < seen
        assert stream.weights_.sum() == pytest.approx(seen, rel=0.6)


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_slots_follow_algorithm_3_written_out(slots):
    """The weights after every leaf by the rule as the authors' code has it; two rows a leaf, two a
    node."""
    expected = []
    stream = MergeReduce(First(), size=2, leaf_size=2, n_slots=slots, random_state=0)
    for leaf in range(40):
        stream.partial_fit(np.full((2, 1), leaf))
        expected.append(1)
        if len(expected) > slots:
            if slots == 1 or expected[-2] < expected[-3]:
                at = len(expected) - 2
            else:
                pairs = [(a, i) for i, (a, b) in enumerate(itertools.pairwise(expected)) if a == b]
                at = min(pairs)[1]
            expected[at : at + 2] = [sum(expected[at : at + 2])]
        assert stream.slot_weights_ == expected
        assert len(stream.coreset_) == 2 * len(expected) <= 2 * slots
        # `First` keeps the oldest two rows of a node, and their weights stand for all its leaves.
        X, _, weights = stream.rows()
        np.testing.assert_array_equal(X[::2, 0], np.cumsum([0, *expected[:-1]]))
        np.testing.assert_allclose(weights[::2], expected)
    assert stream.n_rows_held_ <= 2 * slots


def weights_by(rule, slots, n_leaves):
    weights = []
    steps = []
    for _ in range(n_leaves):
        weights = [*weights, 1]
        if len(weights) > slots:
            at = rule(weights)
            weights = [*weights[:at], weights[at] + weights[at + 1], *weights[at + 2 :]]
        steps.append(weights)
    return steps


def test_the_first_pair_of_the_printed_algorithm_is_the_lightest_up_to_three_slots():
    def printed(weights):
        if len(weights) == 2 or weights[-2] < weights[-3]:
            return len(weights) - 2
        return next(i for i, (a, b) in enumerate(itertools.pairwise(weights)) if a == b)

    for slots in (1, 2, 3, 4, 10):
        ours, theirs = (weights_by(rule, slots, 200) for rule in (first_to_merge, printed))
        assert (ours == theirs) == (slots < 4)


def test_a_file_larger_than_the_memory_allowed_passes_through(tmp_path):
    """32 MB on disk, at most 2 MB of it in memory at a time."""
    X = np.lib.format.open_memmap(
        tmp_path / "X.npy", mode="w+", shape=(200_000, 20), dtype=np.float64
    )
    X[:] = np.arange(20)
    X.flush()
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    stream = MergeReduce(UniformCoreset(), size=200, leaf_size=1000, random_state=0).partial_fit(
        mapped[:2000]
    )
    tracemalloc.start()
    stream.partial_fit(mapped[2000:])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stream.n_seen_ == 200_000
    assert peak < 2e6
    assert not isinstance(stream.rows()[0], np.memmap)


@pytest.mark.parametrize("selector", [SVMCoreset(), LogisticSensitivity(), BilevelCoreset()])
def test_a_stream_sorted_by_class_works(rng, selector):
    X, y = make(rng, 2000)
    order = np.argsort(y, kind="stable")
    stream = MergeReduce(selector, size=60, leaf_size=100, random_state=0)
    stream.partial_fit(X[order[:300]], y[order[:300]])
    # one class so far
    assert len(stream.coreset_) <= 60
    stream.partial_fit(X[order[300:]], y[order[300:]])
    assert set(stream.rows()[1]) == {-1, 1}
    assert stream.weights_.sum() == pytest.approx(2000, rel=0.6)


def test_a_leaf_of_one_class_is_drawn_where_leaves_are_matched(rng):
    X, y = make(rng, 600)
    y[:100] = 1.0
    stream = MergeReduce(MatchedCoreset(), size=20, leaf_size=100, random_state=0)
    with pytest.warns(UserWarning, match="one class only.*a larger leaf_size.*ReservoirCoreset"):
        stream.partial_fit(X[:100], y[:100])
    assert len(stream.rows()[1]) == 20
    stream.partial_fit(X[100:], y[100:])
    assert set(stream.rows()[1]) == {-1, 1}
    assert stream.weights_.sum() == pytest.approx(600)


class Interrupting(UniformCoreset):
    """Raises KeyboardInterrupt, once, at the `stop`-th selection of the process."""

    calls = 0
    stop = None

    def _select(self, *args):
        type(self).calls += 1
        if type(self).calls == type(self).stop:
            raise KeyboardInterrupt
        return super()._select(*args)


@pytest.mark.parametrize("stop", range(1, 12))
def test_interrupting_leaves_a_valid_coreset_and_the_stream_can_go_on(rng, stop):
    X, _ = make(rng, 800)
    Interrupting.calls = 0
    Interrupting.stop = stop
    stream = MergeReduce(Interrupting(), size=30, leaf_size=100, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        stream.partial_fit(X)
    seen = stream.n_seen_
    assert stream.weights_.sum() == pytest.approx(seen, rel=0.3)
    stream.partial_fit(X[seen:])
    undisturbed = MergeReduce(UniformCoreset(), size=30, leaf_size=100, random_state=0).fit(X)
    np.testing.assert_array_equal(stream.indices_, undisturbed.indices_)


def test_a_part_of_a_stream_may_have_no_row_that_counts(rng):
    X, _ = make(rng, 500)
    u = np.r_[np.ones(130), np.zeros(200), np.ones(170)]
    stream = MergeReduce(UniformCoreset(), size=40, leaf_size=60, random_state=0).fit(
        X, sample_weight=u
    )
    assert stream.n_seen_ == 500
    assert not ((stream.indices_ >= 130) & (stream.indices_ < 330)).any()
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        stream.partial_fit(X, sample_weight=np.zeros(3))


def test_problems_without_classes_are_not_asked_for_them(rng):
    X = rng.normal(size=(120, 3))
    stream = MergeReduce(BilevelCoreset(LeastSquares()), size=20, leaf_size=50, random_state=0)
    assert len(stream.fit(X, np.ones(120)).indices_) == 20
    assert stream.selector._accepts.y == "targets"
