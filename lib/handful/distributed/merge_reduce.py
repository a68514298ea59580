"""Merge and reduce over chunks: the tree of `handful.streaming`, each chunk a subtree and each node above it a task."""

import dask
import numpy as np
from scipy import sparse

from handful.distributed.chunks import Chunks
from handful.streaming import Node, reduce_nodes


def merge_reduce(stream, X, y, sample_weight):
    """Bring a `MergeReduce` that has just begun to where all rows of a dask collection would have brought it.

    Chunks are cut anew, at multiples of `leaf_size`, so that the tree is that of one machine, whatever the chunks; only
    rows of weight zero, which fill their leaf here and none there, make a difference.

    Returns
    -------
    dict of the attributes that the stream takes on
    """
    chunks = Chunks(X, y, sample_weight)
    leaf, depth = stream.leaf_size, 0
    while leaf << (depth + 1) <= chunks.lengths.max():
        depth += 1
    chunks = chunks.recut(leaf << depth)
    plan = stream.selector, stream.size, leaf, stream.seed_
    parts, level, nodes = chunks.tasks(_subtree, *plan, depth), depth, {}
    *whole, last = parts
    above = dask.delayed(_merged, pure=False)
    full = [dask.delayed(_top, pure=False)(part, depth) for part in whole]
    if chunks.n % (leaf << depth) == 0:
        full, last = [*full, dask.delayed(_top, pure=False)(last, depth)], None
    while full:
        if len(full) % 2:
            nodes[level] = full.pop()
        level += 1
        full = [above(full[i : i + 2], *plan, level, i // 2) for i in range(0, len(full), 2)]
    found, rest = chunks.compute([dask.delayed(nodes), dask.delayed(last)])
    n_reductions = sum(count for _, count in found.values())
    nodes, pending = {key: node for key, (node, _) in found.items()}, []
    if rest is not None:
        lower, pending, count = rest
        nodes, n_reductions = {**lower, **nodes}, n_reductions + count
    return dict(
        _nodes={key: node for key, node in nodes.items() if node is not None},
        _leaf=[pending] if len(pending) else [],
        _n_leaves=chunks.n // leaf,
        _top=None,
        n_seen_=chunks.n,
        n_reductions_=n_reductions,
        n_features_in_=chunks.d,
        _forms={
            "rows": "sparse" if chunks.sparse else "dense",
            "y": chunks.has_y,
            **({"labels": chunks.label_kind} if chunks.has_y else {}),
        },
    )


def _subtree(chunk, selector, size, leaf, seed, depth):
    """The nodes that the chunk's whole leaves make, by level, the rows after them, and how often a selector ran."""
    nodes, count = {}, 0
    X = chunk.X if sparse.issparse(chunk.X) else np.asarray(chunk.X)
    rows = Node(X, chunk.y, chunk.weights, chunk.start + np.arange(len(chunk)))
    for i in range(len(chunk) // leaf):
        node, ran = _reduced(
            [rows.take(slice(i * leaf, (i + 1) * leaf))], selector, size, [seed, 0, chunk.start // leaf + i]
        )
        count, level, index = count + ran, 0, i
        while index % 2 and level < depth:
            level, index = level + 1, index // 2
            place = [seed, level, (chunk.start // leaf >> level) + index]
            node, ran = _reduced([nodes.pop(level - 1), node], selector, size, place)
            count += ran
        nodes[level] = node
    return nodes, rows.take(slice(len(chunk) // leaf * leaf, None)).of_positive_weight(), count


def _top(part, depth):
    nodes, _, count = part
    return nodes[depth], count


def _merged(pair, selector, size, leaf, seed, level, index):
    node, ran = _reduced([node for node, _ in pair], selector, size, [seed, level, index])
    return node, ran + sum(count for _, count in pair)


def _reduced(nodes, selector, size, place):
    # None where there are no rows; `place` is the tree's seed, the level and the index.
    nodes = [node.of_positive_weight() for node in nodes if node is not None]
    nodes = [node for node in nodes if len(node)]
    if not nodes:
        return None, 0
    ran = sum(map(len, nodes)) > size
    return reduce_nodes(nodes, selector, size, np.random.default_rng(place)), int(ran)
