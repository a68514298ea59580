import numpy as np
import pytest
from handful.sampling.online_newton import NewtonLearner, newton_step
from hypothesis import given, settings
from hypothesis import strategies as st
from qp_oracle import qp_projection


def start_at(rng, k, gamma):
    """A point of the restricted simplex, some of whose weights are at their bound."""
    w = rng.random(k) * (rng.random(k) < 0.7) + 1e-9 * (np.arange(k) == k - 1)
    return (1 - gamma) * w / w.sum() + gamma * np.eye(k)[-1]


def step(H, g, beta, gamma, start):
    """Where a Newton step from `start` ends, the new H, and where it would end without the
    projection."""
    w = start.copy()
    new = H.copy()
    newton_step(w, new, g, beta, gamma)
    np.testing.assert_allclose(new, H + np.outer(g, g), rtol=1e-12)
    return w, new, start - np.linalg.solve(new, g) / beta


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 13), st.booleans())
def test_a_newton_step_ends_at_the_quadratic_program(seed, k, restricted):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(k, k + 2)) * 10 ** rng.uniform(-2, 3, size=(k, 1))
    H = factor @ factor.T + 10 ** rng.uniform(-2, 1) * np.eye(k)
    gamma = rng.random() * restricted
    start = start_at(rng, k, gamma)
    w, H, target = step(
        H, rng.normal(size=k) * 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-3, 1), gamma, start
    )
    assert w.sum() == pytest.approx(1, abs=1e-12)
    assert w.min() >= 0
    assert w[-1] >= gamma
    objective = [(v - target) @ H @ (v - target) for v in (w, qp_projection(H, target, gamma))]
    assert objective[0] <= objective[1] + 1e-9 * abs(objective[1]) + 1e-9


def test_a_step_does_not_depend_on_the_first_guess_of_the_active_set():
    """A start that lies a rounding error inside the simplex has another guess than one on its
    border."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        factor = rng.normal(size=(8, 8))
        g = 3 * rng.normal(size=8)
        H = factor @ factor.T + 0.1 * np.eye(8)
        border = start_at(rng, 8, 0.05)
        inside = border + 1e-13
        points = [step(H, g, 0.5, 0.05, start)[0] for start in (border, inside / inside.sum())]
        np.testing.assert_allclose(points[0], points[1], atol=1e-10)


def test_the_10_000th_step_is_as_exact_as_the_first():
    rng = np.random.default_rng(3)
    learner = NewtonLearner(10, beta=1e-3, gamma=0.01, eps=1e-3)
    H = 1e-3 * np.eye(10)
    for t in range(10_000):
        g = rng.normal(size=10) * 10 ** rng.uniform(-3, 2)
        start = learner.w.copy()
        H += np.outer(g, g)
        learner.gradient_step(g)
        if t % 500 == 250:
            expected = qp_projection(H, start - np.linalg.solve(H, g) / 1e-3, 0.01)
            np.testing.assert_allclose(learner.w, expected, atol=1e-6)
    np.testing.assert_allclose(learner.H, H, rtol=1e-9)


def test_step_follows_the_dimensionless_gradient():
    """One batch by the loop of the text: g = -(1/b) sum l^2/mean(r l^2) pi r^3, then H, step,
    QP."""
    rng = np.random.default_rng(4)
    learner = NewtonLearner(4, beta=2.0, gamma=0.1, eps=0.5)
    w = learner.w.copy()
    H = 0.5 * np.eye(4)
    moments = []
    for _ in range(5):
        rows = np.c_[rng.gamma(1, size=(7, 3)), np.ones(7)]
        r = 1 / (rows @ w)
        losses = rng.random(7)
        moments += list(r * losses**2)
        g = np.zeros(4)
        for i in range(7):
            g -= losses[i] ** 2 / np.mean(moments) * rows[i] * r[i] ** 3 / 7
        H += np.outer(g, g)
        w = qp_projection(H, w - np.linalg.solve(H, g) / 2.0, 0.1)
        learner.step(rows, r, losses)
        np.testing.assert_allclose(learner.w, w, atol=1e-6)
        w = learner.w.copy()


@pytest.mark.parametrize(("k", "gamma"), [(1, 0.3), (4, 0.1), (4, 0.25), (7, 0.6), (3, 1.0)])
def test_weights_start_at_the_point_nearest_to_equal_ones(k, gamma):
    learner = NewtonLearner(k, beta=1, gamma=gamma, eps=1)
    np.testing.assert_allclose(
        learner.w, qp_projection(np.eye(k), np.full(k, 1 / k), gamma), atol=1e-6
    )


def test_units_of_the_losses_do_not_matter():
    rng = np.random.default_rng(5)
    rows = np.c_[rng.gamma(1, size=(50, 3)), np.ones(50)]
    losses = rng.random(50)
    found = []
    for unit in (1e-6, 1.0, 1e6):
        learner = NewtonLearner(4, beta=10.0, gamma=0.01, eps=1.0)
        for _ in range(20):
            learner.step(rows, 1 / (rows @ learner.w), unit * losses)
        found.append(learner.w)
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)
    np.testing.assert_allclose(found[2], found[1], atol=1e-9)


@pytest.mark.parametrize("losses", [[-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0], [1e200, 1.0]])
def test_bad_losses_are_named_and_change_nothing(losses):
    learner = NewtonLearner(2, beta=1, gamma=0.1, eps=1)
    with pytest.raises(ValueError, match="position 0"):
        learner.step(np.ones((2, 2)), np.ones(2), np.array(losses))
    assert learner.memory.sum() == 0
    np.testing.assert_array_equal(learner.H, np.eye(2))
