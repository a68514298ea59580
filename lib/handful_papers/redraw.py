"""Draws figures again from the rows on record: a picture that was mended needs no new run.

A notebook's cells that are tagged `figure` read the saved rows, the parameters and what the notebook imports, and
nothing else; so they can be run without the rest.
"""

import ast
import builtins
import contextlib
from dataclasses import dataclass
from pathlib import Path

from handful_papers import provenance
from handful_papers.record import read_record, run_of, write_figure

TAG = "figure"


@dataclass(frozen=True)
class Drawing:
    """What of a notebook draws its figures from its saved rows.

    Attributes
    ----------
    code : str, the notebook's imports, then its cells that are tagged `figure`
    rows : str, the name of the rows that `exp.save` takes
    figures : dict, key of a figure ("" for the first) -> the variable that holds it; those that `code` draws
    missing : list of str, names that `code` reads and that nothing of the above gives
    """

    code: str
    rows: str
    figures: dict
    missing: list


def drawing(notebook):
    """The `Drawing` of a notebook; None where no cell is tagged `figure`."""
    cells = [c for c in notebook.cells if c["cell_type"] == "code" and TAG in c["tags"]]
    if not cells:
        return None
    everything = [node for c in notebook.cells if c["cell_type"] == "code" for node in _body(c["source"])]
    imports = [node for node in everything if isinstance(node, (ast.Import, ast.ImportFrom))]
    code = "\n".join([*map(ast.unparse, imports), *(c["source"] for c in cells)])
    rows, figures = _saved(everything)
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    given = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    given |= {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}
    given |= {node.arg for node in ast.walk(ast.parse(code)) if isinstance(node, ast.arg)}
    given |= {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}
    given |= {"display", rows, *notebook.parameters()}
    missing = sorted({node.id for node in names} - given)
    return Drawing(code, rows, {key: name for key, name in figures.items() if name in given}, missing)


def redraw(path, run):
    """Draw a record's figures again and note the commit, where a picture or a caption comes out otherwise.

    Parameters
    ----------
    path : of the record's JSON; its rows and figures lie beside it
    run : Run, of the record's profile; a parameter that the record does not know, as it is younger, has its value

    Returns
    -------
    list of str : the names of the pictures that changed

    Raises
    ------
    ValueError
        where the notebook's figure cells need more than rows, parameters and imports, or other rows than those.
    """
    import matplotlib.pyplot as plt

    path, notebook = Path(path), run.notebook
    record, plan = read_record(path), drawing(notebook)
    if plan is None:
        return []
    if plan.missing:
        raise ValueError(f"{notebook.name}: its figure cells read {', '.join(plan.missing)}, which no record holds.")
    space = {**run.values, **record["parameters"], plan.rows: run_of(record, path.parent).rows}
    space |= {"display": lambda *_: None}
    with plt.ioff(), contextlib.redirect_stdout(None):
        try:
            exec(compile(plan.code, str(notebook.path), "exec"), space)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{notebook.name}: its rows do not give its figures, run it again: {error!r}") from error
    changed, captions = [], {_name(path, key): text for key, text in space.get("captions", {}).items()}
    captions = record["captions"] | {name: text for name, text in captions.items() if name in record["figures"]}
    unreadable = record.get("unreadable", [])
    for key, variable in plan.figures.items():
        name = _name(path, key)
        before = _bytes(path.with_name(f"{name}.png"))
        unreadable = [sentence for sentence in unreadable if not sentence.startswith(f"{name}: ")]
        unreadable += write_figure(space[variable], path.with_name(name))
        plt.close(space[variable])
        captions.setdefault(name, "")
        if _bytes(path.with_name(f"{name}.png")) != before:
            changed.append(name)
    if changed or captions != record["captions"]:
        sha, dirty = provenance.commit()
        drawn = {"commit": sha, "dirty": dirty, "versions": provenance.versions()}
        record |= {"figures": list(captions), "captions": captions, "unreadable": unreadable, "redrawn": drawn}
        provenance.write_atomically(path, provenance.to_json(record))
    return changed


def _saved(nodes):
    """The names that the notebook gives to its rows and figures, as `exp.save(rows, {"": fig}, ...)` names them."""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "save":
            rows, figures = node.args[:2]
            if isinstance(figures, ast.Dict):
                return rows.id, {key.value: value.id for key, value in zip(figures.keys, figures.values)}
            return rows.id, {"": figures.id}
    raise ValueError("no cell calls exp.save(rows, figures, ...)")


def _name(path, key):
    return f"{path.stem}_{key}" if key else path.stem


def _body(source):
    lines = ("pass" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
    return ast.parse("\n".join(lines)).body


def _bytes(path):
    return path.read_bytes() if path.is_file() else b""
