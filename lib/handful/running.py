"""How work runs on a machine: threads of BLAS and OpenMP, memory, the bar that it shows, the
warnings and the advice that it gives."""

import logging
import multiprocessing
import os
import sys
import threading
import warnings
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from threading import Lock
from types import FrameType

from threadpoolctl import ThreadpoolController
from tqdm import tqdm

# up to so many rows an estimator trains with one thread of OpenMP
FEW_ROWS = 5_000
# seconds of work before a bar that nobody asked for is shown, and between two looks of it
DELAY = 30.0
EVERY = 5.0
# This file names the control groups of the process.
GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")

_BLAS_LOCK = Lock()
# how many are inside `one_blas_thread`, in whatever thread; what the last of them restores
_limited = [0, []]


@contextmanager
def one_blas_thread():
    """Context in which BLAS takes one thread: on small matrices several would wait more than they
    work, and sums would depend on their number. The number belongs to the process, so the last to
    leave restores what the first found."""
    with _BLAS_LOCK:
        if _limited[0] == 0:
            _limited[1] = [(library, library.get_num_threads()) for library in _blas()]
            _set_threads((library, 1) for library, _ in _limited[1])
        _limited[0] += 1
    try:
        yield
    finally:
        with _BLAS_LOCK:
            _limited[0] -= 1
            if _limited[0] == 0:
                _set_threads(_limited[1])


@contextmanager
def one_openmp_thread():
    """Context in which compiled loops of other packages, such as scikit-learn's boosting, take one
    thread: on some hundred rows several wait more than they work. The number belongs to the thread
    that asks."""
    # `threadpool_limits` would restore the threads of BLAS as well, which others may have limited.
    with ThreadpoolController().select(user_api="openmp").limit(limits=1):
        yield


def threads_for(n):
    """Context of training an estimator on n rows: `one_openmp_thread` where they are at most
    `FEW_ROWS`."""
    return one_openmp_thread() if n <= FEW_ROWS else nullcontext()


def n_threads():
    """Threads that BLAS may take outside of `one_blas_thread`: what OMP_NUM_THREADS or
    threadpoolctl allows."""
    with _BLAS_LOCK:
        allowed = (
            _limited[1]
            if _limited[0]
            else [(library, library.get_num_threads()) for library in _blas()]
        )
    return max((number for _, number in allowed), default=1)


def _set_threads(numbers):
    for library, number in numbers:
        # threadpoolctl 3.8 obeys the thread that called first, and leaves the calls of others
        # without effect
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)


@cache
def _blas():
    # finding the loaded libraries takes as long as a small selection
    return ThreadpoolController().select(user_api="blas").lib_controllers


def physical_memory():
    """Bytes of memory in this machine, or what the control groups of a container allow; else
    infinity.

    The same in every process that is started from this one.
    """
    limits = [float("inf"), *_limits_of_groups()]
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits)


def _limits_of_groups():
    # Linux: a group is limited by itself and by each of the groups that it is in.
    lines = GROUP.read_text(encoding="utf-8").splitlines() if GROUP.exists() else []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root = GROUPS
            name = "memory.max"
        elif "memory" in controllers.split(","):
            root = GROUPS / "memory"
            name = "memory.limit_in_bytes"
        else:
            continue
        own = root / group.lstrip("/")
        for folder in (own, *own.parents):
            limit = folder / name
            # The word is "max" where there is no limit; a container may not see the groups that it
            # is in.
            text = limit.read_text(encoding="utf-8").strip() if limit.is_file() else "max"
            if text != "max":
                yield int(text)
            if folder == root:
                break


class Bar(tqdm):
    """tqdm's bar on stderr, with the time left: from the start if `verbose`, else after 30 seconds.

    A bar that nobody asked for is wiped when the work ends or is interrupted, and is not shown by
    threads and processes that work for another, so that only the main one speaks. Results never
    depend on it. ``TQDM_DISABLE=1`` in the environment, a variable of tqdm, hides every bar.

    Parameters
    ----------
    iterable : what is gone through, or None for a bar that `update` moves; use it in a `with`
    verbose : bool
    options : `desc`, `total`, `unit` and so on, as tqdm takes them
    """

    # no thread that watches the bars
    monitor_interval = 0

    def __init__(self, iterable=None, *, verbose=False, **options):
        if not verbose:
            options |= dict(delay=DELAY, mininterval=EVERY, miniters=1, leave=False)
            if _works_for_another() or sys.stderr is None:
                options["disable"] = True
        super().__init__(iterable, **options)

    def refresh(self, *args, **options):
        """As tqdm's, but silent until the delay is over, since `reset` and others call it early."""
        early = not self.disable and self.delay and self._time() < self.start_t + self.delay
        return None if early else super().refresh(*args, **options)

    def through(self, iterable):
        """The items of `iterable`; each moves the bar by one."""
        for item in iterable:
            yield item
            self.update()


def _works_for_another():
    is_worker = multiprocessing.parent_process() is not None
    return is_worker or threading.current_thread() is not threading.main_thread()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of what may be wrong, at the line that called this library: the caller's, however deep
    the warning is raised."""
    level = 1
    outermost = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "handful":
            outermost = level
        level += 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=outermost + 1)


# Kinds of advice that were given in this process.
_told: set[str] = set()


def tell_once(kind, line):
    """A line of advice in the log "handful", one of each kind in a process, from the main thread
    alone.

    Advice is what a user may do instead; what may be wrong is a warning.
    ``logging.getLogger("handful").setLevel("ERROR")`` hides it.
    """
    if kind in _told or _works_for_another():
        return
    _told.add(kind)
    logging.getLogger("handful").warning(line)
