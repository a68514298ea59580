"""Gaussians near a posterior whose curvature is a sparse matrix."""

from contextlib import suppress

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from handful.checks import ConvergenceError
from handful.matching.priors import posterior_of
from handful.matching.sparse_rows import parts
from handful.models.newton import climb

# Newton steps to the mode, and what a step promises to gain where it is the last.
MAX_STEPS = 100
ENOUGH = 1e-10
# Where a curvature has no root, its diagonal grows by these shares of it.
SHARES = (0.0, *10.0 ** np.arange(-4, 4))
# A pivot below this share of the largest is that of a flat direction.
FLAT = 1e-14


class SparsePilot:
    """A Gaussian whose curvature is that of a posterior somewhere, a sparse matrix.

    Parameters
    ----------
    rows : SparseRows or ProbedRows
    prior : Prior
    mode : shape (p,), its center
    """

    def __init__(self, rows, prior, mode):
        self.rows = rows
        self.prior = prior
        self.mode = mode
        self.slope, self.curvature = self._slope_and_curvature()
        self.factor, self.is_peak = factored(self.curvature)

    @classmethod
    def at_mode(cls, rows, prior, start):
        """That of the mode which a search from parameters (p,) finds.

        Raises
        ------
        ConvergenceError
            where none is found
        """
        with np.errstate(all="ignore"):
            mode, end = climb(
                lambda theta: _Ascent(rows, prior, theta),
                start,
                max_iter=MAX_STEPS,
                share=1e-4,
                slack=ENOUGH,
            )
        if end is None or not end.gaussian.is_peak:
            raise ConvergenceError(
                "no mode was found: centre and scale the columns of X, or give a narrower prior."
            )
        found = end.gaussian
        found.mode = mode + end.last
        return found

    def _slope_and_curvature(self):
        """Of the log posterior at the center; the curvature with a minus."""
        groups = self.rows.groups
        expansions = self.rows.expanded(self.mode)
        slope, curvature = self.prior.slope_and_curvature(self.mode)
        slopes = 0.0
        curvatures = 0.0
        present = np.flatnonzero(self.rows.weights)
        for places in parts(present, (1 + groups.width) ** 2):
            _, first, second = expansions(places)
            w = self.rows.weights[places]
            slopes = slopes + groups.summed(first, places, w)
            curvatures = curvatures + groups.summed(second, places, w)
        slope = slope + groups.scattered(slopes)
        curvature = curvature - groups.crossed(curvatures)
        return slope, curvature.tocsc()

    def step(self, slope):
        """The covariance times a slope, shape (p,)."""
        return self.factor.solve(slope)

    def at(self, rows, prior, center):
        """The Gaussian with the curvature of the log posterior elsewhere; None where it has
        none."""
        found = SparsePilot(rows, prior, center)
        return found if found.is_peak else None

    def draws(self, n, rng, inflation=1.0):
        """Parameters, shape (n, p)."""
        shape = (len(self.mode), n)
        noise = self.factor.root(rng.standard_normal(shape))
        moves = self.factor.solve(noise).T
        return self.mode + inflation * moves

    def log_density(self, theta):
        """Of the Gaussian at parameters (K, p), up to a constant."""
        moves = theta - self.mode
        bent = (self.curvature @ moves.T).T
        return -0.5 * (moves * bent).sum(1)


class _Ascent:
    """A log posterior at parameters (p,) on the way to its mode, as `climb` takes it."""

    def __init__(self, rows, prior, theta):
        self.asked = rows, prior, theta
        self.value = posterior_of(rows, prior)(theta[None])[0]
        self.last = 0.0

    def step(self):
        """A Newton step and what it promises; None where that is not more than enough."""
        self.gaussian = SparsePilot(*self.asked)
        step = self.gaussian.step(self.gaussian.slope)
        gain = self.gaussian.slope @ step
        if not np.isfinite(gain):
            self.gaussian.is_peak = False
            return None
        if gain <= ENOUGH and self.gaussian.is_peak:
            self.last = step
            return None
        return step, gain


def sparse_pilot(rows, prior, starts):
    """The first `SparsePilot` whose search does not fail, of those that start at (S, p)."""
    for start in starts[:-1]:
        with suppress(ConvergenceError):
            return SparsePilot.at_mode(rows, prior, start)
    return SparsePilot.at_mode(rows, prior, starts[-1])


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
        is_symmetric = (lu.perm_r == lu.perm_c).all()
        is_curved = self.pivots.min() > FLAT * self.pivots.max()
        self.is_definite = bool(is_symmetric and is_curved)

    def root(self, z):
        """The root times z, shape (p, K): of independent noise, noise of this covariance."""
        lengths = np.sqrt(self.pivots)
        found = self.L @ (lengths[:, None] * z)
        return found[self.order]


def factored(curvature):
    """A `Factor` of a curvature, and whether it is of the curvature itself: one that is not curved
    upwards everywhere gets a larger diagonal."""
    diagonal = np.abs(curvature.diagonal())
    diagonal = np.maximum(diagonal, 1e-8 * diagonal.max())
    for share in SHARES:
        # an error of SuperLU, where the matrix is exactly singular
        with suppress(RuntimeError):
            added = sparse.diags_array(share * diagonal)
            found = Factor((curvature + added).tocsc())
            if found.is_definite:
                return found, share == 0
    raise ConvergenceError(
        "no mode was found, as the log posterior is not curved: give a proper prior, or start "
        "elsewhere."
    )
