"""The same coresets over dask: lightweight, merge and reduce, Algorithm 1 (extra ``handful[distributed]``).

Every task is a pure function of its chunk and its place, random numbers included. So the answer depends on
the data, the chunks and the seed only: not on the scheduler, the number of workers, or a worker that died and
whose tasks were run again elsewhere.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from handful.checks import as_generator, check_integer, signed_labels
from handful.coreset import Coreset
from handful.sensitivity import lightweight
from handful.sensitivity.draws import multinomial_draw
from handful.sensitivity.svm import SCORES, choose_clusters, sample_rows
from handful.sensitivity.svm_partition import DenseRows, SparseRows
from handful.streaming import Node, concatenate, reduce_nodes
from handful.svm import LinearSVM
from handful.svm.kernels import feature_major

try:
    import dask
except ImportError as error:
    raise ImportError("handful.distributed needs dask: pip install 'handful[distributed]'.") from error


@dataclass(frozen=True)
class DistributedCoreset:
    """Weighted rows of a distributed data set.

    Attributes
    ----------
    X, y : the rows; y None where there is none
    weights : float array, shape (m,)
    indices : int array, shape (m,); positions in the whole data set
    """

    X: object
    y: np.ndarray | None
    weights: np.ndarray
    indices: np.ndarray

    @property
    def coreset_(self):
        """The `Coreset`: indices and weights."""
        return Coreset(self.indices, self.weights)


def merge_reduce(selector, X, y=None, *, size, random_state=None):
    """The coreset of a dask collection by merge and reduce: every chunk a leaf, a tree of tasks above.

    The coreset is that of `handful.streaming.DynamicMergeReduce`, and of `MergeReduce`, with these leaves and
    this seed.

    Parameters
    ----------
    selector : Selector
    X : dask array, shape (n, d), in chunks of rows; or a dask bag of chunks ``(X, y)`` (or ``X`` alone),
        numpy arrays or CSR matrices
    y : dask array, shape (n,), chunked like X; None for a bag
    size : int; rows of a node, so of the coreset
    random_state : None, int, RandomState or Generator

    Returns
    -------
    DistributedCoreset

    Raises
    ------
    ValueError
        for a bad size, anything but a dask array of numbers or a bag, a `y` that is no dask array of the same length,
        NaN, infinity, and what the selector refuses
    """
    check_integer("size", size)
    seed = int(as_generator(random_state).integers(2**32))
    chunks = _chunks(X, y)
    starts, _ = _starts(chunks)
    level = 0
    nodes = [
        dask.delayed(_leaf, pure=False)(chunk, start, selector, size, seed, i)
        for i, (chunk, start) in enumerate(zip(chunks, starts))
    ]
    while len(nodes) > 1:
        level += 1
        nodes = [
            dask.delayed(_parent, pure=False)(nodes[2 * i : 2 * i + 2], selector, size, seed, level, i)
            for i in range(-(-len(nodes) // 2))
        ]
    (node,) = dask.compute(nodes[0])
    if node is None:
        raise ValueError("the data have no rows: there is no coreset.")
    return DistributedCoreset(node.X, node.y, node.weights, node.ids)


def svm_coreset(selector, X, y):
    """Algorithm 1 of "On Coresets for Support Vector Machines" (2020) over a dask collection, in four passes.

    1. Each chunk solves its own SVM. As the objective is a sum over the chunks (each with its share of the
       regulariser), the sum of their certified optima is a lower bound on the whole one. Each also gives a
       sample of its classes, on which the centres are chosen.
    2. Each chunk assigns its points; their sums give the weighted means of the clusters.
    3. Each chunk computes its sensitivities, and their sum.
    4. The draws are split over the chunks by these sums, and drawn in each.

    Parameters
    ----------
    selector : SVMCoreset with ``sampling="multinomial"`` and ``score="tight"`` or ``"paper"``
    X, y : as of `merge_reduce`

    Returns
    -------
    DistributedCoreset

    Raises
    ------
    ValueError
        for another sampling or score, and where every chunk holds one class only (no bound comes of that:
        shuffle the rows, or make larger chunks).
    """
    if selector.sampling != "multinomial" or selector.score == "mixture":
        raise ValueError(
            "svm_coreset draws independently by a bound: it needs sampling='multinomial' and score='tight' or "
            f"'paper', got {selector.sampling!r} and {selector.score!r}."
        )
    selector._check_parameters()
    seed = int(as_generator(selector.random_state).integers(2**32))
    chunks, run = _chunks(X, y), dask.delayed
    starts, n = _starts(chunks)
    first = dask.compute(*[run(_first)(c, selector.lam, selector.xi, n, seed, i) for i, c in enumerate(chunks)])
    classes, _ = signed_labels(np.concatenate([list(f["samples"]) for f in first]), "an SVM")
    constants = dict(total_weight=float(n), lam=selector.lam, opt=sum(f["bound"] for f in first))
    if not constants["opt"] > 0:
        raise ValueError(
            "every chunk holds one class only, so their optima bound nothing; shuffle the rows, or make chunks larger."
        )
    rng = np.random.default_rng([seed, 1])
    bound = SCORES[selector.score]
    centres = {}
    for label in classes:
        parts = [f["samples"][label] for f in first if label in f["samples"]]
        rows = (
            sparse.vstack([r for r, _ in parts])
            if sparse.issparse(parts[0][0])
            else np.concatenate([r for r, _ in parts])
        )
        weights = np.concatenate([np.full(r.shape[0], count / r.shape[0]) for r, count in parts])
        centres[label] = choose_clusters(selector.n_clusters, _points(rows), weights, bound, constants, rng)[1]
    sums = dask.compute(*[run(_sums)(c, centres) for c in chunks])
    clusters = {}
    for label in classes:
        weight = sum(s[label][1] for s in sums)
        clusters[label] = sum(s[label][0] for s in sums) / np.maximum(weight, 1)[:, None], weight
    bounds = [run(_sensitivities)(c, centres, clusters, bound, constants) for c in chunks]
    totals = np.array(dask.compute(*[run(np.sum)(b) for b in bounds]))
    counts = np.random.default_rng([seed, 2]).multinomial(selector.size, totals / totals.sum())
    drawn = [
        run(_draw)(c, b, int(count), totals.sum() / selector.size, start, seed, i)
        for i, (c, b, count, start) in enumerate(zip(chunks, bounds, counts, starts))
        if count
    ]
    node = concatenate(list(dask.compute(*drawn)))
    return DistributedCoreset(node.X, node.y, node.weights, node.ids)


class LightweightCoreset(BaseEstimator):
    """A lightweight coreset of a dask array: bitwise that of `handful.LightweightCoreset` on the whole array.

    Each chunk gives the statistics of its blocks of 4,096 rows; the draws are split over the blocks by these, and only
    chunks from which something is drawn are read again. The chunks do not change the result. Fit the clustering on
    what comes back: ``VCGMM(k).fit(coreset.X_, sample_weight=coreset.weights_)``. A file larger than the memory is best
    read by a delayed function for each chunk: ``dask.array.from_array`` copies a memory map as a whole.

    Parameters
    ----------
    size : int, number of draws, with repetition
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    X_ : array, shape (at most size, d), the rows
    indices_ : int array, their places in the whole array, ascending
    weights_ : float array; they add up to about n

    Examples
    --------
    >>> import dask.array as da
    >>> X = da.random.default_rng(0).normal(size=(20_000, 3), chunks=(5_000, 3))
    >>> coreset = LightweightCoreset(500, random_state=0).fit(X)
    >>> coreset.X_.shape[1], bool(abs(coreset.weights_.sum() / 20_000 - 1) < 0.1)
    (3, True)
    """

    def __init__(self, size=1000, *, random_state=None):
        self.size = size
        self.random_state = random_state

    def fit(self, X, y=None):
        """Draw the coreset.

        Parameters
        ----------
        X : dask array, shape (n, d), of floats; chunks of unknown length are measured first
        y : ignored

        Raises
        ------
        ValueError
            for anything but a matrix of numbers with rows and columns, NaN, infinity, and a bad size
        """
        check_integer("size", self.size)
        if not hasattr(X, "numblocks") or X.ndim != 2:
            raise ValueError(f"X must be a 2-d dask array, got {type(X).__name__}; see dask.array.from_array.")
        _check_numbers(X)
        if np.isnan(X.shape[0]):
            X = X.compute_chunk_sizes()
        n, d = X.shape
        if not n or not d:
            raise ValueError(f"X must have rows and columns, got shape {X.shape}.")
        # whole blocks in each chunk, so that a block's sums are added up in one order
        n_rows = max(1, max(X.chunks[0]) // lightweight.BLOCK) * lightweight.BLOCK
        X = X.rechunk({0: n_rows, 1: -1})
        chunks, starts = X.to_delayed().ravel(), range(0, n, n_rows)
        pivot = np.ascontiguousarray(X[lightweight.pivot_rows(n)].compute()).mean(axis=0, dtype=np.float64)
        statistics = dask.compute(*[dask.delayed(_block_statistics)(c, pivot) for c in chunks])
        rng = as_generator(self.random_state)
        draws = lightweight.plan_draws(*map(np.concatenate, zip(*statistics)), pivot, self.size, rng)
        chunk_of = draws.blocks * lightweight.BLOCK // n_rows
        drawn = [
            dask.delayed(_rows_of_blocks)(chunks[j], starts[j], draws.part(chunk_of == j)) for j in np.unique(chunk_of)
        ]
        rows, indices, weights = map(np.concatenate, zip(*dask.compute(*drawn)))
        self.indices_, self.weights_ = lightweight.merge_draws(indices, weights)
        self.X_ = rows[np.unique(indices, return_index=True)[1]]
        self.n_features_in_ = d
        return self

    @property
    def coreset_(self):
        """The `Coreset`: indices and weights."""
        return Coreset(self.indices_, self.weights_)


def _block_statistics(X, pivot):
    # Of a chunk's blocks: weight, sums and squares about the pivot.
    X = np.ascontiguousarray(X)
    n_blocks = -(-len(X) // lightweight.BLOCK)
    out = np.zeros(n_blocks), np.zeros((n_blocks, len(pivot))), np.zeros(n_blocks)
    lightweight.add_statistics(X, np.ones(len(X)), pivot, 0, *out)
    if not np.isfinite(out[2]).all():
        raise ValueError("a chunk of X contains NaN, infinity or entries whose squares overflow.")
    return out


def _rows_of_blocks(X, start, draws):
    # What was drawn from a chunk that begins at row `start`: rows, places, weights.
    indices, weights = [], []
    for k, b in enumerate(draws.blocks):
        first = b * lightweight.BLOCK - start
        block = np.ascontiguousarray(X[first : first + lightweight.BLOCK])
        picked, weight = draws.rows(k, block, np.ones(len(block)))
        indices.append(first + picked)
        weights.append(weight)
    indices = np.concatenate(indices)
    return np.asarray(X)[indices], start + indices, np.concatenate(weights)


def _check_numbers(X):
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got dtype {X.dtype}; convert it with X.astype(float).")


def _chunks(X, y):
    """A delayed ``(X, y)`` for every chunk."""
    if hasattr(X, "map_partitions"):
        if y is not None:
            raise ValueError(f"y must be None for a bag, whose items are pairs (X, y), got {type(y).__name__}.")
        return [dask.delayed(_joined)(part) for part in X.to_delayed()]  # a bag
    if not hasattr(X, "numblocks"):
        raise ValueError(f"X must be a dask array or bag, got {type(X).__name__}; see dask.array.from_array.")
    if X.ndim != 2:
        raise ValueError(f"X must be 2-d, rows and features, got shape {X.shape}.")
    _check_numbers(X)
    if y is not None and not hasattr(y, "numblocks"):
        raise ValueError(f"y must be a dask array, as X is, got {type(y).__name__}; see dask.array.from_array.")
    X = X.rechunk({1: -1})
    blocks = X.to_delayed().ravel()
    if y is None:
        return [dask.delayed(_pair)(block, None) for block in blocks]
    if np.isnan(X.shape[0]) or np.isnan(y.shape[0]):  # chunks of unknown length, as of a filtered frame
        if len(y.chunks[0]) != len(blocks):
            raise ValueError(f"y must be chunked like X, in {len(blocks)} chunks, got {len(y.chunks[0])}.")
        labels = y.to_delayed().ravel()
    elif y.shape[0] != X.shape[0]:
        raise ValueError(f"y must have one label a row, {X.shape[0]} of them, got shape {y.shape}.")
    else:
        labels = y.rechunk({0: X.chunks[0]}).to_delayed().ravel()
    return [dask.delayed(_pair)(block, label) for block, label in zip(blocks, labels)]


def _pair(X, y):
    return X, y


def _joined(items):
    """The chunk that a bag's partition holds: its items, ``(X, y)`` or X, one after the other."""
    parts = [item if isinstance(item, tuple) else (item, None) for item in items]
    nodes = [Node(X, y, np.ones(X.shape[0]), np.arange(X.shape[0])) for X, y in parts]
    whole = concatenate(nodes)
    return whole.X, whole.y


def _starts(chunks):
    n = np.array(dask.compute(*[dask.delayed(_length)(c) for c in chunks]))
    return (np.cumsum(n) - n).tolist(), int(n.sum())


def _length(chunk):
    return chunk[0].shape[0]


def _checked(chunk):
    X, y = chunk
    if not np.isfinite(X.data if sparse.issparse(X) else X).all():
        raise ValueError("a chunk of X contains NaN or infinity.")
    return X, y


def _leaf(chunk, start, selector, size, seed, index):
    X, y = _checked(chunk)
    n = X.shape[0]
    return reduce_nodes([Node(X, y, np.ones(n), start + np.arange(n))], selector, size, seed, 0, index) if n else None


def _parent(children, selector, size, seed, level, index):
    nodes = [node for node in children if node is not None]
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    return reduce_nodes(nodes, selector, size, seed, level, index)


def _points(X):
    return SparseRows(X.tocsr()) if sparse.issparse(X) else DenseRows(feature_major(X, np.arange(len(X))))


def _first(chunk, lam, xi, n, seed, index):
    """Pass 1 over a chunk: its part of the lower bound, and a sample of each class with the class's count.

    F is the sum over the chunks of ``s_j (1/2 |w|^2 + lam / s_j * hinge losses of the chunk)``, s_j the share of the
    rows, so the sum of s_j times the optima of these SVMs is a lower bound on min F.
    """
    X, y = _checked(chunk)
    share = len(y) / n
    out = dict(bound=0.0, samples={})
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        some = rows[sample_rows(len(rows), np.random.default_rng([seed, 0, index]))]
        out["samples"][label] = X[some], len(rows)
    if len(out["samples"]) == 2:
        out["bound"] = share * LinearSVM(lam=lam / share, tol=xi).fit(X, y).lower_bound_
    return out


def _parts(chunk, centres):
    """For each class: its rows in the chunk, as points, and their clusters."""
    X, y = chunk
    for label, where in centres.items():
        rows = np.flatnonzero(y == label)
        if len(rows):
            points = _points(X[rows])
            yield label, rows, points, points.nearest(where)


def _sums(chunk, centres):
    """Pass 2: for each class, the sums and the weights of its clusters."""
    d = chunk[0].shape[1]
    out = {label: (np.zeros((len(c), d)), np.zeros(len(c))) for label, c in centres.items()}
    for label, rows, points, labels in _parts(chunk, centres):
        means, weight = points.means(labels, np.ones(len(rows)), len(centres[label]))
        out[label] = means * weight[:, None], weight
    return out


def _sensitivities(chunk, centres, clusters, bound, constants):
    """Pass 3: the bound of every row of the chunk."""
    out = np.empty(chunk[0].shape[0])
    for label, rows, points, labels in _parts(chunk, centres):
        means, weight = clusters[label]
        out[rows] = bound(points.distances(labels, means), np.ones(len(rows)), weight[labels], **constants)
    return out


def _draw(chunk, bounds, count, scale, start, seed, index):
    """Pass 4: `count` independent draws from the chunk; `scale` is t / m of the whole data set."""
    rng = np.random.default_rng([seed, 3, index])
    chosen, weights = multinomial_draw(bounds / bounds.sum(), np.ones(len(bounds)), count, rng=rng)
    X, y = chunk
    # The chunk's own draw weighs by its own total: put back what the split over the chunks took.
    return Node(X[chosen], y[chosen], weights * (count * scale / bounds.sum()), start + chosen)
