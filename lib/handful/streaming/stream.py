"""`MergeReduce`: the coreset of a stream whose rows cannot all be kept."""

from typing import Any, Self

from tqdm.auto import tqdm

from handful.blocks import as_blocks, is_blocks
from handful.streaming.base import StreamMemory
from handful.types import Seed, Table, joined


class MergeReduce(StreamMemory):
    """The coreset of a stream, computed in the memory of O(log n) coresets; `rows` gives it with labels and weights.

    Algorithm 2 of "On Coresets for Support Vector Machines" (2020), with any selector: every `leaf_size` rows become a
    leaf, and two nodes of one level become a node of the next. The coreset can be asked for after any chunk.

    Parameters
    ----------
    selector : Selector, such as `SVMCoreset`; its own `size` and `random_state` are not used
    size : int; the most rows of a node, so of the coreset, which with `n_slots` is several nodes
    leaf_size : int; rows of a leaf. A leaf of at most `size` rows is kept as it is
    n_slots : None for the binary tree; or the number of nodes that are kept side by side, their union being the
        coreset, by Algorithm 3 of "Data Summarization via Bilevel Optimization" (2024): when a leaf finds no free slot,
        two neighbouring nodes are merged, which `first_to_merge` chooses
    random_state : None, int, RandomState or Generator
    verbose : bool, whether `fit` and `partial_fit` show a progress bar

    Attributes
    ----------
    coreset_ : Coreset of everything seen so far; its indices are positions in the stream
    slot_weights_ : list of int; with `n_slots`, the number of leaves that each node stands for, the oldest first
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

    def __init__(
        self,
        selector: Any,
        *,
        size: int = 100,
        leaf_size: int = 1000,
        n_slots: int | None = None,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.selector = selector
        self.size = size
        self.leaf_size = leaf_size
        self.n_slots = n_slots
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Begin a new stream with these rows: see `partial_fit`; at least one row must have a positive weight."""
        self._forget(X, sample_weight)
        return self.partial_fit(X, y, sample_weight)

    def partial_fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Take in the next rows of the stream, any number of them.

        An error leaves everything as it was before the call. Ctrl-C raises KeyboardInterrupt, and leaves a valid
        coreset of the first `n_seen_` rows: the stream can go on with the row after them.

        Parameters
        ----------
        X : array, data frame or CSR matrix, shape (n, d); a memory-mapped array is read leaf by leaf; files and
            dask data, as in `handful.blocks.Blocks`, one block after the other
        y : shape (n,), or None throughout
        sample_weight : shape (n,), non-negative; rows of weight 0 are counted, not kept

        Returns
        -------
        self

        Raises
        ------
        TypeError
            if `selector` is no selector (its class is not one), or takes no `sample_weight`, such as a `Reservoir`
        ValueError
            for rows that are not finite real numbers, or differ from those before in their number of columns, column
            names or form (dense, sparse); for a `y` or `sample_weight` that does not fit, and no `y` where the selector
            needs one; for a size that is out of range or has changed since the stream began; and by the selector
        """
        with self._all_or_nothing():
            if is_blocks(X, y, sample_weight):
                for block in as_blocks(X, y, sample_weight):
                    self._take_in(block.X, block.y, block.weights)
            else:
                self._take_in(X, y, sample_weight)
        return self

    def save(self, path: Any) -> None:
        """Write the stream to a file, from which `load` goes on with it in another process.

        Parameters
        ----------
        path : str or path of a .npz file, which is replaced once the new one is whole. It holds the rows held, their
            labels and the options, no code and no pickle; `selector` and `random_state` are not saved

        Returns
        -------
        pathlib.Path of the file

        Raises
        ------
        NotFittedError
            before the first chunk
        TypeError
            for labels that are neither numbers nor words
        """
        kept = {"node": self._nodes, "leaf": dict(enumerate(self._leaf)), "slot": dict(enumerate(self._slots))}
        nodes = {f"{kind} {key}": node for kind, group in kept.items() for key, node in group.items()}
        return self._write(path, nodes, n_leaves=self._n_leaves, slot_weights=self.slot_weights_)

    @classmethod
    def load(cls, path, selector):
        """The stream that `save` wrote; further chunks and the coreset are as if it had never stopped.

        Parameters
        ----------
        path : str or path
        selector : the selector of the stream, with the same options

        Raises
        ------
        ValueError
            for a damaged file, another kind of tree and another selector
        """
        stream, nodes, state = cls._read(path, selector)
        stream._n_leaves, stream.slot_weights_ = state["n_leaves"], state["slot_weights"]
        for name, node in nodes.items():
            kind, key = name.split()
            if kind == "node":
                stream._nodes[int(key)] = node
            else:
                (stream._leaf if kind == "leaf" else stream._slots).append(node)
        return stream

    def _start(self):
        super()._start()
        self._top = None
        self._nodes, self._leaf, self._n_leaves = {}, [], 0
        self._slots, self.slot_weights_ = [], []

    def _take_in(self, X, y, sample_weight):
        X, y, sample_weight = self._open(X, y, sample_weight)
        self._top = None  # the root of the tree, once it was asked for
        with tqdm(total=X.shape[0], desc="MergeReduce", unit="row", disable=not self.verbose) as bar:
            self._take_leaves(X, y, sample_weight, bar)

    def _take_leaves(self, X, y, sample_weight, bar):
        start, n = 0, X.shape[0]
        while True:
            stop = min(n, start + max(0, self.leaf_size - sum(map(len, self._leaf))))
            part = slice(start, stop)
            rows = self._chunk_rows(
                X.iloc[part] if hasattr(X, "iloc") else X[part],
                None if y is None else y[part],
                None if sample_weight is None else sample_weight[part],
            ).of_positive_weight()
            self.n_seen_ += stop - start
            if len(rows):
                self._leaf = [*self._leaf, rows]
            if sum(map(len, self._leaf)) >= self.leaf_size:
                (self._climb if self.n_slots is None else self._fill_slot)()
            bar.update(stop - start)
            start = stop
            if start == n:
                return

    def _fill_slot(self):
        nodes = [*self._slots, self._reduce(self._leaf, 0, self._n_leaves)]
        weights = [*self.slot_weights_, 1]
        if len(nodes) > self.n_slots:
            i = first_to_merge(weights)
            # Each leaf causes one merge at most, so the number of leaves can seed the merge.
            nodes[i : i + 2] = [self._reduce(nodes[i : i + 2], 1, self._n_leaves)]
            weights[i : i + 2] = [weights[i] + weights[i + 1]]
        self._slots, self.slot_weights_, self._leaf, self._n_leaves = nodes, weights, [], self._n_leaves + 1

    def _climb(self):
        level, index, nodes = 0, self._n_leaves, dict(self._nodes)
        node = self._reduce(self._leaf, level, index)
        while index % 2:
            level, index = level + 1, index // 2
            node = self._reduce([nodes.pop(level - 1), node], level, index)
        nodes[level] = node
        # All attributes at once: an interrupt of a selector leaves the tree as it was, with a full leaf.
        self._nodes, self._leaf, self._n_leaves = nodes, [], self._n_leaves + 1

    def _coreset_rows(self):
        self._check_begun()
        if self._top is None:
            index = self._n_leaves
            node = self._reduce(self._leaf, 0, index) if self._leaf else None
            if self._slots:
                node = joined(self._slots if node is None else [*self._slots, node])
            for level in range(max(self._nodes, default=-1) + 1):
                index //= 2
                left = self._nodes.get(level)
                if left is not None:
                    node = left if node is None else self._reduce([left, node], level + 1, index)
            self._top = node
        if self._top is None:
            raise ValueError("the stream has had no row of positive weight so far: there is no coreset yet.")
        return self._top

    @property
    def n_rows_held_(self) -> Any:
        return sum(map(len, [*self._leaf, *self._slots, *self._nodes.values()]))


def first_to_merge(weights):
    """The index of the node that is merged with the next one (last lines of Algorithm 3).

    Parameters
    ----------
    weights : list of at least two ints, the number of leaves that each node stands for, the newest last

    Returns
    -------
    int; the second last node if it is the first, or weighs less than the node before it; otherwise, of the adjacent
    pairs of equal weight, the first node of the first pair of the smallest weight
    """
    if len(weights) == 2 or weights[-2] < weights[-3]:
        return len(weights) - 2
    equal = [i for i in range(len(weights) - 1) if weights[i] == weights[i + 1]]
    return min(equal, key=lambda i: weights[i])
