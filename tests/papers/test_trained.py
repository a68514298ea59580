"""Baselines that look at losses, predictions or embeddings, and at what is forgotten in
training."""

from itertools import combinations

import numpy as np
import pytest
from handful.baselines import Herding
from handful_papers.bico.forgetting import ForgettingEvents, forgetting_events
from handful_papers.bico.trained import FRCL, Hardest, ICaRL, MaxEntropy
from scipy import sparse
from scipy.special import softmax


def test_icarl_herds_each_class_and_lets_the_classes_take_turns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.repeat(["a", "b", "c"], [30, 28, 2])
    fit = ICaRL(12).fit(X, y)
    assert y[fit.indices_].tolist() == list("abcabcababab")
    for label in "abc":
        members = np.flatnonzero(y == label)
        mine = fit.indices_[y[fit.indices_] == label]
        alone = Herding(len(mine)).fit(X[members])
        assert (mine == members[alone.indices_]).all()


def test_hardest_takes_the_largest_losses_and_max_entropy_the_least_certain_rows():
    rng = np.random.default_rng(0)
    losses = rng.exponential(size=(50, 1))
    logits = 3 * rng.normal(size=(50, 4))
    assert (
        Hardest(50, random_state=0).fit(losses).indices_.tolist()
        == np.argsort(-losses[:, 0]).tolist()
    )
    p = softmax(logits, axis=1)
    entropy = -(p * np.log(p)).sum(axis=1)
    assert (
        MaxEntropy(50, random_state=0).fit(logits).indices_.tolist()
        == np.argsort(-entropy).tolist()
    )


def posterior_trace(X, chosen, noise, u=1.0):
    K = X @ X.T
    S = np.array(chosen)
    return np.sum(
        u * np.diag(K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)] + noise * np.eye(len(S)), K[S]))
    )


def test_frcl_lowers_the_variance_of_rows_by_their_weight():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 4))
        u = 10.0 ** rng.uniform(-1, 1, 12)
        noise = 1e-3 * (X**2).sum(axis=1).mean()
        best = min(combinations(range(12), 3), key=lambda S: posterior_trace(X, S, noise, u))
        chosen = (
            FRCL(3, n_sweeps=10, n_candidates=50, random_state=seed)
            .fit(X, sample_weight=u)
            .indices_
        )
        assert posterior_trace(X, chosen, noise, u) < 1.1 * posterior_trace(X, best, noise, u)
        # among the chosen, too: the first is the one that helps most
        first = min(chosen, key=lambda i: posterior_trace(X, [i], noise, u))
        assert chosen[0] == first


@pytest.mark.parametrize("cls", [Hardest, MaxEntropy, Herding, ICaRL])
def test_a_prefix_is_the_smaller_selection(cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = rng.integers(3, size=60)
    largest = cls(30, random_state=0).fit(X, y).indices_
    for size in (1, 5, 17):
        assert (cls(size, random_state=0).fit(X, y).indices_ == largest[:size]).all()


def test_events_are_counted_as_one_would_by_hand():
    history = ["++++", "----", "+-+-", "-+-+", "-++-", "+-++", "---+"]
    correct = np.array([[mark == "+" for mark in row] for row in history]).T
    assert forgetting_events(correct).tolist() == [0, np.inf, 2, 1, 1, 1, 0]


def test_mislabelled_rows_are_never_learned_or_often_forgotten():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    X = 4 * np.eye(3)[y] + rng.normal(size=(600, 3))
    wrong = rng.choice(600, 30, replace=False)
    y[wrong] = (y[wrong] + 1) % 3
    for data in (X, sparse.csr_matrix(X)):
        chosen = ForgettingEvents(40, random_state=0).fit(data, np.array(["a", "b", "c"])[y])
        assert len(set(chosen.indices_) & set(wrong)) >= 24
        assert (np.diff(chosen.events_[chosen.indices_]) <= 0)[
            np.isfinite(chosen.events_[chosen.indices_])[1:]
        ].all()


def test_smaller_selections_are_prefixes_and_rows_of_weight_zero_are_absent():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 3))
    y = rng.integers(2, size=80)
    u = (np.arange(80) % 3 > 0) * 2.0
    few, many = (ForgettingEvents(m, random_state=0).fit(X, y, sample_weight=u) for m in (10, 40))
    assert (few.indices_ == many.indices_[:10]).all()
    assert (u[many.indices_] > 0).all()
    assert np.isnan(many.events_).sum() == (u == 0).sum()
