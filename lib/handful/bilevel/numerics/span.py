"""The chosen rows in coordinates of their own span, an orthonormal basis that grows with them."""

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular


class RowSpan:
    """Orthonormal basis of the span of rows of length d; a row within the span of the earlier ones leaves it as it is.

    Parameters
    ----------
    d : int
    dtype : of the basis
    tol : a row counts as within the span if at most this share of its length lies outside
    """

    def __init__(self, d, dtype, tol):
        self._columns, self.rank, self._tol = np.zeros((d, 16), dtype=dtype, order="F"), 0, tol

    @property
    def Q(self):
        """The basis, shape (d, rank)."""
        return self._columns[:, : self.rank]

    def extend(self, x):
        """Take in a row, shape (d,)."""
        d, room = self._columns.shape
        if self.rank == d:
            return
        x = x.astype(self._columns.dtype)
        rest = x.copy()
        for _ in range(2):  # Gram-Schmidt, twice for orthogonality to rounding
            rest -= self.Q @ (self.Q.T @ rest)
        length = np.linalg.norm(rest)
        if not length > self._tol * np.linalg.norm(x):
            return
        if self.rank == room:
            wider = np.zeros((d, min(2 * room, d)), dtype=x.dtype, order="F")
            wider[:, :room] = self._columns
            self._columns = wider
        self._columns[:, self.rank] = rest / length
        self.rank += 1

    def inside(self, X, known=None):
        """Coordinates of rows X, shape (k, rank), or those from the one on that follows `known`, shape (k, r)."""
        return X @ (self.Q if known is None else self.Q[:, known.shape[1] :])

    def project(self, G):
        """``Q' G`` for G of shape (d, ...)."""
        return self.Q.T @ G

    def lift(self, Z):
        """``Q Z`` for Z of shape (rank, ...)."""
        return self.Q @ Z


class SparseSpan:
    """As `RowSpan` for rows of a CSR matrix, in the memory of the rows: the basis is ``Q = rows' L^-T``, ``L L'`` the
    Gram matrix of the rows, and is never formed.

    Parameters
    ----------
    d : int
    """

    tol = 1e-6  # as in `RowSpan`; squares of what lies outside are differences, so fewer digits are left than there

    def __init__(self, d):
        self._rows, self._factor = sparse.csr_matrix((0, d)), np.zeros((0, 0))

    @property
    def rank(self):
        """Dimension of the span."""
        return len(self._factor)

    def extend(self, x):
        """Take in a row, a CSR matrix of shape (1, d)."""
        image, square = self.inside(x)[0], float(x.data @ x.data)
        rest = square - image @ image
        if not rest > self.tol**2 * square:
            return
        factor = np.zeros((self.rank + 1, self.rank + 1))
        factor[:-1, :-1], factor[-1, :-1], factor[-1, -1] = self._factor, image, np.sqrt(rest)
        self._rows, self._factor = sparse.vstack([self._rows, x], format="csr"), factor

    def inside(self, X, known=None):
        """As `RowSpan.inside`."""
        first = 0 if known is None else known.shape[1]
        rows = self._rows[first:] if first else self._rows
        if X.shape[0] == 1:  # the product of two sparse matrices takes longest to set up
            products = (rows @ X.toarray()[0])[None].astype(np.float64)
        else:
            products = (X @ rows.T).toarray().astype(np.float64)
        if first:
            products -= known @ self._factor[first:, :first].T
        return self._solve(products.T, first).T

    def project(self, G):
        """As `RowSpan.project`."""
        return self._solve(self._rows @ G)

    def lift(self, Z):
        """As `RowSpan.lift`."""
        return self._rows.T @ (self._solve(Z, trans="T") if self.rank else Z)

    def _solve(self, B, first=0, trans="N"):
        factor = self._factor[first:, first:]
        return solve_triangular(factor, B, lower=True, trans=trans, check_finite=False) if len(factor) else B


class Design:
    """Design matrix of the chosen rows of a linear model: a column for the intercept, then their coordinates.

    The inner solution lies in the span of the chosen rows. While they are fewer than the features, coordinates refer to
    a basis of that span, so that the unknowns are as few as the rows; otherwise they are the features themselves.
    Parameters theta have one row for each column of the design: the intercept's comes first.

    Parameters
    ----------
    d : int, features
    intercept : entry of the intercept's column: 1, or 0 for a model without
    dtype : of the basis
    tol : see `RowSpan`
    in_span : whether to begin with the span
    sparse : whether rows come as CSR matrices

    Attributes
    ----------
    A : shape (s, p)
    """

    def __init__(self, d, intercept, dtype, tol, *, in_span=True, sparse=False):
        self._intercept, self._dtype = intercept, dtype
        self.span = None
        if in_span:
            self.span = SparseSpan(d) if sparse else RowSpan(d, dtype, tol)
        self.A = np.zeros((0, 1 if in_span else d + 1), dtype=dtype)

    @property
    def in_span(self):
        """Whether coordinates refer to the basis of the rows' span."""
        return self.span is not None

    @property
    def Q(self):
        """The basis, shape (d, rank)."""
        return self.span.Q

    def coordinates(self, X):
        """Rows of the design for features X, shape (k, d)."""
        inside = self.span.inside(X) if self.in_span else X.toarray() if sparse.issparse(X) else X
        rows = np.empty((inside.shape[0], inside.shape[1] + 1), dtype=inside.dtype)
        rows[:, 0], rows[:, 1:] = self._intercept, inside
        return rows

    def add(self, X, dtype):
        """Append rows with the features X, shape (k, d), to a design of a type."""
        if not self.in_span:
            self._append(self.coordinates(X).astype(dtype, copy=False))
            return
        X = X.astype(self._dtype, copy=False)
        for i in range(X.shape[0]):
            self.span.extend(X[i])
            self._append(self.coordinates(X[i : i + 1]).astype(dtype, copy=False))

    def _append(self, rows):
        s, p = self.A.shape
        A = np.zeros((s + len(rows), rows.shape[1]), dtype=rows.dtype)
        A[:s, :p] = self.A
        A[s:] = rows
        self.A = A

    def leave_span(self, X, dtype):
        """Take the features X of all rows as coordinates from now on."""
        self.span = None
        self.A = self.coordinates(X).astype(dtype, copy=False)

    def padded(self, theta):
        """Parameters, shape (p', ...), with zeros for the columns that the design has got since."""
        if len(theta) == self.A.shape[1]:
            return theta
        padded = np.zeros((self.A.shape[1], *theta.shape[1:]), dtype=theta.dtype)
        padded[: len(theta)] = theta
        return padded

    def to_data(self, theta):
        """Parameters for the features themselves, shape (d + 1, ...)."""
        return np.concatenate([theta[:1], self.span.lift(theta[1:])]) if self.in_span else theta

    def from_data(self, gradient):
        """Derivatives by the parameters, from those by the parameters for the features, shape (d + 1, ...)."""
        return np.concatenate([gradient[:1], self.span.project(gradient[1:])]) if self.in_span else gradient

    def with_outside(self, solved, projected, G, curvature):
        """The solution V of ``H V = G`` for the features, where H outside the span is `curvature` times the identity.

        Parameters
        ----------
        solved : the solution within the span, of ``H V = projected``
        projected : ``from_data(G)``
        """
        if not self.in_span:
            return solved
        scale = 1.0 / curvature
        return np.concatenate([solved[:1], self.span.lift(solved[1:] - scale * projected[1:]) + scale * G[1:]])
