"""Kernels on rows: a base class that checks its input, and the radial one."""

from abc import abstractmethod

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances

from handful.checks import check_rows
from handful.options import Options, Positive, check_options
from handful.tables import readable

DTYPES = [np.float64, np.float32]
# Of the exponent of a kernel; beyond it distances are summed over differences, which is slow.
MOST_ROUNDING = 1e-12


def flattened(X):
    """`X` with all axes but the first joined, and small integers (pixels) as float32; nothing else
    is checked."""
    X = readable(X)
    # a data frame, a list
    if hasattr(X, "iloc") or not hasattr(X, "dtype"):
        return X
    if X.ndim > 2 and len(X):
        X = X.reshape(len(X), -1)
    are_small_integers = X.dtype.kind in "iub" and X.dtype.itemsize < 4
    return X.astype(np.float32) if are_small_integers else X


def as_rows(X, name="X"):
    """`X` as `check_rows` gives it: float32 and float64 stay, small integers (pixels) become
    float32.

    Arrays with more axes, such as images of shape (n, channels, height, width), have all but the
    first joined.

    Raises
    ------
    ValueError
        for values that are not finite or so large that products of four overflow, and for empty
        input.
    """
    return check_rows(flattened(X), name)


class Kernel(Options):
    """Base class of kernels: ``kernel(X, Y)`` is the matrix of all pairs of rows.

    A subclass implements `_matrix(X, Y)`, of checked float arrays with the same columns and dtype,
    and, where that is cheaper than the matrix of one row at a time, `_diagonal(X)`. Its
    hyper-parameters are fields (`handful.options.Options`).
    """

    def __call__(self, X, Y=None):
        """The kernel of each row of `X` with each row of `Y`.

        Parameters
        ----------
        X : shape (n, d), or (n, ...) with the axes of an image
        Y : shape (m, d); X itself if left out

        Returns
        -------
        array, shape (n, m), float32 if both are float32 (or small integers), else float64

        Raises
        ------
        ValueError
            for values that are not finite or overflow, rows of different length, and
            hyper-parameters out of range.
        """
        check_options(self)
        X = as_rows(X)
        Y = X if Y is None else as_rows(Y, "Y")
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X and Y must have rows of the same length, got {X.shape[1]} and {Y.shape[1]}."
            )
        dtype = np.result_type(X, Y)
        # which some kernels make use of
        is_same = X is Y
        X = X.astype(dtype, copy=False)
        Y = X if is_same else Y.astype(dtype, copy=False)
        return self._finite(self._matrix, X, Y)

    def diag(self, X):
        """The kernel of each row of `X` with itself, shape (n,)."""
        check_options(self)
        return self._finite(self._diagonal, as_rows(X))

    def _finite(self, function, *rows):
        with np.errstate(over="ignore", invalid="ignore"):
            values = function(*rows)
        if not np.isfinite(values).all():
            raise ValueError(
                f"{self} overflows {values.dtype} on X with entries up to "
                f"{np.abs(rows[0]).max():.3g}: scale the data, "
                "or choose other parameters of the kernel."
            )
        return values

    @abstractmethod
    def _matrix(self, X, Y):
        """Shape (n, m)."""

    def _diagonal(self, X):
        values = np.empty(len(X), dtype=X.dtype)
        for i in range(len(X)):
            row = X[i : i + 1]
            values[i] = self._matrix(row, row)[0, 0]
        return values


class RBF(Kernel):
    """``exp(-gamma |x - y|^2)``.

    Parameters
    ----------
    gamma : float or None, default=None
        A positive number; None: 1 / (number of columns). The paper, on normalised MNIST pixels:
        1e-3 for logistic regression (Section 5.2.2), 5e-4 for continual learning (Table 10).

    Examples
    --------
    >>> from handful.proxies import RBF
    >>> RBF(0.5)([[0.0]], [[0.0], [2.0]]).round(3)
    array([[1.   , 0.135]])
    """

    gamma: Positive | None = None

    def _matrix(self, X, Y):
        # far from the origin norms and products would cancel
        center = Y.mean(axis=0, dtype=np.float64)
        left = X - center
        right = left if Y is X else Y - center
        gamma = 1 / X.shape[1] if self.gamma is None else self.gamma
        squares = [np.square(rows).sum(axis=1) for rows in (left, right)]
        largest = np.concatenate(squares).max()
        rounding = gamma * largest * np.finfo(np.float64).eps
        if rounding > MOST_ROUNDING:
            # and so they would where a few rows lie far away
            K = cdist(X, Y, "sqeuclidean")
        else:
            K = euclidean_distances(left, right, squared=True)
        K = K.astype(X.dtype, copy=False)
        K *= -gamma
        return np.exp(K, out=K)

    def _diagonal(self, X):
        return np.ones(len(X), dtype=X.dtype)
