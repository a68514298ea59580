"""Tables of numbers, words and gaps as numbers: what proxies see of rows that an estimator takes as
they are."""

import numpy as np
from scipy import sparse

from handful.tables import is_missing

# of a column: the most frequent ones have a column of 0 and 1 each, as in one-hot encoding
MOST_WORDS = 20


def as_numbers(X, *, missing):
    """`X` itself where it holds numbers alone; else numbers that stand for its entries.

    Words and categories become a column of 0 and 1 for each of the most frequent ones. A missing
    number counts as the median of its column, beside a column that marks it; a missing word is a
    word.

    Parameters
    ----------
    X : array, data frame, list of rows or sparse matrix, shape (n, d)
    missing : bool, whether numbers may be missing; if not, what is missing stays, for the caller to
        refuse
    """
    if sparse.issparse(X) or np.ndim(X) != 2 or not len(X):
        return X
    table = np.asarray(X)
    if table.dtype.kind in "biu":
        return X
    has_gaps = table.dtype.kind == "f" and missing and np.isnan(table).any()
    if table.dtype.kind == "f" and not has_gaps:
        return X
    columns = [_numbers(column, missing) for column in table.astype(object).T]
    if any(one is None for one in columns):
        return X
    return np.column_stack(columns)


def _numbers(column, missing):
    # The columns, shape (n, k), that stand for one; None where numbers are missing that may not be.
    gaps = np.array([is_missing(value) for value in column])
    try:
        numbers = np.where(gaps, np.nan, column).astype(np.float64)
    except (TypeError, ValueError):
        words = np.array([str(value) for value in column])
        known, counts = np.unique(words, return_counts=True)
        by_count = np.argsort(-counts, kind="stable")
        frequent = known[by_count[:MOST_WORDS]]
        return words[:, None] == frequent
    if not gaps.any():
        return numbers[:, None]
    if not missing:
        return None
    middle = 0.0 if gaps.all() else np.median(numbers[~gaps])
    filled = np.where(gaps, middle, numbers)
    return np.column_stack([filled, gaps])
