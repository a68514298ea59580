"""Recovery with a generator: codes, flat objectives, scores against finite differences, and the
autoencoder."""

import numpy as np
import pytest
import torch
from dictionary.test_measurement_selector import D, scores
from handful.dictionary import L2
from handful.dictionary.measurement_selector import recovery_error
from handful_papers.bico.fig12_dictionary import gaussian_atoms
from handful_papers.bico.generative import VAE, Generative, train_vae


@pytest.fixture
def X(rng):
    return rng.normal(size=(30, D)) * (rng.random((30, D)) < 0.2)


@pytest.fixture
def atoms(rng):
    return gaussian_atoms(60, D, rng=rng)


@pytest.fixture(scope="module")
def smooth():
    """A generator of float64 signals, far from linear."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = VAE(D, latent=3, hidden=16).double()
    for weight in model.decoder.parameters():
        weight.data *= 3
    return model.requires_grad_(False)


def test_generative_recovery_finds_the_code_of_what_was_generated(smooth, atoms):
    codes = (
        torch.randn((20, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 2
    )
    X = smooth(codes).numpy()
    recovery = Generative(smooth, l2=1e-6, tol=1e-9, max_iter=200)
    error = ((X - recovery.recover(atoms[:12], X @ atoms[:12].T)[0]) ** 2).sum(1)
    # a few may end in another minimum
    assert np.median(error) < 1e-6


def test_generative_recovery_ends_where_the_objective_is_flat(smooth, X, atoms):
    A = atoms[:8]
    penalty = 0.05
    _, codes = Generative(smooth, l2=penalty, tol=1e-12, max_iter=300).recover(A, X @ A.T)
    codes = codes.clone().requires_grad_()
    missed = torch.as_tensor(X @ A.T) - smooth(codes) @ torch.as_tensor(A).T
    (missed.square().sum() + penalty * codes.square().sum()).backward()
    assert codes.grad.abs().max() < 1e-3


def test_generative_linear_score_is_minus_the_derivative_where_the_generator_is_linear(
    rng, X, atoms
):
    class LinearGenerator(torch.nn.Module):
        latent = 4

        def __init__(self, basis):
            super().__init__()
            self.basis = torch.nn.Parameter(torch.as_tensor(basis), requires_grad=False)

        def forward(self, z):
            return z @ self.basis

    recovery = Generative(LinearGenerator(rng.normal(size=(4, D))), tol=1e-14, max_iter=100)
    A = atoms[:3]
    h = 1e-7
    before = ((X - recovery.recover(A, X @ A.T)[0]) ** 2).sum()
    linear, quadratic = (scores(recovery, A, atoms[40:44], X, quadratic=q) for q in (False, True))
    for slope, gain, atom in zip(linear, quadratic, atoms[40:44]):
        for weight, expected, rel in ((h, slope * h, 1e-2), (1.0, gain, 1e-5)):
            longer = np.vstack([A, np.sqrt(weight) * atom])
            after = ((X - recovery.recover(longer, X @ longer.T)[0]) ** 2).sum()
            assert before - after == pytest.approx(expected, rel=rel)


def test_an_autoencoder_learns_what_its_signals_have_in_common():
    t = np.random.default_rng(0).random((600, 1))
    # one dimension
    X = 0.5 + 0.5 * np.sin(2 * np.pi * (t + np.linspace(0, 1, 20)))
    options = dict(latent=2, hidden=32, n_epochs=60, learning_rate=5e-3)
    model = train_vae(X, **options, rng=torch.Generator().manual_seed(0))
    A = gaussian_atoms(6, 20, rng=np.random.default_rng(1), dtype=np.float32)
    error = recovery_error(Generative(model), A, X[:100].astype(np.float32))
    assert error < 0.3 * recovery_error(L2(), A, X[:100].astype(np.float32))
    again = train_vae(X, **options, rng=torch.Generator().manual_seed(0))
    z = torch.zeros((1, 2))
    assert torch.equal(model(z), again(z))
