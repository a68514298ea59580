"""Rows chosen in blocks against rows chosen from one array: loss on new rows, and CPU seconds, also
through dask."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import dask
import dask.array as da
import numpy as np
from _harness import Bench, peak_memory
from handful import VCGMM, BilevelCoreset, LightweightCoreset, Logistic, SVMCoreset, data
from handful.bilevel import bilevel_coreset
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


def rows(n, d, rng, slopes=None):
    """Rows of heavy tails and their classes: of one law, whatever the generator, where the slopes
    have a seed of their own."""
    X = rng.standard_t(5, size=(n, d))
    X /= X.std(axis=0)
    of_slopes = rng if slopes is None else np.random.default_rng(slopes)
    z = X @ (0.6 * of_slopes.normal(size=d)) - 1
    return X, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)


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


def fitted(X, y, weights):
    """A logistic regression with the penalty of all benchmarks here, whatever the weights add up
    to."""
    C = 1 / (L2 * weights.sum())
    return LogisticRegression(C=C, max_iter=1000).fit(X, y, sample_weight=weights)


def in_memory(bench):
    """Rows that are compressed before the choice against a choice among all of them: CPU seconds,
    and the loss on new rows above that of all rows."""
    few = BilevelCoreset(Logistic(l2=L2), size=SIZE, random_state=0)
    X_new, y_new = rows(100_000, D, np.random.default_rng(5), slopes=0)
    for n in (100_000, 1_000_000, 10_000_000):
        X, y = rows(n, D, np.random.default_rng(0), slopes=0)
        case = f"{n:,} x {D} in memory, {SIZE} rows chosen"
        full = log_loss(y_new, fitted(X, y, np.ones(n)).predict_proba(X_new))
        ways = {"compressed first": bilevel_coreset.FROM_ROWS}
        # All of the largest table would take minutes.
        if n <= 1_000_000:
            ways["among all rows"] = n + 1
        for way, least in ways.items():
            with mock.patch.object(bilevel_coreset, "FROM_ROWS", least):
                found, taken = seconds(lambda now=(X, y): few.fit(*now).coreset_)
            loss = log_loss(y_new, fitted(*found.take(X, y)).predict_proba(X_new))
            bench.value(case, f"{way}: CPU", taken, unit="s")
            bench.value(case, f"{way}: loss above all rows", loss - full, unit="nats")


def on_disk(bench, n=10_000_000, n_files=50):
    """Ten million rows in files: the choice in a process of its own."""
    case = f"{n:,} x {D} in files, {SIZE} rows chosen"
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n_files):
            X, y = rows(n // n_files, D, np.random.default_rng(i), slopes=0)
            np.save(Path(folder) / f"X{i}.npy", X)
            np.save(Path(folder) / f"y{i}.npy", y)
        out = Path(folder) / "chosen.npz"
        subprocess.run([sys.executable, __file__, folder, str(out)], check=True)
        with np.load(out) as found:
            few = found["X"], found["y"], found["w"]
            bench.value(case, "CPU", float(found["seconds"]), unit="s", bar=150)
            bench.value(case, "peak memory", float(found["peak"]), unit="MiB", bar=1024)
    X_new, y_new = rows(100_000, D, np.random.default_rng(n_files), slopes=0)
    X, y = rows(1_000_000, D, np.random.default_rng(n_files + 1), slopes=0)
    of_many = log_loss(y_new, fitted(X, y, np.ones(len(y))).predict_proba(X_new))
    loss = log_loss(y_new, fitted(*few).predict_proba(X_new))
    bench.value(case, "loss above that of a million other rows", loss - of_many, unit="nats")


def choose(folder, out):
    """What `on_disk` runs in a process of its own."""
    few = BilevelCoreset(Logistic(l2=L2), size=SIZE, random_state=0)
    files = f"{folder}/X*.npy", f"{folder}/y*.npy"
    (X, y, w), taken = seconds(lambda: few.fit(*files).coreset_.take(*files))
    peak = peak_memory()
    np.savez(out, X=X, y=y, w=w, seconds=taken, peak=peak)


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
    in_memory(bench)
    on_disk(bench)
    bench.write(l2=L2, size=SIZE, rows_in_a_block=ROWS, data="named tables and generated rows")


if __name__ == "__main__":
    if sys.argv[1:]:
        choose(*sys.argv[1:])
    else:
        main()
