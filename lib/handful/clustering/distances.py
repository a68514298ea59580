"""Distances by matrix products, made exact by measuring again what rounding leaves open; quantisation error."""

import numpy as np
from numba import njit
from scipy import sparse

from handful.checks import check_rows, check_sample_weight

BLOCK_ENTRIES = 1 << 19  # entries in the matrix of products of one block, which should stay in the cache
SPARSE_ENTRIES = 1 << 22  # of a block that is made dense
FEW, FEW_COLUMNS = 1 << 20, 256  # up to here numpy takes milliseconds for all distances, and no kernel is compiled
MANY = 2048  # an inverted file pays for more centres than this
LIST_FACTOR = 4  # cells in which each centre is listed
AGAIN_ENTRIES = 1 << 20  # numbers in the differences of pairs that are measured again at a time
RELATIVE = 1e-8  # largest error of a squared distance, relative to it
GROUP = 64  # centres in a group; a group is looked through only if its smallest value is small enough


def sq_norms(X):
    """Squared norms of the rows of `X`, in its own type."""
    return np.einsum("ij,ij->i", X, X)


def dense_blocks(X, most):
    """The rows of `X` in blocks of at most `most`, contiguous and dense: (slice, rows) of each.

    Blocks of a sparse matrix hold at most as many entries as fit into some megabytes.
    """
    if sparse.issparse(X):
        most = max(1, min(most, SPARSE_ENTRIES // X.shape[1]))
    for start in range(0, X.shape[0], most):
        part = slice(start, start + most)
        yield part, X[part].toarray() if sparse.issparse(X) else np.ascontiguousarray(X[part])


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def _smallest(half_sq, products, start, stop):
    smallest = half_sq[start] - products[start]
    for c in range(start + 1, stop):
        smallest = min(smallest, half_sq[c] - products[c])
    return smallest


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(X, centers, scale, products, half_sq, slack, minima, labels, sq_dist):
    # `half_sq - products` orders a row's centres up to a rounding error of `slack`. All centres within `slack` of the
    # smallest are measured again, from the differences and in float64. `minima` is a buffer, one entry a group.
    n_centers, n_groups = centers.shape[0], minima.size
    for i in range(X.shape[0]):
        row = products[i]
        for g in range(n_groups):
            minima[g] = _smallest(half_sq, row, g * GROUP, min(g * GROUP + GROUP, n_centers))
        least = minima[0]
        for g in range(1, n_groups):
            if minima[g] < least:
                least = minima[g]
        limit = least + slack[i]
        best = np.inf
        for g in range(n_groups):
            if minima[g] > limit:
                continue
            for c in range(g * GROUP, min(g * GROUP + GROUP, n_centers)):
                if half_sq[c] - row[c] <= limit:
                    total = 0.0
                    for j in range(X.shape[1]):
                        difference = (np.float64(X[i, j]) - centers[c, j]) * scale
                        total += difference * difference
                    if total < best:
                        best = total
                        labels[i] = c
        sq_dist[i] = best


def _settle_few(X, centers, scale, labels, sq_dist):
    # What `_settle` finds, to the last digit, from all differences: where they are few, that beats compiling a kernel.
    distances = np.zeros((len(X), len(centers)))
    for x, center in zip(X.T.astype(np.float64), centers.T):
        differences = (x[:, None] - center) * scale
        distances += differences * differences
    labels[:] = distances.argmin(axis=1)
    sq_dist[:] = distances.min(axis=1)


def _settle_sparse(X, centers, labels, sq_dist):
    # The same for a block of a sparse matrix, which is made dense only where two centres are equally near.
    distances = sq_distances(X, centers)
    rivals = distances <= distances.min(axis=1, keepdims=True) * (1 + 4 * RELATIVE)
    _measure_again(X, centers, distances, rivals & (rivals.sum(axis=1, keepdims=True) > 1))
    labels[:] = distances.argmin(axis=1)
    sq_dist[:] = distances.min(axis=1)


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
    centers = np.asarray(centers, dtype=np.float64)
    X = X.astype(np.float64)
    is_sparse = sparse.issparse(X)
    shift = 0.0 if is_sparse else np.median(centers, axis=0)  # what would make a sparse matrix dense
    rows, near = X if is_sparse else X - shift, centers - shift
    own = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() if is_sparse else sq_norms(rows)
    others = sq_norms(near)
    found = rows @ near.T  # what follows is done in place: this array is the largest
    found *= -2
    found += own[:, None]
    found += others
    rounding = 2 * np.finfo(np.float64).eps * (4 + np.sqrt(X.shape[1])) * (own + others.max())
    _measure_again(X, centers, found, found < rounding[:, None] / RELATIVE)
    return found


def _measure_again(X, centers, sq_dist, again):
    # Puts the exact values where `again` is true.
    i, c = np.nonzero(again)
    step = max(1, AGAIN_ENTRIES // X.shape[1])
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        own = X[i[part]].toarray() if sparse.issparse(X) else X[i[part]]
        sq_dist[i[part], c[part]] = sq_norms(own - centers[c[part]])


def nearest_centers(X, centers):
    """The nearest centre of each row and the squared distance to it.

    Matrix products in the type of `X` find the candidates, float64 decides among those that rounding cannot tell
    apart; ties go to the lowest index.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d)
    centers : array, shape (C, d)

    Returns
    -------
    labels : int array, shape (n,)
    sq_dist : float64 array, shape (n,)
    """
    n, d = X.shape
    centers = np.ascontiguousarray(centers, dtype=np.float64)
    # The median, because one far centre would move a mean away from all others.
    shift = np.median(centers, axis=0)
    # Dividing by a power of two rounds nothing, and squares of tiny entries no longer underflow to zero.
    sizes = np.abs(centers - shift)
    scale = 2.0 ** -np.clip(np.floor(np.log2(np.median(sizes[sizes > 0]))), -1000, 1000) if sizes.any() else 1.0
    labels, sq_dist = np.empty(n, np.intp), np.empty(n)
    if sparse.issparse(X):
        step = max(1, BLOCK_ENTRIES // len(centers))
        for start in range(0, n, step):
            part = slice(start, start + step)
            _settle_sparse(X[part].astype(np.float64) * scale, centers * scale, labels[part], sq_dist[part])
        return labels, sq_dist / scale / scale
    if n * centers.size <= FEW and d <= FEW_COLUMNS:
        _settle_few(X, centers, scale, labels, sq_dist)
        return labels, sq_dist / scale / scale
    small = np.ascontiguousarray(((centers - shift) * scale).astype(X.dtype))
    half_sq = sq_norms(small) / 2
    largest = np.sqrt(2 * half_sq.max())
    minima = np.empty(-(-len(centers) // GROUP), X.dtype)
    step = max(1, BLOCK_ENTRIES // len(centers))
    for part, rows in dense_blocks(X, step):
        shifted = ((rows - shift) * scale).astype(X.dtype)
        size = np.sqrt(sq_norms(shifted)) + largest
        slack = (np.finfo(X.dtype).eps * (4 + np.sqrt(d))) * size * size
        _settle(rows, centers, scale, shifted @ small.T, half_sq, slack, minima, labels[part], sq_dist[part])
    return labels, sq_dist / scale / scale


def quantization_error(X, centers, sample_weight=None):
    """Sum over all rows of the squared distance to the nearest of all centres: the k-means objective, exact.

    Parameters
    ----------
    X : array or memory map, shape (n, d); float32 is searched in float32 and measured in float64
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
    X, centers = check_rows(X), check_rows(centers, "centers")
    if X.ndim != 2 or centers.ndim != 2 or X.shape[1] != centers.shape[1] or not len(centers):
        raise ValueError(
            "X and centers must be matrices with the same number of columns and at least one centre, got shapes "
            f"{X.shape} and {centers.shape}."
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return float(check_sample_weight(sample_weight, len(X)) @ nearest_centers(X, centers)[1])


def inverted_file(centers, factor=LIST_FACTOR):
    """About sqrt(C) cells, found by k-means on the centres; each centre is listed in the ``factor`` nearest of them.

    Returns
    -------
    cells : array, shape (m, d)
    lists : list of m int arrays, the centres of each cell
    n_distances : int, distances that were computed
    """
    C = len(centers)
    cells = np.array(centers[:: int(np.sqrt(C))])
    for _ in range(3):
        mine = _nearest_by_products(centers, cells)
        for j in np.unique(mine):
            cells[j] = centers[mine == j].mean(axis=0)
    factor = min(factor, len(cells))
    nearest = np.argpartition(sq_norms(cells) / 2 - centers @ cells.T, factor - 1, axis=1)[:, :factor]
    order = np.argsort(nearest, axis=None, kind="stable")
    edges = np.cumsum(np.bincount(nearest.ravel(), minlength=len(cells)))
    return cells, np.split(order // factor, edges[:-1]), 4 * C * len(cells)


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
    n_distances : int, distances that were computed
    """
    n, C = len(X), len(centers)
    if file is None and C <= MANY:
        return _nearest_by_products(X, centers), n * C
    cells, lists, n_distances = file or inverted_file(centers)
    cell = _nearest_by_products(X, cells)
    order = np.argsort(cell, kind="stable")
    edges = np.searchsorted(cell[order], np.arange(len(cells) + 1))
    labels = np.empty(n, np.int32)
    n_distances += n * len(cells)
    for j, mine in enumerate(lists):
        rows = order[edges[j] : edges[j + 1]]
        if len(rows):
            labels[rows] = mine[_nearest_by_products(X[rows], centers[mine])]
            n_distances += len(rows) * len(mine)
    return labels, n_distances


def _nearest_by_products(X, centers):
    # Half the squared distances as one product: rows with 1 and half their square, centres with half theirs and 1.
    (n, d), C, dtype = X.shape, len(centers), np.float32
    right = np.empty((d + 2, C), dtype)
    right[:d], right[d], right[d + 1] = -centers.T, sq_norms(centers) / 2, 1
    labels = np.empty(n, np.int32)
    step = max(1, BLOCK_ENTRIES // C)
    left = np.empty((min(step, n), d + 2), dtype)
    mask = np.int32(-(1 << int(C - 1).bit_length()))
    for start in range(0, n, step):
        rows = X[start : start + step]
        block = left[: len(rows)]
        block[:, :d], block[:, d], block[:, d + 1] = rows, 1, sq_norms(rows) / 2
        _arg_smallest((block @ right).view(np.int32), mask, labels[start : start + step])
    return labels


@njit(cache=True, nogil=True, error_model="numpy")
def _arg_smallest(bits, mask, labels):
    # Non-negative floats are ordered as the integers with the same bits. The last bits are replaced by the index, so
    # that one vectorised minimum finds both the smallest value and its place.
    for i in range(bits.shape[0]):
        row = bits[i]
        best = np.int32(2147483647)
        for c in range(row.size):
            best = min(best, (row[c] & mask) | np.int32(c))
        labels[i] = best & ~mask
