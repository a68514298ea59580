"""The pilot of a posterior: its modes, searched on all rows, and Gaussian draws around them."""

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import logsumexp

from handful.checks import ConvergenceError, check_vector

INFLATION = 1.2  # of the draws that are matched: wider than the posterior, at no cost that was measured
ON_SEGMENT = 0.1  # share of them on the way to the prior's mean, for a prior that is changed afterwards
APART = 1.0  # two ends of a search are two modes if they are further apart than this, in deviations


class Pilot:
    """A mixture of Gaussians of equal shares, one at each mode of the posterior.

    Parameters
    ----------
    modes : array, shape (M, p), the highest first
    roots : array, shape (M, p, p), lower Cholesky factors of the covariances
    """

    def __init__(self, modes, roots):
        self.modes, self.roots = np.array(modes), np.array(roots)

    def draws(self, n, rng, *, inflation=1.0, on_segment=0.0):
        """Parameters, shape (n, p), of each mode in turn; some on the way from it to zero, around which they vary."""
        which, z = np.arange(n) % len(self.modes), rng.standard_normal((n, self.modes.shape[1]))
        share = np.where(rng.random(n) < on_segment, rng.random(n), 1.0)[:, None]
        for k, root in enumerate(self.roots):
            z[which == k] = z[which == k] @ root.T
        return self.modes[which] * share + z * np.where(share < 1, 1.0, inflation)

    def log_density(self, theta):
        """Log density of the mixture at parameters of shape (n, p), up to a constant."""
        whitened = [solve_triangular(r, (theta - m).T, lower=True) for m, r in zip(self.modes, self.roots)]
        parts = [-0.5 * (z**2).sum(0) - np.log(np.diag(r)).sum() for z, r in zip(whitened, self.roots)]
        return logsumexp(parts, axis=0)


def find_pilot(rows, prior, start):
    """The `Pilot`, the prior's log density, and in how many rows two parameters act together, shape (p, p).

    Parameters
    ----------
    rows : `Rows`
    prior : deviation of a Gaussian, number or shape (p,), or function of parameters (K, p) that gives (K,)
    start : shape (p,) or (S, p); None starts at zero, where the model says how many parameters it has

    Raises
    ------
    ValueError
        for a function as likelihood without a start, and a prior of another length or shape
    ConvergenceError
        where no mode is found
    """
    linear = bool(rows.model.n_outputs)
    if start is None and not linear:
        raise ValueError("start must be given for a function, shape (p,) or (S, p): where the search for modes starts.")
    starts = np.atleast_2d(0.0 * rows.model.penalised(rows.n_columns) if start is None else np.asarray(start, float))
    counts, p, log_prior = rows.touched(starts[0]), starts.shape[1], prior
    if not callable(prior):
        prior = check_vector(np.atleast_1d(prior), "prior")
        if len(prior) not in (1, p) or prior.min() <= 0:
            raise ValueError(f"prior must hold positive deviations, one or {p}, got {len(prior)} from {prior.min():g}.")
        precision = np.broadcast_to(prior**-2.0, p)

        def log_prior(theta):
            return -0.5 * theta**2 @ precision

        if linear:
            mode, H = newton(rows, precision, starts[0])
            return Pilot([mode], [root_of_inverse(H)]), log_prior, counts
    elif np.shape(prior(starts)) != (len(starts),):
        raise ValueError(f"prior must give shape ({len(starts)},) for {starts.shape}, got {np.shape(prior(starts))}.")
    pairs = np.argwhere(np.tril(counts > 0))
    return modes_by_values(rows.sums, log_prior, pairs, starts), log_prior, counts


def root_of_inverse(H):
    """Lower Cholesky factor of the inverse of a curvature; what is not curved counts as hardly curved."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    values, vectors = np.linalg.eigh(H * scale * scale[:, None])
    values = np.maximum(values, 1e-10 * max(values.max(), 1e-300))
    return np.linalg.cholesky(((vectors / values) @ vectors.T) * scale * scale[:, None])


def newton(rows, precision, theta, max_iter=100):
    """Maximum of the log-likelihood less ``precision @ theta**2 / 2``, shape (p,), and minus the Hessian there."""

    def expand(theta):
        with np.errstate(over="ignore", invalid="ignore"):  # a long step may leave what floats can hold
            value, (slope, *H) = rows.sums(theta[None])[0], rows.expand(theta)
        return value - precision @ theta**2 / 2, slope - precision * theta, np.array(H) + np.diag(precision)

    value, slope, H = expand(theta)
    for _ in range(max_iter):
        unit = 1 / np.sqrt(np.maximum(np.diag(H), 1e-300))
        step = unit * np.linalg.lstsq(H * unit * unit[:, None], unit * slope, rcond=1e-13)[0]
        gain, length = slope @ step, 1.0
        if gain < 1e-10:  # nats; the last step squares the error that is left
            return theta + step, H
        while not (new := expand(theta + length * step))[0] - value >= 1e-4 * length * gain - 1e-10 * abs(value):
            length /= 2
            if length < 1e-12:
                break
        theta, (value, slope, H) = theta + length * step, new
    raise ConvergenceError(f"no mode in {max_iter} Newton steps: scale the columns of X, or take a stronger penalty.")


def modes_by_values(log_likelihood, log_prior, pairs, starts):
    """The `Pilot` of a posterior that is known by its values: a search from each start, by finite differences.

    Parameters
    ----------
    log_likelihood, log_prior : functions of parameters (K, p) that give (K,)
    pairs : int array (P, 2), the pairs of parameters whose second derivative of the log-likelihood may not be zero
    starts : array, shape (S, p)
    """
    p, found = starts.shape[1], []

    def downhill(theta):
        E = np.diag(1e-4 * np.maximum(1.0, np.abs(theta)))
        points = np.vstack([theta, theta + E, theta - E])
        v = log_likelihood(points) + log_prior(points)
        return -v[0], (v[p + 1 :] - v[1 : p + 1]) / (2 * np.diag(E))

    with np.errstate(all="ignore"):  # a line search may step to where there is no likelihood
        ends = [minimize(downhill, start, jac=True, method="BFGS", options={"maxiter": 500}) for start in starts]
    for end in sorted((e for e in ends if np.isfinite(e.fun)), key=lambda e: e.fun):
        if any(np.linalg.norm(solve_triangular(root, end.x - x, lower=True)) < APART for x, root in found):
            continue
        theta, h = end.x, 1e-3 * np.maximum(1.0, np.abs(end.x))
        for _ in range(4):
            H = _curvature(log_likelihood, theta, h, pairs) + _curvature(log_prior, theta, h, np.argwhere(np.tri(p)))
            root, h = root_of_inverse(H), 0.2 / np.sqrt(np.maximum(np.diag(H), 1e-8))
            value, slope = downhill(theta)
            new = theta - root @ (root.T @ slope)
            if not downhill(new)[0] < value:
                break
            theta = new
        found.append((theta, root))
    if not found:
        raise ConvergenceError("the posterior is not finite at any end of a search: give other starts.")
    return Pilot(*zip(*found))


def _curvature(f, theta, h, pairs):
    """Minus the Hessian of f at theta, by central differences of width h, at the given pairs."""
    E, (j, k) = np.diag(h), pairs.T
    base, *single = f(np.vstack([theta, theta + E, theta - E]))
    plus, minus = np.reshape(single, (2, -1))
    both = f(theta + E[j] + E[k]) + f(theta - E[j] - E[k])
    H = np.zeros((len(h), len(h)))
    H[j, k] = H[k, j] = -(both - plus[j] - plus[k] - minus[j] - minus[k] + 2 * base) / (2 * h[j] * h[k])
    return H
