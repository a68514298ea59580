"""What holds for every public estimator, whatever the data: one table, and two ways to ask that
must agree.

`make fuzz` runs the same relations on as many random tables as one likes: ``HANDFUL_EXAMPLES=5000
make fuzz``.
"""

import inspect
import io
import os
import pickle
import pkgutil
import re
import threading
import warnings
from contextlib import suppress
from importlib import import_module

import handful
import numpy as np
import pandas as pd
import pytest
from contracts.test_selectors import SELECTORS
from handful import (
    VCGMM,
    CoresetEstimator,
    KCenter,
    LightweightCoreset,
    LinearSVM,
    Logistic,
    LogisticSensitivity,
    MatchedCoreset,
    MergeReduce,
    StratifiedCoreset,
    SVMCoreset,
    UniformCoreset,
    compare,
    influence,
    suspects,
)
from handful.active import (
    Badge,
    BilevelQuery,
    ClusterMarginQuery,
    KCenterQuery,
    KMeansQuery,
    MaxEntropyQuery,
    UniformQuery,
)
from handful.bilevel import AnyEstimatorCoreset, ProxyCoreset
from handful.blocks import Blocks
from handful.checks import accepts_of
from handful.clustering import MiniBatchKMeans, quantization_error
from handful.continual import ReplayBuffer
from handful.data.dataset import standardise
from handful.dictionary import L1, L2, MeasurementSelector
from handful.matching import check_log_weights, recombine
from handful.proxies import CNTK, NTK, RBF, Nystrom, TreeLeaves
from handful.sampling import (
    KDPP,
    BanditSampler,
    MixtureSampler,
    PrioritizedReplay,
    UniformSampler,
    distance_components,
    group_components,
)
from handful.sensitivity import MixtureSensitivity
from handful.streaming import ClassBalancedReservoir, Reservoir, ReservoirCoreset
from handful.svm.linear_svm import svm_objective
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

EXAMPLES = int(os.environ.get("HANDFUL_EXAMPLES", 12))
ASKED = ("predict", "transform", "score_samples", "decision_function")
LEARNED = (
    "indices_",
    "weights_",
    "coef_",
    "intercept_",
    "cluster_centers_",
    "labels_",
    "_n_features_out",
)


def every():
    """One object of each public class that is fitted to rows."""
    yield from (cls(size=6, random_state=0) for cls in SELECTORS)
    yield MatchedCoreset(random_state=0)
    yield from (
        LinearSVM(),
        VCGMM(3, random_state=0),
        MiniBatchKMeans(3, batch_size=20, n_steps=20, random_state=0),
    )
    yield from (Reservoir(6, random_state=0), ClassBalancedReservoir(6, random_state=0))
    yield MergeReduce(UniformCoreset(), size=6, leaf_size=30, random_state=0)
    yield ReservoirCoreset(UniformCoreset(), size=6, random_state=0)
    yield ProxyCoreset(KCenter(), Nystrom(RBF(), n_landmarks=5), size=6, random_state=0)
    yield AnyEstimatorCoreset(
        LogisticRegression(), size=6, n_draws=2, n_exchanges=2, random_state=0
    )
    yield CoresetEstimator(UniformCoreset(6, random_state=0), LinearSVM())


EVERY = list(every())
FOREST = ExtraTreesClassifier(5, max_leaf_nodes=8)
TRANSFORMERS = [
    Nystrom(RBF(gamma=0.1), n_landmarks=9, random_state=0),
    TreeLeaves(FOREST, random_state=0),
    MeasurementSelector(size=1),
]
each = pytest.mark.parametrize("estimator", EVERY, ids=lambda e: type(e).__name__)
each_fitted = pytest.mark.parametrize(
    "estimator", EVERY + TRANSFORMERS, ids=lambda e: type(e).__name__
)
STREAMS = [e for e in EVERY if hasattr(e, "partial_fit")]
# Whose choice depends on distances alone, so that a common shift or scale of all rows changes
# nothing.
OF_DISTANCES = (
    "KCenter",
    "KMeansPlusPlus",
    "LightweightCoreset",
    "Medoids",
    "MiniBatchKMeans",
    "VCGMM",
)

# Draw rows at random: with unequal sample weights their weights add up to the total on average
# only.
ON_AVERAGE = ("StratifiedCoreset", "UniformCoreset")
# X is not copied, and BLAS sums in the order of the layout
OPTIMISED = {"BilevelCoreset", "AnyEstimatorCoreset"}
# How much numbers may differ where sums of sparse rows are rounded otherwise: optimised weights end
# where the loss falls by less than 1e-5 of itself, an SVM (here also that of CoresetEstimator)
# within 1e-6 of its optimum.
ROUGH = {"BilevelCoreset": 1e-2, "LinearSVM": 1e-3, "CoresetEstimator": 1e-3}


def of(*names):
    return pytest.mark.parametrize(
        "estimator", [e for e in EVERY if type(e).__name__ in names], ids=lambda e: type(e).__name__
    )


def learned(estimator):
    # of a CoresetEstimator, the model
    estimator = getattr(estimator, "estimator_", estimator)
    found = {
        name: np.asarray(getattr(estimator, name)) for name in LEARNED if hasattr(estimator, name)
    }
    assert found, "nothing learned under a known name"
    return found


def answers(estimator, X):
    """What a fitted estimator says of rows, too."""
    return {
        ask: np.asarray(getattr(estimator, ask)(X)) for ask in ASKED if hasattr(estimator, ask)
    } | learned(estimator)


def assert_same(a, b, **tolerance):
    assert a.keys() == b.keys()
    for name in a:
        if tolerance and a[name].dtype.kind == "f":
            np.testing.assert_allclose(a[name], b[name], err_msg=name, **tolerance)
        else:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def takes(estimator, name):
    return name in inspect.signature(estimator.fit).parameters


def fit(estimator, X, y, sample_weight=None):
    extra = {} if sample_weight is None else {"sample_weight": sample_weight}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(estimator).fit(X, y, **extra)


def attempt(estimator, *data):
    """The fitted estimator and "", or None and the words with which it refused the data."""
    try:
        return (fit(estimator, *data) if hasattr(estimator, "fit") else estimator(*data)), ""
    except (ValueError, TypeError) as error:
        return None, str(error)


KINDS = (
    "normal",
    "integers",
    "many zeros",
    "few values",
    "heavy tails",
    "a constant column",
    "an outlier",
    "tiny",
    "large",
    "wide",
)


def table(kind, seed, n=None):
    """A random table, its labels of two classes, and weights of which a third are zero."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = n or int(rng.integers(24, 90))
    X = rng.normal(size=(n, 40 if kind == "wide" else int(rng.integers(1, 6))))
    X = {
        "integers": lambda: np.round(3 * X),
        "many zeros": lambda: np.round(X),
        "few values": lambda: X[rng.integers(0, 12, n)],
        "heavy tails": lambda: X / rng.normal(size=X.shape),
        "a constant column": lambda: np.column_stack([np.ones(n), X]),
        "an outlier": lambda: np.where(np.arange(n)[:, None] == 3, 1e4, X),
        "tiny": lambda: 1e-6 * X,
        "large": lambda: 1e6 * X,
    }.get(kind, lambda: X)()
    y = rng.permutation(np.arange(n) % 2)
    return X, y, rng.integers(0, 3, n).astype(float)


tables = st.builds(table, st.sampled_from(KINDS), st.integers(0, 10**6))


# What comes back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.__name__)
@settings(max_examples=EXAMPLES)
@given(table=tables, size=st.integers(1, 12))
def test_a_coreset_is_rows_of_positive_weight_that_add_up(cls, table, size):
    X, y, w = table
    found, refusal = attempt(cls(size=size, random_state=0), X, y, w)
    if refusal:
        assert re.search(r"\b(size|class|classes|X|y|sample_weight|l2)\b", refusal)
        return
    assert 1 <= len(found.indices_) == len(found.weights_) <= size
    assert (w[found.indices_] > 0).all()
    assert np.isfinite(found.weights_).all()
    assert (found.weights_ >= 0).all()
    if not cls._repeats:
        assert len(set(found.indices_)) == len(found.indices_)
    if not cls._repeats and cls.__name__ not in ON_AVERAGE:
        assert found.weights_.sum() == pytest.approx(w.sum())
    assert_same(learned(found), learned(fit(cls(size=size, random_state=0), X, y, w)))


DRAWN = [
    UniformCoreset(12),
    StratifiedCoreset(12),
    LightweightCoreset(12),
    MixtureSensitivity(12, n_components=3),
    *(LogisticSensitivity(12, n_clusters=3, radius=radius) for radius in (0.1, 3.0)),
    *(SVMCoreset(12, rule=rule, n_clusters=3) for rule in ("tight", "paper", "mixture")),
    MergeReduce(SVMCoreset(n_clusters=3), size=12, leaf_size=30),
    *(
        SVMCoreset(12, rule=rule, n_clusters=3, sampling="systematic")
        for rule in ("tight", "paper", "mixture")
    ),
]


@pytest.mark.parametrize("selector", DRAWN, ids=repr)
def test_draws_estimate_every_weighted_sum_without_bias(selector):
    X, y, w = table("normal", 10, n=80)
    w = w * np.random.default_rng(0).exponential(size=80)
    values = np.column_stack([np.ones(80), np.exp(X[:, 0]), X[:, -1] ** 2 * (1 + y)])
    fits = [clone(selector).set_params(random_state=seed).fit(X, y, w) for seed in range(200)]
    # systematic draws are often the same
    assert len({tuple(found.indices_) for found in fits}) > 20
    draws = np.array([found.weights_ @ values[found.indices_] for found in fits])
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(fits))
    assert (np.abs(draws.mean(axis=0) - w @ values) < 4 * error + 1e-9 * (w @ values)).all()


# Two ways to ask ---------------------------------------------------------------------------------


def layouts(X, folder):
    strided = np.zeros((2 * len(X), 2 * X.shape[1]))
    strided[::2, ::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    np.save(folder / "X.npy", X)
    yield from (
        np.asfortranarray(X),
        strided[::2, ::2],
        read_only,
        np.load(folder / "X.npy", mmap_mode="r"),
    )
    yield pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


@each
def test_the_layout_of_the_rows_changes_no_digit_or_where_weights_are_optimised_the_last_ones(
    estimator, tmp_path
):
    X, y, _ = table("normal", 1, n=200)
    expected = learned(fit(estimator, X, y))
    tolerance = dict(rtol=1e-9, atol=1e-12) if type(estimator).__name__ in OPTIMISED else {}
    for form in layouts(X, tmp_path):
        assert_same(learned(fit(estimator, form, y)), expected, **tolerance)


@each
@settings(max_examples=EXAMPLES)
@given(table=tables, kind=st.sampled_from([sparse.csr_array, sparse.csr_matrix]))
def test_sparse_rows_are_chosen_as_dense_ones_or_refused_by_name(estimator, table, kind):
    X, y, _ = table
    found, refusal = attempt(estimator, kind(X), y)
    if "sparse" in refusal.lower():
        return
    expected, also = attempt(estimator, X, y)
    assert refusal == also
    if not refusal:
        rough = ROUGH.get(type(estimator).__name__, 1e-6)
        assert_same(learned(found), learned(expected), rtol=rough, atol=rough / 10)


@pytest.mark.parametrize("selector", DRAWN, ids=repr)
# of rows that move no margin, or only its last digits
@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e-8])
def test_draws_from_tiny_sparse_rows_are_those_from_dense_ones(selector, scale):
    for seed in range(12):
        X, y, _ = table("normal", seed)
        forms = (np.asarray, sparse.csr_array)
        chooser = clone(selector).set_params(random_state=0)
        (expected, also), (found, refusal) = (
            attempt(chooser, form(scale * X), y) for form in forms
        )
        assert refusal == also or "sparse" in refusal.lower()
        if not refusal:
            assert_same(learned(found), learned(expected), rtol=1e-6)


@each
def test_columns_in_another_order_are_refused(estimator):
    X, y, _ = table("a constant column", 3, n=80)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    other = frame[frame.columns[::-1]]
    found = fit(estimator, frame, y)
    assert found.feature_names_in_.tolist() == frame.columns.tolist()
    asks = ("predict", "transform", "score_samples", "decision_function")
    calls = [lambda ask=ask: getattr(found, ask)(other) for ask in asks if hasattr(found, ask)]
    if hasattr(found, "partial_fit"):
        calls.append(lambda: found.partial_fit(other, y))
    if hasattr(found, "log_likelihood"):
        draws = np.zeros((100, X.shape[1] + 1))
        calls += [
            lambda: found.log_likelihood(draws, other, y),
            lambda: found.check(draws, other, y),
        ]
        calls.append(lambda: found.check(draws, Blocks(other, y, rows=30)))
    if takes(found, "validation"):
        calls.append(
            lambda: clone(found).set_params(outer="validation").fit(frame, y, validation=(other, y))
        )
    for call in calls:
        with pytest.raises(ValueError, match=r"(?i)feature names|columns"):
            call()


@each
@pytest.mark.parametrize("scale", [1e100, 1e300])
def test_rows_as_large_as_numbers_go_get_a_finite_answer_or_are_refused_by_name(estimator, scale):
    X, y, _ = table("normal", 12, n=80)
    found = fit(estimator, X, y)
    for ask in ("predict", "transform", "score_samples", "decision_function"):
        if hasattr(found, ask):
            answer, refusal = attempt(getattr(found, ask), scale * X)
            assert "X must not have entries larger" in refusal or np.isfinite(answer).all()


@each
def test_pickling_cloning_and_a_second_fit_change_no_digit(estimator):
    X, y, _ = table("normal", 4, n=200)
    found = fit(estimator, X, y)
    expected = learned(found)
    assert_same(learned(pickle.loads(pickle.dumps(found))), expected)
    assert_same(learned(fit(found, X, y)), expected)
    assert_same(learned(found.fit(X, y)), expected)


@pytest.mark.parametrize("estimator", STREAMS, ids=lambda e: type(e).__name__)
def test_saved_in_the_middle_of_a_stream_it_goes_on_as_if_nothing_had_been(estimator):
    X, y, _ = table("normal", 5, n=240)
    parts = np.split(np.arange(240), 4)
    through = clone(estimator)
    broken = clone(estimator)
    for part in parts:
        through.partial_fit(X[part], y[part])
        broken = pickle.load(io.BytesIO(pickle.dumps(broken))).partial_fit(X[part], y[part])
    for one in (through, broken):
        if hasattr(one, "rows"):
            one.rows()
    assert_same(learned(broken), learned(through))


@each
def test_the_number_of_threads_changes_nothing(estimator):
    import numba

    X, y, _ = table("normal", 6, n=3000)
    found = []
    before = numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
            with threadpool_limits(threads):
                found.append(learned(fit(estimator, X, y)))
    finally:
        numba.set_num_threads(before)
    # the last digit of a sum is the processor's, which splits long ones
    assert_same(*found, rtol=1e-9, atol=1e-12)


@each
def test_fits_in_threads_are_those_of_one_alone_and_leave_the_process_as_it_was(estimator):
    def blas():
        return [
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        ]

    X, y, _ = table("normal", 7, n=400)
    with threadpool_limits(2, user_api="blas"):
        expected = learned(fit(estimator, X, y))
        before = blas()
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(learned(fit(estimator, X, y))))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert blas() == before
    assert len(found) == 3
    for one in found:
        assert_same(one, expected, rtol=1e-9, atol=1e-12)


@of(*OF_DISTANCES)
@settings(max_examples=EXAMPLES)
@given(
    seed=st.integers(0, 10**6),
    shift=st.sampled_from([-1e8, -100.0, 1e7]),
    power=st.integers(-12, 12),
)
def test_what_depends_on_distances_does_not_see_a_shift_or_a_scale(estimator, seed, shift, power):
    rng = np.random.default_rng(seed)
    # exact after the shift and the scale, too
    X = rng.integers(-64, 64, size=(200, 3)) / 8.0
    if rng.random() < 0.5:
        X = X + rng.integers(-4, 4, size=(1, 3)) * 16.0
    expected = learned(fit(estimator, X, None))
    found = learned(fit(estimator, X * 2.0**power + shift, None))
    for name in found.keys() & {"indices_", "labels_"}:
        np.testing.assert_array_equal(found[name], expected[name])


@each
def test_rows_of_weight_zero_are_as_absent_whatever_they_hold(estimator):
    if not takes(estimator, "sample_weight"):
        return
    X, y, w = table("normal", 11, n=150)
    present = np.flatnonzero(w)
    absent = w == 0
    expected = learned(fit(estimator, X[present], y[present], w[present]))
    found = learned(
        fit(estimator, np.where(absent[:, None], 1e3 * X, X), np.where(absent, 7, y), w)
    )
    # one for each row
    expected.pop("labels_", None), found.pop("labels_", None)
    if "indices_" in found:
        expected["indices_"] = present[expected["indices_"]]
    assert_same(found, expected, rtol=1e-6, atol=1e-9)


@of("LinearSVM")
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10**6))
def test_a_row_of_weight_two_is_the_row_twice_in_any_order(estimator, seed):
    X, y, w = table("normal", seed, n=60)
    w[:2] = 1
    y[:2] = [0, 1]
    rows = np.random.default_rng(seed).permutation(np.repeat(np.arange(60), w.astype(int)))
    assert_same(
        learned(fit(estimator, X, y, w)),
        learned(fit(estimator, X[rows], y[rows])),
        rtol=1e-3,
        atol=1e-4,
    )


@of("VCGMM", "MiniBatchKMeans")
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10**6))
def test_draws_along_the_rows_do_not_tell_a_row_of_weight_two_from_the_row_twice(estimator, seed):
    X, _, w = table("normal", seed, n=60)
    w[:3] = 1
    rows = np.repeat(np.arange(60), w.astype(int))
    weighted = fit(estimator, X, None, w)
    repeated = fit(estimator, X[rows], None)
    np.testing.assert_allclose(
        weighted.cluster_centers_, repeated.cluster_centers_, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(weighted.labels_[rows], repeated.labels_)


# rows of other columns than those before, and labels
REFUSED = {
    "no rows": lambda X, y: (X[:0], y[:0]),
    "NaN in a frame": lambda X, y: (
        pd.DataFrame(with_entry(X, np.nan), columns=list("abcdefg")),
        y,
    ),
    "one class": lambda X, y: (X, np.zeros(len(y), dtype=int)),
    "few rows": lambda X, y: (X[:2], y[:2]),
    "huge rows": lambda X, y: (1e200 * X, y),
    "targets": lambda X, y: (X, X[:, 0]),
    "rows in blocks, of one class": lambda X, y: (Blocks(X, 0 * y, rows=30), None),
}


@each_fitted
@pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")
def test_a_fit_that_is_refused_leaves_the_one_before(estimator):
    X, y, _ = table("normal", 10, n=100)
    other = np.random.default_rng(0).normal(size=(60, 7))
    refused = 0
    for odd in REFUSED.values():
        found = fit(estimator, X, y)
        expected = answers(found, X)
        before = dict(vars(found))
        with suppress(ValueError, TypeError):
            found.fit(*odd(other, y[:60]))
            continue
        assert vars(found).keys() == before.keys()
        assert all(vars(found)[name] is before[name] for name in before)
        assert_same(answers(found, X), expected)
        refused += 1
    assert refused


@each_fitted
def test_an_option_set_after_a_fit_changes_no_answer_or_is_refused_by_name(estimator):
    X, y, _ = table("normal", 16, n=60)
    found = fit(estimator, X, y)
    expected = answers(found, X)
    state = pickle.dumps(found)
    for name, value in found.get_params().items():
        others = {int: 50, float: 0.3, bool: value is False}
        if type(value) in others:
            changed = pickle.loads(state).set_params(**{name: others[type(value)]})
            said, refusal = attempt(answers, changed, X)
            assert name in refusal if refusal else not assert_same(said, expected)


def bag(parts, **options):
    return pytest.importorskip("dask.bag").from_sequence(parts, **options)


OTHERS = {
    "words for labels": lambda X, y: (X, np.array(["no", "yes"])[y]),
    "other columns": lambda X, y: (np.hstack([X, X**2]), y),
    "a frame": lambda X, y: (pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), y),
    "a bag": lambda X, y: (bag([(X[:40], y[:40]), (X[40:], y[40:])], npartitions=2), None),
    "sparse rows": lambda X, y: (sparse.csr_array(np.round(X)), y),
    "blocks": lambda X, y: (Blocks(X, y, rows=40), None),
    "few rows": lambda X, y: (X[:30], y[:30]),
}


@each_fitted
def test_another_fit_of_the_same_object_is_that_of_a_fresh_one_and_keeps_nothing(estimator):
    found = fit(estimator, *table("normal", 15, n=120)[:2])
    X, y, _ = table("normal", 14, n=80)
    for make in OTHERS.values():
        data = make(X, y)
        fresh, _ = attempt(estimator, *data)
        if fresh is not None:
            found.fit(*data)
            assert vars(found).keys() == vars(fresh).keys()
            asked = data[0] if hasattr(data[0], "shape") else X
            assert_same(answers(found, asked), answers(fresh, asked))


# What is refused ---------------------------------------------------------------------------------


def with_entry(X, value):
    X = X.copy()
    X[5, 0] = value
    return X


ODD = {
    "NaN": (lambda X, y, w: (with_entry(X, np.nan), y, w), "NaN|nan"),
    "infinity": (lambda X, y, w: (with_entry(X, np.inf), y, w), "infinity|inf"),
    "one axis": (lambda X, y, w: (X[:, 0], y, w), "2D|2-d|shape|dim"),
    "no rows": (
        lambda X, y, w: (X[:0], y[:0], w[:0]),
        "0 sample|empty|minimum of 1|no rows|at least 1 row",
    ),
    "complex": (lambda X, y, w: (X + 1j, y, w), "[Cc]omplex"),
    "a label too few": (lambda X, y, w: (X, y[1:], w), "inconsistent|length|shape"),
    "a weight too few": (lambda X, y, w: (X, y, w[1:]), "sample_weight|inconsistent"),
    "a negative weight": (
        lambda X, y, w: (X, y, with_entry(w[:, None], -1.0)[:, 0]),
        "sample_weight|[Nn]egative",
    ),
    "weights of zero": (lambda X, y, w: (X, y, 0 * w), "sample_weight|weight"),
    "a weight that is NaN": (
        lambda X, y, w: (X, y, with_entry(w[:, None], np.nan)[:, 0]),
        "sample_weight|NaN|weight",
    ),
}


@each
@pytest.mark.parametrize("name", ODD)
def test_odd_input_is_refused_by_name(estimator, name):
    change, words = ODD[name]
    X, y, w = table("normal", 8, n=60)
    w = w + 0.5
    odd_X, odd_y, odd_w = change(X, y, w)
    if odd_w is not w and not takes(estimator, "sample_weight"):
        return
    weights = odd_w if takes(estimator, "sample_weight") and len(odd_X) != 0 else None
    untouched = odd_y is not y and name == "a label too few" and not reads_labels(estimator)
    if untouched or (
        odd_X is not X and not accepts_of(estimator).values and name in ("NaN", "infinity")
    ):
        return
    with pytest.raises((ValueError, TypeError), match=words):
        fit(estimator, odd_X, odd_y, weights)


def reads_labels(estimator):
    return not isinstance(estimator, (VCGMM, MiniBatchKMeans))


# what functions cannot take: the words of its refusal
BEYOND = {
    "features.*toarray": lambda X, y: recombine(sparse.csr_array(X)),
    "Complex data": lambda X, y: recombine(X + 1j),
    "X, .*toarray": lambda X, y: standardise(sparse.csr_array(X)),
    "Complex data not": lambda X, y: standardise(X + 1j),
    "standardise: the data must not have entries larger": lambda X, y: standardise(1e200 * X),
    "one label a row, .*60, 1": lambda X, y: suspects(LogisticRegression(), X, y[:, None]),
    "one label a row": lambda X, y: suspects(LogisticRegression(), X, None),
    "sparse matrix": lambda X, y: ReplayBuffer(UniformCoreset(), size=9).add(
        sparse.csr_array(X), y
    ),
}


@pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")
@pytest.mark.parametrize("words", BEYOND)
def test_what_a_function_cannot_take_is_refused_in_its_own_words(words):
    X, y, _ = table("normal", 13, n=60)
    with pytest.raises((ValueError, TypeError), match=words):
        BEYOND[words](X, y)


@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("size", [0, -1, 2.5, "five", None, np.nan, True])
def test_a_size_that_is_none_is_refused_by_name(cls, size):
    X, y, _ = table("normal", 9, n=60)
    with pytest.raises((ValueError, TypeError), match="size"):
        cls(size=size, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    "cls", [cls for cls in SELECTORS if not cls._repeats], ids=lambda cls: cls.__name__
)
def test_more_rows_than_there_are_cannot_be_chosen(cls):
    X, y, _ = table("normal", 9, n=60)
    with pytest.raises(ValueError, match="61"):
        cls(size=61, random_state=0).fit(X, y)


# labels or features beside dask data, in memory
ROWS = np.arange(120) % 3
# what is asked about rows and is not in `every`: "word of its refusal (of a public name)"
IN_MEMORY = {
    "ReplayBuffer": lambda X, y: ReplayBuffer(UniformCoreset(), size=9).add(X, y),
    "rows of MiniBatchKMeans": lambda X, y: MiniBatchKMeans(3).partial_fit(X),
    "init of VCGMM": lambda X, y: VCGMM(3, init=X[:3]).fit(np.eye(9, X.shape[1])),
    "sample_weight of VCGMM": lambda X, y: VCGMM(3).fit(np.ones((120, 2)), sample_weight=y),
    "MeasurementSelector": lambda X, y: MeasurementSelector(size=2).fit(X),
    "atoms of MeasurementSelector": lambda X, y: MeasurementSelector(X, size=2).fit(
        np.eye(9, X.shape[1])
    ),
    "recover of L1": lambda X, y: L1().recover(X[:3], X),
    "recover of L2": lambda X, y: L2().recover(X[:3], X),
    "Nystrom": lambda X, y: Nystrom(RBF(), n_landmarks=5).fit(X),
    "TreeLeaves": lambda X, y: TreeLeaves().fit(X),
    "X of RBF": lambda X, y: RBF()(X),
    "X of NTK": lambda X, y: NTK()(X),
    "X of CNTK": lambda X, y: CNTK(shape=(1, 1, X.shape[1]))(X),
    "X of svm_objective": lambda X, y: svm_objective(X, y, np.ones(X.shape[1] + 1)),
    "centers of quantization_error": lambda X, y: quantization_error(np.eye(9, X.shape[1]), X),
    "recombine": lambda X, y: recombine(X),
    "log_weights of check_log_weights": lambda X, y: check_log_weights(y),
    "X of KDPP": lambda X, y: KDPP(X, 2),
    "X of distance_components": lambda X, y: distance_components(X, 3),
    "labels of group_components": lambda X, y: group_components(y),
    "probabilities of MixtureSampler": lambda X, y: MixtureSampler(X),
    "update of UniformSampler": lambda X, y: updated(UniformSampler(120), y),
    "update of BanditSampler": lambda X, y: updated(BanditSampler(120), y),
    "update of PrioritizedReplay": lambda X, y: updated(PrioritizedReplay(120), y),
    "UniformQuery": lambda X, y: UniformQuery().query(3, features=X),
    "MaxEntropyQuery": lambda X, y: MaxEntropyQuery().query(3, probabilities=X),
    "KCenterQuery": lambda X, y: KCenterQuery().query(3, features=X),
    "KMeansQuery": lambda X, y: KMeansQuery().query(3, features=X),
    "Badge": lambda X, y: Badge().query(3, features=X, probabilities=np.eye(3)[ROWS]),
    "ClusterMarginQuery": lambda X, y: ClusterMarginQuery().query(
        3, features=X, probabilities=np.eye(3)[ROWS]
    ),
    "BilevelQuery": lambda X, y: BilevelQuery().query(3, features=X, labelled=X, labels=ROWS),
    "standardise": lambda X, y: standardise(X),
    "suspects": lambda X, y: suspects(LogisticRegression(), X, y),
    "influence": lambda X, y: influence(Logistic(), X, y, X, y),
    "compare": lambda X, y: compare(UniformCoreset(5), LogisticRegression(), X, y),
}
# public names that no rows are given to
NOT_ASKED = {
    "a base class": "Problem Selector",
    "what a selector is given; it hands over rows that it checked": (
        "Forward GaussianMixture Joint LeastSquares Logistic Poisson Regularised"
    ),
    "numbers of rows, not rows": "ActiveLoop ConvergenceError Coreset DrawsReport",
    "sounds and pictures to look at": "LabellingPanel",
    "rows of a file that it reads": "load",
    "a model of another library, with its own data": "from_log_lik from_numpyro from_pymc",
}


def updated(sampler, losses):
    if isinstance(sampler, PrioritizedReplay):
        sampler.add(120)
    sampler.sample()
    return sampler.update(losses)


def public_names():
    """Of the library and of each subpackage."""
    modules = [f"handful.{module.name}" for module in pkgutil.iter_modules(handful.__path__)]
    return {
        name
        for module in ["handful", *modules]
        for name in getattr(import_module(module), "__all__", ())
    }


def test_the_tables_hold_every_public_name():
    """So that a new class or function is asked what the others are, or a reason is given here."""
    asked = {type(e).__name__ for e in EVERY} | {name.split()[-1] for name in IN_MEMORY}
    excused = {name for names in NOT_ASKED.values() for name in names.split()}
    assert public_names() - asked - excused == set()
    assert excused - public_names() == set()
    assert asked & excused == set()


@pytest.mark.parametrize("name", [type(e).__name__ for e in EVERY] + list(IN_MEMORY))
def test_dask_data_are_taken_by_block_or_refused_by_name(name, monkeypatch):
    da = pytest.importorskip("dask.array")
    X, y, _ = table("normal", 4, n=120)
    given = da.from_array(X, chunks=(30, X.shape[1])), da.from_array(y, chunks=30)
    whole = []
    monkeypatch.setattr(
        da.Array, "__array__", lambda self, *args, **kwargs: whole.append(1) or np.zeros(self.shape)
    )
    ask = IN_MEMORY.get(name) or next(e for e in EVERY if type(e).__name__ == name)
    said = attempt(ask, *given)[1]
    assert not said or (name.partition(" of ")[0] in said and "dask data" in said)
    assert said or name not in IN_MEMORY
    assert not whole
