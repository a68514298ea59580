"""The tasks of a sweep: how one is run, where several run at a time, and how a long one keeps its
parts."""

import contextlib
import json
import os
import pickle
import time
import warnings
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path

from handful_papers.provenance import git, plain, write_atomically

# Of the task that is running: its folder, and seconds of parts found there.
_PARTS = ContextVar("_PARTS", default=None)
# The variable that hands a `Launch` to the kernel of a notebook, which is another process.
_LAUNCH = "HANDFUL_LAUNCH"


@dataclass(frozen=True)
class Launch:
    """How `handful reproduce` starts a notebook; what is started by hand has none of it.

    Attributes
    ----------
    folder : str, figures/<profile>, where its results go; "" for ``results`` of the working folder
    dask : str, the address of the scheduler that runs the tasks of its sweeps; "" for none
    """

    folder: str = ""
    dask: str = ""

    def as_environment(self):
        """What the environment of a kernel has to hold, as a dict, so that `current` gives
        this."""
        return {_LAUNCH: json.dumps(asdict(self))}

    @classmethod
    def current(cls):
        """That of the notebook that runs in this process."""
        return cls(**json.loads(os.environ.get(_LAUNCH, "{}")))


def leave_unsaid():
    """Ignore the warnings of what the protocols do on purpose."""
    # It is imported here, as importing the library takes a while.
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
        rows = task_rows(function, arguments)
    finally:
        _PARTS.reset(token)
    seconds = time.perf_counter() - start + sum(before)
    return rows, seconds, git("rev-parse", "HEAD")


def task_rows(function, arguments):
    """The rows of one task, a list of dict of plain values."""
    with warnings.catch_warnings():
        leave_unsaid()
        result = function(**arguments)
    is_frame = hasattr(result, "to_dict")
    rows = result.to_dict("records") if is_frame else [dict(row) for row in result]
    return json.loads(json.dumps(rows, default=plain))


def tasks_of(settings, seeds):
    """The arguments of each task of a sweep but those that all share: every setting with every
    seed, (None,) for no seed."""
    return [
        dict(setting) | ({} if seed is None else {"seed": int(seed)})
        for setting in settings
        for seed in seeds
    ]


def with_arguments(rows, task):
    """The rows of a task as a data frame, with a column for each argument that is a number or a
    text and that they do not have."""
    import pandas as pd

    columns = {
        key: value
        for key, value in task.items()
        if isinstance(value, (str, int, float)) and key not in rows[0]
    }
    return pd.DataFrame(rows).assign(**columns)


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
def workers(n_jobs, dask=""):
    """A function of joblib's delayed calls that gives their results in order, as they come.

    Calls run in this process, in `n_jobs` others of one thread each, or on the dask scheduler of an
    address.
    """
    from joblib import Parallel, parallel_config

    if dask:
        from dask.distributed import Client

        with Client(dask), parallel_config("dask"):
            yield Parallel(return_as="generator")
    elif n_jobs == 1:
        yield Parallel(1, return_as="generator")
    else:
        with parallel_config("loky", inner_max_num_threads=1):
            yield Parallel(n_jobs, return_as="generator")
