"""Greedy prediction: E-steps from the centre that an inverted file finds, against the nearest of
all centres."""

import numpy as np
import pytest
from handful.clustering import VCGMM
from handful.distances import nearest_centers, probable_centers

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def X():
    # centres of very unequal norms, so that the nearest to a cell are not those whose nearest cell
    # it is
    rng = np.random.default_rng(0)
    means = rng.normal(size=(900, 10)) * rng.uniform(0.5, 4, size=(900, 1))
    return (means[rng.integers(900, size=12_000)] + 0.5 * rng.normal(size=(12_000, 10))).astype(
        np.float32
    )


def test_greedy_labels_are_the_nearest_but_for_a_few(X):
    model = VCGMM(800, compute_labels=False, max_iter=15, random_state=0).fit(X)
    exact = model.predict(X)
    greedy = model.predict(X, greedy=True)
    assert np.mean(greedy != exact) < 0.03
    costs = [((X - model.cluster_centers_[labels]) ** 2).sum() for labels in (exact, greedy)]
    assert costs[1] < 1.03 * costs[0]


def test_an_inverted_file_finds_the_nearest_of_centres_of_unequal_norms(X):
    rows = X - X.mean(axis=0)
    centers = X[::5] - X.mean(axis=0)
    found, n_distances = probable_centers(rows, centers)
    assert len(centers) > 2048
    assert n_distances < rows.shape[0] * len(centers) / 3
    assert np.mean(found != nearest_centers(rows, centers)[0]) < 0.05


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_few_clusters_are_found_greedily(n_clusters):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = VCGMM(n_clusters, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X, greedy=True), model.predict(X))
