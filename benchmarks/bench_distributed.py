"""Coresets over a dask cluster of two processes: the same answer, speed, memory, and what a thousand times more takes.

``python benchmarks/bench_distributed.py`` writes the table; with ``--large`` another, of 20 million x 50 rows (4 GB);
with ``--kills`` a third, of workers killed at random moments.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from _harness import RESULTS, Bench
from dask.distributed import Client, LocalCluster
from distributed.core import Status
from distributed.utils import get_mp_context
from handful import (
    VCGMM,
    BilevelCoreset,
    KCenter,
    KMeansPlusPlus,
    LightweightCoreset,
    LogisticSensitivity,
    MergeReduce,
    StratifiedCoreset,
    SVMCoreset,
    UniformCoreset,
)
from handful.bilevel import Forward
from handful.distributed import ChunkError
from handful.sensitivity import MixtureSensitivity
from handful_papers import provenance

LIMIT = "2GB"  # of a worker
N_WORKERS, D, CHUNK = 2, 50, 62_500
N, N_ALONE = 250_000, 125_000
FAR = dict(n=10**9, d=100, workers=64, chunk=250_000)  # what the constants are carried over to
LARGE = dict(n=20_000_000, d=D, workers=N_WORKERS, chunk=250_000)
SELECTIONS = ("bilevel, 20, in fives", 100, "in fives", 5), ("bilevel, 20, quadratic", 12, "one by one", 1)
AT_LARGE = "uniform", "lightweight", "merge", "VCGMM"
N_PRODUCTS, GOAL = 5, 100  # at that size: products before a selection, and after it; the points that the bar is for
KILLS = dict(kills=20, n=12_000, d=D, chunk=1500)


def methods(leaf_size=50_000, log_rows=14):
    """Name, selector, passes over the data, bytes that the driver holds for n rows, d columns and c chunks."""
    few = 8 * 4096
    return [
        ("uniform, 1,000", UniformCoreset(1000, random_state=0), 3, lambda n, d, c: 1000 * d * 8),
        ("stratified, 1,000", StratifiedCoreset(1000, random_state=0), 5, lambda n, d, c: 1000 * d * 8),
        ("lightweight, 10,000", LightweightCoreset(10_000, random_state=0), 4, lambda n, d, c: n / 4096 * (d + 2) * 16),
        ("bilevel, 20, linear", _bilevel("linear", 1), 42, lambda n, d, c: few * d),
        ("bilevel, 20, quadratic", _bilevel("quadratic", 1), 42, lambda n, d, c: few * d),
        ("bilevel, 20, in fives", _bilevel("quadratic", 5), 12, lambda n, d, c: few * d),
        ("SVM, 1,000", SVMCoreset(1000, random_state=0), 5, lambda n, d, c: c * d * 8 * (d + 8)),
        ("logistic sensitivity, 1,000", LogisticSensitivity(1000, random_state=0), 16, lambda n, d, c: few * d),
        ("mixture sensitivity, 1,000", MixtureSensitivity(1000, random_state=0), 16, lambda n, d, c: few * d),
        ("k-means||, 20", KMeansPlusPlus(20, random_state=0), 13, lambda n, d, c: 100 * d * 8),
        ("k-center, 20", KCenter(20, random_state=0), 22, lambda n, d, c: 20 * d * 8),
        (
            "merge and reduce, uniform, 1,000",
            MergeReduce(UniformCoreset(), size=1000, leaf_size=leaf_size, random_state=0),
            2,
            lambda n, d, c: 60_000 * d * 8,
        ),
        (
            f"VCGMM, 100 clusters, 2^{log_rows} rows",
            VCGMM(100, coreset_size=1 << log_rows, compute_labels=False, random_state=0),
            4,
            lambda n, d, c: n / 4096 * (d + 2) * 16,
        ),
    ]


def _bilevel(rule, batch_size):
    return BilevelCoreset(size=20, rule=rule, random_state=0, strategy=Forward(batch_size, n_start=2))


def write_rows(folder, n, chunk):
    """Float32 features and labels in files of `chunk` rows."""
    direction = np.random.default_rng(0).normal(size=D).astype(np.float32)
    for i in range(0, n, chunk):
        rng = np.random.default_rng([1, i])
        X = rng.standard_normal((min(chunk, n - i), D), dtype=np.float32)
        np.save(folder / f"X{i:09}.npy", X)
        np.save(folder / f"y{i:09}.npy", X @ direction + rng.standard_normal(len(X), dtype=np.float32) > 0)


def from_files(folder, n, chunk=CHUNK):
    """The first n rows of the files as dask arrays, which read a file in each task that needs it."""
    out = []
    for name, shape, dtype in (("X", (D,), np.float32), ("y", (), bool)):
        parts = [dask.delayed(np.load)(folder / f"{name}{i:09}.npy") for i in range(0, n, chunk)]
        out.append(da.concatenate([da.from_delayed(part, (chunk, *shape), dtype) for part in parts]))
    return out


def peaks(client, *, reset=False):
    """Peak resident memory of each worker in MB, since the last reset."""
    return list(client.run(_peak, reset).values())


def _peak(reset):
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    if reset:
        Path("/proc/self/clear_refs").write_text("5")  # Linux begins the peak anew
    return peak


def choose(selector, X, y):
    """Fit, and what was chosen."""
    fit = selector.fit(X, y)
    return (fit.cluster_centers_,) if isinstance(fit, VCGMM) else (fit.indices_, fit.weights_)


def same(selector, folder):
    """Whether processes give the digits of one process, and the rows of one machine without dask."""
    X, y = from_files(folder, N_ALONE)
    there = choose(selector, X, y)
    with dask.config.set(scheduler="sync"):
        here = choose(selector, X, y)
    digits = all(np.array_equal(a, b) for a, b in zip(here, there))
    alone = choose(selector, *(values.compute() for values in (X, y)))
    return digits, alone[0].shape == there[0].shape and np.array_equal(alone[0], there[0])


def spent(client, function):
    """CPU seconds of the workers and of this process, which holds driver and scheduler, and wall seconds; an array.

    Other people's work on the machine slows the wall clock, but not these.
    """

    def now():
        return np.array([sum(client.run(time.process_time).values()), time.process_time(), time.perf_counter()])

    start = now()
    function()
    return now() - start


def products(X, n_products):
    """As many distributed products X @ v, one after the other."""
    rng = np.random.default_rng(0)
    for _ in range(n_products):
        float((X @ rng.normal(size=D).astype(np.float32)).sum().compute())


def empty_tasks(n_tasks):
    """Tasks that do nothing, all at once: the scheduler's part."""
    dask.compute(*[dask.delayed(_nothing, pure=False)(i) for i in range(n_tasks)])


def _nothing(i):
    return i


@contextmanager
def cluster_with_rows(n, chunk=CHUNK, left=None):
    """Two worker processes, and files of n rows: the client and the folder.

    The list `left` is given what the workers left on disk when they ended, locks aside.
    """
    options = dict(n_workers=N_WORKERS, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=None)
    with tempfile.TemporaryDirectory() as folder:
        rows, workers = Path(folder, "rows"), Path(folder, "workers")
        rows.mkdir()
        with LocalCluster(**options, local_directory=workers) as cluster, Client(cluster) as client:
            write_rows(rows, n, chunk)
            yield client, rows
        if left is not None:
            left += [path for path in workers.rglob("*") if path.is_file() and "lock" not in path.name]


def main():
    bench, far = Bench("distributed", "Coresets over two worker processes of 2 GB"), []
    with cluster_with_rows(N) as (client, folder):
        for n in (100, 1000, 10_000):
            a_task = spent(client, partial(empty_tasks, n))[1] / n
            bench.value(f"{n:,} empty tasks", "driver and scheduler", 1e3 * a_task, unit="ms of CPU a task")
        X, y = from_files(folder, N)
        for name, selector, n_passes, held in methods():
            digits, rows = same(selector, folder)  # and loads what is compiled
            peaks(client, reset=True)
            work, driver, wall = spent(client, partial(choose, selector, X, y))
            case = f"{name}; {N:,} x {D}"
            bench.value(case, "digits of one process", digits, unit="1 = yes", bar=1, direction=">=")
            bench.value(case, "rows of one machine without dask", rows, unit="1 = yes")
            bench.value(case, "speed", N / work, unit="rows a CPU second of a worker")
            bench.value(case, "time", wall, unit="s on the clock of a busy machine")
            bench.value(case, "worker's peak", max(peaks(client)), unit="MB", bar=2000)
            bench.value(case, "driver and scheduler", 100 * driver / (work + driver), unit="% of the CPU time")
            far.append(carried_over(name, n_passes, work, held, a_task))
        rounds(bench, client, X, y, 20, {"one by one": 1, "in fives": 5})
    bench.write(far=far, parameters=dict(n=N, d=D, chunk=CHUNK, workers=N_WORKERS, limit=LIMIT, carried_to=FAR))
    write_far(far)


def large():
    """Twenty million rows: selections, a few other methods, and how far off it is what the small table carries over."""
    bench = Bench("distributed_large", "20 million rows over two worker processes of 2 GB")
    carried = {row["method"]: row for row in json.loads((RESULTS / "distributed.json").read_text())["far"]}
    parameters, n = dict(LARGE, limit=LIMIT, products=2 * N_PRODUCTS), LARGE["n"]
    done = finished(bench, parameters)
    with cluster_with_rows(n, LARGE["chunk"]) as (client, folder):
        X, y = from_files(folder, n, LARGE["chunk"])
        for name, size, way, batch_size in SELECTIONS:
            if f"{n:,} x {D}, {size} points, {way}" not in done:
                rounds(bench, client, X, y, size, {way: batch_size}, N_PRODUCTS, carried[name])
                bench.write(parameters=parameters)
        for name, selector, *_ in methods():
            case = f"{name}; {n:,} x {D}"
            if name.startswith(AT_LARGE) and case not in done:
                choose(selector, X[: 2 * LARGE["chunk"]], y[: 2 * LARGE["chunk"]])  # loads what is compiled
                peaks(client, reset=True)
                measured = spent(client, partial(choose, selector, X, y))
                against(bench, client, case, measured, carried[name], 1)
                bench.write(parameters=parameters)


def finished(bench, parameters):
    """The cases that a run with the same parameters, stopped since, has written down: they are in the table again."""
    path = RESULTS / f"{bench.name}.json"
    if path.exists() and (kept := json.loads(path.read_text()))["parameters"] == parameters:
        bench.rows += kept["rows"]
    return {row["case"] for row in bench.rows}


def against(bench, client, case, measured, far, more):
    """What a method took of the large table beside what the small one's constants give, for `more` times its points."""
    work, driver, wall = measured
    rows = LARGE["n"] * LARGE["d"] / LARGE["workers"] / (FAR["n"] * FAR["d"] / FAR["workers"])
    tasks = LARGE["n"] / LARGE["chunk"] / (FAR["n"] / FAR["chunk"])
    for name, minutes, predicted in (
        ("work of a worker", work / 60 / LARGE["workers"], more * rows * far["minutes_of_work"]),
        ("driver and scheduler", driver / 60, more * tasks * far["minutes_of_scheduler"]),
    ):
        bench.value(case, name, minutes, unit="minutes of CPU")
        bench.value(case, f"{name}, to what was carried over", minutes / predicted, unit="x")
    bench.value(case, "time", wall / 60, unit="minutes on the clock of a busy machine")
    bench.value(case, "worker's peak", max(peaks(client)), unit="MB", bar=2000)


def rounds(bench, client, X, y, size, ways, n_products=None, far=None):
    """Bilevel selection against two distributed products with a vector for each point.

    Parameters
    ----------
    ways : dict, name -> batch size
    n_products : int, products before the selection, and as many after it; None for all, half of them before
    far : what was carried over of 20 points, to compare with
    """
    n_products = n_products or size // 2
    few = 2 * X.chunks[0][0]
    choose(_bilevel("quadratic", 1), X[:few], y[:few])
    for name, batch_size in ways.items():
        selector = BilevelCoreset(size=size, random_state=0, strategy=Forward(batch_size, n_start=2))
        taken = spent(client, partial(products, X, n_products))
        peaks(client, reset=True)
        ours = spent(client, partial(choose, selector, X, y))
        taken += spent(client, partial(products, X, n_products))
        taken *= size / n_products
        case, unit = f"{len(X):,} x {D}, {size} points", f"x {2 * size} products X @ v"
        bench.value(case, f"bilevel, {name}", ours[:2].sum() / taken[:2].sum(), unit=f"{unit}, CPU time", bar=3)
        bench.value(case, f"bilevel, {name}", ours[2] / taken[2], unit=f"{unit}, on the clock", bar=3)
        if far:
            if size < GOAL:  # two points are drawn, and each further one takes its rounds
                ratio = ours[:2].sum() * (GOAL - 2) / (size - 2) / (taken[:2].sum() * GOAL / size)
                bench.value(case, f"bilevel, {name}, carried to {GOAL}", ratio, unit=f"x {2 * GOAL} products", bar=3)
            against(bench, client, f"{case}, {name}", ours, far, size / 20)


def kills():
    """What comes of it when a worker is killed at random moments of each method, and what is left on disk."""
    bench = Bench("distributed_kills", f"One of two workers killed at {KILLS['kills']} random moments of each method")
    rng, done = np.random.default_rng(), finished(bench, KILLS)
    for name, selector, *_ in methods(leaf_size=3000, log_rows=11):
        found, left = [], []
        while name not in done and len(found) < KILLS["kills"]:
            with (
                forked("distributed", "handful.distributed", "handful.bilevel", "handful.clustering"),
                cluster_with_rows(KILLS["n"], KILLS["chunk"], left) as (client, folder),
            ):
                X, y = from_files(folder, KILLS["n"], KILLS["chunk"])
                with dask.config.set(scheduler="sync"):
                    alone = choose(selector, X, y)
                found += killed(client, partial(choose, selector, X, y), alone, rng, KILLS["kills"] - len(found))
        if found:
            digits, named = found.count("digits"), found.count("chunk named")
            bench.value(name, "digits of one process", digits, unit="kills")
            bench.value(name, "error that names the chunk", named, unit="kills")
            bench.value(name, "anything else", len(found) - digits - named, unit="kills", bar=0)
            bench.value(name, "left on disk by the workers", len(left), unit="files", bar=0)
            bench.write(parameters=KILLS)


@contextmanager
def forked(*modules):
    """Worker processes fork from one that has imported some modules, so that a killed one is soon replaced."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(list(modules))
        yield


def killed(client, function, alone, rng, n_kills):
    """Outcomes of a function that gives arrays, one for each kill that came while it ran.

    They are fewer than `n_kills` where dask has not replaced a worker within half a minute.
    """
    usual, found = min(spent(client, function)[2] for _ in range(2)), []
    while len(found) < n_kills and (pids := workers_at_work(client)):
        kill = threading.Timer(rng.uniform(0, usual), os.kill, (int(rng.choice(pids)), signal.SIGKILL))
        kill.start()
        try:
            same = all(np.array_equal(a, b) for a, b in zip(function(), alone))
            outcome = "digits" if same else "other digits"
        except Exception as error:  # every kind is counted; those without a chunk fail the bar
            named = isinstance(error, ChunkError) and "chunk " in str(error)
            outcome = "chunk named" if named else repr(error)
        if not kill.is_alive():
            found.append(outcome)
            if outcome not in ("digits", "chunk named"):
                print(outcome, flush=True)
        kill.cancel()
        kill.join()
    return found


def workers_at_work(client):
    """The processes of all workers, once those that died have been replaced; None if that takes too long."""
    for _ in range(300):
        processes = [nanny.process for nanny in client.cluster.workers.values()]
        pids = [process.pid for process in processes if process and process.status == Status.running]
        if None not in pids and len(pids) == len(client.cluster.scheduler.workers) == N_WORKERS:
            return pids
        time.sleep(0.1)
    return None


def carried_over(name, n_passes, seconds, held, seconds_a_task):
    """What a method would take on the large cluster: work in proportion to rows x columns, spread over the workers."""
    n, d, workers, chunk = FAR["n"], FAR["d"], FAR["workers"], FAR["chunk"]
    work = seconds * (n * d) / (N * D) / workers
    dispatch = n_passes * 2 * (n / chunk) * seconds_a_task
    return dict(
        method=name,
        passes=n_passes,
        terabytes=n_passes * n * d * 4 / 1e12,
        minutes_of_work=work / 60,
        minutes_of_scheduler=dispatch / 60,
        driver_megabytes=held(n, d, n / chunk) / 1e6,
    )


def write_far(far):
    """The table of the documentation: results/distributed_far.md."""
    lines = [
        f"# {FAR['n']:,} x {FAR['d']} float32 on {FAR['workers']} workers, carried over from two",
        "",
        "| method | passes | TB read | minutes of work | minutes of scheduler | driver, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in far:
        lines.append(
            f"| {row['method']} | {row['passes']} | {row['terabytes']:.1f} | {row['minutes_of_work']:.1f} | "
            f"{row['minutes_of_scheduler']:.1f} | {row['driver_megabytes']:,.0f} |"
        )
    lines += [
        "",
        "Computed by bench_distributed.py from the constants in distributed.json, in CPU time. A selection of m points "
        "takes m / 20 times what the row of 20 says.",
        "",
    ]
    provenance.write_atomically(RESULTS / "distributed_far.md", "\n".join(lines))


if __name__ == "__main__":
    large() if "--large" in sys.argv else kills() if "--kills" in sys.argv else main()
