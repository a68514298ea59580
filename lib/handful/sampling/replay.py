"""Prioritised replay with any number of (alpha, eps) settings, over one sum tree (VRM, section
6.3)."""

import numpy as np

from handful.checks import LARGEST, check_integer
from handful.options import explained
from handful.sampling.online_newton import Mixed
from handful.sampling.sampler import Sampler, as_vector
from handful.sampling.tree import build_tree, draw_leaves, leaves_of, set_leaves

# Batches whose errors have yet to come, of which it is known which transitions they held
OPEN = 64

# The nine components of the paper's CartPole experiment, as (alpha, eps)
GRID = tuple((alpha, eps) for alpha in (0.1, 0.5, 0.9) for eps in (0.01, 0.1, 1.0))


class PrioritizedReplay(Mixed, Sampler):
    """Which transitions of a replay buffer to learn from: a learned mixture of prioritised
    samplers.

    Component j draws transition i with probability proportional to ``(|delta_i| + eps_j)^alpha_j``,
    delta_i its last temporal-difference error (Schaul et al. 2016); the uniform component comes
    last. The buffer of transitions itself is the caller's: this class deals in slots. Errors of
    transitions that are gone, because `add` gave their slots to others between `sample` and
    `update`, are dropped.

    Parameters
    ----------
    capacity : int
        Slots; when all are filled the oldest are used again.
    components : sequence of pairs of float, default=GRID
        Pairs (alpha, eps), alpha >= 0 and eps > 0; the paper's nine by default.
    beta, gamma, eps : float, default=0.5, 0.01 and 1000.0
        As in `MixtureSampler`.
    mixture_weights : array, "equal" or None, default=None
        As in `MixtureSampler`, of len(components) + 1 components.
    batch_size : int, default=64
        Transitions a batch.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

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

    _places = ("n", "_at", "_n_added", "_transitions", "_n_drawn", "_open")
    _state = (*Sampler._state, *_places, "_greatest", "_tree", "_learner")
    _same = ("capacity", "batch_size", "_fixed")

    @explained
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
    ) -> None:
        self.capacity = capacity
        self.beta = beta
        self.gamma = gamma
        self.eps = eps
        check_integer("capacity", capacity, of=self)
        super().__init__(capacity, batch_size=batch_size, random_state=random_state)
        try:
            pairs = np.asarray(components, dtype=np.float64)
        except (TypeError, ValueError):
            # not of one length, or no numbers: told below
            pairs = np.zeros(0)
        good = pairs.ndim == 2 and pairs.shape[1] == 2 and len(pairs) and np.isfinite(pairs).all()
        if not good or pairs.min() < 0 or not pairs[:, 1].all():
            raise ValueError(f"components must be pairs (alpha >= 0, eps > 0), got {components}.")
        self.n = 0
        self._at = 0
        self._greatest = None
        self._n_added = 0
        self._n_drawn = 0
        # which one lies in each slot, counted from the first
        self._transitions = np.full(self.capacity, -1)
        self._open: list = []
        self._alphas, self._epsilons = pairs.T
        self._tree = build_tree(np.zeros((self.capacity, len(pairs))))
        self._set_weights(mixture_weights, len(pairs) + 1)

    @property
    def probabilities(self):
        """The distribution q over the transitions held, shape (n,); RuntimeError of none."""
        self._check_not_empty()
        w = self._w
        return leaves_of(self._tree, self.n) / self._tree[1] @ w[:-1] + w[-1] / self.n

    def add(self, count=1):
        """Slots for `count` new transitions, int array; each starts with the greatest error seen so
        far, with 1 before the first."""
        check_integer("count", count, most=self.capacity, why="that is the capacity")
        slots = (self._at + np.arange(count)) % self.capacity
        error = 1.0 if self._greatest is None else self._greatest
        set_leaves(self._tree, slots, self._priorities(np.full(count, error)))
        self._transitions[slots] = self._n_added + np.arange(count)
        self._at = (self._at + count) % self.capacity
        self._n_added += count
        self.n = min(self.n + count, self.capacity)
        return slots

    def update(self, errors, indices=None, weights=None):
        """Take the temporal-difference errors of a batch, of either sign; see `Sampler.update`.

        The errors of transitions whose slots have been used again since `sample` are dropped. With
        `indices` and `weights` that is known for the last 64 batches that wait for their errors;
        give the weights of `sample`.
        """
        super().update(np.abs(as_vector(errors)), indices, weights)

    def _priorities(self, errors):
        with np.errstate(over="ignore", under="ignore"):
            found = (errors[:, None] + self._epsilons) ** self._alphas
        if not ((found > 0) & (found < LARGEST / self.capacity)).all():
            raise ValueError(
                f"(|error| + eps)^alpha must be a positive finite number, got {found.min()}, "
                f"{found.max()}."
            )
        return found

    def _check_not_empty(self):
        if self.n == 0:
            raise RuntimeError("the replay is empty: call add() before sample().")

    def _draw(self):
        self._check_not_empty()
        uniforms = self.rng.random((2, self.batch_size))
        indices, weights, rows = draw_leaves(uniforms, self._w, self._tree, self.n)
        number = np.full(self.batch_size, self._n_drawn)
        self._n_drawn += 1
        drawn = indices, weights, rows, self._transitions[indices], number
        self._open = [*self._open[1 - OPEN :], drawn]
        return drawn

    def _drawn_earlier(self, indices, weights):
        # A slot may have been drawn in several open batches. The first that holds all draws is
        # meant, or else for each draw the one with the nearest weight. Weights are compared as a
        # loader delivers them, in float32.
        rows = np.c_[
            self.n * leaves_of(self._tree, self.n)[indices] / self._tree[1], np.ones(len(indices))
        ]
        transitions = self._transitions[indices]
        number = np.full(len(indices), -1)
        if self._open:
            slots, open_weights, *others = (np.concatenate(part) for part in zip(*self._open))
            given = weights.astype(np.float32)[:, None]
            gap = np.abs(given - open_weights.astype(np.float32)) / given
            gap[indices[:, None] != slots] = np.inf
            first_of_batch = np.flatnonzero(np.diff(others[-1], prepend=-1))
            holds_all = (np.minimum.reduceat(gap, first_of_batch, axis=1) == 0).all(axis=0)
            if holds_all.any():
                gap[:, others[-1] != others[-1][first_of_batch[holds_all.argmax()]]] = np.inf
            drawn = np.isfinite(gap).any(axis=1)
            first = gap.argmin(axis=1)[drawn]
            rows[drawn], transitions[drawn], number[drawn] = (part[first] for part in others)
        return indices, weights, rows, transitions, number

    def _learn(self, drawn, losses):
        indices, weights, rows, transitions, number = drawn
        held = transitions == self._transitions[indices]
        if held.any():
            priorities = self._priorities(losses[held])
            if not self._fixed:
                self._learner.step(rows[held], weights[held], losses[held])
            greatest = float(losses[held].max())
            self._greatest = max(greatest, self._greatest or 0.0)
            set_leaves(self._tree, indices[held], priorities)
        left = [_without(batch, indices, number) for batch in self._open]
        self._open = [batch for batch in left if len(batch[0])]


def _without(batch, indices, number):
    # What is left of a batch when errors of these slots have come for the batches of these numbers.
    waits = ~np.isin(batch[0], indices[number == batch[-1][0]])
    return [part[waits] for part in batch]
