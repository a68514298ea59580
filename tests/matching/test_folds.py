"""Cross-validation on matched rows: the curve is that of all rows, and its error is told."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from handful import CoresetEstimator, LeastSquares, Logistic, MatchedCoreset, compare
from handful.blocks import Blocks
from handful.matching.folds import (
    Folds,
    curve_reports,
    folds_of_rows,
    models_without,
    sample_of,
)
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import likelihood
from handful.matching.path import optimum
from handful.models import Poisson
from handful.streaming import MergeReduce
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import (
    ElasticNet,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
)
from sklearn.metrics import (
    get_scorer,
    log_loss,
    mean_poisson_deviance,
    mean_squared_error,
)
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier


def tabular(name, seed=0, n=6000, d=5):
    """A problem, rows and targets whose columns are heavy-tailed, binary and far from zero."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_t(5, size=(n, d))
    Z[:, 1] = Z[:, 1] > 0.7
    eta = Z @ np.array([0.9, -0.8, 0.4, 0.1, 0.0]) - 1
    X = Z + np.array([0.0, 0.0, 3.0, 1e4, 0.0])
    y = {
        "binary": rng.random(n) < expit(eta),
        "multinomial": np.array(["a", "b", "c"])[rng.integers(0, 2, n) + (eta > 0)],
        "poisson": rng.poisson(np.exp(np.clip(eta, -9, 2))),
        "squares": eta + rng.standard_t(4, size=n),
    }[name]
    problem = {"poisson": Poisson(1e-2), "squares": LeastSquares(1e-2)}.get(name, Logistic(1e-2))
    return problem, X, y


def logistic(l1_ratio):
    # The intercept of saga is exact where columns are near zero only.
    solver = "lbfgs" if l1_ratio == 0 else "saga"
    return LogisticRegression(l1_ratio=l1_ratio, solver=solver, tol=1e-7, max_iter=20_000)


SEARCHES = {
    "binary l2": ("binary", logistic(0.0), "C"),
    "binary l1": ("binary", logistic(1.0), "C"),
    "binary elastic net": ("binary", logistic(0.5), "C"),
    "multinomial l2": ("multinomial", logistic(0.0), "C"),
    "multinomial l1": ("multinomial", logistic(1.0), "C"),
    "poisson l2": ("poisson", PoissonRegressor(tol=1e-9, max_iter=10_000), "alpha"),
    "squares l2": ("squares", Ridge(), "alpha of a sum"),
    "squares l1": ("squares", ElasticNet(l1_ratio=1.0, tol=1e-9, max_iter=10_000), "alpha"),
    "squares elastic net": ("squares", ElasticNet(tol=1e-9, max_iter=10_000), "alpha"),
}
SCORES = {
    "binary": "neg_log_loss",
    "multinomial": "neg_log_loss",
    "poisson": "neg_mean_poisson_deviance",
    "squares": "neg_mean_squared_error",
}


def curve(name, X, y, w, folds, penalties):
    """Mean held-out losses of scikit-learn's grid search, one for each penalty."""
    kind, model, parameter = SEARCHES[name]
    n = w.sum() * 0.8
    grid = {
        "C": ("C", 1 / (penalties * n)),
        "alpha": ("alpha", penalties),
        "alpha of a sum": ("alpha", penalties * n),
    }[parameter]
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            dict([grid]),
            scoring=get_scorer(SCORES[kind]).set_score_request(sample_weight=True),
            cv=PredefinedSplit(folds),
            refit=False,
        )
        search.fit(X, y, sample_weight=w)
    return -search.cv_results_["mean_test_score"]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_grid_search_on_the_rows_is_that_of_all_rows(name):
    problem, X, y = tabular(SEARCHES[name][0], n=3000 if "saga" in repr(SEARCHES[name]) else 6000)
    X = X - X.mean(0)
    penalties = np.array([2e-3, 8e-3, 5e-2])
    matched = MatchedCoreset(problem, folds=5, random_state=0).fit(X, y)
    X_small, y_small, w, folds = matched.take(X, y)
    few = curve(name, X_small, y_small, w, folds, penalties)
    every = curve(name, X, y, np.ones(len(X)), matched.row_folds_, penalties)
    exact = SEARCHES[name][0] == "squares"
    assert np.abs(few - every).max() < (1e-7 if exact else 3e-4) * every.max()
    assert few.argmin() == every.argmin()
    assert len(w) < len(X) / 2


def test_logistic_regression_cv_finds_the_penalty_of_all_rows():
    problem, X, y = tabular("binary")
    X = X - X.mean(0)
    matched = MatchedCoreset(problem, folds=5, random_state=0).fit(X, y)
    scores = []
    with config_context(enable_metadata_routing=True):
        scorer = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
        for rows, labels, w, folds in (
            matched.take(X, y),
            (X, y, np.ones(len(X)), matched.row_folds_),
        ):
            model = LogisticRegressionCV(
                Cs=1 / (np.array([1e-3, 1e-2, 1e-1]) * 0.8 * len(X)),
                cv=PredefinedSplit(folds),
                scoring=scorer,
                l1_ratios=(0.0,),
                use_legacy_attributes=False,
                tol=1e-8,
            )
            scores.append(model.fit(rows, labels, sample_weight=w).scores_.mean(0).ravel())
    np.testing.assert_allclose(*scores, atol=1e-4)


def sums_of_folds(problem, X, y, w, folds, theta):
    """Loss and slope of scipy-free textbook sums in each fold: binary logistic loss at theta."""
    signs = np.where(y, 1.0, -1.0)
    margins = signs * (X @ theta[:-1] + theta[-1])
    losses = np.logaddexp(0, -margins)
    slopes = (-signs * expit(-margins))[:, None] * np.column_stack([X, np.ones(len(X))])
    return np.array(
        [
            np.r_[w[folds == k] @ losses[folds == k], w[folds == k] @ slopes[folds == k]]
            for k in np.unique(folds)
        ]
    )


@pytest.mark.parametrize("source", ["memory", "blocks", "files", "dask"])
def test_each_fold_keeps_its_sums_whatever_the_blocks(source, tmp_path):
    problem, X, y = tabular("binary", n=4000)
    X = X - X.mean(0)
    order = np.lexsort((X[:, 0], y))
    X = X[order]
    y = y[order]
    if source == "memory":
        data = (X, y)
    elif source == "blocks":
        data = (Blocks(X, y, rows=900),)
    elif source == "files":
        for i in range(4):
            np.save(tmp_path / f"X{i}.npy", X[1000 * i : 1000 * (i + 1)])
            np.save(tmp_path / f"y{i}.npy", y[1000 * i : 1000 * (i + 1)])
        data = (str(tmp_path / "X*.npy"), str(tmp_path / "y*.npy"))
    else:
        da = pytest.importorskip("dask.array")
        data = (da.from_array(X, chunks=(700, 5)), da.from_array(y, chunks=700))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handful.matching.matched_coreset.PER_BLOCK", 1000)
        matched = MatchedCoreset(problem, folds=4, random_state=0).fit(*data)
        report = matched.check_model(LogisticRegression(C=1.0), *data)
    X_small, y_small, w, folds = matched.take(*data)
    np.testing.assert_allclose(X_small, X[matched.indices_])
    np.testing.assert_array_equal(folds, matched.row_folds_[matched.indices_])
    for theta in matched.parameters_:
        of_all = sums_of_folds(problem, X, y, np.ones(len(X)), matched.row_folds_, theta)
        of_few = sums_of_folds(problem, X_small, y_small, w, folds, theta)
        np.testing.assert_allclose(of_few, of_all, rtol=1e-8, atol=1e-7)
    # Each fold has its share of both classes.
    shares = [y[matched.row_folds_ == k].sum() for k in range(4)]
    assert max(shares) - min(shares) <= 1
    assert abs(report.error) < 2e-4


def test_folds_of_ones_own_keep_groups_and_rows_that_are_never_tested():
    problem, X, y = tabular("multinomial")
    X = X - X.mean(0)
    rng = np.random.default_rng(0)
    groups = np.array(["north", "south", "west"])[rng.integers(0, 3, len(X))]
    weights = rng.integers(0, 3, len(X)).astype(float)
    named = MatchedCoreset(problem, folds=groups, random_state=0).fit(X, y, weights)
    assert set(named.folds_) == {0, 1, 2}
    _, _, w, folds = named.take(X, y)
    for k, group in enumerate(["north", "south", "west"]):
        assert (groups[named.indices_[folds == k]] == group).all()
        assert w[folds == k].sum() == pytest.approx(weights[groups == group].sum())
    assert (weights[named.indices_] > 0).all()

    numbers = np.where(groups == "north", -1, np.where(groups == "south", 7, 3))
    some = MatchedCoreset(problem, folds=numbers, random_state=0).fit(X, y, weights)
    assert PredefinedSplit(some.folds_).get_n_splits() == 2
    report = some.check_model(LogisticRegression(), X, y, weights)
    assert report.loss.shape == (2,)


@pytest.mark.parametrize("name", ["binary", "multinomial", "poisson", "squares"])
def test_the_check_of_a_model_is_its_loss_on_all_rows(name):
    problem, X, y = tabular(name)
    X = X - X.mean(0)
    model = {
        "poisson": PoissonRegressor(alpha=1e-2, tol=1e-10),
        "squares": Ridge(alpha=50.0),
    }.get(name, LogisticRegression(C=0.02, tol=1e-10, max_iter=1000))
    matched = MatchedCoreset(problem, folds=3, random_state=0).fit(X, y)
    report = matched.check_model(model, X, y)
    X_small, y_small, w, folds = matched.take(X, y)
    of_few, of_all = [], []
    for k in range(3):
        held = matched.row_folds_ == k
        kept = folds != k
        few = model.fit(X_small[kept], y_small[kept], sample_weight=w[kept])
        if name in ("poisson", "squares"):
            said = few.predict(X[held])
            twice = mean_poisson_deviance if name == "poisson" else mean_squared_error
            loss = twice(y[held], said) / 2
        else:
            loss = log_loss(y[held], few.predict_proba(X[held]))
        of_few.append(loss)
        every = model.fit(X[~held], y[~held])
        if name in ("poisson", "squares"):
            of_all.append(twice(y[held], every.predict(X[held])) / 2)
        else:
            of_all.append(log_loss(y[held], every.predict_proba(X[held])))
    if name != "poisson":
        # The deviance leaves out what no parameter moves.
        np.testing.assert_allclose(report.loss, of_few, rtol=1e-8)
    difference = np.mean(of_few) - np.mean(of_all)
    missed = report.loss.mean() - (report.loss_of_rows.mean() - report.error)
    assert missed == pytest.approx(difference, abs=3e-6 + 0.1 * abs(difference))
    assert 0 <= report.excess < 1e-4
    assert "difference of" in str(report)


@pytest.mark.parametrize("name", ["binary", "multinomial", "poisson"])
@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_the_curve_is_not_far_below_the_truth(name, seed):
    problem, X, y = tabular(name, seed, n=4000)
    X = X - X.mean(0)
    matched = MatchedCoreset(problem, folds=4, tol=10.0, random_state=seed).fit(X, y)
    penalties = np.geomspace(2e-4, 5e-2, 4)
    X_small, y_small, w, folds = matched.take(X, y)
    few = curve(f"{name} l2", X_small, y_small, w, folds, penalties)
    every = curve(f"{name} l2", X, y, np.ones(len(X)), matched.row_folds_, penalties)
    half = 2 if name == "poisson" else 1
    assert np.abs(few - every).max() / half < 3 * matched.curve_error_ + 1e-5
    # More models are matched where the error is above a tenth of `tol`.
    nearer = MatchedCoreset(problem, folds=4, tol=1e-3, random_state=seed).fit(X, y)
    assert nearer.curve_error_ <= max(1e-4, matched.curve_error_)
    assert len(nearer.parameters_) == len(matched.parameters_) or matched.curve_error_ > 1e-4


def test_optima_with_an_l1_penalty_are_those_of_scikit_learn():
    problem, X, y = tabular("binary", n=2000)
    X = X - X.mean(0)
    model, target = likelihood(problem, y)
    rows = LikelihoodSums(model, X, target, np.ones(len(X)))
    for l1, l2 in ((1e-3, 0.0), (2e-2, 0.0), (1e-2, 1e-2)):
        found = optimum(rows, l1, l2, np.zeros(6))
        every = LogisticRegression(
            C=1 / ((l1 + l2) * len(X)),
            l1_ratio=l1 / (l1 + l2),
            solver="saga",
            tol=1e-8,
            max_iter=20_000,
        ).fit(X, y)
        np.testing.assert_allclose(found, np.r_[every.coef_[0], every.intercept_], atol=1e-4)
        assert (found[:-1] == 0).any() == (every.coef_[0] == 0).any()


@pytest.mark.parametrize("name", ["binary", "multinomial", "poisson", "squares"])
def test_the_curve_is_the_same_far_from_zero(name):
    problem, X, y = tabular(name)
    near = MatchedCoreset(problem, folds=3, random_state=0).fit(X - X.mean(0), y)
    far = MatchedCoreset(problem, folds=3, random_state=0).fit(X - X.mean(0) + 1e5, y)
    # The same models, whose intercepts make up for the columns; the rows differ by rounding.
    assert far.curve_error_ < 1e-4
    if name != "squares":
        slopes = (p[:8].reshape(8, -1, 6)[:, :, :5] for p in (near.parameters_, far.parameters_))
        np.testing.assert_allclose(*slopes, atol=5e-3)


def test_same_seed_same_folds_and_the_same_rows():
    problem, X, y = tabular("binary", n=3000)
    X = X - X.mean(0)
    first, second = (MatchedCoreset(problem, folds=3, random_state=1).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.indices_, second.indices_)
    np.testing.assert_array_equal(first.row_folds_, second.row_folds_)


def test_rows_with_folds_train_and_compare_as_others_do():
    problem, X, y = tabular("binary", n=3000)
    X = X - X.mean(0)
    selector = MatchedCoreset(problem, folds=3, random_state=0)
    whole = CoresetEstimator(selector, LogisticRegression(C=0.1)).fit(X, y)
    every = LogisticRegression(C=0.1).fit(X, y)
    np.testing.assert_allclose(whole.estimator_.coef_, every.coef_, atol=0.02)
    found = compare([selector], LogisticRegression(C=0.1), X, y, sizes=[1500], seeds=2)
    assert found.frame["score"].notna().all()


WRONG = {
    "one fold": (dict(folds=1), "folds must be"),
    "no number": (dict(folds=2.5), "folds must be"),
    "too short": (dict(folds=np.zeros(5, int)), "one label a row"),
    "one group": (dict(folds=np.zeros(300, int)), "at least two"),
    "all never tested": (dict(folds=np.full(300, -1)), "at least two"),
    "missing": (dict(folds=np.where(np.arange(300) < 9, np.nan, 1.0)), "missing"),
    "classes apart": (dict(folds="labels"), "all rows of a class"),
    "a posterior": (dict(folds=3, at="posterior"), "folds are for at='path'"),
    "draws": (dict(folds=3, at=np.zeros((3, 6))), "folds are for at='path'"),
    "too few rows": (dict(folds=3, size=40), "size must be at least"),
}


@pytest.mark.parametrize("name", WRONG)
def test_folds_that_cannot_be_matched_are_refused_by_name(name):
    problem, X, y = tabular("binary", n=300)
    options, words = WRONG[name]
    if isinstance(options["folds"], str):
        options = dict(folds=y.astype(int))
    with pytest.raises((ValueError, TypeError), match=words):
        MatchedCoreset(problem, random_state=0, **options).fit(X - X.mean(0), y)


@pytest.mark.parametrize(
    "splits",
    [
        lambda splitter, X, y: splitter,
        lambda splitter, X, y: splitter.split(X, y),
        lambda splitter, X, y: list(splitter.split(X, y)),
    ],
)
def test_splits_of_scikit_learn_are_refused_with_a_way_out_that_works(splits):
    problem, X, y = tabular("binary", n=300)
    X = X - X.mean(0)
    splitter = StratifiedKFold(4)
    selector = MatchedCoreset(problem, random_state=0)
    with pytest.raises(ValueError, match="folds must be an integer") as caught:
        selector.set_params(folds=splits(splitter, X, y)).fit(X, y)
    assert "folds[test] = k for k, (_, test) in enumerate(splitter.split(X, y))" in str(
        caught.value
    )
    folds = np.empty(300, int)
    for k, (_, test) in enumerate(splitter.split(X, y)):
        folds[test] = k
    selector.set_params(folds=folds).fit(X, y)
    np.testing.assert_array_equal(selector.row_folds_, folds)


def test_a_fold_without_weight_and_a_model_of_another_shape_are_refused():
    problem, X, y = tabular("binary", n=2000)
    X = X - X.mean(0)
    folds = np.arange(2000) % 4
    with pytest.raises(ValueError, match="fold 2 holds no row"):
        MatchedCoreset(problem, folds=folds).fit(X, y, (folds != 2).astype(float))
    matched = MatchedCoreset(problem, folds=4, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="linear in the columns"):
        matched.check_model(DecisionTreeClassifier(), X, y)
    with pytest.raises(ValueError, match="must have folds"):
        MatchedCoreset(problem).fit(X, y).check_model(LogisticRegression(), X, y)


def test_fewer_rows_than_second_moments_keep_the_curve_of_least_squares_nearly():
    problem, X, y = tabular("squares")
    X = np.hstack([X - X.mean(0), np.random.default_rng(0).normal(size=(len(X), 15))])
    exact = MatchedCoreset(problem, folds=3, penalties=[1e-2], random_state=0).fit(X, y)
    fewer = MatchedCoreset(problem, folds=3, penalties=[1e-2], size=600, random_state=0).fit(X, y)
    assert exact.curve_error_ < 1e-10
    assert len(fewer.indices_) <= 600 < len(exact.indices_)
    assert fewer.curve_error_ < 3e-3


def test_folds_in_a_stream_are_refused():
    problem, X, y = tabular("binary", n=500)
    with pytest.raises(ValueError, match="folds must be None in a stream"):
        MergeReduce(MatchedCoreset(problem, folds=3), size=50).partial_fit(X - X.mean(0), y)


@pytest.mark.parametrize("l2", [1e-4, 1e-1])
def test_the_error_of_a_model_is_that_of_models_trained_on_all_rows(l2):
    X, y = make_classification(20_000, 20, n_informative=8, flip_y=0.05, random_state=0)
    X = StandardScaler().fit_transform(X)
    matched = MatchedCoreset(Logistic(), folds=5, penalties=[1e-4, 1e-1], random_state=0).fit(X, y)
    n_train = 0.8 * len(y)
    model = LogisticRegression(C=1 / (l2 * n_train), tol=1e-9, solver="newton-cholesky")
    report = matched.check_model(model, X, y)
    losses = []
    for k in range(5):
        held = matched.row_folds_ == k
        trained = clone(model).fit(X[~held], y[~held])
        losses.append(log_loss(y[held], trained.predict_proba(X[held])))
    truth = report.loss_of_rows.mean() - np.mean(losses)
    assert report.error == pytest.approx(truth, rel=0.05, abs=2e-7)


@pytest.mark.filterwarnings("error")
def test_columns_that_are_nearly_alike_are_tuned_without_a_warning():
    # Many optima with an L1 penalty are nearly alike, and coordinate descent is slow.
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 4))
    X = np.hstack([Z + 1e-4 * rng.normal(size=Z.shape) for _ in range(4)])
    X = StandardScaler().fit_transform(X)
    y = rng.random(3000) < expit(Z @ [1.0, -0.7, 0.5, 0.2])
    matched = MatchedCoreset(Logistic(), folds=3, penalties=[1e-4, 1e-1], random_state=0).fit(X, y)
    model = LogisticRegression(
        C=1 / (1e-2 * 2000),
        l1_ratio=1.0,
        solver="liblinear",
        intercept_scaling=10.0,
        tol=1e-5,
        max_iter=100_000,
        random_state=0,
    )
    losses = []
    for rows, labels, w, folds in (
        matched.take(X, y),
        (X, y, np.ones(3000), matched.row_folds_),
    ):
        held = folds == 0
        trained = clone(model).fit(rows[~held], labels[~held], sample_weight=w[~held])
        chances = trained.predict_proba(rows[held])
        losses.append(log_loss(labels[held], chances, sample_weight=w[held]))
    np.testing.assert_allclose(*losses, atol=5e-4)


@pytest.mark.parametrize("source", ["memory", "blocks"])
def test_a_sample_of_many_rows_keeps_the_sums_of_all(source, monkeypatch):
    problem, X, y = tabular("binary", n=60_000)
    X = np.clip(X - X.mean(0), -2, 2)
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    monkeypatch.setattr("handful.matching.likelihood_sums.MANY_NUMBERS", 0)
    found = []
    original = LikelihoodSums._match_sample

    def told(*args):
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(LikelihoodSums, "_match_sample", told)
    data = (X, y, weights) if source == "memory" else (Blocks(X, y, weights, rows=9000),)
    matched = MatchedCoreset(problem, folds=2, random_state=0, tol=10.0).fit(*data)
    assert found[0] is not None
    assert matched.residual_ < 1e-11
    assert (weights[matched.indices_] > 0).all()
    few = matched.indices_
    for theta in matched.parameters_:
        of_all = sums_of_folds(problem, X, y, weights, matched.row_folds_, theta)
        of_few = sums_of_folds(problem, X[few], y[few], matched.weights_, matched.folds_, theta)
        np.testing.assert_allclose(of_few, of_all, rtol=1e-8, atol=1e-7)


def test_a_column_that_a_sample_lacks_is_matched_on_all_rows(monkeypatch):
    problem, X, y = tabular("binary", n=40_000)
    X = X - X.mean(0)
    X[:, 4] = 0.0
    X[:7, 4] = 1.0
    monkeypatch.setattr("handful.matching.likelihood_sums.MANY_NUMBERS", 0)
    folds = np.arange(len(X)) % 2
    matched = MatchedCoreset(problem, folds=folds, random_state=0, tol=10.0).fit(X, y)
    few = matched.indices_
    for theta in matched.parameters_:
        of_all = sums_of_folds(problem, X, y, np.ones(len(X)), folds, theta)
        of_few = sums_of_folds(problem, X[few], y[few], matched.weights_, matched.folds_, theta)
        np.testing.assert_allclose(of_few, of_all, rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_the_curve_holds_where_an_l1_penalty_leaves_few_coefficients(seed):
    # The error used to be largest between the penalties at which it was looked at.
    rng = np.random.default_rng(seed)
    X = rng.standard_t(6, size=(12_000, 15))
    X[:, 0] = X[:, 0] > 1
    X = StandardScaler().fit_transform(X)
    slopes = np.random.default_rng(0).normal(size=15) * 0.4
    y = rng.random(len(X)) < expit(X @ slopes - 1.5)
    matched = MatchedCoreset(Logistic(), folds=4, penalties=[1e-4, 1e-1], random_state=0).fit(X, y)
    X_small, y_small, w, folds = matched.take(X, y)
    all_zero = np.abs(X.T @ (y - y.mean())).max() / len(X)
    errors = []
    for share in (0.95, 0.8, 0.6, 0.4, 0.2, 0.05):
        losses = np.zeros(2)
        for side, (rows, labels, weights, parts) in enumerate(
            ((X, y, np.ones(len(X)), matched.row_folds_), (X_small, y_small, w, folds))
        ):
            for k in range(4):
                model, target = likelihood(Logistic(), labels)
                sums = LikelihoodSums(model, rows, target, weights)
                theta = optimum(sums.where(parts != k), share * all_zero, 0.0, np.zeros(16))
                held = sums.where(parts == k)
                losses[side] -= held.sums(theta[None])[0] / held.weights.sum() / 4
        errors.append(abs(losses[0] - losses[1]))
    assert max(errors) < 2 * matched.curve_error_ + 1e-6
    assert matched.curve_error_ <= 1e-4


@pytest.mark.parametrize("name", ["binary", "multinomial", "poisson"])
def test_the_error_of_the_curve_is_seen_on_a_sample_as_on_all_rows(name, monkeypatch):
    problem, X, y = tabular(name, n=12_000)
    X = X - X.mean(0)
    matched = MatchedCoreset(problem, folds=4, random_state=0).fit(X, y)
    model, target = likelihood(problem, y)
    found = Folds(matched.row_folds_, np.arange(4))
    rows = LikelihoodSums(model, X, target, np.ones(len(X)), found)
    monkeypatch.setattr("handful.matching.folds.PILOT", 1200)
    sample = sample_of(rows)
    pairs = [(0.0, 1e-1), (0.0, 1e-3), (3e-2, 0.0), (3e-3, 0.0), (3e-3, 1e-2)]
    starts = np.zeros((len(pairs), matched.parameters_.shape[1]))
    rng = np.random.default_rng(0)
    told, truth = [], []
    for _ in range(5):
        # A few more or less than they should be: the curve is off.
        weights = matched.weights_ * rng.uniform(0.98, 1.02, len(matched.weights_))
        few = rows.restricted(matched.indices_, weights)
        models = models_without(few, pairs, starts)
        for some, errors in [(sample, told), (rows, truth)]:
            errors += [report.error for report in curve_reports(rows, some, few, models, pairs)]
    # One draw may be off by little, so that its own size is no measure.
    np.testing.assert_allclose(told, truth, atol=0.3 * np.abs(truth).max())


def test_parts_that_hold_no_rows_or_none_that_count_change_nothing():
    problem, X, y = tabular("binary")
    X = X - X.mean(0)
    weights = np.ones(len(X))
    weights[2000:3000] = 0
    columns = [pd.DataFrame(X), pd.Series(y.astype(int)), pd.Series(weights)]
    lazy = [dd.from_pandas(column, npartitions=6) for column in columns]
    kept = [column.loc[2000:] for column in lazy]
    matched = MatchedCoreset(problem, folds=3, random_state=0).fit(*kept)
    at_once = MatchedCoreset(problem, folds=3, random_state=0).fit(
        X[2000:], y[2000:], weights[2000:]
    )
    np.testing.assert_array_equal(matched.row_folds_, at_once.row_folds_)
    assert matched.curve_error_ < 1e-4
    X_small, y_small, w, folds = matched.take(X[2000:], y[2000:])
    for theta in at_once.parameters_:
        of_all = sums_of_folds(
            problem, X[2000:], y[2000:], weights[2000:], matched.row_folds_, theta
        )
        of_few = sums_of_folds(problem, X_small, y_small, w, folds, theta)
        np.testing.assert_allclose(of_few, of_all, rtol=1e-7, atol=1e-6)


def test_a_fold_of_a_few_rows_is_tuned_by_a_sample_of_each_fold(monkeypatch):
    problem, X, y = tabular("binary")
    X = X - X.mean(0)
    monkeypatch.setattr("handful.matching.folds.PILOT", 900)
    folds = np.arange(len(X)) % 3
    folds[::1500] = 7
    matched = MatchedCoreset(problem, folds=folds, random_state=0).fit(X, y)
    assert set(matched.folds_) == {0, 1, 2, 7}
    assert matched.curve_error_ < 1e-4


@pytest.mark.parametrize("kind", [float, object, "Float64"])
def test_whole_numbers_of_any_type_name_the_folds_that_integers_do(kind):
    problem, X, y = tabular("binary", n=600)
    X = X - X.mean(0)
    folds = np.arange(600) % 4 - 1
    selector = MatchedCoreset(problem, random_state=0)
    first, second = (
        selector.set_params(folds=f).fit(X, y).folds_
        for f in (folds, pd.Series(folds).astype(kind))
    )
    assert set(first) == {-1, 0, 1, 2}
    np.testing.assert_array_equal(first, second)


def test_more_folds_than_small_integers_count():
    n = 2**15 + 100
    folds = folds_of_rows(np.r_[np.arange(n - 1), 0], np.zeros(n, int), np.ones(n), None)
    np.testing.assert_array_equal(folds.codes[[0, n - 2, n - 1]], [0, n - 2, 0])


@pytest.mark.parametrize(
    ("problem", "y"),
    [
        (Logistic(0.1), np.repeat([0, 1], 200)),
        (LeastSquares(0.1), np.full(400, 2.0)),
        (Poisson(0.1), np.repeat([1.0, 3.0], 200)),
    ],
    ids=["two classes", "a constant", "counts"],
)
def test_folds_of_rows_without_any_effect_keep_their_sums(problem, y):
    X = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)] * 100)
    chosen = MatchedCoreset(problem, folds=4, random_state=0).fit(X, y)
    assert chosen.residual_ < 1e-9
    # All optima are that of the mean, where the rows of a fold keep their number, their targets
    # and the slope (mean - y) X; sums of X alone are none of these.
    few, of_few, w = X[chosen.indices_], y[chosen.indices_], chosen.weights_
    away, of_all = y.mean() - of_few, y.mean() - y
    for k in range(4):
        is_few, is_in = chosen.folds_ == k, chosen.row_folds_ == k
        np.testing.assert_allclose(w[is_few].sum(), is_in.sum())
        np.testing.assert_allclose(w[is_few] @ of_few[is_few], y[is_in].sum())
        kept = (w * away)[is_few] @ few[is_few]
        np.testing.assert_allclose(kept, of_all[is_in] @ X[is_in], atol=1e-6)
    assert chosen.curve_error_ < chosen.tol


@pytest.mark.parametrize("seed", range(3))
def test_folds_are_stratified_by_the_rows_that_count(seed):
    rng = np.random.default_rng(seed)
    y = np.r_[np.repeat([0, 1], 30), rng.integers(0, 2, 2000)]
    X = rng.normal(size=(len(y), 2))
    w = np.r_[np.ones(60), np.zeros(2000)]
    fitted = MatchedCoreset(Logistic(), folds=3, random_state=seed).fit(X, y, sample_weight=w)
    for label in (0, 1):
        of_class = fitted.row_folds_[:60][y[:60] == label]
        assert np.bincount(of_class).tolist() == [10, 10, 10]
