"""Balanced sampling: random rows whose estimated totals of chosen columns are those of all rows."""

from dataclasses import KW_ONLY
from numbers import Real
from typing import Annotated, Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils.multiclass import type_of_target

from handful.baselines.cube import cube_sample
from handful.baselines.stratified import codes, column_of, is_missing
from handful.checks import Accepts
from handful.coreset import SizedSelector
from handful.options import integer
from handful.plans import DrawShares
from handful.tables import as_array, take_rows

MAX_COLUMNS = 2000
"""Most columns whose correlations are computed: a matrix of 32 MB, and some seconds for its
eigenvectors."""
DEPENDENT = 1e-9
"""A column of which this share is left, once the columns before it are taken out, is a combination
of them."""


class BalancedCoreset(SizedSelector):
    """Random rows that keep the means and the shares of several columns, up to a fraction of one
    row.

    The cube method (Deville and Tillé 2004) draws rows with given inclusion probabilities, so that
    every weighted sum is estimated without bias, and among all such draws takes one whose estimated
    totals of the balanced columns are the totals of all rows. What is left is the rounding of its
    last steps, about one row in each column.

    A number is balanced in its powers up to `degree`, a word or a category in the share of each
    value, a tuple of columns in the share of each combination of their values; y too, where `fit`
    gets one. Values that can expect less than one row of the sample count as one. Missing values
    are a category of their own, and a number that is missing counts as the mean besides. As `size`
    rows can balance about half as many columns well, more than that are replaced by their leading
    principal components.

    Parameters
    ----------
    size : int, default=100
        Number of rows m.
    by : column, tuple of columns, list of both, function or None, default=None What is balanced
        beside y: columns by their name in a data frame or by their position; a tuple stands for the
        cells of several columns; ``by(X)`` of a function is a float array of shape (n, k). None
        takes every column. Earlier columns are balanced better than later ones.
    degree : int, default=1
        The highest power of a number that is balanced: 1 keeps the mean, 2 the variance, too.
    random_state : int, Generator or None, default=None

    Attributes
    ----------
    indices_ : int array of shape (m,)
        The rows, ascending.
    weights_ : float array of shape (m,) ``sample_weight`` over the probability that the row is
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
    >>> few, w = BalancedCoreset(50, random_state=0).fit(table).take(table)
    >>> few["town"].value_counts().to_dict()
    {'north': 30, 'south': 20}
    >>> bool(abs(few["age"].mean() - table["age"].mean()) < 0.5)
    True
    """

    _accepts = Accepts(sparse=True, values=False)
    _plan = DrawShares()
    _draws = True
    _ranks = False

    _: KW_ONLY
    by: Any = None
    degree: Annotated[int, integer(least=1, most=4)] = 1

    def _select(self, X, y, sample_weight, rng):
        present = np.flatnonzero(sample_weight)
        weights = sample_weight[present]
        features = self._features(take_rows(X, present), take_rows(y, present))
        features = leading_columns(features, weights, most=max(1, self.size // 2))
        self.n_balanced_ = features.shape[1]
        probabilities = inclusion_probabilities(weights, self.size)
        columns = np.column_stack([probabilities, weights, weights[:, None] * features])
        drawn = cube_sample(columns, probabilities, rng)
        return present[drawn], weights[drawn] / probabilities[drawn]

    def _features(self, X, y):
        """The columns to balance, before any is left out: float array of shape (n, k)."""
        if callable(self.by):
            features = np.asarray(self.by(X), dtype=np.float64)
            if features.ndim != 2 or len(features) != X.shape[0] or not np.isfinite(features).all():
                raise ValueError(
                    f"by(X) must be finite numbers of shape ({X.shape[0]}, k), got shape "
                    f"{features.shape}"
                    f"{'' if np.isfinite(features).all() else ' with NaN or infinity'}."
                )
            return features
        if len(X.shape) == 1:
            # a list or a column of words: one column
            X = np.reshape(as_array(X), (-1, 1))
        if len(X.shape) != 2:
            raise ValueError(
                f"X must be a table, shape (n, d), got shape {tuple(X.shape)}: give a function, "
                "such as by=lambda X: X.reshape(len(X), -1)."
            )
        parts = []
        for column in self._columns(X):
            if isinstance(column, tuple):
                parts.append(shares(_cells(X, column), self.size))
            else:
                parts.append(described(column_of(X, column), self.size, self.degree))
        if y is not None:
            targets = as_array(y)
            for target in targets.reshape(len(targets), -1).T:
                if _holds_classes(target, self.size):
                    parts.append(shares(target, self.size))
                else:
                    parts.append(described(target, self.size, self.degree))
        features = np.column_stack(parts)
        _check_n_columns(features.shape[1])
        return features

    def _columns(self, X):
        if self.by is None:
            _check_n_columns(X.shape[1])
            return range(X.shape[1])
        return self.by if isinstance(self.by, list) else [self.by]


def _cells(X, columns):
    """A number for each combination of values of several columns: int array of shape (n,)."""
    cells = np.zeros(X.shape[0], dtype=np.intp)
    for column in columns:
        values = codes(column_of(X, column))
        cells = codes(cells * (values.max() + 1) + values)
    return cells


def _check_n_columns(n_columns):
    if n_columns > MAX_COLUMNS:
        raise ValueError(
            f"at most {MAX_COLUMNS:,} columns can be balanced, got {n_columns:,}: name some by "
            "`by`, or give a "
            "function, such as by=sklearn.decomposition.TruncatedSVD(20).fit_transform."
        )


def inclusion_probabilities(weights, size):
    """Probabilities in proportion to positive weights, at most 1, that add up to `size`: shape
    (n,)."""
    probabilities = np.zeros(len(weights))
    is_certain = np.zeros(len(weights), dtype=bool)
    while True:
        n_left = size - np.count_nonzero(is_certain)
        open_weights = weights[~is_certain]
        probabilities[is_certain] = 1.0
        if n_left == 0 or len(open_weights) == 0:
            return probabilities
        probabilities[~is_certain] = open_weights * (n_left / open_weights.sum())
        above = probabilities > 1
        if not above.any():
            return probabilities
        is_certain |= above


def described(values, size, degree):
    """What is balanced of one column: powers of numbers, or the shares of values, shape (n, k).

    Parameters
    ----------
    values : array or column of shape (n,)
    size : int, of the sample
    degree : int, the highest power
    """
    numbers = _as_numbers(values)
    if numbers is None:
        return shares(values, size)
    missing = np.isnan(numbers)
    if missing.all():
        return np.ones((len(numbers), 1))
    centre = numbers[~missing].mean()
    scale = numbers[~missing].std() or 1.0
    standardised = np.where(missing, 0.0, (numbers - centre) / scale)
    powers = [standardised**power for power in range(1, degree + 1)]
    return np.column_stack([*powers, missing] if missing.any() else powers)


def shares(values, size):
    """A column of 0 and 1 for each value that can expect a row of the sample, the others as one:
    shape (n, k)."""
    numbered = codes(values)
    counts = np.bincount(numbered)
    is_common = counts * size >= len(numbered)
    place = np.where(is_common, np.cumsum(is_common) - 1, np.count_nonzero(is_common))[numbered]
    return (place[:, None] == np.arange(place.max() + 1)).astype(np.float64)


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
    centred = features - share @ features
    deviation = np.sqrt(share @ centred**2)
    largest = np.abs(features).max(axis=0)
    varies = deviation > 1e-12 * largest
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


def _as_numbers(values):
    """A column of numbers or times as floats, NaN where one is missing; None if it holds anything
    else."""
    array = values.to_numpy() if hasattr(values, "to_numpy") else as_array(values)
    if array.dtype.kind in "mM":
        return np.where(np.isnat(array), np.nan, array.astype(np.int64))
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind != "O":
        return None
    is_number = [isinstance(v, Real) and not isinstance(v, bool) for v in array]
    missing = np.array([is_missing(v) for v in array])
    if not np.all(is_number | missing):
        return None
    return np.array([np.nan if gone else float(v) for v, gone in zip(array, missing, strict=True)])


def _holds_classes(target, size):
    """Whether the entries of y are classes: words, or few enough integers that each may have two
    rows."""
    kind = type_of_target(target)
    is_discrete = kind in ("binary", "multiclass")
    return is_discrete and (target.dtype.kind not in "iuf" or 2 * len(np.unique(target)) <= size)
