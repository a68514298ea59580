"""Drawing a weighted sample from given probabilities, so that every sum is estimated without
bias."""

import numpy as np

from handful.distances import draw_along


def multinomial_draw(q, u, m, *, rng):
    """`m` independent draws from `q`, a row drawn k times once with k times the weight.

    Parameters
    ----------
    q : float array, shape (n,), adding up to 1
    u : float array, shape (n,); weights of the rows
    m : int
    rng : numpy.random.Generator

    Returns
    -------
    indices : int array, shape (at most m,), ascending
    weights : float array; ``k u / (m q)``, so that E[sum of weights * cost] = sum of u * cost
    """
    indices, counts = np.unique(draw_along(np.cumsum(q), rng.random(m)), return_counts=True)
    return indices, counts * u[indices] / (m * q[indices])


def inclusion_probabilities(q, m):
    """``min(1, s q)`` with s such that they add up to `m`, a number of rows.

    Parameters
    ----------
    q : non-negative float array, shape (n,), at least `m` of them positive
    m : int

    Returns
    -------
    float array, shape (n,)
    """
    pi = m * (q / q.sum())
    sure = np.zeros(len(q), dtype=bool)
    while (pi > 1.0).any():
        sure |= pi >= 1.0
        rest = np.where(sure, 0.0, q)
        left = m - sure.sum()
        pi = np.where(sure, 1.0, left * rest / rest.sum() if left > 0 else 0.0)
    return pi


def systematic_draw(q, u, m, order, *, rng):
    """`m` distinct rows by systematic sampling along `order`: every stretch of it gets its due
    number.

    Rows are included with probability ``min(1, s q)``; a single random number shifts the comb
    (Madow 1949). The draws depend on one another: sums are still unbiased, but bounds for
    independent draws do not apply.

    Parameters
    ----------
    q, u : float arrays, shape (n,); probabilities and weights of the rows
    m : int, at most the number of rows with positive `q`
    order : int array, shape (n,), a permutation; neighbours in it should be alike
    rng : numpy.random.Generator

    Returns
    -------
    indices : int array, shape (m,), ascending
    weights : float array, shape (m,); u over the inclusion probability
    """
    pi = inclusion_probabilities(q, m)
    edges = np.cumsum(pi[order])
    edges *= m / edges[-1]
    teeth = np.minimum(np.arange(m) + rng.random(), np.nextafter(m, 0.0))
    indices = np.unique(order[np.minimum(np.searchsorted(edges, teeth, side="right"), len(q) - 1)])
    return indices, u[indices] / pi[indices]


def order_by(key, groups, *, bins=4096):
    """A permutation that sorts by `groups` (0 or 1), then by `key` cut into `bins`: a radix sort,
    O(n)."""
    low = key.min()
    high = key.max()
    scaled = np.zeros(len(key)) if high == low else (key - low) * ((bins - 1) / (high - low))
    return np.argsort(
        scaled.astype(np.uint16) + np.uint16(bins) * groups.astype(np.uint16), kind="stable"
    )
