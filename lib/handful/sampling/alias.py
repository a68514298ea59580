"""Alias tables: a draw from any distribution in constant time (Walker 1977)."""

import numpy as np
from numba import njit

_TWO_32 = 4294967296.0


@njit(cache=True)
def _fill_alias_records(p, share, order, records):
    """Write the alias table of the distribution `p` (Walker 1977, Vose 1991) into `records`. O(n).

    Bin i is a 64-bit record: its upper half holds the share of the bin that is i's own, in units of
    2^-32, its lower half the index that gets the rest. One record is one cache line touched a draw.

    Parameters
    ----------
    p : float array, shape (n,), adds up to one
    share, order : float and int64 arrays, shape (n,), buffers: making them in here would double
        what compiling takes
    records : uint64 array, shape (n,), overwritten
    """
    # in `order` small bins grow from the left, large ones from the right
    n = p.size
    n_small = 0
    n_large = 0
    for i in range(n):
        share[i] = p[i] * n
        if share[i] < 1.0:
            order[n_small] = i
            n_small += 1
        else:
            n_large += 1
            order[n - n_large] = i
    while n_small > 0 and n_large > 0:
        n_small -= 1
        small = order[n_small]
        large = order[n - n_large]
        records[small] = (np.uint64(share[small] * _TWO_32) << np.uint64(32)) | np.uint64(large)
        share[large] -= 1.0 - share[small]
        if share[large] < 1.0:
            n_large -= 1
            order[n_small] = large
            n_small += 1
    # what rounding left over is full
    for s in range(n_small):
        i = order[s]
        records[i] = (np.uint64(0xFFFFFFFF) << np.uint64(32)) | np.uint64(i)
    for s in range(n_large):
        i = order[n - 1 - s]
        records[i] = (np.uint64(0xFFFFFFFF) << np.uint64(32)) | np.uint64(i)


def alias_records(p):
    """The alias table of one distribution, or of each row of several (Walker 1977).

    Parameters
    ----------
    p : float array, shape (n,) or (k, n)

    Returns
    -------
    uint64 array of the same shape
    """
    n = p.shape[-1]
    records = np.empty(p.shape, np.uint64)
    share = np.empty(n)
    order = np.empty(n, np.int64)
    for row, out in zip(np.atleast_2d(p), np.atleast_2d(records)):
        _fill_alias_records(row, share, order, out)
    return records


@njit(cache=True, inline="always")
def draw_alias(records, u):
    """The index that the alias table `records`, shape (n,), gives for `u` uniform in [0, 1).
    O(1)."""
    n = records.size
    x = u * n
    # u * n may round up to n
    i = min(np.int64(x), n - 1)
    own = (x - i) * _TWO_32 < np.float64(records[i] >> np.uint64(32))
    return i if own else np.int64(records[i] & np.uint64(0xFFFFFFFF))
