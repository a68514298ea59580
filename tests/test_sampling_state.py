"""A sampler is saved in the middle of a training."""

import pickle

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
P = distance_components(X, 4, random_state=np.random.default_rng(1))


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
def test_a_pickled_sampler_goes_on_as_if_nothing_had_been(name):
    first = SAMPLERS[name](0)
    rounds(first, 5)
    indices, _ = first.sample()  # a batch whose losses come after it was pickled
    second = pickle.loads(pickle.dumps(first))
    for sampler in (first, second):
        sampler.update(1.5 if sampler.draws_sets else np.arange(1.0, 1 + len(indices)))
    assert rounds(second, 5) == rounds(first, 5)
