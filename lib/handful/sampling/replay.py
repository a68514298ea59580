"""Prioritised replay with any number of (alpha, eps) settings, over one sum tree (VRM, section 6.3)."""

import numpy as np
from numba import njit

from handful.checks import check_integer
from handful.sampling.bandit import build_tree, find_leaf, set_leaf
from handful.sampling.base import Sampler, as_vector, check_losses
from handful.sampling.newton import Learned, NewtonLearner, check_mixture_weights

# The nine components of the paper's CartPole experiment, as (alpha, eps)
GRID = tuple((alpha, eps) for alpha in (0.1, 0.5, 0.9) for eps in (0.01, 0.1, 1.0))


@njit(cache=True)
def draw_transitions(uniforms, w, tree, n):
    """Draw from the mixture of the tree's columns and, last, the uniform distribution over `n` leaves.

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
    b, k = uniforms.shape[1], w.size
    m = tree.shape[0] // 2
    indices, weights, rows = np.empty(b, np.int64), np.empty(b), np.ones((b, k))
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
def set_priority(tree, leaf, error, alphas, epsilons):
    """Refresh one transition's priorities (|error| + eps)^alpha in all columns. O(k log n)."""
    values = np.empty(alphas.size)
    for j in range(alphas.size):
        values[j] = (abs(error) + epsilons[j]) ** alphas[j]
    set_leaf(tree, leaf, values)


@njit(cache=True)
def set_priorities(tree, leaves, errors, alphas, epsilons):
    """`set_priority` for several transitions, in turn."""
    for i in range(leaves.size):
        set_priority(tree, leaves[i], errors[i], alphas, epsilons)


class PrioritizedReplay(Learned, Sampler):
    """Which transitions of a replay buffer to learn from: a learned mixture of prioritised samplers.

    Component j draws transition i with probability proportional to ``(|delta_i| + eps_j)^alpha_j``, delta_i its
    last temporal-difference error (Schaul et al. 2016); the uniform component comes last. The buffer of
    transitions itself is the caller's: this class deals in slots.

    Parameters
    ----------
    capacity : int, slots; when all are filled the oldest are used again
    components : pairs (alpha, eps), alpha >= 0 and eps > 0; the paper's nine by default
    beta, gamma, eps : as in `MixtureSampler`
    mixture_weights : array, shape (len(components) + 1,), or None; given weights stay as they are
    batch_size : int
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    n : int, transitions held

    Examples
    --------
    >>> replay = PrioritizedReplay(1000, batch_size=2, random_state=0)
    >>> slots = replay.add(10)                      # store the transitions at these places
    >>> slots.tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> indices, weights = replay.sample()
    >>> replay.update([0.5, -2.0])                  # their temporal-difference errors
    """

    def __init__(
        self,
        capacity,
        *,
        components=GRID,
        beta=0.5,
        gamma=0.01,
        eps=1000.0,
        mixture_weights=None,
        batch_size=64,
        random_state=None,
    ):
        check_integer("capacity", capacity)
        super().__init__(capacity, batch_size=batch_size, random_state=random_state)
        components = np.array(components)
        if components.ndim != 2 or components.shape[1] != 2 or components.dtype.kind not in "fiu":
            raise ValueError(f"components must be pairs (alpha >= 0, eps > 0), got shape {components.shape}.")
        components = components.astype(np.float64)
        if len(components) == 0 or not (np.isfinite(components).all() and (components >= 0).all()):
            raise ValueError(f"components must be pairs (alpha >= 0, eps > 0), got {components.tolist()}.")
        if not (components[:, 1] > 0).all():
            raise ValueError("every component needs an eps > 0: a transition without error could not come back.")
        self.capacity, self.n = self.n, 0
        self._alphas, self._epsilons = np.ascontiguousarray(components.T)
        self._tree = build_tree(np.zeros((self.capacity, len(components))))
        self._rows = np.ones((self.batch_size, len(components) + 1))
        self._next, self._greatest = 0, 1.0
        self._learner = NewtonLearner(len(components) + 1, beta=beta, gamma=gamma, eps=eps)
        self._fixed = mixture_weights is not None
        if self._fixed:
            self._learner.w[:] = check_mixture_weights(mixture_weights, len(components) + 1)

    @property
    def probabilities(self):
        """The distribution q over the transitions held, shape (n,)."""
        leaves = self._tree[len(self._tree) // 2 :][: self.n]
        w = self._learner.w
        return leaves / self._tree[1] @ w[:-1] + w[-1] / self.n

    def add(self, count=1):
        """Slots for `count` new transitions, int array; each starts with the greatest error seen so far."""
        check_integer("count", count, most=self.capacity, why="that is the capacity")
        slots = (self._next + np.arange(count)) % self.capacity
        set_priorities(self._tree, slots, np.full(count, self._greatest), self._alphas, self._epsilons)
        self._next = (self._next + count) % self.capacity
        self.n = min(self.n + count, self.capacity)
        return slots

    def update(self, errors, indices=None, weights=None):
        """Take the temporal-difference errors of a batch, of either sign; see `Sampler.update`."""
        super().update(np.abs(as_vector(errors)), indices, weights)

    def _draw(self):
        if self.n == 0:
            raise RuntimeError("the replay is empty: call add() before sample().")
        uniforms = self.rng.random((2, self.batch_size))
        indices, weights, self._rows = draw_transitions(uniforms, self._learner.w, self._tree, self.n)
        return indices, weights

    def _learn(self, indices, weights, losses):
        check_losses(losses)
        rows = self._rows
        if indices is None:
            indices = self._last[0]
        else:
            leaves = self._tree[len(self._tree) // 2 + indices]
            rows = np.c_[self.n * leaves / self._tree[1], np.ones(len(indices))]
        if not self._fixed:
            self._learner.step(rows, weights, losses)
        self._greatest = max(self._greatest, float(losses.max()))
        set_priorities(self._tree, indices, losses, self._alphas, self._epsilons)
