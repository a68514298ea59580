"""Notebook sources: which there are, their parameters at each profile, and what a source must be."""

import ast
import datetime
import io
import json
import math
import re
import tokenize
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

PROFILES = ("quick", "laptop", "paper")
MAX_CODE_LINES = 200


class NotebookError(ValueError):
    """A notebook or `profiles.toml` that cannot be run as written; the message says where and why."""


@dataclass(frozen=True)
class Notebook:
    """A notebook's source.

    Attributes
    ----------
    name : "<paper>/<stem>", e.g. "bico/fig06_binary_logistic"
    path : where it is
    cells : list of dict, as in the file, with `source` as one string and `tags`, a list that may be empty
    """

    name: str
    path: Path
    cells: list = field(repr=False)

    @property
    def title(self):
        """The first heading, without its marks; the name where there is none."""
        for cell in self.cells:
            for line in cell["source"].splitlines() if cell["cell_type"] == "markdown" else ():
                if line.startswith("#"):
                    return line.lstrip("#").strip()
        return self.name

    def parameters_cell(self):
        """Index of the cell that is tagged `parameters`. NotebookError unless exactly one code cell is."""
        tagged = [i for i, c in enumerate(self.cells) if "parameters" in c["tags"]]
        if len(tagged) != 1 or self.cells[tagged[0]]["cell_type"] != "code":
            raise NotebookError(f"{self.name}: exactly one code cell must be tagged `parameters`, got {len(tagged)}.")
        return tagged[0]

    def parameters(self):
        """Names and values of the parameters cell.

        Raises
        ------
        NotebookError
            unless exactly one cell is tagged `parameters` and it holds plain ``name = literal`` lines:
            papermill overwrites names only, so a value computed here from another would keep its old value.
        """
        try:
            body = ast.parse(self.cells[self.parameters_cell()]["source"]).body
        except (SyntaxError, RecursionError) as error:
            raise NotebookError(f"{self.name}: the parameters cell is not Python: {error}.") from error
        values = {}
        for node in body:
            where = f"{self.name}, parameters cell, line {node.lineno}: `{ast.unparse(node)}`"
            if isinstance(node, ast.AnnAssign):
                raise NotebookError(f"{where} has an annotation; write plain `name = value`.")
            if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
                raise NotebookError(f"{where} is no plain `name = value`; move it to the next cell.")
            name = node.targets[0].id
            if name in values:
                raise NotebookError(f"{where} sets {name!r} a second time.")
            try:
                values[name] = ast.literal_eval(node.value)
            except (ValueError, TypeError):
                raise NotebookError(
                    f"{where} is computed; a parameter is a literal. Move what is derived to the next cell."
                ) from None
        return values

    def comments(self):
        """Name -> what the comments of the parameters cell say of it: above its line, beside it, and at its entries.

        A comment at an entry of a dict begins with the entry's key.
        """
        source = self.cells[self.parameters_cell()]["source"]
        lines, nodes = source.splitlines(), ast.parse(source).body
        said = {node.targets[0].id: [] for node in nodes}
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            at = token.start[0]
            below = [node for node in nodes if node.end_lineno >= at]
            if token.type == tokenize.COMMENT and below:
                key = re.match(r'\s+"(\w+)":', lines[at - 1])
                said[below[0].targets[0].id].append((f"{key[1]}: " if key else "") + token.string.lstrip("# "))
        return {name: "; ".join(words).replace(",; ", ", ") for name, words in said.items()}


def read_notebook(path, name=None):
    """The `Notebook` in a file; its name defaults to "<folder>/<stem>". NotebookError if unreadable."""
    path = Path(path)
    name = name or f"{path.parent.name}/{path.stem}"
    try:
        cells = [_cell(raw) for raw in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotebookError(f"{name}: {path} is not a notebook of format 4: {error!r}.") from error
    return Notebook(name, path, cells)


def _cell(raw):
    tags = list(raw.get("metadata", {}).get("tags", []))
    return {**raw, "cell_type": str(raw["cell_type"]), "source": "".join(raw["source"]), "tags": tags}


def find_notebooks(folder, only=()):
    """The notebooks `<folder>/<paper>/*.ipynb`, sorted by name.

    Parameters
    ----------
    only : list of str, each a part of "<paper>/<stem>" or a pattern with * and ?, of it or of the stem;
        empty for all notebooks

    Raises
    ------
    NotebookError
        where there are none, or none that one of `only` matches.
    """
    found = [read_notebook(p) for p in sorted(Path(folder).glob("*/*.ipynb"))]
    if not found:
        raise NotebookError(f"no notebooks in {folder}; they are named <paper>/<notebook>.ipynb.")
    chosen = {
        p: [n.name for n in found if p in n.name or any(fnmatch(part, p) for part in (n.name, n.name.split("/")[-1]))]
        for p in only
    }
    for pattern, names in chosen.items():
        if not names:
            raise NotebookError(f"no notebook matches {pattern!r}; there are: {', '.join(n.name for n in found)}.")
    return [n for n in found if not only or any(n.name in names for names in chosen.values())]


@dataclass(frozen=True)
class Run:
    """One notebook at one profile.

    Attributes
    ----------
    parameters : dict, what is put in place of the values in its parameters cell
    minutes : float, how long it should take on 2 cores
    """

    notebook: Notebook
    profile: str
    parameters: dict
    minutes: float

    @property
    def name(self):
        return self.notebook.name

    @property
    def values(self):
        """The value of every name in the parameters cell, as the run sees them."""
        return {**self.notebook.parameters(), **self.parameters}


def read_profiles(folder):
    """`<folder>/profiles.toml`: name -> profile -> {"minutes": expected, **parameters}.

    Raises NotebookError if it is missing, no TOML, or other than that; `not_protocol` holds a list of `names`.
    """
    path = Path(folder) / "profiles.toml"
    if not path.is_file():
        raise NotebookError(f"{path} is missing; it gives each notebook its parameters and minutes per profile.")
    try:
        profiles = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise NotebookError(f"{path}: {error}.") from error
    wrong = []
    for name, entry in profiles.items():
        wanted = list if name == "not_protocol" else dict
        for key, value in entry.items() if isinstance(entry, dict) else [("", entry)]:
            if not (key and isinstance(value, wanted)):
                at = f"[{json.dumps(name)}]{key and ' ' + key}"
                wrong.append(f"{path}: {at} = {value!r}; a {'list' if wanted is list else 'table'} stands there.")
            elif dates := _dates(value):
                wrong.append(f"{path}: [{json.dumps(name)}] {key} holds the date {dates[0]}; write it as a string.")
    if wrong:
        raise NotebookError("\n".join(wrong))
    return profiles


def _dates(value):
    """Every date and time of day in nested values."""
    if isinstance(value, (dict, list)):
        return [date for v in (value.values() if isinstance(value, dict) else value) for date in _dates(v)]
    return [value] if isinstance(value, (datetime.date, datetime.time)) else []


def plan(folder, profile, only=()):
    """What `handful reproduce` runs: the notebooks of `folder`, checked before any of them starts.

    A notebook gets the parameters of its entry; the others keep the values of its cell.

    Returns
    -------
    list of Run

    Raises
    ------
    NotebookError
        listing all that is wrong: a missing entry, an unknown parameter, a parameters cell that papermill
        would not treat as its reader expects.
    """
    profiles, runs, wrong = read_profiles(folder), [], []
    for notebook in find_notebooks(folder, only):
        try:
            runs.append(_run(notebook, profile, profiles))
        except NotebookError as error:
            wrong.append(str(error))
    if wrong:
        raise NotebookError("\n".join(wrong))
    return runs


def _run(notebook, profile, profiles):
    known = notebook.parameters()
    entry = profiles.get(notebook.name, {}).get(profile)
    if entry is None:
        raise NotebookError(f'{notebook.name}: profiles.toml has no ["{notebook.name}".{profile}].')
    given = {k: v for k, v in entry.items() if k != "minutes"}
    minutes = entry.get("minutes")
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes < math.inf:
        raise NotebookError(f'{notebook.name}: ["{notebook.name}".{profile}] needs `minutes` > 0, got {minutes!r}.')
    # Papermill only warns of an unknown name, and the run would keep the old value.
    # Its own reader of the cell loses lines with a second "=" in the comment, so we go by ours.
    if unknown := sorted(set(given) - set(known)):
        raise NotebookError(
            f"{notebook.name}: unknown parameter {', '.join(unknown)} at profile {profile}; "
            f"the parameters cell has: {', '.join(known) or 'none'}."
        )
    return Run(notebook, profile, given, float(minutes))


def reductions(folder, name, parameters):
    """Where a run's parameters are not those of profile `paper`: a list of sentences.

    Parameters
    ----------
    folder : pathlib.Path, the notebooks
    name : str, "<paper>/<notebook>"
    parameters : dict, what the run was given

    Notes
    -----
    What decides how a run goes and not what it finds (processes, device, a cache, the run that is shown) is listed in
    profiles.toml under `not_protocol` and left out.
    """
    profiles = read_profiles(folder)
    cell = read_notebook(Path(folder) / f"{name}.ipynb").parameters()
    paper = cell | profiles.get(name, {}).get("paper", {})
    skipped = {*profiles.get("not_protocol", {}).get("names", [])}
    compared = [key for key in parameters if key in paper and key not in skipped]
    return [sentence for key in compared for sentence in _differences(key, parameters[key], paper[key])]


def _differences(key, value, paper):
    """A sentence for each place where two values of a parameter differ; dicts, and lists of them, are looked into."""
    if isinstance(value, dict) and isinstance(paper, dict):
        pairs = [(f"{key}.{k}", value.get(k), paper.get(k)) for k in {**paper, **value}]
    elif _are_dicts(value) and _are_dicts(paper) and len(value) == len(paper):
        pairs = [(f"{key}[{i}]", *pair) for i, pair in enumerate(zip(value, paper))]
    else:
        return [f"{key} = {_brief(value)} instead of {_brief(paper)}"] if value != paper else []
    return [sentence for pair in pairs for sentence in _differences(*pair)]


def _are_dicts(value):
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _brief(value):
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def lint(folder):
    """What is wrong with the notebook sources in `folder`: a list of sentences, empty if all is well.

    A source has no outputs, one parameters cell of plain literals that holds the quick values, at most
    200 lines of code, and an entry in profiles.toml for each profile; no entry is without its notebook.
    """
    profiles, wrong = read_profiles(folder), []
    notebooks = find_notebooks(folder)
    for notebook in notebooks:
        code = [c for c in notebook.cells if c["cell_type"] == "code"]
        if any(c.get("outputs") or c.get("execution_count") for c in code):
            wrong.append(f"{notebook.name}: has outputs; strip them: nbstripout {notebook.path.name}")
        lines = sum(len(c["source"].splitlines()) for c in code)
        if lines > MAX_CODE_LINES:
            wrong.append(f"{notebook.name}: {lines} lines of code, more than {MAX_CODE_LINES}; move some to handful.")
        for profile in PROFILES:
            try:
                run = _run(notebook, profile, profiles)
            except NotebookError as error:
                wrong.append(str(error))
                continue
            cell = notebook.parameters()
            if profile == "quick" and (differ := [k for k, v in run.parameters.items() if cell[k] != v]):
                wrong.append(f"{notebook.name}: the cell must hold the quick values; it differs in {', '.join(differ)}")
    names = {n.name for n in notebooks}
    profiles = {name: entry for name, entry in profiles.items() if name != "not_protocol"}
    wrong += [f"profiles.toml: {name} is no notebook" for name in profiles if name not in names]
    wrong += [
        f"profiles.toml: {name} has the unknown profile {profile}"
        for name, entry in profiles.items()
        for profile in entry
        if profile not in PROFILES
    ]
    return list(dict.fromkeys(wrong))
