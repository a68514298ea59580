import numpy as np
import pytest
from handful.checks import ConvergenceError
from handful.sampling import MixtureSampler, UniformSampler, group_components
from handful.sampling.sgd import _gradient, linear_sgd

VALUES = {
    "hinge": lambda f, y: np.maximum(0, 1 - y * f),
    "logistic": lambda f, y: np.log1p(np.exp(-y * f)),
    "squared": lambda f, y: (f - y) ** 2,
}


@pytest.mark.parametrize(("code", "loss"), list(enumerate(VALUES)))
def test_gradient_by_finite_differences(code, loss):
    rng = np.random.default_rng(0)
    X, y, coef = rng.normal(size=(9, 4)), rng.choice([-1.0, 1.0], 9), rng.normal(size=4)
    indices, weights = rng.integers(9, size=6), rng.gamma(1, size=6)
    h = 1e-6

    def slope(rows, r):
        difference = [VALUES[loss](X[rows] @ (coef + h * e), y[rows]) for e in np.eye(4)]
        difference = np.array(difference) - [VALUES[loss](X[rows] @ (coef - h * e), y[rows]) for e in np.eye(4)]
        return (difference / (2 * h) * r).mean(axis=1)

    weighted, plain, norms = _gradient(X, y, indices, weights, coef, code)
    np.testing.assert_allclose(weighted, slope(indices, weights), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(plain, slope(indices, 1.0), rtol=1e-6, atol=1e-9)
    expected = [np.linalg.norm(slope(np.array([i]), 1.0)) for i in indices]
    np.testing.assert_allclose(norms, expected, rtol=1e-6, atol=1e-9)


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
    coef, path = linear_sgd(X, y, sampler, loss="squared", learning_rate=0.1, n_steps=4000, record_at=[1, 100, 4000])
    np.testing.assert_allclose(coef, np.linalg.lstsq(X, y)[0], atol=0.02)
    assert path.shape == (3, 4)
    np.testing.assert_array_equal(path[-1], coef)


def test_steps_shrink_and_weights_are_truncated_as_said():
    X, y = problem()

    class Fixed:
        n, draws_sets = 300, False

        def sample(self):
            return np.array([3]), np.array([5.0])

        def update(self, losses):
            assert losses.shape == (1,)

    coef = np.zeros(4)
    for t in (1, 2, 3):
        coef -= 0.01 / np.sqrt(t) * (0.8 * 5 + 0.2) * 2 * (X[3] @ coef - y[3]) * X[3]
    ours, path = linear_sgd(X, y, Fixed(), loss="squared", learning_rate=0.01, n_steps=3, truncation=0.2)
    np.testing.assert_allclose(ours, coef)
    assert path.shape == (0, 4)


def test_bad_input_is_refused():
    X, y = problem()
    sampler = UniformSampler(300, batch_size=10, random_state=0)
    with pytest.raises(ValueError, match="loss must be one of"):
        linear_sgd(X, y, sampler, loss="huber", learning_rate=0.1, n_steps=1)
    with pytest.raises(ValueError, match="labels -1 and"):
        linear_sgd(X, y, sampler, loss="hinge", learning_rate=0.1, n_steps=1)
    with pytest.raises(ValueError, match="the sampler draws from 300"):
        linear_sgd(X[:-1], y[:-1], sampler, loss="squared", learning_rate=0.1, n_steps=1)
    with (
        pytest.raises(ConvergenceError, match="lower learning_rate"),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        linear_sgd(X, y, sampler, loss="squared", learning_rate=1e3, n_steps=500)
