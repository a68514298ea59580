"""Whether draws made on the handful are draws from the posterior of all rows: a verdict in words."""

from dataclasses import dataclass

import numpy as np

from handful.blocks import check_in_memory

VERDICTS = {  # most variance, most mean and least share of effective draws, of the log weights; and in words
    "use the draws": (0.1, 1.0, 0.0, "the draws are fine as they are"),
    "use the weights": (1.0, 3.0, 0.5, "use the draws with their importance weights"),
    "refuse": (np.inf, np.inf, 0.0, "choose again, more rows or a pilot nearer to these draws; else take all rows"),
}
HEAVY = 0.7  # Pareto k from which the weights' tail is too heavy, where they differ at all
ALIKE = 0.01  # variance below which the tail is noise
LIMITS = """\
Only where the draws went is compared: a mode or tail that they did not visit may be wrong. Whether the chain has
converged is another question (R-hat). The rows are for this likelihood, and are no sample: leave-one-out and predictive
checks need all rows. More: help(handful.matching.Check)."""


@dataclass(frozen=True)
class Check:
    """What one pass over all rows says about draws made on the handful; printed, it says it in words.

    It compares the rows with all data only where the draws went: the rows may even have erased a mode, so that several
    chains agree although chains on all rows would not. After a change of the prior check again; for another likelihood
    choose again. Tails beyond about three deviations are unchecked.

    Attributes
    ----------
    verdict : "use the draws", "use the weights" or "refuse"
    kl : half the variance of the log weights: about the divergence between the posteriors, in nats
    variance : of the log weights
    mean : of the log weights, which counts the constant: log-likelihood of all rows less that of the handful, in nats
    n_effective : of the draws, after weighting, had they been independent
    n_draws : how many
    pareto_k : shape of the weights' tail (Vehtari, Simpson, Gelman, Yao and Gabry 2024), -inf if they are equal; no
        certificate alone
    weights : float array, shape (n_draws,), importance weights that add up to one
    """

    verdict: str
    kl: float
    variance: float
    mean: float
    n_effective: float
    n_draws: int
    pareto_k: float
    weights: np.ndarray

    def __str__(self):
        return (
            f"{self.verdict.upper()}: {VERDICTS[self.verdict][-1]}.\n\n"
            f"Log weights: variance {self.variance:.2g} (divergence about {self.kl:.2g} nats), mean {self.mean:+.2g}.\n"
            f"Effective draws: {self.n_effective:.0f} of {self.n_draws}. Pareto k: {self.pareto_k:.2f}.\n\n{LIMITS}"
        )


def judge(log_weights):
    """The `Check` of log weights, shape (S,): log-likelihood of all rows less that of the handful, at each draw.

    Raises
    ------
    ValueError
        for less than 100 draws, which say too little
    """
    check_in_memory("log_weights", log_weights)
    log_weights = np.asarray(log_weights, float)
    n = len(log_weights)
    if n < 100:
        raise ValueError(f"a check needs at least 100 draws, got {n}.")
    if not np.isfinite(log_weights).all():
        return Check("refuse", np.inf, np.inf, float("nan"), 0.0, n, np.inf, np.full(n, 1 / n))
    variance, mean, k = float(log_weights.var()), float(log_weights.mean()), pareto_k(log_weights)
    weights, n_effective = normalised(log_weights)
    tail = k < HEAVY or variance < ALIKE
    verdict = next(
        name
        for name, (most, most_mean, share, _) in VERDICTS.items()
        if name == "refuse" or (tail and variance < most and abs(mean) < most_mean and n_effective > share * n)
    )
    return Check(verdict, variance / 2, variance, mean, n_effective, n, k, weights)


def normalised(log_weights):
    """Weights that add up to one, and how many draws of equal weight tell as much."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return weights, float(1 / (weights**2).sum())


def pareto_k(log_weights):
    """Shape k of a generalised Pareto distribution fitted to the largest weights.

    The fit is that of Zhang and Stephens 2009, with the weak prior and the length of the tail of Vehtari, Simpson,
    Gelman, Yao and Gabry 2024 (Section 3).

    Parameters
    ----------
    log_weights : array, shape (S,) for S of at least 25, up to a constant

    Returns
    -------
    float; -inf where the tail's weights are equal
    """
    ordered = np.sort(np.asarray(log_weights, float))
    m = int(min(len(ordered) / 5, 3 * np.sqrt(len(ordered))))
    tail = np.exp(ordered[-m:] - ordered[-1]) - np.exp(ordered[-m - 1] - ordered[-1])
    tail = tail[tail > 0]
    if len(tail) < 5:
        return -float("inf")
    m, grid = len(tail), 30 + int(np.sqrt(len(tail)))
    b = 1 / tail[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * tail[int(m / 4 + 0.5) - 1])
    k = np.log1p(-b[:, None] * tail).mean(1)
    profile = m * (np.log(-b / k) - k - 1)
    share = 1 / np.exp(profile - profile[:, None]).sum(1)
    k = np.log1p(-(b @ (share / share.sum())) * tail).mean()
    return float((m * k + 5) / (m + 10))  # ten pseudo-draws of k = .5
