"""A primal-dual interior-point method for the hinge loss whose bias is not penalised.

The problem, with rows ``z_i = y_i [x_i, 1]`` and weights ``w`` (the bias last):

    minimise  1/2 |w_1..d|^2 - g'w + constant + sum_i c_i [1 - z_i'w]_+

(`g` and `constant` stand for points that were settled beforehand, see `staged`). Slack variables give
``z_i'w + xi_i - s_i = 1``; ``a_i = c_i share_i`` are the dual variables, ``0 < share_i < 1``. The path
``share_i s_i = (1 - share_i) xi_i = mu`` weighs each point's barrier by its own ``c_i``: a row of weight 2
is exactly a row given twice, and weights over many orders of magnitude converge together.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from handful.checks import physical_memory
from handful.svm.kernels import FAST

STEP_BACK = 0.995  # of the way to the boundary
CLIP = 10.0  # a second-order correction may move a product by this many targets (Gondzio 1996)
COPIES = 8  # of a Gram matrix that are there at the same time
NEAR = 3.0  # the certificate is computed once the complementarity gap is within this factor of `tol`


@dataclass(frozen=True)
class Solution:
    """What `minimise` found.

    Attributes
    ----------
    w : float array, shape (d + 1,), the bias last
    share : float array, shape (n,); the dual variables as shares of ``c``, in (0, 1)
    objective : float, the primal objective at `w`
    lower_bound : float, the dual objective at a feasible point: no `w` does better
    n_iter : int
    method : str, "interior point" or "coordinate descent"
    """

    w: np.ndarray
    share: np.ndarray
    objective: float
    lower_bound: float
    n_iter: int
    method: str = "interior point"

    @property
    def gap(self):
        """Relative duality gap: ``(objective - lower_bound) / objective``."""
        return (self.objective - self.lower_bound) / self.objective if self.objective > 0 else 0.0


def gram_bytes(d):
    """Bytes of the Gram matrix of `d` features, its factor and the copies on the way."""
    return COPIES * 8 * (d + 1) ** 2


def gram_fits(d):
    """Whether `gram_bytes` are there in the machine's memory."""
    return gram_bytes(d) <= physical_memory()


def minimise(X, y, c, *, tol, linear=None, constant=0.0, start=None, mu=1.0, max_iter=200):
    """Minimise the weighted hinge loss to a certified relative gap of `tol`.

    Mehrotra's predictor-corrector with one step length for primal and dual. Each iteration costs one
    weighted Gram matrix and four products with `X`.

    Parameters
    ----------
    X : DenseDesign or SparseDesign of n rows and d features
    y : float array, shape (n,), -1 or +1
    c : positive float array, shape (n,), the price of each point's hinge loss
    tol : float, relative duality gap
    linear, constant : the terms ``g`` (shape (d + 1,)) and ``constant`` of settled points
    start : float array, shape (d + 1,); `w` to start from, at the centre of the path for `mu`
    mu : float, where on the path to start (in units of the margin)
    max_iter : int

    Returns
    -------
    Solution; it may not have reached `tol`: the caller looks at `gap`

    Raises
    ------
    MemoryError
        where the Gram matrices of d features do not fit in the machine's memory; nothing is allocated
    """
    if not gram_fits(X.d):
        raise MemoryError(
            f"the interior-point method needs {gram_bytes(X.d):,} bytes for {X.d} features, more than the "
            f"{physical_memory():,} of this machine: take fewer features."
        )
    d, total_c = X.d, c.sum()
    linear = np.zeros(d + 1) if linear is None else linear
    penalised = np.ones(d + 1)
    penalised[d] = 0.0
    w = np.zeros(d + 1) if start is None else start.copy()
    slack = y * X.times(w) - 1.0
    share, rest, s, xi = _centre(slack, mu)
    product, hinge = 2.0 * mu * total_c, float(c @ np.maximum(0.0, -slack))
    best_w, best_share, objective, bound = w, share, np.inf, -np.inf
    n_iter, stuck = 0, False
    while True:
        value = 0.5 * w[:d] @ w[:d] - linear @ w + constant + hinge
        last = stuck or n_iter == max_iter
        if product <= NEAR * tol * abs(value) or last:
            if value < objective:
                best_w, objective = w.copy(), value
            certified = constant + dual_objective(X, y, c, share, linear)
            if certified > bound:
                best_share, bound = share.copy(), certified
            if objective - bound <= tol * abs(objective) or last:
                return Solution(best_w, best_share, objective, bound, n_iter)
        mu = product / (2.0 * total_c)
        D, v = _scaling(y, c, slack, share, rest, s, xi)
        M, rhs = X.gram(D, v)
        M.flat[:: d + 2] += penalised
        newton = _factor(M)
        if newton is None:
            stuck = True
            continue
        rhs += linear - penalised * w
        affine, product_affine = _predict(y, c, slack, share, rest, s, xi, D, X.times(newton(rhs)))
        target = mu * (product_affine / product) ** 3
        limit = CLIP * target
        q, v = _correct(y, share, rest, s, xi, D, affine, target, limit)
        direction = newton(rhs + X.transposed_times(v))
        p = X.times(direction)
        step_share, step_s, step_xi, fastest = _direction(
            y, c, slack, share, rest, s, xi, D, q, p, affine, target, limit
        )
        step = min(1.0, STEP_BACK / fastest)
        w = w + step * direction
        product, hinge = _move(y, c, slack, share, rest, s, xi, p, step_share, step_s, step_xi, step)
        n_iter += 1


def dual_objective(X, y, c, share, linear):
    """The dual objective (without `constant`) at ``c * share``, one class scaled down until it is feasible."""
    a = c * share
    plus = y > 0
    up, down = a[plus].sum(), a[~plus].sum()
    excess = up - down + linear[-1]  # dual feasibility: 0, as the bias is not penalised
    if excess > 0 and up > 0:
        a[plus] *= max(0.0, 1.0 - excess / up)
        infeasible = excess > up
    elif excess < 0 and down > 0:
        a[~plus] *= max(0.0, 1.0 + excess / down)
        infeasible = -excess > down
    else:
        infeasible = excess != 0
    if infeasible:
        return -np.inf
    normal = (X.transposed_times(y * a) + linear)[:-1]
    return a.sum() - 0.5 * normal @ normal


def _factor(M):
    """A solver with the Jacobi-scaled Cholesky factor of M; None for an M beyond rounding error.

    Rounding can make M indefinite by a little: a ridge then changes the step, not the solution.
    """
    if not (np.isfinite(M).all() and (np.diag(M) > 0).all()):
        return None
    scale = 1.0 / np.sqrt(np.diag(M))
    scaled = M * scale * scale[:, None]
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            factor = cho_factor(scaled + ridge * np.eye(len(M)), check_finite=False)
        except LinAlgError:
            continue
        return lambda b: scale * cho_solve(factor, scale * b, check_finite=False)
    return None


def _centre(slack, mu):
    """share, 1 - share, s, xi with s - xi = slack and both products equal to mu."""
    size = np.abs(slack)
    root = np.sqrt(size * size + 4.0 * mu * mu)
    larger, smaller = mu + 0.5 * (size + root), mu + 0.5 * (4.0 * mu * mu / (root + size))
    s, xi = np.where(slack > 0, larger, smaller), np.where(slack > 0, smaller, larger)
    return mu / s, mu / xi, s, xi


@njit(cache=True, fastmath=FAST, error_model="numpy")
def _scaling(y, c, slack, share, rest, s, xi):
    n = len(y)
    D, v = np.empty(n), np.empty(n)
    for i in range(n):
        D[i] = c[i] / (xi[i] / rest[i] + s[i] / share[i])
        v[i] = y[i] * (c[i] * share[i] - D[i] * slack[i])
    return D, v


@njit(cache=True, fastmath=FAST | {"nnan"}, error_model="numpy")
def _predict(y, c, slack, share, rest, s, xi, D, p):
    """The affine step in `share`, and the complementarity that is left where it meets the boundary."""
    n = len(y)
    affine = np.empty(n)
    for i in range(n):
        affine[i] = -(D[i] / c[i]) * (slack[i] + y[i] * p[i])
    fastest = 1.0
    for i in range(n):
        ra, rb = affine[i] / share[i], affine[i] / rest[i]
        fastest = max(fastest, max(max(1.0 + ra, 1.0 - rb), max(-ra, rb)))
    step = 1.0 / fastest
    left = 0.0
    for i in range(n):
        a, b, da = share[i], rest[i], affine[i]
        ds = -s[i] * (1.0 + da / a)
        dxi = -xi[i] * (1.0 - da / b)
        left += c[i] * ((a + step * da) * (s[i] + step * ds) + (b - step * da) * (xi[i] + step * dxi))
    return affine, left


@njit(cache=True, fastmath=FAST | {"nnan"}, error_model="numpy")
def _correct(y, share, rest, s, xi, D, affine, target, limit):
    """What the centring and second-order terms add to the right-hand side."""
    n = len(y)
    q, v = np.empty(n), np.empty(n)
    for i in range(n):
        a, b, da = share[i], rest[i], affine[i]
        second_s = min(max(-s[i] * (1.0 + da / a) * da, -limit), limit)
        second_xi = min(max(xi[i] * (1.0 - da / b) * da, -limit), limit)
        q[i] = (target - second_s) / a - (target - second_xi) / b
        v[i] = y[i] * D[i] * q[i]
    return q, v


@njit(cache=True, fastmath=FAST | {"nnan"}, error_model="numpy")
def _direction(y, c, slack, share, rest, s, xi, D, q, p, affine, target, limit):
    """The corrected steps, and the rate at which they run into the boundary."""
    n = len(y)
    step_share, step_s, step_xi = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        step_share[i] = (D[i] / c[i]) * (q[i] - slack[i] - y[i] * p[i])
    for i in range(n):
        second = min(max(-s[i] * (1.0 + affine[i] / share[i]) * affine[i], -limit), limit)
        step_s[i] = (target - second - s[i] * step_share[i]) / share[i] - s[i]
    for i in range(n):
        second = min(max(xi[i] * (1.0 - affine[i] / rest[i]) * affine[i], -limit), limit)
        step_xi[i] = (target - second + xi[i] * step_share[i]) / rest[i] - xi[i]
    fastest = 1e-300
    for i in range(n):
        fastest = max(fastest, max(-step_s[i] / s[i], -step_xi[i] / xi[i]))
    for i in range(n):
        fastest = max(fastest, max(-step_share[i] / share[i], step_share[i] / rest[i]))
    return step_share, step_s, step_xi, fastest


@njit(cache=True, fastmath=FAST | {"nnan"}, error_model="numpy")
def _move(y, c, slack, share, rest, s, xi, p, step_share, step_s, step_xi, step):
    """Take the step in place; the larger of s and xi is recomputed: s - xi = slack to the last digit."""
    n = len(y)
    for i in range(n):
        slack[i] += step * y[i] * p[i]
    for i in range(n):
        share[i] += step * step_share[i]
        rest[i] -= step * step_share[i]
    for i in range(n):
        t = slack[i]
        new_s, new_xi = s[i] + step * step_s[i], xi[i] + step * step_xi[i]
        s[i] = new_xi + t if t > 0 else new_s
        xi[i] = new_xi if t > 0 else new_s - t
    product = 0.0
    hinge = 0.0
    for i in range(n):
        product += c[i] * (share[i] * s[i] + rest[i] * xi[i])
        hinge += c[i] * max(0.0, -slack[i])
    return product, hinge
