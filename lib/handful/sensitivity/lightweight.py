"""Lightweight coresets for clustering (Bachem, Lucic and Krause 2018), in two passes over data of
any size."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from handful.checks import (
    Accepts,
    check_array,
    check_generator,
    check_integer,
    check_magnitude,
    check_sample_weight,
    check_some_count,
)
from handful.coreset import SizedSelector
from handful.distances import centred, draw_along, sq_distance, sq_distances_to
from handful.options import Count
from handful.plans import Plan
from handful.rows import InMemory, Rows, joined
from handful.types import Table

# of an array that are read at a time
ROWS = 1 << 15
# rows of a block whose mean serves as the pivot
N_PIVOT = 256


@njit(cache=True, nogil=True)
def _sums(X, u, pivot):
    # Of u (x - pivot) and of u |x - pivot|^2. NumPy would copy the rows in double precision and
    # take twice as long.
    sums = np.zeros(pivot.size)
    squares = 0.0
    for i in range(X.shape[0]):
        for j in range(pivot.size):
            move = X[i, j] - pivot[j]
            sums[j] += u[i] * move
        squares += u[i] * sq_distance(X[i], pivot)
    return sums, squares


def _sq_distances_to(X, center):
    if not sparse.issparse(X):
        return sq_distances_to(X, center)
    rows, moved = centred(X)
    return sq_distances_to(rows, center - moved)


def _rows_of(block):
    X = _readable(block.X)
    values = X.data if sparse.issparse(X) else X
    if not np.isfinite(values).all():
        raise ValueError("X contains NaN or infinity.")
    if values.dtype.kind == "f":
        check_magnitude(values, "X", values.dtype)
    return X if sparse.issparse(X) else np.ascontiguousarray(X)


def _moments(block):
    # How many rows of a block count, their weight, mean, and the weighted sum of squared distances
    # to it.
    block = block.of_positive_weight()
    u = block.weight
    if not len(u):
        return 0, 0.0, np.zeros(block.X.shape[1]), 0.0
    X = _rows_of(block)
    check_sample_weight(u, len(u))
    total = u.sum()
    if sparse.issparse(X):
        mean = X.T @ u / total
        scatter = u @ _sq_distances_to(X, mean)
        return len(u), total, mean, scatter
    # amid the rows, so that squares do not cancel
    every = math.ceil(len(X) / N_PIVOT)
    pivot = X[::every].mean(axis=0, dtype=np.float64)
    sums, squares = _sums(X, u, pivot)
    mean = pivot + sums / total
    scatter = max(squares - sums @ sums / total, 0.0)
    return len(u), total, mean, scatter


def _draws_of_block(block, mean, rates, own):
    positions, rate = own
    by_weight, by_distance = rates
    block = block.of_positive_weight()
    X = _rows_of(block)
    u = block.weight
    share = by_weight + by_distance * _sq_distances_to(X, mean)
    edges = np.cumsum(u * share)
    drawn = draw_along(edges, positions)
    rows, counts = np.unique(drawn, return_counts=True)
    # Dividing by the probability as it was used, rounding included, keeps the estimate unbiased to
    # the last digit.
    steps = np.diff(edges, prepend=0.0)
    q = steps[rows] / edges[-1]
    expected = rate * q
    weight = counts * u[rows] / expected
    return replace(block.take(rows), weight=weight)


def lightweight_blocks(blocks: Any, size: int, *, rng: Any, check: Any = None) -> Any:
    """`lightweight_coreset` of rows in blocks, in two passes: the rows drawn with their weights and
    places, Rows.

    Parameters
    ----------
    blocks : handful.rows.RowBlocks
    size : int, number of draws
    rng : numpy.random.Generator
    check : function of the number of rows of positive weight, which may refuse it, or None

    Raises
    ------
    ValueError
        if no row counts
    """
    found = zip(*blocks.map(_moments))
    n_present, mass, means, scatters = map(np.array, found)
    check_some_count(n_present.any(), blocks.n)
    if check is not None:
        check(n_present.sum())
    total = mass.sum()
    mean = mass @ means / total
    sq_dist = ((means - mean) ** 2).sum(axis=1)
    about_mean = scatters + mass * sq_dist
    scatter = about_mean.sum()
    by_weight = 1 / total
    by_distance = 0.0
    if scatter > np.finfo(np.float64).tiny:
        by_weight = 0.5 / total
        by_distance = 0.5 / scatter
    edges = np.cumsum(by_weight * mass + by_distance * about_mean)
    edges /= edges[-1]
    # of the draws along the summed probabilities of all rows
    positions = np.sort(rng.random(size))
    first = np.searchsorted(positions, edges)
    by_block = np.split(positions, first[:-1])
    own = []
    low = 0.0
    for inside, high in zip(by_block, edges):
        share = high - low
        drawn = None
        if len(inside):
            drawn = (inside - low) / share, size * share
        own.append(drawn)
        low = high
    rates = by_weight, by_distance
    return joined(blocks.map(_draws_of_block, mean, rates, own=own))


def lightweight_coreset(X: Table, size: int, *, rng: Any, sample_weight: Table = None) -> Any:
    """Sample a lightweight coreset: `size` weighted draws from the rows of `X`.

    Mixes uniform sampling with sampling by squared distance to the mean (Bachem, Lucic and Krause
    2018, Algorithm 1): ``q = 1/2 u / sum(u) + 1/2 u |x - mean|^2 / scatter``. Every k-means cost is
    estimated without bias. Rows are read in blocks, twice, the second time only where something was
    drawn; nothing of length n is made but weights.

    Parameters
    ----------
    X : array, memory map or CSR matrix, shape (n, d), finite
    size : int, number of draws; a row that is drawn repeatedly gets the sum of its weights
    rng : numpy.random.Generator
    sample_weight : float array, shape (n,), non-negative, or None

    Returns
    -------
    indices : int array, shape (at most size,), ascending
    weights : float array; the expected sum of weights * cost is the sum of the cost over all rows

    Raises
    ------
    TypeError, ValueError
        for values that are not finite or huge, wrong shapes, bad weights, a size below 1, another
        `rng`
    """
    check_generator(rng)
    check_integer("size", size)
    X = _readable(X)
    n = X.shape[0]
    weight = check_sample_weight(sample_weight, n)
    scale = 1.0
    if sample_weight is not None:
        # weights near the largest float would overflow
        scale = weight.sum()
        weight = weight / scale
    rows = Rows(X, None, weight, range(n))
    blocks = InMemory(rows, most=ROWS)
    drawn = lightweight_blocks(blocks, size, rng=rng)
    return drawn.ids, drawn.weight * scale


def _readable(X):
    # Neither copied nor read here: a memory map, of bytes too, may not fit in the memory.
    dtype = getattr(X, "dtype", None)
    is_whole = isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.isnative
    as_it_is = is_whole or dtype in (np.float32, np.float64)
    if sparse.issparse(X) or not as_it_is:
        X = check_array(X, dtype=[np.float64, np.float32], accept_sparse="csr")
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must have shape (n, d), got {X.shape}.")
    return X


class _TwoPasses(Plan):
    """The algorithm as it is, which reads rows in blocks anyway."""

    def select(self, selector, blocks, rng):
        drawn = lightweight_blocks(blocks, selector.size, rng=rng)
        return drawn.ids, drawn.weight


class LightweightCoreset(SizedSelector):
    """A lightweight coreset: weighted rows on which k-means costs are those of all rows (Bachem et
    al. 2018).

    Half of the draws go by weight alone, half by squared distance to the mean; `fit` takes two
    passes over the data. It is for any k-means that takes weights. Where most rows are about
    equally far from the mean, this is about a uniform draw: the gain is in rare rows far out.

    Parameters
    ----------
    size : int, default=1000
        Number of draws m, with repetition; a row drawn k times comes once, with k times the
        weight.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : shape (at most m,), ascending
    weights_ : shape (at most m,), sample_weight over the expected number of draws

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(10_000, 3))
    >>> X_small, weights = LightweightCoreset(500, random_state=0).fit(X).take(X)
    >>> bool(abs(weights @ (X_small**2).sum(axis=1) / (X**2).sum() - 1) < 0.05)
    True
    """

    _accepts = Accepts("unread", sparse=True)
    _plan = _TwoPasses()
    _by_scale = True
    _repeats = True
    _draws = True
    _ranks = False

    size: Count = 1000

    def _select(self, X, y, sample_weight, rng):
        return lightweight_coreset(X, self.size, rng=rng, sample_weight=sample_weight)
