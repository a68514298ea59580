"""The registry: what is known of each data set before its file is opened (`registry.toml`, read
once)."""

import tomllib
from dataclasses import dataclass, field
from importlib import resources


@dataclass(frozen=True)
class Entry:
    """What the registry says of one data set.

    Attributes
    ----------
    kind : "file", "scikit-learn" or "generated"
    title, url, licence, citation, notes : where it comes from and what to know of it
    rows, test_rows, features : the shape; a test_rows of 0 means that there is no official test set
    of, of_rows : the published set of which this is a part, and the number of rows of that with its
        test set; empty and 0 where this is the whole
    dtype : of the features
    sha256 : of the ready-made `NAME.npz`, None where there is no such file
    raw : the originals, a dict each, empty where only the ready-made file exists: `url`;
        `filename`, its name on this machine; `sha256`, None where no source states it (then
        `content` counts); `format`, for `handful.data.formats.reader_of`, with the reader's
        `options`; `arrays`, what it gives, in order
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
    sha256: str | None = None
    raw: tuple = ()
    content: dict = field(default_factory=dict)
    positive: int | None = None
    feature_names: tuple = ()

    @property
    def published_rows(self):
        """Rows of the whole published set, test set included; None for a generated set, which has
        no whole."""
        return None if self.kind == "generated" else self.of_rows or self.rows + self.test_rows

    def level(self, rows):
        """What `rows` rows are of the published set: "complete", a share ("16 % of covtype"), or
        "generated"."""
        if self.kind == "generated":
            return "generated"
        percent = 100 * rows / self.published_rows
        return (
            "complete" if percent >= 100 else f"{min(percent, 99):.2g} % of {self.of or self.name}"
        )


_TEXT = resources.files("handful.data").joinpath("registry.toml").read_text(encoding="utf-8")
ENTRIES = {name: Entry(name=name, **table) for name, table in tomllib.loads(_TEXT).items()}


def entry(name):
    """The `Entry` called `name`; ValueError where there is none."""
    if name not in list(ENTRIES):
        raise ValueError(
            f"there is no data set called {name!r}: the names are {', '.join(ENTRIES)}."
        )
    return ENTRIES[name]
