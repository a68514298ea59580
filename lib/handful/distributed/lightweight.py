"""The lightweight coreset of chunks."""

import numpy as np

from handful.sensitivity import lightweight


def lightweight_rows(chunks, size, rng):
    """The rows of `handful.LightweightCoreset`, to the last bit those of one machine: ``(rows, indices, weights)``.

    Each chunk gives statistics of its blocks of 4,096 rows, by which the draws are split over the blocks; the chunks
    with draws are then read again. The result does not depend on the chunks.

    Parameters
    ----------
    chunks : Chunks
    size : int, draws
    rng : numpy.random.Generator
    """
    pivot = chunks.take(np.arange(chunks.n)[lightweight.pivot_rows(chunks.n)])[0].mean(axis=0, dtype=np.float64)
    chunks, scale = chunks.recut(lightweight.BLOCK), 1.0
    if not chunks.unit:
        scale = float(np.concatenate(chunks.map(_block_masses)).sum())
    statistics = chunks.map(_block_statistics, pivot, scale)
    draws = lightweight.plan_draws(*map(np.concatenate, zip(*statistics)), pivot, size, rng)
    chunk_of = np.searchsorted(chunks.starts, draws.blocks * lightweight.BLOCK, side="right") - 1
    only = np.unique(chunk_of)
    own = [(draws.part(chunk_of == i),) for i in only]
    rows, indices, weights = map(np.concatenate, zip(*chunks.map(_rows_of_blocks, scale, own=own, only=only)))
    indices, first, slot = np.unique(indices, return_index=True, return_inverse=True)
    return rows[first], indices, np.bincount(slot, weights=weights)


def _block_masses(chunk):
    return lightweight.block_sums(chunk.weights)


def _block_statistics(chunk, pivot, scale):
    # For each block of a chunk: its weight, sums, and squared distances from the pivot.
    n_blocks = -(-len(chunk) // lightweight.BLOCK)
    out = np.zeros(n_blocks), np.zeros((n_blocks, len(pivot))), np.zeros(n_blocks)
    lightweight.add_statistics(np.ascontiguousarray(chunk.X), chunk.weights / scale, pivot, 0, *out)
    if not np.isfinite(out[2]).all():
        raise ValueError("X contains entries whose squares overflow.")
    return out


def _rows_of_blocks(chunk, scale, draws):
    # The draws from a chunk: their rows, places and weights.
    indices, weights = [], []
    for k, b in enumerate(draws.blocks):
        first = b * lightweight.BLOCK - chunk.start
        block = slice(first, first + lightweight.BLOCK)
        picked, weight = draws.rows(k, np.ascontiguousarray(chunk.X[block]), chunk.weights[block] / scale)
        indices.append(first + picked)
        weights.append(weight * scale)
    indices = np.concatenate(indices)
    return np.asarray(chunk.X)[indices], chunk.start + indices, np.concatenate(weights)
