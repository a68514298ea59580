"""What a run depends on, as one hash: notebook source, parameters, and the library modules it can reach.

The modules are those that the notebook imports, those that they import, and so on, wherever in the
file the import stands. A name taken from a package (``from handful import VCGMM``) leads to the module that
defines it, not to all that the package's ``__init__`` offers: importing a module of ours changes nothing
elsewhere, so what a notebook does not reach cannot move its numbers. Where names cannot be followed (a
module imported by a computed name) everything counts. Comments, docstrings and layout do not count.
"""

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

PACKAGE = "handful"
# Asked for by data set (`data_fingerprint`), so that a new entry does not make every notebook stale.
_BY_ENTRY = {"handful/data/registry.toml"}
# Read by the runner's and the report's side only.
_NOT_READ = {"handful/experiments/catalogue.toml"}


def fingerprint(notebook, parameters, root=None):
    """SHA-256 of all that decides a run, apart from its data (see `data_fingerprint`).

    Parameters
    ----------
    notebook : Notebook
    parameters : dict, all values of its parameters cell at the profile
    root : pathlib.Path, folder of the package `handful`; default: the installed one
    """
    cells = [[c["cell_type"], c["source"], c.get("metadata", {}).get("tags", [])] for c in notebook.cells]
    root = Path(__file__).resolve().parents[1] if root is None else Path(root)
    code = "\n".join(c["source"] for c in notebook.cells if c["cell_type"] == "code")
    modules = reachable(code, root)
    parts = {
        "cells": cells,
        "parameters": parameters,
        "modules": {name: _source_hash(path, _stamp(path)) for name, path in modules.items()},
        "files": {str(p.relative_to(root)): _file_hash(p) for p in _package_data(modules.values(), root)},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def data_fingerprint(name):
    """Hash of what the registry says of a data set (checksums, sources); None where it is not registered.

    A loader refuses a file whose checksum is not the registry's, so this stands for the data itself.
    """
    from handful.data.registry import ENTRIES

    entry = ENTRIES.get(name.partition("[")[0])
    return None if entry is None else hashlib.sha256(repr(entry).encode()).hexdigest()


def reachable(code, root):
    """Modules of the package that `code` can reach, as a dict of dotted names to files, sorted.

    Parameters
    ----------
    code : str, the notebook's code cells
    root : pathlib.Path, folder of the package
    """
    files = {_dotted(p, root): p for p in sorted(Path(root).rglob("*.py")) if "__pycache__" not in p.parts}
    tree = ast.parse(_without_magics(code))
    if _imports_by_computed_name(tree):
        return files
    wanted, seen = _wants(tree, "", files), set()
    while wanted:
        for module in _resolve(wanted.pop(), files) - seen:
            seen.add(module)
            tree = _tree(files[module], _stamp(files[module]))
            if _imports_by_computed_name(tree):
                return files
            wanted |= _wants(tree, module, files)
            wanted |= {(parent, None) for parent in _parents(module) if _acts(parent, files)}
    return {name: files[name] for name in sorted(seen)}


def _dotted(path, root):
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _wants(tree, module, files):
    """What a module asks of the package: (module, name) or (module, None) for all of it."""
    package = module if module in files and files[module].name == "__init__.py" else module.rpartition(".")[0]
    wants = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wants |= {(a.name, None) for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*base, source] if source else base)
            wants |= {(source, None if a.name == "*" else a.name) for a in node.names}
        elif isinstance(node, ast.Constant) and node.value in files and node.value != PACKAGE:
            wants.add((node.value, None))  # a module started by its name: `python -m handful.x`
    return {(m, n) for m, n in wants if m.partition(".")[0] == PACKAGE}


def _resolve(want, files):
    """The modules that (module, name) leads to, through the re-exports of packages."""
    module, name = want
    if module not in files:
        return set()
    if name is None or files[module].name != "__init__.py":
        return {module}
    found = {f"{module}.{name}"} & set(files)
    for node in _tree(files[module], _stamp(files[module])).body:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module != module:
            for origin in (a.name for a in node.names if (a.asname or a.name) == name):
                found |= _resolve((node.module, origin), files)
    return found or {module}  # defined in the package itself, or by its __getattr__


def _parents(module):
    parts = module.split(".")
    return [".".join(parts[:k]) for k in range(1, len(parts))]


def _acts(package, files):
    """Whether a package's `__init__` does more than import and define, which its modules might feel."""
    inert = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    for node in _tree(files[package], _stamp(files[package])).body if package in files else ():
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        listing = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "NEED_TORCH")
        if not (docstring or listing or isinstance(node, inert)):
            return True
    return False


def _imports_by_computed_name(tree):
    named = {"import_module", "__import__", "exec", "run_module", "run_path"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            literal = node.args and isinstance(node.args[0], ast.Constant) and called == "import_module"
            if called in named and not literal:  # a literal name is found as a string
                return True
    return False


def _stamp(path):
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@cache
def _tree(path, stamp):
    return ast.parse(path.read_bytes())


@cache
def _source_hash(path, stamp):
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                first.value.value = ""
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _package_data(modules, root):
    """Data files in the folders of the modules: whatever lies beside a module, it may read."""
    folders = {path.parent for path in modules}
    files = sorted(p for f in folders for p in f.iterdir() if p.suffix in {".toml", ".csv", ".json", ".npz", ".txt"})
    return [p for p in files if p.relative_to(root.parent).as_posix() not in _BY_ENTRY | _NOT_READ]


def _file_hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_magics(code):
    return "\n".join("pass" if line.lstrip().startswith(("%", "!")) else line for line in code.splitlines())
