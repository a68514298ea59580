"""Whether draws made on the handful are draws from the posterior of all rows: a verdict in
words."""

from dataclasses import dataclass, replace

import numpy as np

from handful.checks import as_real, check_in_memory
from handful.matching.stein import ALPHA, LOW, SteinTest

# in words
VERDICTS = {
    "use the draws": "the draws are fine as they are",
    "use the weights": "use the draws with their importance weights",
    "make more draws": "nothing speaks against these draws, but they are too few to be sure",
    "refuse": "choose again, more rows or a pilot nearer to these draws; else take all rows",
}
WRONG = (
    "these are not draws of the posterior on the rows: look at the prior, which check takes too, "
    "the weights, the "
    "transforms of the parameters and the chain"
)
NOT_ASKED = "log weights alone say nothing of where the draws come from"
# The most that the variance of the log weights, and the magnitude of their mean, may be, and the
# least share of the draws that must be effective. Weights of which .99 are effective move the mean
# of any quantity by at most a tenth of its deviation, and the probability of any event by at most
# .05.
ALLOWED = {
    "use the draws": (0.01, 1.0, 0.99),
    "use the weights": (1.0, 3.0, 0.5),
}
# Effective draws below which no verdict is favourable, and draws below which there is no verdict.
ENOUGH = 200
FEWEST = 100
# Pareto k from which the weights' tail is too heavy, however many the draws are.
HEAVY = 0.7
# The tail's shape does not matter where weights that exceed their mean by the first share hold less
# than the second.
EXCESS = 0.1
NEGLIGIBLE = 0.02
# Difference of two log weights that counts as this one, so that its square is finite.
LOWEST = -1e150
# Scores from here on are told by their magnitude.
LARGE = 1e5
# Points of a tail below which no shape can be fitted to it.
FEWEST_OF_TAIL = 5
# Headlines where the rows were judged and the draws were not.
UNTESTED = {
    "use the draws": (
        "THE ROWS ARE FINE: draws of the posterior on them need no weights. "
        "Whether these are such draws was not tested"
    ),
    "use the weights": (
        "THE ROWS ARE FINE WITH WEIGHTS: draws of the posterior on them need the importance "
        "weights. Whether these are such draws was not tested"
    ),
}
LIMITS = """\
Only where the draws went is looked at: a mode or tail that they did not visit may be wrong, and
several chains have to agree (R-hat). The rows are for this likelihood, and are no sample:
leave-one-out and predictive checks need all rows. More: help(handful.matching.DrawsReport)."""


@dataclass(frozen=True)
class DrawsReport:
    """What one pass over all rows says about draws made on the handful; printed, it says it in
    words.

    There are two questions. Are the rows fine: is their log-likelihood that of all rows, where the
    draws are? And are these draws of the posterior on the rows: do the slopes of its log density
    have the moments that they must have at its draws (Stein's identities), to the error of such a
    chain? "Use the draws" is said where both are.

    It compares the rows with all data only where the draws went: the rows may even have erased a
    mode, so that several chains agree although chains on all rows would not. After a change of the
    prior check again; for another likelihood choose again. Tails beyond about three deviations are
    unchecked.

    Parameters
    ----------
    verdict : {"use the draws", "use the weights", "make more draws", "refuse"}
        What to do.
    kl : float
        About the divergence between the posteriors, in nats: half the variance of the log weights,
        or the entropy that the weights lack, whichever is more.
    variance : float
        Of the log weights.
    mean : float
        Of the log weights, which counts the constant: log-likelihood of all rows less that of the
        handful, in nats.
    n_effective : float
        How many of the draws count after weighting, had they been independent.
    n_draws : int
        How many draws there are.
    pareto_k : float
        Shape of the weights' tail (Vehtari, Simpson, Gelman, Yao and Gabry 2024), -inf if they are
        equal, inf if fewer than five stand out from the others; no certificate alone.
    weights : array of shape (n_draws,)
        Importance weights that add up to one; NaN where a log weight is NaN or inf.
    stein : SteinTest or None, default=None
        Whether these are draws of the posterior on the rows (`handful.matching.stein.SteinTest`):
        the largest `z`, its `p_value`, and `n_independent`, so many independent draws would tell as
        much; None if not tested.
    why : str, default=""
        Why they were not tested.
    """

    verdict: str
    kl: float
    variance: float
    mean: float
    n_effective: float
    n_draws: int
    pareto_k: float
    weights: np.ndarray

    stein: SteinTest | None = None
    why: str = ""

    def __str__(self):
        if self.stein and np.isinf(self.stein.z):
            of_draws = (
                f"the median draw lies more than {LOW} nats a parameter below the mode, where no "
                f"posterior has its draws; {self.stein.n_independent:.0f} independent draws."
            )
        elif self.stein:
            z = f"{self.stein.z:.1f}" if self.stein.z < LARGE else f"{self.stein.z:.0e}"
            chance = (
                "as it often is for right draws"
                if self.stein.p_value > 0.5
                else f"which right draws reach with probability {self.stein.p_value:.2g} at most "
                f"(below {ALPHA} they are called wrong)"
            )
            of_draws = (
                f"the slopes' largest z-score is {z}, {chance}; "
                f"{self.stein.n_independent:.0f} independent draws."
            )
        else:
            of_draws = f"not tested: {self.why}."
        return (
            f"{self._headline()}.\n\n"
            f"The rows. Log weights: variance {self.variance:.2g} (divergence about {self.kl:.2g} "
            "nats), mean "
            f"{self.mean:+.2g}. Effective draws: {self.n_effective:.0f} of {self.n_draws}. Pareto "
            "k: "
            f"{self.pareto_k:.2f}.\n"
            f"The draws of the posterior on these rows: {of_draws}\n\n{LIMITS}"
        )

    def _headline(self):
        """The verdict in words, which claims no more than was tested."""
        if self.stein is None and self.verdict in ALLOWED:
            return UNTESTED[self.verdict]
        words = WRONG if self.stein and self.stein.wrong else VERDICTS[self.verdict]
        if self.verdict == "make more draws":
            found = min(round(self._n_telling()), ENOUGH - 1)
            words += f": {found} independent ones, {ENOUGH} are needed"
        return f"{self.verdict.upper()}: {words}"

    def _n_telling(self):
        """So many independent draws of equal weight would tell as much."""
        share = self.stein.n_independent / self.n_draws if self.stein else 1.0
        return min(1.0, share) * self.n_effective

    def with_draws(self, stein, why):
        """The report of rows and draws, whose verdict holds for both.

        Parameters
        ----------
        stein : SteinTest or None
        why : str, why the draws were not tested
        """
        favourable = self.verdict in ALLOWED
        verdict = self.verdict
        if stein and stein.wrong:
            verdict = "refuse"
        tested = replace(self, verdict=verdict, stein=stein, why=why)
        if stein and favourable and not stein.wrong and tested._n_telling() < ENOUGH:
            return replace(tested, verdict="make more draws")
        return tested


def check_log_weights(log_weights):
    """The `DrawsReport` of log weights: log-likelihood of all rows less that of the handful, at
    each draw.

    "Use the draws" asks for a variance of the log weights below .01, a mean within 1, .99 of the
    draws effective and at least 200 of them; "use the weights" for a variance below 1, a mean
    within 3, half of the draws effective and at least 200 of them. Both ask for a Pareto k below
    min(1 - 1 / log10(S), .7), as Vehtari, Simpson, Gelman, Yao and Gabry 2024 (Section 3.2.4) do,
    unless the weights that exceed the mean by a tenth hold less than .02. "Make more draws" stands
    for either where less than 200 draws are effective. The mean counts, as the rows have kept the
    constant of the log-likelihood.

    Parameters
    ----------
    log_weights : array of shape (S,) or (chains, S)
        In nats, in any order.

    Returns
    -------
    DrawsReport
        Print it.

    Raises
    ------
    ValueError
        for less than 100 draws, which say too little, and for what is not an array of real numbers
    """
    check_in_memory("log_weights", log_weights)
    log_weights = as_real(log_weights, "log_weights")
    if log_weights.ndim not in (1, 2):
        raise ValueError(
            "log_weights must have shape (draws,) or (chains, draws), got shape "
            f"{log_weights.shape}."
        )
    log_weights = log_weights.ravel()
    n = len(log_weights)
    if n < FEWEST:
        raise ValueError(f"a check needs at least {FEWEST} draws, got {n}.")
    if not np.isfinite(log_weights).all():
        return DrawsReport(
            "refuse",
            np.inf,
            np.inf,
            float("nan"),
            0.0,
            n,
            np.inf,
            _weights_of_infinite(log_weights),
            why=NOT_ASKED,
        )
    # In ascending order, so that sums do not depend on the order of the draws; and around the
    # largest, as a constant may take all digits of what differs.
    ordered = np.sort(log_weights)
    with np.errstate(over="ignore"):
        weights, n_effective = normalised(ordered)
        of_draws, _ = normalised(log_weights)
        below = np.maximum(ordered - ordered[-1], LOWEST)
    mean = float(ordered[-1] + below.mean())
    variance = float(below.var())
    lacking = float(weights @ np.log(np.maximum(n * weights, 1e-300)))
    k = pareto_k(ordered)
    tail_matters = weights[n * weights > 1 + EXCESS].sum() >= NEGLIGIBLE
    heavy = tail_matters and k >= min(1 - 1 / np.log10(n), HEAVY)
    verdict = "refuse" if heavy else _verdict(variance, abs(mean), n_effective, n)
    kl = max(variance / 2, lacking)
    return DrawsReport(verdict, kl, variance, mean, n_effective, n, k, of_draws, why=NOT_ASKED)


def _weights_of_infinite(log_weights):
    """Draws that all rows find impossible count nothing; what is infinite or no number leaves no
    weights."""
    top = log_weights.max()
    if not np.isfinite(top):
        return np.full(len(log_weights), np.nan)
    return normalised(log_weights)[0]


def _verdict(variance, mean, n_effective, n):
    for verdict, (most, most_mean, share) in ALLOWED.items():
        if variance < most and mean < most_mean and n_effective > share * n:
            return verdict if n_effective >= ENOUGH else "make more draws"
    return "refuse"


def normalised(log_weights):
    """Weights that add up to one, and how many draws of equal weight tell as much."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return weights, float(1 / (weights**2).sum())


def pareto_k(log_weights):
    """Shape k of a generalised Pareto distribution fitted to the largest weights.

    The fit is that of Zhang and Stephens 2009, with the weak prior and the length of the tail of
    Vehtari, Simpson, Gelman, Yao and Gabry 2024 (Section 3).

    Parameters
    ----------
    log_weights : array, shape (S,) for S of at least 25, up to a constant

    Returns
    -------
    float; -inf where the tail's weights are equal, inf where so few of them stand out that they
    have no shape
    """
    ordered = np.sort(np.asarray(log_weights, float))
    m = int(min(len(ordered) / 5, 3 * np.sqrt(len(ordered))))
    with np.errstate(over="ignore"):
        largest = np.exp(ordered[-m - 1 :] - ordered[-1])
    tail = largest[1:] - largest[0]
    tail = tail[tail > 0]
    if len(tail) < FEWEST_OF_TAIL:
        return float("inf") if len(tail) else -float("inf")
    m = len(tail)
    grid = 30 + int(np.sqrt(len(tail)))
    b = 1 / tail[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (
        3 * tail[int(m / 4 + 0.5) - 1]
    )
    k = np.log1p(-b[:, None] * tail).mean(1)
    profile = m * (np.log(-b / k) - k - 1)
    share = 1 / np.exp(profile - profile[:, None]).sum(1)
    k = np.log1p(-(b @ (share / share.sum())) * tail).mean()
    # ten pseudo-draws of k = .5
    return float((m * k + 5) / (m + 10))
