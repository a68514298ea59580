"""Seeds by k-means++ and AFK-MC2 against the textbook laws; nearest centres and the quantisation
error in float64."""

import numpy as np
import pytest
from handful.clustering import seeding
from handful.clustering.quantization import quantization_error
from handful.clustering.seeding import afkmc2, kmeans_plusplus
from handful.distances import nearest_centers, probable_centers, sq_distances
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist


def distances(X, Y):
    return ((X[:, None].astype(float) - Y) ** 2).sum(axis=2)


def frequencies(draws, n):
    return np.bincount(np.ravel(draws), minlength=n) / len(draws)


# k-means++


def test_second_seed_follows_the_squared_distances_from_the_first(rng):
    X = rng.normal(size=(6, 2))
    u = rng.exponential(size=6)
    pairs = np.array(
        [kmeans_plusplus(X, 2, sample_weight=u, n_trials=1, rng=rng)[0] for _ in range(4000)]
    )
    D = u * distances(X, X)
    expected = (u / u.sum())[:, None] * D / D.sum(axis=1, keepdims=True)
    seen = np.zeros((6, 6))
    np.add.at(seen, tuple(pairs.T), 1 / 4000)
    assert (abs(seen - expected) < 5 * np.sqrt(expected / 4000) + 1e-3).all()


def test_later_seeds_of_a_block_follow_the_distances_from_all_before(rng):
    # Four seeds come from one block of candidates at most, drawn by stale distances: the textbook
    # draws again each time
    X = rng.normal(size=(7, 2)) * [3, 1]

    def textbook():
        chosen = [int(rng.integers(7))]
        while len(chosen) < 4:
            closest = distances(X, X[chosen]).min(axis=1)
            chosen.append(int(rng.choice(7, p=closest / closest.sum())))
        return chosen

    ours = [sorted(kmeans_plusplus(X, 4, n_trials=1, rng=rng)[0]) for _ in range(3000)]
    theirs = [sorted(textbook()) for _ in range(3000)]
    a = frequencies(ours, 7)
    b = frequencies(theirs, 7)
    assert (abs(a - b) < 5 * np.sqrt(0.5 / 3000)).all()


def test_greedy_seeds_are_the_best_of_several_draws(rng):
    X = rng.normal(size=(8, 2))
    trials = 3
    n_runs = 3000

    def textbook():
        first = int(rng.integers(8))
        closest = distances(X, X[[first]]).min(axis=1)
        drawn = rng.choice(8, size=trials, p=closest / closest.sum())
        costs = [np.minimum(closest, distances(X, X[[c]])[:, 0]).sum() for c in drawn]
        return int(drawn[np.argmin(costs)])

    ours = frequencies(
        [kmeans_plusplus(X, 2, n_trials=trials, rng=rng)[0][1:] for _ in range(n_runs)], 8
    )
    theirs = frequencies([[textbook()] for _ in range(n_runs)], 8)
    assert (abs(ours - theirs) < 5 * np.sqrt(0.5 / n_runs)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_seeds_are_distinct_and_labels_are_nearest(rng, dtype):
    X = (rng.normal(size=(600, 5)) + 50).astype(dtype)
    seeds, labels, n_distances = kmeans_plusplus(X, 100, rng=rng)
    assert len(set(seeds.tolist())) == 100
    D = distances(X, X[seeds])
    np.testing.assert_allclose(
        D[np.arange(600), labels], D.min(axis=1), atol=1e-4 if dtype == np.float32 else 1e-9
    )
    assert 600 * 100 < n_distances < 600 * 100 * 12


def test_seeds_run_out_of_distinct_rows_without_harm(rng):
    X = np.repeat(rng.normal(size=(3, 2)), 4, axis=0)
    weights = np.ones(12)
    weights[:2] = 0
    seeds = kmeans_plusplus(X, 8, sample_weight=weights, rng=rng)[0]
    assert len(set(seeds.tolist())) == 8
    assert len(np.unique(X[seeds], axis=0)) == 3
    assert seeds.min() >= 2
    assert weights[afkmc2(X, 8, sample_weight=weights, rng=rng)[0]].all()


# AFK-MC2


def textbook_chains(X, u, first, candidates, uniforms, proposal):
    seeds = [first]
    for mine, chances in zip(candidates, uniforms):
        closest = distances(X, X[seeds]).min(axis=1)
        at = mine[0]
        for y, chance in zip(mine[1:], chances[1:]):
            old = u[at] * closest[at] / proposal[at]
            new = u[y] * closest[y] / proposal[y]
            if old == 0 or new / old > chance:
                at = y
        seeds.append(at)
    return seeds


@pytest.mark.parametrize("chain_length", [1, 2, 7])
@pytest.mark.parametrize("block", [1, 4, None])
def test_blocked_chains_are_the_sequential_ones(rng, chain_length, block, monkeypatch):
    X = rng.normal(size=(200, 4))
    u = rng.exponential(size=200)
    seen = {}
    original = seeding.draw_along

    def draw(cumulated, uniforms):
        rows = original(cumulated, uniforms)
        if np.ndim(rows) == 2:
            seen.update(candidates=rows, proposal=np.diff(cumulated, prepend=0))
        return rows

    monkeypatch.setattr(seeding, "draw_along", draw)
    seeds, _ = afkmc2(
        X, 40, chain_length=chain_length, sample_weight=u, rng=np.random.default_rng(3), block=block
    )
    again = np.random.default_rng(3)
    again.random(), again.random((39, chain_length))
    expected = textbook_chains(
        X, u, seeds[0], seen["candidates"], again.random((39, chain_length)), seen["proposal"]
    )
    np.testing.assert_array_equal(seeds, expected)


def test_long_chains_approach_the_law_of_kmeans_plusplus(rng):
    X = rng.normal(size=(6, 2))
    u = rng.exponential(size=6)
    pairs = np.array(
        [afkmc2(X, 2, chain_length=60, sample_weight=u, rng=rng)[0] for _ in range(3000)]
    )
    D = u * distances(X, X)
    expected = ((u / u.sum())[:, None] * D / D.sum(axis=1, keepdims=True)).sum(axis=0)
    assert (abs(frequencies(pairs[:, 1:], 6) - expected) < 5 * np.sqrt(0.5 / 3000)).all()


# Nearest centres


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.0, 1e3, 1e6]),
)
def test_nearest_centres_are_exact_far_from_the_origin_and_among_near_ties(seed, dtype, offset):
    rng = np.random.default_rng(seed)
    d = rng.integers(1, 9)
    C = rng.integers(1, 150)
    X = (rng.normal(size=(50, d)) + offset).astype(dtype)
    centers = (
        X[rng.integers(50, size=C)]
        + rng.choice([0, 1e-6, 1], size=(C, 1)) * rng.normal(size=(C, d))
    ).astype(dtype)
    labels, sq_dist = nearest_centers(X, centers)
    D = distances(X, centers.astype(float))
    np.testing.assert_array_equal(labels, D.argmin(axis=1))
    np.testing.assert_allclose(sq_dist, D.min(axis=1), rtol=1e-12)


@pytest.mark.parametrize("C", [7, 500])
def test_probable_centres_are_the_nearest_but_for_near_ties(rng, C):
    X = rng.normal(size=(3000, 10)).astype(np.float32)
    labels, n_distances = probable_centers(X, X[:C])
    D = distances(X, X[:C])
    assert n_distances == 3000 * C
    assert (D[np.arange(3000), labels] <= D.min(axis=1) * 1.001 + 1e-4).all()


def test_quantization_error_counts_weights_and_survives_a_far_row(rng):
    X = rng.normal(size=(300, 3))
    X[5] = 1e30
    u = rng.integers(0, 3, size=300)
    centers = X[[0, 5, 9, 20]]
    expected = quantization_error(np.repeat(X, u, axis=0), centers)
    assert quantization_error(X, centers, u) == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(u @ distances(X, centers).min(axis=1), rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
@pytest.mark.parametrize("spread", [1.0, 1e-7])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_squared_distances_hold_eight_digits_far_from_the_origin_and_in_tight_clusters(
    offset, spread, kind
):
    rng = np.random.default_rng(0)
    centers = 10 * rng.normal(size=(7, 5)) + offset
    X = centers[rng.integers(7, size=300)] + spread * rng.normal(size=(300, 5))
    exact = cdist(X, centers, "sqeuclidean")
    np.testing.assert_allclose(sq_distances(kind(X), centers), exact, rtol=1e-7)
    labels, nearest = nearest_centers(kind(X), centers)
    assert (labels == exact.argmin(axis=1)).all()
    np.testing.assert_allclose(nearest, exact.min(axis=1), rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [-(2.0**31), 1e12])
def test_a_row_far_from_all_others_leaves_them_apart(far, dtype, rng):
    """Its weight in a mean would make all others one point."""
    X = (10 * rng.normal(size=(50, 3)))[np.arange(3000) % 50]
    X[0] = [far, 0, 0]
    X = X.astype(dtype)
    for n_trials in (1, None):
        seeds, _, _ = kmeans_plusplus(X, 51, n_trials=n_trials, rng=rng)
        assert len(np.unique(X[seeds], axis=0)) == 51
