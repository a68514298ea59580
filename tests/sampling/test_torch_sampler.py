import copy
import io
import pickle
import subprocess
import sys

import handful.sampling
import numpy as np
import pytest
from handful.sampling import (
    KDPP,
    BanditSampler,
    MixtureSampler,
    PrioritizedReplay,
    UniformSampler,
    group_components,
)

torch = pytest.importorskip("torch", reason="torch is an optional extra")

from handful.sampling import AdaptiveBatchSampler, Weighted
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def blobs(seed=0):
    rng = np.random.default_rng(seed)
    y = np.r_[np.zeros(380, int), np.ones(20, int)]
    X = rng.normal(size=(400, 2)) + 2.5 * y[:, None]
    return torch.tensor(X, dtype=torch.float32), torch.tensor(y)


def make_loader(data, n_batches, workers=0):
    sampler = MixtureSampler(
        group_components(data.tensors[1].numpy()), batch_size=16, random_state=0
    )
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
    # the rare class, 5 % of the points, has the loss
    assert sampler.probabilities[y == 1].sum() > 0.2


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_delivers_the_rows_their_indices_and_unbiased_weights(workers):
    X, y = blobs()
    _, loader = make_loader(TensorDataset(X, y), 300, workers)
    assert len(loader) == 300
    # as many draws as points
    assert len(AdaptiveBatchSampler(loader.batch_sampler.sampler)) == 400 // 16
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
    batches = AdaptiveBatchSampler(UniformSampler(400, batch_size=16))
    with pytest.raises(TypeError, match=r"give the DataLoader batch_sampler=, not sampler="):
        next(iter(DataLoader(Weighted(data), sampler=batches, batch_size=4)))
    with pytest.raises(TypeError, match=r"give the DataLoader batch_sampler=, not sampler="):
        next(iter(DataLoader(data, sampler=batches)))
    with pytest.raises(
        TypeError, match=r"give the DataLoader Weighted\(dataset\), got TensorDataset"
    ):
        next(iter(DataLoader(data, batch_sampler=batches)))
    for wrong in (dict(sampler=batches.sampler), dict(batch_sampler=batches.sampler)):
        with pytest.raises(
            TypeError, match=r"batch_sampler=AdaptiveBatchSampler\(sampler\), and the data set as"
        ):
            next(iter(DataLoader(Weighted(data), **wrong)))
    with pytest.raises(
        TypeError, match=r"got batch_size, drop_last: .* Trainer\(use_distributed_sampler=False\)"
    ):
        # as pytorch-lightning#19183 does
        type(batches)(batches.sampler, batch_size=10, drop_last=False)
    assert (batches.batch_size, batches.drop_last) == (16, False)
    for sampler in (100, data, KDPP(np.eye(4), 2)):
        with pytest.raises(
            TypeError,
            match=r"sampler must be one of handful\.sampling, such as MixtureSampler, got ",
        ):
            AdaptiveBatchSampler(sampler)
    with pytest.raises(
        TypeError, match=r"got 0: give the DataLoader batch_sampler=AdaptiveBatchSampler\(sampler\)"
    ):
        next(iter(DataLoader(Weighted(data), batch_size=4)))


def test_what_needs_torch_is_imported_when_it_is_asked_for():
    assert {"AdaptiveBatchSampler", "Weighted", "MixtureSampler"} <= set(dir(handful.sampling))
    with pytest.raises(AttributeError, match=r"'handful\.sampling' has no attribute 'Wieghted'"):
        handful.sampling.Wieghted  # noqa: B018
    code = (
        "import sys, handful.sampling; assert 'torch' not in sys.modules; sys.modules['torch'] = "
        "None\n"
        "try:\n    handful.sampling.Weighted\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said == "Weighted needs torch: pip install torch.\n"


# Checkpoints


def filled(n, **options):
    replay = PrioritizedReplay(n, **options)
    replay.add(n)
    return replay


def replaced(sampler):
    sampler.set_probabilities(group_components(np.arange(100) % 5 % 4))
    return sampler


GROUPS = group_components(np.arange(100) % 4)
OPTIONS = dict(batch_size=10, random_state=0)
SAMPLERS = {
    "uniform": lambda: UniformSampler(100, **OPTIONS),
    "fixed mixture": lambda: MixtureSampler(GROUPS, mixture_weights="equal", **OPTIONS),
    "mixture": lambda: MixtureSampler(GROUPS, **OPTIONS),
    "mixture, no uniform": lambda: MixtureSampler(
        group_components(np.arange(100) % 4), uniform=False, **OPTIONS
    ),
    "bandit": lambda: BanditSampler(100, **OPTIONS),
    "replay": lambda: filled(100, **OPTIONS),
    "replay, fixed": lambda: filled(100, mixture_weights=np.full(10, 0.1), **OPTIONS),
    "legacy generator": lambda: UniformSampler(
        100, batch_size=10, random_state=np.random.Generator(np.random.MT19937(0))
    ),
    "another generator": lambda: UniformSampler(
        100, batch_size=10, random_state=np.random.Generator(np.random.Philox(0))
    ),
}


def through_torch(thing, make, **options):
    """Another one, that `make` gives, with the state of `thing` as torch.save and torch.load pass
    it on."""
    file = io.BytesIO()
    torch.save(thing.state_dict(), file)
    file.seek(0)
    other = make()
    other.load_state_dict(torch.load(file, **options))
    return other


def through_pickle(thing, make):
    return pickle.loads(pickle.dumps(thing))


def through_deepcopy(thing, make):
    return copy.deepcopy(thing)


def losses_of(indices):
    return 1 + torch.sin(indices * 1.7) ** 2


def train(batches, count=None, workers=0):
    """Up to `count` batches of an epoch, learned from one by one, and the loader's iterator, which
    may go on."""
    data = TensorDataset(torch.arange(100.0)[:, None])
    iterator = iter(DataLoader(Weighted(data), batch_sampler=batches, num_workers=workers))
    seen = []
    while len(seen) != count:
        try:
            _, indices, weights = next(iterator)
        except StopIteration:
            break
        batches.sampler.update(losses_of(indices), indices, weights)
        seen.append((indices.tolist(), weights.tolist()))
    return seen, iterator


WAYS = [through_torch, through_pickle, through_deepcopy]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_goes_on_after_the_batch_that_was_delivered_last(name, workers, way):
    """pytorch#36650, datasets#5454: workers had drawn four batches more."""
    if workers and (name == "another generator" or way is through_deepcopy):
        # starting workers takes a second
        return
    make = SAMPLERS[name]
    whole = AdaptiveBatchSampler(make(), 9)
    expected = [batch for _ in range(2) for batch in train(whole, workers=workers)[0]]

    def batches():
        return AdaptiveBatchSampler(make(), 9)

    broken = batches()
    seen, iterator = train(broken, 4, workers)
    of_sampler = way(broken.sampler, make)
    del iterator
    # after the loader is gone
    again = way(broken, batches)
    assert len(again) == 9
    rest = train(again, workers=workers)[0]
    assert seen + rest == expected[:9]
    # the next epoch is a whole one
    assert train(again, workers=workers)[0] == expected[9:]
    assert train(AdaptiveBatchSampler(of_sampler, 5), workers=workers)[0] == expected[4:9]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_state_between_sample_and_update_and_before_anything_goes_on(name):
    make = SAMPLERS[name]
    one = make()
    for n_rounds in (0, 0, 3):
        two = through_torch(one, make)
        for _ in range(n_rounds):
            for sampler in (one, two):
                indices, _ = sampler.sample()
                sampler.update(losses_of(torch.tensor(indices)))
            np.testing.assert_array_equal(two._last[0], one._last[0])
        one.sample()
        two = through_torch(one, make)
        for sampler in (one, two):
            sampler.update(np.arange(10.0))
        np.testing.assert_array_equal(one.sample()[1], two.sample()[1])


def test_late_errors_of_a_replay_and_other_components_are_in_the_state():
    one = filled(20, batch_size=10, mixture_weights=np.full(10, 0.1), random_state=0)
    drawn = one.sample()
    one.sample()
    one.add(7)
    two = through_torch(
        one, lambda: PrioritizedReplay(20, batch_size=10, mixture_weights=np.full(10, 0.1))
    )
    for replay in (one, two):
        replay.update(np.arange(10.0), *drawn)
        replay.update(np.arange(10.0))
    np.testing.assert_array_equal(one.probabilities, two.probabilities)
    assert two.add(2).tolist() == [7, 8]
    one = replaced(MixtureSampler(GROUPS, batch_size=10, random_state=0))
    two = through_torch(one, SAMPLERS["mixture"])
    np.testing.assert_array_equal(two.sample()[0], one.sample()[0])
    np.testing.assert_array_equal(two.probabilities, one.probabilities)


def test_a_state_is_a_copy_and_that_of_another_sampler_is_refused():
    one = SAMPLERS["bandit"]()
    one.sample()
    state = one.state_dict()
    before = one.probabilities
    one.update(np.arange(10.0))
    other = SAMPLERS["bandit"]()
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.probabilities, before)
    other.sample()
    np.testing.assert_array_equal(one.sample()[0] >= 0, True)
    for wrong, message in (
        (BanditSampler(99, batch_size=10), "a BanditSampler with n=100, this one has 99"),
        (BanditSampler(100, batch_size=9), "with batch_size=10, this one has 9"),
        (UniformSampler(100, batch_size=10), "the state of a UniformSampler has the entries"),
        (MixtureSampler(GROUPS, batch_size=10), "has the entries"),
    ):
        batches = AdaptiveBatchSampler(wrong, 5)
        with pytest.raises(ValueError, match=message):
            batches.load_state_dict({**batches.state_dict(), "sampler": state})
        kept = copy.deepcopy(wrong)
        with pytest.raises(ValueError, match=message):
            wrong.load_state_dict(state)
        np.testing.assert_array_equal(wrong.sample()[0], kept.sample()[0])
    dpp = KDPP(np.random.default_rng(0).normal(size=(20, 4)), 3, random_state=0)
    dpp.sample()
    again = through_torch(dpp, lambda: KDPP(np.random.default_rng(0).normal(size=(20, 4)), 3))
    assert [again.sample().tolist() for _ in range(3)] == [dpp.sample().tolist() for _ in range(3)]


def test_a_loader_with_a_state_of_its_own_gets_the_state_as_it_draws():
    """What torchdata's StatefulDataLoader does: it asks after each draw, and keeps the answer until
    the delivery."""

    class WithState(DataLoader):
        def state_dict(self):
            return None

    make = lambda: AdaptiveBatchSampler(SAMPLERS["mixture"](), 8)  # noqa: E731
    expected = [i for i, _ in (zip(*batch) for batch in make())]
    batches = make()
    data = TensorDataset(torch.arange(100.0)[:, None])
    iterator = iter(WithState(Weighted(data), batch_sampler=batches, num_workers=2))
    next(iterator)
    again = make()
    # five are drawn
    again.load_state_dict(batches.state_dict())
    assert [i for i, _ in (zip(*batch) for batch in again)] == expected[5:]


def test_a_state_of_before_the_components_were_replaced_brings_them_back(rng):
    first, second, third = (rng.dirichlet(np.full(40, 0.3), size=3) for _ in range(3))
    sampler = MixtureSampler(first, batch_size=5, random_state=0)
    before = sampler.state_dict()
    q = sampler.probabilities
    expected = sampler.sample()
    sampler.set_probabilities(second)
    between = sampler.state_dict()
    sampler.set_probabilities(third)
    sampler.load_state_dict(before)
    np.testing.assert_array_equal(sampler.probabilities, q)
    for ours, theirs in zip(sampler.sample(), expected):
        np.testing.assert_array_equal(ours, theirs)
    other = MixtureSampler(second, batch_size=5, random_state=0)
    sampler.load_state_dict(between)
    np.testing.assert_allclose(sampler.probabilities, other.probabilities)
    sampler.load_state_dict(before)
    np.testing.assert_array_equal(sampler.probabilities, q)


@pytest.mark.parametrize("workers", [0, 2])
def test_losses_without_indices_are_those_of_the_batch_that_was_delivered(workers):
    X, y = blobs()
    found = []
    for named in (True, False):
        sampler, loader = make_loader(TensorDataset(X, y), 40, workers)
        for (_, target), indices, weights in loader:
            losses = torch.where(target == 1, 5.0, 0.1)
            sampler.update(losses, *((indices, weights) if named else ()))
        found.append(sampler.mixture_weights)
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("n", [60, 300])
def test_data_of_another_length_than_the_sampler_are_refused(n):
    sampler = MixtureSampler(group_components(np.repeat([0, 1], [90, 10])), batch_size=50)
    data = Weighted(TensorDataset(torch.arange(float(n))))
    loader = DataLoader(data, batch_sampler=AdaptiveBatchSampler(sampler))
    with pytest.raises(ValueError, match=f"draws from 100 rows, and the data set .* has {n}"):
        next(iter(loader))


def of_labels(labels):
    return MixtureSampler(group_components(labels), batch_size=10, random_state=0)


LABELS = np.repeat([0, 1, 2], [200, 60, 40])
LOSSES = np.where(LABELS == 1, 5.0, 0.1)
NUMBERED = Weighted(TensorDataset(torch.arange(len(LABELS))))


def loader_of(sampler, workers):
    batches = AdaptiveBatchSampler(sampler, 12)
    return DataLoader(NUMBERED, batch_sampler=batches, num_workers=workers)


def own_losses(indices):
    return LOSSES[np.asarray(indices)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_drawn_by_hand_is_answered_beside_a_loader(workers):
    found = []
    for named in (True, False):
        sampler = of_labels(LABELS)
        own = np.random.default_rng(0)
        for (numbers,), indices, weights in loader_of(sampler, workers):
            np.testing.assert_array_equal(numbers, indices)
            sampler.update(own_losses(indices), *((indices, weights) if named else ()))
            if own.random() < 0.5:
                drawn = sampler.sample()
                sampler.update(own_losses(drawn[0]), *(drawn if named else ()))
        # the loop ends early
        iterator = iter(loader_of(sampler, workers))
        next(iterator)
        for _ in range(50):
            drawn = sampler.sample()
            sampler.update(own_losses(drawn[0]), *(drawn if named else ()))
        found.append(sampler.mixture_weights)
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("workers", [0, 2])
def test_of_two_loaders_the_batch_that_was_delivered_last_is_answered(workers):
    found = []
    for named in (True, False):
        sampler = of_labels(LABELS)
        for several in zip(loader_of(sampler, workers), loader_of(sampler, workers)):
            _, indices, weights = several[1]
            sampler.update(own_losses(indices), *((indices, weights) if named else ()))
        one = iter(loader_of(sampler, workers))
        other = iter(loader_of(sampler, workers))
        for iterator in (one, other, other, one, one, other):
            _, indices, weights = next(iterator)
            sampler.update(own_losses(indices), *((indices, weights) if named else ()))
        found.append(sampler.mixture_weights)
    np.testing.assert_allclose(*found)


def test_the_last_batch_of_an_epoch_is_answered_after_the_next_has_begun():
    found = []
    for named in (True, False):
        sampler = of_labels(LABELS)
        loader = loader_of(sampler, 2)
        *_, (_, indices, weights) = loader
        # its workers draw ahead
        following = iter(loader)
        sampler.update(own_losses(indices), *((indices, weights) if named else ()))
        found.append(sampler.mixture_weights)
        del following
    np.testing.assert_allclose(*found)
