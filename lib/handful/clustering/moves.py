"""Moves that leave a local optimum: clusters of little use go to where splitting another one gains
most.

What the bound loses without a cluster, and what it gains when a cluster is cut in two, both follow
from the sets K(n) of the E-step. No distance to a far cluster is needed, so a round of moves costs
about as much as an iteration.
"""

import numpy as np
from numba import njit

# iterations of 2-means that cut a cluster in two
LLOYD_STEPS = 3
# points handled at once
ROWS = 1 << 14
# of clusters that are cut at once, which bounds the memory
ENTRIES = 1 << 18
# a point with a smaller share in a cluster adds nothing to the cluster's loss
NEGLIGIBLE_SHARE = 1e-3


def removal_losses(weights, slope, K, best, share, hard, n_clusters):
    """Upper bound on what the bound loses without each cluster, in nats, float64 array of shape
    (C,).

    Each point adds what its log-sum over K(n) loses without the cluster. A point whose K(n) has no
    other cluster makes the loss infinite.
    """
    if K.shape[1] == 1:
        n_points = np.bincount(K[:, 0], minlength=n_clusters)
        return np.where(n_points > 0, np.inf, 0.0)
    loss = np.zeros(n_clusters)
    for start in range(0, len(K), ROWS):
        part = slice(start, start + ROWS)
        u = weights[part]
        k = K[part]
        p = share[part]
        # the largest first
        exponents = -np.float64(slope) * best[part]
        largest = exponents[:, 0]
        if hard:
            lost = largest - exponents[:, 1]
        else:
            lost = np.logaddexp(0.0, largest - _log_sum(exponents[:, 1:]))
        loss += np.bincount(k[:, 0], u * lost, n_clusters)
        # without a share below a half the log-sum loses -log(1 - share)
        if not hard:
            row, rank = np.nonzero(p[:, 1:] >= NEGLIGIBLE_SHARE)
            at = row, rank + 1
            lost = np.log1p(-p[at])
            loss += np.bincount(k[at], -u[row] * lost, n_clusters)
    return loss


def _log_sum(exponents):
    # of the exponentials of each row, whose largest comes first
    largest = exponents[:, 0]
    terms = np.exp(exponents - largest[:, None])
    return largest + np.log(terms.sum(axis=1))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _two_distances(y, halves, a):
    # Squared distances from `y` to rows a and a + 1 of `halves`.
    zero = y.dtype.type(0)
    to_first = zero
    to_second = zero
    for j in range(y.size):
        d = y[j] - halves[a, j]
        e = y[j] - halves[a + 1, j]
        to_first += d * d
        to_second += e * e
    return to_first, to_second


@njit(cache=True, nogil=True, error_model="numpy")
def two_means(
    start, stop, n_steps, Y, weights, share, entries, edges, halves, mass, sq_dist, total
):
    """Steps of 2-means in each cluster.

    Parameters
    ----------
    start, stop : int, the clusters to do
    n_steps : int
    Y, weights, share, entries, edges : as for `split_gains`
    halves : array, shape (2 C, p), the centres of the two halves of each cluster, changed in place
    mass : float64 array, shape (2 C,), out: the weights of the halves in the last step; where one
        is 0 nothing moves
    sq_dist : array, shape (entries, 2), out: squared distances to the halves as they are in the end
    total : float64 buffer, shape (2, p)
    """
    n_kept = share.shape[1]
    width = Y.shape[1]
    for c in range(start, stop):
        a = 2 * c
        own = mass[a : a + 2]
        for step in range(n_steps + 1):
            for e in range(edges[c], edges[c + 1]):
                i = entries[e] // n_kept
                to_first, to_second = _two_distances(Y[i], halves, a)
                sq_dist[e, 0] = to_first
                sq_dist[e, 1] = to_second
            if step == n_steps:
                break
            own[:] = 0.0
            total[:] = 0.0
            for e in range(edges[c], edges[c + 1]):
                i = entries[e] // n_kept
                h = 1 if sq_dist[e, 0] > sq_dist[e, 1] else 0
                w = weights[i] * share[i, entries[e] % n_kept]
                own[h] += w
                for j in range(width):
                    total[h, j] += w * Y[i, j]
            if own.min() > 0.0:
                for h in range(2):
                    for j in range(width):
                        halves[a + h, j] = total[h, j] / own[h]


def split_gains(Y, weights, slope, share, best, entries, edges, uniforms, hard, threads):
    """What the bound gains when one cluster is cut in two by 2-means, for each cluster.

    Parameters
    ----------
    Y, weights, share, best : of the E-step
    slope : float, of the values
    entries, edges : from `group_by_cluster`, all entries
    uniforms : array, shape (C, 2), in [0, 1), which draw the first halves
    hard : bool, each point wholly with its best cluster
    threads : kernels.Threads

    Returns
    -------
    gain : float64 array, shape (C,), in nats; 0 where a cluster cannot be cut
    halves : array, shape (C, 2, p): the centres of the halves of each cluster, the heavier first
    """
    n_clusters = len(uniforms)
    width = Y.shape[1]
    row = entries // share.shape[1]
    slope = np.float64(slope)
    u = weights[row]
    p = share.ravel()[entries]
    old = best.ravel()[entries]
    of = np.repeat(np.arange(n_clusters), np.diff(edges))

    def halved(halves, n_steps):
        mass = np.ones(2 * n_clusters)
        sq_dist = np.empty((len(row), 2), Y.dtype)
        arrays = Y, weights, share, entries, edges, halves, mass, sq_dist
        total = (2, width), np.float64
        threads.run(two_means, n_clusters, n_steps, *arrays, buffers=[total])
        return sq_dist, mass

    first, apart = _draw_far(u * old, edges, uniforms[:, 0])
    halves = np.repeat(Y[row[first]], 2, axis=0)
    to_first, _ = halved(halves, 0)
    gained = u * to_first[:, 0]
    second, differ = _draw_far(gained, edges, uniforms[:, 1])
    halves[1::2] = Y[row[second]]
    sq_dist, mass = halved(halves, LLOYD_STEPS)
    first_mass = mass[::2]
    second_mass = mass[1::2]
    able = apart & differ & (first_mass > 0) & (second_mass > 0)
    near = slope * np.minimum(*sq_dist.T)
    far = slope * np.maximum(*sq_dist.T)
    z = slope * old - near
    if not hard:
        # log(1 - share + share * (exp(old - near) + exp(old - far))), the larger term taken out
        top = np.maximum(z, 0.0)
        both = 1.0 + np.exp(near - far)
        inner = (1.0 - p) * np.exp(-top) + p * np.exp(z - top) * both
        z = top + np.log(np.maximum(inner, 1e-300))
    halves = halves.reshape(n_clusters, 2, -1)
    lighter = first_mass < second_mass
    halves[lighter] = halves[lighter, ::-1]
    gain = np.bincount(of, u * z, n_clusters)
    return gain * able, halves


def _draw_far(mass, edges, u):
    # An entry of each cluster, drawn by its mass, and whether there is any.
    sums = np.append(0.0, np.cumsum(mass))
    start = sums[edges[:-1]]
    stop = sums[edges[1:]]
    inner = sums[1:-1]
    # of positive mass
    last = np.searchsorted(inner, stop)
    place = start + u * (stop - start)
    drawn = np.searchsorted(inner, place, side="right")
    return np.minimum(drawn, last), stop > start


def choose_moves(loss, gain, cheapest, richest, K, firsts, edges):
    """Pairs (cluster to remove, cluster to cut): the smallest losses with the largest gains.

    A cluster that takes over the points of a removed one is neither removed nor cut in the same
    round; losses and gains then add up.

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
    pairs = []
    n_clusters = len(loss)
    n_kept = K.shape[1]
    heir_rank = min(1, n_kept - 1)
    busy = np.zeros(n_clusters, bool)
    heir_of = np.full(n_clusters, -1)
    first = 0
    for c in cheapest:
        if busy[c]:
            continue
        while first < n_clusters and busy[richest[first]]:
            first += 1
        if first == n_clusters or not gain[richest[first]] > loss[c]:
            break
        rows = firsts[edges[c] : edges[c + 1]] // n_kept
        heirs = K[rows, heir_rank]
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
    """Put cluster c, cut from s, into the sets K(n) of those `rows` of cluster s that lie nearer to
    it."""
    y = Y[rows]
    to_c = ((y - centers[c]) ** 2).sum(axis=1)
    to_s = ((y - centers[s]) ** 2).sum(axis=1)
    is_new = (K[rows] != c).all(axis=1)
    told = rows[(to_c < to_s) & is_new]
    last = K.shape[1] - 1
    last_but_one = max(last - 1, 0)
    place = np.where(K[told, last] == s, last_but_one, last)
    K[told, place] = c
