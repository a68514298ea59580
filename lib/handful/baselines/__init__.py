"""Selections that every method of the papers is compared with.

All take the data themselves, or as `X` what a trained network makes of the rows, such as the
embeddings of `handful.continual.network_views`. All but `BalancedCoreset` give their rows in the
order in which they count, which replay memories rely on: the first k rows stand for all as a
choice of k does.
"""

from handful.baselines.balanced import BalancedCoreset
from handful.baselines.centers import KCenter, KMeansPlusPlus
from handful.baselines.herding import Herding
from handful.baselines.stratified import StratifiedCoreset
from handful.baselines.uniform import UniformCoreset

__all__ = [
    "BalancedCoreset",
    "Herding",
    "KCenter",
    "KMeansPlusPlus",
    "StratifiedCoreset",
    "UniformCoreset",
]
