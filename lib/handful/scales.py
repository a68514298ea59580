"""Columns in units of their own: a warning where what is chosen or trained goes by them."""

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
