import subprocess
import sys

import handful.sampling
import numpy as np
import pytest
from handful.sampling import KDPP, MixtureSampler, group_components

torch = pytest.importorskip("torch", reason="torch is an optional extra")

from handful.sampling import AdaptiveBatchSampler, Weighted  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def blobs(seed=0):
    rng = np.random.default_rng(seed)
    y = np.r_[np.zeros(380, int), np.ones(20, int)]
    X = rng.normal(size=(400, 2)) + 2.5 * y[:, None]
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y)


def make_loader(data, n_batches, workers=0):
    sampler = MixtureSampler(group_components(data.tensors[1].numpy()), batch_size=16, random_state=0)
    batches = AdaptiveBatchSampler(sampler, n_batches)
    return sampler, DataLoader(Weighted(data), batch_sampler=batches, num_workers=workers)


def test_the_example_trains_a_model_and_learns_the_mixture():
    torch.manual_seed(0)
    X, y = blobs()
    sampler, loader = make_loader(TensorDataset(X, y), 400)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = cross_entropy(model(X), y).item()
    for (x, target), indices, weights in loader:
        losses = cross_entropy(model(x), target, reduction="none")
        optimizer.zero_grad()
        (weights * losses).mean().backward()
        optimizer.step()
        sampler.update(losses, indices, weights)
    assert cross_entropy(model(X), y).item() < 0.3 * before
    assert sampler.probabilities[y == 1].sum() > 0.2  # the rare class, 5 % of the points, has the loss


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_delivers_the_rows_their_indices_and_unbiased_weights(workers):
    X, y = blobs()
    _, loader = make_loader(TensorDataset(X, y), 300, workers)
    assert len(loader) == 300
    assert len(AdaptiveBatchSampler(loader.batch_sampler.sampler)) == 400 // 16  # as many draws as points
    estimates = []
    for (x, target), indices, weights in loader:
        assert torch.equal(x, X[indices])
        assert torch.equal(target, y[indices])
        assert weights.dtype == torch.float32
        estimates.append((weights * X[indices, 0]).mean().item())
    sem = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - X[:, 0].mean().item()) < 4 * sem


def test_what_is_put_together_wrongly_is_told_what_belongs_where():
    data = TensorDataset(*blobs())
    for sampler in (100, data, KDPP(np.eye(4), 2)):
        with pytest.raises(TypeError, match=r"sampler must be one of handful\.sampling, such as MixtureSampler, got "):
            AdaptiveBatchSampler(sampler)
    with pytest.raises(TypeError, match=r"got 0: give the DataLoader batch_sampler=AdaptiveBatchSampler\(sampler\)"):
        next(iter(DataLoader(Weighted(data), batch_size=4)))


def test_what_needs_torch_is_imported_when_it_is_asked_for():
    assert {"AdaptiveBatchSampler", "Weighted", "MixtureSampler"} <= set(dir(handful.sampling))
    with pytest.raises(AttributeError, match=r"'handful\.sampling' has no attribute 'Wieghted'"):
        handful.sampling.Wieghted  # noqa: B018
    code = (
        "import sys, handful.sampling; assert 'torch' not in sys.modules; sys.modules['torch'] = None\n"
        "try:\n    handful.sampling.Weighted\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "Weighted needs torch: pip install torch.\n"
