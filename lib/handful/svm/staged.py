"""Solving a large SVM on the few points that decide it, with a certificate for all of them.

Most points end far from the margin: on the right side their dual variable is 0, on the wrong side it is
their whole ``c_i``, and which of the two is clear from the solution on a sample. So: solve a sample,
settle every point that is farther from the margin than that solution is uncertain, solve
for the rest with the settled points as a linear term, and look at all points again. The reduced problem's
dual point is feasible for the whole one, so its value is a lower bound whatever was settled; a point that
was settled wrongly shows as a gap, is put back, and the solution goes on from where it was.
"""

from dataclasses import replace

import numpy as np

from handful.svm.coordinate_descent import PASSES, affordable_passes, descend
from handful.svm.interior_point import Solution, gram_fits, minimise
from handful.svm.kernels import design

SMALLEST = 8000  # below this many rows one solve is cheaper than several
SAMPLE_TOL = 1e-3
WARM = 0.1  # where on the path a warm start begins, in units of the margin
COOL = 1.0  # the same where much may still change
FLIPS = 0.95  # the band holds this share of the points that changed sides between two samples,
NARROWER = 0.8  # and shrinks by this, as the second sample is twice the first
LEAST = 5.0  # over the root of the sample's size: the least share of all points in the band
MOST = 0.4  # with more than this share of the points undecided, all are solved for
FEW = 0.1  # with more than this share settled wrongly, likewise
ROUNDS = 4
PATIENCE = 60  # iterations for a reduced problem: one that has no feasible dual point would go on for ever


def solve(X, y, c, *, tol, start=None, max_iter=200):
    """The solution of a weighted SVM with a relative duality gap of at most `tol` on all rows.

    Wide data go to coordinate descent first, for a quarter of the time that the interior-point method is expected to
    take. That method goes on where the descent does not get there, if its Gram matrix fits in the memory.

    Parameters
    ----------
    X : float64 array or CSR matrix, shape (n, d)
    y : float array, shape (n,), -1 or +1
    c : positive float array, shape (n,)
    tol : float
    start : float array, shape (d + 1,), optional; a solution of a similar problem, the bias last
    max_iter : int, interior-point iterations in each solve

    Returns
    -------
    Solution; its `n_iter` counts the iterations of every stage
    """
    n = len(y)
    n_passes = affordable_passes(X)
    if n_passes:
        n_passes = min(n_passes, PASSES * max_iter) if gram_fits(X.shape[1]) else PASSES * max_iter
        wide = descend(X, y, c, tol=tol, bias=0.0 if start is None else start[-1], max_iter=n_passes)
        if wide.gap <= tol or not gram_fits(X.shape[1]):
            return wide
        start = wide.w
    if n < SMALLEST:
        mu = 1.0 if start is None else WARM
        return minimise(design(X), y, c, tol=tol, start=start, mu=mu, max_iter=max_iter)
    w, slack, band, n_iter = _from_samples(X, y, c, tol, start, max_iter)
    undecided = np.abs(slack) <= band
    for _ in range(ROUNDS):
        if undecided.mean() > MOST:
            break
        charged = c * (~undecided & (slack < 0))  # settled on the wrong side: all of c
        linear = np.append(X.T @ (charged * y), charged @ y)
        part = minimise(
            design(X, np.flatnonzero(undecided)), y[undecided], c[undecided], tol=0.5 * tol,
            linear=linear, constant=charged.sum(), start=w, mu=WARM, max_iter=PATIENCE,
        )  # fmt: skip
        n_iter += part.n_iter
        before, slack = slack, _slack(X, y, part.w)
        objective = 0.5 * part.w[:-1] @ part.w[:-1] + c @ np.maximum(0.0, -slack)
        if objective - part.lower_bound <= tol * objective:
            share = np.where(charged > 0, 1.0, 0.0)
            share[undecided] = part.share
            return Solution(part.w, share, objective, part.lower_bound, n_iter)
        wrong = ~undecided & ((slack < 0) != (before < 0))
        if wrong.sum() > FEW * n:
            break
        w = part.w
        undecided |= wrong | (np.abs(slack) <= 0.5 * band)
    whole = minimise(design(X), y, c, tol=tol, start=w, mu=COOL, max_iter=max_iter)
    return replace(whole, n_iter=n_iter + whole.n_iter)


def _from_samples(X, y, c, tol, start, max_iter):
    """A solution on a sample, all slacks at it, and how far from the margin it may be wrong about a point.

    The band comes from half of that sample: where the two solutions put a point on different sides.
    """
    n, n_iter = len(y), 0
    m = max(n // 16, 4000)
    slacks = []
    for rows in (stratified_sample(y, m // 2), stratified_sample(y, m)):
        scaled = c[rows] * (c.sum() / c[rows].sum())
        mu = 1.0 if start is None else WARM
        sample = minimise(
            design(X, rows), y[rows], scaled, tol=max(tol, SAMPLE_TOL), start=start, mu=mu, max_iter=max_iter
        )
        n_iter += sample.n_iter
        start = sample.w
        slacks.append(_slack(X, y, start))
    flipped = (slacks[0] < 0) != (slacks[1] < 0)
    distance = np.abs(slacks[1])
    band = np.quantile(distance, min(1.0, LEAST / np.sqrt(m)))
    if flipped.any():
        band = max(band, NARROWER * np.quantile(distance[flipped], FLIPS))
    return start, slacks[1], band, n_iter


def _slack(X, y, w):
    return y * (X @ w[:-1] + w[-1]) - 1.0


def stratified_sample(y, m):
    """About `m` rows, of each class in proportion and at least one, in a fixed random order of strata.

    The random numbers are the same in every call: no solution depends on them, only the time it takes.
    """
    rng = np.random.default_rng(0)
    chosen = []
    for side in (y > 0, y < 0):
        rows = np.flatnonzero(side)
        if len(rows):
            k = min(len(rows), max(1, round(m * len(rows) / len(y))))
            chosen.append(rows[((np.arange(k) + rng.random(k)) * (len(rows) / k)).astype(np.intp)])
    return np.concatenate(chosen)
