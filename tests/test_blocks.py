"""Rows in blocks: whatever they come in, the same choice; near that of an array; one block in
memory at a time."""

import importlib.util
import linecache
import os
import signal
import threading
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from frames import LIBRARIES, frame_of
from handful import (
    VCGMM,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    KMeansPlusPlus,
    LightweightCoreset,
    Logistic,
    LogisticSensitivity,
    MergeReduce,
    StratifiedCoreset,
    SVMCoreset,
    UniformCoreset,
)
from handful.bilevel import ProxyCoreset
from handful.blocks import Blocks, split_places
from handful.proxies import RBF, Nystrom
from handful.sensitivity import MixtureSensitivity
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

dask = pytest.importorskip("dask", reason="dask comes with the extra handful[distributed]")
da, db, dd = (pytest.importorskip(f"dask.{name}") for name in ("array", "bag", "dataframe"))

# rows, columns, rows of a block
N = 2000
D = 4
ROWS = 500
SELECTORS = [
    UniformCoreset(20, random_state=0),
    StratifiedCoreset(20, random_state=0),
    KCenter(20, random_state=0),
    KMeansPlusPlus(20, weighting="cells", random_state=0),
    LightweightCoreset(20, random_state=0),
    MixtureSensitivity(20, random_state=0),
    LogisticSensitivity(20, random_state=0),
    SVMCoreset(20, n_clusters=2, random_state=0),
    BilevelCoreset(Logistic(l2=1e-2), size=20, random_state=0),
]
every_selector = pytest.mark.parametrize(
    "selector", SELECTORS, ids=lambda selector: type(selector).__name__
)


@pytest.fixture(autouse=True)
def in_turn():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    return (
        X,
        (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int),
        rng.integers(0, 3, N).astype(float),
    )


@pytest.fixture(scope="module")
def forms(rows, tmp_path_factory):
    """The same rows in everything that `fit` takes, by name: its arguments."""
    X, y, w = rows
    folder = tmp_path_factory.mktemp("rows")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y, w=w)
    for start in range(0, N, ROWS):
        part = slice(start, start + ROWS)
        for name, values in (("X", X), ("y", y), ("w", w)):
            # X1000 comes before X500 by letters
            np.save(folder / f"{name}{start}.npy", values[part])
        frame[part].to_parquet(folder / f"{start}.parquet")
    lazy = dd.from_pandas(frame, chunksize=ROWS)
    chunks = [tuple(values[start : start + ROWS] for values in rows) for start in range(0, N, ROWS)]
    return {
        "array": (Blocks(X, y, w, rows=ROWS),),
        ".npy": (str(folder / "X*.npy"), str(folder / "y*.npy"), str(folder / "w*.npy")),
        ".parquet": (str(folder / "*.parquet"), "label", "w"),
        "dask array": (
            da.from_array(X, chunks=(ROWS, 3)),
            da.from_array(y, chunks=300),
            da.from_array(w, chunks=ROWS),
        ),
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
        # a block of a frame lies column by column, which changes the last digits of what a solver
        # ends with
        np.testing.assert_allclose(found.weights_, first.weights, rtol=1e-6)
        X_small, y_small, *_, w = found.take(*given)
        np.testing.assert_array_equal(np.asarray(X_small), X[first.indices])
        np.testing.assert_array_equal(np.asarray(y_small), y[first.indices])
        np.testing.assert_array_equal(w, found.weights_)


@pytest.mark.parametrize(
    "selector",
    [
        s
        for s in SELECTORS
        if type(s).__name__ not in ("KCenter", "KMeansPlusPlus", "BilevelCoreset")
    ],
)
def test_draws_estimate_sums_without_bias_and_with_hardly_more_noise(selector, rows):
    X, y, w = rows
    cost = 1 + X[:, 0] ** 2 + y
    sums = {}
    for name, data in (("array", rows), ("blocks", (Blocks(X, y, w, rows=ROWS),))):
        fits = (selector.set_params(size=60, random_state=seed).fit(*data) for seed in range(40))
        sums[name] = [found.weights_ @ cost[found.indices_] for found in fits]
    selector.set_params(size=20, random_state=0)
    error = np.std(sums["blocks"], ddof=1) / np.sqrt(40)
    assert abs(np.mean(sums["blocks"]) - w @ cost) < 4 * error
    # 40 fits; four blocks add an eighth
    assert np.std(sums["blocks"]) < 1.5 * np.std(sums["array"])


@pytest.mark.parametrize("order", ["as they come", "by a column", "by class"])
def test_training_on_rows_chosen_in_blocks_is_as_good(order):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24_000, 4))
    y = (rng.random(24_000) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))).astype(int)
    (X, X_new) = np.split(X, 2)
    (y, y_new) = np.split(y, 2)
    C = 1 / (1e-3 * 12_000)
    by = {
        "as they come": np.arange(12_000),
        "by a column": np.argsort(X[:, 0]),
        "by class": np.argsort(y),
    }[order]
    X = X[by]
    y = y[by]

    def loss(indices, weights):
        model = LogisticRegression(C=C).fit(X[indices], y[indices], sample_weight=weights)
        return log_loss(y_new, model.predict_proba(X_new))

    few = BilevelCoreset(Logistic(l2=1e-3), size=40, weighting="optimised", random_state=0)
    found = few.fit(Blocks(X, y, rows=1500))
    assert len(found.indices_) <= 40
    assert found.weights_.sum() == pytest.approx(12_000)
    # 40 uniform: .06
    assert loss(found.indices_, found.weights_) < loss(np.arange(12_000), np.ones(12_000)) + 0.005


def test_a_function_is_mapped_and_written(rows, forms, tmp_path):
    X = rows[0]
    for name in ("array", ".npy", "dask bag"):
        blocks = Blocks(*forms[name]) if name != "array" else forms[name][0]
        assert sum(blocks.map(mass)) == rows[2].sum()
        written = blocks.write(tmp_path / "out.npy", first_column)
        np.testing.assert_array_equal(written, X[:, 0])
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), X[:, 0])


def mass(block):
    return block.weights.sum()


def first_column(block):
    return block.X[:, 0]


# --- what is refused


def bag(*items):
    return db.from_sequence(list(items), npartitions=len(items))


def odd_data(rows, tmp_path):
    X, y, w = rows
    frame = pd.DataFrame(X, columns=list("abcd"))
    for i, names in enumerate(["abcd", "bacd"]):
        frame[list(names)].to_parquet(tmp_path / f"{i}.parquet")
    np.save(tmp_path / "X.npy", X), np.save(tmp_path / "y.npy", y[:-1])
    lazy = dd.from_pandas(frame, npartitions=2)
    ok = (X[:600], y[:600])
    with_nan = np.where(np.arange(N)[:, None] == 700, np.nan, X)
    return {
        "block 1 has no y, but block 0 has numbers in y": (bag(ok, (X[600:],)),),
        "block 1 has words in y, but block 0 has numbers": (
            bag(ok, (X[600:], y[600:].astype(str))),
        ),
        "block 1 has sparse rows, but block 0 has dense": (
            bag(ok, (sparse.csr_matrix(X[600:]), y[600:])),
        ),
        "block 1 has .3,. columns": (bag(ok, (X[600:, :3], y[600:])),),
        "block 1 has the columns b, a, c, d": (str(tmp_path / "*.parquet"),),
        "block 1 has no sample_weight": (bag((*ok, w[:600]), ok),),
        r"block 1 \(rows from 500 on\), row 700 with NaN or infinity": (
            Blocks(with_nan, y, rows=500),
        ),
        "X must name files": (str(tmp_path / "none*.npy"),),
        "inconsistent numbers of samples": (str(tmp_path / "X.npy"), str(tmp_path / "y.npy")),
        "has no column 'lable', only a, b, c, d": (str(tmp_path / "0.parquet"), "lable"),
        "y must name files, as X does, got ndarray": (str(tmp_path / "X.npy"), y),
        "y must name 1 files, one for each of X, got 2": (
            str(tmp_path / "X.npy"),
            [str(tmp_path / "y.npy")] * 2,
        ),
        "0 sample": (Blocks(X[:0]),),
        "y must have one entry a row, 2000 of them, got 5": (da.from_array(X, chunks=500), y[:5]),
        "y must be dask data in 2 chunks": (lazy, pd.Series(y)),
        "None for a bag": (bag(ok), y),
        "None beside Blocks": (Blocks(X), y),
        "X must be a dask array, frame or bag": (X, da.from_array(y)),
    }


def test_what_differs_between_blocks_is_named(rows, tmp_path):
    for message, given in odd_data(rows, tmp_path).items():
        with pytest.raises(ValueError, match=message):
            KCenter(20, random_state=0).fit(*given)


def nothing(block):
    return None


def one_row(block):
    return block.X[:1]


def words_of_any_length(block):
    return np.array([str(i) for i in block.ids])


@pytest.mark.parametrize("function", [nothing, one_row, words_of_any_length])
def test_what_is_written_is_an_array_with_a_row_for_each_of_the_block_in_one_form(
    rows, function, tmp_path
):
    with pytest.raises(ValueError, match="what is written of block"):
        Blocks(rows[0], rows=20).write(tmp_path / "out.npy", function)


def test_rows_that_are_not_there_and_blocks_of_no_rows_are_refused(rows):
    blocks = Blocks(rows[0], rows=ROWS)
    for wrong in (-1, N):
        with pytest.raises(ValueError, match=f"holds row {wrong}, but got {N} rows"):
            blocks.take([0, wrong])
    assert blocks.take([]).X.shape == (0, D)
    for size in (0, -3, 2.5):
        with pytest.raises(ValueError, match="rows must be an integer of at least 1"):
            Blocks(rows[0], rows=size)
    model = CoresetEstimator(UniformCoreset(200), LogisticRegression()).fit(*rows[:2])
    with pytest.raises(ValueError, match="score of CoresetEstimator must have its rows in memory"):
        model.score(blocks)


def test_what_is_kept_of_a_function_is_not_taken_for_another_of_its_name(rows, tmp_path):
    np.save(tmp_path / "X.npy", rows[0])
    blocks = Blocks(str(tmp_path / "X.npy"), keep=tmp_path / "kept")
    found = []
    for source in ("def total(block): return block.X.sum()", "def total(block): return len(block)"):
        (tmp_path / "own.py").write_text(source)
        spec = importlib.util.spec_from_file_location("own", tmp_path / "own.py")
        spec.loader.exec_module(own := importlib.util.module_from_spec(spec))
        linecache.checkcache()
        found += blocks.map(own.total)
    assert found == [pytest.approx(rows[0].sum()), N]
    for kept in (tmp_path / "kept").iterdir():
        # damaged: read again
        kept.write_bytes(b"")
    assert blocks.map(own.total) == [N]


class Times:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, block):
        return self.factor * block.X.sum()

    def of(self, block):
        return self(block)


def of_a_variable(block):
    return FACTOR * block.X.sum()


FACTOR = 1


def test_what_is_kept_is_not_given_for_a_function_that_reads_other_values(
    rows, tmp_path, monkeypatch
):
    np.save(tmp_path / "X.npy", rows[0])
    blocks = Blocks(str(tmp_path / "X.npy"), keep=tmp_path / "kept")
    total = rows[0].sum()

    def times(factor):
        return lambda block: factor * block.X.sum()

    pairs = {
        "lambdas of a line": [lambda b: b.X.sum(), lambda b: 2 * b.X.sum()],
        "closures": [times(1), times(2)],
        "methods": [Times(1).of, Times(2).of],
        "objects": [Times(1), Times(2)],
    }
    for _ in range(2):
        for functions in pairs.values():
            found = [blocks.map(function) for function in functions]
            np.testing.assert_allclose(found, [[total], [2 * total]])
    first = blocks.map(of_a_variable)
    monkeypatch.setitem(globals(), "FACTOR", 2)
    np.testing.assert_allclose([first, blocks.map(of_a_variable)], [[total], [2 * total]])
    assert len(list((tmp_path / "kept").iterdir())) == 2 * len(pairs) + 2
    lock = threading.Lock()
    with pytest.raises(TypeError, match="give what it needs as further arguments"):
        blocks.map(lambda block: lock)


def test_labels_that_are_words_of_a_frame_are_written_in_their_width(rows, tmp_path):
    X, y, _ = rows
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["label"] = np.where(y > y.mean(), "yes", "no")
    (tmp_path / "X").mkdir()
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        frame.iloc[part].to_parquet(tmp_path / "X" / f"{k}.parquet")
    few = CoresetEstimator(UniformCoreset(200, random_state=0), LogisticRegression())
    blocks = Blocks(tmp_path / "X", "label")
    said = few.fit(blocks).predict(blocks, out=tmp_path / "said.npy")
    assert said.dtype == "<U3"
    np.testing.assert_array_equal(said, few.predict(frame[list("abcd")]))


def test_what_was_kept_and_is_damaged_or_belongs_to_another_block_is_computed_again(tmp_path):
    files = [tmp_path / f"{i}.npy" for i in range(3)]
    for i, file in enumerate(files):
        np.save(file, np.random.default_rng(i).normal(size=(60, 3)))

    def chosen():
        return (
            KCenter(5, random_state=0).fit(Blocks(files, keep=tmp_path / "kept")).indices_.tolist()
        )

    expected = chosen()
    for path in (kept := {path: path.read_bytes() for path in (tmp_path / "kept").iterdir()}):
        flipped = []
        for at in range(0, len(kept[path]), 29):
            flipped.append(bytearray(kept[path]))
            flipped[-1][at] ^= 255
        for content in (b"", kept[path][:-9], bytes(len(kept[path])), *flipped, *kept.values()):
            path.write_bytes(content)
            assert chosen() == expected


@pytest.mark.parametrize("form", ["polars", "pyarrow", "coo", "list"])
def test_blocks_of_other_tables_are_those_of_the_array(rows, form):
    X = rows[0]
    if form in LIBRARIES:
        given = frame_of(form, pd.DataFrame(X, columns=list("abcd")))
    else:
        given = sparse.coo_matrix(X) if form == "coo" else X.tolist()
    found = KCenter(20, random_state=0).fit(Blocks(given, rows=ROWS))
    np.testing.assert_array_equal(
        found.indices_, KCenter(20, random_state=0).fit(Blocks(X, rows=ROWS)).indices_
    )
    if form in LIBRARIES:
        assert found.feature_names_in_.tolist() == list("abcd")


def test_rows_that_do_not_count_and_empty_chunks_change_nothing(rows):
    X, y, w = rows
    # a block without any row that counts
    w = np.where(np.arange(N) < ROWS, 0.0, w + 1)
    few = KCenter(20, random_state=0).fit(Blocks(X, y, w, rows=ROWS))
    assert (few.indices_ >= ROWS).all()
    lazy = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=8)
    # of unknown lengths
    there = lazy[lazy["a"] > 0.5]
    expected = X[X[:, 0] > 0.5]
    found = UniformCoreset(5, random_state=0).fit(there)
    np.testing.assert_array_equal(found.take(there)[0], expected[found.indices_])
    with pytest.raises(ValueError, match="0 sample"):
        KCenter(5).fit(lazy[lazy["a"] > 100])


# --- predictions and streams


def test_predictions_are_those_of_rows_and_refuse_reordered_columns(rows, forms):
    X = rows[0]
    frame = pd.DataFrame(X, columns=list("abcd"))
    lazy = forms["dask frame"][0]
    model = CoresetEstimator(UniformCoreset(200, random_state=0), LogisticRegression()).fit(
        lazy, forms["dask frame"][1]
    )
    mixture = VCGMM(3, coreset_size=500, random_state=0).fit(lazy)
    for fitted, names in (
        (model, ("predict", "predict_proba")),
        (mixture, ("predict", "transform", "score_samples")),
    ):
        assert fitted.feature_names_in_.tolist() == list("abcd")
        for name in names:
            say = getattr(fitted, name)
            np.testing.assert_allclose(say(lazy).compute(), say(frame), rtol=1e-12)
            with pytest.raises(ValueError, match="feature names should match"):
                say(lazy[list("dcba")])
    np.testing.assert_array_equal(mixture.labels_.compute(), mixture.predict(frame))
    unnamed = VCGMM(3, coreset_size=500, random_state=0).fit(forms[".npy"][0])
    np.testing.assert_array_equal(unnamed.labels_, unnamed.predict(X))
    np.testing.assert_array_equal(
        unnamed.predict(forms["dask array"][0]).compute(), unnamed.labels_
    )


def test_a_stream_of_blocks_is_the_stream_of_their_rows(rows, forms):
    alone = MergeReduce(UniformCoreset(), size=20, leaf_size=150, random_state=0).fit(*rows)
    for name, given in forms.items():
        stream = MergeReduce(UniformCoreset(), size=20, leaf_size=150, random_state=0).fit(*given)
        np.testing.assert_array_equal(stream.indices_, alone.indices_, err_msg=name)
    named = MergeReduce(UniformCoreset(), size=20, leaf_size=150).fit(*forms["dask frame"])
    with pytest.raises(ValueError, match="feature names should match"):
        named.partial_fit(pd.DataFrame(rows[0], columns=list("abdc")), rows[1], rows[2])


# --- memory, and a cluster


@pytest.mark.parametrize(
    "selector", [SELECTORS[0], SELECTORS[1], SELECTORS[3], SELECTORS[4]], ids=repr
)
def test_memory_does_not_grow_with_the_number_of_files(selector, tmp_path):
    peaks = []
    for n_files in (4, 16):
        for i in range(n_files):
            np.save(tmp_path / f"X{i}.npy", np.random.default_rng(i).normal(size=(20_000, 5)))
            np.save(tmp_path / f"y{i}.npy", np.arange(20_000) % 2)
        tracemalloc.start()
        selector.fit(Blocks(str(tmp_path / "X*.npy"), str(tmp_path / "y*.npy")))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] + 1e5


class Slowly:
    """Rows of a block, slowly, after the process that has them wrote its number into a file."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, block):
        (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(0.3)
        return block


def kill_one(folder):
    """Kill the process that begins the third block."""
    while len(seen := sorted(folder.iterdir(), key=lambda path: int(path.name.split("-")[1]))) < 3:
        time.sleep(0.01)
    os.kill(int(seen[-1].name.split("-")[0]), signal.SIGKILL)


@pytest.mark.parametrize(
    ("few", "found"),
    [
        (BilevelCoreset(Logistic(l2=1e-2), size=20, random_state=0), ("indices_", "weights_")),
        (VCGMM(5, coreset_size=200, random_state=0), ("cluster_centers_", "labels_")),
    ],
    ids=["selector", "clusterer"],
)
def test_a_killed_worker_changes_nothing(rows, few, found, tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    X, y, _ = rows
    alone = clone(few).fit(Blocks(X, y, rows=ROWS // 2))
    lazy = da.from_array(X, chunks=(ROWS // 2, D)).map_blocks(
        Slowly(tmp_path), meta=np.empty((0, 0))
    )
    # the machine may be busy
    patient = {f"distributed.comm.timeouts.{name}": "600s" for name in ("connect", "tcp")}
    options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with (
        dask.config.set(patient | {"scheduler": None}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
    ):
        killer = threading.Thread(target=kill_one, args=(tmp_path,))
        killer.start()
        few.fit(lazy, y)
        killer.join()
        for name in found:
            np.testing.assert_array_equal(getattr(few, name), getattr(alone, name))


def grouped_slowly(lengths, least):
    """Pieces of each block by the rule as it is said: neighbours until they have `least` rows; what
    is left over goes to the last block."""
    groups = []
    rest = list(range(len(lengths)))
    while rest:
        group = [rest.pop(0)]
        while rest and sum(lengths[i] for i in group) < least:
            group.append(rest.pop(0))
        groups.append(group)
    if len(groups) > 1 and sum(lengths[i] for i in groups[-1]) < least:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def test_neighbours_are_joined_as_said_and_counted_once(rng):
    for _ in range(30):
        sizes = rng.integers(1, 9, size=rng.integers(1, 12))
        pieces = [np.zeros((n, 1)) for n in sizes]
        blocks = Blocks(db.from_sequence(pieces, npartitions=len(pieces)))
        for least in (1, 5, 40, 3):
            joined = blocks.at_least(least)
            groups = grouped_slowly(sizes, least)
            assert joined.lengths.tolist() == [sum(sizes[group]) for group in groups]
            assert len(joined) == len(groups)
            # the time of a pass rises with the pieces, not with their square
            assert joined._groups is joined._groups


def test_places_are_found_in_their_blocks(rng):
    for _ in range(30):
        lengths = rng.integers(0, 5, size=8)
        places = rng.integers(0, max(1, lengths.sum()), size=rng.integers(0, 20))
        places = places[places < lengths.sum()]
        own, order = split_places(places, lengths)
        starts = np.cumsum(lengths) - lengths
        back = [start + mine for start, mine in zip(starts, own) if mine is not None]
        assert all(mine is None or (mine >= 0).all() for mine in own)
        assert all(mine is None or (mine < n).all() for mine, n in zip(own, lengths))
        np.testing.assert_array_equal(np.concatenate([*back, places[:0]])[order], places)


def test_weights_of_a_block_is_told_its_new_name():
    with pytest.warns(FutureWarning, match=r"write block\.weight"):
        [total] = Blocks(np.ones((3, 1))).map(lambda block: float(block.weights.sum()))
    assert total == 3


FACTOR = 1.0


def scaled(rows):
    return float(rows.X.sum() * FACTOR)


def by_helper(rows):
    return scaled(rows)


def by_itself(rows, deep=True):
    return by_itself(rows, deep=False) if deep else scaled(rows)


@pytest.mark.parametrize("function", [scaled, by_helper, by_itself])
def test_a_variable_that_a_helper_reads_tells_what_was_kept_apart(function, tmp_path, monkeypatch):
    file = tmp_path / "X.npy"
    np.save(file, np.ones((40, 2)))
    kept = Blocks(file, rows=20, keep=tmp_path / "kept")
    assert kept.map(function) == [40.0, 40.0]
    monkeypatch.setitem(function.__globals__, "FACTOR", 2.0)
    assert kept.map(function) == Blocks(file, rows=20).map(function) == [80.0, 80.0]


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "selector", [UniformCoreset(9), KCenter(9), StratifiedCoreset(9), LogisticSensitivity(9)]
)
def test_a_weight_that_counts_nothing_is_refused_in_blocks_as_in_memory(selector, weight, rng):
    X = rng.normal(size=(100, 2))
    y = (X[:, 0] > 0).astype(int)
    weights = np.ones(100)
    weights[70] = weight
    with pytest.raises(ValueError, match=r"sample_weight.* at row 70"):
        clone(selector).fit(X, y, weights)
    with pytest.raises(ValueError, match=r"^block 1 \(rows from 60 on\): .*sample_weight"):
        clone(selector).fit(Blocks(X, y, weights, rows=30))


@pytest.mark.parametrize("of_library", LIBRARIES)
def test_frames_in_blocks_keep_the_names_of_their_columns(of_library, rng):
    frame = pd.DataFrame({"a": rng.normal(size=80), "g": [*"uvwx"] * 20})
    made = frame_of(of_library, frame)
    blocks = Blocks(made, rows=30)
    assert [len(set(part)) for part in blocks.map(lambda block: block.X["g"])] == [4, 4, 4]
    by_name = StratifiedCoreset(8, by="g", random_state=0)
    chosen = clone(by_name).fit(blocks)
    assert chosen.feature_names_in_.tolist() == ["a", "g"]
    np.testing.assert_array_equal(
        chosen.indices_, clone(by_name).fit(Blocks(frame, rows=30)).indices_
    )
    np.testing.assert_allclose(
        np.bincount(
            np.unique(frame["g"][chosen.indices_], return_inverse=True)[1], chosen.weights_
        ),
        20,
    )


@pytest.mark.parametrize(
    "selector",
    [
        UniformCoreset(5),
        KCenter(5),
        LightweightCoreset(20),
        StratifiedCoreset(5),
        BilevelCoreset(size=5),
        ProxyCoreset(proxy=Nystrom(RBF(1.0), n_landmarks=20), size=5),
    ],
    ids=lambda selector: type(selector).__name__,
)
def test_rows_of_which_none_counts_are_refused_as_in_memory(selector, rng):
    X = rng.normal(size=(400, 2))
    y = np.arange(400) % 2
    for given in ((X, y, np.zeros(400)), (Blocks(X, y, np.zeros(400), rows=100),)):
        with pytest.raises(ValueError, match="sample_weight is zero for all 400 rows"):
            clone(selector).fit(*given)


@pytest.mark.parametrize("weights", [None, "zero there"])
def test_gaps_are_refused_whatever_is_drawn_with_their_row_unless_it_is_absent(weights, rng):
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0).astype(int)
    X[187, 0] = np.nan
    if weights is not None:
        weights = np.where(np.arange(300) == 187, 0.0, 1.0)
    selector = ProxyCoreset(proxy=Nystrom(RBF(1.0), n_landmarks=20), size=5)
    for seed in range(6):
        few = clone(selector).set_params(random_state=seed)
        if weights is None:
            with pytest.raises(ValueError, match=r"block 3 .* row 187 with NaN"):
                few.fit(Blocks(X, y, rows=60))
        else:
            assert 187 not in few.fit(Blocks(X, y, weights, rows=60)).indices_


def test_take_of_another_number_of_rows_than_were_fitted_is_refused_in_every_form(rng, tmp_path):
    X = rng.normal(size=(400, 2))
    np.save(tmp_path / "X2.npy", X[:200])
    np.save(tmp_path / "X3.npy", X[200:])
    few = UniformCoreset(5, random_state=0).fit(str(tmp_path / "X*.npy"))
    expected = X[few.indices_]
    unknown = da.from_array(X, chunks=(100, 2))
    unknown = unknown[unknown[:, 0] > -np.inf]
    for given in (X, str(tmp_path / "X*.npy"), Blocks(X), da.from_array(X), unknown):
        np.testing.assert_array_equal(few.take(given)[0], expected)
    np.save(tmp_path / "X1.npy", np.zeros((50, 2)))
    more = np.vstack([np.zeros((50, 2)), X])
    for given in (more, str(tmp_path / "X*.npy"), Blocks(more), da.from_array(more)):
        with pytest.raises(ValueError, match="fit saw 400 rows, but got 450 rows"):
            few.take(given)


def test_transforms_to_frames_come_from_blocks_as_well(rng, tmp_path):
    frame = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    model = VCGMM(4, random_state=0).set_output(transform="pandas").fit(frame)
    expected = model.transform(frame)
    found = model.transform(Blocks(frame, rows=50), out=tmp_path / "out.npy")
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    assert list(model.transform(Blocks(frame, rows=50)).columns) == list(expected.columns)


def test_a_name_in_place_of_labels_is_told_the_column(rng):
    frame = pd.DataFrame({"a": rng.normal(size=60), "label": np.arange(60) % 2})
    for call in (UniformCoreset(5).fit, KCenter(5).fit, Blocks):
        with pytest.raises(ValueError, match=r"parquet files only, got 'label': give X\['label'\]"):
            call(frame, "label")


@pytest.mark.parametrize("by", [None, "g"])
def test_a_stratified_draw_from_uneven_blocks_has_the_law_of_one_from_all(by, tmp_path):
    rng = np.random.default_rng(0)
    n = 6000
    words = np.array(["a", "b", "c"], "U4")[np.minimum(rng.integers(8, size=n), 2)]
    words[5000:5003] = "rare"
    frame = pd.DataFrame({"x": rng.normal(size=n), "g": words})
    weights = rng.uniform(0.5, 2.0, n)
    weights[::7] = 0
    paths = []
    for i, (start, end) in enumerate([(0, 300), (300, 1000), (1000, 6000)]):
        paths.append(tmp_path / f"part{i}.parquet")
        frame.assign(w=weights, label=words)[start:end].to_parquet(paths[-1])
    label = {} if by else {"y": "label"}
    columns = ["x", "g"] if by else ["x"]
    blocks = Blocks(paths, **label, sample_weight="w", columns=columns)
    counted = weights > 0
    counts = np.zeros(n)
    n_draws = 40
    for seed in range(n_draws):
        found = StratifiedCoreset(80, by=by, random_state=seed).fit(blocks)
        assert len(np.unique(found.indices_)) == 80
        counts[found.indices_] += 1
        drawn = pd.Series(found.weights_).groupby(words[found.indices_]).agg(["sum", "size"])
        for value, (_, size) in drawn.iterrows():
            own = counted & (words == value)
            scale = found.weights_[words[found.indices_] == value]
            scale /= weights[found.indices_][words[found.indices_] == value]
            np.testing.assert_allclose(scale, own.sum() / size)
        assert drawn.loc["rare", "size"] == 1
    in_memory = StratifiedCoreset(80, by=by, random_state=0).fit(
        frame[columns], None if by else words, sample_weight=weights
    )
    sizes = pd.Series(words[in_memory.indices_]).value_counts()
    assert sizes.to_dict() == drawn["size"].to_dict()
    assert not counts[~counted].any()
    for value in ("a", "b", "c"):
        own = counted & (words == value)
        expected = n_draws * drawn.loc[value, "size"] / own.sum()
        for part in (slice(0, 300), slice(300, 1000), slice(1000, 6000)):
            rows = counts[part][own[part]]
            spread = np.sqrt(expected * len(rows))
            assert abs(rows.sum() - expected * len(rows)) < 4.5 * spread
