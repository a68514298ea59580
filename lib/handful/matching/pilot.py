"""The pilot of a posterior: its modes, searched on all rows, and Gaussian draws around them.

The search takes the expansion of what is maximised, as `handful.models.newton` says. A problem
gives its own, a function's is made of differences, and they add.
"""

from contextlib import suppress

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from handful.checks import ConvergenceError, as_real, check_vector
from handful.matching.pilot_faults import is_peak
from handful.models.newton import bordered, newton
from handful.progress import Bar

# of the draws that are matched: wider than the posterior, at no cost that was measured
INFLATION = 1.2
# share of them on the way to the prior's mean, for a prior that is changed afterwards
ON_SEGMENT = 0.1
# two ends of a search are two modes if they are further apart than this, in deviations
APART = 1.0
# of differences, in deviations
WIDTH = 0.02
# points around a start that are looked at as well, and how far from it they are
N_JITTERED = 3
JITTER = 0.3
# chains beside one another; their steps before the draws, and between two
CHAINS = 200
WARM_UP = 1000
APART_BY = 30


class Pilot:
    """A mixture of Gaussians of equal shares, one at each mode of the posterior.

    Parameters
    ----------
    modes : array, shape (M, p), the highest first
    roots : array, shape (M, p, p), lower Cholesky factors of the covariances
    """

    def __init__(self, modes, roots):
        self.modes = np.array(modes)
        self.roots = np.array(roots)

    def draws(self, n, rng, *, inflation=1.0, on_segment=0.0):
        """Parameters, shape (n, p), of each mode in turn; some on the way from it to zero, around
        which they vary."""
        which = np.arange(n) % len(self.modes)
        z = rng.standard_normal((n, self.modes.shape[1]))
        between = rng.random(n) < on_segment
        share = np.where(between, rng.random(n), 1.0)[:, None]
        for k, root in enumerate(self.roots):
            own = which == k
            z[own] = z[own] @ root.T
        width = np.where(share < 1, 1.0, inflation)
        return self.modes[which] * share + z * width

    # a long step may leave what floats can hold, and is refused
    @np.errstate(all="ignore")
    def chain(self, log_density, n, rng):
        """Draws, shape (n, p), of the posterior that has `log_density`, a function of parameters
        (K, p).

        Chains start at the modes; their proposals keep the Gaussian there (Cotter, Roberts, Stuart
        and White 2013, *MCMC methods for functions*, eq. 4.9), so that only what differs from it is
        ever refused.
        """
        which = np.arange(CHAINS) % len(self.modes)
        found = []
        z = np.zeros((CHAINS, self.modes.shape[1]))

        def place(z):
            moves = np.einsum("cij,cj->ci", self.roots[which], z)
            theta = self.modes[which] + moves
            return theta, log_density(theta) + 0.5 * (z**2).sum(1)

        theta, value = place(z)
        n_steps = WARM_UP + APART_BY * -(-n // CHAINS)
        with Bar(range(1, n_steps + 1), desc="chains", unit="step") as steps:
            for step in steps:
                size = rng.uniform(0.1, 0.4, (CHAINS, 1))
                fresh = rng.standard_normal(z.shape)
                new = np.sqrt(1 - size**2) * z + size * fresh
                there, higher = place(new)
                goes = np.log(rng.random(CHAINS)) < higher - value
                z[goes] = new[goes]
                theta[goes] = there[goes]
                value[goes] = higher[goes]
                if step > WARM_UP and step % APART_BY == 0:
                    found.append(theta.copy())
        return rng.permutation(np.vstack(found))[:n]

    def log_density(self, theta):
        """Log density of the mixture at parameters of shape (n, p), up to a constant."""
        parts = []
        for mode, root in zip(self.modes, self.roots):
            z = solve_triangular(root, (theta - mode).T, lower=True)
            log_determinant = np.log(np.diag(root)).sum()
            parts.append(-0.5 * (z**2).sum(0) - log_determinant)
        return logsumexp(parts, axis=0)


def find_pilot(rows, prior, start):
    """The `Pilot`, the prior's log density, and in how many rows two parameters act together, shape
    (p, p).

    Parameters
    ----------
    rows : `LikelihoodSums`
    prior : deviation of a Gaussian, number or shape (p,), or function of parameters (K, p) that
        gives (K,)
    start : shape (p,) or (S, p); None starts where the model says, a linear one at zero

    Raises
    ------
    ValueError
        for a function as likelihood without a start, and a prior of another length or shape
    ConvergenceError
        where no mode is found
    """
    starts = rows.model.inner(starting_points(rows, start))
    # what is concave in linear predictors is the same wherever it is looked at
    others = starts[:0] if rows.model.n_outputs else jittered(starts[0])
    counts = np.max([rows.moved_together(theta) for theta in [starts[0], *others]], axis=0)
    if not counts.any():
        raise ValueError(
            f"the log-likelihood of no row changes with any parameter near the start {starts[0]}, "
            "nor at random values around it: start elsewhere; a function of steps has no slope to "
            "be matched."
        )
    log_prior, of_prior = prior_of(rows.model, prior, starts)
    if rows.model.has_slopes:
        of_rows = rows.expansion
    else:
        pairs = np.argwhere(np.tril(counts > 0))
        of_rows = differences(rows.sums, pairs)

    def log_density(theta):
        return rows.sums(theta) + log_prior(theta)

    def expansion(theta):
        return of_rows(theta) + of_prior(theta)

    def peaks(starts):
        found = []
        for start in starts:
            with suppress(ConvergenceError):
                found.append(newton(expansion, start))
        if rows.model.n_outputs:
            return found
        return [end for end in found if is_peak(log_density, *end[1:])]

    modes = []
    for _, mode, root in sorted(peaks(starts) or peaks(others), key=lambda end: -end[0]):
        if all(distance(mode, m, r) > APART for m, r in modes):
            modes.append((mode, np.linalg.cholesky(root @ root.T)))
    if not modes:
        raise ConvergenceError(
            "no mode was found: centre and scale the columns of X, give other starts, or a "
            "narrower prior."
        )
    return Pilot(*zip(*modes)), log_prior, counts


def jittered(start, n=N_JITTERED):
    """Points around a start, shape (n, p), the same whenever they are asked for."""
    moves = np.random.default_rng(0).normal(size=(n, len(start)))
    return start + JITTER * np.maximum(1.0, np.abs(start)) * moves


def distance(theta, mode, root):
    """From a mode to parameters (p,), in deviations, of a factor of its covariance."""
    return np.linalg.norm(solve_triangular(root, theta - mode, lower=True))


def starting_points(rows, start):
    """Where the search starts, shape (S, p), as users see parameters; by default where the model
    says."""
    if start is None:
        return rows.model.start(rows)[None]
    start = np.atleast_2d(as_real(start, "start"))
    if rows.model.n_outputs:
        p = len(rows.model.start(rows))
        if start.ndim != 2 or start.shape[1] != p:
            raise ValueError(
                f"start must hold {p} coefficients, intercepts after them, got {start.shape}."
            )
    return start


def prior_of(model, prior, starts):
    """Log density and expansion of a prior, as functions of parameters as the model's methods take
    them.

    Parameters
    ----------
    model : Likelihood
    prior : as `find_pilot`, of parameters that users see
    starts : shape (S, p), to try it
    """
    p = starts.shape[1]
    if callable(prior):
        got = np.shape(prior(model.outer(starts)))
        if got != (len(starts),):
            raise ValueError(
                f"prior must give shape ({len(starts)},) for {starts.shape}, got {got}."
            )

        def log_prior(theta):
            return prior(model.outer(theta))

        return log_prior, differences(log_prior, np.argwhere(np.tri(p)))
    return gaussian(deviations_of(prior, p) ** -2.0, model.outer)


def deviations_of(prior, p):
    """Deviations of a Gaussian prior as an array, shape (p,).

    Raises
    ------
    ValueError
        for others than one or p positive numbers
    """
    found = check_vector(np.atleast_1d(prior), "prior")
    if len(found) not in (1, p) or found.min() <= 0:
        raise ValueError(
            f"prior must hold positive deviations, one or {p}, got "
            f"{len(found)} from {found.min():g}: one of each parameter, intercepts last."
        )
    return np.broadcast_to(found, p)


def slopes_along(rows, log_prior, theta, directions):
    """Slopes of a log posterior at parameters (K, p) along the columns of directions, shape (p, r):
    shape (K, r)."""
    found = np.zeros((len(theta), directions.shape[1]))
    has_slopes = rows.model.has_slopes
    if has_slopes:
        found += rows.slopes(theta) @ directions

    def rest(theta):
        if has_slopes:
            return log_prior(theta)
        return rows.sums(theta) + log_prior(theta)

    for k, direction in enumerate(directions.T):
        step = WIDTH * direction
        change = rest(theta + step) - rest(theta - step)
        found[:, k] += change / (2 * WIDTH)
    return found


def gaussian(precision, outer=np.array):
    """Log density, up to a constant, of independent Gaussians of mean zero, and its expansion:
    functions.

    `outer` is a linear map, shape (K, p) to (K, p), from the parameters to what is distributed so.
    """
    to_outer = outer(np.eye(len(precision)))
    curvature = (to_outer * precision) @ to_outer.T

    def log_density(theta):
        return -0.5 * outer(theta) ** 2 @ precision

    def expansion(theta):
        theta = theta[None]
        pull = precision * outer(theta)[0]
        return bordered(log_density(theta)[0], -to_outer @ pull, curvature)

    return log_density, expansion


def differences(f, pairs):
    """The expansion of a function of parameters (K, p) by central differences, at pairs that may be
    curved together."""
    j, k = pairs.T

    def expansion(theta):
        h = 1e-3 * np.maximum(1.0, np.abs(theta))
        # the second time as wide as the curvature allows
        for _ in range(2):
            E = np.diag(h)
            tried = np.vstack([theta, theta + E, theta - E])
            base, *single = f(tried)
            plus, minus = np.reshape(single, (2, -1)) - base
            last = h
            bend = np.maximum(np.abs(plus + minus), 1e-300)
            h = np.minimum(h, WIDTH * h / np.sqrt(bend))
        ahead = f(theta + E[j] + E[k])
        behind = f(theta - E[j] - E[k])
        both = ahead + behind - 2 * base
        alone = plus[j] + plus[k] + minus[j] + minus[k]
        second = (alone - both) / (2 * last[j] * last[k])
        H = np.zeros((len(theta), len(theta)))
        H[j, k] = second
        H[k, j] = second
        slope = (plus - minus) / (2 * last)
        return bordered(base, slope, H)

    return expansion
