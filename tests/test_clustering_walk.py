"""Greedy prediction: the walk over neighbourhoods against the nearest of all centres, and the file it begins at."""

import numpy as np
import pytest
from handful.clustering import VCGMM, TruncatedEM
from handful.clustering.distances import inverted_file, nearest_centers, probable_centers
from handful.clustering.walk import both_ways, walk_to_centers


@pytest.fixture(scope="module")
def X():
    # centres of very unequal norms, so that the nearest to a cell are not those whose nearest cell it is
    rng = np.random.default_rng(0)
    means = rng.normal(size=(900, 10)) * rng.uniform(0.5, 4, size=(900, 1))
    return (means[rng.integers(900, size=12_000)] + 0.5 * rng.normal(size=(12_000, 10))).astype(np.float32)


@pytest.fixture(scope="module")
def model(X):
    return VCGMM(
        800, init="afkmc2", algorithm=TruncatedEM(start="nearest"), compute_labels=False, max_iter=15, random_state=0
    ).fit(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_greedy_labels_are_the_nearest_but_for_a_few(X, model):
    labels, sq_dist = nearest_centers(X, model.cluster_centers_)
    greedy = model.predict(X, greedy=True)
    assert np.mean(greedy != labels) < 0.03
    assert ((X - model.cluster_centers_[greedy]) ** 2).sum() < 1.03 * sq_dist.sum()


def test_a_walk_ends_no_farther_than_it_begins_and_takes_few_distances(X, model):
    centers = model.cluster_centers_ - X.mean(axis=0)
    rows = X - X.mean(axis=0)
    values = np.zeros(800), np.ones(800)
    labels, n_distances = walk_to_centers(rows, centers, model.neighbors_, *values, to_frame=lambda r: r)
    begun, _ = probable_centers(rows, centers, inverted_file(centers))
    ended = ((rows - centers[labels]) ** 2).sum(axis=1)
    assert (ended <= ((rows - centers[begun]) ** 2).sum(axis=1) * (1 + 1e-5)).all()
    assert n_distances < len(X) * 800 / 2
    distinct = both_ways(model.neighbors_)
    assert (labels < 800).all()
    assert (distinct < 800).all()


def test_an_inverted_file_finds_the_nearest_of_centres_of_unequal_norms(X):
    rows, centers = X - X.mean(axis=0), X[::5] - X.mean(axis=0)
    found, n_distances = probable_centers(rows, centers)
    assert len(centers) > 2048
    assert n_distances < rows.shape[0] * len(centers) / 3
    exact, _ = nearest_centers(rows, centers)
    assert np.mean(found != exact) < 0.05


def test_ways_back_join_the_neighbourhoods():
    rng = np.random.default_rng(1)
    G = np.array([[c, *rng.choice(np.delete(np.arange(60), c), 3, replace=False)] for c in range(60)], np.int32)
    graph = both_ways(G)
    np.testing.assert_array_equal(graph[:, :4], G)
    for c in range(60):
        for g in G[c, 1:]:
            assert c in graph[g] or len(set(graph[g])) == graph.shape[1]
        back = set(graph[c, 4:]) - {c}
        assert all(c in G[other] for other in back)


def test_unequal_clusters_are_weighed(X):
    few = X[:3000, :4]
    model = VCGMM(60, covariance="isotropic", random_state=0).fit(few)
    assert np.mean(model.predict(few, greedy=True) != model.predict(few)) < 0.03


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
@pytest.mark.parametrize("factor", [1e-200, 1.0, 1e60])
def test_few_clusters_at_any_scale(n_clusters, factor):
    X = factor * np.random.default_rng(0).normal(size=(200, 3))
    model = VCGMM(n_clusters, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X, greedy=True), model.predict(X))
