"""MixMatch, supervised training, the networks, and the protocol of Figure 10 on tiny data."""

import json

import numpy as np
import pytest
import torch
from handful_papers.bico import active, active_data, few_labels
from handful_papers.bico.classifiers import Classifier, network
from handful_papers.bico.few_labels import MixMatch, SupervisedNetwork, mix_up, sharpen
from torch import nn


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


class MLP(Classifier):
    """Two hidden layers with batch normalisation, for rows of features: no network of the paper,
    but a fast one."""

    def __init__(self, n_classes, n_features, hidden=64):
        super().__init__()
        layers = []
        for before in (n_features, hidden):
            layers += [
                nn.Linear(before, hidden, bias=False),
                nn.BatchNorm1d(hidden),
                nn.ReLU(inplace=True),
            ]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(hidden, n_classes)


@pytest.fixture(autouse=True)
def a_network_for_rows_of_features(monkeypatch):
    make = few_labels.network

    def other(name, n_classes, shape):
        return MLP(n_classes, shape[0]) if name == "mlp" else make(name, n_classes, shape)

    monkeypatch.setattr(few_labels, "network", other)


def moons(n, rng):
    """Two half circles, with one labelled point at the end of each."""
    t = rng.uniform(0, np.pi, n)
    y = np.arange(n) % 2
    X = np.where(y[:, None], np.c_[1 - np.cos(t), 0.4 - np.sin(t)], np.c_[np.cos(t), np.sin(t)])
    return (X + 0.06 * rng.normal(size=X.shape)).astype(np.float32), y


# --- the pieces of MixMatch


def test_sharpening_is_the_power_and_keeps_order(generator):
    P = torch.rand(20, 5, generator=generator) + 0.1
    P /= P.sum(dim=1, keepdim=True)
    for i, row in enumerate(sharpen(P, 0.5)):
        squares = [float(p) ** 2 for p in P[i]]
        np.testing.assert_allclose(row.numpy(), np.array(squares) / sum(squares), rtol=1e-5)
    np.testing.assert_allclose(sharpen(P, 1.0).numpy(), P.numpy(), rtol=1e-6)


def test_mixed_rows_lie_between_two_rows_nearer_to_their_own(generator):
    x = torch.arange(8.0)[:, None]
    y = torch.eye(8)
    shares = torch.full((8,), 0.75)
    mixed, labels = mix_up(x, y, shares, generator)
    np.testing.assert_allclose(labels.sum(dim=1).numpy(), 1.0)
    # inputs and labels mix alike
    np.testing.assert_allclose((labels @ x).numpy(), mixed.numpy(), rtol=1e-6)
    assert (labels.diagonal() >= 0.75).all()


def test_mixmatch_learns_from_what_is_not_labelled():
    rng = np.random.default_rng(0)
    X, y = moons(400, rng)
    few = np.full(400, -1)
    for c in (0, 1):
        few[np.flatnonzero(y == c)[:3]] = c
    copies = X[:, None] + 0.1 * rng.normal(size=(400, 8, 2)).astype(np.float32)
    options = dict(n_steps=300, batch_size=32, learning_rate=3e-3, random_state=0)
    with_pool = np.mean(MixMatch("mlp", **options).fit(X, few, copies=copies).predict(X) == y)
    alone = np.mean(SupervisedNetwork("mlp", **options).fit(X, few, copies=copies).predict(X) == y)
    assert with_pool > alone
    assert with_pool > 0.9


def test_training_sees_what_it_should():
    rng = np.random.default_rng(0)
    X, y = moons(60, rng)
    few = np.where(np.arange(60) < 6, y, -1)
    options = dict(n_steps=20, batch_size=8, random_state=0)
    a = SupervisedNetwork("mlp", **options).fit(X, few)
    other = X.copy()
    other[6:] = rng.normal(size=other[6:].shape)
    b = SupervisedNetwork("mlp", **options).fit(other, few)
    # unlabelled rows mean nothing to it
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    a, b = (MixMatch("mlp", **options).fit(Z, few) for Z in (X, other))
    assert np.abs(a.predict_proba(X) - b.predict_proba(X)).max() > 1e-4
    again = MixMatch("mlp", **options).fit(X, few)
    np.testing.assert_array_equal(a.predict_proba(X), again.predict_proba(X))


def test_the_papers_network_has_its_size():
    with torch.device("meta"):
        net = network("wrn-28-10", 10, (32, 32))
        assert net(torch.empty(2, 1, 32, 32)).shape == (2, 10)
    # Table 4 of its paper
    assert sum(p.numel() for p in net.parameters()) == pytest.approx(36.5e6, rel=0.01)


# --- the protocol


@pytest.fixture(scope="module")
def tones():
    return active_data.prepare("spoken_tones", n_copies=5, cache=False, n=84)


TINY = dict(network="conv-4-8", n_steps=5, batch_size=8)


@pytest.mark.parametrize("method", active.METHODS_SHOWN)
def test_every_method_runs_the_whole_protocol(method, tones):
    proxy = active_data.Proxy(tones, kernel="rbf", n_landmarks=30, n_variants=2, cache=False)
    rows = active.run_active(tones, method, 0, sizes=[12, 16, 20], options=TINY, proxy=proxy)
    assert [r["labels"] for r in rows] == [12, 16, 20]
    chosen = rows[0]["chosen"] + rows[1]["chosen"]
    assert len(set(chosen)) == 8
    assert not set(chosen) & set(active.first_labels(tones.y, 12, seed=0).tolist())
    assert all(0 <= r["mistakes"] <= 4 and 1 <= r["classes"] <= 4 for r in rows[:-1])
    json.dumps(rows)


def test_first_labels_hold_every_class():
    y = np.repeat(np.arange(10), [91, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    for seed in range(20):
        first = active.first_labels(y, 12, seed=seed)
        assert len(set(first.tolist())) == 12
        assert set(y[first]) == set(range(10))
    with pytest.raises(ValueError, match="at least the number of classes"):
        active.first_labels(y, 9, seed=0)


def test_proxy_features_of_variants_are_those_of_the_kernel(tones):
    proxy = active_data.Proxy(tones, kernel="rbf", n_landmarks=60, n_variants=3, cache=False)
    Z = proxy.Z.astype(float)
    V = proxy.variants(4).astype(float)
    assert V.shape == (3, Z.shape[1])
    rows = tones.X.reshape(len(tones.X), -1)
    own = tones.copies[4, :3].reshape(3, -1).astype(float)
    K = np.exp(-0.3 / 1024 * ((own[:, None] - rows[None].astype(float)) ** 2).sum(axis=2))
    np.testing.assert_allclose(V @ Z.T, K, atol=2e-2)
    with pytest.raises(ValueError, match="at most the 5 presampled"):
        active_data.Proxy(tones, n_variants=6, cache=False)
