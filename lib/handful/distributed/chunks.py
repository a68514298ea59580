"""Dask collections as delayed chunks of rows, and the coreset that comes back."""

from dataclasses import dataclass

import dask
import numpy as np
from scipy import sparse

from handful.coreset import Coreset
from handful.streaming import Node, concatenate


@dataclass(frozen=True)
class DistributedCoreset:
    """The weighted rows that were chosen from a distributed data set.

    Attributes
    ----------
    X : array or CSR matrix, shape (m, d), the rows
    y : array, shape (m,), their labels, or None
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


def check_numbers(X):
    """ValueError unless a dask array holds real numbers."""
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got dtype {X.dtype}; convert it with X.astype(float).")


def delayed_chunks(X, y):
    """Every chunk of rows as a pair ``(X, y)``, or a delayed object of one, to be given to delayed functions.

    Parameters
    ----------
    X : dask array, shape (n, d), or dask bag of chunks ``(X, y)`` or ``X``
    y : dask array, shape (n,), or None

    Raises
    ------
    ValueError
        for anything else, for values that are no real numbers, and for a `y` that does not fit
    """
    if hasattr(X, "map_partitions"):
        if y is not None:
            raise ValueError(f"y must be None for a bag, whose items are pairs (X, y), got {type(y).__name__}.")
        return [dask.delayed(_joined)(part) for part in X.to_delayed()]
    if not hasattr(X, "numblocks"):
        raise ValueError(f"X must be a dask array or bag, got {type(X).__name__}; see dask.array.from_array.")
    if X.ndim != 2:
        raise ValueError(f"X must be 2-d, rows and features, got shape {X.shape}.")
    check_numbers(X)
    if y is not None and not hasattr(y, "numblocks"):
        raise ValueError(f"y must be a dask array, as X is, got {type(y).__name__}; see dask.array.from_array.")
    X = X.rechunk({1: -1})
    blocks = X.to_delayed().ravel()
    if y is None:
        return [(block, None) for block in blocks]
    if np.isnan(X.shape[0]) or np.isnan(
        y.shape[0]
    ):  # the chunks of a filtered frame, for example, have unknown lengths
        if len(y.chunks[0]) != len(blocks):
            raise ValueError(f"y must be chunked like X, in {len(blocks)} chunks, got {len(y.chunks[0])}.")
        labels = y.to_delayed().ravel()
    elif y.shape[0] != X.shape[0]:
        raise ValueError(f"y must have one label a row, {X.shape[0]} of them, got shape {y.shape}.")
    else:
        labels = y.rechunk({0: X.chunks[0]}).to_delayed().ravel()
    return list(zip(blocks, labels))


def _joined(items):
    # The items of a bag's partition, each ``(X, y)`` or X, as one chunk.
    parts = [item if isinstance(item, tuple) else (item, None) for item in items]
    whole = concatenate([Node(X, y, np.ones(X.shape[0]), np.arange(X.shape[0])) for X, y in parts])
    return whole.X, whole.y


def first_rows(chunks):
    """The place of each chunk's first row in the whole data set (a list), and the number of rows of all chunks."""
    n = np.array(dask.compute(*[dask.delayed(_length)(c) for c in chunks]))
    return (np.cumsum(n) - n).tolist(), int(n.sum())


def _length(chunk):
    return chunk[0].shape[0]


def check_finite(chunk):
    """The chunk ``(X, y)`` itself; ValueError for NaN or infinity in X."""
    X, y = chunk
    if not np.isfinite(X.data if sparse.issparse(X) else X).all():
        raise ValueError("a chunk of X contains NaN or infinity.")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64), y
