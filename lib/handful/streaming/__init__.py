"""Coresets of data that do not fit in memory, or that change: merge and reduce over any selector,
and reservoirs."""

from handful.streaming.reservoir import ClassBalancedReservoir, Reservoir, ReservoirCoreset
from handful.streaming.stream import MergeReduce

__all__ = [
    "ClassBalancedReservoir",
    "MergeReduce",
    "Reservoir",
    "ReservoirCoreset",
]
