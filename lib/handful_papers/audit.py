"""Whether records are what today's code gives: a share of their tasks is run again, and compared.

A record holds what its sweeps were: functions, settings, seeds and what the tasks share. An audit
calls these functions; the notebook does not run. Where a record holds no sweeps, or only such as go
into a summary, the notebook runs as a whole, if that takes no longer than is asked for. What was
compared, and the largest difference, the audit writes into the record.
"""

import math
import random
import tempfile
from importlib import import_module
from pathlib import Path

from handful_papers.committed import COMMITTED, FIGURES
from handful_papers.entries import figure_entry
from handful_papers.expected import at_equal_keys, compare, largest_difference
from handful_papers.provenance import commit, to_json, write_atomically
from handful_papers.records import read_record, read_rows
from handful_papers.run import execute, plan
from handful_papers.tasks import Launch, task_rows, tasks_of, with_arguments


def audit(share, only=(), figures=FIGURES, minutes=2.0, tell=print):
    """Run a random share of the committed records' tasks with today's code, and compare the rows
    with those on record.

    Parameters
    ----------
    share : float, of the tasks of each sweep, at least one
    minutes : float, that a notebook may have taken which has to run as a whole

    Returns
    -------
    dict : name -> list of sentences, what differs by more than 1e-6 relative; empty where all is as
        it was
    """
    found = {}
    for profile in COMMITTED:
        for run in plan(profile, only):
            path = Path(figures) / profile / f"{run.name}.json"
            if path.is_file():
                n_rows, found[run.name] = _audited(path, run, share, minutes)
                told = "; ".join(found[run.name]) or f"{n_rows} rows as on record"
                tell(f"{run.name}: {told}")
    return found


def _audited(path, run, share, minutes):
    """(number of rows compared, sentences on what differs) of one record, which keeps the audit."""
    record = read_record(path)
    rules = figure_entry(run.name)["expected"]
    try:
        parts = [_rows_of_sweep(sweep, share) for sweep in record.get("sweeps", [])]
        # The rows of a sweep that only goes into a summary have none of the figure's keys.
        parts = [part for part in parts if set(rules["keys"]) & set(part)]
        if not parts:
            share = 1.0
            parts = [_rows_of_notebook(record, run, minutes)]
    except Exception as error:
        # Whatever a task raises: it must not stop the audit of the others.
        return 0, [f"its tasks do not run: {error!r:.200}"]
    on_record = read_rows(path.with_suffix(".csv"))
    pairs = [at_equal_keys(part, on_record, rules) for part in parts]
    n_rows = sum(len(ours) for ours, _, _ in pairs)
    if not n_rows:
        return 0, ["nothing could be compared: no row of today stands in the record"]
    worst = max(largest_difference(ours, theirs) for ours, theirs, _ in pairs)
    _keep(path, record, share, worst)
    return n_rows, [sentence for pair in pairs for sentence in compare(*pair)]


def _keep(path, record, share, worst):
    """Write an audit by the checkout's commit into a record; code that is in no commit vouches for
    nothing."""
    sha, dirty = commit()
    if sha is not None and not dirty:
        record["audit"] = {"commit": sha, "share": share, "worst": worst}
        write_atomically(path, to_json(record))


def _rows_of_sweep(sweep, share):
    """A data frame of a share of a sweep's tasks."""
    import pandas as pd

    module, _, name = sweep["function"].partition(":")
    function = getattr(import_module(module), name)
    tasks = tasks_of(sweep["settings"], sweep["seeds"])
    chosen = random.Random(sweep["function"]).sample(tasks, math.ceil(len(tasks) * share))
    frames = []
    for task in chosen:
        rows = task_rows(function, sweep["shared"] | task)
        if rows:
            frames.append(with_arguments(rows, task))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _rows_of_notebook(record, run, minutes):
    """A data frame of all that the notebook writes."""
    taken = record["seconds"] / 60
    if taken > minutes:
        raise ValueError(
            f"the record holds no sweep of its rows, and its notebook as a whole takes {taken:.2g} "
            f"minutes of the {minutes:g} that are allowed"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / run.profile
        error = execute(run, folder / "executed.ipynb", Launch(folder=str(folder)))
        if error:
            raise ValueError(error)
        return read_rows(folder / f"{run.name}.csv")
