"""Files: where they are looked for, how they are checked, downloaded and kept.

What is checked is always the content: the arrays of a file must have the shapes, the labels and the checksums
(`content_sha256`) that the registry states. Where the registry knows the checksum of a ready-made `.npz`, that is
enough to open it; any other file must hold arrays that the registry knows in full. Only for a set of which the registry
knows neither does a stamp count: the checksum that this module wrote into `data_folder()` beside a file that it built
there from checked originals.
"""

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from handful.data.bounded import check_size, read_npz
from handful.data.formats import FORMATS, READ_ERRORS, decode, labels_of, misfits, strangers

ABANDONED = 3 * 24 * 3600  # seconds after which an unfinished download counts as left behind
CHECKOUT = Path(__file__).resolve().parents[3]


class MissingDataError(FileNotFoundError):
    """A data set is neither on this machine nor to be had; the message says how to get it."""


class BadFileError(ValueError):
    """A file does not hold what the registry says it must; the message names the file."""


def data_folder():
    """Where files are kept: `data/` of the repository, or a cache folder of the user's if there is none."""
    if (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / "data" / "README.md").is_file():
        return CHECKOUT / "data"
    import pooch

    return Path(pooch.os_cache("handful"))


def folders():
    """The folders that are looked through, in order: `data_folder()`, then the one $HANDFUL_DATA names.

    Raises
    ------
    MissingDataError
        if $HANDFUL_DATA names something that is not a folder.
    """
    named = os.environ.get("HANDFUL_DATA")
    if not named:
        return [data_folder()]
    if not Path(named).is_dir():
        raise MissingDataError(f"HANDFUL_DATA is {named!r}, which is not a folder: correct it or unset it.")
    return [data_folder(), Path(named)]


def find(filename):
    """The first of `folders()` that holds `filename`, as a path; None where none does."""
    return next((folder / filename for folder in folders() if (folder / filename).is_file()), None)


def file_sha256(path):
    """SHA-256 of a file, as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_sha256(*arrays):
    """SHA-256 of the arrays' dtypes, shapes and values in C order, whatever file they came from."""
    digest = hashlib.sha256()
    for values in map(np.ascontiguousarray, arrays):
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        digest.update(values.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def read(entry, *, verbose=False):
    """The arrays of `entry` and the SHA-256 of the file they were read from, fetched first if need be.

    Returns
    -------
    arrays : dict; features in the entry's dtype, all other integers int64
    sha256 : str

    Raises
    ------
    MissingDataError, BadFileError
    """
    return check(locate(entry, verbose=verbose), entry)


def locate(entry, *, verbose=False):
    """Path of the `.npz` of `entry`, built from downloaded originals if there is none; an old one is not checked."""
    return find(entry.filename) or _build(entry, verbose=verbose)


def check(path, entry):
    """The arrays and the SHA-256 of a ready-made file, as `read` gives them.

    Raises
    ------
    BadFileError
        if the file is not what the registry says, or if neither the registry nor a stamp vouches for all of it.
    """
    expected, sha256 = entry.sha256 or stamp(path), None
    try:
        check_size(path, entry.ready_bytes)
        with open(path, "rb") as file:  # once, so that what is read is what was checked
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if sha256 != expected and not entry.content:
                raise ValueError("nothing else is known of its content.")
            arrays = decode(read_npz(file, entry.ready_bytes))
        arrays = _checked(arrays, entry)
        if ("X" in arrays) == ("X_train" in arrays) or ("X_test" in arrays) != (entry.test_rows > 0):
            raise ValueError(f"it holds the arrays {', '.join(arrays)}.")
        if sha256 != expected and not entry.vouches_for(arrays):
            raise ValueError("the registry does not know the content of all its arrays.")
    except READ_ERRORS as error:
        if sha256 in (None, expected):
            raise BadFileError(f"{path} cannot be read: {error}") from error
        wanted = expected or "unknown: this set is only built from its originals"
        raise BadFileError(
            f"{path} has the wrong checksum: SHA-256 {sha256}, expected {wanted}; and {error} "
            f"Put the right file there, or remove it to have it fetched from {entry.url}."
        ) from error
    return arrays, sha256


def stamp(path):
    """The checksum that was written when `path` was built; None where there is none, or outside `data_folder()`."""
    beside = _beside(path)
    if path.parent != data_folder() or not beside.is_file():
        return None
    return beside.read_bytes()[:64].decode("ascii", errors="replace")


def _beside(path):
    return path.with_name(path.name + ".sha256")


def _checked(arrays, entry):
    """The arrays with features in the entry's dtype and integers as int64 (so that 2 * y - 1 is safe).

    ValueError unless shapes, values, labels and, as far as the registry knows it, content are right.
    """
    out = {}
    for name, values in arrays.items():
        rows = entry.test_rows if name.endswith("_test") else entry.rows
        shape = (rows, entry.features) if name.startswith("X") else (rows,)
        if values.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {values.shape}.")
        whole = values.dtype.kind in "biu"
        if name[0] in "Xy" and not whole and values.dtype.kind != "f":
            raise ValueError(f"{name} must hold numbers, got dtype {values.dtype}.")
        if name.startswith("X"):
            if not whole or values.dtype != entry.dtype:
                _check_each(misfits(values, entry.dtype), name, values, f"{entry.dtype} cannot hold it.")
            out[name] = np.ascontiguousarray(values, dtype=entry.dtype)
            continue
        if name.startswith("y"):
            wrong = strangers(values, entry) if whole or entry.classes else ~np.isfinite(values)
            _check_each(wrong, name, values, f"{labels_of(entry)}.")
        out[name] = values.astype(np.int64) if whole or (name.startswith("y") and entry.classes) else values
    for key, expected in entry.content.items():
        name, _, rows = key.partition("[:")
        if name in out:
            values = out[name][: int(rows.rstrip("]"))] if rows else out[name]
            if content_sha256(values) != expected:
                raise ValueError(
                    f"it does not hold the {key} of {entry.name!r}: the values' SHA-256 is "
                    f"{content_sha256(values)}, expected {expected}."
                )
    return out


def _check_each(wrong, name, values, why):
    if wrong.any():
        first = tuple(map(int, np.argwhere(wrong)[0]))
        raise ValueError(f"{name}[{', '.join(map(str, first))}] is {values[first]}: {why}")


def _build(entry, *, verbose):
    """Read the originals of `entry`, keep them as one `.npz` in `data_folder()`, and return its path."""
    if not entry.raw:
        raise MissingDataError(
            f"data set {entry.name!r} is not on this machine, and only its ready-made file has exactly these "
            f"rows. Set HANDFUL_DATA to a folder that holds {entry.filename}, or put the file into "
            f"{data_folder()}. {entry.notes}"
        )
    home = data_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        for left in home.glob(f".{entry.name}-*"):  # by a run that was killed
            if left.stat().st_mtime < time.time() - ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
        # Downloads live in here until they are parsed, so that neither a bad nor a half file can be left behind.
        with tempfile.TemporaryDirectory(prefix=f".{entry.name}-", dir=home) as scratch:
            arrays = {}
            for raw in entry.raw:
                arrays |= _original(raw, entry, Path(scratch), verbose=verbose)
            ready = Path(scratch) / entry.filename
            np.savez(ready, **arrays)
            if not entry.vouches_for(arrays):
                _beside(ready).write_text(file_sha256(ready), encoding="ascii")
                os.replace(_beside(ready), _beside(home / entry.filename))
            os.replace(ready, home / entry.filename)
    except MissingDataError:
        raise
    except OSError as error:
        raise MissingDataError(
            f"data set {entry.name!r} could not be built in {home}: {error}. Make room there or make it writable, or "
            f"set HANDFUL_DATA to a folder that holds {entry.filename}."
        ) from error
    return home / entry.filename


def _original(raw, entry, scratch, *, verbose):
    """The arrays of one original: from where a user put it, else downloaded into the folder `scratch`."""
    path = find(raw.filename)
    if path is not None:
        return _parse(raw, entry, path, label=f"{path}")
    path = scratch / raw.filename
    label = f"{raw.filename} (downloaded from {raw.url}, not kept)"
    from handful.data.download import DownloadError, TooLargeError, download

    try:
        download(raw.url, path, entry.max_bytes, verbose=verbose)
    except DownloadError as error:
        raise MissingDataError(
            f"data set {entry.name!r} is not on this machine, and {raw.url} could not be downloaded whole ({error}). "
            f"Set HANDFUL_DATA to a folder that holds {entry.filename}, or put {_originals(entry)} into "
            f"{data_folder()} by other means."
        ) from error
    except TooLargeError as error:
        raise BadFileError(f"{label} is not what the registry says: {error}") from error
    return _parse(raw, entry, path, label=label)


def _parse(raw, entry, path, *, label):
    if raw.sha256 is not None and file_sha256(path) != raw.sha256:
        raise BadFileError(f"{label} has the wrong checksum: {file_sha256(path)}, expected {raw.sha256}.")
    try:
        values = FORMATS[raw.format](path, entry, **raw.options)
        return _checked(dict(zip(raw.arrays, values, strict=True)), entry)
    except READ_ERRORS as error:
        raise BadFileError(f"{label} is not a whole file of format {raw.format}: {error}") from error


def _originals(entry):
    return " and ".join(f"{raw.url} (as {raw.filename})" for raw in entry.raw)
