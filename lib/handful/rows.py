"""Rows of data in memory and in blocks: what carries them, and which of both is given."""

import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from handful.tables import join_rows, take_rows

# A block that is cut from an array or a file has so many entries: 128 MiB of float64.
ENTRIES = 1 << 24
# The numbers of an array may take this share of the memory.
SHARE = 0.5
# Files with these suffixes are read.
SUFFIXES = ".npy", ".parquet"
NAMES = str, bytes, PathLike
# This file names the control groups of the process.
GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")

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


@dataclass(frozen=True)
class Rows:
    """Weighted rows in memory.

    Attributes
    ----------
    X : array, data frame or CSR matrix, shape (m, d)
    y : array or column, m entries, or None
    weight : float array, shape (m,)
    ids : int array, shape (m,); the places of the rows in the whole data
    """

    X: Any
    y: Any
    weight: np.ndarray
    ids: np.ndarray

    def __len__(self):
        return len(self.weight)

    def take(self, places):
        """The rows at some places: Rows."""
        return Rows(
            take_rows(self.X, places),
            take_rows(self.y, places),
            self.weight[places],
            self.ids[places],
        )

    def of_positive_weight(self):
        """The rows whose weight is not 0: Rows."""
        counts = self.weight > 0
        return self if counts.all() else self.take(np.flatnonzero(counts))

    @property
    def weights(self):
        """`weight`, under its old name."""
        warnings.warn(
            "weights of a block is now called weight: write block.weight.",
            FutureWarning,
            stacklevel=2,
        )
        return self.weight


def joined(parts):
    """The union of several `Rows`, those of the first one first: Rows."""
    columns = ([getattr(part, name) for part in parts] for name in ("X", "y", "weight", "ids"))
    return Rows(*map(join_rows, columns))


class RowBlocks:
    """Base class of rows in blocks: functions of `Rows` are mapped over them.

    A subclass says how many rows its blocks have (`lengths`), and maps.

    Attributes
    ----------
    n, d : int, rows and columns
    lengths, starts : int arrays, rows of each block, and the place of its first row
    """

    lengths: np.ndarray
    d: int

    def map(self, function, *shared, own=None):
        """The results of ``function(rows, *shared)`` for each block, a list.

        Parameters
        ----------
        function : at the top level of a module, so that it can be sent to other processes
        shared : further arguments, the same for all blocks
        own : list or None; one more argument for each block, and None for a block that is left out
        """
        raise NotImplementedError

    @property
    def n(self):
        return int(self.lengths.sum())

    @property
    def starts(self):
        return np.cumsum(self.lengths) - self.lengths

    def __len__(self):
        return len(self.lengths)

    def take(self, places):
        """Some rows, in the order of `places`: Rows. Only the blocks that hold them are read."""
        places = np.asarray(places, dtype=np.int64)
        wrong = places[(places < 0) | (places >= self.n)]
        if len(wrong):
            raise ValueError(
                f"the coreset holds row {wrong[0]}, but got {self.n} rows: take from the data it "
                "was fitted on."
            )
        own, order = split_places(places, self.lengths)
        # No rows at all are taken from block 0, so that they have the form of all.
        own[0] = own[0] if len(places) else places
        return joined(self.map(Rows.take, own=own)).take(order)


class InMemory(RowBlocks):
    """Rows in memory as blocks: as one, or cut so that each has `most` rows at most. Their ids may
    be a range, which is written out for a block at a time."""

    def __init__(self, rows, most=None):
        self.rows = rows
        n = len(rows)
        edges = np.arange(0, max(1, n), most or max(1, n))
        self.lengths = np.diff(edges, append=n)

    @property
    def d(self):
        return math.prod(self.rows.X.shape[1:])

    def map(self, function, *shared, own=None):
        """As `RowBlocks.map`, one block after the other."""
        own = [()] * len(self) if own is None else [one if one is None else (one,) for one in own]
        return [
            function(self._block(start, start + n), *shared, *mine)
            for start, n, mine in zip(self.starts, self.lengths, own)
            if mine is not None
        ]

    def _block(self, start, stop):
        if len(self) == 1 and isinstance(self.rows.ids, np.ndarray):
            return self.rows
        part = slice(start, stop)
        X, y, weight = (
            stretch_of(side, part) for side in (self.rows.X, self.rows.y, self.rows.weight)
        )
        return Rows(X, y, weight, np.asarray(self.rows.ids[part]))


def stretch_of(array, part):
    """The rows of an array, a frame or a CSR matrix in a slice; of a memory map a copy, as a view
    would keep its pages in memory. None of None."""
    if array is None:
        return None
    rows = array.iloc[part] if hasattr(array, "iloc") else array[part]
    return np.array(rows) if isinstance(array, np.memmap) else rows


def split_places(places, counts):
    """Places in the whole as places in each block of so many, None for a block without; and what
    restores the order."""
    ends = np.cumsum(counts)
    block = np.searchsorted(ends, places, side="right")
    order = np.argsort(block, kind="stable")
    found, first = np.unique(block[order], return_index=True)
    own = [None] * len(counts)
    for i, mine in zip(found.tolist(), np.split(places[order], first[1:])):
        own[i] = mine - (ends[i] - counts[i])
    return own, np.argsort(order)


# --- what is given


def check_not_lazy(*data):
    """ValueError for a lazy or delayed table, or an iterator, which holds no rows yet; it names
    what makes rows."""
    for values in data:
        first = values[0] if isinstance(values, list | tuple) and values else values
        call = _makes_rows(first)
        if call is not None:
            raise ValueError(
                f"a {type(first).__name__} of {type(first).__module__.partition('.')[0]} holds no "
                "rows yet, and may "
                f"give them in another order each time: give {call}, once, for fit and for take."
            )


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


def physical_memory():
    """Bytes of memory in this machine, or what the control groups of a container allow; else
    infinity.

    The same in every process that is started from this one.
    """
    limits = [float("inf"), *_limits_of_groups()]
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits)


def _limits_of_groups():
    # Linux: a group is limited by itself and by each of the groups that it is in.
    lines = GROUP.read_text(encoding="utf-8").splitlines() if GROUP.exists() else []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root = GROUPS
            name = "memory.max"
        elif "memory" in controllers.split(","):
            root = GROUPS / "memory"
            name = "memory.limit_in_bytes"
        else:
            continue
        own = root / group.lstrip("/")
        for folder in (own, *own.parents):
            limit = folder / name
            # The word is "max" where there is no limit; a container may not see the groups that it
            # is in.
            text = limit.read_text(encoding="utf-8").strip() if limit.is_file() else "max"
            if text != "max":
                yield int(text)
            if folder == root:
                break


def is_blocks(X, *others):
    """Whether rows are to be read in blocks: dask data, files, `Blocks`, and arrays that exceed
    half of the memory."""
    check_not_lazy(X, *others)
    return isinstance(X, RowBlocks) or is_dask(X, *others) or is_files(X) or exceeds_memory(X)


def check_in_memory(name, *data):
    """ValueError for dask data, files and `Blocks`, given to what works on rows in memory only.

    Parameters
    ----------
    name : str, of the class, function or argument
    data : its arguments
    """
    check_not_lazy(*data)
    if is_dask(*data) or any(isinstance(values, RowBlocks | str | PathLike) for values in data):
        raise ValueError(
            f"{name} must have its rows in memory, got dask data, files or Blocks: choose rows "
            "first, for example "
            "X, y, w = UniformCoreset(10_000).fit(X, y).take(X, y), or compute() what fits."
        )
