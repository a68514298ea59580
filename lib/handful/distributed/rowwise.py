"""What an estimator says of each row of a dask array, chunk by chunk, and the rows of a coreset out of one."""

from copy import copy

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from handful.distributed.chunks import by_chunk
from handful.distributed.sources import as_values, is_bag, joined, row_blocks, rows_of_items, words_in


def rowwise(estimator, method, X, **options):
    """A dask array of what a method of a fitted estimator gives for each row, computed when it is asked for.

    Parameters
    ----------
    estimator : fitted
    method : str
    X : dask array or frame, shape (n, d), or bag of chunks
    options : keyword arguments of the method
    """
    d = estimator.n_features_in_
    if hasattr(X, "to_dask_array") and not is_bag(X):
        X = X.to_dask_array()
    elif is_bag(X):
        items = [dask.delayed(_dense)(part) for part in X.to_delayed()]
        parts = [da.from_delayed(rows, (np.nan, d), dtype=np.float64) for rows in items]
        X = da.concatenate(parts, allow_unknown_chunksizes=True)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"X has shape {X.shape}, but {type(estimator).__name__} is expecting {d} features as input.")
    alone = copy(estimator)
    for attribute in ("labels_", "feature_names_in_"):
        vars(alone).pop(attribute, None)
    X = X.rechunk({1: -1})
    none = _apply(np.empty((0, d), X.dtype), alone, method, options)
    shape = dict(drop_axis=1) if none.ndim == 1 else dict(chunks=(X.chunks[0], none.shape[1:]))
    return X.map_blocks(_apply, alone, method, options, dtype=none.dtype, meta=none, **shape)


def _dense(items):
    X = rows_of_items(items)[0]
    return X.toarray() if sparse.issparse(X) else X


def _apply(X, estimator, method, options):
    if not len(X):  # chunks of a filtered array may be empty
        return getattr(estimator, method)(np.zeros((1, X.shape[1]), X.dtype), **options)[:0]
    return getattr(estimator, method)(X, **options)


def take(collection, indices):
    """Some rows of a dask array, frame or series as an array; of a frame that holds words, too, as a pandas frame.

    Lengths that are not known take a pass; the rows take one over their chunks.
    """
    parts, lengths = row_blocks(collection)
    if lengths is None:
        lengths = dask.compute(*[dask.delayed(_length)(part) for part in parts])
    only, places, back = by_chunk(indices, np.array(lengths))
    found = list(dask.compute(*[dask.delayed(_rows_at)(parts[i], rows) for i, rows in zip(only, places)]))
    if not hasattr(found[0], "iloc"):
        return joined(found)[back]
    import pandas as pd

    rows = pd.concat(found).iloc[back]
    return rows if words_in(collection) else as_values(rows)


def _length(part):
    return part.shape[0]


def _rows_at(part, rows):
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]
