"""One function over many settings and seeds: each finished task is kept, so that a killed sweep goes on at the task."""

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path

from handful_papers import provenance
from handful_papers.fingerprint import code_fingerprint, data_fingerprint

DASK = "HANDFUL_DASK"  # address of a dask scheduler that runs the tasks instead of this machine's processes


def sweep(function, settings, seeds=(None,), *, folder, n_jobs=1, **shared):
    """Rows of ``function(**setting, seed=seed, **shared)`` for every setting and seed, in that order.

    A task that finished before is read back, if the code that its function reaches, its arguments, and the data sets
    that they name are what they were. Whether rows come from this process, from several or from a cluster, from a run
    or from disk: they are the same.

    Parameters
    ----------
    function : defined at the top of a module of ours; gives a DataFrame or a list of dict, of numbers and strings
    settings : list of dict of plain values (numbers, strings, lists, dicts); they become columns of the rows where
        they are numbers or strings and the function gives no column of that name
    seeds : ints, or (None,) for a function without `seed`
    folder : pathlib.Path, where finished tasks are kept
    n_jobs : int, processes; each keeps to one thread, so that a task gives the numbers that it gives alone
    shared : further arguments, alike for all tasks

    Returns
    -------
    rows : pandas.DataFrame
    seconds : float, of all tasks together, those read back included

    Raises
    ------
    Whatever a task raises, once the tasks that run beside it have ended; what had finished stays finished.

    On the cluster that ``$HANDFUL_DASK`` names, an error, or Ctrl-C here, ends the sweep at once: tasks that wait are
    taken from the cluster. Those at work there go on to their end, as dask cannot stop a worker's thread; their rows
    are dropped, and they run again in the next sweep. The tasks of a worker that dies run again on another one.
    """
    import pandas as pd

    tasks = [_Task(function, setting, seed, shared, folder) for setting in settings for seed in seeds]
    if not tasks:
        raise ValueError(f"{function.__name__}: no settings or no seeds to sweep over.")
    waiting = [task for task in tasks if not task.read()]
    with _progress(len(tasks), len(tasks) - len(waiting), function.__name__) as tell:
        for index, (rows, seconds) in _results(waiting, n_jobs):
            waiting[index].keep(rows, seconds)
            tell()
    frames = [pd.DataFrame(task.rows).assign(**task.labels()) for task in tasks if task.rows]
    return pd.concat(frames, ignore_index=True), sum(task.seconds for task in tasks)


class _Task:
    """One setting with one seed, and where its rows are kept."""

    def __init__(self, function, setting, seed, shared, folder):
        self.function, self.setting, self.seed = function, dict(setting), seed
        self.arguments = {**shared, **setting} | ({} if seed is None else {"seed": int(seed)})
        parts = {"code": _code(function), "arguments": self.arguments, "versions": provenance.versions()}
        parts["data"] = {name: data_fingerprint(name) for name in sorted(_strings(self.arguments))}
        try:
            text = json.dumps(parts, sort_keys=True, default=provenance.plain)
        except TypeError as error:
            raise ValueError(
                f"{function.__name__}: settings must be plain values, to tell tasks apart: {error}"
            ) from error
        self.path = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    def read(self):
        """Take the rows of an earlier run; False where there are none that can be read."""
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            self.rows, self.seconds = kept["rows"], float(kept["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def keep(self, rows, seconds):
        """Take rows, and write them down with what made them."""
        sha, dirty = provenance.commit()
        kept = {"function": f"{self.function.__module__}.{self.function.__qualname__}", "arguments": self.arguments}
        kept |= {"commit": sha, "dirty": dirty, "seconds": seconds, "rows": rows}
        text = json.dumps(kept, default=provenance.plain)
        self.rows, self.seconds = json.loads(text)["rows"], seconds  # as they will be read: the same rows each time
        provenance.write_atomically(self.path, text)

    def labels(self):
        """Columns that tell the task apart: its plain settings and its seed."""
        plain = {k: v for k, v in self.setting.items() if isinstance(v, (str, int, float))}
        plain |= {} if self.seed is None else {"seed": self.seed}
        return {k: v for k, v in plain.items() if k not in self.rows[0]}


def run_task(function, arguments):
    """(rows, seconds) of one call, in whatever process it runs."""
    start = time.perf_counter()
    result = function(**arguments)
    rows = result.to_dict("records") if hasattr(result, "to_dict") else [dict(row) for row in result]
    return rows, time.perf_counter() - start


def _results(tasks, n_jobs):
    """(index, result) of each task, as they end."""
    calls = [(task.function, task.arguments) for task in tasks]
    if address := os.environ.get(DASK):
        yield from _on_dask(calls, address)
    elif n_jobs == 1 or len(calls) < 2:
        yield from ((i, run_task(*call)) for i, call in enumerate(calls))
    else:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("loky", inner_max_num_threads=1):
            indexed = (delayed(_indexed)(i, *call) for i, call in enumerate(calls))
            yield from Parallel(n_jobs, return_as="generator_unordered")(indexed)


def _indexed(index, function, arguments):
    return index, run_task(function, arguments)


def _on_dask(calls, address):
    from dask.distributed import Client, as_completed

    with Client(address) as client:
        futures = {client.submit(run_task, *call, pure=False): i for i, call in enumerate(calls)}
        for future, result in as_completed(futures, with_results=True):
            yield futures[future], result


@contextlib.contextmanager
def _progress(total, done, what):
    """A function to call after each task: a bar on a terminal; for the runner, a file with counts and the time left."""
    from tqdm import tqdm

    path = os.environ.get("HANDFUL_PROGRESS")
    with tqdm(total=total, initial=done, desc=what, unit="task", disable=None) as bar:
        start, fresh = time.perf_counter(), 0

        def tell():
            nonlocal fresh
            fresh += 1
            bar.update()
            if path:
                left = (total - done - fresh) * (time.perf_counter() - start) / fresh
                provenance.write_atomically(path, json.dumps({"done": done + fresh, "total": total, "left": left}))

        yield tell


def _code(function):
    if (found := _CODE.get(function)) is None:
        found = _CODE[function] = code_fingerprint(function)
    return found


_CODE = {}


def _strings(value):
    """Every string in nested plain values."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return set().union(*map(_strings, value)) if isinstance(value, (list, tuple)) else set()
