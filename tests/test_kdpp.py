from itertools import combinations

import numpy as np
import pytest
from handful.sampling import KDPP
from handful.sampling.kdpp import log_elementary_symmetric


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
    ("d", "k", "ridge"), [(2, 3, 0.3), (2, 2, 0.0), (3, 2, 5.0), (2, 1, 0.1), (4, 4, 1e-3), (2, 7, 1.0)]
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
    assert KDPP(X, 2, shift=0.0).log_prob([1, 1]) == KDPP(X, 2, shift=0.1).log_prob([1, 1]) == -np.inf
    assert KDPP(np.ones((1, 1)), 1).sample().tolist() == [0]


def test_the_kernel_of_points_far_from_each_other_gives_uniform_sets():
    dpp = KDPP.from_kernel(np.eye(6), 3, random_state=0)
    assert dpp.log_prob([0, 1, 2]) == pytest.approx(-np.log(20))
