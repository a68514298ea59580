"""`Dataset`, as a loader gives it, and what comes before training: split, standardise, 0/1 labels."""

from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array

from handful.checks import MAX_SEED, as_generator, check_dtype, check_integer, check_number

_SAFE = 2.0**300  # magnitudes up to here, and down to its inverse, can be squared and added up
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
    extra : further arrays by name, with one value for each row of X; "NAME_test" for each row of X_test
    kind : "file", "scikit-learn" or "generated"
    of : the published data set that the rows are from: this one, or one of which it is a declared part
    published_rows : of that data set, training and test together; None for a generated set, which has no whole
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
    kind: str = "file"
    of: str = ""
    published_rows: int | None = None

    @property
    def rows(self):
        """Rows that are here, training and test together."""
        return len(self.X) + (0 if self.X_test is None else len(self.X_test))

    @property
    def share(self):
        """`rows` over the rows of the published data set, 1 where it is all of them; None for a generated set."""
        return None if self.published_rows is None else self.rows / self.published_rows

    @property
    def level(self):
        """What the rows are of what was published: "complete", "16 % of covtype", or "generated"."""
        return level(self.of, self.rows, self.published_rows)

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
        lines += [
            f"published rows: {self.level}",
            f"source {self.source}",
            f"licence {self.licence}",
            f"SHA-256 {self.sha256}",
        ]
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

    def take(self, rows, *, test=False):
        """The same data with some rows of the training part (or, with `test`, of the test set) in the given order.

        Parameters
        ----------
        rows : int array of positions, or bool array with one entry for each row
        test : bool

        Raises
        ------
        ValueError
            if rows is neither, or names a row that is not there.
        """
        if test and self.X_test is None:
            raise ValueError(f"{self.name!r} has no test set to take rows of.")
        rows = _positions(rows, len(self.X_test if test else self.X))
        extra = {
            name: values[rows] if name.endswith("_test") == test else values for name, values in self.extra.items()
        }
        if test:
            y_test = None if self.y_test is None else self.y_test[rows]
            return replace(self, X_test=self.X_test[rows], y_test=y_test, extra=extra)
        return replace(self, X=self.X[rows], y=None if self.y is None else self.y[rows], extra=extra)

    def only(self, classes):
        """The rows, training and test, whose label is one of `classes`; the last of two becomes `positive`.

        Raises
        ------
        ValueError
            if the data set has no labels or lacks one of the classes, or if one is given twice.
        """
        known = [] if self.y is None else np.unique(self.y).tolist()
        listed = list(classes) if np.iterable(classes) else []
        classes = tuple(known[known.index(c)] for c in listed if np.ndim(c) == 0 and c in known)
        if not classes or len(set(classes)) < len(listed):
            has = "no labels" if self.y is None else f"the classes {known[:20]}"
            raise ValueError(f"classes must be labels of {self.name!r}, which has {has}, each once; got {listed}.")
        data = self.take(np.flatnonzero(np.isin(self.y, classes)))
        if self.X_test is not None:
            data = data.take(np.flatnonzero(np.isin(self.y_test, classes)), test=True)
        name = f"{self.name}[{','.join(map(str, classes))}]"
        return replace(data, name=name, positive=classes[-1] if len(classes) == 2 else None)


def _positions(rows, n):
    rows = np.asarray(rows)
    if rows.shape == (0,):
        return rows.astype(np.intp)  # an empty list is an array of floats
    if rows.ndim != 1 or rows.dtype.kind not in "biu" or (rows.dtype.kind == "b" and len(rows) != n):
        raise ValueError(f"rows must be positions or {n} booleans, got shape {rows.shape} of dtype {rows.dtype}.")
    if rows.dtype.kind != "b" and not -n <= rows.min() <= rows.max() < n:
        raise ValueError(f"rows must be positions below {n}, got {rows.min()}..{rows.max()}.")
    return rows


def level(of, rows, published_rows):
    """In words, what `rows` rows are of the `published_rows` rows of the published data set `of`.

    "complete" for all of them (and more, where rows were repeated), a share such as "16 % of covtype" for fewer, and
    "generated" where `published_rows` is None. A part never rounds to all or nothing.
    """
    check_integer("rows", rows, least=0)
    if published_rows is None:
        return "generated"
    check_integer("published_rows", published_rows)
    if rows >= published_rows:
        return "complete"
    percent = 100 * int(rows) / published_rows
    return f"{min(round(percent), 99) if percent >= 10 else format(percent, '.2g')} % of {of}"


def zero_one(y, positive=None):
    """Labels as int64 1 (`positive`) and 0 (all others); `positive` defaults to the larger of two labels.

    Parameters
    ----------
    y : labels of one kind, numbers or text, shape (n,)
    positive : one of them, or None

    Raises
    ------
    ValueError
        if y has another shape, is not finite or holds labels that cannot be put in order, if no label is `positive`, or
        if none is given and there are not two labels.
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must have shape (n,), one label for each row, got shape {y.shape}.")
    wrong = y != y if y.dtype.kind != "f" else ~np.isfinite(y)
    if wrong.any():
        raise ValueError(f"y must be finite, got {y[np.argmax(wrong)]} at row {int(np.argmax(wrong))}.")
    try:
        labels = np.unique(y)
    except TypeError as error:
        raise ValueError(f"y must hold labels of one kind, numbers or text: {error}.") from error
    if positive is None:
        if len(labels) != 2:
            raise ValueError(f"positive must say which of the {len(labels)} labels is 1.")
        positive = labels[1]
    if np.ndim(positive) or positive not in labels.tolist():
        raise ValueError(f"positive must be one of the labels {labels[:10].tolist()}, got {positive!r}.")
    return (y == positive).astype(np.int64)


def split(data, *, test_size=0.1, random_state=None, official=True):
    """A `Dataset` with a test set: the official one where there is one, else a random one.

    The random one is stratified by class where the labels are classes; `test_size` is a share of the rows, or a whole
    number of them. With ``official=False`` the official test set is left aside and the training part split (as the
    bilevel paper seems to have done with a9a). After a random split every `extra` array "a" is joined by its test rows,
    "a_test".

    Raises
    ------
    TypeError
        if `data` is no `Dataset`.
    ValueError
        if `test_size` leaves one side empty or, with classes, one of them without a row on either side.
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a Dataset, as load gives it, got {type(data).__name__}.")
    if official and data.X_test is not None:
        return data
    if isinstance(test_size, bool) or not isinstance(test_size, Integral):
        check_number("test_size", test_size, above=0, below=1, why="it is a share, or an integer number of rows")
        test_size = float(test_size)
    data = replace(data, extra={name: values for name, values in data.extra.items() if not name.endswith("_test")})
    classes = data.y if data.y is not None and data.y.dtype.kind in "iu" else None
    seed = int(as_generator(random_state).integers(MAX_SEED))
    halves = train_test_split(np.arange(len(data.X)), test_size=test_size, stratify=classes, random_state=seed)
    train, test = (data.take(np.sort(rows)) for rows in halves)
    extra = train.extra | {f"{name}_test": values for name, values in test.extra.items()}
    return replace(train, X_test=test.X, y_test=test.y, extra=extra)


def standardise(X, *others, dtype=np.float64, order="C"):
    """`X` and `others` with the mean of X's columns taken off, divided by their standard deviation.

    Columns that are constant in X keep a standard deviation of 1, so that they become 0 there. Means and
    deviations are taken in float64 whatever the input, and neither under- nor overflow.

    Parameters
    ----------
    X : array or frame of numbers, shape (n, d); the training part
    *others : arrays or frames with the same d columns, on the same scale; None stays None
    dtype : of the result, float32 or float64
    order : "C" (rows) or "F" (columns contiguous)

    Returns
    -------
    tuple : one new array for each argument

    Raises
    ------
    ValueError
        if X has no row, if an argument is not a matrix of finite numbers or has other columns than X, or if a value of
        `others` is so far from X that its standardised value is not finite in `dtype`.
    """
    check_dtype(dtype)
    if str(order) not in ("C", "F"):
        raise ValueError(f"order must be C or F, got order={order!r}.")
    X, *others = _matrices(X, others)
    n = len(X)
    low, high = X.min(axis=0), X.max(axis=0)
    constant = low == high
    X, *others = _near_one(np.maximum(*(abs(end.astype(np.float64)) for end in (low, high))), constant, X, *others)
    with np.errstate(over="ignore"):  # of constant columns, whose mean is not used
        mean = np.where(constant, X[0], X.mean(axis=0, dtype=np.float64))
    variance = sum(((X[i : i + _BLOCK] - mean) ** 2).sum(axis=0) for i in range(0, n, _BLOCK)) / n
    scale = np.where(constant, 1.0, np.sqrt(variance))
    with np.errstate(over="ignore", invalid="ignore"):
        out = tuple(None if a is None else _scaled(a, mean, scale, dtype, order) for a in (X, *others))
    for i, other in enumerate(out[1:]):
        if other is not None and not np.isfinite(other).all():
            row, column = np.argwhere(~np.isfinite(other))[0]
            raise ValueError(f"others[{i}] is so far from X in row {row}, column {column} that {dtype} cannot hold it.")
    return out


def _matrices(X, others):
    """The arguments of `standardise` as arrays with the same columns; None stays None."""
    if X is None or np.shape(X)[:1] == (0,):
        raise ValueError(f"X must have at least 1 row to standardise by, got {None if X is None else 0}.")
    out, columns = [], getattr(X, "columns", None)
    for name, array in zip(["X", *(f"others[{i}]" for i in range(len(others)))], (X, *others)):
        if array is not None:
            if columns is not None and list(getattr(array, "columns", columns)) != list(columns):
                raise ValueError(f"{name} must have the columns of X, in their order.")
            with np.errstate(over="ignore", invalid="ignore"):  # it adds all values up before it looks at each
                array = check_array(array, dtype="numeric", ensure_min_samples=0, input_name=name)
            if array.shape[1] != (out[0] if out else array).shape[1]:
                raise ValueError(f"{name} must have the {out[0].shape[1]} columns of X, got {array.shape[1]}.")
        out.append(array)
    return out


def _near_one(magnitude, constant, *arrays):
    """The arrays with the columns of extreme magnitude brought near 1 by a power of two, which changes no digit."""
    extreme = ~constant & ((magnitude > _SAFE) | (magnitude < 1 / _SAFE))
    if not extreme.any():
        return arrays
    exponents = np.where(extreme, -np.frexp(magnitude)[1], 0)
    with np.errstate(over="ignore"):
        return [None if a is None else np.ldexp(a.astype(np.float64), exponents) for a in arrays]


def _scaled(array, mean, scale, dtype, order):
    out = np.empty(array.shape, dtype=dtype, order=order)
    for i in range(0, len(array), _BLOCK):
        out[i : i + _BLOCK] = (array[i : i + _BLOCK] - mean) / scale
    return out
