"""What is given, cut into pieces: parts of arrays, of files and of dask data that are read at once.

`of_arrays`, `of_files` and `of_dask` take X, y, sample_weight, the most rows of a piece and the
columns that are read, as `handful.blocks.Blocks` does. Each gives the pieces, functions or tasks of
dask that give (X, y, weights); their shapes, (rows, columns, entries) each, None where dask knows
none; and X without its rows, None where that is unknown.
"""

import glob
import os
import re
from functools import partial
from importlib.util import find_spec
from numbers import Integral
from os import PathLike
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from handful.forms import type_of
from handful.rows import stretch_of
from handful.running import warn
from handful.tables import (
    SUFFIXES,
    are_names,
    check_no_names,
    is_dask,
    names_of,
    readable,
    rows_at_once,
    suffix_of,
)

# Names that begin so are not meant for readers.
HIDDEN = ".", "_"
# These columns travel with those of a dask frame.
SIDES = "handful's y", "handful's sample_weight"
# Names are sorted by the numbers in them.
DIGITS = re.compile(r"(\d+)")


def check_no_columns(columns, X):
    """ValueError where columns are named of what is no .parquet file."""
    if columns is None:
        return
    way_out = "give an X of these columns"
    if names_of(X):
        way_out += ", X[columns]"
    elif len(getattr(X, "shape", ())) == 2:
        way_out += ", X[:, columns]"
    raise ValueError(
        f"columns must be None for what is no .parquet file, got columns={columns!r}: {way_out}."
    )


def check_no_rows(rows, what, pieces):
    """ValueError where a number of rows is asked for of what comes in pieces of its own."""
    if rows is not None:
        raise ValueError(
            f"rows must be None for {what}, got rows={rows!r}: they are read by their {pieces}."
        )


def of_arrays(X, y, sample_weight, rows, columns):
    """Pieces of arrays in memory or mapped from a file."""
    check_no_columns(columns, X)
    check_no_names(y, sample_weight)
    table, y, sample_weight = map(_sliceable, (X, y, sample_weight))
    check_consistent_length(table, y, sample_weight)
    cut = partial(_slices, table, y, sample_weight)
    return *_stretches(cut, table.shape, table.size, rows), table[:0]


def _sliceable(array):
    # Numpy arrays, memory maps, pandas and CSR as they are; other frames as those of pandas, lists
    # and tensors as arrays.
    if sparse.issparse(array):
        return array.tocsr()
    array = readable(array)
    if names_of(array) and not hasattr(array, "iloc") and find_spec("pandas"):
        # of polars and arrow
        array = array.to_pandas()
    return array if array is None or hasattr(array, "iloc") else np.asanyarray(array)


def _stretches(cut, shape, size, rows):
    if rows is not None and not (isinstance(rows, Integral) and rows > 0):
        raise ValueError(f"rows must be an integer of at least 1, got rows={rows!r}.")
    n = shape[0]
    step = rows or rows_at_once(n, size)
    stretches = [slice(a, min(a + step, n)) for a in range(0, max(1, n), step)]
    lengths = [s.stop - s.start for s in stretches]
    return [partial(cut, s) for s in stretches], [
        (m, *shape[1:], m * size // max(1, n)) for m in lengths
    ]


def _slices(X, y, sample_weight, stretch):
    return tuple(_rows(side, stretch) for side in (X, y, sample_weight))


def _rows(array, stretch):
    return stretch_of(_mapped(array) if isinstance(array, Path) else array, stretch)


def of_files(X, y, sample_weight, rows, columns):
    """Pieces of .npy files and of the row groups of parquet files."""
    paths = _paths("X", X)
    if suffix_of(paths[0]) == ".parquet":
        check_no_rows(
            rows,
            ".parquet files",
            "row groups: pyarrow.parquet.write_table(..., row_group_size=...)",
        )
        return _of_frames(paths, y, sample_weight, columns)
    check_no_columns(columns, paths[0])
    sides = [("y", y), ("sample_weight", sample_weight)]
    sides = [
        [None] * len(paths) if side is None else _paths(name, side, len(paths))
        for name, side in sides
    ]
    pieces = []
    shapes = []
    first = [None if path is None else (path, _mapped(path)) for path in (paths[0], sides[0][0])]
    for files in zip(paths, *sides):
        arrays = [None if path is None else _mapped(path) for path in files]
        check_consistent_length(*arrays)
        for path, array, before in zip(files, arrays, first):
            if path is not None:
                _check_same_form(path, array, *before)
        more = _stretches(partial(_slices, *files), arrays[0].shape, arrays[0].size, rows)
        pieces += more[0]
        shapes += more[1]
    return pieces, shapes, first[0][1][:0]


def _check_same_form(path, array, first_path, first):
    forms = [f"rows of {type_of(a)} and shape {a.shape[1:]}" for a in (array, first)]
    if forms[0] != forms[1]:
        raise ValueError(
            f"{path} has {forms[0]}, but {first_path} has {forms[1]}; give all files in one form."
        )


def _mapped(path):
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read as an array (.npy): {error}") from error
    if array.ndim == 0:
        raise ValueError(f"{path} cannot be read as rows: it holds one number.")
    return array


def _of_frames(paths, y, sample_weight, columns):
    tables = [_table(path) for path in paths]
    forms = [table.schema_arrow.empty_table().to_pandas() for table in tables]
    like = forms[0]
    sides = [name for name in (y, sample_weight) if name is not None]
    _check_columns(columns, sides, paths[0], like)
    read = list(like.columns) if columns is None else [*columns, *sides]
    for path, form in zip(paths, forms):
        _check_types_of_columns(read, path, form, paths[0], like)
    wider = _of_missing_values(tables, like[read])
    like = like[columns or [name for name in like.columns if name not in sides]]
    d = like.shape[1]
    pieces = []
    shapes = []
    for path, table in zip(paths, tables):
        for i in range(table.num_row_groups):
            n = table.metadata.row_group(i).num_rows
            pieces.append(partial(_row_group, path, i, columns, y, sample_weight, wider))
            shapes.append((n, d, n * d))
    return pieces, shapes, like


def _check_columns(columns, sides, path, like):
    if columns is not None and len(columns) == 0:
        raise ValueError("columns must name one column of X at least, got none.")
    names = [*(columns or []), *sides]
    if len(set(map(str, names))) < len(names):
        raise ValueError(
            f"columns, y and sample_weight must name each column once, got {', '.join(names)}."
        )
    for name in names:
        if not isinstance(name, str) or name not in like.columns:
            known = ", ".join(map(str, like.columns))
            raise ValueError(f"{path} has no column {str(name)[:40]!r}, only {known}.")


def _check_types_of_columns(names, path, form, first_path, first):
    for name in names:
        if name in form.columns and type_of(form[name]) != type_of(first[name]):
            raise ValueError(
                f"column {name!r} of {path} is {type_of(form[name])}, but of {first_path} "
                f"{type_of(first[name])}; give all files in one form."
            )


def _of_missing_values(tables, like):
    # Column -> the type that pandas gives integers and booleans where one is missing in any row
    # group.
    types = {"i": "float64", "u": "float64", "b": "object"}
    kinds = {
        str(name): getattr(dtype, "kind", "O")
        for name, dtype in like.dtypes.items()
        if isinstance(dtype, np.dtype)
    }
    found = {}
    for table in tables:
        metadata = table.metadata
        places = [
            j
            for j in range(metadata.num_columns)
            if kinds.get(metadata.schema.column(j).path) in types
        ]
        for i in range(metadata.num_row_groups):
            for column in map(metadata.row_group(i).column, places):
                if _n_missing(table, i, column):
                    found[column.path_in_schema] = types[kinds[column.path_in_schema]]
    return found


def _n_missing(table, i, column):
    """How many entries of a column of row group i are missing; the column is read where its
    statistics do not say."""
    known = column.statistics
    if known is not None and known.has_null_count:
        return known.null_count
    return table.read_row_group(i, columns=[column.path_in_schema]).column(0).null_count


def _table(path):
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (ValueError, OSError) as error:
        # Errors of arrow are of these kinds.
        raise ValueError(f"{path} cannot be read as a frame (.parquet): {error}") from error


def _row_group(path, i, columns, y, sample_weight, wider):
    sides = [name for name in (y, sample_weight) if name is not None]
    try:
        frame = _table(path).read_row_group(i, columns=columns and [*columns, *sides]).to_pandas()
    except OSError as error:
        # The file is damaged behind its head.
        raise ValueError(f"{path} cannot be read as a frame (.parquet): {error}") from error
    frame = frame.astype({name: dtype for name, dtype in wider.items() if name in frame.columns})
    y, sample_weight = (None if name is None else frame.pop(name) for name in (y, sample_weight))
    return frame, y, sample_weight


# --- names of files


def _paths(name, X, n_files=None):
    if not are_names(X):
        raise ValueError(f"{name} must name files, as X does, got {type(X).__name__}.")
    found = [_path(path) for path in X] if isinstance(X, list | tuple) else _named_by(X)
    suffixes = [suffix_of(path) for path in found]
    wanted = f"{name} must name files of arrays (.npy) or frames (.parquet)"
    if not found:
        raise ValueError(f"{wanted}, got 0 at {os.fsdecode(X)!r}{_way_out(X)}.")
    for path, suffix in zip(found, suffixes):
        if suffix not in SUFFIXES:
            raise ValueError(f"{wanted}, got {path}.")
        if suffix != suffixes[0]:
            raise ValueError(f"{wanted}, all of one kind, got {found[0]} and {path}.")
        if not path.is_file():
            raise ValueError(f"{path} is no file.")
    if n_files is not None and len(found) != n_files:
        raise ValueError(
            f"{name} must name {n_files} files, one for each of X, got {len(found)} at {str(X)!r}."
        )
    return found


def _path(name):
    # The name of an unknown ~user stays as it is.
    return Path(os.path.expanduser(os.fsdecode(name)))


def _named_by(X):
    # One file, those of a folder, or those that a pattern fits; by name, X2 before X10.
    path = _path(X)
    if path.is_dir():
        found = [one for one in path.iterdir() if not one.name.startswith(HIDDEN)]
    elif os.path.exists(path):
        return [path]
    else:
        found = _fitting(path)
        if found and isinstance(X, PathLike):
            warn(
                f"there is no {path}; it is read as a pattern. A Path will be one file or folder: "
                "give str(path).",
                FutureWarning,
            )
    return sorted((one for one in found if suffix_of(one) in SUFFIXES), key=_by_number)


def _fitting(pattern):
    # What is hidden, as pandas, pyarrow and dask have it, counts only where the pattern names it.
    parts = pattern.parts
    first = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    found = [Path(name) for name in glob.glob(str(pattern), recursive=True)]
    if any(part.startswith(HIDDEN) for part in parts[first:]):
        return found
    return [one for one in found if not any(part.startswith(HIDDEN) for part in one.parts[first:])]


def _by_number(path):
    return [[int(s) if s.isdigit() else s for s in DIGITS.split(part)] for part in path.parts]


def _way_out(X):
    name = os.fsdecode(X)
    if "://" in name:
        return (
            "; what is not on this machine's disks comes by dask, as "
            "dask.dataframe.read_parquet(...)"
        )
    path = _path(X)
    if path.is_dir():
        return "; names that begin with . or _ are skipped"
    if not glob.has_magic(name):
        return "; there is no such file or folder"
    others = _fitting(path)
    if not others:
        return ""
    return (
        f", though {len(others)} other files fit; write them as parquet, or give a stream chunk by "
        "chunk to partial_fit, as with pandas.read_csv(..., chunksize=...)"
    )


def of_dask(X, y, sample_weight, rows, columns):
    """Pieces of dask arrays, frames and bags: their partitions."""
    import dask

    check_no_columns(columns, X)
    check_no_names(y, sample_weight)
    check_no_rows(rows, "dask data", "partitions, see X.rechunk and X.repartition")
    if type(X).__module__.startswith("dask.bag"):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "y and sample_weight must be None for a bag, whose items are (X, y, sample_weight)."
            )
        return [dask.delayed(_triples, pure=False)(part) for part in X.to_delayed()], None, None
    if not hasattr(X, "to_delayed"):
        raise ValueError(
            f"X must be a dask array, frame or bag beside dask data, got {type(X).__name__}."
        )
    lengths = None
    like = getattr(X, "_meta", None)
    if hasattr(X, "chunks"):
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
        lengths = None if np.isnan(X.shape[0]) else X.chunks[0]
        like = np.empty((0, *X.shape[1:]), X.dtype)
    elif X.ndim == 2:
        X, y, sample_weight = _as_one_frame(X, y, sample_weight)
    parts = list(np.ravel(X.to_delayed()))
    labels = _side("y", y, parts, lengths)
    weights = _side("sample_weight", sample_weight, parts, lengths)
    pieces = [dask.delayed(_triple, pure=False)(*part) for part in zip(parts, labels, weights)]
    if lengths is None:
        return pieces, None, like
    width = tuple(X.shape[1:])
    return pieces, [(n, *width, n * int(np.prod(width))) for n in lengths], like


def _as_one_frame(X, y, sample_weight):
    """A dask frame with y and sample_weight as columns of it, where they are series.

    Dask may join partitions, and would do so for each column apart. Rows go by their places, as
    those of tables in memory do, whatever the index.
    """
    if getattr(y, "ndim", 1) == 2 and len(y.columns) == 1:
        y = y[y.columns[0]]
    sides = [y, sample_weight]
    for i, side in enumerate(sides):
        if is_dask(side) and hasattr(side, "to_frame"):
            side = _partitioned_as(X, side, ("y", "sample_weight")[i])
            meta = X._meta.assign(**{SIDES[i]: side._meta})
            options = {"meta": meta, "align_dataframes": False}
            X = X.map_partitions(_with_column, side, SIDES[i], **options)
            sides[i] = None
    return X, *sides


def _partitioned_as(X, side, name):
    is_known = X.known_divisions and side.known_divisions
    if is_known and X.divisions != side.divisions:
        if (side.divisions[0], side.divisions[-1]) == (X.divisions[0], X.divisions[-1]):
            return side.repartition(divisions=X.divisions)
    elif X.npartitions == side.npartitions:
        return side
    raise ValueError(
        f"{name} must have the rows of X, in the same partitions: X has divisions {X.divisions}, "
        f"{name} {side.divisions}."
    )


def _with_column(frame, side, name):
    if len(frame) != len(side):
        what = "y" if name == SIDES[0] else "sample_weight"
        raise ValueError(
            f"{what} must have one entry a row, {len(frame)} of them in a partition of X, got "
            f"{len(side)}."
        )
    return frame.assign(**{name: side.set_axis(frame.index)})


def _side(name, side, parts, lengths):
    # The parts of y or of the weights, cut as X is.
    if side is None:
        return [None] * len(parts)
    if lengths is not None and hasattr(side, "to_delayed") and not hasattr(side, "chunks"):
        side = _array_of(side)
    if lengths is not None and not np.isnan(np.shape(side)[0]):
        import dask.array as da

        if np.shape(side)[0] != sum(lengths):
            raise ValueError(
                f"{name} must have one entry a row, {sum(lengths)} of them, got "
                f"{np.shape(side)[0]}."
            )
        side = da.asarray(side)
        side = side.rechunk({0: lengths} | dict.fromkeys(range(1, side.ndim), -1))
    if not is_dask(side) or len(side := list(np.ravel(side.to_delayed()))) != len(parts):
        raise ValueError(
            f"{name} must be dask data in {len(parts)} chunks, as X is, or an array beside a dask "
            "array."
        )
    return side


def _array_of(frame):
    """The dask array of a dask frame or series, in the chunks that dask makes of it: it may join
    those of files where few columns are read."""
    import dask
    import dask.array as da

    pieces = [dask.delayed(np.asarray, pure=False)(piece) for piece in frame.to_delayed()]
    shapes = dask.compute(*(dask.delayed(np.shape)(piece) for piece in pieces))
    return da.concatenate(
        [da.from_delayed(piece, shape, dtype=object) for piece, shape in zip(pieces, shapes)]
    )


def _triple(X, y, weights):
    if hasattr(X, "columns"):
        y = X.get(SIDES[0], y)
        weights = X.get(SIDES[1], weights)
        X = X.drop(columns=[name for name in SIDES if name in X.columns])
    return X, y[:, 0] if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 else y, weights


def _triples(items):
    return [(*(item if isinstance(item, tuple) else (item,)), None, None)[:3] for item in items]
