"""Coresets over a dask cluster of two processes: the same answer, speed, memory, and what a thousand times more takes.

``python benchmarks/bench_distributed.py`` writes the table, over one worker and over two; with ``--large`` another, of
20 million x 50 rows (4 GB); with ``--kills`` a third, of workers killed at random moments. Each of the first two also
writes a row a method, and what the numbers carry over to: distributed_methods.md.
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
N_WORKERS, D = 2, 50
SMALL = dict(n=1_000_000, d=D, workers=N_WORKERS, chunk=250_000)
MORE = 4_000_000  # rows of the first table, too: a line through both is carried over
LARGE = dict(n=20_000_000, d=D, workers=N_WORKERS, chunk=250_000)
AT_LARGE = "uniform", "stratified", "lightweight", "merge", "VCGMM"
FAR = dict(n=10**9, d=100, workers=64, chunk=250_000)  # what the line is carried over to
FEW = dict(n=125_000, chunk=15_625)  # rows of which a machine without dask chooses, too
SELECTIONS = ("in fives", 100, 5), ("one by one", 12, 1)  # name, points, batch size
N_PRODUCTS = 5  # before a selection, and after it
KILLS = dict(kills=20, n=12_000, d=D, chunk=1500)
PEAK, SHARE = "worker's peak", "driver and scheduler"
WORK, DRIVER = "work of the workers", "work of driver and scheduler"
SHARED = "Both cores were shared with other people's work: CPU seconds say what a method takes, the clock says less."


def methods(m=20, leaf_size=50_000, log_rows=14):
    """Name, selector, passes over the data, bytes that the driver holds for n rows, d columns and c chunks.

    Methods that read the data for each point choose `m`.
    """
    few = 8 * 4096
    return [
        ("uniform, 1,000", UniformCoreset(1000, random_state=0), 2, lambda n, d, c: 1000 * d * 8),
        ("stratified, 1,000", StratifiedCoreset(1000, random_state=0), 5, lambda n, d, c: 1000 * d * 8),
        ("lightweight, 10,000", LightweightCoreset(10_000, random_state=0), 4, lambda n, d, c: n / 4096 * (d + 2) * 16),
        (f"bilevel, {m}, linear", _bilevel(m, "linear", 1), 2 * m + 2, lambda n, d, c: few * d),
        (f"bilevel, {m}, quadratic", _bilevel(m, "quadratic", 1), 2 * m + 2, lambda n, d, c: few * d),
        (f"bilevel, {m}, in fives", _bilevel(m, "quadratic", 5), 2 * -(-m // 5) + 4, lambda n, d, c: few * d),
        ("SVM, 1,000", SVMCoreset(1000, random_state=0), 5, lambda n, d, c: c * d * 8 * (d + 8)),
        ("logistic sensitivity, 1,000", LogisticSensitivity(1000, random_state=0), 16, lambda n, d, c: few * d),
        ("mixture sensitivity, 1,000", MixtureSensitivity(1000, random_state=0), 16, lambda n, d, c: few * d),
        ("KMeansPlusPlus, 20", KMeansPlusPlus(20, random_state=0), 13, lambda n, d, c: 100 * d * 8),
        (f"k-center, {m}", KCenter(m, random_state=0), m + 2, lambda n, d, c: m * d * 8),
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


def _bilevel(size, rule, batch_size):
    return BilevelCoreset(size=size, rule=rule, random_state=0, strategy=Forward(batch_size, n_start=2))


def write_rows(folder, n, chunk):
    """Float32 features and labels in files of `chunk` rows."""
    direction = np.random.default_rng(0).normal(size=D).astype(np.float32)
    for i in range(0, n, chunk):
        rng = np.random.default_rng([1, i])
        X = rng.standard_normal((min(chunk, n - i), D), dtype=np.float32)
        np.save(folder / f"X{i:09}.npy", X)
        np.save(folder / f"y{i:09}.npy", X @ direction + rng.standard_normal(len(X), dtype=np.float32) > 0)


def from_files(folder, n, chunk):
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


def same(selector, X, y):
    """Whether processes give the digits of one process, and the rows of one machine without dask."""
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
def cluster_with_rows(n, chunk, workers=N_WORKERS, left=None):
    """Worker processes, and files of n rows: the client and the folder.

    The list `left` is given what the workers left on disk when they ended, locks aside.
    """
    options = dict(n_workers=workers, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=None)
    with tempfile.TemporaryDirectory() as folder:
        rows, own = Path(folder, "rows"), Path(folder, "workers")
        rows.mkdir()
        with LocalCluster(**options, local_directory=own) as cluster, Client(cluster) as client:
            write_rows(rows, n, chunk)
            yield client, rows
        if left is not None:
            left += [path for path in own.rglob("*") if path.is_file() and "lock" not in path.name]


def few_rows(folder):
    """Rows to compare on, and to load what is compiled in every worker: dask arrays."""
    folder = folder / "few"
    folder.mkdir()
    write_rows(folder, **FEW)
    return from_files(folder, **FEW)


def main():
    """A million rows over one worker, then as many, and four times as many, over two."""
    bench, one = Bench("distributed", "One and four million rows over worker processes of 2 GB"), {}
    bench.note(SHARED)
    n, chunk = SMALL["n"], SMALL["chunk"]
    with cluster_with_rows(n, chunk, workers=1) as (client, folder):
        few, data = few_rows(folder), from_files(folder, n, chunk)
        for name, selector, *_ in methods():
            one[name] = measured(client, selector, few, data)
    with cluster_with_rows(MORE, chunk) as (client, folder):
        few = few_rows(folder)
        for n_tasks in (100, 1000, 10_000):
            a_task = spent(client, partial(empty_tasks, n_tasks))[1] / n_tasks
            bench.value(f"{n_tasks:,} empty tasks", SHARE, 1e3 * a_task, unit="ms of CPU a task")
        for name, selector, *_ in methods():
            digits, rows = same(selector, *few)
            bench.value(name, "digits of one process", digits, unit="1 = yes", bar=1, direction=">=")
            bench.value(name, "rows of one machine without dask", rows, unit="1 = yes")
            costs(bench, f"{name}; {n:,} rows, one worker", n, one[name])
            for size in (n, MORE):
                cost = measured(client, selector, few, from_files(folder, size, chunk))
                costs(bench, f"{name}; {size:,} rows", size, cost)
            bench.write(parameters=dict(SMALL, limit=LIMIT, more=MORE, rows_compared=FEW))
    write_methods()


def large():
    """Twenty million rows: some methods, and selections against products with vectors."""
    bench, n = Bench("distributed_large", "20 million rows over two worker processes of 2 GB"), LARGE["n"]
    bench.note(SHARED)
    parameters = dict(LARGE, limit=LIMIT, products=2 * N_PRODUCTS)
    done = finished(bench, parameters)
    with cluster_with_rows(n, LARGE["chunk"]) as (client, folder):
        few, data = few_rows(folder), from_files(folder, n, LARGE["chunk"])
        for way, size, batch_size in SELECTIONS:
            case = f"bilevel, {size} points, {way}"
            if case not in done:
                against_products(bench, client, case, size, batch_size, few, data)
                bench.write(parameters=parameters)
        for name, selector, *_ in methods():
            if name.startswith(AT_LARGE) and name not in done:
                costs(bench, name, n, measured(client, selector, few, data))
                bench.write(parameters=parameters)
    write_methods()


def finished(bench, parameters):
    """The cases that a run with the same parameters, stopped since, has written down: they are in the table again."""
    path = RESULTS / f"{bench.name}.json"
    if path.exists() and (kept := json.loads(path.read_text()))["parameters"] == parameters:
        bench.rows += kept["rows"]
    return {row["case"] for row in bench.rows}


def measured(client, selector, few, data):
    """What a choice takes, as `spent`, and the worker's peak in MB, once all that is compiled is loaded."""
    choose(selector, *few)
    peaks(client, reset=True)
    return spent(client, partial(choose, selector, *data)), max(peaks(client))


def costs(bench, case, n, cost):
    """What a choice from n rows took, from `measured`."""
    (work, driver, wall), peak = cost
    bench.value(case, "speed", n / work, unit="rows a CPU second of a worker")
    bench.value(case, PEAK, peak, unit="MB", bar=2000)
    bench.value(case, SHARE, 100 * driver / (work + driver), unit="% of the CPU time")
    bench.value(case, WORK, work / 60, unit="minutes of CPU")
    bench.value(case, DRIVER, driver / 60, unit="minutes of CPU")
    bench.value(case, "time", wall / 60, unit="minutes on the clock of a busy machine")


def against_products(bench, client, case, size, batch_size, few, data):
    """Bilevel selection against two distributed products with a vector for each point.

    A few products are timed before the selection and as many after it.
    """
    selector = BilevelCoreset(size=size, random_state=0, strategy=Forward(batch_size, n_start=2))
    taken = spent(client, partial(products, data[0], N_PRODUCTS))
    ours = measured(client, selector, few, data)
    taken += spent(client, partial(products, data[0], N_PRODUCTS))
    taken *= size / N_PRODUCTS
    unit = f"x {2 * size} products X @ v"
    bench.value(case, "both together", ours[0][:2].sum() / taken[:2].sum(), unit=f"{unit}, CPU time", bar=3)
    bench.value(case, "workers", ours[0][0] / taken[0], unit=f"{unit}, CPU time of the workers")
    bench.value(case, "time", ours[0][2] / taken[2], unit=f"{unit}, on the clock of a busy machine", bar=3)
    costs(bench, case, LARGE["n"], ours)


def kills():
    """What comes of it when a worker is killed at random moments of each method, and what is left on disk."""
    bench = Bench("distributed_kills", f"One of two workers killed at {KILLS['kills']} random moments of each method")
    rng, done = np.random.default_rng(), finished(bench, KILLS)
    for name, selector, *_ in methods(m=8, leaf_size=3000, log_rows=11):
        found, left = [], []
        while name not in done and len(found) < KILLS["kills"]:
            with (
                forked("distributed", "handful.distributed", "handful.bilevel", "handful.clustering"),
                cluster_with_rows(KILLS["n"], KILLS["chunk"], left=left) as (client, folder),
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


def write_methods():
    """A row a method: results/distributed_methods.md, from the tables of both benchmarks."""
    found = {}
    for name in ("distributed", "distributed_large"):
        path = RESULTS / f"{name}.json"
        rows = json.loads(path.read_text())["rows"] if path.exists() else []
        found |= {(row["case"], row["name"]): row["value"] for row in rows}
    lines = [
        f"# What each method takes over chunks of {SMALL['chunk']:,} x {D}",
        "",
        "| method | digits of one process | rows of one machine | a million rows, one worker: rows a CPU second "
        "| two workers | four million, two workers | peak of a worker, MB | driver and scheduler, % of the CPU time |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    far = [
        "",
        f"## Carried over to {FAR['n']:,} x {FAR['d']} float32 on {FAR['workers']} workers",
        "",
        "| method | passes | TB read | minutes of work | minutes of driver and scheduler | driver, MB "
        "| 20 million rows, measured to carried over: work | driver and scheduler |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, _, n_passes, held in methods():
        sizes = [f"{name}; {n:,} rows" for n in (SMALL["n"], MORE)]
        if (sizes[1], SHARE) not in found:
            continue  # not yet measured
        same = [found[name, what] for what in ("digits of one process", "rows of one machine without dask")]
        speeds = [found[case, "speed"] for case in (f"{sizes[0]}, one worker", *sizes)]
        cells = [*("yes" if yes else "no" for yes in same), *(f"{speed:,.0f}" for speed in speeds)]
        cells += [f"{found[sizes[1], PEAK]:,.0f}", f"{found[sizes[1], SHARE]:.0f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        work, driver = (partial(on_the_line, *(found[case, what] for case in sizes)) for what in (WORK, DRIVER))
        few, many = (found[f"{n_tasks} empty tasks", SHARE] for n_tasks in ("100", "10,000"))
        n, d = FAR["n"], FAR["d"]
        cells = [f"{n_passes}", f"{n_passes * n * d * 4 / 1e12:.1f}", f"{work(n) * d / D / FAR['workers']:.1f}"]
        cells += [f"{driver(n) * many / few:.1f}", f"{held(n, d, n / FAR['chunk']) / 1e6:,.0f}"]
        checks = [
            found[name, w] / line(LARGE["n"]) for w, line in ((WORK, work), (DRIVER, driver)) if (name, w) in found
        ]
        checks = [f"{ratio:.2f}" for ratio in checks] or ["", ""]
        far.append(f"| {name} | {' | '.join(cells + checks)} |")
    far += [
        "",
        "All of it is CPU time, from distributed.json and distributed_large.json. A selection of m points takes m / 20 "
        "times what the row of 20 says.",
        "",
    ]
    provenance.write_atomically(RESULTS / "distributed_methods.md", "\n".join(lines + far))


def on_the_line(small, more, n):
    """What n rows take, on the line through what two sizes took: a part for the method, and one for each row."""
    return small + max(more - small, 0) * (n - SMALL["n"]) / (MORE - SMALL["n"])


if __name__ == "__main__":
    large() if "--large" in sys.argv else kills() if "--kills" in sys.argv else main()
