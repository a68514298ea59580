from itertools import combinations

import numpy as np
import pytest
from handful.sampling import KDPP, SetMixture, UniformSubsets
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


def test_inclusion_probabilities_agree_with_dppy():
    dppy = pytest.importorskip("dppy.finite_dpps", reason="dppy is an optional oracle")
    X = features(n=30, d=3, seed=3)
    oracle = dppy.FiniteDPP("likelihood", L=X @ X.T + 0.5 * np.eye(30))
    rng = np.random.RandomState(0)
    theirs = np.array([np.isin(np.arange(30), oracle.sample_exact_k_dpp(4, random_state=rng)) for _ in range(3000)])
    process = KDPP(X, 4, shift=0.5, random_state=0)
    ours = np.array([np.isin(np.arange(30), process.sample()) for _ in range(3000)])
    sem = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 3000)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4.5 * sem + 1e-3).all()


def test_elementary_symmetric_polynomials_are_the_sums_of_products():
    values = np.array([0.5, 2.0, 1e-3, 7.0])
    table = log_elementary_symmetric(values, 3)
    for m in range(5):
        for j in range(4):
            slow = sum(np.prod(c) for c in combinations(values[:m], j))
            assert np.exp(table[m, j]) == pytest.approx(slow)
    assert np.isfinite(log_elementary_symmetric(np.geomspace(1e-200, 1e200, 400), 100)[-1]).all()


def test_same_seed_gives_the_same_sets():
    X = features(n=50, d=3)
    one, two = (KDPP(X, 5, shift=1.0, random_state=3) for _ in range(2))
    for _ in range(20):
        np.testing.assert_array_equal(one.sample(), two.sample())


def test_bad_input_is_refused():
    X = features()
    for k in (0, 8):
        with pytest.raises(ValueError, match="k must be"):
            KDPP(X, k, shift=1.0)
        with pytest.raises(ValueError, match="k must be"):
            UniformSubsets(7, k)
    with pytest.raises(ValueError, match="give a shift"):
        KDPP(X, 3)
    with pytest.raises(ValueError, match="shift must"):
        KDPP(X, 2, shift=-1)
    with pytest.raises(ValueError, match="NaN"):
        KDPP(np.full((3, 2), np.nan), 1)
    with pytest.raises(ValueError, match="semi-definite"):
        KDPP.from_kernel(-np.eye(4), 2)
    with pytest.raises(ValueError, match="symmetric"):
        KDPP.from_kernel(X, 2)
    with pytest.raises(ValueError, match="indices must be 3 integers"):
        KDPP(X, 3, shift=1.0).log_prob([0, 1])
    assert KDPP(X, 2, shift=0.0).log_prob([1, 1]) == -np.inf
    assert KDPP(np.ones((1, 1)), 1).sample().tolist() == [0]


def set_mixture(seed=0, **options):
    X = features(n=12)
    return SetMixture([KDPP(X, 3, shift=r) for r in (0.1, 10.0)], random_state=seed, **options)


@pytest.mark.parametrize("learn", [True, False])
def test_estimates_over_sets_are_unbiased(learn):
    losses = np.random.default_rng(1).gamma(1, size=12)
    sampler = set_mixture(learn=learn)
    estimates = []
    for _ in range(6000):
        indices, weights = sampler.sample()
        estimates.append((weights * losses[indices]).mean())
        sampler.update(losses[indices].mean())
    sem = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - losses.mean()) < 4 * sem
    assert (sampler.mixture_weights == 1 / 3).all() != learn


def test_weight_of_a_set_is_the_ratio_to_the_uniform_probability():
    sampler = set_mixture()
    for _ in range(20):
        indices, weights = sampler.sample()
        q = sampler.mixture_weights @ [np.exp(c.log_prob(indices)) for c in sampler.components]
        np.testing.assert_allclose(weights, 1 / (220 * q), rtol=1e-9)  # 12 choose 3 sets
        sampler.update(1.0)


def test_set_mixture_finds_the_component_that_lowers_the_variance():
    """The loss of a set is its probability under the first component: that one alone has no variance."""
    sampler = set_mixture(beta=1.0, eps=1.0)
    first = sampler.components[0]
    for _ in range(3000):
        indices, _ = sampler.sample()
        sampler.update(np.exp(first.log_prob(indices)))
    assert sampler.mixture_weights[0] > 0.8


def test_set_mixture_refuses_bad_input():
    sampler = set_mixture()
    with pytest.raises(RuntimeError, match="sample"):
        sampler.update(1.0)
    first, _ = sampler.sample(), sampler.sample()
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match="losses"):
            sampler.update(bad)
    sampler.update(1.0, *first)
    with pytest.raises(ValueError, match="agree"):
        SetMixture([UniformSubsets(5, 2), UniformSubsets(5, 3)])
    with pytest.raises(ValueError, match="at least one"):
        SetMixture([])


def test_the_kernel_of_points_far_from_each_other_gives_uniform_sets():
    dpp = KDPP.from_kernel(np.eye(6), 3, random_state=0)
    assert dpp.log_prob([0, 1, 2]) == pytest.approx(-np.log(20))


def test_a_set_that_holds_a_point_twice_has_no_probability():
    assert KDPP(features(), 2, shift=0.1).log_prob([1, 1]) == -np.inf
