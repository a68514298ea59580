"""`Dataset`, as a loader gives it, and what comes before training: split and standardise."""

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from handful.checks import (
    MAX_SEED,
    as_generator,
    check_array,
    check_dtype,
    check_in_memory,
    check_magnitude,
    check_same_names,
)
from handful.data.registry import Entry


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as it was published: nothing scaled, labels as stored.

    Attributes
    ----------
    X : array, shape (n, d), in the dtype of the source: images are uint8, so widen before
        subtracting; None where the source is several tables, which `extra` holds
    y : labels (int64) or targets (float64), shape (n,); None where the source has none
    X_test, y_test : the official test set, None where there is none
    name : str; of a pair of classes "digits[4,9]"
    sha256 : of the ready-made file it was read from; of the arrays where there is no such file
    about : `Entry`, what the registry says: title, url, licence, citation, notes and more
    feature_names : tuple of d strings; empty where the source names none
    positive : the label that `binary` calls 1, None where none is meant
    extra : further arrays by name, most with one value for each row of X; "NAME_test" for each row
        of X_test
    """

    X: np.ndarray | None
    y: np.ndarray | None
    X_test: np.ndarray | None
    y_test: np.ndarray | None
    name: str
    sha256: str
    about: Entry
    feature_names: tuple = ()
    positive: int | None = None
    extra: dict = field(default_factory=dict)

    @property
    def rows(self):
        """Rows that are here, training and test together; of several tables their number."""
        if self.X is None:
            return len(self.extra)
        return len(self.X) + (0 if self.X_test is None else len(self.X_test))

    @property
    def level(self):
        """What the rows are of what was published: "complete", "16 % of covtype", or
        "generated"."""
        return self.about.level(self.rows)

    def __repr__(self):
        if self.X is None:
            return f"Dataset({self.name!r}, tables {', '.join(self.extra)})"
        test = "" if self.X_test is None else f", X_test {self.X_test.shape}"
        return f"Dataset({self.name!r}, X {self.X.shape} {self.X.dtype}{test})"

    def describe(self):
        """A few lines to read: shape, source, licence, checksum."""
        facts = dict(
            rows=self.level, source=self.about.url, licence=self.about.licence, sha256=self.sha256
        )
        lines = [
            f"{self!r}: {self.about.title}",
            *(f"{key} {value}" for key, value in facts.items()),
            self.about.notes,
        ]
        return "\n".join(lines).strip()

    def binary(self, positive=None):
        """The same data with labels 1 (where the label is `positive`) and 0 (everything else), as
        int64.

        `positive` defaults to what the registry says, then to the larger of two labels.
        """
        labels = [] if self.y is None else np.unique(self.y).tolist()
        if positive is None:
            positive = labels[1] if self.positive is None and len(labels) == 2 else self.positive
        if positive not in labels:
            raise ValueError(
                f"positive must be one of the labels {labels[:20]} of {self.name!r}, got "
                f"{positive!r}."
            )
        y, y_test = (
            None if y is None else (y == positive).astype(np.int64) for y in (self.y, self.y_test)
        )
        return replace(self, y=y, y_test=y_test, positive=1)

    def only(self, classes):
        """The rows, training and test, whose label is one of `classes`; the last of two becomes
        `positive`."""
        known = [] if self.y is None else np.unique(self.y).tolist()
        classes = list(classes)
        if not classes or len({known.index(c) for c in classes if c in known}) < len(classes):
            raise ValueError(
                f"classes must be labels of {self.name!r}, {known[:20]}, each once; got {classes}."
            )
        data = _rows(self, np.isin(self.y, classes))
        if self.X_test is not None:
            kept = np.isin(self.y_test, classes)
            of_test = {
                name: values[kept] for name, values in data.extra.items() if _is_of_test(name)
            }
            data = replace(
                data,
                X_test=self.X_test[kept],
                y_test=self.y_test[kept],
                extra=data.extra | of_test,
            )
        name = f"{self.name}[{','.join(map(str, classes))}]"
        return replace(data, name=name, positive=classes[-1] if len(classes) == 2 else None)


def _is_of_test(name):
    return name.endswith("_test")


def _rows(data, rows):
    extra = {
        name: values if _is_of_test(name) or len(values) != len(data.X) else values[rows]
        for name, values in data.extra.items()
    }
    return replace(data, X=data.X[rows], y=None if data.y is None else data.y[rows], extra=extra)


def split(data, *, test_size=0.1, random_state=None, official=True):
    """A `Dataset` with a test set: the official one where there is one, else a random one.

    The random one is stratified by class where the labels are classes; `test_size` is a share of
    the rows, or a whole number of them. With ``official=False`` the official test set is left aside
    and the training part split (as the bilevel paper seems to have done with a9a). After a random
    split every `extra` array "a" is joined by its test rows, "a_test".

    Raises
    ------
    ValueError
        if `test_size` leaves one side empty or, with classes, one of them without a row on either
        side
    """
    if official and data.X_test is not None:
        return data
    classes = data.y if data.y is not None and data.y.dtype.kind in "iu" else None
    seed = int(as_generator(random_state).integers(MAX_SEED))
    halves = train_test_split(
        np.arange(len(data.X)), test_size=test_size, stratify=classes, random_state=seed
    )
    train, test = (_rows(data, np.sort(rows)) for rows in halves)
    extra = train.extra | {f"{name}_test": values for name, values in test.extra.items()}
    return replace(train, X_test=test.X, y_test=test.y, extra=extra)


def standardise(X, *others, dtype=np.float64, order="C"):
    """`X` and `others` with the mean of X's columns taken off, divided by their standard deviation
    (`StandardScaler`).

    Parameters
    ----------
    X : array or frame of numbers, shape (n, d); the training part
    *others : arrays or frames with the same d columns, on the same scale; None stays None
    dtype : of the result, float32 or float64; means and deviations are taken in float64
    order : "C" (rows) or "F" (columns contiguous)

    Returns
    -------
    tuple : one new array for each argument; columns that are constant in X keep their unit
    """
    check_dtype(dtype)
    check_in_memory("standardise", X, *others)
    tables = [X, *others]
    for i, table in enumerate(tables):
        if table is not None:
            numbers = check_array(
                table, dtype=np.float64, input_name=f"others[{i - 1}]" if i else "X"
            )
            check_magnitude(numbers, "standardise: the data", np.float64)
            tables[i] = numbers
            check_same_names(X, table)
    scaler = StandardScaler().fit(tables[0])
    return tuple(
        None if a is None else np.asarray(scaler.transform(a), dtype=dtype, order=order)
        for a in tables
    )
