"""Coresets of data that do not fit in memory, or that change: merge and reduce over any selector, and reservoirs."""

from handful.streaming.dynamic import DynamicMergeReduce
from handful.streaming.reservoir import ClassBalancedReservoir, Reservoir
from handful.streaming.stream import MergeReduce

__all__ = [
    "ClassBalancedReservoir",
    "DynamicMergeReduce",
    "MergeReduce",
    "Reservoir",
]
