"""Linear models as inner problems: logistic regression, least squares and Poisson regression."""

from dataclasses import KW_ONLY, replace
from typing import Annotated, Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.multiclass import type_of_target

from handful.checks import check_memory, check_number, check_vector, signed_labels
from handful.models.glm import GLM
from handful.models.links import LinearModel, LogisticLink, PoissonLink, SoftmaxLink, SquaredLink
from handful.models.problem import Problem
from handful.options import number
from handful.scales import centers, merged, moments
from handful.types import Table

# To which inner problems are solved: of one output, as Newton's last step is exact for the asking;
# of several, for choices and for weights, where more digits change no choice that matters and lower
# no loss.
TOL = 1e-7
SELECTION_TOL = 1e-3
WEIGHTS_TOL = 1e-4
# Rows of which moments are taken at a time, so that no copy of all of them is made.
MOMENT_ROWS = 10_000
UNIQUE = "without a penalty the inner problem of a small coreset has no unique solution"
# by which the sum of soft targets may miss one: float16 probabilities do, by rounding
SOFT_TOLERANCE = 1e-3
# Of words where targets are numbers.
OF_CLASSES = "for classes there is the problem Logistic(...)"
# Of a class that takes a problem: where its penalty is given.
PENALTY_OF_PROBLEM = dict.fromkeys(
    ("C", "alpha", "l2"), "the penalty is an option of the problem, as in Logistic(l2=1e-2)"
)


def _keeps_squares(y, dtype):
    """Whether squares of targets, and their products, neither overflow in a dtype nor become
    zero."""
    limit = float(np.finfo(dtype).max) ** 0.25
    largest = float(np.abs(y).max())
    return largest == 0 or 1 / limit <= largest <= limit


class LinearProblem(Problem):
    """Mean weighted loss of a linear model plus ``l2 / 2 * |coefficients|^2``.

    With weights that add up to n this is scikit-learn's problem at ``C = 1 / (l2 * n)``
    (`LogisticRegression`) or ``alpha = l2 * n`` (`Ridge`), on the full data and on the coreset
    alike.

    Parameters theta are those of `LinearModel`: the coefficients, then the intercept; of several
    outputs, those of each in turn.
    """

    l2: Annotated[float, number(above=0, why=UNIQUE)] = 1e-2
    _: KW_ONLY
    fit_intercept: bool = True
    penalise_intercept: bool = False

    takes_sparse = True
    _elsewhere = {
        "C": (
            "of n rows, or of rows whose weights add up to n, a C of scikit-learn is l2 = 1 / (C n)"
        ),
        "alpha": (
            "of n rows, or of rows whose weights add up to n, an alpha of Ridge is l2 = alpha / n"
        ),
    }

    def link(self, n_outputs):
        """The `Link` of so many outputs."""
        raise NotImplementedError

    def start(self, X, y):
        """As `Problem.start`: zeros."""
        linear = LinearModel(self, y.shape[1])
        return 0 * linear.penalised(X.shape[1])

    def losses(self, theta, X, y):
        """As `Problem.losses`; y holds encoded targets, shape (n, outputs)."""
        linear = LinearModel(self, y.shape[1])
        Z = linear.predictors(theta, linear.design(X))
        return linear.link.loss(Z, y)

    def _derivatives(self, theta, X, y):
        linear = LinearModel(self, y.shape[1])
        A = linear.design(X)
        Z = linear.predictors(theta, A)
        first, second = linear.link.derivatives(Z, y)
        return linear, A, first, second

    def gradients(self, theta, X, y):
        """As `Problem.gradients`."""
        linear, A, first, _ = self._derivatives(theta, X, y)
        return linear.gradients(first, A)

    def hessian(self, theta, X, y, weights):
        """As `Problem.hessian`."""
        linear, A, _, second = self._derivatives(theta, X, y)
        strengths = self.l2 * linear.penalised(X.shape[1])
        return linear.hessian(second, A, weights) + np.diag(strengths)

    @property
    def _is_free(self):
        # Whether the intercept takes up what columns and targets are moved by.
        return self.fit_intercept and not self.penalise_intercept

    def near_zero(self, rows: Any) -> Any:
        """As `Problem.near_zero`, dense columns moved where that changes nothing but the
        intercept."""
        if sparse.issparse(rows.X) or not self._is_free:
            return rows
        blocks = gen_batches(len(rows.X), MOMENT_ROWS)
        shift = centers(merged([moments(rows.X[block], rows.share[block]) for block in blocks]))
        if not shift.any():
            return rows
        return replace(rows, X=(rows.X - shift).astype(rows.X.dtype))

    def model(self, rows: Any, rng: Any, *, ihvp: Any = None, weighted: bool = False) -> Any:
        """An empty `GLM`, in float64 where the squares of targets leave float32;
        NotImplementedError for a link that is not canonical."""
        if not self.link(1).canonical:
            raise NotImplementedError(
                f"{type(self).__name__} has a link that is not canonical: MatchedCoreset takes it, "
                "but no rows can be chosen for it."
            )
        rows = rows.encoded(self)
        if not _keeps_squares(rows.y, rows.X.dtype):
            rows = replace(rows, X=rows.X.astype(np.float64))
        rows.y = np.asfortranarray(rows.y, dtype=rows.X.dtype)
        tol = WEIGHTS_TOL if weighted else SELECTION_TOL
        if rows.y.shape[1] == 1:
            tol = TOL
        return GLM(self, rows, rng, ihvp, tol)

    def estimator(self, n: float) -> Any:
        """The scikit-learn trainer of this problem on `n` rows, not yet fitted.

        Parameters
        ----------
        n : the number of rows of the full data set, or their total sample_weight: the weights of a
            coreset add up to it, so that the same trainer suits all rows and the coreset

        Raises
        ------
        ValueError
            for ``penalise_intercept=True``, which scikit-learn's trainers do not know
        """
        check_number("n", n, above=0)
        if self.fit_intercept and self.penalise_intercept:
            raise ValueError(
                "scikit-learn's linear models do not penalise their intercept: give "
                "penalise_intercept=False, or "
                "fit_intercept=False with a column of ones in X."
            )
        return self._trainer(self.l2 * float(n))


class Logistic(LinearProblem):
    """Logistic regression, binary or multinomial as the labels are (Borsos et al. 2024, Sections
    5.1 and 5.2.2).

    Targets may be soft: a matrix, shape (n, classes), of rows that add up to one.

    Parameters
    ----------
    l2 : float, default=0.01
        Strength of the penalty ``l2 / 2 * |coefficients|^2`` beside the mean loss; the paper:
        .01 as weight decay. For n rows, ``C`` of scikit-learn's `LogisticRegression` is ``l2 =
        1 / (C * n)``.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    penalise_intercept : bool, default=False
        Whether the penalty covers it, as in the authors' code. False is scikit-learn's
        `LogisticRegression`. Select with the problem that trains: coresets of equal weights
        notice the difference.

    Examples
    --------
    Three kinds of iris, thirty flowers:

    >>> from handful import BilevelCoreset, Logistic
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> coreset = BilevelCoreset(Logistic(l2=1e-2), size=30, random_state=0).fit(X, y)
    >>> X_small, y_small, w = coreset.take(X, y)
    >>> model = Logistic(l2=1e-2).estimator(len(y)).fit(X_small, y_small, sample_weight=w)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    classifies = True

    def link(self, n_outputs: int) -> Any:
        """As `LinearProblem.link`."""
        return LogisticLink() if n_outputs == 1 else SoftmaxLink()

    def _trainer(self, strength):
        # here, as importing it takes a while
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=1 / strength, fit_intercept=self.fit_intercept, max_iter=1000)

    def encode(self, y: Table) -> Any:
        """Two classes as a column of 0 and 1, in the order of `numpy.unique`; more as a column
        each; soft targets too.

        Raises
        ------
        ValueError
            for less than two classes, and for soft targets that are negative or do not add up to
            one
        """
        y = np.asarray(y)
        if y.ndim == 2:
            targets = soft_targets(y)
            return targets[:, 1:] if targets.shape[1] == 2 else targets
        if type_of_target(y) != "multiclass":
            _, signs = signed_labels(
                y, "logistic regression", several=True, of_targets="the problem LeastSquares(...)"
            )
            return 0.5 + 0.5 * signs[:, None]
        classes, codes = np.unique(y, return_inverse=True)
        n = len(y)
        check_classes(n, len(classes))
        targets = np.zeros((n, len(classes)))
        targets[np.arange(n), codes] = 1.0
        return targets


def check_classes(n, n_classes):
    """MemoryError if n rows have so many classes that a number for each exceeds the memory."""
    check_memory(
        f"multinomial regression of {n:,} rows in {n_classes:,} classes",
        32 * n * n_classes,
        "are these targets of a regression? There is LeastSquares; else take fewer classes",
    )


def soft_targets(y):
    """Rows of probabilities in float64, shape (n, classes); ValueError unless they are, to
    rounding."""
    y = y.astype(np.float64)
    if y.shape[1] < 2:
        raise ValueError(
            f"soft targets need a column for each of at least 2 classes, got shape {y.shape}."
        )
    if y.min() < 0.0:
        row = int(np.argmin(y.min(axis=1)))
        raise ValueError(f"soft targets must not be negative, got {y[row].min():.3g} in row {row}.")
    off = np.abs(y.sum(axis=1) - 1.0)
    if off.max() > SOFT_TOLERANCE:
        row = int(np.argmax(off))
        raise ValueError(
            f"soft targets must add up to one in every row, got {y[row].sum():.6g} in row {row}: "
            "divide each row by "
            "its sum."
        )
    return y / y.sum(axis=1, keepdims=True)


class LeastSquares(LinearProblem):
    """Ridge regression: half the squared error as loss (Borsos et al. 2024, Section 3.4.2).

    Parameters
    ----------
    l2, fit_intercept, penalise_intercept : float, bool, bool
        As in `Logistic`. For n rows, ``alpha`` of scikit-learn's `Ridge` is ``l2 = alpha / n``.

    Examples
    --------
    >>> from handful import BilevelCoreset, LeastSquares
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X = X / X.std(0)
    >>> coreset = BilevelCoreset(LeastSquares(l2=0.1), size=60, random_state=0).fit(X, y)
    >>> X_small, y_small, w = coreset.take(X, y)
    >>> small = LeastSquares(l2=0.1).estimator(len(y)).fit(X_small, y_small, sample_weight=w)
    >>> full = LeastSquares(l2=0.1).estimator(len(y)).fit(X, y)
    >>> bool(full.score(X, y) - small.score(X, y) < 0.02)
    True
    """

    classifies = False

    def link(self, n_outputs: int) -> Any:
        """As `LinearProblem.link`."""
        return SquaredLink()

    def _trainer(self, strength):
        from sklearn.linear_model import Ridge

        return Ridge(alpha=strength, fit_intercept=self.fit_intercept)

    def encode(self, y: Table) -> Any:
        """Targets as a column of float64; ValueError unless they are numbers whose squares do not
        overflow."""
        return check_vector(y, "y", of_words=OF_CLASSES)[:, None]

    def near_zero(self, rows: Any) -> Any:
        """As `LinearProblem.near_zero`, of the targets too."""
        rows = super().near_zero(rows)
        if not self._is_free:
            return rows
        targets = check_vector(rows.y, "y", of_words=OF_CLASSES)
        return replace(rows, y=targets - rows.share @ targets)


class Poisson(LinearProblem):
    """Poisson regression of counts whose rate is exp(linear predictor).

    Parameters
    ----------
    l2, fit_intercept, penalise_intercept : float, bool, bool
        As in `Logistic`.

    Examples
    --------
    >>> from handful import MatchedCoreset
    >>> from handful.models import Poisson
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = rng.poisson(np.exp(0.3 * X[:, 0] - 1))
    >>> rows = MatchedCoreset(Poisson(), at="posterior", random_state=0).fit(X, y)
    >>> len(rows.indices_)
    19
    """

    classifies = False
    _elsewhere = {"alpha": "alpha of PoissonRegressor is l2 itself"}

    def link(self, n_outputs: int) -> Any:
        """As `LinearProblem.link`."""
        return PoissonLink()

    def encode(self, y: Table) -> Any:
        """Counts as a column of float64; ValueError for negative ones."""
        return check_vector(y, "y", least=0, of_words=OF_CLASSES)[:, None]

    def _trainer(self, strength):
        from sklearn.linear_model import PoissonRegressor

        # beside the mean loss
        return PoissonRegressor(alpha=self.l2, fit_intercept=self.fit_intercept, max_iter=1000)
