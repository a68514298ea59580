"""Streams that go on from a file."""

import json

import numpy as np
import pandas as pd
import pytest
from handful import BilevelCoreset, LightweightCoreset, MergeReduce, UniformCoreset
from handful.streaming import ClassBalancedReservoir, Reservoir, ReservoirCoreset
from scipy import sparse
from sklearn.base import clone

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 3))
y = np.where(X[:, 0] > 0, "up", "down")
TREE = dict(size=15, leaf_size=50, random_state=0)


def plain(values):
    return values.toarray() if sparse.issparse(values) else values


def same(a, b):
    for mine, theirs in zip((*a.rows(), a.indices_), (*b.rows(), b.indices_)):
        np.testing.assert_array_equal(plain(mine), plain(theirs))
    assert (a.n_seen_, a.n_rows_held_, a.get_params().keys()) == (b.n_seen_, b.n_rows_held_, b.get_params().keys())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, pd.DataFrame])
@pytest.mark.parametrize(
    "stream",
    [
        MergeReduce(BilevelCoreset(size=3), **TREE),
        MergeReduce(BilevelCoreset(), n_slots=3, **TREE),
        Reservoir(20, random_state=0),
        ClassBalancedReservoir(20, random_state=0),
        ReservoirCoreset(LightweightCoreset(), size=10, random_state=0),
    ],
    ids=lambda stream: type(stream).__name__,
)
def test_a_stream_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path, form, stream):
    stream.fit(form(X[:330]), y[:330].astype(object))
    path = stream.save(tmp_path / "stream.bin")
    assert path == tmp_path / "stream.bin"
    assert [p.name for p in tmp_path.iterdir()] == ["stream.bin"]  # under the name that was given
    loaded = type(stream).load(str(path), getattr(stream, "selector", None))
    same(stream, loaded)
    for each in (stream, loaded):
        each.partial_fit(form(X[330:]), y[330:])
    same(stream, loaded)
    whole = clone(stream).fit(form(X), y)
    same(whole, loaded)


def test_files_that_do_not_fit_are_refused(tmp_path):
    stream = MergeReduce(UniformCoreset(), **TREE).partial_fit(X)
    path = stream.save(tmp_path / "stream")
    with pytest.raises(ValueError, match=r"saved with another selector than LightweightCoreset\(\)"):
        MergeReduce.load(path, LightweightCoreset())
    with pytest.raises(ValueError, match="saved with another kind than Reservoir"):
        Reservoir.load(path)
    damaged, other, pickled = (tmp_path / f"{name}.npz" for name in ("damaged", "other", "pickled"))
    damaged.write_bytes(path.read_bytes()[:500])
    np.savez(other, text=np.array(json.dumps({"format": 99})))
    np.savez(pickled, text=np.array([{"format": 2}], dtype=object))
    for wrong in (damaged, other, pickled):
        with pytest.raises(ValueError, match="holds no stream that this version wrote, or is damaged"):
            MergeReduce.load(wrong, UniformCoreset())
    with pytest.raises(FileNotFoundError):
        MergeReduce.load(tmp_path / "none", UniformCoreset())
    odd = MergeReduce(UniformCoreset(), **TREE).partial_fit(X[:3], np.array([1, "a", (2,)], dtype=object))
    before = path.read_bytes()
    with pytest.raises(TypeError, match="labels are saved as numbers or words"):
        odd.save(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged.npz", "other.npz", "pickled.npz", "stream"]
