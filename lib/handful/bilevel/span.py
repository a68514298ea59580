"""Orthonormal bases of the span of chosen rows, grown row by row."""

import numpy as np


def new_direction(Q, x, tol):
    """The part of a vector outside a space, at length one; None if that is at most the share `tol` of the vector.

    Parameters
    ----------
    Q : array, shape (d, r), orthonormal columns (zero columns do no harm)
    x : array, shape (d,)
    """
    rest = x.copy()
    for _ in range(2):  # Gram-Schmidt, twice for orthogonality to rounding
        rest -= Q @ (Q.T @ rest)
    norm = np.linalg.norm(rest)
    return rest / norm if norm > tol * np.linalg.norm(x) else None


class RowSpan:
    """The span of some rows of length d; rows in the span of the earlier ones add no direction.

    Parameters
    ----------
    d : int
    dtype : of the basis
    tol : share of a row that is no new direction
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
        unit = None if self._rank == d else new_direction(self.Q, x.astype(self._columns.dtype), self._tol)
        if unit is None:
            return
        if self._rank == room:
            wider = np.zeros((d, min(2 * room, d)), dtype=unit.dtype, order="F")
            wider[:, :room] = self._columns
            self._columns = wider
        self._columns[:, self._rank] = unit
        self._rank += 1
