"""`load`: one door to every data set, whether it is a file, ships with scikit-learn or is generated."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn import datasets as sklearn_datasets

from handful.checks import as_generator
from handful.data import store, synthetic
from handful.data.dataset import Dataset, level
from handful.data.registry import ENTRIES, entry


def _table(about):
    bunch = getattr(sklearn_datasets, f"load_{about.name}")()
    return bunch.data, bunch.target, tuple(map(str, bunch.feature_names))


def _sample_patches(about, *, size=8, stride=4):
    images = sklearn_datasets.load_sample_images().images
    return np.concatenate([synthetic.image_patches(i, size=size, stride=stride) for i in images]), None, ()


def _pathological(about, *, random_state=0, **options):
    return *synthetic.pathological(**options, rng=as_generator(random_state)), ()


def _gaussian_mixture(about, *, random_state=0, **options):
    options = {"n": about.rows, "n_features": about.features, "n_components": 5} | options
    return *synthetic.gaussian_mixture(**options, rng=as_generator(random_state)), ()


def _spoken_tones(about, *, random_state=0, **options):
    return *synthetic.spoken_tones(**{"n": about.rows} | options, rng=as_generator(random_state)), ()


# Each takes the registry's entry and options, and gives X, y (or None) and feature names.
_MAKERS = {
    **dict.fromkeys(("breast_cancer", "diabetes", "digits", "iris", "wine"), _table),
    "sample_patches": _sample_patches,
    "pathological": _pathological,
    "gaussian_mixture": _gaussian_mixture,
    "spoken_tones": _spoken_tones,
}


def load(name, *, classes=None, verbose=False, **options):
    """The data set called `name`.

    Files are looked for in the repository's `data/` (a cache folder of the user's if there is none), then in
    the folder that $HANDFUL_DATA names, then at the address where they were published; every file is checked.
    No other data set is ever put in its place.

    Parameters
    ----------
    name : str; `status` lists them
    classes : labels to keep, e.g. ``load("digits", classes=(4, 9))``; None keeps all
    verbose : bool, a progress bar while downloading
    **options : of generated sets and patches, e.g. ``load("pathological", separation=100, random_state=1)``;
        see `handful.data.synthetic`

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        for an unknown name or class.
    MissingDataError
        if the data set is not on this machine and can't be downloaded; the message says how to get it.
    BadFileError
        if a file does not hold what the registry says; the message names the file.
    """
    about = entry(name)
    feature_names = about.feature_names
    if options and _MAKERS.get(name, _table) is _table:
        raise TypeError(f"{name!r} is read from a file and takes no option {', '.join(options)}.")
    if about.kind == "file":
        arrays, sha256 = store.read(about, verbose=verbose)
    else:
        X, y, feature_names = _MAKERS[name](about, **options)
        arrays = {"X": X} if y is None else {"X": X, "y": y}
        sha256 = store.content_sha256(*arrays.values())
    X, y = (arrays.pop(key, arrays.pop(f"{key}_train", None)) for key in "Xy")
    data = Dataset(
        name=name,
        X=X,
        y=y,
        X_test=arrays.pop("X_test", None),
        y_test=arrays.pop("y_test", None),
        feature_names=feature_names or tuple(f"x{j}" for j in range(X.shape[1])),
        title=about.title,
        source=about.url,
        licence=about.licence,
        citation=about.citation,
        sha256=sha256,
        notes=about.notes,
        positive=about.positive,
        extra=arrays,
        kind=about.kind,
        of=about.of or name,
        published_rows=about.published_rows,
    )
    return data if classes is None else data.only(classes)


class Status(NamedTuple):
    """One row of `status`, all text: a data set's name, where it is, its rows x features, licence, source and level."""

    name: str
    where: str
    shape: str
    licence: str
    source: str
    level: str  # "complete", "16 % of covtype" or "generated"


def status():
    """A `Status` for each data set, by name: where it is now, rows x features, licence, source and level.

    Looks whether files are there, without reading them.
    """
    rows = []
    for name in sorted(ENTRIES):
        about = ENTRIES[name]
        count = f"{about.rows:,} + {about.test_rows:,}" if about.test_rows else f"{about.rows:,}"
        shape = f"{count} x {about.features:,}"
        part = level(about.of, about.rows + about.test_rows, about.published_rows)
        rows.append(Status(name, _where(about), shape, about.licence, about.url, part))
    return rows


def _where(about):
    if about.kind != "file":
        return about.kind
    path = store.find(about.filename)
    if path is not None:
        return "data folder" if path.parent == store.data_folder() else "HANDFUL_DATA"
    return "to be downloaded" if about.raw else "not here: ready-made file only"


def fetch(name, *, verbose=True):
    """Make sure that the file of data set `name` is on this machine and right, and give its path.

    Raises
    ------
    ValueError
        for an unknown name, or a set that has no file because it ships with scikit-learn or is generated.
    MissingDataError, BadFileError
        as in `load`.
    """
    about = entry(name)
    if about.kind != "file":
        raise ValueError(f"{name!r} needs no fetching: its kind is {about.kind}.")
    path = store.locate(about, verbose=verbose)
    store.check(path, about)
    return path


class Verified(NamedTuple):
    """One row of `verify`: a name, the outcome ("right", "wrong" or "not here"), the file's path or None, a message."""

    name: str
    outcome: str  # "right", "wrong", "not here"
    path: Path | None  # of the file that `load` takes, None where there is none
    message: str  # what is wrong, or how to get it; empty where it is right


def verify(names=None):
    """Read the files that `load` would take and hold them against the registry. Nothing is downloaded or changed.

    Parameters
    ----------
    names : iterable of str, or None for all data sets that are files

    Returns
    -------
    list of `Verified`, one for each name, in their order (sorted for None)

    Raises
    ------
    ValueError
        for an unknown name, or one that has no file.
    MissingDataError
        if $HANDFUL_DATA names something that is not a folder.
    """
    if names is None:
        names = sorted(name for name, about in ENTRIES.items() if about.kind == "file")
    elif isinstance(names, str) or not np.iterable(names):
        raise ValueError(f"names must be a list of names, got {names!r}.")
    abouts = [entry(name) for name in names]
    for about in abouts:
        if about.kind != "file":
            raise ValueError(f"{about.name!r} has no file to verify: its kind is {about.kind}.")
    return [_verified(about) for about in abouts]


def _verified(about):
    path = store.find(about.filename)
    if path is None:
        return Verified(about.name, "not here", None, _where(about))
    try:
        store.check(path, about)
    except store.BadFileError as error:
        return Verified(about.name, "wrong", path, str(error))
    return Verified(about.name, "right", path, "")


def fingerprint(name):
    """SHA-256 of what decides the values that ``load(name)`` gives on this machine, without reading the data.

    These are the checksums, shapes and formats in the registry. Of a set that the registry cannot vouch for in full
    (its own checksum covers the originals only), the stamp of the file that was built here counts, too.
    """
    about = entry(name)
    path = store.find(about.filename) if about.kind == "file" and about.sha256 is None else None
    built = None if path is None else store.stamp(path)
    return hashlib.sha256(f"{about.fingerprint} {built}".encode()).hexdigest()
