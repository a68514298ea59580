"""Draws near a posterior that are not matched: what all rows say of them, by which a few rows are
judged."""

from dataclasses import dataclass

import numpy as np

from handful.matching.importance_check import normalised

# So many draws are held out.
N_HELD_OUT = 200
# Where fewer of these draws count, they say nothing.
MIN_EFFECTIVE_DRAWS = 20


@dataclass(frozen=True)
class HeldOut:
    """Draws that are not matched, and log densities there, up to a constant.

    Attributes
    ----------
    theta : shape (K, p)
    of_all : log-likelihoods of all rows, shape (K,)
    log_prior : of the prior
    drawn : of what the draws were made from
    """

    theta: np.ndarray
    of_all: np.ndarray
    log_prior: np.ndarray
    drawn: np.ndarray

    @classmethod
    def of(cls, rows, prior, theta, log_density):
        """Those of draws (K, p) that were made from a log density, of all rows under a prior."""
        return cls(theta, rows.sums(theta), prior(theta), log_density(theta))

    @property
    def log_weights(self):
        """The importance weights that make them draws of the posterior of all rows, as logarithms
        up to a constant."""
        return self.of_all + self.log_prior - self.drawn

    def kl(self, few):
        """As `heldout_kl`, of a few rows."""
        of_few = few.sums(self.theta) + self.log_prior
        return heldout_kl(self.of_all + self.log_prior, of_few, self.drawn)

    def missed(self, few):
        """Half the variance of what a few rows miss of the log-likelihood."""
        missed = self.of_all - few.sums(self.theta)
        return float(np.var(missed) / 2)


@np.errstate(invalid="ignore")
def heldout_kl(of_all, of_few, drawn):
    """Divergence of the few rows' posterior, NaN if less than MIN_EFFECTIVE_DRAWS count, and how
    many count.

    Half the variance of the difference under the few rows' posterior, and what the few rows find
    possible but all do not: the log of the share that is left.

    Parameters
    ----------
    of_all, of_few, drawn : log densities at the draws: of the posteriors, not finite outside a
        bounded support, and of what the draws were made from
    """
    delta = of_all - of_few
    w, n_effective = normalised(np.fmax(of_few - drawn, -np.inf))
    inside = np.isfinite(delta)
    share = w[inside].sum() / w.sum()
    if n_effective < MIN_EFFECTIVE_DRAWS or not share > 0:
        return float("nan"), n_effective
    delta = delta[inside]
    w = w[inside] / share
    mean = w @ delta
    variance = w @ (delta - mean) ** 2
    return float(variance / 2 - np.log(share)), n_effective
