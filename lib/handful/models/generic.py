"""A model of any `Problem`: dense implicit gradients and predicted gains from its four methods."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from handful.checks import ConvergenceError, check_memory
from handful.models.base import Model, decrease

ENTRIES = 1 << 22  # of a block of row gradients or Hessians
CURVATURE_ROWS = 4096  # rows on which the outer Hessian is estimated; more change the choices little


class GenericModel(Model):
    """A growing coreset of a user's problem, at a cost of p^3 and n p a step.

    Parameters
    ----------
    problem, data, ihvp : as in `Model`
    rng : numpy.random.Generator, for the rows of the outer Hessian
    """

    def __init__(self, problem, data, rng, ihvp=None):
        super().__init__(problem, data, ihvp)
        self.theta = None
        self._sample = data.sample(CURVATURE_ROWS, rng)
        self._u = data.share

    def fit(self, weights=None):
        """As `Model.fit`; the problem's own `solve` and `hessian` do it."""
        s = len(self)
        c = np.full(s, 1.0 / s) if weights is None else weights
        X, y = self.data.take(self.indices)
        if self.theta is None:
            p = len(self.problem.start(X, y))
            way_out = "a model with so many parameters needs a `Model` of its own, as handful.bilevel.Network has"
            check_memory(f"the Hessian of {type(self.problem).__name__}, {p:,} x {p:,},", 32 * p**2, way_out)
        self.theta = self._finite("solve", None, X, y, c, start=self.theta)
        p = len(self.theta)
        self.weights, self._hessian = c, self._finite("hessian", (p, p), self.theta, X, y, c)
        try:
            self._factor = cho_factor(self._hessian + self.ihvp.damping * np.eye(p))
        except LinAlgError:
            least = eigvalsh(self._hessian)[0]
            raise ConvergenceError(
                f"the Hessian of {self.problem!r} on {s} points is not positive definite (least eigenvalue "
                f"{least:.1e}), so that it gives no implicit gradient: raise the penalty, or damping (now "
                f"{self.ihvp.damping:g})."
            ) from None

    def _finite(self, method, shape, *arguments, **options):
        # what a method of the problem gives, if that is of this shape, one-dimensional for None, and finite
        values = np.asarray(getattr(self.problem, method)(*arguments, **options), dtype=np.float64)
        shape = (values.size,) if shape is None else shape
        if values.shape != shape or not np.isfinite(values).all():
            raise ConvergenceError(
                f"{type(self.problem).__name__}.{method} must give finite numbers of shape {shape}, got shape "
                f"{values.shape} with {np.count_nonzero(~np.isfinite(values))} entries that are not finite."
            )
        return values

    def _blocks(self, rows, entries=None):
        # rows, few enough at a time that arrays of so many entries a row fit into memory: gradients, for None
        step = max(1, ENTRIES // (entries or max(len(self.theta), 1)))
        for lo in range(0, len(rows), step):
            yield rows[lo : lo + step]

    def _gradients(self, rows):
        return self.problem.gradients(self.theta, *self.data.take(rows))

    def mean_loss(self):
        """Weighted mean of the outer losses at the current parameters."""
        return float(self._u @ self._finite("losses", self._u.shape, self.theta, self.data.X, self.data.y))

    def outer_gradient(self):
        """As `Model.outer_gradient`."""
        g = np.zeros(len(self.theta))
        for rows in self._blocks(np.flatnonzero(self._u)):
            g += self._u[rows] @ self._gradients(rows)
        return g

    def hessian_product(self, v):
        """As `Model.hessian_product`."""
        return self._hessian @ v

    def inverse_hessian(self, g):
        """As `Model.inverse_hessian`."""
        return cho_solve(self._factor, g) if self.ihvp.exact else super().inverse_hessian(g)

    def scores(self, v):
        """As `Model.scores`."""
        scores = np.empty(len(self._u))
        for rows in self._blocks(np.arange(len(scores))):
            scores[rows] = self._gradients(rows) @ v
        return scores

    def predicted_gains(self, candidates, *, free_weights=False):
        """As `Model.predicted_gains`, by one Newton step of the problem with each row."""
        s = len(self)
        X, y = self.data.take(self.indices)
        rows = self._gradients(candidates)
        # at the solution the penalty's gradient balances that of the losses
        pull = -self.weights @ self._gradients(self.indices)
        penalty = self.problem.hessian(self.theta, X, y, np.zeros(s))
        data = s * (self.problem.hessian(self.theta, X, y, self.weights) - penalty)
        H_out = self.outer_hessian()
        slope, bend = np.empty(len(candidates)), np.empty(len(candidates))
        for part in self._blocks(np.arange(len(candidates)), len(pull) ** 2):
            own = self.problem.row_hessians(self.theta, *self.data.take(candidates[part]))
            steps = np.linalg.solve(data + s * penalty + own, (rows[part] + pull)[:, :, None])[:, :, 0]
            slope[part], bend[part] = steps @ self.gradient, np.einsum("kp,kp->k", steps @ H_out, steps)
        return decrease(slope, bend, free_weights)

    def outer_hessian(self):
        """Hessian of the outer loss at the current parameters, on a sample of rows, shape (p, p)."""
        X, y = self.data.take(self._sample)
        u = self._u[self._sample] / self._u[self._sample].sum()
        hessian = self.problem.hessian
        return hessian(self.theta, X, y, u) - hessian(self.theta, X, y, np.zeros(len(u)))

    def weight_quadratic(self):
        """As `Model.weight_quadratic`, by the derivative of the solution by the weights (Equation 3)."""
        jacobian = -cho_solve(self._factor, self._gradients(self.indices).T)
        return jacobian.T @ self.outer_hessian() @ jacobian, self.gradient @ jacobian
