"""Passes over the whole data set, the only work that grows with n.

A linear model with design rows ``a_k = (x_k, 1)`` and parameters ``theta = (coefficients, intercept)`` needs two
per selection step: `outer_pass` (residuals and outer gradient at theta) and `score_pass` (products with the
inverse-Hessian-vector product). Each reads X once: rows are cut into blocks small enough that a block is still in
the cache when its second use comes. Block sums are added up in order: the number of threads changes no result.
"""

from copy import copy

import numpy as np
from numba import njit, prange

from handful.checks import check_memory

LOGISTIC, SQUARED = 0, 1
BLOCK = 2048
PARALLEL_ABOVE = 1 << 22  # entries of X (of its nonzeros) from which a pass is worth several threads
_CSR_BLOCKS = 64  # each block of a sparse matrix has a gradient buffer, so their number is bounded, not their length,
_CSR_ENTRIES = 8  # and a block has so many nonzeros for each entry of its buffer, else clearing it would take longest
_FAST = {"reassoc", "contract", "nsz", "arcp"}  # let sums be vectorised; NaN and inf keep their meaning

LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440e-4


@njit(fastmath=_FAST, error_model="numpy", cache=True)
def residuals(kind, z, y, r):
    """Write dl/dz into `r` for logits `z` and targets `y` (labels -1/+1 for the logistic loss)."""
    if kind == SQUARED:
        for i in range(len(z)):
            r[i] = z[i] - y[i]
    elif z.itemsize == 4:
        _logistic_residuals_float32(z, y, r)
    else:
        for i in range(len(z)):
            r[i] = -y[i] / (1.0 + np.exp(y[i] * z[i]))


@njit(fastmath=_FAST, error_model="numpy", cache=True)
def _logistic_residuals_float32(z, y, r):
    # numba calls libm once per element for exp; this polynomial (relative error below 2e-7) runs eight at a time.
    n = len(z)
    power = np.empty(n, dtype=np.int32)
    for i in range(n):
        x = min(max(y[i] * z[i], np.float32(-87.0)), np.float32(87.0))
        k = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
        x -= k * np.float32(LN2_HIGH)
        x -= k * np.float32(LN2_LOW)
        p = np.float32(1.9875691500e-4)
        p = p * x + np.float32(1.3981999507e-3)
        p = p * x + np.float32(8.3334519073e-3)
        p = p * x + np.float32(4.1665795894e-2)
        p = p * x + np.float32(1.6666665459e-1)
        p = p * x + np.float32(5.0000001201e-1)
        r[i] = p * x * x + x + np.float32(1.0)
        power[i] = (np.int32(k) + np.int32(127)) << np.int32(23)
    scale = power.view(np.float32)
    for i in range(n):
        r[i] = -y[i] / (np.float32(1.0) + r[i] * scale[i])


@njit(fastmath=_FAST, error_model="numpy", cache=True)
def _block_product(X, lo, hi, v, out):
    # out = X[lo:hi] @ v[:d] + v[d], eight columns at a time so that `out` is read and written an eighth as often
    d = X.shape[1]
    m = hi - lo
    for i in range(m):
        out[i] = v[d]
    j = 0
    while j + 8 <= d:
        x0, x1, x2, x3 = X[lo:hi, j], X[lo:hi, j + 1], X[lo:hi, j + 2], X[lo:hi, j + 3]
        x4, x5, x6, x7 = X[lo:hi, j + 4], X[lo:hi, j + 5], X[lo:hi, j + 6], X[lo:hi, j + 7]
        v0, v1, v2, v3 = v[j], v[j + 1], v[j + 2], v[j + 3]
        v4, v5, v6, v7 = v[j + 4], v[j + 5], v[j + 6], v[j + 7]
        for i in range(m):
            out[i] += (x0[i] * v0 + x1[i] * v1 + x2[i] * v2 + x3[i] * v3) + (
                x4[i] * v4 + x5[i] * v5 + x6[i] * v6 + x7[i] * v7
            )
        j += 8
    while j < d:
        x0, v0 = X[lo:hi, j], v[j]
        for i in range(m):
            out[i] += x0[i] * v0
        j += 1


@njit(fastmath=_FAST, error_model="numpy", cache=True)
def _block_gradient(X, lo, hi, c, out):
    # out[:d] = X[lo:hi].T @ c, out[d] = sum(c)
    d = X.shape[1]
    m = hi - lo
    zero = c[0] * 0
    j = 0
    while j + 4 <= d:
        x0, x1, x2, x3 = X[lo:hi, j], X[lo:hi, j + 1], X[lo:hi, j + 2], X[lo:hi, j + 3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for i in range(m):
            s0 += x0[i] * c[i]
            s1 += x1[i] * c[i]
            s2 += x2[i] * c[i]
            s3 += x3[i] * c[i]
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
        j += 4
    while j < d:
        x0 = X[lo:hi, j]
        s0 = zero
        for i in range(m):
            s0 += x0[i] * c[i]
        out[j] = s0
        j += 1
    s0 = zero
    for i in range(m):
        s0 += c[i]
    out[d] = s0


@njit(cache=True)
def _multiply(out, r):
    for i in range(len(out)):
        out[i] *= r[i]


def _outer_pass_dense(X, y, u, weighted, theta, kind, z, r, partial):
    n = X.shape[0]
    for b in prange(partial.shape[0]):
        lo = b * BLOCK
        hi = min(lo + BLOCK, n)
        _block_product(X, lo, hi, theta, z[lo:hi])
        residuals(kind, z[lo:hi], y[lo:hi], r[lo:hi])
        if weighted:
            _block_gradient(X, lo, hi, u[lo:hi] * r[lo:hi], partial[b])
        else:
            _block_gradient(X, lo, hi, r[lo:hi], partial[b])


def _score_pass_dense(X, r, v, out):
    n = X.shape[0]
    for b in prange((n + BLOCK - 1) // BLOCK):
        lo = b * BLOCK
        hi = min(lo + BLOCK, n)
        _block_product(X, lo, hi, v, out[lo:hi])
        _multiply(out[lo:hi], r[lo:hi])


def _outer_pass_csr(data, indices, indptr, y, u, theta, kind, z, r, partial):
    n = len(y)
    d = partial.shape[1] - 1
    rows = (n + partial.shape[0] - 1) // partial.shape[0]
    for b in prange(partial.shape[0]):
        lo = min(b * rows, n)
        hi = min(lo + rows, n)
        for i in range(lo, hi):
            s = theta[d]
            for j in range(indptr[i], indptr[i + 1]):
                s += data[j] * theta[indices[j]]
            z[i] = s
        residuals(kind, z[lo:hi], y[lo:hi], r[lo:hi])
        partial[b] = 0
        for i in range(lo, hi):
            c = u[i] * r[i]
            for j in range(indptr[i], indptr[i + 1]):
                partial[b, indices[j]] += data[j] * c
            partial[b, d] += c


def _score_pass_csr(data, indices, indptr, r, v, out):
    for i in prange(len(r)):
        s = v[len(v) - 1]
        for j in range(indptr[i], indptr[i + 1]):
            s += data[j] * v[indices[j]]
        out[i] = r[i] * s


def _compile(kernel):
    # One and many threads; starting threads costs more than a small pass, far more on a busy machine.
    return njit(cache=True)(kernel), njit(parallel=True, cache=True)(kernel)


_OUTER_PASS_DENSE, _SCORE_PASS_DENSE = _compile(_outer_pass_dense), _compile(_score_pass_dense)
_OUTER_PASS_CSR, _SCORE_PASS_CSR = _compile(_outer_pass_csr), _compile(_score_pass_csr)


@njit(fastmath=_FAST, error_model="numpy", cache=True)
def _total_logistic_loss(z, r, y, u, weighted):
    # With p = |r| the loss is max(-margin, 0) - log(p or 1 - p, whichever is above a half): no exponential is needed,
    # and one logarithm does for 32 rows.
    n = len(z)
    total = 0.0
    for lo in range(0, n, 32):
        hi = min(lo + 32, n)
        product, hinge = 1.0, 0.0
        for i in range(lo, hi):
            margin = y[i] * z[i]
            p = abs(np.float64(r[i]))
            larger = max(p, 1.0 - p)
            if weighted:
                total -= u[i] * np.log(larger)
                hinge += u[i] * max(-margin, 0.0)
            else:
                product *= larger
                hinge += max(-margin, 0.0)
        total += hinge - np.log(product)
    return total


@njit(fastmath=_FAST, cache=True)
def _total_squared_loss(r, u):
    total = 0.0
    for i in range(len(r)):
        total += u[i] * np.float64(r[i]) * np.float64(r[i])
    return 0.5 * total


class DataPasses:
    """The data set, laid out for fast passes, with the buffers they write to.

    Parameters
    ----------
    X : float array or CSR matrix, shape (n, d); a dense one is copied if it is not column-major
    y : targets in the coding of the loss, shape (n,)
    sample_weight : shape (n,), used in the outer gradient
    kind : LOGISTIC or SQUARED
    """

    def __init__(self, X, y, sample_weight, kind):
        self.sparse = not isinstance(X, np.ndarray)
        if not self.sparse and not X.flags.f_contiguous:
            check_memory("a column-major copy of X", X.nbytes, "give X as numpy.asfortranarray makes it")
        self.X = X if self.sparse else np.asfortranarray(X)
        self.kind = kind
        self.sample_weight = sample_weight
        n, d = X.shape
        self.y = y.astype(X.dtype)
        self.total = float(sample_weight.sum())
        self.weighted = not np.all(sample_weight == 1)
        # of mean one, so that no scale of the weights is too large or too small for X's type
        self._relative = sample_weight / self.total * n if self.weighted else sample_weight
        self.u = self._relative.astype(X.dtype) if self.weighted or self.sparse else np.ones(1, dtype=X.dtype)
        blocks = -(-n // BLOCK)
        if self.sparse:
            blocks = min(_CSR_BLOCKS, n, 1 + X.nnz // (_CSR_ENTRIES * (d + 1)))
        self.z, self.r, self.scores = (np.empty(n, dtype=X.dtype) for _ in range(3))
        self._partial = np.empty((blocks, d + 1), dtype=X.dtype)
        self._parallel = (X.nnz if self.sparse else X.size) > PARALLEL_ABOVE

    def twin(self):
        """The same data with logits and residuals of its own, for a second model."""
        other = copy(self)
        other.z, other.r = np.empty_like(self.z), np.empty_like(self.r)
        return other

    def mean_loss(self):
        """Weighted mean loss at the parameters of the last `outer_gradient`."""
        if self.kind == SQUARED:
            return _total_squared_loss(self.r, self._relative) / len(self.r)
        return _total_logistic_loss(self.z, self.r, self.y, self._relative, self.weighted) / len(self.r)

    def outer_gradient(self, theta):
        """Gradient of the mean loss at `theta`, shape (d + 1,) in float64; `z` and `r` hold logits and residuals."""
        theta = theta.astype(self.X.dtype)
        if self.sparse:
            X = self.X
            _OUTER_PASS_CSR[self._parallel](
                X.data, X.indices, X.indptr, self.y, self.u, theta, self.kind, self.z, self.r, self._partial
            )
        else:
            _OUTER_PASS_DENSE[self._parallel](
                self.X, self.y, self.u, self.weighted, theta, self.kind, self.z, self.r, self._partial
            )
        return self._partial.sum(axis=0, dtype=np.float64) / len(self.r)

    def linear_scores(self, v):
        """``r_k a_k' v`` for every row k; the residuals are those of the last `outer_gradient`.

        Returns a buffer that the next call overwrites.
        """
        v = v.astype(self.X.dtype)
        if self.sparse:
            _SCORE_PASS_CSR[self._parallel](self.X.data, self.X.indices, self.X.indptr, self.r, v, self.scores)
        else:
            _SCORE_PASS_DENSE[self._parallel](self.X, self.r, v, self.scores)
        return self.scores
