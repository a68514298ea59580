"""Suspects: influences are those found by training again, losses those of models that never saw the row."""

import numpy as np
import pandas as pd
import pytest
from handful import suspects
from handful.bilevel import GaussianMixture, LeastSquares, Logistic
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold

L2 = 0.1


@pytest.fixture
def noisy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
    return X, y


def test_an_influence_is_the_rise_of_the_held_out_loss_found_by_training_again(noisy):
    X, y = noisy
    signs = 2.0 * y - 1
    A = np.column_stack([X, np.ones(60)])
    scores = suspects(Logistic(L2), X, y, rule="influence", n_folds=3, random_state=0).scores
    seed = int(np.random.default_rng(0).integers(np.iinfo(np.int32).max))
    expected = np.zeros(60)
    for train, held_out in StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y):

        def after(row, weight):
            w = np.full(len(train), 1 / len(train))  # noqa: B023
            w[row] += weight

            def loss(t):
                z = signs[train] * (A[train] @ t)  # noqa: B023
                return w @ np.logaddexp(0, -z) + L2 / 2 * t[:2] @ t[:2], (
                    -A[train].T @ (w * signs[train] / (1 + np.exp(z))) + L2 * np.append(t[:2], 0)  # noqa: B023
                )

            t = minimize(loss, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-11}).x
            return np.logaddexp(0, -signs[held_out] * (A[held_out] @ t)).mean()  # noqa: B023

        for k, row in enumerate(train):
            expected[row] += (after(k, 1e-4) - after(k, -1e-4)) / 2e-4 / 2
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-5)


def test_a_loss_is_that_of_a_model_that_never_saw_the_row(noisy):
    X, y = noisy
    found = suspects(Logistic(L2), X, y, n_folds=3, random_state=0)
    seed = int(np.random.default_rng(0).integers(np.iinfo(np.int32).max))
    for train, held_out in StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y):
        model = LogisticRegression(C=1 / (L2 * 40)).fit(X[train], y[train])
        own = -np.log(model.predict_proba(X[held_out])[np.arange(len(held_out)), y[held_out]])
        np.testing.assert_allclose(found.scores[held_out], own, rtol=1e-3)
    assert (np.diff(found.scores[found.indices]) <= 0).all()
    target = X @ [1.0, 2.0]
    target[7] += 30
    for rule in ("loss", "influence"):
        assert suspects(LeastSquares(1e-3), X, target, rule=rule, random_state=0).indices[0] == 7
    train, held_out = next(KFold(2, shuffle=True, random_state=seed).split(X))
    losses = suspects(LeastSquares(1e-3), X, target, n_folds=2, random_state=0).scores
    from sklearn.linear_model import Ridge

    plain = Ridge(1e-3 * 30).fit(X[train], target[train]).predict(X[held_out])
    np.testing.assert_allclose(losses[held_out], (plain - target[held_out]) ** 2 / 2, rtol=1e-6)


@pytest.mark.parametrize("rule", ["loss", "influence"])
def test_flipped_digits_come_first(rule):
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600].copy()
    y[:30] = (y[:30] + 3) % 10
    names = np.array(list("abcdefghij"))[y]
    found = suspects(Logistic(1e-2), X, names, rule=rule, random_state=0)
    assert (found.indices[:30] < 30).sum() >= (25 if rule == "loss" else 15)  # by chance: 1.5


def test_the_most_suspect_rows_come_as_they_are_and_a_ranking_is_no_index(noisy):
    X, y = noisy
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(60)])
    found = suspects(Logistic(L2), frame, y, random_state=0)
    rows, labels = found.take(5, frame, y)
    assert list(rows.index) == [f"row {i}" for i in found.indices[:5]]
    np.testing.assert_array_equal(labels, y[found.indices[:5]])
    np.testing.assert_array_equal(found.take(5, X), X[found.indices[:5]])
    with pytest.raises(IndexError):
        X[found]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        found.take(5, X[:50])


def test_misuse_of_suspects_is_named(noisy):
    X, y = noisy
    with pytest.raises(ValueError, match=r"rule must be one of \('loss', 'influence'\), got 'entropy'"):
        suspects(Logistic(), X, y, rule="entropy")
    with pytest.raises(ValueError, match="n_folds must be an integer of at least 2"):
        suspects(Logistic(), X, y, n_folds=1)
    with pytest.raises(TypeError, match="knows how to train Logistic and LeastSquares, got GaussianMixture"):
        suspects(GaussianMixture(2), X, y)
    with pytest.raises(ValueError, match="one class only"):
        suspects(Logistic(), X, np.zeros(60))
    for rule in ("loss", "influence"):
        with pytest.raises(ValueError, match="class 'rare' has one row"):
            suspects(Logistic(), X, np.array(["rare"] + 30 * ["a"] + 29 * ["b"]), rule=rule)


def test_what_is_printed_names_the_most_suspect_rows_and_no_more_than_ten():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    found = suspects(Logistic(L2), X, X[:, 0] > 0, random_state=0)
    assert f"40 rows, the most suspect first, with scores: {found.indices[0]} (" in repr(found)
    assert repr(found).count("(") == 10
