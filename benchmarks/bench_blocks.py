"""Rows chosen in blocks against rows chosen from one array: loss on new rows, and CPU seconds, also
through dask."""

import statistics
import time

import dask
import dask.array as da
import numpy as np
from _harness import Bench
from handful import VCGMM, BilevelCoreset, LightweightCoreset, Logistic, SVMCoreset
from handful.blocks import Blocks
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

L2 = 1e-3
N = 400_000
D = 20
SIZE = 100
ROWS = 20_000


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
    through_dask(bench)
    bench.write(l2=L2, size=SIZE, rows_in_a_block=ROWS, data="generated")


if __name__ == "__main__":
    main()
