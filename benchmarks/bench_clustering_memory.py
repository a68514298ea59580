"""Clustering beyond memory and beyond one thread: peaks, throughput, compilation, the second
thread."""

import os
import tempfile
from pathlib import Path

from _clustering_parts import part, rows_file
from _harness import Bench


def compilation(bench, folder):
    cache = dict(NUMBA_CACHE_DIR=str(folder / "cache"))
    cold, cached = (part("first_call", **cache)["first"] for _ in range(2))
    bench.value("VCGMM", "first call, CPU time", cold, unit="s", bar=10)
    bench.value("VCGMM", "first call of the next process, CPU time", cached, unit="s")


def beyond_memory(bench, folder):
    path = folder / "rows.npy"
    rows_file(path)
    found = part("out_of_core", path)
    case = "20,000,000 x 16 float32 from a file, C = 1,000, N' = 2^16"
    bench.value(
        case,
        "private memory at the peak (limit enforced)",
        found["megabytes"],
        unit="MiB",
        bar=1024,
    )
    first, warm = (found["gigabytes"] / found[f"{name}_seconds"] for name in ("first", "warm"))
    bench.value(case, "lightweight coreset, file mapped anew", first, unit="GB/s a core")
    bench.value(case, "lightweight coreset, warm", warm, unit="GB/s a core", bar=2, direction=">=")
    bench.value(case, "coreset and fit, CPU time", found["fit_seconds"], unit="s")
    lazy = part("dask_run", path)
    bench.value(case, "dask: private memory at the peak", lazy["megabytes"], unit="MiB", bar=1024)
    bench.value(case, "dask: coreset, wall time", lazy["coreset_seconds"], unit="s")
    bench.value(case, "dask: error", lazy["error"] / found["error"], unit="x from the file")


def second_thread(bench):
    wall = part("threads", NUMBA_NUM_THREADS="2")
    case = "EM, 65,536 x 90, C = 2,000, second thread"
    bench.value(
        case, "two threads", wall["one"] / wall["two"], unit="x one, wall", bar=1.7, direction=">="
    )
    busy = wall["one, busy"] / wall["two, busy"]
    bench.value(case, "two, beside a busy core", busy, unit="x one, wall", bar=1.0, direction=">=")


def main():
    bench = Bench("clustering_memory", "Clustering: memory, throughput, compilation, threads")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        compilation(bench, Path(folder))
        beyond_memory(bench, Path(folder))
    second_thread(bench)
    note = (
        f"Load averages before and after, of {os.cpu_count()} cores: {load:.1f} and "
        f"{os.getloadavg()[0]:.1f}."
    )
    bench.write(note=note)


if __name__ == "__main__":
    main()
