"""Merge and reduce over dask: the tree of `handful.streaming`, each node a task."""

import dask
import numpy as np

from handful.checks import check_generator, check_integer
from handful.coreset import check_selector
from handful.distributed.chunks import DistributedCoreset, check_finite, delayed_chunks, first_rows
from handful.streaming import Node, reduce_nodes


def merge_reduce(selector, X, y=None, *, size, rng):
    """The coreset of a dask collection by merge and reduce: each chunk is a leaf, and each node of the tree a task.

    The coreset is that of `handful.streaming.MergeReduce`, and of `DynamicMergeReduce`, with the same leaves and seed.

    Parameters
    ----------
    selector : Selector, such as `SVMCoreset`; its own `size` and `random_state` are not used
    X : dask array, shape (n, d), in chunks of rows; or a dask bag of chunks ``(X, y)`` (or ``X`` alone),
        numpy arrays or CSR matrices
    y : dask array, shape (n,), chunked like X; None for a bag
    size : int; rows of a node, so of the coreset
    rng : numpy.random.Generator, draws the seed of the tree

    Returns
    -------
    DistributedCoreset

    Raises
    ------
    ValueError
        for a size below 1, an X that is neither a dask array of real numbers nor a bag, a `y` that is no dask array of
        the same length, NaN, infinity, and data that the selector refuses
    """
    check_integer("size", size)
    check_generator(rng)
    check_selector(selector)
    seed = int(rng.integers(2**32))
    chunks = delayed_chunks(X, y)
    starts, _ = first_rows(chunks)
    groups, level = [[dask.delayed(_leaf)(chunk, start)] for chunk, start in zip(chunks, starts)], 0
    while True:
        reduce = dask.delayed(_reduce, pure=False)
        nodes = [reduce(group, selector, size, [seed, level, i]) for i, group in enumerate(groups)]
        if len(nodes) == 1:
            break
        groups, level = [nodes[i : i + 2] for i in range(0, len(nodes), 2)], level + 1
    (node,) = dask.compute(nodes[0])
    if node is None:
        raise ValueError("the data have no rows: there is no coreset.")
    return DistributedCoreset(node.X, node.y, node.weights, node.ids)


def _leaf(chunk, start):
    X, y = check_finite(chunk)
    return Node(X, y, np.ones(X.shape[0]), start + np.arange(X.shape[0]))


def _reduce(nodes, selector, size, place):
    # None where there are no rows; `place` is the tree's seed, the level and the index.
    nodes = [node for node in nodes if node is not None and len(node)]
    return reduce_nodes(nodes, selector, size, np.random.default_rng(place)) if nodes else None
