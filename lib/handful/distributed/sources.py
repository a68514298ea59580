"""What a user gives, a dask array, frame or bag, as delayed parts; and a part as arrays, inside a task."""

import dask
import numpy as np
from dask.delayed import Delayed
from scipy import sparse

SIDES = "handful's y", "handful's sample_weight"  # columns that travel with those of a frame
ITEMS = "the items of the bag must be chunks: X, (X, y) or (X, y, sample_weight), X a 2-d numpy array or a CSR matrix"


def sources(X, y, sample_weight):
    """Delayed parts ``(X, y, sample_weight)``, and the names of the columns, or None.

    Raises
    ------
    ValueError
        for what is no dask collection, for columns that hold no numbers, and for chunks that differ
    """
    if is_bag(X):
        for name, values in (("y", y), ("sample_weight", sample_weight)):
            if values is not None:
                raise ValueError(
                    f"{name} must be None for a bag, whose items are X, (X, y) or (X, y, sample_weight), got "
                    f"{type(values).__name__}."
                )
        return [(part, None, None) for part in X.to_delayed()], None
    for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
        if values is not None:
            _check_collection(name, values)
    _check_numbers(X)
    columns = list(X.columns) if hasattr(X, "columns") else None
    y = y[y.columns[0]] if hasattr(y, "columns") and y.ndim == 2 and len(y.columns) == 1 else y
    series = {name: values for name, values in zip(SIDES, (y, sample_weight)) if hasattr(values, "to_frame")}
    if columns is not None and series:  # one frame: dask may join partitions, and would do so for each column apart
        y, sample_weight = (None if hasattr(values, "to_frame") else values for values in (y, sample_weight))
        X = X.assign(**series)
    blocks, lengths = row_blocks(X)
    sides = []
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if values is None:
            sides.append([None] * len(blocks))
            continue
        known = hasattr(values, "chunks") and not np.isnan(values.shape[0]) and lengths is not None
        if known and values.shape[0] != sum(lengths):
            what = "label" if name == "y" else "weight"
            raise ValueError(f"{name} must have one {what} a row, {sum(lengths)} of them, got shape {values.shape}.")
        if known:
            values = values.rechunk({0: lengths})
        parts, _ = row_blocks(values)
        if len(parts) != len(blocks):
            raise ValueError(
                f"{name} must be chunked like X, in {len(blocks)} chunks, got {len(parts)}; arrays of known lengths, "
                "as X.to_dask_array(lengths=True) gives, are cut alike here."
            )
        sides.append(parts)
    return list(zip(blocks, *sides)), columns


def is_bag(values):
    """Whether a dask collection is a bag."""
    return type(values).__module__.startswith("dask.bag")


def _check_collection(name, values):
    wanted = "a dask array, frame or bag" if name == "X" else "a dask array or series"
    if isinstance(values, Delayed):
        raise ValueError(f"{name} must be {wanted}, got a Delayed: see dask.array.from_delayed.")
    if not dask.is_dask_collection(values):
        raise ValueError(
            f"{name} must be {wanted} where other arguments are dask data, got {type(values).__name__}: see "
            "dask.array.from_array."
        )


def _check_numbers(X):
    if X.ndim != 2:
        raise ValueError(f"X must be 2-d, rows and features, got {X.ndim}-d {type(X).__name__}.")
    if words := words_in(X):
        raise ValueError(
            f"X must hold real numbers, but the columns {', '.join(words)} hold none: leave them out, or encode them "
            "with dask.dataframe.get_dummies; take(frame) gives the chosen rows of all columns."
        )
    if hasattr(X, "numblocks") and X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got dtype {X.dtype}; convert it with X.astype(float).")


def words_in(frame):
    """The columns of a frame that hold neither numbers nor booleans, with their types; none of arrays and series."""
    if not hasattr(frame, "columns") or frame.ndim == 1:
        return []
    from pandas.api.types import is_numeric_dtype

    return [f"{name!r} ({dtype})" for name, dtype in frame.dtypes.items() if not is_numeric_dtype(dtype)]


def row_blocks(values):
    """Delayed chunks of whole rows, and their lengths, or None where dask does not know them."""
    if not hasattr(values, "numblocks"):
        return values.to_delayed(), None  # partitions of a frame or a series
    values = values.rechunk(dict.fromkeys(range(1, values.ndim), -1))
    unknown = np.isnan(values.shape[0])
    return list(values.to_delayed().ravel()), None if unknown else values.chunks[0]


# --- in tasks


def part(X, y, weights, rows, columns):
    """Some rows of a part, of which `columns` are the names, as arrays; weights are ones where there are none."""
    if isinstance(X, list):
        X, y, weights = rows_of_items(X)
    if hasattr(X, "columns"):
        X = X.copy(deep=False)
        sides = {name: X.pop(name) for name in SIDES if name in X.columns}
        y, weights = sides.get(SIDES[0], y), sides.get(SIDES[1], weights)
        if list(X.columns) != columns:
            raise ValueError(f"it has the columns {list(X.columns)}, but the frame has {columns}.")
        X = as_values(X)
    X = X.tocsr() if sparse.issparse(X) else _aligned(X)
    if X.dtype.kind not in "fiub" or X.ndim != 2:
        raise ValueError(
            f"X must hold real numbers in rows and columns, got dtype {X.dtype} and shape {X.shape}; convert it with "
            "X.astype(float)."
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if y is not None:
        y = _aligned(y)
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    weights = np.ones(X.shape[0]) if weights is None else _aligned(np.asarray(weights, dtype=np.float64))
    for name, values in (("y", y), ("sample_weight", weights)):
        if values is not None and values.shape[:1] != X.shape[:1]:
            raise ValueError(f"{name} must have one entry a row, {X.shape[0]} of them, got shape {values.shape}.")
    return (X, y, weights) if rows is None else (X[rows], None if y is None else y[rows], weights[rows])


def as_values(frame):
    """The array of a pandas frame or series; of numbers and booleans mixed, float64."""
    values = frame.to_numpy()
    if values.dtype.kind == "O" and frame.ndim == 2 and not words_in(frame):
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _aligned(values):
    # What came through a network may lie at any byte, and products of such arrays add up in another order.
    return np.require(values, requirements="A")


def rows_of_items(items):
    """The items of a bag's partition as one chunk: X, y or None, weights or None."""
    if not items:
        raise ValueError(f"a partition of the bag is empty: {ITEMS}.")
    items = [(*item, None, None)[:3] if isinstance(item, tuple) else (item, None, None) for item in items]
    for X, *_ in items:
        if not (sparse.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2)):
            raise ValueError(f"{ITEMS}, got {f'shape {X.shape}' if isinstance(X, np.ndarray) else type(X).__name__}.")
    X, y, weights = zip(*items)
    return joined(X), joined(y), joined(weights)


def joined(parts):
    """Arrays or CSR matrices one after the other; None where they are None."""
    if parts[0] is None:
        return None
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
