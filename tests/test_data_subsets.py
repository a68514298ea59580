"""`data/subsets.py`: what it makes of the originals is the table that was scaled, and the signs that became labels."""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from handful.data import load
from handful.data.registry import ENTRIES
from scipy.io import savemat
from scipy.sparse import csr_array

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def subsets():
    spec = importlib.util.spec_from_file_location("subsets", ROOT / "data" / "subsets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_scaled_columns_become_integers_again(subsets, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(50, 54))
    X[:, :10] = rng.integers(subsets.LEAST, subsets.GREATEST + 1, size=(50, 10))
    y = rng.integers(1, 8, size=50)
    scaled = np.column_stack([(X[:, :10] - subsets.LEAST) / (subsets.GREATEST - subsets.LEAST), X[:, 10:], y])
    with gzip.open(tmp_path / "table.csv.gz", "wt") as file:
        np.savetxt(file, scaled, fmt="%.6g", delimiter=",", header=",".join("c" * 55), comments="")
    found, labels = subsets.covertype(tmp_path / "table.csv.gz")
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, y)
    assert found.dtype == np.dtype(ENTRIES["covtype_subset"].dtype)


def test_signs_become_labels_and_sparse_rows_dense(subsets, tmp_path):
    X = np.float32([[0.5, 0.0], [0.0, -2.25], [1.0, 3.0]])
    savemat(tmp_path / "file.mat", {"X": csr_array(X.astype(float)), "y": [[-1.0], [1.0], [1.0]]})
    found, labels = subsets.susy(tmp_path / "file.mat")
    np.testing.assert_array_equal(found, X)
    assert labels.tolist() == [0, 1, 1]
    assert found.dtype == np.dtype(ENTRIES["susy_subset"].dtype)


def test_a_subset_is_written_and_read_back(subsets, tmp_path, monkeypatch, capsys):
    original = load("digits")  # which is here without a file
    monkeypatch.setattr(subsets, "FOLDER", tmp_path)
    monkeypatch.setattr(subsets, "SUBSETS", {"digits": (lambda path: (original.X, original.y), "http://x/a.csv", None)})
    monkeypatch.setattr(subsets.pooch, "retrieve", lambda url, sha256, fname, path: path / fname)
    subsets.build("digits")
    with np.load(tmp_path / "digits.npz") as written:
        np.testing.assert_array_equal(written["X"], original.X)
        np.testing.assert_array_equal(written["y"], original.y)
    assert original.describe() in capsys.readouterr().out
    monkeypatch.setattr(
        subsets.pooch, "retrieve", lambda *args, **options: (_ for _ in ()).throw(OSError("no network"))
    )
    with pytest.raises(SystemExit, match=r"no network\n.*put it at .*digits-a.csv by hand"):
        subsets.build("digits")
