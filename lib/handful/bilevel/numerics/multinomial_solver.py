"""The inner problem of multinomial logistic regression on the chosen rows, and linear systems with its Hessian."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky

from handful.bilevel.numerics.multinomial import (
    grow_inverse,
    hessian_product,
    softmax,
    solve_hessian,
    solve_multinomial,
)
from handful.bilevel.numerics.newton import cholesky_inverse
from handful.checks import ConvergenceError

SELECTION_TOL = 1e-3  # more digits change no choice that matters: the losses after training are the same
WEIGHTS_TOL = 1e-4  # where weights are optimised, so that losses and their gradients count
LOOSEST = 1e-2  # a solve may stop at a fifth of the gradient that the new row has caused, but not above this
IMPLICIT = 10.0  # times the tolerance, for implicit gradients: their digits rank rows only
FLOAT32_TOL = 1e-3  # smallest tolerance that float32 can reach
MAX_NEWTON, MAX_CG = 100, 300
REFRESH_AFTER = 16  # conjugate gradients of a solve above which the preconditioner is computed anew, unless it is young
DENSE_BELOW = 8000  # unknowns up to which ihvp="cholesky" factors the whole Hessian


class MultinomialSolver:
    """Newton steps by preconditioned conjugate gradients; the preconditioner lives on from solve to solve.

    Parameters
    ----------
    design : Design of the chosen rows
    l2 : penalty on the coefficients of every class
    free_intercept : whether the intercept bears no penalty
    n_classes : int
    tol : to which problems and systems are solved; from `SELECTION_TOL` on, only as far as choices need
    damping : added to the Hessian's diagonal in `solve_hessian`

    Attributes
    ----------
    theta : shape (p, classes), parameters for the columns of the design
    P : shape (s, classes), probabilities of the chosen rows
    inverse : shape (p, p), inverse of the mean of the Hessian's diagonal blocks: the preconditioner
    """

    def __init__(self, design, l2, free_intercept, n_classes, tol, damping):
        self.design, self.l2, self.tol, self.damping = design, l2, tol, damping
        self._free_intercept = free_intercept
        self.theta, self.direction = np.zeros((1, n_classes)), np.zeros((1, n_classes))
        self.inverse = None
        # the preconditioner was built for so many rows, so many solves ago; the last solve took so many products
        self._built = self._age = self._effort = 0

    def rows_came(self):
        """The design has got rows, and perhaps columns."""
        self.theta, self.direction = self.design.padded(self.theta), self.design.padded(self.direction)

    def rows_went(self):
        """The design has lost rows: the preconditioner is not one row short of it."""
        self._built = -1

    def forget(self):
        """Build the preconditioner anew at the next solve."""
        self.inverse = None

    def to_data(self):
        """Take the features as coordinates, before the design leaves the span of its rows."""
        self.theta, self.direction = self.design.to_data(self.theta), self.design.to_data(self.direction)
        self.inverse = None

    def solve(self, Y, weights):
        """Solve the inner problem for targets Y, shape (s, classes), and weights, shape (s,), warm started.

        Raises
        ------
        ConvergenceError
            if Newton's method stops short of the tolerance
        """
        A, kind = self.design.A, self.design.A.dtype
        self._Y, self._c = np.ascontiguousarray(Y, dtype=kind), weights.astype(kind)[:, None]
        self.penalty = np.full((A.shape[1], 1), self.l2, dtype=kind)
        if self._free_intercept:
            self.penalty[0] = 0.0
        theta, self.P = np.ascontiguousarray(self.theta, dtype=kind), np.empty(Y.shape, dtype=kind)
        self._update_preconditioner(theta)
        tol = self._tolerance()
        loosest = LOOSEST if self.tol >= SELECTION_TOL else 0.0
        for attempt in range(2):
            options = self.inverse, theta, self.P, tol, MAX_NEWTON, loosest
            left, n_products = solve_multinomial(A, self._Y, self._c, self.penalty, *options)
            if left <= max(tol, loosest) or attempt:
                break
            self.forget()  # try again with a new preconditioner
            self._update_preconditioner(theta)
        self._effort = n_products
        self.theta = theta
        if not left <= max(10.0 * tol, 1e-4):
            raise ConvergenceError(
                f"the inner problem on {len(A)} points was not solved in {MAX_NEWTON} Newton steps (gradient "
                f"{left:.1e} of the one at zero); raise l2 (now {self.l2:g} a class) or scale the features."
            )

    def _tolerance(self):
        return max(self.tol, FLOAT32_TOL) if self.design.A.dtype == np.float32 else self.tol

    def _update_preconditioner(self, theta):
        A = self.design.A
        s, p = A.shape
        self._age += 1
        if self.inverse is not None:  # small designs are float64, large ones have the type of X
            self.inverse = self.inverse.astype(A.dtype, copy=False)
        if self.inverse is not None and self._built == s - 1:  # one more row
            self.inverse = grow_inverse(self.inverse, A[-1], self._curvatures(theta, s - 1)[0], self.penalty[-1, 0])
        stale = self._effort > REFRESH_AFTER and self._effort * self._age > 2 * REFRESH_AFTER**2
        if self.inverse is None or len(self.inverse) != p or stale:
            self.inverse = self._inverse_block(self._curvatures(theta)).astype(A.dtype)
            self._age = 0
        self._built = s

    def _curvatures(self, theta, first=0):
        # weighted curvature of each row from `first` on, mean over the classes
        P = self.design.A[first:] @ theta
        softmax(P, self._Y[first:].astype(P.dtype, copy=False), np.empty(len(P), dtype=P.dtype))
        return np.maximum((P * (1.0 - P)).mean(axis=1), 1e-7).astype(P.dtype) * self._c[first:, 0]

    def _inverse_block(self, curvatures):
        s, p = self.design.A.shape
        skip = max(1, s // (4 * p))  # where there are many rows, a sample is enough
        A, curvatures = self.design.A[::skip], skip * curvatures[::skip]
        B = (A.T @ (A * curvatures[:, None])).astype(np.float64)
        B[np.diag_indices_from(B)] += self.penalty[:, 0] + 1e-10 * np.trace(B) / p
        try:
            return cholesky_inverse(cholesky(B, lower=True, check_finite=False))
        except LinAlgError:
            raise ConvergenceError(
                f"the inner problem on {s} points is singular to rounding (features up to "
                f"{np.abs(self.design.A).max():.1e} against l2={self.l2:g} a class); scale the features or raise l2."
            ) from None

    def exact_inverse(self):
        """The preconditioner at the solution, in float64, from curvatures of its own."""
        return self._inverse_block(self._curvatures(self.theta))

    def product(self, V):
        """``H V``, shape (p, classes)."""
        return hessian_product(self.design.A, self.P, self._c, self.penalty, V.astype(self.design.A.dtype, copy=False))

    def solve_hessian(self, G, start):
        """The solution V of ``(H + damping I) V = G`` from a start; all of shape (p, classes).

        Raises
        ------
        ConvergenceError
            if conjugate gradients stop short of the tolerance
        """
        A, kind = self.design.A, self.design.A.dtype
        V, G = start.astype(kind), np.ascontiguousarray(G, dtype=kind)
        system = A, self.P, self._c, self.penalty + np.asarray(self.damping, dtype=kind)
        tol = self._tolerance() * (IMPLICIT if self.tol >= SELECTION_TOL else 1.0)
        n_products, left = solve_hessian(*system, self.inverse, G, V, tol, MAX_CG)
        if left > tol:  # try again with a new preconditioner
            self.forget()
            self._update_preconditioner(self.theta)
            _, left = solve_hessian(*system, self.inverse, G, V, tol, MAX_CG)
        self._effort = max(self._effort, n_products)
        if not left <= 100.0 * tol:
            raise ConvergenceError(
                f"the implicit gradient of {len(A)} points was not solved in {MAX_CG} conjugate gradients (residual "
                f"{left:.1e}); scale the features, or raise l2 (now {self.l2:g} a class) or damping (now "
                f"{self.damping:g})."
            )
        return V

    def dense_solve(self, G):
        """As `solve_hessian`, by a Cholesky factor of the whole matrix in float64; ValueError if it is too large."""
        p, k = G.shape
        if p * k > DENSE_BELOW:
            raise ValueError(
                f"ihvp='cholesky' would factor a Hessian of {p * k} unknowns, more than {DENSE_BELOW}; 'auto' is as "
                "exact, by preconditioned conjugate gradients."
            )
        A, P, c = (a.astype(np.float64) for a in (self.design.A, self.P, self._c))
        H = np.zeros((p, k, p, k))
        for i in range(k):
            for j in range(k):
                H[:, i, :, j] = (A.T * (c[:, 0] * P[:, i] * ((i == j) - P[:, j]))) @ A
        H = H.reshape(p * k, p * k)
        H[np.diag_indices(p * k)] += np.repeat(self.penalty[:, 0] + self.damping, k)
        # one number added to all classes' intercepts changes nothing: that direction gets a curvature of its own
        H[:k, :k] += 1.0 / k
        return cho_solve(cho_factor(H), G.ravel()).reshape(p, k)
