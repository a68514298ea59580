"""Log-likelihoods by row, of problems and of anything that gives them, and the equations made of
them.

An equation is a number for each row, whose sum over the rows is kept; the methods that give
equations have a row for each row. `handful.models.newton` says what an expansion is.
"""

from copy import copy
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.special import gammaln, xlogy

from handful.matching.differences import evenly
from handful.matching.recombine import Products
from handful.models.linear import LeastSquares, LinearProblem, Poisson, check_classes
from handful.models.links import LinearModel
from handful.models.newton import bordered
from handful.models.problem import Problem, check_problem, has_losses
from handful.scales import moments
from handful.tables import as_array, holds_integers

# Functions get a power of two rows, at least so many: few shapes for a compiler.
LEAST_ROWS = 256
# A problem sees so many rows to say where the search for its mode starts.
START_ROWS = 4096
# Curvatures of rows are differences of gradients so far apart, in units of a parameter.
STEP = 1e-4
# The problems that estimators of scikit-learn solve, on n rows.
OF_TRAINERS = {
    "LogisticRegression": "Logistic(l2=1 / (C * n)), of n rows",
    "Ridge": "LeastSquares(l2=alpha / n), of n rows",
    "LinearRegression": "LeastSquares(l2=...)",
    "PoissonRegressor": "Poisson(l2=alpha)",
}


@dataclass(frozen=True)
class Labels:
    """The labels of many rows, of which only a few differ: a byte each.

    Attributes
    ----------
    classes : array, the labels that there are, sorted
    codes : int array, shape (n,), of the smallest type: places in `classes`
    """

    classes: Any
    codes: Any

    @classmethod
    def of(cls, y: Any, counts: Any = None) -> Self:
        """Those of an array or a column, shape (n,), of rows of which some count, a bool array, and
        all by default; the others may get any label."""
        y = np.asarray(y)
        all_count = counts is None or counts.all()
        classes = np.unique(y if all_count else y[counts])
        places = np.searchsorted(classes, y)
        last = max(0, len(classes) - 1)
        return cls(classes, np.minimum(places, last).astype(_smallest(classes)))

    @classmethod
    def joined(cls, parts: list) -> Self:
        """Those of all rows, of the `Labels` of some after one another."""
        some = [part.classes for part in parts if len(part.classes)]
        classes = np.unique(np.concatenate(some or [parts[0].classes]))
        return cls(classes, np.concatenate([part.among(classes) for part in parts]))

    def among(self, classes: Any) -> np.ndarray:
        """The places of the rows' labels in an array of sorted ones that holds them all."""
        if not len(self.classes):
            return self.codes
        places = np.searchsorted(classes, self.classes)
        return places.astype(_smallest(classes))[self.codes]

    def written_out(self) -> np.ndarray:
        """The label of each row."""
        return self.classes[self.codes]


class Likelihood:
    """Log-likelihoods of a function of parameters (K, p), X (k, d) and y (k,), or of the first two
    without y."""

    # Whether `expansion`, `slopes` and `gradients_at` are known.
    has_slopes = False
    # Whether `expansion_at` is, too.
    has_curvatures = False
    # Linear predictors by which the parameters act, whose derivatives are known.
    n_outputs = 0
    # Methods that go through their parameters one after the other, not through all at once.
    one_by_one: tuple = ()
    # Whether second moments say it all.
    squares = False
    # The labels of a classification.
    classes: Any = None
    # What to do where no mode is found, in words.
    to_a_mode = "centre and scale the columns of X, give other starts, or a narrower prior"

    def __init__(self, function: Any):
        self.function = function

    def columns(self, X):
        """Rows of X as the methods take them: for a function integers stay integers."""
        X = np.asarray(X)
        return X.astype(np.int64 if holds_integers(X) else float, copy=False)

    def values(self, theta, X, y):
        """Log-likelihoods, shape (rows, K), at parameters of shape (K, p)."""
        k = len(X)
        power = 1 << (k - 1).bit_length()
        n_asked = max(LEAST_ROWS, power)
        # The last row fills the rest.
        asked = np.minimum(np.arange(n_asked), k - 1)
        given = [theta, X[asked]]
        if y is not None:
            given.append(y[asked])
        answer = self.function(*given)
        out = as_array(answer)
        wanted = len(theta), n_asked
        if out.shape != wanted:
            raise ValueError(
                f"the log-likelihood must have the shape (parameters, rows) = {wanted} for "
                f"parameters of shape {theta.shape} and X of shape {given[1].shape}, got "
                f"{type(answer).__name__} of shape {out.shape}."
            )
        if out.dtype != np.float64:
            is_of_jax = type(answer).__module__.startswith("jax")
            need = "; JAX needs jax.config.update('jax_enable_x64', True)" if is_of_jax else ""
            raise ValueError(f"the log-likelihood must be float64, got {out.dtype}{need}.")
        return out[:, :k].T

    def sums(self, theta, X, y, w):
        """Weighted sums of the log-likelihoods at parameters of shape (K, p), shape (K,)."""
        return w @ self.values(theta, X, y)

    def values_at(self, theta, X, y):
        """A constant, the log-likelihood at the first of parameters (K, p), how the others differ:
        K + 1 equations."""
        values = self.values(theta, X, y)
        ones = np.ones(len(values))
        first = values[:, :1]
        differences = values[:, 1:] - first
        return np.column_stack([ones, first, differences])

    def higher_orders(self, theta, X, y):
        """Root mean squares of the rows' third- and fourth-order terms, shape (rows,).

        Parameters
        ----------
        theta : shape (1 + 4 K, p): the center, K draws, their opposites, and both half as far from
            the center
        """
        values = self.values(theta, X, y)
        here = values[:, :1]
        changes = np.split(values[:, 1:] - here, 4, axis=1)
        ahead, behind, ahead_half, behind_half = changes
        odd = (ahead - behind) / 2 - (ahead_half - behind_half)
        of_halves = ahead_half + behind_half
        even = (ahead + behind) / 2 - 2 * of_halves
        # Slopes and curvatures cancel; of the other terms three quarters are left.
        squares = (odd**2 + even**2) * 16 / 9
        squares[~np.isfinite(squares)] = 0.0
        return np.sqrt(squares.mean(1))

    def moved_together(self, theta, X, y):
        """In how many rows two parameters act together near some (p,), shape (p, p)."""
        sizes = np.maximum(1.0, np.abs(theta))
        lengths = 1e-3 * sizes
        moved = theta + np.diag(lengths)
        tried = np.vstack([theta, moved])
        values = self.values(tried, X, y)
        here = values[:, :1]
        moves = values[:, 1:] != here
        moved = moves.astype(np.float32)
        return (moved.T @ moved).astype(float)

    def start(self, rows):
        """Parameters, shape (p,), at which the search for a mode starts unless others are given."""
        raise ValueError(
            "start must be given for a function, shape (p,) or (S, p): where the search for modes "
            "starts."
        )

    def named(self, numbers):
        """Parameters of these numbers, for messages."""
        return f"parameters {list(numbers)}"

    def inner(self, theta):
        """Parameters as the methods take them, of those that users see; both of shape (K, p)."""
        return theta

    def outer(self, theta):
        """Parameters that users see, of those that the methods take."""
        return theta

    def targets(self, y):
        """What is kept of y, as the methods take it."""
        return y


class ProblemLikelihood(Likelihood):
    """Log-likelihoods of a problem: the losses of its rows in nats, with a minus.

    Parameters
    ----------
    problem : Problem, whose losses, gradients and Hessians are asked for
    y : labels, also as `Labels`, targets or counts; None for a problem without
    classes : array, the labels that there are, sorted; None for those in y
    name : str, of y, for messages
    """

    has_slopes = True
    has_curvatures = True
    one_by_one = ("values", "sums", "slopes")

    def __init__(self, problem: Any, y: Any, classes: Any = None, name: str = "y"):
        check_problem(problem)
        if not has_losses(problem):
            raise TypeError(
                f"{type(problem).__name__} has no losses of rows at given parameters, which are "
                "what is matched: take another Problem, a function that gives log-likelihoods, or "
                "BilevelCoreset."
            )
        self.problem = problem
        if problem.needs_y and y is None:
            raise ValueError(f"{name} must be given for {type(problem).__name__}, got {name}=None.")
        if problem.classifies:
            self.target = self._encoded(y, classes, name)
        else:
            self.target = problem.encode(y)

    def columns(self, X):
        """As `Likelihood.columns`, all of them floats."""
        return np.asarray(X, float)

    def _encoded(self, y, classes, name):
        labels = y if isinstance(y, Labels) else Labels.of(y)
        self.classes = labels.classes if classes is None else classes
        unknown = np.setdiff1d(labels.classes, self.classes)
        if len(unknown):
            raise ValueError(
                f"{name} must hold the classes {self.classes}, got {unknown[:3].tolist()} besides."
            )
        return self._encoded_labels(labels)

    def _encoded_labels(self, labels):
        """Labels as the problem encodes them beside all classes, of which a few rows may lack
        some."""
        beside_all = np.concatenate([self.classes, labels.written_out()])
        encoded = self.problem.encode(beside_all)
        return encoded[len(self.classes) :]

    def _asked(self, method, shape, theta, X, y, *weights):
        """What a method of the problem gives at parameters (p,), of this shape."""
        name = f"{type(self.problem).__name__}.{method}"
        try:
            asked = getattr(self.problem, method)
            answer = asked(theta, X, y, *weights)
        except (ValueError, IndexError, TypeError) as error:
            targets = "no y" if y is None else f"y of {y.dtype}, shape {y.shape}"
            raise ValueError(
                f"{name} fails at parameters of shape {theta.shape}, with X of shape {X.shape} and "
                f"{targets}: {error}"
            ) from error
        found = as_array(answer)
        if found.shape != shape:
            raise ValueError(f"{name} must give shape {shape}, got {found.shape}.")
        return found.astype(np.float64)

    def values(self, theta, X, y):
        """As `Likelihood.values`."""
        shape = len(X), len(theta)
        found = np.empty(shape)
        # Impossible parameters have losses that are not finite.
        with np.errstate(all="ignore"):
            for k, one in enumerate(theta):
                found[:, k] = -self._asked("losses", shape[:1], one, X, y)
        return found

    def sums(self, theta, X, y, w):
        """As `Likelihood.sums`, whose values are held at one set of parameters at a time."""
        return np.hstack([w @ self.values(one, X, y) for one in theta[:, None]])

    def start(self, rows):
        """As `Likelihood.start`; the problem says where, and sees a sample of the rows."""
        present = np.flatnonzero(rows.weights)
        places = evenly(present, START_ROWS)
        some = rows.blocks.take(places)
        X = np.asarray(some.X, float)
        y = None if rows.y is None else rows.y[places]
        return self.problem.start(X, y)

    def _gradients(self, theta, X, y):
        shape = (len(X), len(theta))
        return -self._asked("gradients", shape, theta, X, y)

    def _hessian(self, theta, X, y, w):
        p = len(theta)
        return self._asked("hessian", (p, p), theta, X, y, w)

    def problem_of(self, l2):
        """The problem with a penalty of another strength, if one is given."""
        problem = copy(self.problem)
        if l2 is not None:
            problem.l2 = l2
        return problem

    def penalty(self, theta, X, y, l2=None):
        """Second derivative of the penalty, shape (p, p), at parameters (p,), of another strength
        if one is given; the rows only say how many columns there are."""
        asked = copy(self)
        asked.problem = self.problem_of(l2)
        one_y = None if y is None else y[:1]
        no_weight = np.zeros(1)
        return asked._hessian(theta, X[:1], one_y, no_weight)

    def expansion(self, theta, X, y, w):
        """The expansion of the weighted sum at parameters of shape (p,), shape (1 + p, 1 + p)."""
        one = theta[None]
        value = self.sums(one, X, y, w)[0]
        slope = w @ self._gradients(theta, X, y)
        penalised = self._hessian(theta, X, y, w)
        H = penalised - self.penalty(theta, X, y)
        return bordered(value, slope, H)

    def slopes(self, theta, X, y, w):
        """Slopes of the weighted sum at parameters of shape (K, p), shape (K, p)."""
        found = []
        for one in theta:
            gradients = self._gradients(one, X, y)
            found.append(w @ gradients)
        return np.array(found)

    def gradients_at(self, thetas, X, y):
        """Gradients at each of some parameters (J, p): J p + 1 equations."""
        columns = [np.ones((len(X), 1))]
        for theta in thetas:
            columns.append(self._gradients(theta, X, y))
        return np.hstack(columns)

    def _curvatures(self, theta, pairs, X, y):
        """Second derivatives of the log-likelihoods by pairs of parameters, shape (rows, P), by
        central differences of gradients."""
        shape = (len(X), len(pairs))
        found = np.empty(shape)
        for i in np.unique(pairs[:, 0]):
            length = STEP * max(1.0, abs(theta[i]))
            step = np.zeros(len(theta))
            step[i] = length
            ahead = self._gradients(theta + step, X, y)
            behind = self._gradients(theta - step, X, y)
            slopes = (ahead - behind) / (2 * length)
            own = pairs[:, 0] == i
            partners = pairs[own, 1]
            found[:, own] = slopes[:, partners]
        return found

    def expansion_at(self, mode, pairs, theta, X, y):
        """Gradient and curvature at a mode, and what they leave of log-likelihoods at parameters
        (K, p).

        2 + p + P + K equations for P pairs of parameters.
        """
        j, k = pairs.T
        base = self.values(mode[None], X, y)
        slopes = self._gradients(mode, X, y)
        curvatures = self._curvatures(mode, pairs, X, y)
        moves = theta - mode
        # A pair of two parameters stands for both orders.
        counted = np.where(j == k, 0.5, 1.0)
        products = moves[:, j] * moves[:, k]
        squares = counted * products
        foreseen = slopes @ moves.T + curvatures @ squares.T
        values = self.values(theta, X, y)
        rest = values - base - foreseen
        ones = np.ones(len(X))
        return np.column_stack([ones, base, slopes, curvatures, rest])


class LinearLikelihood(ProblemLikelihood):
    """Log-likelihoods of a linear problem: parameters are the coefficients, then the intercept.

    Of several classes, those of each class in turn: ``np.column_stack([coef_,
    intercept_]).ravel()``. Of least squares, the logarithm of the noise's deviation may stand last.
    Columns far from zero lose digits in every sum of squares, so they may be moved to zero
    (`move`): the methods then take the intercept of moved columns, as `inner` gives it.

    Parameters
    ----------
    problem : LinearProblem, whose link gives losses and derivatives
    y, classes, name : as in `ProblemLikelihood`
    """

    one_by_one = ()
    sums = Likelihood.sums

    def __init__(self, problem: Any, y: Any, classes: Any = None, name: str = "y"):
        super().__init__(problem, y, classes, name)
        self.squares = isinstance(problem, LeastSquares)
        self.counts = isinstance(problem, Poisson)
        self.n_outputs = self.target.shape[1]
        self.has_curvatures = self.n_outputs == 1
        self.linear = LinearModel(problem, self.n_outputs)
        self.link = self.linear.link
        # What columns of second moments, shape (d,), and the targets there are moved by.
        self.center = 0.0
        self.center_y = 0.0
        # What columns of linear predictors are moved by, or None.
        self.shift = None
        # The normal of their reflection.
        self.mirror = None

    def targets(self, y):
        """As `Likelihood.targets`, floats of encoded labels."""
        return np.asarray(y, float)

    def _encoded_labels(self, labels):
        """Each class as the problem encodes it, a byte for each output if it can be."""
        encoded = self.problem.encode(self.classes)
        check_classes(len(labels.codes), len(self.classes))
        in_bytes = encoded.astype(np.int8)
        if (in_bytes == encoded).all():
            encoded = in_bytes
        return encoded[labels.among(self.classes)]

    def moments(self, X, y, w):
        """Those of the columns of X and the target, see `handful.scales`."""
        columns = np.column_stack([X, y])
        return moments(columns, w)

    def move(self, center, *, moves_intercept, binds_intercept):
        """Take columns of X, and the target after them, about these values, shape (d + outputs,).

        Second moments are taken so in any case, linear predictors if an intercept may make up for
        it. Whether a prior binds the intercept says `binds_intercept`.
        """
        d = len(center) - self.n_outputs
        self.center = center[:d]
        self.center_y = center[d:]
        may_move = moves_intercept and self.problem.fit_intercept
        if may_move and self.center.any():
            self.shift = self.center
            if not binds_intercept:
                return
            # A prior of the intercept now binds the coefficients along the shift, as tightly as it
            # is long. One column gets that direction, by a reflection (Householder), so that what
            # it does to the others is not lost.
            mirror = self.shift.copy()
            largest = np.argmax(np.abs(mirror))
            length = np.linalg.norm(mirror)
            mirror[largest] += np.copysign(length, mirror[largest])
            self.mirror = mirror / np.linalg.norm(mirror)

    def inner(self, theta):
        """As `Likelihood.inner`."""
        if self.shift is None:
            return theta
        columns, intercepts = self._parted(theta)
        intercepts = intercepts + columns @ self.shift
        return _joined(self._mirrored(columns), intercepts)

    def outer(self, theta):
        """As `Likelihood.outer`."""
        if self.shift is None:
            return theta
        columns, intercepts = self._parted(theta)
        columns = self._mirrored(columns)
        intercepts = intercepts - columns @ self.shift
        return _joined(columns, intercepts)

    def _parted(self, theta):
        """Of parameters (K, p) the coefficients (K, outputs, d) and the intercepts (K, outputs)."""
        shape = (len(theta), self.n_outputs, -1)
        by_output = np.reshape(theta, shape)
        intercepts = by_output[..., -1]
        return by_output[..., :-1], intercepts

    def _mirrored(self, columns):
        if self.mirror is None:
            return columns
        along = columns @ self.mirror
        return columns - 2 * along[..., None] * self.mirror

    def columns(self, X):
        """As `Likelihood.columns`; CSR matrices stay what they are, and are not moved."""
        if sparse.issparse(X):
            return X
        return super().columns(X)

    def design(self, X):
        """Rows of X, its columns moved, with a column of ones for the intercept."""
        if sparse.issparse(X):
            n_ones = int(self.problem.fit_intercept)
            n = X.shape[0]
            ones = np.ones((n, n_ones))
            columns = [X, sparse.csr_array(ones)]
            return sparse.hstack(columns, format="csr")
        if self.shift is not None:
            X = self._mirrored(X - self.shift)
        return self.linear.design(X)

    def moved_together(self, theta, X, y):
        """As `Likelihood.moved_together`: where neither column is zero, before columns are
        moved."""
        acts = self.linear.design(X) != 0
        together = acts.T.astype(float) @ acts
        K = self.n_outputs
        return np.tile(together, (K, K))

    def at(self, eta, Y):
        """Log-likelihoods, shape (rows, K), of linear predictors (rows, K outputs) and targets
        (rows, outputs)."""
        each, targets, n_sets = self._each(eta, Y)
        losses = self.link.loss(each, targets)
        loss = losses.reshape(-1, n_sets)
        if self.counts:
            return -loss - gammaln(Y + 1)
        return -loss

    def values(self, theta, X, y):
        """Log-likelihoods, shape (rows, K), at parameters of shape (K, p); y holds encoded
        targets."""
        d = X.shape[1]
        p = len(self.linear.penalised(d))
        has_noise = theta.shape[1] == p + self.squares
        if theta.shape[1] != p and not has_noise:
            raise ValueError(
                f"draws must hold {p} coefficients, intercepts after them, got shape {theta.shape}."
            )
        A = self.design(X)
        of_means = theta[:, :p]
        eta = self.linear.predictors(of_means, A)
        value = self.at(eta, y)
        constant = 0.5 * np.log(2 * np.pi)
        if theta.shape[1] == p:
            # Of squares without the noise this has deviation one.
            return value - constant if self.squares else value
        log_noise = theta[:, -1]
        precision = np.exp(-2 * log_noise)
        return value * precision - log_noise - constant

    def derivatives(self, theta, X, y):
        """At parameters (p,): rows of the design, linear predictors, and derivatives of the losses
        by these."""
        A = self.design(X)
        eta = self.linear.predictors(theta, A)
        first, second = self.link.derivatives(eta, y)
        return A, eta, first, second

    def start(self, rows):
        """As `Likelihood.start`: zeros."""
        return 0 * self.linear.penalised(rows.blocks.d)

    def expansion(self, theta, X, y, w):
        """As `ProblemLikelihood.expansion`."""
        A, eta, first, second = self.derivatives(theta, X, y)
        values = self.at(eta, y)[:, 0]
        value = w @ values
        weighted = first * w[:, None]
        slope = -(weighted.T @ A).ravel()
        H = self.linear.hessian(second, A, w)
        return bordered(value, slope, H)

    def slopes(self, theta, X, y, w):
        """As `ProblemLikelihood.slopes`."""
        A = self.design(X)
        eta = self.linear.predictors(theta, A)
        residuals = self._residuals(eta, y)
        weighted = w[:, None] * residuals
        sums = weighted.T @ A
        return sums.reshape(len(theta), -1)

    def _residuals(self, eta, y):
        """Slopes of the log-likelihoods by linear predictors (rows, K outputs), of that shape."""
        each, targets, _ = self._each(eta, y)
        return -self.link.slopes(each, targets).reshape(eta.shape)

    def _each(self, eta, Y):
        """Linear predictors (rows, K outputs) and targets (rows, outputs) as rows of outputs, K of
        them for each row, and K."""
        n_sets = eta.shape[1] // self.n_outputs
        each = eta.reshape(-1, self.n_outputs)
        return each, np.repeat(Y, n_sets, axis=0), n_sets

    def longest(self, root, X, y):
        """Largest length of a row of the design, in the metric of a Cholesky factor."""
        A = self.design(X)
        whitened = solve_triangular(root, A.T, lower=True)
        squares = (whitened**2).sum(0)
        return np.sqrt(squares.max())

    def _gradients(self, theta, X, y):
        A, _, first, _ = self.derivatives(theta, X, y)
        return self.linear.gradients(-first, A)

    def gradients_at(self, thetas, X, y):
        """As `ProblemLikelihood.gradients_at`."""
        A = self.design(X)
        eta = self.linear.predictors(thetas, A)
        residuals = self._residuals(eta, y)
        ones = np.ones((len(A), 1))
        return Products(ones, residuals, A)

    def tangents_at(self, thetas, X, y):
        """Log-likelihoods and their gradients at each of some parameters (J, p), the targets, and
        of counts the largest log-likelihood that a row could have (up to a part that no parameter
        moves).

        All that held-out losses near these parameters take, and deviances.
        """
        A = self.design(X)
        eta = self.linear.predictors(thetas, A)
        ones = np.ones(len(A))
        most = 0 * ones
        if self.counts:
            most = xlogy(y, y).sum(1)
        values = self.at(eta, y)
        columns = np.column_stack([ones, y, most, values])
        residuals = self._residuals(eta, y)
        return Products(columns, residuals, A)

    def n_tangents(self, thetas):
        """How many equations `tangents_at` some parameters (J, p) are."""
        n_columns = 2 + self.n_outputs + len(thetas)
        return n_columns + thetas.size

    def second_moments(self, X, y):
        """Products of columns of X, y and a constant: (d + 2) (d + 3) / 2 equations, all that least
        squares sees."""
        n_columns = X.shape[1] + 2
        j, k = np.tril_indices(n_columns)
        ones = np.ones(len(X))
        moved = X - self.center
        moved_y = y - self.center_y
        Z = np.column_stack([ones, moved, moved_y])
        return Z[:, j] * Z[:, k]

    def expansion_at(self, mode, pairs, theta, X, y):
        """As `ProblemLikelihood.expansion_at`, of one output and pairs of columns of the design."""
        j, k = pairs.T
        A, eta, first, second = self.derivatives(mode, X, y)
        second = second[:, 0]
        move = A @ (theta - mode).T
        base = self.at(eta, y)
        foreseen = (first + 0.5 * second * move) * move
        values = self.at(eta + move, y)
        rest = values - base + foreseen
        slopes = first * A
        curvatures = second * A[:, j] * A[:, k]
        ones = np.ones(len(A))
        return np.column_stack([ones, base, slopes, curvatures, rest])


def _smallest(classes):
    return np.min_scalar_type(max(0, len(classes) - 1))


def _joined(columns, intercepts):
    """Parameters (K, p) of their coefficients and intercepts by output."""
    last = intercepts[..., None]
    joined = np.concatenate([columns, last], axis=-1)
    return joined.reshape(len(joined), -1)


def with_noise(model):
    """The `Likelihood` of least squares whose parameters end in the logarithm of the noise's
    deviation."""

    def of_rows(theta, X, y):
        return model.values(theta, X, y).T

    return Likelihood(of_rows)


def likelihood(problem, y, classes=None):
    """The `Likelihood` of a problem, and the targets as it takes them."""
    if isinstance(problem, Likelihood):
        return problem, y
    if isinstance(problem, Problem):
        kind = LinearLikelihood if isinstance(problem, LinearProblem) else ProblemLikelihood
        found = kind(problem, y, classes)
        # The rows have their targets; the model goes to every worker.
        target = found.target
        del found.target
        return found, target
    if not callable(problem) or isinstance(problem, type):
        raise TypeError(
            "problem must be Logistic(), LeastSquares(), Poisson() or another Problem, or a "
            "function of (parameters, X, y) that gives log-likelihoods, got "
            f"{shorten(repr(problem), 80)}{_in_place_of(problem)}."
        )
    return Likelihood(problem), y


def _in_place_of(thing):
    """What to give in place of what is no problem, where that is known: the end of a sentence."""
    if isinstance(thing, type) and issubclass(thing, Problem):
        return f": give {thing.__name__}(...)"
    if hasattr(thing, "fit"):
        kind = thing if isinstance(thing, type) else type(thing)
        problem = OF_TRAINERS.get(kind.__name__)
        return f": in place of the estimator give {problem}" if problem else ""
    if hasattr(thing, "shape"):
        return "; of an array of log-likelihoods, recombine chooses rows"
    return ""
