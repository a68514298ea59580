"""What a run depends on, as one hash: the notebook's code, parameters, and the modules of ours that it can reach.

The modules are those that the notebook imports, those that they import, and so on, wherever in the
file the import stands. A name taken from a package (``from handful import VCGMM``) leads to the module that
defines it, not to all that the package's ``__init__`` offers: importing a module of ours changes nothing
elsewhere, so what a notebook does not reach cannot move its numbers. Where names cannot be followed (a
module imported by a computed name) everything counts. Prose, comments, what docstrings say, layout and the annotations
of functions do not count; a docstring where none was does.
"""

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

PACKAGES = ("handful", "handful_papers")
SOURCES = Path(__file__).resolve().parents[1]
# Data sets count one by one (`data_fingerprint`), so that a new entry does not make every notebook stale. Claims are
# judged after the run, from its rows. Of the machinery only what draws counts: the rest carries rows, it makes none.
_NOT_READ = ("handful/data/registry.toml", "handful_papers/*.py", "*/paper.toml", "*/items/*")
_READ = ("handful_papers/looks.py", "handful_papers/style.py")


def fingerprint(notebook, parameters, sources=SOURCES):
    """SHA-256 of all that decides a run, apart from its data (see `data_fingerprint`).

    Parameters
    ----------
    notebook : Notebook
    parameters : dict, the value of every name in its parameters cell
    sources : pathlib.Path, folder that holds our packages; default: the installed ones
    """
    cells = [c for c in notebook.cells if c["cell_type"] == "code"]
    code = "\n".join(c["source"] for c in cells if "parameters" not in c["tags"])
    magics = [line for line in code.splitlines() if _is_magic(line)]
    parts = {"code": ast.dump(ast.parse(_without_magics(code))), "magics": magics, "parameters": parameters}
    return _digest(parts | _sources(code, sources))


def code_fingerprint(function, sources=SOURCES):
    """SHA-256 of a function of ours and of all that its module can reach.

    Parameters
    ----------
    function : a function defined in a module of our packages; `sweep` tells tasks apart by it

    Raises
    ------
    ValueError
        for a function that no other process could import: of a notebook, a lambda, one defined inside another.
    """
    module, name = function.__module__, function.__qualname__
    if module.partition(".")[0] not in PACKAGES or "<" in name:
        raise ValueError(
            f"{module}.{name} cannot be found by another process: move it to the top level of a module of "
            f"{' or '.join(PACKAGES)}."
        )
    return _digest({"function": name, **_sources(f"import {module}", sources)})


def data_fingerprint(name):
    """Hash of what the registry says of a data set (checksums, sources); None where it is not registered.

    A loader refuses a file whose checksum is not the registry's, so this stands for the data itself.
    """
    from handful.data.registry import ENTRIES

    entry = ENTRIES.get(name.partition("[")[0])
    return None if entry is None else _digest({"entry": repr((entry.sha256, entry.raw, entry.content, entry.rows))})


def reachable(code, sources=SOURCES):
    """Modules of our packages that `code` can reach, as a dict of dotted names to files, sorted.

    Parameters
    ----------
    code : str, the notebook's code cells
    sources : pathlib.Path, folder that holds our packages
    """
    files = _files(Path(sources))
    tree = ast.parse(_without_magics(code))
    if _imports_by_computed_name(tree):
        return files
    wanted, seen = _known(_wants(tree, ""), files), set()
    while wanted:
        for module in _resolve(wanted.pop(), files) - seen:
            seen.add(module)
            path = files[module]
            wants, computed = _asks(path, _stamp(path), module if path.name == "__init__.py" else _parent(module))
            if computed:
                return files
            wanted |= _known(wants, files)
            wanted |= {(parent, None) for parent in _parents(module) if _acts(parent, files)}
    return {name: files[name] for name in sorted(seen)}


def _sources(code, sources):
    sources = Path(sources)
    modules = {name: path for name, path in reachable(code, sources).items() if _counts(path, sources)}
    return {
        "modules": {name: _source_hash(path, _stamp(path)) for name, path in modules.items()},
        "files": {str(p.relative_to(sources)): _file_hash(p) for p in _package_data(modules.values(), sources)},
    }


def _digest(parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def _files(sources):
    found = (p for package in PACKAGES for p in sorted((sources / package).rglob("*.py")))
    return {_dotted(p, sources): p for p in found if "__pycache__" not in p.parts}


def _dotted(path, sources):
    parts = path.relative_to(sources).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _asks(path, stamp, package):
    """What a file asks of our packages, see `_wants`, and whether it imports by computed names."""
    tree = _tree(path, stamp)
    return _wants(tree, package), _imports_by_computed_name(tree)


def _wants(tree, package):
    """What code in a package asks of ours: (module, name) or (module, None) for all of it."""
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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in PACKAGES:
            wants.add((node.value, None))  # perhaps a module started by its name: `python -m handful.x`
    return {(m, n) for m, n in wants if m.partition(".")[0] in PACKAGES}


def _known(wants, files):
    return {(m, n) for m, n in wants if m in files}


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
        elif origin := (_lazy_names(node) or {}).get(name):
            found |= _resolve((origin, name), files)
    return found or {module}  # defined in the package itself, or by its __getattr__


def _parent(module):
    return module.rpartition(".")[0]


def _parents(module):
    parts = module.split(".")
    return [".".join(parts[:k]) for k in range(1, len(parts))]


def _acts(package, files):
    """Whether a package's `__init__` does more than import and define, which its modules might feel."""
    return package in files and any(not _inert(node) for node in _tree(files[package], _stamp(files[package])).body)


def _inert(node):
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
        return True
    if isinstance(node, ast.Assign):
        return _literal(node.value) or _lazy_names(node) is not None
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _lazy_names(node):
    """{name: module} of ``__getattr__, __dir__ = f(..., {name: module})``, names that a package looks up when asked."""
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).strip("()") == "__getattr__, __dir__":
        for argument in getattr(node.value, "args", ()):
            if isinstance(argument, ast.Dict):
                return ast.literal_eval(argument)
    return None


def _literal(node):
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


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
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _package_data(modules, sources):
    """Data files in the folders of the modules: whatever lies beside a module, it may read."""
    folders = {path.parent for path in modules}
    files = sorted(p for f in folders for p in f.iterdir() if p.suffix in {".toml", ".csv", ".json", ".npz", ".txt"})
    return [p for p in files if _counts(p, sources)]


def _counts(path, sources):
    name = path.relative_to(sources)
    return name.as_posix() in _READ or not any(name.match(pattern) for pattern in _NOT_READ)


def _file_hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_magic(line):
    return line.lstrip().startswith(("%", "!"))


def _without_magics(code):
    return "\n".join("pass" if _is_magic(line) else line for line in code.splitlines())
