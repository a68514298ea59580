"""Components for mixtures of sampling distributions: their checks, and ready-made ones."""

from contextlib import suppress

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from handful.checks import (
    as_generator,
    check_in_memory,
    check_integer,
    check_labels,
    check_number,
    check_rows,
)
from handful.tables import as_array


def check_probabilities(probabilities, *, uniform):
    """The components as a float64 array whose rows add up to one, and whether the last is the
    uniform one.

    Parameters
    ----------
    probabilities : array, shape (k, n)
    uniform : bool, whether the mixture has a uniform component besides (or as its last row)

    Raises
    ------
    ValueError
        for a wrong shape, NaN, negative entries, rows that do not add up to one, and, without a
        uniform component, zeros: the weights could starve such a point, and its importance weight
        has no bound
    """
    check_in_memory("probabilities", probabilities)
    if sparse.issparse(probabilities):
        raise TypeError("probabilities must be dense, got a sparse matrix: give its toarray().")
    p = np.ascontiguousarray(as_array(probabilities))
    if p.dtype.kind == "O":
        # such as a frame of nullable numbers
        with suppress(TypeError, ValueError):
            p = p.astype(np.float64)
    if np.ndim(probabilities) == 1:
        raise ValueError(
            f"probabilities must have shape (k, n), one distribution a row, got {p.shape}; of "
            "labels, one for each "
            "point, group_components(labels) makes them."
        )
    if p.dtype.kind not in "fiub":
        raise ValueError(f"probabilities must be real numbers, got dtype {p.dtype}.")
    # Numbers that were rounded to bfloat16 come as float32.
    tolerance = 2.0**-8 if p.dtype in (np.float32, np.float16) else 1e-6
    p = p.astype(np.float64, copy=False)
    if p.ndim != 2 or p.size == 0:
        raise ValueError(
            f"probabilities must have shape (k, n), one distribution a row, got {p.shape}."
        )
    total = p.sum(axis=1)
    least = p.min(axis=1)
    greatest = p.max(axis=1)
    for j in range(len(p)):
        _check_component(j, total[j], least[j], tolerance, uniform)
    is_uniform = uniform and greatest[-1] - least[-1] <= 1e-9 * greatest[-1]
    if np.abs(total - 1.0).max() > 1e-12:
        p = p / total[:, None]
    return p, bool(is_uniform)


def _check_component(j, total, least, tolerance, uniform):
    if not (least >= 0 and np.isfinite(total)):
        raise ValueError(f"probabilities must be finite and not negative; component {j} is not.")
    if abs(total - 1.0) > tolerance:
        raise ValueError(
            f"each component must add up to one; component {j} adds up to {total:.6g}."
        )
    if least == 0 and not uniform:
        raise ValueError(
            f"component {j} gives a point probability zero, and no uniform component reaches it; "
            "leave such points out, drawing among np.flatnonzero(probabilities), or leave "
            "uniform=True, which draws all points."
        )


def group_components(labels, *, leak=1e-7):
    """One component a group, proportional to 1 on the group and to `leak` elsewhere (VRM, section
    6.1).

    Parameters
    ----------
    labels : array of shape (n,)
        A group's name for each point.
    leak : float, default=1e-7
        The weight of the points outside, at least 0.

    Returns
    -------
    array of shape (number of groups, n)
        A distribution over the points in each row, in the sorted order of the names.
    """
    check_in_memory("labels", labels)
    labels = as_array(labels)
    check_labels(labels, "the argument labels")
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"labels must have shape (n,), the group of each point, got {labels.shape}."
        )
    check_number("leak", leak, least=0, why="it is the weight of the points outside")
    p = np.where(labels == np.unique(labels)[:, None], 1.0, float(leak))
    return p / p.sum(axis=1, keepdims=True)


def distance_components(X, k, *, random_state=None, smoothing=0.1):
    """Components for mini-batch k-means: far points of a random centre are likely (VRM, section
    6.4).

    p_j(i) = (1 - smoothing) d(x_i, mu_j) / sum_l d(x_l, mu_j) + smoothing/n, with mu_j a random
    data point and d the Euclidean distance.

    Parameters
    ----------
    X : array of shape (n, d)
        The points.
    k : int
        Number of components, at most n.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the choice of the centres.
    smoothing : float, default=0.1
        The uniform share of each component, from 1e-12 to 1.

    Returns
    -------
    array of shape (k, n)
        A distribution over the points in each row.
    """
    X = check_rows(X)
    n = len(X)
    check_integer("k", k, most=n, why="there are no more points")
    check_number(
        "smoothing",
        smoothing,
        least=1e-12,
        most=1,
        why="it is the uniform share, and must outlast rounding",
    )
    rng = as_generator(random_state)
    p = cdist(X[rng.choice(n, size=k, replace=False)], X)
    total = p.sum(axis=1, keepdims=True)
    # all points are equal: only the uniform share is left
    total[total == 0] = 1.0
    p *= (1.0 - smoothing) / total
    p += (1.0 - p.sum(axis=1, keepdims=True)) / n
    return p
