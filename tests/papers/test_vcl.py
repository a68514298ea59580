"""Variational continual learning: its divergence, its steps, and what it remembers."""

import numpy as np
import pytest
import torch
from handful import KCenter, UniformCoreset
from handful_papers.bico.vcl import VCL, gaussian_kl

SMALL = dict(
    n_classes=4,
    hidden=(16,),
    n_epochs=60,
    n_coreset_epochs=60,
    batch_size=32,
    learning_rate=1e-2,
    n_draws=20,
)


@pytest.fixture
def tasks():
    """Two tasks of two classes each, far apart from each other."""
    rng = np.random.default_rng(0)
    centres = 3.0 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, 0]], dtype=np.float32)
    out = []
    for pair in ((0, 1), (2, 3)):
        y = rng.choice(pair, 80)
        out.append((centres[y] + rng.normal(size=(80, 3)).astype(np.float32), y))
    return out


def gaussians(seed, shapes=((3, 2), (2,))):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes for _ in range(2)]


def test_the_divergence_is_that_of_torch_s_gaussians():
    q = gaussians(0)
    p = gaussians(1)
    normal = torch.distributions.Normal
    expected = sum(
        torch.distributions.kl_divergence(
            normal(q[i], (0.5 * q[i + 1]).exp()), normal(p[i], (0.5 * p[i + 1]).exp())
        ).sum()
        for i in (0, 2)
    )
    assert float(gaussian_kl(q, p)) == pytest.approx(float(expected), rel=1e-5)
    assert float(gaussian_kl(q, q)) == pytest.approx(0.0, abs=1e-5)


def test_drawing_inputs_of_layers_has_the_law_of_drawing_weights(tasks):
    X = torch.as_tensor(tasks[0][0][:1])
    model = VCL(**SMALL).add_task(*tasks[0])
    q = model.posterior_
    ours = model._outputs(q, X.expand(4000, -1))
    generator = torch.Generator().manual_seed(1)
    W1, b1, W2, b2 = (
        q[i] + (0.5 * q[i + 1]).exp() * torch.randn((4000, *q[i].shape), generator=generator)
        for i in range(0, 8, 2)
    )
    plain = (((X @ W1 + b1[:, None]).relu()) @ W2 + b2[:, None])[:, 0]
    noise = (plain.var(0) / 4000 + ours.var(0) / 4000).sqrt()
    assert ((ours.mean(0) - plain.mean(0)).abs() < 5 * noise).all()
    torch.testing.assert_close(ours.std(0), plain.std(0), rtol=0.1, atol=0.01)


def test_the_prior_of_a_second_task_is_the_posterior_of_the_first(tasks):
    model = VCL(**SMALL, random_state=0).add_task(*tasks[0])
    first = model.posterior_
    # the first prior is 0: standard normal weights
    assert max(float(t.abs().max()) for t in first) > 1.0
    # hardly any evidence, so that the posterior is the prior
    model.kl_weight = 1e6
    model.learning_rate = 0.05
    model.add_task(*tasks[1])
    for ours, prior in zip(model.posterior_, first):
        torch.testing.assert_close(ours, prior, atol=0.1, rtol=0)


def accuracy(model, X, y):
    return np.mean(model.predict(X) == y)


@pytest.mark.parametrize("selector", [UniformCoreset(), KCenter()], ids=repr)
def test_coresets_bring_back_what_was_forgotten(selector, tasks):
    (X, y), second = tasks
    options = dict(SMALL, kl_weight=0.01)
    plain = VCL(**options, random_state=0).add_task(X, y).add_task(*second)
    kept = VCL(selector, n_kept=10, **options, random_state=0).add_task(X, y)
    assert accuracy(kept, X, y) > 0.9
    kept.add_task(*second)
    assert plain.memories_ == []
    assert [len(m) for m in kept.memories_] == [10, 10]
    assert accuracy(kept, X, y) > max(0.8, accuracy(plain, X, y))
    assert accuracy(kept, *second) > 0.8
