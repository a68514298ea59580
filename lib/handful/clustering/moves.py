"""Moves that leave a local optimum: clusters of little use go to where splitting another one gains most.

What the bound loses without a cluster, and what it gains when a cluster is cut in two, both follow from the sets
K(n) of the E-step. No distance to a far cluster is needed, so a round of moves costs about as much as an iteration.
"""

import numpy as np
from numba import njit

from handful.clustering.vcgmm_kernels import uniform

LLOYD_STEPS = 3  # iterations of 2-means that cut a cluster in two
NEGLIGIBLE_SHARE = 1e-3  # a point with a smaller share in a cluster adds nothing to the cluster's loss


@njit(cache=True, nogil=True, error_model="numpy")
def removal_losses(weights, offset, slope, K, best, share, hard, n_clusters):
    """Upper bound on what the bound loses without each cluster, in nats, float64 array of shape (C,).

    Each point adds what its log-sum over K(n) loses without the cluster. A point whose K(n) has no other cluster makes
    the loss infinite.
    """
    loss = np.zeros(n_clusters)
    n_kept = K.shape[1]
    value = np.empty(n_kept)
    for i in range(K.shape[0]):
        lowest = np.inf
        for k in range(n_kept):
            c = K[i, k]
            value[k] = np.float64(offset[c]) + np.float64(slope[c]) * np.float64(best[i, k])
            lowest = min(lowest, value[k])
        if hard:
            loss[K[i, 0]] += weights[i] * (value[1] - value[0]) if n_kept > 1 else np.inf
            continue
        total = 0.0
        for k in range(n_kept):
            total += np.exp(lowest - value[k])
        for k in range(n_kept):
            if share[i, k] < NEGLIGIBLE_SHARE:
                continue
            least = np.inf
            for other in range(n_kept):
                if other != k:
                    least = min(least, value[other])
            rest = 0.0
            for other in range(n_kept):
                if other != k:
                    rest += np.exp(least - value[other])
            loss[K[i, k]] += weights[i] * (np.log(total) - lowest - np.log(rest) + least) if rest > 0.0 else np.inf
    return loss


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _two_distances(y, a, b):
    zero = y.dtype.type(0)
    s, t = zero, zero
    for j in range(y.size):
        d, e = y[j] - a[j], y[j] - b[j]
        s += d * d
        t += e * e
    return s, t


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_far(Y, weights, entries, n_kept, center, u):
    # A row of the cluster, drawn by weight times squared distance from `center`; -1 if all of them lie there.
    total = 0.0
    for e in entries:
        total += weights[e // n_kept] * _two_distances(Y[e // n_kept], center, center)[0]
    if not total > 0.0:
        return -1
    target, row = u * total, -1
    for e in entries:
        mass = weights[e // n_kept] * _two_distances(Y[e // n_kept], center, center)[0]
        if mass > 0.0:
            row = e // n_kept
        target -= mass
        if target < 0.0 and row >= 0:
            return row
    return row


@njit(cache=True, nogil=True, error_model="numpy")
def split_gains(start, stop, Y, weights, slope, share, best, entries, edges, centers, key, hard, price, gain, halves):
    """What the bound gains when one cluster is cut in two by 2-means, for each cluster.

    Parameters
    ----------
    start, stop : int, the clusters to do
    Y, weights, share, best : of the E-step
    slope : array, shape (C,), of the values
    entries, edges : from `group_by_cluster`, all entries
    centers : array, shape (C, p)
    key : uint64, for the first halves
    hard : bool, each point wholly with its best cluster
    price : float, by which the values of the halves rise, as they share a prior
    gain : float64 array, shape (C,), out, in nats; 0 where a cluster cannot be cut
    halves : array, shape (C, 2, p), out: the centres of the halves, the heavier first
    """
    n_kept = share.shape[1]
    width = Y.shape[1]
    total = np.empty(2 * width)  # of both halves: arrays of two dimensions take a second to compile
    for c in range(start, stop):
        gain[c] = 0.0
        mine = entries[edges[c] : edges[c + 1]]
        if mine.size < 2:
            continue
        first = _draw_far(Y, weights, mine, n_kept, centers[c], uniform(key + np.uint64(2 * c)))
        if first < 0:
            continue
        second = _draw_far(Y, weights, mine, n_kept, Y[first], uniform(key + np.uint64(2 * c + 1)))
        if second < 0:
            continue
        a, b = halves[c, 0], halves[c, 1]
        for j in range(width):
            a[j], b[j] = Y[first, j], Y[second, j]
        for _ in range(LLOYD_STEPS):
            for j in range(2 * width):
                total[j] = 0.0
            m0, m1 = 0.0, 0.0
            for e in mine:
                i = e // n_kept
                w = weights[i] * share[i, e % n_kept]
                s, t = _two_distances(Y[i], a, b)
                if s <= t:
                    m0 += w
                    for j in range(width):
                        total[j] += w * Y[i, j]
                else:
                    m1 += w
                    for j in range(width):
                        total[width + j] += w * Y[i, j]
            if m0 == 0.0 or m1 == 0.0:
                break
            for j in range(width):
                a[j], b[j] = total[j] / m0, total[width + j] / m1
        if m0 == 0.0 or m1 == 0.0:
            continue
        if m1 > m0:
            for j in range(width):
                a[j], b[j] = b[j], a[j]
        risen = 0.0
        for e in mine:
            i, k = e // n_kept, e % n_kept
            s, t = _two_distances(Y[i], a, b)
            old = np.float64(slope[c]) * np.float64(best[i, k])
            near, far = price + np.float64(slope[c]) * min(s, t), price + np.float64(slope[c]) * max(s, t)
            if hard:
                risen += weights[i] * (old - near)
                continue
            # log(1 - share + share * (exp(old - near) + exp(old - far))), the larger term taken out
            z = old - near
            p = share[i, k]
            top = max(z, 0.0)
            inner = (1.0 - p) * np.exp(-top) + p * np.exp(z - top) * (1.0 + np.exp(near - far))
            risen += weights[i] * (top + np.log(max(inner, 1e-300)))
        gain[c] = risen


def choose_moves(loss, gain, cheapest, richest, K, firsts, edges):
    """Pairs (cluster to remove, cluster to cut): the smallest losses with the largest gains.

    A cluster that takes over the points of a removed one is neither removed nor cut in the same round; losses and
    gains then add up.

    Parameters
    ----------
    loss, gain : float64 arrays, shape (C,)
    cheapest, richest : int arrays, shape (C,), the clusters by rising loss, and by falling gain
    K : int32 array, shape (n, C')
    firsts, edges : from `group_by_cluster`, first entries only

    Returns
    -------
    int array, shape (n_pairs, 2), each with a gain above its loss, the surest first
    """
    pairs, busy, heir_of = np.empty((len(loss), 2), np.int64), np.zeros(len(loss), bool), np.full(len(loss), -1)
    return pairs[: _choose_moves(loss, gain, cheapest, richest, K, firsts, edges, pairs, busy, heir_of)]


@njit(cache=True, nogil=True, error_model="numpy")
def _choose_moves(loss, gain, cheapest, richest, K, firsts, edges, pairs, busy, heir_of):
    # Writes the pairs, and gives their number.
    n_clusters, n_kept = loss.size, K.shape[1]
    n_pairs, first = 0, 0
    for c in cheapest:
        if busy[c]:
            continue
        while first < n_clusters and busy[richest[first]]:
            first += 1
        if first == n_clusters or not gain[richest[first]] > loss[c]:
            break
        for at in range(edges[c], edges[c + 1]):
            heir_of[K[firsts[at] // n_kept, 1]] = c
        for rank in range(first, n_clusters):
            s = richest[rank]
            if not gain[s] > loss[c]:
                break
            if busy[s] or s == c or heir_of[s] == c:
                continue
            busy[c] = busy[s] = True
            for at in range(edges[c], edges[c + 1]):
                busy[K[firsts[at] // n_kept, 1]] = True
            pairs[n_pairs, 0], pairs[n_pairs, 1] = c, s
            n_pairs += 1
            break
    return n_pairs


@njit(cache=True, nogil=True, error_model="numpy")
def tell_points(Y, K, centers, entries, edges, pairs):
    """Put the second half of each cut cluster into the sets K(n) of the points that lie nearer to it."""
    n_kept = K.shape[1]
    for p in range(len(pairs)):
        c, s = pairs[p, 0], pairs[p, 1]
        for e in entries[edges[s] : edges[s + 1]]:
            i = e // n_kept
            known = False
            for k in range(n_kept):
                known |= K[i, k] == c
            near, far = _two_distances(Y[i], centers[c], centers[s])
            if not known and near < far:
                K[i, n_kept - 1 if K[i, n_kept - 1] != s else max(n_kept - 2, 0)] = c
