"""What an estimator says of each row of a dask array, chunk by chunk, and the rows of a coreset out of one."""

from copy import copy

import numpy as np

from handful.distributed.chunks import Chunks


def rowwise(estimator, method, X, *, n_columns=None, dtype=np.float64, **options):
    """A dask array of what a method of a fitted estimator gives for each row, computed when it is asked for.

    Parameters
    ----------
    estimator : fitted
    method : str
    X : dask array or frame, shape (n, d)
    n_columns : int, of the result, which has shape (n, n_columns); None for shape (n,)
    dtype : of the result
    options : keyword arguments of the method
    """
    name = type(estimator).__name__
    if not hasattr(X, "numblocks") and not hasattr(X, "to_dask_array"):
        raise ValueError(
            f"{name}.{method} takes a dask array or frame, got {type(X).__name__}: map it over the chunks."
        )
    X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has shape {X.shape}, but {name} is expecting {estimator.n_features_in_} features as input."
        )
    alone = copy(estimator)
    for attribute in ("labels_", "feature_names_in_"):
        vars(alone).pop(attribute, None)
    X = X.rechunk({1: -1})
    shape = dict(drop_axis=1) if n_columns is None else dict(chunks=(X.chunks[0], (n_columns,)))
    meta = np.empty((0,) * (1 if n_columns is None else 2), dtype=dtype)
    return X.map_blocks(_apply, alone, method, options, dtype=dtype, meta=meta, **shape)


def _apply(X, estimator, method, options):
    if not len(X):  # chunks of a filtered array may be empty
        return getattr(estimator, method)(np.zeros((1, X.shape[1]), X.dtype), **options)[:0]
    return getattr(estimator, method)(X, **options)


def take(collection, indices):
    """Some rows of a dask array, frame or series, or of a bag of chunks, as a numpy array or CSR matrix.

    Raises
    ------
    ValueError
        for a bag of pairs, whose labels have no other way out: `Chunks(bag).take` gives both
    """
    if getattr(collection, "ndim", 2) == 1:  # labels: chunks of rows have columns
        flat = collection.to_dask_array() if hasattr(collection, "to_dask_array") else collection
        if flat.dtype.kind in "fiub":
            return Chunks(flat[:, None]).take(indices)[0][:, 0].astype(flat.dtype)
        flat = flat if not np.isnan(flat.shape[0]) else flat.compute_chunk_sizes()
        return flat[np.asarray(indices)].compute()
    return Chunks(collection).take(indices)[0]
