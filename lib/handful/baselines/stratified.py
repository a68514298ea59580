"""Stratified sampling: uniform sampling in which every class, or every value of a column, has its
share."""

from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import check_classification_targets

from handful.checks import Accepts
from handful.coreset import SizedSelector
from handful.running import warn
from handful.tables import as_array, canonical, is_missing, names_of


class StratifiedCoreset(SizedSelector):
    """Rows drawn uniformly without repetition from each stratum: from each class, or each value of
    a column.

    Proportional allocation (Neyman 1934): a stratum gives rows in proportion to its weight, rounded
    by largest remainders, and at least one. The values of X, but for the column `by`, are never
    read, so that they may be words, categories or missing.

    Parameters
    ----------
    size : int, default=100
        Number of points m, at least the number of strata.
    by : str, int or None, default=None
        None, the classes of y; or a column of X, by its name in a data frame or by its
        position, whose values are the strata. Missing values are a stratum of their own.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : shape (m,), in an order in which the first k rows hold each stratum in about its
        share
    weights_ : shape (m,), ``sample_weight`` times the rows of the stratum over those drawn from it:
        an unbiased estimate of every weighted sum

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat(["rare", "common"], [10, 990])
    >>> X = np.full((1000, 1), np.nan)
    >>> few = StratifiedCoreset(50, random_state=0).fit(X, y)
    >>> y_small, w = few.take(y)
    >>> y_small.tolist().count("rare"), float(w[y_small == "rare"].sum())
    (1, 10.0)
    """

    _: KW_ONLY
    by: Any = None

    @property
    def _accepts(self):
        y = "classes" if self.by is None else "unread"
        return Accepts(y, sparse=True, values=False)

    def _select(self, X, y, sample_weight, rng):
        strata = y if self.by is None else column_of(X, self.by)
        self._check_targets(strata)
        shuffled = rng.permutation(len(sample_weight))
        strata = codes(strata)[shuffled]
        if self.size < len(np.unique(strata)):
            strata = self._fewer(strata, sample_weight[shuffled])
        mass = np.bincount(strata, sample_weight[shuffled] / sample_weight.max())
        n_rows = np.bincount(strata)
        n_drawn = allocate(mass, n_rows, self.size)
        # The rows of each stratum in random order, of which the first are drawn.
        by_stratum = shuffled[np.argsort(strata, kind="stable")]
        stratum = np.repeat(np.arange(len(n_drawn)), n_drawn)
        first_drawn = np.cumsum(n_drawn) - n_drawn
        first_row = np.cumsum(n_rows) - n_rows
        place = np.arange(self.size) - first_drawn[stratum]
        row = first_row[stratum] + place
        drawn = by_stratum[row]
        # An order in which the first k rows hold each stratum in about its share.
        shift = rng.random(len(n_drawn))
        share = (place + shift[stratum]) / n_drawn[stratum]
        order = np.argsort(share, kind="stable")
        n_rows_each = n_rows / n_drawn
        own_weight = sample_weight[drawn]
        weights = own_weight * n_rows_each[stratum]
        return drawn[order], weights[order]

    def _check_targets(self, y):
        if self.by is not None:
            return
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise ValueError(
                f"{error} For the targets of a regression there is UniformCoreset, or a column of "
                "X to name by `by`."
            ) from None

    def _fewer(self, strata, weights):
        raise ValueError(
            f"size must be at least the number of strata, got size={self.size} for "
            f"{self._counted(strata)}; UniformCoreset draws without strata, such as from the "
            "targets of a regression."
        )

    def _counted(self, strata):
        what = "classes in y" if self.by is None else f"values in column {self.by!r}"
        return f"{len(np.unique(strata))} {what}"

    def _in_a_stream(self):
        return _OfAStream(**self.get_params())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.by is None:
            tags.classifier_tags = ClassifierTags()
        return tags


class _OfAStream(StratifiedCoreset):
    """Where there are more strata than rows to choose, the smallest ones are one stratum: a stream
    has to go on."""

    def _fewer(self, strata, weights):
        warn(
            f"{self._counted(strata)} for size={self.size}: the smallest of them are drawn as one, "
            "so that some give "
            "no row; a larger size keeps each.",
        )
        mass = np.bincount(strata, weights)
        rank = np.empty(len(mass), dtype=np.intp)
        largest_first = np.argsort(-mass, kind="stable")
        rank[largest_first] = np.arange(len(mass))
        return np.minimum(rank, self.size - 1)[strata]


def allocate(mass, n_rows, size):
    """How many of `size` rows each stratum gives: in proportion to `mass`, at least 1 and at most
    `n_rows`.

    Shares are rounded by largest remainders; ties go to the stratum that comes first.

    Parameters
    ----------
    mass : float array, shape (k,), positive
    n_rows : int array, shape (k,), positive
    size : int, from k to the sum of `n_rows`

    Returns
    -------
    int array, shape (k,), adding up to `size`
    """

    def shares(scale):
        return np.clip(scale * mass, 1, n_rows)

    low = 0.0
    high = min(float((n_rows / mass).max()), 1e300)
    while low < (middle := (low + high) / 2) < high:
        if shares(middle).sum() < size:
            low = middle
        else:
            high = middle
    wanted = shares(high)
    counts = np.floor(wanted).astype(int)
    rest = np.argsort(counts - wanted, kind="stable")
    n_left = size - counts.sum()
    counts[rest[:n_left]] += 1
    return counts


def codes(values):
    """The values of a column as integers, numbered in the order in which they come first.

    Parameters
    ----------
    values : array, list or column of a data frame, shape (n,), of anything hashable; all missing
        values count as equal

    Returns
    -------
    int array, shape (n,)
    """
    values = as_array(values)
    if values.dtype.kind == "O":
        found = {}
        known = (None if is_missing(value) else value for value in values.tolist())
        numbers = [found.setdefault(value, len(found)) for value in known]
        return np.array(numbers, dtype=np.intp)
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def column_of(X, by):
    """A column of X, by its name in a data frame or its position: what the frame gives, or an array
    of shape (n,)."""
    if len(X.shape) != 2:
        raise ValueError(
            f"by={by!r} must be a column of X, but rows of shape {X.shape[1:]} have none: give y "
            "instead."
        )
    names = names_of(X)
    is_place = isinstance(by, Integral) and not isinstance(by, bool)
    if by in names:
        by = names.index(by)
    elif not is_place or not -X.shape[1] <= by < X.shape[1]:
        known = f"its columns are {names}" if names else "its columns have no names"
        raise ValueError(
            f"by must be a column of X, got by={by!r} for {X.shape[1]} columns; {known}."
        )
    if hasattr(X, "iloc"):
        return X.iloc[:, by]
    if hasattr(X, "column_names"):
        return X.column(int(by))
    if sparse.issparse(X):
        column = canonical(X)[:, [by]]
        return column.toarray().ravel()
    return X[:, by]
