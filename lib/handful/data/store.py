"""Files: where they are looked for, how they are checked, downloaded and kept.

A ready-made `.npz` is taken if its SHA-256 is the registry's, or the one that this module wrote beside it
when it built the file from checked originals. An original is checked by its SHA-256 where one is known, its
arrays always by their shape and, where the registry has it, by `content_sha256`.
"""

import hashlib
import logging
import os
import tempfile
from pathlib import Path

import numpy as np

from handful.data.formats import FORMATS, READ_ERRORS, decode

CHECKOUT = Path(__file__).resolve().parents[3]
TIMEOUT = 30  # seconds without an answer


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
    path, sha256 = locate(entry, verbose=verbose)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = decode({name: file[name] for name in file.files})
    except READ_ERRORS as error:
        raise BadFileError(f"{path} cannot be read: {error}") from error
    arrays = _canonical(arrays, entry)
    _check_shapes(arrays, entry, path)
    return arrays, sha256


def locate(entry, *, verbose=False):
    """Path and SHA-256 of a checked `.npz` of `entry`, built from downloaded originals if there is none."""
    path = find(entry.filename)
    if path is None:
        path = _build(entry, verbose=verbose)
    sha256 = file_sha256(path)
    good = {entry.sha256} - {None}
    if _stamp(path).is_file():
        good.add(_stamp(path).read_text(encoding="ascii").strip())
    if sha256 not in good:
        wanted = " or ".join(sorted(good)) or "unknown: this set is only built from its originals"
        raise BadFileError(
            f"{path} has the wrong checksum: SHA-256 {sha256}, expected {wanted}. "
            f"Put the right file there, or remove it to have it fetched from {entry.url}."
        )
    return path, sha256


def _stamp(path):
    return path.with_name(path.name + ".sha256")


def _canonical(arrays, entry):
    """Features as the entry's dtype, labels and other integers as int64 (so that 2 * y - 1 is safe)."""
    out = {}
    for name, values in arrays.items():
        if name.startswith("X"):
            with np.errstate(invalid="ignore"):  # what does not fit is caught by the checksum of the content
                out[name] = np.ascontiguousarray(values, dtype=entry.dtype)
        else:
            out[name] = values.astype(np.int64) if values.dtype.kind in "iu" else values
    return out


def _check_shapes(arrays, entry, label):
    train, test = (entry.rows, entry.features), (entry.test_rows, entry.features)
    for name, shape in {"X": train, "X_train": train, "X_test": test}.items():
        if name in arrays and arrays[name].shape != shape:
            raise BadFileError(f"{label}: {name} must have shape {shape}, got {arrays[name].shape}.")


def _check_content(arrays, entry, label):
    for key, expected in entry.content.items():
        name, _, rows = key.partition("[:")
        if name in arrays:
            values = arrays[name][: int(rows.rstrip("]"))] if rows else arrays[name]
            if content_sha256(values) != expected:
                raise BadFileError(
                    f"{label} does not hold the {key} of {entry.name!r}: the values' SHA-256 is "
                    f"{content_sha256(values)}, expected {expected}."
                )


def _build(entry, *, verbose):
    """Read the originals of `entry`, keep them as one `.npz` in `data_folder()`, and return its path."""
    if not entry.raw:
        raise MissingDataError(
            f"data set {entry.name!r} is not on this machine, and only its ready-made file has exactly these "
            f"rows. Set HANDFUL_DATA to a folder that holds {entry.filename}, or put the file into "
            f"{data_folder()}. {entry.notes}"
        )
    home = data_folder()
    home.mkdir(parents=True, exist_ok=True)
    arrays = {}
    # Downloads live in here until they are parsed, so that neither a bad nor a half file can be left behind.
    with tempfile.TemporaryDirectory(prefix=f".{entry.name}-", dir=home) as scratch:
        for raw in entry.raw:
            path = find(raw.filename)
            if path is not None:
                arrays |= _parse(raw, entry, path, label=f"{path}")
            else:
                path = _download(raw, entry, Path(scratch), verbose=verbose)
                arrays |= _parse(raw, entry, path, label=f"{raw.filename} (downloaded from {raw.url}, not kept)")
        ready = Path(scratch) / entry.filename
        np.savez(ready, **arrays)
        _stamp(ready).write_text(file_sha256(ready), encoding="ascii")
        os.replace(_stamp(ready), _stamp(home / entry.filename))
        os.replace(ready, home / entry.filename)
    return home / entry.filename


def _parse(raw, entry, path, *, label):
    if raw.sha256 is not None and file_sha256(path) != raw.sha256:
        raise BadFileError(f"{label} has the wrong checksum: {file_sha256(path)}, expected {raw.sha256}.")
    try:
        values = FORMATS[raw.format](path, entry, **raw.options)
    except READ_ERRORS as error:
        raise BadFileError(f"{label} is not a whole file of format {raw.format}: {error}") from error
    arrays = _canonical(dict(zip(raw.arrays, values, strict=True)), entry)
    _check_shapes(arrays, entry, label)
    _check_content(arrays, entry, label)
    return arrays


def _download(raw, entry, folder, *, verbose):
    import pooch
    import requests

    log = pooch.get_logger()
    level = log.level
    log.setLevel(logging.INFO if verbose else logging.ERROR)
    known_hash = None if raw.sha256 is None else f"sha256:{raw.sha256}"
    try:
        downloader = pooch.HTTPDownloader(progressbar=verbose, chunk_size=1 << 16, timeout=TIMEOUT)
        pooch.retrieve(raw.url, known_hash, fname=raw.filename, path=folder, downloader=downloader)
    except requests.exceptions.RequestException as error:
        raise MissingDataError(
            f"data set {entry.name!r} is not on this machine, and {raw.url} could not be downloaded whole "
            f"({type(error).__name__}: {error}). Set HANDFUL_DATA to a folder that holds {entry.filename}, "
            f"or put {_originals(entry)} into {data_folder()} by other means."
        ) from error
    except ValueError as error:
        raise BadFileError(f"{raw.filename} from {raw.url} was refused and not kept: {error}") from error
    finally:
        log.setLevel(level)
    return folder / raw.filename


def _originals(entry):
    return " and ".join(f"{raw.url} (as {raw.filename})" for raw in entry.raw)
