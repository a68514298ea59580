"""Every estimator over dask data: the answer of one machine, and nothing pulled into this process."""

import importlib
import os
import pickle
import subprocess
import sys
from itertools import pairwise

import handful
import numpy as np
import pytest
from handful import (
    VCGMM,
    AnyEstimatorCoreset,
    BilevelCoreset,
    CoresetEstimator,
    CoresetSampler,
    KCenter,
    KMeansPlusPlus,
    LeastSquares,
    LightweightCoreset,
    LinearSVM,
    Logistic,
    LogisticSensitivity,
    MergeReduce,
    SVMCoreset,
    UniformCoreset,
)
from handful.baselines import FRCL, ForgettingEvents, Hardest, Herding, ICaRL, MaxEntropy, StratifiedCoreset
from handful.bilevel import Exchange, Forward, OptimalDesign, ProxyCoreset
from handful.clustering import MiniBatchKMeans
from handful.dictionary import MeasurementSelector
from handful.proxies import Nystrom, TreeLeaves
from handful.sensitivity import MixtureSensitivity
from handful.streaming import ClassBalancedReservoir, DynamicMergeReduce, Reservoir
from scipy import sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics.pairwise import rbf_kernel
from test_selectors import import_all

da = pytest.importorskip("dask.array", reason="dask comes with the extra handful[distributed]")
dask = pytest.importorskip("dask")
db = pytest.importorskip("dask.bag")

from handful.distributed import ChunkError, Chunks, svm  # noqa: E402 (needs dask)

N = 3000


@pytest.fixture(autouse=True)
def one_process():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = (X.sum(axis=1) + rng.normal(size=N) > 0).astype(int)
    return X, y, rng.integers(0, 3, N) + 0.5 * rng.integers(0, 2, N)


def lazily(*arrays, chunks=700):
    return [None if a is None else da.from_array(a, chunks=(chunks, *a.shape[1:])) for a in arrays]


def assert_same(a, b):
    np.testing.assert_array_equal(a.indices_, b.indices_)
    np.testing.assert_array_equal(a.weights_, b.weights_)


# --- the answers of one machine

EXACT = [
    UniformCoreset(50, random_state=1),
    LightweightCoreset(200, random_state=1),
    KCenter(15, weighting="cells", random_state=1),
    MergeReduce(SVMCoreset(n_clusters=3), size=60, leaf_size=250, random_state=4),
    MergeReduce(UniformCoreset(), size=60, leaf_size=1000, random_state=4),
]


@pytest.mark.parametrize("selector", EXACT, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_coreset_is_to_the_last_bit_that_of_one_machine(selector, weighted, data):
    X, y, w = data
    w = None if not weighted else w + isinstance(selector, MergeReduce)  # its leaves count rows of weight zero
    alone = pickle.loads(pickle.dumps(selector)).fit(X, y, w)
    for chunks in (700, 3000, (1, 1999, 1000)):
        assert_same(selector.fit(*lazily(X, y, w, chunks=chunks)), alone)
    X_small, y_small, _ = selector.take(*lazily(X, y))
    np.testing.assert_array_equal(X_small, X[alone.indices_])
    np.testing.assert_array_equal(y_small, y[alone.indices_])


@pytest.mark.parametrize("n", [2750, 200, 250])
def test_a_stream_goes_on_after_dask_data_as_after_one_machine(n, data):
    X, y, _ = data
    alone, ours = (MergeReduce(SVMCoreset(n_clusters=3), size=60, leaf_size=250, random_state=4) for _ in range(2))
    alone.fit(X[:n], y[:n])
    ours.fit(*lazily(X[:n], y[:n]))
    assert_same(ours, alone)
    assert (ours.n_seen_, ours.n_reductions_) == (alone.n_seen_, alone.n_reductions_)
    assert_same(ours.partial_fit(X[n:], y[n:]), alone.partial_fit(X[n:], y[n:]))


def three_classes(X, y):
    return y + (X[:, 0] > 0.7)


@pytest.mark.parametrize("rule", ["linear", "quadratic"])
@pytest.mark.parametrize("weighting", ["binary", "optimised"])
@pytest.mark.parametrize(
    ("problem", "targets"),
    [
        (Logistic(), lambda X, y: y),
        (Logistic(penalise_intercept=True), lambda X, y: np.where(y == 1, "yes", "no")),
        (LeastSquares(fit_intercept=False), lambda X, y: X[:, 0] ** 2 + y),
        (Logistic(), three_classes),
    ],
    ids=["binary", "words", "least squares", "three classes"],
)
def test_bilevel_selection_chooses_the_rows_of_one_machine(problem, targets, weighting, rule, data):
    X, y, w = data
    y = targets(X, y)
    weights = w if rule == "linear" else None
    options = dict(size=14, rule=rule, weighting=weighting, random_state=2, strategy=Forward(2, n_start=4))
    alone = BilevelCoreset(problem, **options).fit(X, y, weights)
    ours = BilevelCoreset(problem, **options).fit(*lazily(X, y, weights))
    np.testing.assert_array_equal(ours.indices_[:8], alone.indices_[:8])
    if y.dtype.kind != "i" or y.max() < 2:  # with more classes solvers stop at a tolerance, so that rounding can tell
        np.testing.assert_array_equal(ours.indices_, alone.indices_)
        np.testing.assert_allclose(ours.weights_, alone.weights_, rtol=1e-4, atol=1e-4 * N)


def test_more_features_than_points_and_soft_labels_are_selected_from_as_on_one_machine():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 140))
    y = (X[:, 0] > 0).astype(int)
    soft = rng.dirichlet(np.ones(3), size=600)
    for targets in (y, soft):
        options = dict(size=9, rule="quadratic", random_state=0)
        alone = BilevelCoreset(**options).fit(X, targets)
        np.testing.assert_array_equal(
            BilevelCoreset(**options).fit(*lazily(X, targets, chunks=250)).indices_, alone.indices_
        )


def test_a_mixture_is_fitted_to_the_last_bit_as_on_one_machine(data):
    X, _, w = data
    alone = VCGMM(12, coreset_size=800, random_state=0).fit(X, sample_weight=w)
    lazy, lazy_w = lazily(X, w)
    ours = VCGMM(12, coreset_size=800, random_state=0).fit(lazy, sample_weight=lazy_w)
    np.testing.assert_array_equal(ours.cluster_centers_, alone.cluster_centers_)
    np.testing.assert_array_equal(ours.labels_.compute(), alone.labels_)
    np.testing.assert_array_equal(ours.predict(lazy).compute(), alone.predict(X))
    np.testing.assert_array_equal(ours.predict(lazy[lazy[:, 0] > 9]).compute(), [])
    np.testing.assert_allclose(ours.transform(lazy).compute(), alone.transform(X), rtol=1e-12)
    np.testing.assert_allclose(ours.score(lazy), alone.score(X), rtol=1e-12)
    np.testing.assert_allclose(ours.predict_proba(lazy).compute(), alone.predict_proba(X), rtol=1e-12)
    of_bag = VCGMM(12, coreset_size=800, random_state=0).fit(bag(X, data[1], w))
    np.testing.assert_array_equal(of_bag.labels_.compute(), alone.labels_)
    np.testing.assert_allclose(of_bag.score(bag(X, convert=sparse.csr_matrix)), alone.score(X), rtol=1e-12)
    for model, rows in ((alone, X), (ours, lazy)):
        model.partial_fit(rows + 5.0)
    np.testing.assert_array_equal(ours.cluster_centers_, alone.cluster_centers_)
    seeds = KMeansPlusPlus(12, random_state=0).fit(lazy).take(lazy)[0]
    assert VCGMM(12, coreset_size=800, init=seeds, random_state=0).fit(lazy).score(X) > alone.score(X) - 0.2
    pickle.dumps(ours)


# --- draws that are not those of one machine


@pytest.mark.parametrize(
    "selector",
    [
        SVMCoreset(150, n_clusters=1),
        SVMCoreset(150, n_clusters=1, rule="tight"),
        MixtureSensitivity(150, n_components=3),
        LogisticSensitivity(150, n_clusters=3),
        StratifiedCoreset(150),
    ],
    ids=str,
)
def test_importance_sampling_is_unbiased(selector, data):
    X, y, w = data
    lazy = [part.persist() for part in lazily(X, y, w, chunks=1500)]
    cost = np.abs(X @ [0.4, 0.1, 0.3, 0.2] + y)
    draws = []
    for seed in range(25):
        coreset = selector.set_params(random_state=seed).fit(*lazy)
        draws.append([coreset.weights_ @ cost[coreset.indices_], coreset.weights_.sum()])
    sem = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - [w @ cost, w.sum()]) < 4 * sem).all()
    assert (w[coreset.indices_] > 0).all()


@pytest.mark.parametrize(
    "selector", [SVMCoreset(400, n_clusters=1, random_state=0), LogisticSensitivity(400, n_clusters=1, random_state=0)]
)
def test_the_probabilities_are_those_of_one_machine(selector, data):
    # a row that is drawn once weighs w / (m q), so the coreset tells q
    alone, ours = {}, {}
    for out, arrays in ((alone, data), (ours, lazily(*data, chunks=1000))):
        for seed in range(4):
            coreset = selector.set_params(random_state=seed).fit(*arrays)
            out.update(zip(coreset.indices_.tolist(), coreset.weights_))
    common = sorted(set(alone) & set(ours))
    ratio = np.array([alone[i] / ours[i] for i in common])
    assert len(common) > 100
    assert abs(np.median(ratio) - 1) < 0.15


def test_the_sum_of_the_chunks_optima_is_a_lower_bound(data, monkeypatch):
    X, y, w = data
    seen = {}

    def spy(*args, opt, **rest):
        seen["opt"] = opt
        return np.ones(len(args[0]))

    monkeypatch.setitem(svm.RULES, "mixture", spy)
    SVMCoreset(50, n_clusters=1, random_state=0).fit(*lazily(X, y, w, chunks=500))
    best = LinearSVM().fit(X, y, w).objective_
    assert 0.8 * best < seen["opt"] <= best


def test_k_means_parallel_seeds_cost_what_k_means_plus_plus_seeds_cost():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2)) + 30 * rng.integers(5, size=(4000, 2))
    (lazy,) = lazily(X, chunks=900)

    def cost(seed, rows):
        centers = X[KMeansPlusPlus(25, random_state=seed).fit(rows).indices_]
        return ((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()

    ours, alone = ([cost(seed, rows) for seed in range(5)] for rows in (lazy, X))
    assert np.median(ours) < 1.2 * np.median(alone)
    few = lazily(np.repeat([[0.0], [1.0]], 20, axis=0), chunks=7)[0]
    assert len(set(KMeansPlusPlus(5, random_state=0).fit(few).indices_)) == 5


# --- chunks of any kind


def odd_chunks(*arrays):
    """Chunks of one row and none among them, of lengths that dask does not know."""
    edges = [0, 1, 1, 900, 2400, 2400, 2999, N]
    out = []
    for a in arrays:
        parts = [dask.delayed(a[i:j]) for i, j in pairwise(edges)]
        known = [da.from_delayed(p, (np.nan, *a.shape[1:]), a.dtype) for p in parts]
        out.append(da.concatenate(known, allow_unknown_chunksizes=True))
    return out


def bag(*arrays, convert=lambda X: X):
    parts = [(convert(arrays[0][i : i + 700]), *(a[i : i + 700] for a in arrays[1:])) for i in range(0, N, 700)]
    return db.from_sequence(parts, npartitions=len(parts))


@pytest.mark.parametrize(
    "selector",
    [
        UniformCoreset(50, random_state=1),
        BilevelCoreset(size=8, random_state=0),
        LightweightCoreset(100, random_state=0),
        MergeReduce(UniformCoreset(), size=60, leaf_size=250, random_state=4),
    ],
    ids=lambda s: type(s).__name__,
)
def test_odd_chunks_unknown_lengths_and_bags_change_nothing(selector, data):
    X, y, w = data
    w = w + 1
    alone = pickle.loads(pickle.dumps(selector)).fit(X, y, w)
    assert_same(selector.fit(*odd_chunks(X, y, w)), alone)
    assert_same(selector.fit(bag(X, y, w)), alone)
    for taken, expected in zip(selector.take(bag(X, y, w)), alone.take(X, y)):
        np.testing.assert_array_equal(taken, expected)
    if not isinstance(selector, LightweightCoreset):
        selector.fit(bag(X, y, w, convert=sparse.csr_matrix))
        np.testing.assert_array_equal(selector.indices_, alone.indices_)


def test_frames_are_taken_with_their_columns(data, tmp_path):
    dd = pytest.importorskip("dask.dataframe", reason="frames need pyarrow")
    import pandas as pd

    X, y, w = data
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y, w=w)
    dd.from_pandas(table, npartitions=4).to_parquet(tmp_path / "rows")
    frame = dd.read_parquet(tmp_path / "rows")
    columns = frame[list("abcd")], frame["y"], frame["w"]
    for selector in (BilevelCoreset(size=8, random_state=0), LightweightCoreset(100, random_state=0)):
        alone = selector.fit(X, y, w)
        indices = alone.indices_.copy()
        ours = selector.fit(*columns)
        np.testing.assert_array_equal(ours.indices_, indices)
        assert ours.feature_names_in_.tolist() == list("abcd")
        np.testing.assert_array_equal(ours.take(*columns[:2])[1], y[indices])
    model = VCGMM(5, coreset_size=300, random_state=0).fit(columns[0])
    np.testing.assert_array_equal(model.labels_.compute(), model.predict(columns[0]).compute())


def test_frames_of_every_kind_of_number_and_label_give_the_rows_of_one_machine(data):
    dd = pytest.importorskip("dask.dataframe", reason="frames need pyarrow")
    import pandas as pd

    X, y, w = data
    words = np.where(y > 0, "yes", "no")
    table = pd.DataFrame(X, columns=list("abcd")).assign(flag=X[:, 0] > 0, y=y, word=words, w=w)
    table["count"] = pd.array(np.arange(N) % 5, dtype="Int64")
    table["kind"] = pd.Categorical(words)
    table["left"] = pd.array(y, dtype="Int64")
    frame = dd.from_pandas(table, npartitions=4)
    columns = [*"abcd", "flag", "count"]
    numbers = table[columns].to_numpy(dtype=float)
    for selector in (BilevelCoreset(size=8, random_state=0), LightweightCoreset(100, random_state=0)):
        alone = selector.fit(numbers, y, w).indices_.copy()
        for label in ("y", "word", "kind", "left"):
            for target in (frame[label], frame[[label]]):
                np.testing.assert_array_equal(selector.fit(frame[columns], target, frame["w"]).indices_, alone)
            rows, labels, _ = selector.take(frame[columns], frame[label])
            np.testing.assert_array_equal(rows, numbers[alone])
            assert labels.tolist() == table[label].iloc[alone].tolist()
    pd.testing.assert_frame_equal(selector.take(frame)[0], frame.compute().iloc[alone])
    model = CoresetEstimator(LightweightCoreset(100, random_state=0), LogisticRegression())
    model.fit(frame[columns], frame["word"])
    np.testing.assert_array_equal(model.predict(frame[columns]).compute(), model.predict(numbers))
    refused = {
        r"the columns 'word' \((str|string|object)\), 'kind' \(category\) hold none": (
            frame[["a", "word", "kind"]],
            None,
        ),
        "must be a dask array or series where .* got Series": (frame[columns], table["word"]),
        "must be chunked like X, in 4 chunks, got 6; .*to_dask_array": (frame[columns], *lazily(y, chunks=500)),
    }
    for message, arguments in refused.items():
        with pytest.raises(ValueError, match=message):
            UniformCoreset(20).fit(*arguments)
    for label in ("word", "left"):
        table[label] = table[label].where(np.arange(N) != 1600)
        missing = dd.from_pandas(table, npartitions=4)
        with pytest.raises(ChunkError, match=r"chunk 2: y contains (missing values|NaN)"):
            UniformCoreset(20).fit(missing[columns], missing[label])


def test_labels_in_one_column_are_labels(data):
    X, y, w = data
    for selector in (StratifiedCoreset(60, random_state=0), SVMCoreset(60, n_clusters=2, random_state=0)):
        flat = selector.fit(*lazily(X, y, w)).indices_.copy()
        np.testing.assert_array_equal(selector.fit(*lazily(X, y[:, None], w)).indices_, flat)


def test_take_gives_entries_as_they_are_and_refuses_rows_that_are_not_there(data):
    X, y, _ = data
    coreset = UniformCoreset(20, random_state=0).fit(*lazily(X, y))
    images = np.arange(N * 4, dtype=np.int16).reshape(N, 2, 2)
    words = y.astype(str)
    for values in (images, words, X.astype(np.float32)):
        taken = coreset.take(da.from_array(values, chunks=(700, *[1] * (values.ndim - 1))))[0]
        np.testing.assert_array_equal(taken, values[coreset.indices_])
        assert taken.dtype == values.dtype
    with pytest.raises(ValueError, match=r"the coreset holds row \d+, but got 100 rows"):
        coreset.take(*lazily(X[:100]))


# --- nothing is pulled whole into this process


def all_that_fit():
    chosen_by = [
        *(UniformCoreset, StratifiedCoreset, KCenter, KMeansPlusPlus, LightweightCoreset, MixtureSensitivity),
        *(LogisticSensitivity, SVMCoreset, BilevelCoreset, ForgettingEvents, OptimalDesign, ProxyCoreset),
        *(Herding, ICaRL, Hardest, MaxEntropy, FRCL),
    ]
    return [
        *(cls(size=12) for cls in chosen_by),
        BilevelCoreset(size=12, robust=True),
        BilevelCoreset(size=12, strategy=Exchange()),
        AnyEstimatorCoreset(LogisticRegression(), size=12),
        CoresetEstimator(UniformCoreset(30, random_state=0), LogisticRegression()),
        CoresetSampler(UniformCoreset(30, random_state=0)),
        MergeReduce(UniformCoreset(), size=20, leaf_size=100),
        DynamicMergeReduce(UniformCoreset(), size=20, leaf_size=100),
        Reservoir(size=10),
        ClassBalancedReservoir(size=10),
        VCGMM(5),
        VCGMM(5, coreset_size=100),
        MiniBatchKMeans(5),
        LinearSVM(),
        MeasurementSelector(size=2),
        Nystrom(rbf_kernel),
        TreeLeaves(),
    ]


def test_no_estimator_is_left_out():
    import_all()
    rooms = [module for name, module in sys.modules.items() if name.split(".")[0] == "handful" and name.count(".") < 3]
    public = [getattr(room, name) for room in rooms for name in getattr(room, "__all__", ())]
    fitting = {cls.__name__ for cls in public if isinstance(cls, type) and hasattr(cls, "fit")}
    fitting -= {"Selector", "WeightedFit"}  # the base class, and what only comes after a CoresetSampler in a pipeline
    assert fitting == {type(estimator).__name__ for estimator in all_that_fit()}


@pytest.fixture(scope="module")
def lazy_forms(data):
    """Labelled rows as a dask array, frame and bag: functions of nothing that give X and y."""
    dd = pytest.importorskip("dask.dataframe", reason="frames need pyarrow")
    import pandas as pd

    X, y = (np.concatenate([values] * 16) for values in data[:2])  # samples of 4,000 rows may come
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=y), npartitions=10)
    parts = [(X[i : i + 4800], y[i : i + 4800]) for i in range(0, len(X), 4800)]
    return X.nbytes, {
        "array": lazily(X, y, chunks=4800),
        "frame": (frame[list("abcd")], frame["y"]),
        "bag": (db.from_sequence(parts, npartitions=len(parts)), None),
    }


@pytest.mark.parametrize("form", ["array", "frame", "bag"])
@pytest.mark.parametrize("estimator", all_that_fit(), ids=lambda e: type(e).__name__)
def test_fit_takes_dask_data_or_refuses_with_the_way_out_and_pulls_nothing(estimator, form, lazy_forms, monkeypatch):
    n_bytes, forms = lazy_forms
    X, y = forms[form]

    def pulled(*args, **kwargs):
        raise AssertionError("the whole was asked for")

    for values in (X, y):
        for name in {"__array__", "__iter__", "compute"} & set(dir(type(values))):
            monkeypatch.setattr(type(values), name, pulled)
    sizes, compute = [], Chunks.compute

    def watched(self, tasks):
        results = compute(self, tasks)
        sizes.append(len(pickle.dumps(results)))
        return results

    monkeypatch.setattr(Chunks, "compute", watched)
    refusal = ""
    try:
        estimator.fit(X) if isinstance(estimator, Reservoir) and form != "frame" else estimator.fit(X, y)
    except ValueError as error:
        refusal = str(error)
    ways_out = "MergeReduce", "Coreset, which takes", "Coreset, whose", "computed", "2**16"
    assert sizes or ("dask data" in refusal and any(way in refusal for way in ways_out)), refusal
    assert max(sizes, default=0) < 0.4 * n_bytes


def test_what_was_fitted_says_of_dask_rows_what_it_says_of_rows_or_refuses(data, lazy_forms):
    X, y, _ = data
    (lazy,) = lazily(X)
    model = CoresetEstimator(UniformCoreset(200, random_state=0), LogisticRegression())
    for rows, labels in lazy_forms[1].values():
        model.fit(rows, labels)
        np.testing.assert_array_equal(model.predict(lazy).compute(), model.predict(X))
        np.testing.assert_allclose(model.predict_proba(rows).compute()[:N], model.predict_proba(X), rtol=1e-9)
    Z = [Nystrom(rbf_kernel).fit(X[:50]), TreeLeaves().fit(X[:50]), MeasurementSelector(size=2).fit(X[:50])]
    calls = [step.transform for step in Z] + [LinearSVM().fit(X, y).predict, MiniBatchKMeans(3).fit(X).score]
    calls += [model.score, CoresetEstimator(UniformCoreset(5), SGDClassifier()).partial_fit]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"takes no dask data, which it would pull into this process; .* chunk|rows"
        ):
            call(lazy)


WEIGHED = [
    *(UniformCoreset(50), StratifiedCoreset(50), KCenter(20), KMeansPlusPlus(20), LightweightCoreset(50)),
    *(MixtureSensitivity(50, n_components=2), LogisticSensitivity(50, n_clusters=2), SVMCoreset(50, n_clusters=2)),
    *(BilevelCoreset(size=9), MergeReduce(UniformCoreset(), size=50, leaf_size=500)),
]


@pytest.mark.parametrize("selector", WEIGHED, ids=lambda s: type(s).__name__)
def test_a_row_counts_as_often_as_its_weight_says(selector, data):
    X, y, _ = data
    weights = np.where(np.arange(N) % 10 == 0, 3.0, 0.0)
    coreset = selector.set_params(random_state=0).fit(*lazily(X, y, weights))
    assert (coreset.indices_ % 10 == 0).all()
    assert 0.5 < coreset.weights_.sum() / weights.sum() < 2  # exact where points are chosen, near it where drawn


@pytest.mark.parametrize(
    ("selector", "most"),
    [
        (UniformCoreset(200), 2),
        (LightweightCoreset(200), 4),
        (StratifiedCoreset(200), 5),
        (SVMCoreset(200, n_clusters=2), 5),
        (KMeansPlusPlus(10), 13),
        (LogisticSensitivity(200, n_clusters=3), 16),
        (MixtureSensitivity(200, n_components=3), 16),
        (KCenter(10), 10 + 2),
        (MergeReduce(UniformCoreset(), size=60, leaf_size=500), 2),
        (BilevelCoreset(size=10, strategy=Forward(n_start=2)), 2 * 8 + 4),
        (BilevelCoreset(size=12, strategy=Forward(5, n_start=2)), 2 * 2 + 4),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else value,
)
def test_chunks_are_read_no_more_often_than_the_documentation_says(selector, most, data):
    n_read = [0]

    def reading(block, block_info=None):
        n_read[0] += bool(block_info)
        return block

    X, y = lazily(*data[:2], chunks=500)
    selector.set_params(random_state=0).fit(X.map_blocks(reading, meta=np.empty((0, 0))), y)
    assert 0 < n_read[0] <= most * X.numblocks[0]


# --- what is wrong is named, with its chunk


def test_a_chunk_that_cannot_be_used_is_named(data):
    X, y, w = data
    bad = X.copy()
    bad[1500, 2] = np.nan
    wide = db.from_sequence([(X[:700], y[:700]), (X[700:, :3], y[700:])], npartitions=2)
    cases = [
        (lazily(bad, y), "chunk 2: X contains NaN or infinity, first in row 100 of the chunk"),
        (lazily(X, np.where(np.arange(N) == 800, np.nan, y)), "chunk 1: y contains NaN"),
        (lazily(X, y, np.where(np.arange(N) == 2200, -1, w)), "chunk 3: sample_weight must not be negative"),
        ([wide], "chunk 1 of X has 3 columns, chunk 0 has 4"),
        ([db.from_sequence([(X[:700], y[:600])])], "chunk 0: y must have one entry a row, 700 of them"),
    ]
    for arrays, message in cases:
        with pytest.raises(ChunkError, match=message):
            BilevelCoreset(size=8).fit(*arrays)


def test_a_partition_with_other_columns_is_named(data):
    dd = pytest.importorskip("dask.dataframe", reason="frames need pyarrow")
    import pandas as pd

    tables = [pd.DataFrame(data[0][:50], columns=list(names)) for names in ("abcd", "abce")]
    frame = dd.from_delayed([dask.delayed(table) for table in tables], meta=tables[0], verify_meta=False)
    with pytest.raises(ChunkError, match=r"chunk 1: it has the columns \['a', 'b', 'c', 'e'\], but the frame has"):
        UniformCoreset(20).fit(frame)


def broken(block, block_info=None):
    if block_info and block_info[0]["chunk-location"][0] == 3:
        raise OSError("the disk is gone")
    return block


def test_a_task_that_raises_is_named_with_its_chunk(data):
    X, y = lazily(*data[:2])
    with pytest.raises(ChunkError, match=r"chunk 3 of X cannot be computed: OSError: the disk is gone"):
        UniformCoreset(20).fit(X.map_blocks(broken, meta=np.empty((0, 0))), y)
    mixed = np.array(["yes", "no", *y.compute()[2:]], dtype=object)
    with pytest.raises(ChunkError, match=r"chunk 0: \w*TypeError: "):
        StratifiedCoreset(20).fit(X, *lazily(mixed))


@pytest.mark.parametrize(
    ("selector", "arrays", "message"),
    [
        (SVMCoreset(20, sampling="systematic"), lambda X, y: lazily(X, y), "sampling='multinomial'"),
        (SVMCoreset(20, l2=-1), lambda X, y: lazily(X, y), "l2 must be a finite number greater than 0"),
        (SVMCoreset(20), lambda X, y: lazily(X, np.repeat([0, 1], N // 2), chunks=500), "one class only"),
        (SVMCoreset(20), lambda X, y: lazily(X, np.arange(N) % 3), "exactly 2 classes"),
        (BilevelCoreset(size=9), lambda X, y: lazily(X, np.zeros(N, int)), "one class only"),
        (UniformCoreset(N + 1), lambda X, y: lazily(X), "size must be at most the number of rows"),
        (UniformCoreset(), lambda X, y: (X, *lazily(y)), "X must be a dask array, frame or bag where other arguments"),
        (UniformCoreset(), lambda X, y: (*lazily(X), y), "y must be a dask array or series where .* got ndarray"),
        (UniformCoreset(), lambda X, y: [dask.delayed(X)], "got a Delayed: see dask.array.from_delayed"),
        (UniformCoreset(), lambda X, y: lazily(y), "X must be 2-d, rows and features, got 1-d Array"),
        (UniformCoreset(), lambda X, y: [db.from_sequence([{"a": 1}])], "items of the bag must be chunks.* got dict"),
        (UniformCoreset(), lambda X, y: lazily(X.astype(object)), "must hold real numbers, got dtype object"),
        (UniformCoreset(), lambda X, y: (db.from_sequence([X]), y), "y must be None for a bag"),
        (UniformCoreset(), lambda X, y: lazily(X, y[:100]), "one label a row"),
        (UniformCoreset(), lambda X, y: (*lazily(X), None, *lazily(np.zeros(N))), "sample_weight is zero for all rows"),
        (LightweightCoreset(0), lambda X, y: lazily(X), "size must be an integer of at least 1"),
        (LightweightCoreset(), lambda X, y: [bag(X, convert=sparse.csr_matrix)], "no sparse chunks"),
        (LightweightCoreset(), lambda X, y: lazily(X[:0]), "no rows"),
    ],
)
def test_bad_input_is_named(selector, arrays, message, data):
    with pytest.raises(ValueError, match=message):
        selector.fit(*arrays(*data[:2]))


def test_without_dask_the_extra_is_named_and_nothing_imports_it(monkeypatch):
    loaded = "import sys, handful, handful.bilevel, handful.clustering, handful.streaming; print('dask' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    monkeypatch.delitem(sys.modules, "handful.distributed")
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"handful\.distributed needs dask: pip install 'dask\[array,distributed\]'"):
        importlib.import_module("handful.distributed")


# --- from files

FILES = """
import resource, sys
from pathlib import Path
import dask, numpy as np
from handful import BilevelCoreset, LightweightCoreset

folder, kind = Path(sys.argv[1]), sys.argv[2]
names = [f"x{i}" for i in range(16)]


def rows(path):
    X = np.load(path)
    return X, (X[:, 0] > 0).astype(int)


def stretch(start, length=32_768):
    X = np.array(np.load(folder / "one.npy", mmap_mode="r")[start : start + length])
    return X, (X[:, 0] > 0).astype(int)


def paths(kind):
    return sorted((folder / kind).glob("*")) * 4


def data(n_files):
    if kind == "parquet":
        import dask.dataframe as dd
        import pyarrow

        pyarrow.set_cpu_count(1)
        pyarrow.set_io_thread_count(1)
        table = dd.concat([dd.read_parquet(path) for path in paths("parquet")[:n_files]])
        return table[names], table["label"]
    import dask.bag as db

    source = paths("npy") if kind == "npy" else [*range(0, 12 * 32_768, 32_768)] * 4
    return (db.from_sequence(source[:n_files], npartitions=n_files).map(rows if kind == "npy" else stretch),)


def choose(*data):
    for selector in (BilevelCoreset(size=6, random_state=0), LightweightCoreset(500, random_state=0)):
        taken = selector.fit(*data).take(*data)
        assert taken[0].shape == (len(selector.indices_), 16)


few = np.load(folder / "npy" / "000.npy")[:500]
BilevelCoreset(size=6, random_state=0).fit(few, (few[:, 0] > 0).astype(int))  # loads what is compiled
with dask.config.set(scheduler="sync"):
    choose(*data(1))
    now = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData"))) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (now + (64 << 20),) * 2)
    choose(*data(48))
    try:
        np.concatenate([np.load(path) for path in paths("npy")])
    except MemoryError:
        print("more than memory holds")
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """12 files of 4 MiB, as .npy and as parquet, and the same rows in one .npy."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for kind in ("npy", "parquet"):
        (folder / kind).mkdir()
    X = rng.normal(size=(12, 32_768, 16))
    np.save(folder / "one.npy", X.reshape(-1, 16))
    for i, part in enumerate(X):
        np.save(folder / "npy" / f"{i:03}.npy", part)
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit and its measure are Linux's")
@pytest.mark.parametrize("kind", ["npy", "one", "parquet"])
def test_files_larger_than_the_memory_limit_are_selected_from(kind, files):
    # each file is read four times: 192 MiB; 64 more than one file takes are allowed, for arrow uses up to 18 of them
    if kind == "parquet":
        pd = pytest.importorskip("pandas", reason="frames need it")
        pytest.importorskip("pyarrow", reason="parquet needs it")
        for path in (files / "npy").glob("*"):
            table = pd.DataFrame(np.load(path), columns=[f"x{i}" for i in range(16)])
            table.assign(label=(table["x0"] > 0).astype(int)).to_parquet(files / "parquet" / f"{path.stem}.parquet")
    run = [sys.executable, "-c", FILES, str(files), kind]
    # what arrow's pools and the allocator's arenas, one a thread, hold in reserve would count, too
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "more than memory holds", done.stderr[-2000:]


def test_every_public_name_of_the_room_is_there():
    for name in handful.distributed.__all__:
        assert hasattr(handful.distributed, name)
