import pickle

import numpy as np
import pandas as pd
import pytest
from handful.sampling import (
    BanditSampler,
    MixtureSampler,
    PrioritizedReplay,
    UniformSampler,
    distance_components,
    group_components,
)
from handful.sampling.replay import GRID
from handful.sampling.tree import build_tree, find_leaf, set_leaves
from hypothesis import given, settings
from hypothesis import strategies as st
from qp_oracle import qp_projection
from scipy import sparse

N = 60
B = 20


def components(rng, k=3, n=N):
    p = rng.gamma(0.5, size=(k, n)) + 1e-3
    return p / p.sum(axis=1, keepdims=True)


def all_samplers(seed):
    p = components(np.random.default_rng(7))
    return {
        "uniform": UniformSampler(N, batch_size=B, random_state=seed),
        "fixed mixture": MixtureSampler(
            p, mixture_weights="equal", batch_size=B, random_state=seed
        ),
        "mixture": MixtureSampler(p, batch_size=B, random_state=seed),
        "mixture, with a scale": MixtureSampler(
            p, batch_size=B, beta=10, eps=0.1, scale=1e3, random_state=seed
        ),
        "mixture, no uniform": MixtureSampler(p, batch_size=B, uniform=False, random_state=seed),
        "bandit": BanditSampler(N, batch_size=B, random_state=seed),
        "replay": filled(N, batch_size=B, random_state=seed),
        "replay, fixed": filled(
            N, batch_size=B, mixture_weights=np.full(10, 0.1), random_state=seed
        ),
    }


def filled(n, **options):
    replay = PrioritizedReplay(n + 4, **options)
    replay.add(n)
    return replay


def rounds(sampler, count):
    """The batches of some rounds of drawing and learning."""
    batches = []
    for _ in range(count):
        indices, weights = sampler.sample()
        sampler.update(1 + np.sin(indices * 1.7) ** 2)
        batches.append((indices.tolist(), weights.tolist()))
    return batches


NAMES = list(all_samplers(0))


@pytest.mark.parametrize("name", NAMES)
def test_estimates_of_the_mean_are_unbiased(name):
    sampler = all_samplers(0)[name]
    losses = np.random.default_rng(1).gamma(1, size=N)
    estimates = []
    for _ in range(3000):
        indices, weights = sampler.sample()
        estimates.append((weights * losses[indices]).mean())
        sampler.update(losses[indices])
    sem = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - losses.mean()) < 4 * sem


@pytest.mark.parametrize("name", [name for name in NAMES if name != "uniform"])
def test_weights_are_one_over_n_q_and_draws_follow_q(name):
    sampler = all_samplers(1)[name]
    losses = np.random.default_rng(1).gamma(1, size=N)
    for _ in range(30):
        indices, _ = sampler.sample()
        sampler.update(losses[indices])
    q = sampler.probabilities
    assert q.sum() == pytest.approx(1, abs=1e-6)
    batches = [sampler.sample() for _ in range(3000)]
    indices = np.concatenate([i for i, _ in batches])
    np.testing.assert_allclose(
        np.concatenate([w for _, w in batches]), 1 / (N * q[indices]), rtol=1e-5
    )
    # a batch's draws may be correlated
    counts = np.array([np.bincount(i, minlength=N) for i, _ in batches])
    sem = counts.std(axis=0, ddof=1) / np.sqrt(len(batches))
    # 4.5: the worst of 60
    assert (np.abs(counts.mean(axis=0) - B * q) < 4.5 * sem + 1e-3).all()


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_gives_the_same_draws_and_a_pickled_sampler_goes_on_as_if_nothing_had_been(name):
    first, same = (all_samplers(3)[name] for _ in range(2))
    assert rounds(first, 5) == rounds(same, 5)
    # a batch whose losses come after it was pickled
    indices, _ = first.sample()
    second = pickle.loads(pickle.dumps(first))
    for sampler in (first, second):
        sampler.update(np.arange(1.0, 1 + len(indices)))
    assert rounds(second, 5) == rounds(first, 5)


@pytest.mark.parametrize("name", NAMES)
def test_bad_feedback_is_refused(name):
    sampler = all_samplers(0)[name]
    with pytest.raises(RuntimeError, match="sample"):
        sampler.update(np.ones(B))
    sampler.sample()
    with pytest.raises(ValueError, match="shape"):
        sampler.update(np.ones(B + 1))
    # errors have signs
    for bad in (np.nan, np.inf, *([] if "replay" in name else [-1.0])):
        with pytest.raises(ValueError, match="position 3"):
            sampler.update(np.r_[1.0, 1.0, 1.0, bad, np.ones(B - 4)])
    with pytest.raises(ValueError, match="indices"):
        sampler.update(np.ones(2), [0, N], [1.0, 1.0])


def test_bad_probabilities_are_refused():
    good = components(np.random.default_rng(0))
    n = np.newaxis
    for bad, message in (
        (good * np.array([1, 1.1, 1])[:, n], r"component 1 adds up to 1\.1"),
        (np.where(np.arange(N) == 5, np.nan, good), "component 0"),
        (np.where(np.arange(N) == 5, -0.1, good), "component 0"),
        (np.zeros((0, 5)), "shape"),
        (np.zeros(5), "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            MixtureSampler(bad, batch_size=2)
    for labels in (np.arange(5) % 2, list("abab")):
        with pytest.raises(
            ValueError,
            match=r"of labels, one for each point, group_components\(labels\) makes them",
        ):
            MixtureSampler(labels, batch_size=2)
    with pytest.raises(TypeError, match=r"batch_sampler=AdaptiveBatchSampler\(sampler\)"):
        iter(MixtureSampler(good, batch_size=2))
    with pytest.raises(ValueError, match="uniform"):
        MixtureSampler(np.eye(4), uniform=False, batch_size=2)
    with pytest.raises(ValueError, match="batch_size must be at most the number of points"):
        MixtureSampler(good, batch_size=N + 1)
    with pytest.raises(ValueError, match="add up to one"):
        MixtureSampler(good, mixture_weights=[1, 1, 1, 1], batch_size=2)


def test_one_point_is_drawn_with_weight_one():
    for sampler in (
        UniformSampler(1, batch_size=1),
        BanditSampler(1, batch_size=1),
        MixtureSampler(np.ones((1, 1)), batch_size=1),
        MixtureSampler(np.ones((2, 1)), batch_size=1, uniform=False),
    ):
        for _ in range(3):
            indices, weights = sampler.sample()
            assert indices.tolist() == [0]
            assert weights == pytest.approx([1.0])
            sampler.update([2.0])


def test_uniform_component_is_appended_only_where_it_is_missing():
    p = components(np.random.default_rng(0))
    assert MixtureSampler(p, batch_size=5).k == 4
    with_uniform = np.vstack([p, np.full(N, 1 / N)])
    assert MixtureSampler(with_uniform, batch_size=5).k == 4
    assert MixtureSampler(p, uniform=False, batch_size=5).k == 3


def test_weights_stay_on_the_restricted_simplex_and_bound_the_importance_weights():
    rng = np.random.default_rng(0)
    sampler = MixtureSampler(np.eye(10), gamma=0.2, beta=0.1, batch_size=5, random_state=0)
    for _ in range(300):
        indices, weights = sampler.sample()
        assert weights.max() <= 1 / 0.2 + 1e-9
        sampler.update(rng.gamma(0.1, size=5) * (indices == 3))
        w = sampler.mixture_weights
        assert w.sum() == pytest.approx(1)
        assert w.min() >= 0
        assert w[-1] >= 0.2
    assert sampler.mixture_weights.argmax() == 3


def test_mixture_finds_the_best_weights_in_hindsight():
    """With losses that stay, the mixture ends near the minimiser of f, found by a grid."""
    n = 40
    labels = np.repeat([0, 1], [10, 30])
    p = group_components(labels, leak=1e-3)
    losses = np.where(labels == 0, 3.0, 0.5)
    grid = np.linspace(0, 0.99, 100)
    full = np.vstack([p, np.full(n, 1 / n)])

    def cost(w):
        return (losses**2 / (w @ full)).mean()

    best = min(cost(np.array([a, b, 1 - a - b])) for a in grid for b in grid if a + b < 1)
    sampler = MixtureSampler(p, batch_size=10, beta=1.0, random_state=0)
    for _ in range(3000):
        indices, _ = sampler.sample()
        sampler.update(losses[indices])
    assert cost(sampler.mixture_weights) - best < 0.02 * (cost(np.array([0, 0, 1.0])) - best)


@pytest.mark.parametrize("name", NAMES)
def test_feedback_with_indices_and_weights_is_the_feedback(name):
    one, two = (all_samplers(0)[name] for _ in range(2))
    for _ in range(10):
        (indices, weights) = one.sample()
        _ = two.sample()
        losses = 1 + np.sin(indices * 1.7) ** 2
        one.update(losses)
        # as a loader delivers them
        two.update(losses, indices, weights.astype(np.float32))
    if hasattr(one, "probabilities"):
        np.testing.assert_allclose(two.probabilities, one.probabilities, rtol=1e-4)


def test_delayed_feedback_for_an_earlier_batch_is_the_feedback():
    losses = np.random.default_rng(0).gamma(1, size=N)
    p = components(np.random.default_rng(1))
    one, two = (MixtureSampler(p, batch_size=B, random_state=0) for _ in range(2))
    for _ in range(10):
        indices, weights = one.sample()
        two.sample()
        one.update(losses[indices])
        two.update(losses[indices], indices, weights)
        np.testing.assert_allclose(one.mixture_weights, two.mixture_weights, atol=1e-12)
    first = two.sample()
    second = two.sample()
    two.update(losses[second[0]], *second)
    two.update(losses[first[0]], *first)


def test_components_may_change_over_time():
    rng = np.random.default_rng(0)
    sampler = MixtureSampler(components(rng), batch_size=B, random_state=0)
    losses = rng.gamma(1, size=N)
    estimates = []
    for _ in range(1500):
        sampler.set_probabilities(components(rng))
        indices, weights = sampler.sample()
        estimates.append((weights * losses[indices]).mean())
        sampler.update(losses[indices])
    sem = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - losses.mean()) < 4 * sem
    with pytest.raises(ValueError, match="like the old"):
        sampler.set_probabilities(components(rng, k=5))
    # refused components leave the sampler as it was
    k = sampler.k
    q = sampler.probabilities
    with pytest.raises(ValueError, match="count"):
        sampler.set_probabilities(components(rng, k=k))
    assert sampler.k == k
    np.testing.assert_array_equal(sampler.probabilities, q)


def test_scale_is_in_the_papers_units():
    """Batch 1, one step, by the text: g = -l^2 p / (q^3 scale), H = eps I + g g', step,
    projection."""
    p = components(np.random.default_rng(0), k=2)
    sampler = MixtureSampler(
        p, batch_size=1, beta=3.0, eps=0.7, gamma=0.05, scale=5e3, random_state=0
    )
    w = sampler.mixture_weights
    ((i,), (r,)) = sampler.sample()
    row = np.r_[p[:, i], 1 / N]
    q = w @ row
    assert r == pytest.approx(1 / (N * q), rel=1e-6)
    g = -(2.0**2) * row / q**3 / 5e3
    H = 0.7 * np.eye(3) + np.outer(g, g)
    target = w - np.linalg.solve(H, g) / 3.0
    sampler.update([2.0])
    np.testing.assert_allclose(sampler.mixture_weights, qp_projection(H, target, 0.05), atol=1e-5)


def test_sum_tree_is_the_sums():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 64, 100):
        leaves = rng.random((n, 2))
        tree = build_tree(leaves)
        for _ in range(20):
            some = rng.integers(n, size=3)
            values = rng.random((3, 2)) * (rng.random((3, 1)) < 0.8)
            for i, value in zip(some, values):
                leaves[i] = value
            set_leaves(tree, some, values)
        np.testing.assert_allclose(tree[1], leaves.sum(axis=0), rtol=1e-12)
        np.testing.assert_array_equal(tree, build_tree(leaves))
        if leaves[:, 1].any():
            ends = np.cumsum(leaves[:, 1]) / leaves[:, 1].sum()
            for u in rng.random(200):
                assert find_leaf(tree, 1, u) == np.searchsorted(ends, u, side="right")


def test_bandit_follows_the_squares_it_has_seen():
    """By the loop of the text: S_i = reg + sum of l^2/q, q = (1 - theta) sqrt(S)/sum + theta/n."""
    losses = np.random.default_rng(0).gamma(1, size=N)
    sampler = BanditSampler(N, theta=0.2, regularisation=30.0, batch_size=B, random_state=0)
    S = np.full(N, 30.0)
    for _ in range(50):
        q = 0.8 * np.sqrt(S) / np.sqrt(S).sum() + 0.2 / N
        np.testing.assert_allclose(sampler.probabilities, q, rtol=1e-9)
        indices, _ = sampler.sample()
        sampler.update(losses[indices])
        for i in indices:
            S[i] += losses[i] ** 2 / q[i]


def test_ready_made_components_are_distributions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    p = distance_components(X, 4, random_state=np.random.default_rng(1))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p.min() >= 0.1 / 50 - 1e-12
    centre = X[np.random.default_rng(1).choice(50, size=4, replace=False)[2]]
    distance = np.linalg.norm(X - centre, axis=1)
    np.testing.assert_allclose(p[2], 0.9 * distance / distance.sum() + 0.1 / 50)
    np.testing.assert_allclose(distance_components(np.ones((5, 2)), 2, random_state=rng), 0.2)
    groups = group_components(["a", "b", "b", "a"], leak=0.0)
    np.testing.assert_allclose(groups, [[0.5, 0, 0, 0.5], [0, 0.5, 0.5, 0]])
    with pytest.raises(ValueError, match="k must be"):
        distance_components(X, 51, random_state=rng)


# Prioritised replay ------------------------------------------------------------------------------


def test_replay_holds_every_components_distribution():
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


def test_oldest_slots_are_used_again_and_new_transitions_start_with_the_greatest_error():
    replay = PrioritizedReplay(
        5, batch_size=2, components=[(1.0, 0.5)], mixture_weights=[1, 0], random_state=0
    )
    assert replay.add(4).tolist() == [0, 1, 2, 3]
    indices, _ = replay.sample()
    replay.update([-7.0, -7.0])
    [new] = replay.add()
    q = replay.probabilities
    assert q[new] == pytest.approx(q[indices[0]])
    assert q[new] == q.max()
    assert replay.add(3).tolist() == [0, 1, 2]
    assert replay.n == 5


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0])
def test_new_transitions_start_alike_in_any_unit_of_the_errors(scale):
    replay = PrioritizedReplay(
        60, batch_size=10, components=[(0.9, 1e-9 * scale)], mixture_weights=[1, 0], random_state=0
    )
    replay.add(50)
    rng = np.random.default_rng(0)
    for _ in range(60):
        replay.sample()
        replay.update(scale * (1 + rng.random(10)))
    replay.add(10)
    share = replay.probabilities[50:].sum()
    # those of 1.5 on average, these of 2
    assert share == pytest.approx(10 * 2**0.9 / (10 * 2**0.9 + 50 * 1.5**0.9), abs=0.01)


def replay_of(capacity, batch_size, seed=0):
    options = dict(components=[(1.0, 0.01)], mixture_weights=[1.0, 0.0])
    return PrioritizedReplay(capacity, batch_size=batch_size, random_state=seed, **options)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("more", [4, 5, 8, 11])
def test_errors_of_transitions_that_are_gone_are_dropped(explicit, more):
    """Late errors (ray#6534, cleanrl#511): the slots hold transitions that nobody has seen."""
    for error in (0.0, 1e3):
        for replay in (replay_of(4, 4), PrioritizedReplay(4, batch_size=4, random_state=0)):
            replay.add(4)
            drawn = replay.sample()
            for _ in range(more):
                replay.add()
            before = getattr(replay, "mixture_weights", None)
            replay.update(np.full(4, error), *(drawn if explicit else ()))
            # it starts with the greatest error seen
            replay.add()
            np.testing.assert_allclose(replay.probabilities, 0.25)
            np.testing.assert_array_equal(replay.mixture_weights, before)


@pytest.mark.parametrize("explicit", [False, True])
def test_errors_of_transitions_that_are_left_are_kept(explicit):
    replay = replay_of(6, 6)
    replay.add(6)
    indices, weights = replay.sample()
    # in the slots 0, 1, 2
    new = replay.add(3)
    replay.update(1.0 + indices, *((indices, weights) if explicit else ()))
    errors = np.where(np.isin(np.arange(6), indices) & (np.arange(6) > 2), 1.0 + np.arange(6), 1.0)
    np.testing.assert_array_equal(new, [0, 1, 2])
    np.testing.assert_allclose(replay.probabilities, (errors + 0.01) / (errors + 0.01).sum())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9))
def test_late_errors_reach_the_transitions_they_are_of(seed, capacity, batch_size):
    """Against a dictionary of transitions, with batches answered in any order, in part, and through
    float32."""
    batch_size = min(batch_size, capacity)
    rng = np.random.default_rng(seed)
    replay = replay_of(capacity, batch_size, seed)
    errors = {}
    holds = {}
    open_batches = []
    seen = []
    n = 0
    for step in range(60):
        if step == 0 or rng.random() < 0.4:
            for slot in replay.add(int(rng.integers(1, capacity + 1))).tolist():
                holds[slot] = n
                errors[n] = max(seen, default=1.0)
                n = n + 1
        indices, weights = replay.sample()
        open_batches.append((indices, weights, [holds[i] for i in indices.tolist()]))
        while open_batches and rng.random() < 0.5:
            position = int(rng.integers(len(open_batches)))
            if any(
                set(open_batches[position][0]) <= set(other[0]) for other in open_batches[:position]
            ):
                # nothing tells it from the other one
                position = 0
            indices, weights, transitions = open_batches.pop(position)
            # equal draws have equal errors
            of_transition = rng.gamma(1, size=n)
            found = of_transition[transitions]
            replay.update(found, indices, weights.astype(np.float32))
            kept = [t for t in transitions if t in holds.values()]
            errors |= {t: of_transition[t] for t in kept}
            seen += [of_transition[t] for t in kept]
        p = np.array([errors[holds[slot]] + 0.01 for slot in range(replay.n)])
        np.testing.assert_allclose(replay.probabilities, p / p.sum(), rtol=1e-9)


def test_errors_that_come_in_parts_and_with_other_weights_know_their_batch():
    replay = replay_of(4, 4)
    replay.add(4)
    indices, weights = replay.sample()
    replay.add(4)
    replay.sample()
    replay.update([9.0, 9.0], indices[:2], weights[:2])
    replay.update([9.0, 9.0], indices[2:], weights[2:] / 3)
    np.testing.assert_allclose(replay.probabilities, 0.25)
    # that nobody answers
    for _ in range(200):
        replay.sample()
    assert len(replay._open) == 64


def test_slots_without_a_batch_take_errors_of_their_own():
    replay = replay_of(4, 2)
    replay.update([3.0, 1.0], replay.add(2), np.ones(2))
    np.testing.assert_allclose(replay.probabilities, np.array([3.01, 1.01]) / 4.02)


def test_a_bad_replay_is_refused():
    replay = PrioritizedReplay(10, batch_size=2)
    with pytest.raises(RuntimeError, match="empty"):
        replay.sample()
    with pytest.raises(ValueError, match="count"):
        replay.add(11)
    for components in ([], [(-1, 0.1)], [(1, 0.0)], [(np.nan, 1)]):
        with pytest.raises(ValueError, match="component"):
            PrioritizedReplay(10, batch_size=2, components=components)
    with pytest.raises(ValueError, match="mixture_weights"):
        PrioritizedReplay(10, batch_size=2, mixture_weights=[1.0])


@pytest.mark.parametrize("theta", [1, 1.0, 1e-12])
@pytest.mark.parametrize("loss", [0.0, 1e-300, 1e139])
def test_bandits_at_the_ends_of_their_options_stay_distributions(theta, loss):
    sampler = BanditSampler(50, theta=theta, batch_size=20, random_state=0)
    for _ in range(5):
        sampler.sample()
        sampler.update(np.full(20, loss))
    assert sampler.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize(("component", "error"), [((2.5, 1.0), 1e139), ((1e4, 0.5), 0.0)])
def test_priorities_that_no_float_holds_are_refused_and_change_nothing(component, error):
    replay = PrioritizedReplay(50, components=[(0.5, 1.0)], batch_size=20, random_state=0)
    replay.add(50)
    replay._alphas, replay._epsilons = np.array([component]).T
    before = replay.probabilities
    replay.sample()
    with pytest.raises(
        ValueError, match=r"\(\|error\| \+ eps\)\^alpha must be a positive finite number"
    ):
        replay.update(np.full(20, error))
    np.testing.assert_array_equal(replay.probabilities, before)


def test_what_a_batch_holds_is_the_callers_to_change():
    kept, changed = (BanditSampler(50, batch_size=20, random_state=0) for _ in range(2))
    losses = np.arange(20.0)
    for sampler in (kept, changed):
        indices, weights = sampler.sample()
        if sampler is changed:
            indices[:] = 0
            weights[:] = 1e9
        sampler.update(losses)
    np.testing.assert_array_equal(changed.probabilities, kept.probabilities)


@pytest.mark.parametrize(
    ("components", "options"),
    [
        ([[0.5, 0.5, 0, 0]], dict(mixture_weights=[1, 0])),
        ([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]], dict(mixture_weights=[0.5, 0.5, 0])),
        ([[0.5, 0.5, 0, 0], [0.25] * 4], dict(mixture_weights=[1, 0])),
        ([[0.5, 0.5, 0, 0]], dict(gamma=0)),
    ],
)
def test_points_that_weights_would_never_draw_are_refused(components, options):
    with pytest.raises(ValueError, match=r"point [23] could not be drawn.*of 4 points"):
        MixtureSampler(components, batch_size=2, **options)


def test_components_that_leave_points_out_are_refused_later_too_and_change_nothing():
    sampler = MixtureSampler(
        [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]], mixture_weights=[0.5, 0.5, 0], batch_size=2
    )
    with pytest.raises(ValueError, match="point 3 could not be drawn"):
        sampler.set_probabilities([[0.5, 0.5, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_allclose(sampler.probabilities, 0.25)


@pytest.mark.parametrize("seed", range(20))
def test_probabilities_of_a_mixture_add_up_to_one_as_numpy_wants_it(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(3, size=40)
    groups[:3] = range(3)
    w = rng.dirichlet(np.ones(4))
    p = MixtureSampler(group_components(groups), batch_size=1, mixture_weights=w).probabilities
    assert rng.choice(40, p=p) < 40


def test_weights_without_indices_are_refused():
    sampler = BanditSampler(10, batch_size=2, random_state=0)
    _, weights = sampler.sample()
    with pytest.raises(ValueError, match="weights go with the indices"):
        sampler.update([1.0, 5.0], weights=weights)


def test_a_learned_state_is_no_state_of_fixed_weights():
    components = group_components([0, 0, 1])
    learned = MixtureSampler(components, batch_size=2)
    fixed = MixtureSampler(components, batch_size=2, mixture_weights="equal")
    with pytest.raises(ValueError, match="fixed=False, this one has True"):
        fixed.load_state_dict(learned.state_dict())


@pytest.mark.parametrize("kind", ["bfloat16", "graph"])
def test_labels_and_weights_may_be_tensors_of_any_kind(kind):
    torch = pytest.importorskip("torch")

    def made(values):
        tensor = torch.tensor(values)
        return tensor.bfloat16() if kind == "bfloat16" else tensor.requires_grad_()

    components = group_components(made([0.0, 0.0, 1.0]))
    np.testing.assert_array_equal(components, group_components([0, 0, 1]))
    sampler = MixtureSampler(components, batch_size=2, mixture_weights=made([0.5, 0.25, 0.25]))
    np.testing.assert_array_equal(sampler.mixture_weights, [0.5, 0.25, 0.25])


def test_components_may_be_numbers_in_objects_and_no_sparse_matrix():
    components = group_components(np.arange(6) % 3)
    frame = pd.DataFrame(components).astype("Float64")
    for as_objects in (frame, components.astype(object)):
        sampler = MixtureSampler(as_objects, batch_size=2)
        plain = MixtureSampler(components, batch_size=2)
        np.testing.assert_array_equal(sampler.probabilities, plain.probabilities)
    with pytest.raises(TypeError, match=r"must be dense, got a sparse matrix: .*toarray\(\)"):
        MixtureSampler(sparse.csr_array(components), batch_size=2)


def test_a_new_component_may_be_uniform_by_chance():
    components = group_components(np.arange(6) % 3)
    sampler = MixtureSampler(components, batch_size=2, mixture_weights="equal")
    components[-1] = 1 / 6
    sampler.set_probabilities(components)
    wanted = (components.sum(axis=0) + 1 / 6) / 4
    np.testing.assert_allclose(sampler.probabilities, wanted, rtol=1e-6)


def test_an_empty_replay_has_no_probabilities_and_components_are_pairs():
    with pytest.raises(RuntimeError, match="the replay is empty"):
        PrioritizedReplay(5, batch_size=1).probabilities  # noqa: B018
    with pytest.raises(ValueError, match="components must be pairs"):
        PrioritizedReplay(10, components=[(0.5, 0.1), (1,)], batch_size=2)
