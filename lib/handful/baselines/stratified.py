"""Stratified sampling: uniform sampling in which every class, or every value of a column, has its
share."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import check_classification_targets

from handful.checks import MAX_SEED, Accepts, check_size, check_some_count
from handful.coreset import SizedSelector
from handful.plans import Plan
from handful.running import warn
from handful.tables import as_array, canonical, is_missing, names_of


@dataclass(frozen=True)
class _DrawStrata(Plan):
    """The rows of each stratum are counted, and drawn from all blocks alike."""

    def select(self, selector, blocks, rng):
        """As `Plan.select`."""
        chooser = clone(selector)
        found = blocks.map(_strata_of_block, chooser)
        strata, n_rows, mass = _table_of(found)
        n_present = n_rows.sum()
        check_some_count(n_present, blocks.n)
        check_size(selector.size, n_present, blocks.n)
        kept = np.arange(n_rows.shape[1])
        if selector.size < len(kept):
            # In a stream the smallest are one.
            kept = selector._fewer(kept, mass.sum(0))
            strata = [kept[own] for own in strata]
            n_rows = _added_up(n_rows, kept)
            mass = _added_up(mass, kept)
        total = n_rows.sum(0)
        share = mass.sum(0) / mass.sum()
        n_drawn = allocate(share, total, selector.size)
        due = np.column_stack(
            [
                rng.multivariate_hypergeometric(rows, number, method="marginals")
                for rows, number in zip(n_rows.T, n_drawn)
            ]
        )
        seed = int(rng.integers(MAX_SEED))
        own = [
            (own_strata, due_here) if due_here.any() else None
            for own_strata, due_here in zip(strata, due)
        ]
        drawn = blocks.map(_drawn_of_block, chooser, seed, own=own)
        ids, weights, stratum = map(np.concatenate, zip(*drawn))
        shuffled = rng.permutation(len(ids))
        shuffled_strata = stratum[shuffled]
        by_stratum = shuffled[np.argsort(shuffled_strata, kind="stable")]
        order, scale = _in_shares(total, n_drawn, rng)
        ids = ids[by_stratum]
        weights = weights[by_stratum] * scale
        return ids[order], weights[order]


def _strata_of_block(block, selector):
    """Of the strata of a block: their values, rows and weight, in the order in which they come."""
    block = block.of_positive_weight()
    if not len(block):
        nothing = np.zeros(0, np.int64)
        return [], nothing, nothing
    X, y = selector._check_part(block.X, block.y)
    values, numbers = selector._strata_of(X, y)
    _, first = np.unique(numbers, return_index=True)
    names = [None if is_missing(value) else value for value in values[first].tolist()]
    n_rows = np.bincount(numbers)
    mass = np.bincount(numbers, block.weight)
    return names, n_rows, mass


def _table_of(found):
    """The strata of each block by their numbers, and tables (blocks, strata) of rows and
    weights."""
    numbers: dict = {}
    for names, _, _ in found:
        for name in names:
            numbers.setdefault(name, len(numbers))
    shape = len(found), len(numbers)
    n_rows = np.zeros(shape, np.int64)
    mass = np.zeros(shape)
    strata = []
    for i, (names, rows, weight) in enumerate(found):
        own = np.array([numbers[name] for name in names], np.intp)
        n_rows[i, own] = rows
        mass[i, own] = weight
        strata.append(own)
    return strata, n_rows, mass


def _added_up(table, kept):
    """A table of blocks and strata, of which those of one number in `kept` are added up."""
    summed = np.zeros((len(table), kept.max() + 1), table.dtype)
    np.add.at(summed, (slice(None), kept), table)
    return summed


def _drawn_of_block(block, selector, seed, own):
    """Rows drawn from each stratum of a block: their places, weights, and numbers of strata."""
    strata, due = own
    first = int(block.ids[0])
    rng = np.random.default_rng([seed, first])
    block = block.of_positive_weight()
    X, y = selector._check_part(block.X, block.y)
    _, numbers = selector._strata_of(X, y)
    stratum = strata[numbers]
    drawn = [
        rng.choice(np.flatnonzero(stratum == j), due[j], replace=False) for j in np.flatnonzero(due)
    ]
    rows = np.concatenate(drawn)
    return block.ids[rows], block.weight[rows], stratum[rows]


def _in_shares(n_rows, n_drawn, rng):
    """Of rows by stratum: an order in which the first k hold each stratum in about its share, and
    for each row how many of its stratum it stands for."""
    n_strata = len(n_drawn)
    stratum = np.repeat(np.arange(n_strata), n_drawn)
    first = np.cumsum(n_drawn) - n_drawn
    place = np.arange(len(stratum)) - first[stratum]
    shift = rng.random(n_strata)
    share = (place + shift[stratum]) / n_drawn[stratum]
    order = np.argsort(share, kind="stable")
    scale = n_rows / n_drawn
    return order, scale[stratum]


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

    _plan = _DrawStrata()

    @property
    def _accepts(self):
        y = "classes" if self.by is None else "unread"
        return Accepts(y, sparse=True, values=False)

    def _select(self, X, y, sample_weight, rng):
        _, numbers = self._strata_of(X, y)
        shuffled = rng.permutation(len(sample_weight))
        strata = numbers[shuffled]
        if self.size < len(np.unique(strata)):
            strata = self._fewer(strata, sample_weight[shuffled])
        relative = sample_weight / sample_weight.max()
        mass = np.bincount(strata, relative[shuffled])
        n_rows = np.bincount(strata)
        n_drawn = allocate(mass, n_rows, self.size)
        # The rows of each stratum in random order, of which the first are drawn.
        by_stratum = shuffled[np.argsort(strata, kind="stable")]
        stratum = np.repeat(np.arange(len(n_drawn)), n_drawn)
        first_drawn = np.cumsum(n_drawn) - n_drawn
        first_row = np.cumsum(n_rows) - n_rows
        row = np.arange(self.size) + (first_row - first_drawn)[stratum]
        drawn = by_stratum[row]
        order, scale = _in_shares(n_rows, n_drawn, rng)
        weights = sample_weight[drawn] * scale
        return drawn[order], weights[order]

    def _strata_of(self, X, y):
        """The values that make the strata, an array, and the number of each row's stratum."""
        strata = y if self.by is None else column_of(X, self.by)
        self._check_targets(strata)
        return as_array(strata), codes(strata)

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
    rank = np.argsort(np.argsort(first))
    return rank[inverse]


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
    elif isinstance(by, list):
        raise ValueError(
            f"by must be one column of X, got by={by!r}: BalancedCoreset takes several, and keeps "
            "their means and shares."
        )
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
