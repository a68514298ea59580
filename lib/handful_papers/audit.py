"""Whether records are what today's code gives: a share of their tasks is run again, and compared.

A record holds what its sweeps were: functions, settings, seeds and what the tasks share. An audit
calls these functions; the notebook does not run. Where a record holds no sweeps, or only such as go
into a summary, the notebook runs as a whole, if that takes no longer than is asked for.

Rows also move with the machine: a last digit may send an optimiser elsewhere. Where today's rows
are not those on record, the record's own code, of its commit, runs the same tasks here. If it gives
today's rows, the machine has moved them and not the code. What was compared, and the largest
differences, the audit writes into the record.
"""

import math
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from handful_papers.committed import COMMITTED, FIGURES
from handful_papers.entries import figure_entry
from handful_papers.expected import (
    AUDIT,
    at_equal_keys,
    can_stand_in,
    compare,
    compared_columns,
    largest_difference,
    untimed,
)
from handful_papers.provenance import commit, git, to_json, write_atomically
from handful_papers.records import read_record, read_rows
from handful_papers.run import execute, plan
from handful_papers.tasks import Launch, tasks_of

# The folder of the packages of today's code.
LIB = Path(__file__).parents[1]


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
        it was, or as the record's own code gives it on this machine
    """
    found: dict = {}
    for profile in COMMITTED:
        for run in plan(profile, only):
            path = Path(figures) / profile / f"{run.name}.json"
            if not path.is_file():
                continue
            try:
                told, sentences = _audited(path, run, share, minutes)
            except ValueError as error:
                told, sentences = "", [str(error)]
            found.setdefault(run.name, []).extend(sentences)
            tell(f"{run.name} at profile {profile}: {'; '.join(sentences) or told}")
    return found


def _audited(path, run, share, minutes):
    """(what was found where nothing is wrong, sentences on what differs) of one record, which keeps
    the audit."""
    record = read_record(path)
    rules = figure_entry(run.name)["expected"]
    sweeps = [_part_of(sweep, share) for sweep in record.get("sweeps", [])]
    try:
        parts = _comparable(_rows_of(sweeps, LIB), rules)
        if not parts:
            share = 1.0
            sweeps = []
            parts = [_rows_of_notebook(record, run, minutes)]
    except ValueError as error:
        return "", [f"its tasks do not run: {error!s:.200}"]
    on_record = read_rows(path.with_suffix(".csv"))
    standing = [part for part in parts if can_stand_in(part, on_record, rules)]
    n_rows, worst, sentences = _compared(standing, [on_record] * len(standing), rules)
    n_all = n_rows + sum(map(len, parts)) - sum(map(len, standing))
    if not n_all:
        return "", ["nothing could be compared: no row of today stands in the record"]
    found = {"worst": worst}
    told = f"{n_rows} rows as on record"
    if sweeps and (sentences or n_all > n_rows):
        own = _comparable(_rows_by_its_code(record, sweeps), rules)
        by_own_code = _beside_own(parts, own, rules, n_all)
        if by_own_code is not None:
            found["own_code"], sentences = by_own_code
            told = f"{n_all} rows as the record's own code gives them here{_beside(n_rows, worst)}"
        elif n_all > n_rows:
            sentences.append(
                f"{n_all - n_rows} rows, of which the notebook makes others, could not be "
                "compared: the record's own code does not run here"
            )
    _keep(path, record, share, found)
    return told, sentences


def _beside(n_rows, worst):
    """What to add where the record's own code vouches for rows: how near those on record are."""
    if worst > AUDIT["rtol"]:
        return f"; those on record, made elsewhere, are up to {worst:.2g} away"
    return f", {n_rows} of them as on record" if n_rows else ""


def _comparable(parts, rules):
    """Those of some data frames that have a figure's keys, and numbers that its rules compare: rows
    that only go into a summary have neither. Of each, the arms that are not timed."""
    return [
        untimed(part, rules)
        for part in parts
        if set(rules["keys"]) & set(part) and compared_columns(part, rules)
    ]


def _beside_own(parts, own, rules, n_rows):
    """(largest relative difference, sentences) beside the rows of the record's own code; None where
    it does not give all rows that are to be compared."""
    if len(own) != len(parts):
        return None
    n_own, worst, sentences = _compared(parts, own, rules)
    return (worst, sentences) if n_own >= n_rows else None


def _compared(parts, others, rules):
    """(number of rows, largest relative difference, sentences) of lists of data frames, one by
    one."""
    pairs = [at_equal_keys(*both, rules) for both in zip(parts, others)]
    worst = max((largest_difference(ours, theirs) for ours, theirs, _ in pairs), default=0.0)
    sentences = [sentence for pair in pairs for sentence in compare(*pair)]
    for part, (ours, _, _) in zip(parts, pairs):
        if n_absent := len(part) - len(ours):
            worst = max(worst, 1.0)
            sentences.append(
                f"{n_absent} of {len(part)} rows of today have keys that none has there"
            )
    return sum(len(ours) for ours, _, _ in pairs), worst, sentences


def _keep(path, record, share, found):
    """Write an audit by the checkout's commit into a record; code that is in no commit vouches for
    nothing."""
    sha, dirty = commit()
    if sha is not None and not dirty:
        record["audit"] = {"commit": sha, "share": share} | found
        write_atomically(path, to_json(record))


def _part_of(sweep, share):
    """What `sweep_rows` takes to run a share of a sweep's tasks: function, shared and tasks."""
    tasks = tasks_of(sweep["settings"], sweep["seeds"])
    chosen = random.Random(sweep["function"]).sample(tasks, math.ceil(len(tasks) * share))
    return {"function": sweep["function"], "shared": sweep["shared"], "tasks": chosen}


def _rows_by_its_code(record, sweeps):
    """`_rows_of` by the code of a record's commit; an empty list where it does not run here."""
    with tempfile.TemporaryDirectory() as name:
        archive = Path(name) / "lib.tar"
        if git("archive", "--output", str(archive), str(record["commit"]), "lib") is None:
            return []
        with tarfile.open(archive) as tar:
            tar.extractall(name, filter="data")
        try:
            return _rows_of(sweeps, Path(name) / "lib")
        except ValueError:
            return []


def _rows_of(sweeps, lib):
    """A data frame of the tasks of each sweep, by the code of a folder, in a process of its own."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as name:
        asked = Path(name) / "sweeps.json"
        answer = Path(name) / "rows.pickle"
        asked.write_text(to_json(sweeps), encoding="utf-8")
        # -P: this folder's modules must not hide others of their names.
        command = [sys.executable, "-P", str(LIB / "handful_papers" / "sweep_rows.py")]
        path = [str(lib), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [*command, str(asked), str(answer)],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        )
        if done.returncode:
            raise ValueError(done.stderr.strip().rpartition("\n")[2])
        return pd.read_pickle(answer)


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
