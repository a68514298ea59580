"""The views of a network, against autograd: which layer they are of, and what they leave alone."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from handful.continual import network_views
from torch import nn


@pytest.fixture
def X():
    return torch.randn(20, 4, generator=torch.Generator().manual_seed(0))


Y = torch.arange(20) % 3


class Net(nn.Module):
    """A body of three units and a head of three classes, and what follows the head."""

    def __init__(self, after=None, *, head_first=False):
        super().__init__()
        torch.manual_seed(1)
        layers = {"body": nn.Linear(4, 3), "head": nn.Linear(3, 3)}
        for name in sorted(layers, reverse=head_first):
            self.add_module(name, layers[name])
        self.after = after

    def forward(self, X):
        logits = self.head(torch.relu(self.body(X)))
        return logits if self.after is None else self.after(logits)


def gradients_by_autograd(model, X, y):
    found = []
    for row, label in zip(X, y):
        losses = nn.functional.cross_entropy(model(row[None]), label[None])
        W, b = torch.autograd.grad(losses, [model.head.weight, model.head.bias])
        found.append(torch.cat([W, b[:, None]], dim=1).flatten())
    return torch.stack(found).numpy()


def masked(logits, value):
    return logits.masked_fill(torch.tensor([False, False, True]), value)


@pytest.mark.parametrize(
    "after",
    [
        None,
        nn.LogSoftmax(1),
        lambda logits: logits - logits.mean(dim=1, keepdim=True),
        lambda logits: masked(logits, -np.inf),
        lambda logits: masked(logits, -1e9),
        lambda logits: masked(logits, -1e9).log_softmax(1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_leaves_losses_alone_may_follow_the_head(after, dtype, X):
    model = Net(after).to(dtype)
    y = Y % 2
    views = network_views(model, X, y, batch_size=7)
    expected = gradients_by_autograd(model, X.to(dtype), y)
    np.testing.assert_allclose(views.gradients, expected, atol=1e-6)
    losses = nn.functional.cross_entropy(model(X.to(dtype)), y, reduction="none")
    np.testing.assert_allclose(views.losses[:, 0], losses.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "after",
    [
        nn.Softmax(1),
        nn.Sequential(nn.Softmax(1), nn.Softmax(1)),
        lambda logits: 20 * logits,
        lambda logits: logits.mul_(20),
        lambda logits: torch.stack([*logits[1:], logits[0]]),
        nn.Tanh(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_that_are_not_the_head_s_are_refused(after, dtype, X):
    message = "outputs are not those of the layer `head`.* leave out what follows it"
    with pytest.raises(ValueError, match=message):
        network_views(Net(after).to(dtype), X, Y, batch_size=7)
    with pytest.raises(ValueError, match=message):
        # a single logit: cross-entropy would see no difference
        network_views(nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), X)


def test_the_last_linear_layer_is_not_taken_for_a_head_that_comes_before_it(X):
    model = Net(head_first=True)
    assert next(name for name, _ in model.named_children()) == "head"
    with pytest.raises(ValueError, match="say which linear layer gives the logits"):
        network_views(model, X, Y)
    views = network_views(model, X, Y, head=model.head)
    np.testing.assert_allclose(views.gradients, gradients_by_autograd(model, X, Y), atol=1e-6)
    embeddings = torch.relu(model.body(X)).detach().numpy()
    np.testing.assert_allclose(views.embeddings, embeddings, atol=1e-6)


class Twice(Net):
    def forward(self, X):
        return super().forward(X) + super().forward(-X)


class Pieces(Net):
    """The mean of the logits of two halves of a row."""

    def forward(self, X):
        pieces = torch.cat([X, X], dim=1).reshape(-1, 4)
        return super().forward(pieces).reshape(len(X), 2, 3).mean(dim=1)


class Pair(Net):
    def forward(self, X):
        return super().forward(X), X


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Twice(), "used the layer `head` 2 times in a pass"),
        (Pieces(), "outputs are not those of the layer `head`"),
        (Pair(), "one tensor of logits, a row for each of 20 rows of X, got tuple"),
        (Net(lambda logits: logits.mean()), r"each of 20 rows of X, got shape \(\)"),
        (Net(lambda logits: logits[:5]), r"each of 20 rows of X, got shape \(5, 3\)"),
    ],
)
def test_a_model_that_gives_no_logits_of_one_head_is_told(model, message, X):
    with pytest.raises(ValueError, match=message):
        network_views(model, X)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_integers_that_a_model_does_not_take_are_told_the_way_out(dtype):
    images = np.arange(20).reshape(5, 4).astype(dtype)
    with pytest.raises(ValueError, match=r"Net fails on X of torch\..*: .*Give X as floats"):
        network_views(Net(), images)
    assert network_views(Net(), images.astype(float)).logits.shape == (5, 3)


def test_integers_that_a_model_does_take_stay_integers():
    words = torch.arange(12).reshape(4, 3)
    model = nn.Sequential(nn.Embedding(12, 2), nn.Flatten(), nn.Linear(6, 3))
    assert network_views(model, words).embeddings.shape == (4, 6)


@pytest.mark.parametrize("rows", [torch.zeros(0, 4), np.zeros((0, 4)), [], 3.0])
def test_no_rows_are_told(rows):
    with pytest.raises(ValueError, match="X must hold at least one row, got shape"):
        network_views(Net(), rows)


@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_a_model_that_begins_in_place_leaves_the_rows_alone(make):
    rows = make([[-1.0, 2.0, -3.0, 4.0]] * 3)
    rows = rows if isinstance(rows, torch.Tensor) else rows.astype(np.float32)
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3))
    views = network_views(model, rows)
    assert rows.tolist() == [[-1.0, 2.0, -3.0, 4.0]] * 3
    assert views.embeddings.tolist() == [[0.0, 2.0, 0.0, 4.0]] * 3
