"""Influence on a network's predictions, against ridge regression on gradients that are written out."""

import numpy as np
import pytest
import torch
from handful import network_influence
from torch.nn import Conv1d, Dropout, Linear, ReLU, Sequential


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Sequential(Linear(4, 6), ReLU(), Dropout(0.5), Linear(6, 5, bias=False), ReLU(), Linear(5, 3)).double()


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 4)), rng.integers(3, size=20), rng.normal(size=(7, 4)), rng.integers(3, size=7)


def written_out(model, X, y):
    """Gradients of the margins in all parameters, and one less the labels' probabilities."""
    gradients, rest = [], []
    for x, label in zip(torch.as_tensor(X), y):
        p = torch.softmax(model.eval()(x[None]), dim=1)[0, label]
        gradients.append(torch.cat([g.ravel() for g in torch.autograd.grad((p / (1 - p)).log(), model.parameters())]))
        rest.append(1 - p.item())
    return torch.stack(gradients).numpy(), np.array(rest)


def scaled(scores):
    return scores / np.sqrt((scores**2).mean(axis=0))


def expected(model, X, y, X_test, y_test):
    (F, rest), (G, _) = written_out(model, X, y), written_out(model, X_test, y_test)
    ridge = (F**2).sum(axis=1).mean() * np.eye(F.shape[1])
    return scaled(rest[:, None] * (F @ np.linalg.solve(F.T @ F + ridge, G.T)))


def test_it_is_ridge_regression_on_the_gradients_of_the_margins(network, rows):
    np.testing.assert_allclose(network_influence(network, *rows), expected(network, *rows), atol=1e-9)


def test_networks_count_alike_and_are_left_as_they_were(network, rows):
    other = Sequential(Linear(4, 3)).double()
    with torch.no_grad():
        other[0].weight.mul_(5)
    both = network_influence([network.train(), other.eval()], *rows)
    assert (network.training, other.training) == (True, False)
    assert not any(m._forward_hooks for m in network.modules())
    np.testing.assert_allclose(both, (expected(network, *rows) + expected(other, *rows)) / 2, atol=1e-9)


def test_a_row_helps_its_own_prediction_and_so_does_its_double(network, rows):
    X, y, _, _ = rows
    scores = network_influence(network, X, y, X, y)
    assert (np.diag(scores) > 0).all()
    twice = network_influence(network, np.vstack([X, X[:1]]), np.append(y, y[0]), X, y)
    np.testing.assert_allclose(twice[-1], twice[0], atol=1e-9)


def test_what_it_does_not_know_is_refused(network, rows):
    X, y, X_test, y_test = rows
    with pytest.raises(TypeError, match=r"knows linear layers, but Sequential has 0\.weight, 0\.bias"):
        network_influence(Sequential(Conv1d(1, 2, 3), Linear(2, 3)), *rows)
    for labels in (y_test + 1, y_test[:-1], y_test - 1):
        with pytest.raises(ValueError, match="labels must be one of 0 to 2 for each of 7 rows"):
            network_influence(network, X, y, X_test, labels)
    assert not any(m._forward_hooks for m in network.modules())
