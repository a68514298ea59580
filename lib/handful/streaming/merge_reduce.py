"""`MergeReduce`: the coreset of a stream whose rows cannot all be kept."""

from dataclasses import KW_ONLY
from typing import Any

from handful.options import Count
from handful.rows import joined
from handful.running import Bar
from handful.streaming.stream_memory import StreamMemory
from handful.types import Seed


class MergeReduce(StreamMemory):
    """The coreset of a stream, computed in the memory of O(log n) coresets; `rows` gives it with
    labels and weights.

    Algorithm 2 of "On Coresets for Support Vector Machines" (2020), with any selector: every
    `leaf_size` rows become a leaf, and two nodes of one level become a node of the next. The
    coreset can be asked for after any chunk.

    Parameters
    ----------
    selector : Selector
        What chooses the rows of each node, such as `SVMCoreset`. Its own `size` and
        `random_state` are not used.
    size : int, default=100
        The most rows of a node, so of the coreset, which with `n_slots` is several nodes.
    leaf_size : int, default=1000
        Rows of a leaf. A leaf of at most `size` rows is kept as it is.
    n_slots : int or None, default=None
        None for the binary tree; or the number of nodes that are kept side by side, their union
        being the coreset, by Algorithm 3 of "Data Summarization via Bilevel Optimization"
        (2024): when a leaf finds no free slot, two neighbouring nodes are merged, which
        `first_to_merge` chooses. As in the authors' code these are, of several pairs of equal
        weight, the lightest; the printed algorithm takes the first, which differs from four slots
        on.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.
    verbose : bool, default=False
        Whether `fit` and `partial_fit` show a progress bar from the start, not only after 30
        seconds.

    Attributes
    ----------
    coreset_ : Coreset of everything seen so far; its indices are positions in the stream
    slot_weights_ : list of int; with `n_slots`, the number of leaves that each node stands for, the
        oldest first
    n_seen_ : int; rows seen
    n_rows_held_ : int; rows in memory
    n_reductions_ : int; how often a selector ran

    Examples
    --------
    >>> import numpy as np
    >>> from handful import UniformCoreset
    >>> stream = MergeReduce(UniformCoreset(), size=20, leaf_size=100, random_state=0)
    >>> for start in range(0, 1000, 250):
    ...     stream = stream.partial_fit(np.arange(start, start + 250.0)[:, None])
    >>> len(stream.coreset_), stream.n_seen_, stream.n_rows_held_ < 200
    (20, 1000, True)
    >>> X, y, weights = stream.rows()
    >>> X.shape, y is None, weights.shape
    ((20, 1), True, (20,))
    """

    selector: Any
    _: KW_ONLY
    size: Count = 100
    leaf_size: Count = 1000
    n_slots: Count | None = None
    random_state: Seed = None
    verbose: bool = False

    def _start(self):
        super()._start()
        self._nodes = {}
        self._leaf = []
        self._n_leaves = 0
        self._slots = []
        self.slot_weights_ = []

    def _take_in(self, X, y, sample_weight):
        X, y, sample_weight = self._open(X, y, sample_weight)
        start = 0
        n = X.shape[0]
        with Bar(total=n, desc="MergeReduce", unit="row", verbose=self.verbose) as bar:
            while start < n:
                part = slice(
                    start, min(n, start + max(0, self.leaf_size - sum(map(len, self._leaf))))
                )
                chunk = (None if side is None else side[part] for side in (X, y, sample_weight))
                rows = self._chunk_rows(*chunk).of_positive_weight()
                self.n_seen_ += part.stop - start
                self._leaf = [*self._leaf, rows] if len(rows) else self._leaf
                if sum(map(len, self._leaf)) >= self.leaf_size:
                    (self._climb if self.n_slots is None else self._fill_slot)()
                bar.update(part.stop - start)
                start = part.stop

    def _fill_slot(self):
        nodes = [*self._slots, self._reduce(self._leaf, 0, self._n_leaves)]
        weights = [*self.slot_weights_, 1]
        if len(nodes) > self.n_slots:
            i = first_to_merge(weights)
            # Each leaf causes one merge at most, so the number of leaves can seed the merge.
            nodes[i : i + 2] = [self._reduce(nodes[i : i + 2], 1, self._n_leaves)]
            weights[i : i + 2] = [weights[i] + weights[i + 1]]
        self._slots = nodes
        self.slot_weights_ = weights
        self._leaf = []
        self._n_leaves = self._n_leaves + 1

    def _climb(self):
        level = 0
        index = self._n_leaves
        nodes = dict(self._nodes)
        node = self._reduce(self._leaf, level, index)
        while index % 2:
            level = level + 1
            index = index // 2
            node = self._reduce([nodes.pop(level - 1), node], level, index)
        nodes[level] = node
        # All attributes at once: an interrupt of a selector leaves the tree as it was, with a full
        # leaf.
        self._nodes = nodes
        self._leaf = []
        self._n_leaves = self._n_leaves + 1

    def _chosen(self):
        index = self._n_leaves
        node = self._reduce(self._leaf, 0, index) if self._leaf else None
        if self._slots:
            node = joined(self._slots if node is None else [*self._slots, node])
        for level in range(max(self._nodes, default=-1) + 1):
            index //= 2
            left = self._nodes.get(level)
            if left is not None:
                node = left if node is None else self._reduce([left, node], level + 1, index)
        return node

    @property
    def n_rows_held_(self) -> Any:
        return sum(map(len, [*self._leaf, *self._slots, *self._nodes.values()]))


def first_to_merge(weights):
    """The index of the node that is merged with the next one (last lines of Algorithm 3, as the
    authors' code has them).

    Parameters
    ----------
    weights : list of at least two ints, the number of leaves that each node stands for, the newest
        last

    Returns
    -------
    int; the second last node if it is the first, or weighs less than the node before it; otherwise,
    of the adjacent pairs of equal weight, the first node of the first pair of the smallest weight

    Notes
    -----
    The printed Algorithm 3 takes the first pair of equal weight, whatever its weight. With up to
    three slots that is the same pair.
    """
    if len(weights) == 2 or weights[-2] < weights[-3]:
        return len(weights) - 2
    equal = [i for i in range(len(weights) - 1) if weights[i] == weights[i + 1]]
    return min(equal, key=lambda i: weights[i])
