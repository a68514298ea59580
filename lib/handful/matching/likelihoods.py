"""Log-likelihoods by row, of linear models and of anything that gives them, and the equations made
of them.

An equation is a number for each row, whose sum over the rows is kept; the methods that give
equations have a row for each row. `handful.models.newton` says what an expansion is.
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from handful.matching.moments import moments
from handful.models.linear import LeastSquares, LinearProblem, Poisson
from handful.models.newton import bordered
from handful.types import as_array

# functions get a power of two rows, at least so many: few shapes for a compiler
ROWS = 256


class Likelihood:
    """Log-likelihoods of a function of parameters (K, p), X (k, d) and y (k,), or of the first two
    without y."""

    # linear predictors by which the parameters act, whose derivatives are known
    n_outputs = 0
    # whether second moments say it all
    squares = False
    # the labels of a classification
    classes: Any = None

    def __init__(self, function: Any):
        self.function = function

    def values(self, theta, X, y):
        """Log-likelihoods, shape (rows, K), at parameters of shape (K, p)."""
        k = len(X)
        pad = np.minimum(np.arange(max(ROWS, 1 << (k - 1).bit_length())), k - 1)
        out = as_array(self.function(theta, X[pad], *([] if y is None else [y[pad]])))
        if out.shape != (len(theta), len(pad)) or out.dtype != np.float64:
            raise ValueError(
                f"the log-likelihood must be float64 of shape (parameters, rows) = ({len(theta)}, "
                f"{len(pad)}), got "
                f"{out.dtype} of shape {out.shape}; JAX needs jax.config.update('jax_enable_x64', "
                "True)."
            )
        return out[:, :k].T

    def sums(self, theta, X, y, w):
        """Weighted sums of the log-likelihoods at parameters of shape (K, p), shape (K,)."""
        return w @ self.values(theta, X, y)

    def values_at(self, theta, X, y):
        """A constant, the log-likelihood at the first of parameters (K, p), how the others differ:
        K + 1 equations."""
        values = self.values(theta, X, y)
        return np.column_stack([np.ones(len(values)), values[:, :1], values[:, 1:] - values[:, :1]])

    def moved_together(self, theta, X, y):
        """In how many rows two parameters act together near some (p,), shape (p, p)."""
        values = self.values(
            np.vstack([theta, theta + np.diag(1e-3 * np.maximum(1.0, np.abs(theta)))]), X, y
        )
        moved = (values[:, 1:] != values[:, :1]).astype(np.float32)
        return (moved.T @ moved).astype(float)

    def inner(self, theta):
        """Parameters as the methods take them, of those that users see; both of shape (K, p)."""
        return theta

    def outer(self, theta):
        """Parameters that users see, of those that the methods take."""
        return theta


class LinearLikelihood(Likelihood):
    """Log-likelihoods of a linear problem: parameters are the coefficients, then the intercept.

    Of several classes, those of each class in turn: ``np.column_stack([coef_,
    intercept_]).ravel()``. Of least squares, the logarithm of the noise's deviation may stand last.
    Columns far from zero lose digits in every sum of squares, so they may be moved to zero
    (`move`): the methods then take the intercept of moved columns, as `inner` gives it.

    Parameters
    ----------
    problem : LinearProblem, whose link gives losses and derivatives
    y : labels, targets or counts
    classes : array, the labels that there are, sorted; None for those in y
    name : str, of y, for messages
    """

    def __init__(self, problem: Any, y: Any, classes: Any = None, name: str = "y"):
        problem.check()
        self.problem = problem
        n = len(y)
        self.squares = isinstance(problem, LeastSquares)
        self.counts = isinstance(problem, Poisson)
        if problem.classifies:
            self.classes = np.unique(y) if classes is None else classes
            if len(unknown := np.setdiff1d(y, self.classes)):
                raise ValueError(
                    f"{name} must hold the classes {self.classes}, got {unknown[:3].tolist()} "
                    "besides."
                )
            y = np.concatenate([self.classes, y])
        self.target = problem.encode(y)[-n:]
        self.n_outputs = self.target.shape[1]
        self.link = problem.link(self.n_outputs)
        # What columns of second moments, shape (d,), and the targets there are moved by.
        self.center = self.center_y = 0.0
        # What columns of linear predictors are moved by, or None; and the normal of their
        # reflection.
        self.shift = self.mirror = None

    def moments(self, X, y, w):
        """Those of the columns of X and the target, see `handful.matching.moments`."""
        return moments(np.column_stack([X, y]), w)

    def move(self, center, *, moves_intercept):
        """Take columns of X, and the target after them, about these values, shape (d + outputs,).

        Second moments are taken so in any case, linear predictors if an intercept may make up for
        it.
        """
        d = len(center) - self.n_outputs
        self.center = center[:d]
        self.center_y = center[d:]
        if moves_intercept and self.problem.fit_intercept and self.center.any():
            self.shift = self.center
            # A prior of the intercept now binds the coefficients along the shift, as tightly as it
            # is long. One column gets that direction, by a reflection (Householder), so that what
            # it does to the others is not lost.
            largest = np.argmax(np.abs(self.shift))
            mirror = self.shift.copy()
            mirror[largest] += np.copysign(np.linalg.norm(self.shift), self.shift[largest])
            self.mirror = mirror / np.linalg.norm(mirror)

    def inner(self, theta):
        """As `Likelihood.inner`."""
        if self.shift is None:
            return theta
        theta = self._by_output(theta)
        theta[:, :, -1] += theta[:, :, :-1] @ self.shift
        theta[:, :, :-1] = self._mirrored(theta[:, :, :-1])
        return theta.reshape(len(theta), -1)

    def outer(self, theta):
        """As `Likelihood.outer`."""
        if self.shift is None:
            return theta
        theta = self._by_output(theta)
        theta[:, :, :-1] = self._mirrored(theta[:, :, :-1])
        theta[:, :, -1] -= theta[:, :, :-1] @ self.shift
        return theta.reshape(len(theta), -1)

    def _by_output(self, theta):
        return np.array(theta).reshape(len(theta), self.n_outputs, -1)

    def _mirrored(self, columns):
        return columns - 2 * (columns @ self.mirror)[..., None] * self.mirror

    def penalised(self, d):
        """One for each parameter that a penalty covers, else zero, shape (p,), for d columns."""
        out = np.ones((self.n_outputs, d + self.problem.fit_intercept))
        out[:, d:] = self.problem.penalise_intercept
        return out.ravel()

    def design(self, X):
        """Rows of X, its columns moved, with a column of ones for the intercept."""
        if not self.problem.fit_intercept:
            return X
        moved = X if self.shift is None else self._mirrored(X - self.shift)
        return np.column_stack([moved, np.ones(len(X), X.dtype)])

    def moved_together(self, theta, X, y):
        """As `Likelihood.moved_together`: where neither column is zero, before columns are
        moved."""
        acts = X != 0
        if self.problem.fit_intercept:
            acts = np.column_stack([acts, np.ones(len(X), bool)])
        together = acts.T.astype(float) @ acts
        return np.tile(together, (self.n_outputs, self.n_outputs))

    def at(self, eta, Y):
        """Log-likelihoods, shape (rows, K), of linear predictors (rows, K outputs) and targets
        (rows, outputs)."""
        K = eta.shape[1] // self.n_outputs
        loss = self.link.loss(eta.reshape(-1, self.n_outputs), np.repeat(Y, K, axis=0)).reshape(
            -1, K
        )
        return -loss - gammaln(Y + 1) if self.counts else -loss

    def values(self, theta, X, y):
        """Log-likelihoods, shape (rows, K), at parameters of shape (K, p); y holds encoded
        targets."""
        p = len(self.penalised(X.shape[1]))
        if theta.shape[1] not in (p, p + self.squares):
            raise ValueError(
                f"draws must hold {p} coefficients, intercepts after them, got shape {theta.shape}."
            )
        value = self.at(self.design(X) @ theta[:, :p].reshape(len(theta) * self.n_outputs, -1).T, y)
        if theta.shape[1] == p:
            return value
        return value * np.exp(-2 * theta[:, -1]) - theta[:, -1] - 0.5 * np.log(2 * np.pi)

    def derivatives(self, theta, X, y):
        """At parameters (p,): rows of the design, linear predictors, and derivatives of the losses
        by these."""
        A = self.design(X)
        eta = A @ theta.reshape(self.n_outputs, -1).T
        return A, eta, *self.link.derivatives(eta, y)

    def expansion(self, theta, X, y, w):
        """The expansion of the weighted sum at parameters of shape (p,), shape (1 + p, 1 + p)."""
        A, eta, first, second = self.derivatives(theta, X, y)
        H = [
            A.T @ ((w[:, None] * c)[:, :, None] * A[:, None]).reshape(len(A), -1)
            for c in second.swapaxes(0, 1)
        ]
        return bordered(
            w @ self.at(eta, y)[:, 0], -((first * w[:, None]).T @ A).ravel(), np.vstack(H)
        )

    def slopes(self, theta, X, y, w):
        """Slopes of the weighted sum at parameters of shape (K, p), shape (K, p)."""
        A = self.design(X)
        eta = A @ theta.reshape(len(theta) * self.n_outputs, -1).T
        first, _ = self.link.derivatives(
            eta.reshape(-1, self.n_outputs), np.repeat(y, len(theta), axis=0)
        )
        weighted = w[:, None] * first.reshape(len(A), -1)
        return -(weighted.T @ A).reshape(len(theta), -1)

    def longest(self, root, X, y):
        """Largest length of a row of the design, in the metric of a Cholesky factor."""
        return np.sqrt((solve_triangular(root, self.design(X).T, lower=True) ** 2).sum(0).max())

    def gradients_at(self, thetas, X, y):
        """Gradients at each of some parameters (J, p): J p + 1 equations."""
        found = [np.ones((len(X), 1))]
        for theta in thetas:
            A, _, first, _ = self.derivatives(theta, X, y)
            found.append((-first[:, :, None] * A[:, None, :]).reshape(len(X), -1))
        return np.hstack(found)

    def second_moments(self, X, y):
        """Products of columns of X, y and a constant: (d + 2) (d + 3) / 2 equations, all that least
        squares sees."""
        j, k = np.tril_indices(X.shape[1] + 2)
        Z = np.column_stack([np.ones(len(X)), X - self.center, y - self.center_y])
        return Z[:, j] * Z[:, k]

    def expansion_at(self, mode, pairs, theta, X, y):
        """Of one output: gradient and curvature at a mode, and what they leave of log-likelihoods
        at parameters (K, p).

        2 + p + P + K equations for P pairs of columns of the design.
        """
        j, k = pairs.T
        A, eta, first, second = self.derivatives(mode, X, y)
        second = second[:, 0]
        move = A @ (theta - mode).T
        base = self.at(eta, y)
        rest = self.at(eta + move, y) - base + (first + 0.5 * second * move) * move
        return np.column_stack([np.ones(len(A)), base, first * A, second * A[:, j] * A[:, k], rest])


def with_noise(model):
    """The `Likelihood` of least squares whose parameters end in the logarithm of the noise's
    deviation."""

    def of_rows(theta, X, y):
        return model.values(theta, X, y).T

    return Likelihood(of_rows)


def likelihood(problem, y, classes=None):
    """The `Likelihood` of a problem, and the targets as it takes them."""
    if isinstance(problem, LinearProblem):
        if y is None:
            raise ValueError(f"y must be given for {type(problem).__name__}, got y=None.")
        found = LinearLikelihood(problem, y, classes)
        return found, found.target
    if not callable(problem) or isinstance(problem, type):
        raise TypeError(
            "problem must be Logistic(), LeastSquares(), Poisson() or a function of (parameters, "
            "X, y) that gives "
            f"log-likelihoods, got {problem!r}; of an array of these, recombine chooses rows."
        )
    return Likelihood(problem), y
