"""Selection for linear models: exact inner solutions, implicit gradients and predicted gains of all candidates."""

import numpy as np
from scipy.linalg.lapack import dpotri

from handful.bilevel.ihvp import Ihvp
from handful.bilevel.newton import MAX_ITER, ConvergenceError, cholesky_solve, pointwise, solve_inner
from handful.bilevel.passes import LOGISTIC
from handful.bilevel.span import new_direction

TOL = 1e-7
CURVATURE_ROWS = 4096  # rows on which the outer Hessian is estimated; more change the choices little
SPAN_ABOVE = 128  # features above which the inner problem is solved in the span of the chosen rows, if they are fewer
IN_SPAN = 1e-10  # share of a row that is no new direction


def cholesky_inverse(factor):
    """Inverse of ``L L'`` for a lower triangular L, shape (p, p)."""
    inverse, _ = dpotri(factor, lower=True)
    lower = np.tril(inverse)
    return lower + np.tril(lower, -1).T


class LinearSelection:
    """A growing coreset of a linear model, and what the outer loss says about every further row.

    Parameters
    ----------
    problem : LinearProblem
    data : DataPasses over the rows of the outer loss, among which the candidates are
    capacity : the largest size that the coreset will have
    rng : numpy.random.Generator, for the rows of the outer Hessian
    absent : rows that may not be chosen; None: those of weight zero
    ihvp : Ihvp
    """

    max_candidates = 512  # whose gains are predicted

    def __init__(self, problem, data, capacity, rng, absent=None, ihvp=None):
        d = data.X.shape[1]
        sample_weight = data.sample_weight
        self.problem = problem
        self.data = data
        self.ihvp = ihvp or Ihvp()
        self.absent = np.flatnonzero(sample_weight == 0) if absent is None else absent
        self.indices = []
        self._in_span = d > SPAN_ABOVE and capacity < d
        p = (capacity if self._in_span else d) + 1
        self._basis = np.zeros((d, capacity)) if self._in_span else None
        self._A, self._y = np.zeros((capacity, p)), np.zeros(capacity)
        self.penalty = np.full(p, float(problem.l2))
        if problem._free_intercept():
            self.penalty[-1] = 0.0
        self.theta, self._guess = np.zeros(p), np.zeros(p)
        self.factor = None
        rows = np.flatnonzero(sample_weight)
        if len(rows) > CURVATURE_ROWS:
            rows = np.sort(rng.choice(rows, CURVATURE_ROWS, replace=False))
        self._sample = rows
        self._sample_weight = sample_weight[rows] / sample_weight[rows].sum()
        self._sample_X = None

    def __len__(self):
        return len(self.indices)

    @property
    def A(self):
        """Design of the chosen rows, shape (s, p); in the basis of their span if there are many features."""
        return self._A[: len(self)]

    @property
    def y(self):
        """Encoded targets of the chosen rows, shape (s,)."""
        return self._y[: len(self)]

    def rows(self, indices):
        """Design rows in float64, shape (len(indices), d + 1); the last column is the intercept's, zero without one."""
        rows = self.data.rows(indices)
        if not self.problem.fit_intercept:
            rows[:, -1] = 0.0
        return rows

    def add(self, indices):
        """Append rows to the coreset."""
        rows = self.rows(indices)
        for index, row in zip(indices, rows):
            s = len(self)
            self._A[s] = self._extend_basis(row, s) if self._in_span else row
            self._y[s] = self.data.y[index]
            self.indices.append(int(index))
        if len(indices) == 1 and self.factor is not None:
            self._guess_after_last()

    def keep(self, alive):
        """Drop the rows where the mask `alive`, shape (s,), is False."""
        theta = self._to_data(self.theta)
        rows = [i for i, stays in zip(self.indices, alive) if stays]
        self.indices, self.factor = [], None
        self._A[:] = 0.0
        if self._in_span:
            self._basis[:] = 0.0
        self.add(rows)
        self.theta = np.append(self._basis.T @ theta[:-1], theta[-1]) if self._in_span else theta
        self._guess = self.theta.copy()

    def _guess_after_last(self):
        # the Newton step that the new row predicts: a better start for the next solve by an iteration or two
        s = len(self) - 1
        a = self._A[s]
        step = cholesky_solve(self.factor, a)
        loss, r, h = np.empty(1), np.empty(1), np.empty(1)
        pointwise(self.problem.kind, np.array([a @ self.theta]), self._y[s : s + 1], loss, r, h)
        self._guess -= r[0] / (1.0 + h[0] * (a @ step) / s) / s * step

    def _extend_basis(self, row, s):
        # a row in the span of the earlier ones leaves its column zero
        unit = new_direction(self._basis, row[:-1], IN_SPAN)
        if unit is not None:
            self._basis[:, s] = unit
        return np.append(self._basis.T @ row[:-1], row[-1])

    def _to_data(self, theta):
        return np.append(self._basis @ theta[:-1], theta[-1]) if self._in_span else theta

    def solve(self, weights=None):
        """Solve the inner problem for `weights` (shape (s,), adding up to 1; uniform for None), warm started.

        Raises
        ------
        ConvergenceError
            if Newton's method stops short of the tolerance, or the penalty vanishes beside the features
        """
        s = len(self)
        self.weights = c = np.full(s, 1.0 / s) if weights is None else weights
        try:
            self.factor, left = solve_inner(
                self.problem.kind, self.A, self.y, c, self.penalty, self.theta, self._guess, TOL, MAX_ITER
            )
        except np.linalg.LinAlgError:
            raise ConvergenceError(
                f"the inner problem on {s} points is singular to rounding (features up to {np.abs(self.A).max():.1e} "
                f"against l2={self.problem.l2:g}); scale the features or raise l2."
            ) from None
        self._guess[:] = self.theta
        if not left <= 1e-4:
            raise ConvergenceError(
                f"the inner problem on {s} points was not solved in {MAX_ITER} Newton steps (gradient {left:.1e} of "
                f"the one at zero); raise l2 (now {self.problem.l2:g}) or scale the features."
            )

    def row_scores(self):
        """First-order score of every row, shape (n,): ``grad l_k' H^-1 grad g`` (Equation 5).

        Returns a buffer that the next call overwrites.
        """
        self.gradient = g = self._outer_gradient()
        self.direction = self._implicit_direction(g)
        return self.data.linear_scores(self.direction)

    def linear_scores(self):
        """`row_scores`, -inf for rows that are chosen already or may not be; in the same buffer."""
        scores = self.row_scores()
        scores[self.indices] = -np.inf
        scores[self.absent] = -np.inf
        return scores

    def _outer_gradient(self):
        g = self.data.outer_gradient(self._to_data(self.theta))
        if not self.problem.fit_intercept:
            g[-1] = 0.0
        return g

    def _implicit_direction(self, g):
        if self.ihvp.exact and not self.ihvp.damping:
            return self._inverse_hessian_product(g)
        if self.ihvp.exact:
            p, damping = len(self.penalty), self.ihvp.damping
            damped = np.linalg.cholesky(self.factor @ self.factor.T + damping * np.eye(p))
            return self._inverse_hessian_product(g, damped, self.problem.l2 + damping)
        self._curvature = self._second_derivative(self.A @ self.theta) * self.weights
        return self.ihvp.approximate(self._hessian_product, g)

    def _hessian_product(self, v):
        inside = np.append(self._basis.T @ v[:-1], v[-1]) if self._in_span else v
        image = self.A.T @ (self._curvature * (self.A @ inside)) + self.penalty * inside
        if not self._in_span:
            return image
        outside = v[:-1] - self._basis @ inside[:-1]
        return np.append(self._basis @ image[:-1] + self.problem.l2 * outside, image[-1])

    def _inverse_hessian_product(self, g, factor=None, outside=None):
        factor = self.factor if factor is None else factor
        if not self._in_span:
            return cholesky_solve(factor, g)
        Q = self._basis
        inside = np.append(Q.T @ g[:-1], g[-1])
        solved = cholesky_solve(factor, inside)
        # outside the span of the chosen rows the Hessian is l2 times the identity
        rest = (g[:-1] - Q @ inside[:-1]) / (self.problem.l2 if outside is None else outside)
        return np.append(Q @ solved[:-1] + rest, solved[-1])

    def predicted_gains(self, candidates, *, free_weights=False):
        """Decrease of the outer loss that adding each candidate row predicts, shape (k,).

        Adding a row to s rows is a step of size 1 / s, not an infinitesimal one: the Newton step towards the new
        inner solution is shortened by the row's leverage, the penalty's weight grows with the set, and the outer loss
        is followed to second order along the step (its Hessian on a sample of rows). Where weights are free, a row
        may join with less than the weight 1 / s, so the best fraction of the step counts. Call after `linear_scores`.
        """
        s = len(self)
        a = self.rows(candidates)
        leverage, curvature, H_out_q, q = self._quadratic_forms(a)
        z = self.data.z[candidates].astype(np.float64)
        r = self.data.r[candidates].astype(np.float64)
        h = self._second_derivative(z)
        # The step is t H^-1 a_k + q / s with q = H^-1 (penalty * theta).
        t = (r - h * (a @ q) / s) / (s + h * leverage)
        slope = t * (a @ self.direction) + self.gradient @ q / s
        cross = a @ self._inverse_hessian_product(H_out_q)
        bend = t**2 * curvature + 2.0 * t * cross / s + q @ H_out_q / s**2
        fraction = 1.0
        if free_weights:  # the minimum of the parabola where it lies within the step
            downhill = np.maximum(slope, 0.0)
            fraction = np.divide(downhill, bend, out=np.sign(downhill), where=bend > downhill)
        return fraction * slope - 0.5 * fraction**2 * bend

    def _second_derivative(self, z):
        if self.problem.kind == LOGISTIC:
            e = np.exp(-np.abs(z))
            return e / (1.0 + e) ** 2
        return np.ones_like(z)

    def _quadratic_forms(self, a):
        # a_k' H^-1 a_k and a_k' H^-1 H_out H^-1 a_k for every row of a; H_out q and q = H^-1 (penalty * theta)
        q = self._to_data(cholesky_solve(self.factor, self.penalty * self.theta))
        if not self._in_span:
            H_out = self.outer_hessian()
            steps = a @ cholesky_inverse(self.factor)
            return np.einsum("kp,kp->k", a, steps), np.einsum("kp,kp->k", steps, steps @ H_out), H_out @ q, q
        Q = self._basis
        inside = np.column_stack([a[:, :-1] @ Q, a[:, -1]])
        solved = inside @ cholesky_inverse(self.factor)
        steps = solved[:, :-1] @ Q.T + (a[:, :-1] - inside[:, :-1] @ Q.T) / self.problem.l2
        leverage = np.einsum("kp,kp->k", a[:, :-1], steps) + a[:, -1] * solved[:, -1]
        X, h = self.data.X[self._sample], self._sample_curvature()
        products = X @ steps.T + solved[:, -1]
        bend = h * (X @ q[:-1] + q[-1])
        return leverage, h @ products**2, np.append(X.T @ bend, bend.sum() * self.problem.fit_intercept), q

    def _sample_curvature(self):
        return self._second_derivative(self.data.z[self._sample].astype(np.float64)) * self._sample_weight

    def outer_hessian(self):
        """Hessian of the outer loss at the current parameters, on the sample of rows, shape (d + 1, d + 1)."""
        root = np.sqrt(self._sample_curvature()).astype(self.data.X.dtype)
        scaled = self._sample_design() * root[:, None]
        return (scaled.T @ scaled).astype(np.float64)

    def _sample_design(self):
        # column-major like X, so that scaling it and its Gram matrix run along memory
        if self._sample_X is None:
            self._sample_X = np.asfortranarray(self.rows(self._sample).astype(self.data.X.dtype))
        return self._sample_X

    def outer_loss(self):
        """Mean loss over the whole data set at the current parameters; no penalty (the outer problem has none)."""
        self.gradient = self._outer_gradient()
        return self.mean_loss()

    def mean_loss(self):
        """Mean outer loss at the parameters of the last `linear_scores` or `outer_loss`."""
        return self.data.mean_loss()

    def weight_sensitivities(self):
        """What weights do to the parameters and parameters to the outer loss; call after `outer_loss`.

        Returns
        -------
        jacobian : shape (p, s), derivative of the inner solution by the weights: ``-H^-1 grad l_i`` (Equation 3)
        gradient : shape (p,), of the outer loss by the parameters
        hessian : shape (p, p), of the outer loss
        """
        jacobian = -cholesky_inverse(self.factor) @ (self.A * self._residuals()[:, None]).T
        if not self._in_span:
            return jacobian, self.gradient, self.outer_hessian()
        Q = self._basis
        X = self.data.X[self._sample]
        design = np.column_stack([X @ Q, np.full(X.shape[0], float(self.problem.fit_intercept))])
        hessian = design.T @ (design * self._sample_curvature()[:, None])
        return jacobian, np.append(Q.T @ self.gradient[:-1], self.gradient[-1]), hessian

    def weight_quadratic(self):
        """Curvature (s, s) and slope (s,) of the outer loss by the weights; call after `outer_loss`."""
        jacobian, gradient, hessian = self.weight_sensitivities()
        return jacobian.T @ hessian @ jacobian, gradient @ jacobian

    def _residuals(self):
        s = len(self)
        loss, r, h = np.empty(s), np.empty(s), np.empty(s)
        pointwise(self.problem.kind, self.A @ self.theta, self.y, loss, r, h)
        return r
