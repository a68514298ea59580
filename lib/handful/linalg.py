"""Small numerics that several algorithms share: threads, distances, centring, spans of rows, alias
tables."""

from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock

import numpy as np
from numba import njit
from scipy import sparse
from sklearn.utils.extmath import row_norms
from threadpoolctl import ThreadpoolController, threadpool_limits

from handful.tables import join_rows

_TWO_32 = 4294967296.0
# a row is within the span of others if at most this share of its length lies outside
IN_SPAN = 1e-7
# of a matrix of products, which should stay in the cache
ENTRIES = 1 << 17
# entries in the matrix of products of one block, which should stay in the cache
BLOCK_ENTRIES = 1 << 18
# numbers in the differences of pairs that are measured again at a time
AGAIN_ENTRIES = 1 << 20
# up to so many rows an estimator trains with one thread of OpenMP
FEW_ROWS = 5_000


_BLAS_LOCK = Lock()
# how many are inside `one_blas_thread`, in whatever thread; what the last of them restores
_limited = [0, []]


@contextmanager
def one_blas_thread():
    """Context in which BLAS takes one thread: on small matrices several would wait more than they
    work, and sums would depend on their number. The number belongs to the process, so the last to
    leave restores what the first found."""
    with _BLAS_LOCK:
        if _limited[0] == 0:
            _limited[1] = [(library, library.get_num_threads()) for library in _blas()]
            _set_threads((library, 1) for library, _ in _limited[1])
        _limited[0] += 1
    try:
        yield
    finally:
        with _BLAS_LOCK:
            _limited[0] -= 1
            if _limited[0] == 0:
                _set_threads(_limited[1])


@contextmanager
def one_openmp_thread():
    """Context in which compiled loops of other packages, such as scikit-learn's boosting, take one
    thread: on some hundred rows several wait more than they work. The number belongs to the thread
    that asks."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def threads_for(n):
    """Context of training an estimator on n rows: `one_openmp_thread` where they are at most
    `FEW_ROWS`."""
    return one_openmp_thread() if n <= FEW_ROWS else nullcontext()


def n_threads():
    """Threads that BLAS may take outside of `one_blas_thread`: what OMP_NUM_THREADS or
    threadpoolctl allows."""
    with _BLAS_LOCK:
        allowed = (
            _limited[1]
            if _limited[0]
            else [(library, library.get_num_threads()) for library in _blas()]
        )
    return max((number for _, number in allowed), default=1)


def _set_threads(numbers):
    for library, number in numbers:
        # threadpoolctl 3.8 obeys the thread that called first, and leaves the calls of others
        # without effect
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)


@cache
def _blas():
    # finding the loaded libraries takes as long as a small selection
    return ThreadpoolController().select(user_api="blas").lib_controllers


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


def cell_means(X, label, weights, k):
    """Weighted means, shape (k, d), and weights, shape (k,), of the rows with each label; the mean
    of no row is 0."""
    mass = np.bincount(label, weights=weights, minlength=k)
    sums = sparse.csc_array((weights, label, np.arange(len(label) + 1)), shape=(k, len(label))) @ X
    sums = sums.toarray() if sparse.issparse(sums) else sums
    return sums / np.maximum(mass, np.finfo(float).tiny)[:, None], mass


def dense(X):
    """An array of an array or a sparse matrix."""
    return X.toarray() if sparse.issparse(X) else X


class Features:
    """The features as coordinates, for as many rows as features or more."""

    def __init__(self, d):
        self.rank = d

    def extend(self, x):
        """Nothing to do: every row has its coordinates already."""

    def coordinates(self, X):
        """Coordinates of rows, shape (k, rank)."""
        return dense(X)

    def project(self, G):
        """``Q' G`` for G of shape (d, ...)."""
        return G

    def lift(self, Z):
        """``Q Z`` for Z of shape (rank, ...)."""
        return Z


class Span:
    """An orthonormal basis Q of the span of rows, which grows with them: ``Q = B' T'`` for rows B,
    never formed.

    Parameters
    ----------
    X : array or CSR matrix, shape (0, d), in float64: rows come in its form
    """

    def __init__(self, X):
        self._rows = X
        self.T = np.zeros((0, 0))

    @property
    def rank(self):
        """Dimension of the span."""
        return len(self.T)

    def extend(self, x):
        """Take in a row, shape (1, d); one within the span of the earlier rows leaves it as it
        is."""
        rest = dense(x)[0]
        bar = IN_SPAN * np.linalg.norm(rest)
        image = np.zeros(self.rank)
        # Gram-Schmidt, twice for orthogonality to rounding
        for _ in range(2):
            step = self.project(rest)
            image = image + step
            rest = rest - self.lift(step)
        length = np.linalg.norm(rest)
        r = self.rank
        if r < x.shape[1] and length > bar:
            T = np.zeros((r + 1, r + 1))
            T[:r, :r] = self.T
            T[r, :r] = -image @ self.T / length
            T[r, r] = 1.0 / length
            self.T, self._rows = T, join_rows([self._rows, x])

    def coordinates(self, X):
        """As `Features.coordinates`."""
        return dense(X @ self._rows.T.astype(X.dtype)) @ self.T.T.astype(X.dtype)

    def project(self, G):
        """As `Features.project`."""
        return self.T @ (self._rows @ G)

    def lift(self, Z):
        """As `Features.lift`."""
        return self._rows.T @ (self.T.T @ Z)


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
