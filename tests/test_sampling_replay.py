import numpy as np
import pytest
from handful.sampling import PrioritizedReplay
from handful.sampling.replay import GRID


def filled(n=50, capacity=64, seed=0, **options):
    replay = PrioritizedReplay(capacity, batch_size=16, random_state=seed, **options)
    replay.add(n)
    for _ in range(30):
        indices, _ = replay.sample()
        replay.update(np.sin(indices * 1.7) * 3)
    return replay


def test_tree_holds_every_components_distribution():
    errors = np.full(64, 1.0)
    replay = PrioritizedReplay(64, batch_size=16, random_state=0)
    replay.add(50)
    for _ in range(30):
        indices, _ = replay.sample()
        errors[indices] = np.abs(np.sin(indices * 1.7) * 3)
        replay.update(np.sin(indices * 1.7) * 3)
        p = np.array([(errors[:50] + eps) ** alpha for alpha, eps in GRID])
        p = np.vstack([p / p.sum(axis=1, keepdims=True), np.full(50, 1 / 50)])
        np.testing.assert_allclose(replay.probabilities, replay.mixture_weights @ p, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, np.eye(10)[4], np.full(10, 0.1)])
def test_estimates_over_the_buffer_are_unbiased(weights):
    replay = filled(mixture_weights=weights)
    losses = np.random.default_rng(0).gamma(1, size=50)
    estimates = []
    for _ in range(4000):
        indices, r = replay.sample()
        estimates.append((r * losses[indices]).mean())
        replay.update(np.sin(indices * 1.7) * 3)
    sem = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - losses.mean()) < 4 * sem
    if weights is not None:
        np.testing.assert_array_equal(replay.mixture_weights, weights)


def test_oldest_slots_are_used_again():
    replay = PrioritizedReplay(5, batch_size=2, components=[(1.0, 0.1)])
    assert replay.add(4).tolist() == [0, 1, 2, 3]
    assert replay.add(3).tolist() == [4, 0, 1]
    assert replay.n == 5
    assert replay.probabilities.sum() == pytest.approx(1)


def test_new_transitions_start_with_the_greatest_error():
    replay = PrioritizedReplay(8, batch_size=2, components=[(1.0, 0.5)], mixture_weights=[1, 0], random_state=0)
    replay.add(4)
    indices, _ = replay.sample()
    replay.update([-7.0, -7.0])
    new = replay.add()[0]
    q = replay.probabilities
    assert q[new] == pytest.approx(q[indices[0]])
    assert q[new] == q.max()


def test_feedback_for_an_earlier_batch_is_taken():
    replay = filled()
    first, _ = replay.sample(), replay.sample()
    before = replay.mixture_weights
    replay.update(np.full(16, 2.0), *first)
    assert np.abs(replay.mixture_weights - before).max() > 0


def test_same_seed_gives_the_same_draws():
    one, two = filled(seed=3), filled(seed=3)
    for _ in range(10):
        np.testing.assert_array_equal(one.sample(), two.sample())


def test_bad_input_is_refused():
    replay = PrioritizedReplay(10, batch_size=2)
    with pytest.raises(RuntimeError, match="empty"):
        replay.sample()
    with pytest.raises(ValueError, match="count"):
        replay.add(11)
    replay.add(5)
    replay.sample()
    with pytest.raises(ValueError, match="position 1"):
        replay.update([1.0, np.nan])
    for components in ([], [(-1, 0.1)], [(1, 0.0)], [(np.nan, 1)]):
        with pytest.raises(ValueError, match="component"):
            PrioritizedReplay(10, batch_size=2, components=components)
    with pytest.raises(ValueError, match="mixture_weights"):
        PrioritizedReplay(10, batch_size=2, mixture_weights=[1.0])
