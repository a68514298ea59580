"""Runs one notebook in a process of its own; started by `runner`, as a script.

As a script, not as a module of the package: importing the library would add its import time to every
notebook. Input: one JSON line on stdin, which then stays open; when it closes, the runner is gone (killed,
or stopped by Ctrl-C), and the worker takes its kernel and its temporary folder down with it. Output, in that folder:
`executed.ipynb`, and `outcome.json` with null or where and how the notebook failed.
"""

import json
import os
import re
import shutil
import sys
import threading
import traceback
from pathlib import Path

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def main():
    """Execute the notebook of the job that stands, as JSON, in the first line of standard input."""
    stdin = open(0, "rb", buffering=0)  # noqa: SIM115 - open until the process ends
    job = json.loads(stdin.readline())
    folder = Path(job["folder"])
    threading.Thread(target=_end_with_runner, args=(stdin, folder), daemon=True).start()
    error = _execute(job, folder)
    outcome = folder / "outcome.json"
    outcome.with_suffix(".part").write_text(json.dumps(error), encoding="utf-8")
    os.replace(outcome.with_suffix(".part"), outcome)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the thread still reads stdin, which a normal exit would wait for


def _end_with_runner(stdin, folder):
    stdin.read()
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _execute(job, folder):
    """Run the notebook; None, or where and how it failed."""
    # Without it jsonschema leaves out a check of addresses, which notebooks have none of; its grammar takes a second.
    sys.modules.setdefault("rfc3987_syntax", None)
    from papermill import PapermillExecutionError, execute_notebook

    try:
        _use_own_kernel(folder)
        execute_notebook(
            job["notebook"],
            str(folder / "executed.ipynb"),
            parameters=job["parameters"],
            kernel_name="python3",
            language="python",  # a stripped notebook need not say
            cwd=str(Path(job["notebook"]).parent),
            progress_bar=False,
            start_timeout=300,  # seconds; a busy machine is slow to start
            log_output=False,
        )
        return None
    except PapermillExecutionError as error:
        return _where(error, job["n_before_injected"])
    except Exception as error:  # a dead kernel, a full disk: whatever it was belongs into the report
        return {
            "cell": None,
            "source": "",
            "error": f"{type(error).__name__}: {error}".strip(),
            "traceback": traceback.format_exc(),
        }


def _where(error, n_before_injected):
    cell = error.cell_index + 1  # as a reader counts
    if error.cell_index > n_before_injected:
        cell -= 1  # papermill put a cell of its own before it
    return {
        "cell": cell,
        "source": error.source,
        "error": f"{error.ename}: {error.evalue}",
        "traceback": ANSI.sub("", "\n".join(error.traceback)),
    }


def _use_own_kernel(folder):
    """Make "python3" mean this interpreter, whatever kernels are installed on the machine."""
    from ipykernel.kernelspec import write_kernel_spec

    (folder / "kernels").mkdir()
    write_kernel_spec(folder / "kernels" / "python3")
    os.environ["JUPYTER_PATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("JUPYTER_PATH")])])


if __name__ == "__main__":
    main()
