"""Influence on a network's predictions, against ridge regression on gradients that autograd gives
row by row."""

import numpy as np
import pytest
import torch
from handful_papers.public.network_influence import network_influence
from torch import nn
from torch.nn import Conv1d, Dropout, Linear, ReLU, Sequential


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Sequential(
        Linear(4, 6), ReLU(), Dropout(0.5), Linear(6, 5, bias=False), ReLU(), Linear(5, 3)
    ).double()


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(20, 4)),
        rng.integers(3, size=20),
        rng.normal(size=(7, 4)),
        rng.integers(3, size=7),
    )


def written_out(model, X, y):
    """Gradients of the margins in all trained parameters, and one less the labels'
    probabilities."""
    gradients = []
    rest = []
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for x, label in zip(torch.as_tensor(X).clone(), y):
        p = torch.softmax(model.eval()(x[None]), dim=1)[0, label]
        own = torch.autograd.grad((p / (1 - p)).log(), trained, allow_unused=True)
        own = [torch.zeros_like(of) if g is None else g for of, g in zip(trained, own)]
        gradients.append(torch.cat([g.ravel() for g in own]))
        rest.append(1 - p.item())
    return torch.stack(gradients).numpy(), np.array(rest)


def scaled(scores):
    return scores / np.sqrt((scores**2).mean(axis=0))


def expected(model, X, y, X_test, y_test):
    (F, rest) = written_out(model, X, y)
    (G, _) = written_out(model, X_test, y_test)
    ridge = (F**2).sum(axis=1).mean() * np.eye(F.shape[1])
    return scaled(rest[:, None] * (F @ np.linalg.solve(F.T @ F + ridge, G.T)))


def test_it_is_ridge_regression_on_the_gradients_of_the_margins(network, rows):
    np.testing.assert_allclose(
        network_influence(network, *rows), expected(network, *rows), atol=1e-9
    )


def test_networks_count_alike_and_are_left_as_they_were(network, rows):
    other = Sequential(Linear(4, 3)).double()
    with torch.no_grad():
        other[0].weight.mul_(5)
    both = network_influence([network.train(), other.eval()], *rows)
    assert (network.training, other.training) == (True, False)
    assert not any(m._forward_hooks for m in network.modules())
    np.testing.assert_allclose(
        both, (expected(network, *rows) + expected(other, *rows)) / 2, atol=1e-9
    )


def test_a_row_helps_its_own_prediction_and_so_does_its_double(network, rows):
    X, y, _, _ = rows
    scores = network_influence(network, X, y, X, y)
    assert (np.diag(scores) > 0).all()
    twice = network_influence(network, np.vstack([X, X[:1]]), np.append(y, y[0]), X, y)
    np.testing.assert_allclose(twice[-1], twice[0], atol=1e-9)


def test_what_it_does_not_know_is_refused(network, rows):
    X, y, X_test, y_test = rows
    with pytest.raises(
        TypeError, match=r"knows linear layers, but Sequential has 0\.weight, 0\.bias"
    ):
        network_influence(Sequential(Conv1d(1, 2, 3), Linear(2, 3)), *rows)
    for labels in (y_test + 1, y_test[:-1], y_test - 1):
        with pytest.raises(ValueError, match="labels must be one of 0 to 2 for each of 7 rows"):
            network_influence(network, X, y, X_test, labels)
    assert not any(m._forward_hooks for m in network.modules())


# --- networks that are more than a chain of layers, each called once


class Net(nn.Module):
    """Two layers of the rows' width and one that gives logits; subclasses call them in their own
    ways."""

    def __init__(self):
        super().__init__()
        self.a = Linear(4, 4)
        self.c = Linear(4, 4)
        self.b = Linear(4, 3)

    def forward(self, x):
        return self.b(torch.relu(self.c(torch.relu(self.a(x)))))


class InPlace(Net):
    def forward(self, x):
        h = self.a(x.mul_(2))
        h += x
        return self.b(torch.relu_(self.c(h.tanh_())))


class CalledTwice(Net):
    def forward(self, x):
        return self.b(torch.relu(self.a(torch.relu(self.a(x)))))


class TiedWeight(Net):
    def __init__(self):
        super().__init__()
        self.c.weight = self.a.weight


class TiedBoth(TiedWeight):
    def __init__(self):
        super().__init__()
        self.c.bias = self.a.bias


class Unused(Net):
    """A layer that is not called, and one that is called to no end."""

    def __init__(self):
        super().__init__()
        self.d = Linear(4, 2)

    def forward(self, x):
        self.c(x)
        return self.b(torch.relu(self.a(x)))


class FrozenFirst(Net):
    def __init__(self):
        super().__init__()
        self.a.requires_grad_(False)


class FrozenWeight(Net):
    def __init__(self):
        super().__init__()
        self.c.weight.requires_grad_(False)
        self.b.bias.requires_grad_(False)


class Detached(Net):
    def forward(self, x):
        with torch.no_grad():
            h = self.a(x)
        return self.b(torch.relu(self.c(input=h)))


FOLLOWED = [InPlace, CalledTwice, TiedWeight, TiedBoth, Unused, FrozenFirst, FrozenWeight, Detached]


@pytest.mark.parametrize("kind", FOLLOWED, ids=lambda kind: kind.__name__)
def test_it_is_right_for_layers_that_are_shared_repeated_frozen_unused_or_followed_in_place(
    kind, rows
):
    model = kind().double()
    given = [part.copy() for part in rows]
    np.testing.assert_allclose(network_influence(model, *given), expected(model, *rows), atol=1e-9)
    for part, before in zip(given, rows):
        np.testing.assert_array_equal(part, before)


class Functional(Net):
    def forward(self, x):
        return nn.functional.linear(torch.relu(self.a(x)), self.b.weight, self.b.bias)


class Transposed(Net):
    def forward(self, x):
        return self.b(torch.relu(self.a(x)) @ self.a.weight)


class Sequences(Net):
    def forward(self, x):
        return self.b(torch.relu(self.a(x[:, None].expand(-1, 2, -1))).mean(dim=1))


class Centred(Net):
    def forward(self, x):
        return super().forward(x - x.mean(dim=0))


class Chance(Net):
    def forward(self, x):
        return self.b(nn.functional.dropout(torch.relu(self.a(x)), 0.5, training=True))


class Doubled(Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Scaled(Linear):
    def __init__(self, *shape):
        super().__init__(*shape)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * super().forward(x)


class TiedToAnEmbedding(Net):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(4, 4)
        self.e.weight = self.a.weight


REFUSED = [
    (Functional, ValueError, "cannot follow b.weight, which the model uses outside"),
    (Transposed, ValueError, "cannot follow a.weight, which the model uses outside"),
    (Sequences, ValueError, "must see a vector a row"),
    (Centred, ValueError, "must depend on that row alone"),
    (Chance, ValueError, "must depend on that row alone"),
    (lambda: Sequential(Doubled(4, 3)), ValueError, "cannot follow 0.weight"),
    (lambda: Sequential(Scaled(4, 3)), TypeError, "but Sequential has 0.scale"),
    (TiedToAnEmbedding, TypeError, "has e.weight"),
    (
        lambda: nn.utils.parametrizations.weight_norm(Linear(4, 3)),
        TypeError,
        "has parametrizations.weight",
    ),
    (
        lambda: Linear(4, 3).requires_grad_(False),
        ValueError,
        "no parameter that asks for a gradient",
    ),
    (lambda: Linear(4, 1), ValueError, "two classes at least"),
    (lambda: nn.Identity(), ValueError, "no parameter that asks for a gradient"),
]


@pytest.mark.parametrize(("make", "error", "words"), REFUSED)
def test_what_it_cannot_follow_is_refused_by_name_and_left_as_it_was(make, error, words, rows):
    model = make().double()
    with pytest.raises(error, match=words):
        network_influence(model, *rows)
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())


def test_parts_that_were_in_evaluation_mode_stay_in_it(network, rows):
    network.train()
    network[2].eval()
    network_influence(network, *rows)
    assert [module.training for module in network] == [True, True, False, True, True, True]


def test_labels_that_are_no_whole_numbers_and_what_is_no_network_are_refused(network, rows):
    X, y, X_test, y_test = rows
    with pytest.raises(ValueError, match="labels must be one of 0 to 2 for each of 20 rows"):
        network_influence(network, X, y + 0.5, X_test, y_test)
    with pytest.raises(TypeError, match=r"needs a torch\.nn\.Module, got NoneType"):
        network_influence(None, *rows)
    with pytest.raises(ValueError, match="got an empty list"):
        network_influence([], *rows)
