"""Points for any trainer: what the notebook compares, and how its claims are judged."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from handful_papers.claims import Run, judge_all
from handful_papers.experiment import figure
from handful_papers.own import any_trainer as trainers
from handful_papers.own.any_trainer import (
    BASELINES,
    CHOICE,
    PLAIN,
    TRAINERS,
    WEIGHED,
    baseline,
    evidence,
    prepare,
    regression,
    relative_loss,
)

NAME = "own/any_trainer"
DATASETS = [*"abcdef", "new", "newer"]


def made_up(choice, weighted=0.9):
    """Rows of a run in which the choice's loss is `choice` times the best draw's, and weights give `weighted`."""
    rng = np.random.default_rng(0)
    rows = []
    for trainer, dataset, size, seed in product(TRAINERS, DATASETS, (10, 20), range(5)):
        for rank, method in enumerate(BASELINES):
            loss = (1.0 + 0.2 * rank) * np.exp(0.01 * rng.normal())
            rows.append(dict(trainer=trainer, dataset=dataset, size=size, seed=seed, method=method, loss=loss))
        rows.append(rows[-1] | dict(method=CHOICE, loss=choice * np.exp(0.01 * rng.normal())))
    rows = [row | dict(part="sizes", weights="-") for row in rows]
    for trainer, dataset, seed, method in product(WEIGHED, DATASETS, range(2), PLAIN):
        base = dict(trainer=trainer, dataset=dataset, size=20, seed=seed, method=method, part="proxies")
        rows.append(base | dict(weights="equal", loss=1.0))
        rows.append(base | dict(weights="by class", loss=weighted * np.exp(0.001 * rng.normal())))
    return pd.DataFrame(rows)


def test_the_choice_is_measured_by_the_best_of_the_draws():
    found = relative_loss(made_up(0.8))
    assert set(found.best) == {BASELINES[0]}
    assert len(found) == len(TRAINERS) * len(DATASETS) * 5
    assert found.ratio.mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("choice", "better"), [(0.8, "agrees"), (1.0, "cannot tell"), (1.3, "disagrees")])
def test_claims_follow_the_ratio(choice, better):
    run = Run(made_up(choice), {"unseen": ["new", "newer"]}, {}, "laptop")
    verdicts = {
        claim["id"].removeprefix("own-trainer-"): claim["verdict"]
        for claim in judge_all(figure(NAME)["claim"], run, evidence)
    }
    assert verdicts == {"better": better, "unseen": better}


def test_draws_weigh_what_their_class_weighs():
    task = prepare("breast_cancer", 0, n=200, n_test=100)
    assert (len(task.X), len(task.X_test)) == (200, 100)
    for method in ("stratified", "balanced", "kmeans++", "kcenter"):
        indices, weights, _ = baseline(method, task, 40, 0)
        assert len(set(indices)) == 40
        assert np.average(task.y[indices], weights=weights) == pytest.approx(task.y.mean())
    assert task.y[baseline("balanced", task, 40, 0)[0]].sum() == 20


def test_ridge_regression_predicts_a_column_that_it_does_not_see():
    task = prepare("breast_cancer", 0, n=200, n_test=100)
    mine = regression(task, 3)
    np.testing.assert_array_equal(mine.y, task.X[:, 3])
    assert mine.X.shape[1] == task.X.shape[1] - 1
    full = trainers.scores("ridge", mine, np.arange(200), np.ones(200))
    assert full["loss"] < 0.1  # area from radius and the like: next to no error, as a share of the variance
