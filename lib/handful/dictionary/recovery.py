"""Recovery of signals from linear measurements, and what a further measurement would gain (Section
4.5).

From measurements A, shape (size, d), of a signal x, recovery solves the inner problem of Equation
12, ``xhat = argmin_y |A (x - y)|^2 + lambda R(y)``. Let ``e = x - xhat`` be its error, and B half
the Hessian in y. A further atom a of small weight w moves xhat by ``w (a^T e) B^-1 a``, and the
outer loss ``|e|^2`` falls by ``2 w (a^T e)(a^T B^-1 e)``: the implicit gradient. With a weight of 1
xhat moves by ``(a^T e) B^-1 a / (1 + a^T B^-1 a)``, if R has the same curvature there (as for L2),
and the loss falls by a quadratic function of that move.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import Annotated

import numpy as np
from numba import njit, prange
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

from handful.checks import check_array, check_in_memory
from handful.options import Count, Options, number
from handful.running import warn

UNDETERMINED = "without a penalty fewer measurements than dimensions leave a signal undetermined"


class Recovery(Options):
    """Base class: recovers signals from measurements, and says what each further atom would gain.

    A subclass implements `recover` and `scores`.
    """

    @abstractmethod
    def recover(self, A, measured, state=None):
        """Estimates of signals from their measurements.

        Parameters
        ----------
        A : array, shape (size, d), the measurement vectors; size may be 0
        measured : array, shape (n, size), ``X @ A.T`` for signals X
        state : the state that an earlier call returned for fewer rows of `A`, as a start, or None

        Returns
        -------
        estimates : array, shape (n, d)
        state : anything that helps a later call, or None
        """

    @abstractmethod
    def scores(self, A, atoms, errors, state, *, quadratic):
        """By how much each atom would lower the squared errors.

        Parameters
        ----------
        A, state : of the last `recover`
        atoms : array, shape (m, d)
        errors : array, shape (n, d), signals minus estimates
        quadratic : True for the predicted decrease at a weight of 1, False for minus the implicit
            gradient

        Returns
        -------
        array, shape (m,), summed over the signals
        """


class L2(Recovery):
    """Recovery with a small squared norm, ``R(y) = |y|^2``, in closed form; the quadratic rule is
    exact.

    Parameters
    ----------
    l2 : float, default=0.01
        Lambda of Equation 12; the paper: 0.01.
    """

    l2: Annotated[float, number(least=1e-15, why=UNDETERMINED)] = 0.01

    def recover(self, A, measured, state=None):
        """Estimates, shape (n, d), and None; see `Recovery`."""
        A, measured = _checked(A, measured)
        if not len(A):
            return np.zeros((len(measured), A.shape[1]), dtype=A.dtype), None
        coefficients = cho_solve(_gram_factor(A, self.l2), measured.T).T
        return coefficients.astype(A.dtype, copy=False) @ A, None

    def scores(self, A, atoms, errors, state, *, quadratic):
        """Scores, shape (m,); see `Recovery`."""
        return _shared_scores(A, atoms, errors, self.l2, quadratic)


class L1(Recovery):
    """Recovery with a small absolute norm (basis pursuit), ``R(y) = |y|_1``, by coordinate descent.

    R has the second derivative 0, but none at 0. As in the paper the scores take 0 everywhere; the
    curvature ``A^T A`` of few measurements is singular then, so `damping` is added to it. An
    infinite second derivative at 0 would hold every coordinate that is 0 where it is, and from no
    measurements at all none could be selected.

    Parameters
    ----------
    l1 : float, default=0.01
        Lambda of Equation 12; the paper: 0.01.
    damping : float or None, default=None
        Added to the curvature ``A^T A`` in the scores; None: `l1`.
    tol : float, default=0.001
        A signal is done after a sweep in which no coordinate moved from a point where it missed its
        optimality condition by more than `tol` times ``l1 / 2``; where atoms are much alike, the
        last moves of others leave it missed by several times as much.
    max_iter : int, default=5000
        Most sweeps over the coordinates of a signal; a ConvergenceWarning where they do not reach
        `tol`.
    """

    l1: Annotated[float, number(least=1e-15, why=UNDETERMINED)] = 0.01
    _: KW_ONLY
    damping: (
        Annotated[float, number(least=1e-15, why="the curvature of few measurements is singular")]
        | None
    ) = None
    tol: Annotated[float, number(above=0, why="coordinate descent ends when it is reached")] = 1e-3
    max_iter: Count = 5000

    def recover(self, A, measured, state=None):
        """Estimates, shape (n, d), and None; see `Recovery`."""
        A, measured = _checked(A, measured)
        if not len(A):
            return np.zeros((len(measured), A.shape[1]), dtype=A.dtype), None
        number = A.dtype.type
        columns = np.ascontiguousarray(A.T)
        measured = np.ascontiguousarray(measured)
        estimates, is_done = _lasso(
            columns, measured, number(self.l1 / 2), number(self.tol), self.max_iter
        )
        if not is_done.all():
            warn(
                f"some signals are not recovered to tol={self.tol:g} in max_iter={self.max_iter} "
                "sweeps: raise max_iter, tol or l1.",
                ConvergenceWarning,
            )
        return estimates, None

    def scores(self, A, atoms, errors, state, *, quadratic):
        """Scores, shape (m,); see `Recovery`."""
        damping = self.l1 if self.damping is None else self.damping
        return _shared_scores(A, atoms, errors, damping, quadratic)


def _checked(A, measured):
    """`A` and `measured` as arrays of floats of one kind; ValueError where they do not fit."""
    check_in_memory("recover", A, measured)
    A = check_array(A, dtype=(np.float64, np.float32), ensure_min_samples=0, input_name="A")
    measured = check_array(measured, dtype=A.dtype, ensure_min_features=0, input_name="measured")
    if measured.shape[1] != len(A):
        raise ValueError(
            f"measured must have a column for each of the {len(A)} rows of A, got shape "
            f"{measured.shape}."
        )
    return A, measured


def _gram_factor(A, l2):
    """Cholesky factor of A A^T + l2, which is smaller than A^T A + l2, in double precision: single
    precision loses a small penalty beside more measurements than coordinates."""
    A = A.astype(np.float64, copy=False)
    inner = A @ A.T
    inner[np.diag_indices(len(A))] += l2
    try:
        return cho_factor(inner)
    except np.linalg.LinAlgError:
        largest = np.diag(inner).max()
        raise ValueError(
            f"{l2:.3g} is lost in rounding beside measurement vectors of squared norm "
            f"{largest:.3g}: scale them, or raise `l2`, or `l1` and `damping`."
        ) from None


def _resolvent(A, rows, l2):
    """(A^T A + l2)^-1 of each row, by Woodbury's identity."""
    if not len(A):
        return rows / l2
    seen = cho_solve(_gram_factor(A, l2), A @ rows.T).T
    return (rows - seen @ A) / l2


def _shared_scores(A, atoms, errors, l2, quadratic):
    """Scores where all signals share the curvature ``B = A^T A + l2``, in double precision: a
    product of six factors over- or underflows in single precision where none of them is large or
    small."""
    A, atoms, errors = (rows.astype(np.float64, copy=False) for rows in (A, atoms, errors))
    moment = errors.T @ errors
    # rows B^-1 a
    towards = _resolvent(A, atoms, l2)
    seen = atoms @ moment
    slope = 2 * np.einsum("jd,jd->j", seen, towards)
    if not quadratic:
        return slope
    leverage = 1 + np.einsum("jd,jd->j", atoms, towards)
    square = np.einsum("jd,jd->j", seen, atoms) * np.einsum("jd,jd->j", towards, towards)
    return slope / leverage - square / leverage**2


@njit(parallel=True, cache=True)
def _lasso(columns, measured, threshold, tol, max_iter):
    """Minimise ``|columns^T y - measured|^2 / 2 + threshold |y|_1`` for each row of `measured`.

    With fewer measurements than coordinates the squares are flat in some directions, and descent at
    a small threshold is slow. So the threshold comes down by factors of 4, through solutions in
    which few coordinates are not 0.
    """
    n = len(measured)
    d = len(columns)
    estimates = np.zeros((n, d), dtype=columns.dtype)
    is_done = np.zeros(n, dtype=np.bool_)
    quarter = columns.dtype.type(0.25)
    for i in prange(n):
        missing = measured[i].copy()
        stage = quarter * np.abs(columns @ missing).max()
        while stage > 2 * threshold:
            _descend(
                columns, missing, estimates[i], stage, max(tol, columns.dtype.type(0.01)), max_iter
            )
            stage *= quarter
        is_done[i] = _descend(columns, missing, estimates[i], threshold, tol, max_iter)
    return estimates, is_done


@njit(cache=True)
def _shrunk(pull, threshold, zero):
    # Nearer to 0 by the threshold, and not beyond.
    if pull > threshold:
        return pull - threshold
    if pull < -threshold:
        return pull + threshold
    return zero


@njit(cache=True, fastmath={"reassoc", "contract"})
def _descend(columns, missing, y, threshold, tol, max_iter):
    """Coordinate descent of one signal, in place; `missing` is ``measured - columns^T y``.

    Sweeps over the coordinates that are not 0 until they stop moving, then over all of them; done
    when none moves, which it returns.
    """
    everything = True
    zero = columns.dtype.type(0)
    square = np.empty_like(y)
    for j in range(len(y)):
        square[j] = np.dot(columns[j], columns[j])
    for sweep in range(max_iter):
        everything = everything or sweep % 8 == 0
        # the largest violation of the optimality conditions that the sweep came across
        missed = zero
        for j in range(len(y)):
            if square[j] <= 0 or not (everything or y[j] != 0):
                continue
            old = y[j]
            pull = square[j] * old
            for k in range(len(missing)):
                pull += columns[j, k] * missing[k]
            new = _shrunk(pull, threshold, zero) / square[j]
            if new != old:
                for k in range(len(missing)):
                    missing[k] -= columns[j, k] * (new - old)
                y[j] = new
                missed = max(missed, abs(new - old) * square[j])
        rests = missed <= tol * threshold
        if rests and everything:
            return True
        everything = rests
    return False
