"""Lloyd's algorithm on weighted rows, with distances as fast as vc-GMM's: what the paper measures
it against."""

import numpy as np
from handful.clustering.variational import padded
from numba import njit

# Rows that share a visit to four centres, so that these stay in the nearest cache.
BLOCK = 16


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def four_distances(y, a, b, c, d):
    """Squared distances from `y` to four centres; the row stays in registers."""
    # Sums are in the type of the rows.
    zero = y.dtype.type(0)
    s0 = zero
    s1 = zero
    s2 = zero
    s3 = zero
    for j in range(y.size):
        d0 = y[j] - a[j]
        d1 = y[j] - b[j]
        d2 = y[j] - c[j]
        d3 = y[j] - d[j]
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    return s0, s1, s2, s3


@njit(cache=True, nogil=True)
def _pass(
    Y,
    weights,
    centers,
    nearest,
    sq_dist,
    sums,
    mass,
):
    # Assign every row to its nearest centre and add it up there; returns the weighted cost of the
    # centres as they were.
    n = Y.shape[0]
    n_clusters = centers.shape[0]
    last = n_clusters - 1
    sums[:] = 0.0
    mass[:] = 0.0
    cost = 0.0
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        for i in range(start, stop):
            sq_dist[i] = np.inf
        for c in range(0, n_clusters, 4):
            second = min(c + 1, last)
            third = min(c + 2, last)
            fourth = min(c + 3, last)
            for i in range(start, stop):
                quartet = four_distances(
                    Y[i], centers[c], centers[second], centers[third], centers[fourth]
                )
                for q in range(4):
                    if quartet[q] < sq_dist[i]:
                        sq_dist[i] = quartet[q]
                        nearest[i] = min(c + q, last)
        for i in range(start, stop):
            c = nearest[i]
            w = weights[i]
            mass[c] += w
            cost += w * sq_dist[i]
            for j in range(Y.shape[1]):
                sums[c, j] += w * Y[i, j]
    return cost


def bound(cost, total, n_features, n_clusters):
    """k-means' lower bound of the log-likelihood (Lücke and Forster 2019), whose change ends the
    paper's Lloyd runs.

    F = -W D / 2 (1 + log(2 pi Q / (W D))) - W log C, with the cost Q and the sum of weights W.
    """
    if not cost > 0:
        return np.inf
    variance = cost / (total * n_features)
    entropy = 0.5 * total * n_features * (1 + np.log(2 * np.pi * variance))
    return -entropy - total * np.log(n_clusters)


def lloyd(
    X,
    centers,
    *,
    sample_weight=None,
    tol=1e-4,
    max_iter=300,
):
    """Lloyd's algorithm from the given centres, until the relative change of `bound` falls below
    `tol`.

    Four centres at a time, in the type of `X`; sums in float64. A centre that loses all rows stays
    where it is.

    Parameters
    ----------
    X : float array, shape (n, d), about its mean, so that float32 does not cancel
    centers : array, shape (C, d)
    sample_weight : shape (n,), or None

    Returns
    -------
    centers : array, shape (C, d)
    n_iter : int, passes over the rows
    n_distances : int
    """
    n, d = X.shape
    if sample_weight is None:
        sample_weight = np.ones(n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    Y = padded(X)
    centers = padded(centers)
    nearest = np.zeros(n, np.int32)
    sq_dist = np.empty(n, Y.dtype)
    sums = np.empty(centers.shape)
    mass = np.empty(len(centers))
    total = weights.sum()
    previous = None
    n_iter = 0
    while n_iter < max_iter:
        cost = _pass(
            Y,
            weights,
            centers,
            nearest,
            sq_dist,
            sums,
            mass,
        )
        n_iter += 1
        used = mass > 0
        centers[used] = sums[used] / mass[used, None]
        now = bound(cost, total, d, len(centers))
        if previous is not None and not abs(now - previous) >= tol * abs(previous):
            break
        previous = now
    return centers[:, :d].copy(), n_iter, n_iter * n * len(centers)
