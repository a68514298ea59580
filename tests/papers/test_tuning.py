"""Tuning on a thousand rows: the record's curves against scikit-learn's, and its summaries against
what they say."""

import numpy as np
import pandas as pd
import pytest
from handful_papers.own import tuning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss


@pytest.mark.parametrize("kind", tuning.KINDS)
def test_the_curve_is_that_of_scikit_learn(kind, rng):
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] - 0.5 * X[:, 1] + rng.logistic(size=400) > 0.4).astype(int)
    w = rng.random(400) + 0.5
    folds = np.arange(400) % 3
    share = tuning.KINDS[kind]
    penalties = [1e-1, 1e-3]
    pairs = [(share * penalty, (1 - share) * penalty) for penalty in penalties]
    wanted = np.zeros(2)
    for i, penalty in enumerate(penalties):
        for k in range(3):
            held = folds == k
            model = LogisticRegression(
                C=1 / (penalty * w[~held].sum()),
                l1_ratio=share,
                solver="saga" if share else "lbfgs",
                tol=1e-7,
                max_iter=20_000,
            )
            model.fit(X[~held], y[~held], sample_weight=w[~held])
            chances = model.predict_proba(X[held])
            wanted[i] += log_loss(y[held], chances, sample_weight=w[held]) / 3
    np.testing.assert_allclose(tuning.curve(X, y, w, folds, pairs), wanted, atol=1e-6)


def test_a_draw_of_all_rows_is_all_rows(rng):
    X = rng.normal(size=(20, 2))
    every = X, np.arange(20) % 2, np.ones(20), np.arange(20) % 5
    for drawn, wanted in zip(tuning.drawn(every, 20, rng), every):
        np.testing.assert_array_equal(drawn, wanted)
    some = tuning.drawn(every, 5, rng)
    assert some[2].sum() == pytest.approx(20)


def test_errors_are_the_largest_of_a_curve_and_steps_those_between_its_minima():
    rows = pd.DataFrame(
        [
            dict(dataset="a", seed=0, kind="L2", method=method, penalty=p, loss=loss, error=error)
            for method, losses, off in (
                ("full", [3.0, 1.0, 2.0], [0.0, 0.0, 0.0]),
                ("matched", [3.0, 1.5, 1.2], [0.0, 0.5, -0.8]),
            )
            for p, loss, error in zip([0.1, 0.01, 0.001], losses, off)
        ]
    )
    assert tuning.errors(rows, "matched", ["L2"])["a"] == pytest.approx([0.8])
    assert tuning.by_kind(rows, "matched")["a", "L2"] == pytest.approx([0.8])
    assert tuning.steps(rows, "matched").loc[("a", 0), "L2"] == 1
