"""The registry: what is known of each data set before its file is opened (`registry.toml`, read once)."""

import difflib
import tomllib
from dataclasses import dataclass, field
from importlib import resources


@dataclass(frozen=True)
class Raw:
    """One file at the address where a data set is published.

    Attributes
    ----------
    url : where it is
    format : the reader, a key of `handful.data.formats.FORMATS`
    arrays : what the reader returns, in order, e.g. ("X_train", "y_train")
    filename : its name on this machine
    sha256 : its checksum, None where we have none from a trustworthy source (see `Entry.content`)
    options : keyword arguments of the reader
    """

    url: str
    format: str
    arrays: tuple
    filename: str
    sha256: str | None = None
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """What the registry says of one data set.

    Attributes
    ----------
    kind : "file", "scikit-learn" or "generated"
    url, title, licence, citation, notes : where it comes from and what to know of it
    rows, test_rows, features : the shape; a test_rows of 0 means that there is no official test set
    dtype : of the features
    sha256 : of the ready-made `filename`, None where there is no such file
    raw : the files it can be built from, empty where there are none
    content : array name -> `content_sha256`; "X_test[:1000]" stands for the first 1,000 rows
    positive : the label that a binary task calls 1, None where the task is not binary
    feature_names : empty where the source names none
    """

    name: str
    kind: str
    title: str
    url: str
    licence: str
    citation: str = ""
    notes: str = ""
    rows: int = 0
    test_rows: int = 0
    features: int = 0
    dtype: str = "float64"
    sha256: str | None = None
    raw: tuple = ()
    content: dict = field(default_factory=dict)
    positive: int | None = None
    feature_names: tuple = ()

    @property
    def filename(self):
        """Name of the ready-made file."""
        return f"{self.name}.npz"


def _entry(name, table):
    raw = tuple(
        Raw(**{"filename": r["url"].rsplit("/", 1)[-1], **r, "arrays": tuple(r["arrays"])})
        for r in table.pop("raw", ())
    )
    names = tuple(table.pop("feature_names", ()))
    return Entry(name=name, raw=raw, feature_names=names, **table)


def _read():
    text = resources.files("handful.data").joinpath("registry.toml").read_text(encoding="utf-8")
    return {name: _entry(name, table) for name, table in tomllib.loads(text).items()}


ENTRIES = _read()


def entry(name):
    """The `Entry` called `name`. ValueError, with the nearest names, where there is none."""
    if name not in ENTRIES:
        near = difflib.get_close_matches(str(name), ENTRIES, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"the names are {', '.join(ENTRIES)}."
        raise ValueError(f"there is no data set called {name!r}: {hint}")
    return ENTRIES[name]
