"""Adaptive importance sampling: mixtures (VRM), bandits (VRB), k-DPPs, prioritised replay.

`AdaptiveBatchSampler` and `Weighted`, which put any of these samplers under a torch DataLoader, need torch, which is
imported when they are asked for.
"""

from handful.lazy import lazy_names
from handful.sampling.bandit import BanditSampler
from handful.sampling.base import UniformSampler
from handful.sampling.components import concentration, distance_components, group_components
from handful.sampling.full_information import FullInformation
from handful.sampling.kdpp import KDPP, UniformSubsets
from handful.sampling.mixture import REFERENCE, FixedMixture, MixtureSampler
from handful.sampling.replay import PrioritizedReplay
from handful.sampling.sets import SetMixture
from handful.sampling.sgd import linear_sgd

__all__ = [
    "KDPP",
    "REFERENCE",
    "BanditSampler",
    "FixedMixture",
    "FullInformation",
    "MixtureSampler",
    "PrioritizedReplay",
    "SetMixture",
    "UniformSampler",
    "UniformSubsets",
    "concentration",
    "distance_components",
    "group_components",
    "linear_sgd",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AdaptiveBatchSampler": "handful.sampling.torch_sampler",
        "Weighted": "handful.sampling.torch_sampler",
    },
)
