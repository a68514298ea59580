"""Whether draws made on the handful are draws from the posterior of all rows: a verdict in words."""

from dataclasses import dataclass

import numpy as np

LIMITS = """\
This compares the rows with all data only where the draws went. It sees no mode or tail that they did not visit; the
  rows may even have erased a mode, so that several chains agree although chains on all rows would not.
A small Pareto k alone is no certificate, and nothing here says that the chain has converged: look at R-hat as well.
The rows were matched for this likelihood: for another likelihood, link or column choose again. After a change of the
  prior run this check again; if the posterior moved by more than about 5 deviations, choose again.
The rows are no sample: leave-one-out, standard errors, predictive checks and bootstraps on them are wrong. Compute
  these from all rows with the draws (`log_likelihood`).
Tails beyond about 3 deviations are unchecked. Parameters that grow with the rows (one for each row, or groups of fewer
  rows than equations) are not supported."""
VERDICTS = {
    "use the draws": "the draws are fine as they are",
    "use the weights": "use the draws with their importance weights",
    "refuse": "do not use these draws: choose again with more rows, or with a pilot nearer to them; else take all rows",
}


@dataclass(frozen=True)
class Check:
    """What one pass over all rows says about draws made on the handful; printed, it says it in words.

    Attributes
    ----------
    verdict : "use the draws", "use the weights" or "refuse"
    kl : half the variance of the log weights: about the divergence between the posteriors, in nats
    variance : of the log weights
    mean : of the log weights, which counts the constant: log-likelihood of all rows less that of the handful, in nats
    n_effective : of the draws, after weighting, had they been independent
    n_draws : how many
    pareto_k : shape of the weights' tail (Vehtari, Simpson, Gelman, Yao and Gabry 2024); NaN if it has under 5 draws
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
            f"{self.verdict.upper()}: {VERDICTS[self.verdict]}.\n"
            f"Variance of the log weights {self.variance:.2g} (estimated divergence {self.kl:.2g} nats), their mean "
            f"{self.mean:+.2g},\n  effective draws {self.n_effective:.0f} of {self.n_draws}, Pareto k "
            f"{self.pareto_k:.2f}.\n{LIMITS}"
        )


def judge(log_weights):
    """The `Check` of log weights, shape (S,): log-likelihood of all rows less that of the handful, at each draw.

    Raises
    ------
    ValueError
        for less than 100 draws, which say too little
    """
    log_weights = np.asarray(log_weights, float)
    n = len(log_weights)
    if n < 100:
        raise ValueError(f"a check needs at least 100 draws, got {n}.")
    if not np.isfinite(log_weights).all():
        return Check("refuse", np.inf, np.inf, float("nan"), 0.0, n, np.inf, np.full(n, 1 / n))
    variance, mean = float(log_weights.var()), float(log_weights.mean())
    w = np.exp(log_weights - log_weights.max())
    w /= w.sum()
    k, n_effective = pareto_k(log_weights), float(1 / (w**2).sum())
    verdict = "refuse"
    # k is noise where the weights hardly differ; where they differ, it says nothing about their size
    if variance < 0.1 and abs(mean) < 1 and (k < 0.7 or variance < 0.01):
        verdict = "use the draws"
    elif variance < 1 and abs(mean) < 3 and n_effective > n / 2 and k < 0.7:
        verdict = "use the weights"
    return Check(verdict, variance / 2, variance, mean, n_effective, n, k, w)


def pareto_k(log_weights):
    """Shape k of a generalised Pareto distribution fitted to the largest weights.

    The fit is that of Zhang and Stephens 2009, with the weak prior and the length of the tail of Vehtari, Simpson,
    Gelman, Yao and Gabry 2024 (Section 3).

    Parameters
    ----------
    log_weights : array, shape (S,), up to a constant

    Returns
    -------
    float; NaN where the tail has under 5 draws, -inf where its weights are equal
    """
    ordered = np.sort(np.asarray(log_weights, float))
    m = int(min(len(ordered) / 5, 3 * np.sqrt(len(ordered))))
    if m < 5:
        return float("nan")
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
