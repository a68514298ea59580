"""Exact sampling from k-determinantal point processes, fast where the kernel is low rank plus
identity."""

import numpy as np
from numba import njit
from scipy.special import gammaln, xlogy
from sklearn.utils.extmath import row_norms

from handful.checks import (
    as_generator,
    check_generator,
    check_integer,
    check_number,
    check_rows,
)
from handful.options import explained
from handful.running import warn
from handful.sampling.alias import alias_records, draw_alias
from handful.sampling.state import Stateful

# The largest share of the greatest eigenvalue that counts as rounding, however coarse the type is
LARGEST_ROUNDING = 0.01


def log_elementary_symmetric(values, k):
    """Logarithms of the elementary symmetric polynomials of every prefix of `values`.

    Parameters
    ----------
    values : array, shape (r,), positive
    k : int

    Returns
    -------
    array, shape (r + 1, k + 1); [l, j] is log e_j of the first l values (-inf where j > l)
    """
    table = np.full((len(values) + 1, k + 1), -np.inf)
    table[:, 0] = 0.0
    for m, log_value in enumerate(np.log(values)):
        table[m + 1, 1:] = np.logaddexp(table[m, 1:], log_value + table[m, :-1])
    return table


def log_binomial(n, k):
    """log of n choose k."""
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


# The kernels get their buffers, sort nothing and hold no expressions of arrays, and each is one
# function, of more than twelve branches: all else would take a second to compile.


@njit(cache=True)
def _draw_set(rng, sizes, take, U, records, columns, basis, v, chosen):  # noqa: PLR0912 (a kernel)
    """One k-DPP sample into `chosen`: `sizes` cumulates P(t), `take` [l, j] is P(eigenvector l | j
    to take of 0..l).

    Buffers: `columns` and `v`, shape (k,), and `basis`, shape (k * k,), t numbers for each row
    chosen.
    """
    n, r = U.shape
    t = 0
    u = rng.random()
    while t < sizes.size - 1 and u >= sizes[t]:
        t += 1
    left = t
    for m in range(r - 1, -1, -1):
        if left == 0:
            break
        if rng.random() < take[m, left]:
            left -= 1
            columns[left] = m
    for a in range(t):
        # propose by squared row length, accept by the share orthogonal to the chosen rows
        while True:
            i = draw_alias(records[columns[min(np.int64(rng.random() * t), t - 1)]], rng.random())
            length = 0.0
            for j in range(t):
                v[j] = U[i, columns[j]]
                length += v[j] * v[j]
            for b in range(a):
                along = 0.0
                for j in range(t):
                    along += basis[b * t + j] * v[j]
                for j in range(t):
                    v[j] -= along * basis[b * t + j]
            rest = 0.0
            for j in range(t):
                rest += v[j] * v[j]
            if rest > 1e-12 * length and rng.random() * length < rest:
                break
        norm = np.sqrt(rest)
        for j in range(t):
            basis[a * t + j] = v[j] / norm
        chosen[a] = i
    for a in range(t, chosen.size):
        while True:
            i = min(np.int64(rng.random() * n), n - 1)
            is_new = True
            for b in range(a):
                is_new &= chosen[b] != i
            if is_new:
                break
        chosen[a] = i


def _epsilons(given, L):
    # Epsilon of the type that the float64 matrix L came in, and of the coarsest that holds it: that
    # in which it was computed, if it has been made a wider one since.
    double = float(np.finfo(np.float64).eps)
    if hasattr(given, "detach") and given.is_floating_point():
        import torch

        return 2 * [torch.finfo(given.dtype).eps]
    if (np.round(L) == L).all():
        return double, double
    with np.errstate(over="ignore"):
        made_in = next(
            kind for kind in (np.float16, np.float32, np.float64) if (L.astype(kind) == L).all()
        )
    held_in = float(np.finfo(made_in).eps)
    kind = getattr(given, "dtype", None)
    return held_in if kind in (np.float16, np.float32) else double, held_in


class KDPP(Stateful):
    """Sets of k points, drawn with probability proportional to det(L_S), with L = X X' + shift I.

    Points of a set are unlike each other: det(L_S) is the squared volume that the rows span, 0 for
    two equal rows. Long rows span more and come more often, so standardise X or give them one
    length; `from_kernel` takes a kernel instead, such as scikit-learn's `rbf_kernel(X)`, which
    measures distances alone. ``X[dpp.sample()]`` are the rows of a set.

    Defined in Kulesza and Taskar (2012). Exact, and after the set-up independent of n: det(L_S) =
    sum over T in S of ``shift^(k-|T|) det(X_T X_T')``, so a set is a sample T from the low-rank
    process (its size drawn first) and a uniform choice of the remaining points. T is drawn from the
    eigenvectors of X X' by rejection with one alias table an eigenvector. Set-up: O(n d^2); a
    sample: O(d + k^3 log k).

    Parameters
    ----------
    X : array of shape (n, d)
        The features, whose similarities ``X X'`` make sets unlikely.
    k : int
        Points a set.
    shift : float, default=0.0
        Added to the diagonal of X X'; with 0 the rank of X, at most d, must be at least k. A
        large one makes sets nearly uniform.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    n, k : int
    log_normaliser : float, log e_k of L's eigenvalues

    Raises
    ------
    ValueError
        for X that is not finite, k above n, and k above the rank of X without a shift

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # two equal points never come together
    >>> dpp = KDPP(X, 2, random_state=0)
    >>> all(2 in dpp.sample() for _ in range(100))
    True
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> KDPP.from_kernel(rbf_kernel(X), 2, random_state=0).sample().shape
    (2,)
    """

    _state = ("rng",)
    _same = ("n", "k")

    @explained
    def __init__(self, X, k, *, shift=0.0, random_state=None) -> None:
        # a copy, which `log_prob` reads
        X = np.array(check_rows(X), dtype=np.float64, order="C")
        n = len(X)
        check_integer("k", k, most=n, why="there are no more points")
        check_number("shift", shift, least=0)
        U, singular, _ = np.linalg.svd(X, full_matrices=False)
        values = singular**2
        # What rounding hides of the small ones.
        hidden = max(X.shape) * np.finfo(float).eps * singular[0]
        rank = int(((singular > hidden) & (values > np.finfo(float).tiny)).sum())
        if rank < len(singular) and 0 < shift < hidden**2:
            warn(
                f"shift={shift:g} lies below what rounding leaves of squared lengths of rows "
                f"({hidden**2:.1g}), and so may features that count: scale the columns of X."
            )
        if shift == 0 and rank < k:
            raise ValueError(
                f"k={k} points cannot be drawn from a kernel of rank {rank}; give a shift above 0."
            )
        self.n = n
        self.k = int(k)
        self.shift = float(shift)
        self.rng = as_generator(random_state)
        self._X = X
        self._U = np.ascontiguousarray(U[:, :rank])
        values = values[:rank]
        table = log_elementary_symmetric(values, self.k)
        t = np.arange(min(self.k, rank) + 1)
        log_sizes = xlogy(self.k - t, self.shift) + log_binomial(n - t, self.k - t) + table[-1, t]
        self.log_normaliser = float(np.logaddexp.reduce(log_sizes))
        self._sizes = np.cumsum(np.exp(log_sizes - self.log_normaliser))
        self._take = np.zeros((rank, self.k + 1))
        possible = table[1:, 1:] > -np.inf
        log_take = (np.log(values)[:, None] + table[:-1, :-1])[possible] - table[1:, 1:][possible]
        self._take[:, 1:][possible] = np.exp(log_take)
        squares = np.ascontiguousarray(self._U.T**2)
        self._records = alias_records(squares / squares.sum(axis=1, keepdims=True))

    @classmethod
    def from_kernel(cls, L, k, *, random_state=None):
        """The k-DPP of a kernel matrix L, shape (n, n), symmetric and positive semi-definite.
        O(n^3) set-up.

        The least eigenvalue becomes the shift, so that a low-rank-plus-identity kernel is found to
        be one. What rounding may have made negative is zero: at most n times the epsilon of the
        type in which L was computed, and at most a hundredth, of the largest eigenvalue. So are
        eigenvalues that are no larger than twice the least negative one, or than what the type
        resolves.

        Raises
        ------
        ValueError
            for a matrix that is not symmetric or has a negative eigenvalue, and for k above its
            rank
        """
        given = L
        L = check_rows(L, "L").astype(np.float64)
        if L.shape[0] != L.shape[1]:
            raise ValueError(f"a kernel must be a symmetric matrix, got shape {L.shape}.")
        epsilon, held_in = _epsilons(given, L)
        rounding = min(len(L) * held_in, LARGEST_ROUNDING)
        if not np.allclose(L, L.T, atol=max(1e-8, rounding) * np.abs(L).max()):
            raise ValueError(
                "a kernel must be a symmetric matrix; L - L' has entries of "
                f"{np.abs(L - L.T).max():.3g}."
            )
        values, vectors = np.linalg.eigh((L + L.T) / 2)
        largest = max(values[-1], 0.0)
        resolved = len(L) * np.finfo(np.float64).eps * largest
        if values[0] < -resolved:
            # as no kernel of doubles has it, it was computed in what holds it
            epsilon = held_in
        rounding = min(len(L) * epsilon, LARGEST_ROUNDING)
        tolerance = max(rounding, 1e-10) * largest
        if values[0] < -tolerance:
            raise ValueError(
                "a kernel must be positive semi-definite; its least eigenvalue is "
                f"{values[0]:.3g}, more than rounding "
                f"explains ({-tolerance:.1g})."
            )
        # The negative ones tell how large rounding is, and positive ones of that size are no
        # better.
        zero = max(resolved, epsilon * largest, -2 * values[0])
        shift = values[0] if values[0] > zero else 0.0
        kept = values - shift > zero
        # a multiple of the identity: all sets are equally likely
        if not kept.any():
            return cls(np.zeros((len(L), 1)), k, shift=shift, random_state=random_state)
        rank = np.count_nonzero(kept)
        if shift == 0 and rank < k:
            raise ValueError(
                f"k={k} points cannot be drawn from a kernel of rank {rank}; add a multiple of the "
                f"identity, such as L + {1e-6 * largest:.0e} * np.eye({len(L)})."
            )
        factor = vectors[:, kept] * np.sqrt(values[kept] - shift)
        return cls(factor, k, shift=shift, random_state=random_state)

    def sample(self, rng=None):
        """One set, int array of shape (k,), ascending; `rng` is a numpy Generator, None the one of
        `random_state`."""
        rng = self.rng if rng is None else rng
        check_generator(rng)
        k = self.k
        columns = np.empty(k, np.int64)
        chosen = np.empty(k, np.int64)
        _draw_set(
            rng,
            self._sizes,
            self._take,
            self._U,
            self._records,
            columns,
            np.empty(k * k),
            np.empty(k),
            chosen,
        )
        chosen.sort()
        return chosen

    def log_prob(self, indices):
        """log probability of drawing this set of k points, int array of shape (k,). O(d k^2 + k^3).

        It is -inf where a point is given twice.
        """
        indices = np.asarray(indices)
        integers = indices.shape == (self.k,) and indices.dtype.kind in "iu"
        if not integers or indices.min() < 0 or indices.max() >= self.n:
            raise ValueError(
                f"indices must be {self.k} integers in 0..{self.n - 1}, got {indices!s:.60}."
            )
        if len(set(indices.tolist())) < self.k:
            return -np.inf
        # The kernel of the set is that of these rows; their products would lose half of the digits.
        rows = np.hstack([self._X[indices], np.sqrt(self.shift) * np.eye(self.k)])
        pivots = np.abs(np.linalg.qr(rows.T, mode="r").diagonal())
        rounding = max(rows.shape) * np.finfo(np.float64).eps * row_norms(rows)
        # singular but for rounding
        if (pivots <= rounding).any():
            return -np.inf
        return float(2 * np.log(pivots).sum()) - self.log_normaliser
