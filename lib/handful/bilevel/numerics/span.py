"""The chosen rows in coordinates of their own span, an orthonormal basis that grows with them."""

import numpy as np


class RowSpan:
    """Orthonormal basis of the span of rows of length d; a row within the span of the earlier ones leaves it as it is.

    Parameters
    ----------
    d : int
    dtype : of the basis
    tol : a row counts as within the span if at most this share of its length lies outside
    """

    def __init__(self, d, dtype, tol):
        self._columns, self._rank, self._tol = np.zeros((d, 16), dtype=dtype, order="F"), 0, tol

    @property
    def Q(self):
        """The basis, shape (d, rank)."""
        return self._columns[:, : self._rank]

    def extend(self, x):
        """Take in a row, shape (d,)."""
        d, room = self._columns.shape
        if self._rank == d:
            return
        x = x.astype(self._columns.dtype)
        rest = x.copy()
        for _ in range(2):  # Gram-Schmidt, twice for orthogonality to rounding
            rest -= self.Q @ (self.Q.T @ rest)
        length = np.linalg.norm(rest)
        if not length > self._tol * np.linalg.norm(x):
            return
        if self._rank == room:
            wider = np.zeros((d, min(2 * room, d)), dtype=x.dtype, order="F")
            wider[:, :room] = self._columns
            self._columns = wider
        self._columns[:, self._rank] = rest / length
        self._rank += 1


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

    Attributes
    ----------
    A : shape (s, p)
    """

    def __init__(self, d, intercept, dtype, tol, *, in_span=True):
        self._d, self._intercept, self._dtype = d, intercept, dtype
        self._span = RowSpan(d, dtype, tol) if in_span else None
        self.A = np.zeros((0, 1 if in_span else d + 1), dtype=dtype)

    @property
    def in_span(self):
        """Whether coordinates refer to the basis of the rows' span."""
        return self._span is not None

    @property
    def Q(self):
        """The basis, shape (d, rank)."""
        return self._span.Q

    def coordinates(self, X):
        """Rows of the design for features X, shape (k, d)."""
        inside = X @ self.Q if self.in_span else X
        return np.column_stack([np.full(len(inside), self._intercept, dtype=inside.dtype), inside])

    def add(self, X, dtype):
        """Append rows with the features X, shape (k, d), to a design of a type."""
        if not self.in_span:
            self._append(self.coordinates(X).astype(dtype, copy=False))
            return
        for x in X.astype(self._dtype, copy=False):
            self._span.extend(x)
            self._append(self.coordinates(x[None]).astype(dtype, copy=False))

    def _append(self, rows):
        s, p = self.A.shape
        A = np.zeros((s + len(rows), rows.shape[1]), dtype=rows.dtype)
        A[:s, :p] = self.A
        A[s:] = rows
        self.A = A

    def leave_span(self, X, dtype):
        """Take the features X of all rows as coordinates from now on."""
        self._span = None
        self.A = self.coordinates(X).astype(dtype, copy=False)

    def padded(self, theta):
        """Parameters, shape (p', ...), with zeros for the columns that the design has got since."""
        grown = self.A.shape[1] - len(theta)
        return np.pad(theta, ((0, grown),) + ((0, 0),) * (theta.ndim - 1)) if grown else theta

    def to_data(self, theta):
        """Parameters for the features themselves, shape (d + 1, ...)."""
        return np.concatenate([theta[:1], self.Q @ theta[1:]]) if self.in_span else theta

    def from_data(self, gradient):
        """Derivatives by the parameters, from those by the parameters for the features, shape (d + 1, ...)."""
        return np.concatenate([gradient[:1], self.Q.T @ gradient[1:]]) if self.in_span else gradient

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
        return np.concatenate([solved[:1], self.Q @ (solved[1:] - scale * projected[1:]) + scale * G[1:]])
