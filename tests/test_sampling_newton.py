import numpy as np
import pytest
from handful.linalg import project_restricted_simplex
from handful.sampling.newton import NewtonLearner, project_by_gradient, project_in_norm, sherman_morrison
from hypothesis import given, settings
from hypothesis import strategies as st
from qp_oracle import qp_projection


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 13), st.booleans())
def test_projection_in_the_norm_of_H_is_the_quadratic_program(seed, k, restricted):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(k, k + 2)) * 10 ** rng.uniform(-2, 3, size=(k, 1))
    H = factor @ factor.T + 10 ** rng.uniform(-2, 1) * np.eye(k)
    target = rng.normal(size=k) * 10 ** rng.uniform(-1, 1)
    gamma = rng.random() * restricted
    start = project_restricted_simplex(rng.normal(size=k), gamma)
    x = project_in_norm(H, target, gamma, start)
    assert x.sum() == pytest.approx(1, abs=1e-12)
    assert x.min() >= 0
    assert x[-1] >= gamma
    objective = [(w - target) @ H @ (w - target) for w in (x, qp_projection(H, target, gamma))]
    assert objective[0] <= objective[1] + 1e-9 * abs(objective[1]) + 1e-9


def test_projection_does_not_depend_on_where_it_starts():
    rng = np.random.default_rng(0)
    for _ in range(100):
        factor = rng.normal(size=(8, 8))
        H, target = factor @ factor.T + 0.1 * np.eye(8), rng.normal(size=8)
        starts = [project_restricted_simplex(rng.normal(size=8) * s, 0.05) for s in (0.1, 1, 10)]
        points = [project_in_norm(H, target, 0.05, start) for start in starts]
        np.testing.assert_allclose(points[0], points[1], atol=1e-10)
        np.testing.assert_allclose(points[0], points[2], atol=1e-10)


def test_many_gradient_steps_reach_the_exact_projection_and_five_do_not():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(6, 6)) / 3
    H, target = factor @ factor.T + 0.05 * np.eye(6), rng.normal(size=6)
    start = np.full(6, 1 / 6)
    exact = project_in_norm(H, target, 0.01, start)
    np.testing.assert_allclose(project_by_gradient(H, target, 0.01, start, 5000), exact, atol=1e-8)
    assert np.abs(project_by_gradient(H, target, 0.01, start, 5) - exact).max() > 1e-3


def test_sherman_morrison_is_the_inverse():
    rng = np.random.default_rng(2)
    H = 0.1 * np.eye(5)
    H_inv = np.linalg.inv(H)
    for _ in range(50):
        g = rng.normal(size=5)
        H += np.outer(g, g)
        direction = sherman_morrison(H_inv, g)
        np.testing.assert_allclose(H_inv, np.linalg.inv(H), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(direction, np.linalg.solve(H, g), rtol=1e-8, atol=1e-12)


def test_inverse_stays_the_inverse_over_10_000_updates():
    rng = np.random.default_rng(3)
    learner = NewtonLearner(10, beta=10, gamma=0.01, eps=1e-3)
    H = 1e-3 * np.eye(10)
    for t in range(10_000):
        g = rng.normal(size=10) * 10 ** rng.uniform(-3, 2)
        H += np.outer(g, g)
        learner.gradient_step(g)
        if t % 500 == 250:
            np.testing.assert_allclose(learner.H_inv @ H, np.eye(10), atol=1e-6)
    np.testing.assert_allclose(learner.H, H, rtol=1e-9)


def test_step_follows_the_dimensionless_gradient():
    """One batch by the loop of the text: g = -(1/b) sum l^2/mean(r l^2) pi r^3, then H, step, QP."""
    rng = np.random.default_rng(4)
    learner = NewtonLearner(4, beta=2.0, gamma=0.1, eps=0.5)
    w, H, moments = learner.w.copy(), 0.5 * np.eye(4), []
    for _ in range(5):
        rows = np.c_[rng.gamma(1, size=(7, 3)), np.ones(7)]
        r, losses = 1 / (rows @ w), rng.random(7)
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
    np.testing.assert_array_equal(learner.w, project_restricted_simplex(np.full(k, 1 / k), gamma))


@pytest.mark.parametrize("n_pgd_steps", [0, 5])
def test_the_500th_batch_computes_the_inverse_anew(n_pgd_steps):
    rng = np.random.default_rng(6)
    learner = NewtonLearner(5, beta=10, gamma=0.01, eps=1e-3, n_pgd_steps=n_pgd_steps)
    for _ in range(499):
        learner.step(rng.gamma(1, size=(3, 5)), np.ones(3), rng.random(3))
    learner.H_inv *= 2  # as if rounding had piled up
    learner.step(rng.gamma(1, size=(3, 5)), np.ones(3), rng.random(3))
    np.testing.assert_allclose(learner.H_inv @ learner.H, np.eye(5), atol=1e-8)


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


@pytest.mark.parametrize(
    "bad", [dict(beta=0), dict(beta=np.nan), dict(eps=-1), dict(gamma=1.5), dict(gamma=-0.1), dict(scale=0)]
)
def test_bad_settings_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        NewtonLearner(3, **{"beta": 1, "gamma": 0.1, "eps": 1, **bad})
