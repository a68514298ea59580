"""Rows chosen in blocks against rows chosen from one array: loss on new rows, and CPU seconds, also
through dask."""

import statistics
import time

import dask
import dask.array as da
import numpy as np
from _harness import Bench
from handful import VCGMM, BilevelCoreset, LightweightCoreset, Logistic, SVMCoreset, data
from handful.blocks import Blocks
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

L2 = 1e-3
N = 400_000
D = 20
SIZE = 100
ROWS = 20_000
# Tables whose rows are not Gaussian, and the rows of a chunk.
TABLES = (
    "cod_rna",
    "htru2",
    "credit_default",
    "susy_subset",
    "phishing",
    "skin_nonskin",
    "covtype_subset",
    "kdd_bio",
)
CHUNK = 7200


def rows(n, d, rng):
    X = rng.standard_t(5, size=(n, d))
    X /= X.std(axis=0)
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ (0.6 * rng.normal(size=d)) + 1))).astype(int)


def seconds(function):
    begin = time.process_time()
    return function(), time.process_time() - begin


def losses(bench):
    """The loss of a logistic regression of the rows chosen, above that of all rows; CPU over that
    of one array."""
    X, y = rows(N + 50_000, D, np.random.default_rng(0))
    (X, X_new), (y, y_new) = (np.split(a, [N]) for a in (X, y))

    def loss(X, y, weights):
        model = LogisticRegression(C=1 / (L2 * N), max_iter=1000).fit(X, y, sample_weight=weights)
        return log_loss(y_new, model.predict_proba(X_new))

    full = loss(X, y, np.ones(N))
    orders = {
        "as they come": np.arange(N),
        "by a column": np.argsort(X[:, 0]),
        "by class": np.argsort(y, kind="stable"),
    }
    few = BilevelCoreset(Logistic(l2=L2), size=SIZE, weighting="optimised", random_state=0)
    for name, order in orders.items():
        case = f"{N:,} x {D}, {SIZE} rows chosen, rows {name}"
        now = (X[order], y[order])
        direct, alone = seconds(lambda now=now: few.fit(*now).coreset_)
        blocks, taken = seconds(lambda now=now: few.fit(Blocks(*now, rows=ROWS)).coreset_)
        bench.value(
            case, "one array: loss above all rows", loss(*direct.take(*now)) - full, unit="nats"
        )
        bench.value(
            case,
            f"blocks of {ROWS:,} rows: loss above all rows",
            loss(*blocks.take(*now)) - full,
            unit="nats",
        )
        bench.value(case, f"blocks of {ROWS:,} rows: CPU", taken / alone, unit="x one array", bar=2)


def real_tables(bench):
    """Through dask, sorted and not: the loss above that of the choice from one array, and CPU."""
    few = BilevelCoreset(Logistic(l2=L2), size=SIZE, random_state=0)
    for name in TABLES:
        table = data.load(name)
        scale = table.X.std(0)
        X = (table.X - table.X.mean(0))[:, scale > 0] / scale[scale > 0]
        y = (table.y == table.y.max()).astype(int)
        order = np.random.default_rng(0).permutation(len(X))
        train, new = np.split(order, [int(0.7 * len(X))])

        def loss(X_small, y_small, weights, X_new=X[new], y_new=y[new]):
            model = LogisticRegression(C=1 / (L2 * weights.sum()), max_iter=3000)
            model.fit(X_small, y_small, sample_weight=weights)
            return log_loss(y_new, model.predict_proba(X_new))

        local, alone = seconds(lambda X=X[train], y=y[train]: few.fit(X, y).coreset_)
        of_array = loss(*local.take(X[train], y[train]))
        by_column = train[np.lexsort((X[train, 0], y[train]))]
        for how, rows in (("as they come", train), ("sorted", by_column)):
            now = X[rows], y[rows]
            lazy = [da.from_array(a, chunks=(CHUNK, *a.shape[1:])) for a in now]
            with dask.config.set(scheduler="synchronous"):
                found, taken = seconds(lambda lazy=lazy: few.fit(*lazy).coreset_)
            case = f"{name}, {len(train):,} x {X.shape[1]}, chunks of {CHUNK:,} rows {how}"
            above = loss(*found.take(*now)) - of_array
            bench.value(case, "loss above that of one array", above, unit="nats", bar=0.002)
            bench.value(case, "CPU", taken / alone, unit="x one array", bar=2.5)


def through_dask(bench):
    """CPU of dask arrays over that of one array, tasks and scheduler in this process."""
    X, y = rows(1_000_000, D, np.random.default_rng(1))
    lazy = da.from_array(X, chunks=(50_000, D)), da.from_array(y, chunks=50_000)
    selectors = {
        "BilevelCoreset(size=20)": BilevelCoreset(
            Logistic(l2=L2), size=20, weighting="optimised", random_state=0
        ),
        "SVMCoreset(size=20)": SVMCoreset(20, random_state=0),
        "LightweightCoreset(1000)": LightweightCoreset(1000, random_state=0),
        "VCGMM(20, coreset_size=2**14)": VCGMM(
            20, coreset_size=2**14, compute_labels=False, random_state=0
        ),
    }
    with dask.config.set(scheduler="synchronous"):
        for name, selector in selectors.items():
            turns = [
                [seconds(lambda d=d: selector.fit(*d))[1] for d in ((X, y), lazy)] for _ in range(3)
            ]
            alone, dasks = map(statistics.median, zip(*turns))
            bench.value(
                f"1,000,000 x {D}, 20 chunks",
                f"{name} through dask: CPU",
                dasks / alone,
                unit="x",
                bar=2.5,
            )


def main():
    bench = Bench("blocks", "Rows in blocks")
    losses(bench)
    real_tables(bench)
    through_dask(bench)
    bench.write(l2=L2, size=SIZE, rows_in_a_block=ROWS, data="named tables and generated rows")


if __name__ == "__main__":
    main()
