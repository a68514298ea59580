"""Runs notebooks, each in a process of its own, and remembers which need not run again.

A run is remembered in ``figures/<profile>/<paper>/.state/<notebook>.json``, written when the notebook has
finished; whatever is killed, what had finished stays finished.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from handful.experiments import provenance
from handful.experiments.fingerprint import data_fingerprint, fingerprint
from handful.experiments.notebooks import NotebookError, read_notebook

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_POLL = 0.1  # seconds between two looks at the processes


@dataclass
class Outcome:
    """How one notebook fared.

    Attributes
    ----------
    run : Run
    status : "done", "unchanged" (not run again), "failed", "interrupted" or "not started" (nor will it be)
    seconds : float, what the run took (the earlier one's, if unchanged)
    error : None, or dict with cell (1-based, or None), source, error, traceback
    """

    run: object
    status: str
    seconds: float = 0.0
    error: dict | None = None


def reproduce(runs, *, figures, jobs=1, force=False, watch=None):
    """Run notebooks that are not up to date; one that fails does not stop the others.

    Parameters
    ----------
    runs : list of Run, from `notebooks.plan`
    figures : pathlib.Path, where results go; executed copies go to its ``notebooks/``
    jobs : int, notebooks at a time; each may use ``cores // jobs`` threads
    force : run what is up to date, too
    watch : None or a function of two lists, outcomes so far and (run, seconds) under way, called often

    Returns
    -------
    list of Outcome, one per run, in the order of `runs`; what Ctrl-C ended is "interrupted", what it prevented "not
    started"
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    figures = Path(figures).resolve()
    outcomes, waiting, active = {}, [], []
    watch = watch or (lambda outcomes, active: None)
    for run in runs:
        state = None if force else up_to_date(run, figures)
        if state:
            outcomes[run.name] = Outcome(run, "unchanged", state["seconds"])
        else:
            waiting.append(run)
    if jobs > 1:
        waiting.sort(key=lambda run: -run.minutes)  # the longest first, so that no core idles at the end
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                active.append(_Worker(waiting.pop(0), figures, threads=max(1, n_cores() // jobs)))
            watch(list(outcomes.values()), [(worker.run, worker.seconds) for worker in active])
            time.sleep(_POLL)
            for worker in [w for w in active if w.process.poll() is not None]:
                outcomes[worker.run.name] = worker.finish()
                active.remove(worker)
    except KeyboardInterrupt:
        outcomes |= {worker.run.name: Outcome(worker.run, "interrupted") for worker in active}
        outcomes = {run.name: Outcome(run, "not started") for run in runs} | outcomes
    finally:
        for worker in active:
            worker.stop()
    watch(list(outcomes.values()), [])
    return [outcomes[run.name] for run in runs]


def n_cores():
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def up_to_date(run, figures):
    """The state of the last run, if running again could give nothing new; else None."""
    state = read_state(state_path(figures, run.profile, run.name))
    if state is None or state["status"] != "done" or state["key"] is None or state["key"] != _key(run):
        return None
    if any(data_fingerprint(name) != known for name, known in state["data"].items()):
        return None
    folder = Path(figures) / run.profile
    if any(not (folder / file).is_file() or _sha256(folder / file) != sha for file, sha in state["results"].items()):
        return None
    return state


def state_path(figures, profile, name):
    """Where the runner remembers a notebook's last run at a profile."""
    paper, stem = name.split("/")
    return Path(figures) / profile / paper / ".state" / f"{stem}.json"


def read_state(path):
    """A state file's content; None where there is none, or none that can be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None


def executed_path(figures, profile, name):
    """Where the executed copy of a notebook goes."""
    return Path(figures) / "notebooks" / profile / f"{name}.ipynb"


def _key(run):
    """Fingerprint of a run with the sources as they are on disk now; None if the notebook cannot be read."""
    try:
        return fingerprint(read_notebook(run.notebook.path, run.name), run.parameters)
    except (OSError, NotebookError):
        return None


class _Worker:
    """One notebook under way."""

    def __init__(self, run, figures, threads):
        self.run, self.figures = run, figures
        self.folder = tempfile.TemporaryDirectory(prefix="handful-", ignore_cleanup_errors=True)
        self.key = _key(run)
        self.record = figures / run.profile / f"{run.name}.json"
        self.before = _stamp(self.record)
        self.start = time.perf_counter()
        job = {
            "notebook": str(run.notebook.path.resolve()),
            "executed": str(executed_path(figures, run.profile, run.name)),
            "parameters": run.parameters,
            "n_before_injected": _parameters_cell(run.notebook),
            "outcome": str(Path(self.folder.name) / "outcome.json"),
        }
        with open(Path(self.folder.name) / "log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(figures, threads),
                start_new_session=True,  # Ctrl-C is the runner's to handle
            )
        with contextlib.suppress(BrokenPipeError):  # it died at once: `finish` finds no outcome and says so
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    @property
    def seconds(self):
        return time.perf_counter() - self.start

    def finish(self):
        """Remember how it went, and tell."""
        seconds = round(self.seconds, 1)
        self.process.stdin.close()
        error = self._error()
        state = {
            "status": "failed" if error else "done",
            # A source edited under way: who knows which version ran. No key, so that it runs again.
            "key": self.key if self.key == _key(self.run) else None,
            "seconds": seconds,
            "minutes": self.run.minutes,
            "error": error,
            "data": {},
            "results": {},
        }
        if not error:
            record = json.loads(self.record.read_text(encoding="utf-8"))
            state["data"] = {name: data_fingerprint(name) for name in record["data"]}
            state["results"] = {
                str(path.relative_to(self.figures / self.run.profile)): _sha256(path)
                for path in result_files(self.record, record)
            }
        path = state_path(self.figures, self.run.profile, self.run.name)
        provenance.write_atomically(path, provenance.to_json(state))
        self.folder.cleanup()
        return Outcome(self.run, state["status"], seconds, error)

    def _error(self):
        folder = Path(self.folder.name)
        if not (folder / "outcome.json").is_file():
            log = (folder / "log").read_text(encoding="utf-8", errors="replace")
            return _problem(f"the notebook's process ended with status {self.process.returncode}", log[-8000:])
        error = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
        if error is None and _stamp(self.record) == self.before:
            return _problem(
                f"it ran, but saved no results: the last cell calls save() of "
                f"Experiment({self.run.name!r}, profile=profile, ...)"
            )
        return error

    def stop(self):
        """End the worker and its kernel."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        executed = executed_path(self.figures, self.run.profile, self.run.name)
        executed.with_name(f".{executed.name}").unlink(missing_ok=True)
        self.folder.cleanup()


def result_files(path, record):
    """The files that a record stands for: itself, its rows, its figures."""
    path = Path(path)
    pictures = [path.with_name(f"{stem}.{suffix}") for stem in record["figures"] for suffix in ("png", "pdf")]
    return [path, path.with_suffix(".csv"), *pictures]


def _environment(figures, threads):
    env = os.environ | {
        "HANDFUL_FIGURES": str(figures),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    for name in THREAD_VARIABLES:
        given = os.environ.get(name, "")
        env[name] = str(min(threads, int(given)) if given.isdigit() and int(given) > 0 else threads)
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # a thread that spins beside a busy neighbour costs more than it gives
    # else glibc hands freed arrays back to the system and gets them anew, page by page, in every step
    env.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**30))
    env.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**25))
    env["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # a debugger's warning that no reader of a notebook needs
    return env


def _parameters_cell(notebook):
    return next(i for i, c in enumerate(notebook.cells) if "parameters" in c.get("metadata", {}).get("tags", []))


def _problem(sentence, details=""):
    return {"cell": None, "source": "", "error": sentence, "traceback": details}


def _stamp(path):
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
