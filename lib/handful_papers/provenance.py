"""What results came from: code, versions, machine, data; and how they are written."""

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from handful_papers.entries import ROOT

# Packages whose version can move a number.
PACKAGES = ("handful", "numpy", "scipy", "scikit-learn", "numba", "torch")
# What a run is computed from, as git knows it.
CODE = ("lib", "notebooks", "profiles", "pyproject.toml", "constraints.txt")


def expected_hash(name):
    """SHA-256 of a figure's expected quick numbers; None where there are none yet."""
    path = ROOT / "tests" / "expected" / f"{name}.csv"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def versions(packages=PACKAGES):
    """Versions of python and of what computes, without importing any of it; absent packages are
    left out."""
    found = {"python": platform.python_version()}
    for package in packages:
        # torch is optional
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def commit():
    """The checkout's commit and whether its code differs from it: (sha or None, dirty or None
    outside git).

    Only what computes counts as code, so that results being rewritten do not make each other dirty.
    """
    sha = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--", *CODE)
    if sha is None or changed is None:
        return None, None
    return sha, bool(changed)


def git(*args):
    """What git prints for a command in the checkout; None where it cannot be asked."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def machine():
    """What one needs to know of the machine to read a time: processor kind and count, no names."""
    return {"cpus": os.cpu_count(), "architecture": platform.machine(), "system": platform.system()}


def threads():
    """How many threads numerical code may use: the largest of the loaded thread pools."""
    from threadpoolctl import threadpool_info

    return max([1, *(pool["num_threads"] for pool in threadpool_info())])


def write_atomically(path, content):
    """Write bytes or text so that `path` holds either the old content or all of the new."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_json(value):
    """JSON text, keys in the order given, numpy scalars and arrays as numbers and lists; NaN is an
    error."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=plain) + "\n"


def plain(value):
    """What JSON writes for a value that it does not know: numpy scalars and arrays as numbers and
    lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"cannot write {value!r} of type {type(value).__name__} to JSON.")
