"""Coordinates in which a linear model is trained: the features, or a basis of the span of the
chosen rows."""

import numpy as np

from handful.tables import dense, join_rows

# a row is within the span of others if at most this share of its length lies outside
IN_SPAN = 1e-7


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
            self.T = T
            self._rows = join_rows([self._rows, x])

    def coordinates(self, X):
        """As `Features.coordinates`."""
        rows = self._rows.T.astype(X.dtype)
        basis = self.T.T.astype(X.dtype)
        products = dense(X @ rows)
        return products @ basis

    def project(self, G):
        """As `Features.project`."""
        return self.T @ (self._rows @ G)

    def lift(self, Z):
        """As `Features.lift`."""
        return self._rows.T @ (self.T.T @ Z)
