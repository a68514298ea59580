"""Coresets of data that do not fit in memory, or that change: merge and reduce over any selector."""

from handful.streaming.dynamic import DynamicMergeReduce
from handful.streaming.stream import MergeReduce
from handful.streaming.tree import Node, concatenate, reduce_nodes

__all__ = ["DynamicMergeReduce", "MergeReduce", "Node", "concatenate", "reduce_nodes"]
