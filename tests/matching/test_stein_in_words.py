"""`check` of forty right and of forty wrong chains of ten models, in words."""

import numpy as np
import pytest
from handful import LeastSquares, Logistic, MatchedCoreset, Poisson
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import likelihood
from handful.matching.pilot import find_pilot
from handful_papers.own.posterior import MODELS, generated
from scipy.special import expit

N = 1500
# Steps of each chain, and proposals that are looked at together.
STEPS = 600
AT_ONCE = 600
FREEDOM = 30


def weibull(theta, X, y):
    """Times with a log-linear scale; the logarithm of the shape stands last."""
    with np.errstate(over="ignore", invalid="ignore"):
        z = (np.log(y) - theta[:, :-1] @ X.T) * np.exp(theta[:, -1:])
        return theta[:, -1:] + z - np.exp(z)


def case(name):
    """Problem, X, y, start and prior of a model."""
    if name in MODELS:
        return *generated(name, N, 0), 2.0
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 3))
    eta = X @ [0.8, -0.5, 0.3]
    if name == "logistic":
        return Logistic(), X, (rng.random(N) < expit(eta)).astype(int), None, 1.0
    if name == "three classes":
        utility = np.column_stack([eta, -eta, 0 * eta]) + rng.gumbel(size=(N, 3))
        return Logistic(), X, utility.argmax(1), None, 1.0
    if name == "counts":
        return Poisson(), X, rng.poisson(np.exp(0.5 * eta)), None, 1.0
    if name == "least squares":
        return LeastSquares(), X, eta + rng.normal(size=N), None, 1.0
    return weibull, X, np.exp(eta) * rng.weibull(1.5, N), np.zeros(4), 1.0


def sampled(log_density, pilot, rng, chains):
    """Chains of a density, shape (chains, draws, p): Metropolis steps to independent draws of a
    multivariate t around its mode, every third of them."""
    root = pilot.roots[0]
    p = len(root)
    n = chains * STEPS
    chi = np.sqrt(rng.chisquare(FREEDOM, (n, 1)) / FREEDOM)
    z = 1.1 * rng.standard_normal((n, p)) / chi
    theta = pilot.modes[0] + z @ root.T
    proposed = -0.5 * (FREEDOM + p) * np.log1p((z**2).sum(1) / (1.21 * FREEDOM))
    density = [log_density(theta[k : k + AT_ONCE]) for k in range(0, n, AT_ONCE)]
    ratio = (np.concatenate(density) - proposed).reshape(STEPS, chains)
    goes = np.log(rng.random(ratio.shape))
    here = np.zeros(chains, int)
    kept = []
    for step in range(STEPS):
        accepted = goes[step] < ratio[step] - ratio[here, range(chains)]
        here = np.where(accepted, step, here)
        if step % 3 == 0 and step > 60:
            kept.append(theta.reshape(STEPS, chains, p)[here, range(chains)])
    return np.array(kept).swapaxes(0, 1)


def draws_of(rows, prior, start, *, times=1.0, tilt=0.0, chains=4):
    """Draws of the posterior on rows, whose likelihood counts so many times, and of which the
    parameters' sum in deviations is a further term of the density."""
    weighted = rows.restricted(np.arange(len(rows.weights)), times * rows.weights)
    pilot, log_prior, _ = find_pilot(weighted, prior, start)
    direction = tilt / np.sqrt((pilot.roots[0] ** 2).sum(1))

    def log_density(theta):
        return weighted.sums(theta) + log_prior(theta) + theta @ direction

    return sampled(log_density, pilot, np.random.default_rng(9), chains)


def squared(rows):
    """The rows with squared weights, of the same sum."""
    w = rows.weights**2
    return rows.restricted(np.arange(len(w)), w * rows.weights.sum() / w.sum())


WRONG = {
    "shifted by .3 deviations": lambda right, *_: right + 0.3 * right.std((0, 1)),
    "squared weights": lambda right, rows, *more: draws_of(squared(rows), *more),
    "half the weights": lambda right, rows, *more: draws_of(rows, *more, times=0.5),
    "twice the weights": lambda right, rows, *more: draws_of(rows, *more, times=2.0),
    "a factor of a transform": lambda right, rows, *more: draws_of(rows, *more, tilt=1.0),
    "copies of the mode": lambda right, *_: np.broadcast_to(right[:1, :1], right.shape).copy(),
    "a chain elsewhere": lambda right, *_: (
        right + np.where(np.arange(4)[:, None, None] == 0, 2.0, 0.0) * right.std((0, 1))
    ),
    "anywhere": lambda right, *_: np.random.default_rng(5).uniform(-100, 100, right.shape),
}
GENERATED = [name for name in MODELS if name != "groups"]
TEN = [*GENERATED, "logistic", "three classes", "counts", "weibull", "least squares"]


@pytest.mark.parametrize("name", TEN)
def test_check_is_right_in_words_of_four_right_and_four_wrong_chains(name):
    problem, X, y, start, prior = case(name)
    matched = MatchedCoreset(problem, at="posterior", start=start, prior=prior, random_state=0)
    matched.fit(X, y)
    model, target = likelihood(problem, y)
    few = LikelihoodSums(model, X, target, np.ones(N)).restricted(
        matched.indices_, matched.weights_
    )
    for right in np.split(draws_of(few, prior, start, chains=16), 4):
        said = str(matched.check(right, X, y))
        assert said.startswith("USE THE DRAWS"), said
    kinds = list(WRONG)
    first = TEN.index(name)
    for kind in (kinds[(first + step) % len(kinds)] for step in range(4)):
        wrong = WRONG[kind](right, few, prior, start)
        said = str(matched.check(wrong, X, y))
        assert said.startswith("REFUSE"), (kind, said)
