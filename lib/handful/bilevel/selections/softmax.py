"""Selection for multinomial logistic regression: everything inside the span of the chosen rows."""

import numpy as np
from scipy import sparse

from handful.bilevel.numerics.ihvp import Cholesky
from handful.bilevel.numerics.multinomial_passes import SOFTMAX
from handful.bilevel.numerics.multinomial_solver import FLOAT32_TOL, MultinomialSolver
from handful.bilevel.numerics.span import Design
from handful.bilevel.selections.base import Selection, decrease

TOL = 1e-6  # of gradients, in units of the one at zero, and of linear systems
CURVATURE_ROWS = 512  # rows on which the outer curvature is estimated
IN_SPAN = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-4}  # share of a row's length that may lie outside
LARGE = 1 << 20  # entries of the inner design from which it keeps the type of X


class SoftmaxSelection(Selection):
    """A growing coreset of multinomial logistic regression.

    The inner solution lies in the span of the chosen rows, so the unknowns are (rank + 1) x classes, whatever the
    number of features; outside the span the Hessian is the penalty. A selection step reads the data in three matrix
    products.

    Parameters
    ----------
    problem : Logistic
    data : Rows, with targets of shape (n, classes) that add up to one
    rng : numpy.random.Generator, for the rows of the outer curvature
    ihvp : InverseHessian or None
    tol : to which inner problems and implicit gradients are solved; from 1e-3 on, float32 data stay float32
    """

    max_candidates = 128  # rows whose gains are predicted; each costs more than with a linear model

    def __init__(self, problem, data, rng, ihvp=None, tol=TOL):
        super().__init__(problem, data, ihvp)
        d = data.X.shape[1]
        n_classes = data.y.shape[1]
        self.intercept = float(problem.fit_intercept)
        self.passes = data.passes(SOFTMAX)
        self._kind = data.X.dtype if tol >= FLOAT32_TOL else np.dtype(np.float64)
        self._design = Design(d, self.intercept, self._kind, IN_SPAN[self._kind])
        # two outputs describe one logit: twice the penalty makes them the binary model
        self.l2 = float(problem.l2) * (2.0 if n_classes == 2 else 1.0)
        free = problem.fit_intercept and not problem.penalise_intercept
        self._inner = MultinomialSolver(self._design, self.l2, free, n_classes, tol, self.ihvp.damping)
        self._sample = data.sample(CURVATURE_ROWS, rng)

    @property
    def y(self):
        """Targets of the chosen rows, shape (s, classes)."""
        return self.data.y[self.indices]

    @property
    def coefficients(self):
        """Parameters for the features, shape (d + 1, classes); the intercepts come first."""
        return self._design.to_data(self._inner.theta)

    def rows(self, indices):
        """Features of some rows in float64."""
        X = self.data.X[indices]
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        return X.reshape(len(indices), self.data.X.shape[1])  # chunks give no columns where there are no rows

    def add(self, indices):
        """As `Selection.add`; from as many rows as features on, coordinates are the features."""
        indices = [int(i) for i in indices]
        s, d, many = len(self), self.data.X.shape[1], len(indices) > 1
        if self._design.in_span and len(indices) >= d:
            self._inner.to_data()
            self._design.leave_span(self.rows(self.indices), self._type(s))
        if self._design.in_span and many:
            self._inner.forget()
        self._design.add(self.rows(indices), self._type(s if self._design.in_span else s + len(indices)))
        self._inner.rows_came()
        self.indices += indices

    def _type(self, s):
        return self.data.X.dtype if s * (self.data.X.shape[1] + 1) > LARGE else self._kind

    def keep(self, alive):
        """As `Selection.keep`; the basis stays as it is."""
        super().keep(alive)
        self._design.A = self._design.A[np.asarray(alive, dtype=bool)]
        self._inner.rows_went()

    def solve(self, weights=None):
        """As `Selection.solve`, by Newton steps."""
        s = len(self)
        self.weights = np.full(s, 1.0 / s) if weights is None else weights
        self._inner.solve(self.y, self.weights)

    # The outer loss.

    def outer_loss(self):
        """As `Selection.outer_loss`."""
        self.gradient = self.passes.outer_gradient(self.coefficients)
        self.gradient[0] *= self.intercept
        return self.mean_loss()

    def mean_loss(self):
        return self.passes.mean_loss()

    def row_scores(self):
        """As `Selection.row_scores`."""
        self.outer_loss()
        self.direction = self._inverse_hessian_product(self.gradient)
        V = self.direction.copy()
        V[0] *= self.intercept
        return self.passes.linear_scores(V)

    def _inverse_hessian_product(self, G):
        # for the features; outside the span of the chosen rows the Hessian is l2 times the identity
        inner = self._inner
        if self._design.in_span:
            G = G.astype(self._kind, copy=False)  # products of two types would copy the basis
        if not self.ihvp.exact:
            return self.ihvp.solve(self._product, G)
        projected = self._design.from_data(G)
        if isinstance(self.ihvp, Cholesky):
            inside = inner.dense_solve(projected)
        else:
            inside = inner.direction = inner.solve_hessian(projected, inner.direction)
        return self._design.with_outside(inside, projected, G, self.l2 + self.ihvp.damping)

    def _product(self, V):
        inside = self._design.from_data(V)
        image = self._design.to_data(self._inner.product(inside)).astype(np.float64)
        if self._design.in_span:
            image[1:] += self.l2 * (V[1:] - self._design.Q @ inside[1:])
        return image

    # Second order.

    def predicted_gains(self, candidates, *, free_weights=False):
        """As `Selection.predicted_gains`: leverages and outer curvature take the preconditioner for the Hessian."""
        s, X, inner = len(self), self.rows(candidates), self._inner
        R = self.passes.r[candidates].astype(np.float64)
        P = R + self.data.y[candidates]
        classes = P.shape[1]
        # the step is H^-1 (a t') + q / s with q = H^-1 (penalty * theta)
        pull = (inner.penalty * inner.theta).astype(np.float64)
        q = self._design.to_data(inner.solve_hessian(pull, np.zeros_like(pull)).astype(np.float64))
        along = X @ q[1:] + self.intercept * q[0]
        rhs = R - P * (along - np.sum(P * along, axis=1, keepdims=True)) / s
        inside = self._design.coordinates(X)
        outside = (X - inside[:, 1:] @ self._design.Q.T) / self.l2 if self._design.in_span else 0.0
        leverage = np.einsum("kp,kp->k", inside @ inner.inverse, inside) + np.sum(outside * X, axis=1)
        curvature = np.einsum("kc,cd->kcd", P, np.eye(classes)) - P[:, :, None] * P[:, None]
        system = s * np.eye(classes) + curvature * leverage[:, None, None]
        t = np.linalg.solve(system, rhs[:, :, None])[:, :, 0]
        V = self.direction
        slope = np.einsum("kc,kc->k", t, X @ V[1:] + self.intercept * V[0]) + np.sum(self.gradient * q) / s
        return decrease(slope, self._outer_curvature(inside, outside, t, q / s), free_weights)

    def _outer_curvature(self, inside, outside, t, shift):
        # curvature of the outer loss along each candidate's step, shape (k,), on the sample of rows
        u, X_out, P_out = self._outer_sample()
        kind = self.data.X.dtype
        apart = X_out.astype(kind) @ np.asarray(outside, dtype=kind).T if self._design.in_span else kind.type(0)
        rows, inside = self._design.coordinates(X_out).astype(kind), inside.astype(kind)
        own = X_out @ shift[1:] + shift[0]
        square = np.zeros((len(rows), len(inside)), dtype=kind)
        mean = np.zeros_like(square)
        products = rows @ (self._inner.inverse.astype(kind, copy=False) @ inside.T) + apart
        for k in range(t.shape[1]):
            z = products * t[:, k].astype(kind) + own[:, k, None].astype(kind)
            pz = z * P_out[:, k, None].astype(kind)
            mean += pz
            square += pz * z
        return u @ (square - mean**2)

    def _outer_sample(self):
        rows = self._sample
        u = self.data.sample_weight[rows]
        P = (self.passes.r[rows] + self.data.y[rows]).astype(np.float64)
        return u / u.sum(), self.rows(rows), P

    def weight_quadratic(self):
        """As `Selection.weight_quadratic`; the slope is exact, the curvature takes one block for all classes."""
        inner, A = self._inner, self._design.A
        inner.direction = inner.solve_hessian(self._design.from_data(self.gradient), inner.direction)
        R = (inner.P - self.y).astype(np.float64)
        slope = -np.einsum("sk,sk->s", R, A @ inner.direction)
        u, X_out, P_out = self._outer_sample()
        S = self._design.coordinates(X_out) @ inner.exact_inverse() @ A.T.astype(np.float64)  # (sample, s)
        own = (S * np.sqrt(u)[:, None]) * (P_out @ R.T)
        Q = -own.T @ own
        for k in range(R.shape[1]):
            M = S * R[:, k] * np.sqrt(u * P_out[:, k])[:, None]
            Q += M.T @ M
        return Q, slope
