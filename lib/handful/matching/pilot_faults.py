"""What no pilot of a posterior can stand on: likelihoods that jump, that look at the rows beside a
row, and densities without a peak."""

import numpy as np

from handful.matching.differences import around, evenly
from handful.matching.priors import posterior_of

# Rows that are looked at.
COMPANY = 300
ALONE = 4
LOOKED_AT = 4096
# Log-likelihoods that are looked at, together.
MOST = 1 << 24
# Along more directions than these no jump is looked for: a step of each is too much to hold.
MOST_DIRECTIONS = 500
# Two log-likelihoods of a row are the same up to this, beside their magnitude.
SAME = 1e-6
# Steps of a parameter, each so much smaller than the one before.
WIDEST = 0.1
SHRINK = 4.0
N_STEPS = 9
# A change that stays above this share when the step shrinks, and then falls below the other at
# once, is a jump. Of a slope a quarter is left, of a bend a sixteenth.
STAYS = 0.5
FALLS = 1 / 100
# Of a change, beside the magnitude of log-likelihoods, which is rounding.
ROUNDING = 1e-9
# From a mode in deviations: where nothing may be higher by more than so many nats, and where a
# peak falls by at least so many.
NEAR = 0.3
HIGHER = 1e-3
LEAST_FALL = 0.01
# A parameter is of a direction that moves it by at least this share of what it moves another.
IN_DIRECTION = 0.1


def check_alone(rows, thetas):
    """ValueError where the log-likelihood of a row hangs on the rows that it is asked for with.

    Parameters
    ----------
    rows : `Rows`
    thetas : shape (K, p)
    """
    present = np.flatnonzero(rows.weights)
    places = evenly(present, COMPANY)
    n = len(places)
    company = rows.restricted(places, np.ones(n)).values(thetas)
    for k in evenly(np.arange(n), ALONE):
        one = rows.restricted(places[k : k + 1], np.ones(1))
        alone = one.values(thetas)[0]
        is_same = np.isclose(alone, company[k], rtol=SAME, atol=SAME, equal_nan=True)
        if is_same.all():
            continue
        j = np.argmin(is_same)
        raise ValueError(
            f"the log-likelihood of row {places[k]} is {alone[j]:.6g} alone and "
            f"{company[k, j]:.6g} in company of other rows, at the same parameters. It must hang "
            "on its own row only: something looks at the block, such as a mean, a "
            "standardisation, a risk set, the number of rows, random numbers, or an array of all "
            "rows that is not among the data. Compute it from all rows before, and give it as a "
            "column."
        )


def jumping(rows, thetas, directions):
    """Whether the log-likelihood of some row jumps along each of directions (C, p) near some
    parameters (S, p): bool (C,).

    The largest change of a row's log-likelihood shrinks with the step of the parameter. Where there
    is a jump it stays, until no row is left that jumps within the step. Along more than 500
    directions none is looked for.
    """
    p = thetas.shape[1]
    C = len(directions)
    if C > MOST_DIRECTIONS:
        return np.zeros(C, bool)
    n_fit = MOST // (len(thetas) * N_STEPS * C)
    n_seen = min(LOOKED_AT, max(COMPANY, n_fit))
    present = np.flatnonzero(rows.weights)
    places = evenly(present, n_seen)
    ones = np.ones(len(places))
    some = rows.restricted(places, ones)
    sizes = WIDEST / SHRINK ** np.arange(N_STEPS)
    jumps = np.zeros(C, bool)
    for theta in thetas:
        unit = directions * np.maximum(1.0, np.abs(theta))
        moves = sizes[:, None, None] * unit
        there = (theta + moves).reshape(-1, p)
        values = some.values(np.vstack([theta, there]))
        here = values[:, :1]
        with np.errstate(invalid="ignore"):
            changes = np.abs(values[:, 1:] - here)
        # where parameters are impossible a support ends, or a number, which is no jump within it
        changes = changes.reshape(-1, N_STEPS, C)
        impossible = ~np.isfinite(changes).all(1, keepdims=True)
        largest = np.where(impossible, 0, changes).max(0)
        finite = np.abs(values[np.isfinite(values)])
        rounding = ROUNDING * finite.max(initial=0)
        largest[largest <= rounding] = 0
        nothing = np.zeros((1, C))
        following = np.vstack([largest[2:], nothing])
        stays = largest[1:] > STAYS * largest[:-1]
        ends = following < FALLS * largest[1:]
        changed = largest[:-1] > 0
        jumps |= (changed & stays & ends).any(0)
    return jumps


def is_peak(log_density, mode, root):
    """Whether nothing near an end of a search is higher: not of a saddle, nor of a slope.

    Parameters
    ----------
    log_density : function of parameters (K, p)
    mode : shape (p,)
    root : shape (p, p), whose columns are a deviation along each direction
    """
    with np.errstate(all="ignore"):
        near = log_density(around(mode, NEAR * root.T))
    here, *others = near
    is_higher = np.array(others) > here + HIGHER
    return not is_higher.any()


def flat_parameters(rows, log_prior, pilot):
    """Numbers of the parameters along whose direction the posterior hardly falls within a
    deviation of the first mode of a pilot."""
    mode = pilot.modes[0]
    # the axes of the Gaussian there
    vectors, lengths, _ = np.linalg.svd(pilot.roots[0])
    axes = vectors * lengths
    near = around(mode, axes.T)
    with np.errstate(all="ignore"):
        here, *others = posterior_of(rows, log_prior)(near)
    above, below = np.split(np.array(others), 2)
    falls = here - np.fmax(above, below)
    flat = axes[:, falls < LEAST_FALL]
    if not flat.size:
        return []
    sizes = np.abs(flat)
    shares = sizes / sizes.max(0)
    has_part = (shares > IN_DIRECTION).any(1)
    return np.flatnonzero(has_part).tolist()
