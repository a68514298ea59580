"""What chosen rows gain after the trainer is tuned: boosting and a forest on 200 rows of four
tables.

Defaults are meant for thousands of rows. So a short grid is searched by three folds on the rows of
one stratified draw, and every way to get 200 rows is then tried with the options so found, as well
as with the defaults. Rows to choose from, grids and folds are those of the notebook
`own/any_trainer`. Two of the tables, SUSY and phishing, served for no option of
`AnyEstimatorCoreset`.

The choice is given a third of the trials that it makes by default, so that all this takes some ten
minutes of a core; the random draws that it is compared with are as many. All differences are paired
by seed.

With names of tables as arguments only these are run, and nothing is written: in pieces, with
HANDFUL_BENCH_CACHE naming a folder, and at the end without arguments, which reads what is there.
"""

import os
import sys
import time

import numpy as np
from _harness import Bench
from handful import AnyEstimatorCoreset
from handful.bilevel.candidate_scoring import held_out_loss
from handful_papers.own.any_trainer import GRIDS, N_FOLDS, baseline, best_draw, prepare, tuned
from joblib import Memory
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

TABLES = ("cod_rna", "covtype_subset", "susy_subset", "phishing")
# rows to choose from and to test on, at most
ROWS = 10_000
TEST_ROWS = 5_000
SIZE = 200
SEEDS = range(5)
TRIALS = dict(n_draws=6, n_exchanges=14)
# The three choices of proxies are trained, too.
TRAININGS = 3 + sum(TRIALS.values())
TRAINERS = {
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "forest": RandomForestClassifier(random_state=0),
}
# The ways to get rows, in the order of the table.
ARMS = {
    "one": "a stratified draw, defaults",
    "chosen": "chosen rows, defaults",
    "one, tuned": "a stratified draw, tuned",
    "best, tuned": f"the best of {TRAININGS} draws, tuned",
    "chosen, tuned": "chosen rows, tuned",
    "all": "all rows, defaults",
    "all, tuned": "all rows, the options found on the draw",
}
# What is gained by the first of two, as a ratio of losses.
GAINS = {
    "tuning a stratified draw": ("one, tuned", "one"),
    "choosing, with defaults": ("chosen", "one"),
    "choosing, once tuned": ("chosen, tuned", "one, tuned"),
    f"choosing, once tuned, over the best of {TRAININGS} draws": ("chosen, tuned", "best, tuned"),
    "tuning chosen rows": ("chosen, tuned", "chosen"),
    "all rows with defaults, over chosen and tuned": ("all", "chosen, tuned"),
}


def test_loss(model, task, rows, weights):
    """Log-loss on the test rows, in nats, of the model trained on some rows."""
    fitted = clone(model).fit(task.X[rows], task.y[rows], sample_weight=weights)
    return held_out_loss(fitted, task.X_test, task.y_test)


def chosen(model, task, seed):
    """The choice for a model: (rows, weights)."""
    coreset = AnyEstimatorCoreset(model, size=SIZE, random_state=seed, **TRIALS)
    coreset.fit(task.X, task.y)
    return coreset.indices_, coreset.weights_


@Memory(os.environ.get("HANDFUL_BENCH_CACHE"), verbose=0).cache
def run(trainer, table, seed):
    """The test loss of every arm, CPU seconds of every step, and the options that were found."""
    task = prepare(table, seed, n=ROWS, n_test=TEST_ROWS)
    default = TRAINERS[trainer]
    seconds = {}

    def timed(name, function, *given):
        start = time.process_time()
        found = function(*given)
        seconds[name] = time.process_time() - start
        return found

    rows, weights, _ = baseline("stratified", task, SIZE, seed)
    one = rows, weights
    model, _ = timed("the search", tuned, trainer, task, SIZE, seed, {})
    every_row = np.arange(len(task.y)), np.ones(len(task.y))
    drawn, *_ = timed("the draws, tuned", best_draw, model, task, SIZE, seed, TRAININGS)
    losses = {
        "one": test_loss(default, task, *one),
        "chosen": test_loss(
            default, task, *timed("the choice, defaults", chosen, default, task, seed)
        ),
        "one, tuned": test_loss(model, task, *one),
        "best, tuned": test_loss(model, task, *drawn),
        "chosen, tuned": test_loss(
            model, task, *timed("the choice, tuned", chosen, model, task, seed)
        ),
        "all": timed("training on all rows, defaults", test_loss, default, task, *every_row),
        "all, tuned": timed("training on all rows, tuned", test_loss, model, task, *every_row),
    }
    options = {name: model.get_params()[name] for name in GRIDS[trainer]}
    return losses, seconds, options


def with_error(values):
    """The mean over seeds, and its standard error."""
    return values.mean(), values.std(ddof=1) / len(values) ** 0.5


def main():
    for table in sys.argv[1:]:
        print(table, [run(trainer, table, seed) for trainer in TRAINERS for seed in SEEDS])
    if sys.argv[1:]:
        return
    bench = Bench("tuned_trainer", "Chosen rows for boosting and forests, before and after tuning")
    options = {}
    for trainer in TRAINERS:
        runs = {table: [run(trainer, table, seed) for seed in SEEDS] for table in TABLES}
        options[trainer] = {table: [found[2] for found in runs[table]] for table in TABLES}
        # arm -> losses by table and seed
        losses = {
            arm: np.array([[found[0][arm] for found in runs[table]] for table in TABLES])
            for arm in ARMS
        }
        for i, table in enumerate(TABLES):
            for arm, name in ARMS.items():
                mean, error = with_error(losses[arm][i])
                bench.value(f"{trainer}, {table}", name, mean, unit=f"nats ± {error:.3f}")
            for name, (first, second) in GAINS.items():
                mean, error = with_error(losses[first][i] - losses[second][i])
                bench.value(f"{trainer}, {table}", name, mean, unit=f"nats more ± {error:.3f}")
        for name, (first, second) in GAINS.items():
            logs = np.log(losses[first] / losses[second])
            mean, error = with_error(logs.mean(axis=0))
            ratio = np.exp(mean)
            tables = np.exp(logs.mean(axis=1))
            spread = f"± {ratio * error:.3f}; {tables.min():.2f} to {tables.max():.2f} by table"
            bench.value(f"{trainer}, all tables", name, ratio, unit=f"x the loss {spread}")
        for name in runs[TABLES[0]][0][1]:
            took = np.mean([found[1][name] for table in TABLES for found in runs[table]])
            bench.value(f"{trainer}, all tables", name, took, unit="CPU seconds")
    bench.note(
        f"{SIZE} of at most {ROWS:,} rows; log-loss on up to {TEST_ROWS:,} others. The number "
        f"behind ± is the standard error over {len(SEEDS)} seeds, of differences and ratios paired "
        "by seed; ratios are geometric means over tables."
    )
    bench.note(
        f"The choice trains {TRAININGS} times, {TRIALS['n_draws']} random draws and "
        f"{TRIALS['n_exchanges']} exchanges among them; by default it would be some 65 times. "
        "Seconds of training on all rows are with the prediction of the test rows."
    )
    bench.write(
        runs="one run a seed",
        parameters=dict(
            tables=TABLES,
            rows=ROWS,
            test_rows=TEST_ROWS,
            size=SIZE,
            seeds=list(SEEDS),
            folds=N_FOLDS,
            grids={trainer: GRIDS[trainer] for trainer in TRAINERS},
            trials=TRIALS,
        ),
        options=options,
    )


if __name__ == "__main__":
    main()
