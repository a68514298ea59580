"""Seeding: k-means++ (plain and greedy) and AFK-MC2 on weighted rows, as products of large
matrices.

Both draw the candidates of many steps beforehand, so that one product of matrices gives all their
distances; the steps then follow one another on these. The seeds have the distribution of the
textbook algorithm.
"""

import math

import numpy as np
from numba import njit
from sklearn.utils.extmath import row_norms

from handful.distances import draw_along

# distances from one block of candidates to all rows
PRODUCT_ENTRIES = 1 << 24
# rows whose median becomes the origin
N_ORIGIN = 4096


def sq_distances(A, B, sq_A, sq_B):
    """Squared distances between the rows of `A` and of `B`, shape (a, b); what rounding cannot tell
    from 0 is 0."""
    out = A @ B.T
    rounding = 4 * np.finfo(out.dtype).eps
    _finish_distances(out, sq_A, sq_B, rounding)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _finish_distances(products, sq_A, sq_B, tiny):
    tiny = products.dtype.type(tiny)
    two = products.dtype.type(2)
    zero = products.dtype.type(0)
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            size = sq_A[i] + sq_B[j]
            distance = size - two * products[i, j]
            products[i, j] = distance if distance > tiny * size else zero


def median_of_some(rows):
    """The median of some thousand rows, shape (d,): an origin about which distances keep their
    digits, and which a row that lies far from all others does not move."""
    every = math.ceil(len(rows) / N_ORIGIN)
    return np.median(rows[::every], axis=0).astype(np.float64)


def _centred(X):
    # The rows about an origin in their midst, so that the products of matrices do not cancel.
    Y = np.ascontiguousarray(X - median_of_some(X).astype(X.dtype))
    return Y, row_norms(Y, squared=True)


def _fill_up(chosen, n_clusters, weights, rng):
    # Every row equals one of the chosen rows, so any further row will do.
    n_missing = n_clusters - len(chosen)
    rest = np.setdiff1d(np.flatnonzero(weights), chosen)
    more = rng.permutation(rest)[:n_missing]
    repeats = rng.choice(chosen, n_missing - len(more))
    return [*chosen, *more.tolist(), *repeats.tolist()]


# k-means++ ---------------------------------------------------------------------------------------


def _greedy_steps(distances, candidates, chances, weights, closest, labels, chosen, left, n_trials):
    # The candidates were drawn by the distances as they are at the beginning. Keeping each with
    # probability closest / stale turns it into a draw by the closest distances. The best of
    # `n_trials` becomes a seed. Updates `closest`, `labels` and `chosen`, to which at most `left`
    # seeds are added.
    kept = []
    stale = closest[candidates]
    for k, y in enumerate(candidates):
        if chances[k] * stale[k] >= closest[y]:
            continue
        kept.append(k)
        if len(kept) < n_trials:
            continue
        trials = distances[kept]
        best = 0
        if n_trials > 1:
            costs = np.minimum(trials, closest) @ weights
            best = int(costs.argmin())
        seed = int(candidates[kept[best]])
        sq_dist = trials[best]
        nearer = sq_dist < closest
        nearer[seed] = True
        closest[nearer] = sq_dist[nearer]
        labels[nearer] = len(chosen)
        closest[seed] = 0
        chosen.append(seed)
        kept = []
        left = left - 1
        if left == 0:
            return


def kmeans_plusplus(X, n_clusters, *, sample_weight=None, n_trials=None, rng):
    """Seeds by k-means++: each drawn with probability proportional to its squared distance from
    those before it.

    Arthur and Vassilvitskii (2007). With `n_trials` > 1 the greedy variant: of that many draws the
    one that lowers the cost most.

    Parameters
    ----------
    X : float array, shape (n, d)
    n_clusters : int, C
    sample_weight : shape (n,), non-negative, or None
    n_trials : int, draws for each seed; None takes 2 + log C, as scikit-learn does; 1 is the
        published algorithm
    rng : numpy.random.Generator

    Returns
    -------
    indices : int array, shape (C,); distinct unless C exceeds the number of rows of positive weight
    labels : int array, shape (n,), the nearest seed of each row
    n_distances : int, distances that were computed
    """
    n = len(X)
    weights = np.ones(n) if sample_weight is None else sample_weight
    n_trials = 2 + int(np.log(n_clusters)) if n_trials is None else n_trials
    Y, sq = _centred(X)
    small_weights = (weights / weights.max()).astype(X.dtype)
    edges = np.cumsum(weights)
    chosen = [int(draw_along(edges, rng.random()))]
    [closest] = sq_distances(Y[chosen], Y, sq[chosen], sq)
    closest[chosen] = 0
    labels = np.zeros(n, np.intp)
    n_distances = n
    limit = max(n_trials, PRODUCT_ENTRIES // n)
    while len(chosen) < n_clusters:
        cumulated = np.cumsum(weights * closest)
        if not cumulated[-1] > 0:
            chosen = _fill_up(chosen, n_clusters, weights, rng)
            break
        left = n_clusters - len(chosen)
        # Early seeds change the distances most. Blocks begin short, or most of their candidates
        # would be rejected.
        n_steps = min(1 + len(chosen) // 8, left)
        n_candidates = min(limit, n_trials * n_steps + n_trials)
        candidates = draw_along(cumulated, rng.random(n_candidates))
        distances = sq_distances(Y[candidates], Y, sq[candidates], sq)
        n_distances += distances.size
        _greedy_steps(
            distances,
            candidates,
            rng.random(len(candidates)),
            small_weights,
            closest,
            labels,
            chosen,
            left,
            n_trials,
        )
    return np.array(chosen), labels, n_distances


# AFK-MC2 -----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _run_chains(to_chosen, among, candidates, proposal, weights, uniforms, state):
    # Runs the chains of a block one after the other. `to_chosen` has each candidate's distance to
    # the seeds before the block; each new seed lowers it by way of the distances `among` the
    # candidates.
    n_chains, length = candidates.shape
    for chain in range(n_chains):
        at = chain * length
        key = -1.0
        for k in range(length):
            y = candidates[chain, k]
            place = chain * length + k
            ratio = weights[y] * to_chosen[place] / proposal[y]
            if k == 0 or key == 0.0 or ratio > uniforms[chain, k] * key:
                at = place
                key = ratio
        state[chain] = at
        for j in range((chain + 1) * length, to_chosen.size):
            to_chosen[j] = min(to_chosen[j], among[at, j])


def afkmc2(X, n_clusters, *, chain_length=2, sample_weight=None, rng, block=None):
    """Seeds by AFK-MC2: k-means++ approximated by short Markov chains, in a time that hardly
    depends on n.

    Bachem, Lucic, Hassani and Krause (2016), on weighted rows. The proposal does not depend on the
    seeds, so that all candidates are drawn beforehand and the chains of a block of seeds share two
    products of matrices; apart from rounding, the seeds do not depend on the size of the block.

    Parameters
    ----------
    X : float array, shape (n, d)
    n_clusters : int, C
    chain_length : int, m, candidates for each seed, of which the first is always accepted
    sample_weight : shape (n,), non-negative, or None
    rng : numpy.random.Generator
    block : int, seeds in a block; None keeps the distances among the candidates of a block to about
        half a megabyte

    Returns
    -------
    indices : int array, shape (C,); a row may come twice where rows are few or equal
    n_distances : int, distances that were computed
    """
    n = len(X)
    weights = np.ones(n) if sample_weight is None else sample_weight
    Y, sq = _centred(X)
    seeds = np.empty(n_clusters, np.intp)
    edges = np.cumsum(weights)
    seeds[0] = draw_along(edges, rng.random())
    first = seeds[:1]
    [to_first] = sq_distances(Y[first], Y, sq[first], sq)
    gained = weights * to_first
    total = gained.sum()
    by_distance = 0.5 * gained / total if total > 0 else 0.0
    proposal = 0.5 * weights / weights.sum() + by_distance
    shape = (n_clusters - 1, chain_length)
    candidates = draw_along(np.cumsum(proposal), rng.random(shape))
    uniforms = rng.random(shape)
    chains = max(1, 512 // chain_length) if block is None else block
    n_distances = n
    for start in range(0, n_clusters - 1, chains):
        block_of_chains = slice(start, start + chains)
        mine = candidates[block_of_chains]
        accepted_below = uniforms[block_of_chains]
        rows = mine.ravel()
        before, after = np.split(seeds, [start + 1])
        to_chosen = _closest(Y, sq, rows, before)
        among = _between(Y, sq, rows, rows)
        state = np.empty(len(mine), np.intp)
        _run_chains(to_chosen, among, mine, proposal, weights, accepted_below, state)
        after[: len(mine)] = rows[state]
        n_distances += rows.size * (before.size + rows.size // 2)
    return seeds, n_distances


def _between(Y, sq, a, b):
    distances = sq_distances(Y[a], Y[b], sq[a], sq[b])
    is_same = a[:, None] == b
    # exactly, whatever rounding says
    distances[is_same] = 0
    return distances


def _closest(Y, sq, rows, seeds, step=2048):
    closest = np.full(len(rows), np.inf, Y.dtype)
    for start in range(0, len(seeds), step):
        some = seeds[start : start + step]
        least = _between(Y, sq, rows, some).min(axis=1)
        np.minimum(closest, least, out=closest)
    return closest
