"""MixtureSampler in several processes: conventions of torch's DistributedSampler, and two processes over gloo."""

import json
import subprocess
import sys

import numpy as np
import pytest
from handful.sampling import group_components

torch = pytest.importorskip("torch", reason="torch is an optional extra")

from handful.sampling import DistributedMixtureSampler, Weighted  # noqa: E402
from torch.utils.data import DataLoader, DistributedSampler  # noqa: E402

N, RANKS = 401, 3


def samplers(**options):
    p = group_components(np.arange(N) % 5 == 0)
    options = dict(batch_size=8, random_state=1) | options
    return [DistributedMixtureSampler(p, num_replicas=RANKS, rank=r, **options) for r in range(RANKS)]


def test_each_rank_draws_from_its_rows_as_the_distributed_sampler_deals_them():
    for rank, batches in enumerate(samplers(n_batches=60)):
        own = set(DistributedSampler(range(N), RANKS, rank, shuffle=False, drop_last=False)) & set(
            range(rank, N, RANKS)
        )
        drawn = {index for batch in batches for index, _ in batch}
        assert drawn <= own
        assert len(drawn) > 80


def test_the_mean_over_the_ranks_is_unbiased():
    values = np.random.default_rng(0).exponential(size=N)
    estimates = [
        [np.mean([w * values[i] for i, w in batch]) for batch in batches] for batches in samplers(n_batches=400)
    ]
    means = np.mean(estimates, axis=0)
    assert abs(means.mean() - values.mean()) < 4 * means.std(ddof=1) / np.sqrt(len(means))


def test_an_epoch_repeats_and_another_differs():
    batches = samplers()[1]
    first = list(batches)
    batches.set_epoch(1)
    other = list(batches)
    batches.set_epoch(0)
    assert list(batches) == first != other
    assert len(first) == len(batches) == -(-N // (8 * RANKS))


@pytest.mark.parametrize(
    ("options", "message"), [({"rank": 3}, "rank must be"), ({"random_state": None}, "random_state")]
)
def test_bad_options_are_named(options, message):
    p = group_components(np.arange(30) % 2)
    with pytest.raises(ValueError, match=message):
        DistributedMixtureSampler(p, **dict(num_replicas=3, rank=0, batch_size=4) | options)


TRAIN = """
import json, sys
import numpy as np, torch
from torch import distributed
from torch.utils.data import DataLoader
from handful.sampling import DistributedMixtureSampler, Weighted, group_components
rank, place = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=2)
loud = np.arange(600) % 10 == 0
batches = DistributedMixtureSampler(group_components(loud), batch_size=16, n_batches=60, sync_every=5, eps=10.0)
for row, indices, weights in DataLoader(Weighted(torch.arange(600.0)), batch_sampler=batches):
    assert bool((indices % 2 == rank).all()) and torch.equal(row, indices.float())
    batches.update(torch.as_tensor(loud[indices] * 1.0 + 0.01), indices, weights)
print(json.dumps(batches.mixture_weights.tolist()))
distributed.destroy_process_group()
"""


@pytest.mark.timeout(300)
def test_two_processes_learn_one_mixture(tmp_path):
    run = [sys.executable, "-c", TRAIN]
    processes = [
        subprocess.Popen([*run, str(rank), str(tmp_path / "meet")], stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    weights = [json.loads(process.communicate(timeout=240)[0].splitlines()[-1]) for process in processes]
    np.testing.assert_allclose(*weights, rtol=0, atol=1e-15)
    assert weights[0][1] > 0.7  # the loud rows' component: rank 0 holds all of these, and rank 1 has learned it too


def test_a_loader_delivers_the_rows_that_are_asked_for():
    rows = torch.arange(float(N))
    loader = DataLoader(Weighted(rows), batch_sampler=samplers(n_batches=5)[2])
    for row, indices, weights in loader:
        assert torch.equal(row, rows[indices])
        assert (weights > 0).all()
