"""Compiled products with a design matrix that ends in a column of ones: the inner loops of the SVM solver.

`DenseDesign` and `SparseDesign` offer the same three products, each one pass over the data, with sums in
a fixed order so that results do not depend on the number of threads.
"""

import numpy as np
from numba import njit
from scipy import sparse

from handful.linalg import one_blas_thread

BLOCK = 256  # points at a time in the Gram matrix: a block of 20 features fits the first-level cache
STRIP = 4096  # points at a time in products with a vector
WIDE = 64  # features from which BLAS makes the Gram matrix faster than a loop over blocks
FAST = {"reassoc", "contract", "nsz", "arcp"}  # finite input is checked before; signs of zero do not matter


@njit(cache=True, fastmath=FAST)
def _dense_times(XT, w):
    d, n = XT.shape
    out = np.empty(n)
    for start in range(0, n, STRIP):
        part = out[start : start + STRIP]
        for i in range(len(part)):
            part[i] = w[d]
        for j in range(d):
            row = XT[j][start : start + STRIP]
            for i in range(len(part)):
                part[i] += w[j] * row[i]
    return out


@njit(cache=True, fastmath=FAST)
def _dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@njit(cache=True, fastmath=FAST)
def _dense_transposed_times(XT, v):
    d, n = XT.shape
    out = np.zeros(d + 1)
    for start in range(0, n, STRIP):
        part = v[start : start + STRIP]
        for j in range(d):
            out[j] += _dot(part, XT[j][start : start + STRIP])
        total = 0.0
        for i in range(len(part)):
            total += part[i]
        out[d] += total
    return out


@njit(cache=True, fastmath=FAST)
def _dense_gram(XT, D, v, A, G):
    # `A` holds ones, shape (d + 1, BLOCK), `G` zeros: arrays of two dimensions that are made here take long to compile
    d, n = XT.shape
    out = np.zeros(d + 1)
    scaled = np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        weight, part = D[start : start + m], v[start : start + m]
        for j in range(d):  # a copy in one piece: rows of XT lie n apart
            row, values = A[j], XT[j][start : start + m]
            for b in range(m):
                row[b] = values[b]
        for j in range(d + 1):
            row = A[j, :m]
            for b in range(m):
                scaled[b] = row[b] * weight[b]
            out[j] += _dot(row, part)
            for k in range(j, d + 1):
                G[j, k] += _dot(scaled[:m], A[k, :m])
    return out


@njit(cache=True)
def _sparse_gram(data, columns, starts, D, v, G):
    d = len(G) - 1
    out = np.zeros(d + 1)
    for i in range(len(D)):
        for p in range(starts[i], starts[i + 1]):
            scaled = D[i] * data[p]
            j = columns[p]
            for q in range(p, starts[i + 1]):
                G[j, columns[q]] += scaled * data[q]
            G[j, d] += scaled
            out[j] += v[i] * data[p]
        G[d, d] += D[i]
        out[d] += v[i]
    return out


@njit(cache=True)
def _sparse_times(data, columns, starts, w):
    out = np.empty(len(starts) - 1)
    for i in range(len(out)):
        total = w[-1]
        for p in range(starts[i], starts[i + 1]):
            total += data[p] * w[columns[p]]
        out[i] = total
    return out


@njit(cache=True)
def _sparse_transposed_times(data, columns, starts, v, d):
    out = np.zeros(d + 1)
    for i in range(len(v)):
        for p in range(starts[i], starts[i + 1]):
            out[columns[p]] += data[p] * v[i]
        out[d] += v[i]
    return out


def feature_major(X, rows):
    """Rows `rows` of `X` as a float64 array of shape (d, len(rows)), each feature in one piece."""
    out = np.empty((X.shape[1], len(rows)))
    for start in range(0, len(rows), STRIP):
        strip = slice(start, start + STRIP)
        out[:, strip] = X[rows[strip]].T
    return out


class DenseDesign:
    """Products with ``[X, 1]`` for a dense `X` of n rows and d features.

    Parameters
    ----------
    XT : float64 array, shape (d, n), feature by feature
    """

    def __init__(self, XT):
        self.XT = XT
        self.d, self.n = XT.shape

    def rows(self):
        """X itself, shape (n, d)."""
        return self.XT.T

    def take(self, rows):
        """The design of some of the rows."""
        return DenseDesign(self.XT[:, rows])

    def times(self, w):
        """``[X, 1] @ w``, shape (n,)."""
        return _dense_times(self.XT, w)

    def transposed_times(self, v):
        """``[X, 1].T @ v``, shape (d + 1,)."""
        return _dense_transposed_times(self.XT, v)

    def gram(self, D, v):
        """``[X, 1].T @ diag(D) @ [X, 1]``, shape (d + 1, d + 1), and ``[X, 1].T @ v`` of the same pass."""
        if self.d >= WIDE:
            return self._gram_by_blas(D), self.transposed_times(v)
        upper = np.zeros((self.d + 1, self.d + 1))
        product = _dense_gram(self.XT, D, v, np.ones((self.d + 1, BLOCK)), upper)
        return _symmetric(upper), product

    def _gram_by_blas(self, D):
        G, root = np.zeros((self.d + 1, self.d + 1)), np.sqrt(D)
        scaled = np.empty((self.d + 1, min(STRIP, self.n)))
        with one_blas_thread():
            for start in range(0, self.n, STRIP):
                part = scaled[:, : len(root[start : start + STRIP])]
                part[-1] = root[start : start + STRIP]
                np.multiply(self.XT[:, start : start + STRIP], part[-1], out=part[:-1])
                G += part @ part.T
        return G


class SparseDesign:
    """The same products for a CSR matrix, which is never made dense."""

    def __init__(self, X):
        self.X = sparse.csr_matrix(X, dtype=np.float64)
        self.X.sort_indices()  # the Gram kernel fills the upper triangle only
        self.n, self.d = X.shape
        integers = np.int32 if self.X.nnz <= np.iinfo(np.int32).max else np.int64  # one of the two is compiled
        self.arrays = (
            self.X.data,
            self.X.indices.astype(integers, copy=False),
            self.X.indptr.astype(integers, copy=False),
        )

    def rows(self):
        return self.X

    def take(self, rows):
        return SparseDesign(self.X[rows])

    def times(self, w):
        return _sparse_times(*self.arrays, w)

    def transposed_times(self, v):
        return _sparse_transposed_times(*self.arrays, v, self.d)

    def gram(self, D, v):
        """As `DenseDesign.gram`."""
        upper = np.zeros((self.d + 1, self.d + 1))
        product = _sparse_gram(*self.arrays, D, v, upper)
        return _symmetric(upper), product


def _symmetric(upper):
    return np.triu(upper) + np.triu(upper, 1).T


def design(X, rows=None):
    """The design of `X`, dense or CSR, or of its rows `rows`."""
    if sparse.issparse(X):
        return SparseDesign(X if rows is None else X[rows])
    return DenseDesign(feature_major(X, np.arange(len(X)) if rows is None else rows))
