"""`state_dict` and `load_state_dict`: a sampler goes on where another one was."""

import json

import numpy as np
import pytest
from handful.sampling import (
    KDPP,
    BanditSampler,
    FixedMixture,
    MixtureSampler,
    PrioritizedReplay,
    SetMixture,
    UniformSampler,
    distance_components,
)

X = np.random.default_rng(0).normal(size=(60, 3))
P = distance_components(X, 4, rng=np.random.default_rng(1))


def replay(seed):
    made = PrioritizedReplay(40, batch_size=6, random_state=seed)
    made.add(30)
    return made


SAMPLERS = {
    "mixture": lambda seed: MixtureSampler(P, batch_size=6, random_state=seed),
    "one component a batch": lambda seed: MixtureSampler(P, batch_size=6, shared_component=True, random_state=seed),
    "fixed mixture": lambda seed: FixedMixture(P, batch_size=6, random_state=seed),
    "bandit": lambda seed: BanditSampler(60, batch_size=6, random_state=seed),
    "uniform": lambda seed: UniformSampler(60, batch_size=6, random_state=seed),
    "sets": lambda seed: SetMixture([KDPP(X, 3, shift=1.0)], random_state=seed),
    "replay": replay,
}


def rounds(sampler, count):
    """The batches of some rounds of drawing and learning."""
    batches = []
    for _ in range(count):
        indices, weights = sampler.sample()
        losses = 1.0 + X[indices, 0] ** 2
        sampler.update(float(losses.mean()) if sampler.draws_sets else losses)
        batches.append((indices.tolist(), weights.tolist()))
    return batches


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_goes_on_where_another_one_was(name):
    first, second = SAMPLERS[name](0), SAMPLERS[name](1)
    rounds(first, 5)
    indices, _ = first.sample()  # a batch whose losses come after the state was taken
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for sampler in (first, second):
        sampler.update(1.5 if sampler.draws_sets else np.arange(1.0, 1 + len(indices)))
    assert rounds(second, 5) == rounds(first, 5)


def test_a_loaded_state_is_a_copy():
    first, second = SAMPLERS["mixture"](0), SAMPLERS["mixture"](1)
    state = first.state_dict()
    second.load_state_dict(state)
    rounds(second, 3)
    assert first.state_dict() == state
    assert second.state_dict() != state


def test_the_state_of_another_sampler_is_refused_and_changes_nothing():
    sampler = SAMPLERS["mixture"](0)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match="state must be one of MixtureSampler"):
        sampler.load_state_dict(SAMPLERS["bandit"](0).state_dict())
    with pytest.raises(ValueError, match="has shape"):
        sampler.load_state_dict(MixtureSampler(P[:2], batch_size=6).state_dict())
    assert sampler.state_dict() == before


def test_torch_saves_and_loads_a_state(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    sampler = SAMPLERS["bandit"](0)
    rounds(sampler, 3)
    torch.save(sampler.state_dict(), tmp_path / "sampler.pt")
    assert torch.load(tmp_path / "sampler.pt", weights_only=True) == sampler.state_dict()
