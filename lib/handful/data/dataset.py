"""`Dataset`, as a loader gives it, and what comes before training: split, standardise, 0/1 labels."""

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.model_selection import train_test_split

from handful.checks import MAX_SEED, as_generator

_BLOCK = 8192  # rows that are widened to float64 at a time


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as it was published: nothing scaled, labels as stored.

    Attributes
    ----------
    X : array, shape (n, d), in the dtype of the source: images are uint8, so widen before subtracting
    y : labels (int64) or targets (float64), shape (n,); None where the source has none
    X_test, y_test : the official test set, None where there is none
    feature_names : tuple of d strings
    name, title, source, licence, citation, notes : what it is, where it was published, under which terms
    sha256 : of the file it was read from; of the arrays where it ships with scikit-learn or was generated
    positive : the label that `binary` calls 1, None where none is meant
    extra : further arrays with one value a row of X, by name
    """

    name: str
    X: np.ndarray
    y: np.ndarray | None
    X_test: np.ndarray | None
    y_test: np.ndarray | None
    feature_names: tuple
    title: str
    source: str
    licence: str
    citation: str
    sha256: str
    notes: str = ""
    positive: int | None = None
    extra: dict = field(default_factory=dict)

    def __repr__(self):
        test = "" if self.X_test is None else f", X_test {self.X_test.shape}"
        return f"Dataset({self.name!r}, X {self.X.shape} {self.X.dtype}{test})"

    def describe(self):
        """A few lines to read: shape, classes, source, licence, checksum."""
        n, d = self.X.shape
        lines = [f"{self.name}: {self.title}", f"{n:,} rows x {d:,} features ({self.X.dtype})"]
        if self.X_test is not None:
            lines[-1] += f", test set of {len(self.X_test):,}"
        if self.y is not None and self.y.dtype.kind in "iu":
            counts = ", ".join(f"{label}: {count:,}" for label, count in zip(*np.unique(self.y, return_counts=True)))
            lines.append(f"classes {counts}")
        lines += [f"source {self.source}", f"licence {self.licence}", f"SHA-256 {self.sha256}"]
        return "\n".join([*lines, self.notes] if self.notes else lines)

    def binary(self, positive=None):
        """The same data with labels 1 (where the label is `positive`) and 0 (everything else).

        `positive` defaults to what the registry says, then to the larger of two labels.
        """
        if self.y is None:
            raise ValueError(f"{self.name!r} has no labels to make binary.")
        y = zero_one(self.y, self.positive if positive is None else positive)
        positive = self.y[np.argmax(y)]
        y_test = None if self.y_test is None else (self.y_test == positive).astype(np.int64)
        return replace(self, y=y, y_test=y_test, positive=1)

    def only(self, classes):
        """The rows, training and test, whose label is one of `classes`; the last of two becomes `positive`.

        Raises
        ------
        ValueError
            if the data set has no labels or lacks one of the classes.
        """
        classes = tuple(classes)
        missing = [c for c in classes if self.y is None or not (self.y == c).any()]
        if missing or not classes:
            has = "no labels" if self.y is None else f"the classes {np.unique(self.y).tolist()}"
            raise ValueError(f"classes must be labels of {self.name!r}, which has {has}; got {classes}.")
        data = _take(self, np.flatnonzero(np.isin(self.y, classes)))
        if self.X_test is not None:
            keep = np.isin(self.y_test, classes)
            data = replace(data, X_test=self.X_test[keep], y_test=self.y_test[keep])
        name = f"{self.name}[{','.join(map(str, classes))}]"
        return replace(data, name=name, positive=classes[-1] if len(classes) == 2 else None)


def _take(data, rows):
    """Rows of X, y and every extra array; the test set stays."""
    y = None if data.y is None else data.y[rows]
    return replace(data, X=data.X[rows], y=y, extra={name: values[rows] for name, values in data.extra.items()})


def zero_one(y, positive=None):
    """Labels as int64 1 (`positive`) and 0 (all others); `positive` defaults to the larger of two labels.

    Raises
    ------
    ValueError
        if no label is `positive`, or none is given and there are not two labels.
    """
    labels = np.unique(y)
    if positive is None:
        if len(labels) != 2:
            raise ValueError(f"positive must say which of the {len(labels)} labels is 1.")
        positive = labels[1]
    if positive not in labels:
        raise ValueError(f"positive must be one of the labels {labels[:10].tolist()}, got {positive!r}.")
    return (np.asarray(y) == positive).astype(np.int64)


def split(data, *, test_size=0.1, random_state=None, official=True):
    """A `Dataset` with a test set: the official one where there is one, else a random one.

    The random one is stratified by class where the labels are classes. With ``official=False`` the official
    test set is left aside and the training part split (as the bilevel paper seems to have done with a9a).
    After a random split every `extra` array "a" is joined by its test rows, "a_test".
    """
    if official and data.X_test is not None:
        return data
    classes = data.y if data.y is not None and data.y.dtype.kind in "iu" else None
    seed = int(as_generator(random_state).integers(MAX_SEED))
    halves = train_test_split(np.arange(len(data.X)), test_size=test_size, stratify=classes, random_state=seed)
    train, test = (_take(data, np.sort(rows)) for rows in halves)
    extra = train.extra | {f"{name}_test": values for name, values in test.extra.items()}
    return replace(train, X_test=test.X, y_test=test.y, extra=extra)


def standardise(X, *others, dtype=np.float64, order="C"):
    """`X` and `others` with the mean of X's columns taken off, divided by their standard deviation.

    Columns that are constant in X keep a standard deviation of 1, so that they become 0 there. Means and
    deviations are taken in float64 whatever the input.

    Parameters
    ----------
    X : array, shape (n, d); the training part
    *others : arrays with d columns, on the same scale; None stays None
    dtype : of the result, float32 or float64
    order : "C" (rows) or "F" (columns contiguous)

    Returns
    -------
    tuple : one new array for each argument
    """
    n = len(X)
    if n == 0:
        raise ValueError("X must have at least 1 row to standardise by, got 0.")
    constant = X.min(axis=0) == X.max(axis=0)
    mean = np.where(constant, X[0], X.mean(axis=0, dtype=np.float64))
    variance = sum(((X[i : i + _BLOCK] - mean) ** 2).sum(axis=0) for i in range(0, n, _BLOCK)) / n
    scale = np.where(constant, 1.0, np.sqrt(variance))
    return tuple(None if a is None else _scaled(a, mean, scale, dtype, order) for a in (X, *others))


def _scaled(array, mean, scale, dtype, order):
    out = np.empty(array.shape, dtype=dtype, order=order)
    for i in range(0, len(array), _BLOCK):
        out[i : i + _BLOCK] = (array[i : i + _BLOCK] - mean) / scale
    return out
