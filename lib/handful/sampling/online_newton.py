"""The online Newton step on the restricted simplex, by which VRM learns with full and with bandit
feedback.

Everything here is about k mixture weights, with k about 10; the data do not appear.
"""

from typing import Annotated, Any

import numpy as np
from numba import njit

from handful.options import Positive, number
from handful.sampling.sampler import LARGEST_LOSS, check_losses
from handful.sampling.state import Stateful
from handful.tables import as_array


@njit(cache=True)
def newton_step(w, H, g, beta, gamma):  # noqa: PLR0912 (a kernel)
    """Lines 5-7 of VRM's Algorithms 1 and 2: update H, step, project in the norm of H; in place.

    The projection is the minimiser of (v - t)' H (v - t) over the simplex with v_k >= gamma, found
    by a primal active-set method: exact, a few k x k factorisations from a start near the solution.
    The step's end t = w - inverse(H) g / beta enters only as H t, so that the inverse is not
    needed.

    Parameters
    ----------
    w : array, shape (k,), the mixture weights; their zeros are the first guess of the active set
    H : array, shape (k, k), positive definite
    g : array, shape (k,), the gradient of the round's cost
    beta, gamma : floats, as in `handful.sampling.MixtureSampler`
    """
    k = w.size
    mass = 1.0 - gamma
    work = np.empty((k, k + 4))
    # Its columns: a matrix (k of them), a solution for `pull` and one for ones, then these two.
    PULL = k + 2
    FREE = k + 3
    for i in range(k):
        pull = -g[i] / beta
        for j in range(k):
            H[i, j] += g[i] * g[j]
            pull += H[i, j] * w[j]
        work[i, PULL] = pull - H[i, k - 1] * gamma
    # The unknown is w less its lower bounds: w >= 0, sum w = 1 - gamma.
    w[k - 1] = w[k - 1] - gamma if w[k - 1] > gamma else 0.0
    for i in range(k):
        work[i, FREE] = 1.0 if w[i] > 0.0 else 0.0
        if mass <= 0.0:
            w[i] = gamma if i == k - 1 else 0.0
    if mass <= 0.0:
        return
    # the objective falls, so it ends without a cap; the cap is for rounding
    for _ in range(50 * k):
        # Solve H x = pull and H y = 1 in the free entries, with rows of the identity for all
        # others.
        for i in range(k):
            free = work[i, FREE]
            for j in range(k):
                work[i, j] = H[i, j] * free * work[j, FREE]
            if free == 0.0:
                work[i, i] = 1.0
            work[i, k] = work[i, PULL] * free
            work[i, k + 1] = free
        for p in range(k):
            # rounding may leave nothing
            least = 1e-15 * H[p, p]
            if work[p, p] < least:
                work[p, p] = least
            for i in range(p + 1, k):
                factor = work[i, p] / work[p, p]
                if factor != 0.0:
                    for j in range(p + 1, k + 2):
                        work[i, j] -= factor * work[p, j]
        total = 0.0
        total_ones = 0.0
        for i in range(k - 1, -1, -1):
            for c in range(k, k + 2):
                rest = work[i, c]
                for j in range(i + 1, k):
                    rest -= work[i, j] * work[j, c]
                work[i, c] = rest / work[i, i]
            total += work[i, k]
            total_ones += work[i, k + 1]
        multiplier = (mass - total) / total_ones
        step = 1.0
        changed = -1
        for i in range(k):
            x = work[i, k] + multiplier * work[i, k + 1]
            work[i, k] = x
            if x < 0.0 and w[i] < step * (w[i] - x):
                step = w[i] / (w[i] - x)
                changed = i
        for i in range(k):
            w[i] += step * (work[i, k] - w[i])
        if changed >= 0:
            w[changed] = work[changed, FREE] = 0.0
            continue
        least = 0.0
        for i in range(k):
            if work[i, FREE] == 0.0:
                slope = -work[i, PULL] - multiplier
                size = abs(work[i, PULL]) + abs(multiplier)
                for j in range(k):
                    slope += H[i, j] * w[j]
                    size += abs(H[i, j] * w[j])
                if slope < least and slope < -1e-13 * size:
                    changed = i
                    least = slope
        if changed < 0:
            break
        work[changed, FREE] = 1.0
    total = 0.0
    for i in range(k):
        if w[i] < 0.0:
            w[i] = 0.0
        total += w[i]
    for i in range(k):
        w[i] *= mass / total
    w[k - 1] += gamma


@njit(cache=True)
def batch_gradient(rows, weights, losses, memory, scale, g):
    """Add the gradient of a batch's cost to `g` (VRM, Algorithm 2 with the delayed feedback of
    section 6.4).

    Parameters
    ----------
    rows : array, shape (b, k); n p_j(i) of each draw
    weights : array, shape (b,); the importance weights 1/(n q(i)) with which they were drawn
    losses : array, shape (b,)
    memory : array, shape (2,); sum of r l^2, its count; changed in place
    scale : float; 0 divides by the running mean of r l^2
    g : array of zeros, shape (k,), out

    Returns
    -------
    bool : False, and `g` as it was, where it is zero or cannot be told from it
    """
    b, k = rows.shape
    second_moment = 0.0
    for i in range(b):
        second_moment += weights[i] * losses[i] * losses[i]
    memory[0] += second_moment
    memory[1] += b
    if second_moment < 1e-280:
        return False
    unit = 1.0 / scale if scale > 0.0 else memory[1] / (memory[0] * b)
    for i in range(b):
        r = weights[i]
        factor = unit * losses[i] * losses[i] * r * r * r
        for j in range(k):
            g[j] -= factor * rows[i, j]
    return True


class Mixed:
    """Base of samplers that draw from a mixture, whose weights are learned by a `NewtonLearner`
    unless they are given, and its options."""

    beta: Annotated[
        float, number(least=1e-15, why="from a longer step there is no way back to the simplex")
    ]
    gamma: Annotated[
        float, number(least=0, most=1, why="it is the least share of the uniform component")
    ]
    eps: Positive

    def _set_weights(self, given, k, scale=None):
        # Of `k` components; `given` is None for weights that are learned.
        self._learner = NewtonLearner(
            k, beta=self.beta, gamma=self.gamma, eps=self.eps, scale=scale
        )
        self._fixed = given is not None
        self._w = _checked_weights(given, k) if self._fixed else self._learner.w

    @property
    def mixture_weights(self) -> Any:
        """The mixture weights, shape (k,), the uniform component's last."""
        return self._w.copy()


def _checked_weights(given, k):
    if isinstance(given, str) and given == "equal":
        return np.full(k, 1.0 / k)
    w = np.array(as_array(given))
    is_numbers = w.shape == (k,) and w.dtype.kind in "iuf"
    if not is_numbers or not (w >= 0).all() or abs(w.sum() - 1.0) > 1e-6:
        raise ValueError(
            f"mixture_weights must be {k} numbers >= 0 that add up to one, 'equal', or None to "
            f"learn them; got {given!r}."
        )
    return w.astype(np.float64)


class NewtonLearner(Stateful):
    """Mixture weights learned by online Newton steps; samplers that are `Mixed` hold one, and
    check its options.

    Parameters
    ----------
    k : int, number of components
    beta : float of at least 1e-15, inverse step length
    gamma : float in [0, 1], least weight of the last component
    eps : float > 0, H starts as eps I
    scale : None divides squared losses by the running mean of r l^2, so that beta, gamma and eps
        have no units; a number divides the cost f(w)/n^2 by it

    Attributes
    ----------
    w : array, shape (k,), the weights, starting at 1/k (or the nearest point with w_k >= gamma)
    """

    _state = ("w", "H", "memory")

    def __init__(self, k, *, beta, gamma, eps, scale=None) -> None:
        self.w = np.full(k, 1.0 / k)
        if gamma > 1.0 / k:
            self.w[:-1] = (1.0 - gamma) / (k - 1)
            self.w[-1] = gamma
        self.H = eps * np.eye(k)
        self.memory = np.zeros(2)
        self.settings = float(beta), float(gamma), float(scale or 0.0)

    def step(self, rows, weights, losses):
        """One update from a batch; see `batch_gradient`. ValueError for losses out of range, see
        `check_losses`."""
        check_losses(losses)
        g = np.zeros(len(self.w))
        if batch_gradient(rows, weights, losses, self.memory, self.settings[2], g):
            self.gradient_step(g)

    def gradient_step(self, g):
        """One update from the gradient `g`, shape (k,), of the round's cost (VRM, Algorithm 1,
        lines 5-7)."""
        if not np.abs(g).max() < LARGEST_LOSS:
            raise ValueError(
                "the losses overflow in units of scale, as their squares are added up: raise scale."
            )
        newton_step(self.w, self.H, g, *self.settings[:2])
