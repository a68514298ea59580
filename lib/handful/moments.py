"""Means and deviations of columns, part by part, and which columns are better moved to zero before
they are squared."""

import numpy as np

# A column that lies further from zero than so many of its deviations is moved there.
FAR = 10


def moments(Z, w):
    """Of the rows with positive weights: their weight, and of each column mean, squares about it,
    least and largest.

    Returns
    -------
    array, shape (5, columns), the weight repeated; None where no weight is positive
    """
    if not w.all():
        Z = Z[w > 0]
        w = w[w > 0]
    if not len(w):
        return None
    total = w.sum()
    mean = w @ Z / total
    squares = Z - mean
    squares = w @ np.multiply(squares, squares, out=squares)
    totals = np.full(len(mean), total)
    return np.array([totals, mean, squares, Z.min(0), Z.max(0)])


def merged(parts):
    """The `moments` of several parts together (Chan, Golub and LeVeque 1983, eq. 2.1): of a list,
    some of it None."""
    parts = [part for part in parts if part is not None]
    if not parts:
        return None
    total, mean, squares, least, most = parts[0]
    for part in parts[1:]:
        move = part[1] - mean
        share = part[0] / (total + part[0])
        squares = squares + part[2] + move**2 * total * share
        mean = mean + move * share
        total = total + part[0]
        least = np.minimum(least, part[3])
        most = np.maximum(most, part[4])
    return np.array([total, mean, squares, least, most])


def centers(found):
    """What columns are moved by, shape (columns,): the constant ones by their value, those far from
    zero by their mean.

    The others are not: zeros stay zeros, and not a digit changes.
    """
    total, mean, squares, least, most = found
    deviation = np.sqrt(squares / total)
    is_far = np.abs(mean) > FAR * deviation
    center = np.where(is_far, mean, 0.0)
    return np.where(least == most, least, center)
