"""The tree of merge and reduce: its nodes, how two become one, and what the trees share.

A coreset of the union of two coresets is a coreset of the union. So the data are cut into leaves, and over
the leaves stands a binary tree: node (level, index) covers the leaves ``index * 2^level`` up to
``(index + 1) * 2^level``, holds at most `size` weighted rows, and draws its random numbers from its own place
in the tree. A node without data is left out. Everything here computes nodes of that one tree:
`MergeReduce` those that a stream needs, forgetting the rest; `DynamicMergeReduce` keeps them all, to
recompute only what a change touches; `handful.distributed` computes them on other machines.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.checks import as_generator, check_integer, check_sample_weight
from handful.coreset import Coreset, check_selector, choose

FIXED = ("size", "leaf_size", "slots")  # what a stream keeps from its first chunk to its last


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

    def of_positive_weight(self):
        """The rows that count."""
        return self if (self.weights > 0).all() else self.take(np.flatnonzero(self.weights > 0))


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

    A union of at most `size` rows is kept as it is; otherwise `choose` selects from it.

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
    chosen, weights = choose(selector, union.X, union.y, union.weights, rng)
    reduced = union.take(chosen)
    return Node(reduced.X, reduced.y, np.asarray(weights, dtype=np.float64), reduced.ids)


def n_rows(X):
    """Number of rows of an array, a sparse matrix or a list."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _check_weights(sample_weight, n):
    if sample_weight is None:
        return None
    # A part of a stream, unlike a whole data set, may have no row that counts.
    absent = np.shape(sample_weight) == (n,) and not np.any(sample_weight)
    return np.zeros(n) if absent else check_sample_weight(sample_weight, n)


class Tree(BaseEstimator):
    """What the trees, and the other memories of a stream, share: checks, and the root as a coreset."""

    def _start(self):
        self._began_with = self._fixed()
        for name, value in self._began_with.items():
            if name != "slots" or value is not None:
                check_integer(name, value)
        self.seed_ = int(as_generator(self.random_state).integers(2**32))
        self.n_seen_ = self.n_reductions_ = 0

    def _fixed(self):
        return {name: getattr(self, name) for name in FIXED if hasattr(self, name)}

    def _check_begun(self):
        check_is_fitted(self, "seed_")
        for name, value in self._fixed().items():
            if value != self._began_with[name]:
                raise ValueError(
                    f"{name} cannot change once a stream has begun: it began with {name}={self._began_with[name]!r}, "
                    f"got {name}={value!r}; fit begins a new stream."
                )

    def _forget(self):
        for name in ("seed_", "n_features_in_", "is_sparse_", "has_y_", "has_words_"):
            if hasattr(self, name):
                delattr(self, name)

    @contextmanager
    def _all_or_nothing(self, errors=Exception):
        # An error leaves the state of before: what is in the block replaces attributes, it changes none in place.
        before = dict(vars(self))
        try:
            yield
        except errors:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _open(self, X, y, sample_weight):
        """Begin a stream, or go on with it; returns the chunk, checked for all but its values."""
        if not hasattr(self, "seed_"):
            self._start()
        self._check_begun()
        if hasattr(self, "selector"):
            self._check_selector(y)
        X = X.tocsr() if sparse.issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
        if len(X.shape) != 2:
            raise ValueError(f"X must be 2-d, rows and features, got shape {X.shape}.")
        validate_data(self, X, reset=not hasattr(self, "n_features_in_"), skip_check_array=True)  # names and width
        form = {True: "sparse", False: "dense"}
        is_sparse = sparse.issparse(X)
        if getattr(self, "is_sparse_", is_sparse) != is_sparse:
            raise ValueError(
                f"X is {form[is_sparse]}, but the stream began with {form[not is_sparse]} rows; "
                "give every chunk in the same form."
            )
        self.is_sparse_ = is_sparse
        return X, self._check_labels(y, X.shape[0]), _check_weights(sample_weight, X.shape[0])

    def _check_selector(self, y):
        check_selector(self.selector)
        if y is None and getattr(self.selector, "_needs_y", False):
            raise ValueError(
                f"{type(self.selector).__name__} requires y to be passed, but the target y is None: "
                "give the labels of every chunk."
            )

    def _check_labels(self, y, n):
        if getattr(self, "has_y_", y is not None) != (y is not None):
            raise ValueError("y must be given with every chunk of a stream, or with none.")
        self.has_y_ = y is not None
        if y is None:
            return None
        y = np.asarray(y)
        if y.shape != (n,):
            raise ValueError(f"y must have shape ({n},), one label a row, got {y.shape}.")
        if not n:
            return y
        assert_all_finite(y, input_name="y")
        words = y.dtype.kind in "OUS"
        if getattr(self, "has_words_", words) != words:
            raise ValueError(
                f"y holds {'words' if words else 'numbers'}, but the stream began with "
                f"{'numbers' if words else 'words'}: they would be taken for further classes."
            )
        self.has_words_ = words
        return y

    def _rows(self, X, y, sample_weight):
        """Rows of an open chunk as a Node with ids from `n_seen_` on, once their values are checked."""
        X = X if sparse.issparse(X) else np.array(X)  # copies: no view of a file, or of what the caller may change
        if X.dtype.kind not in "fiub":
            X = X.astype(np.float64)
        finite = np.isfinite(X.data if sparse.issparse(X) else X)
        if not finite.all():
            raise ValueError("X contains NaN or infinity: every value of a stream must be finite.")
        n = X.shape[0]
        weights = np.ones(n) if sample_weight is None else np.array(sample_weight)
        return Node(X, None if y is None else np.array(y), weights, self.n_seen_ + np.arange(n))

    def _reduce(self, nodes, level, index):
        if sum(map(len, nodes)) > self.size:
            self.n_reductions_ += 1
        return reduce_nodes(nodes, self.selector, self.size, self.seed_, level, index)

    def root(self):
        """The coreset with its rows: ``(X, y, weights)``, `y` None if the stream has none.

        Raises
        ------
        ValueError
            before the first row, and where `size` or another option of the stream has changed since it began.
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
        """Shorthand for ``self.coreset_.take(X, *arrays)``, where the whole stream is at hand; `root` needs no data.

        Raises
        ------
        ValueError
            for an array that is shorter than the stream so far, and before the first row.
        """
        coreset = self.coreset_
        for n in [n_rows(a) for a in (X, *arrays) if a is not None]:
            if n < self.n_seen_:
                raise ValueError(
                    f"take needs the whole stream, {self.n_seen_} rows so far, got {n}; "
                    "root() gives the rows held, their labels and their weights."
                )
        return coreset.take(X, *arrays)

    def subset(self, dataset):
        """Shorthand for ``self.coreset_.subset(dataset)``, where the whole stream is at hand."""
        return self.coreset_.subset(dataset)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "seed_")
