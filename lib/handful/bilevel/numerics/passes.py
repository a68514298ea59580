"""Passes over the whole data set, the only work that grows with n.

A linear model with design rows ``a_k = (x_k, 1)`` and parameters ``theta = (coefficients, intercept)`` needs two
per selection step: `outer_pass` (residuals and outer gradient at theta) and `score_pass` (products with the
inverse-Hessian-vector product). Each reads X once: rows are cut into blocks small enough that a block is still in
the cache when its second use comes. Block sums are added up in order: the number of threads changes no result.
"""

from copy import copy

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from handful.checks import check_memory

LOGISTIC, SQUARED = 0, 1
LEAST_BLOCK, MOST_BLOCK = 2048, 8192  # rows of a block: long ones read each column in longer runs, which is faster,
BLOCK_BYTES = 1 << 22  # but one of more bytes than this has left the cache when its second use comes
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
    else:
        _logistic_residuals(z, y, r)


def _logistic_residuals(z, y, r):
    for i in range(len(z)):
        r[i] = -y[i] / (1.0 + np.exp(y[i] * z[i]))


@overload(_logistic_residuals, jit_options=dict(fastmath=_FAST, error_model="numpy"))
def _logistic_residuals_of_type(z, y, r):
    # An overload, not a branch, so that only the one that is used has to be compiled.
    return _logistic_residuals_float32 if z.dtype == types.float32 else _logistic_residuals


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
    # out[lo:hi] = X[lo:hi] @ v[:d] + v[d], eight columns at a time: `out` is read and written an eighth as often.
    # Indices without a sign cannot count from the end: no check for that keeps the loops from being vectorised.
    lo, hi, d = np.uint64(lo), np.uint64(hi), np.uint64(X.shape[1])
    for i in range(lo, hi):
        out[i] = v[d]
    for j in range(np.uint64(0), d & ~np.uint64(7), np.uint64(8)):
        k = j + np.uint64(4)
        v0, v1, v2, v3 = v[j], v[j + np.uint64(1)], v[j + np.uint64(2)], v[j + np.uint64(3)]
        v4, v5, v6, v7 = v[k], v[k + np.uint64(1)], v[k + np.uint64(2)], v[k + np.uint64(3)]
        for i in range(lo, hi):
            out[i] += (
                X[i, j] * v0 + X[i, j + np.uint64(1)] * v1 + X[i, j + np.uint64(2)] * v2 + X[i, j + np.uint64(3)] * v3
            ) + (X[i, k] * v4 + X[i, k + np.uint64(1)] * v5 + X[i, k + np.uint64(2)] * v6 + X[i, k + np.uint64(3)] * v7)
    for j in range(d & ~np.uint64(7), d):
        for i in range(lo, hi):
            out[i] += X[i, j] * v[j]


@njit(fastmath=_FAST, error_model="numpy", cache=True)
def _block_gradient(X, lo, hi, c, out):
    # out[:d] = X[lo:hi].T @ c[lo:hi], out[d] = sum(c[lo:hi])
    lo, hi, d = np.uint64(lo), np.uint64(hi), np.uint64(X.shape[1])
    zero = c[0] * 0
    for j in range(np.uint64(0), d & ~np.uint64(3), np.uint64(4)):
        k = j + np.uint64(2)
        s0, s1, s2, s3 = zero, zero, zero, zero
        for i in range(lo, hi):
            s0 += X[i, j] * c[i]
            s1 += X[i, j + np.uint64(1)] * c[i]
            s2 += X[i, k] * c[i]
            s3 += X[i, k + np.uint64(1)] * c[i]
        out[j], out[j + np.uint64(1)], out[k], out[k + np.uint64(1)] = s0, s1, s2, s3
    for j in range(d & ~np.uint64(3), d + np.uint64(1)):
        total = zero
        for i in range(lo, hi):
            total += X[i, j] * c[i] if j < d else c[i]
        out[j] = total


def _outer_pass_dense(X, y, u, weighted, theta, kind, z, r, c, rows, partial):
    n = X.shape[0]
    for b in prange(partial.shape[0]):
        lo = b * rows
        hi = min(lo + rows, n)
        _block_product(X, lo, hi, theta, z)
        residuals(kind, z[lo:hi], y[lo:hi], r[lo:hi])
        if weighted:
            for i in range(lo, hi):
                c[i] = u[i] * r[i]
        _block_gradient(X, lo, hi, c if weighted else r, partial[b])


def _score_pass_dense(X, r, v, rows, out):
    n = X.shape[0]
    for b in prange((n + rows - 1) // rows):
        lo = b * rows
        hi = min(lo + rows, n)
        _block_product(X, lo, hi, v, out)
        for i in range(lo, hi):
            out[i] *= r[i]


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
def total_logistic_loss(z, r, y, u, weighted):
    """Sum of logistic losses (times `u` if `weighted`) for logits `z`, residuals `r` and labels `y` of -1 and +1."""
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
def total_squared_loss(r, u):
    """Half the sum of the squared residuals `r`, times `u`."""
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
        self._rows = MOST_BLOCK if MOST_BLOCK * d * X.dtype.itemsize <= BLOCK_BYTES else LEAST_BLOCK
        blocks = -(-n // self._rows)
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
            return total_squared_loss(self.r, self._relative) / len(self.r)
        return total_logistic_loss(self.z, self.r, self.y, self._relative, self.weighted) / len(self.r)

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
                self.X,
                self.y,
                self.u,
                self.weighted,
                theta,
                self.kind,
                self.z,
                self.r,
                self.scores,
                self._rows,
                self._partial,
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
            _SCORE_PASS_DENSE[self._parallel](self.X, self.r, v, self._rows, self.scores)
        return self.scores
