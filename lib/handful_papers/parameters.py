"""The parameters of a notebook's run: those of its parameters cell, each known by name and fit for
a record."""

import ast
import json
from difflib import get_close_matches
from pathlib import Path

from handful_papers.entries import ROOT
from handful_papers.provenance import to_json

NOTEBOOKS = ROOT / "notebooks"


def cell_parameters(path):
    """Names and values of a notebook's parameters cell, of plain ``name = literal`` lines:
    papermill replaces names.

    Raises
    ------
    ValueError
        unless exactly one code cell is tagged `parameters` and holds nothing else, and no cell of
        an earlier run of papermill follows it, whose values would be taken in place of its own.
    """
    try:
        cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        (cell,) = [c for c in code if "parameters" in c["metadata"].get("tags", ())]
        injected = [c for c in code if "injected-parameters" in c["metadata"].get("tags", ())]
        body = ast.parse("".join(cell["source"])).body
        lines = [node for node in body if not isinstance(node, ast.Pass)]
        found = {node.targets[0].id: ast.literal_eval(node.value) for node in lines}
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        SyntaxError,
        RecursionError,
    ) as error:
        raise ValueError(
            f"{path}: one code cell is tagged `parameters` and holds `name = literal` lines: "
            f"{error!r}"
        ) from error
    if injected:
        raise ValueError(
            f"{path} holds the parameters of an earlier run by papermill, in a cell tagged "
            "`injected-parameters`: "
            "delete that cell, or take the notebook from git."
        )
    return found


def run_parameters(name, namespace, *, again=False):
    """The parameters of a run: what the names of the parameters cell stand for in the notebook's
    namespace.

    Parameters
    ----------
    name : str, "<paper>/<figure>"
    namespace : dict, `globals()` of the notebook
    again : bool, whether cells have run before, so that the namespace holds more than parameters

    Returns
    -------
    dict, a copy as the record holds it

    Raises
    ------
    ValueError
        for a name that the cell does not have, which papermill only warns of, and for a value that
        no record can hold: NaN, an infinity, a function
    """
    source = NOTEBOOKS / f"{name}.ipynb"
    plain = _plain_names(namespace)
    lower = [key for key in plain if key.islower()]
    declared = list(cell_parameters(source)) if source.is_file() else lower
    unknown = [key for key in plain if _is_misspelt(key, declared)]
    if not again:
        unknown += sorted(set(lower) - set(declared), key=lower.index)
    if unknown:
        raise ValueError(
            f"{name} has no parameter {unknown[0]}. {_hint(unknown[0], declared)}Its cell has: "
            f"{', '.join(declared)}."
        )
    given = {key: namespace[key] for key in declared if key in namespace}
    return {key: as_recorded(f"{name}: parameter {key}", value) for key, value in given.items()}


def _plain_names(namespace):
    return [key for key, value in namespace.items() if not key.startswith("_") and is_plain(value)]


def _hint(key, declared):
    near = get_close_matches(key.lower(), declared, n=1)
    return f"Did you mean {near[0]}? " if near else ""


def _is_misspelt(key, declared):
    """Whether a name is that of a parameter but for capitals.

    Names in capitals alone are constants that the cell after the parameters imports.
    """
    return key not in declared and key.lower() in declared and not key.isupper()


def is_plain(value):
    """Whether a value is None, a truth value, a number or a text, or a list or a dict of such."""
    if isinstance(value, dict):
        return all(isinstance(k, str) for k in value) and all(map(is_plain, value.values()))
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def as_recorded(what, value):
    """A value as a record holds it, arrays and tuples as lists; a ValueError names `what` JSON
    cannot hold."""
    try:
        text = to_json(value)
        text.encode("utf-8")
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{what} = {value!r:.80} cannot stand in a record, which holds finite numbers: {error}"
        ) from error
    return json.loads(text)
