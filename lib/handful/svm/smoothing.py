"""Newton's method on a smoothed hinge loss: a certified rough solution, and the few points that
decide the exact one.

The loss is rounded off within a width h of the margin. There its second derivative is 1 / (2 h),
elsewhere it is 0, so that a Newton step needs the Gram matrix of the points within h alone. The
width falls from one solution to the next; each gives a feasible dual point, and with it a lower
bound that is off by at most h / 4 for each of these points.
"""

from dataclasses import replace

import numpy as np

from handful.svm.coordinate_descent import PASSES, affordable_passes, descend
from handful.svm.interior_point import Solution, dual_objective, factor, gram, gram_fits, minimise

# with fewer rows the interior-point method takes all of them
SMALLEST = 8000
# widths, in units of the margin: the first, ratio of two, the last
WIDEST = 2.0
NARROWER = 0.25
NARROWEST = 0.02
# a solution for one width is exact enough once a step promises less than this share of its
# smoothing
CLOSE = 1e-2
# at most for one width
STEPS = 8
# widths from the margin within which points are undecided
BAND = 2.0
# with more than this share of the points undecided, all are solved for
MOST = 0.4
# iterations for a reduced problem: one that has no feasible dual point would go on for ever
PATIENCE = 60


def solve(A, y, c, *, tol, start=None, max_iter=200):
    """The solution of a weighted SVM with a relative duality gap of at most `tol` on all rows.

    Wide data go to coordinate descent first, for a quarter of the time that the interior-point
    method is expected to take. That method goes on where the descent does not get there, if its
    Gram matrix fits in the memory. Of many rows it gets only those near the margin of the smoothed
    solution, the others as a linear term. The reduced problem's dual point is feasible for the
    whole one, so that its value is a lower bound whatever was settled; a point that was settled
    wrongly shows as a gap, and then all rows are solved for.

    Parameters
    ----------
    A : from `with_ones`, shape (n, d + 1)
    y : float array, shape (n,), -1 or +1
    c : positive float array, shape (n,)
    tol : float
    start : float array, shape (d + 1,), optional; a solution of a similar problem, the bias last
    max_iter : int, interior-point iterations in each solve

    Returns
    -------
    Solution; its `n_iter` counts the iterations of every stage
    """
    d = A.shape[1] - 1
    warm = dict(start=start, mu=1.0 if start is None else 0.1)
    if n_passes := affordable_passes(A):
        most = PASSES * max_iter
        n_passes = min(n_passes, most) if gram_fits(d) else most
        bias = 0.0 if start is None else start[-1]
        wide = descend(A, y, c, tol=tol, bias=bias, max_iter=n_passes)
        if wide.gap <= tol or not gram_fits(d):
            return wide
        warm["start"] = wide.w
    if len(y) < SMALLEST:
        return minimise(A, y, c, tol=tol, max_iter=max_iter, **warm)
    best, width = smooth(A, y, c, tol=tol, start=start)
    if best.gap <= tol:
        return best
    w = best.w
    n_iter = best.n_iter
    slack = y * (A @ w) - 1.0
    undecided = np.abs(slack) <= BAND * width
    if 0.0 < undecided.mean() <= MOST:
        # settled on the wrong side: all of c
        charged = c * (~undecided & (slack < 0))
        part = minimise(
            A[undecided],
            y[undecided],
            c[undecided],
            tol=0.5 * tol,
            linear=A.T @ (charged * y),
            constant=charged.sum(),
            start=w,
            mu=width,
            max_iter=min(PATIENCE, max_iter),
        )
        n_iter = n_iter + part.n_iter
        w = part.w
        objective = 0.5 * w[:-1] @ w[:-1] + c @ np.maximum(0.0, 1.0 - y * (A @ w))
        if objective - part.lower_bound <= tol * objective:
            share = np.where(charged > 0, 1.0, 0.0)
            share[undecided] = part.share
            return Solution(w, share, objective, part.lower_bound, n_iter)
    # A part's solution may have gone to infinity, and the smoothed one, too, if it is worse than
    # zero.
    start = best.w if best.objective < c.sum() else None
    whole = minimise(A, y, c, tol=tol, start=start, max_iter=max_iter)
    return replace(whole, n_iter=n_iter + whole.n_iter)


def smooth(A, y, c, *, tol, start=None):
    """A solution with a relative duality gap of at most `tol`, or that of the narrowest width.

    Parameters
    ----------
    A, y, c, tol, start : as in `solve`

    Returns
    -------
    Solution; its `lower_bound` holds whatever the gap
    width : float, within which the loss of `w` is smoothed
    """
    penalised = np.append(np.ones(A.shape[1] - 1), 0.0)
    w = np.zeros(A.shape[1]) if start is None else start
    slack = y * (A @ w) - 1.0
    width = WIDEST
    n_iter = 0
    bound = -np.inf
    while True:
        for _ in range(STEPS):
            share = np.clip(0.5 - slack / (2.0 * width), 0.0, 1.0)
            band = np.flatnonzero((share > 0.0) & (share < 1.0))
            newton = factor(gram(A[band], c[band] / (2.0 * width)), penalised)
            # no point is near the margin
            if newton is None:
                break
            step = newton(A.T @ (c * y * share) - penalised * w)
            move = y * (A @ step)
            t, slope = _line_search(
                slack, move, c, width, (penalised * w) @ step, (penalised * step) @ step
            )
            w = w + t * step
            slack = slack + t * move
            n_iter = n_iter + 1
            if -slope <= CLOSE * width * c[band].sum():
                break
        objective = 0.5 * w[:-1] @ w[:-1] + c @ np.maximum(0.0, -slack)
        share = np.clip(0.5 - slack / (2.0 * width), 0.0, 1.0)
        bound = max(bound, dual_objective(A, y, c, share))
        found = Solution(w, share, float(objective), float(bound), n_iter)
        if found.gap <= tol or width * NARROWER < NARROWEST or newton is None:
            return found, width
        width *= NARROWER


def _line_search(slack, move, c, width, along, curvature):
    """How far to go: half of the slope at the start or less is left there. And that slope, which is
    negative."""
    t = 1.0
    low = 0.0
    high = np.inf

    def slope(t):
        share = np.clip(0.5 - (slack + t * move) / (2.0 * width), 0.0, 1.0)
        return along + t * curvature - (c * share) @ move

    first = slope(0.0)
    for _ in range(10):
        now = slope(t)
        if abs(now) <= 0.5 * abs(first):
            break
        if now < 0:
            low = t
        else:
            high = t
        t = 2.0 * t if high == np.inf else 0.5 * (low + high)
    return t, first
