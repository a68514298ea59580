"""`Bar`: what long work shows while it runs."""

import logging
import multiprocessing
import sys
import threading

from tqdm import tqdm

# seconds of work before a bar that nobody asked for is shown, and between two looks of it
DELAY = 30.0
EVERY = 5.0


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


# Kinds of advice that were given in this process.
_told = set()


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
