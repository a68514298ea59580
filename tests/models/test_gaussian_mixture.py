"""Gaussian mixtures as inner problem."""

import numpy as np
import pytest
from handful.models import GaussianMixture
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Peer


def blobs(rng, n=60, d=2, k=3):
    return rng.normal(size=(n, d)) + 4.0 * rng.normal(size=(k, d))[rng.integers(k, size=n)]


def uniform(n):
    return np.full(n, 1.0 / n)


def penalised(mixture, theta, X, weights):
    # log posterior in the textbook's terms: inverse Wishart and Dirichlet priors worth `prior` of
    # the data
    pi, _, covariances = mixture.unpack(theta, X.shape[1])
    penalty = -np.log(pi).sum()
    for covariance in covariances:
        precision = np.linalg.inv(covariance)
        penalty += 0.5 * (
            mixture.prior_variance * np.trace(precision) - np.linalg.slogdet(precision)[1]
        )
    return weights @ mixture.losses(theta, X) + mixture.prior * penalty


def test_the_penalty_is_what_a_solution_pays_beside_its_losses(rng):
    X = blobs(rng)
    mixture = GaussianMixture(3, random_state=0)
    theta = mixture.solve(X, None, uniform(60))
    exact = penalised(mixture, theta, X, 0 * uniform(60))
    assert mixture.penalty_at(theta, X) == pytest.approx(exact)


CASES = [(1, 2), (2, 3), (3, 1), (3, 2)]


def case(d, k, seed=0):
    rng = np.random.default_rng(seed)
    X = blobs(rng, 40, d)
    weights = rng.dirichlet(np.ones(40))
    mixture = GaussianMixture(k, prior=0.02, prior_variance=0.7)
    theta = mixture.solve(X, None, weights)
    return mixture, X, weights, theta + 0.05 * rng.normal(size=len(theta))


@pytest.mark.parametrize(("d", "k"), CASES)
def test_losses_are_scipys_log_densities(d, k):
    mixture, X, _, theta = case(d, k)
    density = sum(
        pi * multivariate_normal(mean, covariance).pdf(X)
        for pi, mean, covariance in zip(*mixture.unpack(theta, d))
    )
    assert mixture.losses(theta, X) == pytest.approx(-np.log(density), rel=1e-9)


@pytest.mark.parametrize(("d", "k"), CASES)
def test_gradients_and_hessian_are_those_of_the_penalised_loss(d, k):
    mixture, X, weights, theta = case(d, k)
    for i in (0, 17):
        numeric = approx_fprime(theta, lambda t, i=i: mixture.losses(t, X[i : i + 1])[0], 1e-7)
        assert mixture.gradients(theta, X[i : i + 1])[0] == pytest.approx(numeric, abs=2e-5)
    eps = 1e-4
    numeric = np.empty((len(theta), len(theta)))
    steps = eps * np.eye(len(theta))
    for a in range(len(theta)):
        for b in range(len(theta)):
            corners = [
                penalised(mixture, theta + s * steps[a] + t * steps[b], X, weights) * s * t
                for s in (1, -1)
                for t in (1, -1)
            ]
            numeric[a, b] = sum(corners) / (4 * eps**2)
    hessian = mixture.hessian(theta, X, None, weights)
    assert hessian == pytest.approx(numeric, abs=1e-5 * max(1.0, np.abs(hessian).max()))


def test_the_hessian_is_affine_in_the_weights_and_adds_up_over_rows():
    mixture, X, weights, theta = case(2, 3)
    penalty, hessian = (mixture.hessian(theta, X, None, w) for w in (0 * weights, 3 * weights))
    assert hessian - penalty == pytest.approx(
        np.tensordot(3 * weights, mixture.row_hessians(theta, X), 1), abs=1e-9
    )


@pytest.mark.parametrize("seed", range(3))
def test_solves_as_well_as_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    X = blobs(rng, 300)
    mixture = GaussianMixture(3, prior=1e-8, random_state=seed)
    own = mixture.losses(mixture.solve(X, None, uniform(300)), X).mean()
    peer = Peer(3, n_init=10, tol=1e-8, max_iter=1000, random_state=seed).fit(X)
    assert own <= -peer.score(X) + 1e-5


@pytest.mark.parametrize(
    ("n", "distinct"), [(1, 1), (2, 2), (3, 2), (4, 4), (7, 7), (12, 1), (30, 30)]
)
def test_the_solution_is_a_strict_minimum_even_of_few_or_equal_points(n, distinct):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2))[np.arange(n) % min(n, distinct)]
    mixture = GaussianMixture(5)
    theta = mixture.solve(X, None, uniform(n))
    value = penalised(mixture, theta, X, uniform(n))
    assert np.linalg.eigvalsh(mixture.hessian(theta, X, None, uniform(n)))[0] > 1e-8
    for _ in range(50):
        assert penalised(mixture, theta + 1e-3 * rng.normal(size=len(theta)), X, uniform(n)) > value


@pytest.mark.parametrize("offset", [1e8, 1e9])
def test_far_from_zero_the_same_minimum_is_found(offset):
    rng = np.random.default_rng(0)
    means = np.array([[0, 0], [3, 0], [0, 3], [3, 3], [6, 6]])
    X = np.repeat(means, 100, axis=0) + 0.3 * rng.normal(size=(500, 2)) + offset
    w = np.full(500, 1 / 500)
    model = GaussianMixture(5)
    values = []
    for rows in (X, X - X.mean(axis=0)):
        theta = model.solve(rows, None, w)
        values.append(model.losses(theta, rows).mean() + model.penalty_at(theta, rows))
    assert values[0] == pytest.approx(values[1], rel=1e-6)
