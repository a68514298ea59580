"""A primal-dual interior-point method for the hinge loss whose bias is not penalised.

The problem, with rows ``z_i = y_i [x_i, 1]`` and weights ``w`` (the bias last):

    minimise  1/2 |w_1..d|^2 - g'w + constant + sum_i c_i [1 - z_i'w]_+

(`g` and `constant` stand for points that were settled beforehand, see `solve`). Slack variables
give ``z_i'w + xi_i - s_i = 1``; ``a_i = c_i share_i`` are the dual variables, ``0 < share_i < 1``.
The path ``share_i s_i = (1 - share_i) xi_i = mu`` weighs each point's barrier by its own ``c_i``: a
row of weight 2 is exactly a row given twice, and weights over many orders of magnitude converge
together.

Everywhere in this subpackage `A` is the matrix ``[X, 1]``, which `with_ones` makes.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from handful.checks import check_memory
from handful.running import physical_memory

# of the way to the boundary
STEP_BACK = 0.995
# a second-order correction may move a product by this many targets (Gondzio 1996)
CLIP = 10.0
# of a Gram matrix that are there at the same time
COPIES = 8
# the certificate is computed once the complementarity gap is within this factor of `tol`
NEAR = 3.0
# rows of a Gram matrix at a time
STRIP = 1 << 14


@dataclass(frozen=True)
class Solution:
    """What a solver found.

    Attributes
    ----------
    w : float array, shape (d + 1,), the bias last
    share : float array, shape (n,); the dual variables as shares of ``c``, in [0, 1]
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
        if self.objective <= 0:
            return 0.0
        return (self.objective - self.lower_bound) / self.objective


def with_ones(X):
    """``[X, 1]``, float64: column by column if dense, where products with few columns are fastest;
    CSR if sparse."""
    if sparse.issparse(X):
        n, d = X.shape
        X = sparse.csr_array(X)
        data = np.insert(X.data, X.indptr[1:], 1.0)
        columns = np.insert(X.indices, X.indptr[1:], d)
        starts = X.indptr + np.arange(n + 1, dtype=X.indptr.dtype)
        return sparse.csr_array((data, columns, starts), shape=(n, d + 1), dtype=np.float64)
    A = np.empty((len(X), X.shape[1] + 1), order="F")
    for start in range(0, len(X), STRIP):
        A[start : start + STRIP, :-1] = X[start : start + STRIP]
    A[:, -1] = 1.0
    return A


def gram(A, D):
    """``A.T @ diag(D) @ A``, shape (d + 1, d + 1)."""
    if sparse.issparse(A):
        return (A.T @ sparse.diags_array(D) @ A).toarray()
    G = np.zeros((A.shape[1], A.shape[1]))
    for start in range(0, len(A), STRIP):
        strip = slice(start, start + STRIP)
        part = A[strip] * np.sqrt(D[strip, None])
        G += part.T @ part
    return G


def gram_bytes(d):
    """Bytes of the Gram matrix of `d` features, its factor and the copies on the way."""
    return COPIES * 8 * (d + 1) ** 2


def gram_fits(d):
    """Whether `gram_bytes` are there in the machine's memory."""
    return gram_bytes(d) <= physical_memory()


def minimise(A, y, c, *, tol, linear=0.0, constant=0.0, start=None, mu=1.0, max_iter=200):
    """Minimise the weighted hinge loss to a certified relative gap of `tol`.

    Mehrotra's predictor-corrector with one step length for primal and dual. Each iteration costs
    one weighted Gram matrix and four products with `A`.

    Parameters
    ----------
    A : from `with_ones`, shape (n, d + 1)
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
        where the Gram matrices of d features do not fit in the machine's memory; nothing is
        allocated
    """
    d = A.shape[1] - 1
    check_memory(
        f"the interior-point method for {d} features", gram_bytes(d), "take fewer features"
    )
    penalised = np.append(np.ones(d), 0.0)
    linear = linear + np.zeros(d + 1)
    w = np.zeros(d + 1) if start is None else start
    slack = y * (A @ w) - 1.0
    share, rest, s, xi = _centre(slack, mu)
    best_w = w
    best_share = share
    objective = np.inf
    bound = -np.inf
    n_iter = 0
    newton = True

    def value_at(w, slack):
        return 0.5 * w[:d] @ w[:d] - linear @ w + constant + c @ np.maximum(0.0, -slack)

    # a step beyond rounding ends the loop
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while True:
            product = c @ (share * s + rest * xi)
            value = value_at(w, slack)
            last = newton is None or n_iter == max_iter
            if product <= NEAR * tol * abs(value) or last:
                # The sum of steps has the rounding of the largest.
                slack = y * (A @ w) - 1.0
                value = value_at(w, slack)
                if value < objective:
                    best_w = w
                    objective = value
                certified = constant + dual_objective(A, y, c, share, linear)
                if certified > bound:
                    best_share = share
                    bound = certified
                if objective - bound <= tol * abs(objective) or last:
                    return Solution(best_w, best_share, float(objective), float(bound), n_iter)
            mu = product / (2.0 * c.sum())
            D = c / (xi / rest + s / share)
            newton = factor(gram(A, D), penalised)
            if newton is None:
                continue
            moved = D / c
            of_rows = y * (c * share - D * slack)
            rhs = linear - penalised * w + A.T @ of_rows
            # the step in `share` for mu = 0
            affine = -moved * (slack + y * (A @ newton(rhs)))
            affine_s = -s * (1.0 + affine / share)
            affine_xi = -xi * (1.0 - affine / rest)
            rate = _fastest((affine, share), (-affine, rest), (affine_s, s), (affine_xi, xi))
            t = min(1.0, 1.0 / rate)
            left_s = (share + t * affine) * (s + t * affine_s)
            left_xi = (rest - t * affine) * (xi + t * affine_xi)
            left = c @ (left_s + left_xi)
            target = mu * (left / product) ** 3
            most = CLIP * target
            second_s = np.clip(affine_s * affine, -most, most)
            second_xi = np.clip(-affine_xi * affine, -most, most)
            q = (target - second_s) / share - (target - second_xi) / rest
            direction = newton(rhs + A.T @ (y * D * q))
            p = y * (A @ direction)
            step = moved * (q - slack - p)
            step_s = (target - second_s - s * step) / share - s
            step_xi = (target - second_xi + xi * step) / rest - xi
            rate = _fastest((step_s, s), (step_xi, xi), (step, share), (-step, rest))
            t = min(1.0, STEP_BACK / rate)
            w = w + t * direction
            slack = slack + t * p
            share = share + t * step
            rest = rest - t * step
            s = s + t * step_s
            xi = xi + t * step_xi
            # the larger of s and xi is computed again: s - xi = slack to the last digit
            is_beyond = slack > 0
            smaller = np.where(is_beyond, xi, s)
            s = np.where(is_beyond, smaller + slack, smaller)
            xi = np.where(is_beyond, smaller, smaller - slack)
            n_iter += 1


def dual_objective(A, y, c, share, linear=0.0):
    """The dual objective (without `constant`) at ``c * share``, one class scaled down until it is
    feasible."""
    a = c * share
    linear = linear + np.zeros(A.shape[1])
    # dual feasibility: 0, as the bias is not penalised
    excess = y @ a + linear[-1]
    if excess != 0:
        side = y * excess > 0
        total = a[side].sum()
        if abs(excess) > total:
            return -np.inf
        a[side] *= 1.0 - abs(excess) / total
    normal = (A.T @ (y * a) + linear)[:-1]
    return a.sum() - 0.5 * normal @ normal


def _fastest(*pairs):
    # The rate at which steps, each with the values that must stay positive, run into the boundary.
    return max(1e-300, *((-step / value).max() for step, value in pairs))


def factor(M, penalised):
    """A solver with the Jacobi-scaled Cholesky factor of M plus the penalty; None for an M beyond
    rounding error.

    Rounding can make M indefinite by a little: a ridge then changes the step, not the solution.
    """
    M.flat[:: len(M) + 1] += penalised
    if not (np.isfinite(M).all() and (np.diag(M) > 0).all()):
        return None
    scale = 1.0 / np.sqrt(np.diag(M))
    M *= scale * scale[:, None]
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            found = cho_factor(M + ridge * np.eye(len(M)), check_finite=False)
        except LinAlgError:
            continue
        return lambda b: scale * cho_solve(found, scale * b, check_finite=False)
    return None


def _centre(slack, mu):
    """share, 1 - share, s, xi with s - xi = slack and both products equal to mu."""
    size = np.abs(slack)
    root = np.sqrt(size * size + 4.0 * mu * mu)
    larger = mu + 0.5 * (size + root)
    smaller = mu + 0.5 * (4.0 * mu * mu / (root + size))
    s = np.where(slack > 0, larger, smaller)
    xi = np.where(slack > 0, smaller, larger)
    return mu / s, mu / xi, s, xi
