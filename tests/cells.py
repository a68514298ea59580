"""Runs a notebook's cells in a process forked from one that has imported what all notebooks import.

A fresh kernel would spend ten seconds on imports and on drawings for print. `handful reproduce`, papermill and what is
drawn for print are tested in papers/test_machinery.py.
"""

import multiprocessing
import os

IMPORTED = ("pytest", "torch", "seaborn", "handful_papers.style", "handful_papers.run", "sklearn.linear_model", "numba")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*IMPORTED, "IPython.core.interactiveshell", "handful", "handful.models.torch_model"])


def run_cells(cells, where, folder):
    """Run code, a list of str, in the folder `where`, with records and what is printed going to `folder`.

    Each figure is drawn once.
    """
    process = FORKS.Process(target=_run, args=(cells, where, folder))
    process.start()
    process.join()
    assert process.exitcode == 0, (folder / "printed").read_text(encoding="utf-8")[-3000:]


def _run(cells, where, folder):
    from handful_papers import style
    from IPython.core.interactiveshell import InteractiveShell

    with (folder / "printed").open("wb") as printed:
        os.dup2(printed.fileno(), 1), os.dup2(printed.fileno(), 2)
    os.environ |= {"HANDFUL_RECORDS": str(folder), "MPLBACKEND": "agg", "IPYTHONDIR": str(folder / "ipython")}
    os.chdir(where)
    style.render = lambda fig: fig.draw_without_rendering() or {"png": b""}
    shell = InteractiveShell.instance()
    for source in cells:
        shell.run_cell(source).raise_error()
