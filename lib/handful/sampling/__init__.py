"""Adaptive importance sampling: mixtures (VRM), bandits (VRB), k-DPPs, prioritised replay.

`AdaptiveBatchSampler` and `Weighted`, which put any of these samplers under a torch DataLoader,
need torch, which is imported when they are asked for.
"""

from handful.lazy import lazy_names
from handful.sampling.bandit import BanditSampler
from handful.sampling.components import distance_components, group_components
from handful.sampling.kdpp import KDPP
from handful.sampling.mixture_sampler import MixtureSampler
from handful.sampling.replay import PrioritizedReplay
from handful.sampling.sampler import UniformSampler

__all__ = [
    "KDPP",
    "BanditSampler",
    "MixtureSampler",
    "PrioritizedReplay",
    "UniformSampler",
    "distance_components",
    "group_components",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AdaptiveBatchSampler": "handful.sampling.torch_sampler",
        "FixedMixture": "handful.sampling.mixture_sampler",
        "Weighted": "handful.sampling.torch_sampler",
    },
)
