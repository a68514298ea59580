"""Which modules of the library a run enters."""

import inspect
import sys
from pathlib import Path

import handful


def files_entered(run):
    """The modules of the library in which a function is called during ``run()``, as paths below the
    package."""
    root = Path(handful.__file__).parent
    entered = set()

    # Called at every call of the run, and at numba's while it compiles: it only takes a name down.
    # What is no function is a class or a module that is being loaded.
    def note(frame, event, arg):
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            entered.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    paths = [Path(name) for name in entered]
    return {path.relative_to(root).as_posix() for path in paths if root in path.parents}
