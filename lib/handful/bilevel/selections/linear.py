"""Selection for linear models: exact inner solutions, implicit gradients and predicted gains of all candidates."""

import numpy as np

from handful.bilevel.numerics.newton import (
    MAX_ITER,
    ConvergenceError,
    cholesky_inverse,
    cholesky_solve,
    pointwise,
    solve_inner,
)
from handful.bilevel.numerics.span import Design
from handful.bilevel.selections.base import Selection, decrease

TOL = 1e-7
CURVATURE_ROWS = 4096  # rows on which the outer Hessian is estimated; more change the choices little
SPAN_ABOVE = 128  # features above which the inner problem is solved in the span of the chosen rows, if they are fewer
IN_SPAN = 1e-10  # a row counts as within the span of others if at most this share of its length lies outside


class LinearSelection(Selection):
    """A growing coreset of a linear model.

    Parameters for the features have d + 1 entries, the intercept's first.

    Parameters
    ----------
    problem : LinearProblem
    data, ihvp : as in `Selection`
    rng : numpy.random.Generator, for the rows of the outer Hessian
    """

    def __init__(self, problem, data, rng, ihvp=None):
        super().__init__(problem, data, ihvp)
        self.passes = data.passes(problem.kind)
        self._intercept = float(problem.fit_intercept)
        self._design = self._new_design()
        self.theta = np.zeros(1)
        self._sample = data.sample(CURVATURE_ROWS, rng)
        self._sample_weight = data.sample_weight[self._sample] / data.sample_weight[self._sample].sum()
        self._sample_rows = None

    def _new_design(self):
        d = self.data.X.shape[1]
        return Design(d, self._intercept, np.dtype(np.float64), IN_SPAN, in_span=d > SPAN_ABOVE)

    @property
    def A(self):
        """Design of the chosen rows, shape (s, p), in the basis of their span if there are many features."""
        return self._design.A

    @property
    def y(self):
        """Encoded targets of the chosen rows, shape (s,)."""
        return self.passes.y[self.indices].astype(np.float64)

    @property
    def penalty(self):
        """Penalty on each column of the design, shape (p,)."""
        penalty = np.full(self.A.shape[1], float(self.problem.l2))
        penalty[0] *= not self.problem.fit_intercept or self.problem.penalise_intercept
        return penalty

    def rows(self, indices):
        """Rows of the design for the features themselves in float64, shape (k, d + 1)."""
        X = self.data.X[indices]
        X = (X.toarray() if self.passes.sparse else X).astype(np.float64)
        return np.column_stack([np.full(len(X), self._intercept), X])

    def add(self, indices):
        """As `Selection.add`; from as many rows as features on, coordinates are the features."""
        if self._design.in_span and len(self) + len(indices) >= self.data.X.shape[1]:
            self.theta = self._design.to_data(self.theta)
            self._design.leave_span(self.rows(self.indices)[:, 1:], np.float64)
        self._design.add(self.rows(indices)[:, 1:], np.float64)
        self.theta = self._design.padded(self.theta)
        super().add(indices)

    def keep(self, alive):
        """As `Selection.keep`; the basis of the span is built anew."""
        theta = self._design.to_data(self.theta)
        rows = [i for i, stays in zip(self.indices, alive) if stays]
        self.indices, self._design, self.theta = [], self._new_design(), np.zeros(1)
        self.add(rows)
        self.theta = self._design.from_data(theta)

    def solve(self, weights=None):
        """As `Selection.solve`, by Newton steps; refuses a penalty that vanishes beside the features."""
        s = len(self)
        self.weights = c = np.full(s, 1.0 / s) if weights is None else weights
        try:
            self.factor, left = solve_inner(
                self.problem.kind, self.A, self.y, c, self.penalty, self.theta, TOL, MAX_ITER
            )
        except np.linalg.LinAlgError:
            raise ConvergenceError(
                f"the inner problem on {s} points is singular to rounding (features up to {np.abs(self.A).max():.1e} "
                f"against l2={self.problem.l2:g}); scale the features or raise l2."
            ) from None
        if not left <= 1e-4:
            raise ConvergenceError(
                f"the inner problem on {s} points was not solved in {MAX_ITER} Newton steps (gradient {left:.1e} of "
                f"the one at zero); raise l2 (now {self.problem.l2:g}) or scale the features."
            )

    def row_scores(self):
        """As `Selection.row_scores`; a buffer that the next call overwrites."""
        self.gradient = self._outer_gradient()
        self.direction = self._implicit_direction(self.gradient)
        return self.passes.linear_scores(np.roll(self.direction, -1))

    def _outer_gradient(self):
        g = np.roll(self.passes.outer_gradient(np.roll(self._design.to_data(self.theta), -1)), 1)
        g[0] *= self._intercept
        return g

    def _implicit_direction(self, g):
        damping = self.ihvp.damping
        if not self.ihvp.exact:
            self._curvature = self._derivatives(self.A @ self.theta, self.y)[1] * self.weights
            return self.ihvp.solve(self._hessian_product, g)
        factor = self.factor
        if damping:
            factor = np.linalg.cholesky(factor @ factor.T + damping * np.eye(len(factor)))
        return self._inverse_hessian_product(g, factor, damping)

    def _hessian_product(self, v):
        inside = self._design.from_data(v)
        image = self._design.to_data(self.A.T @ (self._curvature * (self.A @ inside)) + self.penalty * inside)
        if self._design.in_span:
            image[1:] += self.problem.l2 * (v[1:] - self._design.Q @ inside[1:])
        return image

    def _inverse_hessian_product(self, g, factor, damping=0.0):
        # outside the span of the chosen rows the Hessian is l2 times the identity
        inside = self._design.from_data(g)
        return self._design.with_outside(cholesky_solve(factor, inside), inside, g, self.problem.l2 + damping)

    def predicted_gains(self, candidates, *, free_weights=False):
        """As `Selection.predicted_gains`."""
        s = len(self)
        a = self.rows(candidates)
        q = self._design.to_data(cholesky_solve(self.factor, self.penalty * self.theta))
        leverage, curvature, H_out_q = self._quadratic_forms(a, q)
        r, h = self.passes.r[candidates].astype(np.float64), self._outer_curvature(candidates)
        # The step is t H^-1 a_k + q / s with q = H^-1 (penalty * theta).
        t = (r - h * (a @ q) / s) / (s + h * leverage)
        slope = t * (a @ self.direction) + self.gradient @ q / s
        cross = a @ self._inverse_hessian_product(H_out_q, self.factor)
        bend = t**2 * curvature + 2.0 * t * cross / s + q @ H_out_q / s**2
        return decrease(slope, bend, free_weights)

    def _derivatives(self, z, y):
        # first and second derivatives of losses by their logits
        loss, r, h = (np.empty(len(z)) for _ in range(3))
        pointwise(self.problem.kind, z, y, loss, r, h)
        return r, h

    def _quadratic_forms(self, a, q):
        # a_k' H^-1 a_k and a_k' H^-1 H_out H^-1 a_k for every row of a; H_out q
        inside = self._design.from_data(a.T)
        steps = self._design.with_outside(cholesky_inverse(self.factor) @ inside, inside, a.T, self.problem.l2)
        leverage = np.einsum("kp,pk->k", a, steps)
        if not self._design.in_span:
            H_out = self.outer_hessian()
            return leverage, np.einsum("pk,pk->k", steps, H_out @ steps), H_out @ q
        X, h = self.data.X[self._sample], self._sample_curvature()
        products = X @ steps[1:] + self._intercept * steps[0]
        bend = h * (X @ q[1:] + self._intercept * q[0])
        return leverage, h @ products**2, np.append(bend.sum() * self._intercept, X.T @ bend)

    def _outer_curvature(self, rows):
        # second derivatives of the outer losses of some rows by their logits
        z, y = (values[rows].astype(np.float64) for values in (self.passes.z, self.passes.y))
        return self._derivatives(z, y)[1]

    def _sample_curvature(self):
        return self._outer_curvature(self._sample) * self._sample_weight

    def outer_hessian(self):
        """Hessian of the outer loss at the current parameters, on the sample of rows, shape (d + 1, d + 1)."""
        if self._sample_rows is None:  # column-major like X, so that scaling it and its Gram matrix run along memory
            self._sample_rows = np.asfortranarray(self.rows(self._sample).astype(self.data.X.dtype))
        scaled = self._sample_rows * np.sqrt(self._sample_curvature()).astype(self.data.X.dtype)[:, None]
        return (scaled.T @ scaled).astype(np.float64)

    def outer_loss(self):
        """As `Selection.outer_loss`."""
        self.gradient = self._outer_gradient()
        return self.mean_loss()

    def mean_loss(self):
        return self.passes.mean_loss()

    def weight_sensitivities(self):
        """What weights do to the parameters and parameters to the outer loss; call after `outer_loss`.

        Returns
        -------
        jacobian : shape (p, s), derivative of the inner solution by the weights: ``-H^-1 grad l_i`` (Equation 3)
        gradient : shape (p,), of the outer loss by the parameters
        hessian : shape (p, p), of the outer loss
        """
        r, _ = self._derivatives(self.A @ self.theta, self.y)
        jacobian = -cholesky_inverse(self.factor) @ (self.A * r[:, None]).T
        if not self._design.in_span:
            return jacobian, self.gradient, self.outer_hessian()
        X = self.data.X[self._sample]
        rows = np.column_stack([np.full(X.shape[0], self._intercept), X @ self._design.Q])
        hessian = rows.T @ (rows * self._sample_curvature()[:, None])
        return jacobian, self._design.from_data(self.gradient), hessian

    def weight_quadratic(self):
        """As `Selection.weight_quadratic`."""
        jacobian, gradient, hessian = self.weight_sensitivities()
        return jacobian.T @ hessian @ jacobian, gradient @ jacobian
