"""The loops of vc-GMM: search sets, responsibilities, neighbourhoods, means (Hirschberger et al., Algorithms 1 and 2).

Each kernel works on a stretch of points or of clusters and writes nothing outside it, so that stretches can run in
threads and the result does not depend on their number. A point's value for a cluster is minus its log joint up to a
constant, ``offset + slope * squared distance``; with a shared variance it orders clusters as their distances do
(Proposition 1).
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numba
import numpy as np
from numba import njit

LANES = 16  # rows are padded to a multiple of this


@njit(cache=True, nogil=True, error_model="numpy")
def _mix(x):
    # SplitMix64 (Steele, Lea and Flood 2014): one random number for each key, in whatever order threads ask.
    x = x * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True, error_model="numpy")
def uniform(key):
    """A number in [0, 1) for each uint64 `key`."""
    return np.float64(_mix(key) >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def four_distances(y, a, b, c, d):
    """Squared distances from `y` to four centres; the row stays in registers."""
    zero = y.dtype.type(0)  # sums in the rows' own type
    s0, s1, s2, s3 = zero, zero, zero, zero
    for j in range(y.size):
        d0, d1, d2, d3 = y[j] - a[j], y[j] - b[j], y[j] - c[j], y[j] - d[j]
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    return s0, s1, s2, s3


@njit(cache=True, nogil=True, error_model="numpy")
def distances_to(y, centers, ids, count, out):
    """Squared distances from `y` to the centres ``ids[:count]`` into `out`; `ids` and `out` have room for 3 more."""
    full = (count + 3) // 4 * 4
    for k in range(count, full):
        ids[k] = ids[0]
    for k in range(0, full, 4):
        out[k], out[k + 1], out[k + 2], out[k + 3] = four_distances(
            y, centers[ids[k]], centers[ids[k + 1]], centers[ids[k + 2]], centers[ids[k + 3]]
        )


@njit(cache=True, nogil=True, error_model="numpy")
def e_step(start, stop, Y, centers, offset, slope, K, G, n_random, key, best, found, found_value, n_found):
    """Update K(n) to the best of each point's search set, the union of the neighbourhoods of its old clusters.

    Parameters
    ----------
    start, stop : int, the points to do
    Y : array, shape (n, p), centred rows, padded with zeros
    centers : array, shape (C, p)
    offset, slope : arrays, shape (C,); they give the values
    K : int32 array, shape (n, C'), changed in place: the best clusters, the very best first
    G : int32 array, shape (C, G), each cluster's neighbourhood, itself first
    n_random : int, random clusters that join each search set
    key : uint64, for the random clusters
    best : array, shape (n, C'), out: squared distances to the clusters of K
    found, found_value : int32 and float arrays, shape (n, C' G + n_random + 4), out: the search set and its values
    n_found : int32 array, shape (n,), out: the size of the search set
    """
    n_clusters, n_kept = centers.shape[0], K.shape[1]
    seen = np.empty(n_clusters, np.int64)
    for c in range(n_clusters):
        seen[c] = -1
    value, distance = np.empty(n_kept, Y.dtype), np.empty(found.shape[1], Y.dtype)
    infinity = Y.dtype.type(np.inf)
    for i in range(start, stop):
        ids, values = found[i], found_value[i]
        count = 0
        for k in range(n_kept):  # the old winners first, so that few later clusters displace one
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
        for r in range(n_random):
            other = np.int32(_mix(key + np.uint64(i * n_random + r)) % np.uint64(n_clusters))
            ids[count] = other
            count += seen[other] != i
            seen[other] = i
        n_found[i] = count
        distances_to(Y[i], centers, ids, count, distance)
        filled, worst = 0, infinity
        for k in range(count):
            c = ids[k]
            v = offset[c] + slope[c] * distance[k]
            values[k] = v
            if filled == n_kept and v >= worst:
                continue
            slot = filled if filled < n_kept else n_kept - 1
            filled = min(filled + 1, n_kept)
            while slot > 0 and value[slot - 1] > v:
                value[slot] = value[slot - 1]
                K[i, slot] = K[i, slot - 1]
                best[i, slot] = best[i, slot - 1]
                slot -= 1
            value[slot] = v
            K[i, slot] = c
            best[i, slot] = distance[k]
            worst = value[filled - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def responsibilities(start, stop, offset, slope, K, best, hard, negligible, share, log_sum):
    """Write truncated posteriors (eq. 3) to `share`, shape (n, C'), and each point's part of the bound to `log_sum`.

    With `hard` the posterior is truncated to the best cluster. Shares that are smaller than the best one by a factor of
    exp(negligible) become zero, so that the M-step has fewer rows to add up.
    """
    n_kept = K.shape[1]
    for i in range(start, stop):
        lowest = np.inf
        for k in range(n_kept):
            c = K[i, k]
            v = np.float64(offset[c]) + np.float64(slope[c]) * np.float64(best[i, k])
            share[i, k] = v
            lowest = min(lowest, v)
        if hard:
            for k in range(n_kept):
                share[i, k] = 0.0 if k else 1.0
            log_sum[i] = -lowest
            continue
        total = 0.0
        for k in range(n_kept):
            drop = share[i, k] - lowest
            share[i, k] = np.exp(-drop) if drop < negligible else 0.0
            total += share[i, k]
        for k in range(n_kept):
            share[i, k] /= total
        log_sum[i] = np.log(total) - lowest


@njit(cache=True, nogil=True, error_model="numpy")
def group_by_cluster(K, share, n_clusters, first_only):
    """Positions of the entries of `K` that count, sorted by cluster, then by point: (entries, edges per cluster)."""
    n, n_kept = K.shape
    width = 1 if first_only else n_kept
    edges = np.zeros(n_clusters + 1, np.int64)
    for i in range(n):
        for k in range(width):
            if first_only or share[i, k] > 0:
                edges[K[i, k] + 1] += 1
    for c in range(n_clusters):
        edges[c + 1] += edges[c]
    cursor = np.empty(n_clusters, np.int64)
    for c in range(n_clusters):
        cursor[c] = edges[c]
    entries = np.empty(edges[n_clusters], np.int64)
    for i in range(n):
        for k in range(width):
            if first_only or share[i, k] > 0:
                entries[cursor[K[i, k]]] = i * n_kept + k
                cursor[K[i, k]] += 1
    return entries, edges


@njit(cache=True, nogil=True, error_model="numpy")
def m_step(start, stop, Y, weights, share, best, entries, edges, centers, mass, scatter):
    """Means (eq. 6) of a stretch of clusters, with the weight and the scatter of each.

    The scatter about the new mean is the scatter about the old one, known from the E-step, minus what the mean's move
    explains. That saves a second pass over the points. A cluster without weight keeps its centre.

    Parameters
    ----------
    start, stop : int, the clusters to do
    Y : array, shape (n, p)
    weights : float64 array, shape (n,)
    share, best : arrays, shape (n, C'); responsibilities and squared distances
    entries, edges : from `group_by_cluster`
    centers : array, shape (C, p), changed in place
    mass, scatter : float64 arrays, shape (C,), out
    """
    n_kept = share.shape[1]
    width = Y.shape[1]
    total = np.empty(width)
    for c in range(start, stop):
        for j in range(width):
            total[j] = 0.0
        m, s = 0.0, 0.0
        for e in range(edges[c], edges[c + 1]):
            i, k = entries[e] // n_kept, entries[e] % n_kept
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
            s = max(s - m * moved, 0.0)
        scatter[c] = s


@njit(cache=True, nogil=True, error_model="numpy")
def update_neighbours(start, stop, found, found_value, n_found, members, edges, G):
    """G_c: the clusters that the points nearest to c found nearest on average (eq. 31), c itself first.

    Each average is over the values (with a shared variance: squared distances) of the points that met the cluster. If
    they met fewer than G - 1 clusters, the rest of the old neighbourhood stays.

    Parameters
    ----------
    start, stop : int, the clusters to do
    found, found_value, n_found : the search sets from `e_step`
    members, edges : the points of each cluster, from `group_by_cluster` (first of K only), as rows
    G : int32 array, shape (C, G), changed in place
    """
    n_clusters, width = G.shape
    total = np.zeros(n_clusters)
    count = np.zeros(n_clusters, np.int64)
    touched = np.empty(n_clusters, np.int32)
    near = np.empty(width, np.int32)
    near_value = np.empty(width)
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
            total[other] = 0.0
            count[other] = 0
            if other == c or (filled == width - 1 and v >= near_value[width - 2]):
                continue
            slot = filled if filled < width - 1 else width - 2
            filled = min(filled + 1, width - 1)
            while slot > 0 and near_value[slot - 1] > v:
                near_value[slot] = near_value[slot - 1]
                near[slot] = near[slot - 1]
                slot -= 1
            near_value[slot] = v
            near[slot] = other
        for g in range(1, width):  # fill up with the old neighbourhood, in its order
            if filled == width - 1:
                break
            known = False
            for h in range(filled):
                known |= near[h] == G[c, g]
            if not known:
                near[filled] = G[c, g]
                filled += 1
        for g in range(filled):
            G[c, g + 1] = near[g]


class Threads:
    """Context manager that runs a kernel over stretches of 0..n in as many threads as numba may use."""

    def __init__(self):
        self.n_threads = numba.get_num_threads()
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._pool:
            self._pool.shutdown()

    def run(self, kernel, n, *arguments):
        """``kernel(start, stop, *arguments)`` on stretches that cover 0..n."""
        if not self._pool or n < 64:
            kernel(0, n, *arguments)
            return
        edges = np.linspace(0, n, 4 * self.n_threads + 1).astype(int)
        jobs = [self._pool.submit(kernel, int(a), int(b), *arguments) for a, b in pairwise(edges)]
        for job in jobs:
            job.result()
