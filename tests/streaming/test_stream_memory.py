"""What the memories of a stream are given: what they refuse, and that a refusal leaves them as they
were."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from frames import LIBRARIES, frame_of
from handful.baselines import BalancedCoreset, StratifiedCoreset, UniformCoreset
from handful.sensitivity.svm import SVMCoreset
from handful.streaming import (
    ClassBalancedReservoir,
    MergeReduce,
    Reservoir,
    ReservoirCoreset,
    reservoir,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression


class Refusing(UniformCoreset):
    """Refuses every leaf with a row whose first value is above 100."""

    def _select(self, X, *args):
        rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
        if rows[:, 0].max() > 100:
            raise ValueError("refused")
        return super()._select(X, *args)


def of(kind, **options):
    if kind in (Reservoir, ClassBalancedReservoir):
        return kind(20, random_state=0, **options)
    if kind is ReservoirCoreset:
        return kind(UniformCoreset(), size=20, random_state=0, **options)
    return kind(Refusing(), size=20, leaf_size=50, random_state=0, **options)


KINDS = [MergeReduce, Reservoir, ClassBalancedReservoir, ReservoirCoreset]
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    return X, (X.sum(axis=1) + 0.5 * rng.normal(size=900) > 0).astype(float)


def last(values, value):
    values = values.copy()
    values[-1] = value
    return values


# What is done to a chunk, and the words that refuse it.
BAD = {
    "NaN": (lambda X, y: (last(X, np.nan), y), "Input X contains NaN"),
    "shape": (lambda X, y: (X[0], y), "Expected 2D array"),
    "short labels": (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
    "long labels": (lambda X, y: (X, np.r_[y, y]), "inconsistent numbers of samples"),
    "no number": (
        lambda X, y: (last(X.astype(object), "a"), y),
        "could not convert string|the chunk has words in X",
    ),
    "width": (lambda X, y: (X[:, :2], y), "X has 2 features"),
    "no labels": (lambda X, y: (X, None), "but the stream so far has|requires y"),
    "words": (
        lambda X, y: (X, np.full(len(X), "a")),
        "the chunk has words in y, but the stream so far has numbers",
    ),
    "sparse": (
        lambda X, y: (sparse.csr_array(X), y),
        "the chunk has sparse rows, but the stream so far has dense",
    ),
}
BAD_WEIGHTS = {
    "negative weight": (lambda X, y: (X, y, last(np.ones(len(X)), -1.0)), "must not be negative"),
    "short weights": (lambda X, y: (X, y, np.ones(len(X) - 1)), "sample_weight must have shape"),
    "long weights": (lambda X, y: (X, y, np.ones(len(X) + 50)), "sample_weight must have shape"),
    "long bad weights": (
        lambda X, y: (X, y, np.r_[np.ones(len(X)), np.full(50, np.nan)]),
        "sample_weight",
    ),
}
BAD_FOR_CLASSES = {
    "NaN label": (
        lambda X, y: (X, last(y, np.nan)),
        "y has missing labels: 1 of 370 rows, the first at row 369",
    ),
    "several labels": (
        lambda X, y: (X, np.column_stack([y, y])),
        "one label a row.* as .*Reservoir.* looks at it",
    ),
}
BAD_FOR_SELECTOR = {"selector": (lambda X, y: (last(X, 1e3), y), "refused")}


def cases():
    for kind in KINDS:
        more = {} if issubclass(kind, Reservoir) else BAD_WEIGHTS
        more = more | (BAD_FOR_CLASSES if issubclass(kind, ClassBalancedReservoir) else {})
        for options in [{}, {"n_slots": 3}] if kind is MergeReduce else [{}]:
            for name, case in (
                BAD | more | (BAD_FOR_SELECTOR if kind is MergeReduce else {})
            ).items():
                yield pytest.param(kind, options, *case, id=f"{kind.__name__}-{options}-{name}")


@pytest.mark.parametrize(("kind", "options", "spoil", "message"), list(cases()))
def test_a_chunk_that_fails_midway_changes_nothing(data, kind, options, spoil, message):
    X, y = data
    stream = of(kind, **options)
    undisturbed = of(kind, **options)
    for each in (stream, undisturbed):
        each.partial_fit(X[:130], y[:130])
        each.coreset_  # noqa: B018 - the root is kept once somebody has asked for it
    before = pickle.dumps(vars(stream))
    with pytest.raises(ValueError, match=message):
        stream.partial_fit(*spoil(X[130:500], y[130:500]))
    assert pickle.dumps(vars(stream)) == before
    for each in (stream, undisturbed):
        each.partial_fit(X[130:], y[130:])
    np.testing.assert_array_equal(stream.indices_, undisturbed.indices_)
    np.testing.assert_array_equal(stream.weights_, undisturbed.weights_)


@every_kind
@given(cuts=st.lists(st.integers(0, 300), max_size=8), seed=st.integers(0, 99))
@example(cuts=list(range(301)), seed=0)
@settings(max_examples=16)
def test_how_a_stream_is_cut_into_chunks_changes_nothing(kind, cuts, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 3))
    y = rng.choice(list("abcde"), size=300)
    whole = of(kind).fit(X, y)
    stream = of(kind)
    for part in np.split(np.arange(300), sorted(cuts)):
        stream.partial_fit(X[part], y[part])
    for ours, theirs in zip((stream.indices_, *stream.rows()), (whole.indices_, *whole.rows())):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", [Reservoir, ClassBalancedReservoir, ReservoirCoreset])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_stops_a_reservoir_after_its_draws_changes_nothing(data, monkeypatch, kind, error):
    def stop(nodes):
        raise error

    X, y = data
    stream = of(kind).partial_fit(X[:300], y[:300])
    before = pickle.dumps(vars(stream))
    with monkeypatch.context() as patch:
        patch.setattr(reservoir, "joined", stop)
        with pytest.raises(error):
            # with a class that is new
            stream.partial_fit(X[300:], y[300:] + 1)
    assert pickle.dumps(vars(stream)) == before
    undisturbed = of(kind).partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    np.testing.assert_array_equal(
        stream.partial_fit(X[300:], y[300:]).indices_, undisturbed.indices_
    )


@every_kind
def test_dense_rows_are_refused_by_a_sparse_stream(data, kind):
    X, y = data
    stream = of(kind)
    stream.partial_fit(sparse.csr_array(X[:100]), y[:100])
    with pytest.raises(
        ValueError, match="the chunk has dense rows, but the stream so far has sparse"
    ):
        stream.partial_fit(X[100:], y[100:])
    stream.partial_fit(sparse.coo_array(X[100:200]), y[100:200])
    np.testing.assert_array_equal(stream.rows()[0].toarray(), X[stream.indices_])
    assert not sparse.issparse(stream.fit(X, y).rows()[0])


@every_kind
def test_the_arrays_of_a_chunk_may_be_used_again(data, kind):
    X, y = data
    stream = of(kind)
    other = of(kind)
    X_buffer = np.empty((90, 3))
    y_buffer = np.empty(90)
    for part in np.split(np.arange(900), 10):
        X_buffer[:] = X[part]
        y_buffer[:] = y[part]
        stream.partial_fit(X_buffer, y_buffer)
        other.partial_fit(X[part], y[part])
    X_buffer[:] = 0
    y_buffer[:] = 0
    for ours, theirs in zip(stream.rows(), other.rows()):
        np.testing.assert_array_equal(ours, theirs)


@every_kind
def test_what_is_read_of_a_stream_may_be_changed(data, kind):
    X, y = data
    stream = of(kind)
    other = of(kind)
    for part in np.split(np.arange(900), 10):
        stream.partial_fit(X[part], y[part])
        other.partial_fit(X[part], y[part])
        read = [*stream.rows(), stream.indices_, stream.weights_, stream.coreset_.weights]
        for array in read:
            array *= 0
        for ours, theirs in zip(stream.rows(), other.rows()):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(stream.indices_, other.indices_)


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [(kind, "size", value) for kind in KINDS for value in (50, 10)]
    + [(MergeReduce, "leaf_size", 70), (ReservoirCoreset, "n_held", 70)]
    + [(MergeReduce, "n_slots", 3)],
)
def test_sizes_are_fixed_once_a_stream_has_begun(data, kind, option, value):
    X, y = data
    stream = of(kind)
    undisturbed = of(kind)
    stream.partial_fit(X[:300], y[:300])
    began = stream.get_params()[option]
    stream.set_params(**{option: value})
    message = (
        f"{option} cannot change once a stream has begun: it began with {option}={began}, got "
        f"{option}={value};"
    )
    with pytest.raises(ValueError, match=message):
        stream.partial_fit(X[300:], y[300:])
    with pytest.raises(ValueError, match=message):
        stream.rows()
    stream.set_params(**{option: began})
    for each, start in ((stream, 300), (undisturbed, 0)):
        each.partial_fit(X[start:], y[start:])
    np.testing.assert_array_equal(np.sort(stream.indices_), np.sort(undisturbed.indices_))
    stream.set_params(**{option: value}).fit(X, y)
    np.testing.assert_array_equal(
        stream.indices_, of(kind).set_params(**{option: value}).fit(X, y).indices_
    )


@every_kind
def test_the_names_of_the_columns_are_those_of_the_first_chunk(data, kind):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    stream = of(kind).partial_fit(frame[:300], y[:300])
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- z"):
        stream.partial_fit(frame.rename(columns={"b": "z"})[300:], y[300:])
    stream.partial_fit(frame[300:], y[300:])
    plain = of(kind).partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    np.testing.assert_array_equal(stream.rows()[0], plain.rows()[0])
    assert stream.fit(frame[["b", "a"]], y).feature_names_in_.tolist() == ["b", "a"]
    assert not hasattr(stream.fit(X, y), "feature_names_in_")


@every_kind
def test_take_asks_for_the_whole_stream_and_names_rows(data, kind):
    X, y = data
    stream = of(kind)
    for part in (slice(600), slice(600, 900)):
        stream.partial_fit(X[part], y[part])
    rows, labels, weights = stream.rows()
    for ours, whole in zip(stream.take(X, None, y), (rows, None, labels, weights)):
        np.testing.assert_array_equal(ours, whole)
    for arrays in ((X[600:], y[600:]), (X, y[:600])):
        with pytest.raises(
            ValueError,
            match=r"take needs the whole stream, 900 rows so far, got \d+; rows\(\) gives",
        ):
            stream.take(*arrays)


@pytest.mark.parametrize("kind", [MergeReduce, ReservoirCoreset])
@pytest.mark.parametrize(
    ("selector", "error", "message"),
    [
        (SVMCoreset, TypeError, r"got the class SVMCoreset: give SVMCoreset\(\)"),
        (50, TypeError, "selector must choose rows, as BilevelCoreset does, got 50"),
        (
            LogisticRegression(),
            TypeError,
            r"selector must choose rows, as BilevelCoreset does, got LogisticRegression",
        ),
        (Reservoir(50), TypeError, "Reservoir takes none"),
        (SVMCoreset(), ValueError, "requires y to be passed"),
    ],
)
def test_what_cannot_select_is_refused_at_the_first_chunk(data, kind, selector, error, message):
    stream = kind(selector)
    with pytest.raises(error, match=message):
        stream.partial_fit(data[0][:5])
    assert vars(stream) == vars(kind(selector))


def held_as_in_memory(selector, n):
    return [
        MergeReduce(clone(selector), size=50, leaf_size=n, random_state=0),
        ReservoirCoreset(clone(selector), size=50, n_held=n, random_state=0, balanced=False),
    ]


@pytest.mark.parametrize("of_library", LIBRARIES)
def test_a_selector_of_columns_finds_them_in_a_stream_of_frames(of_library, rng):
    n = 400
    frame = pd.DataFrame({"age": rng.normal(size=n), "zip": rng.integers(0, 5, n)})
    made = frame_of(of_library, frame)
    for stream in held_as_in_memory(StratifiedCoreset(by="zip"), n):
        stream.partial_fit(made)
        weights = np.bincount(frame["zip"][stream.indices_], stream.weights_, minlength=5)
        np.testing.assert_allclose(weights, np.bincount(frame["zip"]))
        assert isinstance(stream.rows()[0], np.ndarray)
    with pytest.raises(ValueError, match=r"got by='town' .* its columns are \['age', 'zip'\]"):
        MergeReduce(StratifiedCoreset(by="town"), size=50, leaf_size=100).fit(made)


@pytest.mark.parametrize("name", ["zip", 0])
def test_categories_and_columns_with_numbers_for_names_are_those_of_the_frame(name, rng):
    n = 1000
    codes = rng.integers(0, 5, n)
    frame = pd.DataFrame({1: rng.normal(size=n), name: pd.Categorical(codes)})
    frame = frame.rename(columns={1: "age"}) if name == "zip" else frame
    selector = BalancedCoreset(50, by=[name], random_state=0)

    def spread(choosers):
        totals = [np.bincount(codes[c.indices_], c.weights_, minlength=5) for c in choosers]
        return np.std(totals, axis=0).mean()

    in_memory = spread([clone(selector).set_params(random_state=s).fit(frame) for s in range(30)])
    for kind in range(2):
        streams = [
            held_as_in_memory(selector, n)[kind].set_params(random_state=s).fit(frame)
            for s in range(30)
        ]
        assert spread(streams) < 1.5 * in_memory + 1


# Streams that keep any rows and any labels.
KEEPING = [
    MergeReduce(UniformCoreset(), size=20, leaf_size=50, random_state=0),
    Reservoir(20, random_state=0),
    ReservoirCoreset(UniformCoreset(), size=20, balanced=False, random_state=0),
]
every_keeping = pytest.mark.parametrize("stream", KEEPING, ids=lambda s: type(s).__name__)


@every_keeping
@pytest.mark.parametrize("of_library", LIBRARIES)
def test_several_labels_whose_columns_stand_in_another_order_are_refused(stream, of_library):
    of = partial(frame_of, of_library)
    X = np.zeros((30, 2))
    soft = pd.DataFrame({"cat": np.full(30, 0.9), "dog": np.full(30, 0.1)})
    stream = clone(stream).partial_fit(X, of(soft))
    before = pickle.dumps(vars(stream))
    for other in (of(soft[["dog", "cat"]]), soft.to_numpy()):
        with pytest.raises(
            ValueError, match="the stream so far has the columns cat, dog of numbers"
        ):
            stream.partial_fit(X, other)
    assert pickle.dumps(vars(stream)) == before
    stream.partial_fit(X, of(soft))
    np.testing.assert_array_equal(stream.rows()[1], np.tile([0.9, 0.1], (20, 1)))


@every_keeping
def test_the_name_of_the_only_label_says_nothing(stream):
    X = np.zeros((30, 2))
    y = pd.DataFrame({"animal": np.arange(30)})
    stream = clone(stream).partial_fit(X, y).partial_fit(X, y.set_axis(["pet"], axis=1))
    assert stream.rows()[1].shape == (20, 1)


WORDS = pd.DataFrame({"a": np.arange(60.0), "b": ["x", "y"] * 30})
FORMS = {
    "frame with words": lambda: WORDS,
    "polars": lambda: frame_of("polars", WORDS),
    "texts": lambda: ["a text", "another"] * 30,
    "images": lambda: np.arange(960.0).reshape(60, 4, 4),
    "lists of numbers": lambda: np.arange(120.0).reshape(60, 2).tolist(),
}


@every_keeping
@pytest.mark.parametrize("form", FORMS)
def test_chunks_without_rows_change_nothing_in_any_form(stream, form):
    rows = FORMS[form]()
    y = np.arange(60) % 3
    undisturbed = clone(stream).partial_fit(rows[:35], y[:35]).partial_fit(rows[35:], y[35:])
    stream = clone(stream)
    for start, stop in ((0, 0), (0, 35), (35, 35), (35, 60), (60, 60)):
        stream.partial_fit(rows[start:stop], y[start:stop])
    stream.partial_fit([], [])
    assert stream.n_seen_ == 60
    np.testing.assert_array_equal(stream.indices_, undisturbed.indices_)
    np.testing.assert_array_equal(stream.rows()[0], undisturbed.rows()[0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        stream.partial_fit([], [1])


@every_kind
def test_fit_asks_for_a_row_where_a_list_has_none(kind):
    with pytest.raises(ValueError, match="fit needs at least 1 row, got 0; partial_fit takes"):
        of(kind).fit([], [])
