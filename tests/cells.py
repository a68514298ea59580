"""Runs a notebook's cells, or the command `handful`, in a process forked from one that has imported
what they need.

A fresh kernel would spend ten seconds on imports and on drawings for print. Kernels, and what is
drawn for print, are tested in papers/test_machinery.py.
"""

import multiprocessing
import os
import sys
from types import SimpleNamespace

IMPORTED = (
    "pytest",
    "torch",
    "seaborn",
    "handful_papers.style",
    "handful_papers.run",
    "sklearn.linear_model",
    "numba",
)
IMPORTED += (
    "papermill",
    "IPython.core.interactiveshell",
    "handful.cli",
    "handful.models.torch_model",
)
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(list(IMPORTED))


def run_cells(cells, where, folder):
    """Run code, a list of str, in the folder `where`, with records and what is printed going to
    `folder`.

    Each figure is drawn once.
    """
    done = _forked(_run, cells, where, folder, printed=folder / "printed")
    assert done.returncode == 0, done.stdout[-3000:]


def run_handful(lib, arguments, environment, printed):
    """What the command `handful` gives and prints with the packages in the folder `lib`, its errors
    too."""
    return _forked(_handful, lib, arguments, environment, printed=printed)


def _forked(run, *arguments, printed):
    process = FORKS.Process(target=_print_to, args=(printed, run, *arguments))
    process.start()
    process.join()
    return SimpleNamespace(returncode=process.exitcode, stdout=printed.read_text(encoding="utf-8"))


def _print_to(printed, run, *arguments):
    with printed.open("wb") as file:
        os.dup2(file.fileno(), 1), os.dup2(file.fileno(), 2)
    run(*arguments)


def _run(cells, where, folder):
    from handful_papers import style
    from handful_papers.tasks import Launch
    from IPython.core.interactiveshell import InteractiveShell

    os.environ |= Launch(folder=str(folder)).as_environment() | {
        "MPLBACKEND": "agg",
        "IPYTHONDIR": str(folder / "ipython"),
    }
    os.chdir(where)
    style.render = lambda fig: fig.draw_without_rendering() or {"png": b""}
    shell = InteractiveShell.instance()
    for source in cells:
        shell.run_cell(source).raise_error()


def _handful(lib, arguments, environment):
    from handful import cli

    for name in [name for name in sys.modules if name.partition(".")[0] == "handful_papers"]:
        del sys.modules[name]
    sys.path.insert(0, str(lib))
    os.environ |= environment
    sys.exit(cli.main(arguments))
