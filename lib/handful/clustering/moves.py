"""Moves that leave a local optimum: clusters of little use go to where splitting another one gains most.

What the bound loses without a cluster, and what it gains when a cluster is cut in two, both follow from the sets
K(n) of the E-step. No distance to a far cluster is needed, so a round of moves costs about as much as an iteration.
"""

import numpy as np
from numba import njit

LLOYD_STEPS = 3  # iterations of 2-means that cut a cluster in two
ROWS = 1 << 14  # points handled at once
NEGLIGIBLE_SHARE = 1e-3  # a point with a smaller share in a cluster adds nothing to the cluster's loss


def removal_losses(weights, slope, K, best, share, hard, n_clusters):
    """Upper bound on what the bound loses without each cluster, in nats, float64 array of shape (C,).

    Each point adds what its log-sum over K(n) loses without the cluster. A point whose K(n) has no other cluster makes
    the loss infinite.
    """
    if K.shape[1] == 1:
        return np.where(np.bincount(K[:, 0], minlength=n_clusters) > 0, np.inf, 0.0)
    loss = np.zeros(n_clusters)
    for start in range(0, len(K), ROWS):
        part = slice(start, start + ROWS)
        u, k, p = weights[part], K[part], share[part]
        exponents = -np.float64(slope) * best[part]  # the largest first
        others = exponents[:, 1:]
        if not hard:
            others = np.exp(others - others[:, :1]).sum(axis=1, keepdims=True)
            others = exponents[:, 1:2] + np.log(others)
        lead = exponents[:, 0] - others[:, 0]
        loss += np.bincount(k[:, 0], u * (lead if hard else np.logaddexp(0.0, lead)), n_clusters)
        if not hard:  # without a share below a half the log-sum loses -log(1 - share)
            row, rank = np.nonzero(p[:, 1:] >= NEGLIGIBLE_SHARE)
            loss += np.bincount(k[row, rank + 1], -u[row] * np.log1p(-p[row, rank + 1]), n_clusters)
    return loss


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _two_distances(y, A, a, B, b):
    # Squared distances from `y` to row a of A and to row b of B.
    zero = y.dtype.type(0)
    s, t = zero, zero
    for j in range(y.size):
        d, e = y[j] - A[a, j], y[j] - B[b, j]
        s += d * d
        t += e * e
    return s, t


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_far(Y, weights, entries, start, stop, n_kept, A, a, u):
    # A row of entries[start:stop], drawn by weight times squared distance from row a of A; -1 if all of them lie there.
    total = 0.0
    for e in range(start, stop):
        i = entries[e] // n_kept
        total += weights[i] * _two_distances(Y[i], A, a, A, a)[0]
    if not total > 0.0:
        return -1
    target, row = u * total, -1
    for e in range(start, stop):
        i = entries[e] // n_kept
        mass = weights[i] * _two_distances(Y[i], A, a, A, a)[0]
        if mass > 0.0:
            row = i
        target -= mass
        if target < 0.0 and row >= 0:
            return row
    return row


@njit(cache=True, nogil=True, error_model="numpy")
def split_gains(
    start, stop, Y, weights, slope, share, best, entries, edges, centers, uniforms, hard, gain, halves, total
):
    """What the bound gains when one cluster is cut in two by 2-means, for each cluster.

    Parameters
    ----------
    start, stop : int, the clusters to do
    Y, weights, share, best : of the E-step
    slope : float, of the values
    entries, edges : from `group_by_cluster`, all entries
    centers : array, shape (C, p)
    uniforms : array, shape (C, 2), in [0, 1), which draw the first halves
    hard : bool, each point wholly with its best cluster
    gain : float64 array, shape (C,), out, in nats; 0 where a cluster cannot be cut
    halves : array, shape (2 C, p), out: the centres of the halves of each cluster, the heavier first
    total : float64 buffer, shape (2 p,)
    """
    n_kept = share.shape[1]
    width = Y.shape[1]
    for c in range(start, stop):
        gain[c] = 0.0
        if edges[c + 1] - edges[c] < 2:
            continue
        first = _draw_far(Y, weights, entries, edges[c], edges[c + 1], n_kept, centers, c, uniforms[c, 0])
        if first < 0:
            continue
        second = _draw_far(Y, weights, entries, edges[c], edges[c + 1], n_kept, Y, first, uniforms[c, 1])
        if second < 0:
            continue
        a, b = 2 * c, 2 * c + 1
        for j in range(width):
            halves[a, j], halves[b, j] = Y[first, j], Y[second, j]
        for _ in range(LLOYD_STEPS):
            for j in range(2 * width):
                total[j] = 0.0
            m0, m1 = 0.0, 0.0
            for e in range(edges[c], edges[c + 1]):
                i, k = entries[e] // n_kept, entries[e] % n_kept
                w = weights[i] * share[i, k]
                s, t = _two_distances(Y[i], halves, a, halves, b)
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
                halves[a, j], halves[b, j] = total[j] / m0, total[width + j] / m1
        if m0 == 0.0 or m1 == 0.0:
            continue
        if m1 > m0:
            for j in range(width):
                halves[a, j], halves[b, j] = halves[b, j], halves[a, j]
        risen = 0.0
        for e in range(edges[c], edges[c + 1]):
            i, k = entries[e] // n_kept, entries[e] % n_kept
            s, t = _two_distances(Y[i], halves, a, halves, b)
            if s > t:
                s, t = t, s
            old = np.float64(slope) * np.float64(best[i, k])
            near, far = np.float64(slope) * s, np.float64(slope) * t
            z = old - near
            if hard:
                risen += weights[i] * z
                continue
            # log(1 - share + share * (exp(old - near) + exp(old - far))), the larger term taken out
            p = share[i, k]
            top = z if z > 0.0 else 0.0
            inner = (1.0 - p) * np.exp(-top) + p * np.exp(z - top) * (1.0 + np.exp(near - far))
            risen += weights[i] * (top + np.log(inner if inner > 1e-300 else 1e-300))
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
    pairs, busy, heir_of, first = [], np.zeros(len(loss), bool), np.full(len(loss), -1), 0
    for c in cheapest:
        if busy[c]:
            continue
        while first < len(loss) and busy[richest[first]]:
            first += 1
        if first == len(loss) or not gain[richest[first]] > loss[c]:
            break
        heirs = K[firsts[edges[c] : edges[c + 1]] // K.shape[1], min(1, K.shape[1] - 1)]
        heir_of[heirs] = c
        for s in richest[first:]:
            if not gain[s] > loss[c]:
                break
            if busy[s] or s == c or heir_of[s] == c:
                continue
            busy[c] = busy[s] = busy[heirs] = True
            pairs.append((c, s))
            break
    return np.array(pairs, np.int64).reshape(-1, 2)


def tell_points(Y, K, centers, rows, c, s):
    """Put cluster c, cut from s, into the sets K(n) of those `rows` of cluster s that lie nearer to it."""
    near, far = (((Y[rows] - centers[half]) ** 2).sum(axis=1) for half in (c, s))
    told = rows[(near < far) & (K[rows] != c).all(axis=1)]
    last = K.shape[1] - 1
    K[told, np.where(K[told, last] == s, max(last - 1, 0), last)] = c
