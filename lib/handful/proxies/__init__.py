"""Proxies: features in which a linear model stands in for another model while points are chosen
(Section 3.5.2)."""

from handful.proxies.cntk import CNTK
from handful.proxies.kernels import RBF
from handful.proxies.ntk import NTK
from handful.proxies.nystrom import Nystrom
from handful.proxies.trees import TreeLeaves

__all__ = ["CNTK", "NTK", "RBF", "Nystrom", "TreeLeaves"]
