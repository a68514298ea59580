"""Attribution against leaving rows out and training again; suspects against models that never saw
the row."""

import numpy as np
import pandas as pd
import pytest
from handful import LeastSquares, Logistic, influence, suspects
from handful.attribution import _predicted
from handful.models import GaussianMixture
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import is_regressor
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, LinearSVC

L2 = 0.1


@pytest.fixture
def noisy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
    return X, y


# --- influence


def trained(X, Y, penalty, classes):
    """Parameters (p, k) that minimise the sum of losses and the penalty, slowly; softmax for
    several classes."""
    A = np.column_stack([X, np.ones(len(X))])

    def objective(w):
        W = w.reshape(A.shape[1], -1)
        return row_losses(W, A, Y, classes).sum() + penalty / 2 * (W[:-1] ** 2).sum()

    start = np.zeros(A.shape[1] * Y.shape[1])
    return minimize(objective, start, method="BFGS", options={"gtol": 1e-7}).x.reshape(
        A.shape[1], -1
    )


def row_losses(W, A, Y, classes):
    Z = A @ W
    if not classes:
        return 0.5 * ((Z - Y) ** 2).sum(axis=1)
    if Y.shape[1] == 1:
        return (np.logaddexp(0, Z) - Y * Z)[:, 0]
    return -(Y * log_softmax(Z, axis=1)).sum(axis=1)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "targets"])
def test_influence_is_the_rise_of_the_loss_found_by_leaving_rows_out_and_training_again(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    T = rng.normal(size=(6, 2))
    targets = {
        "two classes": lambda Z: (Z[:, 0] + 0.5 * rng.normal(size=len(Z)) > 0).astype(int),
        "three classes": lambda Z: np.digitize(
            Z[:, 0] + 0.5 * rng.normal(size=len(Z)), [-0.4, 0.4]
        ),
        "targets": lambda Z: Z[:, 0] + 0.5 * rng.normal(size=len(Z)),
    }[kind]
    y = targets(X)
    t = targets(T)
    classes = kind != "targets"
    problem = Logistic(L2) if classes else LeastSquares(L2)
    k = {"two classes": 1, "three classes": 3, "targets": 1}[kind]
    Y, R = ((np.eye(3)[of] if k == 3 else of[:, None].astype(float)) for of in (y, t))
    B = np.column_stack([T, np.ones(len(T))])
    full = trained(X, Y, L2 * 30, classes)
    rise = np.zeros((30, 6))
    for i in range(30):
        rest = np.arange(30) != i
        W = trained(X[rest], Y[rest], L2 * 30, classes)
        if classes:
            rise[i] = row_losses(W, B, R, True) - row_losses(full, B, R, True)
        else:
            # the slope of the loss times what the prediction moves by, to which the score is equal
            rise[i] = ((B @ full - R) * (B @ (W - full)))[:, 0]
    plain = influence(problem, X, y, T, t, rescaled=False)
    scores = influence(problem, X, y, T, t)
    if not classes:
        np.testing.assert_allclose(scores, rise, atol=1e-5)
    else:
        assert np.corrcoef(scores.ravel(), rise.ravel())[0, 1] > 0.99
    # leverage counts
    assert np.abs(scores - rise).mean() < 0.8 * np.abs(plain - rise).mean()


def test_influence_refuses_what_it_cannot_attribute(noisy):
    X, y = noisy
    with pytest.raises(TypeError, match="knows Logistic and LeastSquares, got GaussianMixture"):
        influence(GaussianMixture(2), X, y, X, y)
    with pytest.raises(
        TypeError, match=r"LogisticRegression\(C=C\) give Logistic\(l2=1 / \(C \* 60\)\).*suspects"
    ):
        influence(LogisticRegression(), X, y, X, y)
    with pytest.raises(ValueError, match=r"y_test must hold the classes .* got \[2\] besides"):
        influence(Logistic(), X, y, X[:1], [2])
    with pytest.raises(ValueError, match="X_test must have the 2 columns of X, got 1"):
        influence(Logistic(), X, y, X[:, :1], y)
    frame = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match="feature names should match"):
        influence(Logistic(), frame, y, frame[["b", "a"]], y)
    named = influence(Logistic(), frame, y, X, y)
    np.testing.assert_allclose(named, influence(Logistic(), X, y, X, y), atol=1e-12)
    classes = np.arange(3000)
    rows = np.eye(3000, 300)
    with pytest.raises(MemoryError, match=r"Hessian of 903,000 parameters.*principal components"):
        influence(Logistic(), rows, classes, rows[:1], classes[:1])


# --- suspects


def test_a_loss_is_that_of_a_model_that_never_saw_the_row(noisy):
    X, y = noisy
    found = suspects(Logistic(L2), X, y, n_folds=3, random_state=0)
    seed = int(np.random.default_rng(0).integers(np.iinfo(np.int32).max))
    for train, held_out in StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y):
        model = LogisticRegression(C=1 / (L2 * 40)).fit(X[train], y[train])
        own = -np.log(model.predict_proba(X[held_out])[np.arange(len(held_out)), y[held_out]])
        np.testing.assert_allclose(found.scores_[held_out], own, rtol=1e-3)
    assert (np.diff(found.scores_[found.indices_]) <= 0).all()
    target = X @ [1.0, 2.0]
    target[7] += 30
    train, held_out = next(KFold(2, shuffle=True, random_state=seed).split(X))
    losses = suspects(LeastSquares(1e-3), X, target, n_folds=2, random_state=0).scores_
    plain = Ridge(1e-3 * 30).fit(X[train], target[train]).predict(X[held_out])
    np.testing.assert_allclose(losses[held_out], (plain - target[held_out]) ** 2 / 2, rtol=1e-6)


def test_a_forest_is_asked_for_its_out_of_bag_predictions(noisy):
    X, y = noisy
    forest = RandomForestClassifier(200, min_samples_leaf=5, random_state=0)
    found = suspects(forest, X, y)
    own = forest.set_params(oob_score=True).fit(X, y).oob_decision_function_
    np.testing.assert_allclose(found.scores_, -np.log(np.maximum(own[np.arange(60), y], 1e-12)))
    with pytest.raises(
        ValueError, match="in every bag of RandomForestClassifier: give n_estimators"
    ):
        suspects(RandomForestClassifier(2, random_state=0), X, y)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(random_state=0),
        HistGradientBoostingRegressor(random_state=0),
        LeastSquares(1e-3),
    ],
)
def test_a_target_far_off_comes_first(noisy, model):
    X = noisy[0]
    target = X @ [1.0, 2.0]
    target[7] += 30
    assert suspects(model, X, target, random_state=0).indices_[0] == 7


@pytest.mark.parametrize(
    "model",
    [
        Logistic(1e-2),
        LinearSVC(),
        RandomForestClassifier(min_samples_leaf=3),
        LogisticRegression(max_iter=500),
    ],
)
def test_flipped_digits_come_first_and_the_same_seed_gives_the_same(model):
    X, y = load_digits(return_X_y=True)
    X = X[:600] / 16
    y = y[:600].copy()
    y[:30] = (y[:30] + 3) % 10
    names = np.array(list("abcdefghij"))[y]
    found = suspects(model, X, names, random_state=0)
    # by chance: 1.5
    assert (found.indices_[:30] < 30).sum() >= 25
    np.testing.assert_array_equal(found.scores_, suspects(model, X, names, random_state=0).scores_)


def test_a_pipeline_takes_words_and_the_suspects_come_as_they_are(noisy):
    X, y = noisy
    frame = pd.DataFrame(
        {"side": np.where(X[:, 0] > 0, "right", "left")}, index=[f"row {i}" for i in range(60)]
    )
    found = suspects(make_pipeline(OneHotEncoder(), LogisticRegression()), frame, y, random_state=0)
    rows, labels = found.take(5, frame, y)
    assert list(rows.index) == [f"row {i}" for i in found.indices_[:5]]
    np.testing.assert_array_equal(labels, y[found.indices_[:5]])
    with pytest.raises(IndexError):
        X[found]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        found.take(5, X[:50])
    with pytest.raises(ValueError, match=r"take gives rows of data, as in take\(5, X, y\)"):
        found.take(5)


def test_misuse_of_suspects_is_named(noisy):
    X, y = noisy
    with pytest.raises(TypeError, match="must be a classifier or a regressor"):
        suspects(GaussianMixture(2), X, y)
    with pytest.raises(
        ValueError, match="class 'rare' has 1 of 60 rows, fewer than n_folds=5: leave its rows out"
    ):
        suspects(Logistic(), X, np.array(["rare"] + 30 * ["a"] + 29 * ["b"]))
    with pytest.raises(
        ValueError, match="class 0 has 4 of 8 rows, fewer than n_folds=5: give n_folds=4"
    ):
        suspects(Logistic(), X[:8], np.arange(8) % 2)
    rare = np.array(["rare"] + 30 * ["a"] + 29 * ["b"])
    with pytest.raises(ValueError, match="or give bootstrap=True, which needs no folds"):
        suspects(ExtraTreesClassifier(), X, rare)
    for model in (RandomForestClassifier(), LogisticRegression()):
        with pytest.raises(ValueError, match=r"y holds one class only, \['a'\]"):
            suspects(model, X, np.full(60, "a"))
        with pytest.raises(ValueError, match=r"targets of a regression.*: give a regressor"):
            suspects(model, X, X[:, 0])


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        GaussianNB(),
        LinearSVC(),
        RidgeClassifier(),
        KNeighborsClassifier(3),
        SVC(kernel="precomputed"),
        Ridge(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_a_model_says_of_rows_that_it_did_not_see_is_what_scikit_learn_finds(noisy, model):
    X, y = noisy
    X = X @ X.T if getattr(model, "kernel", "") == "precomputed" else X
    words = y if is_regressor(model) else np.where(y == y[0], "a word", "b")
    folds = (KFold if is_regressor(model) else StratifiedKFold)(4, shuffle=True, random_state=3)
    for method in {"predict", "predict_proba", "decision_function"} & set(dir(model)):
        theirs = cross_val_predict(model, X, words, cv=folds, method=method)
        codes = words if method == "predict" else np.unique(words, return_inverse=True)[1]
        ours, _ = _predicted(model, X, codes, folds, lambda _, method=method: method)
        np.testing.assert_array_equal(ours, theirs)


def test_a_model_that_knows_its_methods_once_it_is_fitted_is_asked_for_probabilities(noisy):
    X, y = noisy
    parts = [("bayes", GaussianNB()), ("linear", LogisticRegression())]
    found = suspects(StackingClassifier(parts, cv=3), X, y, random_state=0)
    known = StackingClassifier(parts, cv=3, final_estimator=LogisticRegression())
    assert len(np.unique(found.scores_)) > 30
    np.testing.assert_allclose(found.scores_, suspects(known, X, y, random_state=0).scores_)


def test_bags_that_would_go_on_from_others_are_asked_all_the_same(noisy):
    X, y = noisy
    plain = suspects(BaggingClassifier(n_estimators=100), X, y, random_state=0)
    warm = suspects(BaggingClassifier(n_estimators=100, warm_start=True), X, y, random_state=0)
    np.testing.assert_array_equal(plain.scores_, warm.scores_)


def test_arguments_that_are_none_or_in_another_order_are_told():
    X = np.arange(20.0).reshape(10, 2)
    y = np.arange(10) % 2
    with pytest.raises(TypeError, match=r"suspects: got .*'cv'; did you mean n_folds\? The arg"):
        suspects(LogisticRegression(), X, y, cv=3)
    with pytest.raises(TypeError, match=r"influence: missing .*: 'X_test'\. The arguments of infl"):
        influence(Logistic(), X, y)
    with pytest.raises(
        TypeError, match=r"estimator must be a classifier or a regressor.*got array"
    ):
        suspects(X, y, LogisticRegression())


def test_words_that_suspects_cannot_train_on_are_told_with_what_mends_it():
    frame = pd.DataFrame({"town": ["u", "v"] * 10, "a": np.arange(20.0)})
    y = np.arange(20) // 10
    with pytest.raises(
        ValueError, match=r"Logistic.* is to train.*suspects\(make_pipeline"
    ) as told:
        suspects(LogisticRegression(), frame, y, random_state=0)
    assert "Column 'town' of X holds words" in str(told.value)
    columns = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    suspects(make_pipeline(columns, LogisticRegression()), frame, y, random_state=0)


@pytest.mark.parametrize("labels", [(0, 1), (2, 1), ("y", "n")])
def test_class_weights_are_those_of_the_labels(noisy, labels):
    X, y = noisy
    scores = []
    for names in (labels, (0, 1)):
        model = LogisticRegression(class_weight={names[0]: 10.0, names[1]: 1.0})
        # of either order the folds are the same
        scores.append(suspects(model, X, np.array(names)[y], random_state=0).scores_)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6)


def test_pairs_of_classes_are_not_taken_for_classes():
    X, y = load_digits(n_class=3, return_X_y=True)
    y[::10] = (y[::10] + 1) % 3
    search = GridSearchCV(SVC(decision_function_shape="ovo"), {"C": [1.0]}, cv=2)
    of_classes = suspects(SVC(), X, y, random_state=0).indices_
    for model in (SVC(decision_function_shape="ovo"), search):
        np.testing.assert_array_equal(suspects(model, X, y, random_state=0).indices_, of_classes)


@pytest.mark.parametrize("kind", ["targets", "two classes", "three classes"])
def test_influence_keeps_its_digits_far_from_zero(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=90)
    if kind != "targets":
        y = np.digitize(y, [0.0] if kind == "two classes" else [-0.5, 0.5])
    problem = (LeastSquares if kind == "targets" else Logistic)(L2)
    near, far = (
        influence(problem, X[:60] + shift, y[:60], X[60:] + shift, y[60:]) for shift in (0, 1e7)
    )
    np.testing.assert_allclose(far, near, rtol=1e-6, atol=1e-6 * np.abs(near).max())


def test_folds_that_are_none_are_refused_before_a_problem_asks_for_them(noisy):
    for n_folds in (0, 1):
        with pytest.raises(ValueError, match="n_folds must be an integer of at least 2"):
            suspects(Logistic(L2), *noisy, n_folds=n_folds)


def test_targets_of_half_precision_are_scored_as_their_values(rng):
    X = rng.normal(size=(100, 2))
    targets = (rng.normal(size=100) * 300).astype(np.float16)
    half, double = (
        suspects(KNeighborsRegressor(), X, y, random_state=0)
        for y in (targets, targets.astype(np.float64))
    )
    assert np.isfinite(half.scores_).all()
    np.testing.assert_allclose(half.scores_, double.scores_, rtol=0.02, atol=1)


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e7, 1.7e9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_far_from_zero_have_the_influence_of_those_near_it(offset, dtype, rng):
    X = rng.normal(size=(200, 4)).astype(dtype)
    y = X @ [1.0, 2, 3, 0] + rng.normal(size=200)
    y = (y + offset) - offset
    near = influence(LeastSquares(1e-2), X[20:], y[20:], X[:20], y[:20])
    far = influence(LeastSquares(1e-2), X[20:], y[20:] + offset, X[:20], y[:20] + offset)
    np.testing.assert_allclose(far, near, atol=1e-5 * np.abs(near).max())


@pytest.mark.parametrize("problem", [LeastSquares(l2=1e-9), Logistic(l2=1e-7)])
@pytest.mark.parametrize(("dtype", "near"), [(np.float64, 1e-6), (np.float32, 1e-3)])
def test_columns_in_which_no_row_lies_take_no_digits(problem, dtype, near, rng):
    """The same rows turned into more columns than there are rows: where none lies, the Hessian is
    the penalty alone."""
    few = rng.normal(size=(60, 5)) * [1, 1, 1, 10, 100]
    score = few @ [1, -1, 0.5, 0.1, 0.01] + rng.normal(size=60)
    y = score > 0 if problem.classifies else score
    turn, _ = np.linalg.qr(rng.normal(size=(80, 5)))
    many = (few @ turn.T).astype(dtype)
    expected = influence(problem, few[:40], y[:40], few[40:], y[40:])
    found = influence(problem, many[:40], y[:40], many[40:], y[40:])
    assert found == pytest.approx(expected, rel=0, abs=near * np.abs(expected).max())


def test_rows_of_nothing_but_their_place_have_influence_through_the_intercept():
    """As many columns as a genome has, all zero: leaving a row out moves the mean alone."""
    y = np.array([0.0, 1.0, 5.0])
    found = influence(
        LeastSquares(), np.zeros((3, 400_000), np.float32), y, np.zeros((1, 400_000)), [4]
    )
    moved = (y.sum() - y) / 2 - y.mean()
    np.testing.assert_allclose(found[:, 0], (y.mean() - 4) * moved, rtol=1e-6)
