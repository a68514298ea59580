"""Figure 1 of the bilevel paper: the L1/2 penalty on the simplex, and what it does to weights (Section 3.5.3)."""

import numpy as np

from handful.bilevel.weights import descend

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3.0) / 2.0]])


def simplex_grid(n):
    """Points of the simplex in three dimensions, ``n (n + 1) / 2`` of them, and their places in the plane.

    Returns
    -------
    w : shape (points, 3), non-negative, adding up to one
    place : shape (points, 2), in an equilateral triangle of side one
    """
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    inside = i + j < n
    first, second = i[inside] / (n - 1), j[inside] / (n - 1)
    w = np.column_stack([first, second, np.maximum(1.0 - first - second, 0.0)])
    return w, w @ CORNERS


def penalty(w, q=0.5):
    """``sum_i w_i^q`` for weights in the last axis; the paper takes q = 1/2."""
    return np.sum(np.maximum(w, 0.0) ** q, axis=-1)


def falls_towards_edges(n_directions, n_steps, *, rng, q=0.5):
    """Share of random ways from the centre to the boundary along which the penalty falls at every step."""
    falls = 0
    for _ in range(n_directions):
        corner = rng.dirichlet(np.ones(3))
        away = corner - corner.mean()
        reach = (1.0 / 3.0) / -away.min()
        way = 1.0 / 3.0 + np.linspace(0.0, reach, n_steps)[:, None] * away
        falls += bool((np.diff(penalty(way, q)) < 0.0).all())
    return falls / n_directions


def positive_weights(variants, max_steps):
    """Number of positive weights after each step of Algorithm 2, and after as many steps without its penalty.

    Parameters
    ----------
    variants : `handful.experiments.multiclass.Variants`; the run ends at its smallest size
    max_steps : of either

    Returns
    -------
    list of int, int
    """
    counts = []
    variants.regularised(max_steps=max_steps, watch=lambda support: counts.append(int(support)))
    return counts, int(np.count_nonzero(descend(variants.everything(weighted=True), steps=len(counts), tol=0.0)))
