"""Proxies: features in which a linear model stands in for another model while points are chosen (Section 3.5.2)."""

from handful.bilevel.proxies.cntk import CNTK
from handful.bilevel.proxies.kernels import RBF, Kernel, Linear, Polynomial
from handful.bilevel.proxies.ntk import NTK
from handful.bilevel.proxies.nystrom import Nystrom, kernel_matrix
from handful.bilevel.proxies.trees import TreeLeaves

__all__ = ["CNTK", "NTK", "RBF", "Kernel", "Linear", "Nystrom", "Polynomial", "TreeLeaves", "kernel_matrix"]
