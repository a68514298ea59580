"""Independent draws of rows in chunks, by scores that the chunks compute."""

import numpy as np

from handful.checks import MAX_SEED
from handful.sensitivity.draws import multinomial_draw


def importance_draw(chunks, scores, shared, size, rng, *, shares=None):
    """`size` independent draws, with probabilities in proportion to scores: one pass for their sums, one to draw.

    The second pass reads only the chunks that have draws. A row that is drawn repeatedly comes once, with the sum of
    its weights, so that every weighted sum over the rows is estimated without bias.

    Parameters
    ----------
    chunks : Chunks
    scores : function of a chunk and the `shared` arguments, the scores of its rows, non-negative
    size : int
    rng : numpy.random.Generator
    shares : the sum of the scores of each chunk, where they are known already

    Returns
    -------
    indices : int array, ascending
    weights : float array, the same shape
    """
    seed = int(rng.integers(MAX_SEED))
    if shares is None:
        shares = np.array(chunks.map(_share, scores, shared))
    total = shares.sum()
    counts = np.random.default_rng([seed, 0]).multinomial(size, shares / total)
    only = np.flatnonzero(counts)
    own = [(int(counts[i]), size / total) for i in only]
    parts = chunks.map(_draw, scores, shared, seed, own=own, only=only)
    return tuple(np.concatenate(values) for values in zip(*parts))


def _share(chunk, scores, shared):
    return float(np.sum(scores(chunk, *shared))) if len(chunk) else 0.0


def _draw(chunk, scores, shared, seed, count, rate):
    q = scores(chunk, *shared)
    chosen, weights = multinomial_draw(
        q / q.sum(), chunk.weights, count, rng=np.random.default_rng([seed, 1, chunk.index])
    )
    return chunk.start + chosen, weights * (count / (rate * q.sum()))
