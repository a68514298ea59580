"""Dask collections as chunks of weighted rows, with map and reduce over them: all that `handful.distributed` needs.

A task is a function of its chunk, of the chunk's place and of a few arguments that all chunks share. Sums go up a tree
over the chunks in their order, `FAN` at a time, so that every cluster, and none at all, adds up in the same order.
"""

import re
import uuid
from collections import Counter
from dataclasses import dataclass

import dask
import numpy as np
from scipy import sparse

from handful.baselines.stratified import is_missing
from handful.checks import check_sample_weight
from handful.distributed.sources import joined, part, sources

FAN = 16  # results that one task of a reduction joins
IN_KEY = re.compile(r"handful-chunk-(\d+)-")


class ChunkError(ValueError):
    """A chunk of a dask collection cannot be used: the message names it."""


@dataclass(frozen=True)
class Chunk:
    """Rows of a collection, inside a task.

    Attributes
    ----------
    X : float array or CSR matrix, shape (n, d)
    y : array with n entries, or None
    weights : float64 array, shape (n,)
    start : int, the place of the first row in the whole collection
    index : int, the place of the chunk among the chunks
    """

    X: object
    y: np.ndarray | None
    weights: np.ndarray
    start: int
    index: int

    def __len__(self):
        return len(self.weights)


@dataclass(frozen=True)
class _Summary:
    # What the first pass says of a chunk.
    n: int
    present: int
    mass: float
    shape: tuple
    y_shape: tuple | None
    dtype: np.dtype
    sparse: bool
    classes: dict
    largest: float
    label_kind: str | None
    unit: bool


class Chunks:
    """A dask array, frame or bag, cut into chunks of rows; building it takes one pass, which checks all values.

    Parameters
    ----------
    X : dask array or frame, shape (n, d), or bag of chunks: ``X``, ``(X, y)`` or ``(X, y, sample_weight)``, numpy
        arrays or CSR matrices
    y : dask array or series with n entries; None for a bag
    sample_weight : dask array or series, shape (n,), or None
    classes : whether to count the labels in y

    Attributes
    ----------
    n, d : int, rows and columns
    dtype : of X, float32 or float64
    sparse : bool, whether chunks are CSR matrices
    lengths, starts, present, masses : arrays, of each chunk the rows, the place of the first one, the rows of positive
        weight and the sum of the weights
    class_counts : list of dict, of each chunk how often each label comes in rows of positive weight
    unit : bool, whether every weight is 1
    label_kind : "words", "numbers" or None
    has_y, y_width : bool, whether there is a y; int, its columns, 0 where it has one dimension
    columns : list of str, or None
    largest : float, the largest magnitude in X

    Raises
    ------
    ValueError
        for anything else, values that are no finite real numbers, and lengths that differ; it names the chunk
    """

    def __init__(self, X, y=None, sample_weight=None, *, classes=False):
        self._sources, self.columns = sources(X, y, sample_weight)
        self.starts, self._pieces = [None] * len(self._sources), [[(i, None)] for i in range(len(self._sources))]
        found = self.map(_summary, classes)
        widths = np.array([s.shape[1] for s in found])
        if (widths != widths[0]).any():
            odd = int(np.argmax(widths != widths[0]))
            raise ChunkError(f"chunk {odd} of X has {widths[odd]} columns, chunk 0 has {widths[0]}.")
        self.d, self.dtype = int(widths[0]), np.result_type(*[s.dtype for s in found])
        self.sparse = any(s.sparse for s in found)
        self.largest = max(s.largest for s in found)
        self.label_kind = found[0].label_kind
        self.unit = all(s.unit for s in found)
        self.has_y = found[0].y_shape is not None
        self.y_width = found[0].y_shape[1] if self.has_y and len(found[0].y_shape) == 2 else 0
        self.lengths, self.present = (np.array([getattr(s, name) for s in found]) for name in ("n", "present"))
        self.masses = np.array([s.mass for s in found])
        self.class_counts = [s.classes for s in found]
        self.starts, self.n = np.cumsum(self.lengths) - self.lengths, int(self.lengths.sum())
        if not self.n:
            raise ValueError("the data have no rows: there is no coreset.")
        if not self.masses.sum() > 0:
            raise ValueError("sample_weight is zero for all rows.")

    def __len__(self):
        return len(self._pieces)

    def describe(self, estimator):
        """Set the attributes that scikit-learn's estimators keep of their data."""
        estimator.n_features_in_ = self.d
        if self.columns is not None and all(isinstance(name, str) for name in self.columns):
            estimator.feature_names_in_ = np.array(self.columns, dtype=object)

    @property
    def total(self):
        """The sum of the weights."""
        return float(self.masses.sum())

    @property
    def label_counts(self):
        """Label -> how many rows of positive weight have it, ascending; of labels that were counted."""
        return dict(sorted(sum(map(Counter, self.class_counts), Counter()).items()))

    def recut(self, block):
        """The same rows in chunks whose first rows are multiples of `block`; a task reads the chunks that it overlaps.

        Summaries by chunk, such as `present`, are not carried over.
        """
        step = max(1, int(self.lengths.max()) // block) * block
        new, ends = object.__new__(Chunks), self.starts + self.lengths
        vars(new).update(vars(self))
        new.starts = np.arange(0, self.n, step)
        new.lengths = np.minimum(new.starts + step, self.n) - new.starts
        new._pieces = []
        for low, high in zip(new.starts, new.starts + new.lengths):
            overlapping = np.flatnonzero((self.starts < high) & (ends > low))
            bounds = [(max(low, self.starts[i]), min(high, ends[i])) for i in overlapping]
            new._pieces.append(
                [(int(i), slice(a - self.starts[i], b - self.starts[i])) for i, (a, b) in zip(overlapping, bounds)]
            )
        return new

    # --- map and reduce

    def tasks(self, function, *shared, own=None, only=None):
        """Delayed results of ``function(chunk, *shared, *own[i])``, one for each chunk, or for those in `only`."""
        shared, token = dask.delayed(shared, pure=False, traverse=False), uuid.uuid4().hex
        call, indices = dask.delayed(_call, pure=False), range(len(self)) if only is None else only
        out = []
        for position, i in enumerate(indices):
            fragments = [(self._sources[j], part) for j, part in self._pieces[i]]
            place = (int(i), self.starts[i] if self.starts[i] is None else int(self.starts[i]))
            mine = () if own is None else own[position]
            name = f"handful-chunk-{i}-{getattr(function, '__name__', 'call')}-{token}"
            out.append(call(function, place, fragments, self.columns, shared, mine, dask_key_name=name))
        return out

    def map(self, function, *shared, own=None, only=None):
        """The results of `tasks`, a list."""
        return self.compute(self.tasks(function, *shared, own=own, only=only))

    def reduce(self, function, *shared, combine=None, own=None):
        """The results of `tasks`, joined up a fixed tree: tuples of arrays are added up unless `combine` joins a list.

        Parameters
        ----------
        function, shared, own : as in `tasks`
        combine : function of a list of results, in the order of their chunks
        """
        combine, tasks = dask.delayed(combine or added, pure=False), self.tasks(function, *shared, own=own)
        while len(tasks) > 1:
            tasks = [combine(tasks[i : i + FAN]) for i in range(0, len(tasks), FAN)]
        return self.compute(tasks)[0]

    def compute(self, tasks):
        """The results of some tasks; an error names the chunk.

        Raises
        ------
        ChunkError
            for what a task raised, and for a worker that died of a chunk
        """
        try:
            return list(dask.compute(*tasks))
        except ChunkError:
            raise
        except Exception as error:
            chunk = self._culprit(getattr(error, "task", None))
            if chunk is None:
                raise
            raise ChunkError(
                f"chunk {chunk} of X cannot be computed: {type(error).__name__}: {error}"
                + (
                    " It may need more memory than a worker has: make the chunks smaller."
                    if hasattr(error, "task")
                    else ""
                )
            ) from error

    def _culprit(self, key):
        # The chunk of a task that killed its worker; without a key, the first chunk that fails on its own.
        if isinstance(key, str) and (named := IN_KEY.search(key)):
            return int(named[1])
        for i, source in enumerate(self._sources):
            parts = [part for part in source if part is not None]
            if key is not None:
                if any(key in part.__dask_graph__().cull({part.key}).to_dict() for part in parts):
                    return i
                continue
            try:
                dask.compute(dask.delayed(_nothing, pure=False)(parts))
            except Exception:
                return i
        return None

    # --- rows

    def take(self, indices):
        """Rows, their y (or None) and their weights, in the order of `indices`; only their chunks are read."""
        only, rows, back = by_chunk(indices, self.lengths)
        parts = self.map(_some_rows, own=[(some,) for some in rows], only=only)
        X, y, weights = (joined(values) for values in zip(*parts))
        return X[back], None if y is None else y[back], weights[back]

    def nth(self, positions, label=None):
        """Rows of positive weight (of one class, if `label` is given) by their places among all such rows."""
        positions = np.asarray(positions, dtype=np.int64)
        counts = self.present if label is None else np.array([c.get(label, 0) for c in self.class_counts])
        ends = np.cumsum(counts)
        chunk = np.searchsorted(ends, positions, side="right")
        rank = positions - (ends - counts)[chunk]
        if label is None and (self.present == self.lengths).all():
            return self.starts[chunk] + rank
        only, own = np.unique(chunk), []
        own = [(rank[chunk == i], label) for i in only]
        out = np.empty(len(positions), dtype=np.int64)
        for i, rows in zip(only, self.map(_nth_rows, own=own, only=only)):
            out[chunk == i] = rows
        return out


def by_chunk(indices, lengths):
    """The chunks that hold some rows, the places of these rows in each, and what brings them into their order.

    Parameters
    ----------
    indices : ints, rows of the whole
    lengths : array, the rows of each chunk

    Returns
    -------
    only : int array, ascending
    places : list of int array, as long
    back : int array; the places one after the other, taken by it, are in the order of `indices`
    """
    indices, ends = np.asarray(indices, dtype=np.int64), np.cumsum(lengths)
    if len(indices) and indices.max() >= ends[-1]:
        raise ValueError(
            f"the coreset holds row {indices.max()}, but got {ends[-1]} rows: take from the data it was fitted on."
        )
    order = np.argsort(indices, kind="stable")
    ascending = indices[order]
    chunk = np.searchsorted(ends, ascending, side="right")
    only, first = np.unique(chunk, return_index=True)
    starts = (ends - lengths)[only]
    places = [rows - start for start, rows in zip(starts, np.split(ascending, first[1:]))]
    return only, places, np.argsort(order, kind="stable")


def added(parts):
    """The sum of tuples of arrays, in their order."""
    return tuple(sum(values[1:], start=values[0]) for values in zip(*parts))


def labels_in(y):
    """The labels, shape (n,); of soft labels, shape (n, classes), the likeliest class."""
    return y if y.ndim == 1 else y.argmax(axis=1)


# --- what tasks do


def _call(function, place, fragments, columns, shared, own):
    index, start = place
    try:
        parts = [part(*source, rows, columns) for source, rows in fragments]
        X, y, weights = parts[0] if len(parts) == 1 else map(joined, zip(*parts))
        return function(Chunk(X, y, weights, start, index), *shared, *own)
    except ChunkError:
        raise
    except Exception as error:
        what = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ChunkError(f"chunk {index}{'' if start is None else f' (rows from {start} on)'}: {what}{error}") from (
            None if not what else error
        )


def _summary(chunk, classes):
    X, y, weights = chunk.X, chunk.y, chunk.weights
    values = X.data if sparse.issparse(X) else X
    n = len(chunk)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        bad = np.flatnonzero(~np.isfinite(X.sum(axis=1)))
        raise ValueError(f"X contains NaN or infinity, first in row {bad[0]} of the chunk.")
    if n and y is not None and y.dtype.kind in "fc" and not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinity.")
    if y is not None and y.dtype.kind == "O" and any(map(is_missing, y.ravel().tolist())):
        raise ValueError("y contains missing values.")
    if weights.any():
        check_sample_weight(weights, n)
    present, counts = weights > 0, {}
    if classes and y is not None:
        labels, codes = np.unique(labels_in(y), return_inverse=True)
        counts = dict(zip(labels.tolist(), np.bincount(codes[present], minlength=len(labels)).tolist()))
    return _Summary(
        n=n,
        present=int(present.sum()),
        mass=float(weights.sum()),
        shape=X.shape,
        y_shape=None if y is None else y.shape,
        dtype=X.dtype,
        sparse=sparse.issparse(X),
        classes=counts,
        largest=max(high, -low),
        label_kind=None if y is None else "words" if y.dtype.kind in "OUS" else "numbers",
        unit=bool((weights == 1).all()),
    )


def _nothing(parts):
    return None


def _some_rows(chunk, rows):
    return chunk.X[rows], None if chunk.y is None else chunk.y[rows], chunk.weights[rows]


def _nth_rows(chunk, ranks, label):
    there = chunk.weights > 0
    if label is not None:
        there &= labels_in(chunk.y) == label
    return chunk.start + np.flatnonzero(there)[ranks]
