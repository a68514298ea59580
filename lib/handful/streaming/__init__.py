"""Coresets of data that do not fit in memory, or that change: merge and reduce over any selector,
and reservoirs."""

from handful.streaming.merge_reduce import MergeReduce
from handful.streaming.reservoir import ClassBalancedReservoir, Reservoir, ReservoirCoreset

__all__ = [
    "ClassBalancedReservoir",
    "MergeReduce",
    "Reservoir",
    "ReservoirCoreset",
]
