"""Optima along a path of penalties, and a proven bound of what training on the matched rows loses
between them."""

import numpy as np
from scipy.linalg import solve_triangular

from handful.models.newton import newton, quadratic

# of the distance within which curvatures are known, for one step along the path
SAFE = 0.5
# share of the penalty below which no step is tried
FINEST = 1e-5
# mean loss by which an optimum that was computed may be missed
ROUNDING = 1e-9


def path_excess(rows, few, low, high, tol):
    """Largest mean loss, penalty included, above the optimum of all rows, over all penalties from
    `low` to `high`.

    In steps along the path. Below: the optimum of all rows is concave in the penalty, as a minimum
    of functions linear in it, so between two penalties it lies above its chord. Above: the
    curvature of these losses changes by at most ``exp(|x' move|)`` (logistic, Poisson, squared;
    Bach 2010, Proposition 1). So the gradient at the first penalty says how far the rows' solution
    can move until the second, and the loss on all rows how much it can rise on the way.

    Parameters
    ----------
    rows, few : `LikelihoodSums`, all of them and the chosen ones, of a linear model of one output
    low, high : penalties, per mean loss
    tol : a step whose bound is larger is halved, unless that does not help

    Returns
    -------
    float, in units of the mean loss; infinite where the steps would become too small
    """
    n = rows.weights.sum()
    penalised = rows.model.linear.penalised(rows.blocks.d)
    worst = 0.0
    l2 = low
    step = 0.1

    def solve(data, l2, start):
        return best_for(data, np.diag(l2 * n * penalised), start)

    def loss(theta, l2):
        return -rows.sums(theta[None])[0] / n + l2 * penalised @ theta**2 / 2

    best = chosen = 0 * penalised
    best = solve(rows, l2, best)
    while l2 < high * (1 - 1e-12):
        chosen = solve(few, l2, chosen)
        of_all, of_few = (data.expansion(chosen) / n for data in (rows, few))
        slope = of_all[0, 1:]
        slope_few = of_few[0, 1:]
        weight = penalised * chosen
        root = np.linalg.cholesky(of_few[1:, 1:] + np.diag(l2 * penalised))

        def norm(g, root=root):
            return float(np.linalg.norm(solve_triangular(root, g, lower=True)))

        half = solve_triangular(root, of_all[1:, 1:], lower=True)
        rise = np.linalg.norm(solve_triangular(root, half.T, lower=True), 2)
        radius = max(rows.longest(root), few.longest(root))
        while True:
            end = min(high, l2 * (1 + step))
            push = norm(l2 * weight - slope_few) + (end - l2) * norm(weight)
            if radius * push < SAFE:
                moved = -np.log1p(-radius * push) / radius
                best_end = solve(rows, end, best)
                linear = max(loss(chosen, v) - loss(b, v) for v, b in ((l2, best), (end, best_end)))
                uphill = max(norm(v * weight - slope) for v in (l2, end)) * moved
                bound = (
                    linear
                    + uphill
                    + (rise + end / l2) * np.exp(radius * moved) * moved**2 / 2
                    + ROUNDING
                )
                if bound <= tol or uphill < tol / 10:
                    break
            step /= 2
            if step < FINEST:
                return float("inf")
        worst = max(worst, bound)
        l2 = end
        step = 2 * step
        best = best_end
    return float(worst)


def best_for(rows, penalty, start):
    """Maximum of the log-likelihood less ``theta' penalty theta / 2``, shape (p,)."""
    less = quadratic(penalty)
    return newton(lambda theta: rows.expansion(theta) + less(theta), start)[1]


def optima_of_penalties(rows, penalties, start):
    """The optimum of all rows at each penalty per mean loss, shape (J, p).

    Parameters
    ----------
    rows : `LikelihoodSums`, of a model that has slopes
    penalties : floats, from the largest on, of which each optimum starts at the one before
    start : shape (p,)

    Raises
    ------
    ValueError
        for a penalty that is not ``theta' P theta / 2``
    """
    X = np.asarray(rows.blocks.take([0]).X, float)
    y = None if rows.y is None else rows.y[:1]
    found = []
    theta = start
    for l2 in penalties:
        penalty = rows.model.penalty(start, X, y, l2)
        theta = best_for(rows, rows.weights.sum() * penalty, theta)
        if not np.allclose(penalty, rows.model.penalty(theta, X, y, l2), rtol=1e-6):
            raise ValueError(
                "at='path' needs a penalty that is quadratic with its minimum at zero, and that of "
                f"{type(rows.model.problem).__name__} is not: take at='posterior'."
            )
        found.append(theta)
    return np.array(found)
