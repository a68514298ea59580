"""Adaptive importance sampling: mixtures (VRM), bandits (VRB), k-DPPs, prioritised replay.

`handful.sampling.torch_sampler`, which needs torch, puts any of these samplers under a DataLoader.
"""

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
