"""Selection for linear models: exact inner solutions, implicit gradients and predicted gains of all candidates."""

from functools import cached_property

import numpy as np

from handful.bilevel.numerics.curvature import OuterCurvature
from handful.bilevel.numerics.newton import (
    MAX_ITER,
    cholesky_inverse,
    cholesky_solve,
    moved_derivative,
    pointwise,
    solve_inner,
)
from handful.bilevel.numerics.passes import LOGISTIC
from handful.bilevel.numerics.span import Design
from handful.bilevel.selections.base import Selection, decrease
from handful.checks import ConvergenceError, check_memory

TOL = 1e-7
CURVATURE_ROWS = 4096  # rows on which the outer Hessian is estimated; more change the choices little
SPAN_ABOVE = 80  # features above which the inner problem is solved in the span of the chosen rows, if they are fewer
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
        self.theta, self._solved = np.zeros(1), None
        self._sample = data.sample(CURVATURE_ROWS, rng)

    @cached_property
    def outer(self):
        """Curvature of the outer loss."""
        share = self.data.sample_weight[self._sample]
        return OuterCurvature(self.data.X[self._sample], share / share.sum(), self._intercept)

    def _new_design(self):
        d = self.data.X.shape[1]
        options = dict(in_span=d > SPAN_ABOVE, sparse=self.passes.sparse)
        return Design(d, self._intercept, np.dtype(np.float64), IN_SPAN, **options)

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

    def labels(self):
        """As `Selection.labels`, of signs."""
        return (self.data.y > 0).astype(np.intp) if self.problem.classifies else None

    def check_memory(self, s):
        """As `Selection.check_memory`: designs, Hessians and coordinates of the sample; of dense rows a basis."""
        d = self.data.X.shape[1]
        p = min(s, d) + 1
        basis = 0 if self.passes.sparse else d * p
        check_memory(
            f"the inner problem of {s:,} points in {p - 1:,} coordinates",
            8 * (3 * s * p + 6 * p**2 + len(self._sample) * p + basis),
            "choose fewer points, or take fewer features",
        )

    def way(self):
        """As `Selection.way`."""
        inner = "inner problem in the rows' span" if self._design.in_span else "inner problem in the features"
        outer = "by rows" if self.outer.by_rows(self._design, self.max_candidates) else "by features"
        return f"{inner}, curvature {outer}"

    def features(self, indices):
        """Features of some rows in float64, shape (k, d), sparse if X is."""
        return self.data.X[indices].astype(np.float64, copy=False)

    def add(self, indices):
        """As `Selection.add`; from as many rows as features on, coordinates are the features."""
        if self._design.in_span and len(self) + len(indices) >= self.data.X.shape[1]:
            self.theta = self._design.to_data(self.theta)
            self._design.leave_span(self.features(self.indices), np.float64)
            self._solved = None
        self._design.add(self.features(indices), np.float64)
        self.theta = self._design.padded(self.theta)
        super().add(indices)

    def keep(self, alive):
        """As `Selection.keep`; the basis of the span is built anew."""
        theta = self._design.to_data(self.theta)
        self.outer.forget()
        self._solved = None
        rows = [i for i, stays in zip(self.indices, alive) if stays]
        self.indices, self._design, self.theta = [], self._new_design(), np.zeros(1)
        self.add(rows)
        self.theta = self._design.from_data(theta)

    def solve(self, weights=None):
        """As `Selection.solve`, by Newton steps; refuses a penalty that vanishes beside the features."""
        s = len(self)
        starts = [self.theta]
        if weights is None and s > 1 and self._solved == s - 1:
            starts.append(self._theta_with_last())
        self._solved = s if weights is None else None  # the rows that `factor` weighs alike
        self.weights = c = np.full(s, 1.0 / s) if weights is None else weights
        try:
            self.theta, self.factor, left = solve_inner(
                self.problem.kind, self.A, self.y, c, self.penalty, starts, TOL, MAX_ITER
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

    def _theta_with_last(self):
        # The solution that the last row leads to if its own loss counts as it is, the others' to second order. With the
        # Hessian H before it came and q = H^-1 (penalty * theta) it is a step of r H^-1 a + q, over s, where r is the
        # derivative of its loss at the logit that the step arrives at. With the new row the s others count less, so the
        # penalty counts 1 + 1/s times as much beside them: within the span of their rows this is left out.
        s, a, known = len(self) - 1, self.A[-1], len(self.factor)
        outside = (1.0 + 1.0 / s) * self.penalty[known:]  # the Hessian beyond that span
        with np.errstate(over="ignore", invalid="ignore"):  # a Hessian that is singular to rounding leads nowhere
            step, q = (
                np.concatenate([cholesky_solve(self.factor, b[:known]), b[known:] / outside])
                for b in (a, self.penalty * self.theta)
            )
            r = moved_derivative(self.problem.kind, a @ (self.theta - q / s), self.y[-1], a @ step / s)
            return self.theta - (r * step + q) / s

    def row_scores(self):
        """As `Selection.row_scores`; a buffer that the next call overwrites."""
        self.gradient = self._outer_gradient()
        self.direction = self._implicit_direction(self.gradient)
        return self.passes.linear_scores(_intercept_last(self.direction))

    def _outer_gradient(self):
        g = self.passes.outer_gradient(_intercept_last(self._design.to_data(self.theta)))
        return np.concatenate([self._intercept * g[-1:], g[:-1]])

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
            image[1:] += self.problem.l2 * (v[1:] - self._design.span.lift(inside[1:]))
        return image

    def _inverse_hessian_product(self, g, factor, damping):
        # outside the span of the chosen rows the Hessian is l2 times the identity
        inside = self._design.from_data(g)
        return self._design.with_outside(cholesky_solve(factor, inside), inside, g, self.problem.l2 + damping)

    def predicted_gains(self, candidates, *, free_weights=False):
        """As `Selection.predicted_gains`."""
        s, l2, design, X = len(self), self.problem.l2, self._design, self.features(candidates)
        q = cholesky_solve(self.factor, self.penalty * self.theta)
        inside = design.coordinates(X)
        steps = inside @ cholesky_inverse(self.factor)
        leverage = np.einsum("kp,kp->k", inside, steps)
        if design.in_span:
            squares = np.ravel(X.multiply(X).sum(axis=1)) if self.passes.sparse else np.einsum("kj,kj->k", X, X)
            leverage += (squares - np.einsum("kp,kp->k", inside[:, 1:], inside[:, 1:])) / l2
        _, h = self._outer_derivatives(self._sample)
        curvature, cross, bend = self.outer.along(h, design, candidates, X, inside, steps, q, l2)
        r, h = self._outer_derivatives(candidates)
        # The step is t H^-1 a_k + q / s with q = H^-1 (penalty * theta).
        t = (r - h * (inside @ q) / s) / (s + h * leverage)
        downhill = X @ self.direction[1:] + self._intercept * self.direction[0]
        slope = t * downhill + design.from_data(self.gradient) @ q / s
        return decrease(slope, t**2 * curvature + 2.0 * t * cross / s + bend / s**2, free_weights)

    def _derivatives(self, z, y):
        # first and second derivatives of losses by their logits
        loss, r, h = (np.empty(len(z)) for _ in range(3))
        pointwise(self.problem.kind, z, y, loss, r, h)
        return r, h

    def _outer_derivatives(self, rows):
        # the same of the outer losses of some rows
        r = self.passes.r[rows].astype(np.float64)
        p = np.abs(r)  # of the logistic loss, the probability of the other label
        return r, p * (1.0 - p) if self.problem.kind == LOGISTIC else np.ones(len(r))

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
        _, h = self._outer_derivatives(self._sample)
        return jacobian, self._design.from_data(self.gradient), self.outer.hessian_within(self._design, h)

    def weight_quadratic(self):
        """As `Selection.weight_quadratic`."""
        jacobian, gradient, hessian = self.weight_sensitivities()
        return jacobian.T @ hessian @ jacobian, gradient @ jacobian


def _intercept_last(theta):
    return np.concatenate([theta[1:], theta[:1]])
