"""One bad chunk does not poison a stream: it is refused when it comes, and changes nothing."""

import pickle

import numpy as np
import pandas as pd
import pytest
from handful import (
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LeastSquares,
    Logistic,
    SVMCoreset,
    UniformCoreset,
)
from handful.baselines import StratifiedCoreset
from handful.bilevel import AnyEstimatorCoreset, OptimalDesign, ProxyCoreset
from handful.checks import ConvergenceError
from handful.clustering import VCGMM, MiniBatchKMeans
from handful.continual import ReplayBuffer
from handful.matching import MatchedCoreset
from handful.models import Joint, Poisson
from handful.sensitivity import LogisticSensitivity
from handful.streaming import ClassBalancedReservoir, MergeReduce, Reservoir, ReservoirCoreset
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import SGDClassifier

SIZE = 12
X_ALL = np.random.default_rng(0).normal(size=(600, 3))
Y_ALL = (X_ALL.sum(axis=1) > 0).astype(int)


def last(values, value, dtype=None):
    values = np.array(values, dtype=dtype or np.result_type(np.asarray(values), type(value)))
    values[-1] = value
    return values


def last_entry(X, value):
    X = X.copy()
    X[-1, -1] = value
    return X


# What is done to a chunk of two classes, 0 and 1. Labels may be missing where nothing looks at
# them.
MISSING = {
    "None": lambda X, y: (X, last(y, None, object)),
    "NaN label": lambda X, y: (X, last(y, np.nan)),
}
EVERY = {
    "inf": lambda X, y: (last_entry(X, np.inf), y),
    "columns": lambda X, y: (X[:, :2], y),
    "sparse": lambda X, y: (sparse.csr_array(X), y),
    "words": lambda X, y: (X, np.where(y > 0, "a", "b")),
    "mixed labels": lambda X, y: (X, last(y, "a", object)),
    "dates": lambda X, y: (X, y.astype("M8[D]")),
    "rows of dates": lambda X, y: (X.astype("M8[D]"), y),
    "no labels": lambda X, y: (X, None),
}
WEIGHTS = {
    "negative weight": lambda X, y: (X, y, last(np.ones(len(y)), -1.0)),
    "infinite sum": lambda X, y: (X, y, np.full(len(y), 1e308)),
}
HUGE = {"1e80": lambda X, y: (last_entry(X, 1e80), y)}
NO_CLASSES = MISSING | {"continuous": lambda X, y: (X, last(y, 0.5))}
MANY = {
    "third class": lambda X, y: (X, np.full(len(y), 2)),
    "third class among others": lambda X, y: (X, last(y, 2)),
    "many classes": lambda X, y: (X, np.arange(len(y))),
}
THIRTEEN = {
    "more classes than points": lambda X, y: (np.repeat(X, 7, axis=0), np.arange(7 * len(y)) % 13)
}
TWO_CLASSES = HUGE | NO_CLASSES | MANY
HUGE_TARGET = MISSING | {"huge target": lambda X, y: (X, last(y, 1e80))}
NEGATIVE = {"negative count": lambda X, y: (X, last(y, -1))}
SELECTORS = {
    "uniform": (UniformCoreset(), {}),
    "stratified": (StratifiedCoreset(), NO_CLASSES),
    "k-center": (KCenter(), HUGE),
    "SVM": (SVMCoreset(), TWO_CLASSES),
    "logistic": (LogisticSensitivity(), TWO_CLASSES),
    "bilevel": (BilevelCoreset(Logistic(), weighting="equal"), HUGE | NO_CLASSES | THIRTEEN),
    "least squares": (BilevelCoreset(LeastSquares()), HUGE | HUGE_TARGET),
    "joint": (BilevelCoreset(Joint(LeastSquares(), LeastSquares(1.0))), HUGE | HUGE_TARGET),
    "proxy": (ProxyCoreset(SVMCoreset()), TWO_CLASSES),
    "matched": (MatchedCoreset(Poisson(), penalties=[1e-2]), HUGE | NEGATIVE | HUGE_TARGET),
    "forest": (
        AnyEstimatorCoreset(
            RandomForestClassifier(n_estimators=2), n_draws=1, n_exchanges=0, n_held_out=0
        ),
        HUGE | NO_CLASSES | THIRTEEN,
    ),
}
FEW = [name for name in SELECTORS if name not in ("forest", "matched", "joint")]


def streams(selector):
    return {
        "tree": MergeReduce(selector, size=SIZE, leaf_size=50, random_state=0),
        "slots": MergeReduce(selector, size=SIZE, leaf_size=50, n_slots=2, random_state=0),
        "reservoir": ReservoirCoreset(selector, size=SIZE, n_held=50, random_state=0),
    }


def cases():
    for name, (selector, own) in SELECTORS.items():
        for kind in streams(selector):
            for bad, spoil in (EVERY | own | ({} if kind == "reservoir" else WEIGHTS)).items():
                yield pytest.param(name, kind, spoil, id=f"{name}-{kind}-{bad}")


def state(thing):
    return pickle.dumps(vars(thing))


@pytest.mark.parametrize(("name", "kind", "spoil"), list(cases()))
def test_a_bad_chunk_of_few_rows_is_refused_when_it_comes_and_changes_nothing(name, kind, spoil):
    stream = streams(SELECTORS[name][0])[kind].partial_fit(X_ALL[:30], Y_ALL[:30])
    before = state(stream)
    with pytest.raises(ValueError, match=r".") as refusal:
        stream.partial_fit(*spoil(X_ALL[30:36], Y_ALL[30:36]))
    assert not isinstance(refusal.value, ConvergenceError)
    assert state(stream) == before


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("kind", ["tree", "slots", "reservoir"])
@settings(max_examples=4)
@given(data=st.data())
def test_a_stream_with_bad_chunks_is_the_stream_of_the_good_ones_alone(name, kind, data):
    selector, own = SELECTORS[name]
    bad = list((EVERY | own).values())
    stream = streams(selector)[kind]
    undisturbed = streams(selector)[kind]
    begin = 0
    for spoil in data.draw(st.lists(st.none() | st.sampled_from(bad), min_size=4, max_size=12)):
        rows = slice(begin, begin + data.draw(st.integers(2, 60)))
        begin = rows.stop - 2
        if spoil is None or begin == rows.start:
            for one in (stream, undisturbed):
                one.partial_fit(X_ALL[rows], Y_ALL[rows])
        elif hasattr(stream, "seed_") and stream.n_seen_:
            with pytest.raises(ValueError):  # noqa: PT011 (each message is its own)
                stream.partial_fit(*spoil(X_ALL[rows], Y_ALL[rows]))
    for one in (stream, undisturbed):
        one.partial_fit(X_ALL[-60:], Y_ALL[-60:])
    for ours, theirs in zip(
        (*stream.rows(), stream.indices_), (*undisturbed.rows(), undisturbed.indices_)
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["tree", "slots", "reservoir"])
@pytest.mark.parametrize("name", ["uniform", "stratified", "k-center", "bilevel", "forest"])
@pytest.mark.parametrize("n_classes", [3, 20])
@pytest.mark.filterwarnings("ignore:.*(smallest of them|unique classes|random start).*:UserWarning")
def test_a_new_class_is_no_bad_chunk_where_the_selector_can_carry_it(name, kind, n_classes):
    stream = streams(SELECTORS[name][0])[kind]
    # one class at first, then one more with every chunk
    stream.partial_fit(X_ALL[:60], np.zeros(60, dtype=int))
    # which have a point of each class
    if name in ("bilevel", "forest"):
        n_classes = min(n_classes, SIZE)
    for k in range(1, n_classes):
        stream.partial_fit(X_ALL[:20], np.arange(20) % k + 1)
    assert stream.rows()[2].sum() == pytest.approx(stream.n_seen_, rel=0.5)
    assert len(stream.rows()[1]) <= SIZE * (3 if kind == "slots" else 1)


def test_strata_beyond_the_size_are_drawn_as_one_without_bias_and_with_a_warning():
    y = np.repeat(np.arange(13), [100, 50, 40, 30, 20, 10, 10, 10, 10, 10, 5, 3, 2])
    X = np.zeros((len(y), 1))
    cost = np.arange(len(y), dtype=float)
    totals = []
    for seed in range(200):
        stream = MergeReduce(StratifiedCoreset(), size=12, leaf_size=len(y), random_state=seed)
        with pytest.warns(
            UserWarning, match="13 classes in y for size=12: the smallest of them are drawn as one"
        ):
            stream.fit(X, y)
        totals.append(stream.weights_ @ cost[stream.indices_])
        assert len(np.unique(y[stream.indices_])) == 12
    assert abs(np.mean(totals) - cost.sum()) < 4 * np.std(totals) / np.sqrt(200)
    with pytest.raises(
        ValueError,
        match="size must be at least the number of strata, got size=12 for 13 classes in y",
    ):
        StratifiedCoreset(12).fit(X, y)


def test_a_selector_that_no_leaf_could_use_is_refused_at_the_first_chunk():
    for selector in (
        KCenter(weighting="none"),
        BilevelCoreset(weighting="corrective", strategy="exchange"),
    ):
        with pytest.raises(ValueError, match="weighting"):
            MergeReduce(selector, size=SIZE).partial_fit(X_ALL[:5], Y_ALL[:5])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        MergeReduce(OptimalDesign(), size=SIZE).partial_fit(sparse.csr_array(X_ALL[:5]))


def test_labels_of_rows_of_weight_zero_do_not_count():
    stream = MergeReduce(SVMCoreset(), size=SIZE, leaf_size=50, random_state=0).partial_fit(
        X_ALL[:30], Y_ALL[:30]
    )
    stream.partial_fit(X_ALL[:5], [0, 1, 2, 3, 4], sample_weight=[1, 1, 0, 0, 0])
    stream.partial_fit(X_ALL[:5], [5] * 5, sample_weight=np.zeros(5))
    assert set(stream.partial_fit(X_ALL, Y_ALL).rows()[1]) <= {0, 1}


@pytest.mark.parametrize(
    ("make", "spoil"),
    [
        *(pytest.param(Reservoir, spoil, id=bad) for bad, spoil in EVERY.items()),
        *(
            pytest.param(ClassBalancedReservoir, spoil, id=f"balanced {bad}")
            for bad, spoil in (EVERY | MISSING).items()
        ),
    ],
)
def test_a_reservoir_refuses_a_bad_chunk_and_goes_on_as_if_it_had_not_come(make, spoil):
    stream = make(SIZE, random_state=0).partial_fit(X_ALL[:30], Y_ALL[:30])
    undisturbed = make(SIZE, random_state=0).partial_fit(X_ALL[:30], Y_ALL[:30])
    before = state(stream)
    with pytest.raises(ValueError):  # noqa: PT011 (each message is its own)
        stream.partial_fit(*spoil(X_ALL[30:36], Y_ALL[30:36]))
    assert state(stream) == before
    stream.partial_fit(X_ALL, Y_ALL)
    np.testing.assert_array_equal(stream.indices_, undisturbed.partial_fit(X_ALL, Y_ALL).indices_)


def test_a_first_chunk_that_is_refused_draws_nothing_from_a_generator_that_is_given():
    for generator in (np.random.default_rng(3), np.random.RandomState(3)):
        for make in (
            Reservoir,
            lambda size, **options: MergeReduce(SVMCoreset(), size=size, **options),
        ):
            before = pickle.dumps(generator)
            with pytest.raises(ValueError, match="NaN"):
                make(SIZE, random_state=generator).partial_fit(last_entry(X_ALL, np.nan), Y_ALL)
            assert pickle.dumps(generator) == before


# --- what else goes on with further rows

THIRD = {"third class": MANY["third class"], "among others": MANY["third class among others"]}
ESTIMATORS = {
    "SVM": (SVMCoreset(5), EVERY | TWO_CLASSES),
    "uniform": (UniformCoreset(5), EVERY | THIRD | NO_CLASSES),
}


@pytest.mark.parametrize("n_rows", [4, 40])
@pytest.mark.parametrize(
    ("selector", "spoil"),
    [
        pytest.param(s, f, id=f"{name}-{bad}")
        for name, (s, cases) in ESTIMATORS.items()
        for bad, f in cases.items()
    ],
)
def test_partial_fit_of_an_estimator_refuses_a_bad_chunk_and_goes_on_as_before(
    selector, spoil, n_rows
):
    def begun():
        model = CoresetEstimator(
            selector, SGDClassifier(random_state=0), random_state=np.random.default_rng(0)
        )
        return model.partial_fit(X_ALL[:60], Y_ALL[:60], classes=[0, 1])

    model = begun()
    undisturbed = begun()
    chunk = spoil(X_ALL[60 : 60 + n_rows], Y_ALL[60 : 60 + n_rows])
    if sparse.issparse(chunk[0]) or chunk[0].dtype.kind == "M":
        pytest.skip("SGDClassifier takes sparse rows after dense ones, and dates as numbers")
    before = state(model)
    with pytest.raises(ValueError):  # noqa: PT011 (each message is its own)
        model.partial_fit(*chunk)
    assert state(model) == before
    for one in (model, undisturbed):
        one.partial_fit(X_ALL[100:], Y_ALL[100:])
    np.testing.assert_array_equal(model.estimator_.coef_, undisturbed.estimator_.coef_)


@pytest.mark.parametrize("spoil", (EVERY | TWO_CLASSES).values(), ids=(EVERY | TWO_CLASSES))
def test_a_task_that_is_refused_leaves_a_replay_buffer_as_it_was(spoil):
    memory, undisturbed = (
        ReplayBuffer(SVMCoreset(), size=40, random_state=0).add(X_ALL, Y_ALL) for _ in range(2)
    )
    before = pickle.dumps(memory)
    try:
        memory.add(*spoil(last_entry(X_ALL, np.nan), Y_ALL))
    except (ValueError, TypeError):
        assert pickle.dumps(memory) == before
    for one in (memory, undisturbed):
        one.add(X_ALL + 1, Y_ALL)
    for ours, theirs in zip(memory.rows(), undisturbed.rows()):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("make", [VCGMM, MiniBatchKMeans])
@pytest.mark.parametrize(
    "bad",
    [
        last_entry(X_ALL, np.nan),
        last_entry(X_ALL, 1e80),
        X_ALL[:, :2],
        X_ALL[:0],
        pd.DataFrame(X_ALL, columns=list("abc")).astype(str) + "x",
    ],
    ids=["NaN", "1e80", "columns", "empty", "words"],
)
def test_a_clusterer_refuses_a_bad_chunk_and_goes_on_as_if_it_had_not_come(make, bad):
    model, undisturbed = (make(3, random_state=0).partial_fit(X_ALL[:200]) for _ in range(2))
    before = state(model)
    with pytest.raises(ValueError):  # noqa: PT011 (each message is its own)
        model.partial_fit(bad)
    assert state(model) == before
    for one in (model, undisturbed):
        one.partial_fit(X_ALL[200:])
    np.testing.assert_array_equal(model.predict(X_ALL), undisturbed.predict(X_ALL))
