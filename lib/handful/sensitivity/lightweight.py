"""Lightweight coresets for clustering (Bachem, Lucic and Krause 2018), in two passes over data of any size."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms

from handful.checks import MAX_SEED, check_generator, check_integer, check_magnitude, check_rows, check_sample_weight
from handful.coreset import Selector
from handful.linalg import centred, sq_distance
from handful.types import Seed, Table, joined

BLOCK = 4096  # rows whose statistics are kept together
CHUNK = 16 * BLOCK  # rows read at a time
N_PIVOT = 256  # rows whose mean serves as the pivot


@njit(cache=True, nogil=True)
def add_statistics(X, u, pivot, start, mass, sums, squares):
    """Add rows to the statistics of their blocks, from which the sampling probabilities follow.

    Row i of `X` is row ``start + i`` of the data and belongs to block ``(start + i) // BLOCK``. Rows are added one
    after the other, so the result is bitwise the same however the data were cut into chunks; statistics of different
    chunks can be added up.

    Parameters
    ----------
    X : array, shape (n, d), any float type
    u : float64 array, shape (n,), weights of the rows
    pivot : float64 array, shape (d,), a point amid the data, so that sums of squares about it do not cancel
    start : int
    mass : float64 array, shape (n_blocks,), sum of u; all three are changed in place
    sums : float64 array, shape (n_blocks, d), sum of u (x - pivot)
    squares : float64 array, shape (n_blocks,), sum of u |x - pivot|^2
    """
    for i in range(X.shape[0]):
        b = (start + i) // BLOCK
        mass[b] += u[i]
        for j in range(pivot.size):
            sums[b, j] += u[i] * (X[i, j] - pivot[j])
        squares[b] += u[i] * sq_distance(X[i], pivot)


def block_shares(mass, sums, squares):
    """The mean, and the probability of each block, from its statistics.

    Parameters
    ----------
    mass, sums, squares : from `add_statistics`

    Returns
    -------
    offset : array, shape (d,), the weighted mean minus the pivot
    scatter : float, the weighted sum of squared distances to the mean; 0 where it is too small to divide by
    shares : array, shape (n_blocks,), adding up to 1 but for rounding
    """
    total = mass.sum()
    offset = sums.sum(axis=0) / total
    about_mean = np.maximum(squares - 2 * (sums @ offset) + mass * (offset @ offset), 0.0)
    scatter = about_mean.sum()
    if scatter < 1 / np.finfo(np.float64).max:
        return offset, 0.0, mass / total
    return offset, scatter, 0.5 * mass / total + 0.5 * about_mean / scatter


@njit(cache=True, nogil=True)
def _sq_distances(X, center):
    # From each row to the center. NumPy would copy the block in double precision and take twice as long.
    distances = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        distances[i] = sq_distance(X[i], center)
    return distances


def _draw_in_block(X, u, center, mass_rate, scatter_rate, position):
    # The rows at ascending positions in [0, 1) along the cumulated probabilities of the block, and their shares of it.
    q = u * (mass_rate + scatter_rate * _sq_distances(X, center))
    edges = np.cumsum(q)
    # Rounding may carry a position past the last row of positive probability.
    last = np.searchsorted(edges, edges[-1], side="left")
    rows = np.minimum(np.searchsorted(edges, position * edges[-1], side="right"), last)
    return rows, q[rows] / edges[-1]


@dataclass(frozen=True)
class Draws:
    """Where the draws fall: all that the second pass needs to know apart from the rows of the blocks.

    Attributes
    ----------
    size : int, number of draws
    center : float64 array, shape (d,), the weighted mean
    rates : (float, float), of weight and of squared distance in a row's probability
    blocks : int array, ascending; those from which something is drawn
    positions : list of float arrays, one a block, ascending in [0, 1)
    shares : float array, each block's probability
    """

    size: int
    center: np.ndarray
    rates: tuple
    blocks: np.ndarray
    positions: list
    shares: np.ndarray

    def rows(self, k, X, u):
        """The rows drawn from the k-th of the blocks, whose rows are `X` and `u`, and the weight of each draw."""
        picked, share = _draw_in_block(X, u, self.center, *self.rates, self.positions[k])
        # Dividing by the probability as it was used, rounding included, keeps the estimate unbiased to the last digit.
        return picked, u[picked] / (self.size * share * self.shares[k])


def plan_draws(mass, sums, squares, pivot, size, rng):
    """Split `size` draws over the blocks by their statistics: a `Draws`.

    Parameters
    ----------
    mass, sums, squares, pivot : from `add_statistics`
    size : int
    rng : numpy.random.Generator
    """
    offset, scatter, shares = block_shares(mass, sums, squares)
    edges = np.cumsum(shares)
    edges /= edges[-1]
    positions = np.sort(rng.random(size))
    blocks, first = np.unique(np.searchsorted(edges, positions, side="right"), return_index=True)
    low = np.where(blocks > 0, edges[blocks - 1], 0.0)
    high = edges[blocks]
    mine = np.split(positions, first[1:])
    mine = [(p - a) / (b - a) for p, a, b in zip(mine, low, high)]
    rates = (0.5 / mass.sum(), 0.5 / scatter) if scatter else (1.0, 0.0)
    return Draws(size, pivot + offset, rates, blocks, mine, high - low)


def block_sums(weights):
    """The sum of the weights of each block of rows, shape (n_blocks,)."""
    return np.add.reduceat(weights, np.arange(0, len(weights), BLOCK))


def merge_draws(indices, weights):
    """Draws of the same row as one with the sum of their weights: (indices, ascending, and weights)."""
    indices, slot = np.unique(indices, return_inverse=True)
    return indices, np.bincount(slot, weights=weights)


def pivot_rows(n):
    """The rows whose mean is the pivot, a slice."""
    return slice(None, None, -(-n // N_PIVOT))


def lightweight_coreset(X: Table, size: int, *, rng: Any, sample_weight: Table = None) -> Any:
    """Sample a lightweight coreset: `size` weighted draws from the rows of `X`.

    Mixes uniform sampling with sampling by squared distance to the mean (Bachem, Lucic and Krause 2018, Algorithm 1):
    ``q = 1/2 u / sum(u) + 1/2 u |x - mean|^2 / scatter``. Every k-means cost is estimated without bias. Rows are read
    in chunks, twice, the second time only blocks from which something was drawn; nothing of length n is kept but
    `sample_weight`. The result depends on the seed alone.

    Parameters
    ----------
    X : array, memory map or CSR matrix, shape (n, d), finite
    size : int, number of draws; a row that is drawn repeatedly gets the sum of its weights
    rng : numpy.random.Generator
    sample_weight : float array, shape (n,), non-negative, or None

    Returns
    -------
    indices : int array, shape (at most size,), ascending
    weights : float array; the expected sum of weights * cost is the sum of the cost over all rows

    Raises
    ------
    TypeError, ValueError
        for values that are not finite or huge, wrong shapes, bad weights, a size below 1, another `rng`
    """
    check_generator(rng)
    check_integer("size", size)
    X = _readable(X)
    n, d = X.shape
    if sample_weight is not None:
        sample_weight = check_sample_weight(sample_weight, n)
    # weights near the largest float would overflow
    scale = 1.0 if sample_weight is None else block_sums(sample_weight).sum()
    if sparse.issparse(X):
        u = np.ones(n) if sample_weight is None else sample_weight / scale
        indices, weights = _sparse_draws(X, u, size, rng)
        return merge_draws(indices, weights * scale)
    n_blocks = -(-n // BLOCK)

    def read(start, stop):
        u = np.ones(stop - start) if sample_weight is None else sample_weight[start:stop] / scale
        return np.ascontiguousarray(X[start:stop]), u

    mass, sums, squares = np.zeros(n_blocks), np.zeros((n_blocks, d)), np.zeros(n_blocks)
    pivot = np.ascontiguousarray(X[pivot_rows(n)]).mean(axis=0, dtype=np.float64)
    for start in range(0, n, CHUNK):
        rows, u = read(start, min(start + CHUNK, n))
        if not np.isfinite(rows).all():
            raise ValueError(f"X contains NaN or infinity in rows {start} to {start + len(rows) - 1}.")
        if rows.dtype.kind == "f":
            check_magnitude(rows, "X", rows.dtype)
        add_statistics(rows, u, pivot, start, mass, sums, squares)
    draws = plan_draws(mass, sums, squares, pivot, size, rng)
    indices, weights = [], []
    for k, b in enumerate(draws.blocks):
        start = b * BLOCK
        picked, weight = draws.rows(k, *read(start, min(start + BLOCK, n)))
        indices.append(start + picked)
        weights.append(weight * scale)
    return merge_draws(np.concatenate(indices), np.concatenate(weights))


def _sparse_draws(X, u, size, rng):
    # The same draws by norms and products, which read nothing but what is stored.
    X, _ = centred(X, u)
    unit = np.abs(X.data).max(initial=0.0) or 1.0
    X = X / unit  # squares of tiny entries do not underflow
    mean = (u @ X) / u.sum()
    sq_dist = np.maximum(row_norms(X, squared=True) - 2 * (X @ mean) + mean @ mean, 0.0)
    scatter = u @ sq_dist
    q = 0.5 * u / u.sum() + 0.5 * u * (sq_dist / scatter) if scatter > 0 else u / u.sum()
    edges = np.cumsum(q)
    last = int(np.flatnonzero(q)[-1])
    rows = np.minimum(np.searchsorted(edges, np.sort(rng.random(size)) * edges[-1], side="right"), last)
    return rows, u[rows] / (size * q[rows] / edges[-1])


def lightweight_blocks(blocks: Any, size: int, *, rng: Any) -> Any:
    """`lightweight_coreset` of rows in blocks, in two passes: the rows drawn with their weights and places, a Block.

    Parameters
    ----------
    blocks : handful.blocks.Blocks
    size : int, number of draws
    rng : numpy.random.Generator
    """
    mass, means, scatters = map(np.array, zip(*blocks.map(_moments)))
    mean = mass @ means / mass.sum()
    about_mean = scatters + mass * ((means - mean) ** 2).sum(axis=1)
    rates = (0.5 / mass.sum(), 0.5 / about_mean.sum()) if about_mean.sum() > 0 else (1 / mass.sum(), 0.0)
    shares = rates[0] * mass + rates[1] * about_mean
    shares /= shares.sum()
    draws = rng.multinomial(size, shares)
    own = [(int(k), size * share) if k else None for k, share in zip(draws, shares)]
    return joined(blocks.map(_draws_of_block, mean, rates, int(rng.integers(MAX_SEED)), own=own))


def _moments(block):
    X, u = check_rows(block.X, accept_sparse="csr"), block.weights
    check_sample_weight(u, len(u)) if u.any() else None
    mean = X.T @ u / max(u.sum(), np.finfo(float).tiny)
    return u.sum(), mean, u @ _sq_distances_to(X, mean)


def _sq_distances_to(X, center):
    if sparse.issparse(X):
        X, moved = centred(X)
        center = center - moved
        return np.maximum(row_norms(X, squared=True) - 2 * (X @ center) + center @ center, 0.0)
    return _sq_distances(np.ascontiguousarray(X), center)


def _draws_of_block(block, mean, rates, seed, own):
    draws, rate = own
    X, u = check_rows(block.X, accept_sparse="csr"), block.weights
    q = u * (rates[0] + rates[1] * _sq_distances_to(X, mean))
    rng = np.random.default_rng([seed, int(block.ids[0])])
    rows, counts = np.unique(rng.choice(len(q), draws, p=q / q.sum()), return_counts=True)
    return replace(block.take(rows), weights=counts * u[rows] * q.sum() / (rate * q[rows]))


def _readable(X):
    # Neither copied nor read here: a memory map, of bytes too, may not fit in the memory.
    dtype = getattr(X, "dtype", None)
    whole = isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.isnative
    if sparse.issparse(X) or not (whole or dtype in (np.float32, np.float64)):
        X = check_array(X, dtype=[np.float64, np.float32], accept_sparse="csr")
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must have shape (n, d), got {X.shape}.")
    return X


class LightweightCoreset(Selector):
    """A lightweight coreset: weighted rows on which k-means costs are those of all rows (Bachem et al. 2018).

    Half of the draws go by weight alone, half by squared distance to the mean; `fit` takes two passes over the data. It
    is for any k-means that takes weights. Where most rows are about equally far from the mean, this is about a uniform
    draw: the gain is in rare rows far out.

    Parameters
    ----------
    size : number of draws m, with repetition; a row drawn k times comes once, with k times the weight
    random_state : int, Generator or None

    Attributes
    ----------
    indices_ : shape (at most m,), ascending
    weights_ : shape (at most m,), sample_weight over the expected number of draws

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(10_000, 3))
    >>> X_small, weights = LightweightCoreset(500, random_state=0).fit(X).take(X)
    >>> bool(abs(weights @ (X_small**2).sum(axis=1) / (X**2).sum() - 1) < 0.05)
    True
    """

    _takes_sparse = True
    _repeats = True
    _ranks = False

    def __init__(self, size: int = 1000, *, random_state: Seed = None) -> None:
        self.size = size
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        weights = None if (sample_weight == 1).all() else sample_weight  # the same digits as without weights
        return lightweight_coreset(X, self.size, rng=rng, sample_weight=weights)

    def _select_blocks(self, blocks, rng):
        drawn = lightweight_blocks(blocks, self.size, rng=rng)
        return drawn.ids, drawn.weights
