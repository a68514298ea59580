"""The pilot of a posterior: its modes, searched on all rows, and Gaussian draws around them.

The search takes the expansion of what is maximised, as `handful.models.newton` says. A problem
gives its own, a function's is made of differences, and they add.
"""

from contextlib import suppress

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from handful.checks import ConvergenceError, as_real
from handful.matching.differences import differences, slopes_by_differences
from handful.matching.pilot_faults import is_peak
from handful.matching.priors import posterior_of, prior_of
from handful.models.newton import newton
from handful.running import Bar

# of the draws that are matched: wider than the posterior, at no cost that was measured
INFLATION = 1.2
# share of them on the way to the prior's mean, for a prior that is changed afterwards
ON_SEGMENT = 0.1
# two ends of a search are two modes if they are further apart than this, in deviations
APART = 1.0
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
        n_modes, p = self.modes.shape
        which = np.arange(n) % n_modes
        z = rng.standard_normal((n, p))
        between = rng.random(n) < on_segment
        share = np.where(between, rng.random(n), 1.0)
        share = share[:, None]
        for k, root in enumerate(self.roots):
            own = which == k
            z[own] = z[own] @ root.T
        width = np.where(share < 1, 1.0, inflation)
        return self.modes[which] * share + z * width

    @property
    def mode(self):
        """The highest mode, shape (p,)."""
        return self.modes[0]

    def step(self, slope):
        """The covariance at the highest mode times a slope, shape (p,)."""
        root = self.roots[0]
        return root @ (root.T @ slope)

    def at(self, rows, prior, center):
        """The Gaussian with the curvature of the log posterior elsewhere; None where it has
        none."""
        expansion = rows.expansion(center) + prior.expansion(center)
        # From the last parameter to the first, so that the root of the inverse is lower, too.
        backwards = expansion[:0:-1, :0:-1]
        try:
            lower = np.linalg.cholesky(backwards)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(lower).all():
            return None
        upper = lower[::-1, ::-1]
        identity = np.eye(len(center))
        root = solve_triangular(upper, identity, trans="T")
        return Pilot([center], [root])

    # a long step may leave what floats can hold, and is refused
    @np.errstate(all="ignore")
    def chain(self, log_density, n, rng):
        """Draws, shape (n, p), of the posterior that has `log_density`, a function of parameters
        (K, p).

        Chains start at the modes; their proposals keep the Gaussian there (Cotter, Roberts, Stuart
        and White 2013, *MCMC methods for functions*, eq. 4.9), so that only what differs from it is
        ever refused.
        """
        n_modes, p = self.modes.shape
        which = np.arange(CHAINS) % n_modes
        found = []
        z = np.zeros((CHAINS, p))

        def place(z):
            moves = np.einsum("cij,cj->ci", self.roots[which], z)
            theta = self.modes[which] + moves
            of_gaussian = -0.5 * (z**2).sum(1)
            return theta, log_density(theta) - of_gaussian

        theta, value = place(z)
        per_chain = -(-n // CHAINS)
        n_steps = WARM_UP + APART_BY * per_chain
        every = range(1, 1 + n_steps)
        with Bar(every, desc="chains", unit="step") as steps:
            for step in steps:
                size = rng.uniform(0.1, 0.4, (CHAINS, 1))
                fresh = rng.standard_normal(z.shape)
                kept = np.sqrt(1 - size**2) * z
                new = kept + size * fresh
                there, higher = place(new)
                chance = np.log(rng.random(CHAINS))
                goes = chance < higher - value
                z[goes] = new[goes]
                theta[goes] = there[goes]
                value[goes] = higher[goes]
                if step > WARM_UP and step % APART_BY == 0:
                    found.append(theta.copy())
        shuffled = rng.permutation(np.vstack(found))
        return shuffled[:n]

    def log_density(self, theta):
        """Log density of the mixture at parameters of shape (n, p), up to a constant."""
        parts = []
        for mode, root in zip(self.modes, self.roots):
            moves = (theta - mode).T
            z = solve_triangular(root, moves, lower=True)
            log_determinant = np.log(np.diag(root)).sum()
            squares = (z**2).sum(0)
            parts.append(-0.5 * squares - log_determinant)
        return logsumexp(parts, axis=0)


def find_pilot(rows, prior, start):
    """The `Pilot`, the `Prior`, and in how many rows two parameters act together, shape
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
    tried = [starts[0], *others]
    counts = np.max([rows.moved_together(theta) for theta in tried], axis=0)
    if not counts.size:
        raise ValueError("the model must have parameters: no latent variable was found.")
    if not counts.any():
        raise ValueError(
            f"the log-likelihood of no row changes with any parameter near the start {starts[0]}, "
            "nor at random values around it: start elsewhere; a function of steps has no slope to "
            "be matched."
        )
    log_prior = prior_of(rows.model, prior, starts)
    if rows.model.has_slopes:
        of_rows = rows.expansion
    else:
        pairs = np.argwhere(np.tril(counts > 0))
        of_rows = differences(rows.sums, pairs)

    def expansion(theta):
        return of_rows(theta) + log_prior.expansion(theta)

    def peaks(starts):
        found = []
        for start in starts:
            with suppress(ConvergenceError):
                found.append(newton(expansion, start))
        if rows.model.n_outputs:
            return found
        log_density = posterior_of(rows, log_prior)
        return [end for end in found if is_peak(log_density, *end[1:])]

    modes = []
    found = peaks(starts) or peaks(others)
    found.sort(key=lambda end: -end[0])
    for _, mode, root in found:
        if all(distance(mode, *other) > APART for other in modes):
            lower = np.linalg.cholesky(root @ root.T)
            modes.append((mode, lower))
    if not modes:
        raise ConvergenceError(f"no mode was found: {rows.model.to_a_mode}.")
    return Pilot(*zip(*modes)), log_prior, counts


def jittered(start, n=N_JITTERED):
    """Points around a start, shape (n, p), the same whenever they are asked for."""
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(n, len(start)))
    sizes = JITTER * np.maximum(1.0, np.abs(start))
    return start + sizes * moves


def distance(theta, mode, root):
    """From a mode to parameters (p,), in deviations, of a factor of its covariance."""
    z = solve_triangular(root, theta - mode, lower=True)
    return np.linalg.norm(z)


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


def slopes_along(rows, prior, theta, directions):
    """Slopes of a log posterior at parameters (K, p) along the columns of directions, shape (p, r):
    shape (K, r)."""
    if rows.model.has_slopes:
        found = rows.slopes(theta) @ directions
    else:
        found = slopes_by_differences(rows.sums, theta, directions)
    return found + prior.slopes_along(theta, directions)
