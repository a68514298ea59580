"""Baselines that look at losses, predictions, embeddings or gradients."""

from itertools import combinations

import numpy as np
import pytest
from handful.baselines import FRCL, Hardest, Herding, ICaRL, MaxEntropy
from scipy.special import softmax


def naive_herding(X, size, target):
    chosen = []
    for _ in range(size):
        left = [i for i in range(len(X)) if i not in chosen]
        distance = [np.linalg.norm(X[[*chosen, i]].mean(axis=0) - target) for i in left]
        chosen.append(left[int(np.argmin(distance))])
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_herding_is_the_naive_loop_over_running_means(seed):
    rng = np.random.default_rng(seed)
    X, u = rng.normal(size=(40, 3)), rng.exponential(size=40)
    raw = Herding(15, normalise=False).fit(X, sample_weight=u)
    assert raw.indices_.tolist() == naive_herding(X, 15, u @ X / u.sum())
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    assert Herding(15).fit(7 * X).indices_.tolist() == naive_herding(unit, 15, unit.mean(axis=0))


def test_icarl_herds_each_class_and_lets_the_classes_take_turns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.repeat(["a", "b", "c"], [30, 28, 2])
    fit = ICaRL(12).fit(X, y)
    assert y[fit.indices_].tolist() == list("abcabcababab")
    for label in "abc":
        members = np.flatnonzero(y == label)
        mine = fit.indices_[y[fit.indices_] == label]
        alone = Herding(len(mine)).fit(X[members])
        assert (mine == members[alone.indices_]).all()


def test_hardest_takes_the_largest_losses_and_max_entropy_the_least_certain_rows():
    rng = np.random.default_rng(0)
    losses, logits = rng.exponential(size=(50, 1)), 3 * rng.normal(size=(50, 4))
    assert Hardest(50, random_state=0).fit(losses).indices_.tolist() == np.argsort(-losses[:, 0]).tolist()
    p = softmax(logits, axis=1)
    entropy = -(p * np.log(p)).sum(axis=1)
    assert MaxEntropy(50, random_state=0).fit(logits).indices_.tolist() == np.argsort(-entropy).tolist()


def test_equal_losses_come_in_random_order():
    first = [Hardest(1, random_state=seed).fit(np.ones((10, 1))).indices_[0] for seed in range(50)]
    assert len(set(first)) > 5


def posterior_trace(X, chosen, noise, u=1.0):
    K = X @ X.T
    S = np.array(chosen)
    return np.sum(u * np.diag(K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)] + noise * np.eye(len(S)), K[S])))


def test_frcl_finds_the_best_subset_of_a_small_set():
    for seed in range(10):
        X = np.random.default_rng(seed).normal(size=(12, 4))
        noise = 1e-3 * (X**2).sum(axis=1).mean()
        best = min(combinations(range(12), 3), key=lambda S: posterior_trace(X, S, noise))
        chosen = FRCL(3, n_sweeps=10, n_candidates=50, random_state=seed).fit(X).indices_
        ratio = posterior_trace(X, chosen, noise) / posterior_trace(X, best, noise)
        assert ratio < 1.1  # exchanges end where no single one helps, near the best subset


def test_frcl_lowers_the_variance_of_rows_by_their_weight():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, u = rng.normal(size=(12, 4)), 10.0 ** rng.uniform(-1, 1, 12)
        noise = 1e-3 * (X**2).sum(axis=1).mean()
        best = min(combinations(range(12), 3), key=lambda S: posterior_trace(X, S, noise, u))
        chosen = FRCL(3, n_sweeps=10, n_candidates=50, random_state=seed).fit(X, sample_weight=u).indices_
        assert posterior_trace(X, chosen, noise, u) < 1.1 * posterior_trace(X, best, noise, u)
        # among the chosen, too: the first is the one that helps most
        first = min(chosen, key=lambda i: posterior_trace(X, [i], noise, u))
        assert chosen[0] == first


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        (dict(noise=np.nan), "noise must be .* at least 1e-10 .* got noise=nan"),
        (dict(noise=-1.0), "noise must be .* at least 1e-10 .* got noise=-1.0"),
        (dict(noise=0), "noise must be .* at least 1e-10 .* got noise=0"),
        (dict(n_sweeps=-1), "n_sweeps must be an integer of at least 0, got n_sweeps=-1"),
        (dict(n_sweeps=1.5), "n_sweeps must be an integer of at least 0, got n_sweeps=1.5"),
        (dict(n_candidates=0), "n_candidates must be an integer of at least 1, got n_candidates=0"),
        (dict(n_candidates=-3), "n_candidates must be an integer of at least 1, got n_candidates=-3"),
    ],
)
def test_bad_options_of_frcl_are_named(option, wanted):
    with pytest.raises(ValueError, match=wanted):
        FRCL(2, **option).fit(np.eye(4))


def test_the_first_rows_of_frcl_are_a_better_small_set_than_random_ones():
    X = np.random.default_rng(0).normal(size=(200, 20)) * np.linspace(0.1, 2, 20)
    noise = 1e-3 * (X**2).sum(axis=1).mean()
    chosen = FRCL(40, random_state=0).fit(X).indices_
    random = [np.random.default_rng(s).choice(200, 10, replace=False) for s in range(20)]
    assert posterior_trace(X, chosen[:10], noise) < min(posterior_trace(X, r, noise) for r in random)


@pytest.mark.parametrize("cls", [Hardest, MaxEntropy, Herding, ICaRL])
def test_a_prefix_is_the_smaller_selection(cls):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(3, size=60)
    largest = cls(30, random_state=0).fit(X, y).indices_
    for size in (1, 5, 17):
        assert (cls(size, random_state=0).fit(X, y).indices_ == largest[:size]).all()
