"""Balanced sampling: random rows whose estimated totals of chosen columns are those of all rows."""

from dataclasses import KW_ONLY
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Annotated, Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from handful.baselines.cube import cube_sample
from handful.baselines.stratified import codes, column_of
from handful.checks import Accepts
from handful.coreset import SizedSelector
from handful.options import integer
from handful.plans import ChooseAgain, inclusion_probabilities
from handful.running import warn
from handful.tables import as_array, is_missing, names_of

MAX_COLUMNS = 2000
"""Most columns whose correlations are computed: a matrix of 32 MB, and some seconds for its
eigenvectors."""
DEPENDENT = 1e-9
"""A column of which this share is left, once the columns before it are taken out, is a combination
of them."""


class BalancedCoreset(SizedSelector):
    """Random rows that keep the means and the shares of several columns, up to about one row.

    The cube method (Deville and Tillé 2004) draws rows with given inclusion probabilities, so that
    every weighted sum is estimated without bias, and among all such draws takes one whose estimated
    totals of the balanced columns are the totals of all rows. What is left is the rounding of its
    last steps: in a column less than what one row contributes, and seldom more in the worst of
    twenty.

    A number or a time is balanced in its powers up to `degree`, a word or a category in the share
    of each value, a tuple of columns in the share of each combination of their values; y too, where
    `fit` gets one. In a tuple and in y, whole numbers that repeat count as categories, as in
    ``("rooms",)``; other numbers are balanced within each combination. Values that can expect less
    than one row of the sample count as one. Missing values are a category of their own, and a
    number that is missing counts as the mean besides. As `size` rows can balance about half as many
    columns well, more than that are replaced by their leading principal components.

    Of rows in blocks, `size` are drawn from each, and `size` of all these: balanced twice.

    Parameters
    ----------
    size : int, default=100
        Number of rows m.
    by : column, tuple of columns, list of both, function or None, default=None
        What is balanced beside y: columns by their name in a data frame or by their position; a
        tuple stands for the cells of several columns; ``by(X)`` of a function is a float array of
        shape (n, k). None takes every column, an empty list none.
    degree : int, default=1
        The highest power of a number that is balanced: 1 keeps the mean, 2 the variance, too.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : int array of shape (m,)
        The rows, ascending.
    weights_ : float array of shape (m,)
        ``sample_weight`` over the probability that the row is
        drawn, which is proportional to ``sample_weight`` and at most 1: equal weights n / m where
        all rows count alike.
    n_balanced_ : int
        Number of columns that were balanced, the constant not counted.

    Notes
    -----
    A class with fewer rows than n / m may be missed, as every draw without bias misses it at times;
    `StratifiedCoreset` takes a row of each. The mean of a column that is no function of the
    balanced ones is estimated as well as by a uniform draw.

    References
    ----------
    J.-C. Deville and Y. Tillé (2004), Efficient balanced sampling: the cube method, Biometrika 91.
    The fast flight in groups follows G. Chauvet and Y. Tillé (2006), A fast algorithm for balanced
    sampling, Computational Statistics 21.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> town = rng.choice(["north", "south"], 5000, p=[0.6, 0.4])
    >>> table = pd.DataFrame({"town": town, "age": rng.normal(40, 12, 5000)})
    >>> few, w = BalancedCoreset(50, random_state=1).fit(table).take(table)
    >>> few["town"].value_counts().to_dict()
    {'north': 30, 'south': 20}
    >>> bool(abs(few["age"].mean() - table["age"].mean()) < 0.5)
    True
    """

    _accepts = Accepts(sparse=True, values=False)
    # the rounding of many small draws would add up
    _plan = ChooseAgain()
    _draws = True
    _ranks = False

    _: KW_ONLY
    by: Any = None
    degree: Annotated[int, integer(least=1, most=4)] = 1

    def _select(self, X, y, sample_weight, rng):
        # their scale changes no draw, and squares of huge ones would be infinite
        weights = sample_weight / sample_weight.max()
        features = self._features(X, y, weights)
        most = max(1, self.size // 2)
        balanced = leading_columns(features, weights, most)
        self.n_balanced_ = balanced.shape[1]
        probabilities = inclusion_probabilities(weights, self.size)
        each = weights[:, None]
        columns = np.column_stack([probabilities, weights, each * balanced])
        mean = np.average(features, axis=0, weights=weights)
        judged = in_rows(each * (features - mean), probabilities)
        drawn = cube_sample(columns, probabilities, rng, judged=judged)
        return drawn, sample_weight[drawn] / probabilities[drawn]

    def _features(self, X, y, weights):
        """The columns to balance, before any is left out: float array of shape (n, k)."""
        if callable(self.by):
            return _checked_features(self.by(X), X.shape[0])
        if len(X.shape) == 1:
            # a list or a column of words: one column
            X = np.reshape(as_array(X), (-1, 1))
        if len(X.shape) != 2:
            raise ValueError(
                f"X must be a table, shape (n, d), got shape {tuple(X.shape)}: give a function, "
                "such as by=lambda X: X.reshape(len(X), -1)."
            )
        parts = [self._features_of(X, column, weights) for column in self._columns(X)]
        if y is not None:
            labels = [(repr("y"), as_array(y))]
            parts.append(combinations(labels, weights, self.size, self.degree))
        no_columns = np.empty((X.shape[0], 0))
        features = np.column_stack([no_columns, *parts])
        _check_n_columns(features.shape[1])
        return features

    def _features_of(self, X, column, weights):
        """What is balanced of a column or of a tuple of columns: float array of shape (n, k)."""
        several = column if _is_several(X, column) else (column,)
        values = [(f"column {one!r}", column_of(X, one)) for one in several]
        if several is column:
            features = combinations(values, weights, self.size, self.degree)
        else:
            [(name, own)] = values
            features = described(own, weights, self.size, self.degree, name)
        is_constant = (features == features[:1]).all()
        is_lost = is_constant and any(codes(one).any() for _, one in values)
        if self.by is not None and is_lost:
            warn(
                f"by={column!r} is not balanced: no value of it can expect one of the "
                f"size={self.size} rows.",
            )
        return features

    def _columns(self, X):
        if self.by is None:
            _check_n_columns(X.shape[1])
            return names_of(X) or range(X.shape[1])
        # an array or an index of names is a list of them
        by = self.by
        if hasattr(by, "tolist"):
            by = by.tolist()
        return by if isinstance(by, list) else [by]


def _is_several(X, column):
    """Whether a tuple stands for several columns, not for one whose name it is."""
    is_filled = isinstance(column, tuple) and len(column) > 0
    return is_filled and column not in names_of(X)


def _checked_features(features, n):
    """What a function gave for n rows, as a float array of shape (n, k); ValueError where it is
    none."""
    if sparse.issparse(features):
        features = features.toarray()
    features = np.asarray(features)
    is_table = features.ndim == 2 and len(features) == n and features.dtype.kind in "biuf"
    if not is_table:
        raise ValueError(
            f"by(X) must be finite numbers of shape ({n}, k), got {features.dtype} of shape "
            f"{features.shape}."
        )
    features = features.astype(np.float64)
    if not np.isfinite(features).all():
        raise ValueError(
            f"by(X) must be finite numbers of shape ({n}, k), got shape {features.shape} with NaN "
            "or infinity."
        )
    return features


def _check_n_columns(n_columns):
    if n_columns > MAX_COLUMNS:
        raise ValueError(
            f"at most {MAX_COLUMNS:,} columns can be balanced, got {n_columns:,}: name some by "
            "`by`, or give a "
            "function, such as by=sklearn.decomposition.TruncatedSVD(20).fit_transform."
        )


def described(values, weights, size, degree, name):
    """What is balanced of one column: powers of numbers, or the shares of values, shape (n, k).

    Parameters
    ----------
    values : array or column of shape (n,)
    weights : float array of shape (n,)
    size : int, of the sample
    degree : int, the highest power
    name : str, of the column, for errors
    """
    numbers = _as_numbers(values)
    if numbers is None:
        return shares(values, weights, size)
    if np.isinf(numbers).any():
        raise ValueError(
            f"{name} holds infinity in {np.count_nonzero(np.isinf(numbers)):,} of {len(numbers):,} "
            "rows, so that it has no mean to balance: replace it, or leave the column out of `by`."
        )
    missing = np.isnan(numbers)
    if missing.all():
        return np.ones((len(numbers), 1))
    # so that squares of huge numbers are finite
    largest = np.abs(numbers[~missing]).max()
    numbers = numbers / (largest or 1.0)
    known = numbers[~missing]
    centre = known.mean()
    scale = known.std() or 1.0
    standardised = np.where(missing, 0.0, (numbers - centre) / scale)
    columns = [standardised**power for power in range(1, degree + 1)]
    if missing.any():
        columns.append(missing)
    return np.column_stack(columns)


def combinations(columns, weights, size, degree):
    """What is balanced of several columns together, and of classes: shape (n, k).

    The share of each combination of values, and of numbers with more values than that their powers
    within each, and the products of these.

    Parameters
    ----------
    columns : list of tuples of a name for errors and values of shape (n,)
    weights : float array of shape (n,)
    size : int, of the sample
    degree : int, the highest power of a number
    """
    _, first = columns[0]
    n = len(first)
    cells = np.zeros(n, dtype=np.intp)
    numbers = []
    for name, values in columns:
        if _are_classes(values, size):
            numbered = codes(values)
            cells = codes(cells * (numbered.max() + 1) + numbered)
        else:
            numbers.append(described(values, weights, size, degree, name))
    features = shares(cells, weights, size)
    for powers in numbers:
        products = features[:, :, None] * powers[:, None, :]
        features = np.column_stack([features, products.reshape(n, -1)])
    return features


def shares(values, weights, size):
    """A column of 0 and 1 for each value that can expect a row of the sample, by its weight, the
    others as one: shape (n, k)."""
    numbered = codes(values)
    expected = size * np.bincount(numbered, weights) / weights.sum()
    is_common = expected >= 1 - 1e-9
    own_column = np.cumsum(is_common) - 1
    last_column = np.count_nonzero(is_common)
    place = np.where(is_common, own_column, last_column)[numbered]
    columns = np.arange(place.max() + 1)
    return (place[:, None] == columns).astype(np.float64)


def leading_columns(features, weights, most):
    """Independent columns that span the features, or their `most` leading principal components:
    shape (n, k).

    Columns are standardised, with weights; constant ones are left out, and so is one that is a
    combination of those before it.

    Parameters
    ----------
    features : float array of shape (n, k)
    weights : float array of shape (n,)
    most : int
    """
    share = weights / weights.sum()
    # so that squares of huge numbers are finite
    largest = np.abs(features).max(axis=0, initial=0.0)
    features = features / np.where(largest > 0, largest, 1.0)
    centred = features - share @ features
    deviation = np.sqrt(share @ centred**2)
    varies = deviation > 1e-12
    standard = centred[:, varies] / deviation[varies]
    correlations = (standard * share[:, None]).T @ standard
    independent = _independent(correlations)
    if len(independent) <= most:
        return standard[:, independent]
    k = len(correlations)
    _, vectors = eigh(correlations, subset_by_index=(k - most, k - 1))
    return standard @ vectors[:, ::-1]


def _independent(correlations):
    """Places of the columns that are no combination of those before them, by a Cholesky
    decomposition."""
    rest = correlations.copy()
    independent = []
    for column in range(len(rest)):
        if rest[column, column] > DEPENDENT:
            independent.append(column)
            row = rest[column] / np.sqrt(rest[column, column])
            rest -= np.outer(row, row)
    return independent


def in_rows(columns, probabilities):
    """Columns in a unit in which one row of a sample contributes at most 1 to a total: shape (n,
    k)."""
    of_rows = np.abs(columns / probabilities[:, None])
    largest = of_rows.max(axis=0, initial=0.0)
    units = np.where(largest > 0, largest, 1.0)
    return columns / units


def _as_numbers(values):
    """A column of numbers or times as floats, NaN where one is missing; None if it holds anything
    else, categories that are numbers among it."""
    kind = getattr(values, "dtype", getattr(values, "type", None))
    kind = getattr(kind, "pyarrow_dtype", kind)
    # categories of pandas, dictionaries of pyarrow
    if hasattr(kind, "categories") or hasattr(kind, "index_type"):
        return None
    if hasattr(values, "to_numpy"):
        array = values.to_numpy()
    else:
        array = as_array(values)
    if array.dtype.kind in "mM":
        ticks = array.astype(np.int64)
        return np.where(np.isnat(array), np.nan, ticks)
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind != "O":
        return None
    numbers = [np.nan if is_missing(value) else _number(value) for value in array]
    if None in numbers:
        return None
    return np.array(numbers)


def _number(value):
    """A number or a time (in seconds, a period by its place) as a float; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Real | Decimal):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        # without a zone as if in UTC, whatever the zone of this machine
        if not value.tzinfo:
            value = value.replace(tzinfo=UTC)
        return value.timestamp()
    if isinstance(value, date):
        return float(value.toordinal())
    # of a pandas Period
    ordinal = getattr(value, "ordinal", None)
    return float(ordinal) if isinstance(ordinal, int) else None


def _are_classes(values, size):
    """Whether values are classes: words, or few enough whole numbers that each may have two
    rows."""
    numbers = _as_numbers(values)
    if numbers is None:
        return True
    present = numbers[~np.isnan(numbers)]
    is_whole = (present == np.floor(present)).all()
    return bool(is_whole) and 2 * len(np.unique(present)) <= size
