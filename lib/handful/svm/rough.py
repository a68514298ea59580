"""A rough solution of a large SVM whose lower bound is nevertheless certified: line 1 of the coreset algorithm."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from handful.svm.coordinate_descent import affordable_passes, descend
from handful.svm.interior_point import Solution, dual_objective, minimise
from handful.svm.staged import COOL, SMALLEST, stratified_sample

SAMPLE = 4000
STEPS = 12
CLOSE = 0.01  # relative distance to `w` at which the shares are good enough
STALLED = 0.8  # of the distance before: shares at their limits can do no more
WIDTHS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.02)


def rough_solution(X, y, c, *, tol):
    """A solution with a relative duality gap of at most `tol` (0.1, say), in a few passes over the data.

    `w` comes from a sample. The dual point that goes with it has share 0 or 1 for every point farther than
    h from the margin; the shares within h start on the straight line between the two and are moved, by
    least squares, until they make `w` (and balance the classes). A point in that band then contributes at
    most about h/4 to the gap, and h is chosen for that to be allowed.

    Parameters
    ----------
    X : DenseDesign or SparseDesign of n rows and d features
    y : float array, shape (n,), -1 or +1
    c : positive float array, shape (n,)
    tol : float

    Returns
    -------
    Solution; its `lower_bound` holds whatever the gap
    """
    if affordable_passes(X.rows()):
        return descend(X.rows(), y, c, tol=tol)
    if X.n < SMALLEST:
        return minimise(X, y, c, tol=tol)
    rows = stratified_sample(y, SAMPLE)
    sample = minimise(X.take(rows), y[rows], c[rows] * (c.sum() / c[rows].sum()), tol=0.1 * tol)
    w = sample.w
    slack = y * X.times(w) - 1.0
    objective = 0.5 * w[:-1] @ w[:-1] + c @ np.maximum(0.0, -slack)
    share = _matching_shares(X, y, c, w, slack, _width(slack, c, 0.5 * tol * objective))
    bound = dual_objective(X, y, c, share, np.zeros(X.d + 1))
    if objective - bound <= tol * objective:
        return Solution(w, share, objective, bound, sample.n_iter)
    whole = minimise(X, y, c, tol=tol, start=w, mu=COOL)
    return Solution(whole.w, whole.share, whole.objective, max(bound, whole.lower_bound), sample.n_iter + whole.n_iter)


def _matching_shares(X, y, c, w, slack, width):
    """Dual shares that differ from 0 and 1 within `width` of the margin only, and there make `w`."""
    band = np.flatnonzero(np.abs(slack) < width)
    share = (slack <= -width).astype(np.float64)
    wanted = np.append(w[:-1], 0.0) - X.transposed_times(y * c * share)
    X, y, c = X.take(band), y[band], c[band]
    inside, before = 0.5 - slack[band] / (2.0 * width), np.inf
    for _ in range(STEPS):
        movable = (inside > 0) & (inside < 1)
        M, made = X.gram(np.where(movable, c, 0.0), y * c * inside)
        off = np.linalg.norm(wanted - made)
        if off <= CLOSE * np.linalg.norm(w[:-1]) or off > STALLED * before or movable.sum() <= X.d:
            break
        before = off
        M.flat[:: X.d + 2] += 1e-9 * np.trace(M)
        try:
            move = cho_solve(cho_factor(M), wanted - made)
        except LinAlgError:  # the band spans too few directions: the caller's certificate says so
            break
        inside = np.clip(inside + y * X.times(move), 0.0, 1.0)
    share[band] = inside
    return share


def _width(slack, c, allowed):
    """The widest band whose loss of up to h/4 for each of its points is allowed."""
    near = np.flatnonzero(np.abs(slack) < WIDTHS[0])
    distance, price = np.abs(slack[near]), c[near]
    for width in WIDTHS:
        if 0.25 * width * price[distance < width].sum() <= allowed:
            return width
    return WIDTHS[-1]
