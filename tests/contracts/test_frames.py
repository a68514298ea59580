"""Frames of polars and arrow in, the same out, and the same rows as from numpy."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest
from handful import (
    VCGMM,
    AnyEstimatorCoreset,
    BalancedCoreset,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LinearSVM,
    MergeReduce,
    StratifiedCoreset,
    UniformCoreset,
    compare,
)
from handful.continual import ReplayBuffer
from handful.streaming import ReservoirCoreset
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

X, y = load_breast_cancer(return_X_y=True)
X = (X / X.std(axis=0))[:, :5]
NAMES = list("abcde")
FRAMES = {"polars": (pl.DataFrame(X, schema=NAMES), pl.Series("y", y))}
if find_spec("pyarrow"):
    import pyarrow as pa

    FRAMES |= {
        "arrow": (
            pa.table({name: X[:, j] for j, name in enumerate(NAMES)}),
            pa.chunked_array([y[:300], y[300:]]),
        ),
        "arrow array": (pa.table({name: X[:, j] for j, name in enumerate(NAMES)}), pa.array(y)),
    }
every_frame = pytest.mark.parametrize("frame", FRAMES)


@every_frame
@pytest.mark.parametrize(
    "selector",
    [StratifiedCoreset(9), StratifiedCoreset(9, by="e"), BilevelCoreset(size=9)],
    ids=lambda s: type(s).__name__,
)
def test_a_selector_gives_rows_in_the_type_that_it_got(selector, frame):
    F, labels = FRAMES[frame]
    selector.set_params(random_state=0)
    data = X
    if getattr(selector, "by", None) == "e":
        data = pd.DataFrame(X, columns=NAMES)
        data["e"] = words = np.where(y, "sick", "well")
        whole = {name: X[:, j] for j, name in enumerate("abcd")} | {"e": words}
        F = pl.DataFrame(whole) if isinstance(F, pl.DataFrame) else pa.table(whole)
    expected = selector.fit(data, y).indices_
    few, few_labels, _ = selector.fit(F, labels).take(F, labels)
    assert selector.indices_.tolist() == expected.tolist()
    assert selector.feature_names_in_.tolist() == NAMES
    assert type(few) is type(F)
    assert type(few_labels) is type(labels)
    assert np.asarray(few_labels).tolist() == y[expected].tolist()
    np.testing.assert_array_equal(np.asarray(few["a"]), X[expected, 0])
    with pytest.raises(ValueError, match="got 3 rows: take from the data it was fitted on"):
        selector.take(labels[:3])
    with pytest.raises(ValueError, match=r"got 1138 rows: take from the data it was fitted on"):
        selector.take(np.concatenate([X, X]))


@every_frame
def test_estimators_streams_and_comparisons_take_frames(frame):
    F, labels = FRAMES[frame]
    model = CoresetEstimator(UniformCoreset(60, random_state=0), LogisticRegression())
    assert model.fit(F, labels).score(F, labels) == model.fit(X, y).score(X, y)
    assert LinearSVM().fit(F, labels).score(F, labels) == LinearSVM().fit(X, y).score(X, y)
    assert VCGMM(3, random_state=0).fit(F).score(F) == pytest.approx(
        VCGMM(3, random_state=0).fit(X).score(X)
    )
    stream = MergeReduce(UniformCoreset(), size=20, leaf_size=100, random_state=0)
    np.testing.assert_array_equal(stream.fit(F, labels).rows()[0], stream.fit(X, y).rows()[0])
    options = dict(sizes=[30], seeds=2, verbose=False)
    found, plain = (
        compare(KCenter(), LogisticRegression(), *data, **options).frame
        for data in ((F, labels), (X, y))
    )
    # as much as the seconds of the choice pay for
    of_the_clock = ["best of draws", "more uniform rows"]
    found, plain = (one[~one["method"].isin(of_the_clock)] for one in (found, plain))
    assert found["score"].tolist() == plain["score"].tolist()


def mixed(n=120):
    """Columns of every type, some with gaps, in all libraries."""
    rng = np.random.default_rng(0)
    age = rng.normal(40, 9, n)
    age[7] = np.nan
    return dict(
        town=rng.choice(["north", "south"], n).tolist(),
        age=age,
        rooms=rng.integers(1, 9, n),
        owned=rng.integers(0, 2, n).astype(bool),
        built=np.datetime64("1999-01-01", "us") + rng.integers(0, 9999, n),
    )


def pandas_frame():
    frame = pd.DataFrame(mixed())
    frame["grade"] = pd.Categorical(
        np.resize(["low", "high"], len(frame)), ["low", "high"], ordered=True
    )
    frame["visits"] = frame.rooms.where(frame.rooms < 8).astype("Int64")
    return frame


def polars_frame():
    frame = pl.DataFrame(mixed())
    visits = pl.when(pl.col("rooms") < 8).then(pl.col("rooms")).alias("visits")
    return frame.with_columns(visits, pl.col("town").cast(pl.Categorical).alias("grade"))


def rows_as_texts(frame):
    """The rows, gaps at their places, as a set: a gap does not equal itself, but its text does."""
    is_pandas = hasattr(frame, "iloc")
    rows = frame.itertuples(index=False, name=None) if is_pandas else frame.rows()
    return set(map(str, rows))


def streams(selector):
    return [
        MergeReduce(selector, size=20, leaf_size=40, random_state=0),
        ReservoirCoreset(selector, size=20, n_held=60, random_state=0),
    ]


@pytest.mark.parametrize("make", [pandas_frame, polars_frame])
def test_a_stream_shows_the_selector_columns_of_the_types_that_came(make):
    frame = make()
    seen = []

    def by(rows):
        seen.append(rows)
        numbers = rows.select_dtypes("number") if hasattr(rows, "iloc") else rows
        return np.asarray(numbers["rooms"], dtype=float).reshape(-1, 1)

    for stream in streams(BalancedCoreset(by=by)):
        stream.fit(frame).rows()
    assert len(seen) > 3
    for part in seen:
        assert list(part.columns) == list(frame.columns)
        assert list(part.dtypes) == list(frame.dtypes)
        assert rows_as_texts(part) <= rows_as_texts(frame)


def test_a_column_whose_values_its_type_does_not_hold_gets_one_that_does():
    first = pd.DataFrame({"k": [1, 2] * 30, "grade": pd.Categorical(["a", "b"] * 30), "w": "x"})
    later = first.assign(k=first.k + 0.5, grade=pd.Categorical(["b", "c"] * 30))
    gaps = first.assign(k=first.k.where(first.k > 1))
    seen = []

    def by(rows):
        seen.append(rows)
        return rows[["k"]].fillna(0).to_numpy()

    for stream in streams(BalancedCoreset(by=by)):
        for chunk in (first, later, gaps):
            stream.partial_fit(chunk)
        stream.rows()
    kinds = {(part.k.dtype.kind, part.grade.dtype.name) for part in seen}
    assert kinds == {("i", "category"), ("f", "category")}
    assert {2.5, 1.5} & set(np.concatenate([part.k for part in seen]))
    assert "c" in set(np.concatenate([part.grade.astype(str) for part in seen]))


def test_a_polars_stream_goes_on_where_whole_numbers_begin_to_be_missing():
    frame = pl.DataFrame({"town": ["n", "s"] * 50, "k": [1] * 50 + [None] + [2] * 49})
    for selector in (UniformCoreset(), StratifiedCoreset(by="town"), BalancedCoreset(by=["town"])):
        stream = MergeReduce(selector, size=5, leaf_size=60, random_state=0)
        stream.partial_fit(frame[:50]).partial_fit(frame[50:])
        assert len(stream.indices_) == 5


@pytest.mark.parametrize("library", [pd, pl])
def test_a_stream_takes_columns_of_lists_and_dictionaries(library):
    columns = {"town": ["n", "s"] * 50, "words": [["a"], ["b", "c"]] * 50, "at": [{"x": 1}] * 100}
    frame = library.DataFrame(columns | {"point": [[i, -i] for i in range(100)]})
    seen = []

    def by(rows):
        seen.extend(zip(rows["words"], rows["point"]))
        return np.arange(len(rows))[:, None]

    for stream in streams(BalancedCoreset(by=by)):
        assert len(stream.fit(frame).indices_) == 20
    for words, point in seen:
        assert list(words) == columns["words"][point[0] % 2]
        assert point[1] == -point[0]


def test_a_polars_stream_of_numbers_refuses_what_one_of_pandas_does():
    numbers = pl.DataFrame({"a": [1.0, np.nan, 3.0], "b": [1, 2, 3], "c": [True, False, True]})
    for frame in (numbers, pd.DataFrame(numbers.to_dict(as_series=False))):
        with pytest.raises(ValueError, match="NaN"):
            MergeReduce(UniformCoreset(), size=2, leaf_size=4).fit(frame)


@pytest.mark.parametrize(
    "stream",
    [
        MergeReduce(StratifiedCoreset(), size=40, random_state=0),
        MergeReduce(BalancedCoreset(by=["city"]), size=40, random_state=0),
        MergeReduce(UniformCoreset(), size=40, random_state=0),
        ReservoirCoreset(UniformCoreset(), size=40, random_state=0),
    ],
    ids=lambda stream: f"{type(stream).__name__} of {type(stream.selector).__name__}",
)
@pytest.mark.parametrize("words", [True, False])
def test_a_stream_of_frames_refuses_other_columns_and_the_same_in_another_order(stream, words, rng):
    n = 300
    city = rng.choice(["Bern", "Genf"], n) if words else rng.integers(0, 2, n)
    frame = pd.DataFrame({"age": rng.normal(size=n), "pay": rng.normal(size=n), "city": city})
    y = rng.choice(["no", "yes"], n)
    stream = clone(stream)
    for part in (slice(0, 100), slice(100, 200)):
        stream.partial_fit(frame[part], y[part])
        assert stream.feature_names_in_.tolist() == ["age", "pay", "city"]
    for other in (frame[["pay", "age", "city"]], frame.rename(columns={"pay": "tax"})):
        with pytest.raises(ValueError, match="feature names should match"):
            stream.partial_fit(other[200:], y[200:])


def test_a_stream_takes_sparse_columns():
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.eye(100, 3, format="csr"), columns=list("abc"))
    for selector in (UniformCoreset(), BalancedCoreset(by=["a", "b"])):
        for stream in streams(selector):
            held = stream.fit(frame).rows()[0]
            expected = frame.to_numpy()[stream.indices_]
            np.testing.assert_array_equal(held.toarray(), expected)


def test_a_pipeline_that_asks_for_names_chooses_from_a_stream_and_a_memory():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["u", "v"], 300)})
    labels = np.where(frame.a + (frame.b == "u") + 0.3 * rng.normal(size=300) > 0.5, "p", "q")
    encoder = make_column_transformer((OneHotEncoder(), ["b"]), ("passthrough", ["a"]))
    for data, steps in (
        (frame, encoder),
        (frame[["a"]], make_column_transformer(("passthrough", ["a"]))),
    ):
        estimator = make_pipeline(steps, LogisticRegression())
        selector = AnyEstimatorCoreset(estimator, size=20, random_state=0)
        for stream in streams(selector):
            assert len(stream.fit(data, labels).indices_) == 20
        memory = ReplayBuffer(selector, size=20, random_state=0).add(data, labels)
        assert len(memory.rows()[1]) == 20
    # A part with one class is drawn from, and its words are kept.
    in_order = np.argsort(labels)
    stream = MergeReduce(
        AnyEstimatorCoreset(make_pipeline(encoder, LogisticRegression())), size=20, leaf_size=40
    )
    X_held, _, _ = stream.fit(frame.iloc[in_order], labels[in_order]).rows()
    assert set(X_held[:, 1]) == {"u", "v"}


def test_a_stream_of_pictures_of_any_size_gives_those_that_it_holds():
    rng = np.random.default_rng(0)
    pictures = [rng.random((rng.integers(2, 4), 3)) for _ in range(300)]
    stream = MergeReduce(UniformCoreset(), size=5, leaf_size=50, random_state=0).fit(pictures)
    held, weights = stream.take(pictures)
    assert all(one is pictures[place] for one, place in zip(held, stream.indices_))
    np.testing.assert_array_equal(weights, stream.weights_)
    with pytest.raises(ValueError, match="take needs the whole stream, 300 rows so far, got 299"):
        stream.take(pictures[1:])
