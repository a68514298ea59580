"""Lightweight coresets: the law of the draws, no bias, the same coreset however the data are
cut."""

import numpy as np
import pytest
from handful.sensitivity import lightweight
from handful.sensitivity.lightweight import LightweightCoreset, lightweight_coreset
from scipy import sparse


def textbook_probabilities(X, u):
    mean = u @ X / u.sum()
    sq_dist = ((X - mean) ** 2).sum(axis=1)
    return 0.5 * u / u.sum() + 0.5 * u * sq_dist / (u @ sq_dist)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_the_textbook_ones_also_where_several_blocks_are_drawn_from(
    rng, dtype, monkeypatch
):
    # the first block is far from the mean
    X = np.cumsum(rng.normal(size=(3 * 4096 + 17, 3)), axis=0)
    monkeypatch.setattr(lightweight, "ROWS", 4096)
    X = X.astype(dtype)
    u = rng.exponential(size=len(X))
    q = textbook_probabilities(X.astype(float), u)
    indices, weights = lightweight_coreset(X, 500, rng=rng, sample_weight=u)
    # how often each row was drawn
    draws = weights * 500 * q[indices] / u[indices]
    np.testing.assert_allclose(draws, np.rint(draws), rtol=1e-9)
    assert np.rint(draws).sum() == 500


def test_rows_are_drawn_as_often_as_their_probability_says(rng):
    X = rng.normal(size=(7, 2)) ** 3
    u = rng.exponential(size=7)
    size = 200_000
    indices, weights = lightweight_coreset(X, size, rng=rng, sample_weight=u)
    q = textbook_probabilities(X, u)
    counts = np.zeros(7)
    counts[indices] = weights * size * q[indices] / u[indices]
    assert (abs(counts - size * q) < 5 * np.sqrt(size * q * (1 - q))).all()


def test_the_draws_do_not_depend_on_how_many_rows_are_read_at_a_time(rng, monkeypatch):
    X = rng.normal(size=(20_000, 4))
    expected = lightweight_coreset(X, 300, rng=np.random.default_rng(5))
    monkeypatch.setattr(lightweight, "ROWS", 777)
    for rows in (X, sparse.csr_matrix(X)):
        indices, weights = lightweight_coreset(rows, 300, rng=np.random.default_rng(5))
        np.testing.assert_array_equal(indices, expected[0])
        np.testing.assert_allclose(weights, expected[1], rtol=1e-6)


def test_weight_two_is_the_row_twice(rng):
    X = rng.normal(size=(50, 2))
    twice = np.ones(50)
    twice[::3] = 2
    i, w = lightweight_coreset(X, 100, rng=np.random.default_rng(1), sample_weight=twice)
    rows = np.repeat(np.arange(50), twice.astype(int))
    j, v = lightweight_coreset(X[rows], 100, rng=np.random.default_rng(1))
    np.testing.assert_allclose(
        np.bincount(i, weights=w, minlength=50),
        np.bincount(rows[j], weights=v, minlength=50),
        atol=1e-9,
    )


def test_a_far_row_is_always_seen(rng):
    X = rng.normal(size=(1000, 3))
    X[7] = 1e30
    assert 7 in LightweightCoreset(30, random_state=0).fit(X).indices_
