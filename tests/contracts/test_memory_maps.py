"""Memory maps: an array that fits or does not. What is done with its rows never depends on its
type.

joblib hands arrays above a size to its workers as read-only memory maps (joblib#1023,
scikit-learn#15810), so a choice that depended on the type would depend on the number of processes.
"""

import warnings

import handful.tables as tables_module
import numpy as np
import pandas as pd
import pytest
from handful import (
    VCGMM,
    AnyEstimatorCoreset,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    KMeansPlusPlus,
    LightweightCoreset,
    LinearSVM,
    Logistic,
    LogisticSensitivity,
    MatchedCoreset,
    MergeReduce,
    StratifiedCoreset,
    SVMCoreset,
    UniformCoreset,
    running,
)
from handful.baselines import Herding
from handful.blocks import Blocks
from handful.checks import is_blocks
from handful.clustering import MiniBatchKMeans, quantization_error
from handful.sensitivity import MixtureSensitivity
from handful.streaming import ClassBalancedReservoir, Reservoir
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier

N = 400
D = 6
SELECTORS = [
    UniformCoreset(20, random_state=0),
    StratifiedCoreset(20, random_state=0),
    KCenter(20, random_state=0),
    KMeansPlusPlus(20, weighting="cells", random_state=0),
    Herding(20),
    LightweightCoreset(20, random_state=0),
    MixtureSensitivity(20, random_state=0),
    LogisticSensitivity(20, random_state=0),
    SVMCoreset(20, random_state=0),
    BilevelCoreset(Logistic(l2=1e-2), size=20, random_state=0),
    MatchedCoreset(Logistic(l2=1e-2)),
    AnyEstimatorCoreset(
        SGDClassifier(random_state=0), size=20, n_draws=2, n_exchanges=2, random_state=0
    ),
]
STREAMS = [
    MergeReduce(KCenter(), size=20, leaf_size=100, random_state=0),
    Reservoir(20, random_state=0),
    ClassBalancedReservoir(20, random_state=0),
]
MODELS = [
    (LinearSVM(l2=1e-2), ("predict", "decision_function")),
    (VCGMM(3, random_state=0), ("predict", "transform", "score_samples", "predict_proba")),
    (
        VCGMM(3, coreset_size=100, random_state=0),
        ("predict", "transform", "score_samples", "predict_proba"),
    ),
    (MiniBatchKMeans(3, random_state=0), ("predict", "transform")),
    (
        CoresetEstimator(KCenter(30, random_state=0), LogisticRegression()),
        ("predict", "predict_proba"),
    ),
]


def named(values):
    return [f"{type(value).__name__}-{i}" for i, value in enumerate(values)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    return X, (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int), rng.exponential(size=N)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 50 rows, so that these rows would make several."""
    monkeypatch.setattr(tables_module, "ENTRIES", 50 * D)


def maps(array, folder):
    """An array as each kind of memory map, by name, and as a plain array that views one."""
    path = folder / f"{id(array)}.npy"
    np.save(path, array)
    found = {mode: np.load(path, mmap_mode=mode) for mode in ("r", "r+", "c")}
    return found | {"view": np.asarray(found["r"])}


def attributes(fitted):
    return {
        name: value
        for name, value in vars(fitted).items()
        if name.endswith("_") and not name.startswith("_")
    }


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, float | int | str | np.ndarray):
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def fitted(model, X, y, w):
    takes = "sample_weight" in model.fit.__code__.co_varnames and not isinstance(
        model, MatchedCoreset
    )
    model = clone(model)
    return model.fit(X, y, w) if takes else model.fit(X, y)


@pytest.mark.parametrize("selector", SELECTORS, ids=named(SELECTORS))
def test_a_choice_from_a_memory_map_is_that_from_the_array(selector, data, tmp_path):
    X, y, w = data
    expected = fitted(selector, X, y, w)
    for name, mapped in maps(X, tmp_path).items():
        found = fitted(selector, mapped, maps(y, tmp_path)[name], maps(w, tmp_path)[name])
        same(attributes(found), attributes(expected))
        X_small, y_small, weights = found.take(mapped, y)
        np.testing.assert_array_equal(X_small, X[expected.indices_])
        np.testing.assert_array_equal(y_small, y[expected.indices_])
        np.testing.assert_array_equal(weights, expected.weights_)
        assert not isinstance(X_small, np.memmap)


@pytest.mark.parametrize("stream", STREAMS, ids=named(STREAMS))
def test_a_stream_of_a_memory_map_is_that_of_the_array(stream, data, tmp_path):
    X, y, _ = data
    expected = clone(stream).fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    for mapped in maps(X, tmp_path).values():
        found = clone(stream).fit(mapped[:150], y[:150]).partial_fit(mapped[150:], y[150:])
        np.testing.assert_array_equal(found.indices_, expected.indices_)
        np.testing.assert_array_equal(found.rows()[0], expected.rows()[0])


@pytest.mark.parametrize(("model", "methods"), MODELS, ids=named(model for model, _ in MODELS))
def test_what_a_model_says_of_a_memory_map_is_what_it_says_of_the_array(
    model, methods, data, tmp_path
):
    X, y, w = data
    expected = fitted(model, X, y, w)
    for mapped in maps(X, tmp_path).values():
        found = fitted(model, mapped, y, w)
        same(attributes(found), attributes(expected))
        for method in methods:
            np.testing.assert_array_equal(
                getattr(found, method)(mapped), getattr(expected, method)(X)
            )
    centers = X[:3]
    assert quantization_error(mapped, centers, w) == quantization_error(X, centers, w)


# --- in a worker of joblib


def fit_there(model, X, y, w, entries):
    before = tables_module.ENTRIES
    tables_module.ENTRIES = entries
    try:
        found = fitted(model, X, y, w)
    finally:
        tables_module.ENTRIES = before
    return attributes(found), type(X)


@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_array, pd.DataFrame], ids=["array", "csr", "frame"]
)
def test_a_worker_chooses_what_one_process_chooses(form, data):
    X, y, w = data
    rows = form(np.where(np.abs(X) > 0.5, X, 0.0))
    models = [*SELECTORS, *(model for model, _ in MODELS)]
    if form is sparse.csr_array:
        models = [model for model in models if model.__sklearn_tags__().input_tags.sparse]
    if form is pd.DataFrame:
        rows.columns = [f"x{i}" for i in range(D)]
    there = Parallel(n_jobs=2, max_nbytes=10)(
        delayed(fit_there)(model, rows, y, w, tables_module.ENTRIES) for model in models
    )
    for model, (found, kind) in zip(models, there, strict=True):
        assert form is not np.asarray or kind is np.memmap
        same(found, attributes(fitted(model, rows, y, w)))


@pytest.mark.parametrize(
    "estimator", [SGDClassifier(random_state=0), LogisticRegression()], ids=["tried", "own"]
)
def test_any_estimator_coreset_of_two_processes_is_that_of_one(estimator, data):
    X, y, _ = data
    few = AnyEstimatorCoreset(estimator, size=20, n_draws=3, n_exchanges=4, random_state=0)
    alone, both = (clone(few).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    same(
        {**attributes(both), "trials": str(both.trials_)},
        {**attributes(alone), "trials": str(alone.trials_)},
    )


def test_a_coreset_estimator_in_a_vote_of_two_processes_is_that_of_one(data):
    X, y, _ = data
    few = CoresetEstimator(StratifiedCoreset(20, random_state=0), LogisticRegression())
    votes = [
        VotingClassifier([("few", few), ("all", LogisticRegression())], n_jobs=n).fit(X, y)
        for n in (1, 2)
    ]
    chosen = [vote.estimators_[0].selector_.indices_ for vote in votes]
    np.testing.assert_array_equal(*chosen)


# --- what does not fit


@pytest.fixture
def little_memory(monkeypatch):
    """A machine with less memory than the rows need."""
    monkeypatch.setattr(tables_module, "physical_memory", lambda: 2 * 8 * N * D - 1)


@pytest.mark.parametrize("selector", SELECTORS, ids=named(SELECTORS))
def test_what_exceeds_half_of_the_memory_is_read_in_blocks_whatever_its_type(
    selector, data, tmp_path, little_memory
):
    X, y, w = data
    found = []
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for rows in (X, *maps(X, tmp_path).values()):
            found.append(fitted(selector, rows, y, w))
    told = [str(warning.message) for warning in given if "in blocks" in str(warning.message)]
    assert len(told) == (len(found) if selector._accepts.values else 0)
    if selector._accepts.values:
        expected = fitted(
            selector, Blocks(X, y, None if isinstance(selector, MatchedCoreset) else w), None, None
        )
    else:
        expected = fitted(selector, X.tolist(), y, w)
    for one in found:
        np.testing.assert_array_equal(one.indices_, expected.indices_)
        np.testing.assert_array_equal(one.weights_, expected.weights_)


def test_predictions_for_what_exceeds_half_of_the_memory_are_those_of_rows(
    data, monkeypatch, tmp_path
):
    X, y, w = data
    for model, methods in MODELS:
        one = fitted(model, X, y, w)
        expected = [getattr(one, method)(X) for method in methods]
        with monkeypatch.context() as small:
            small.setattr(tables_module, "physical_memory", lambda: 1)
            for rows in (X, *maps(X, tmp_path).values()):
                assert is_blocks(rows)
                for method, said in zip(methods, expected, strict=True):
                    np.testing.assert_allclose(getattr(one, method)(rows), said, rtol=1e-12)


def test_validation_rows_are_refused_where_the_rows_do_not_fit(data, little_memory):
    X, y, _ = data
    with pytest.raises(ValueError, match="validation rows are for data in memory"):
        BilevelCoreset(Logistic(l2=1e-2), size=5).fit(X, y, validation=(X, y))


@pytest.mark.parametrize(
    ("rows", "n_bytes"),
    [
        (np.zeros((100, 10)), 8000),
        (np.zeros((100, 10), np.float32), 4000),
        (np.zeros((100, 10), np.uint8), 8000),
        (np.broadcast_to(0.0, (100, 10)), 8000),
        (pd.DataFrame(np.zeros((100, 10))), 8000),
        (sparse.csr_array(np.eye(100)), 800),
    ],
)
def test_what_counts_are_the_bytes_of_the_numbers_that_are_read(rows, n_bytes, monkeypatch):
    monkeypatch.setattr(tables_module, "ENTRIES", 10)
    for memory, exceeds in ((2 * n_bytes, False), (2 * n_bytes - 1, True)):
        monkeypatch.setattr(tables_module, "physical_memory", lambda memory=memory: memory)
        assert is_blocks(rows) == exceeds
    monkeypatch.setattr(tables_module, "ENTRIES", 1000)
    # one block in any case
    assert not is_blocks(rows)


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/user/app\n", {"user/memory.max": "5000\n", "user/app/memory.max": "max\n"}, 5000),
        ("0::/user/app\n", {"user/memory.max": "5000", "user/app/memory.max": "3000"}, 3000),
        ("0::/elsewhere\n", {"memory.max": "7000"}, 7000),
        ("0::/\n", {}, None),
        ("4:memory:/app\n1:cpu:/\n", {"memory/app/memory.limit_in_bytes": "4000"}, 4000),
        ("4:memory:/app\n", {"memory/memory.limit_in_bytes": str(2**63 - 4096)}, None),
        ("", {}, None),
    ],
)
def test_a_container_has_the_memory_that_its_control_group_allows(
    group, files, limit, tmp_path, monkeypatch
):
    (tmp_path / "cgroup").write_text(group)
    for name, text in files.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(text)
    machine = running.physical_memory()
    monkeypatch.setattr(running, "GROUP", tmp_path / "cgroup")
    monkeypatch.setattr(running, "GROUPS", tmp_path / "none")
    machine = running.physical_memory()
    monkeypatch.setattr(running, "GROUPS", tmp_path / "sys")
    assert running.physical_memory() == (limit or machine)
