"""Selections that every method of the papers is compared with.

`UniformCoreset`, `StratifiedCoreset`, `KMeansPlusPlus`, `KCenter` and `ForgettingEvents` take the data themselves. The
others take, as `X`, what a trained network makes of the rows, which `handful.continual.network_views` computes: losses
for `Hardest`, logits for `MaxEntropy`, embeddings or gradients for `Herding`, `ICaRL` and `FRCL` (`KMeansPlusPlus` and
`KCenter` take these, too). Each gives its rows in the order in which they count, which replay memories rely on: the
first k rows are what it would choose for size k. For `FRCL`, which exchanges rows, they are only the best k of its m.
"""

from handful.baselines.centers import KCenter, KMeansPlusPlus, farthest_first
from handful.baselines.forgetting import ForgettingEvents, forgetting_events
from handful.baselines.stratified import StratifiedCoreset
from handful.baselines.trained import FRCL, Hardest, Herding, ICaRL, MaxEntropy, prediction_entropies
from handful.baselines.uniform import UniformCoreset

__all__ = [
    "FRCL",
    "ForgettingEvents",
    "Hardest",
    "Herding",
    "ICaRL",
    "KCenter",
    "KMeansPlusPlus",
    "MaxEntropy",
    "StratifiedCoreset",
    "UniformCoreset",
    "farthest_first",
    "forgetting_events",
    "prediction_entropies",
]
