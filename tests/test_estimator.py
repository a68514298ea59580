"""`CoresetEstimator` beyond `fit` and `predict`: memory, routing, partial_fit, output, seeds."""

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from handful import (
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    Logistic,
    MatchedCoreset,
    UniformCoreset,
)
from handful.bilevel import ProxyCoreset
from handful.blocks import Blocks
from handful.proxies import Nystrom
from imblearn.pipeline import make_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import BayesianRidge, LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from test_coreset import spam

X, y = spam(400)


def test_with_a_memory_a_search_selects_once_a_fold_and_finds_the_same(tmp_path, monkeypatch):
    n_runs = 0
    select = UniformCoreset._select

    def counted(*args):
        nonlocal n_runs
        n_runs += 1
        return select(*args)

    monkeypatch.setattr(UniformCoreset, "_select", counted)
    grid = {"estimator__C": [0.01, 0.1, 1.0, 10.0]}
    scores = []
    for memory, runs in ((None, 4 * 3 + 1), (tmp_path, 3 + 1)):
        n_runs = 0
        selector = UniformCoreset(40, random_state=0)
        model = CoresetEstimator(selector, LogisticRegression(), memory=memory)
        scores.append(GridSearchCV(model, grid, cv=3).fit(X, y).cv_results_["mean_test_score"])
        assert n_runs == runs
    np.testing.assert_array_equal(*scores)
    again = CoresetEstimator(
        UniformCoreset(41, random_state=0), LogisticRegression(), memory=tmp_path
    ).fit(X, y)
    # another selector is another selection
    assert len(again.selector_.indices_) == 41


GAMMA = 1.0


def kernel(A, B):
    return np.exp(-GAMMA * ((A[:, None] - B) ** 2).sum(2))


def test_a_memory_does_not_take_new_code_for_old(tmp_path, monkeypatch):
    def chosen(memory):
        proxy = Nystrom(kernel, n_landmarks=30)
        selector = ProxyCoreset(KCenter(), proxy, size=20, random_state=0)
        fitted = CoresetEstimator(selector, LogisticRegression(), memory=memory).fit(X, y)
        return fitted.selector_.indices_.tolist()

    first = chosen(tmp_path)
    assert chosen(tmp_path) == first
    monkeypatch.setitem(globals(), "GAMMA", 0.01)
    assert chosen(tmp_path) == chosen(None) != first


@pytest.mark.parametrize("entrance", ["pattern", "Blocks"])
def test_a_memory_does_not_take_new_files_for_old(tmp_path, entrance):
    def fitted(memory):
        files = tmp_path / "X*.npy", tmp_path / "y*.npy"
        data = (Blocks(*files),) if entrance == "Blocks" else files
        selector = KCenter(20, random_state=0)
        found = CoresetEstimator(selector, LogisticRegression(), memory=memory).fit(*data)
        return found.selector_.indices_.tolist()

    found = []
    for seed in range(2):
        rows, labels = spam(300, seed=seed)
        np.save(tmp_path / "X0.npy", rows)
        np.save(tmp_path / "y0.npy", labels == "spam")
        found.append(fitted(tmp_path / "memory"))
        assert fitted(tmp_path / "memory") == found[-1] == fitted(None)
    assert found[0] != found[1]


def test_class_weights_that_the_selector_does_not_know_are_warned_of():
    balanced = LogisticRegression(class_weight="balanced")
    with pytest.warns(UserWarning, match="the selector does not know class_weight='balanced'"):
        CoresetEstimator(BilevelCoreset(size=20, random_state=0), balanced).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CoresetEstimator(UniformCoreset(20, random_state=0), balanced).fit(X, y)


def test_ctrl_c_leaves_selector_and_estimator_of_one_fit(monkeypatch):
    model = CoresetEstimator(UniformCoreset(20, random_state=0), LogisticRegression()).fit(X, y)
    before = vars(model).copy()

    def stopped(self, X, y, sample_weight=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(LogisticRegression, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], y)
    assert vars(model) == before


class Groups(ClassifierMixin, BaseEstimator):
    """Keeps the metadata that it gets."""

    def fit(self, X, y, sample_weight=None, groups=None, note=None):
        self.got_ = X, groups, note
        self.classes_ = np.unique(y)
        return self

    def predict(self, X, loud=False):
        return np.full(len(X), self.classes_[int(loud)])


def test_routed_metadata_reach_the_estimator_for_the_chosen_rows():
    with config_context(enable_metadata_routing=True):
        inner = Groups().set_fit_request(groups=True, note=True).set_predict_request(loud=True)
        model = CoresetEstimator(KCenter(7, random_state=0), inner)
        model.fit(X, y, groups=X[:, 0], note="all")
        rows, groups, note = model.estimator_.got_
        np.testing.assert_array_equal(groups, rows[:, 0])
        assert note == "all"
        assert set(model.predict(X, loud=True)) == {"spam"}
        weighted = CoresetEstimator(UniformCoreset(20, random_state=0), LogisticRegression())
        weighted = weighted.set_fit_request(sample_weight=True).set_score_request(
            sample_weight=True
        )
        search = GridSearchCV(weighted, {"estimator__C": [1.0]}, cv=2)
        u = np.where(y == "spam", 1.0, 0.0)
        u[:5] = 1
        assert (u[search.fit(X, y, sample_weight=u).best_estimator_.selector_.indices_] > 0).all()
    with pytest.raises(
        ValueError, match="fit got groups, which goes to the parts only with metadata routing"
    ):
        model.fit(X, y, groups=X[:, 0])


class Validated(BaseEstimator, ClassifierMixin):
    """Takes validation data as scikit-learn and as gradient boosting libraries do."""

    def fit(self, X, y, sample_weight=None, eval_set=None, X_val=None, groups=None):
        self.got_ = {"eval_set": eval_set, "X_val": X_val, "groups": groups}
        return self


@pytest.mark.parametrize(
    "groups", [X[:, 0], list(X[:, 0]), tuple(X[:, 0]), pd.Series(X[:, 0], index=range(7, 407))]
)
def test_validation_data_reach_the_estimator_whole(groups):
    held_out = [(X[:50], y[:50]), (X[50:80], y[50:80])]
    with config_context(enable_metadata_routing=True):
        inner = Validated().set_fit_request(eval_set=True, X_val=True, groups=True)
        model = CoresetEstimator(KCenter(7, random_state=0), inner)
        # as many rows as X, and yet not its rows
        model.fit(X, y, eval_set=held_out, X_val=X[::-1], groups=groups)
        got = model.estimator_.got_
        assert got["eval_set"] is held_out
        np.testing.assert_array_equal(got["X_val"], X[::-1])
        np.testing.assert_array_equal(got["groups"], X[model.selector_.indices_, 0])
        alone = CoresetEstimator(KCenter(1, random_state=0), inner).fit(
            X[:1], y[:1], eval_set=held_out[:1]
        )
        # one set, one row: still not its rows
        assert alone.estimator_.got_["eval_set"][0] is held_out[0]


def test_partial_fit_trains_on_a_coreset_of_each_chunk():
    inner = SGDClassifier(random_state=0, average=True)
    model = CoresetEstimator(BilevelCoreset(size=30, weighting="equal", random_state=0), inner)
    by_hand = SGDClassifier(random_state=0, average=True)
    for start in range(0, 400, 100):
        part = slice(start, start + 100)
        model.partial_fit(X[part], y[part], classes=["ham", "spam"])
    assert model.score(X, y) > 0.85
    assert model.n_features_in_ == 4
    few = CoresetEstimator(UniformCoreset(100), inner).partial_fit(
        X[:100], y[:100], classes=["ham", "spam"]
    )
    by_hand.partial_fit(X[:100], y[:100], classes=["ham", "spam"], sample_weight=np.ones(100))
    # no more rows than the size: all of them
    np.testing.assert_array_equal(few.estimator_.coef_, by_hand.coef_)
    alike = [
        CoresetEstimator(UniformCoreset(10, random_state=3), inner).partial_fit(
            X, y, classes=["ham", "spam"]
        )
        for _ in range(2)
    ]
    np.testing.assert_array_equal(alike[0].estimator_.coef_, alike[1].estimator_.coef_)
    with pytest.raises(ValueError, match="X has 3 features, but CoresetEstimator is expecting 4"):
        model.partial_fit(X[:, :3], y)
    assert not hasattr(CoresetEstimator(UniformCoreset(10), LogisticRegression()), "partial_fit")


def test_a_selector_that_finds_its_size_keeps_all_rows_of_a_part_of_one_class(rng):
    ham = np.flatnonzero(y == "ham")
    inner = SGDClassifier(loss="log_loss", random_state=0)
    model = CoresetEstimator(MatchedCoreset(Logistic(l2=0.1), random_state=0), inner)
    weight = rng.uniform(0.5, 2, size=len(y))
    weight[ham[:3]] = 0
    model.partial_fit(X, y, classes=["ham", "spam"], sample_weight=weight)
    by_hand = deepcopy(model.estimator_)
    # spam of no weight does not make it two classes
    alone = np.where(y == "ham", weight, 0.0)
    model.partial_fit(X, y, sample_weight=alone)
    kept = np.flatnonzero(alone)
    by_hand.partial_fit(X[kept], y[kept], sample_weight=alone[kept])
    np.testing.assert_array_equal(model.estimator_.coef_, by_hand.coef_)


def test_it_ends_a_pipeline_of_imbalanced_learn():
    few = CoresetEstimator(KCenter(30, weighting="cells", random_state=0), LogisticRegression())
    pipeline = make_pipeline(RandomUnderSampler(random_state=0), StandardScaler(), few).fit(X, y)
    balanced = RandomUnderSampler(random_state=0).fit_resample(X, y)
    assert pipeline[-1].selector_.weights_.sum() == pytest.approx(len(balanced[1]))
    assert pipeline.score(X, y) > 0.8


def test_a_pipeline_that_encodes_words_is_told_where_it_belongs():
    X = pd.DataFrame({"n": np.linspace(-1, 1, 30), "town": ["a", "b"] * 15})
    y = np.arange(30) % 3 == 0
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    few = BilevelCoreset(Logistic(l2=0.1), size=8, random_state=0)
    model = LogisticRegression()
    order = r"make_pipeline\(ColumnTransformer, CoresetEstimator\(selector, LogisticRegression\)\)"
    with pytest.raises(ValueError, match=f"'town' of X holds words.*{order}"):
        CoresetEstimator(few, make_pipeline(encode, model)).fit(X, y)
    make_pipeline(encode, CoresetEstimator(few, model)).fit(X, y)
    with pytest.raises(ValueError, match="holds words") as caught:
        CoresetEstimator(few, model).fit(X, y)
    assert "make_pipeline" not in str(caught.value)


def test_a_selector_that_finds_its_size_chooses_of_every_part(rng):
    X = rng.normal(size=(3000, 3))
    y = (X[:, 0] + rng.logistic(size=3000) > 0).astype(int)
    few = MatchedCoreset(Logistic(1e-2), random_state=0)
    assert few.size is None
    model = CoresetEstimator(few, SGDClassifier(loss="log_loss", random_state=0))
    for part in (slice(0, 1500), slice(1500, 3000)):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    assert model.score(X, y) > 0.6


def test_a_pipeline_that_makes_other_rows_is_refused():
    steps = make_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())
    search = GridSearchCV(steps, {"logisticregression__C": [0.1, 1.0]})
    for inner, name in ((steps, "Pipeline"), (search, "GridSearchCV")):
        message = f"RandomUnderSampler of the {name} makes other rows.* it belongs in front"
        with pytest.raises(ValueError, match=message):
            CoresetEstimator(UniformCoreset(30), inner).fit(X, y)
    outside = make_pipeline(
        RandomUnderSampler(random_state=0),
        CoresetEstimator(UniformCoreset(30, random_state=0), LogisticRegression()),
    )
    assert outside.fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("estimator", [None, LogisticRegression])
def test_what_has_no_fit_is_told(estimator):
    with pytest.raises(TypeError, match="estimator must have fit \\(an instance"):
        CoresetEstimator(UniformCoreset(30), estimator).fit(X, y)


class Names(ClassifierMixin, BaseEstimator):
    """Keeps no names of columns, and fit gives nothing."""

    def fit(self, X, y, sample_weight=None):
        self.model_ = LogisticRegression().fit(np.asarray(X), y, sample_weight)
        self.classes_ = self.model_.classes_

    def predict(self, X):
        return self.model_.predict(np.asarray(X))


def test_columns_in_another_order_are_refused_whatever_the_estimator_keeps():
    frame = pd.DataFrame(X).rename(columns=str)
    model = CoresetEstimator(UniformCoreset(50, random_state=0), Names()).fit(frame, y)
    assert isinstance(model.estimator_, Names)
    assert model.score(frame, y) > 0.5
    turned = frame[frame.columns[::-1]]
    for ask in (model.predict, lambda rows: model.score(rows, y)):
        with pytest.raises(ValueError, match="feature names should match"):
            ask(turned)
    # without names it is as scikit-learn has it
    np.testing.assert_array_equal(model.predict(X), model.predict(frame))


@pytest.mark.parametrize("in_blocks", [False, True])
def test_routed_metadata_of_rows_are_cut_in_blocks_and_as_a_list_of_arrays(in_blocks):
    data = (Blocks(X, y, rows=150),) if in_blocks else (X, y)
    with config_context(enable_metadata_routing=True):
        inner = Groups().set_fit_request(groups=True, note=True)
        model = CoresetEstimator(UniformCoreset(7, random_state=0), inner)
        # as many as there are blocks
        model.fit(*data, groups=list(X), note=[1, 2, 3])
    rows, groups, note = model.estimator_.got_
    np.testing.assert_array_equal(np.asarray(groups), rows)
    assert note == [1, 2, 3]


def test_class_weights_are_warned_of_by_the_first_part():
    model = CoresetEstimator(KCenter(20), SGDClassifier(class_weight={"ham": 1, "spam": 9}))
    with pytest.warns(UserWarning, match="class_weight"):
        model.partial_fit(X, y, classes=np.unique(y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, y)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_gap_in_a_frame_of_numbers_is_refused_whether_drawn_or_not(library):
    pytest.importorskip(library)
    gaps = X.copy()
    gaps[5] = np.nan
    names = [f"c{j}" for j in range(X.shape[1])]
    made = {
        "pandas": lambda: pd.DataFrame(gaps, columns=names),
        "polars": lambda: pytest.importorskip("polars").DataFrame(gaps, schema=names),
        "pyarrow": lambda: pytest.importorskip("pyarrow").table(list(gaps.T), names=names),
    }
    for seed in range(5):
        model = CoresetEstimator(UniformCoreset(10, random_state=seed), LogisticRegression())
        with pytest.raises(ValueError, match="NaN"):
            model.fit(made[library](), y)


def test_rows_of_weight_zero_may_be_anything():
    weights = np.ones(len(X))
    weights[5] = 0
    gaps = X.copy()
    gaps[5] = np.nan
    labels = np.where(y == "spam", 1.0, 0.0)
    labels[5] = np.nan
    model = CoresetEstimator(UniformCoreset(50, random_state=0), LogisticRegression())
    model.fit(gaps, labels, sample_weight=weights)
    kept = np.delete(np.arange(len(X)), 5)
    np.testing.assert_array_equal(
        model.selector_.indices_,
        UniformCoreset(50, random_state=0).fit(X, labels, sample_weight=weights).indices_,
    )
    assert model.score(X[kept], labels[kept]) > 0.5


def test_a_random_state_of_the_selector_is_its_own():
    selector = UniformCoreset(10, random_state=np.random.RandomState(0))
    model = CoresetEstimator(selector, LogisticRegression()).fit(X, y)
    alone = UniformCoreset(10, random_state=np.random.RandomState(0)).fit(X, y)
    np.testing.assert_array_equal(model.selector_.indices_, alone.indices_)


def test_what_a_method_of_the_estimator_takes_goes_to_it():
    model = CoresetEstimator(UniformCoreset(50, random_state=0), BayesianRidge())
    model.fit(X, X[:, 0])
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert (deviation > 0).all()


def test_a_memory_cannot_tell_dask_data_apart(tmp_path):
    array = pytest.importorskip("dask.array").from_array(X, chunks=(200, X.shape[1]))
    model = CoresetEstimator(KCenter(10), LogisticRegression(), memory=tmp_path)
    for rows in ((array, y), (Blocks(array, y),)):
        with pytest.raises(ValueError, match="memory must be None for dask data"):
            model.fit(*rows)


class Unsized(BaseEstimator):
    """Chooses the first ten rows."""

    def fit(self, X, y=None, sample_weight=None):
        self.indices_ = np.arange(10)
        self.weights_ = np.full(10, len(X) / 10)
        return self

    def take(self, *data):
        return *(one[:10] for one in data), self.weights_


def test_a_selector_without_a_size_chooses_of_each_part():
    model = CoresetEstimator(Unsized(), SGDClassifier(random_state=0))
    for _ in range(2):
        model.partial_fit(X, y, classes=np.unique(y))
    alone = SGDClassifier(random_state=0)
    for _ in range(2):
        alone.partial_fit(X[:10], y[:10], np.unique(y), np.full(10, len(X) / 10))
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-12)
