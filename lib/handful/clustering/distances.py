"""Nearest centres by matrix products, exact in spite of their rounding, and the quantisation error."""

import numpy as np
from numba import njit

from handful.coreset import check_sample_weight

BLOCK_ENTRIES = 1 << 19  # of a block's matrix of products: it should stay in the cache
GROUP = 64  # centres whose smallest product is found before any is looked at


def sq_norms(X):
    """Squared norms of the rows of `X`, in its own type."""
    return np.einsum("ij,ij->i", X, X)


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def _smallest(half_sq, products, start, stop):
    smallest = half_sq[start] - products[start]
    for c in range(start + 1, stop):
        smallest = min(smallest, half_sq[c] - products[c])
    return smallest


@njit(cache=True, nogil=True)
def _settle(X, centers, products, half_sq, slack, labels, sq_dist):
    # `half_sq - products` orders a row's centres but for rounding of up to `slack`: those that come that close to
    # the smallest are measured again, directly and in float64.
    n_centers = centers.shape[0]
    n_groups = (n_centers + GROUP - 1) // GROUP
    minima = np.empty(n_groups, products.dtype)
    for i in range(X.shape[0]):
        row = products[i]
        for g in range(n_groups):
            minima[g] = _smallest(half_sq, row, g * GROUP, min(g * GROUP + GROUP, n_centers))
        limit = minima.min() + slack[i]
        best = np.inf
        for g in range(n_groups):
            if minima[g] > limit:
                continue
            for c in range(g * GROUP, min(g * GROUP + GROUP, n_centers)):
                if half_sq[c] - row[c] <= limit:
                    total = 0.0
                    for j in range(X.shape[1]):
                        difference = np.float64(X[i, j]) - centers[c, j]
                        total += difference * difference
                    if total < best:
                        best = total
                        labels[i] = c
        sq_dist[i] = best


def nearest_centers(X, centers):
    """The nearest centre of each row and the squared distance to it.

    Matrix products in the type of `X` find the candidates, float64 decides among those that rounding cannot tell
    apart; ties go to the lowest index.

    Parameters
    ----------
    X : array, shape (n, d)
    centers : array, shape (C, d)

    Returns
    -------
    labels : int array, shape (n,)
    sq_dist : float64 array, shape (n,)
    """
    n, d = X.shape
    centers = np.ascontiguousarray(centers, dtype=np.float64)
    # The median: one far centre must not move the origin away from all others.
    shift = np.median(centers, axis=0)
    small = np.ascontiguousarray((centers - shift).astype(X.dtype))
    half_sq = sq_norms(small) / 2
    largest = np.sqrt(2 * half_sq.max())
    labels, sq_dist = np.empty(n, np.intp), np.empty(n)
    step = max(1, BLOCK_ENTRIES // len(centers))
    for start in range(0, n, step):
        rows = np.ascontiguousarray(X[start : start + step])
        shifted = (rows - shift).astype(X.dtype)
        size = np.sqrt(sq_norms(shifted)) + largest
        slack = (np.finfo(X.dtype).eps * (4 + np.sqrt(d))) * size * size
        part = slice(start, start + step)
        _settle(rows, centers, shifted @ small.T, half_sq, slack, labels[part], sq_dist[part])
    return labels, sq_dist


def quantization_error(X, centers, sample_weight=None):
    """Sum over all rows of the squared distance to the nearest of all centres: the k-means objective, exact.

    Parameters
    ----------
    X : array or memory map, shape (n, d); float32 is searched in float32 and measured in float64
    centers : array, shape (C, d)
    sample_weight : shape (n,), or None

    Returns
    -------
    float, in squared units of X

    Raises
    ------
    ValueError
        if the columns of `X` and `centers` do not agree, or for bad weights
    """
    X, centers = np.asanyarray(X), np.asarray(centers)
    if X.ndim != 2 or centers.ndim != 2 or X.shape[1] != centers.shape[1] or not len(centers):
        raise ValueError(
            "X and centers must be matrices with the same number of columns and at least one centre, got shapes "
            f"{X.shape} and {centers.shape}."
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return float(check_sample_weight(sample_weight, len(X)) @ nearest_centers(X, centers)[1])
