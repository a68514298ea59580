"""`MeasurementSelector`: the measurements from which signals are recovered best (Borsos et al.
2024, Section 4.5)."""

from dataclasses import KW_ONLY
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from handful.blocks import by_blocks
from handful.checks import (
    check_in_memory,
    check_integer,
    check_magnitude,
    check_rows,
    validate_data,
)
from handful.dictionary.recovery import L1, Recovery
from handful.options import Count, Options, all_or_nothing, check_options
from handful.running import Bar


class MeasurementSelector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Options):
    """Choose the few linear measurements of a dictionary from which signals are recovered best.

    Solves Equation 12 of Borsos et al. (2024) by forward selection. The inner problem recovers the
    signals from their measurements, the outer loss is the mean squared error of the recovered
    signals, and the weights of the measurements are 0 or 1. In each step the measurement that the
    rule ranks first is added, so a shorter selection is the beginning of a longer one. `transform`
    measures signals, `inverse_transform` recovers them.

    Parameters
    ----------
    atoms : array of shape (m, d) or None, default=None
        The dictionary, whose rows are the measurement vectors; None: the d unit vectors.
    recovery : L1, L2, Recovery or None, default=None
        `L2`, `L1` or another `Recovery`; None: ``L1()``, for signals of which most coordinates
        are zero. For other signals, such as images, its error may exceed their energy (compare
        `errors_` with it), and `L2` is the safe choice.
    size : int, default=32
        The number of measurements, at most m.
    rule : {"linear", "quadratic"}, default="quadratic"
        "quadratic", the decrease of the error that is predicted for a weight of 1, exact for
        `L2`; or "linear", the paper's implicit gradient, for a generative model: the curvature
        that "quadratic" relies on changes there with each measurement, and on images in
        wavelets its error was twice that of random measurements.
    verbose : bool, default=False
        Whether to show a progress bar from the start, not only after 30 seconds.

    Attributes
    ----------
    indices_ : int array, shape (size,), rows of `atoms`, in the order in which they were chosen
    measurements_ : array, shape (size, d), these rows
    errors_ : float array, shape (size,), mean over the signals of ``|x - xhat|^2`` after each
        choice

    Examples
    --------
    >>> import numpy as np
    >>> from handful.dictionary import L1, MeasurementSelector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 40)) * (rng.random((200, 40)) < 0.1)     # sparse signals
    >>> atoms = rng.normal(size=(500, 40)) / np.sqrt(40)
    >>> selector = MeasurementSelector(atoms, L1(), size=20).fit(X)
    >>> selector.inverse_transform(selector.transform(X)).shape
    (200, 40)
    >>> bool(selector.errors_[-1] < 0.5 * selector.errors_[0])
    True
    """

    atoms: Any = None
    recovery: Recovery | None = None
    _: KW_ONLY
    size: Count = 32
    rule: Literal["linear", "quadratic"] = "quadratic"
    verbose: bool = False

    @all_or_nothing
    def fit(self, X, y=None):
        """Choose measurements for the signals in the rows of `X`, shape (n, d).

        Ctrl-C raises KeyboardInterrupt, and leaves the measurements chosen so far in the
        attributes.

        Raises
        ------
        ValueError
            for values that are not finite or too large, atoms of another length than the signals, a
            size outside 1..m, options out of range, and scores that are not finite
        """
        check_options(self)
        check_in_memory("MeasurementSelector", X)
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        check_magnitude(X, "X", X.dtype)
        atoms = (
            np.eye(X.shape[1], dtype=X.dtype)
            if self.atoms is None
            else _signals(X, self.atoms, "atoms")[1]
        )
        recovery = checked_recovery(self.recovery)
        check_integer("size", self.size, most=len(atoms), why="the dictionary has no more atoms")
        chosen = []
        errors = []
        free = np.ones(len(atoms), dtype=bool)
        estimates, state = recovery.recover(atoms[:0], X[:, :0], None)
        try:
            with Bar(range(self.size), desc="measurements", verbose=self.verbose) as bar:
                for _ in bar:
                    scores = recovery.scores(
                        atoms[chosen],
                        atoms,
                        X - estimates,
                        state,
                        quadratic=self.rule == "quadratic",
                    )
                    best = _best_of(scores, free)
                    A = atoms[[*chosen, best]]
                    estimates, state = recovery.recover(A, X @ A.T, state)
                    free[best] = False
                    errors.append(squared_error(X, estimates))
                    chosen.append(best)
        finally:
            # also where Ctrl-C ends the loop
            if chosen:
                self.indices_ = np.array(chosen, dtype=np.intp)
                self.measurements_ = atoms[chosen]
                self.errors_ = np.array(errors[: len(chosen)])
                self._n_features_out = len(chosen)
        return self

    @by_blocks
    def transform(self, X):
        """Measurements, shape (n, size), of the signals in the rows of `X`."""
        check_is_fitted(self, "indices_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return X @ self.measurements_.T.astype(X.dtype)

    def inverse_transform(self, X):
        """Signals, shape (n, d), recovered from their measurements `X`, shape (n, size)."""
        check_is_fitted(self, "indices_")
        measured = check_rows(X)
        if measured.shape[1] != len(self.indices_):
            raise ValueError(
                f"X must have {len(self.indices_)} measurements a row, got {measured.shape[1]}."
            )
        estimates, _ = checked_recovery(self.recovery).recover(
            self.measurements_.astype(measured.dtype), measured
        )
        return estimates


def _best_of(scores, free):
    """The free atom of the largest score, the first of equals; ValueError if that is not finite."""
    of_free = np.where(free, scores, -np.inf)
    best = int(np.argmax(of_free))
    if not np.isfinite(of_free[best]):
        raise ValueError(
            f"the scores of the atoms must be finite, but the best of those left is "
            f"{of_free[best]}: scale the signals and the atoms, or raise the recovery's penalty."
        )
    return best


def squared_error(X, estimates):
    """The outer loss of Equation 12: the mean over the rows of the squared distance of signals and
    estimates."""
    return float(np.square(X - estimates, dtype=np.float64).sum(axis=1).mean())


def recovery_error(recovery, A, X):
    """The outer loss of Equation 12 for given measurements: the mean squared error of the recovered
    signals.

    Parameters
    ----------
    recovery : `Recovery`
    A : array, shape (size, d), the measurement vectors
    X : array, shape (n, d), the signals
    """
    X, A = _signals(X, A, "A")
    return squared_error(X, checked_recovery(recovery).recover(A, X @ A.T)[0])


def checked_recovery(recovery):
    """A `Recovery` whose options are in range, `L1` for None; ValueError for anything else."""
    recovery = L1() if recovery is None else recovery
    if not isinstance(recovery, Recovery):
        raise ValueError(f"recovery must be L2(), L1() or another Recovery, got {recovery!r}.")
    check_options(recovery)
    return recovery


def _signals(X, rows, name):
    X = check_rows(X)
    rows = (
        np.zeros((0, X.shape[1])) if np.shape(rows) == (0, X.shape[1]) else check_rows(rows, name)
    )
    if rows.shape[1] != X.shape[1]:
        raise ValueError(
            f"{name} must be as long as the signals, {X.shape[1]} values, got {rows.shape[1]}."
        )
    return X, rows.astype(X.dtype, copy=False)
