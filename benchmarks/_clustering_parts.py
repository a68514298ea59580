"""Parts of the clustering benchmark that need a process of their own: `python _clustering_parts.py
PART [FILE]`.

Each prints its numbers as one line of JSON.
"""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

GIBIBYTE = 1 << 30
# rows of a task
CHUNK = 1 << 19


def part(name, *arguments, **environment):
    """Run a part in a fresh process with further environment variables; gives its numbers."""
    run = [sys.executable, __file__, name, *map(str, arguments)]
    done = subprocess.run(
        run, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


class PeakMemory:
    """Largest private memory of this process in a block, in MiB: the file's pages in the system's
    cache left out."""

    def __enter__(self):
        self.megabytes = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while not self._over.wait(0.005):
            lines = Path("/proc/self/status").read_text().splitlines()
            held = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
            self.megabytes = max(self.megabytes, held / 1024)

    def __exit__(self, *exception):
        self._over.set()
        self._thread.join()


def rows_file(path, n=20_000_000, d=16, k=2000, chunk=1 << 20):
    """Write float32 rows of a mixture to a .npy file, chunk by chunk."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(k, d)).astype(np.float32) * 4
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    for start in range(0, n, chunk):
        stop = min(start + chunk, n)
        out[start:stop] = means[rng.integers(k, size=stop - start)]
        out[start:stop] += rng.standard_normal((stop - start, d), dtype=np.float32)
    out.flush()


def out_of_core(path):
    """Coreset and fit from a file, private memory limited to 1 GiB by the system."""
    resource.setrlimit(resource.RLIMIT_DATA, (GIBIBYTE, GIBIBYTE))
    from handful.blocks import Blocks
    from handful.clustering.vcgmm import VCGMM
    from handful.sensitivity.lightweight import lightweight_coreset

    X = np.load(path, mmap_mode="r")
    few = np.array(X[:20_000])
    # compiles
    VCGMM(100, coreset_size=1 << 13, compute_labels=False, random_state=0).fit(few)
    with PeakMemory() as peak:
        coreset = []
        for _ in range(4):
            start = time.process_time()
            lightweight_coreset(X, 1 << 16, rng=np.random.default_rng(0))
            coreset.append(time.process_time() - start)
        start = time.process_time()
        model = VCGMM(1000, coreset_size=1 << 16, compute_labels=False, random_state=0).fit(
            Blocks(X)
        )
        fit = time.process_time() - start
    error = _error(X, model)
    seconds = dict(
        first_seconds=coreset[0], warm_seconds=float(np.median(coreset[1:])), fit_seconds=fit
    )
    return dict(megabytes=peak.megabytes, error=error, gigabytes=X.nbytes / 1e9, **seconds)


def dask_run(path):
    """The same through dask: statistics chunk by chunk, then the fit on the coreset."""
    import dask
    import dask.array as da
    from handful import VCGMM, LightweightCoreset

    X = np.load(path, mmap_mode="r")
    few = np.array(X[:20_000])
    VCGMM(100, compute_labels=False, random_state=0).fit(few)
    with PeakMemory() as peak, dask.config.set(scheduler="threads", num_workers=1):
        # from_array would copy the whole map: each task maps its own chunk
        tasks = [
            (dask.delayed(_rows_of_file)(path, i, i + CHUNK), min(CHUNK, len(X) - i))
            for i in range(0, len(X), CHUNK)
        ]
        lazy = da.concatenate(
            [da.from_delayed(task, (n, X.shape[1]), X.dtype) for task, n in tasks]
        )
        start = time.perf_counter()
        coreset = LightweightCoreset(1 << 16, random_state=0).fit(lazy)
        seconds = time.perf_counter() - start
        rows, weights = coreset.take(lazy)
        model = VCGMM(1000, compute_labels=False, random_state=0).fit(rows, sample_weight=weights)
    return dict(megabytes=peak.megabytes, coreset_seconds=seconds, error=_error(X, model))


def _rows_of_file(path, start, stop):
    return np.load(path, mmap_mode="r")[start:stop]


def _error(X, model):
    # a row in a hundred is enough to compare by
    from handful.clustering.quantization import quantization_error

    some = np.array(X[::100])
    return quantization_error(some, model.cluster_centers_) / len(some)


def first_call():
    """CPU seconds of a first fit, imports left out; the second one's beside it."""
    from handful import VCGMM

    X = np.random.default_rng(0).normal(size=(2000, 8))
    seconds = []
    for _ in range(2):
        start = time.process_time()
        VCGMM(20, random_state=0).fit(X)
        seconds.append(time.process_time() - start)
    return dict(first=seconds[0], second=seconds[1])


def threads():
    """Wall seconds of EM with one thread, with two, and with two beside a process that keeps one
    core busy."""
    import multiprocessing

    import numba
    from handful.clustering.vcgmm import VCGMM

    rng = np.random.default_rng(0)
    X = (rng.normal(size=(2000, 90)) * 2)[rng.integers(2000, size=1 << 16)].astype(np.float32)
    X += rng.standard_normal(X.shape, dtype=np.float32)
    options = dict(init=X[:2000], algorithm="paper", tol=0.0, compute_labels=False)

    def seconds(n_threads, n_iter):
        numba.set_num_threads(n_threads)
        start = time.perf_counter()
        VCGMM(2000, max_iter=n_iter, random_state=0, **options).fit(X)
        return time.perf_counter() - start

    # twelve of them, what comes before taken off
    def iterations(n_threads):
        return seconds(n_threads, 14) - seconds(n_threads, 2)

    found = {"one": [], "two": [], "one, busy": [], "two, busy": []}
    iterations(1), iterations(2)
    for _ in range(3):
        found["one"].append(iterations(1))
        found["two"].append(iterations(2))
        neighbour = multiprocessing.Process(target=_spin, daemon=True)
        neighbour.start()
        found["one, busy"].append(iterations(1))
        found["two, busy"].append(iterations(2))
        neighbour.terminate()
        neighbour.join()
    return {name: float(np.median(values)) for name, values in found.items()}


def _spin():
    while True:
        pass


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
