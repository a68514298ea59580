"""Whether draws are of a density whose slope is known: Stein's identities, as z-scores that know
how chains dawdle.

At draws z of a smooth density on the whole space, with slopes g of its logarithm, E g = 0 and E z
g' = -I (Stein 1972; Gorham and Mackey 2015 make a discrepancy of it). Each is the mean of a series,
whose error batch means give.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

# Batches of all chains together, and the fewest draws of a chain that are cut into batches.
BATCHES = 25
SHORT = 20
# Chance that right draws are called wrong.
ALPHA = 1e-3
# For each parameter, nats below the mode in the median that no posterior's own draws lie: a
# Gaussian's are half a nat.
LOW = 10
# Parameters up to which all products of a draw and a slope are tested, else those of the same
# parameter alone.
WIDE = 400


@dataclass(frozen=True)
class SteinTest:
    """What Stein's identities say of draws.

    Attributes
    ----------
    z : the largest of the z-scores
    p_value : of the largest, for as many as there are (Bonferroni)
    n_independent : so many independent draws would tell as much
    """

    z: float
    p_value: float
    n_independent: float

    @property
    def wrong(self):
        """Whether the draws are not of that density."""
        return self.p_value < ALPHA


def stein_test(z, g, gap=0.0):
    """The `SteinTest` of draws.

    Parameters
    ----------
    z : shape (chains, S, p), draws less a centre, in units of about their covariance
    g : shape (chains, S, p), slopes of the log density by these
    gap : nats by which the log density of the median draw lies below that of the mode
    """
    chains, S, p = z.shape
    # of many short chains each is a few draws
    if S < SHORT:
        z = z.reshape(1, chains * S, p)
        g = g.reshape(1, chains * S, p)
    independent = min(n_independent(z), n_independent(g))
    largest = scores(g, independent).max()
    n_tests = p
    is_wide = p > WIDE
    for j in range(p):
        own = slice(j, j + 1)
        slopes = g[:, :, own] if is_wide else g
        products = z[:, :, own] * slopes
        products[:, :, 0 if is_wide else j] += 1.0
        of_products = scores(products, independent)
        largest = max(largest, of_products.max())
        n_tests += products.shape[2]
    n_batches = max(2, -(-BATCHES // len(z)))
    # slopes so far out are of all sizes, and their means say nothing
    if gap > LOW * (p + 1):
        return SteinTest(np.inf, 0.0, independent)
    freedom = len(z) * (n_batches - 1)
    chance = student_t.sf(largest, freedom)
    p_value = min(1.0, 2 * n_tests * chance)
    return SteinTest(float(largest), float(p_value), independent)


def scores(series, independent):
    """Magnitudes of the means of series, shape (chains, S, r), over their errors.

    These are those of batch means within each chain, and at least those of so many independent
    draws: batches are too short for a chain that hardly moves.
    """
    chains, S, r = series.shape
    n_batches = max(2, -(-BATCHES // chains))
    length = S // n_batches
    whole = series[:, : n_batches * length]
    batches = whole.reshape(chains, n_batches, length, r)
    means = batches.mean(2)
    within = means - means.mean(1, keepdims=True)
    freedom = chains * (n_batches - 1)
    squares = (within**2).sum((0, 1))
    variance = squares / freedom
    of_batches = variance / (chains * n_batches)
    of_independent = series.var(1).mean(0) / independent
    mean = means.mean((0, 1))
    error = np.sqrt(np.maximum(of_batches, of_independent))
    return np.abs(mean) / np.maximum(error, 1e-12)


def n_independent(series):
    """Effective number of draws of the slowest of series, shape (chains, S, r): Geyer 1992."""
    chains, S, _ = series.shape
    centred = series - series.mean(1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * S, axis=1)
    power = np.abs(spectrum) ** 2
    covariances = np.fft.irfft(power, axis=1)
    covariance = covariances[:, :S].mean(0)
    least = np.inf
    for column in covariance.T:
        # nothing moves
        if not column[0] > 1e-24 * S:
            return 1.0
        even = column[: S - S % 2]
        rho = even / column[0]
        pairs = rho[::2] + rho[1::2]
        ends = np.append(pairs <= 0, True)
        positive = pairs[: np.argmax(ends)]
        dawdling = max(2 * positive.sum() - 1, 1.0)
        least = min(least, chains * S / dawdling)
    return float(least)
