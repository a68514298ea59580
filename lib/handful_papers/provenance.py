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

from handful_papers.claims import HOME

# the checkout
ROOT = HOME.parents[1]
# Packages whose version can move a number.
PACKAGES = ("handful", "numpy", "scipy", "scikit-learn", "numba", "torch")
# of data
OWN, PART, STAND_IN, GENERATED = LEVELS = ("the paper's", "part", "stand-in", "generated")


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
    changed = git(
        "status", "--porcelain", "--", "lib", "notebooks", "pyproject.toml", "constraints.txt"
    )
    return (None, None) if sha is None or changed is None else (sha, bool(changed))


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


def level(data, papers_data):
    """The level of a run's data: the lowest of its data sets, and what each of them is.

    Parameters
    ----------
    data : dict of a record, data set name -> dict with sha256 and, where the run took less or
        another set than the paper, rows and instead_of (see `Experiment.use`)
    papers_data : list of the paper's data sets by their names in the registry, as a str, or as a
        dict of `name` and `rows` where the paper took more than the entry holds; empty where it
        generates its own

    Returns
    -------
    dict : kind, one of `LEVELS`; text for a reader, "part: 16 % of Covertype"
    """
    from handful_papers.style import data_name

    wanted = {
        d if isinstance(d, str) else d["name"]: None if isinstance(d, str) else d["rows"]
        for d in papers_data
    }
    found = [_level(name, entry, wanted, data_name) for name, entry in data.items()]
    if all(kind == GENERATED or text == GENERATED for kind, text in found):
        return {"kind": GENERATED, "text": GENERATED}
    if not papers_data:
        texts = dict.fromkeys(text for kind, text in found if kind != GENERATED)
        return {"kind": STAND_IN, "text": f"real data of our choice: {'; '.join(texts)}"}
    kind = max((kind for kind, _ in found), key=LEVELS.index)
    texts = dict.fromkeys(text for one, text in found if one not in (OWN, GENERATED))
    return {
        "kind": kind,
        "text": "the paper's data"
        if kind == OWN
        else ": ".join([kind, "; ".join(texts)][: 1 + bool(texts)]),
    }


def _level(name, entry, wanted, data_name):
    from handful.data.registry import ENTRIES

    base, bracket, _ = name.partition("[")
    known = ENTRIES.get(base)
    if entry.get("instead_of") and wanted:
        return STAND_IN, f"{data_name(base)} for {entry['instead_of']}"
    if entry.get("sha256") is None or (known is not None and known.kind == "generated"):
        return (OWN if base in wanted else GENERATED), GENERATED
    if known is None:
        return (OWN if base in wanted else STAND_IN), data_name(base)
    rows = known.rows + known.test_rows
    whole = base if base in wanted or known.of not in (wanted or ENTRIES) else known.of
    published = (
        wanted.get(whole) or (known.of_rows if whole != base or not wanted else None) or rows
    )
    taken = entry.get("rows") or rows
    share = (
        ""
        if bracket or taken >= published
        else f"{100 * taken / published:.2g} % of {data_name(whole)}"
    )
    if whole not in wanted:
        return STAND_IN, data_name(base) if wanted else share or data_name(base)
    return (PART, share) if share else (OWN, base)


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
