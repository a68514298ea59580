"""Files: where they are looked for, how they are checked, and downloads."""

import hashlib
import os
from pathlib import Path

import numpy as np

from handful.data.formats import READ_ERRORS, reader_of

CHECKOUT = Path(__file__).resolve().parents[3]


class MissingDataError(FileNotFoundError):
    """A data set is neither on this machine nor to be had; the message says how to get it."""


class BadFileError(ValueError):
    """A file does not hold what the registry says it must; the message names the file."""


def data_folder():
    """Where files are kept: `data/` of the repository, or a cache folder of the user's if there is
    none."""
    if (CHECKOUT / "data" / "README.md").is_file():
        return CHECKOUT / "data"
    import pooch

    return Path(pooch.os_cache("handful"))


def find(filename):
    """The file in `data_folder()`, else in the folder that $HANDFUL_DATA names; None where neither
    has it.

    Raises
    ------
    MissingDataError
        if $HANDFUL_DATA names something that is not a folder.
    """
    named = os.environ.get("HANDFUL_DATA")
    if named and not Path(named).is_dir():
        raise MissingDataError(
            f"HANDFUL_DATA is {named!r}, which is not a folder: correct it or unset it."
        )
    folders = [data_folder(), *([Path(named)] if named else [])]
    return next((folder / filename for folder in folders if (folder / filename).is_file()), None)


def content_sha256(*arrays):
    """SHA-256 of the arrays' dtypes, shapes and values in C order, whatever file they came from."""
    digest = hashlib.sha256()
    for values in map(np.ascontiguousarray, arrays):
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        digest.update(values.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def read(entry, *, verbose=False):
    """The arrays of a data set, from its ready-made file or else its originals, which are
    downloaded if need be.

    Returns
    -------
    arrays : dict; features in the entry's dtype, all other integers int64
    sha256 : of the ready-made file, or of the arrays of originals

    Raises
    ------
    MissingDataError, BadFileError
    """
    ready = dict(filename=f"{entry.name}.npz", format="npz", sha256=entry.sha256)
    path = find(ready["filename"]) if entry.sha256 else None
    if path is not None:
        return _checked(path, ready, entry), entry.sha256
    if not entry.raw:
        raise MissingDataError(
            _how_to_get(entry, "only its ready-made file has exactly these rows", entry.notes)
        )
    parts = {}
    for raw in entry.raw:
        # before anything is downloaded
        reader_of(raw["format"])
        path = find(raw["filename"])
        found = _checked(
            path or _download(raw, entry, verbose), raw, entry, downloaded=path is None
        )
        for name, values in found.items():
            parts.setdefault(name, []).append(values)
    arrays = {
        name: some[0] if len(some) == 1 else np.concatenate(some) for name, some in parts.items()
    }
    _check_shape(arrays, entry)
    return arrays, content_sha256(*arrays.values())


def _check_shape(arrays, entry):
    """BadFileError where originals do not hold as many rows and features as the registry says."""
    X = arrays.get("X", arrays.get("X_train"))
    if X.shape != (entry.rows, entry.features):
        names = " and ".join(raw["filename"] for raw in entry.raw)
        raise BadFileError(
            f"{names} hold {X.shape[0]:,} rows of {X.shape[1]:,} features, and {entry.name!r} has "
            f"{entry.rows:,} of {entry.features:,}: remove what is in {data_folder()} to have it "
            f"fetched again."
        )


def _checked(path, raw, entry, *, downloaded=False):
    # The arrays of one file. A download that is wrong is not kept; a file of the user's is never
    # deleted.
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if raw.get("sha256") not in (None, found):
            raise ValueError(f"its SHA-256 is {found}, expected {raw['sha256']}.")
        values = reader_of(raw["format"])(path, entry, **raw.get("options", {}))
        arrays = values if "arrays" not in raw else dict(zip(raw["arrays"], values, strict=True))
        # integers as int64, so that 2 * y - 1 is safe
        for name, values in arrays.items():
            kind = (
                entry.dtype
                if name[0] == "X"
                else np.int64
                if values.dtype.kind in "biu"
                else values.dtype
            )
            arrays[name] = np.ascontiguousarray(values, dtype=kind)
        for key, expected in entry.content.items():
            name, _, rows = key.rstrip("]").partition("[:")
            if (
                name in arrays
                and content_sha256(arrays[name][: int(rows) if rows else None]) != expected
            ):
                raise ValueError(
                    f"its {key} is not the one that the registry knows by its SHA-256."
                )
    except READ_ERRORS as error:
        if downloaded:
            path.unlink()
        kept = (
            "downloaded and not kept"
            if downloaded
            else "left as it is: remove it to have the data fetched again"
        )
        raise BadFileError(
            f"{path} is not what the registry says of {entry.name!r} ({kept}): {error}"
        ) from error
    return arrays


def _download(raw, entry, verbose):
    import pooch

    pooch.get_logger().setLevel("WARNING")
    # into a temporary file, which gets its name when it is whole
    try:
        return Path(
            pooch.retrieve(raw["url"], None, raw["filename"], data_folder(), progressbar=verbose)
        )
    except OSError as error:
        # without the tracebacks of four libraries
        raise MissingDataError(
            _how_to_get(entry, f"{raw['url']} could not be downloaded ({error})")
        ) from None


def _how_to_get(entry, why, hint=""):
    wanted = [f"{entry.name}.npz"] * bool(entry.sha256) + [
        " and ".join(raw["filename"] for raw in entry.raw)
    ]
    places = f"{data_folder()} or into a folder that HANDFUL_DATA names"
    put = " or ".join(filter(None, wanted))
    problem = f"data set {entry.name!r} is not on this machine, and {why}"
    return f"{problem}: put {put} into {places}. {hint}".rstrip()
