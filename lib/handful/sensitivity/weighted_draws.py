"""Drawing a weighted sample from given probabilities, so that every sum is estimated without
bias."""

import numpy as np

from handful.distances import draw_along
from handful.plans import inclusion_probabilities


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
    edges = np.cumsum(q)
    drawn = draw_along(edges, rng.random(m))
    indices, counts = np.unique(drawn, return_counts=True)
    expected = m * q[indices]
    return indices, counts * u[indices] / expected


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
    end = np.nextafter(m, 0.0)
    teeth = np.arange(m) + rng.random()
    teeth = np.minimum(teeth, end)
    places = np.searchsorted(edges, teeth, side="right")
    places = np.minimum(places, len(q) - 1)
    indices = np.unique(order[places])
    return indices, u[indices] / pi[indices]


def order_by(key, groups, *, bins=4096):
    """A permutation that sorts by `groups` (0 or 1), then by `key` cut into `bins`: a radix sort,
    O(n)."""
    low = key.min()
    high = key.max()
    width = high - low
    scale = 0.0 if width == 0 else (bins - 1) / width
    scaled = (key - low) * scale
    bin_of = scaled.astype(np.uint16)
    group = np.uint16(bins) * groups.astype(np.uint16)
    return np.argsort(bin_of + group, kind="stable")
