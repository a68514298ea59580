"""`compare`: what it measures is what one would measure by hand, and what fails is told."""

import re
import sys
import time
import warnings
from types import SimpleNamespace
from typing import ClassVar

import matplotlib
import numpy as np
import pandas as pd
import pytest
from handful import (
    AnyEstimatorCoreset,
    CoresetEstimator,
    KCenter,
    LightweightCoreset,
    StratifiedCoreset,
    UniformCoreset,
    compare,
)
from handful.comparison_table import Comparison
from imblearn.pipeline import make_pipeline as imblearn_pipeline
from imblearn.under_sampling import RandomUnderSampler
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, scale
from threadpoolctl import threadpool_info, threadpool_limits

matplotlib.use("Agg")
X, y = load_breast_cancer(return_X_y=True)
MODEL = make_pipeline(StandardScaler(), LogisticRegression())


def test_a_score_is_that_of_choosing_and_training_by_hand():
    weighted = LightweightCoreset()
    found = compare(
        weighted, MODEL, X, y, sizes=[30], seeds=[4], scoring="neg_log_loss", verbose=False
    ).frame
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=4, stratify=y)
    selector = LightweightCoreset(30, random_state=4).fit(X_train, y_train)
    X_small, y_small, w = selector.take(X_train, y_train)
    model = clone(MODEL).fit(X_small, y_small, logisticregression__sample_weight=w)
    full = clone(MODEL).fit(X_train, y_train)
    [row] = found[found["method"] == "LightweightCoreset"].to_dict("records")
    assert row["score"] == pytest.approx(-log_loss(y_test, model.predict_proba(X_test)), rel=1e-9)
    assert row["n_rows"] == len(w)
    [row] = found[found["method"] == "all rows"].to_dict("records")
    assert row["score"] == pytest.approx(-log_loss(y_test, full.predict_proba(X_test)), rel=1e-9)
    assert found["weighted"].all()


METHODS = [
    "all rows",
    "uniform",
    "stratified",
    "far",
    "again",
    "best of draws",
    "more uniform rows",
]


def test_the_frame_is_tidy_and_the_lead_is_paired_by_seed():
    found = compare(
        {"far": KCenter(), "again": UniformCoreset()},
        MODEL,
        X,
        y,
        sizes=[20, 60],
        seeds=3,
        verbose=False,
    )
    frame = found.frame
    assert frame["method"].unique().tolist() == METHODS
    assert len(frame) == 3 * (1 + 2 * 6)
    assert (frame[["choose_seconds", "train_seconds"]] >= 0).all().all()
    table = found.summary().set_index(["method", "size"])
    by_seed = frame.pivot(index=["size", "seed"], columns="method", values="score")
    lead = (by_seed["far"] - by_seed["uniform"])[60]
    assert table.loc[("far", 60), "lead"] == pytest.approx(lead.mean())
    assert table.loc[("far", 60), "lead_std"] == pytest.approx(lead.std())
    # the same draws
    assert (table.loc["again", "lead"] == 0).all()
    axes = found.plot()
    assert [line.get_label() for line in axes[0].lines] == METHODS
    assert [tick.get_text() for tick in axes[0].get_xticklabels()] == ["20", "60"]
    np.testing.assert_array_equal(axes[0].lines[3].get_ydata(), table.loc["far", "score"])


def test_where_pandas_or_matplotlib_is_missing_it_is_named(monkeypatch):
    run = dict(sizes=[20], seeds=1, controls=False, verbose=False)
    found = compare(KCenter(), LogisticRegression(), X, y, **run)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="plot needs matplotlib: pip install matplotlib"):
        found.plot()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas: pip install pandas"):
        compare(KCenter(), LogisticRegression(), X, y)


class Fails(LogisticRegression):
    """Raises `error` from the `after`-th fit of the process on, and warns in each before."""

    after = np.inf
    error = None

    def fit(self, X, y, sample_weight=None):
        type(self).after -= 1
        if type(self).after < 0:
            raise type(self).error
        warnings.warn(f"{len(X)} rows are not enough", UserWarning, stacklevel=1)
        return super().fit(X, y, sample_weight)


def test_a_warning_of_many_fits_is_given_once_with_their_number():
    with pytest.warns(UserWarning, match="rows are not enough") as given:
        compare(
            KCenter(),
            Fails(max_iter=10_000),
            X[:, :2],
            y,
            sizes=[20, 60],
            seeds=3,
            controls=False,
            verbose=False,
        )
    said = "in 21 of 21 fits, of all rows, uniform, stratified, KCenter: 426 rows are not enough"
    assert [str(w.message) for w in given] == [said]
    assert given[0].filename == __file__


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_was_finished_before_an_interruption_or_an_error_is_kept(monkeypatch, error):
    monkeypatch.setattr(Fails, "after", 6)
    monkeypatch.setattr(Fails, "error", error)
    options = dict(sizes=[20, 60], seeds=3, controls=False, verbose=False)
    with pytest.raises(error) as stopped, pytest.warns(UserWarning, match="in 6 of 6 fits"):
        compare(KCenter(), Fails(max_iter=10_000), X[:, :2], y, **options)
    assert "the 6 fits that had finished" in stopped.value.__notes__[0]
    kept = stopped.value.comparison
    assert kept.frame["method"].value_counts().to_dict() == {
        "all rows": 1,
        "uniform": 2,
        "stratified": 2,
        "KCenter": 1,
    }
    whole = compare(KCenter(), LogisticRegression(max_iter=10_000), X[:, :2], y, **options).frame
    keys = ["method", "size", "seed"]
    both = kept.frame.merge(whole, on=keys)
    assert len(both) == 6
    assert both["score_x"].tolist() == both["score_y"].tolist()
    kept.plot()
    assert "KCenter" in str(kept)


def test_an_estimator_without_weights_is_compared_and_said_to_be():
    with pytest.warns(
        UserWarning,
        match=r"KNeighborsClassifier.fit takes no sample_weight: it trains on the chosen",
    ):
        found = compare(
            KCenter(), KNeighborsClassifier(1), X, y, sizes=[40], seeds=1, verbose=False
        )
    assert not found.frame["weighted"].any()
    assert found.frame["score"].notna().all()


def test_targets_held_out_rows_and_frames():
    R, target = load_diabetes(return_X_y=True, as_frame=True)
    found = compare(
        [KCenter()], Ridge(0.1), R[:300], target[:300], sizes=[20], seeds=2, verbose=False
    )
    assert "stratified" not in set(found.frame["method"])
    given = compare(
        [KCenter()],
        Ridge(0.1),
        R[:300],
        target[:300],
        test=(R[300:], target[300:]),
        seeds=2,
        verbose=False,
    )
    full = given.frame[given.frame["method"] == "all rows"]["score"]
    assert full.tolist() == [Ridge(0.1).fit(R[:300], target[:300]).score(R[300:], target[300:])] * 2
    assert sorted(given.frame["size"].unique()) == [3, 6, 15, 30, 300]


def test_labels_in_a_column_and_metadata_routing_change_no_score():
    options = dict(sizes=[30], seeds=1, controls=False, verbose=False)
    expected = compare(KCenter(), MODEL, X, y, **options).frame[["method", "score"]]
    with warnings.catch_warnings():
        # scikit-learn's of a column
        warnings.simplefilter("ignore")
        found = compare(KCenter(), MODEL, X, pd.DataFrame({"label": y}), **options).frame
    pd.testing.assert_frame_equal(found[["method", "score"]], expected)
    with config_context(enable_metadata_routing=True):
        found = compare(KCenter(), MODEL, X, y, **options).frame
    pd.testing.assert_frame_equal(found[["method", "score"]], expected)


def test_misuse_is_named():
    with pytest.raises(
        ValueError, match=r"size must be an integer of at least 1 and at most 426, got size=1000"
    ):
        compare(KCenter(), MODEL, X, y, sizes=[1000], verbose=False)
    with pytest.raises(TypeError, match="selector must choose rows"):
        compare(MODEL, KCenter(), X, y, sizes=[10], verbose=False)
    with pytest.raises(TypeError, match="scoring must be one score"):
        compare(KCenter(), MODEL, X, y, scoring=["accuracy", "neg_log_loss"], verbose=False)
    with pytest.raises(ValueError, match="two are the same; a dict gives them names"):
        compare([KCenter(), KCenter()], MODEL, X, y, verbose=False)
    for test, words in ((X, r"test must be \(X, y\)"), ((X[:9], y[:8]), "inconsistent numbers")):
        with pytest.raises(ValueError, match=words):
            compare(KCenter(), MODEL, X, y, test=test, verbose=False)
    twice = compare(
        [KCenter(), KCenter(weighting="cells")], MODEL, X, y, sizes=[20], seeds=1, verbose=False
    ).frame
    assert {"KCenter()", "KCenter(weighting='cells')"} <= set(twice["method"])
    assert isinstance(twice, pd.DataFrame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            dict(size=20),
            r"compare: got .*'size'; did you mean sizes\? The arguments of compare are ",
        ),
        (dict(n_rows=20), r"'n_rows'; did you mean sizes\? The"),
        (dict(score="accuracy"), r"'score'; did you mean scoring\? The"),
        (dict(metric="accuracy"), r"'metric'; did you mean scoring\? The"),
        (dict(n_seeds=3), r"'n_seeds'; did you mean seeds\? The"),
        (dict(random_state=3), r"'random_state'; seeds decide splits and draws.*=\[0\]\. The"),
        (
            dict(X_test=X, y_test=y),
            r"'X_test'; test=\(X_test, y_test\) are the held-out rows\. The",
        ),
        (dict(cv=3), r"'cv'; each of seeds is a split of its own"),
        (dict(nothing_like_it=3), r"'nothing_like_it'\. The arguments"),
    ],
)
def test_an_argument_that_is_none_is_told_with_the_one_that_is(options, message):
    with pytest.raises(TypeError, match=message):
        compare(KCenter(), MODEL, X, y, **options)


def test_what_is_missing_or_in_another_order_is_told():
    with pytest.raises(TypeError, match=r"missing .*'selectors'; got 'selector'; did you mean sel"):
        compare(selector=KCenter(), estimator=MODEL, X=X, y=y)
    with pytest.raises(TypeError, match=r"compare: too many positional arguments. The arguments"):
        compare(KCenter(), MODEL, X, y, [20])
    with pytest.raises(
        TypeError, match=r"got array.*; the order is compare\(selectors, estima"
    ) as e:
        compare(X, y, KCenter(), MODEL)
    assert len(str(e.value)) < 300
    with pytest.raises(ValueError, match=r"got sizes=50: give sizes=\[50\]\."):
        compare(KCenter(), MODEL, X, y, sizes=50)


@pytest.mark.parametrize(
    ("scoring", "meant"), [("acuracy", "accuracy"), ("log_loss", "neg_log_loss"), ("qqq", None)]
)
def test_a_score_that_scikit_learn_does_not_have_is_told_with_one_that_it_has(scoring, meant):
    hint = rf"did you mean {meant}\? " if meant else ""
    message = rf"^scoring='{scoring}' names no score of scikit-learn: {hint}sklearn.metrics.get_sc"
    with pytest.raises(ValueError, match=message):
        compare(KCenter(), MODEL, X, y, scoring=scoring)
    with pytest.raises(ValueError, match=message):
        AnyEstimatorCoreset(Ridge(), scoring=scoring).fit(X, y)


SQUARES = np.add.outer(np.arange(3), np.zeros(40, int)).ravel()


@pytest.mark.parametrize(
    ("scoring", "labels", "way_out"),
    [
        ("f1", np.array(["a", "b"])[SQUARES % 2], "give labels 0 and 1, or make_scorer with your"),
        ("f1", SQUARES, "is of two classes, and y holds 3: take one of f1_macro, f1_micro"),
        ("roc_auc", SQUARES, "is of two classes, and y holds 3: take one of roc_auc_ovo, roc_auc"),
    ],
)
def test_labels_that_a_score_refuses_are_refused_before_anything_is_trained(
    scoring, labels, way_out, monkeypatch
):
    rows = np.random.default_rng(0).normal(size=(len(labels), 2))
    monkeypatch.setattr(LogisticRegression, "fit", none_trained)
    with pytest.raises(ValueError, match=way_out):
        compare(UniformCoreset(), LogisticRegression(), rows, labels, scoring=scoring)
    with pytest.raises(ValueError, match=way_out):
        AnyEstimatorCoreset(RandomForestClassifier(), scoring=scoring, size=20).fit(rows, labels)


def none_trained(*_):
    raise AssertionError("something is being trained")


def test_a_metric_in_place_of_a_score_is_refused():
    labels = SQUARES % 2
    rows = np.random.default_rng(0).normal(size=(len(labels), 2))
    message = "looks like it is a metric function rather than a scorer"
    with pytest.raises(ValueError, match=message):
        compare(UniformCoreset(), MODEL, rows, labels, scoring=accuracy_score)
    few = AnyEstimatorCoreset(RandomForestClassifier(), scoring=accuracy_score, size=20)
    with pytest.raises(ValueError, match=message):
        few.fit(rows, labels)


class HalfOfNoWeight(UniformCoreset):
    def _select(self, X, y, sample_weight, rng):
        chosen, weights = super()._select(X, y, sample_weight, rng)
        weights[::2] = 0
        return chosen, weights


def test_rows_of_weight_zero_are_not_counted():
    found = compare(HalfOfNoWeight(), MODEL, X, y, sizes=[30], seeds=1, verbose=False)
    rows = found.frame.set_index("method")["n_rows"]
    assert rows["HalfOfNoWeight"] == 15
    assert rows["uniform"] == 30


TOWNS = pd.DataFrame({"a": X[:, 1], "town": np.where(X[:, 0] > 14, "u", "v")})
ONCE = dict(sizes=[30], seeds=1, verbose=False)


@pytest.mark.parametrize("kind", ["object", "category"])
@pytest.mark.parametrize(
    "model", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())]
)
def test_words_that_the_estimator_cannot_take_are_told_with_what_mends_it(model, kind):
    frame = TOWNS.astype({"town": kind})
    known = dict(
        make_pipeline=make_pipeline,
        make_column_transformer=make_column_transformer,
        OneHotEncoder=OneHotEncoder,
        StandardScaler=StandardScaler,
        LogisticRegression=LogisticRegression,
    )
    for train in (
        lambda model: compare(UniformCoreset(), model, frame, y, **ONCE),
        lambda model: CoresetEstimator(UniformCoreset(30), model).fit(frame, y),
    ):
        with pytest.raises(ValueError, match="Column 'town' of X holds words") as caught:
            train(model)
        said = str(caught.value)
        assert "LogisticRegression is to train on these rows: put what encodes words in" in said
        mended = re.search(r"make_pipeline\(.*LogisticRegression\(\)\)", said)[0]
        train(eval(mended, known))


def test_words_that_a_selector_cannot_take_are_told_as_the_selector_tells_them():
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    with pytest.raises(ValueError, match="Column 'town' of X holds words") as own:
        KCenter(30).fit(TOWNS, y)
    of_column = str(own.value).partition(". ")[2]
    for model in (LogisticRegression(), make_pipeline(encoder, LogisticRegression())):
        with pytest.raises(ValueError, match="score") as caught:
            compare(KCenter(), model, TOWNS, y, **ONCE)
        assert of_column in str(caught.value)
        assert "in front" not in str(caught.value)
    assert "the estimator's own pipeline encodes or fills in does not reach it" in str(caught.value)


def test_gaps_that_the_estimator_or_the_selector_cannot_take_are_told_with_what_mends_it():
    gaps = np.where(np.arange(len(X))[:, None] % 7 == np.arange(5), np.nan, X[:, :5])
    with pytest.raises(ValueError, match=r"NaN. LogisticReg.* in what is missing in front") as told:
        compare(UniformCoreset(), LogisticRegression(), gaps, y, **ONCE)
    mended = re.search(r"make_pipeline\(.*\)\)", str(told.value))[0]
    assert mended == "make_pipeline(SimpleImputer(), LogisticRegression())"
    model = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    compare(UniformCoreset(), model, gaps, y, **ONCE)
    with pytest.raises(ValueError, match=r"KCenter gave no score.*fills in does not reach it"):
        compare(KCenter(), model, gaps, y, **ONCE)


def test_words_among_the_held_out_rows_alone_are_told():
    numbers = TOWNS.assign(town=(TOWNS.town == "u").astype(float))
    test = TOWNS.iloc[:50], y[:50]
    with pytest.raises(ValueError, match="Column 'town' of the held-out rows holds words"):
        compare(UniformCoreset(), LogisticRegression(), numbers, y, test=test, **ONCE)


class Slow(UniformCoreset):
    """Takes a second to choose, by the clock of the test."""

    clock = 0.0

    def fit(self, X, y=None, sample_weight=None):
        Slow.clock += 1.0
        return super().fit(X, y, sample_weight)


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by a tenth of a second whenever it is read."""

    def tick():
        Slow.clock += 0.1
        return Slow.clock

    monkeypatch.setattr(sys.modules["handful.compare"], "time", SimpleNamespace(perf_counter=tick))


@pytest.mark.usefixtures("ticking")
def test_as_many_uniform_rows_as_there_are_have_no_weights():
    class Noted(LogisticRegression):
        weighted: ClassVar = []

        def fit(self, X, y, sample_weight=None):
            Noted.weighted.append((len(y), sample_weight is not None))
            return super().fit(X, y, sample_weight)

    compare(Slow(), Noted(), X, y, sizes=[30], seeds=1, verbose=False)
    n = max(n for n, _ in Noted.weighted)
    assert [weighted for rows, weighted in Noted.weighted if rows == n] == [False, False]
    assert (30, True) in Noted.weighted


@pytest.mark.usefixtures("ticking")
def test_the_controls_get_the_seconds_of_the_selector():
    found = compare(Slow(), MODEL, X, y, sizes=[30], seeds=1, scoring="neg_log_loss", verbose=False)
    frame = found.frame.set_index("method")
    assert frame.loc["best of draws", "n_draws"] > 1
    assert frame.loc["best of draws", "n_rows"] == 30
    assert 30 <= frame.loc["more uniform rows", "n_rows"] <= frame.loc["all rows", "n_rows"]
    bare = compare(Slow(), MODEL, X, y, sizes=[30], seeds=1, controls=False, verbose=False)
    assert "more uniform rows" not in repr(bare)
    shown = repr(found)
    trained_on = frame.loc["more uniform rows", "n_rows"]
    # its size and the rows that it trained on
    assert re.search(rf"more uniform rows +30 +{trained_on} ", shown)
    assert trained_on > 30
    assert shown.startswith(
        "log_loss on held-out rows; seconds on this machine"
        # a negative loss is shown as the loss
    )
    assert f"{-frame.loc['Slow', 'score']:.3g}" in shown
    assert "nan" not in shown.lower()


class Threads(LogisticRegression):
    """Notes the rows of each fit and score, and the threads that it may take."""

    noted: ClassVar[list] = []
    scored: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Threads.noted.append((len(X), openmp_threads()))
        return super().fit(X, y, sample_weight)

    def score(self, X, y):
        Threads.scored.append((len(X), openmp_threads()))
        return super().score(X, y)


def openmp_threads():
    [threads] = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}
    return threads


def test_few_rows_are_trained_on_with_one_thread_and_many_with_all(monkeypatch):
    monkeypatch.setattr("handful.running.FEW_ROWS", 100)
    Threads.noted.clear()
    Threads.scored.clear()
    with threadpool_limits(2, "openmp"):
        compare(UniformCoreset(), Threads(), scale(X), y, sizes=[30, 150], seeds=1, verbose=False)
        for size in (40, 160):
            CoresetEstimator(UniformCoreset(size), Threads()).fit(scale(X), y)
    assert {n for n, _ in Threads.noted} >= {30, 40, 150, 160, 426}
    assert all(threads == (1 if n <= 100 else 2) for n, threads in Threads.noted)
    # the held-out rows
    assert {threads for n, threads in Threads.scored if n == 143} == {2}


def test_choosing_pays_from_the_fit_on_that_its_seconds_are_saved():
    rows = [
        ("all rows", 100, 0.0, 3.0),
        ("uniform", 10, 0.0, 1.0),
        ("fast", 10, 5.0, 1.0),
        ("slow", 10, 5.0, 4.0),
        ("all of them, too", 100, 0.0, 2.0),
    ]
    names = ["method", "n_rows", "choose_seconds", "train_seconds"]
    frame = pd.DataFrame(rows, columns=names).assign(size=10, seed=0, score=1.0, error="")
    found = Comparison(frame, "score")
    # 5 + 3 * 1 < 3 * 3
    assert found.summary()["saves_from"].tolist()[1:] == [1, 3, np.inf, np.inf]
    assert re.search(r"slow .* never", repr(found))
    assert re.search(r"fast .* fit 3", repr(found))
    # Milliseconds are the clock's noise.
    seconds = ["choose_seconds", "train_seconds"]
    brief = Comparison(frame.assign(**frame[seconds] / 1000), "score")
    assert brief.summary()["saves_from"].isna().all()


def test_no_seconds_are_saved_where_the_seeds_do_not_show_a_score_as_good_as_that_of_all_rows():
    scores = {
        "all rows": [1.0, 1.2, 1.1],
        "worse": [0.8, 1.0, 0.91],
        "noisy": [0.4, 1.4, 1.0],
        "nearly": [0.98, 1.21, 1.08],
        "equal": [1.0, 1.2, 1.1],
    }
    rows = [
        (name, seed, score) for name, values in scores.items() for seed, score in enumerate(values)
    ]
    frame = pd.DataFrame(rows, columns=["method", "seed", "score"]).assign(
        size=10, error="", choose_seconds=1.0
    )
    is_all = frame["method"] == "all rows"
    frame = frame.assign(n_rows=np.where(is_all, 100, 10), train_seconds=np.where(is_all, 3.0, 1.0))
    saves_from = Comparison(frame, "score").summary().set_index("method")["saves_from"]
    # 1 + 1 < 3
    assert saves_from[["nearly", "equal"]].tolist() == [1, 1]
    # two tenths are little, but every seed has them; so noisy a score may be anything
    assert saves_from[["all rows", "worse", "noisy"]].isna().all()
    alone = (
        Comparison(frame[frame["seed"] == 1], "score").summary().set_index("method")["saves_from"]
    )
    assert alone.isna().to_dict() == {
        "all rows": True,
        "worse": True,
        "noisy": False,
        "nearly": False,
        "equal": False,
    }


class Weighed(LogisticRegression):
    """Knows by its weights how many rows it stands for."""

    def fit(self, X, y, sample_weight=None):
        total = len(y) if sample_weight is None else np.sum(sample_weight)
        if total != pytest.approx(0.75 * len(globals()["X"]), abs=1):
            raise RuntimeError(f"the penalty weighs as on {total} rows")
        return super().fit(X, y, sample_weight)


def test_every_method_stands_for_all_rows():
    found = compare(
        Slow(), Weighed(C=0.1), X, y, sizes=[30], seeds=2, scoring="neg_log_loss", verbose=False
    )
    assert not found.frame["score"].isna().any()


class Refuses(UniformCoreset):
    def fit(self, X, y=None, sample_weight=None):
        if self.random_state == 0:
            raise ValueError("no rows today")
        return super().fit(X, y, sample_weight)


def test_what_failed_says_why():
    found = compare(
        {"yes": KCenter(), "no": Refuses()}, MODEL, X, y, sizes=[30], seeds=2, verbose=False
    )
    assert repr(found).endswith("no, 1 failed: no rows today")


def test_a_score_that_is_nan_counts_as_failed(rng):
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)

    def score(model, X, y):
        return np.nan if model.coef_[0, 0] > 1.0 else model.score(X, y)

    found = compare([KCenter()], LogisticRegression(), X, y, sizes=[20], seeds=8, scoring=score)
    table = found.summary().set_index("method")
    lost = found.frame["score"].isna().groupby(found.frame["method"]).sum()
    assert 0 < lost["KCenter"] < 8
    assert table["failed"].to_dict() == lost.to_dict()
    assert "KCenter, " in str(found)
    assert "failed: its score is NaN" in str(found)


class Costly(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        time.sleep(len(y) * 1e-4)
        return super().fit(X, y, sample_weight)


def test_more_uniform_rows_take_the_time_of_the_others_where_a_draw_had_one_class(rng):
    X = rng.normal(size=(4000, 3))
    y = (X[:, 0] > 2.3).astype(int)
    found = compare(
        {"rows": StratifiedCoreset()}, Costly(), X, y, sizes=[20], seeds=3, scoring="roc_auc"
    )
    frame = found.frame.set_index(["method", "seed"])
    failed = frame.loc["uniform", "score"].isna()
    assert failed.any()
    assert (frame.loc["more uniform rows", "n_rows"][failed] < 1000).all()


def test_a_class_of_one_row_is_told_as_what_cannot_be_held_out(rng):
    X = rng.normal(size=(60, 3))
    y = np.array(["a", "b"] * 30, dtype=object)
    y[5] = "c"
    with pytest.raises(ValueError, match="A class has too few rows to be trained on and held out"):
        compare(
            UniformCoreset(),
            MODEL,
            X,
            y,
            sizes=[20],
            seeds=2,
            scoring="neg_log_loss",
            verbose=False,
        )


class Unreliable(UniformCoreset):
    """Takes a while, and then finds nothing for most seeds."""

    def fit(self, X, y=None, sample_weight=None):
        time.sleep(0.05)
        if self.random_state < 3:
            raise ValueError("no solution")
        return super().fit(X, y, sample_weight)


def test_a_choice_that_fails_takes_no_part_in_the_seconds():
    found = compare({"unreliable": Unreliable()}, MODEL, X, y, sizes=[30], seeds=5, controls=False)
    row = found.summary().set_index("method").loc["unreliable"]
    assert row.failed == 3
    assert row.choose_seconds > 0.05
    assert row.n_rows == 30


def test_a_method_without_a_score_saves_nothing():
    columns = dict(size=10, choose_seconds=0.1, n_draws=1, weighted=True)
    rows = [
        columns
        | dict(method=method, seed=seed, n_rows=n, score=score, train_seconds=seconds, error=error)
        for seed in range(3)
        for method, n, score, seconds, error in [
            ("all rows", 100, 0.9, 1.0, ""),
            ("uniform", 10, 0.9, 0.1, ""),
            ("lost", 10, np.nan, 0.1, "its score is NaN"),
        ]
    ]
    table = Comparison(pd.DataFrame(rows), "score").summary().set_index("method")
    assert table.saves_from["uniform"] == 1
    assert np.isnan(table.saves_from["lost"])


def test_class_weights_that_selectors_do_not_know_are_warned_of():
    balanced = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    with pytest.warns(UserWarning, match="selectors do not know logisticregression__class_weight"):
        compare(KCenter(), balanced, X, y, sizes=[30], seeds=1, controls=False, verbose=False)


def test_what_is_measured_at_the_seconds_of_selectors_fails_where_they_all_do():
    X = np.random.default_rng(0).normal(size=(400, 5))
    y = (np.arange(400) < 6).astype(int)
    selectors = {"no class": UniformCoreset()}
    found = compare(selectors, LogisticRegression(), X, y, sizes=[20], seeds=4, verbose=False)
    assert (found.frame.groupby("method")["seed"].nunique() == 4).all()
    failed = found.summary().set_index("method")["failed"]
    scored = found.frame.groupby("method")["score"].count()
    assert 0 < failed["no class"] < 4
    assert (failed == 4 - scored.reindex(failed.index)).all()


def test_an_estimator_that_writes_into_its_rows_spoils_no_other_fit():
    shifted = np.asfortranarray(X + 5)
    held_out = (shifted[400:].copy(), y[400:])
    given = shifted[:400].copy(), held_out[0].copy()
    scores = []
    for copies in (True, False):
        model = make_pipeline(StandardScaler(copy=copies), LogisticRegression())
        data = dict(X=shifted[:400], y=y[:400], test=held_out, sizes=[40], seeds=3, verbose=False)
        found = compare(UniformCoreset(), model, controls=False, **data).frame
        scores.append(found["score"].to_numpy())
        np.testing.assert_array_equal(shifted[:400], given[0])
        np.testing.assert_array_equal(held_out[0], given[1])
    np.testing.assert_array_equal(*scores)


def test_probabilities_of_other_classes_than_those_held_out_are_no_score():
    rows, labels = make_blobs([150, 150, 30, 30], random_state=1)
    train = labels != 3
    # three classes here and there, of which two are the same
    test = rows[labels != 2], labels[labels != 2]
    asked = dict(test=test, sizes=[100], seeds=2, controls=False, verbose=False)
    data = UniformCoreset(), LogisticRegression(), rows[train], labels[train]
    for scoring in ("neg_log_loss", "roc_auc_ovr"):
        with pytest.raises(ValueError, match=r"classes that the model does not know: \[3\]"):
            compare(*data, scoring=scoring, **asked)
    found = compare(*data, scoring="accuracy", **asked).frame
    assert (found["score"] > 0.8).all()


class SlowStratified(StratifiedCoreset):
    """Leaves time for many draws."""

    def _select(self, *args, **options):
        time.sleep(0.3)
        return super()._select(*args, **options)


def test_the_best_draw_knows_a_rare_class():
    rows, labels = make_blobs([100, 100, 6], random_state=1, cluster_std=2)
    found = compare(
        SlowStratified(),
        LogisticRegression(),
        rows,
        labels,
        sizes=[40],
        seeds=[1, 2],
        scoring="neg_log_loss",
        verbose=False,
    ).frame
    best = found[found["method"] == "best of draws"]
    # At seed 1 a plain draw of the judges holds no row of the third class.
    assert best["score"].notna().all()
    assert (best["n_draws"] >= 1).all()


class Unweighted(KNeighborsClassifier):
    seen: ClassVar[list] = []

    def fit(self, X, y):
        self.seen.append(len(X))
        return super().fit(X, y)


class HalfOfThem(UniformCoreset):
    """Gives every second row the weight 0, as optimised weights may be."""

    def _select(self, *args, **options):
        chosen, weights = super()._select(*args, **options)
        return chosen, np.where(np.arange(len(chosen)) % 2, weights, 0.0)


def test_rows_of_weight_zero_train_no_estimator_without_weights():
    Unweighted.seen.clear()
    asked = dict(sizes=[20], seeds=2, controls=False, verbose=False)
    with pytest.warns(UserWarning, match="it trains on the chosen rows alone"):
        found = compare(HalfOfThem(), Unweighted(), X, y, **asked).frame
    trained = found.sort_values(["seed"], kind="stable")["n_rows"]
    assert sorted(Unweighted.seen) == sorted(trained)
    assert set(found.loc[found["method"] == "HalfOfThem", "n_rows"]) == {10}


class OfTwo(UserWarning):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Warns(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        warnings.warn(OfTwo("red", "blue"), stacklevel=2)
        return super().fit(X, y, sample_weight)


def test_a_warning_that_is_not_made_of_a_text_is_shown():
    with pytest.warns(UserWarning, match="red and blue"):
        found = compare(UniformCoreset(), Warns(), X, y, sizes=[50], seeds=1, verbose=False)
    assert found.frame["score"].notna().all()


def test_more_classes_than_held_out_rows_are_split_as_they_come():
    labels = np.repeat(np.arange(300), 2)[: len(X)]
    rows = np.column_stack([labels, X[: len(labels), 0]])
    found = compare(
        UniformCoreset(),
        KNeighborsClassifier(1),
        rows,
        labels,
        sizes=[50],
        seeds=1,
        controls=False,
        verbose=False,
    )
    # A stratified draw of 50 rows has no room for 300 classes.
    assert found.frame["score"].notna().tolist() == [True, True, False, True]


@pytest.mark.parametrize("score", [{"a": 1.0}, np.zeros(2)])
def test_a_score_of_several_numbers_is_told(score):
    with pytest.raises(TypeError, match="scoring must give one number"):
        compare(
            UniformCoreset(),
            MODEL,
            X,
            y,
            sizes=[50],
            scoring=lambda model, X, y: score,
            seeds=1,
            verbose=False,
        )


def test_sparse_labels_are_told():
    with pytest.raises(TypeError, match="y must be dense, got a sparse matrix of shape"):
        compare(UniformCoreset(), MODEL, X, sparse.eye_array(len(X)), verbose=False)


def test_steps_that_draw_rows_anew_are_told():
    steps = imblearn_pipeline(RandomUnderSampler(), LogisticRegression())
    with pytest.raises(ValueError, match="RandomUnderSampler of the Pipeline makes other rows"):
        compare(UniformCoreset(), steps, X, y, sizes=[50], seeds=1, verbose=False)


class Unsized(BaseEstimator):
    """Chooses the first ten rows."""

    def fit(self, X, y=None, sample_weight=None):
        return self

    def take(self, *data):
        return *(one[:10] for one in data), np.full(10, len(data[0]) / 10)


def test_a_selector_without_a_size_is_told():
    with pytest.warns(UserWarning, match="Unsized has no option size"):
        compare(Unsized(), MODEL, X, y, sizes=[50, 60], seeds=1, controls=False, verbose=False)
