"""Runs notebooks, each in a process of its own, and remembers which need not run again.

A run is remembered in ``figures/<profile>/<paper>/.state/<notebook>.json``, written when the notebook has
finished; whatever is killed, what had finished stays finished. A lock beside it lets one process at a time run the
notebook: others wait, and then find it done.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from handful_papers import provenance
from handful_papers.fingerprint import data_fingerprint
from handful_papers.kept import (
    committed_copy,
    executed_path,
    problem,
    read_results,
    result_files,
    run_key,
    sha256,
    state_path,
    up_to_date,
)
from handful_papers.slim import slim

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_POLL = 0.1  # seconds between two looks at the processes
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def reproduce(runs, *, figures, jobs=1, force=False, limit=10.0, watch=None):
    """Run notebooks that are not up to date; one that fails does not stop the others.

    SIGTERM and SIGHUP end the run as Ctrl-C does: in order, with an outcome for every notebook.

    Parameters
    ----------
    runs : list of Run, from `notebooks.plan`
    figures : pathlib.Path, where results go; executed copies go to its ``notebooks/``
    jobs : int, notebooks at a time; each may use ``cores // jobs`` threads
    force : run what is up to date, too
    limit : float, how many times its expected minutes a notebook may take, see `time_limit`; math.inf for no limit
    watch : None or a function of two lists, called often: outcomes so far, and (run, seconds, progress) under way.
        `progress` holds done, total and left (seconds) of the notebook's sweep, or is None; `seconds` is None for a
        notebook that another process is running, after which it is its turn here

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
    with _signals() as caught:
        try:
            while (waiting or active) and not caught:
                taken = []
                for run in list(waiting):
                    if len(active) == jobs or caught:
                        break
                    begun = _begin(run, figures, force, limit, threads=max(1, n_cores() // jobs))
                    if begun is None:
                        taken.append((run, None, None))
                        continue
                    waiting.remove(run)
                    if isinstance(begun, Outcome):
                        outcomes[run.name] = begun
                    else:
                        active.append(begun)
                watch(list(outcomes.values()), [(w.run, w.seconds, w.progress) for w in active] + taken)
                time.sleep(_POLL)
                for worker in list(active):
                    if worker.seconds > worker.limit:
                        worker.end()
                    if worker.process.poll() is not None:
                        outcomes[worker.run.name] = worker.finish()
                        active.remove(worker)
        finally:
            for worker in active:
                worker.end()
                worker.close()
    begun = {worker.run.name: Outcome(worker.run, "interrupted") for worker in active}
    outcomes = {run.name: Outcome(run, "not started") for run in runs} | begun | outcomes
    watch(list(outcomes.values()), [])
    return [outcomes[run.name] for run in runs]


@contextlib.contextmanager
def _signals():
    """A list that takes in the signals that would end this process; what it ignores, as under nohup, stays ignored."""
    caught, before = [], {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda number, frame: caught.append(number))
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _begin(run, figures, force, limit, threads):
    """A `_Worker`, or an `Outcome` where nothing is to run or can start; None while another process runs it."""
    try:
        lock = _lock(state_path(figures, run.profile, run.name).with_suffix(".lock"))
        if lock is None:
            return None
        if not force and (state := up_to_date(run, figures)):  # another process has run it meanwhile
            lock.close()
            return Outcome(run, "unchanged", state["seconds"])
        return _Worker(run, figures, lock, limit, threads)
    except OSError as error:
        return Outcome(run, "failed", error=problem(f"it cannot start: {error}"))


def _lock(path):
    """An open file that holds the lock until it is closed here and in the worker; None where another has the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "ab")  # noqa: SIM115 - open as long as the lock is held
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        pass  # a file system without locks, as on some clusters: there, nobody waits
    return file


def time_limit(run, limit):
    """Minutes after which a run is ended: `limit` times its expected minutes, counted as one at least."""
    return limit * max(1.0, run.minutes)


def n_cores():
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """One notebook under way, in a folder of its own for all that is temporary."""

    def __init__(self, run, figures, lock, limit, threads):
        self.run, self.figures, self.lock = run, figures, lock
        self.limit = 60 * time_limit(run, limit)
        self.scratch = tempfile.TemporaryDirectory(prefix="handful-", ignore_cleanup_errors=True)
        self.folder = Path(self.scratch.name)
        self.key = run_key(run)
        self.record = figures / run.profile / f"{run.name}.json"
        self.before = _stamp(self.record)
        self.start = time.perf_counter()
        job = {
            "notebook": str(run.notebook.path.resolve()),
            "parameters": run.parameters,
            "n_before_injected": run.notebook.parameters_cell(),
            "folder": str(self.folder),
        }
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(figures, threads, self.folder) | {"HANDFUL_PROFILE": run.profile},
                start_new_session=True,  # Ctrl-C is the runner's to handle
                pass_fds=[lock.fileno()],  # should the runner be killed, the turn lasts until the kernel has ended
            )
        with contextlib.suppress(BrokenPipeError):  # it died at once: `finish` finds no outcome and says so
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    @property
    def seconds(self):
        return time.perf_counter() - self.start

    @property
    def progress(self):
        """What the notebook's sweep last told of itself (see `sweep`), None where it has told nothing."""
        try:
            return json.loads((self.folder / "progress.json").read_text(encoding="utf-8"))
        except OSError:
            return None

    def finish(self):
        """Remember how it went, and tell."""
        seconds, error = round(self.seconds, 1), self._error()
        # A source edited under way: who knows which version ran. No key, so that it runs again.
        state = {"key": self.key if self.key == run_key(self.run) else None, "data": {}, "results": {}}
        try:
            where = self.figures, self.run.profile, self.run.name
            if (executed := self.folder / "executed.ipynb").is_file():
                provenance.write_atomically(executed_path(*where), executed.read_bytes())
                if not error and (copy := committed_copy(*where)):
                    provenance.write_atomically(copy, slim(executed.read_text(encoding="utf-8")))
            if not error:
                record = read_results(self.record)
                state["data"] = {name: data_fingerprint(name) for name in record["data"]}
                state["results"] = {
                    str(path.relative_to(self.figures / self.run.profile)): sha256(path)
                    for path in result_files(self.record, record)
                }
        except (OSError, ValueError) as reason:
            error = error or problem(f"its results cannot be kept: {reason}")
        status = "failed" if error else "done"
        state |= {"status": status, "seconds": seconds, "minutes": self.run.minutes, "error": error}
        try:
            provenance.write_atomically(
                state_path(self.figures, self.run.profile, self.run.name), provenance.to_json(state)
            )
        except OSError as reason:
            error = error or problem(f"that it ran cannot be written down: {reason}")
        self.close()
        return Outcome(self.run, "failed" if error else "done", seconds, error)

    def _error(self):
        """What the notebook's process tells of a failure, or its silence; None where all went well."""
        if self.seconds > self.limit:
            return problem(
                f"it was ended at its limit of {self.limit / 60:.3g} min, for the {self.run.minutes:g} min that "
                "profiles.toml expects; what its sweeps had finished is kept, and a larger --limit gives it more time"
            )
        try:
            error = json.loads((self.folder / "outcome.json").read_text(encoding="utf-8"))
        except OSError:
            log = self.folder / "log"
            told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
            return problem(f"the notebook's process ended with status {self.process.returncode}", told[-8000:])
        if error is None and _stamp(self.record) == self.before:
            return problem(
                f"it ran, but saved no results: the last cell calls save() of Experiment({self.run.name!r}, globals())"
            )
        return error

    def end(self):
        """End the worker and its kernel."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self):
        """Give back what an ended worker held: its pipe, its folder, its turn."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.scratch.cleanup()
        self.lock.close()


def _environment(figures, threads, folder):
    env = os.environ | dict.fromkeys(("TMPDIR", "JOBLIB_TEMP_FOLDER", "JUPYTER_RUNTIME_DIR"), str(folder))
    env |= {
        "HANDFUL_FIGURES": str(figures),
        "HANDFUL_PROGRESS": str(folder / "progress.json"),
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


def _stamp(path):
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
