"""Tables of any library, made readable by all: arrays, frames, sparse matrices, tensors and lists;
their rows taken and joined."""

import os
from collections.abc import Iterator
from numbers import Number
from os import PathLike
from pathlib import Path

import numpy as np
from scipy import sparse

from handful.running import physical_memory

# A block that is cut from an array or a file has so many entries: 128 MiB of float64.
ENTRIES = 1 << 24
# The numbers of an array may take this share of the memory.
SHARE = 0.5
# Files with these suffixes are read.
SUFFIXES = ".npy", ".parquet"
NAMES = str, bytes, PathLike

# Tables that hold no rows yet, and what makes rows of them.
LAZY_TABLES = {
    ("polars", "LazyFrame"): "X.collect()",
    ("narwhals", "LazyFrame"): "X.collect()",
    ("dask", "Delayed"): "X.compute(), or dask.dataframe.from_delayed(parts)",
    ("pyarrow", "Dataset"): "X.to_table()",
    ("pyarrow", "Scanner"): "X.to_table()",
    ("pyarrow", "RecordBatchReader"): "X.read_all()",
    ("pyarrow", "ParquetFile"): "X.read()",
    ("pyarrow", "ParquetDataset"): "X.read()",
    ("duckdb", "DuckDBPyRelation"): "X.df()",
    ("ibis", "Table"): "X.to_pandas()",
    ("pyspark", "DataFrame"): "X.toPandas()",
    ("vaex", "DataFrame"): "X.to_pandas_df()",
    ("datasets", "Dataset"): "X.to_pandas()",
    ("datasets", "IterableDataset"): "pandas.DataFrame(list(X))",
    ("datasets", "DatasetDict"): 'X["train"].to_pandas()',
    ("xarray", "Dataset"): "X.to_dataframe()",
}


def as_array(values):
    """The numpy array of an array, a list or a torch tensor, which may be on any device and require
    gradients.

    Types that numpy lacks, such as bfloat16, become float32, and so do tensors of half precision.
    What a masked array hides is missing. A list of words of which some are missing becomes an array
    of objects, as numpy would make a word of NaN.
    """
    if hasattr(values, "detach"):
        return _of_tensor(values)
    if isinstance(values, np.ma.MaskedArray):
        return _unmasked(values)
    if isinstance(values, list | tuple):
        return _of_list(values)
    return _of_known_type(np.asarray(values))


def names_of(table):
    """The names of the columns of a frame; an empty list of what has none."""
    # arrow's word, and that of other frames
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return [] if names is None else list(names)


def n_rows_of(table):
    """How many rows an array, a frame or a list has; None of what has neither shape nor length."""
    if hasattr(table, "shape"):
        return table.shape[0]
    return len(table) if hasattr(table, "__len__") else None


def frame_like(frame, values):
    """A frame of the same library as another, of values of shape (n, d), an array or CSR matrix:
    with its names of columns, and each column of the other's type where that holds its values."""
    if sparse.issparse(values):
        return type(frame).sparse.from_spmatrix(values, columns=frame.columns)
    if hasattr(frame, "iloc"):
        made = type(frame)(values, columns=frame.columns)
        for column, kind in enumerate(frame.dtypes):
            made.isetitem(column, _of_kind(made.iloc[:, column], kind))
        return made
    columns = dict(zip(names_of(frame), np.transpose(values)))
    if hasattr(frame, "column_names"):
        return type(frame).from_pydict(columns)
    return type(frame)([_polars_column(*named, frame.schema) for named in columns.items()])


def _of_kind(column, kind):
    """A column of pandas as a type that holds its values: `kind`, or with further categories; else
    floats where `kind` is a number's, else what pandas infers."""
    if hasattr(kind, "categories") and not column.dropna().isin(kind.categories).all():
        kind = "category"
    others = [np.float64] if _is_number_type(kind) else []
    for wanted in (kind, *others):
        try:
            typed = column.astype(wanted)
            if _same_values(typed, column):
                return typed
        except (TypeError, ValueError):
            continue
    return column.infer_objects()


def _same_values(one, other):
    known = other.notna()
    same = one.astype(object)[known] == other[known]
    return one.notna().equals(known) and bool(same.all())


def _polars_column(name, values, schema):
    """A column of polars, of the type of a schema where that holds the values, else of what polars
    makes of them."""
    from polars import Series
    from polars.exceptions import PolarsError

    kind = schema[name]
    if _is_number_type(kind) and not kind.is_float():
        # A column of integers with gaps comes as floats and NaN, which does not equal itself.
        values = np.where(values == values, values, None)
    column = Series(name, values.tolist(), strict=False)
    try:
        typed = column.cast(kind, strict=False)
    except PolarsError:
        return column
    return typed if typed.to_list() == column.to_list() else column


def holds_integers(table):
    """Whether all values of a table are of types that int64 holds: integers or booleans."""
    head = readable(table)[:1]
    return not sparse.issparse(head) and np.can_cast(np.asarray(head).dtype, np.int64)


def _of_tensor(tensor):
    tensor = tensor.detach().cpu()
    is_short = tensor.is_floating_point() and tensor.element_size() < 4
    return (tensor.float() if is_short else tensor).numpy()


def _of_list(values):
    if any(hasattr(value, "detach") for value in values):
        values = [as_array(value) for value in values]
    array = np.asarray(values)
    is_words = array.dtype.kind in "US"
    if is_words and missing(values).any():
        return np.asarray(values, dtype=object)
    return _of_known_type(array)


def _of_known_type(array):
    is_foreign = array.dtype.kind == "V" and not issubclass(array.dtype.type, np.void)
    return array.astype(np.float32) if is_foreign else array


def _unmasked(array):
    """A masked array with NaN, or None among words and objects, where it hides an entry."""
    hidden = np.ma.getmaskarray(array)
    if not hidden.any():
        return array.data
    kind = array.dtype.kind
    if kind in "mMfc":
        return array.filled(np.array("NaT" if kind in "mM" else np.nan, dtype=array.dtype))
    if kind in "iub":
        return array.astype(np.float64).filled(np.nan)
    return np.where(hidden, None, array.data.astype(object))


def readable(table):
    """A table that all libraries read alike: sparse matrices as `canonical`, tensors and masked
    arrays as arrays."""
    if sparse.issparse(table):
        return canonical(table)
    is_foreign = hasattr(table, "detach") or isinstance(table, np.ma.MaskedArray)
    foreign = is_foreign or getattr(getattr(table, "dtype", None), "kind", "") == "V"
    return as_array(table) if foreign else table


def canonical(matrix):
    """A sparse matrix as CSR that stores each entry once, in order, and no zeros; `matrix` itself
    is not changed.

    Sums of squares, distances and counts of what is stored are wrong where an entry is stored in
    parts.

    Raises
    ------
    ValueError
        for indices that lie outside of the matrix
    """
    if matrix.ndim != 2:
        return matrix
    rows = _checked(matrix).tocsr()
    if rows.has_canonical_format and rows.data.all():
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def _checked(matrix):
    # A matrix on the same arrays: what scipy noted of the old one may be older than its entries.
    if hasattr(matrix, "indptr"):
        matrix = type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        matrix.check_format(full_check=True)
    elif hasattr(matrix, "coords"):
        matrix = type(matrix)((matrix.data, matrix.coords), shape=matrix.shape)
    return matrix


def is_missing(value):
    """Whether one entry says that nothing is known: None, NaN, or pandas' NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    # NaN does not equal itself.
    return isinstance(value, Number | np.generic) and bool(value != value)


def missing(values):
    """Where a column, or each of several, has an entry that `is_missing`: a bool array of the shape
    of `values`."""
    # A list of words and NaN would become an array of words.
    listed = isinstance(values, list | tuple)
    array = np.asarray(values, dtype=object) if listed else as_array(values)
    if array.dtype.kind == "O":
        gone = np.fromiter(map(is_missing, array.ravel()), bool, array.size)
        return gone.reshape(array.shape)
    return array != array if array.dtype.kind in "fcmM" else np.zeros(array.shape, dtype=bool)


def is_table(rows):
    """Whether a list holds numbers, or rows of one length; not texts, images, dictionaries or rows
    of any length."""
    if all(isinstance(row, Number | np.bool_) or getattr(row, "ndim", 1) == 0 for row in rows):
        return True
    flat = all(isinstance(row, list | tuple) or getattr(row, "ndim", 0) == 1 for row in rows)
    return flat and len({len(row) for row in rows}) == 1


def is_numeric(rows):
    """Whether rows are those of a table of numbers, or a list or a column of them, which checks of
    numbers read."""
    if sparse.issparse(rows) or hasattr(rows, "detach"):
        return True
    dtypes = getattr(rows, "dtypes", None)
    if hasattr(rows, "columns") and dtypes is not None:
        return all(map(_is_number_type, dtypes))
    if isinstance(rows, list | tuple):
        return is_table(rows) and _is_number_type(np.asarray(rows).dtype)
    array = rows if hasattr(rows, "dtype") else np.asarray(rows)
    is_table_of_objects = isinstance(array, np.ndarray) and array.dtype.kind == "O"
    if is_table_of_objects and array.ndim == 2:
        return all(isinstance(value, Number) for value in array.flat)
    return len(array.shape) < 3 and _is_number_type(array.dtype)


def _is_number_type(dtype):
    if hasattr(dtype, "is_numeric"):
        # a type of polars
        return dtype.is_integer() or dtype.is_float() or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biufc"


def row_array(rows):
    """An array with an entry a row: of a list that is no table one of objects, shape (n,)."""
    if hasattr(rows, "shape"):
        return rows
    if not isinstance(rows, list | tuple) or is_table(rows):
        return np.asarray(rows, dtype=object)
    array = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


def take_rows(array, indices):
    """Rows of an array, frame (pandas, polars, arrow), sparse matrix or torch tensor, in its own
    type; None of None.

    Of a list they are an array where numpy reads it as a table or as numbers (`is_table`), else a
    list: of texts, images, dictionaries.
    """
    if array is None:
        return None
    if isinstance(array, list | tuple) and not is_table(array):
        _check_places(indices, len(array))
        return type(array)([array[i] for i in indices])
    if not hasattr(array, "shape") and not hasattr(array, "take"):
        given = type(array).__name__
        array = as_array(array)
        if array.ndim == 0:
            raise ValueError(f"rows are taken of arrays, frames and lists, got {given}.")
    # A column of arrow has no shape.
    _check_places(indices, n_rows_of(array))
    return _taken(array, indices)


def _check_places(indices, n):
    if len(indices) and np.max(indices) >= n:
        raise ValueError(
            f"the coreset holds row {np.max(indices)}, but got {n} rows: take from the data it was "
            "fitted on."
        )


def _taken(array, indices):
    """Rows of what has them, as its own library takes them."""
    library = type(array).__module__.partition(".")[0]
    if hasattr(array, "iloc"):
        return array.iloc[indices]
    if library in ("pandas", "pyarrow"):
        return array.take(indices)
    if library == "polars" or isinstance(array, np.ma.MaskedArray):
        return array[indices]
    if sparse.issparse(array):
        return array.tocsr()[indices]
    if hasattr(array, "index_select"):
        import torch

        return array[torch.as_tensor(indices, device=array.device)]
    return np.asarray(array)[indices]


def join_rows(parts):
    """Arrays, frames or CSR matrices one after the other; None where the first is None."""
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(_with_common_levels(parts))
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )


def _with_common_levels(parts):
    # Columns of categories with other levels, which pandas would make objects of, get those of all
    # parts.
    if parts[0].ndim == 1:
        return _columns_of_common_levels(parts)
    parts = [part.copy(deep=False) for part in parts]
    for j, dtype in enumerate(parts[0].dtypes):
        if hasattr(dtype, "categories"):
            for part, column in zip(
                parts, _columns_of_common_levels([part.iloc[:, j] for part in parts])
            ):
                part.isetitem(j, column)
    return parts


def _columns_of_common_levels(columns):
    levels = [getattr(column.dtype, "categories", None) for column in columns]
    if any(own is None for own in levels) or all(own.equals(levels[0]) for own in levels):
        return columns
    from pandas.api.types import union_categoricals

    union = union_categoricals(columns).categories
    return [column.cat.set_categories(union) for column in columns]


def dense(X):
    """An array of an array or a sparse matrix."""
    return X.toarray() if sparse.issparse(X) else X


# --- what is given


def check_tables(*data):
    """ValueError for a lazy or delayed table, or an iterator, which holds no rows yet, and for a
    table of arrow in which pandas left its index as a column; it names the way out."""
    for values in data:
        first = values[0] if isinstance(values, list | tuple) and values else values
        call = _makes_rows(first)
        if call is not None:
            raise ValueError(
                f"a {type(first).__name__} of {type(first).__module__.partition('.')[0]} holds no "
                "rows yet, and may "
                f"give them in another order each time: give {call}, once, for fit and for take."
            )
        if index := _index_columns(values):
            raise ValueError(
                f"the index of a frame of pandas is a column of this table, {', '.join(index)}, "
                "and would count as a feature: give X.to_pandas(), or "
                f"X.drop_columns({index!r})."
            )


def check_no_names(*sides):
    """ValueError for the name of a column in place of labels or weights."""
    for name in sides:
        if isinstance(name, str):
            raise ValueError(
                "y and sample_weight name columns of .parquet files only, "
                f"got {name!r}: give X[{name!r}], and X.drop(columns={name!r}) for X."
            )


def _index_columns(table):
    """The names of the columns of a table of arrow that were the index of a frame of pandas."""
    metadata = getattr(getattr(table, "schema", None), "pandas_metadata", None) or {}
    # An index that only counts is no name.
    return [name for name in metadata.get("index_columns", []) if str(name) in names_of(table)]


def _makes_rows(values):
    root = type(values).__module__.partition(".")[0].lstrip("_")
    for base in type(values).__mro__:
        if (root, base.__name__) in LAZY_TABLES:
            return LAZY_TABLES[root, base.__name__]
    if isinstance(values, Iterator):
        return (
            "list(X) of rows, or numpy.concatenate(list(X)) of chunks, or each chunk to partial_fit"
        )
    return "X.data" if root == "xarray" and getattr(values, "chunks", None) else None


def is_dask(*data):
    """Whether one of some arguments is a dask collection; dask is not imported."""
    return any(type(values).__module__.partition(".")[0] == "dask" for values in data)


def is_files(X):
    """Whether X names files of rows: a path, a pattern, or a list of Paths to .npy or .parquet
    files.

    A list of strings is rows: words or texts. Only `handful.blocks.Blocks` takes it for names.
    """
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(
            isinstance(path, PathLike) and suffix_of(path) in SUFFIXES for path in X
        )
    return isinstance(X, NAMES)


def are_names(X):
    """Whether X is a name, or a list of names only."""
    names = X if isinstance(X, list | tuple) else [X]
    return len(names) > 0 and all(isinstance(name, NAMES) for name in names)


def suffix_of(path):
    """The suffix of the name of a file, in small letters."""
    return Path(os.fsdecode(path)).suffix.lower()


def rows_at_once(n, n_entries):
    """The most rows of a block that is cut from an array of n rows."""
    return max(1, ENTRIES * n // max(1, n_entries))


def exceeds_memory(X):
    """Whether the numbers of an array, a frame or a CSR matrix take more than half of the memory,
    and over a block.

    They count as they are read, as floats: four bytes each for float32, eight for any other type.
    Neither the type of the array nor where its numbers are, in memory or in a file that is mapped,
    decides anything.
    """
    known = isinstance(X, np.ndarray) or sparse.issparse(X) or hasattr(X, "iloc")
    if not known or is_dask(X) or X.size <= ENTRIES:
        return False
    width = 4 if getattr(X, "dtype", None) == np.float32 else 8
    return width * X.size > SHARE * physical_memory()
