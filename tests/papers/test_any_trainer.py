"""Points for any trainer: what the notebook compares, and how its claims are judged."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from handful_papers.claims import Run, judge_all
from handful_papers.experiment import figure
from handful_papers.own.any_trainer import (
    BASELINES,
    CHOICE,
    PLAIN,
    TRAINERS,
    WEIGHED,
    baseline,
    evidence,
    prepare,
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
