"""Proxies: kernels whose Nystrom features stand in for a network while points are chosen (Section 3.5.2)."""

from handful.bilevel.proxies.cntk import CNTK
from handful.bilevel.proxies.kernels import RBF, Kernel, Linear, Polynomial
from handful.bilevel.proxies.ntk import NTK
from handful.bilevel.proxies.nystrom import Nystrom, kernel_matrix

__all__ = ["CNTK", "NTK", "RBF", "Kernel", "Linear", "Nystrom", "Polynomial", "kernel_matrix"]
