"""Lewis weights against their definition, and the coreset that is drawn by them."""

import numpy as np
import pytest
from handful.sensitivity.lewis import lewis_weights
from scipy import sparse

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3)) * RNG.exponential(size=(60, 1))


def slow_lewis_weights(A, rounds=200):
    w = np.ones(len(A))
    for _ in range(rounds):
        inverse = np.linalg.pinv(sum(np.outer(a, a) / v for a, v in zip(A, w)))
        w = np.array([np.sqrt(a @ inverse @ a) for a in A])
    return w


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_lewis_weights_are_the_fixed_point_and_add_up_to_the_rank(form):
    for rows in (A, np.column_stack([A, A[:, 0]])):  # of full rank, and not
        w = lewis_weights(form(rows))
        np.testing.assert_allclose(w, slow_lewis_weights(rows), rtol=1e-5)
        assert w.sum() == pytest.approx(3, rel=1e-5)


def test_lewis_weights_do_not_change_with_signs_and_bases_and_split_over_equal_rows():
    w = lewis_weights(A)
    signs, basis = np.where(RNG.random(60) < 0.5, -1.0, 1.0), RNG.normal(size=(3, 3))
    np.testing.assert_allclose(lewis_weights(signs[:, None] * A @ basis), w, rtol=1e-4)
    u = np.where(np.arange(60) < 20, 2.0, 1.0)
    twice = lewis_weights(np.vstack([A, A[:20]]))
    np.testing.assert_allclose(lewis_weights(A, u), twice[:60] + np.append(twice[60:], np.zeros(40)), rtol=1e-4)
    np.testing.assert_allclose(
        lewis_weights(A, np.where(np.arange(60) < 20, 0.0, 3.0))[20:], lewis_weights(A[20:]), rtol=1e-5
    )


def test_a_row_bounds_its_share_of_the_l1_norm_up_to_a_factor():
    w, x = lewis_weights(A), RNG.normal(size=(3, 5000))
    shares = np.abs(A @ x) / np.abs(A @ x).sum(axis=0)
    assert (shares.max(axis=1) <= 1.01 * w).all()


def test_the_units_of_the_columns_change_no_weight():
    np.testing.assert_allclose(lewis_weights(A * [1e-7, 1.0, 1e7]), lewis_weights(A), rtol=1e-5)
