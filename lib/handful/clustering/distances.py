"""Distances by matrix products, made exact by measuring again what rounding leaves open;
quantisation error."""

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from handful.blocks import as_blocks
from handful.checks import check_rows, check_sample_weight
from handful.linalg import measured, nearest_center, nearest_centers
from handful.rows import is_blocks

# an inverted file pays for more centres than this
MANY = 2048
# cells in which each centre is listed
LISTED = 4
# largest error of a squared distance, relative to it
RELATIVE = 1e-8


def sq_distances(X, centers):
    """Squared distances of all rows to all centres, each with an error of at most 1e-8 of itself.

    Matrix products give most of them; pairs that are closer than their rounding allows are measured
    again, from their differences.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d); of a large one give a block at a time
    centers : array, shape (C, d)

    Returns
    -------
    float64 array, shape (n, C), in squared units of X
    """
    X = X.astype(np.float64)
    centers = np.asarray(centers, dtype=np.float64)
    # what would make a sparse matrix dense
    shift = 0.0 if sparse.issparse(X) else np.median(centers, axis=0)
    rows = X if sparse.issparse(X) else X - shift
    near = centers - shift
    own = row_norms(rows, squared=True)
    others = row_norms(near, squared=True)
    # what follows is done in place: this array is the largest
    found = rows @ near.T
    found *= -2
    found += own[:, None]
    found += others
    rounding = 2 * np.finfo(np.float64).eps * (4 + np.sqrt(X.shape[1])) * (own + others.max())
    pairs = np.nonzero(found < rounding[:, None] / RELATIVE)
    found[pairs] = measured(X, centers, *pairs)
    return found


def quantization_error(X, centers, sample_weight=None):
    """Sum over all rows of the squared distance to the nearest of all centres: the k-means
    objective, exact.

    Parameters
    ----------
    X : array of shape (n, d), or Blocks
        The rows; float32 is searched in float32 and measured in float64. Or what is read block by
        block: files, dask data, `handful.blocks.Blocks`, an array that exceeds half of the memory.
    centers : array of shape (C, d)
        The centres.
    sample_weight : array of shape (n,) or None, default=None
        How often each row counts.

    Returns
    -------
    float
        The sum, in squared units of X.

    Raises
    ------
    ValueError
        if the columns of `X` and `centers` do not agree, or for bad weights
    """
    if is_blocks(X, sample_weight):
        return float(sum(as_blocks(X, None, sample_weight).map(_error_of_block, centers)))
    X = check_rows(X)
    centers = check_rows(centers, "centers")
    if X.shape[1] != centers.shape[1]:
        raise ValueError(
            f"X and centers must have the same number of columns, got {X.shape[1]} and "
            f"{centers.shape[1]}."
        )
    return float(check_sample_weight(sample_weight, len(X)) @ nearest_centers(X, centers)[1])


def _error_of_block(block, centers):
    return quantization_error(block.X, centers, block.weight) if block.weight.any() else 0.0


def inverted_file(centers):
    """About sqrt(C) cells, found by k-means on the centres; each centre is listed in the four
    nearest of them.

    Returns
    -------
    cells : array, shape (m, d)
    lists : list of m int arrays, the centres of each cell
    """
    cells = np.array(centers[:: int(np.sqrt(len(centers)))])
    for _ in range(3):
        mine = nearest_center(centers, cells)
        for j in np.unique(mine):
            cells[j] = centers[mine == j].mean(axis=0)
    most = min(LISTED, len(cells))
    values = row_norms(cells, squared=True) / 2 - centers @ cells.T
    nearest = np.argpartition(values, most - 1, axis=1)[:, :most]
    return cells, [np.flatnonzero((nearest == j).any(axis=1)) for j in range(len(cells))]


def probable_centers(X, centers, file=None):
    """The nearest centre of nearly every row: rounding, and with many centres an inverted file, may
    give one close by.

    Where there are more than 2,048 centres each row looks through the centres around its cell only:
    about 5 sqrt(C) distances instead of C if the cells have equal sizes, more if many centres lie
    about one point.

    Parameters
    ----------
    X : array, shape (n, d), about the origin, so that products of matrices do not cancel
    centers : array, shape (C, d)
    file : from `inverted_file`, or None

    Returns
    -------
    labels : int array, shape (n,)
    n_distances : int, distances from the rows that were computed
    """
    n = len(X)
    C = len(centers)
    if file is None and C <= MANY:
        return nearest_center(X, centers), n * C
    cells, lists = file or inverted_file(centers)
    cell = nearest_center(X, cells)
    order = np.argsort(cell, kind="stable")
    labels = np.empty(n, np.intp)
    counts = np.bincount(cell, minlength=len(cells))
    for rows, mine in zip(np.split(order, np.cumsum(counts)[:-1]), lists):
        if len(rows):
            labels[rows] = mine[nearest_center(X[rows], centers[mine])]
    return labels, n * len(cells) + int(counts @ [len(mine) for mine in lists])
