"""Sensitivity coresets for Gaussian mixtures."""

import numpy as np
import pytest
from handful.sensitivity.gmm import mixture_sensitivities, rough_centers


def clustered(rng, n=120, d=2):
    X = rng.normal(size=(n, d)) * 0.3 + 4 * rng.normal(size=(6, d))[rng.integers(6, size=n)]
    # a row far from all others
    X[0] += 30
    return X, rng.exponential(size=n) + 0.05


def sq_distances(X, centres):
    return ((X[:, None] - centres) ** 2).sum(axis=2).min(axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_no_row_ever_costs_more_than_its_bound(seed):
    rng = np.random.default_rng(seed)
    X, weights = clustered(rng)
    bound = mixture_sensitivities(*rough_centers(X, weights, 4, rng=rng), weights)
    worst = np.zeros(len(X))
    for trial in range(500):
        centres = X[rng.choice(len(X), 4, replace=False)] + rng.normal(
            size=(4, 2)
        ) * 10.0 ** rng.uniform(-2, 2)
        # the centres that are worst for one row: all of them at another cluster
        if trial % 2:
            centres = X[rng.integers(len(X))] + 0.1 * rng.normal(size=(4, 2))
        cost = sq_distances(X, centres)
        worst = np.maximum(worst, cost * weights.sum() / (weights @ cost))
    assert (worst <= bound).all()
    # the sum of bounds is what decides how many draws are enough: it does not grow with n
    assert weights @ bound / weights.sum() == pytest.approx(6 * 16 * (np.log(4) + 2) + 4 * 4)


def test_the_bound_is_the_formula_of_the_paper():
    rng = np.random.default_rng(0)
    X, u = clustered(rng, n=30)
    label, sq_dist = rough_centers(X, u, 3, rng=rng)
    alpha = 16 * (np.log(3) + 2)
    mean = sum(u[i] * sq_dist[i] for i in range(30)) / sum(u)
    for i, bound in enumerate(mixture_sensitivities(label, sq_dist, u)):
        own = [j for j in range(30) if label[j] == label[i]]
        mass = sum(u[j] for j in own)
        within = sum(u[j] * sq_dist[j] for j in own) / mass
        assert bound == pytest.approx(
            2 * alpha * sq_dist[i] / mean + 4 * alpha * within / mean + 4 * sum(u) / mass
        )


def test_rough_centers_give_each_row_its_nearest_centre():
    rng = np.random.default_rng(1)
    X, u = clustered(rng)
    label, sq_dist = rough_centers(X, u, 5, rng=rng)
    centres = np.array([X[label == j][sq_dist[label == j].argmin()] for j in range(5)])
    assert sq_dist == pytest.approx(sq_distances(X, centres), abs=1e-9)
    assert (label == ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)).all()
