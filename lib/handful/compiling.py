"""The line "compiling, once": numba compiles each algorithm at its first call, and keeps the result on disk."""

import gc
import sys
from time import perf_counter

from numba.core import event

PATIENCE = 1.0  # seconds of compiling after which the line is written


class Notice(event.Listener):
    """Listens to numba, and writes one line to standard error when this package's functions take long to compile.

    While they do, Python looks for no cyclic garbage: a compiler makes millions of objects, and going through them
    again and again takes a twelfth of its time.
    """

    def __init__(self):
        self.seconds, self._depth, self._said = 0.0, 0, False

    def quiet(self):
        """Write nothing from now on."""
        self._said = True

    def on_start(self, what):
        """A function, perhaps one that another one calls, is being compiled."""
        if self._depth == 0:
            if not what.data["dispatcher"].py_func.__module__.startswith("handful."):
                return
            self._start = perf_counter()
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1
        self._say(self.seconds + perf_counter() - self._start)

    def on_end(self, what):
        """That function is compiled."""
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0:
            if self._collects:
                gc.enable()
            self.seconds += perf_counter() - self._start
            self._say(self.seconds)

    def _say(self, seconds):
        if seconds > PATIENCE and not self._said:
            self._said = True
            sys.stderr.write("handful: compiling, once (`handful warmup` compiles everything beforehand)\n")


NOTICE = Notice()
event.register("numba:compile", NOTICE)
