"""The tasks of a sweep: how one is run, where several run at a time, and how a long one keeps its
parts."""

import contextlib
import json
import os
import pickle
import time
import warnings
from contextvars import ContextVar
from pathlib import Path

from handful_papers.provenance import git, plain, write_atomically

# of the task that is running: its folder, and seconds of parts found there
_PARTS = ContextVar("_PARTS", default=None)


def leave_unsaid():
    """Ignore the warnings of what the protocols do on purpose."""
    # here, as importing the library takes a while
    from handful.scales import ScaleWarning

    # They compare draws of any size: one that misses a class is part of what they measure.
    warnings.filterwarnings("ignore", message=".*no row of class")
    # They take the columns as the paper does, some of them in units of their own.
    warnings.simplefilter("ignore", ScaleWarning)


def run_task(function, arguments, key, folder):
    """(rows, seconds, commit) of one task; `key` only tells tasks of other code apart, parts are
    kept in `folder`."""
    import joblib

    task = joblib.hash([function.__qualname__, arguments, key])
    before = []
    token = _PARTS.set((Path(folder) / "parts" / task, before))
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            leave_unsaid()
            result = function(**arguments)
    finally:
        _PARTS.reset(token)
    rows = (
        result.to_dict("records") if hasattr(result, "to_dict") else [dict(row) for row in result]
    )
    seconds = time.perf_counter() - start + sum(before)
    return json.loads(json.dumps(rows, default=plain)), seconds, git("rev-parse", "HEAD")


def part(name, compute):
    """``compute()``, kept until the record is saved: a task that was killed goes on after its last
    finished part.

    Outside of a sweep nothing is kept.

    Parameters
    ----------
    name : str, unlike that of the task's other parts
    compute : function without arguments, whose result pickle can hold
    """
    if _PARTS.get() is None:
        return compute()
    folder, before = _PARTS.get()
    path = folder / f"{name}.pickle"
    if path.is_file():
        result, seconds = pickle.loads(path.read_bytes())
        before.append(seconds)
        return result
    start = time.perf_counter()
    result = compute()
    write_atomically(path, pickle.dumps((result, time.perf_counter() - start)))
    return result


@contextlib.contextmanager
def workers(n_jobs):
    """A function of joblib's delayed calls that gives their results in order, as they come.

    Calls run in this process, in `n_jobs` others of one thread each, or on the scheduler that
    ``$HANDFUL_DASK`` names.
    """
    from joblib import Parallel, parallel_config

    if address := os.environ.get("HANDFUL_DASK"):
        from dask.distributed import Client

        with Client(address), parallel_config("dask"):
            yield Parallel(return_as="generator")
    elif n_jobs == 1:
        yield Parallel(1, return_as="generator")
    else:
        with parallel_config("loky", inner_max_num_threads=1):
            yield Parallel(n_jobs, return_as="generator")
