"""Whether draws are of the posterior on a few rows under a prior, by the slopes of its log density
there."""

import numpy as np
from scipy.linalg import solve_triangular

from handful.checks import ConvergenceError, as_real
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import with_noise
from handful.matching.pilot import find_pilot, slopes_along
from handful.matching.priors import FunctionPrior, posterior_of, prior_of
from handful.matching.sparse_rows import SparseRows
from handful.matching.stein import WIDE, stein_test

# Deviation of the prior of the noise's logarithm where the prior names coefficients alone.
FLAT = 1e3
# Step from the mode, in deviations, and by how much the curvature there may differ from what the
# root says.
NEAR = 1e-2
MOST_BEND = 0.3
# The least deviation of a column of draws: of a chain that does not move.
TINY = 1e-300


def stacked(draws, name="draws"):
    """Draws as float64 of shape (S, p): chains below one another."""
    draws = as_real(draws, name)
    draws = np.atleast_2d(draws)
    if draws.ndim > 2:
        draws = draws.reshape(-1, draws.shape[-1])
    if not draws.size or not np.isfinite(draws).all():
        raise ValueError(
            f"{name} must hold finite numbers, shape (draws, parameters), got shape {draws.shape}."
        )
    return draws


def tested(few, theta, chains, prior, start):
    """The `SteinTest` of draws, None where they cannot be tested, and why they cannot.

    Parameters
    ----------
    few : `LikelihoodSums`, with their weights
    theta : draws, shape (S, p), those of each chain together and in their order
    chains : int, how many
    prior : as `find_pilot`, or for least squares with noise also without the noise
    start : shape (p,) or (1, p), near the mode, of a function; None starts at the mean of the draws
    """
    p = theta.shape[1]
    has_many = p > WIDE and not few.model.n_outputs
    is_wide = has_many or isinstance(few, SparseRows)
    standardise = _scaled if is_wide else _whitened
    try:
        z, slopes, gap = standardise(few, theta, prior, start)
    except Untestable as reason:
        return None, str(reason)
    if not np.isfinite(slopes).all():
        return None, "the density ends next to some of them"
    z = z.reshape(chains, -1, p)
    slopes = slopes.reshape(chains, -1, p)
    return stein_test(z, slopes, gap), ""


class Untestable(Exception):
    """Why draws cannot be tested."""


def _gap(rows, prior, theta, mode):
    """By how much the log density of the median of draws lies below that of the mode, (1, p)."""
    log_density = posterior_of(rows, prior)
    return log_density(mode)[0] - np.median(log_density(theta))


def _whitened(few, theta, prior, start):
    """Draws about the mode of the posterior on the rows, in units of its covariance; slopes of its
    log density in these units; and the `_gap`."""
    few, start, prior = _target(few, theta, prior, start)
    try:
        pilot, log_prior, _ = find_pilot(few, prior, start)
    except ConvergenceError as error:
        raise Untestable("no mode of the posterior on the rows was found") from error
    root = pilot.roots[0]
    mode = pilot.modes[:1]
    if not _keeps_its_digits(few, log_prior, mode, root):
        raise Untestable(
            "the posterior is so stiff that its curvature loses its digits: move columns to zero"
        )
    theta = few.model.inner(theta)
    with np.errstate(all="ignore"):
        slopes = slopes_along(few, log_prior, theta, root)
        gap = _gap(few, log_prior, theta, mode)
    moves = (theta - mode).T
    z = solve_triangular(root, moves, lower=True)
    return z.T, slopes, gap


def _scaled(few, theta, prior, mode):
    """As `_whitened`, of parameters that are too many to be whitened: each is scaled by its own
    deviation. The prior's deviations may be those of each draw, shape (S, p), as a hierarchical
    model draws them, too; then nothing is known of a mode."""
    scale = np.maximum(theta.std(0), TINY)
    center = theta.mean(0)
    gap = 0.0
    unknown = "of so many parameters the slopes must be known, those of the prior as well"
    if not few.model.has_slopes:
        raise Untestable(unknown)
    if np.ndim(prior) > 1:
        of_prior = -theta / _deviations_of_draws(prior, theta) ** 2
    else:
        log_prior = prior_of(few.model, prior, theta[:1])
        if isinstance(log_prior, FunctionPrior):
            raise Untestable(unknown)
        if mode is not None:
            center = np.atleast_2d(mode)[0]
        of_prior = log_prior.slopes(theta)
        gap = _gap(few, log_prior, theta, center[None])
    slopes = few.slopes(theta) + of_prior
    return (theta - center) / scale, slopes * scale, gap


def _deviations_of_draws(prior, theta):
    found = stacked(prior, "prior")
    if found.shape != theta.shape:
        raise ValueError(
            f"prior must hold the deviations of each draw, shape {theta.shape}, got {found.shape}."
        )
    return found


def _keeps_its_digits(few, log_prior, mode, root):
    """Whether the log density bends by -1 along each column of the root, and along no other.

    It does not where parameters are bound so tightly, beside others that are free, that the
    factor of the curvature is rounding: three classes whose columns lie at a million.
    """
    near = slopes_along(few, log_prior, mode + NEAR * root.T, root)
    here = slopes_along(few, log_prior, mode, root)
    bend = (near - here) / NEAR
    off = np.abs(bend + np.eye(len(root)))
    return bool(off.max() < MOST_BEND)


def _target(few, theta, prior, start):
    """The rows as a chain on them sees them, where the search for its mode starts, and its
    prior."""
    model = few.model
    if not model.n_outputs:
        if start is None:
            start = theta.mean(0)
        return few, start, prior
    p = len(model.start(few))
    if theta.shape[1] == p:
        # A form is not concave everywhere: the search starts where it was made.
        start = None if few.form is None else start
        return few.moved("posterior"), start, prior
    at_zero = few.expansion(np.zeros(p))
    slope = at_zero[0, 1:]
    best = np.linalg.lstsq(at_zero[1:, 1:], slope)[0]
    squares = -2 * few.sums(best[None])[0]
    variance = max(squares / few.weights.sum(), 1e-300)
    log_noise = 0.5 * np.log(variance)
    start = np.append(best, log_noise)
    if not callable(prior) and np.size(prior) == p:
        prior = np.append(prior, FLAT)
    with_log_noise = with_noise(model)
    noisy = LikelihoodSums(with_log_noise, few.blocks, few.y, few.weights)
    return noisy, start, prior
