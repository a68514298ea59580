"""Greedy prediction: E-steps from the centre that an inverted file finds, against the nearest of
all centres."""

import numpy as np
import pytest
from handful.clustering import VCGMM
from handful.distances import inverted_file, nearest_centers, probable_centers

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


@pytest.mark.parametrize("exponent", [-60, -72, -75, -78, -140])
def test_the_unit_of_float32_rows_changes_no_label(exponent, rng):
    X = rng.normal(size=(500, 4)).astype(np.float32)
    centers = X[:8]
    labels, sq_dist = nearest_centers(X, centers)
    small = np.ldexp(X, exponent)
    if exponent == -140:
        # digits are lost, so these are other rows
        X = np.ldexp(small.astype(np.float64), -exponent)
        labels, sq_dist = nearest_centers(X, X[:8])
    found, small_dist = nearest_centers(small, small[:8])
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_allclose(np.ldexp(small_dist, -2 * exponent), sq_dist, rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_cells_that_are_no_centres_list_nothing(seed):
    """Of more than four cells at one point some list no centre (this divided by zero)."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(8, 5))[rng.integers(8, size=2900)].astype(np.float32)
    cells, lists = inverted_file(centers)
    assert len(cells) == len(lists)
    assert min(map(len, lists)) > 0
    labels, _ = probable_centers(centers, centers, (cells, lists))
    assert (centers[labels] == centers).all()
