"""Importance sampling learned point by point: the Variance Reducer Bandit (VRB), over a sum tree."""

import numpy as np
from numba import njit

from handful.checks import check_number
from handful.sampling.base import Sampler, check_losses


@njit(cache=True)
def build_tree(leaves):
    """Sum tree of `leaves`, shape (n, c), c sums side by side: shape (2 m, c), m the power of two from n up.

    Node 1 is the root, node i has the children 2 i and 2 i + 1, leaf i is node m + i.
    """
    m = 1
    while m < leaves.shape[0]:
        m *= 2
    tree = np.zeros((2 * m, leaves.shape[1]))
    tree[m : m + leaves.shape[0]] = leaves
    for i in range(m - 1, 0, -1):
        for j in range(leaves.shape[1]):
            tree[i, j] = tree[2 * i, j] + tree[2 * i + 1, j]
    return tree


@njit(cache=True)
def find_leaf(tree, column, u):
    """The leaf at share `u` in [0, 1) of the root's sum in `column`, never one of weight zero. O(log n)."""
    m = tree.shape[0] // 2
    rest = u * tree[1, column]
    node = 1
    while node < m:
        node *= 2
        left = tree[node, column]
        if rest >= left and tree[node + 1, column] > 0.0:
            rest -= left
            node += 1
    return node - m


@njit(cache=True)
def set_leaf(tree, leaf, values):
    """Give `leaf` the `values`, shape (c,), and set the sums above it anew; O(c log n)."""
    node = tree.shape[0] // 2 + leaf
    tree[node] = values
    node //= 2
    while node > 0:
        for j in range(values.size):
            tree[node, j] = tree[2 * node, j] + tree[2 * node + 1, j]
        node //= 2


@njit(cache=True)
def _draw(uniforms, tree, n, theta):
    b = uniforms.shape[1]
    m = tree.shape[0] // 2
    indices, weights = np.empty(b, np.int64), np.empty(b)
    for i in range(b):
        u = uniforms[0, i]
        if u < theta:
            indices[i] = min(np.int64(uniforms[1, i] * n), n - 1)
        else:
            indices[i] = find_leaf(tree, 0, uniforms[1, i])
        share = (1.0 - theta) * tree[m + indices[i], 0] / tree[1, 0] + theta / n
        weights[i] = 1.0 / (n * share)
    return indices, weights


@njit(cache=True)
def _add(tree, indices, weights, losses, n):
    """Add l^2/q to the squares of the leaves drawn; equal draws in one batch add up."""
    m = tree.shape[0] // 2
    value = np.empty(1)
    for i in range(indices.size):
        square = tree[m + indices[i], 0] ** 2
        value[0] = np.sqrt(square + losses[i] ** 2 * weights[i] * n)
        set_leaf(tree, indices[i], value)


class BanditSampler(Sampler):
    """Importance sampling that learns every point's probability (VRB; Borsos, Krause and Levy 2018).

    Keeps S_i = reg + the sum of l^2/q over the draws of point i, and draws i with probability
    q(i) = (1 - theta) sqrt(S_i) / sum_j sqrt(S_j) + theta/n. O(log n) a draw and an update, by a sum tree.

    Parameters
    ----------
    n : int, number of points
    theta : float in (0, 1], the uniform share
    regularisation : float > 0 or None, reg; None takes n/theta times the mean squared loss of the first
        batch, the value of the regret bound with that mean for the bound on the squared losses
    batch_size : int
    random_state : int, Generator, RandomState or None

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.0, 0.0, 0.0, 5.0])
    >>> sampler = BanditSampler(4, batch_size=2, random_state=0)
    >>> for _ in range(50):
    ...     indices, weights = sampler.sample()
    ...     sampler.update(losses[indices])
    >>> int(sampler.probabilities.argmax())
    3
    """

    def __init__(self, n, *, theta=0.3, regularisation=None, batch_size=100, random_state=None):
        super().__init__(n, batch_size=batch_size, random_state=random_state)
        check_number("theta", theta, above=0, most=1, why="it is the uniform share")
        if regularisation is not None:
            check_number("regularisation", regularisation, above=0)
        self.theta = float(theta)
        self._scaled = regularisation is not None
        self._tree = build_tree(np.full((self.n, 1), np.sqrt(regularisation or 1.0)))

    @property
    def probabilities(self):
        """The distribution q that points are drawn from now, shape (n,)."""
        roots = self._tree[len(self._tree) // 2 :][: self.n, 0]
        return (1 - self.theta) * roots / self._tree[1, 0] + self.theta / self.n

    def _draw(self):
        return _draw(self.rng.random((2, self.batch_size)), self._tree, self.n, self.theta)

    def _learn(self, indices, weights, losses):
        check_losses(losses)
        if not self._scaled:  # draws are uniform until a loss is seen, so the scale can still be set
            mean = float((losses**2).mean())
            if mean == 0:
                return
            self._tree = build_tree(np.full((self.n, 1), np.sqrt(self.n / self.theta * mean)))
            self._scaled = True
        if indices is None:
            indices = self._last[0]
        _add(self._tree, indices, weights, losses, self.n)
