"""Coresets of data that do not fit in memory, or that change: merge and reduce over any selector.

A coreset of the union of two coresets is a coreset of the union. So the data are cut into leaves, and over
the leaves stands a binary tree: node (level, index) covers the leaves ``index * 2^level`` up to
``(index + 1) * 2^level``, holds at most `size` weighted rows, and draws its random numbers from its own place
in the tree. A node without data is left out. Everything here computes nodes of that one tree:
`MergeReduce` those that a stream needs, forgetting the rest; `DynamicMergeReduce` keeps them all, to
recompute only what a change touches; `handful.distributed` computes them on other machines.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from handful.coreset import Coreset, as_generator, check_sample_weight


@dataclass(frozen=True)
class Node:
    """Weighted rows and where they come from.

    Attributes
    ----------
    X : array or CSR matrix, shape (m, d)
    y : array, shape (m,), or None
    weights : float array, shape (m,)
    ids : int array, shape (m,); positions in the stream
    """

    X: object
    y: np.ndarray | None
    weights: np.ndarray
    ids: np.ndarray

    def __len__(self):
        return len(self.weights)

    def take(self, rows):
        """Some of the rows."""
        y = None if self.y is None else self.y[rows]
        return Node(self.X[rows], y, self.weights[rows], self.ids[rows])


def concatenate(nodes):
    """The union of several nodes."""
    if len(nodes) == 1:
        return nodes[0]
    stack = sparse.vstack if sparse.issparse(nodes[0].X) else np.concatenate
    parts = [n.X for n in nodes]
    X = stack(parts, format="csr") if stack is sparse.vstack else stack(parts)
    y = None if nodes[0].y is None else np.concatenate([n.y for n in nodes])
    return Node(X, y, np.concatenate([n.weights for n in nodes]), np.concatenate([n.ids for n in nodes]))


def reduce_nodes(nodes, selector, size, seed, level, index):
    """Node (level, index): a coreset of at most `size` rows of the union of `nodes`.

    A union of at most `size` rows is kept as it is. A union with one class only goes to the selector's
    `select_one_class` where it has one (an SVM needs two classes, a part of a stream may hold one).

    Parameters
    ----------
    nodes : list of Node
    selector : Selector; its `size` and `random_state` are set here
    size : int
    seed : int, of the whole tree
    level, index : int, the place in the tree

    Returns
    -------
    Node
    """
    union = concatenate(nodes)
    if len(union) <= size:
        return union
    rng = np.random.default_rng([seed, level, index])
    selector = clone(selector).set_params(size=size, random_state=rng)
    one_class = getattr(selector, "select_one_class", None)
    if one_class is not None and (union.y == union.y[0]).all():
        chosen, weights = one_class(union.X, union.weights, rng)
    else:
        selector.fit(union.X, union.y, sample_weight=union.weights)
        chosen, weights = selector.indices_, selector.weights_
    reduced = union.take(chosen)
    return Node(reduced.X, reduced.y, np.asarray(weights, dtype=np.float64), reduced.ids)


def _n_rows(X):
    return X.shape[0] if hasattr(X, "shape") else len(X)


class _Tree(BaseEstimator):
    """What the two trees share: checks, leaves, and the root as a coreset."""

    def _start(self):
        for name in ("size", "leaf_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {name}={value!r}.")
        self.seed_ = int(as_generator(self.random_state).integers(2**32))
        self.n_seen_ = self.n_reductions_ = 0

    def _forget(self):
        for name in ("seed_", "n_features_in_", "has_y_"):
            if hasattr(self, name):
                delattr(self, name)

    def _check(self, X, y, sample_weight):
        """Rows as a Node with ids from `n_seen_` on; those of weight 0 count as seen, and are not kept."""
        X = X.tocsr() if sparse.issparse(X) else np.array(X)  # a copy: no view of a file or of a whole chunk
        if X.dtype.kind not in "fiub":
            X = X.astype(np.float64)
        if X.ndim != 2:
            raise ValueError(f"X must be 2-d, rows and features, got shape {X.shape}.")
        y = None if y is None else np.asarray(y)
        if y is not None and y.shape != (X.shape[0],):
            raise ValueError(f"y must have shape ({X.shape[0]},), one label a row, got {y.shape}.")
        finite = np.isfinite(X.data if sparse.issparse(X) else X)
        if not finite.all():
            raise ValueError("X contains NaN or infinity: every value of a stream must be finite.")
        d = getattr(self, "n_features_in_", X.shape[1])
        if X.shape[1] != d:
            raise ValueError(f"X has {X.shape[1]} features, but the stream began with {d}.")
        if getattr(self, "has_y_", y is not None) != (y is not None):
            raise ValueError("y must be given with every chunk of a stream, or with none.")
        self.n_features_in_, self.has_y_ = d, y is not None
        if not X.shape[0]:
            return Node(X, y, np.empty(0), np.empty(0, dtype=np.int64))
        weights = check_sample_weight(sample_weight, X.shape[0])
        rows = Node(X, y, weights, self.n_seen_ + np.arange(X.shape[0]))
        return rows if (weights > 0).all() else rows.take(np.flatnonzero(weights > 0))

    def _reduce(self, nodes, level, index):
        if sum(map(len, nodes)) > self.size:
            self.n_reductions_ += 1
        return reduce_nodes(nodes, self.selector, self.size, self.seed_, level, index)

    def root(self):
        """The coreset with its rows: ``(X, y, weights)``, `y` None if the stream has none.

        Raises
        ------
        ValueError
            before the first row.
        """
        node = self._root()
        return node.X, node.y, node.weights

    @property
    def coreset_(self):
        """The `Coreset` of everything so far; its indices are positions in the stream."""
        node = self._root()
        return Coreset(node.ids, node.weights)

    @property
    def indices_(self):
        return self._root().ids

    @property
    def weights_(self):
        return self._root().weights

    def take(self, X, *arrays):
        """Shorthand for ``self.coreset_.take(X, *arrays)``, where the whole stream is at hand."""
        return self.coreset_.take(X, *arrays)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "seed_")


class MergeReduce(_Tree):
    """The coreset of a stream, in memory for O(log n) coresets.

    Algorithm 2 of "On Coresets for Support Vector Machines" (2020), for any selector: every `leaf_size` rows
    become a leaf, two nodes of the same level become one of the next. A valid coreset stands ready at any time.

    Parameters
    ----------
    selector : Selector, such as `SVMCoreset`; its own `size` and `random_state` are not used
    size : int; rows of a node, so of the coreset
    leaf_size : int; rows of a leaf. Leaves of at most `size` rows are not reduced by themselves
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    coreset_ : Coreset of everything seen so far; its indices are positions in the stream
    n_seen_ : int; rows seen
    n_rows_held_ : int; rows in memory
    n_reductions_ : int; times a selector ran
    """

    def __init__(self, selector, *, size=100, leaf_size=1000, random_state=None):
        self.selector = selector
        self.size = size
        self.leaf_size = leaf_size
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Forget everything, then `partial_fit`."""
        self._forget()
        return self.partial_fit(X, y, sample_weight)

    def partial_fit(self, X, y=None, sample_weight=None):
        """Take in the next rows of the stream, any number of them.

        Parameters
        ----------
        X : array, data frame or CSR matrix, shape (n, d); a memory-mapped array is read leaf by leaf
        y : shape (n,), or None throughout
        sample_weight : shape (n,), non-negative; rows of weight 0 are counted, not kept

        Returns
        -------
        self
        """
        if not hasattr(self, "seed_"):
            self._start()
            self._nodes, self._leaf, self._n_leaves = {}, [], 0
        self._top = None  # the root, once somebody asked for it
        start, n = 0, _n_rows(X)
        while True:
            stop = min(n, start + max(0, self.leaf_size - sum(map(len, self._leaf))))
            part = slice(start, stop)
            rows = self._check(
                X.iloc[part] if hasattr(X, "iloc") else X[part],
                None if y is None else y[part],
                None if sample_weight is None else np.asarray(sample_weight)[part],
            )
            self.n_seen_ += stop - start
            if len(rows):
                self._leaf.append(rows)
            if sum(map(len, self._leaf)) >= self.leaf_size:
                self._close_leaf()
            start = stop
            if start == n:
                return self

    def _close_leaf(self):
        level, index, nodes = 0, self._n_leaves, dict(self._nodes)
        node = self._reduce(self._leaf, level, index)
        while index % 2:
            level, index = level + 1, index // 2
            node = self._reduce([nodes.pop(level - 1), node], level, index)
        nodes[level] = node
        # All at once: whoever interrupts a selector finds the tree as it was, with a full leaf.
        self._nodes, self._leaf, self._n_leaves = nodes, [], self._n_leaves + 1

    def _root(self):
        check_is_fitted(self, "seed_")
        if self._top is None:
            index = self._n_leaves
            node = self._reduce(self._leaf, 0, index) if self._leaf else None
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
        return sum(map(len, self._leaf)) + sum(map(len, self._nodes.values()))


class DynamicMergeReduce(_Tree):
    """The coreset of data that rows are added to and taken from.

    The paper's dynamic setting: the whole tree is kept, with the rows in its leaves, and a change recomputes
    the O(log n) nodes above the leaves it touches. A row keeps its place in the tree as long as it lives, so
    the coreset depends on the rows that are there and on their ids alone, not on how they came to be there.

    Parameters
    ----------
    selector, size, leaf_size, random_state : as of `MergeReduce`

    Attributes
    ----------
    coreset_ : Coreset of the rows that are there; its indices are their ids
    n_rows_ : int; rows that are there
    n_reductions_ : int; times a selector ran
    """

    def __init__(self, selector, *, size=100, leaf_size=1000, random_state=None):
        self.selector = selector
        self.size = size
        self.leaf_size = leaf_size
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Forget everything, then `insert`."""
        self._forget()
        self.insert(X, y, sample_weight)
        return self

    def insert(self, X, y=None, sample_weight=None, *, ids=None):
        """Add rows.

        Parameters
        ----------
        X, y, sample_weight : as of `MergeReduce.partial_fit`
        ids : int array, shape (n,), ascending and new; the next free ones if None. They fix the rows' places

        Returns
        -------
        ids : int array, shape (n,), for `delete`
        """
        if not hasattr(self, "seed_"):
            self._start()
            self._nodes, self._leaves = {}, {}
        rows = self._check(X, y, sample_weight)
        n = _n_rows(X)
        if ids is None:
            ids = self.n_seen_ + np.arange(n)
        ids = np.asarray(ids, dtype=np.int64)
        if ids.shape != (n,) or (np.diff(ids) <= 0).any() or (n and ids[0] < 0):
            raise ValueError(f"ids must be {n} non-negative integers in ascending order, one a row.")
        rows = Node(rows.X, rows.y, rows.weights, ids[rows.ids - self.n_seen_])
        new = {}
        for leaf in np.unique(rows.ids // self.leaf_size):
            part = rows.take(np.flatnonzero(rows.ids // self.leaf_size == leaf))
            held = self._leaves.get(leaf)
            if held is not None:
                taken = np.intersect1d(held.ids, part.ids)
                if len(taken):
                    raise ValueError(f"id {taken[0]} is there already; ids must be new.")
                part = concatenate([held, part])
                part = part.take(np.argsort(part.ids))
            new[int(leaf)] = part
        self._leaves |= new
        self._touch(new)
        self.n_seen_ = max(self.n_seen_, int(ids[-1]) + 1 if n else 0)
        return ids

    def delete(self, ids):
        """Take rows away.

        Parameters
        ----------
        ids : int array, as `insert` returned them

        Returns
        -------
        self

        Raises
        ------
        ValueError
            naming an id that is not there; nothing is deleted then.
        """
        check_is_fitted(self, "seed_")
        ids = np.unique(np.atleast_1d(np.asarray(ids, dtype=np.int64)))
        new = {}
        for leaf in np.unique(ids // self.leaf_size):
            held = self._leaves.get(int(leaf))
            gone = ids[ids // self.leaf_size == leaf]
            missing = gone if held is None else np.setdiff1d(gone, held.ids)
            if len(missing):
                raise ValueError(f"id {missing[0]} is not there: it was never inserted, or deleted before.")
            new[int(leaf)] = held.take(np.flatnonzero(~np.isin(held.ids, gone)))
        self._leaves = {leaf: rows for leaf, rows in (self._leaves | new).items() if len(rows)}
        self._touch(new)
        return self

    def _touch(self, leaves):
        for leaf in leaves:
            level, index = 0, leaf
            while level <= 63:
                self._nodes.pop((level, index), None)
                level, index = level + 1, index // 2

    def _node(self, level, index):
        """Node (level, index), None without data; computed once."""
        if (level, index) in self._nodes:
            return self._nodes[level, index]
        if level == 0:
            leaf = self._leaves.get(index)
            parts = [] if leaf is None else [leaf]
        else:
            children = self._node(level - 1, 2 * index), self._node(level - 1, 2 * index + 1)
            parts = [c for c in children if c is not None]
        if not parts:
            return None
        single = level > 0 and len(parts) == 1
        node = parts[0] if single else self._reduce(parts, level, index)
        self._nodes[level, index] = node
        return node

    def _root(self):
        check_is_fitted(self, "seed_")
        if not self._leaves:
            raise ValueError("there are no rows: there is no coreset.")
        return self._node(int(max(self._leaves)).bit_length(), 0)

    @property
    def n_rows_(self):
        return sum(map(len, self._leaves.values()))
