"""Where columns lie and how far they spread: a warning where what is chosen or trained goes by
their units, their moments part by part, and which are better moved to zero before they are squared.
"""

from typing import Any

import numpy as np
from scipy import sparse

from handful.running import warn

# between the deviations of two columns, from which on the smaller one hardly counts
FACTOR = 100.0
# that are looked at, evenly spaced
ROWS = 500
# The least share of the rows in which a column differs from its median. A rarer one, for example
# the counts of a rare word, has no scale.
COMMON = 0.05
# a deviation below this share of the mean is rounding
ROUNDING = 1e-7
# columns whose deviations fall from the first to the last are principal components or the like
FALLING = 8
# A column that lies further from zero than so many of its deviations is moved there.
FAR = 10


class ScaleWarning(UserWarning):
    """Columns of X differ so much in scale that penalties or distances see only the largest of
    them."""


def warn_of_scales(X: Any, name: str, way_out: str) -> None:
    """A `ScaleWarning` where the deviations of two columns differ by more than `FACTOR`.

    Sparse rows, columns that are constant or nearly always at one value (rare words, borders of
    pictures) and columns in order of falling deviation (principal components, Nystrom features) are
    left out: these have one unit.

    Parameters
    ----------
    X : array or sparse matrix, shape (n, d), of finite numbers
    name : str, whose penalty or distances they enter
    way_out : str, ends the message
    """
    if sparse.issparse(X) or X.ndim != 2 or X.shape[0] < 2:
        return
    rows = np.asarray(X[:: max(1, X.shape[0] // ROWS)], dtype=np.float64)
    deviation = rows.std(axis=0)
    spread = deviation > ROUNDING * np.abs(rows.mean(axis=0))
    if not spread.any() or deviation.max() <= FACTOR * deviation[spread].min():
        return
    common = spread & ((rows != np.median(rows, axis=0)).mean(axis=0) >= COMMON)
    columns = np.flatnonzero(common)
    if len(columns) < 2:
        return
    small, large = (int(columns[end(deviation[columns])]) for end in (np.argmin, np.argmax))
    factor = deviation[large] / deviation[small]
    if factor <= FACTOR or _falling(deviation[columns]):
        return
    warn(
        f"columns of X differ in scale by a factor of {factor:.2g} (the deviation of column "
        f"{large} is "
        f"{deviation[large]:.3g}, that of column {small} {deviation[small]:.3g}), and {name} goes "
        "by the large ones "
        f"alone. {way_out}",
        ScaleWarning,
    )


def _falling(deviation):
    places = np.arange(len(deviation))
    ranks = np.argsort(np.argsort(-deviation))
    return len(deviation) >= FALLING and np.corrcoef(places, ranks)[0, 1] > 0.95


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
