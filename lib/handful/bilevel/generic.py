"""Selection for any `Problem`: dense implicit gradients and predicted gains from its four methods."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from handful.bilevel.ihvp import Ihvp
from handful.bilevel.newton import ConvergenceError

ENTRIES = 1 << 22  # of a block of row gradients
CURVATURE_ROWS = 4096  # rows on which the outer Hessian is estimated; more change the choices little


@dataclass
class Rows:
    """The rows of the outer loss; those that may be chosen are among them.

    Attributes
    ----------
    X : shape (n, d); y : encoded targets, n of them, or None
    sample_weight : shape (n,), weights in the outer loss
    absent : rows that may not be chosen
    """

    X: np.ndarray
    y: np.ndarray | None
    sample_weight: np.ndarray
    absent: np.ndarray

    def take(self, rows):
        """``(X, y)`` of some rows."""
        return self.X[rows], None if self.y is None else self.y[rows]


class GenericSelection:
    """A growing coreset of a user's problem, and what the outer loss says about every further row.

    Has the methods of `LinearSelection`, at a cost of p^3 and n p a step.

    Parameters
    ----------
    problem : Problem
    data : Rows
    rng : numpy.random.Generator, for the rows of the outer Hessian
    ihvp : Ihvp
    """

    max_candidates = 512  # whose gains are predicted

    def __init__(self, problem, data, rng, ihvp=None):
        self.problem, self.data = problem, data
        self.ihvp = ihvp or Ihvp()
        self.absent = data.absent
        self.indices = []
        self.theta = None
        self.weights = None
        rows = np.flatnonzero(data.sample_weight)
        if len(rows) > CURVATURE_ROWS:
            rows = np.sort(rng.choice(rows, CURVATURE_ROWS, replace=False))
        self._sample = rows
        self._u = data.sample_weight / data.sample_weight.sum()

    def __len__(self):
        return len(self.indices)

    def add(self, indices):
        """Append rows to the coreset."""
        self.indices += [int(i) for i in indices]

    def keep(self, alive):
        """Drop the rows where the mask `alive`, shape (s,), is False."""
        self.indices = [i for i, stays in zip(self.indices, alive) if stays]

    def solve(self, weights=None):
        """Solve the inner problem for `weights` (shape (s,), adding up to 1; uniform for None), warm started."""
        s = len(self)
        c = np.full(s, 1.0 / s) if weights is None else weights
        X, y = self.data.take(self.indices)
        theta = np.asarray(self.problem.solve(X, y, c, start=self.theta), dtype=np.float64)
        if not (theta.ndim == 1 and np.isfinite(theta).all()):
            raise ConvergenceError(
                f"{type(self.problem).__name__}.solve must give finite parameters of shape (p,), got shape "
                f"{theta.shape} with {np.count_nonzero(~np.isfinite(theta))} entries that are not finite."
            )
        self.theta, self.weights = theta, c
        self._hessian = np.asarray(self.problem.hessian(theta, X, y, c), dtype=np.float64)
        p = len(theta)
        if self._hessian.shape != (p, p) or not np.isfinite(self._hessian).all():
            raise ConvergenceError(
                f"{type(self.problem).__name__}.hessian must give a finite matrix of shape {(p, p)}, got shape "
                f"{self._hessian.shape} with {np.count_nonzero(~np.isfinite(self._hessian))} entries that are not."
            )
        try:
            self._factor = cho_factor(self._hessian + self.ihvp.damping * np.eye(p))
        except LinAlgError:
            least = eigvalsh(self._hessian)[0]
            raise ConvergenceError(
                f"the Hessian of {self.problem!r} on {s} points is not positive definite (least eigenvalue "
                f"{least:.1e}), so that it gives no implicit gradient: raise the penalty, or damping (now "
                f"{self.ihvp.damping:g})."
            ) from None

    def _blocks(self, rows):
        # rows, few enough at a time that their gradients fit into memory
        step = max(1, ENTRIES // max(len(self.theta), 1))
        for lo in range(0, len(rows), step):
            yield rows[lo : lo + step]

    def _all_losses(self):
        losses = np.asarray(self.problem.losses(self.theta, self.data.X, self.data.y), dtype=np.float64)
        if losses.shape != self._u.shape or not np.isfinite(losses).all():
            raise ValueError(
                f"{type(self.problem).__name__}.losses must give one finite number a row, shape {self._u.shape}, got "
                f"shape {losses.shape} with {np.count_nonzero(~np.isfinite(losses))} that are not finite."
            )
        return losses

    def mean_loss(self):
        """Weighted mean of the outer losses at the current parameters."""
        return float(self._u @ self._all_losses())

    def outer_loss(self):
        """Mean outer loss at the current parameters, whose gradient is kept; the outer problem has no penalty."""
        self.gradient = self._outer_gradient()
        return self.mean_loss()

    def _outer_gradient(self):
        g = np.zeros(len(self.theta))
        for rows in self._blocks(np.flatnonzero(self._u)):
            g += self._u[rows] @ self.problem.gradients(self.theta, *self.data.take(rows))
        return g

    def row_scores(self):
        """First-order score of every row, shape (n,): ``grad l_k' H^-1 grad g`` (Equation 5)."""
        self.gradient = self._outer_gradient()
        if self.ihvp.exact:
            self.direction = cho_solve(self._factor, self.gradient)
        else:
            self.direction = self.ihvp.approximate(self._hessian.__matmul__, self.gradient)
        scores = np.empty(len(self._u))
        for rows in self._blocks(np.arange(len(scores))):
            scores[rows] = self.problem.gradients(self.theta, *self.data.take(rows)) @ self.direction
        return scores

    def linear_scores(self):
        """`row_scores`, -inf for rows that are chosen already or may not be."""
        scores = self.row_scores()
        scores[self.indices] = -np.inf
        scores[self.absent] = -np.inf
        return scores

    def predicted_gains(self, candidates, *, free_weights=False):
        """Decrease of the outer loss that adding each candidate row predicts, shape (k,).

        As in `LinearSelection`: one Newton step of the problem with the row, along which the outer loss is followed to
        second order. Call after `linear_scores`.
        """
        s = len(self)
        X, y = self.data.take(self.indices)
        rows = self.problem.gradients(self.theta, *self.data.take(candidates))
        # at the solution the penalty's gradient balances that of the losses
        pull = -self.weights @ self.problem.gradients(self.theta, X, y)
        penalty = self.problem.hessian(self.theta, X, y, np.zeros(s))
        data = s * (self.problem.hessian(self.theta, X, y, self.weights) - penalty)
        H_out = self.outer_hessian()
        gains = np.empty(len(candidates))
        for j, k in enumerate(candidates):
            own = self.problem.hessian(self.theta, *self.data.take([k]), np.ones(1)) - penalty
            step = np.linalg.solve(data + own + s * penalty, rows[j] + pull)
            slope, bend = step @ self.gradient, step @ H_out @ step
            fraction = 1.0
            if free_weights and bend > max(slope, 0.0):  # the minimum of the parabola where it lies within the step
                fraction = max(slope, 0.0) / bend
            gains[j] = fraction * slope - 0.5 * fraction**2 * bend
        return gains

    def outer_hessian(self):
        """Hessian of the outer loss at the current parameters, on a sample of rows, shape (p, p)."""
        X, y = self.data.take(self._sample)
        u = self._u[self._sample] / self._u[self._sample].sum()
        hessian = self.problem.hessian
        return hessian(self.theta, X, y, u) - hessian(self.theta, X, y, np.zeros(len(u)))

    def weight_sensitivities(self):
        """As `LinearSelection.weight_sensitivities`; call after `outer_loss`."""
        rows = self.problem.gradients(self.theta, *self.data.take(self.indices))
        return -cho_solve(self._factor, rows.T), self.gradient, self.outer_hessian()

    def weight_quadratic(self):
        """Curvature (s, s) and slope (s,) of the outer loss by the weights; call after `outer_loss`."""
        jacobian, gradient, hessian = self.weight_sensitivities()
        return jacobian.T @ hessian @ jacobian, gradient @ jacobian
