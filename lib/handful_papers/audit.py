"""Whether records are what today's code gives: a share of their tasks is run again, and compared.

A record holds what its sweeps were: functions, settings, seeds and what the tasks share. An audit
calls these functions; the notebook does not run. The few notebooks without a sweep, which take
seconds or minutes, run as a whole.
"""

import math
import random
import tempfile
from importlib import import_module
from pathlib import Path

from handful_papers.committed import COMMITTED, FIGURES
from handful_papers.entries import figure_entry
from handful_papers.expected import at_equal_keys, compare
from handful_papers.records import read_record, read_rows
from handful_papers.run import execute, plan
from handful_papers.tasks import Launch, task_rows, tasks_of, with_arguments


def audit(share, only=(), figures=FIGURES, tell=print):
    """Run a random share of the committed records' tasks with today's code, and compare the rows
    with those on record.

    Parameters
    ----------
    share : float, of the tasks of each sweep, at least one

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
                n_rows, found[run.name] = _audited(path, run, share)
                told = "; ".join(found[run.name]) or f"{n_rows} rows as on record"
                tell(f"{run.name}: {told}")
    return found


def _audited(path, run, share):
    """(number of rows compared, sentences on what differs) of one record."""
    try:
        parts = _rows_of_today(read_record(path), run, share)
    except Exception as error:
        # Whatever a task raises: it must not stop the audit of the others.
        return 0, [f"its tasks do not run: {error!r:.200}"]
    on_record = read_rows(path.with_suffix(".csv"))
    rules = figure_entry(run.name)["expected"]
    # The rows of a sweep that only goes into a summary have none of the figure's keys.
    parts = [part for part in parts if set(rules["keys"]) & set(part)]
    pairs = [at_equal_keys(part, on_record, rules) for part in parts]
    n_rows = sum(len(ours) for ours, _, _ in pairs)
    if not n_rows:
        return 0, ["nothing could be compared: no row of its sweeps stands in the record"]
    return n_rows, [sentence for pair in pairs for sentence in compare(*pair)]


def _rows_of_today(record, run, share):
    """A data frame for each sweep of a record, of a share of its tasks."""
    if "sweeps" not in record:
        raise ValueError("the record was made before records held their sweeps: run it again")
    if not record["sweeps"]:
        return [_rows_of_notebook(run)]
    return [_rows_of_sweep(sweep, share) for sweep in record["sweeps"]]


def _rows_of_sweep(sweep, share):
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


def _rows_of_notebook(run):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / run.profile
        error = execute(run, folder / "executed.ipynb", Launch(folder=str(folder)))
        if error:
            raise ValueError(error)
        return read_rows(folder / f"{run.name}.csv")
