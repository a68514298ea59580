"""The line "compiling, once": numba compiles each algorithm at its first call, and keeps the result on disk."""

import sys
from time import perf_counter

from numba.core import event

PATIENCE = 1.0  # seconds of compiling after which the line is written


class Notice(event.Listener):
    """Listens to numba, and writes one line to standard error when this package's functions take long to compile."""

    def __init__(self):
        self.seconds, self._depth, self._said = 0.0, 0, False

    def on_start(self, what):
        """A function, perhaps one that another one calls, is being compiled."""
        if self._depth or what.data["dispatcher"].py_func.__module__.startswith("handful."):
            self._start = self._start if self._depth else perf_counter() - self.seconds
            self._depth += 1
            self._say()

    def on_end(self, what):
        """That function is compiled."""
        if self._depth:
            self._depth -= 1
            self._say()

    def _say(self):
        self.seconds = perf_counter() - self._start
        if self.seconds > PATIENCE and not self._said:
            self._said = True
            sys.stderr.write("handful: compiling, once; the result is kept on disk\n")


event.register("numba:compile", Notice())
