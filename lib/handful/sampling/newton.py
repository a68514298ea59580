"""The online Newton step on the restricted simplex, by which VRM learns with full and with bandit feedback.

Everything here is about k mixture weights, with k about 10; the data do not appear.
"""

import numpy as np
from numba import njit

from handful.checks import check_integer, check_number
from handful.linalg import restricted_simplex_point
from handful.sampling.base import LARGEST_LOSS, check_losses

LEARNED = ("_learner.w", "_learner.H", "_learner.H_inv", "_learner.memory")  # what a step changes, for `state_dict`
REFRESH_AFTER = 500  # updates after which the inverse is computed anew, which keeps rounding from piling up
DONE, OUT_OF_RANGE, NO_GRADIENT, REFRESH = range(4)  # what a step ends with


@njit(cache=True, inline="always")
def sherman_morrison(H_inv, g):
    """Turn the inverse of H into that of H + g g', in place, O(k^2) (VRM, section 5).

    Returns
    -------
    array, shape (k,) : the new inverse times g, the Newton direction
    """
    k = g.size
    v = np.empty(k)
    curvature = 1.0
    for i in range(k):
        total = 0.0
        for j in range(k):
            total += H_inv[i, j] * g[j]
        v[i] = total
        curvature += total * g[i]
    for i in range(k):
        for j in range(k):
            H_inv[i, j] -= v[i] * v[j] / curvature
    for i in range(k):
        v[i] /= curvature
    return v


@njit(cache=True)
def _cholesky_solve(H, free, n_free, b, factor, x, y):
    """Solve H_FF x = b_F and H_FF y = 1 for the `n_free` indices in `free`; x, y hold their first entries.

    The factor goes into `factor`, shape (k * k,), row by row.
    """
    k = len(H)
    for i in range(n_free):
        for j in range(i + 1):
            total = H[free[i], free[j]]
            for m in range(j):
                total -= factor[i * k + m] * factor[j * k + m]
            if i == j:
                factor[i * k + i] = np.sqrt(max(total, 1e-15 * H[free[i], free[i]]))  # rounding may leave nothing
            else:
                factor[i * k + j] = total / factor[j * k + j]
        total_x, total_y = b[free[i]], 1.0
        for m in range(i):
            total_x -= factor[i * k + m] * x[m]
            total_y -= factor[i * k + m] * y[m]
        x[i], y[i] = total_x / factor[i * k + i], total_y / factor[i * k + i]
    for i in range(n_free - 1, -1, -1):
        total_x, total_y = x[i], y[i]
        for m in range(i + 1, n_free):
            total_x -= factor[m * k + i] * x[m]
            total_y -= factor[m * k + i] * y[m]
        x[i], y[i] = total_x / factor[i * k + i], total_y / factor[i * k + i]


@njit(cache=True)
def project_in_norm(H, target, gamma, start):
    """The minimiser of (w - target)' H (w - target) over the simplex with w_k >= gamma (Algorithm 2, line 7).

    A primal active-set method: exact, a few k x k factorisations from a start near the solution.

    Parameters
    ----------
    H : array, shape (k, k), positive definite
    target : array, shape (k,)
    gamma : float in [0, 1], the least weight of the last entry
    start : array, shape (k,), a point of the restricted simplex; its zeros are the first guess of the active
        set

    Returns
    -------
    array, shape (k,), a new one
    """
    k = target.size
    mass = 1.0 - gamma
    x = start.copy()  # the unknown is w less its lower bounds: x >= 0, sum x = 1 - gamma
    x[k - 1] = max(x[k - 1] - gamma, 0.0)
    if mass <= 0.0:
        for i in range(k):
            x[i] = 0.0
        x[k - 1] = gamma
        return x
    b = np.empty(k)  # H (target - lower bounds)
    for i in range(k):
        total = -H[i, k - 1] * gamma
        for j in range(k):
            total += H[i, j] * target[j]
        b[i] = total
    is_free = np.empty(k, np.bool_)
    for i in range(k):
        is_free[i] = x[i] > 0.0
    free = np.empty(k, np.int64)
    factor = np.empty(k * k)  # of one dimension, as making an array of two takes a second to compile
    y, ones = np.empty(k), np.empty(k)
    for _ in range(50 * k):  # the objective falls, so it ends without a cap; the cap is for rounding
        n_free = 0
        for i in range(k):
            if is_free[i]:
                free[n_free] = i
                n_free += 1
        _cholesky_solve(H, free, n_free, b, factor, y, ones)
        total, total_ones = 0.0, 0.0
        for a in range(n_free):
            total += y[a]
            total_ones += ones[a]
        multiplier = (mass - total) / total_ones
        step, blocking = 1.0, -1
        for a in range(n_free):
            y[a] += multiplier * ones[a]
            if y[a] < 0.0:
                ratio = x[free[a]] / (x[free[a]] - y[a])
                if ratio < step:
                    step, blocking = ratio, free[a]
        for a in range(n_free):
            x[free[a]] += step * (y[a] - x[free[a]])
        if blocking >= 0:
            x[blocking] = 0.0
            is_free[blocking] = False
            continue
        worst, worst_slope = -1, 0.0
        for i in range(k):
            if not is_free[i]:
                slope, size = -b[i] - multiplier, abs(b[i]) + abs(multiplier)
                for a in range(n_free):
                    slope += H[i, free[a]] * x[free[a]]
                    size += abs(H[i, free[a]] * x[free[a]])
                if slope < worst_slope and slope < -1e-13 * size:
                    worst, worst_slope = i, slope
        if worst < 0:
            break
        is_free[worst] = True
    total = 0.0
    for i in range(k):
        x[i] = max(x[i], 0.0)
        total += x[i]
    for i in range(k):
        x[i] *= mass / total
    x[k - 1] += gamma
    return x


@njit(cache=True)
def project_by_gradient(H, target, gamma, start, n_steps):
    """A few projected-gradient steps of length 0.2 towards `project_in_norm`'s answer: the authors' code.

    The step is not scaled by the norm of H: with a large H it oscillates, with few steps it stays near
    `start`.
    """
    k = target.size
    x, moved = start.copy(), np.empty(k)
    for _ in range(n_steps):
        for i in range(k):
            slope = 0.0
            for j in range(k):
                slope += H[i, j] * (x[j] - target[j])
            moved[i] = x[i] - 0.2 * slope
        x = restricted_simplex_point(moved, gamma)
    return x


@njit(cache=True, inline="always")
def _newton_target(w, H, H_inv, g, beta):
    # Lines 5 and 6: update H and its inverse in place; the step, not yet projected.
    target = sherman_morrison(H_inv, g)
    for i in range(g.size):
        target[i] = w[i] - target[i] / beta
        for j in range(g.size):
            H[i, j] += g[i] * g[j]
    return target


@njit(cache=True, inline="always")
def newton_step(w, H, H_inv, g, memory, settings):
    """Lines 5-7 of VRM's Algorithms 1 and 2: update H and its inverse, step, project exactly; all in place.

    Parameters
    ----------
    w : array, shape (k,), the mixture weights
    H, H_inv : arrays, shape (k, k)
    g : array, shape (k,), the gradient of the round's cost
    memory, settings : as in `batch_step`

    Returns
    -------
    int : `DONE`, or `REFRESH` when `invert` is due
    """
    beta, gamma, _ = settings
    moved = project_in_norm(H, _newton_target(w, H, H_inv, g, beta), gamma, w)
    for i in range(g.size):
        w[i] = moved[i]
    memory[2] += 1
    return REFRESH if memory[2] % REFRESH_AFTER == 0 else DONE


@njit(cache=True)
def newton_step_by_gradient(w, H, H_inv, g, memory, settings, n_steps):
    """As `newton_step`, with `project_by_gradient` for the exact projection."""
    beta, gamma, _ = settings
    moved = project_by_gradient(H, _newton_target(w, H, H_inv, g, beta), gamma, w, n_steps)
    for i in range(g.size):
        w[i] = moved[i]
    memory[2] += 1
    return REFRESH if memory[2] % REFRESH_AFTER == 0 else DONE


@njit(cache=True)
def invert(H, out):
    """Write the inverse of H, shape (k, k), to `out`."""
    k = len(H)
    every, factor = np.empty(k, np.int64), np.empty(k * k)
    unit, column, ones = np.empty(k), np.empty(k), np.empty(k)
    for j in range(k):
        every[j], unit[j] = j, 0.0
    for j in range(k):
        unit[j] = 1.0
        _cholesky_solve(H, every, k, unit, factor, column, ones)
        unit[j] = 0.0
        for i in range(k):
            out[i, j] = column[i]


@njit(cache=True, inline="always")
def batch_gradient(rows, weights, losses, memory, scale, g):
    """Write the gradient of a batch's cost to `g`, shape (k,); `scale` as in `batch_step`.

    Returns
    -------
    int : `DONE`, `OUT_OF_RANGE`, or `NO_GRADIENT` when it is zero or cannot be told from it
    """
    b, k = rows.shape
    second_moment = 0.0
    for i in range(b):
        if not (losses[i] >= 0.0 and losses[i] < LARGEST_LOSS):
            return OUT_OF_RANGE
        second_moment += weights[i] * losses[i] * losses[i]
    memory[0] += second_moment
    memory[1] += b
    if second_moment < 1e-280:
        return NO_GRADIENT
    unit = 1.0 / scale if scale > 0.0 else memory[1] / (memory[0] * b)
    for j in range(k):
        g[j] = 0.0
    for i in range(b):
        r = weights[i]
        factor = unit * losses[i] * losses[i] * r * r * r
        for j in range(k):
            g[j] -= factor * rows[i, j]
    return DONE


@njit(cache=True)
def batch_step(rows, weights, losses, w, H, H_inv, memory, settings):
    """One update from a batch of n_b draws (VRM, Algorithm 2 with the delayed feedback of section 6.4).

    Parameters
    ----------
    rows : array, shape (b, k); n p_j(i) of each draw
    weights : array, shape (b,); the importance weights 1/(n q(i)) with which they were drawn
    losses : array, shape (b,)
    w, H, H_inv : the learner's state, changed in place
    memory : array, shape (3,); sum of r l^2, its count, updates so far; changed in place
    settings : (beta, gamma, scale); a scale of 0 divides by the running mean of r l^2

    Returns
    -------
    int : `DONE`, `NO_GRADIENT`, `REFRESH` when `invert` is due, or `OUT_OF_RANGE` for a loss that is (then nothing was
        changed)
    """
    g = np.empty(w.size)
    state = batch_gradient(rows, weights, losses, memory, settings[2], g)
    return newton_step(w, H, H_inv, g, memory, settings) if state == DONE else state


class Learned:
    """Base of what holds a `NewtonLearner` as `_learner`."""

    @property
    def mixture_weights(self):
        """The mixture weights, shape (k,), the uniform component's last."""
        return self._learner.w.copy()


def check_mixture_weights(weights, k):
    """`weights` as a new float array; ValueError unless they are `k` numbers >= 0 that add up to one."""
    w = np.array(weights, dtype=np.float64)
    if w.shape != (k,) or not (w >= 0).all() or abs(w.sum() - 1.0) > 1e-6:
        raise ValueError(f"mixture_weights must be {k} numbers >= 0 that add up to one, got {w}.")
    return w


class NewtonLearner:
    """Mixture weights learned by online Newton steps; the samplers of this package hold one.

    Parameters
    ----------
    k : int, number of components
    beta : float of at least 1e-15, inverse step length
    gamma : float in [0, 1], least weight of the last component
    eps : float > 0, H starts as eps I
    scale : None divides squared losses by the running mean of r l^2, so that beta, gamma and eps have no
        units; a number divides the cost f(w)/n^2 by it
    n_pgd_steps : int, 0 projects exactly, otherwise so many projected-gradient steps

    Attributes
    ----------
    w : array, shape (k,), the weights, starting at 1/k (or the nearest point with w_k >= gamma)
    """

    def __init__(self, k, *, beta, gamma, eps, scale=None, n_pgd_steps=0):
        check_number("beta", beta, least=1e-15, why="from a longer step there is no way back to the simplex")
        for name, value in (("eps", eps), ("scale", 1.0 if scale is None else scale)):
            check_number(name, value, above=0)
        check_number("gamma", gamma, least=0, most=1, why="it is the least share of the uniform component")
        check_integer("n_pgd_steps", n_pgd_steps, least=0)
        self.w = np.full(k, 1.0 / k)
        if gamma > 1.0 / k:
            self.w[:-1], self.w[-1] = (1.0 - gamma) / (k - 1), gamma
        self.H = eps * np.eye(k)
        self.H_inv = np.eye(k) / eps
        self.memory = np.zeros(3)
        self.settings, self.n_pgd_steps = (float(beta), float(gamma), float(scale or 0.0)), int(n_pgd_steps)

    def step(self, rows, weights, losses):
        """One update from a batch; see `batch_step`. ValueError for losses out of range, see `check_losses`."""
        if not self.n_pgd_steps:
            state = batch_step(rows, weights, losses, self.w, self.H, self.H_inv, self.memory, self.settings)
        else:
            g = np.empty(len(self.w))
            state = batch_gradient(rows, weights, losses, self.memory, self.settings[2], g)
            if state == DONE:
                self.gradient_step(g)
        if state == OUT_OF_RANGE:
            check_losses(losses)
        elif state == REFRESH:
            invert(self.H, self.H_inv)

    def gradient_step(self, g):
        """One update from the gradient `g`, shape (k,), of the round's cost (VRM, Algorithm 1)."""
        arrays = self.w, self.H, self.H_inv, g, self.memory, self.settings
        if self.n_pgd_steps:
            state = newton_step_by_gradient(*arrays, self.n_pgd_steps)
        else:
            state = newton_step(*arrays)
        if state == REFRESH:
            invert(self.H, self.H_inv)
