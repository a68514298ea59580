"""Rows that one machine cannot hold, in blocks: of arrays, files and dask data; and what is mapped
over them.

`Blocks` cuts anything into blocks, and applies functions to them: one after the other, or where the
rows are, by dask, if the data are dask's. Only what the functions return comes into this process.
"""

import math
import pickle
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, partial, wraps
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.checks import check_some_count, is_blocks, weights_of_rows
from handful.code_hash import code_hash
from handful.forms import check_alike, forms_of
from handful.rows import RowBlocks, Rows, joined, split_places
from handful.running import Bar
from handful.sources import of_arrays, of_dask, of_files
from handful.tables import (
    are_names,
    check_tables,
    is_dask,
    is_files,
    join_rows,
    missing,
    n_rows_of,
    readable,
)


class Blocks(RowBlocks):
    """The rows of an array, of files or of dask data, in blocks.

    Parameters
    ----------
    X : an array, memory map, frame or CSR matrix, shape (n, d); or files of arrays (.npy) or frames
        (.parquet): a folder, a pattern such as "rows/X*.npy", or a list of paths, which gives their
        order (else by name, X2 before X10). A Path is a path, and so is a string that names what is
        there; other strings may be patterns. In folders and patterns names that begin with "." or
        "_" are skipped, as in pandas, pyarrow and dask. Or a dask array or frame, or a dask bag of
        ``X``, ``(X, y)`` or ``(X, y, sample_weight)``
    y, sample_weight : of the same kind, with one entry a row: arrays, .npy files of the same
        lengths, dask arrays or series; for .parquet files a column's name; None for a bag
    rows : int or None; the most rows of a block that is cut from an array or a .npy file, None for
        2**24 entries. Parquet files and dask data come in pieces of their own, and take None only
    columns : list of str or None; the columns of .parquet files that are read, None for all but y
        and sample_weight, and for all that is no .parquet file
    verbose : bool, show a progress bar, with the time left, for each pass over blocks that are read
        in turn, from the start, not only after 30 seconds
    keep : a folder or None; what a pass over files gives for each block is kept there, so that what
        broke off, what ``out=`` writes, too, goes on after the last finished block when it is
        called again, a fit with the same options and an integer `random_state`. A block whose files
        changed since is read again, and so is what another function gives: one of other code, or
        that reads another value of a variable. Delete the folder in the end

    Attributes
    ----------
    n, d : int, rows and columns
    lengths, starts : int arrays, rows of each block, and the place of its first row

    Raises
    ------
    ValueError
        For files that are not there or cannot be read, options that do not fit to what is given,
        lengths that differ, and files of another width or type than the first. What differs between
        blocks (columns or their order, types, labels in some of them only, sparse and dense), NaN
        and infinity are named when they are read, with the file. Two things are joined: words of
        any length, and categories, which get the levels of all parts.

    Examples
    --------
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> blocks = Blocks(X, rows=4)
    >>> blocks.map(lambda block: float(block.weight @ block.X[:, 0]))
    [12.0, 18.0]
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        rows: Any = None,
        columns: Any = None,
        verbose: bool = False,
        keep: Any = None,
    ) -> None:
        check_tables(X, y, sample_weight)
        self._dask = import_module("dask") if is_dask(X, y, sample_weight) else None
        files = is_files(X) or are_names(X)
        make = of_dask if self._dask else of_files if files else of_arrays
        # A piece is what is read at once: a function without arguments, or a task of dask, that
        # gives (X, y, weights).
        self._pieces, self._shapes, self.like = make(X, y, sample_weight, rows, columns)
        self._least = 1
        self.verbose = verbose
        self.keep = keep
        if keep is not None and not files:
            raise ValueError(
                "keep must be None for rows that are no files: nothing tells whether they have "
                "changed."
            )

    @property
    def shapes(self):
        """(rows, columns, entries) of each piece, counted by dask where it does not know them."""
        if self._shapes is None:
            self._shapes = self._compute([self._call(_shape, piece) for piece in self._pieces])
        return self._shapes

    @property
    def n_entries(self):
        return sum(entries for *_, entries in self.shapes)

    @property
    def d(self):
        return math.prod(self.shapes[0][1:-1])

    @property
    def versions(self):
        """The files that the rows are read from, with their times and sizes."""
        return _versions(self._pieces)

    @cached_property
    def _groups(self):
        """The pieces of each block: neighbours, with at least `_least` rows together."""
        groups = [[]]
        held = 0
        for i, (n, *_) in enumerate(self.shapes):
            if held >= self._least:
                groups.append([])
                held = 0
            groups[-1].append(i)
            held += n
        if held < self._least and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        return groups

    @cached_property
    def _joined_pieces(self):
        """Of dask, a task for each block that was asked for: it gives what all of its pieces do, as
        every pass looks at the whole graph of each."""
        return {}

    def _pieces_of(self, i):
        """The pieces of a block."""
        pieces = [self._pieces[j] for j in self._groups[i]]
        if not self._dask:
            return pieces
        if i not in self._joined_pieces:
            together = self._dask.delayed(_together, pure=False)(pieces)
            self._joined_pieces[i] = list(self._dask.optimize(together))
        return self._joined_pieces[i]

    @property
    def lengths(self):
        return np.array([sum(self.shapes[i][0] for i in group) for group in self._groups])

    def at_least(self, rows):
        """The same rows, neighbouring blocks joined until each has so many rows: Blocks."""
        new = copy(self)
        new._least = max(rows, self._least)
        for made in ("_groups", "_joined_pieces"):
            vars(new).pop(made, None)
        return new

    def __iter__(self):
        return self.each(_itself)

    def map(self, function, *shared, own=None):
        return list(self.each(function, *shared, own=own, at_once=True))

    def each(self, function, *shared, own=None, at_once=False):
        """As `map`, one result after the other; `at_once` by all workers at the same time."""
        # Dask, which gets all tasks together, has a bar of its own.
        on_scheduler = bool(at_once and self._dask)
        with Bar(
            self._tasks(function, *shared, own=own),
            desc=getattr(function, "__name__", "blocks").strip("_"),
            unit="block",
            total=len(self),
            verbose=self.verbose and not on_scheduler,
        ) as tasks:
            if at_once:
                found = self._compute(list(tasks))
            else:
                found = (self._compute([task])[0] for task in tasks)
            first = None
            for i, (form, result) in enumerate(found):
                first = first or form
                check_alike(first, form, f"block {i}", "block 0")
                yield result

    def write(self, path, function, *shared):
        """Map, and write the arrays, one row for each row, to a .npy file, block by block: a
        numpy.memmap of it.

        The file gets its name when it is whole. With `keep`, what broke off goes on after the last
        finished block.
        """
        part = Path(f"{path}.part")
        like = None
        # A map of a file would end the process where the disk is full.
        with open(part, "wb") as file:
            for i, (rows, n) in enumerate(zip(self.each(function, *shared), self.lengths)):
                rows = np.asarray(rows)
                shape, dtype = (rows.shape[1:], rows.dtype) if like is None else like
                if (rows.shape, rows.dtype) != ((n, *shape), dtype) or dtype.kind == "O":
                    wanted = (
                        f"an array of {n} "
                        f"rows{f', {dtype} of shape {shape} as in block 0' if i else ''}"
                    )
                    got = f"{rows.dtype} of {rows.shape}"
                    raise ValueError(f"what is written of block {i} must be {wanted}, got {got}.")
                if like is None:
                    header = np.lib.format.header_data_from_array_1_0(rows)
                    header |= {"fortran_order": False, "shape": (int(self.n), *shape)}
                    np.lib.format.write_array_header_1_0(file, header)
                like = shape, dtype
                file.write(np.ascontiguousarray(rows).data)
        part.replace(path)
        return np.load(path, mmap_mode="r+")

    def _tasks(self, function, *shared, own=None):
        shared = self._dask.delayed(shared, traverse=False) if self._dask else shared
        for i, first in enumerate(self.starts):
            if own is None or own[i] is not None:
                mine = () if own is None else (own[i],)
                task = (
                    _on_block,
                    function,
                    self._pieces_of(i),
                    i,
                    int(first),
                    shared,
                    mine,
                )
                yield self._call(*task) if self.keep is None else self._kept(*task)

    def _kept(self, run, function, pieces, *task):
        # What an earlier call kept of this block, or what it gives now.
        args = [piece.args for piece in pieces]
        path = Path(self.keep) / _name_of(function, args, _versions(pieces), task)
        # What was kept may not be there, or be of an older version.
        with suppress(Exception):
            data = memoryview(path.read_bytes())
            # Otherwise it is damaged, or belongs to another block.
            if crc32(data[:-4], crc32(path.name.encode())).to_bytes(4) == data[-4:]:
                return pickle.loads(data[:-4])
        path.parent.mkdir(parents=True, exist_ok=True)
        found = run(function, pieces, *task)
        # The file has a name of its own until it is whole.
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            pickle.dump(
                found, summed := _Summed(file, crc32(path.name.encode())), pickle.HIGHEST_PROTOCOL
            )
            file.write(summed.checksum.to_bytes(4))
        part.rename(path)
        return found

    def _call(self, function, *args):
        return self._dask.delayed(function, pure=False)(*args) if self._dask else function(*args)

    def _compute(self, tasks):
        return list(self._dask.compute(*tasks)) if self._dask else tasks


def _name_of(function, *given):
    try:
        return code_hash(function, *given)
    except pickle.PicklingError as error:
        raise TypeError(
            f"keep tells results apart by all that a function reads, and {function!r} reads what "
            "cannot be pickled: give what it needs as further arguments, "
            "blocks.map(function, model), or leave keep out."
        ) from error


class _Summed:
    """A file to write to, and the checksum of what was written."""

    def __init__(self, file, checksum):
        self.file = file
        self.checksum = checksum

    def write(self, data):
        self.checksum = crc32(data, self.checksum)
        return self.file.write(data)


def _on_block(function, pieces, i, start, shared, own):
    block = None
    try:
        form, block = _read(pieces, start)
        return form, function(block, *shared, *own)
    except (ValueError, TypeError) as error:
        named = {
            str(a)
            for piece in pieces
            for a in getattr(piece, "args", ())[:1]
            if isinstance(a, Path)
        }
        where = (
            f"block {i} (rows from {start} on{''.join(f', of {name}' for name in sorted(named))})"
        )
        if isinstance(getattr(block, "X", None), np.ndarray) and block.X.dtype.kind == "f":
            wrong = np.flatnonzero(~np.isfinite(block.X).reshape(len(block), -1).all(axis=1))
            where += f", row {block.ids[wrong[0]]} with NaN or infinity" if len(wrong) else ""
        if getattr(block, "y", None) is not None:
            unknown = np.flatnonzero(missing(block.y).reshape(len(block), -1).any(axis=1))
            where += f", row {block.ids[unknown[0]]} without a label" if len(unknown) else ""
        raise ValueError(f"{where}: {error}") from error


def _itself(block):
    return block


def _together(pieces):
    """The triples of pieces that are read, of which one may have a list of them."""
    lists = [piece if isinstance(piece, list) else [piece] for piece in pieces]
    return [triple for some in lists for triple in some]


def _read(pieces, start):
    parts = _together([piece() if callable(piece) else piece for piece in pieces])
    # Parts without rows may have any types.
    parts = [part for part in parts if part[0].shape[0]] or parts[:1]
    forms = [forms_of(*part) for part in parts]
    for form in forms:
        check_alike(forms[0], form, "a part of it", "another part")
    X, y, weights = (join_rows(values) for values in zip(*parts))
    check_consistent_length(X, y, weights)
    X = readable(X)
    ids = start + np.arange(X.shape[0])
    weights = np.ones(len(ids)) if weights is None else weights_of_rows(weights, len(ids), start)
    return forms[0], Rows(X, y, weights, ids)


def _shape(piece):
    X = [X for X, *_ in piece] if isinstance(piece, list) else [piece[0]]
    return sum(x.shape[0] for x in X), *X[0].shape[1:], sum(x.size for x in X)


# --- what is given


def _versions(pieces):
    paths = [a for piece in pieces for a in getattr(piece, "args", ()) if isinstance(a, Path)]
    return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths]


def as_blocks(X, y=None, sample_weight=None):
    """`X`, if it is `Blocks`, which hold y and sample_weight, else `Blocks` of all three."""
    if isinstance(X, Blocks) and (y is not None or sample_weight is not None):
        raise ValueError(
            "y and sample_weight must be None beside Blocks: give them to Blocks(X, y, "
            "sample_weight)."
        )
    return X if isinstance(X, Blocks) else Blocks(X, y, sample_weight)


def known_length(X):
    """How many rows an array, a frame or what is read in blocks has; None where only reading them
    would tell."""
    check_tables(X)
    blocks = Blocks(X) if is_files(X) else X
    if isinstance(blocks, Blocks):
        return None if blocks._shapes is None else blocks.n
    n = n_rows_of(blocks)
    return n if isinstance(n, Integral) else None


def uniform_rows(blocks, size, rng, n_present=None):
    """Rows drawn uniformly without repetition from all of positive weight, all if they are few: a
    Rows.

    `n_present` tells how many of these each block has; None counts them.
    """
    n_present = np.array(blocks.map(_n_present)) if n_present is None else n_present
    check_some_count(n_present.any(), blocks.n)
    size = min(size, n_present.sum())
    own, order = split_places(rng.choice(n_present.sum(), size, replace=False), n_present)
    drawn = joined(blocks.map(_nth_present, own=own)).take(order)
    return replace(drawn, weight=drawn.weight * (n_present.sum() / size))


def _n_present(block):
    return np.count_nonzero(block.weight)


def _nth_present(block, places):
    return block.take(np.flatnonzero(block.weight)[places])


# --- predictions


def by_blocks(method):
    """A method of a fitted estimator that also says of dask data and files what it says of each
    row: see `rowwise`."""

    @wraps(method)
    def call(self, X, *, out=None, **options):
        check_is_fitted(self)
        if out is not None or is_blocks(X):
            return rowwise(self, method.__name__, X, out=out, **options)
        return method(self, X, **options)

    return call


def rowwise(estimator, method, X, *, out=None, **options):
    """What a method of a fitted estimator gives for each row: an array; of dask data a dask array,
    yet to be computed.

    With `out`, a path, it is written there block by block (`Blocks.write`), and comes as a memory
    map of the file. ValueError for columns that are not those, or not in the order, of the data
    that `estimator` was fitted on.
    """
    blocks = copy(as_blocks(X))
    blocks.verbose |= bool(getattr(estimator, "verbose", False))
    if blocks.like is not None:
        validate_data(estimator, blocks.like, reset=False, skip_check_array=True)
    slim = copy(estimator)
    vars(slim).pop("labels_", None)
    if out is not None:
        return blocks.write(out, _predict_of_fixed_width, slim, method, options)
    if not is_dask(X):
        return np.concatenate(blocks.map(_predict, slim, method, options))
    import dask
    import dask.array as da

    row = (
        X._meta_nonempty.iloc[:1]
        if hasattr(X, "columns")
        else np.zeros((1, estimator.n_features_in_))
    )
    none = np.asarray(getattr(slim, method)(row, **options))[:0]
    said = dask.delayed(partial(_said_of_piece, slim, method, options, none), pure=False)
    lengths = (
        [np.nan] * len(blocks._pieces)
        if blocks._shapes is None
        else [n for n, *_ in blocks._shapes]
    )
    parts = [said(piece) for piece in blocks._pieces]
    parts = [
        da.from_delayed(part, (n, *none.shape[1:]), none.dtype) for part, n in zip(parts, lengths)
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _predict(block, estimator, method, options):
    # With scikit-learn's option `transform_output` it may be a frame.
    said = getattr(estimator, method)(block.X, **options)
    return said if sparse.issparse(said) else np.asarray(said)


def _predict_of_fixed_width(block, estimator, method, options):
    # A file holds words, but not as objects.
    said = _predict(block, estimator, method, options)
    labels = np.array(np.asarray(getattr(estimator, "classes_", ())).tolist())
    if said.dtype.kind == "O" and labels.dtype.kind == "U":
        return said.astype(labels.dtype)
    return said


def _said_of_piece(estimator, method, options, none, piece):
    _, block = _read([piece], 0)
    return _predict(block, estimator, method, options) if len(block) else none
