"""The Gaussian at the mode of a posterior whose curvature is a sparse matrix."""

from contextlib import suppress

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from handful.checks import ConvergenceError
from handful.matching.sparse_rows import parts

# Newton steps to the mode, and what a step promises to gain where it is the last.
MAX_STEPS = 100
ENOUGH = 1e-10
# Where a curvature has no root, its diagonal grows by these shares of it.
SHARES = (0.0, *10.0 ** np.arange(-4, 4))
# A pivot below this share of the largest is that of a flat direction.
FLAT = 1e-14


class SparsePilot:
    """The Gaussian at the mode of a posterior whose curvature is a sparse matrix.

    Parameters
    ----------
    rows : SparseRows or ProbedRows
    prior : Prior
    start : shape (p,), where the search for the mode starts

    Raises
    ------
    ConvergenceError
        where no mode is found
    """

    def __init__(self, rows, prior, start):
        self.rows = rows
        self.prior = prior
        self.mode = start
        with np.errstate(all="ignore"):
            self._climb()

    def _climb(self):
        value = self.log_posterior(self.mode)
        for _ in range(MAX_STEPS):
            slope, self.curvature = self._slope_and_curvature()
            self.factor, is_peak = factored(self.curvature)
            step = self.factor.solve(slope)
            gain = slope @ step
            if not np.isfinite(gain):
                break
            if gain <= ENOUGH and is_peak:
                self.mode = self.mode + step
                return
            length = 1.0
            higher = self.log_posterior(self.mode + step)
            while not higher - value >= 1e-4 * length * gain - ENOUGH * abs(value):
                length /= 2
                if length < 1e-12:
                    break
                higher = self.log_posterior(self.mode + length * step)
            if length < 1e-12:
                if is_peak:
                    return
                break
            self.mode = self.mode + length * step
            value = higher
        raise ConvergenceError(
            "no mode was found: centre and scale the columns of X, or give a narrower prior."
        )

    def log_posterior(self, theta):
        """Of parameters (p,)."""
        return (self.rows.sums(theta[None]) + self.prior(theta[None]))[0]

    def _slope_and_curvature(self):
        """Of the log posterior at the mode so far; the curvature with a minus."""
        groups = self.rows.groups
        expansions = self.rows.expanded(self.mode)
        slope, curvature = self.prior.slope_and_curvature(self.mode)
        slopes = 0.0
        curvatures = 0.0
        C = groups.columns.shape[1]
        for places in parts(np.flatnonzero(self.rows.weights), (1 + C) ** 2):
            _, first, second = expansions(places)
            w = self.rows.weights[places]
            slopes = slopes + groups.summed(first, places, w)
            curvatures = curvatures + groups.summed(second, places, w)
        return slope + groups.scattered(slopes), (curvature - groups.crossed(curvatures)).tocsc()

    def draws(self, n, rng, inflation=1.0):
        """Parameters, shape (n, p)."""
        noise = self.factor.root(rng.standard_normal((len(self.mode), n)))
        return self.mode + inflation * self.factor.solve(noise).T

    def log_density(self, theta):
        """Of the Gaussian at parameters (K, p), up to a constant."""
        moves = theta - self.mode
        return -0.5 * (moves * (self.curvature @ moves.T).T).sum(1)


def sparse_pilot(rows, prior, starts):
    """The first `SparsePilot` whose search does not fail, of those that start at (S, p)."""
    for start in starts[:-1]:
        with suppress(ConvergenceError):
            return SparsePilot(rows, prior, start)
    return SparsePilot(rows, prior, starts[-1])


class Factor:
    """A positive definite sparse matrix and its root, by a sparse LU decomposition.

    Parameters
    ----------
    matrix : CSC, shape (p, p)
    """

    def __init__(self, matrix):
        lu = splu(
            matrix,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        self.order = lu.perm_r
        self.pivots = lu.U.diagonal()
        self.L = lu.L
        self.solve = lu.solve
        symmetric = (lu.perm_r == lu.perm_c).all()
        self.is_definite = bool(symmetric and (self.pivots > FLAT * self.pivots.max()).all())

    def root(self, z):
        """The root times z, shape (p, K): of independent noise, noise of this covariance."""
        return (self.L @ (np.sqrt(self.pivots)[:, None] * z))[self.order]


def factored(curvature):
    """A `Factor` of a curvature, and whether it is of the curvature itself: one that is not curved
    upwards everywhere gets a larger diagonal."""
    diagonal = np.abs(curvature.diagonal())
    diagonal = np.maximum(diagonal, 1e-8 * diagonal.max())
    for share in SHARES:
        # an error of SuperLU, where the matrix is exactly singular
        with suppress(RuntimeError):
            found = Factor((curvature + share * sparse.diags_array(diagonal)).tocsc())
            if found.is_definite:
                return found, share == 0
    raise ConvergenceError(
        "no mode was found, as the log posterior is not curved: give a proper prior, or start "
        "elsewhere."
    )
