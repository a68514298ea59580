"""Exact reweighting: a few rows whose weighted sums of features are those of all rows."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lstsq, lu
from scipy.linalg.blas import dgemm, dger, dtrsm
from scipy.optimize import nnls
from scipy.sparse import csr_matrix

from handful.checks import (
    check_array,
    check_in_memory,
    check_integer,
    check_sample_weight,
)
from handful.running import Bar
from handful.scales import centers, moments

# entries of the features in memory at once: they fit into a cache
CHUNK = 250_000
# columns that are eliminated one by one before the others follow by a matrix product
PANEL = 32
# of the ratio test (Harris): among rows that reach zero together, the one of the larger pivot
SLACK = 1e-14
# a feature whose pivot is smaller than this share of the largest is a combination of others
DEPENDENT = 1e-12
# the residual that is aimed at, and one that is a failure
EXACT = 1e-13
LARGE = 1e-11


@dataclass(frozen=True)
class Products:
    """Features of rows of which most are products of two factors: a gradient is a slope times a row
    of the design. Their sums over many rows are matrix products, and need no product of a row.

    Attributes
    ----------
    columns : shape (k, q), the features that are no products
    left, right : shape (k, a) and (k, b); a b features follow, the first column of left times each
        of right first
    """

    columns: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @property
    def shape(self):
        """As of the array of all features: rows, and features of each."""
        return len(self.left), self.columns.shape[1] + self.left.shape[1] * self.right.shape[1]

    @property
    def size(self):
        """Numbers in memory."""
        return self.columns.size + self.left.size + self.right.size

    def run_sums(self, w, edges):
        """Weighted sums over the rows from each of the edges to the next."""
        found = np.empty((len(edges) - 1, self.shape[1]))
        n_columns = self.columns.shape[1]
        found[:, :n_columns] = _run_sums(self.columns, w, edges)
        weighted = w[:, None] * self.left
        lengths = np.diff(edges)
        for length in np.unique(lengths):
            runs = np.flatnonzero(lengths == length)
            rows = edges[runs, None] + np.arange(length)
            products = weighted[rows].transpose(0, 2, 1) @ self.right[rows]
            found[runs, n_columns:] = products.reshape(len(runs), -1)
        return found

    def __rmatmul__(self, w):
        """Weighted sums over all rows."""
        products = (w[:, None] * self.left).T @ self.right
        return np.hstack([w @ self.columns, products.ravel()])

    # numpy leaves the product to this class.
    __array_ufunc__ = None


def recombine(
    features: Any, n: int | None = None, weights: Any = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows and weights with the same sums of features as all rows: at most as many rows as there
    are features.

    By Caratheodory's theorem such rows exist, and a tree finds them: sum the rows in twice as many
    blocks as there are features, reweight the blocks so that at most as many as there are features
    remain, and repeat with their rows (Litterer and Lyons 2012, Section 3; Tchernychova 2016;
    Maalouf, Jubran and Feldman 2019, Algorithm 1). The blocks are reweighted by one LU
    decomposition and eliminations with a ratio test, in panels. Time: about two evaluations of each
    row's features, and 5 N^3 operations for each halving of the rows; memory: about 10 N^2 numbers.

    Parameters
    ----------
    features : array, shape (n, N); or a function of an int array of rows, of k entries, that gives
        their features, shape (k, N), in float64, the same for a row in whatever company it is asked
        for. Include a column of ones: it keeps the sum of the weights
    n : number of rows, of which a function gives the features; None for an array
    weights : shape (n,), non-negative, of all rows; ones by default

    Returns
    -------
    indices : int array, ascending, at most as many as the features' rank
    weights : float array, positive
    residual : float, the largest error of a sum, as a share of the sum of the blocks' magnitudes

    Raises
    ------
    ValueError
        for features that are not finite, weights that are negative or all zero, and an `n` beside
        an array

    Examples
    --------
    Seven rows with the mean and the covariance of a thousand:

    >>> import numpy as np
    >>> from handful.matching import recombine
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> F = np.column_stack([np.ones(1000), X, X[:, 0] ** 2, X[:, 0] * X[:, 1], X[:, 1] ** 2])
    >>> rows, w, residual = recombine(F)
    >>> len(rows), bool(np.allclose(w @ F[rows], F.sum(0)))
    (6, True)
    """
    check_in_memory("recombine", features)
    if not callable(features):
        if n is not None:
            raise ValueError(
                "n must be None beside an array of features; weights are given by name, weights=..."
            )
        array = check_array(features, dtype=np.float64, input_name="features")
        return recombine(
            _near_zero(array, check_sample_weight(weights, len(array))),
            len(array),
            weights,
        )
    check_integer("n", n)
    return _tree(features, check_sample_weight(weights, n), DEPENDENT)


def reweighted(
    features: Any, weights: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """As `recombine`, of a sample of rows whose sums are to be the `target`, those of all rows.

    What the sample's sums lack is one row more, which is the first to be eliminated, as an
    artificial variable is in the first phase of the simplex method (Dantzig, Orden and Wolfe 1955).

    Returns
    -------
    indices, weights, residual : of rows of the sample; None where no weights of it were found that
        reach the target
    """
    found = _tree(features, weights, DEPENDENT, target)
    return found if found[2] <= LARGE else None


def _near_zero(array, weights):
    """A function that gives rows of features; those far from zero are moved there, if a constant
    one keeps the rest."""
    found = moments(array, weights)
    *_, least, most = found
    constant = least == most
    center = np.where(constant, 0.0, centers(found))
    has_constant = (constant & (least != 0)).any()
    if not has_constant or not center.any():
        return array.__getitem__
    return lambda rows: array[rows] - center


def _tree(features, weights, dependent, target=None):
    idx = np.flatnonzero(weights > 0)
    w = weights[idx]
    keep = np.arange(features(idx[:1]).shape[1])
    scale = None
    # what the rows lack of a target: one row more, until their weights make up for it
    lack = np.zeros((0, len(keep)))
    with Bar(desc="recombine", unit="round") as bar:
        while True:
            n_blocks = min(len(idx), 2 * len(keep))
            cuts = np.linspace(0, len(idx), n_blocks + 1).astype(np.int64)
            M = _block_sums(features, idx, w, cuts)
            # the first pass: what to keep, in which units, and which features are independent
            if scale is None:
                sums = M.sum(0)
                if target is None:
                    target = sums
                else:
                    lack = (target - sums)[None]
                every = np.vstack([M, lack])
                scale = np.abs(every).sum(0)
                norm = np.linalg.norm(every, axis=0)
                scale[scale == 0] = norm[norm == 0] = 1
                rng = np.random.default_rng(0)
                sketch = rng.standard_normal((len(M), min(M.shape)))
                order, _, U = _lu((M / norm).T @ sketch)
                pivots = np.abs(np.diag(U))
                rank = np.count_nonzero(pivots > dependent * pivots.max())
                keep = np.sort(order[: max(1, rank)])
            # each round about halves the rows
            n_rounds = math.ceil(math.log2(len(idx) / len(keep)))
            bar.total = bar.n + max(0, n_rounds)
            if len(idx) <= len(keep):
                break
            kept = np.vstack([M, lack])[:, keep]
            lengths = np.maximum(np.linalg.norm(kept, axis=0), 1e-300)
            x = _eliminate(kept / lengths, rid=lack.any())
            x[x < 1e-13] = 0
            x, x_of_lack = np.split(x, [len(M)])
            lack = x_of_lack[:, None] * lack
            w = w * np.repeat(x, np.diff(cuts))
            idx = idx[w > 0]
            w = w[w > 0]
            bar.update()
    F = M
    if len(M) != len(idx):
        F = _block_sums(features, idx, w, np.arange(len(idx) + 1))
    w, residual = _refine(F / scale, target / scale, w)
    # a feature that was judged dependent was not, such as a rare one-hot column
    is_sample = len(lack) > 0
    may_depend = dependent > 0 and not is_sample
    if residual > LARGE and may_depend:
        return _tree(features, weights, -1.0)
    return idx, w, residual


def _lu(M):
    """Order of the rows by partial pivoting, and the factors L and U of M in it."""
    places, L, U = lu(M, p_indices=True, check_finite=False)
    return np.argsort(places), L, U


def _block_sums(features, idx, w, cuts):
    """Sums of w_i f_i over idx[cuts[j]:cuts[j+1]], shape (blocks, N), of so many rows at once as
    CHUNK allows."""
    one = features(idx[:1])
    n_blocks = len(cuts) - 1
    M = np.empty((n_blocks, one.shape[1]), order="F")
    rows_a_block = len(idx) / n_blocks
    step = max(1, int(CHUNK / rows_a_block / one.size))
    for start in range(0, n_blocks, step):
        edges = cuts[start : start + step + 1]
        rows = slice(edges[0], edges[-1])
        found = features(idx[rows])
        is_products = isinstance(found, Products)
        runs = found.run_sums if is_products else partial(_run_sums, found)
        M[start : start + step] = runs(w[rows], edges - edges[0])
    if not np.isfinite(M).all():
        raise ValueError(
            "features must be finite, got a sum that is not: scale the data, or look for an "
            "overflow."
        )
    return M


def _run_sums(features, w, edges):
    members = csr_matrix((w, np.arange(len(w)), edges))
    return members @ features


def _eliminate(M, rid=False):
    """x >= 0 with x M = 1 M and at most N non-zeros, for M of shape (b, N); `rid` of the last one
    first, as far as that is possible.

    An LU decomposition gives the lower rows of M as combinations C of the first N, so the columns
    of V = [-C'; I] are null vectors of M'. Each step moves x along one of them until an entry
    reaches zero, and eliminates that entry from the other columns: an LU decomposition of V whose
    row pivots come from a ratio test.
    """
    b, N = M.shape
    k = b - N
    if k <= 0:
        return np.ones(b)
    order, L, _ = _lu(M)
    V = np.zeros((b, k), order="F")
    V[:N] = dtrsm(-1.0, L[:N], L[N:], side=1, lower=1, diag=1).T
    V[np.arange(N, b), np.arange(k)] = 1
    del L
    x = np.ones(b)
    last = order.argmax()
    for start in range(0, k, PANEL):
        end = min(start + PANEL, k)
        pivots = []
        for j in range(start, end):
            v = V[:, j]
            ratio = v / (x + SLACK)
            # what reaches zero first along +v, and along -v
            i = ratio.argmax()
            low = ratio.argmin()
            if rid and x[last] > 0:
                # the last one shrinks
                is_low = v[last] < 0
            else:
                # the larger pivot is the stabler one
                is_low = abs(v[low]) > abs(v[i])
            if is_low:
                i = low
            x -= (x[i] / v[i]) * v
            np.maximum(x, 0, out=x)
            x[i] = 0
            pivots.append(i)
            if j + 1 < end:
                later = slice(j + 1, end)
                dger(-1.0, v, V[i, later] / v[i], a=V[:, later], overwrite_a=1)
                V[i, later] = 0
        if end < k:
            panel = V[:, start:end]
            S = dtrsm(1.0, panel[pivots], V[pivots, end:], lower=1)
            dgemm(-1.0, panel, S, 1.0, V[:, end:], overwrite_c=1)
            V[pivots, end:] = 0
    out = np.empty(b)
    out[order] = x
    return out


def _refine(F, target, w):
    """Weights w (1 + y) with rounding errors taken out, for rows F of w_i f_i, and the residual
    that is left."""
    missing = target - F.sum(0)
    residual = np.abs(missing).max()
    for _ in range(3):
        if residual <= EXACT:
            break
        y = lstsq(F.T, missing, cond=1e-13, lapack_driver="gelsy")[0]
        factors = 1 + y
        G = F * factors[:, None]
        still_missing = target - G.sum(0)
        better = np.abs(still_missing).max()
        if np.abs(y).max() < 0.5 and better < residual:
            F = G
            w = w * factors
            missing = still_missing
            residual = better
    return w, float(residual)


def pursue(F, weights, size):
    """At most `size` rows whose weighted sum of F, shape (n, N), is near that of all: non-negative
    matching pursuit.

    In turn the row along which most is missing joins, and all weights are solved anew (Lawson and
    Hanson 1974).

    Returns
    -------
    indices : int array, ascending
    weights : float array, positive
    residual : float, length of what is missing, as a share of that of the sums
    """
    mean_squares = weights @ F**2 / weights.sum()
    sizes = np.sqrt(mean_squares)
    F = F / np.maximum(sizes, 1e-300)
    lengths = np.linalg.norm(F, axis=1)
    lengths = np.maximum(lengths, 1e-300)
    target = weights @ F
    enough = EXACT * np.linalg.norm(target)
    chosen = np.zeros(0, int)
    w = np.zeros(0)
    missed = np.inf
    with Bar(range(2 * size), desc="pursuit", unit="row") as steps:
        for _ in steps:
            missing = target - w @ F[chosen]
            along = F @ missing / lengths
            along[chosen] = -np.inf
            is_done = len(chosen) == size or missed <= enough
            if is_done or not along.max() > 0:
                break
            chosen = np.append(chosen, along.argmax())
            w, missed = nnls(F[chosen].T, target, maxiter=100 * size)
            chosen = chosen[w > 0]
            w = w[w > 0]
    order = np.argsort(chosen)
    residual = missed / np.linalg.norm(target)
    return chosen[order], w[order], float(residual)
