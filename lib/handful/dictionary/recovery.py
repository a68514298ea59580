"""Recovery of signals from linear measurements, and what one measurement more would gain (Section 4.5).

With measurements A (size, d) of a signal x, recovery solves the inner problem of eq. (12),
``xhat = argmin_y |A (x - y)|^2 + penalty R(y)``. With its error ``e = x - xhat`` and half its Hessian B in y, a further
atom a of small weight w moves xhat by ``w (a^T e) B^-1 a``, and the outer loss ``|e|^2`` falls by
``2 w (a^T e)(a^T B^-1 e)``: the implicit gradient. A weight of 1 moves xhat by ``(a^T e) B^-1 a / (1 + a^T B^-1 a)`` if
the curvature stays (as it does for L2), and the loss then falls by a quadratic function of that.
"""

from abc import abstractmethod

import numpy as np
from numba import njit, prange
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator

from handful.checks import check_number


class Recovery(BaseEstimator):
    """Base class: recovers signals from measurements, and scores atoms that could be measured as well.

    A recovery of one's own implements `recover` and `scores`.
    """

    @abstractmethod
    def recover(self, A, measured, state=None):
        """Estimates of signals from their measurements.

        Parameters
        ----------
        A : array, shape (size, d); size may be 0
        measured : array, shape (n, size), ``X @ A.T`` for signals X
        state : what an earlier call gave for some rows of `A`, to begin from, or None

        Returns
        -------
        estimates : array, shape (n, d)
        state : whatever helps the next call
        """

    @abstractmethod
    def scores(self, A, atoms, errors, state, *, quadratic):
        """What each atom would take off the squared errors, to first order or for a weight of 1.

        Parameters
        ----------
        A, state : of the last `recover`
        atoms : array, shape (m, d)
        errors : array, shape (n, d), signals minus estimates
        quadratic : False gives the (negative) implicit gradient, True the predicted decrease for a weight of 1

        Returns
        -------
        array, shape (m,), summed over the signals
        """

    def check(self):
        """ValueError unless `penalty` is a positive finite number."""
        check_number(
            "penalty",
            self.penalty,
            above=0,
            of=self,
            why="fewer measurements than dimensions leave a signal undetermined",
        )


class L2(Recovery):
    """The least squared norm: ``R(y) = |y|^2``, in closed form; the quadratic score is exact.

    Parameters
    ----------
    penalty : lambda of eq. (12). The paper: .01
    """

    def __init__(self, penalty=0.01):
        self.penalty = penalty

    def recover(self, A, measured, state=None):
        """Estimates, shape (n, d), and None; see `Recovery`."""
        if not len(A):
            return np.zeros((len(measured), A.shape[1]), dtype=A.dtype), None
        return cho_solve(_ridge(A, self.penalty), measured.T).T @ A, None

    def scores(self, A, atoms, errors, state, *, quadratic):
        """Scores, shape (m,); see `Recovery`."""
        return _shared_scores(A, atoms, errors, self.penalty, quadratic)


class L1(Recovery):
    """The least absolute norm (basis pursuit): ``R(y) = |y|_1``, by coordinate descent.

    The second derivative of the penalty is 0, except at 0, where it has none. As in the paper an element of the
    sub-differential does: 0 everywhere, for which `damping` stands in. With an infinite one at 0 no coordinate that is
    0 would answer to a measurement, and nothing could be selected from a start without any.

    Parameters
    ----------
    penalty : lambda of eq. (12). The paper: .01
    damping : added to the curvature ``A^T A`` in the scores; `penalty` if None
    tol : a signal is done when a sweep finds no optimality condition missed by more than `tol` times ``penalty / 2``
    max_sweeps : int, sweeps over the coordinates of a signal
    """

    def __init__(self, penalty=0.01, *, damping=None, tol=1e-3, max_sweeps=5000):
        self.penalty = penalty
        self.damping = damping
        self.tol = tol
        self.max_sweeps = max_sweeps

    def check(self):
        """ValueError if a hyper-parameter is out of range."""
        super().check()
        check_number("tol", self.tol, above=0, of=self, why="coordinate descent ends when it is reached")
        if self.damping is not None:
            check_number("damping", self.damping, above=0, of=self, why="the curvature of few measurements is singular")

    def recover(self, A, measured, state=None):
        """Estimates, shape (n, d), and None; see `Recovery`."""
        if not len(A):
            return np.zeros((len(measured), A.shape[1]), dtype=A.dtype), None
        number = A.dtype.type
        columns, measured = np.ascontiguousarray(A.T), np.ascontiguousarray(measured, dtype=A.dtype)
        return _lasso(columns, measured, number(self.penalty / 2), number(self.tol), self.max_sweeps), None

    def scores(self, A, atoms, errors, state, *, quadratic):
        """Scores, shape (m,); see `Recovery`."""
        return _shared_scores(A, atoms, errors, self.penalty if self.damping is None else self.damping, quadratic)


def _ridge(A, ridge):
    """Cholesky factor of A A^T + ridge, the smaller of two systems."""
    inner = A @ A.T
    inner[np.diag_indices(len(A))] += A.dtype.type(ridge)
    return cho_factor(inner)


def _resolvent(A, rows, ridge):
    """(A^T A + ridge)^-1 of each row, by Woodbury's identity."""
    if not len(A):
        return rows / rows.dtype.type(ridge)
    return (rows - cho_solve(_ridge(A, ridge), A @ rows.T).T @ A) / rows.dtype.type(ridge)


def _shared_scores(A, atoms, errors, ridge, quadratic):
    """Scores where all signals share the curvature ``B = A^T A + ridge``."""
    moment = errors.T @ errors
    towards = _resolvent(A, atoms, ridge)  # rows B^-1 a
    seen = atoms @ moment
    slope = 2 * np.einsum("jd,jd->j", seen, towards)
    if not quadratic:
        return slope
    leverage = 1 + np.einsum("jd,jd->j", atoms, towards)
    square = np.einsum("jd,jd->j", seen, atoms) * np.einsum("jd,jd->j", towards, towards)
    return slope / leverage - square / leverage**2


@njit(parallel=True, cache=True)
def _lasso(columns, measured, threshold, tol, max_sweeps):
    """Minimise ``|columns^T y - measured|^2 / 2 + threshold |y|_1`` for each row of `measured`.

    Where there are fewer measurements than coordinates, the squares leave directions flat and a descent at a small
    threshold crawls: it comes down to its threshold by quarters, through solutions with few coordinates.
    """
    n, d = len(measured), len(columns)
    estimates = np.zeros((n, d), dtype=columns.dtype)
    quarter = columns.dtype.type(0.25)
    for i in prange(n):
        missing = measured[i].copy()
        stage = quarter * np.abs(columns @ missing).max()
        while stage > 2 * threshold:
            _descend(columns, missing, estimates[i], stage, max(tol, columns.dtype.type(0.01)), max_sweeps)
            stage *= quarter
        _descend(columns, missing, estimates[i], threshold, tol, max_sweeps)
    return estimates


@njit(cache=True, fastmath={"reassoc", "contract"})
def _descend(columns, missing, y, threshold, tol, max_sweeps):
    """Coordinate descent of one signal, in place; `missing` is ``measured - columns^T y``.

    Sweeps over the coordinates that are not 0 until they rest, then one over all of them; done when that rests too.
    """
    everything = True
    zero = columns.dtype.type(0)
    square = np.empty_like(y)
    for j in range(len(y)):
        square[j] = np.dot(columns[j], columns[j])
    for sweep in range(max_sweeps):
        everything = everything or sweep % 8 == 0
        missed = zero  # the largest violation of the optimality conditions that the sweep came across
        for j in range(len(y)):
            if square[j] <= 0 or not (everything or y[j] != 0):
                continue
            old = y[j]
            pull = square[j] * old
            for k in range(len(missing)):
                pull += columns[j, k] * missing[k]
            new = max(abs(pull) - threshold, zero) / square[j]
            new = new if pull > 0 else -new
            if new != old:
                for k in range(len(missing)):
                    missing[k] -= columns[j, k] * (new - old)
                y[j] = new
                missed = max(missed, abs(new - old) * square[j])
        rests = missed <= tol * threshold
        if rests and everything:
            break
        everything = rests
