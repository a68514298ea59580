"""What a Gaussian near a posterior gives by itself: its draws with importance weights over all
rows."""

import time
from dataclasses import dataclass, replace

import numpy as np

from handful.matching.held_out import HeldOut
from handful.matching.importance_check import normalised, pareto_k

# The most that the variance of the log weights and the shape of their tail may be.
MAX_VARIANCE = 1.5
MAX_K = 0.7
# Pairs of draws over which slopes are averaged, and steps towards the mean of a posterior.
PAIRS = 32
STEPS = 2


@dataclass(frozen=True, repr=False)
class LaplaceReport:
    """The Laplace approximation with importance weights; printed, it says whether that suffices.

    Attributes
    ----------
    suffices : whether the variance of the log weights is below 1.5 and Pareto k below .7
    variance : of the log weights
    pareto_k : shape of the weights' tail, see `DrawsReport`
    n_effective : of the draws, after weighting
    draws : shape (S, p), of Gaussians at the modes, or of one near the mean of the posterior; of a
        model of NumPyro or PyMC a dict of arrays (S, ...) by name, constrained, as samplers give
        them
    weights : shape (S,), importance weights over all rows, which add up to one
    seconds : that finding the modes and weighting the draws took
    doubt : why it is no guide, whatever the weights; nothing where there is no such reason
    """

    suffices: bool
    variance: float
    pareto_k: float
    n_effective: float
    draws: np.ndarray | dict[str, np.ndarray]
    weights: np.ndarray
    seconds: float
    doubt: str = ""

    @classmethod
    def of(cls, rows, held, began):
        """That of draws that were held out, of all rows, since a time in seconds."""
        seconds = time.perf_counter() - began
        draws = rows.model.outer(held.theta)
        # They are -inf where the draws are impossible.
        log_weights = np.where(np.isnan(held.log_weights), -np.inf, held.log_weights)
        possible = log_weights[np.isfinite(log_weights)]
        if not len(possible):
            nothing = np.full(len(draws), np.nan)
            return cls(False, np.inf, np.inf, 0.0, draws, nothing, seconds)
        weights, n_effective = normalised(log_weights)
        variance = float(possible.var()) if len(possible) == len(draws) else np.inf
        k = pareto_k(np.maximum(log_weights, possible.min()))
        suffices = variance < MAX_VARIANCE and k < MAX_K
        return cls(suffices, variance, k, n_effective, draws, weights, seconds)

    def doubted(self, doubt):
        """The report of what is no guide, for this reason."""
        return replace(self, suffices=False, doubt=doubt)

    def __str__(self):
        if self.doubt:
            return f"Laplace with importance weights is no guide here: {self.doubt}"
        says = "suffices here" if self.suffices else "does not suffice"
        return (
            f"Laplace with importance weights {says} (variance {self.variance:.2g}, Pareto k "
            f"{self.pareto_k:.2f}, {self.n_effective:.0f} of {len(self.weights)} draws effective, "
            f"{self.seconds:.1f} s)"
        )

    __repr__ = __str__


def pairs(gaussian, rng):
    """Draws of a Gaussian, less its center, and their opposites, shape (2 PAIRS, p)."""
    moves = gaussian.draws(PAIRS, rng) - gaussian.mode
    return np.vstack([moves, -moves])


def toward_mean(rows, prior, gaussian, rng):
    """A Gaussian moved to where the slopes at its draws are zero on average, by Newton steps: it is
    nearer to the posterior than that at the mode (Opper and Archambeau 2009).

    Parameters
    ----------
    rows : of a model that has slopes
    prior : Prior
    gaussian : Pilot of one mode, or SparsePilot
    rng : Generator
    """
    for _ in range(STEPS):
        there = gaussian.mode + pairs(gaussian, rng)
        slope = (rows.slopes(there) + prior.slopes(there)).mean(0)
        moved = gaussian.at(rows, prior, gaussian.mode + gaussian.step(slope))
        if moved is None:
            break
        gaussian = moved
    return gaussian


def nearer(report, rows, prior, gaussian):
    """A `LaplaceReport`, or where it does not suffice that of the Gaussian moved to the mean, if
    that one is better. Parameters as in `toward_mean`."""
    if report.suffices or not rows.model.has_slopes:
        return report
    began = time.perf_counter() - report.seconds
    # The rows that are chosen hang on no draw of this.
    rng = np.random.default_rng(0)
    moved = toward_mean(rows, prior, gaussian, rng)
    draws = moved.draws(len(report.draws), rng)
    held = HeldOut.of(rows, prior, draws, moved.log_density)
    found = LaplaceReport.of(rows, held, began)
    return found if found.variance < report.variance else report
