"""The tree of merge and reduce: its nodes, and how several become one.

The union of two coresets is a coreset of the union of their data. So the data are cut into leaves, over which stands a
binary tree: node (level, index) covers the `2^level` leaves from ``index * 2^level`` on, holds at most `size` weighted
rows, and draws its random numbers from a generator seeded with its own place. A node without data is left out.
`MergeReduce` computes the nodes that a stream needs, and forgets the others; `DynamicMergeReduce` keeps all of them, so
that a change recomputes only the nodes above it; `handful.distributed` computes them in many processes.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import clone

from handful.coreset import choose


@dataclass(frozen=True)
class Node:
    """Weighted rows and their positions in the stream.

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
        """The rows at some places: a Node."""
        return Node(self.X[rows], None if self.y is None else self.y[rows], self.weights[rows], self.ids[rows])

    def of_positive_weight(self):
        """The rows whose weight is not 0: a Node."""
        return self if (self.weights > 0).all() else self.take(np.flatnonzero(self.weights > 0))


def concatenate(nodes):
    """The union of several nodes: a Node with the rows of the first one first."""
    if len(nodes) == 1:
        return nodes[0]
    rows = [n.X for n in nodes]
    X = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.concatenate(rows)
    y = None if nodes[0].y is None else np.concatenate([n.y for n in nodes])
    return Node(X, y, np.concatenate([n.weights for n in nodes]), np.concatenate([n.ids for n in nodes]))


def reduce_nodes(nodes, selector, size, rng):
    """The node above `nodes`: a coreset of at most `size` rows of their union.

    A union of at most `size` rows is kept as it is, one of at most `size` rows of positive weight without the others;
    otherwise `handful.coreset.choose` selects from it.

    Parameters
    ----------
    nodes : list of Node
    selector : Selector; its `size` and `random_state` are set here
    size : int
    rng : numpy.random.Generator, seeded with ``[seed of the tree, level, index]`` so that the node depends on its place

    Returns
    -------
    Node
    """
    union = concatenate(nodes)
    if len(union) <= size:
        return union
    if np.count_nonzero(union.weights) <= size:  # optimised weights may be 0
        return union.of_positive_weight()
    selector = clone(selector).set_params(size=size, random_state=rng)
    chosen, weights = choose(selector, union.X, union.y, union.weights, rng)
    reduced = union.take(chosen)
    return Node(reduced.X, reduced.y, np.asarray(weights, dtype=np.float64), reduced.ids)
