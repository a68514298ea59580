"""The lightweight coreset of a dask array."""

import dask
import numpy as np
from sklearn.base import BaseEstimator

from handful.checks import as_generator, check_integer
from handful.coreset import Coreset
from handful.distributed.chunks import check_numbers
from handful.sensitivity import lightweight


class LightweightCoreset(BaseEstimator):
    """The lightweight coreset of a dask array, to the last bit that of `handful.LightweightCoreset` on the whole array.

    Each chunk gives statistics of its blocks of 4,096 rows, by which the draws are split over the blocks; the chunks
    with draws are then read again. The result does not depend on the chunks. To cluster the data, continue with
    ``VCGMM(k).fit(coreset.X_, sample_weight=coreset.weights_)``. Read a file that is larger than the memory with a
    delayed function for each chunk: ``dask.array.from_array`` copies a memory map as a whole.

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
        X : dask array, shape (n, d), of real numbers; chunks of unknown length are measured first
        y : not used

        Raises
        ------
        ValueError
            for anything but a dask array of real numbers with rows and columns, NaN, infinity, and a size below 1
        """
        check_integer("size", self.size)
        if not hasattr(X, "numblocks") or X.ndim != 2:
            raise ValueError(f"X must be a 2-d dask array, got {type(X).__name__}; see dask.array.from_array.")
        check_numbers(X)
        if np.isnan(X.shape[0]):
            X = X.compute_chunk_sizes()
        n, d = X.shape
        if not n or not d:
            raise ValueError(f"X must have rows and columns, got shape {X.shape}.")
        # Whole blocks in each chunk, so that the order of the sums does not depend on the chunks.
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
    # For each block of a chunk: its weight, sums, and squared distances from the pivot.
    X = np.ascontiguousarray(X)
    n_blocks = -(-len(X) // lightweight.BLOCK)
    out = np.zeros(n_blocks), np.zeros((n_blocks, len(pivot))), np.zeros(n_blocks)
    lightweight.add_statistics(X, np.ones(len(X)), pivot, 0, *out)
    if not np.isfinite(out[2]).all():
        raise ValueError("a chunk of X contains NaN, infinity or entries whose squares overflow.")
    return out


def _rows_of_blocks(X, start, draws):
    # The draws from a chunk that begins at row `start`: their rows, places and weights.
    indices, weights = [], []
    for k, b in enumerate(draws.blocks):
        first = b * lightweight.BLOCK - start
        block = np.ascontiguousarray(X[first : first + lightweight.BLOCK])
        picked, weight = draws.rows(k, block, np.ones(len(block)))
        indices.append(first + picked)
        weights.append(weight)
    indices = np.concatenate(indices)
    return np.asarray(X)[indices], start + indices, np.concatenate(weights)
