"""Stacked training: each run of a stack is the run alone, and both are what autograd gives."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from handful_papers.bico.networks import Dropout, DropoutPoolReLU, small_cnn
from handful_papers.bico.stacked import StackedMLP, TorchRuns, _mask
from torch.nn.functional import cross_entropy

WIDTHS = (12, 9, 7, 4)


class MLP(torch.nn.Sequential):
    """Two hidden layers with ReLU and dropout, as `StackedMLP` has them."""

    def __init__(self, widths, dropout=0.2):
        layers = []
        for fan_in, fan_out in pairwise(widths[:-1]):
            layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
        super().__init__(*layers, torch.nn.Linear(*widths[-2:]))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 12)).astype(np.float32)
    y = rng.integers(4, size=70)
    memory = (
        rng.normal(size=(3, 10, 12)).astype(np.float32),
        rng.integers(4, size=(3, 10)),
        rng.random((3, 10)),
    )
    return X, y, memory


def naive_fit(net, run, X, y, memory, *, n_epochs, batch_size, key):
    # one run, written with autograd and torch's own Adam
    parameters = [p[run].detach().clone().requires_grad_() for p in net.parameters]
    optimiser = torch.optim.Adam(parameters, lr=net.learning_rate)
    W1, b1, W2, b2, W3, b3 = parameters
    rng = np.random.default_rng([*net.seed, 1, key])
    X = torch.as_tensor(X)
    y = torch.as_tensor(y)
    kept, labels, coefficients = (torch.as_tensor(a[run]) for a in memory)
    for _ in range(n_epochs):
        order = rng.permutation(len(X))
        for start in range(0, len(X), batch_size):
            batch = order[start : start + batch_size]
            rows = torch.cat([X[batch], kept])
            masks = [_mask(rng, (len(rows), width), net.dropout).T for width in WIDTHS[1:3]]
            hidden = torch.relu(rows @ W1.T + b1.T) * masks[0]
            logits = torch.relu(hidden @ W2.T + b2.T) * masks[1] @ W3.T + b3.T
            loss = cross_entropy(logits[: len(batch)], y[batch])
            loss = (
                loss
                + (
                    coefficients * cross_entropy(logits[len(batch) :], labels, reduction="none")
                ).sum()
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return parameters


def test_each_run_of_a_stack_is_what_autograd_gives(data):
    X, y, memory = data
    net = StackedMLP(WIDTHS, 3, seed=5, learning_rate=1e-2)
    expected = [
        naive_fit(net, run, X, y, memory, n_epochs=6, batch_size=32, key=2) for run in range(3)
    ]
    net.fit(X, y, n_epochs=6, batch_size=32, memory=memory, key=2)
    for run in range(3):
        for ours, theirs in zip(net.parameters, expected[run]):
            np.testing.assert_allclose(ours[run].detach(), theirs.detach(), atol=2e-5)
    # their memories told them apart
    assert not torch.allclose(net.parameters[0][0], net.parameters[0][1], atol=1e-3)


@pytest.mark.parametrize("kind", ["dense", "torch"])
def test_a_run_in_a_stack_is_the_run_alone(kind, data):
    X, y, memory = data

    def start(n_runs):
        if kind == "dense":
            return StackedMLP(WIDTHS, n_runs, seed=1, learning_rate=1e-2)
        return TorchRuns(lambda: MLP(WIDTHS), n_runs, seed=1, learning_rate=1e-2)

    options = dict(n_epochs=4, batch_size=32)
    stack = start(1).fit(X, y, key=1, **options).repeat(3)
    stack.fit(X[::-1].copy(), y[::-1].copy(), memory=memory, key=2, **options)
    for run in range(3):
        alone = start(1).fit(X, y, key=1, **options)
        alone.fit(
            X[::-1].copy(),
            y[::-1].copy(),
            memory=[a[run : run + 1] for a in memory],
            key=2,
            **options,
        )
        np.testing.assert_allclose(stack.logits(X)[run], alone.logits(X)[0], atol=1e-4)
        np.testing.assert_allclose(stack.logits(X, run), stack.logits(X)[run], atol=1e-5)
        assert stack.accuracy(X, y)[run] == pytest.approx(alone.accuracy(X, y)[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: StackedMLP(WIDTHS, 3, dropout=0.0),
        lambda: TorchRuns(lambda: MLP(WIDTHS, dropout=0.0), 3),
    ],
)
def test_weighing_rows_is_repeating_them(make, data):
    X, y, _ = data
    times = np.arange(70) % 3
    weighed = make().fit(X, y, n_epochs=5, batch_size=70, sample_weight=times / times.mean())
    rows = np.repeat(np.arange(70), times)
    repeated = make().fit(X[rows], y[rows], n_epochs=5, batch_size=len(rows))
    np.testing.assert_allclose(weighed.logits(X), repeated.logits(X), atol=1e-4)


def test_the_cnn_is_the_paper_s():
    torch.manual_seed(0)
    net = small_cnn()
    sizes = [p.numel() for p in net.parameters()]
    # 5x5 convolutions of 32 and 64 filters, then 1024-128-10
    assert sizes == [25 * 32, 32, 25 * 32 * 64, 64, 1024 * 128, 128, 1280, 10]
    assert small_cnn((3, 32, 32))[-4].in_features == 64 * 5 * 5
    runs = TorchRuns(small_cnn, 1, learning_rate=1e-3)
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=64)
    X = rng.normal(size=(64, 784)).astype(np.float32) + 0.5 * y[:, None].astype(np.float32)
    assert runs.fit(X, y, n_epochs=6, batch_size=16).accuracy(X, y)[0] > 90
    assert runs.views(X, y, 0).embeddings.shape == (64, 128)


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_dropout_is_torchs_own_in_distribution(share, dtype, layout):
    x = torch.ones(40, 16, 9, 9, dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    torch.manual_seed(0)
    ours = Dropout(share)(x)
    torchs = torch.nn.Dropout(share)(x)
    assert set(ours.unique().tolist()) == set(torchs.unique().tolist())
    assert ours.stride() == x.stride()
    # units, images and channels are dropped alike and independently: shares within six deviations
    dropped = (ours == 0).double()
    for axes in [(0, 1, 2, 3), (1, 2, 3), (0, 2, 3), (0, 1)]:
        off = dropped.mean(axes) - share
        n = dropped.numel() / off.numel()
        assert off.abs().max() < 6 * (share * (1 - share) / n) ** 0.5
    signs = dropped.flatten() - share
    for lag in (1, 2, 3, 4, 9, 81):
        together = (signs[lag:] * signs[:-lag]).mean()
        assert together.abs() < 6 * share * (1 - share) / len(signs) ** 0.5
    # the mask is also that of the gradients
    ours.sum().backward()
    assert torch.equal(x.grad, ours.detach())
    # the same seed, the same mask; another call, another one
    torch.manual_seed(0)
    layer = Dropout(share)
    assert torch.equal(layer(x), ours)
    assert not torch.equal(layer(x), ours)
    assert layer.eval()(x) is x


@pytest.mark.parametrize("share", [0.5, 0.2, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(5, 8, 6, 4), (3, 1, 7, 5)])
def test_dropout_pooling_and_relu_at_once_are_the_three_layers(share, dtype, shape):
    # Few values, so that pixels of a window are often equal.
    values = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(1))
    x = values.to(dtype).contiguous(memory_format=torch.channels_last)
    layers = torch.nn.Sequential(Dropout(share), torch.nn.MaxPool2d(2), torch.nn.ReLU())
    found = []
    for module in (DropoutPoolReLU(share), layers):
        units = x.clone().requires_grad_()
        torch.manual_seed(0)
        pooled = module(units)
        (pooled.float() * torch.linspace(1, 2, pooled.numel()).view(pooled.shape)).sum().backward()
        found.append((pooled.detach(), units.grad))
    (pooled, gradient), (expected, wanted) = found
    assert pooled.dtype == dtype
    torch.testing.assert_close(pooled, expected)
    torch.testing.assert_close(gradient, wanted)
    assert torch.equal(module[0].eval()(x), x)
    assert torch.equal(DropoutPoolReLU(share).eval()(x), layers.eval()(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), float("inf"), -float("inf")])
def test_a_unit_that_is_no_number_is_not_pooled_away(dtype, bad):
    x = torch.ones(2, 3, 4, 4, dtype=dtype)
    x[1, 2, 3, 0] = bad
    assert DropoutPoolReLU(0.5)(x).isnan().any()
    assert DropoutPoolReLU(0.5)(torch.ones_like(x)).isfinite().all()
