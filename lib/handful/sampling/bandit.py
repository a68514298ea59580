"""Importance sampling learned point by point: the Variance Reducer Bandit (VRB), over a sum
tree."""

from typing import Annotated

import numpy as np

from handful.options import Positive, explained, number
from handful.sampling.sampler import Sampler
from handful.sampling.tree import build_tree, draw_leaves, leaves_of, set_leaves


class BanditSampler(Sampler):
    """Importance sampling that learns every point's probability (VRB; Borsos, Krause and Levy
    2018).

    Keeps S_i = reg + the sum of l^2/q over the draws of point i, and draws i with probability q(i)
    = (1 - theta) sqrt(S_i) / sum_j sqrt(S_j) + theta/n. O(log n) a draw and an update, by a sum
    tree.

    Parameters
    ----------
    n : int
        Number of points.
    theta : float, default=0.3
        The uniform share, from 1e-12 to 1.
    regularisation : float or None, default=None
        The paper's reg, positive; None takes n/theta times the mean squared loss of the first batch
        that has a loss, the value of the regret bound with that mean for the bound on the squared
        losses.
    batch_size : int, default=100
        Points a batch.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

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

    theta: Annotated[float, number(least=1e-12, most=1, why="it is the uniform share")]
    regularisation: Positive | None

    _state = (*Sampler._state, "regularisation", "_tree")

    @explained
    def __init__(
        self, n, *, theta=0.3, regularisation=None, batch_size=100, random_state=None
    ) -> None:
        self.theta = theta
        self.regularisation = regularisation
        super().__init__(n, batch_size=batch_size, random_state=random_state)
        self._tree = build_tree(np.full((self.n, 1), np.sqrt(regularisation or 1.0)))

    @property
    def probabilities(self):
        """The distribution q that points are drawn from now, shape (n,)."""
        return (1 - self.theta) * leaves_of(self._tree, self.n)[:, 0] / self._tree[
            1, 0
        ] + self.theta / self.n

    def _draw(self):
        uniforms = self.rng.random((2, self.batch_size))
        # those below theta draw uniformly
        uniforms[0] = 1 - uniforms[0]
        return draw_leaves(uniforms, np.array([1.0 - self.theta, self.theta]), self._tree, self.n)[
            :2
        ]

    def _learn(self, drawn, losses):
        indices, weights = drawn
        # draws are uniform until a loss is seen, so the scale can still be set
        if self.regularisation is None:
            mean = float((losses**2).mean())
            if mean == 0:
                return
            self.regularisation = self.n / self.theta * mean
            self._tree = build_tree(np.full((self.n, 1), np.sqrt(self.regularisation)))
        drawn, draw = np.unique(indices, return_inverse=True)
        squares = leaves_of(self._tree, self.n)[drawn, 0] ** 2
        # l^2/q; equal draws in one batch add up
        squares += np.bincount(draw, losses**2 * weights * self.n)
        set_leaves(self._tree, drawn, np.sqrt(squares)[:, None])
