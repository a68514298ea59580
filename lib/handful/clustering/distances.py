"""Distances by matrix products, made exact by measuring again what rounding leaves open; quantisation error."""

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from handful.blocks import as_blocks, is_blocks
from handful.checks import check_rows, check_sample_weight
from handful.linalg import nearest_center

BLOCK_ENTRIES = 1 << 18  # entries in the matrix of products of one block, which should stay in the cache
AGAIN_ENTRIES = 1 << 20  # numbers in the differences of pairs that are measured again at a time
MANY = 2048  # an inverted file pays for more centres than this
LISTED = 4  # cells in which each centre is listed
RELATIVE = 1e-8  # largest error of a squared distance, relative to it


def blocks_of(X, n_centers, entries=BLOCK_ENTRIES):
    """Slices of the rows of `X`, so short that there are at most `entries` pairs of a row and a centre."""
    step = max(1, entries // n_centers)
    return [slice(start, start + step) for start in range(0, X.shape[0], step)]


def _measured(X, centers, i, c):
    # Squared distances of the pairs (row i, centre c) from their differences, in float64.
    out, step = np.empty(len(i)), max(1, AGAIN_ENTRIES // X.shape[1])
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        rows = X[i[part]].toarray() if sparse.issparse(X) else X[i[part]]
        out[part] = row_norms(rows - centers[c[part]], squared=True)
    return out


def sq_distances(X, centers):
    """Squared distances of all rows to all centres, each with an error of at most 1e-8 of itself.

    Matrix products give most of them; pairs that are closer than their rounding allows are measured again, from their
    differences.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d); of a large one give a block at a time
    centers : array, shape (C, d)

    Returns
    -------
    float64 array, shape (n, C), in squared units of X
    """
    X, centers = X.astype(np.float64), np.asarray(centers, dtype=np.float64)
    shift = 0.0 if sparse.issparse(X) else np.median(centers, axis=0)  # what would make a sparse matrix dense
    rows, near = X if sparse.issparse(X) else X - shift, centers - shift
    own, others = row_norms(rows, squared=True), row_norms(near, squared=True)
    found = rows @ near.T  # what follows is done in place: this array is the largest
    found *= -2
    found += own[:, None]
    found += others
    rounding = 2 * np.finfo(np.float64).eps * (4 + np.sqrt(X.shape[1])) * (own + others.max())
    pairs = np.nonzero(found < rounding[:, None] / RELATIVE)
    found[pairs] = _measured(X, centers, *pairs)
    return found


def nearest_centers(X, centers):
    """The nearest centre of each row and the squared distance to it.

    Matrix products in the type of `X` find the candidates; differences in float64 decide among those that rounding
    cannot tell apart. Ties go to the lowest index.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d)
    centers : array, shape (C, d)

    Returns
    -------
    labels : int array, shape (n,)
    sq_dist : float64 array, shape (n,)
    """
    centers = np.asarray(centers, dtype=np.float64)
    # The median, because one far centre would move a mean away from all others.
    shift = 0.0 if sparse.issparse(X) else np.median(centers, axis=0)
    near = (centers - shift).astype(X.dtype)
    half = row_norms(near, squared=True) / 2
    largest, rounding = np.sqrt(2 * half.max()), np.finfo(X.dtype).eps * (4 + np.sqrt(X.shape[1]))
    labels, sq_dist = np.empty(X.shape[0], np.intp), np.empty(X.shape[0])
    for part in blocks_of(X, len(centers)):
        block = X[part]
        rows = block if sparse.issparse(block) else (block - shift).astype(X.dtype, copy=False)
        values = rows @ near.T
        np.subtract(half, values, out=values)
        slack = rounding * (np.sqrt(row_norms(rows, squared=True)) + largest) ** 2
        least = np.take_along_axis(values, values.argmin(axis=1, keepdims=True), axis=1)
        i, c = np.divmod(np.flatnonzero(values <= least + slack[:, None]), len(centers))  # `nonzero` takes ten times it
        found = _measured(block, centers, i, c)
        if len(i) > len(values):
            order = np.lexsort((found, i))  # stable: of equal ones the lowest centre
            first = order[np.searchsorted(i, np.arange(len(values)))]
            c, found = c[first], found[first]
        labels[part], sq_dist[part] = c, found
    return labels, sq_dist


def quantization_error(X, centers, sample_weight=None):
    """Sum over all rows of the squared distance to the nearest of all centres: the k-means objective, exact.

    Parameters
    ----------
    X : array, shape (n, d); float32 is searched in float32 and measured in float64. Or what is read block by block: a
        large memory map, files, dask data, `handful.blocks.Blocks`
    centers : array, shape (C, d)
    sample_weight : shape (n,), or None

    Returns
    -------
    float, in squared units of X

    Raises
    ------
    ValueError
        if the columns of `X` and `centers` do not agree, or for bad weights
    """
    if is_blocks(X, sample_weight):
        return float(sum(as_blocks(X, None, sample_weight).map(_error_of_block, centers)))
    X, centers = check_rows(X), check_rows(centers, "centers")
    if X.shape[1] != centers.shape[1]:
        raise ValueError(
            f"X and centers must have the same number of columns, got {X.shape[1]} and {centers.shape[1]}."
        )
    return float(check_sample_weight(sample_weight, len(X)) @ nearest_centers(X, centers)[1])


def _error_of_block(block, centers):
    return quantization_error(block.X, centers, block.weights) if block.weights.any() else 0.0


def inverted_file(centers):
    """About sqrt(C) cells, found by k-means on the centres; each centre is listed in the four nearest of them.

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
    """The nearest centre of nearly every row: rounding, and with many centres an inverted file, may give one close by.

    Where there are more than 2,048 centres each row looks through the centres around its cell only: about 5 sqrt(C)
    distances instead of C if the cells have equal sizes, more if many centres lie about one point.

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
    n, C = len(X), len(centers)
    if file is None and C <= MANY:
        return nearest_center(X, centers), n * C
    cells, lists = file or inverted_file(centers)
    cell = nearest_center(X, cells)
    order = np.argsort(cell, kind="stable")
    labels, counts = np.empty(n, np.intp), np.bincount(cell, minlength=len(cells))
    for rows, mine in zip(np.split(order, np.cumsum(counts)[:-1]), lists):
        if len(rows):
            labels[rows] = mine[nearest_center(X[rows], centers[mine])]
    return labels, n * len(cells) + int(counts @ [len(mine) for mine in lists])
