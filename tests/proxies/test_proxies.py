"""Tangent kernels: against Monte Carlo, the closed form, wide finite networks, and a loop over
pixels."""

import math
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from handful.proxies import CNTK, NTK, RBF
from handful.proxies.kernels import Kernel
from handful.proxies.ntk import through_relu
from sklearn.metrics.pairwise import rbf_kernel
from torch.func import functional_call, grad, vmap
from torch.nn.functional import conv2d

KERNELS = [
    RBF(0.1),
    NTK(2),
    NTK(1, w_std=1.4, b_std=0.0),
    CNTK(shape=(1, 4, 6)),
    CNTK((3, 5), shape=(2, 4, 3), head="pool"),
    CNTK.arora(4, shape=(1, 4, 6)),
]


# --- one layer


@pytest.mark.parametrize("cosine", [-0.9, -0.2, 0.0, 0.4, 0.95])
def test_relu_layer_gives_the_moments_of_gaussians(cosine, rng):
    q_x = 0.7
    q_y = 2.0
    root = np.linalg.cholesky(
        [[q_x, cosine * math.sqrt(q_x * q_y)], [cosine * math.sqrt(q_x * q_y), q_y]]
    )
    u, v = root @ rng.normal(size=(2, 1_000_000))
    s, t = through_relu(np.array(cosine * math.sqrt(q_x * q_y)), 1.0, np.array(q_x), np.array(q_y))
    for value, draws in [
        (s, np.maximum(u, 0) * np.maximum(v, 0)),
        (t, ((u > 0) & (v > 0)).astype(float)),
    ]:
        assert abs(value - draws.mean()) < 4 * draws.std() / 1000


# --- dense networks


def test_ntk_of_one_hidden_layer_is_the_closed_form(rng):
    x, y = rng.normal(size=(2, 5))
    w = 1.3**2
    b = 0.2**2
    covariance = [w * (u @ v) / 5 + b for u, v in ((x, x), (x, y), (y, y))]
    norm = math.sqrt(covariance[0] * covariance[2])
    angle = math.acos(covariance[1] / norm)
    hidden = norm * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
    slope = (math.pi - angle) / (2 * math.pi)
    expected = w * hidden + b + w * slope * covariance[1]
    assert NTK(1, w_std=1.3, b_std=0.2)(x[None], y[None])[0, 0] == pytest.approx(
        expected, rel=1e-12
    )


def test_ntk_without_hidden_layers_is_the_linear_models(rng):
    X = rng.normal(size=(6, 4))
    np.testing.assert_allclose(NTK(0, w_std=1.0, b_std=0.5)(X), X @ X.T / 4 + 0.25)


class Wide(torch.nn.Module):
    """A finite network in the NTK parameterisation: weights and biases are standard normal and
    scaled when used."""

    def __init__(self, sizes, filters, head, w_std, b_std, image, generator):
        super().__init__()
        self.filters = filters
        self.head = head
        self.w_std = w_std
        self.b_std = b_std
        self.image = image

        def normal(*shape):
            return torch.nn.Parameter(torch.randn(shape, generator=generator))

        self.weights = torch.nn.ParameterList()
        self.biases = torch.nn.ParameterList()
        fan_in = image[0]
        for width, channels in zip(filters, sizes):
            self.weights.append(normal(channels, fan_in, width, width))
            self.biases.append(normal(channels))
            fan_in = channels
        fan_in *= image[1] * image[2] if head == "flatten" else 1
        for width in (*sizes[len(filters) :], 1):
            self.weights.append(normal(width, fan_in))
            self.biases.append(normal(width))
            fan_in = width

    def forward(self, x):
        z = x.reshape(1, *self.image)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            scale = self.w_std / math.sqrt(weight[0].numel())
            if k < len(self.filters):
                z = conv2d(z, scale * weight, self.b_std * bias, padding=self.filters[k] // 2)
            else:
                if k == len(self.filters):
                    z = z.mean((2, 3)) if self.head == "pool" else z.flatten(1)
                z = z @ (scale * weight).T + self.b_std * bias
            z = z.relu() if k < last else z
        return z[0, 0]


def assert_is_empirical(exact, X, *network, draws=20):
    """The mean over wide networks of their gradients' inner products is `exact`.

    One hidden layer has no bias; each further one has one of the order of 1 / width, for which 1 %
    is left.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.as_tensor(X, dtype=torch.float32)
    found = []
    for _ in range(draws):
        net = Wide(*network, generator)
        slopes = grad(lambda parameters, x, net=net: functional_call(net, parameters, (x,)))
        parts = vmap(slopes, in_dims=(None, 0))(dict(net.named_parameters()), rows)
        J = torch.cat([part.flatten(1) for part in parts.values()], 1)
        found.append((J @ J.T).detach().numpy())
    error = np.std(found, axis=0, ddof=1) / np.sqrt(draws)
    assert (error < 0.05 * exact.max()).all()
    assert (np.abs(np.mean(found, axis=0) - exact) < 4 * error + 0.01 * exact.max()).all()


def test_ntk_is_the_empirical_kernel_of_wide_networks(rng):
    X = rng.normal(size=(4, 6))
    exact = NTK(2, w_std=1.2, b_std=0.3)(X)
    assert_is_empirical(exact, X, (1024,) * 2, (), "flatten", 1.2, 0.3, (6, 1, 1))


@pytest.mark.parametrize(("filters", "head"), [((3, 5), "flatten"), ((3, 3), "pool")])
def test_cntk_is_the_empirical_kernel_of_wide_convolutional_networks(filters, head, rng):
    image = (2, 4, 5)
    X = rng.normal(size=(4, math.prod(image)))
    # a pair that is alike, so that entries differ
    X[1] = X[0] + 0.3 * X[1]
    exact = CNTK(filters, head=head, hidden=1, shape=image, w_std=1.3, b_std=0.2)(X)
    sizes = (256,) * len(filters) + (512,)
    assert np.ptp(exact) > 0.2 * exact.max()
    assert_is_empirical(exact, X, sizes, filters, head, 1.3, 0.2, image)


# --- convolutional networks


def box_mean(values, width):
    """Means over the width x width pixels around each pixel or pair of pixels: dictionaries; 0
    outside."""
    r = width // 2
    shifts = [(a, b) for a in range(-r, r + 1) for b in range(-r, r + 1)]
    return {
        at: sum(values.get(tuple((i + a, j + b) for i, j in at), 0.0) for a, b in shifts) / width**2
        for at in values
    }


@pytest.mark.parametrize("head", ["flatten", "pool"])
@pytest.mark.parametrize("filters", [(1,), (3, 3, 5), (7, 3)])
def test_cntk_is_that_of_a_loop_over_pixels(filters, head, rng):
    X = rng.normal(size=(2, 24))
    kernel = CNTK(filters, head=head, hidden=0, shape=(2, 3, 4), w_std=1.2, b_std=0.1)
    x, y = X.reshape(2, 2, 3, 4)
    pixels = list(np.ndindex(3, 4))
    w = 1.2**2
    b = 0.1**2
    s = {(p, q): x[:, *p] @ y[:, *q] / 2 for p in pixels for q in pixels}
    t = dict.fromkeys(s, 0.0)
    q_x, q_y = ({(p,): (v[:, *p] ** 2).mean() for p in pixels} for v in (x, y))
    for width in filters:
        s, q_x, q_y = (
            {at: w * m + b for at, m in box_mean(v, width).items()} for v in (s, q_x, q_y)
        )
        t = {at: s[at] + w * m for at, m in box_mean(t, width).items()}
        for p, q in s:
            norm = math.sqrt(q_x[(p,)] * q_y[(q,)])
            angle = math.acos(s[p, q] / norm)
            share = (math.pi - angle) / (2 * math.pi)
            s[p, q] = norm * math.sin(angle) / (2 * math.pi) + share * s[p, q]
            t[p, q] *= share
        q_x, q_y = ({at: v / 2 for at, v in q.items()} for q in (q_x, q_y))
    mean = np.mean([s[p, q] + t[p, q] for p, q in s if head == "pool" or p == q])
    assert kernel(X[:1], X[1:])[0, 0] == pytest.approx(w * mean + b, rel=1e-10)


def test_images_in_chunks_give_what_they_give_together(rng, monkeypatch):
    X = rng.normal(size=(9, 24))
    kernel = CNTK((3,), shape=(2, 3, 4))
    K = kernel(X)
    diagonal = kernel.diag(X)
    monkeypatch.setattr("handful.proxies.conv.CHUNK", {"cpu": 50})
    np.testing.assert_allclose(kernel(X), K, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), diagonal, rtol=1e-12)


def test_without_torch_there_is_one_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "handful.proxies.conv", raising=False)
    monkeypatch.delattr("handful.proxies.conv", raising=False)
    with pytest.raises(ImportError, match="CNTK needs torch: pip install torch"):
        CNTK()(np.ones((2, 16)))


@pytest.mark.parametrize("head", ["flatten", "pool"])
def test_arora_network_is_one_of_convolutions_without_biases(head):
    made = CNTK.arora(6, head=head, shape=(1, 4, 4))
    assert (made.filters, made.hidden, made.b_std) == ((3,) * 5, 0, 0.0)
    X = np.random.default_rng(1).normal(size=(3, 16))
    # homogeneous: no biases
    np.testing.assert_allclose(made(2 * X, 3 * X), 6 * made(X), rtol=1e-10)


def test_cosines_of_images_without_ink_count_as_zero():
    X = np.zeros((2, 9))
    X[1, 4] = 1.0
    K = CNTK.arora(3, shape=(1, 3, 3))(X)
    assert K[0].tolist() == [0, 0]
    assert K[1, 1] > 0


def test_float32_gives_an_image_and_its_copy_what_float64_gives(rng):
    X = rng.normal(size=(5, 256)).astype(np.float32)
    for head in ("flatten", "pool"):
        kernel = CNTK.arora(6, head=head, shape=(1, 16, 16))
        np.testing.assert_allclose(
            np.diag(kernel(X, X.copy())), kernel.diag(X.astype(np.float64)), rtol=2e-6
        )


# --- every kernel


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_are_symmetric_positive_and_know_their_diagonal(kernel, rng):
    X = rng.normal(size=(30, 24))
    Y = rng.normal(size=(7, 24))
    K = kernel(X)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    np.testing.assert_allclose(kernel(X, Y), kernel(Y, X).T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(K), rtol=1e-9)
    assert np.linalg.eigvalsh(K).min() > -1e-12 * np.linalg.eigvalsh(K).max()
    np.testing.assert_allclose(
        kernel(X.astype(np.float32), Y.astype(np.float32)),
        kernel(X, Y),
        rtol=0,
        atol=1e-5 * K.max(),
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_take_every_kind_of_array(kernel, rng):
    pixels = rng.integers(0, 256, size=(5, 24)).astype(np.uint8)
    K = kernel(pixels)
    assert K.dtype == np.float32
    floats = pixels.astype(np.float32)
    shape = getattr(kernel, "shape", None) or (2, 3, 4)
    for X in (floats, torch.tensor(pixels), floats.reshape(5, *shape), np.asfortranarray(floats)):
        assert (kernel(X) == K).all()
    assert kernel(pd.DataFrame(floats)).dtype == np.float32
    assert kernel(floats, floats.astype(np.float64)).dtype == np.float64


def test_rbf_is_that_of_scikit_learn(rng):
    X = rng.normal(size=(6, 4))
    np.testing.assert_allclose(RBF()(X), rbf_kernel(X))


# --- bad input


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (CNTK(()), "filters of CNTK must be a tuple of at least 1 width"),
        (CNTK((3, 4)), "filters of CNTK must have odd widths"),
        (CNTK(shape=(4, 4)), r"shape of CNTK must be \(channels, height, width\)"),
        (CNTK(shape=(1, 0, 16)), "shape of CNTK must be an integer of at least 1"),
        (CNTK(shape=(3, 4, 4)), "rows must have 48 values, got 16"),
    ],
)
def test_hyper_parameters_out_of_range_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(np.ones((2, 16)))


def test_rows_that_make_no_matrix_are_refused():
    for X, Y, message in (
        ([[np.nan, 1.0]], None, "X contains NaN"),
        ([[1.0, 2.0]], [[np.inf, 1.0]], "Y contains infinity"),
        ([[1.0, 2.0]], [[1.0]], "rows of the same length, got 2 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            NTK()(X, Y)
    with pytest.raises(ValueError, match="rows of 12 values, which are no square image"):
        CNTK()(np.ones((2, 12)))


def test_a_kernel_of_ones_own_needs_only_the_matrix():
    class Cosine(Kernel):
        def _matrix(self, X, Y):
            return np.cos(X[:, :1] - Y[:, 0])

    assert Cosine().diag([[1.0], [2.0]]).tolist() == [1, 1]


@pytest.mark.parametrize("head", ["flatten", "pool"])
def test_cntk_takes_rows_that_lie_backwards_or_may_not_be_written_to(head, rng):
    X = rng.normal(size=(6, 16))
    kernel = CNTK((3,), shape=(1, 4, 4), head=head)
    expected = kernel(X, X[:, ::-1].copy())
    X.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(kernel(X, X[:, ::-1]), expected)
