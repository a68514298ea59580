"""Long runs: streams of ten million rows at constant memory, ten million draws, ten thousand updates."""

import resource

import numpy as np
from handful import VCGMM, MergeReduce, MixtureSampler, UniformCoreset
from handful.streaming import Reservoir

MB = 2**10  # ru_maxrss is in KiB


def stream(rows=10_000_000, chunk=50_000):
    """The rows held stay few, and the peak of the memory does not grow after the first tenth of the stream."""
    streams = {
        "MergeReduce": MergeReduce(UniformCoreset(), size=100, leaf_size=10_000, random_state=0),
        "Reservoir": Reservoir(1000, random_state=0),
    }
    lines = []
    for name, memory in streams.items():
        rng, early = np.random.default_rng(0), None
        for start in range(0, rows, chunk):
            memory.partial_fit(rng.normal(size=(chunk, 3)))
            if early is None and start >= rows // 10:
                early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early
        total = memory.weights_.sum()
        assert grown < 5 * MB, f"{name}: the peak grew by {grown / MB:.1f} MB after a tenth of {rows:,} rows"
        assert memory.n_rows_held_ <= 10_000 + 100 * (2 + np.log2(rows / 10_000)), memory.n_rows_held_
        # a uniform draw inside each node: the total is exact only for the reservoir
        assert abs(total / rows - 1) < (1e-9 if name == "Reservoir" else 0.5), total
        lines.append(
            f"{name}: {rows:,} rows, {memory.n_rows_held_:,} held at the end; after the first tenth the peak of the "
            f"memory grew by {grown / MB:.1f} MB"
        )
    return lines


def draws(n_draws=10_000_000, n=20):
    """Frequencies within 4 standard errors of the probabilities that the sampler states, and unbiased means."""
    rng = np.random.default_rng(0)
    p = rng.random((3, n)) + 0.05
    sampler = MixtureSampler(p / p.sum(axis=1, keepdims=True), batch_size=n, random_state=0)
    values, counts, sums, squares, drawn = rng.random(n), np.zeros(n), 0.0, 0.0, 0
    q = sampler.probabilities
    while drawn < n_draws:
        indices, weights = sampler.sample()
        np.add.at(counts, indices, 1)
        terms = weights * values[indices]
        sums, squares, drawn = sums + terms.sum(), squares + (terms**2).sum(), drawn + len(indices)
    errors = np.abs(counts / drawn - q) / np.sqrt(q * (1 - q) / drawn)
    mean = sums / drawn
    off = abs(mean - values.mean()) / np.sqrt((squares / drawn - mean**2) / drawn)
    assert errors.max() < 4, errors
    assert off < 4, off
    return [
        f"MixtureSampler: {drawn:,} draws; the frequencies of {n} points are within {errors.max():.1f} standard errors of "
        f"their probabilities, the weighted mean within {off:.1f}"
    ]


def updates(n_updates=10_000):
    """Clusters stay where the data are, and every number finite."""
    rng = np.random.default_rng(0)
    centers = np.array([[-5.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    model = VCGMM(3, random_state=0)
    for _ in range(n_updates):
        model.partial_fit(centers[rng.integers(3, size=50)] + rng.normal(size=(50, 2)))
    found = model.cluster_centers_[np.argsort(model.cluster_centers_ @ [1.0, 0.1])]
    off = np.abs(found - centers[np.argsort(centers @ [1.0, 0.1])]).max()
    assert off < 0.2, found
    return [f"VCGMM: {n_updates:,} calls of partial_fit with 50 rows; the three centres are off by {off:.3f} at most"]


def run():
    """All of them: a line each."""
    lines = [*stream(), *draws(), *updates()]
    print("\n".join(lines), flush=True)
    return lines
