"""Inner problems: the models that will be trained on the coreset, and the protocol for a user's own."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import type_of_target

from handful.bilevel.generic import GenericSelection
from handful.bilevel.newton import MAX_ITER, ConvergenceError
from handful.bilevel.passes import LOGISTIC, SQUARED
from handful.checks import check_number, signed_labels

SOFT_TOLERANCE = 1e-4  # by which a row of soft targets may miss one: those of float16 networks do by rounding


class Problem(BaseEstimator):
    """Base class of a user's own inner problem: `BilevelCoreset` selects for any model that it describes.

    A model with parameters theta, shape (p,), has a loss for every row and a penalty. A subclass sets its
    hyper-parameters in `__init__` and implements `losses`, `gradients` and `hessian`; that is enough where the penalty
    is quadratic with its minimum at zero. Other penalties, and losses that are not convex, need a `solve` of their own.

    Everything works with p x p matrices and reads all rows once a step: p up to some hundreds.

    Examples
    --------
    Poisson regression (rows x, counts y, mean exp(x' theta)):

    >>> from handful import BilevelCoreset
    >>> class Poisson(Problem):
    ...     def __init__(self, l2=1e-2):
    ...         self.l2 = l2
    ...
    ...     def losses(self, theta, X, y):
    ...         return np.exp(X @ theta) - y * (X @ theta)
    ...
    ...     def gradients(self, theta, X, y):
    ...         return (np.exp(X @ theta) - y)[:, None] * X
    ...
    ...     def hessian(self, theta, X, y, weights):
    ...         return (X.T * (weights * np.exp(X @ theta))) @ X + self.l2 * np.eye(X.shape[1])
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = rng.poisson(np.exp(X @ [0.5, -0.5, 0.2]))
    >>> coreset = BilevelCoreset(Poisson(), size=20, random_state=0).fit(X, y)
    >>> len(coreset.indices_)
    20
    """

    needs_y = True  # `fit` refuses y=None
    takes_sparse = False
    classifies = False  # whether y holds classes, of which each must be among the chosen rows
    forward_only = False  # whether only forward selection by the linear rule with equal weights is there

    def check(self):
        """ValueError if a hyper-parameter makes no sense."""

    def encode(self, y):
        """Targets in the coding that the other methods expect; None for problems without (`needs_y = False`)."""
        return y

    def selection(self, rows, rng, ihvp):
        """An empty selection of this problem over `Rows`: a `GenericSelection`, unless a subclass has a better."""
        return GenericSelection(self, rows, rng, ihvp)

    def start(self, X, y):
        """Parameters from which the first inner problem is solved, shape (p,); zeros, one for each column of X."""
        return np.zeros(X.shape[1])

    def losses(self, theta, X, y):
        """Loss of every row, without the penalty, shape (n,)."""
        raise NotImplementedError

    def gradients(self, theta, X, y):
        """Gradient of every row's loss by the parameters, shape (n, p); callers give few rows at a time."""
        raise NotImplementedError

    def hessian(self, theta, X, y, weights):
        """Second derivative of ``sum_i weights_i loss_i + penalty``, shape (p, p); zero weights give the penalty's."""
        raise NotImplementedError

    def solve(self, X, y, weights, start=None):
        """Minimiser of ``sum_i weights_i loss_i(theta) + penalty(theta)``, shape (p,).

        Damped Newton steps, for convex losses and a quadratic penalty with its minimum at zero.

        Parameters
        ----------
        X, y : the rows, shape (s, d) and (s,)
        weights : shape (s,), non-negative, adding up to 1
        start : where to start, e.g. the solution for other weights; `self.start(X, y)` for None

        Raises
        ------
        ConvergenceError
            if the Hessian is not positive definite, or steps end short of the tolerance
        """
        theta = self.start(X, y) if start is None else start
        penalty = self.hessian(theta, X, y, np.zeros(len(weights)))

        def objective(theta):
            with np.errstate(over="ignore", invalid="ignore"):
                return weights @ self.losses(theta, X, y) + 0.5 * theta @ penalty @ theta

        def gradient(theta):
            return weights @ self.gradients(theta, X, y) + penalty @ theta

        value, g = objective(theta), gradient(theta)
        unit = max(np.abs(g).max(), np.abs(gradient(np.zeros_like(theta))).max(), np.finfo(float).tiny)
        for _ in range(MAX_ITER):
            if np.abs(g).max() <= 1e-9 * unit:
                return theta
            try:
                step = cho_solve(cho_factor(self.hessian(theta, X, y, weights)), g)
            except (LinAlgError, ValueError):
                raise ConvergenceError(
                    f"the Hessian of {self!r} on {len(weights)} points is not positive definite: a larger penalty "
                    "makes it so."
                ) from None
            slope, length = g @ step, 1.0
            if slope <= 1e-24 * abs(value):  # rounding alone: where zero is the solution, the unit says nothing
                return theta
            while True:
                trial = theta - length * step
                new = objective(trial)
                # the last term forgives rounding: near the solution two values differ by less than they are accurate
                if new <= value - 0.25 * length * slope + 1e-14 * abs(value) or length < 1e-10:
                    break
                length *= 0.5
            if not new <= value + 1e-14 * abs(value):
                break
            theta, value, g = trial, new, gradient(trial)
        left = np.abs(g).max() / unit
        if not left <= 1e-6:
            raise ConvergenceError(
                f"the inner problem {self!r} on {len(weights)} points was not solved in {MAX_ITER} Newton steps "
                f"(gradient {left:.1e} of the largest): scale the features or raise the penalty."
            )
        return theta


class LinearProblem(BaseEstimator):
    """Mean weighted loss of a linear model plus ``l2 / 2 * |coefficients|^2``.

    With weights that add up to n this is scikit-learn's problem at ``C = 1 / (l2 * n)``
    (`LogisticRegression`) or ``alpha = l2 * n`` (`Ridge`), on the full data and on the coreset alike.
    """

    def __init__(self, l2=1e-2, *, fit_intercept=True, penalise_intercept=False):
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.penalise_intercept = penalise_intercept

    def check(self):
        """ValueError unless l2 is a positive finite number."""
        why = "without a penalty the inner problem of a small coreset has no unique solution"
        check_number("l2", self.l2, above=0, why=why)

    def variants(self):
        """Problems of trainers one may meet: penalty tenfold off either way, intercept treated the other way."""
        same = dict(fit_intercept=self.fit_intercept, penalise_intercept=self.penalise_intercept)
        problems = [type(self)(self.l2 * factor, **same) for factor in (1, 0.1, 10)]
        if self.fit_intercept:
            problems.append(type(self)(self.l2, penalise_intercept=not self.penalise_intercept))
        return problems

    def _free_intercept(self):
        return self.fit_intercept and not self.penalise_intercept


class Logistic(LinearProblem):
    """Logistic regression, binary or multinomial as the labels are (Borsos et al. 2024, Sections 5.1 and 5.2.2).

    Targets may be soft: a matrix, shape (n, classes), of rows that add up to one.

    Parameters
    ----------
    l2 : penalty on the coefficients, relative to the mean loss. The paper: .01 as weight decay.
    fit_intercept : whether the model has an intercept
    penalise_intercept : whether the penalty covers it, as in the authors' code. False is scikit-learn's
        `LogisticRegression`. Select with the problem that trains: binary coresets notice the difference.
    """

    kind = LOGISTIC
    classifies = True

    def encode(self, y):
        """Two classes as -1 and +1, in the order of `numpy.unique`; more as rows of 0 and 1; soft targets as they are.

        Raises
        ------
        ValueError
            for less than two classes, and for soft targets that are negative or do not add up to one
        """
        y = np.asarray(y)
        if y.ndim == 2:
            return soft_targets(y)
        if type_of_target(y) != "multiclass":
            return signed_labels(y, "logistic regression")[1]
        classes, codes = np.unique(y, return_inverse=True)
        targets = np.zeros((len(y), len(classes)))
        targets[np.arange(len(y)), codes] = 1.0
        return targets


def soft_targets(y):
    """Rows of probabilities in float64, shape (n, classes); ValueError unless they are, to rounding."""
    y = y.astype(np.float64)
    if y.shape[1] < 2:
        raise ValueError(f"soft targets need a column for each of at least 2 classes, got shape {y.shape}.")
    if y.min() < 0.0:
        row = int(np.argmin(y.min(axis=1)))
        raise ValueError(f"soft targets must not be negative, got {y[row].min():.3g} in row {row}.")
    off = np.abs(y.sum(axis=1) - 1.0)
    if off.max() > SOFT_TOLERANCE:
        row = int(np.argmax(off))
        raise ValueError(
            f"soft targets must add up to one in every row, got {y[row].sum():.6g} in row {row}: divide each row by "
            "its sum."
        )
    return y / y.sum(axis=1, keepdims=True)


class LeastSquares(LinearProblem):
    """Ridge regression: half the squared error as loss (Borsos et al. 2024, Section 3.4.2).

    Parameters
    ----------
    l2, fit_intercept, penalise_intercept : as in `Logistic`
    """

    kind = SQUARED
    classifies = False

    def encode(self, y):
        """Targets as float64; ValueError for anything that is not numeric."""
        if np.ndim(y) != 1:
            raise ValueError(f"LeastSquares needs y as a 1d array, one target a row, got shape {np.shape(y)}.")
        if type_of_target(y) == "unknown" or np.asarray(y).dtype.kind in "OUS":
            try:
                y = np.asarray(y, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"LeastSquares needs numeric targets y, got dtype {np.asarray(y).dtype}.") from None
        return np.asarray(y, dtype=np.float64)
