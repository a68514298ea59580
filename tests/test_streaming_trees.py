"""Trees that change labels, keep a window, and live on in files."""

import json

import numpy as np
import pytest
from handful import BilevelCoreset, LightweightCoreset, MergeReduce, UniformCoreset
from handful.streaming import DynamicMergeReduce
from scipy import sparse

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3))
y = np.where(X[:, 0] > 0, "up", "down")
OPTIONS = dict(size=15, leaf_size=50, random_state=0)


def same(a, b):
    for mine, theirs in zip(a.rows(), b.rows()):
        if sparse.issparse(mine):
            mine, theirs = mine.toarray(), theirs.toarray()
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(a.indices_, b.indices_)


@pytest.mark.parametrize("selector", [BilevelCoreset(), LightweightCoreset()], ids=repr)
def test_updated_labels_and_weights_are_those_of_a_tree_that_had_them_from_the_start(selector):
    tree = DynamicMergeReduce(selector, **OPTIONS)
    ids = tree.insert(X, y, np.ones(700))
    tree.rows()
    n_before = tree.n_reductions_
    changed = np.array([610, 3, 42, 600])
    new, u = np.array(["up", "down", "up", "up"]), np.array([2.0, 0.0, 3.0, 1.5])
    tree.update(ids[changed], y=new, sample_weight=u)
    labels, weights = y.copy(), np.ones(700)
    labels[changed], weights[changed] = new, u
    whole = DynamicMergeReduce(selector, **OPTIONS)
    whole.insert(X, labels, weights)
    same(tree, whole)
    assert tree.n_reductions_ - n_before < n_before  # only the nodes above two leaves


def test_longer_words_fit_and_errors_change_nothing():
    tree = DynamicMergeReduce(UniformCoreset(), **OPTIONS)
    tree.insert(X[:20], y[:20])
    tree.update([4], y=["sideways"])
    assert tree._leaves[0].y[4] == "sideways"
    before = tree.rows()
    for wrong, message in [
        (dict(ids=[4, 4], y=["a", "b"]), "ids must differ"),
        (dict(ids=[4, 900], y=["a", "b"]), "id 900 is not there"),
        (dict(ids=[4], y=["a", "b"]), r"y must have shape \(1,\)"),
        (dict(ids=[4], y=[1]), "would be taken for further classes"),
        (dict(ids=[4], sample_weight=[-1.0]), "must not be negative"),
    ]:
        with pytest.raises(ValueError, match=message):
            tree.update(**wrong)
        np.testing.assert_array_equal(tree.rows()[1], before[1])


def test_a_window_holds_the_last_rows_whatever_the_chunks():
    windowed = DynamicMergeReduce(LightweightCoreset(), window=130, **OPTIONS)
    for start in range(0, 700, 90):
        windowed.insert(X[start : start + 90], y[start : start + 90])
        assert windowed.n_rows_ == min(130, min(700, start + 90))
    by_hand = DynamicMergeReduce(LightweightCoreset(), **OPTIONS)
    by_hand.insert(X, y)
    by_hand.delete(np.arange(570))
    same(windowed, by_hand)
    assert windowed.indices_.min() >= 570
    with pytest.raises(ValueError, match="window must be an integer of at least 1, got window=0"):
        DynamicMergeReduce(UniformCoreset(), window=0).insert(X)


@pytest.mark.parametrize("options", [{}, {"n_slots": 3}], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_stream_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path, form, options):
    selector = BilevelCoreset(size=3)
    stream = MergeReduce(selector, **OPTIONS, **options)
    stream.partial_fit(form(X[:330]), y[:330])
    path = stream.save(tmp_path / "stream")
    assert path == tmp_path / "stream.npz"
    loaded = MergeReduce.load(path, BilevelCoreset(size=3))
    same(stream, loaded)
    same(stream, MergeReduce.load(tmp_path / "stream", BilevelCoreset(size=3)))  # the name without .npz, as saved
    for tree in (stream, loaded):
        tree.partial_fit(form(X[330:]), y[330:])
    same(stream, loaded)
    assert (stream.n_seen_, stream.n_rows_held_, stream.slot_weights_) == (
        loaded.n_seen_,
        loaded.n_rows_held_,
        loaded.slot_weights_,
    )


def test_a_dynamic_tree_goes_on_from_a_file(tmp_path):
    tree = DynamicMergeReduce(LightweightCoreset(), window=400, **OPTIONS)
    tree.insert(X[:500], y[:500].astype(object))
    loaded = DynamicMergeReduce.load(tree.save(tmp_path / "tree.npz"), LightweightCoreset())
    same(tree, loaded)
    for each in (tree, loaded):
        each.insert(X[500:], y[500:])
        each.delete([450])
    same(tree, loaded)
    assert loaded.window == 400


def test_files_that_do_not_fit_are_refused(tmp_path):
    stream = MergeReduce(UniformCoreset(), **OPTIONS).partial_fit(X)
    path = stream.save(tmp_path / "stream.npz")
    with pytest.raises(ValueError, match=r"saved with the selector UniformCoreset\(\), got LightweightCoreset\(\)"):
        MergeReduce.load(path, LightweightCoreset())
    with pytest.raises(ValueError, match="saved with the kind MergeReduce, got DynamicMergeReduce"):
        DynamicMergeReduce.load(path, UniformCoreset())
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(path.read_bytes()[:500])
    other = tmp_path / "other.npz"
    np.savez(other, state=np.array(json.dumps({"format": 99, "nodes": []})))
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, state=np.array([{"format": 1}], dtype=object))
    for wrong in (damaged, other, pickled):
        with pytest.raises(ValueError, match="holds no tree that this version wrote, or is damaged"):
            MergeReduce.load(wrong, UniformCoreset())
    with pytest.raises(FileNotFoundError):
        MergeReduce.load(tmp_path / "none.npz", UniformCoreset())
    odd = MergeReduce(UniformCoreset(), **OPTIONS).partial_fit(X[:3], np.array([1, "a", (2,)], dtype=object))
    before = path.read_bytes()
    with pytest.raises(TypeError, match="labels are saved as numbers or words"):
        odd.save(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged.npz", "other.npz", "pickled.npz", "stream.npz"]
