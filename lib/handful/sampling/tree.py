"""Sum trees: the sums of k columns of priorities, from which a leaf is drawn and changed in O(log
n)."""

import numpy as np
from numba import njit


def build_tree(leaves):
    """Sum tree of `leaves`, shape (n, k), k sums side by side: shape (2 m, k), m the power of two
    from n up.

    Node 1 is the root, node i has the children 2 i and 2 i + 1, leaf i is node m + i.
    """
    m = 1 << (len(leaves) - 1).bit_length()
    tree = np.zeros((2 * m, leaves.shape[1]))
    tree[m : m + len(leaves)] = leaves
    while m > 1:
        tree[m // 2 : m] = tree[m : 2 * m : 2] + tree[m + 1 : 2 * m : 2]
        m //= 2
    return tree


def leaves_of(tree, n):
    """The first `n` leaves, a view of shape (n, k)."""
    return tree[len(tree) // 2 :][:n]


@njit(cache=True)
def find_leaf(tree, column, u):
    """The leaf at share `u` in [0, 1) of the root's sum in `column`, never one of weight zero.
    O(log n)."""
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
def draw_leaves(uniforms, w, tree, n):
    """Draw from the mixture of the tree's columns and, last, the uniform distribution over `n`
    leaves.

    Parameters
    ----------
    uniforms : array, shape (2, b)
    w : array, shape (k,), mixture weights, one more than the tree has columns
    tree : array, shape (2 m, k - 1), sums of the priorities
    n : int, leaves in use, the first ones

    Returns
    -------
    indices : int array, shape (b,)
    weights : array, shape (b,), 1/(n q)
    rows : array, shape (b, k), n p_j
    """
    b = uniforms.shape[1]
    k = w.size
    m = tree.shape[0] // 2
    indices = np.empty(b, np.int64)
    weights = np.empty(b)
    rows = np.ones((b, k))
    cumulative = np.cumsum(w)
    cumulative[:] /= cumulative[-1]
    for i in range(b):
        component = 0
        for j in range(k - 1):
            component += uniforms[0, i] >= cumulative[j]
        if component < k - 1:
            indices[i] = find_leaf(tree, component, uniforms[1, i])
        else:
            indices[i] = min(np.int64(uniforms[1, i] * n), n - 1)
        q = w[k - 1]
        for j in range(k - 1):
            rows[i, j] = n * tree[m + indices[i], j] / tree[1, j]
            q += w[j] * rows[i, j]
        weights[i] = 1.0 / q
    return indices, weights, rows


@njit(cache=True)
def set_leaves(tree, leaves, values):
    """Give `leaves` their `values`, shape (b, k), in turn, and set the sums above them anew. O(b k
    log n)."""
    for i in range(leaves.size):
        node = tree.shape[0] // 2 + leaves[i]
        tree[node] = values[i]
        node //= 2
        while node > 0:
            for j in range(tree.shape[1]):
                tree[node, j] = tree[2 * node, j] + tree[2 * node + 1, j]
            node //= 2
