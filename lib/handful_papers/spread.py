"""Means over seeds with their spread, for any number of seeds: one seed has a mean and no
spread."""

import numpy as np
from scipy.stats import t


def mean_and_deviation(rows, index, columns, value, digits):
    """A table of text, "0.91 ± 0.01": mean and standard deviation over seeds; of a single seed the
    mean alone.

    Parameters
    ----------
    rows : pandas.DataFrame, a row for each (cell of the table, seed)
    index : str or list of str, columns of `rows` that name a row of the table
    columns : str, the column of `rows` that names a column of the table
    value : str, the column whose mean is taken
    digits : int, decimals

    Returns
    -------
    pandas.DataFrame of str, "" where there is no value
    """
    index = [index] if isinstance(index, str) else list(index)
    found = (
        rows.dropna(subset=[value])
        .groupby([*index, columns])[value]
        .agg(["mean", "std"])
        .round(digits)
    )
    deviation = (" ± " + found["std"].astype(str)).where(found["std"].notna(), "")
    return (found["mean"].astype(str) + deviation).unstack(columns).fillna("")


def has_spread(rows, keys):
    """Whether some cell has more than one row, so that a band over seeds shows more than the line
    itself.

    Parameters
    ----------
    rows : pandas.DataFrame
    keys : list of str, columns of `rows` that name a cell
    """
    return bool((rows.groupby(keys, dropna=False).size() > 1).any())


def deviation(values):
    """The standard deviation over seeds, as an error bar takes it: None of a single seed, which
    has none.

    Parameters
    ----------
    values : pandas.Series, a value a seed; or pandas.DataFrame, a row a seed

    Returns
    -------
    float, or pandas.Series for each column, or None
    """
    return values.std() if len(values) > 1 else None


def half_interval(values):
    """Half of the 95 % interval of a mean over seeds, by Student's t, as an error bar takes it:
    None of a single seed, which has none.

    Parameters and result are those of `deviation`.
    """
    n = len(values)
    if n < 2:
        return None
    return t.ppf(0.975, n - 1) * values.std() / np.sqrt(n)
