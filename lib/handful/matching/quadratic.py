"""Rows and a quadratic form, for posteriors of so many parameters that no few rows keep the
products of all of them.

Random rows stand for all, and a quadratic form adds what they lack of slope and curvature (a
control variate: Bardenet, Doucet and Holmes 2017; Quiroz, Kohn, Villani and Tran 2019; Baker,
Fearnhead, Fox and Nemeth 2019). What is left are the terms of higher order. So the form is the best
one over the posterior and not at its mode: most of a third-order term is linear there. Rows are
drawn by the size of these terms, and their weights are shared with the form, as far as that brings
the log-likelihood nearer to that of all rows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from handful.matching.differences import around
from handful.matching.held_out import N_HELD_OUT, HeldOut
from handful.matching.laplace import pairs, toward_mean
from handful.models.newton import bordered
from handful.plans import inclusion_probabilities

# Draws at which the rows' terms of higher order are measured.
PROBES = 16
# Rows are drawn with so much of the chance that all have alike.
ALIKE = 0.2
# Of a third-order term over a Gaussian, the share of the variance that is not linear.
NOT_LINEAR = 0.4
# The rows keep at least this share of the log-likelihood.
LEAST_SHARE = 0.05
# The form may rise by so many times the curvature of the posterior, and is bounded where it does,
# from so many deviations on.
MOST_BEND = 1.0
REACH = 5.0


@dataclass(frozen=True)
class QuadraticForm:
    """What a chain on the rows adds to its log density, so that it is that of all rows.

    With ``move = theta - center`` it is ``constant + slope @ move + 0.5 * bends @ square(move @
    directions)``. Where a bend is positive, so that the form rises, the square is bounded beyond 5
    deviations: the density of the rows, the form and the prior is then proper where their
    log-likelihood is concave, as it falls faster than the form rises, or the prior a Gaussian.

    Attributes
    ----------
    center : shape (p,), about the posterior's mean
    constant : float
    slope : shape (p,)
    directions : shape (p, p); a move has so many deviations along each column
    bends : shape (p,), second derivatives along these, in units of the posterior's
    """

    center: np.ndarray
    constant: float
    slope: np.ndarray
    directions: np.ndarray
    bends: np.ndarray

    @property
    def matrix(self):
        """Second derivatives at the center, shape (p, p)."""
        bent = self.directions * self.bends
        return bent @ self.directions.T

    def __call__(self, theta, xp=np):
        """At parameters (K, p) or (p,): shape (K,) or a number.

        `xp` is the package whose arrays are given, such as jax.numpy or pytensor.tensor.
        """
        z, size, is_bounded = self._deviations(theta, xp)
        far = xp.clip(size / REACH - 1, 0, 1)
        bounded = REACH**2 * (1 + 2 * far - far**2)
        squares = xp.where(is_bounded, bounded, z**2)
        move = theta - self.center
        linear = self.constant + move @ self.slope
        return linear + 0.5 * (squares @ self.bends)

    def _deviations(self, theta, xp=np):
        """How many deviations parameters lie along each direction, their magnitude, and whether the
        square is bounded there."""
        z = (theta - self.center) @ self.directions
        size = xp.abs(z)
        rises = self.bends > 0
        return z, size, rises & (size > REACH)

    def slopes(self, theta):
        """At parameters (K, p), shape (K, p)."""
        z, size, is_bounded = self._deviations(theta)
        left = np.clip(2 - size / REACH, 0, 1)
        bounded = np.sign(z) * REACH * left
        half = np.where(is_bounded, bounded, z)
        bent = (half * self.bends) @ self.directions.T
        return self.slope + bent

    def expansion(self, theta):
        """At parameters (p,), as `handful.models.newton` says."""
        _, size, is_bounded = self._deviations(theta)
        turned = np.where(size < 2 * REACH, -1.0, 0.0)
        shares = np.where(is_bounded, turned, 1.0)
        second = self.bends * shares
        hessian = (self.directions * second) @ self.directions.T
        slope = self.slopes(theta[None])[0]
        return bordered(self(theta), slope, -hessian)

    def of(self, linear):
        """The form as a function of other parameters, of which `linear` makes those that it takes
        now: a linear function of shape (K, p) to (K, p)."""
        p = len(self.center)
        L = linear(np.eye(p))
        center = np.linalg.solve(L.T, self.center)
        slope = L @ self.slope
        directions = L @ self.directions
        return QuadraticForm(center, self.constant, slope, directions, self.bends)


class FormMatch:
    """Rows that are drawn, and the form that they ask for.

    Parameters
    ----------
    rows : LikelihoodSums, of a model that has slopes
    prior : Prior
    pilot : Pilot, at the highest mode
    rng : Generator

    Attributes
    ----------
    gaussian : Pilot, of one Gaussian near the mean of the posterior
    held : HeldOut, draws of it
    """

    def __init__(self, rows, prior, pilot, rng):
        self.rows = rows
        self.rng = rng
        self.gaussian = toward_mean(rows, prior, pilot, rng)
        self.center = self.gaussian.mode
        self.root = self.gaussian.roots[0]
        self.moves = pairs(self.gaussian, rng)
        theta = self.gaussian.draws(N_HELD_OUT, rng)
        log_density = self.gaussian.log_density
        held = HeldOut.of(rows, prior, theta, log_density)
        self.held = held
        self.all_rows = self._best_form(rows, held.of_all)
        shape = (PROBES, len(self.center))
        probes = rng.standard_normal(shape) @ self.root.T
        wholes = around(self.center, probes)
        _, *halves = around(self.center, probes / 2)
        probed = np.vstack([wholes, halves])
        sizes = rows.over(np.concatenate, "higher_orders", probed)
        self.sizes = sizes * rows.weights

    def _best_form(self, rows, values):
        """Of rows: the mean slope over the moves (p,), the curvature at the center (p, p), and what
        both leave of the log-likelihoods at the draws that are held out."""
        slopes = rows.slopes(self.center + self.moves)
        slope = slopes.mean(0)
        expansion = rows.expansion(self.center)
        curvature = expansion[1:, 1:]
        moves = self.held.theta - self.center
        squares = np.sum(moves @ curvature * moves, 1)
        foreseen = moves @ slope - 0.5 * squares
        return slope, curvature, values - foreseen

    def n_rows(self, tol):
        """About how many rows are within a divergence of `tol` nats."""
        variance = NOT_LINEAR * self.sizes.sum() ** 2
        return variance / (2 * tol)

    def match(self, m):
        """Numbers of m rows, ascending, their weights, the `QuadraticForm`, and the divergence:
        half the variance of what both miss at the draws that are held out."""
        present = np.flatnonzero(self.rows.weights)
        own = self.rows.weights[present]
        chances = self._chances(present, own, m)
        drawn = systematic(chances, m, self.rng)
        places = present[drawn]
        weights = own[drawn] / chances[drawn]
        weights *= own.sum() / weights.sum()
        few = self.rows.restricted(places, weights)
        few_values = few.sums(self.held.theta)
        few_slope, few_curvature, few_rest = self._best_form(few, few_values)
        slope, curvature, rest = self.all_rows
        few_inner = self.root.T @ few_curvature @ self.root
        steepest = np.linalg.eigvalsh(few_inner)[-1]
        most = (1 + MOST_BEND) / steepest
        share = min(_share(rest, few_rest), most)
        missed = rest - share * few_rest
        inner = self.root.T @ curvature @ self.root
        missing = share * few_inner - inner
        bends, axes = np.linalg.eigh(missing)
        directions = solve_triangular(self.root, axes, lower=True, trans="T")
        slope = slope - share * few_slope
        constant = float(np.mean(missed))
        form = QuadraticForm(self.center, constant, slope, directions, bends)
        kl = float(np.var(missed) / 2)
        return places, share * weights, form, kl

    def _chances(self, present, own, m):
        """Chances of the rows that count, which add up to m: most by size, a share alike."""
        sizes = self.sizes[present]
        total = max(sizes.sum(), 1e-300)
        by_size = sizes / total
        alike = own / own.sum()
        shares = ALIKE * alike + (1 - ALIKE) * by_size
        return inclusion_probabilities(shares, m)


def systematic(chances, m, rng):
    """Distinct places, ascending, each with its chance, of chances that add up to m (Madow
    1949)."""
    order = rng.permutation(len(chances))
    edges = np.cumsum(chances[order])
    spacing = edges[-1] / m
    offset = rng.random()
    teeth = (np.arange(m) + offset) * spacing
    found = np.searchsorted(edges, teeth, side="right")
    found = np.minimum(found, len(chances) - 1)
    return np.unique(order[found])


def _share(rest, few_rest):
    """The share of the rows' weights at which what they and the form miss varies the least."""
    covariance = np.cov(rest, few_rest)
    variance = max(covariance[1, 1], 1e-300)
    share = covariance[0, 1] / variance
    return float(np.clip(share, LEAST_SHARE, 1.0))
