"""Uniform sampling, k-means++, k-center and forgetting events."""

from itertools import combinations

import numpy as np
import pytest
from handful import KCenter, KMeansPlusPlus, UniformCoreset
from handful.baselines import ForgettingEvents, forgetting_events
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import chisquare

# Uniform -------------------------------------------------------------------------------------------------------------


def test_uniform_estimates_every_weighted_sum_without_bias():
    rng = np.random.default_rng(0)
    X, u = rng.normal(size=(60, 2)), rng.exponential(size=60) * (np.arange(60) % 4 > 0)
    f = np.exp(X[:, 0])
    fits = [UniformCoreset(12, random_state=seed).fit(X, sample_weight=u) for seed in range(2000)]
    for values in (f, np.ones(60)):
        draws = [fit.weights_ @ values[fit.indices_] for fit in fits]
        sem = np.std(draws, ddof=1) / np.sqrt(len(draws))
        assert abs(np.mean(draws) - u @ values) < 4 * sem


def test_uniform_draws_every_row_as_often_and_none_twice():
    fits = [UniformCoreset(5, random_state=seed).fit(np.zeros((20, 1))).indices_ for seed in range(2000)]
    assert all(len(set(indices)) == 5 for indices in fits)
    assert chisquare(np.bincount(np.concatenate(fits), minlength=20)).pvalue > 1e-4
    whole = UniformCoreset(20, random_state=0).fit(sparse.csr_matrix((20, 3)))
    assert sorted(whole.indices_) == list(range(20))
    assert (whole.weights_ == 1).all()


# k-means++ -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_kmeans_plus_plus_follows_its_law(offset):
    # first a row by its weight, then one by weight times squared distance to the first
    X, u = offset + np.array([[0.0, 0], [1, 0], [0, 2], [3, 3]]), np.array([1.0, 2, 1, 0.5])
    sq_dist = ((X[:, None] - X) ** 2).sum(axis=2)
    second = u * sq_dist / (sq_dist @ u)[:, None]
    law = (u / u.sum())[:, None] * second
    n_draws = 3000
    pairs = [KMeansPlusPlus(2, random_state=seed).fit(X, sample_weight=u).indices_ for seed in range(n_draws)]
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(np.transpose(pairs)), 1)
    possible = law > 0
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible], n_draws * law[possible]).pvalue > 1e-4


# k-center ------------------------------------------------------------------------------------------------------------


def naive_k_center(X, size, first):
    chosen = [first]
    while len(chosen) < size:
        radius = [-1.0 if i in chosen else min(np.sum((x - X[c]) ** 2) for c in chosen) for i, x in enumerate(X)]
        chosen.append(int(np.argmax(radius)))
    return chosen


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["real", "lattice"]))
def test_k_center_is_the_naive_loop(seed, kind):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 25)), int(rng.integers(1, 4))
    # on the lattice there are many ties, and all arithmetic is exact if n is a power of two
    X = rng.normal(size=(n, d)) if kind == "real" else rng.integers(0, 3, (16, d)).astype(float)
    size = int(rng.integers(1, len(X) + 1))
    chosen = KCenter(size, random_state=seed).fit(X).indices_
    assert chosen.tolist() == naive_k_center(X, size, chosen[0])


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e8), (np.float32, 1e4)])
def test_k_center_far_from_the_origin_is_the_naive_loop(dtype, offset):
    X = (np.random.default_rng(0).normal(size=(200, 3)) + offset).astype(dtype)
    chosen = KCenter(30, random_state=0).fit(X).indices_
    assert chosen.tolist() == naive_k_center(X.astype(float), 30, chosen[0])


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e9), (np.float32, 1e5), (np.float32, 1e7)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_k_center_of_clusters_far_from_each_other_is_the_naive_loop(dtype, offset, order):
    X = np.random.default_rng(0).normal(size=(200, 2))
    X[::2] += offset
    X = np.asarray(X, dtype=dtype, order=order)
    chosen = KCenter(20, random_state=0).fit(X).indices_
    assert chosen.tolist() == naive_k_center(X.astype(float), 20, chosen[0])


def covering_radius(X, centres):
    return np.sqrt(((X[:, None] - X[list(centres)]) ** 2).sum(axis=2).min(axis=1).max())


@pytest.mark.parametrize("seed", range(10))
def test_k_center_covers_within_twice_the_best_radius(seed):
    X = np.random.default_rng(seed).normal(size=(12, 2))
    for size in (1, 2, 3, 4):
        best = min(covering_radius(X, centres) for centres in combinations(range(12), size))
        assert covering_radius(X, KCenter(size, random_state=seed).fit(X).indices_) <= 2 * best


# Both ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [KMeansPlusPlus, KCenter])
def test_weights_are_equal_or_those_of_the_nearest_rows(cls):
    rng = np.random.default_rng(0)
    X, u = rng.normal(size=(80, 2)), rng.exponential(size=80) * (np.arange(80) % 5 > 0)
    fits = [cls(9, weighting=weighting, random_state=1).fit(X, sample_weight=u) for weighting in ("binary", "cells")]
    assert (fits[0].indices_ == fits[1].indices_).all()
    np.testing.assert_allclose(fits[0].weights_, u.sum() / 9)
    cells = np.zeros(9)
    for x, weight in zip(X, u):
        cells[np.argmin(((x - X[fits[1].indices_]) ** 2).sum(axis=1))] += weight
    np.testing.assert_allclose(fits[1].weights_, cells)
    with pytest.raises(ValueError, match="weighting must be 'binary' or 'cells', got 'cell'"):
        cls(9, weighting="cell").fit(X)


@pytest.mark.parametrize("cls", [KMeansPlusPlus, KCenter])
def test_fewer_distinct_rows_than_centres_are_filled_up_with_copies(cls):
    X = np.repeat([[0.0, 1], [5, 5], [-3, 2]], 6, axis=0)
    fit = cls(8, random_state=0).fit(X)
    assert len(set(fit.indices_)) == 8
    assert len(np.unique(X[fit.indices_[:3]], axis=0)) == 3  # the distinct ones first


@pytest.mark.parametrize("cls", [UniformCoreset, KMeansPlusPlus, KCenter])
def test_the_same_seed_gives_the_same_rows_and_another_seed_others(cls):
    X = np.random.default_rng(0).normal(size=(100, 3))
    fits = [cls(10, random_state=seed).fit(X).indices_.tolist() for seed in (0, 0, 1)]
    assert fits[0] == fits[1] != fits[2]


@pytest.mark.parametrize("cls", [KMeansPlusPlus, KCenter])
def test_a_prefix_is_the_smaller_selection(cls):
    X = np.random.default_rng(0).normal(size=(100, 3))
    largest = cls(30, random_state=0).fit(X).indices_
    for size in (1, 2, 11):
        assert (cls(size, random_state=0).fit(X).indices_ == largest[:size]).all()


# Forgetting events ---------------------------------------------------------------------------------------------------


def test_events_are_counted_as_one_would_by_hand():
    history = ["++++", "----", "+-+-", "-+-+", "-++-", "+-++", "---+"]
    correct = np.array([[mark == "+" for mark in row] for row in history]).T
    assert forgetting_events(correct).tolist() == [0, np.inf, 2, 1, 1, 1, 0]


def test_mislabelled_rows_are_never_learned_or_often_forgotten():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    X = 4 * np.eye(3)[y] + rng.normal(size=(600, 3))
    wrong = rng.choice(600, 30, replace=False)
    y[wrong] = (y[wrong] + 1) % 3
    for data in (X, sparse.csr_matrix(X)):
        chosen = ForgettingEvents(40, random_state=0).fit(data, np.array(["a", "b", "c"])[y])
        assert len(set(chosen.indices_) & set(wrong)) >= 24
        assert (np.diff(chosen.events_[chosen.indices_]) <= 0)[np.isfinite(chosen.events_[chosen.indices_])[1:]].all()


def test_easy_rows_are_not_forgotten_and_hard_ones_are():
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=400)
    margin = rng.choice([0.02, 3.0], size=400)
    X = np.column_stack([(2 * y - 1) * margin, 0.3 * rng.normal(size=400)])
    events = ForgettingEvents(10, random_state=0).fit(X, y).events_
    assert events[margin == 3.0].mean() < 0.2
    assert np.minimum(events[margin == 0.02], 20).mean() > 1


def test_smaller_selections_are_prefixes_and_rows_of_weight_zero_are_absent():
    rng = np.random.default_rng(2)
    X, y, u = rng.normal(size=(80, 3)), rng.integers(2, size=80), (np.arange(80) % 3 > 0) * 2.0
    few, many = (ForgettingEvents(m, random_state=0).fit(X, y, sample_weight=u) for m in (10, 40))
    assert (few.indices_ == many.indices_[:10]).all()
    assert (u[many.indices_] > 0).all()
    assert np.isnan(many.events_).sum() == (u == 0).sum()
