"""Input checks that the estimators share: each names the thing, the limit and what it got.

No other module calls scikit-learn's own checks of rows, so that all rows are `readable` first.
"""

import operator
import os
import warnings
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags, validation
from sklearn.utils.multiclass import type_of_target

from handful.rows import RowBlocks
from handful.running import physical_memory
from handful.tables import (
    are_names,
    as_array,
    check_no_names,
    check_tables,
    exceeds_memory,
    is_dask,
    is_files,
    is_missing,
    missing,
    names_of,
    readable,
    row_array,
)
from handful.trainers import input_tags_of

LARGEST = float(np.finfo(np.float64).max)
# So many entries of a column say whether it holds texts, and so many spaces make one.
MANY_WORDS = 1000
LONG_TEXT = 2
MAX_SEED = np.iinfo(np.int32).max
LIMITS = {
    "above": (operator.gt, "greater than"),
    "least": (operator.ge, "of at least"),
    "below": (operator.lt, "less than"),
    "most": (operator.le, "at most"),
}


@dataclass(frozen=True)
class Accepts:
    """What a selector accepts of the rows that it chooses from.

    Attributes
    ----------
    y : what the selector makes of y. "unread": nothing, so that labels may be missing, or several a
        row, and are not handed on; "optional": it looks at y where it is given; "targets": it needs
        it; "classes": it needs it, and it holds classes; "two classes": at least two of them, and
        rows of a single class, such as a chunk of a stream, go to `_select_one_class`
    sparse : whether X may be sparse
    dtypes : types of X; others are converted to the first
    values : whether the values of X are looked at; else words, categories and missing values pass,
        and X comes as it is
    encodes : whether steps of its own make numbers of X, so that it takes frames with words, too
    """

    y: Literal["unread", "optional", "targets", "classes", "two classes"] = "optional"
    sparse: bool = False
    dtypes: tuple = (np.float64, np.float32)
    values: bool = True
    encodes: bool = False

    @property
    def frames(self):
        """Whether X may be a frame with words, which comes with the names of its columns."""
        return self.encodes or not self.values

    @property
    def needs_y(self):
        """Whether y may not be None."""
        return self.y in ("targets", "classes", "two classes")

    @property
    def reads_y(self):
        """Whether y is looked at where it is given."""
        return self.y != "unread"

    @property
    def classes(self):
        """Whether y holds classes."""
        return self.y in ("classes", "two classes")


def check_has_y(selector, y, why="which points it selects depends on y"):
    """ValueError, with the reason, where y is None for a selector whose tags say that it needs
    one."""
    if y is None and get_tags(selector).target_tags.required:
        raise ValueError(
            f"{type(selector).__name__} requires y to be passed, but the target y is None: {why}."
        )


def accepts_of(selector):
    """What a selector declares that it accepts; the default for one that is no `Selector`."""
    return getattr(selector, "_accepts", Accepts())


class ConvergenceError(ValueError):
    """A solver or a training did not converge: check the scale of the features, the penalty, the
    learning rate."""


def check_integer(name, value, *, least=1, most=None, of=None, why=""):
    """ValueError unless `value` is an integer within the limits; a bool does not count as a number.

    Parameters
    ----------
    name : str, of the parameter
    value : what it got
    least, most : int, the limits, themselves allowed; `most` may be None
    of : object whose type the message names with the parameter, or None
    why : str, ends the message: what the limit is for, or the way out
    """
    _check(name, value, Integral, "an integer", dict(least=least, most=most), of, why)


def check_number(name, value, *, above=None, least=None, below=None, most=None, of=None, why=""):
    """ValueError unless `value` is a finite real number within the limits; a bool does not count as
    a number.

    Parameters
    ----------
    above, below : numbers, limits that are not themselves allowed, or None
    least, most : numbers, limits that are, or None
    name, value, of, why : as in `check_integer`
    """
    _check(
        name,
        value,
        Real,
        "a finite number",
        dict(above=above, least=least, below=below, most=most),
        of,
        why,
    )


def _check(name, value, kind, what, limits, of, why):
    limits = {key: limit for key, limit in limits.items() if limit is not None}
    # A limit may lie outside of float32.
    number = value.item() if isinstance(value, np.generic) else value
    good = isinstance(value, kind) and not isinstance(value, bool) and abs(number) <= LARGEST
    if good and all(LIMITS[key][0](number, limit) for key, limit in limits.items()):
        return
    owner = "" if of is None else f" of {type(of).__name__}"
    wanted = " ".join(
        [what, " and ".join(f"{LIMITS[key][1]} {limit}" for key, limit in limits.items())]
    ).rstrip()
    shown = shorten(repr(value), 80)
    raise ValueError(f"{name}{owner} must be {wanted}, got {name}={shown}{why and f': {why}'}.")


def check_dtype(dtype):
    """ValueError unless `dtype` is float32 or float64."""
    if dtype not in (np.float32, np.float64, "float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64, got dtype={dtype!r}.")


def check_array(array, **rules):
    """As `sklearn.utils.check_array`, of an array made `readable`, without dates."""
    name = rules.get("input_name") or "X"
    if rules.get("ensure_2d", True):
        check_no_words(array, name)
    if rules.get("dtype", "numeric") is not None:
        check_no_dates(array, name)
    with faults_named(array, name):
        return validation.check_array(readable(array), **rules)


def validate_data(estimator, X="no_validation", y="no_validation", **rules):
    """As `sklearn.utils.validation.validate_data`, of an X and a y made `readable`, the labels by
    `check_labels`; X without dates, and sparse only where that is accepted."""
    if isinstance(X, str):
        # To check y alone is to forget the names of X's columns: a copy forgets them.
        estimator = copy(estimator)
    if y is not None and not isinstance(y, str):
        y = readable(y)
        check_labels(y, several=rules.get("multi_output", False), of=estimator)
    if not rules.get("skip_check_array", False):
        check_no_words(X)
        check_no_dates(X)
        if sparse.issparse(X) and not rules.get("accept_sparse", False):
            raise TypeError(
                f"X is sparse, shape {X.shape}, and {type(estimator).__name__} reads dense rows: "
                "make few columns of it, for example by scikit-learn's "
                "TruncatedSVD(100).fit_transform(X), or give X.toarray(). BilevelCoreset takes "
                "sparse rows."
            )
    with faults_named(X):
        return validation.validate_data(estimator, readable(X), y, **rules)


def check_X_y(X, y, name="y", **rules):
    """As `sklearn.utils.check_X_y`, of an X and a y made `readable`; the labels by `check_labels`
    under a name."""
    y = readable(y)
    check_labels(y, name)
    check_no_dates(X)
    with faults_named(X):
        return validation.check_X_y(readable(X), y, **rules)


def check_same_names(X, other):
    """ValueError where both tables name their columns, and not alike."""
    columns = BaseEstimator()
    validate_data(columns, X, skip_check_array=True)
    with warnings.catch_warnings():
        # one of both is an array
        warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
        validate_data(columns, other, reset=False, skip_check_array=True)


def check_no_words(X, name="X"):
    """ValueError for words, texts or names of files, one a row, where rows of numbers are read."""
    listed = isinstance(X, list | tuple)
    words = [word for word in (X if listed else _objects(X)) if not is_missing(word)]
    if not are_names(words):
        return
    way_out = (
        "turn texts into numbers first, for example by scikit-learn's "
        f"TfidfVectorizer().fit_transform({name}), names of categories by OneHotEncoder()"
    )
    if listed and is_files([Path(os.fsdecode(word)) for word in words]):
        way_out = (
            f"name files by Paths, [Path(name) for name in {name}], or Blocks({name}); a list of "
            "strings is rows"
        )
    raise ValueError(
        f"{name} must hold rows of numbers, but its rows are {type(words[0]).__name__}, such as "
        f"{str(words[0])[:40]!r}: {way_out}."
    )


def _objects(column):
    # The entries of a column that may hold words; none of anything else.
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    may_hold_words = kind in "OUST" and not hasattr(column, "detach")
    if may_hold_words and len(getattr(column, "shape", ())) == 1:
        return np.asarray(column, dtype=object)
    return ()


def check_no_dates(X, name="X"):
    """ValueError for dates and times where numbers are read: numpy would take them for the units
    since 1970."""
    if dates := _date_columns(X):
        raise ValueError(_of_dates(dates, X, name))
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind and kind in "mM":
        raise ValueError(
            f"{name} holds dates or times, {X.dtype}: make numbers of them, for example "
            f"({name} - {name}.min()) / numpy.timedelta64(1, 'D')."
        )


# What a message says that has named the columns of words.
WORDS_NAMED = "words: encode"
# Of an error that a library raises of words where it reads numbers.
OF_WORDS = (
    "convert string",
    "bytes/strings",
    "NAType",
    # of a frame with nullable columns
    "Cannot cast str",
    # boosting libraries' of a frame
    "dtypes must be",
    "dtypes for data must be",
)
# The same of dates and times.
OF_DATES = (
    "DateTime64DType",
    "TimeDelta64DType",
    "datetime64",
    "timedelta64",
    "Timestamp",
    "Timedelta",
    "DatetimeArray",
    "PeriodArray",
    "'Period'",
)
# How the types of their columns begin, in small letters, in pandas, polars and arrow.
DATES = "date", "time", "period", "duration"


@contextmanager
def words_named(X, name="X"):
    """Context in which a ValueError or TypeError about words or dates in place of numbers names the
    columns of `X` that hold them, and the way out."""
    try:
        yield
    except (ValueError, TypeError) as error:
        said = str(error)
        if any(cause in said for cause in OF_DATES) and (dates := _date_columns(X)):
            raise ValueError(_of_dates(dates, X, name)) from error
        about_words = any(cause in said for cause in OF_WORDS)
        columns = word_columns(X) if about_words and WORDS_NAMED not in said else []
        if not columns:
            raise
        encoder = "OneHotEncoder or OrdinalEncoder"
        if texts := [column for column in columns if _holds_texts(_column_of(X, column))]:
            names = ", ".join(map(repr, texts[:5]))
            of_texts = f"TfidfVectorizer for the texts of {names}"
            encoder = f"{of_texts}, {encoder} for others" if len(texts) < len(columns) else of_texts
        raise ValueError(
            f"{said.rstrip('.')}. {_listed(columns, name)} {WORDS_NAMED} them as numbers, for "
            f"example by scikit-learn's {encoder} in a ColumnTransformer."
        ) from error


def _listed(columns, name):
    # How a sentence about the first five of some columns begins.
    shown = ", ".join(map(repr, columns[:5])) + (", ..." if len(columns) > 5 else "")
    one = len(columns) == 1
    return f"{'Column' if one else 'Columns'} {shown} of {name} {'holds' if one else 'hold'}"


def _date_columns(X):
    """The names of a frame's columns of dates and times, and their types: a dict."""
    # arrow's word, and that of other frames
    kinds = getattr(getattr(X, "schema", None), "types", getattr(X, "dtypes", None))
    if kinds is None or not hasattr(X, "columns"):
        return {}
    named = {name: str(kind).lower() for name, kind in zip(names_of(X), kinds)}
    return {name: kind for name, kind in named.items() if kind.startswith(DATES)}


def _of_dates(dates, X, name):
    """What is said of a frame's columns of dates and times."""
    # other frames have other words for it
    way_out = "days since the first"
    if hasattr(X, "iloc"):
        way_out = _as_number(*next(iter(dates.items())), name)
    return (
        f"{_listed(list(dates), name)} dates or times: make numbers of them, for example "
        f"{way_out}, or leave them out."
    )


def _as_number(column, kind, name):
    """A line of Python that makes numbers of a column of dates or times."""
    own = f"{name}[{column!r}]"
    if kind.startswith(("timedelta64", "duration")):
        return f"{own}.dt.total_seconds()"
    if kind.startswith("period"):
        own = f"{own}.dt.start_time"
    return f"({own} - {own}.min()).dt.days"


@contextmanager
def faults_named(X, name="X"):
    """Context of scikit-learn's check of rows, in which a ValueError names also the columns of
    words, the first entry that is NaN or infinite, and the shape of what is no table, without all
    that it holds."""
    try:
        with words_named(X, name):
            yield
    except ValueError as error:
        said = str(error)
        told = ""
        if said.startswith((f"Input {name} contains", "Input contains")):
            told = _of_gaps(X, said.partition("\n")[0].rstrip("."), name)
        elif "\narray=" in said:
            # What follows is all that X holds, and the way out.
            said, _, rest = said.partition("\narray=")
            way_out = rest[rest.rindex("\nReshape") :]
            told = f"{said} {name} has shape {tuple(np.shape(X))}.{way_out}"
        if not told:
            raise
        raise ValueError(told) from None


def _of_gaps(X, said, name):
    """What is said of entries that are NaN or infinite, and where the first is; "" where they are
    not found."""
    is_nan = "NaN" in said
    entries = X.tocoo() if sparse.issparse(X) else as_array(X)
    values = entries.data if sparse.issparse(X) else entries
    gone = missing(values) if is_nan else np.isinf(values.astype(np.float64))
    if not gone.any() or np.ndim(entries) > 2:
        return ""
    places = np.argwhere(gone)
    if sparse.issparse(X):
        rows_and_columns = np.column_stack([entries.row, entries.col])
        places = np.unique(rows_and_columns[places[:, 0]], axis=0)
    filled = ", or fill them in, for example by scikit-learn's SimpleImputer()"
    way_out = f"Leave out such rows{filled if is_nan and name == 'X' else ''}."
    return f"{said}: {_first_of(places, entries.shape[0], X)}. {way_out}"


@contextmanager
def training_named(estimator, rows, call="{}"):
    """Context of training an estimator, in which a ValueError or TypeError about words or gaps in
    its rows says what to put in front of it.

    Parameters
    ----------
    estimator : what is trained
    rows : what it is trained on
    call : str, the example of the message, where {} stands for the estimator
    """
    try:
        with words_named(rows):
            yield
    except (ValueError, TypeError) as error:
        way_out = _in_front(error, estimator, rows, call)
        if not way_out:
            raise
        raise ValueError(way_out) from error


def _in_front(error, estimator, rows, call):
    """The message of `training_named`; "" where it knows no way out."""
    said = str(error).strip().partition("\n")[0].rstrip(".:")
    words = word_columns(rows) if any(cause in str(error) for cause in OF_WORDS) else []
    has_gaps = said.startswith(("Input X contains NaN", "Input contains NaN"))
    steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    encodes = any(hasattr(step, "transformers") for step in steps)
    if encodes or not (words or has_gaps):
        return ""
    first = "SimpleImputer()"
    what = "fills in what is missing"
    instead = ""
    if words:
        encoder = f"(OneHotEncoder(handle_unknown='ignore'), {words!r})"
        first = f"make_column_transformer({encoder}, remainder='passthrough')"
        what = "encodes words"
        if len(steps) == 1 and hasattr(rows, "iloc"):
            instead = _as_categories(estimator, rows, words)
    example = call.format(f"make_pipeline({', '.join([first, *map(_written, steps)])})")
    return (
        f"{said}. {_name(steps[-1])} is to train on these rows: put what {what} in front, for "
        f"example {example}.{instead}"
    )


def _as_categories(estimator, rows, words):
    """What to say of an estimator that takes the columns of words as categories, which they are not
    yet."""
    are_categories = all(hasattr(kind, "categories") for kind in rows[words].dtypes)
    if are_categories or not _takes_categories(estimator):
        return ""
    levels = dict.fromkeys(words, "category")
    return f" {_name(estimator)} also takes categories, X.astype({levels!r})."


def _name(thing):
    return type(thing).__name__


def _written(step):
    # As an example has it, with defaults; a step of a Pipeline may be a word or None.
    if not hasattr(step, "fit"):
        return repr(step)
    needed = [
        one
        for one in signature(type(step)).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    return f"{type(step).__name__}({'...' if needed else ''})"


def _takes_categories(estimator):
    # No tag of boosting says so, but an option of it or of its `fit` does.
    options = {*getattr(estimator, "get_params", dict)(), *signature(estimator.fit).parameters}
    tagged = input_tags_of(estimator).categorical
    return tagged or any("categorical" in option for option in options)


def word_columns(X):
    """The columns of a table that hold words which are no numbers: a list of their names, or of
    their places where they have none."""
    listed = isinstance(X, list | tuple)
    array = np.asarray(X, dtype=object) if listed else as_array(X)
    if array.ndim != 2 or array.dtype.kind not in "OUS":
        return []
    names = names_of(X) or range(array.shape[1])
    return [name for name, column in zip(names, array.T) if any(map(_is_word, column))]


def _column_of(X, column):
    """The entries of a column of a table, by its name, or by its place where it has none."""
    if hasattr(X, "columns"):
        return np.asarray(X[column], dtype=object)
    return np.asarray(X, dtype=object)[:, column]


def _holds_texts(entries):
    """Whether words are texts, of several words each and hardly ever the same, not categories."""
    words = [str(word) for word in entries[:MANY_WORDS] if _is_word(word)]
    n_long = sum(word.strip().count(" ") >= LONG_TEXT for word in words)
    return n_long > len(words) / 2 and len(set(words)) > len(words) / 2


def _is_word(value):
    if not isinstance(value, str | bytes):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def check_labels(y, name="y", *, several=True, of=None):
    """ValueError, with the first row and its column, where labels are missing.

    Parameters
    ----------
    y : labels or targets, shape (n,) or (n, columns): array, frame or list
    name : str
    several : bool, whether there may be several columns
    of : object whose type the message names
    """
    gone = np.atleast_1d(missing(y))
    if not several and gone.ndim == 2 and gone.shape[1] > 1:
        raise ValueError(
            f"{name} must hold one label a row, shape ({len(gone)},), as {type(of).__name__} looks "
            f"at it, got shape {gone.shape}; the order is fit(X, y). Several are for what does not "
            "look at them: UniformCoreset, for example, or a "
            "ReservoirCoreset with balanced=False."
        )
    if gone.any():
        found = _first_of(np.argwhere(gone), len(gone), y)
        raise ValueError(
            f"{name} has missing labels: {found}. Leave out these rows, of X too, or fill in what "
            "is missing; selectors that do not look at y need no labels."
        )
    _check_sortable(y, name)


def _check_sortable(y, name):
    """ValueError, with the first odd row, for words among numbers: no order holds both."""
    values = np.asarray(y)
    if values.dtype != object or values.ndim != 1:
        return
    is_word = np.fromiter((isinstance(one, str) for one in values), bool, len(values))
    if is_word.any() and not is_word.all():
        row = int(np.argmin(is_word == is_word[0]))
        raise ValueError(
            f"{name} mixes words and numbers: {values[0]!r} in row 0, {values[row]!r} in row "
            f"{row}. Give labels of one type, such as {name}.astype(str)."
        )


def check_classes(y, name="y"):
    """ValueError for numbers in a column of objects, which scikit-learn takes for no classes."""
    values = np.asarray(y)
    if values.dtype == object and all(isinstance(one, Real | np.bool_) for one in values.flat):
        raise ValueError(
            f"Unknown label type: {name} holds numbers in a column of objects, such as "
            f"{values.flat[0]!r}. Give labels of one type, such as {name}.astype(int)."
        )


def _first_of(places, n, values):
    """How many of n rows of values have some entries, and where the first is, of their places:
    shape (k, 1) or (k, 2), in order."""
    row, *place = places[0]
    # The columns of arrow are not their names.
    columns = getattr(values, "column_names", getattr(values, "columns", None))
    column = (
        getattr(values, "name", None)
        if not place
        else place[0]
        if columns is None
        else columns[place[0]]
    )
    column = column.item() if isinstance(column, np.generic) else column
    where = "" if column is None else f" of column {column!r}"
    n_rows = len(np.unique(places[:, 0]))
    return f"{n_rows} of {n} rows, the first at row {row}{where}"


def check_rows(X, name="X", *, accept_sparse=False):
    """`X` as a matrix of finite float32 or float64 of which products of four do not overflow, or
    ValueError."""
    check_in_memory(name, X)
    try:
        X = check_array(
            X, dtype=[np.float64, np.float32], input_name=name, accept_sparse=accept_sparse
        )
    except (ValueError, TypeError) as error:
        # Of shapes and objects the message does not say what has them.
        said = str(error)
        raise type(error)(said if said.startswith(name) else f"{name}: {said}") from None
    check_magnitude(X if isinstance(X, np.ndarray) else X.data, name, X.dtype)
    return X


def check_vector(values, name, n=None, *, least=None, of_words=""):
    """`values` as a float64 array, shape (n,), or ValueError.

    Parameters
    ----------
    values : finite numbers of which products of four do not overflow
    name : str
    n : int, the length; None for any but 0
    least : number, below which no entry may be, or None
    of_words : str, ends the message for words: the way out
    """
    check_in_memory(name, values)
    values = readable(values)
    if np.ndim(values) != 1 or len(values) != (n or len(values)):
        wanted = "(n,)" if n is None else f"({n},)"
        raise ValueError(
            f"{name} must hold real numbers, shape {wanted}, got shape {np.shape(values)}."
        )
    try:
        out = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    except (ValueError, TypeError) as error:
        words = [value for value in np.asarray(values, dtype=object) if _is_word(value)]
        if not words:
            raise
        why = of_words and f": {of_words}"
        raise ValueError(
            f"{name} must hold numbers, got words, such as {str(words[0])!r}{why}."
        ) from error
    if least is not None and out.min() < least:
        raise ValueError(
            f"{name} must hold finite numbers of at least {least}, got {out.min():.3g}."
        )
    check_magnitude(out, name, out.dtype)
    return out


def checked_shape(X, *, ensure_min_samples=1):
    """X itself, in a form that has rows: CSR if sparse, an array if a list; its values are not
    read.

    Rows are those of a table, words, texts or other things, shape (n,), or images, shape (n, ...).
    `ensure_min_samples` is the least number of them, as in `sklearn.utils.check_array`.

    Raises
    ------
    ValueError
        as `sklearn.utils.check_array` does, for a column of numbers, too few rows, no features, or
        complex numbers
    """
    X = X.tocsr() if sparse.issparse(X) else row_array(X)
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    stand_in = np.zeros((), dtype=complex if kind == "c" else float)
    shape = (len(X), 1) if len(X.shape) == 1 and kind not in "biufc" else X.shape
    stand_in = np.broadcast_to(stand_in, shape)
    with faults_named(X):
        validation.check_array(stand_in, allow_nd=True, ensure_min_samples=ensure_min_samples)
    return X


def weights_of_rows(sample_weight, n, start=0):
    """The weights of `n` rows, from place `start` of the data on, as a float64 array; ValueError
    for another number of them, and for one that is negative or not finite."""
    wanted = f"sample_weight must have shape ({n},), one weight a row"
    if isinstance(sample_weight, Real):
        raise ValueError(f"{wanted}, got {sample_weight}.")
    sample_weight = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if sample_weight.shape != (n,):
        raise ValueError(f"{wanted}, got {sample_weight.shape}.")
    if (sample_weight < 0).any():
        worst = int(np.argmin(sample_weight))
        raise ValueError(
            f"sample_weight must not be negative, got {sample_weight[worst]} at row "
            f"{start + worst}."
        )
    return sample_weight


def check_sample_weight(sample_weight, n):
    """Weights as a float64 array of length `n`; ones for None.

    Raises
    ------
    ValueError
        for weights that are negative, not finite or all zero, and where their sum over- or
        underflows
    """
    if sample_weight is None:
        return np.ones(n)
    check_in_memory("sample_weight", sample_weight)
    sample_weight = weights_of_rows(sample_weight, n)
    check_some_count(sample_weight.any(), n)
    with np.errstate(over="ignore"):
        total = sample_weight.sum()
    # squares of sums of weights are taken
    if not np.finfo(np.float64).tiny <= total < LARGEST**0.5:
        raise ValueError(
            f"sample_weight must have a sum of at least 2e-308 and below 1e154, got {total:.3g}: "
            "divide the weights by it."
        )
    return sample_weight


def check_some_count(count, n):
    """ValueError unless some of n rows have a positive weight."""
    if not count:
        raise ValueError(f"sample_weight is zero for all {n} rows: none counts.")


def counted_rows(X, sample_weight):
    """Places of the rows of positive weight, or None where all count; ValueError as in
    `check_sample_weight`."""
    if sample_weight is None:
        return None
    weights = check_sample_weight(sample_weight, validation._num_samples(X))
    return None if weights.all() else np.flatnonzero(weights)


def without_absent(y, sample_weight):
    """`y` with the label of a row that counts for each row of weight zero, so that no class is of
    absent rows only."""
    if y is None or sample_weight.all():
        return y
    y = np.array(y)
    y[sample_weight == 0] = y[np.argmax(sample_weight > 0)]
    return y


def check_magnitude(values, name, dtype):
    """ValueError if an entry is so large that sums of products of four of them may overflow in
    `dtype`."""
    limit = float(np.finfo(dtype).max) ** 0.25
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if largest > limit:
        raise ValueError(
            f"{name} must not have entries larger than {limit:.0e} in magnitude "
            f"({np.dtype(dtype)}), got "
            f"{largest:.3g}: products of them overflow; scale the data."
        )


def check_size(size, n_available, n, *, repeats=False, name="size"):
    """ValueError unless `size` is an integer in 1..n_available (any positive integer with
    `repeats`)."""
    check_integer(name, size)
    if size > n_available and not repeats:
        of_weight = (
            "" if n_available == n else f" of which {n_available} have a positive sample_weight"
        )
        raise ValueError(
            f"{name} must be at most the number of rows, got {name}={size} for "
            f"n_samples={n}{of_weight}."
        )


def signed_labels(y, model, *, several=False, of_targets="BilevelCoreset(LeastSquares(...))"):
    """The two classes of `y`, sorted, and `y` as float64 -1 (first class) and +1 (second).

    Parameters
    ----------
    y : labels of any kind, shape (n,)
    model : str, what needs two classes, for the message: "an SVM"
    several : bool; k > 2 classes are fine, too: then the signs have shape (k, n), +1 where the row
        is of the class
    of_targets : str, what takes the targets of a regression, for the message

    Raises
    ------
    ValueError
        unless there are exactly two classes, or with `several` at least two.
    """
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind.startswith("continuous"):
        raise ValueError(
            f"Unknown label type: {kind}. {model} needs y to hold classes; for the targets of a "
            f"regression there is {of_targets}."
        )
    classes, codes = np.unique(y, return_inverse=True)
    if several and len(classes) > 2:
        return classes, 2.0 * (codes == np.arange(len(classes))[:, None]) - 1.0
    if len(classes) != 2:
        shown = ", ".join(repr(c.item() if hasattr(c, "item") else c) for c in classes[:5])
        few = (
            "y holds one class only"
            if len(classes) == 1
            else "Only binary classification is supported"
        )
        wanted = "at least" if several else "exactly"
        raise ValueError(
            f"{few}: {model} needs {wanted} 2 classes, got {len(classes)} class(es): {shown}."
        )
    return classes, 2.0 * codes - 1.0


def as_real(values, name):
    """A float64 array, of any shape, of numbers, which may be NaN or infinite; ValueError for what
    is complex."""
    array = as_array(values)
    if array.dtype.kind == "c":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}: {error}.") from error


def as_generator(random_state):
    """A `numpy.random.Generator` from None, an int of at least 0, a RandomState or a Generator;
    else ValueError."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        return np.random.default_rng(check_random_state(random_state).randint(MAX_SEED))
    why = "it may also be None, a Generator or a RandomState"
    check_integer("random_state", random_state, least=0, why=why)
    return np.random.default_rng(int(random_state))


def check_generator(rng):
    """TypeError unless `rng` is a `numpy.random.Generator`."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            "rng must be a numpy.random.Generator, such as numpy.random.default_rng(0); got "
            f"{rng!r}."
        )


def check_memory(what, n_bytes, way_out):
    """MemoryError, before anything is allocated, where `n_bytes` are more than this machine has.

    Parameters
    ----------
    what : str, what would be allocated, with its shape
    n_bytes : number
    way_out : str, ends the message
    """
    if n_bytes > physical_memory():
        raise MemoryError(
            f"{what} needs {int(n_bytes):,} bytes, more than the {physical_memory():,} of this "
            f"machine: {way_out}."
        )


def check_coreset(indices, weights):
    """Indices (as intp) and weights of a coreset as new arrays; ValueError as for
    `handful.Coreset`."""
    indices = np.array(indices)
    weights = np.array(weights)
    if indices.ndim != 1 or indices.shape != weights.shape:
        raise ValueError(
            "a coreset needs one weight per index: got indices of shape "
            f"{indices.shape} and weights of shape {weights.shape}."
        )
    if len(indices) and (indices.dtype.kind not in "iu" or indices.min() < 0):
        raise ValueError(
            "indices of a coreset must be integers of at least 0, rows of the data set."
        )
    if len(weights) and (
        weights.dtype.kind not in "fiu" or not (np.isfinite(weights) & (weights >= 0)).all()
    ):
        raise ValueError("weights of a coreset must be finite numbers of at least 0.")
    return indices.astype(np.intp, copy=False), weights


def is_blocks(X, *others):
    """Whether rows are to be read in blocks: dask data, files, `Blocks`, and arrays that exceed
    half of the memory."""
    check_tables(X, *others)
    if is_files(X):
        return True
    check_no_names(*others)
    return isinstance(X, RowBlocks) or is_dask(X, *others) or exceeds_memory(X)


def check_in_memory(name, *data):
    """ValueError for dask data, files and `Blocks`, given to what works on rows in memory only.

    Parameters
    ----------
    name : str, of the class, function or argument
    data : its arguments
    """
    check_tables(*data)
    if is_dask(*data) or any(isinstance(values, RowBlocks | str | PathLike) for values in data):
        raise ValueError(
            f"{name} must have its rows in memory, got dask data, files or Blocks: choose rows "
            "first, for example "
            "X, y, w = UniformCoreset(10_000).fit(X, y).take(X, y), or compute() what fits."
        )
