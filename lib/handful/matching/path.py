"""Optima along a path of penalties, and a proven bound of what training on the matched rows loses
between them."""

import warnings
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from handful.checks import ConvergenceError
from handful.models.links import SquaredLink
from handful.models.newton import newton, quadratic

# of the distance within which curvatures are known, for one step along the path
SAFE = 0.5
# share of the penalty below which no step is tried
FINEST = 1e-5
# share of the penalty below which no step is halved for a sharper bound
SHARPEST = 2e-3
# share of what the rows lose for certain, at the ends of a step, by which a bound may exceed it
LOOSE = 0.03
# what a Newton step to an optimum on the path promises to gain where it is the last, for each row
# of mean weight
CLOSE = 1e-10
# mean loss by which an optimum that was computed may be missed
ROUNDING = 1e-9
# Mean loss that a step promises to gain where it is the last one, which squares what is left.
ENOUGH = 1e-7
# Eigenvalues of a curvature below this share of the largest count as this share.
FLATTEST = 1e-6
# Of coordinate descent for one Newton step, which need not be the best one.
MAX_SWEEPS = 20_000


def path_excess(rows, few, low, high, tol):
    """Largest mean loss, penalty included, above the optimum of all rows, over all penalties from
    `low` to `high`; of a quadratic log-likelihood as in `quadratic_excess`.

    In steps along the path. Below: the optimum of all rows is concave in the penalty, as a minimum
    of functions linear in it, so between two penalties it lies above its chord. Above: the
    curvature of these losses changes by at most ``exp(|x' move|)`` (logistic, Poisson, squared;
    Bach 2010, Proposition 1). So the gradient at the first penalty says how far the rows' solution
    can move until the second, and the loss on all rows how much it can rise on the way.

    Parameters
    ----------
    rows, few : `LikelihoodSums`, all of them and the chosen ones, of a linear model of one output
    low, high : penalties, per mean loss
    tol : a step whose bound is larger is halved, unless that hardly helps

    Returns
    -------
    float, in units of the mean loss; infinite where the steps would become too small
    """
    if isinstance(rows.model.link, SquaredLink):
        return quadratic_excess(rows, few, low)
    n = rows.weights.sum()
    enough = CLOSE * rows.weights.mean()
    covers = penalised(rows)
    l2 = low
    step = 0.1

    def solve(data, l2, start):
        precision = np.diag(l2 * n * covers)
        return best_for(data, precision, start, enough=enough)

    def loss(theta, l2):
        penalty = l2 * covers @ theta**2 / 2
        return penalty - rows.sums(theta[None])[0] / n

    chosen = 0 * covers
    best = solve(rows, l2, chosen)
    chosen = solve(few, l2, chosen)
    worst = loss(chosen, l2) - loss(best, l2) + ROUNDING
    while l2 < high * (1 - 1e-12):
        of_all = rows.expansion(chosen) / n
        of_few = few.expansion(chosen) / n
        slope = of_all[0, 1:]
        slope_few = of_few[0, 1:]
        pull = covers * chosen
        curvature = of_few[1:, 1:] + np.diag(l2 * covers)
        root = np.linalg.cholesky(curvature)
        whiten = partial(solve_triangular, root, lower=True)
        half = whiten(of_all[1:, 1:])
        rise = np.linalg.norm(whiten(half.T), 2)
        radius = max(rows.longest(root), few.longest(root))
        missed = np.linalg.norm(whiten(l2 * pull - slope_few))
        drift = np.linalg.norm(whiten(pull))
        while True:
            end = min(high, l2 * (1 + step))
            push = missed + (end - l2) * drift
            if radius * push < SAFE:
                moved = -np.log1p(-radius * push) / radius
                best_end = solve(rows, end, best)
                at_start = loss(chosen, l2) - loss(best, l2)
                at_end = loss(chosen, end) - loss(best_end, end)
                steepest = max(np.linalg.norm(whiten(v * pull - slope)) for v in (l2, end))
                uphill = steepest * moved
                bend = (rise + end / l2) * np.exp(radius * moved)
                slack = uphill + bend * moved**2 / 2
                certain = max(at_start, at_end) + ROUNDING
                bound = certain + slack
                if bound <= tol or slack <= LOOSE * certain or step / 2 < SHARPEST:
                    break
            step /= 2
            if step < FINEST:
                return float("inf")
        worst = max(worst, bound)
        l2 = end
        step = 2 * step
        best = best_end
        chosen = solve(few, l2, chosen)
    return float(worst)


def quadratic_excess(rows, few, low):
    """The same bound where the mean loss is ``theta' A theta / 2 - b' theta``, at all penalties
    from `low` on.

    At the rows' solution the gradient on all rows is ``(A - A_few) theta - (b - b_few)``. It is
    longest at the lowest penalty, in the metric of the rows' curvature there, as a larger penalty
    shortens theta; and the loss is at most half its squared length above the minimum, over the
    least share of that curvature which all rows have.
    """
    n = rows.weights.sum()
    covers = penalised(rows)
    of_all, of_few = (data.expansion(0 * covers) / n for data in (rows, few))
    curvature = of_few[1:, 1:] + np.diag(low * covers)
    root = np.linalg.cholesky(curvature)
    whiten = partial(solve_triangular, root, lower=True)
    apart = np.linalg.norm(whiten(whiten(of_all[1:, 1:] - of_few[1:, 1:]).T), 2)
    if apart >= 1:
        return float("inf")
    longest = np.linalg.norm(whiten(of_few[0, 1:]))
    gradient = apart * longest + np.linalg.norm(whiten(of_all[0, 1:] - of_few[0, 1:]))
    return float(gradient**2 / (1 - apart) / 2)


def best_for(rows, precision, start, **options):
    """Maximum of the log-likelihood less ``theta' precision theta / 2``, shape (p,), by `newton`
    with some options."""
    less = quadratic(precision)
    return newton(lambda theta: rows.expansion(theta) + less(theta), start, **options)[1]


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
    first = rows.blocks.take([0])
    X = np.asarray(first.X, float)
    y = None if rows.y is None else rows.y[:1]
    n = rows.weights.sum()
    enough = CLOSE * rows.weights.mean()
    found = []
    theta = start
    for l2 in penalties:
        penalty = rows.model.penalty(start, X, y, l2)
        theta = best_for(rows, n * penalty, theta, enough=enough)
        at_optimum = rows.model.penalty(theta, X, y, l2)
        is_constant = np.allclose(penalty, at_optimum, rtol=1e-6)
        problem = rows.model.problem_of(l2)
        if not (is_constant and problem.has_quadratic_penalty(theta, penalty, X, y)):
            raise ValueError(
                "at='path' needs a penalty that is quadratic with its minimum at zero, and that of "
                f"{type(rows.model.problem).__name__} is not: take at='posterior'."
            )
        found.append(theta)
    return np.array(found)


def penalised(rows):
    """One for each parameter that a penalty covers, else zero, shape (p,)."""
    return rows.model.linear.penalised(rows.blocks.d)


def optimum(rows, l1, l2, start, max_iter=100):
    """Minimum of the mean loss of a linear model plus ``l1 * |theta|_1 + l2 / 2 * |theta|^2`` of
    the penalised parameters, shape (p,).

    With an L1 penalty by Newton steps whose quadratic model keeps the penalty (Friedman, Hastie and
    Tibshirani 2010, Section 3), halved until they lead downwards.

    Raises
    ------
    ConvergenceError
        where so many steps do not suffice
    """
    n = rows.weights.sum()
    covers = penalised(rows)
    if l1 == 0:
        return best_for(rows, np.diag(l2 * n * covers), start, enough=ENOUGH * n)

    def penalty(theta):
        each = l1 * np.abs(theta) + l2 / 2 * theta**2
        return covers @ each

    theta = start
    now = rows.expansion(theta) / n
    for _ in range(max_iter):
        step = local_optimum(now, covers, l1, l2, theta) - theta
        squared = step @ now[1:, 1:] @ step
        gain = now[0, 1:] @ step - squared / 2
        gain += penalty(theta) - penalty(theta + step)
        if gain <= ENOUGH:
            return theta + step
        length = 1.0
        before = now[0, 0] - penalty(theta)
        while True:
            to = theta + length * step
            now = rows.expansion(to) / n
            rise = now[0, 0] - penalty(to) - before
            if rise >= 1e-4 * length * gain:
                break
            length /= 2
            if length < 1e-12:
                return theta
        theta = to
    raise ConvergenceError(
        f"no optimum with an L1 penalty of {l1:.3g} in {max_iter} Newton steps: centre and scale "
        "the columns of X."
    )


def local_optimum(now, covers, l1, l2, theta):
    """The minimum of a penalised loss whose unpenalised part is a quadratic function, shape (p,).

    Parameters
    ----------
    now : expansion of minus the unpenalised loss at `theta`
    covers : shape (p,), one where the penalties act, else zero
    l1, l2 : the penalties
    theta : shape (p,)
    """
    from sklearn.linear_model import enet_path

    H = now[1:, 1:]
    slope = now[0, 1:]
    on = covers > 0
    off = ~on
    # The parameters without a penalty follow the others (a Schur complement).
    inside = H[np.ix_(on, on)]
    mixed = H[np.ix_(off, on)]
    follow = np.linalg.pinv(H[np.ix_(off, off)], hermitian=True)
    across = H[np.ix_(on, off)] @ follow
    values, vectors = np.linalg.eigh(inside - across @ mixed)
    largest = max(values.max(), 1e-300)
    values = np.maximum(values, FLATTEST * largest)
    slope_on = slope[on] - across @ slope[off]
    # About `theta`, so that a direction which was made less flat moves nothing there.
    along = values * (vectors.T @ theta[on]) + vectors.T @ slope_on
    found = np.empty(len(theta))
    if l1 == 0:
        found[on] = vectors @ (along / (values + l2))
    else:
        # Least squares of as many rows as columns, whose mean squares are the quadratic function.
        scale = np.sqrt(len(values) * values)
        scaled = scale[:, None] * vectors.T
        design = np.asfortranarray(scaled)
        target = along * len(values) / scale
        with warnings.catch_warnings(), config_context(skip_parameter_validation=True):
            warnings.simplefilter("ignore", ConvergenceWarning)
            coefficients = enet_path(
                design,
                target,
                alphas=[l1 + l2],
                l1_ratio=l1 / (l1 + l2),
                coef_init=theta[on],
                precompute=False,
                check_input=False,
                tol=1e-10,
                max_iter=MAX_SWEEPS,
            )[1]
        found[on] = coefficients[:, 0]
    moves = found[on] - theta[on]
    found[off] = theta[off] + follow @ (slope[off] - mixed @ moves)
    return found
