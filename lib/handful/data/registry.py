"""The registry: what is known of each data set before its file is opened (`registry.toml`, read once)."""

import difflib
import hashlib
import tomllib
from dataclasses import dataclass, field
from importlib import resources

import numpy as np

_ROW_BYTES = 256  # room for labels, names and further values of one row in a ready-made file
_HEADER_BYTES = 1 << 20


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
    of, of_rows : the published set of which this is a part, and the number of rows of that with its test set; empty
        and 0 where this is the whole
    dtype : of the features
    classes : all labels that occur, empty where y holds no classes
    sha256 : of the ready-made `filename`, None where there is no such file
    max_bytes : the most that one of the originals may hold, packed or unpacked
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
    of: str = ""
    of_rows: int = 0
    dtype: str = "float64"
    classes: tuple = ()
    sha256: str | None = None
    max_bytes: int = 0
    raw: tuple = ()
    content: dict = field(default_factory=dict)
    positive: int | None = None
    feature_names: tuple = ()

    @property
    def filename(self):
        """Name of the ready-made file."""
        return f"{self.name}.npz"

    @property
    def published_rows(self):
        """Rows of the whole published set, test set included; None for a generated set, which has no whole."""
        return None if self.kind == "generated" else self.of_rows or self.rows + self.test_rows

    @property
    def complete(self):
        """Whether these are all rows of the published set. A generated set is complete."""
        return not self.of

    @property
    def ready_bytes(self):
        """The most bytes that the ready-made file may hold, packed or unpacked."""
        row = self.features * np.dtype(self.dtype).itemsize + _ROW_BYTES
        return (self.rows + self.test_rows) * row + _HEADER_BYTES

    def vouches_for(self, arrays):
        """Whether the checksums of the content cover every row of all the named arrays."""
        return all(name in self.content for name in arrays)

    @property
    def fingerprint(self):
        """SHA-256 of everything here that decides which values `load` gives; titles and notes do not count."""
        originals = [(raw.sha256, raw.format, raw.arrays, sorted(raw.options.items())) for raw in self.raw]
        shape = (self.kind, self.rows, self.test_rows, self.features, self.dtype, self.positive)
        facts = (self.name, *shape, self.sha256, originals, sorted(self.content.items()))
        return hashlib.sha256(repr(facts).encode()).hexdigest()


def _entry(name, table):
    raw = tuple(
        Raw(**{"filename": r["url"].rsplit("/", 1)[-1], **r, "arrays": tuple(r["arrays"])})
        for r in table.pop("raw", ())
    )
    lists = {key: tuple(table.pop(key, ())) for key in ("feature_names", "classes")}
    return Entry(name=name, raw=raw, **lists, **table)


def _read():
    text = resources.files("handful.data").joinpath("registry.toml").read_text(encoding="utf-8")
    return {name: _entry(name, table) for name, table in tomllib.loads(text).items()}


ENTRIES = _read()


def entry(name):
    """The `Entry` called `name`. ValueError, with the nearest names, where there is none."""
    if not isinstance(name, str) or name not in ENTRIES:
        near = difflib.get_close_matches(str(name), ENTRIES, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"the names are {', '.join(ENTRIES)}."
        raise ValueError(f"there is no data set called {name!r}: {hint}")
    return ENTRIES[name]
