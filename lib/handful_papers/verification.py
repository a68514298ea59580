"""What a record vouches for: that the rows, pictures and notebook beside it are what its run left,
of which code."""

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

from handful_papers.claims import HOME
from handful_papers.entries import ROOT
from handful_papers.expected import AUDIT
from handful_papers.parameters import NOTEBOOKS
from handful_papers.provenance import git, to_json, write_atomically
from handful_papers.records import read_record

OLDER = "made before records held hashes of their files"
# What an object says of itself.
SAYINGS = ("__repr__", "__str__")
LOST = "some of its tasks are of a commit that is in no history"
# The packages whose modules may compute rows.
PACKAGES = ("handful", HOME.name)
# This module computes none, though all that save a record import it.
THIS = f"{HOME.name}/verification.py"


def hashes(paths):
    """Name -> SHA-256 of a file's content, for each of some files."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def doubts(record):
    """Why today's code may give other rows than a record's, or nothing vouch for them, as a list of
    words: what `unverified` does not hold against a record that was right in its time."""
    found = [OLDER] if "files" not in record else []
    # A shallow clone, and a checkout without git, cannot tell what the history holds.
    if has_history():
        found += [LOST] if not all(map(in_history, record.get("commits_of_tasks", []))) else []
        found.append(needs_audit(record))
    return [told for told in found if told]


def needs_audit(record):
    """Why the code of today may give other rows than a record's, as words; "" where it cannot: the
    record, or an audit of it that found no difference, was made by this code."""
    # Tasks that an earlier run had finished are of its commit.
    commits = [record["commit"], *record.get("commits_of_tasks", [])]
    of_today = all(has_code_of_today(sha, record["item"]) for sha in commits)
    if of_today:
        return ""
    known = record.get("audit")
    if known is None:
        return "made by older code, and not audited"
    # Where the rows on record are another machine's, those count that its own code gave here.
    moved = known.get("own_code", known["worst"])
    if moved > AUDIT["rtol"]:
        return f"made by older code, and its audit found a difference of {moved:.2g}"
    if not has_code_of_today(known["commit"], record["item"]):
        return "made by older code, and audited by older code"
    return ""


@cache
def has_code_of_today(sha, item):
    """Whether the modules of the library and of the reproduction that a figure's notebook uses, and
    the notebook's code, are today what they were at a commit.

    The texts and rules of claims do not count: the rows on record are judged anew whenever they
    change. Nor does what code says in words (`statements`), nor the prose of the notebook.
    """
    then = sources_at(sha, item)
    if then is None or code_of(then) != code_of(sources_of(item)):
        return False
    modules = [f"lib/{name}" for name in sorted(modules_of(item))]
    moved = git("diff", "--name-only", str(sha), "--", *modules)
    return moved is not None and all(says_the_same(sha, path) for path in moved.splitlines())


@cache
def says_the_same(sha, path):
    """Whether the statements of a module of the checkout are those that it had at a commit."""
    then = git("show", f"{sha}:{path}")
    now = ROOT / path
    if then is None or not now.is_file():
        return False
    return statements(then) == statements(now.read_text(encoding="utf-8"))


def statements(text):
    """What a Python source does, as one str: without layout and what it only says in words, which
    are comments, docstrings, the texts of errors and warnings, and what `SAYINGS` give."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if getattr(node, "name", None) in SAYINGS:
            body.clear()
        elif isinstance(body, list) and any(map(_is_docstring, body[:1])):
            del body[0]
        elif said := _says(node):
            said.args = [given for given in said.args if not _is_text(given)]
    return ast.dump(tree)


def _says(node):
    """The call by which a statement makes its error or warns; None for any other node."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return node.exc
    warns = (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "warn"
    )
    return node if warns else None


def _is_docstring(node):
    return isinstance(node, ast.Expr) and _is_text(node.value)


def _is_text(node):
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


@cache
def modules_of(item):
    """The modules of the library and of the reproduction that a figure's notebook uses, itself or
    through others, and the packages that hold them: a frozenset of paths, such as
    "handful/svm/linear_svm.py"."""
    found = set()
    waiting = set().union(*map(used_by, code_of(sources_of(item))))
    while waiting := waiting - found - {THIS}:
        found |= waiting
        waiting = set().union(*map(_used_by_module, waiting))
    parents = {parent for path in found for parent in Path(path).parents[:-1]}
    return frozenset(found | {f"{parent.as_posix()}/__init__.py" for parent in parents})


def used_by(code):
    """Paths of the modules that a Python source uses: a set of str.

    A name that a package hands on, as `handful` does `BilevelCoreset`, stands for the module that
    defines it, and not for all that the package loads; a package that is imported by its own name
    stands for all of that. A string that is the dotted name of a module counts as an import of it.
    """
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            found |= {_defines(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {_path_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.Constant) and "." in str(node.value):
            found.add(_path_of(str(node.value)))
    return found - {None}


@cache
def _used_by_module(path):
    return used_by((HOME.parent / path).read_text(encoding="utf-8"))


def _path_of(module):
    """The file of a module of `PACKAGES` by its full name, relative to their folder; None where
    there is none."""
    parts = module.split(".")
    if parts[0] not in PACKAGES or not all(map(str.isidentifier, parts)):
        return None
    path = "/".join(parts)
    files = (f"{path}.py", f"{path}/__init__.py")
    return next((name for name in files if (HOME.parent / name).is_file()), None)


def _defines(module, name):
    """The file of the module that defines what is imported from a module under a name."""
    path = _path_of(f"{module}.{name}") or _path_of(module)
    home = _handed_on(path).get(name) if path == _path_of(module) else None
    return path if home is None else _defines(home, name)


@cache
def _handed_on(path):
    """Name -> the module that a package imports it from, at once or when it is asked for; empty for
    what is no package."""
    if path is None or not path.endswith("/__init__.py"):
        return {}
    found = {}
    for node in ast.walk(ast.parse((HOME.parent / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values)
            found |= {k.value: v.value for k, v in pairs if _is_lazy(k, v)}
    return found


def _is_lazy(key, value):
    # An entry of `handful.lazy.lazy_names`: a name and the module that defines it.
    both = isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
    return both and isinstance(value.value, str) and _path_of(value.value) is not None


def vouch_for(path, file):
    """Add the hash of one more file beside a record to it."""
    record = read_record(path)
    record["files"] = record.get("files", {}) | hashes([file])
    write_atomically(path, to_json(record))


def changed(path, record):
    """Names of files that are gone, or not what the run left: a list of str, empty for a record
    without hashes."""
    names = record.get("files", {})
    there = hashes(file for file in map(path.with_name, names) if file.is_file())
    return [name for name, found in names.items() if there.get(name) != found]


def unverified(path, record):
    """Why the files beside a record may not be what a run of its commit left, as words; "" where
    they are, and where the record holds no hashes (see `doubts`)."""
    if "files" not in record:
        return ""
    executed = path.with_suffix(".ipynb")
    wanted = [f"{path.stem}.csv", executed.name, *(f"{stem}.png" for stem in record["figures"])]
    if without := [name for name in wanted if name not in record["files"]]:
        return f"it holds no hash of {', '.join(without)}"
    if moved := changed(path, record):
        return f"{', '.join(moved)}: not what the run left"
    if not has_history():
        return ""
    if record["commit"] is None or not in_history(record["commit"]):
        return "its commit is in no history"
    if sources(executed.read_text(encoding="utf-8")) != sources_at(
        record["commit"], record["item"]
    ):
        return f"{executed.name} is not a run of the notebook at its commit"
    return ""


def has_history():
    """Whether this is a checkout with all its commits."""
    return git("rev-parse", "--is-shallow-repository") == "false"


@cache
def in_history(sha):
    """Whether a commit is the one that is checked out, or one before it."""
    return git("merge-base", "--is-ancestor", sha, "HEAD") is not None


@cache
def sources_at(sha, item):
    """What `sources` gives of a figure's notebook at a commit; None where there was none."""
    text = git("show", f"{sha}:notebooks/{item}.ipynb")
    return None if text is None else sources(text)


def sources_of(item):
    """What `sources` gives of a figure's notebook."""
    return sources((NOTEBOOKS / f"{item}.ipynb").read_text(encoding="utf-8"))


def code_of(cells):
    """The sources of the code cells among what `sources` gives."""
    return [source for kind, source in cells if kind == "code"]


def sources(text):
    """The kind and the source of each cell of a notebook, but for the parameters that papermill put
    in."""
    cells = json.loads(text)["cells"]
    own = [cell for cell in cells if "injected-parameters" not in cell["metadata"].get("tags", ())]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in own]
