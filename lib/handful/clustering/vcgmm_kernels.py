"""The loops of vc-GMM: search sets, responsibilities, neighbourhoods, means (Hirschberger et al.,
Algorithms 1 and 2).

Each kernel works on a stretch of points or of clusters and writes nothing outside it, so that
stretches can run in threads and the result does not depend on their number. A point's value for a
cluster is minus its log joint up to a constant, ``slope * squared distance``, so that it orders
clusters as their distances do (Proposition 1).
"""

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from numba import njit
from scipy.sparse import csr_array

# rows are padded to a multiple of this
LANES = 16


def mix(keys):
    """One random number for each uint64 of an array, by SplitMix64 (Steele, Lea and Flood 2014), in
    any order."""
    x = keys * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def distances_to(y, centers, ids, count, out):
    """Squared distances from `y` to the centres ``ids[:count]`` into `out`; `ids` and `out` have
    room for 3 more.

    Four at a time, so that the row stays in registers.
    """
    # sums in the rows' own type
    zero = y.dtype.type(0)
    full = (count + 3) // 4 * 4
    for k in range(count, full):
        ids[k] = ids[0]
    for k in range(0, full, 4):
        a = ids[k]
        b = ids[k + 1]
        c = ids[k + 2]
        d = ids[k + 3]
        s0 = zero
        s1 = zero
        s2 = zero
        s3 = zero
        for j in range(y.size):
            d0 = y[j] - centers[a, j]
            d1 = y[j] - centers[b, j]
            d2 = y[j] - centers[c, j]
            d3 = y[j] - centers[d, j]
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
        out[k] = s0
        out[k + 1] = s1
        out[k + 2] = s2
        out[k + 3] = s3


@njit(cache=True, nogil=True, error_model="numpy")
def e_step(
    start,
    stop,
    Y,
    centers,
    slope,
    K,
    G,
    further,
    best,
    found,
    found_value,
    n_found,
    seen,
    value,
    distance,
):
    """Update K(n) to the best of each point's search set, the union of the neighbourhoods of its
    old clusters.

    Parameters
    ----------
    start, stop : int, the points to do
    Y : array, shape (n, p), centred rows, padded with zeros
    centers : array, shape (C, p)
    slope : float, in the type of Y; it gives the values
    K : int32 array, shape (n, C'), changed in place: the best clusters, the very best first
    G : int32 array, shape (C, G), each cluster's neighbourhood, itself first
    further : int32 array, shape (n, n_random), random clusters that join each search set
    best : array, shape (n, C'), out: squared distances to the clusters of K
    found, found_value : int32 and float arrays, shape (n, C' G + n_random + 4), out: the search set
        and its values
    n_found : int32 array, shape (n,), out: the size of the search set
    seen, value, distance : buffers, int64 of shape (C,), and as found_value of shapes (C',) and (C'
        G + n_random + 4,)
    """
    n_kept = K.shape[1]
    for c in range(seen.size):
        seen[c] = -1
    infinity = Y.dtype.type(np.inf)
    for i in range(start, stop):
        ids = found[i]
        values = found_value[i]
        count = 0
        # the old winners first, so that few later clusters displace one
        for k in range(n_kept):
            c = K[i, k]
            ids[count] = c
            count += seen[c] != i
            seen[c] = i
        n_old = count
        for k in range(n_old):
            c = ids[k]
            for g in range(1, G.shape[1]):
                other = G[c, g]
                ids[count] = other
                count += seen[other] != i
                seen[other] = i
        for r in range(further.shape[1]):
            other = further[i, r]
            ids[count] = other
            count += seen[other] != i
            seen[other] = i
        n_found[i] = count
        distances_to(Y[i], centers, ids, count, distance)
        filled = 0
        worst = infinity
        for k in range(count):
            c = ids[k]
            v = slope * distance[k]
            values[k] = v
            if filled == n_kept and v >= worst:
                continue
            filled += filled < n_kept
            slot = filled - 1
            while slot > 0 and value[slot - 1] > v:
                value[slot] = value[slot - 1]
                K[i, slot] = K[i, slot - 1]
                best[i, slot] = best[i, slot - 1]
                slot -= 1
            value[slot] = v
            K[i, slot] = c
            best[i, slot] = distance[k]
            worst = value[filled - 1]


def responsibilities(slope, best, hard, share, log_sum):
    """Write truncated posteriors (eq. 3) to `share`, shape (n, C'), and each point's part of the
    bound to `log_sum`.

    With `hard` the posterior is truncated to the best cluster. Shares that would be lost in
    rounding beside the best become zero, so that the M-step has fewer rows to add up.
    """
    np.multiply(best, float(slope), out=share, dtype=np.float64)
    lowest = share[:, 0].copy()
    if hard:
        share[:] = 0.0
        share[:, 0] = 1.0
        np.negative(lowest, out=log_sum)
        return
    np.subtract(lowest[:, None], share, out=share)
    lost = np.log(np.finfo(best.dtype).eps / 4)
    share[share <= lost] = -np.inf
    np.exp(share, out=share)
    total = share.sum(axis=1)
    share /= total[:, None]
    np.subtract(np.log(total), lowest, out=log_sum)


def group_by_cluster(K, share, n_clusters, first_only):
    """Positions of the entries of `K` that count, sorted by cluster, then by point: (entries, edges
    per cluster)."""
    if first_only:
        entries = np.arange(0, K.size, K.shape[1])
    else:
        entries = np.flatnonzero(share > 0)
    n = len(entries)
    clusters = K.ravel()[entries]
    each = np.arange(n + 1)
    # a counting sort
    table = csr_array((entries, clusters, each), shape=(n, n_clusters)).tocsc()
    return table.data, table.indptr.astype(np.int64)


@njit(cache=True, nogil=True, error_model="numpy")
def m_step(start, stop, Y, weights, share, best, entries, edges, centers, mass, scatter, total):
    """Means (eq. 6) of a stretch of clusters, with the weight and the scatter of each.

    The scatter about the new mean is the scatter about the old one, known from the E-step, minus
    what the mean's move explains. That saves a second pass over the points. A cluster without
    weight keeps its centre.

    Parameters
    ----------
    start, stop : int, the clusters to do
    Y : array, shape (n, p)
    weights : float64 array, shape (n,)
    share, best : arrays, shape (n, C'); responsibilities and squared distances
    entries, edges : from `group_by_cluster`
    centers : array, shape (C, p), changed in place
    mass, scatter : float64 arrays, shape (C,), out
    total : float64 buffer, shape (p,)
    """
    n_kept = share.shape[1]
    width = Y.shape[1]
    for c in range(start, stop):
        for j in range(width):
            total[j] = 0.0
        m = 0.0
        s = 0.0
        for e in range(edges[c], edges[c + 1]):
            i = entries[e] // n_kept
            k = entries[e] % n_kept
            w = weights[i] * share[i, k]
            m += w
            s += w * best[i, k]
            for j in range(width):
                total[j] += w * Y[i, j]
        mass[c] = m
        if m > 0.0:
            moved = 0.0
            for j in range(width):
                mean = total[j] / m
                step = mean - centers[c, j]
                moved += step * step
                centers[c, j] = mean
            s -= m * moved
        scatter[c] = s if s > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def update_neighbours(
    start,
    stop,
    found,
    found_value,
    n_found,
    members,
    edges,
    G,
    total,
    count,
    touched,
    near,
    near_value,
):
    """G_c: the clusters that the points nearest to c found nearest on average (eq. 31), c itself
    first. It has more than twelve branches, as a kernel for each of them would be compiled anew.

    Each average is over the values of the points that met the cluster. If
    they met fewer than G - 1 clusters, the rest of the old neighbourhood stays.

    Parameters
    ----------
    start, stop : int, the clusters to do
    found, found_value, n_found : the search sets from `e_step`
    members, edges : the points of each cluster, from `group_by_cluster` (first of K only), as rows
    G : int32 array, shape (C, G), changed in place
    total, count, touched : buffers of zeros, float64, int64 and int32, shape (C,)
    near, near_value : buffers, int32 and float64, shape (G,)
    """
    width = G.shape[1]
    for c in range(start, stop):
        if width == 1 or edges[c] == edges[c + 1]:
            continue
        n_touched = 0
        for e in range(edges[c], edges[c + 1]):
            i = members[e]
            for k in range(n_found[i]):
                other = found[i, k]
                if count[other] == 0:
                    touched[n_touched] = other
                    n_touched += 1
                count[other] += 1
                total[other] += found_value[i, k]
        filled = 0
        for t in range(n_touched):
            other = touched[t]
            v = total[other] / count[other]
            if other == c or (filled == width - 1 and v >= near_value[width - 2]):
                continue
            filled += filled < width - 1
            slot = filled - 1
            while slot > 0 and near_value[slot - 1] > v:
                near_value[slot] = near_value[slot - 1]
                near[slot] = near[slot - 1]
                slot -= 1
            near_value[slot] = v
            near[slot] = other
        # fill up with the old neighbourhood, in its order
        for g in range(1, width):
            if filled < width - 1 and count[G[c, g]] == 0:
                near[filled] = G[c, g]
                filled += 1
        for t in range(n_touched):
            total[touched[t]] = 0.0
            count[touched[t]] = 0
        for g in range(filled):
            G[c, g + 1] = near[g]


class Threads(ThreadPoolExecutor):
    """Context manager that runs a kernel over stretches of 0..n in as many threads as numba may
    use."""

    def __init__(self) -> None:
        self.n_threads = numba.get_num_threads()
        super().__init__(self.n_threads)

    def run(self, kernel, n, *arguments, buffers=()):
        """``kernel(start, stop, *arguments, *arrays)`` on stretches that cover 0..n.

        Each stretch gets arrays of zeros of its own, with the shapes and types of `buffers`:
        kernels that make no arrays compile faster.
        """

        def stretch(start, stop):
            arrays = [np.zeros(shape, dtype) for shape, dtype in buffers]
            kernel(start, stop, *arguments, *arrays)

        if self.n_threads == 1 or n < 64:
            stretch(0, n)
            return
        edges = np.linspace(0, n, 4 * self.n_threads + 1).astype(int).tolist()
        list(self.map(stretch, edges, edges[1:]))
