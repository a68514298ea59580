"""Whether draws are of the posterior on a few rows under a prior, by the slopes of its log density
there."""

import numpy as np
from scipy.linalg import solve_triangular

from handful.checks import ConvergenceError, as_real
from handful.matching.groups import SparsePilot, SparseRows
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import with_noise
from handful.matching.pilot import deviations_of, find_pilot, slopes_along
from handful.matching.stein import stein_test

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
    if isinstance(few, SparseRows):
        return _tested_columns(few, theta, chains, prior)
    few, start, prior = _target(few, theta, prior, start)
    try:
        pilot, log_prior, _ = find_pilot(few, prior, start)
    except ConvergenceError:
        return None, "no mode of the posterior on the rows was found"
    root = pilot.roots[0]
    mode = pilot.modes[:1]
    if not _keeps_its_digits(few, log_prior, mode, root):
        return (
            None,
            "the posterior is so stiff that its curvature loses its digits: move columns to zero",
        )
    theta = few.model.inner(theta)
    with np.errstate(all="ignore"):
        g = slopes_along(few, log_prior, theta, root)
    if not np.isfinite(g).all():
        return None, "the density ends next to some of them"
    z = solve_triangular(root, (theta - mode).T, lower=True).T
    density = few.sums(theta) + log_prior(theta)
    at_mode = few.sums(mode) + log_prior(mode)
    gap = at_mode[0] - np.median(density)
    shape = (chains, -1, theta.shape[1])
    z = z.reshape(shape)
    g = g.reshape(shape)
    return stein_test(z, g, gap), ""


def _tested_columns(few, theta, chains, prior):
    """As `tested`, of a model whose parameters are too many to be whitened: each is scaled by its
    own deviation. The prior's deviations may be those of each draw, shape (S, p), as a hierarchical
    model draws them, too."""
    if callable(prior):
        return None, "give check the deviations of the prior, of each draw where they were drawn"
    each = np.asarray(prior, float)
    by_draw = each.ndim > 1
    deviations = stacked(prior, "prior") if by_draw else deviations_of(prior, theta.shape[1])
    if by_draw and deviations.shape != theta.shape:
        raise ValueError(
            f"prior must hold the deviations of each draw, shape {theta.shape}, got "
            f"{deviations.shape}."
        )
    scale = np.maximum(theta.std(0), TINY)
    g = (few.slopes(theta) - theta / deviations**2) * scale
    if not np.isfinite(g).all():
        return None, "the density ends next to some of them"
    z = (theta - theta.mean(0)) / scale
    gap = 0.0
    if not by_draw:
        pilot = SparsePilot(few, deviations)
        density = few.sums(theta) + pilot.log_prior(theta)
        gap = pilot.log_posterior(pilot.mode) - np.median(density)
        z = (theta - pilot.mode) / scale
    shape = (chains, -1, theta.shape[1])
    return stein_test(z.reshape(shape), g.reshape(shape), gap), ""


def _keeps_its_digits(few, log_prior, mode, root):
    """Whether the log density bends by -1 along each column of the root, and along no other.

    It does not where parameters are bound so tightly, beside others that are free, that the
    factor of the curvature is rounding: three classes whose columns lie at a million.
    """
    near = slopes_along(few, log_prior, mode + NEAR * root.T, root)
    bend = (near - slopes_along(few, log_prior, mode, root)) / NEAR
    off = np.abs(bend + np.eye(len(root)))
    return bool(off.max() < MOST_BEND)


def _target(few, theta, prior, start):
    """The rows as a chain on them sees them, where the search for its mode starts, and its
    prior."""
    model = few.model
    if not model.n_outputs:
        return few, theta.mean(0) if start is None else start, prior
    p = len(model.start(few))
    if theta.shape[1] == p:
        return few.moved("posterior"), None, prior
    at_zero = few.expansion(np.zeros(p))
    best = np.linalg.lstsq(at_zero[1:, 1:], at_zero[0, 1:])[0]
    squares = -2 * few.sums(best[None])[0]
    variance = max(squares / few.weights.sum(), 1e-300)
    start = np.append(best, 0.5 * np.log(variance))
    if not callable(prior) and np.size(prior) == p:
        prior = np.append(prior, FLAT)
    noisy = LikelihoodSums(with_noise(model), few.blocks, few.y, few.weights)
    return noisy, start, prior
