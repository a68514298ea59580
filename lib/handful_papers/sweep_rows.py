"""A script: the rows of some tasks of sweeps, by the code that the interpreter finds.

It is a file of its own so that `handful audit` can run it with the code of an older commit; of that
it needs `task_rows` and `with_arguments`.
"""

import json
import pickle
import sys
from importlib import import_module
from pathlib import Path


def main(asked, answer):
    """Read sweeps, dicts of function, shared and tasks, from a JSON file, and pickle a list of data
    frames, one for each, into another."""
    sweeps = json.loads(Path(asked).read_text(encoding="utf-8"))
    Path(answer).write_bytes(pickle.dumps([rows_of(**sweep) for sweep in sweeps]))


def rows_of(function, shared, tasks):
    """A data frame of the rows of some tasks, with their arguments."""
    import pandas as pd

    from handful_papers.tasks import task_rows, with_arguments

    module, _, name = function.partition(":")
    call = getattr(import_module(module), name)
    frames = []
    for task in tasks:
        rows = task_rows(call, shared | task)
        if rows:
            frames.append(with_arguments(rows, task))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


if __name__ == "__main__":
    main(*sys.argv[1:])
