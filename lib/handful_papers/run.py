"""Runs notebooks: a plain loop over papermill, which goes on after a failure."""

import os
import time
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from handful_papers.committed import FIGURES, whole_record
from handful_papers.entries import GPU, NOT_PROTOCOL, figure_entry, names
from handful_papers.executed import tidy
from handful_papers.parameters import NOTEBOOKS, cell_parameters
from handful_papers.provenance import commit, expected_hash, write_atomically
from handful_papers.records import read_record
from handful_papers.tasks import Launch
from handful_papers.verification import changed, vouch_for

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# What papermill is asked for, whatever the notebook.
OPTIONS = {
    "kernel_name": "python3",
    "language": "python",
    "progress_bar": False,
    # Seconds: on a busy machine a kernel is long in coming.
    "start_timeout": 600,
    # Each kernel warns of its ports, and of its end.
    "extra_arguments": ["--log-level=ERROR"],
}
# The environment of every kernel.
SILENCE = {
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    # A notebook that is committed shows no bar.
    "TQDM_DISABLE": "1",
}


@dataclass(frozen=True)
class Planned:
    """One notebook at one profile: what papermill is given, the value of every parameter, and the
    expected minutes."""

    name: str
    profile: str
    given: dict
    parameters: dict
    minutes: float


def plan(profile, only=()):
    """What `handful reproduce` runs, as a list of `Planned`; of profile gpu those figures that have
    it.

    Parameters
    ----------
    only : list of str, each a part of "<paper>/<figure>", or a pattern with * and ?; empty for all

    Raises
    ------
    ValueError
        for a pattern that matches nothing, an entry or a parameters cell that is not as it should
        be.
    """
    wanted = set()
    for pattern in only:
        chosen = [name for name in names() if _matches(name, pattern)]
        if not chosen:
            raise ValueError(
                f"no notebook matches {pattern!r}{_near(pattern)} There are: {', '.join(names())}."
            )
        wanted.update(chosen)
    if not only:
        wanted.update(names())
    having = [name for name in names() if profile in figure_entry(name)["profiles"]]
    return [_plan(name, profile) for name in having if name in wanted]


def items_of(profiles, only=()):
    """The names of the figures that run at one of some profiles; arguments and ValueError as of
    `plan`."""
    planned = {one.name for profile in profiles for one in plan(profile, only)}
    return [name for name in names() if name in planned]


def _matches(name, pattern):
    return pattern in name or fnmatch(name, pattern) or fnmatch(name.split("/")[1], pattern)


def _near(pattern):
    """Which names are near to a pattern that matches none, as the end of a sentence."""
    # Few write a name to its end.
    full = {name.partition("_")[0]: name for name in names()} | {name: name for name in names()}
    close = get_close_matches(pattern, full, cutoff=0.5)
    near = " or ".join(dict.fromkeys(full[key] for key in close))
    return f": did you mean {near}?" if near else "."


def check_gpu(runs):
    """ValueError where profile gpu has nothing to run, or torch no GPU to run it on."""
    import torch

    if not runs:
        having = ", ".join(name for name in names() if GPU in figure_entry(name)["profiles"])
        raise ValueError(f"profile gpu is of {having} alone: take another profile.")
    if not torch.cuda.is_available():
        raise ValueError(
            "profile gpu needs a CUDA device, and torch finds none: profile laptop is for a CPU."
        )


def _plan(name, profile):
    entry = figure_entry(name)
    given = entry["profiles"][profile]
    cell = cell_parameters(NOTEBOOKS / f"{name}.ipynb")
    # Papermill would only warn, and keep the old value.
    unknown = sorted(set(given) - set(cell))
    if unknown:
        raise ValueError(
            f"{name}: profile {profile} sets {', '.join(unknown)}; the cell has: {', '.join(cell)}."
        )
    return Planned(
        name=name,
        profile=profile,
        given=given,
        parameters=cell | given,
        minutes=float(entry["minutes"][profile]),
    )


def stale(record, run):
    """Why a record would come out otherwise now, "" if it is current: its parameters or its quick
    numbers changed.

    Parameters that find nothing, such as the device and the number of processes, may differ.
    """
    before = record["parameters"]
    now = run.parameters
    keys = sorted({*before, *now} - {*NOT_PROTOCOL})
    differ = [key for key in keys if before.get(key) != now.get(key)]
    if differ:
        return f"parameters {', '.join(differ)} changed"
    return "" if record["expected"] == expected_hash(run.name) else "its quick numbers moved"


def reproduce(runs, *, figures=FIGURES, jobs=1, dask="", force=False, tell=print):
    """Run notebooks whose record is not current; one that fails does not stop the others.

    At profile quick a record counts as current only if this very commit made it, as quick runs are
    to test the code.

    Parameters
    ----------
    runs : list of Planned
    figures : pathlib.Path, where results go, in ``<profile>/<paper>/``
    jobs : int, notebooks at a time
    dask : str, the address of the scheduler that runs the tasks of sweeps; "" for none
    force : run what is current, too
    tell : function of a line of text

    Returns
    -------
    dict : name -> "" if it ran, "current", or what went wrong
    """
    from joblib import Parallel, delayed

    figures = Path(figures).resolve()
    outcomes = {}
    for run in runs:
        if not force and is_current(run, figures):
            outcomes[run.name] = "current"
    due = [run for run in runs if run.name not in outcomes]
    expected = {run.name: run.minutes for run in due}
    quiet = sum(expected.values()) / jobs
    tell(
        f"{len(runs)} notebooks, {len(due)} to run: about {_plain(quiet)} min where nothing else "
        "runs."
    )
    if jobs > 1:
        # The longest come first, so that no core idles at the end.
        due.sort(key=lambda run: -run.minutes)
    threads = max(1, _n_cores() // jobs)
    found = Parallel(jobs, return_as="generator_unordered")(
        delayed(_run_and_keep)(run, figures, dask, threads) for run in due
    )
    timed = []
    for i, (name, error, seconds) in enumerate(found, 1):
        outcomes[name] = error
        minutes = expected.pop(name)
        if not error:
            timed.append((minutes, seconds / 60))
        left = minutes_left(timed, expected.values(), jobs)
        more = f"; about {_plain(left)} min left" if expected else ""
        tell(f"[{i}/{len(due)}] {name}: {error or 'done'} ({seconds / 60:.1f} min){more}")
    return outcomes


def _plain(minutes):
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.1f}"


def _n_cores():
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()


def minutes_left(timed, expected, jobs):
    """Minutes until the other notebooks have run: those expected, times what the finished ones took
    over theirs.

    Parameters
    ----------
    timed : list of (expected, taken), minutes of the notebooks that have run
    expected : minutes of the others
    jobs : int, notebooks at a time
    """
    planned = sum(one for one, _ in timed)
    taken = sum(one for _, one in timed)
    slower = taken / planned if planned else 1.0
    return slower * sum(expected) / jobs


def is_current(run, figures=FIGURES):
    """Whether a run of `plan` is on record as today's code and parameters would make it, so that
    `reproduce` leaves it out."""
    path = figures / run.profile / f"{run.name}.json"
    try:
        record = whole_record(path)
    except ValueError:
        return False
    if changed(path, record) or stale(record, run):
        return False
    made_here = (record["commit"], record["dirty"]) == (commit()[0], False)
    return made_here or run.profile != "quick"


def _run_and_keep(run, figures, dask, threads):
    """(name, error, seconds) of one notebook; a failed run's notebook is kept as
    ``<figure>.failed.ipynb``."""
    start = time.perf_counter()
    folder = figures / run.profile
    target = folder / f"{run.name}.ipynb"
    record = target.with_suffix(".json")
    running = target.with_suffix(".running.ipynb")
    before = record.stat().st_mtime_ns if record.is_file() else None
    launch = Launch(folder=str(folder), dask=dask)
    limits = {name: os.environ.get(name, str(threads)) for name in THREADS}
    error = execute(run, running, launch, limits)
    error = error or _keep(running, target, record, before)
    failed = target.with_suffix(".failed.ipynb")
    failed.unlink(missing_ok=True)
    if running.is_file():
        running.replace(failed)
    return run.name, error, time.perf_counter() - start


def _keep(running, target, record, before):
    """Make the executed notebook one of its record's files; what went wrong, "" where nothing did.

    `before` is when the record was last written before the run, None where there was none.
    """
    import nbformat

    try:
        if not record.is_file() or record.stat().st_mtime_ns == before:
            return (
                "failed: it ran, but saved no results: its last cell calls `save` of its Experiment"
            )
        read_record(record)
        write_atomically(target, tidy(nbformat.read(running, as_version=4)))
        vouch_for(record, target)
        running.unlink()
    except (OSError, ValueError) as problem:
        return f"failed: its results cannot be kept: {problem}"
    return ""


def execute(run, output, launch, environment=None):
    """Run a notebook; what went wrong, "" where nothing did.

    Parameters
    ----------
    run : Planned
    output : path of the executed notebook
    launch : Launch, where its results go and who runs its tasks
    environment : dict, what else the environment of its kernel holds
    """
    import papermill

    source = NOTEBOOKS / f"{run.name}.ipynb"
    before = dict(os.environ)
    os.environ |= (environment or {}) | SILENCE | launch.as_environment()
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        papermill.execute_notebook(
            str(source), str(output), run.given, cwd=str(source.parent), **OPTIONS
        )
    except Exception as error:
        # Whatever goes wrong in a notebook must not stop the others.
        cell = f", cell {error.exec_count}" if getattr(error, "exec_count", None) else ""
        told = f"{error.ename}: {error.evalue}" if hasattr(error, "ename") else repr(error)
        return f"failed{cell}: {told}"
    finally:
        os.environ.clear()
        os.environ.update(before)
    return ""
