from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from handful.sampling import KDPP
from handful.sampling.kdpp import log_elementary_symmetric
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel


def by_enumeration(L, k):
    sets = list(combinations(range(len(L)), k))
    determinants = np.array([np.linalg.det(L[np.ix_(s, s)]) for s in sets])
    return sets, np.maximum(determinants, 0) / determinants.sum()


def check_against(process, sets, p, n_draws=20_000):
    counts = dict.fromkeys(sets, 0)
    for _ in range(n_draws):
        counts[tuple(process.sample().tolist())] += 1
    share = np.array(list(counts.values())) / n_draws
    assert (np.abs(share - p) <= 4.5 * np.sqrt(p * (1 - p) / n_draws) + 1e-12).all()


def features(n=7, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * [3.0, 0.5, 1.0, 1.0][:d]


@pytest.mark.parametrize(
    ("d", "k", "ridge"),
    [(2, 3, 0.3), (2, 2, 0.0), (3, 2, 5.0), (2, 1, 0.1), (4, 4, 1e-3), (2, 7, 1.0)],
)
def test_low_rank_draws_and_probabilities_are_the_determinants(d, k, ridge):
    X = features(d=d)
    sets, p = by_enumeration(X @ X.T + ridge * np.eye(7), k)
    process = KDPP(X, k, shift=ridge, random_state=1)
    np.testing.assert_allclose(np.exp([process.log_prob(s) for s in sets]), p, atol=1e-9)
    check_against(process, sets, p)


def test_kernel_draws_and_probabilities_are_the_determinants():
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(6, 6))
    L = factor @ factor.T
    sets, p = by_enumeration(L, 3)
    process = KDPP.from_kernel(L, 3, random_state=0)
    np.testing.assert_allclose(np.exp([process.log_prob(s) for s in sets]), p, atol=1e-9)
    check_against(process, sets, p)


def test_a_kernel_that_is_low_rank_plus_identity_is_found_to_be():
    X = features()
    process = KDPP.from_kernel(X @ X.T + 0.3 * np.eye(7), 3)
    assert process.shift == pytest.approx(0.3)
    assert process._U.shape == (7, 2)
    direct = KDPP(X, 3, shift=0.3)
    for s in combinations(range(7), 3):
        assert process.log_prob(s) == pytest.approx(direct.log_prob(s), abs=1e-8)


def test_elementary_symmetric_polynomials_are_the_sums_of_products():
    values = np.array([0.5, 2.0, 1e-3, 7.0])
    table = log_elementary_symmetric(values, 3)
    for m in range(5):
        for j in range(4):
            slow = sum(np.prod(c) for c in combinations(values[:m], j))
            assert np.exp(table[m, j]) == pytest.approx(slow)
    assert np.isfinite(log_elementary_symmetric(np.geomspace(1e-200, 1e200, 400), 100)[-1]).all()


def test_bad_input_is_refused():
    X = features()
    for k in (0, 8):
        with pytest.raises(ValueError, match="k must be"):
            KDPP(X, k, shift=1.0)
    with pytest.raises(ValueError, match="give a shift"):
        KDPP(X, 3)
    with pytest.raises(ValueError, match="semi-definite"):
        KDPP.from_kernel(-np.eye(4), 2)
    with pytest.raises(ValueError, match="symmetric"):
        KDPP.from_kernel(X, 2)
    with pytest.raises(ValueError, match="indices must be 3 integers"):
        KDPP(X, 3, shift=1.0).log_prob([0, 1])
    assert (
        KDPP(X, 2, shift=0.0).log_prob([1, 1]) == KDPP(X, 2, shift=0.1).log_prob([1, 1]) == -np.inf
    )
    assert KDPP(np.ones((1, 1)), 1).sample().tolist() == [0]


def test_the_kernel_of_points_far_from_each_other_gives_uniform_sets():
    dpp = KDPP.from_kernel(np.eye(6), 3, random_state=0)
    assert dpp.log_prob([0, 1, 2]) == pytest.approx(-np.log(20))


def log_probabilities(dpp, n, k):
    return np.array([dpp.log_prob(np.array(some)) for some in combinations(range(n), k)])


@pytest.mark.parametrize("kernel", [rbf_kernel, linear_kernel])
@pytest.mark.parametrize("n", [5, 20, 100, 500])
def test_kernels_computed_in_float32_are_those_of_float64(n, kernel):
    """DPPy#57: eigenvalues that are negative by rounding."""
    X = np.random.default_rng(n).normal(size=(n, 2))
    right = KDPP.from_kernel(kernel(X), 2, random_state=0)
    single = kernel(X.astype(np.float32))
    # rounded otherwise in each half
    upper = np.triu(single * np.float32(1 + 1e-6)) + np.tril(single, -1)
    for L in (single, single.astype(np.float64), pd.DataFrame(single), upper):
        dpp = KDPP.from_kernel(L, 2, random_state=0)
        assert dpp.log_normaliser == pytest.approx(right.log_normaliser, abs=1e-4)
    if kernel is linear_kernel:
        with pytest.raises(ValueError, match="rank 2"):
            KDPP.from_kernel(single, 3)


@pytest.mark.parametrize("seed", range(50))
def test_small_kernels_of_rounded_rows_are_taken(seed):
    X = np.random.default_rng(seed).normal(size=(2 + seed % 4, 1)).round(1).astype(np.float32)
    KDPP.from_kernel(X @ X.T, 1)


def test_kernels_of_half_precision_are_taken():
    X = np.random.default_rng(0).normal(size=(8, 2))
    exact = KDPP.from_kernel(rbf_kernel(X), 2)
    half = rbf_kernel(X).astype(np.float16)
    for L in (half, half.astype(np.float32), half.astype(float), *half_tensors(X)):
        found = log_probabilities(KDPP.from_kernel(L, 2), 8, 2)
        assert np.abs(np.exp(found) - np.exp(log_probabilities(exact, 8, 2))).max() < 2e-3


def half_tensors(X):
    torch = pytest.importorskip("torch")
    return [
        torch.tensor(rbf_kernel(X), dtype=dtype)
        for dtype in (torch.float16, torch.bfloat16, torch.float32)
    ]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_indefinite_and_asymmetric_kernels_are_refused_whatever_the_type(dtype):
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(300, 300)))[0]
    for share in (0.03, 0.2):
        L = (vectors * np.r_[1.0, np.full(298, 0.5), -share]) @ vectors.T
        with pytest.raises(
            ValueError, match=rf"least eigenvalue is -{share:.1g}\d*, more than rounding"
        ):
            KDPP.from_kernel(L.astype(dtype), 2)
    with pytest.raises(ValueError, match="least eigenvalue is -1,"):
        KDPP.from_kernel((np.eye(40) + np.eye(40)[::-1] * 2).astype(dtype), 2)
    with pytest.raises(ValueError, match="symmetric"):
        KDPP.from_kernel((np.eye(40) + np.triu(np.full((40, 40), 0.1), 1)).astype(dtype), 2)
    small = (vectors * np.r_[1.0, np.full(298, 0.5), -1e-3]) @ vectors.T
    if dtype != np.float16:
        with pytest.raises(ValueError, match=r"least eigenvalue is -0\.001, more than"):
            KDPP.from_kernel(small.astype(dtype), 2)


@pytest.mark.parametrize("shift", [0.0, 1e-3])
def test_probabilities_keep_their_digits_far_from_the_origin_and_at_any_scale(shift):
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(6, 2)) + 1e6, rng.normal(size=(6, 2)) * [1e-4, 1e4]):
        process = KDPP(X, 2, shift=shift)
        # of two rows without the products that cancel
        areas = {
            (i, j): (X[i, 0] * (X[j, 1] - X[i, 1]) - X[i, 1] * (X[j, 0] - X[i, 0])) ** 2
            + shift * (X[i] @ X[i] + X[j] @ X[j] + shift)
            for i, j in combinations(range(6), 2)
        }
        found = [process.log_prob(pair) for pair in areas]
        expected = np.log(list(areas.values())) - np.log(sum(areas.values()))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert process.log_prob([3, 3]) == -np.inf


def test_sets_are_drawn_by_a_generator():
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        KDPP(features(), 2).sample(rng=5)


def test_an_array_that_changes_afterwards_changes_no_probability():
    F = np.random.default_rng(0).normal(size=(8, 3))
    points = KDPP(F, 2, random_state=0)
    before = points.log_prob([1, 5])
    F *= 5
    assert points.log_prob([1, 5]) == before


@pytest.mark.parametrize("k", [2, 8])
def test_small_eigenvalues_of_a_kernel_of_doubles_count(k):
    L = rbf_kernel(np.linspace(0, 1, 10)[:, None], gamma=3)
    dpp = KDPP.from_kernel(L, k)
    sets, wanted = by_enumeration(L, k)
    probabilities = np.exp([dpp.log_prob(list(one)) for one in sets])
    np.testing.assert_allclose(probabilities, wanted, atol=1e-5)
    X = np.random.default_rng(0).uniform(size=(60, 2))
    values = np.linalg.eigvalsh(rbf_kernel(X))[::-1]
    wanted = log_elementary_symmetric(values[values > 1e-14 * values[0]], 24)[-1, 24]
    assert KDPP.from_kernel(rbf_kernel(X), 24).log_normaliser == pytest.approx(wanted, abs=0.01)


def test_eigenvalues_about_a_bound_are_drawn_alike():
    L = np.diag(np.r_[1, 1, np.full(3, 1.01e-10), np.full(5, 0.99e-10)])
    dpp = KDPP.from_kernel(L, 3, random_state=0)
    assert {tuple(dpp.sample().tolist()) for _ in range(300)} == {(0, 1, j) for j in range(2, 10)}


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_a_kernel_of_halves_is_one_of_doubles(factor):
    counts = np.random.default_rng(1).integers(0, 10, (8, 3)).astype(float)
    # two equal rows
    counts[1] = counts[0]
    L = factor * (counts @ counts.T + 0.5 * np.eye(8))
    dpp = KDPP.from_kernel(L, 4)
    assert dpp.shift == pytest.approx(0.5 * factor)
    sets, wanted = by_enumeration(L, 4)
    found = np.exp([dpp.log_prob(list(one)) for one in sets])
    np.testing.assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.parametrize("k", [2, 3])
def test_columns_of_other_scales_count_beside_a_shift(k):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3)) * [1e11, 3, 3]
    dpp = KDPP(X, k, shift=1.0, random_state=0)
    total = sum(np.exp(dpp.log_prob(list(one))) for one in combinations(range(6), k))
    assert total == pytest.approx(1, abs=1e-3)
    with pytest.warns(UserWarning, match="scale the columns of X"):
        KDPP(np.c_[X[:, :1] * 1e6, X[:, 1:]], k, shift=1.0)


def test_a_kernel_of_too_small_a_rank_is_told_what_mends_it():
    L = np.outer(np.arange(1.0, 6), np.arange(1.0, 6))
    with pytest.raises(ValueError, match=r"rank 1; add a multiple .* L \+ 5e-05 \* np.eye\(5\)"):
        KDPP.from_kernel(L, 2)
    assert KDPP.from_kernel(L + 5e-05 * np.eye(5), 2).n == 5
