"""Rows in blocks: whatever they come in, the same choice; near that of an array; one block in memory at a time."""

import numpy as np
import pandas as pd
import pytest
from handful import (
    BilevelCoreset,
    KCenter,
    KMeansPlusPlus,
    LightweightCoreset,
    Logistic,
    LogisticSensitivity,
    StratifiedCoreset,
    SVMCoreset,
    UniformCoreset,
)
from handful.blocks import Blocks
from handful.sensitivity import MixtureSensitivity

dask = pytest.importorskip("dask", reason="dask comes with the extra handful[distributed]")
da, db, dd = (pytest.importorskip(f"dask.{name}") for name in ("array", "bag", "dataframe"))

N, D, ROWS = 2000, 4, 500  # rows, columns, rows of a block
SELECTORS = [
    UniformCoreset(20, random_state=0),
    StratifiedCoreset(20, random_state=0),
    KCenter(20, random_state=0),
    KMeansPlusPlus(20, weighting="cells", random_state=0),
    LightweightCoreset(20, random_state=0),
    MixtureSensitivity(20, random_state=0),
    LogisticSensitivity(20, random_state=0),
    SVMCoreset(20, random_state=0),
    BilevelCoreset(Logistic(l2=1e-2), size=20, random_state=0),
]
every_selector = pytest.mark.parametrize("selector", SELECTORS, ids=lambda selector: type(selector).__name__)


@pytest.fixture(autouse=True)
def in_turn():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    return X, (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int), rng.integers(0, 3, N).astype(float)


@pytest.fixture(scope="module")
def forms(rows, tmp_path_factory):
    """The same rows in everything that `fit` takes, by name: its arguments."""
    X, y, w = rows
    folder, frame = tmp_path_factory.mktemp("rows"), pd.DataFrame(X, columns=list("abcd")).assign(label=y, w=w)
    for start in range(0, N, ROWS):
        part = slice(start, start + ROWS)
        for name, values in (("X", X), ("y", y), ("w", w)):
            np.save(folder / f"{name}{start}.npy", values[part])  # X1000 comes before X500 by letters
        frame[part].to_parquet(folder / f"{start}.parquet")
    lazy = dd.from_pandas(frame, chunksize=ROWS)
    chunks = [tuple(values[start : start + ROWS] for values in rows) for start in range(0, N, ROWS)]
    return {
        "array": (Blocks(X, y, w, rows=ROWS),),
        ".npy": (str(folder / "X*.npy"), str(folder / "y*.npy"), str(folder / "w*.npy")),
        ".parquet": (str(folder / "*.parquet"), "label", "w"),
        "dask array": (da.from_array(X, chunks=(ROWS, 3)), da.from_array(y, chunks=300), da.from_array(w, chunks=ROWS)),
        "dask array, numpy labels": (da.from_array(X, chunks=(ROWS, 3)), y, w),
        "dask frame": (lazy[list("abcd")], lazy["label"], lazy["w"]),
        "dask bag": (db.from_sequence(chunks, npartitions=4),),
    }


@every_selector
def test_the_choice_does_not_depend_on_what_the_rows_come_in(selector, rows, forms):
    X, y, _ = rows
    first = selector.fit(*forms["array"]).coreset_
    for name, given in forms.items():
        found = selector.fit(*given)
        np.testing.assert_array_equal(found.indices_, first.indices, err_msg=name)
        np.testing.assert_allclose(found.weights_, first.weights, rtol=1e-12)
        X_small, y_small, *_, w = found.take(*given)
        np.testing.assert_array_equal(np.asarray(X_small), X[first.indices])
        np.testing.assert_array_equal(np.asarray(y_small), y[first.indices])
        np.testing.assert_array_equal(w, found.weights_)
