"""Rows that lie far apart, from chunks: greedy k-center as on one machine, and k-means|| where that has k-means++."""

import dask
import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin_min

from handful.baselines.centers import approach
from handful.checks import MAX_SEED

N_ROUNDS = 5  # of k-means||, each of which draws about as many candidates as there will be centers


def nearest(X, centers):
    """The nearest center of each row, and the squared distance to it; both of shape (n,)."""
    if not len(X):
        return np.empty(0, np.intp), np.empty(0)
    label, sq_dist = pairwise_distances_argmin_min(X, centers, metric="sqeuclidean")
    return label, sq_dist.astype(np.float64)


def farthest_first(chunks, n, rng):
    """As `handful.baselines.farthest_first`, the same rows: ``(indices, rows)``. `n` passes.

    Each chunk keeps the distances of its rows to the rows chosen so far, and its farthest row; where a worker dies they
    are computed again.
    """
    chosen = [int(chunks.nth([rng.integers(int(chunks.present.sum()))])[0])]
    rows = chunks.take(chosen)[0]
    state = chunks.tasks(_unlimited)
    while len(chosen) < n:
        state = list(dask.persist(*chunks.tasks(_approached, rows[-1], chosen[-1], own=[(part,) for part in state])))
        best = chunks.compute([part[1] for part in state])
        _, index, row = max((found for found in best if found is not None), key=lambda found: (found[0], -found[1]))
        chosen.append(index)
        rows = np.concatenate([rows, row[None]])
    return np.array(chosen), rows


def _unlimited(chunk):
    return np.where(chunk.weights > 0, np.inf, -1.0), None


def _approached(chunk, point, chosen, state):
    sq_dist = state[0].copy()
    approach(np.ascontiguousarray(chunk.X), point, sq_dist)
    if chunk.start <= chosen < chunk.start + len(chunk):
        sq_dist[chosen - chunk.start] = -1.0
    if not len(chunk):
        return sq_dist, None
    best = int(np.argmax(sq_dist))
    return sq_dist, (float(sq_dist[best]), chunk.start + best, chunk.X[best])


def _points(chunk):
    return chunk.X


def kmeans_parallel(chunks, k, rng, *, points=_points, shared=()):
    """k rows by k-means|| (Bahmani, Moseley, Vattani, Kumar and Vassilvitskii 2012, Algorithm 2): ``(indices, rows)``.

    From one row on, each of five rounds draws about k more by squared distance from those before. What they stand for
    weighs them, and weighted k-means++ picks k of them. Twelve passes; candidates are about 5 k rows.

    Parameters
    ----------
    chunks : Chunks
    k : int, at most the number of rows of positive weight
    rng : numpy.random.Generator
    points : function of a chunk and the `shared` arguments, the points of its rows
    """
    seed = int(rng.integers(MAX_SEED))
    first = int(np.random.default_rng([seed, 0]).integers(int(chunks.present.sum())))
    indices = chunks.nth([first])
    rows = np.concatenate(chunks.map(_rows_at, points, shared, indices))
    for number in range(N_ROUNDS):
        (cost,) = chunks.reduce(_cost, points, shared, rows)
        if not cost > 0:
            break
        drawn = chunks.map(_candidates, points, shared, rows, k / cost, [seed, 1, number])
        more, where = (np.concatenate(values) for values in zip(*drawn))
        rows, indices = np.concatenate([rows, more]), np.concatenate([indices, where])
    (weights,) = chunks.reduce(_stood_for, points, shared, rows)
    rng = np.random.default_rng([seed, 2])
    chosen = []
    if len(rows) > 1:
        found = kmeans_plusplus(
            rows,
            min(k, len(rows)),
            sample_weight=np.maximum(weights, np.finfo(float).tiny),
            random_state=int(rng.integers(MAX_SEED)),
            n_local_trials=1,
        )[1]
        chosen = list(dict.fromkeys(found.tolist()))
    indices, rows = (indices[chosen], rows[chosen]) if chosen else (indices, rows)
    if len(indices) < k:  # all distinct rows are there: any further row will do
        rest = rng.choice(int(chunks.present.sum()), min(2 * k, int(chunks.present.sum())), replace=False)
        rest = np.setdiff1d(chunks.nth(rest), indices)[: k - len(indices)]
        indices = np.concatenate([indices, rest])
        rows = np.concatenate([rows, *chunks.map(_rows_at, points, shared, rest)])
    return indices, rows


def _rows_at(chunk, points, shared, indices):
    mine = indices[(indices >= chunk.start) & (indices < chunk.start + len(chunk))]
    return points(chunk, *shared)[mine - chunk.start]


def _cost(chunk, points, shared, centers):
    return (np.float64(chunk.weights @ nearest(points(chunk, *shared), centers)[1]),)


def _candidates(chunk, points, shared, centers, rate, seed):
    X = points(chunk, *shared)
    chance = rate * chunk.weights * nearest(X, centers)[1]
    taken = np.flatnonzero(np.random.default_rng([*seed, chunk.index]).random(len(X)) < chance)
    return X[taken], chunk.start + taken


def _stood_for(chunk, points, shared, centers):
    label = nearest(points(chunk, *shared), centers)[0]
    return (np.bincount(label, weights=chunk.weights, minlength=len(centers)).astype(np.float64),)
