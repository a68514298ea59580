"""What the trainings behind `AnyEstimatorCoreset` buy without a choice: the best of as many draws, or more rows."""

import time

import numpy as np
from handful.bilevel.trials import held_out_loss
from handful.checks import MAX_SEED
from sklearn.utils.validation import has_fit_parameter

from handful_papers.own.any_trainer import TRAINERS, baseline, prepare, regression, scores

N_HELD_OUT = 4000  # rows that judge, at most, and at most a third of all: its defaults
CONTROLS = ["best of draws", "more uniform rows", "full"]


def control_rows(dataset, size, seed, *, n_trainings, trainers, targets, n, n_test):
    """Every trainer on the best of as many draws, on uniform rows for as many seconds, and on all rows.

    Parameters
    ----------
    dataset, seed, n, n_test : as in `handful_papers.own.any_trainer.prepare`
    size : int, points m
    n_trainings : int, draws that are tried; `AnyEstimatorCoreset` trains about 65 times by default
    trainers, targets : as in `handful_papers.own.any_trainer.size_rows`

    Returns
    -------
    list of dict with trainer, method (of `CONTROLS`), rows (that it is trained on), seconds and the columns of `scores`
    """
    rows = []
    task = prepare(dataset, seed, n=n, n_test=n_test)
    for trainer in trainers:
        mine = regression(task, targets.get(dataset)) if trainer == "ridge" else task
        n_rows = len(mine.y)
        (indices, weights), seconds, one = best_draw(trainer, mine, size, seed, n_trainings)
        found = [("best of draws", indices, weights, seconds)]
        start = time.perf_counter()
        trained(trainer, mine, np.arange(n_rows), np.ones(n_rows))
        whole = time.perf_counter() - start
        more = n_rows if whole <= seconds else int(size + (seconds - one) / (whole - one) * (n_rows - size))
        drawn = np.random.default_rng(seed).choice(n_rows, more, replace=False)
        found += [("more uniform rows", drawn, np.full(more, n_rows / more), min(whole, seconds))]
        found += [("full", np.arange(n_rows), np.ones(n_rows), whole)]
        rows += [
            dict(trainer=trainer, method=method, rows=len(at), seconds=took) | scores(trainer, mine, at, given)
            for method, at, given, took in found
        ]
    return rows


def best_draw(trainer, task, size, seed, n_draws):
    """The best of `n_draws` draws, stratified where there are classes, by the loss on rows held out.

    Returns
    -------
    (indices, weights) of the draw; the seconds of all trainings, and of one
    """
    start, rng = time.perf_counter(), np.random.default_rng(seed)
    order, regresses = rng.permutation(len(task.y)), trainer == "ridge"
    n_held = min(N_HELD_OUT, len(order) // 3)
    held, rest = order[:n_held], order[n_held:]
    pool, least = type(task)(task.X[rest], task.y[rest], None, None), np.inf
    for draw_seed in rng.integers(MAX_SEED, size=n_draws).tolist():
        indices, weights, _ = baseline("stratified", pool, size, draw_seed, regresses=regresses)
        loss = held_out_loss(trained(trainer, pool, indices, weights), task.X[held], task.y[held])
        if loss < least:
            best, least = (rest[indices], weights * (len(order) / len(rest))), loss
    seconds = time.perf_counter() - start
    return best, seconds, seconds / n_draws


def trained(trainer, task, indices, weights):
    """A trainer fitted to some rows, with weights where it takes them."""
    model = TRAINERS[trainer][1]()
    given = {"sample_weight": weights} if has_fit_parameter(model, "sample_weight") else {}
    return model.fit(task.X[indices], task.y[indices], **given)
