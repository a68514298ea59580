"""Rows of data, in memory and in blocks: what carries them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.running import warn
from handful.tables import join_rows, take_rows


@dataclass(frozen=True)
class Rows:
    """Weighted rows in memory.

    Attributes
    ----------
    X : array, data frame or CSR matrix, shape (m, d)
    y : array or column, m entries, or None
    weight : float array, shape (m,)
    ids : int array, shape (m,), or a range; the places of the rows in the whole data
    """

    X: Any
    y: Any
    weight: np.ndarray
    ids: np.ndarray | range

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

    def cut(self, n):
        """The first n rows, and the others: two Rows."""
        places = np.arange(len(self))
        return self.take(places[:n]), self.take(places[n:])

    def of_positive_weight(self):
        """The rows whose weight is not 0: Rows."""
        counts = self.weight > 0
        return self if counts.all() else self.take(np.flatnonzero(counts))

    @property
    def weights(self):
        """`weight`, under its old name."""
        warn(
            "weights of a block is now called weight: write block.weight.",
            FutureWarning,
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

    def at_least(self, rows):
        """The same rows, in blocks of so many rows or more where these can be joined."""
        return self

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
