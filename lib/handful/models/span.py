"""Coordinates of rows: the features themselves, or an orthonormal basis of the span of the chosen rows."""

import numpy as np
from scipy.sparse import issparse

IN_SPAN = 1e-7  # a row is within the span of others if at most this share of its length lies outside


def dense(X):
    """An array of an array or a sparse matrix."""
    return X.toarray() if issparse(X) else X


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
    """An orthonormal basis Q of the span of rows, which grows with them: ``Q = B' T'`` for rows B, never formed.

    Parameters
    ----------
    X : array or CSR matrix, shape (0, d), in float64: rows come in its form
    """

    def __init__(self, X):
        self._rows, self.T = X, np.zeros((0, 0))

    @property
    def rank(self):
        """Dimension of the span."""
        return len(self.T)

    def extend(self, x):
        """Take in a row, shape (1, d); one within the span of the earlier rows leaves it as it is."""
        rest = dense(x)[0]
        bar, image = IN_SPAN * np.linalg.norm(rest), np.zeros(self.rank)
        for _ in range(2):  # Gram-Schmidt, twice for orthogonality to rounding
            step = self.project(rest)
            image, rest = image + step, rest - self.lift(step)
        length, r = np.linalg.norm(rest), self.rank
        if r < x.shape[1] and length > bar:
            T = np.zeros((r + 1, r + 1))
            T[:r, :r], T[r, :r], T[r, r] = self.T, -image @ self.T / length, 1.0 / length
            stack = _stack_sparse if issparse(x) else np.vstack
            self.T, self._rows = T, stack([self._rows, x])

    def coordinates(self, X):
        """As `Features.coordinates`."""
        return dense(X @ self._rows.T.astype(X.dtype)) @ self.T.T.astype(X.dtype)

    def project(self, G):
        """As `Features.project`."""
        return self.T @ (self._rows @ G)

    def lift(self, Z):
        """As `Features.lift`."""
        return self._rows.T @ (self.T.T @ Z)


def _stack_sparse(rows):
    from scipy.sparse import vstack

    return vstack(rows, format="csr")
