"""`MergeReduce`: the coreset of a stream."""

from handful.streaming.tree import Tree, concatenate


class MergeReduce(Tree):
    """The coreset of a stream, in memory for O(log n) coresets; `root` gives its rows, with their labels and weights.

    Algorithm 2 of "On Coresets for Support Vector Machines" (2020), for any selector: every `leaf_size` rows
    become a leaf, two nodes of the same level become one of the next. A valid coreset stands ready at any time.

    Parameters
    ----------
    selector : Selector, such as `SVMCoreset`; its own `size` and `random_state` are not used
    size : int; rows of a node, so of the coreset
    leaf_size : int; rows of a leaf. Leaves of at most `size` rows are not reduced by themselves
    slots : int or None; None: the binary tree. A number: Algorithm 3 of "Data Summarization via Bilevel
        Optimization" (2024), at most so many nodes side by side, whose union is the coreset. A leaf too many
        merges the two newest nodes, if they belong together, or the first pair of the smallest equal weight
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    coreset_ : Coreset of everything seen so far; its indices are positions in the stream
    slot_weights_ : list of int; with `slots`, the leaves behind each node, the oldest first
    n_seen_ : int; rows seen
    n_rows_held_ : int; rows in memory
    n_reductions_ : int; times a selector ran

    Examples
    --------
    >>> import numpy as np
    >>> from handful import UniformCoreset
    >>> stream = MergeReduce(UniformCoreset(), size=20, leaf_size=100, random_state=0)
    >>> for start in range(0, 1000, 250):
    ...     stream = stream.partial_fit(np.arange(start, start + 250.0)[:, None])
    >>> len(stream.coreset_), stream.n_seen_, stream.n_rows_held_ < 200
    (20, 1000, True)
    >>> X, y, weights = stream.root()
    >>> X.shape, y is None, weights.shape
    ((20, 1), True, (20,))
    """

    def __init__(self, selector, *, size=100, leaf_size=1000, slots=None, random_state=None):
        self.selector = selector
        self.size = size
        self.leaf_size = leaf_size
        self.slots = slots
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Forget everything, then `partial_fit`, which says what is raised."""
        self._forget()
        return self.partial_fit(X, y, sample_weight)

    def partial_fit(self, X, y=None, sample_weight=None):
        """Take in the next rows of the stream, any number of them.

        An error leaves everything as it was before the call. An interrupt (Ctrl-C) leaves a valid coreset of the
        first `n_seen_` rows, with which the stream can go on.

        Parameters
        ----------
        X : array, data frame or CSR matrix, shape (n, d); a memory-mapped array is read leaf by leaf
        y : shape (n,), or None throughout
        sample_weight : shape (n,), non-negative; rows of weight 0 are counted, not kept

        Returns
        -------
        self

        Raises
        ------
        TypeError
            if `selector` is no selector: a class, or what takes no `sample_weight`, as a `Reservoir`
        ValueError
            for rows that are not finite, or of another width, other column names or another form (dense, sparse) than
            those before; a `y` or `sample_weight` that does not fit, or no `y` where the selector needs it; sizes that
            are bad or have changed since the stream began; and what the selector refuses
        """
        with self._all_or_nothing():
            self._take_in(X, y, sample_weight)
        return self

    def _start(self):
        super()._start()
        self._nodes, self._leaf, self._n_leaves = {}, [], 0
        self._slots, self.slot_weights_ = [], []

    def _take_in(self, X, y, sample_weight):
        X, y, sample_weight = self._open(X, y, sample_weight)
        self._top = None  # the root, once somebody asked for it
        start, n = 0, X.shape[0]
        while True:
            stop = min(n, start + max(0, self.leaf_size - sum(map(len, self._leaf))))
            part = slice(start, stop)
            rows = self._rows(
                X.iloc[part] if hasattr(X, "iloc") else X[part],
                None if y is None else y[part],
                None if sample_weight is None else sample_weight[part],
            ).of_positive_weight()
            self.n_seen_ += stop - start
            if len(rows):
                self._leaf = [*self._leaf, rows]
            if sum(map(len, self._leaf)) >= self.leaf_size:
                self._close_leaf()
            start = stop
            if start == n:
                return

    def _close_leaf(self):
        if self.slots is None:
            self._climb()
        else:
            self._fill_slot()

    def _fill_slot(self):
        nodes = [*self._slots, self._reduce(self._leaf, 0, self._n_leaves)]
        weights = [*self.slot_weights_, 1]
        if len(nodes) > self.slots:
            i = first_to_merge(weights)
            # A merge takes its random numbers from how many leaves there were: there is one merge a leaf.
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
        # All at once: whoever interrupts a selector finds the tree as it was, with a full leaf.
        self._nodes, self._leaf, self._n_leaves = nodes, [], self._n_leaves + 1

    def _root(self):
        self._check_begun()
        if self._top is None:
            index = self._n_leaves
            node = self._reduce(self._leaf, 0, index) if self._leaf else None
            if self._slots:
                node = concatenate(self._slots if node is None else [*self._slots, node])
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
    def n_rows_held_(self):
        return sum(map(len, [*self._leaf, *self._slots, *self._nodes.values()]))


def first_to_merge(weights):
    """Which of the nodes, the newest last, is merged with the one after it (Algorithm 3, its last lines).

    Parameters
    ----------
    weights : list of at least two ints, of the nodes

    Returns
    -------
    int; the second last, if its weight is below that of the one before it (or there is none), otherwise the
    first of the adjacent pairs of equal weight whose weight is smallest
    """
    if len(weights) == 2 or weights[-2] < weights[-3]:
        return len(weights) - 2
    equal = [i for i in range(len(weights) - 1) if weights[i] == weights[i + 1]]
    return min(equal, key=lambda i: weights[i])
