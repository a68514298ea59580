"""Where results go, and what they came from: code, versions, machine."""

import json
import os
import platform
import subprocess
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path

# Packages whose version can move a number.
PACKAGES = ("handful", "numpy", "scipy", "scikit-learn", "numba", "torch")


def find_root(start=None):
    """The checkout that holds `start` (default: the working directory), or None.

    The checkout is the nearest folder upwards whose pyproject.toml names the project "handful".
    """
    start = Path.cwd() if start is None else Path(start).resolve()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            try:
                project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
            except tomllib.TOMLDecodeError:
                continue  # someone else's broken file on the way up is not ours to report
            if project.get("name") == "handful":
                return folder
    return None


def output_root():
    """The folder for results: $HANDFUL_FIGURES, else the checkout's figures/, else ./figures."""
    if named := os.environ.get("HANDFUL_FIGURES"):
        return Path(named).expanduser().resolve()
    return (find_root() or Path.cwd()) / "figures"


def versions():
    """Versions of python and of what computes, without importing any of it; absent packages are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # torch is optional
    return found


def commit():
    """The checkout's commit and whether its code differs from it: (sha or None, dirty or None outside git).

    Only what computes counts as code, so that results being rewritten do not make each other dirty.
    """
    root = find_root()
    if root is None:
        return None, None
    try:
        sha = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", "lib", "notebooks", "pyproject.toml", "constraints.txt")
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return sha, bool(changed)


def _git(root, *args):
    done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def threads():
    """How many threads numerical code may use: the largest of the loaded thread pools."""
    import numba
    from threadpoolctl import threadpool_info

    return max([numba.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())])


def machine():
    """What one needs to know of the machine to read a time: processor kind and count, no names."""
    return {"cpus": os.cpu_count(), "architecture": platform.machine(), "system": platform.system()}


def write_atomically(path, content):
    """Write bytes or text so that `path` holds either the old content or all of the new."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode("utf-8") if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def to_json(value):
    """JSON text, keys in the order given, numpy scalars and arrays as numbers and lists; NaN is an error."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=plain) + "\n"


def plain(value):
    """What JSON writes for a value that it does not know: numpy scalars and arrays as numbers and lists."""
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write {value!r} of type {type(value).__name__} to JSON.")
