"""Distances of rows to points, by matrix products that are made exact by measuring again what
rounding leaves open; centring, means of cells and draws in proportion."""

import numpy as np
from numba import njit
from scipy import sparse
from sklearn.utils.extmath import row_norms

# an inverted file pays for more centres than this
MANY = 2048
# cells in which each centre is listed
LISTED = 4
# largest error of a squared distance, relative to it
RELATIVE = 1e-8
# of a matrix of products, which should stay in the cache
ENTRIES = 1 << 17
# entries in the matrix of products of one block, which should stay in the cache
BLOCK_ENTRIES = 1 << 18
# numbers in the differences of pairs that are measured again at a time
AGAIN_ENTRIES = 1 << 20


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sq_distance(x, v):
    """Squared distance of two vectors, from their differences, which do not cancel as norms and
    products would."""
    total = 0.0
    for j in range(v.size):
        total += (x[j] - v[j]) ** 2
    return total


def sq_distances_to(X, point, sq_norms=None):
    """Squared distances, shape (n,), of the rows of an array, or of a centred CSR matrix, to a
    point.

    `sq_norms` are those of the rows, which only a CSR matrix needs; what rounding cannot tell from
    0 is 0 there.
    """
    if not sparse.issparse(X):
        return _sq_distances(X, np.asarray(point, dtype=np.float64))
    sizes = (row_norms(X, squared=True) if sq_norms is None else sq_norms) + point @ point
    found = sizes - 2 * (X @ point)
    found[found <= 4 * np.finfo(np.float64).eps * sizes] = 0.0
    return found


@njit(cache=True, nogil=True)
def _sq_distances(X, point):
    distances = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        distances[i] = sq_distance(X[i], point)
    return distances


def draw_along(cumulated, u):
    """Indices drawn by the probabilities whose cumulated sums are given, for uniform u; never one
    of probability 0."""
    found = np.searchsorted(cumulated, u * cumulated[-1], side="right")
    return np.minimum(found, np.searchsorted(cumulated, cumulated[-1], side="left"))


def centred(X, weights=None):
    """`X` about its weighted mean, where squared norms and products of rows do not cancel, and that
    mean.

    Of a CSR matrix only the columns of which more than half is stored are moved, and filled in, so
    that it holds at most twice as many entries. The others are zero in most rows: they stay where
    they are.

    Parameters
    ----------
    X : float array or CSR matrix, shape (n, d)
    weights : shape (n,), non-negative; ones if None

    Returns
    -------
    Y : float64 array or CSR matrix, shape (n, d); in float32 clusters far from each other would
        lose their digits
    center : float64 array, shape (d,), with ``Y = X - center``; 0 where a column was not moved
    """
    share = np.full(X.shape[0], 1 / X.shape[0]) if weights is None else weights / weights.sum()
    if not sparse.issparse(X):
        center = share @ X
        return X - center, center
    full = 2 * np.bincount(X.indices, minlength=X.shape[1]) > X.shape[0]
    center = np.zeros(X.shape[1])
    columns = np.flatnonzero(full)
    Y = X.astype(np.float64)
    if not len(columns):
        return Y, center
    dense = X[:, columns].toarray().astype(np.float64)
    center[columns] = share @ dense
    Y.data[full[Y.indices]] = 0.0
    Y.eliminate_zeros()
    places = np.tile(columns, len(dense)), np.arange(len(dense) + 1) * len(columns)
    return Y + sparse.csr_matrix(
        ((dense - center[columns]).ravel(), *places), shape=X.shape
    ), center


def nearest_center(X, centers):
    """The nearest of the `centers`, shape (k, d), of each row of a centred array or CSR matrix: int
    array, (n,)."""
    half = 0.5 * (centers**2).sum(axis=1)
    step = max(1, ENTRIES // len(centers))
    labels = np.empty(X.shape[0], np.intp)
    for start in range(0, len(labels), step):
        products = X[start : start + step] @ centers.T
        labels[start : start + step] = np.subtract(half, products, out=products).argmin(axis=1)
    return labels


def blocks_of(X, n_centers, entries=BLOCK_ENTRIES):
    """Slices of the rows of `X`, so short that there are at most `entries` pairs of a row and a
    centre."""
    step = max(1, entries // n_centers)
    return [slice(start, start + step) for start in range(0, X.shape[0], step)]


def measured(X, centers, i, c):
    """Squared distances of the pairs (row i, centre c) from their differences, in float64."""
    out = np.empty(len(i))
    step = max(1, AGAIN_ENTRIES // X.shape[1])
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        rows = X[i[part]].toarray() if sparse.issparse(X) else X[i[part]]
        out[part] = row_norms(rows - centers[c[part]], squared=True)
    return out


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


def nearest_centers(X, centers):
    """The nearest centre of each row and the squared distance to it.

    Matrix products in the type of `X` find the candidates; differences in float64 decide among
    those that rounding cannot tell apart. Ties go to the lowest index.

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
    largest = np.sqrt(2 * half.max())
    rounding = np.finfo(X.dtype).eps * (4 + np.sqrt(X.shape[1]))
    labels = np.empty(X.shape[0], np.intp)
    sq_dist = np.empty(X.shape[0])
    for part in blocks_of(X, len(centers)):
        block = X[part]
        rows = block if sparse.issparse(block) else (block - shift).astype(X.dtype, copy=False)
        values = rows @ near.T
        np.subtract(half, values, out=values)
        slack = rounding * (np.sqrt(row_norms(rows, squared=True)) + largest) ** 2
        # what products lose that are nearly zero
        slack += (4 + X.shape[1]) * np.finfo(X.dtype).smallest_subnormal
        least = np.take_along_axis(values, values.argmin(axis=1, keepdims=True), axis=1)
        # `nonzero` takes ten times it
        i, c = np.divmod(np.flatnonzero(values <= least + slack[:, None]), len(centers))
        found = measured(block, centers, i, c)
        if len(i) > len(values):
            # stable: of equal ones the lowest centre
            order = np.lexsort((found, i))
            first = order[np.searchsorted(i, np.arange(len(values)))]
            c = c[first]
            found = found[first]
        labels[part] = c
        sq_dist[part] = found
    return labels, sq_dist


def inverted_file(centers):
    """About sqrt(C) cells, found by k-means on the centres; each centre is listed in the four
    nearest of them, and a cell that lists none is left out.

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
    # Of more than four cells about one point some are no centre's.
    used = np.unique(nearest)
    return cells[used], [np.flatnonzero((nearest == j).any(axis=1)) for j in used]


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


def cell_means(X, label, weights, k):
    """Weighted means, shape (k, d), and weights, shape (k,), of the rows with each label; the mean
    of no row is 0."""
    mass = np.bincount(label, weights=weights, minlength=k)
    sums = sparse.csc_array((weights, label, np.arange(len(label) + 1)), shape=(k, len(label))) @ X
    sums = sums.toarray() if sparse.issparse(sums) else sums
    return sums / np.maximum(mass, np.finfo(float).tiny)[:, None], mass
