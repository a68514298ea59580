"""VCGMM on rows that stay in files: blocks and their order, what breaks off and goes on, and files
that do not fit."""

import errno
import io
from pathlib import Path

import handful.tables as tables_module
import numpy as np
import pytest
from handful import VCGMM, blocks, sources
from handful.blocks import Blocks
from handful.clustering import quantization_error

C = 30


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return (
        4 * rng.normal(size=(C, 5))[rng.integers(C, size=9000)] + rng.normal(size=(9000, 5))
    ).astype(np.float32)


@pytest.fixture
def folder(X, tmp_path):
    for i, part in enumerate(np.split(X, 9)):
        np.save(tmp_path / f"rows{i}.npy", part)
    return tmp_path


def error(X, rows, seed=0):
    model = VCGMM(C, coreset_size=3000, compute_labels=False, random_state=seed).fit(rows)
    return quantization_error(X, model.cluster_centers_)


def test_blocks_and_their_order_change_the_error_no_more_than_seeds_do(X, folder):
    order = np.argsort(X[:, 0])
    ways = [X, Blocks(X, rows=700), Blocks(X, rows=4000), Blocks(X[order], rows=700), str(folder)]
    found = np.array([error(X, rows) for rows in ways])
    seeds = np.array([error(X, X, seed) for seed in range(8)])
    assert found.max() < seeds.max() * 1.02
    assert found.min() > seeds.min() * 0.98


@pytest.mark.parametrize("asked", ["by the caller", "by the memory"])
def test_a_memory_map_is_read_in_blocks_where_one_asks_for_it(X, folder, asked, monkeypatch):
    np.save(folder / "all.npy", X)
    expected = VCGMM(C, coreset_size=3000, random_state=0).fit(Blocks(X, rows=1000))
    mapped = np.load(folder / "all.npy", mmap_mode="r")
    monkeypatch.setattr(tables_module, "ENTRIES", 1000 * X.shape[1])
    if asked == "by the memory":
        monkeypatch.setattr(tables_module, "physical_memory", lambda: X.nbytes)
    model = VCGMM(C, coreset_size=3000, random_state=0)
    model = model.fit(Blocks(mapped) if asked == "by the caller" else mapped)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.cluster_centers_.dtype == np.float32


@pytest.mark.parametrize("method", ["predict", "transform"])
def test_what_is_written_goes_on_where_it_broke_off(X, folder, method, monkeypatch, tmp_path):
    model = VCGMM(C, coreset_size=3000, compute_labels=False, random_state=0).fit(str(folder))
    out = tmp_path / "out" / "written.npy"
    inner = getattr(VCGMM, method)
    out.parent.mkdir()

    # a variable or an attribute would tell what was kept apart
    read = tmp_path / "read"

    def breaks(self, rows, **options):
        with open(read, "a") as file:
            file.write("block\n")
        if len(read.read_text().splitlines()) == 5:
            raise KeyboardInterrupt
        return inner(self, rows, **options)

    monkeypatch.setattr(
        blocks, "_predict", lambda block, model, method, options: breaks(model, block.X)
    )
    monkeypatch.setattr(blocks._predict, "__name__", "_predict")
    kept = Blocks(str(folder), keep=tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)(kept, out=out)
    # it gets its name when it is whole
    assert not out.exists()
    found = getattr(model, method)(kept, out=out)
    # nine files, and the one that broke off once more
    assert len(read.read_text().splitlines()) == 9 + 1
    np.testing.assert_array_equal(found, getattr(model, method)(X))
    assert isinstance(found, np.memmap)
    assert [path.name for path in out.parent.iterdir()] == ["written.npy"]


@pytest.mark.parametrize("breaks_at", [4, 13], ids=["first pass", "second pass"])
def test_a_fit_that_broke_off_goes_on_and_nothing_changes(folder, breaks_at, monkeypatch, tmp_path):
    read = []
    inner = sources._rows
    whole = VCGMM(C, coreset_size=3000, random_state=0).fit(Blocks(str(folder)))

    def breaks(file, stretch):
        read.extend([file] if isinstance(file, Path) else [])
        if len(read) == breaks_at:
            raise KeyboardInterrupt
        return inner(file, stretch)

    monkeypatch.setattr(sources, "_rows", breaks)
    kept = [VCGMM(C, coreset_size=3000, compute_labels=False, random_state=0) for _ in range(3)]
    with pytest.raises(KeyboardInterrupt):
        kept[0].fit(Blocks(str(folder), keep=tmp_path / "kept"))
    kept[1].fit(Blocks(str(folder), keep=tmp_path / "kept"))
    # two passes over nine files, and the block that broke off once more
    assert len(read) == 2 * 9 + 1
    np.testing.assert_array_equal(kept[1].cluster_centers_, whole.cluster_centers_)
    np.testing.assert_array_equal(kept[1].counts_, whole.counts_)
    np.save(folder / "rows3.npy", np.load(folder / "rows3.npy") + 1)
    kept[2].fit(Blocks(str(folder), keep=tmp_path / "kept"))
    # the file that changed; with it the mean, and so every draw
    assert len(read) == 2 * 9 + 1 + 1 + 9
    fresh = VCGMM(C, coreset_size=3000, compute_labels=False, random_state=0).fit(
        Blocks(str(folder))
    )
    np.testing.assert_array_equal(kept[2].cluster_centers_, fresh.cluster_centers_)
    with pytest.raises(ValueError, match="keep must be None for rows that are no files"):
        Blocks(np.ones((3, 2)), keep=tmp_path / "kept")


class Filling(io.FileIO):
    """A file on a disk that is full at the third write, of which half arrives."""

    writes = 0

    def write(self, data):
        Filling.writes += 1
        if Filling.writes == 3:
            super().write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_a_disk_that_fills_while_labels_are_written_leaves_no_labels(
    X, folder, monkeypatch, tmp_path
):
    model = VCGMM(C, coreset_size=3000, compute_labels=False, random_state=0).fit(str(folder))
    out = tmp_path / "out" / "labels.npy"
    out.parent.mkdir()
    monkeypatch.setattr(Filling, "writes", 0)
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "open", Filling, raising=False)
        with pytest.raises(OSError, match="No space left"):
            model.predict(str(folder), out=out)
    assert Filling.writes == 3
    assert not out.exists()
    np.testing.assert_array_equal(model.predict(str(folder), out=out), model.predict(X))
    assert [path.name for path in out.parent.iterdir()] == ["labels.npy"]


def test_what_is_written_replaces_what_was_there(X, tmp_path):
    model = VCGMM(C, coreset_size=3000, compute_labels=False, random_state=0).fit(X)
    out = tmp_path / "labels.npy"
    out.write_bytes(b"of something else")
    np.testing.assert_array_equal(model.predict(Blocks(X, rows=700), out=out), model.predict(X))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (
            lambda X: np.where(np.arange(len(X))[:, None] == 7, np.nan, X),
            r"rows4\.npy\), row 4007 with NaN",
        ),
        (lambda X: X[:, :3], r"rows4\.npy has rows of float32 and shape \(3,\)"),
        (lambda X: X.astype(np.float64), r"rows4\.npy has rows of float64"),
    ],
)
def test_a_file_that_does_not_fit_is_named(X, folder, change, names):
    np.save(folder / "rows4.npy", change(X[4000:5000]))
    with pytest.raises(ValueError, match=names):
        error(X, str(folder))


def test_more_clusters_than_rows_that_count_are_refused_in_blocks(rng):
    X = rng.normal(size=(400, 2))
    X[5] = np.nan
    weights = np.zeros(400)
    weights[[10, 150, 333]] = 1
    blocks = Blocks(X, None, weights, rows=100)
    with pytest.raises(ValueError, match=r"n_clusters must be at most .* got 8 for 3"):
        VCGMM(8, coreset_size=50, random_state=0).fit(blocks)
    # a row that is absent may hold anything
    found = VCGMM(3, coreset_size=50, random_state=0, compute_labels=False).fit(blocks)
    assert sorted(found.cluster_centers_[:, 0]) == pytest.approx(sorted(X[[10, 150, 333], 0]))
    with pytest.raises(ValueError, match="zero for all 400 rows"):
        quantization_error(Blocks(X, None, np.zeros(400), rows=100), X[:2])
