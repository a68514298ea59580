"""Points for any estimator: the trees' proxy, the families, and the estimator's own say."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from handful import (
    AnyEstimatorCoreset,
    BilevelCoreset,
    CoresetEstimator,
    LeastSquares,
    Logistic,
    MergeReduce,
    UniformCoreset,
    compare,
    suspects,
)
from handful.bilevel.candidate_scoring import class_weights, exchanged, held_out_loss
from handful.bilevel.proxy_candidates import candidates_for
from handful.proxies import RBF, Nystrom, TreeLeaves
from imblearn.pipeline import make_pipeline as imblearn_pipeline
from imblearn.under_sampling import RandomUnderSampler
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

FEW_TREES = RandomForestClassifier(10, random_state=0)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    # a class of about 20 %
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=400) > 0.8).astype(int)


def for_estimator(estimator, **options):
    few = {"size": 30, "random_state": 0, "n_draws": 2, "n_exchanges": 5}
    return AnyEstimatorCoreset(estimator, **few | options)


# --- the trees' proxy


@pytest.mark.parametrize("forest", [None, ExtraTreesClassifier(20, max_leaf_nodes=8)])
def test_inner_products_of_all_components_are_the_share_of_trees_in_which_rows_meet(data, forest):
    X = data[0][:60]
    y = data[1][:60]
    proxy = TreeLeaves(forest, n_components=1000, random_state=0)
    Z = proxy.fit_transform(X, y)
    leaves = proxy.forest_.apply(X)
    share = (leaves[:, None, :] == leaves[None, :, :]).mean(axis=2)
    # one component less than the rank: the smallest singular value is what may be missing
    missing = np.linalg.svd(share, compute_uv=False)[-1]
    assert np.abs(Z @ Z.T - share).max() < missing + 1e-4
    np.testing.assert_allclose(proxy.transform(X), Z, atol=1e-5)


@pytest.mark.parametrize("forest", [ExtraTreesClassifier, LogisticRegression()])
def test_what_has_no_leaves_is_refused(data, forest):
    with pytest.raises(TypeError, match="forest must have leaves"):
        TreeLeaves(forest).fit(*data)


def test_equal_rows_have_equal_features():
    Z = TreeLeaves(random_state=0).fit_transform(np.repeat([[1.0, 2.0], [3.0, 0.0]], 10, axis=0))
    assert np.ptp(Z[:10], axis=0).max() < 1e-6


# --- families


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (LogisticRegression(), ["linear"]),
        (LinearSVC(), ["linear"]),
        (RidgeClassifier(), ["linear"]),
        (DecisionTreeClassifier(), ["random trees", "RBF", "logistic"]),
        (HistGradientBoostingRegressor(), ["random trees", "RBF"]),
        (MLPClassifier(), ["RBF", "linear"]),
        (KNeighborsClassifier(), ["RBF", "logistic"]),
        (SVC(), ["RBF", "logistic"]),
        (type("Mine", (RandomForestClassifier,), {})(), ["random trees", "RBF", "logistic"]),
    ],
)
def test_every_family_has_its_proxies(estimator, names):
    assert [one.name for one in candidates_for(estimator, 100.0)] == names


@pytest.mark.parametrize(
    ("estimator", "l2"),
    [
        (LogisticRegression(C=0.5), 1 / (0.5 * 1000)),
        (Ridge(alpha=3.0), 3.0 / 1000),
        (SGDClassifier(alpha=0.01), 0.01),
        (LinearRegression(), 1e-6),
        (LogisticRegression(penalty=None, C=0.01), 1e-6),
        (SGDClassifier(penalty=None, alpha=0.01), 1e-6),
    ],
)
def test_a_linear_model_is_stood_in_for_by_its_own_penalty(estimator, l2):
    assert candidates_for(estimator, 1000.0)[0].l2 == pytest.approx(l2)


@pytest.mark.parametrize(
    ("estimator", "is_own"),
    [
        (LogisticRegression(), True),
        (LogisticRegression(penalty=None), True),
        (LogisticRegression(class_weight="balanced"), False),
        (LogisticRegression(solver="liblinear"), False),
        (Ridge(), True),
        (Ridge(positive=True), False),
        (LinearRegression(positive=True), False),
    ],
)
def test_what_has_other_terms_or_constraints_is_not_the_problem_itself(estimator, is_own):
    assert candidates_for(estimator, 1000.0)[0].own == is_own


def test_missing_values_are_refused_with_the_way_out(data):
    X, y = data
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN.*SimpleImputer.*KNeighborsClassifier"):
        for_estimator(KNeighborsClassifier()).fit(X, y)
    for_estimator(make_pipeline(SimpleImputer(), KNeighborsClassifier())).fit(X, y)


def mixed(X):
    """A frame of numbers with gaps, a category and a flag."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 3]})
    frame.loc[::7, "a"] = np.nan
    frame["colour"] = pd.Categorical(
        np.array(["red", "green", None], dtype=object)[np.digitize(X[:, 2], [-0.4, 0.4])]
    )
    return frame.assign(flag=pd.array(X[:, 3] > 0, dtype="boolean"))


@pytest.mark.parametrize("boosting", [HistGradientBoostingClassifier(max_iter=5, random_state=0)])
@pytest.mark.parametrize(
    "wrap", [lambda one: one, lambda one: GridSearchCV(one, {"max_iter": [5]}, cv=2)]
)
def test_a_frame_with_gaps_and_categories_goes_to_the_estimator_that_takes_it_as_it_is(
    data, boosting, wrap
):
    X, y = data
    frame = mixed(X)
    model = wrap(boosting)
    few = for_estimator(model, size=60).fit(frame, y)
    X_small, y_small, weights = few.take(frame, y)
    assert list(few.feature_names_in_) == ["a", "b", "c", "colour", "flag"]
    assert weights.sum() == pytest.approx(len(y))
    assert few.trials_[few.chosen_] == min(few.trials_.values())
    assert 0 < clone(model).fit(X_small, y_small, sample_weight=weights).score(frame, y) <= 1
    found = compare(
        {"few": few}, model, frame, y, sizes=[60], seeds=1, controls=False, verbose=False
    )
    assert found.frame["error"].eq("").all()
    small = CoresetEstimator(for_estimator(model, size=60), model).fit(frame, y)
    np.testing.assert_array_equal(small.selector_.indices_, few.indices_)
    drawn = CoresetEstimator(UniformCoreset(60, random_state=0), model).fit(frame, y)
    assert drawn.predict(frame).shape == y.shape
    assert suspects(boosting, frame, y).scores_.shape == (len(y),)


def test_votes_of_pipelines_take_what_each_of_them_encodes(data):
    X, y = data
    encode = make_column_transformer(
        (OneHotEncoder(), ["colour"]), (SimpleImputer(), ["a", "b", "c"])
    )
    pipes = [(name, make_pipeline(encode, FEW_TREES)) for name in ("a", "b")]
    with pytest.warns(
        UserWarning,
        match="VotingClassifier.fit takes no sample_weight for its RandomForestClassifier",
    ):
        few = for_estimator(VotingClassifier(pipes, voting="soft")).fit(mixed(X), y)
    assert len(set(few.trials_.values())) > 1
    with pytest.raises(
        ValueError, match=r"contains NaN.*VotingClassifier is to train on these rows"
    ):
        for_estimator(VotingClassifier([("a", LogisticRegression()), ("b", FEW_TREES)])).fit(
            mixed(X)[["a", "b"]], y
        )


def test_a_step_that_resamples_is_refused_by_name(data):
    before = imblearn_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())
    for model in (before, GridSearchCV(before, {})):
        with pytest.raises(ValueError, match="RandomUnderSampler does not, as what resamples rows"):
            for_estimator(model).fit(*data)


def test_gaps_change_nothing_where_there_are_none_and_rows_keep_them_in_the_trials(data):
    X, y = data
    X = X.copy()
    X[::5, 0] = np.nan
    few = for_estimator(FEW_TREES, n_exchanges=0).fit(X, y)
    filled = np.column_stack(
        [np.where(np.isnan(X[:, :1]), np.nanmedian(X[:, 0]), X[:, :1]), np.isnan(X[:, 0]), X[:, 1:]]
    )
    other = for_estimator(FEW_TREES, n_exchanges=0).fit(filled, y)
    assert set(few.trials_) == set(other.trials_)
    assert np.isnan(few.take(X)[0]).any()
    assert len(set(few.indices_)) == 30


def test_an_unknown_family_is_refused_by_name_and_a_proxy_of_ones_own_is_the_way_out(data):
    with pytest.raises(
        ValueError, match=r"GaussianNB is of no family .*trees \(sklearn.tree.*proxy=Nystrom"
    ):
        AnyEstimatorCoreset(GaussianNB(), size=30).fit(*data)
    few = for_estimator(GaussianNB(), proxy=Nystrom(RBF(), n_landmarks=50)).fit(*data)
    assert set(few.trials_) == {"proxy", "k-means++ 1", "stratified draw 2"}


def test_what_wraps_an_estimator_is_of_its_family():
    search = GridSearchCV(LogisticRegression(C=0.5), {"C": [1.0]})
    tried = [replace(one, own=False) for one in candidates_for(LogisticRegression(C=0.5), 100.0)]
    for wrapped in (
        search,
        GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression(C=0.5)), {}),
    ):
        assert candidates_for(wrapped, 100.0) == tried


@pytest.mark.parametrize(
    "other", ["forest", KMeans(2), make_pipeline(StandardScaler()), LogisticRegression]
)
def test_only_classifiers_and_regressors_are_trained(other, data):
    with pytest.raises(
        TypeError, match=r"must be a classifier or a regressor|give LogisticRegression"
    ):
        AnyEstimatorCoreset(other, size=30).fit(*data)


# --- the choice


def test_a_warm_start_carries_nothing_from_trial_to_trial(data):
    forests = [
        RandomForestClassifier(10, random_state=0, warm_start=warm) for warm in (True, False)
    ]
    warm, cold = (for_estimator(forest).fit(*data) for forest in forests)
    assert len(set(warm.trials_.values())) > 1
    assert warm.trials_ == cold.trials_


def test_the_loss_is_sklearns_with_probabilities_of_at_least_a_thousandth(data):
    X, y = data
    model = KNeighborsClassifier().fit(X[:100], y[:100])
    weights = np.random.default_rng(1).random(300)
    shares = np.maximum(model.predict_proba(X[100:]), 1e-3)
    plain = log_loss(y[100:], shares / shares.sum(axis=1, keepdims=True), sample_weight=weights)
    assert held_out_loss(model, X[100:], y[100:], weights) == pytest.approx(plain)
    # a class that it never saw
    assert held_out_loss(model, X[:1], np.array([7])) == pytest.approx(-np.log(1e-3))


@pytest.mark.parametrize(
    "estimator", [FEW_TREES, SGDClassifier(loss="log_loss", random_state=0), KNeighborsClassifier()]
)
def test_the_choice_of_the_least_loss_is_taken_and_its_weights_add_up(data, estimator):
    X, y = data
    weight = np.random.default_rng(2).random(400) * (np.arange(400) % 4 > 0)
    few = for_estimator(estimator).fit(X, y, sample_weight=weight)
    assert few.trials_[few.chosen_] == min(few.trials_.values())
    assert len(set(few.indices_)) == 30
    assert (weight[few.indices_] > 0).all()
    assert few.weights_.sum() == pytest.approx(weight.sum())
    again = for_estimator(estimator).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(few.indices_, again.indices_)


def test_probabilities_stay_calibrated_where_hard_rows_are_chosen_more_often(data):
    X, y = data
    few = for_estimator(FEW_TREES, n_draws=0).fit(X, y)
    chosen = y[few.indices_]
    assert chosen.mean() > 1.3 * y.mean()
    assert np.average(chosen, weights=few.weights_) == pytest.approx(y.mean())


def test_an_estimator_without_sample_weight_gets_equal_weights(data):
    few = for_estimator(KNeighborsClassifier()).fit(*data)
    np.testing.assert_allclose(few.weights_, 400 / 30)


@pytest.mark.parametrize("estimator", [LogisticRegression(C=0.5, fit_intercept=False), Ridge(2.0)])
def test_a_linear_model_gets_the_choice_of_its_own_problem_from_all_rows(data, estimator):
    X = data[0]
    y = (X @ [1.0, -2.0, 0.5, 0.0] + np.random.default_rng(3).logistic(size=400) > 2.0).astype(int)
    few = for_estimator(estimator).fit(X, y)
    assert few.trials_ == {}
    own = (
        Logistic(1 / 200, fit_intercept=False)
        if estimator.get_params().get("C")
        else LeastSquares(2.0 / 400)
    )
    direct = BilevelCoreset(own, size=30, weighting="optimised", random_state=0).fit(X, y)

    def loss(selector):
        X_small, y_small, weights = selector.take(X, y)
        return held_out_loss(clone(estimator).fit(X_small, y_small, sample_weight=weights), X, y)

    # another start
    assert abs(loss(few) - loss(direct)) < 5e-4


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(random_state=0)])
def test_linear_models_choose_from_sparse_rows_and_others_say_what_to_put_in_front(data, estimator):
    X, y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, thin = (for_estimator(estimator).fit(rows, y) for rows in (X, csr_matrix(X)))
    assert dense.chosen_ == thin.chosen_
    assert set(thin.trials_) == set(dense.trials_)
    with pytest.raises(
        ValueError, match=r"X is sparse.*put a TruncatedSVD in front.*RandomForestClassifier"
    ):
        for_estimator(FEW_TREES).fit(csr_matrix(X), y)


def test_words_are_refused_with_a_way_out_that_works(data):
    X, y = data
    towns = np.array(["u", "v"])[(X[:, 0] > 0).astype(int)]
    frame = pd.DataFrame({"a": X[:, 1], "town": towns})
    steps = dict(
        AnyEstimatorCoreset=for_estimator,
        make_pipeline=make_pipeline,
        make_column_transformer=make_column_transformer,
        OneHotEncoder=OneHotEncoder,
        LogisticRegression=LogisticRegression,
        RandomForestClassifier=lambda: FEW_TREES,
        HistGradientBoostingClassifier=HistGradientBoostingClassifier,
    )
    boosting = HistGradientBoostingClassifier(max_iter=5)
    for estimator in (LogisticRegression(), FEW_TREES, boosting):
        for rows in (frame, frame.to_numpy(dtype=object)):
            with pytest.raises(ValueError, match="in front, for example") as caught:
                for_estimator(estimator).fit(rows, y)
            said = str(caught.value)
            assert "SimpleImputer" not in said
            categories = "X.astype({'town': 'category'})"
            assert (categories in said) == (estimator is boosting and rows is frame)
            way_out = said.split("for example ")[-1].split(". ")[0].rstrip(".")
            eval(way_out, steps).set_params(n_draws=1, n_exchanges=0).fit(rows, y)
    with pytest.raises(ValueError, match="Column 'town' of X holds words"):
        for_estimator(make_pipeline(StandardScaler(), FEW_TREES)).fit(frame, y)


def test_choices_that_the_estimator_cannot_tell_apart_are_told(data):
    with pytest.warns(
        UserWarning, match=r"choices have the same loss.*HistGradientBoostingClassifier cannot tell"
    ):
        # 20 rows a leaf, of 30
        for_estimator(HistGradientBoostingClassifier(), n_draws=6, n_exchanges=0).fit(*data)


def test_rows_whose_weights_were_optimised_are_not_exchanged():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 8))
    y = (X @ rng.normal(size=8) + 0.1 * rng.logistic(size=1200) > 0).astype(int)
    few = for_estimator(
        SGDClassifier(loss="log_loss", random_state=0), n_draws=0, n_exchanges=20
    ).fit(X, y)
    assert few.chosen_ == "linear"
    assert few.exchanges_ == []


def test_trials_in_other_processes_are_the_same(data):
    alone, spread = (
        for_estimator(FEW_TREES, n_jobs=n, n_exchanges=11).fit(*data) for n in (None, 3)
    )
    assert alone.trials_ == spread.trials_
    assert 0 < len(alone.exchanges_) < 11
    assert alone.exchanges_ == spread.exchanges_
    np.testing.assert_array_equal(alone.indices_, spread.indices_)


def test_a_class_with_one_row_is_chosen():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.arange(200) == 7
    for seed in range(3):
        few = for_estimator(FEW_TREES, random_state=seed, size=10).fit(X, y)
        assert 7 in few.indices_


def test_all_rows_can_be_chosen(data):
    few = for_estimator(FEW_TREES, size=60).fit(data[0][:60], data[1][:60])
    assert sorted(few.indices_) == list(range(60))
    assert few.trials_ == {}


@pytest.mark.parametrize(
    "regressor", [RandomForestRegressor(10, random_state=0), Lasso(0.1), KNeighborsRegressor()]
)
def test_targets_of_a_regression_go_to_regressors(data, regressor):
    X, _ = data
    few = for_estimator(regressor).fit(X, X[:, 0] * 2.5 + 0.1)
    assert few.trials_[few.chosen_] == min(few.trials_.values())
    with pytest.raises(
        ValueError, match="RandomForestClassifier is a classifier, but y holds the targets"
    ):
        for_estimator(FEW_TREES).fit(X, X[:, 0])


def test_the_proxy_sees_what_the_estimator_sees(data):
    X, y = data
    words = np.array(["red", "green", "blue"])[np.digitize(X[:, 2], [-0.4, 0.4])]
    frame = pd.DataFrame({"colour": words, "a": X[:, 0], "b": 1e3 * X[:, 1]})
    before = make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["a", "b"]))
    few = for_estimator(make_pipeline(before, FEW_TREES)).fit(frame, y)
    plain = for_estimator(FEW_TREES).fit(np.asarray(before.fit_transform(frame)), y)
    np.testing.assert_array_equal(few.indices_, plain.indices_)
    assert list(few.feature_names_in_) == ["colour", "a", "b"]
    assert few.take(frame)[0].colour.tolist() == words[few.indices_].tolist()


def test_what_was_chosen_is_kept_in_memory(data, tmp_path):
    X, y = data
    first = for_estimator(FEW_TREES, memory=str(tmp_path)).fit(X, y)
    kept = sorted(path.name for path in tmp_path.rglob("output.pkl"))
    other = for_estimator(DecisionTreeClassifier(random_state=0), memory=str(tmp_path)).fit(X, y)
    assert kept
    # the same choices, not made again
    assert sorted(path.name for path in tmp_path.rglob("output.pkl")) == kept
    assert set(other.trials_) == set(first.trials_)
    np.testing.assert_array_equal(first.indices_, for_estimator(FEW_TREES).fit(X, y).indices_)


# --- exchanges, parts of streams, and what must not be worse than a plain draw


@pytest.mark.parametrize("classes", [True, False])
def test_an_exchange_keeps_the_number_of_rows_of_each_class(data, classes):
    labels = data[1] if classes else None
    rng = np.random.default_rng(0)
    weight = (np.arange(400) % 5 > 0).astype(float)
    rows = np.flatnonzero(weight)[:200]
    indices = rng.choice(rows, 50, replace=False)
    alike = class_weights(labels, weight, indices)
    other, weights = exchanged(indices, alike, labels, weight, rows, rng)
    np.testing.assert_array_equal(weights, alike)
    assert (other != indices).sum() == 5
    assert len(set(other)) == 50
    assert np.isin(other, rows).all()
    if classes:
        np.testing.assert_array_equal(labels[other], labels[indices])


@pytest.mark.parametrize("classes", [True, False])
def test_weights_that_follow_the_sample_weight_do_so_after_an_exchange(data, classes):
    labels = data[1] if classes else None
    rng = np.random.default_rng(0)
    weight = rng.exponential(size=400)
    indices = rng.choice(400, 50, replace=False)
    weights = class_weights(labels, weight, indices, weight[indices])
    other, moved = exchanged(indices, weights, labels, weight, np.arange(400), rng)
    assert (other != indices).sum() == 5
    np.testing.assert_allclose(moved, class_weights(labels, weight, other, weight[other]))


@pytest.mark.parametrize("scoring", ["neg_max_error", lambda model, X, y: model.score(X, y)])
def test_scores_that_take_no_weights_need_rows_without(scoring):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=120)
    few = for_estimator(KNeighborsRegressor(), scoring=scoring, n_exchanges=2)
    assert np.isfinite(list(few.fit(X, y).trials_.values())).all()
    with pytest.raises(ValueError, match="scoring must take sample_weight"):
        few.fit(X, y, sample_weight=rng.exponential(size=120))


def test_exchanges_stay_only_where_the_loss_falls(data):
    plain = for_estimator(KNeighborsClassifier(), n_exchanges=0).fit(*data)
    few = for_estimator(KNeighborsClassifier(), n_exchanges=50).fit(*data)
    assert plain.exchanges_ == []
    assert few.trials_ == plain.trials_
    losses = [min(few.trials_.values()), *few.exchanges_]
    assert len(losses) > 2
    assert (np.diff(losses) < 0).all()
    assert data[1][few.indices_].sum() == data[1][plain.indices_].sum()


def test_another_score_than_the_loss_can_judge(data):
    few = for_estimator(FEW_TREES, scoring="average_precision").fit(*data)
    assert {f"{way}, equal weights" for way in few.trials_ if "equal" not in way} < set(few.trials_)
    assert few.weights_.sum() == pytest.approx(len(data[1]))
    assert all(-1 <= loss <= 0 for loss in few.trials_.values())
    assert few.trials_[few.chosen_] == min(few.trials_.values())


def none_chosen(*_):
    raise AssertionError("rows are being chosen")


def test_a_score_that_is_nan_is_no_least_loss():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=600) > 2.2).astype(int)

    def precision(labels, told):
        return np.nan if told.sum() == 0 else (labels * told).sum() / told.sum()

    chosen = AnyEstimatorCoreset(
        DecisionTreeClassifier(max_depth=2, min_samples_leaf=8),
        size=60,
        n_draws=4,
        scoring=make_scorer(precision),
        random_state=1,
    ).fit(X, y)
    losses = np.array(list(chosen.trials_.values()))
    assert np.isnan(losses).any()
    assert chosen.trials_[chosen.chosen_] == np.nanmin(losses)
    chosen.set_params(scoring=make_scorer(lambda labels, told: np.nan))
    with pytest.raises(ValueError, match=r"of all choices is NaN, on 200 held-out rows"):
        chosen.fit(X, y)


@pytest.mark.parametrize("estimator", [FEW_TREES, LinearSVC()])
def test_a_score_of_one_class_is_refused_before_rows_are_chosen(data, estimator, monkeypatch):
    X, y = data
    words = np.where(y == 1, "good", "bad")
    with monkeypatch.context() as patch:
        patch.setattr("handful.bilevel.any_estimator.select_in_proxy", none_chosen)
        with pytest.raises(ValueError, match="give labels 0 and 1, or make_scorer"):
            for_estimator(estimator, scoring="f1").fit(X, words)
        with pytest.raises(AssertionError, match="rows are being chosen"):
            for_estimator(estimator, scoring="f1").fit(X, y)
    assert for_estimator(estimator, scoring="roc_auc", n_exchanges=1).fit(X, words).trials_


@pytest.mark.parametrize(
    "estimator", [FEW_TREES, LogisticRegression(), Ridge(), KNeighborsRegressor()]
)
@pytest.mark.parametrize("order", ["by class", "one of a class"])
def test_parts_of_a_stream_may_hold_one_class(data, estimator, order):
    X, y = data
    rows = (
        np.argsort(y, kind="stable")
        if order == "by class"
        else np.r_[np.flatnonzero(y)[:1], np.flatnonzero(y == 0)]
    )
    X = X[rows]
    y = y[rows]
    stream = MergeReduce(for_estimator(estimator), size=30, leaf_size=60, random_state=0)
    for start in range(0, len(y), 50):
        stream = stream.partial_fit(X[start : start + 50], y[start : start + 50])
    chosen = stream.indices_
    weights = stream.weights_
    assert 2 <= len(chosen) <= 30
    assert weights.sum() == pytest.approx(len(y))
    if order == "by class":
        assert set(y[chosen]) == {0, 1}


@pytest.mark.parametrize("C", [1.0, 0.01])
def test_logistic_regression_on_chosen_rows_is_that_of_all_rows(C):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = LogisticRegression(C=C, max_iter=5000, tol=1e-8)
    coreset = AnyEstimatorCoreset(model, size=50, random_state=0).fit(X, y)
    of_all = clone(model).fit(X, y)
    X_small, y_small, w = coreset.take(X, y)
    of_few = clone(model).fit(X_small, y_small, sample_weight=w)

    def objective(fitted):
        loss = log_loss(y, fitted.predict_proba(X)[:, 1], normalize=False)
        return loss + (fitted.coef_**2).sum() / (2 * C)

    least = objective(of_all)
    assert objective(of_few) < least * 1.001
    # Other rows than the best ones are not so near.
    draw = UniformCoreset(50, random_state=0).fit(X, y)
    drawn = clone(model).fit(X[draw.indices_], y[draw.indices_], sample_weight=draw.weights_)
    assert objective(drawn) > least * 1.01


def test_class_weights_are_warned_of_and_given_to_fit_they_are_those_of_all_rows(rng):
    X = rng.normal(size=(800, 4))
    y = (X[:, 0] + 0.7 * rng.normal(size=800) > 1.9).astype(int)
    balanced = LogisticRegression(class_weight="balanced", tol=1e-8)
    with pytest.warns(UserWarning, match="does not know class_weight='balanced' of Log") as caught:
        AnyEstimatorCoreset(balanced, size=30, n_draws=1, n_exchanges=0, random_state=0).fit(X, y)
    assert any("compute_sample_weight('balanced', y)" in str(w.message) for w in caught)
    search = GridSearchCV(clone(balanced), {"C": [1.0]}, cv=2)
    with pytest.warns(UserWarning, match="estimator__class_weight"):
        AnyEstimatorCoreset(search, size=30, n_draws=1, n_exchanges=0, random_state=0).fit(X, y)
    forest = RandomForestClassifier(3, class_weight="balanced_subsample", random_state=0)
    with pytest.warns(UserWarning, match="balanced_subsample.*weight.'balanced', y"):
        AnyEstimatorCoreset(forest, size=30, n_draws=1, n_exchanges=0, random_state=0).fit(X, y)
    plain = LogisticRegression(tol=1e-8)
    by_class = compute_sample_weight("balanced", y)
    coreset = AnyEstimatorCoreset(plain, size=30, random_state=0)
    X_small, y_small, w = coreset.fit(X, y, sample_weight=by_class).take(X, y)
    of_few = plain.fit(X_small, y_small, sample_weight=w).predict_proba(X)[:, 1]
    np.testing.assert_allclose(of_few, balanced.fit(X, y).predict_proba(X)[:, 1], atol=0.01)


def test_the_first_steps_of_a_pipeline_see_no_rows_of_weight_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    absent = 1e4 * rng.normal(size=(300, 3))
    absent[7] = np.nan
    w = np.r_[np.ones(200), np.zeros(300)]
    pipeline = make_pipeline(StandardScaler(), KNeighborsClassifier(3))
    options = dict(size=20, n_draws=2, n_exchanges=2, random_state=0)
    expected = AnyEstimatorCoreset(pipeline, **options).fit(X, y)
    few = AnyEstimatorCoreset(pipeline, **options)
    few.fit(np.vstack([X, absent]), np.r_[y, ["other"] * 300], sample_weight=w)
    np.testing.assert_allclose(few.encoder_[0].scale_, X.std(axis=0))
    np.testing.assert_array_equal(few.indices_, expected.indices_)
    np.testing.assert_allclose(few.weights_, expected.weights_)
    assert few.n_samples_fit_ == 500


@pytest.mark.parametrize("form", ["pandas", "polars"])
@pytest.mark.parametrize(
    "estimator",
    [
        KNeighborsClassifier(),
        HistGradientBoostingClassifier(max_iter=5),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_whether_transformers_give_frames_changes_nothing(estimator, form, data):
    expected = for_estimator(estimator).fit(*data)
    with config_context(transform_output=form):
        found = for_estimator(estimator).fit(*data)
    np.testing.assert_array_equal(found.indices_, expected.indices_)
    np.testing.assert_array_equal(found.weights_, expected.weights_)


@pytest.mark.parametrize(
    ("estimator", "l2", "own"),
    [
        (Ridge(alpha=np.array([300.0])), 0.5, True),
        (Ridge(alpha=[300.0]), 0.5, True),
        (Ridge(alpha=[300.0, 3.0]), None, False),
        (LogisticRegressionCV(), 1 / 600, True),
        (LogisticRegressionCV(l1_ratios=(0.0,)), 1 / 600, True),
        (LogisticRegressionCV(l1_ratios=(0.0, 1.0), solver="saga"), None, False),
    ],
    ids=str,
)
def test_penalties_in_arrays_are_read(estimator, l2, own):
    linear = AnyEstimatorCoreset(estimator).candidates(600.0)[0]
    assert linear.own is own
    assert l2 is None or linear.l2 == pytest.approx(l2)


@pytest.mark.parametrize("n_rows", [5, 150])
def test_leaves_that_fit_into_the_components_lose_nothing(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = np.arange(n_rows) % 2 + (X[:, 0] > 0)
    leaves = TreeLeaves(RandomForestClassifier(1, max_leaf_nodes=4), random_state=0).fit(X, y)
    Z = leaves.transform(X)
    numbers = leaves.forest_.apply(X)
    shared = (numbers[:, None] == numbers[None]).mean(axis=2)
    np.testing.assert_allclose(Z @ Z.T, shared, atol=1e-5)
