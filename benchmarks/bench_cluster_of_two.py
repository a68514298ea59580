"""VCGMM on a dask cluster of two workers with a gibibyte of memory each: the local result, a killed
worker, the client.

`python bench_cluster_of_two.py [FOLDER]`: files rows0.npy, rows1.npy, ... that are in FOLDER
already are used.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from _harness import Bench
from handful import VCGMM
from handful.blocks import Blocks
from handful.clustering import quantization_error
from handful.sensitivity.lightweight import lightweight_blocks
from handful_papers.own.beyond_memory import FILE_ROWS, peak_megabytes, write_rows

N_FILES = 12
FEW_FILES = 4
C = 1000
DRAWS = 64_000
TERABYTE = 1e12
MACHINES = 100


def model(seed):
    return VCGMM(
        C, coreset_size=DRAWS, assignment="hardened", compute_labels=False, random_state=seed
    )


def loaded(path, seen):
    """A file's rows; which process reads it is noted first."""
    (Path(seen) / f"{os.getpid()}-{time.monotonic_ns()}").touch()
    return np.load(path)


def kill_one(seen, n):
    """Kill the worker that reads the n-th file."""
    while (
        len(found := sorted(Path(seen).iterdir(), key=lambda path: int(path.name.split("-")[1])))
        < n
    ):
        time.sleep(0.01)
    os.kill(int(found[-1].name.split("-")[0]), signal.SIGKILL)


def client(out, kill, *paths):
    """One fit through the cluster: centres to a file; seconds and peaks of this process and of the
    workers."""
    import dask
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    # compiles
    model(0).set_params(n_clusters=8, coreset_size=500).fit(
        np.load(paths[0], mmap_mode="r")[:1000].copy()
    )
    options = dict(n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=None)
    patient = {f"distributed.comm.timeouts.{name}": "600s" for name in ("connect", "tcp")}
    with (
        tempfile.TemporaryDirectory() as seen,
        dask.config.set(patient),
        LocalCluster(**options) as cluster,
        Client(cluster) as here,
    ):
        start = here.run(held)
        imports = peak_megabytes()
        rows = [dask.delayed(loaded, pure=False)(path, seen) for path in paths]
        lazy = da.concatenate([da.from_delayed(part, (FILE_ROWS, 64), np.float32) for part in rows])
        if kill == "kill":
            threading.Thread(target=kill_one, args=(seen, 5)).start()
        else:
            # compiles in the workers
            lightweight_blocks(Blocks(lazy), 100, rng=np.random.default_rng(0))
        begin = time.perf_counter()
        lightweight_blocks(Blocks(lazy), DRAWS, rng=np.random.default_rng(0))
        passes = time.perf_counter() - begin
        fitted = model(0).fit(lazy)
        workers = here.run(held)
    np.save(out, fitted.cluster_centers_)
    found = dict(
        passes=passes,
        peak=peak_megabytes(),
        imports=imports,
        workers=max(peak for _, peak in workers.values()),
    )
    found |= dict(worker_start=max(peak for _, peak in start.values()))
    before, after = ({process for process, _ in some.values()} for some in (start, workers))
    print(json.dumps(found | dict(lost=len(before - after))))


def held():
    """The number of this process, and the most megabytes that it held."""
    return os.getpid(), peak_megabytes()


def through_dask(home, name, paths, kill="no"):
    out = home / f"{name}.npy"
    run = [sys.executable, __file__, "client", out, kill, *paths]
    done = subprocess.run([str(part) for part in run], check=True, capture_output=True, text=True)
    return np.load(out), json.loads(done.stdout.splitlines()[-1])


def main():
    bench = Bench("cluster_of_two", "VCGMM on a dask cluster of two workers with 1 GiB each")
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else home
        if not (folder / f"rows{N_FILES - 1}.npy").exists():
            write_rows(folder, "mixture", N_FILES * FILE_ROWS, seed=0)
        paths = [folder / f"rows{i}.npy" for i in range(N_FILES)]
        rows = (
            Blocks(paths)
            .take(np.random.default_rng(1).choice(N_FILES * FILE_ROWS, 50_000, replace=False))
            .X
        )
        local = [
            quantization_error(rows, model(seed).fit(Blocks(paths)).cluster_centers_)
            for seed in range(3)
        ]
        begin = time.process_time()
        lightweight_blocks(Blocks(paths), DRAWS, rng=np.random.default_rng(0))
        local_passes = time.process_time() - begin
        few = through_dask(home, "few", paths[:FEW_FILES])[1]
        centers, all_files = through_dask(home, "all", paths)
        centers_killed, killed = through_dask(home, "killed", paths, "kill")
    gigabytes = N_FILES * FILE_ROWS * 256 / 1e9
    case = f"{N_FILES * FILE_ROWS:,} x 64 float32 ({gigabytes:.2f} GB), C = {C:,}, {DRAWS:,} draws"
    ratio = quantization_error(rows, centers) / local[0]
    bench.value(case, "error", ratio, unit="x the local fit's, same seed")
    bench.value(
        case,
        "error of the local fit, other seeds",
        max(local[1:]) / local[0],
        unit="x",
        bar=ratio,
        direction=">=",
    )
    again = quantization_error(rows, centers_killed) / local[0]
    bench.value(
        case, "error, a worker killed at the fifth file", again, unit="x the local fit's", bar=ratio
    )
    bench.value(case, "workers lost by that", killed["lost"], bar=1, direction=">=")
    bench.value(case, "worker: peak resident memory", all_files["workers"], unit="MiB", bar=1024)
    bench.value(case, "worker: of this, before the fit", all_files["worker_start"], unit="MiB")
    bench.value(case, "client: peak resident memory", all_files["peak"], unit="MiB")
    bench.value(
        f"{FEW_FILES * FILE_ROWS:,} rows", "client: peak resident memory", few["peak"], unit="MiB"
    )
    bench.value(
        case,
        "client: peak over that of a third of the rows",
        all_files["peak"] / few["peak"],
        unit="x",
        bar=1.05,
    )
    bench.value(case, "two passes, one process", local_passes, unit="s of CPU")
    bench.value(case, "two passes, two workers", all_files["passes"], unit="s of wall")
    # of a core, both passes together
    rate = gigabytes / local_passes
    hours = TERABYTE / 1e9 / rate / MACHINES / 3600
    bench.value(
        "1 TB (3,900,000,000 rows) on 100 machines",
        "computed: passes on one core each",
        60 * hours,
        unit="minutes",
    )
    bench.note(
        "The last line is a computation, not a measurement: a terabyte over the gigabytes that a "
        "core went through in "
        "a second of CPU here (both passes, files in the system's cache) and over 100. Slower "
        "disks, the network and "
        f"dask's own work are left out. The fit of the {DRAWS:,} draws on the client comes on top, "
        "and does not grow "
        "with the rows."
    )
    bench.note(
        f"Load average at the end, of {os.cpu_count()} cores: {os.getloadavg()[0]:.1f}; wall "
        "seconds suffer from it."
    )
    bench.write(
        runs="one run of each", data="handful_papers.own.beyond_memory.write_rows('mixture')"
    )


if __name__ == "__main__":
    client(*sys.argv[2:]) if sys.argv[1:2] == ["client"] else main()
