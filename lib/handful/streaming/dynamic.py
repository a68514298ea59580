"""`DynamicMergeReduce`: the coreset of data to which rows are added, and from which rows are deleted."""

from dataclasses import replace

import numpy as np

from handful.streaming.base import StreamMemory
from handful.types import Block, joined


class DynamicMergeReduce(StreamMemory):
    """The coreset of data that change by `insert`, `delete` and `update`; `rows` gives it with labels and weights.

    The dynamic setting of "On Coresets for Support Vector Machines" (2020): the whole tree is kept, with the rows in
    its leaves, and a change recomputes the O(log n) nodes above each leaf that it touches. A row keeps its place in the
    tree until it is deleted, so the coreset depends on the present rows and their ids alone, not on the order in which
    they came.

    Parameters
    ----------
    selector, size, leaf_size, random_state : as in `MergeReduce`
    window : int or None; how many rows stay. When more come, those with the smallest ids are deleted

    Attributes
    ----------
    coreset_ : Coreset of the present rows; its indices are their ids
    n_rows_ : int; present rows, those of weight 0 included
    n_reductions_ : int; how often a selector ran

    Examples
    --------
    >>> import numpy as np
    >>> from handful import UniformCoreset
    >>> X = np.arange(600.0).reshape(300, 2)
    >>> data = DynamicMergeReduce(UniformCoreset(), size=20, leaf_size=50, random_state=0)
    >>> ids = data.insert(X)
    >>> data = data.delete(ids[:100])
    >>> data.n_rows_, bool((data.coreset_.indices >= 100).all())
    (200, True)
    """

    def __init__(self, selector, *, size=100, leaf_size=1000, window=None, random_state=None):
        self.selector = selector
        self.size = size
        self.leaf_size = leaf_size
        self.window = window
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Delete everything, then `insert` these rows, of which at least one must have a positive weight."""
        self._forget(X, sample_weight)
        self.insert(X, y, sample_weight)
        return self

    def insert(self, X, y=None, sample_weight=None, *, ids=None):
        """Add rows; an error, and Ctrl-C, leaves everything as it was.

        Parameters
        ----------
        X, y, sample_weight : as in `MergeReduce.partial_fit`
        ids : int array, shape (n,), non-negative, ascending and not in use; None numbers the rows on. A row of id i is
            in leaf ``i // leaf_size``

        Returns
        -------
        ids : int array, shape (n,), for `delete`

        Raises
        ------
        TypeError, ValueError
            as in `MergeReduce.partial_fit`, and for ids that are no integers, in use or not ascending
        """
        with self._all_or_nothing(BaseException):
            ids = self._insert(X, y, sample_weight, ids)
            if self.window is not None and self.n_rows_ > self.window:
                present = np.sort(np.concatenate([leaf.ids for leaf in self._leaves.values()]))
                self.delete(present[: -self.window])
            return ids

    def _start(self):
        super()._start()
        self._nodes, self._leaves = {}, {}

    def _insert(self, X, y, sample_weight, ids):
        rows = self._chunk_rows(*self._open(X, y, sample_weight))
        n = len(rows)
        ids = rows.ids if ids is None else _as_ids(ids)
        if ids.shape != (n,) or (np.diff(ids) <= 0).any() or (n and ids[0] < 0):
            raise ValueError(f"ids must be {n} non-negative integers in ascending order, one a row.")
        rows = Block(rows.X, rows.y, rows.weights, ids)
        new = {}
        for leaf in np.unique(rows.ids // self.leaf_size):
            part = rows.take(np.flatnonzero(rows.ids // self.leaf_size == leaf))
            held = self._leaves.get(leaf)
            if held is not None:
                taken = np.intersect1d(held.ids, part.ids)
                if len(taken):
                    raise ValueError(f"id {taken[0]} is there already; ids must be new.")
                part = joined([held, part])
                part = part.take(np.argsort(part.ids))
            new[int(leaf)] = part
        self._touch(new)
        self._leaves = self._leaves | new
        self.n_seen_ = max(self.n_seen_, int(ids[-1]) + 1 if n else 0)
        return ids

    def delete(self, ids):
        """Delete rows; an error deletes none.

        Parameters
        ----------
        ids : int array, as `insert` returned them

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for an id that no row has, which it names, and for ids that are no integers
        """
        new = {
            leaf: held.take(np.flatnonzero(~np.isin(held.ids, gone)))
            for leaf, held, gone in self._held(np.unique(_as_ids(ids)))
        }
        self._touch(new)
        self._leaves = {leaf: rows for leaf, rows in (self._leaves | new).items() if len(rows)}
        return self

    def update(self, ids, *, y=None, sample_weight=None):
        """Give rows other labels or weights; an error leaves everything as it was.

        Parameters
        ----------
        ids : int array, shape (k,), each once, as `insert` returned them
        y, sample_weight : shape (k,), or None where they stay

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for an id that no row has or that comes twice, and for labels and weights as in `MergeReduce.partial_fit`
        """
        ids = _as_ids(ids)
        if len(np.unique(ids)) < len(ids):
            raise ValueError("ids must differ: each row has one label and one weight.")
        with self._all_or_nothing(BaseException):
            labels = None if y is None else self._check_labels(y, len(ids))
            weights = self._check_weights(sample_weight, len(ids))
            new, order = {}, np.argsort(ids)
            for leaf, held, changed in self._held(ids[order]):
                place = np.searchsorted(held.ids, changed)
                source = order[np.searchsorted(ids[order], changed)]
                new[leaf] = replace(
                    held,
                    y=held.y if labels is None else _changed(held.y, place, labels[source]),
                    weights=held.weights if weights is None else _changed(held.weights, place, weights[source]),
                )
            self._touch(new)
            self._leaves = self._leaves | new
        return self

    def save(self, path):
        """Write all rows present to a file: as `MergeReduce.save`."""
        return self._write(path, {str(leaf): rows for leaf, rows in self._leaves.items()})

    @classmethod
    def load(cls, path, selector):
        """The tree that `save` wrote: as `MergeReduce.load`; its nodes are computed again when they are asked for."""
        tree, leaves, _ = cls._read(path, selector)
        tree._leaves = {int(leaf): rows for leaf, rows in leaves.items()}
        return tree

    def _held(self, ids):
        # (leaf, its rows, those of the ascending ids that it holds) of each leaf with one of them.
        self._check_begun()
        for leaf in np.unique(ids // self.leaf_size).tolist():
            held, mine = self._leaves.get(leaf), ids[ids // self.leaf_size == leaf]
            missing = mine if held is None else np.setdiff1d(mine, held.ids)
            if len(missing):
                raise ValueError(f"id {missing[0]} is not there: it was never inserted, or deleted before.")
            yield leaf, held, mine

    def _touch(self, leaves):
        # Forget the nodes above some leaves, to be computed again when they are asked for.
        for leaf in leaves:
            level, index = 0, leaf
            while level <= 63:
                self._nodes.pop((level, index), None)
                level, index = level + 1, index // 2

    def _node(self, level, index):
        """Block (level, index), or None without data; computed once."""
        if (level, index) in self._nodes:
            return self._nodes[level, index]
        if level == 0:
            leaf = self._leaves[index].of_positive_weight() if index in self._leaves else ()
            parts = [leaf] if len(leaf) else []
        else:
            children = self._node(level - 1, 2 * index), self._node(level - 1, 2 * index + 1)
            parts = [c for c in children if c is not None]
        if not parts:
            return None
        single = level > 0 and len(parts) == 1
        node = parts[0] if single else self._reduce(parts, level, index)
        self._nodes[level, index] = node
        return node

    def _coreset_rows(self):
        self._check_begun()
        node = self._node(int(max(self._leaves, default=0)).bit_length(), 0)
        if node is None:
            raise ValueError("there are no rows of positive weight: there is no coreset.")
        return node

    @property
    def n_rows_(self):
        return sum(map(len, self._leaves.values()))


def _changed(values, place, new):
    out = values.astype(np.result_type(values, new))
    out[place] = new
    return out


def _as_ids(ids):
    ids = np.atleast_1d(np.asarray(ids))
    if len(ids) and ids.dtype.kind not in "iu":
        raise ValueError(f"ids must be integers, as `insert` returns them, got {ids.dtype}.")
    return ids.astype(np.int64)
