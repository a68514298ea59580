"""Selecting the measurements from which a collection of signals is best recovered (Section 4.5)."""

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm.auto import tqdm

from handful.checks import check_integer, check_magnitude
from handful.dictionary.recovery import L1, Recovery


class MeasurementSelector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Choose the few linear measurements, out of a dictionary, that recover signals best.

    Solves eq. (12) of Borsos et al. (2024) by forward selection: the outer problem is the mean squared error of the
    recovered signals, the inner one their recovery, the weights of the measurements are 0 or 1. Measurements are added
    one by one, the one with the best score at each step; a shorter selection is the beginning of a longer one.
    `transform` measures signals, `inverse_transform` recovers them.

    Parameters
    ----------
    atoms : array, shape (m, d), the dictionary: one measurement vector a row. None takes the d unit vectors.
    recovery : `L2`, `L1`, `Generative` or a `Recovery` of one's own; None is ``L1()``, for signals that are sparse in
        their own coordinates: of others, such as images, it may recover less than nothing (compare `errors_` with the
        energy of the signals), and `L2` is the safe choice
    size : int, at most m, the number of measurements
    score : "quadratic" (the error's predicted decrease for a weight of 1; exact for L2) or "linear" (the paper's: the
        implicit gradient)
    verbose : show a progress bar

    Attributes
    ----------
    indices_ : int array, shape (size,), rows of `atoms`, in the order in which they were chosen
    measurements_ : array, shape (size, d), these rows
    errors_ : float array, shape (size,), mean over the signals of ``|x - xhat|^2`` after each choice

    Examples
    --------
    >>> import numpy as np
    >>> from handful.dictionary import L1, MeasurementSelector, gaussian_atoms, recovery_error
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 40)) * (rng.random((200, 40)) < 0.1)     # sparse signals
    >>> selector = MeasurementSelector(gaussian_atoms(500, 40, rng=rng), L1(), size=20).fit(X)
    >>> selector.inverse_transform(selector.transform(X)).shape
    (200, 40)
    >>> bool(selector.errors_[-1] < 0.5 * recovery_error(L1(), gaussian_atoms(20, 40, rng=rng), X))
    True
    """

    def __init__(self, atoms=None, recovery=None, *, size=32, score="quadratic", verbose=False):
        self.atoms = atoms
        self.recovery = recovery
        self.size = size
        self.score = score
        self.verbose = verbose

    def fit(self, X, y=None):
        """Choose measurements for the signals in the rows of `X`, shape (n, d).

        Interrupted (Ctrl-C), it keeps the measurements chosen so far.

        Raises
        ------
        ValueError
            for values that are not finite or too large, atoms of another length than the signals, a size outside
            1..m, and hyper-parameters out of range
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        check_magnitude(X, "X", X.dtype)
        atoms, recovery = self._dictionary(X), self._recovery()
        check_integer("size", self.size, most=len(atoms), why="the dictionary has no more atoms")
        if self.score not in ("linear", "quadratic"):
            raise ValueError(f'score must be "linear" or "quadratic", got score={self.score!r}.')
        chosen, errors, state = [], [], None
        free = np.ones(len(atoms), dtype=bool)
        estimates, state = recovery.recover(atoms[:0], X[:, :0], None)
        try:
            for _ in tqdm(range(self.size), desc="measurements", disable=not self.verbose):
                scores = recovery.scores(
                    atoms[chosen], atoms, X - estimates, state, quadratic=self.score == "quadratic"
                )
                best = int(np.argmax(np.where(free, scores, -np.inf)))  # the first of equals
                A = atoms[[*chosen, best]]
                estimates, state = recovery.recover(A, X @ A.T, state)
                chosen.append(best)
                free[best] = False
                errors.append(squared_error(X, estimates))
        except KeyboardInterrupt:
            if not chosen:
                raise
        self.indices_ = np.array(chosen, dtype=np.intp)
        self.measurements_ = atoms[chosen]
        self.errors_ = np.array(errors)
        self._n_features_out = len(chosen)
        return self

    def transform(self, X):
        """Measurements of the rows of `X`, shape (n, size)."""
        check_is_fitted(self, "indices_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return X @ self.measurements_.T.astype(X.dtype)

    def inverse_transform(self, X):
        """Signals recovered from their measurements `X`, shape (n, size): an array of shape (n, d)."""
        check_is_fitted(self, "indices_")
        measured = check_array(X, dtype=[np.float64, np.float32])
        if measured.shape[1] != len(self.indices_):
            raise ValueError(f"X must have {len(self.indices_)} measurements a row, got {measured.shape[1]}.")
        estimates, _ = self._recovery().recover(self.measurements_.astype(measured.dtype), measured)
        return estimates

    def _dictionary(self, X):
        if self.atoms is None:
            return np.eye(X.shape[1], dtype=X.dtype)
        atoms = check_array(self.atoms, dtype=X.dtype, input_name="atoms")
        if atoms.shape[1] != X.shape[1]:
            raise ValueError(f"atoms must be as long as the signals, {X.shape[1]} values, got {atoms.shape[1]}.")
        check_magnitude(atoms, "atoms", atoms.dtype)
        return atoms

    def _recovery(self):
        recovery = L1() if self.recovery is None else self.recovery
        if not isinstance(recovery, Recovery):
            raise ValueError(f"recovery must be an L2, L1, Generative or another Recovery, got {recovery!r}.")
        recovery.check()
        return recovery


def squared_error(X, estimates):
    """Mean over the rows of the squared distance between signals and estimates, the outer loss of eq. (12)."""
    return float(np.square(X - estimates, dtype=np.float64).sum(axis=1).mean())


def recovery_error(recovery, A, X):
    """The outer loss of eq. (12) for given measurements.

    Parameters
    ----------
    recovery : `Recovery`
    A : array, shape (size, d), the measurement vectors
    X : array, shape (n, d), the signals
    """
    recovery.check()
    return squared_error(X, recovery.recover(A, X @ A.T)[0])


def approximate_greedy(X, atoms, size):
    """The `size` atoms with the largest mean absolute inner product with the signals (after Krause and Cevher 2010).

    The baseline of Section 5.6; greedy selection itself would recover all signals once for each atom and step.

    Parameters
    ----------
    X : array, shape (n, d); atoms : array, shape (m, d)
    size : int, at most m

    Returns
    -------
    int array, shape (size,), rows of `atoms`, best first
    """
    check_integer("size", size, most=len(atoms), why="there are no more atoms")
    mean = np.zeros(len(atoms))
    for i in range(0, len(X), 256):  # of the (n, m) products only a part at a time
        mean += np.abs(X[i : i + 256] @ atoms.T).sum(axis=0)
    return np.argsort(-mean, kind="stable")[:size]
