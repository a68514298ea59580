"""What the protocols of VRM learn with: steps on all losses, mixtures of sets, gradient descent."""

import numpy as np
import pytest
from handful.sampling import KDPP, MixtureSampler, UniformSampler, group_components
from handful_papers.vrm.full_information import (
    FullInformation,
    concentration,
    mixture_cost,
    mixture_cost_gradient,
)
from handful_papers.vrm.sets import SetMixture
from handful_papers.vrm.sgd import linear_sgd

N = 60


def components(rng, k=3, n=N):
    p = rng.gamma(0.5, size=(k, n)) + 1e-3
    p = np.vstack([p / p.sum(axis=1, keepdims=True), np.full(n, 1 / n)])
    assert concentration(p) == n * p.max()
    return p


def test_gradient_of_the_cost_by_finite_differences():
    rng = np.random.default_rng(0)
    p = components(rng)
    losses = rng.gamma(1, size=N)
    w = rng.dirichlet(np.ones(4))
    h = 1e-6
    numeric = [
        (mixture_cost(w + h * e, p, losses) - mixture_cost(w - h * e, p, losses)) / (2 * h)
        for e in np.eye(4)
    ]
    np.testing.assert_allclose(mixture_cost_gradient(w, p, losses), numeric, rtol=1e-6)


def test_full_information_learns_the_minimiser():
    rng = np.random.default_rng(0)
    p = components(rng, k=2)
    losses = rng.gamma(1, size=N)
    learner = FullInformation(p, beta=1.0, gamma=0.0, eps=1.0)
    for _ in range(500):
        learner.update(losses)
    grid = np.linspace(0, 1, 101)
    best = min(
        mixture_cost(np.array([a, b, 1 - a - b]), learner.probabilities, losses)
        for a in grid
        for b in grid
        if a + b <= 1
    )
    assert mixture_cost(learner.mixture_weights, learner.probabilities, losses) <= best * (1 + 1e-3)


def set_mixture(seed=0, **options):
    X = np.random.default_rng(0).normal(size=(12, 2)) * [3.0, 0.5]
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


def test_a_mixture_of_sets_goes_on_from_its_state():
    one = set_mixture()
    for _ in range(5):
        one.sample()
        one.update(2.0)
    one.sample()
    two = set_mixture(seed=1)
    two.load_state_dict(one.state_dict())
    for sampler in (one, two):
        sampler.update(3.0)
    for _ in range(3):
        np.testing.assert_array_equal(two.sample(), one.sample())


def test_weight_of_a_set_is_the_ratio_to_the_uniform_probability():
    sampler = set_mixture()
    for _ in range(20):
        indices, weights = sampler.sample()
        q = sampler.mixture_weights @ [np.exp(c.log_prob(indices)) for c in sampler.components]
        # 12 choose 3 sets
        np.testing.assert_allclose(weights, 1 / (220 * q), rtol=1e-9)
        sampler.update(1.0)


def test_set_mixture_finds_the_component_that_lowers_the_variance():
    """The loss of a set is its probability under the first component: that one alone has no
    variance."""
    sampler = set_mixture(beta=1.0, eps=1.0)
    first = sampler.components[0]
    for _ in range(3000):
        indices, _ = sampler.sample()
        sampler.update(np.exp(first.log_prob(indices)))
    assert sampler.mixture_weights[0] > 0.8


def problem():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(300, 3)), np.ones(300)]
    return X, X @ [1.0, -2.0, 0.5, 3.0] + 0.1 * rng.normal(size=300)


@pytest.mark.parametrize("learned", [False, True])
def test_reaches_least_squares_with_any_sampler(learned):
    X, y = problem()
    sampler = UniformSampler(300, batch_size=10, random_state=0)
    if learned:
        p = group_components(np.linalg.norm(X, axis=1) > 2, leak=0.1)
        sampler = MixtureSampler(p, batch_size=10, random_state=0)
    coef, path = linear_sgd(
        X, y, sampler, loss="squared", learning_rate=0.1, n_steps=4000, record_at=[1, 100, 4000]
    )
    np.testing.assert_allclose(coef, np.linalg.lstsq(X, y)[0], atol=0.02)
    assert path.shape == (3, 4)
    np.testing.assert_array_equal(path[-1], coef)


def test_steps_shrink_and_weights_are_truncated_as_said():
    X, y = problem()

    class Fixed:
        def sample(self):
            return np.array([3]), np.array([5.0])

        def update(self, losses):
            assert losses.shape == (1,)

    coef = np.zeros(4)
    for t in (1, 2, 3):
        coef -= 0.01 / np.sqrt(t) * (0.8 * 5 + 0.2) * 2 * (X[3] @ coef - y[3]) * X[3]
    ours, path = linear_sgd(
        X, y, Fixed(), loss="squared", learning_rate=0.01, n_steps=3, truncation=0.2
    )
    np.testing.assert_allclose(ours, coef)
    assert path.shape == (0, 4)
