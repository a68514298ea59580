"""Exact inner solves: damped Newton with Cholesky factors for small weighted linear models."""

import math

import numpy as np
from numba import njit
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from handful.bilevel.numerics.passes import LOGISTIC

MAX_ITER = 200


@njit(cache=True, error_model="numpy")
def pointwise(kind, z, y, loss, r, h):
    """Loss, first and second derivative by the logit, written into `loss`, `r` and `h`; each of shape (s,)."""
    for i in range(len(z)):
        if kind == LOGISTIC:
            margin = y[i] * z[i]
            e = np.exp(-abs(margin))
            p = (e if margin > 0 else 1.0) / (1.0 + e)  # probability of the other label
            loss[i] = np.log1p(e) + max(-margin, 0.0)
            r[i] = -y[i] * p
            h[i] = e / (1.0 + e) ** 2
        else:
            r[i] = z[i] - y[i]
            loss[i] = 0.5 * r[i] ** 2
            h[i] = 1.0


def moved_derivative(kind, z, y, reach):
    """Derivative ``l'(t)`` of a loss at the logit t to which a step along it leads from z: ``t = z - reach * l'(t)``.

    Parameters
    ----------
    kind : LOGISTIC or SQUARED
    z : float; y : its label (-1 or 1) or target; reach : not negative
    """
    if kind != LOGISTIC:
        return (z - y) / (1.0 + reach)
    margin = low = start = y * z
    high = min(start + reach, max(start, 0.0) + math.log1p(reach) + 1.0)  # since p < 1, and p < exp(-margin)
    for _ in range(40):
        p = 1.0 / (1.0 + math.exp(min(margin, 700.0)))  # probability of the other label
        excess = margin - reach * p - start
        if abs(excess) < 1e-6:
            break
        low, high = (low, margin) if excess > 0 else (margin, high)
        margin -= excess / (1.0 + reach * p * (1.0 - p))
        if not low < margin < high:
            margin = 0.5 * (low + high)
    return -y * p


def cholesky_solve(factor, b):
    """Solution x of ``L L' x = b`` for a lower triangular L, shape (p, p)."""
    return dpotrs(factor, b, lower=True)[0]


def cholesky_inverse(factor):
    """Inverse of ``L L'`` for a lower triangular L, shape (p, p)."""
    lower = dpotri(factor, lower=True)[0]
    inverse = lower + lower.T  # above the diagonal, `lower` holds the zeros of the factor
    inverse.flat[:: len(factor) + 1] *= 0.5
    return inverse


def solve_inner(kind, A, y, c, l2, starts, tol, max_iter):
    """Minimise ``sum_i c_i l(a_i' theta, y_i) + 1/2 sum_j l2_j theta_j^2`` from a warm start.

    Parameters
    ----------
    kind : LOGISTIC or SQUARED
    A : float64, shape (s, p); y, c : shape (s,), targets and weights (they add up to 1)
    l2 : shape (p,)
    starts : arrays of shape (p,), of which the one of the lowest objective is taken, unless that is lower at zero (a
        start where all probabilities are 0 or 1 has no curvature to follow)
    tol : the largest entry of the gradient at which to stop, in units of the gradient at theta = 0 (where its terms
        cancel there, or vanish, what is left would be rounding: a millionth of the terms or of the first gradient)

    Returns
    -------
    theta : the solution, shape (p,)
    factor : Cholesky factor of the Hessian at the solution, lower, shape (p, p)
    grad : largest absolute entry of the gradient there, in the units of `tol`
    """
    s, p = A.shape
    loss, r, h = np.empty(s), np.empty(s), np.empty(s)
    pointwise(kind, np.zeros(s), y, loss, r, h)
    terms = ((c * np.abs(r)) @ np.abs(A)).max()
    unit = max(np.abs((c * r) @ A).max(), 1e-6 * terms, 1e-300)
    value, theta, z = c @ loss, np.zeros(p), np.zeros(s)
    for start in starts:
        logits = A @ start
        pointwise(kind, logits, y, loss, r, h)
        there = c @ loss + 0.5 * (l2 @ (start * start))
        if there < value:
            value, theta, z = there, start, logits
    if z is not logits:
        pointwise(kind, z, y, loss, r, h)
    # the second term keeps a free intercept's entry positive where every probability is 0 or 1 to rounding
    ridge = l2 + 1e-14 * l2.max()
    for iteration in range(max_iter + 1):
        gradient = (c * r) @ A + l2 * theta
        largest = np.abs(gradient).max()
        if iteration == 0:
            unit = max(unit, 1e-6 * largest)
        size = largest / unit
        scaled = A * np.sqrt(c * h)[:, None]
        hessian = scaled.T @ scaled
        hessian.ravel()[:: p + 1] += ridge
        factor, failed = dpotrf(hessian.T, lower=True, overwrite_a=True)  # LAPACK's order of a transpose
        if failed:
            raise np.linalg.LinAlgError("the Hessian is not positive definite")
        if not size > tol or iteration == max_iter:
            break
        step = cholesky_solve(factor, gradient)
        slope = gradient @ step
        z_step = A @ step
        length = 1.0
        while True:
            pointwise(kind, z - length * z_step, y, loss, r, h)
            trial = theta - length * step
            new = c @ loss + 0.5 * (l2 @ (trial * trial))
            # the last term allows for rounding: near the solution two values differ by less than their errors
            if new <= value - 0.25 * length * slope + 1e-14 * abs(value) or length < 1e-10:
                break
            length *= 0.5
        theta, value = trial, new
        z = z - length * z_step
    return theta, factor, size
