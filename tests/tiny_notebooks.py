"""A checkout with tiny notebooks, for tests of the runner, the report and the command line."""

import json
import textwrap

PARAMETERS = 'profile = "quick"\nn = 3  # points; the paper: n = 10\nseed = 0\n'

# Leaves the record that `Experiment.save` leaves, without the seconds that importing handful takes.
SAVE = """
import json, os, pathlib
folder = pathlib.Path(os.environ["HANDFUL_FIGURES"], profile, "demo")
folder.mkdir(parents=True, exist_ok=True)
record = dict(item="demo/NAME", profile=profile, parameters=dict(n=n, seed=seed), seeds=[seed],
              versions={}, commit=None, dirty=None, data={}, seconds=1.0,
              threads=int(os.environ["NUMBA_NUM_THREADS"]),
              machine=dict(cpus=2, architecture="x86_64", system="Linux"), reductions=[], figures=[],
              facts={}, captions={}, claims=[])
(folder / "NAME.csv").write_text("method,seed,value\\nuniform,0,1.5\\n")
(folder / "NAME.json").write_text(json.dumps(record))
"""


def cell(source, *, tags=(), kind="code"):
    """One notebook cell."""
    out = {
        "cell_type": kind,
        "metadata": {"tags": list(tags)} if tags else {},
        "source": textwrap.dedent(source),
    }
    return out | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def write_notebook(root, name, *sources, parameters=PARAMETERS, title="A demonstration"):
    """`<root>/notebooks/<name>.ipynb` with a title, a parameters cell and one code cell per source."""
    cells = [cell(f"# {title}", kind="markdown"), cell(parameters, tags=["parameters"]), *map(cell, sources)]
    path = root / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    return path


def saving(name, *sources, before=""):
    """Code cells of a notebook that leaves a record under `name`."""
    return [*sources, before + SAVE.replace("NAME", name.split("/")[1])]


def write_checkout(root, profiles):
    """A folder that counts as a checkout; `profiles` is the text of profiles.toml."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text('[project]\nname = "handful"\n')
    (root / "notebooks").mkdir(exist_ok=True)
    (root / "notebooks" / "profiles.toml").write_text(profiles)
    return root


def profiles_for(*names):
    """profiles.toml with all three profiles of each notebook; n is 3 at quick, 5 at laptop, 10 at paper."""
    values = "quick = { minutes = 0.1 }\nlaptop = { minutes = 1, n = 5 }\npaper = { minutes = 2, n = 10 }\n"
    return "".join(f'["{name}"]\n{values}' for name in names)
