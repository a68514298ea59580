"""Rows that lie far apart, each standing for those around it: k-means++ seeding and greedy
k-center."""

import math
from dataclasses import KW_ONLY
from itertools import islice
from typing import Literal

import numpy as np
from numba import njit
from scipy import sparse
from scipy.spatial import cKDTree
from sklearn.utils.extmath import row_norms

from handful.checks import MAX_SEED, Accepts, check_generator, check_integer, check_rows
from handful.coreset import SizedSelector
from handful.distances import (
    RELATIVE,
    centred,
    draw_along,
    measured,
    nearest_centers,
    sq_distance,
    sq_distances_to,
)
from handful.options import current_word
from handful.plans import ChooseAgain
from handful.running import Bar
from handful.tables import dense

# squared distances that differ by this share are tied, in the dense and the sparse form of a table
ROUNDING = 1e-12

# Where buckets pay: they rule little out in more columns, and compiling takes as long as few
# distances
FEW_COLUMNS = 8
MANY_DISTANCES = 1 << 24
# Rows in a bucket
BUCKET = 64


class _Centers(SizedSelector):
    # Selectors that pick rows as cluster centres; `weighting` says what a centre weighs.

    _accepts = Accepts("unread", sparse=True)
    # so that the rows chosen from a block stand for those around them
    _plan = ChooseAgain(in_a_block={"weighting": "cells"})
    _by_scale = True

    _: KW_ONLY
    weighting: Literal["equal", "cells"] = "equal"

    def _select(self, X, y, sample_weight, rng):
        # one layout, one rounding
        X = X if sparse.issparse(X) else np.ascontiguousarray(X)
        about_mean, _ = centred(X, sample_weight)
        centers = self._centers(about_mean, sample_weight, rng)
        if current_word(self.weighting) == "equal":
            mean_weight = sample_weight.sum() / self.size
            weights = np.full(self.size, mean_weight)
        else:
            chosen = dense(X[centers])
            # the first of equally near ones, in any form
            nearest, _ = nearest_centers(X, chosen)
            weights = np.bincount(nearest, weights=sample_weight, minlength=self.size)
        return centers, weights


class KMeansPlusPlus(_Centers):
    """The rows that k-means++ seeding picks (Arthur and Vassilvitskii 2007): each far from those
    before it.

    Parameters
    ----------
    size : int, default=100
        Number of points m.
    weighting : {"equal", "cells"}, default="equal"
        "equal" gives every row the same weight, as the papers do; "cells" the summed
        sample_weight of the rows nearest to it.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : shape (m,), distinct, in the order of selection
    weights_ : shape (m,), they add up to the total sample_weight

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0]])
    >>> centers, w = KMeansPlusPlus(2, weighting="cells", random_state=0).fit(X).take(X)
    >>> sorted(w.tolist())
    [1.0, 3.0]
    """

    def _centers(self, X, sample_weight, rng):
        seed = int(rng.integers(MAX_SEED))
        return plain_seeds(X, sample_weight, self.size, seed)


def plain_seeds(X, weights, n, random_state):
    """Rows by k-means++ as published, one draw a step: int array, shape (n,), distinct.

    The draws are those of `sklearn.cluster.kmeans_plusplus` with ``n_local_trials=1``, at half of
    its time.

    Parameters
    ----------
    X : centred array or CSR matrix, shape (rows, d)
    weights : shape (rows,), positive
    n : int, at most the number of rows
    random_state : int
    """
    random = np.random.RandomState(random_state)
    seeds = seeds_one_by_one(X, weights, random.random_sample)
    chosen = [i for i, _ in islice(seeds, n)]
    n_missing = n - len(chosen)
    if n_missing == 0:
        return np.array(chosen)
    # all distinct rows are chosen: any further row will do
    every = np.arange(X.shape[0])
    rest = np.setdiff1d(every, chosen)
    more = random.choice(rest, n_missing, replace=False)
    return np.append(chosen, more)


def seeds_one_by_one(X, weights, uniform):
    """Yield (row, squared distances of all rows to it) for each seed of k-means++, while distinct
    rows are left.

    Parameters
    ----------
    X, weights : as in `plain_seeds`
    uniform : function without arguments; a random number in [0, 1) at each call
    """
    sq_norms = row_norms(X, squared=True)
    # of norms, and of products of so many columns
    n_roundings = 4 + math.sqrt(X.shape[1])
    epsilon = np.finfo(np.float64).eps
    rounding = n_roundings * epsilon * sq_norms
    # products with few columns are fastest so
    if not sparse.issparse(X):
        X = np.asfortranarray(X)
    closest = np.full(X.shape[0], np.inf)
    edges = np.cumsum(weights)
    while edges[-1] > 0:
        i = int(draw_along(edges, uniform()))
        seed = dense(X[[i]])[0]
        found = sq_norms - 2 * (X @ seed) + sq_norms[i]
        near = np.flatnonzero(found < (rounding + rounding[i]) / RELATIVE)
        found[near] = measured(X, seed[None], near, np.zeros(len(near), dtype=np.intp))
        yield i, found
        np.minimum(closest, found, out=closest)
        edges = np.cumsum(weights * closest)


class KCenter(_Centers):
    """Greedy k-center (Gonzalez 1985): a random row, then always the row farthest from those
    chosen.

    Parameters
    ----------
    size : int, default=100
        Number of points m.
    weighting : {"equal", "cells"}, default="equal"
        As in `KMeansPlusPlus`.
    random_state : int, Generator, RandomState or None, default=None
        Decides the first row. Ties go to the smallest index.

    Attributes
    ----------
    indices_ : shape (m,), distinct, in the order of selection
    weights_ : shape (m,), they add up to the total sample_weight

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [9.0]])
    >>> KCenter(3, random_state=0).fit(X).take(X)[0].ravel().tolist()
    [9.0, 0.0, 5.0]
    """

    def _centers(self, X, sample_weight, rng):
        return farthest_first(X, self.size, rng=rng)


def farthest_first(X, n, *, rng, covered=()):
    """Rows of `X`, each farthest from those before it and from `covered` (Gonzalez 1985). O(n)
    passes over X.

    Parameters
    ----------
    X : array or CSR matrix, shape (rows, d)
    n : int, rows wanted, at most all of them
    rng : numpy.random.Generator; draws the first row where nothing is covered yet
    covered : array or CSR matrix, shape (c, d), points that count as chosen already

    Returns
    -------
    int array, shape (n,), distinct; ties go to the smallest index

    Notes
    -----
    For arrays of at most 8 columns, from 2^24 pairs of a row and a chosen row on, rows lie in
    buckets, and distances to buckets that are too far off to change are not computed (Han et al.
    2023, QuickFPS): ten times as fast in three columns, after a second for compiling, which is kept
    on disk.

    Raises
    ------
    TypeError, ValueError
        for rows that are not finite or huge, an `n` outside 1..rows and another `rng`
    """
    X = check_rows(X, accept_sparse="csr")
    n_rows, d = X.shape
    center = 0.0
    sq_norms = None
    is_dense = not sparse.issparse(X)
    if not is_dense:
        X, center = centred(X)
        sq_norms = row_norms(X, squared=True)
    check_integer("n", n, most=n_rows, why="there are no more rows")
    check_generator(rng)
    sq_dist = np.full(n_rows, np.inf)
    n_covered = covered.shape[0] if sparse.issparse(covered) else len(covered)
    for i in range(n_covered):
        point = dense(covered[i : i + 1])[0]
        found = sq_distances_to(X, point - center, sq_norms)
        np.minimum(sq_dist, found, out=sq_dist)
    first = _farthest(sq_dist) if n_covered else int(rng.integers(n_rows))
    n_distances = n_rows * n
    buckets_pay = d <= FEW_COLUMNS and n_distances >= MANY_DISTANCES
    if is_dense and buckets_pay:
        return _farthest_by_buckets(X, sq_dist, first, n)
    return _farthest_by_passes(X, sq_norms, sq_dist, first, n)


def _farthest(sq_dist):
    tied = sq_dist >= (1 - ROUNDING) * sq_dist.max()
    return int(np.argmax(tied))


def _farthest_by_passes(X, sq_norms, sq_dist, first, n):
    latest = first
    chosen = [latest]
    with Bar(range(n - 1), desc="farthest rows", unit="row") as steps:
        for _ in steps:
            point = dense(X[[latest]])[0]
            found = sq_distances_to(X, point, sq_norms)
            np.minimum(sq_dist, found, out=sq_dist)
            # a chosen row is not chosen again, not even where all rows are equal
            sq_dist[latest] = -1.0
            latest = _farthest(sq_dist)
            chosen.append(latest)
    return np.array(chosen)


def _farthest_by_buckets(X, sq_dist, first, n):
    # The same rows, without the distances that boxes around buckets of near rows rule out (Han et
    # al. 2023, QuickFPS).
    half = BUCKET // 2
    tree = cKDTree(X, leafsize=half, compact_nodes=False, balanced_tree=False)
    rows = tree.indices
    whole = len(X) // BUCKET * BUCKET
    # the smallest index of a bucket comes first
    full_buckets = rows[:whole].reshape(-1, BUCKET)
    full_buckets.sort(axis=1)
    rows[whole:].sort()
    starts = np.arange(0, len(X), BUCKET)
    near = np.ascontiguousarray(X[rows], dtype=np.float64)
    low = np.minimum.reduceat(near, starts)
    high = np.maximum.reduceat(near, starts)
    sq_dist = sq_dist[rows]
    farthest = np.maximum.reduceat(sq_dist, starts)
    places = np.empty(n, np.intp)
    places[0] = np.flatnonzero(rows == first)[0]
    edges = np.append(starts, len(X))
    _walk_buckets(near, rows, edges, low, high, sq_dist, farthest, places)
    return rows[places]


@njit(cache=True, nogil=True)
def _walk_buckets(X, rows, edges, low, high, sq_dist, farthest, places):
    """Fill `places`, of which the first is given, with the places in X of rows, each farthest from
    those before it.

    Parameters
    ----------
    X : float64 array, shape (n, d), one bucket after the other
    rows : int array, shape (n,), what ties are decided by, ascending in each bucket
    edges : int array, shape (B + 1,), where buckets begin and end
    low, high : arrays, shape (B, d), the boxes around the buckets
    sq_dist : array, shape (n,), squared distances to what is chosen already, changed in place
    farthest : array, shape (B,), the largest of them in each bucket, changed in place
    places : int array, shape (m,)
    """
    at = places[0]
    for k in range(1, places.size):
        largest = -1.0
        for b in range(farthest.size):
            start = edges[b]
            stop = edges[b + 1]
            gap = _sq_distance_to_box(X[at], low[b], high[b])
            holds = start <= at < stop
            if holds or (1.0 - ROUNDING) * gap < farthest[b]:
                farthest[b] = _approach(X, at, start, stop, sq_dist)
            largest = max(largest, farthest[b])
        least = (1.0 - ROUNDING) * largest
        at = _smallest_row(rows, edges, sq_dist, farthest, least)
        places[k] = at


@njit(cache=True, nogil=True)
def _sq_distance_to_box(x, low, high):
    total = 0.0
    for j in range(x.size):
        below = low[j] - x[j]
        above = x[j] - high[j]
        outside = max(below, above, 0.0)
        total += outside * outside
    return total


@njit(cache=True, nogil=True)
def _approach(X, at, start, stop, sq_dist):
    # Shorten the distances of the rows of a bucket by those to the row at `at`, which counts as
    # chosen; the largest that is left.
    largest = -1.0
    for i in range(start, stop):
        found = sq_distance(X[i], X[at])
        sq_dist[i] = min(sq_dist[i], found)
        if i == at:
            sq_dist[i] = -1.0
        largest = max(largest, sq_dist[i])
    return largest


@njit(cache=True, nogil=True)
def _smallest_row(rows, edges, sq_dist, farthest, least):
    # The place of the smallest of the rows whose distance is at least `least`.
    place = 0
    smallest = rows.size
    for b in range(farthest.size):
        if farthest[b] >= least:
            i = edges[b]
            while sq_dist[i] < least:
                i += 1
            row = rows[i]
            if row < smallest:
                smallest = row
                place = i
    return place
