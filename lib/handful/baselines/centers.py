"""Rows that lie far apart, each standing for those around it: k-means++ seeding and greedy
k-center."""

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
from handful.distances import centred, draw_along, nearest_centers, sq_distance, sq_distances_to
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
        present = np.flatnonzero(sample_weight)
        sample_weight = sample_weight[present]
        rows = X[present]
        centers = self._centers(centred(rows, sample_weight)[0], sample_weight, rng)
        if current_word(self.weighting) == "equal":
            weights = np.full(self.size, sample_weight.sum() / self.size)
        else:
            # the first of equally near ones, in any form
            nearest, _ = nearest_centers(rows, dense(rows[centers]))
            weights = np.bincount(nearest, weights=sample_weight, minlength=self.size)
        return present[centers], weights


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
        return plain_seeds(X, sample_weight, self.size, int(rng.integers(MAX_SEED)))


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
    chosen = [i for i, _ in islice(seeds_one_by_one(X, weights, random.random_sample), n)]
    # all distinct rows are chosen: any further row will do
    if len(chosen) < n:
        rest = np.setdiff1d(np.arange(X.shape[0]), chosen)
        return np.append(chosen, random.choice(rest, n - len(chosen), replace=False))
    return np.array(chosen)


def seeds_one_by_one(X, weights, uniform):
    """Yield (row, squared distances of all rows to it) for each seed of k-means++, while distinct
    rows are left.

    Parameters
    ----------
    X, weights : as in `plain_seeds`
    uniform : function without arguments; a random number in [0, 1) at each call
    """
    sq_norms = row_norms(X, squared=True)
    rounding = 4 * np.finfo(np.float64).eps * sq_norms
    # products with few columns are fastest so
    X = X if sparse.issparse(X) else np.asfortranarray(X)
    closest = np.full(X.shape[0], np.inf)
    edges = np.cumsum(weights)
    while edges[-1] > 0:
        i = int(draw_along(edges, uniform()))
        found = sq_norms - 2 * (X @ dense(X[[i]])[0]) + sq_norms[i]
        found[found <= rounding + rounding[i]] = 0.0
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
    center = 0.0
    if sparse.issparse(X):
        X, center = centred(X)
    check_integer("n", n, most=X.shape[0], why="there are no more rows")
    check_generator(rng)
    sq_dist = np.full(X.shape[0], np.inf)
    sq_norms = row_norms(X, squared=True) if sparse.issparse(X) else None
    n_covered = covered.shape[0] if sparse.issparse(covered) else len(covered)
    for i in range(n_covered):
        point = dense(covered[[i]])[0] if sparse.issparse(covered) else covered[i]
        np.minimum(sq_dist, sq_distances_to(X, point - center, sq_norms), out=sq_dist)
    chosen = [_farthest(sq_dist) if n_covered else int(rng.integers(X.shape[0]))]
    if X.shape[1] <= FEW_COLUMNS and X.shape[0] * n >= MANY_DISTANCES and not sparse.issparse(X):
        return _farthest_by_buckets(X, sq_dist, chosen[0], n)
    with Bar(range(n - 1), desc="farthest rows", unit="row") as steps:
        for _ in steps:
            np.minimum(sq_dist, sq_distances_to(X, dense(X[chosen[-1:]])[0], sq_norms), out=sq_dist)
            # a chosen row is not chosen again, not even where all rows are equal
            sq_dist[chosen[-1]] = -1.0
            chosen.append(_farthest(sq_dist))
    return np.array(chosen)


def _farthest(sq_dist):
    return int(np.argmax(sq_dist >= (1 - ROUNDING) * sq_dist.max()))


def _farthest_by_buckets(X, sq_dist, first, n):
    # The same rows, without the distances that boxes around buckets of near rows rule out (Han et
    # al. 2023, QuickFPS).
    rows = cKDTree(X, leafsize=BUCKET // 2, compact_nodes=False, balanced_tree=False).indices
    whole = len(X) // BUCKET * BUCKET
    # the smallest index of a bucket comes first
    rows[:whole].reshape(-1, BUCKET).sort(axis=1)
    rows[whole:].sort()
    starts = np.arange(0, len(X), BUCKET)
    near = np.ascontiguousarray(X[rows], dtype=np.float64)
    boxes = np.minimum.reduceat(near, starts), np.maximum.reduceat(near, starts)
    sq_dist = sq_dist[rows]
    farthest = np.maximum.reduceat(sq_dist, starts)
    places = np.empty(n, np.intp)
    places[0] = np.flatnonzero(rows == first)[0]
    _walk_buckets(near, rows, np.append(starts, len(X)), *boxes, sq_dist, farthest, places)
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
            gap = 0.0
            for j in range(X.shape[1]):
                outside = max(low[b, j] - X[at, j], X[at, j] - high[b, j], 0.0)
                gap += outside * outside
            holds = edges[b] <= at < edges[b + 1]
            if holds or (1.0 - ROUNDING) * gap < farthest[b]:
                farthest[b] = -1.0
                for i in range(edges[b], edges[b + 1]):
                    sq_dist[i] = min(sq_dist[i], sq_distance(X[i], X[at]))
                    if i == at:
                        sq_dist[i] = -1.0
                    farthest[b] = max(farthest[b], sq_dist[i])
            largest = max(largest, farthest[b])
        least = (1.0 - ROUNDING) * largest
        smallest = rows.size
        for b in range(farthest.size):
            if farthest[b] >= least:
                i = edges[b]
                while sq_dist[i] < least:
                    i += 1
                if rows[i] < smallest:
                    smallest = rows[i]
                    at = i
        places[k] = at
