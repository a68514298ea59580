"""Log-likelihoods by row, of linear models and of anything that gives them, and the equations made of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, gammaln

from handful.checks import as_array, check_number, check_vector
from handful.models import LeastSquares, Logistic
from handful.models.links import Link

ROWS = 256  # functions get a power of two rows, at least so many: few shapes for a compiler


@dataclass(frozen=True)
class Poisson:
    """Poisson regression of counts.

    Parameters
    ----------
    link : "log", the rate is exp(eta); "softplus", it is log(1 + exp(eta)), as in Chen and Campbell 2024
    l2 : strength of the penalty ``l2 / 2 * |coefficients|^2`` beside the mean loss, for ``at="path"``
    fit_intercept : whether the model has an intercept

    Examples
    --------
    >>> from handful import MatchedCoreset
    >>> from handful.matching import Poisson
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = rng.poisson(np.exp(0.3 * X[:, 0] - 1))
    >>> rows = MatchedCoreset(Poisson(), at="posterior", random_state=0).fit(X, y)
    >>> len(rows.indices_)
    19
    """

    link: str = "log"
    l2: float = 1e-2
    fit_intercept: bool = True

    def check(self):
        """ValueError unless the link is known and l2 is positive."""
        if self.link not in ("log", "softplus"):
            raise ValueError(f"link of Poisson must be 'log' or 'softplus', got link={self.link!r}.")
        check_number("l2", self.l2, above=0, of=self)


class PoissonLink(Link):
    """Counts whose rate is exp(Z), or log(1 + exp(Z)), which is not the canonical link."""

    def __init__(self, softplus):
        self.softplus = softplus

    def loss(self, Z, Y):
        """As `Link.loss`, without the logarithm of the factorial."""
        if not self.softplus:
            return (np.exp(Z) - Y * Z)[:, 0]
        rate = np.maximum(np.logaddexp(0, Z), 1e-300)
        return (rate - Y * np.log(rate))[:, 0]

    def derivatives(self, Z, Y):
        """As `Link.derivatives`."""
        if not self.softplus:
            return np.exp(Z) - Y, np.exp(Z)[:, :, None]
        p, rate = expit(Z), np.maximum(np.logaddexp(0, Z), 1e-300)
        return (1 - Y / rate) * p, ((1 - Y / rate) * p * (1 - p) + Y * (p / rate) ** 2)[:, :, None]


class Likelihood:
    """Log-likelihoods of a function of parameters (K, p), X (k, d) and y (k,), or of the first two without y."""

    n_outputs = 0  # linear predictors by which the parameters act, whose derivatives are known
    squares = False  # whether second moments say it all
    classes: Any = None  # the labels of a classification

    def __init__(self, function: Any):
        self.function = function

    def values(self, theta, X, y):
        """Log-likelihoods, shape (rows, K), at parameters of shape (K, p)."""
        k = len(X)
        pad = np.minimum(np.arange(max(ROWS, 1 << (k - 1).bit_length())), k - 1)
        out = as_array(self.function(theta, X[pad], *([] if y is None else [y[pad]])))
        if out.shape != (len(theta), len(pad)) or out.dtype != np.float64:
            raise ValueError(
                f"the log-likelihood must be float64 of shape (parameters, rows) = ({len(theta)}, {len(pad)}), got "
                f"{out.dtype} of shape {out.shape}; JAX needs jax.config.update('jax_enable_x64', True)."
            )
        return out[:, :k].T


class LinearLikelihood(Likelihood):
    """Logistic, Poisson and least-squares regression: parameters are the coefficients, then the intercept.

    Of several classes, those of each class in turn: ``np.column_stack([coef_, intercept_]).ravel()``. Of least squares,
    the logarithm of the noise's deviation may stand last.

    Parameters
    ----------
    problem : Logistic, LeastSquares or Poisson
    y : labels, targets or counts
    classes : array, the labels that there are, sorted; None for those in y
    """

    def __init__(self, problem: Any, y: Any, classes: Any = None):
        problem.check()
        self.problem, self.classes = problem, None
        self.squares, self.counts = isinstance(problem, LeastSquares), isinstance(problem, Poisson)
        if isinstance(problem, Logistic):
            self.classes = np.unique(y) if classes is None else classes
            if not np.isin(y, self.classes).all():
                raise ValueError(f"y must hold the classes that fit got, {self.classes}, got others.")
            self.target = problem.encode(np.concatenate([self.classes, y]))[len(self.classes) :]
        else:
            self.target = check_vector(y, "y", least=0 if self.counts else None)[:, None]
        self.n_outputs = self.target.shape[1]
        self.link = PoissonLink(problem.link == "softplus") if self.counts else problem.link(self.n_outputs)

    def penalised(self, d):
        """One for each parameter that a penalty covers, else zero, shape (p,), for d columns."""
        out = np.ones((self.n_outputs, d + self.problem.fit_intercept))
        out[:, d:] = getattr(self.problem, "penalise_intercept", False)
        return out.ravel()

    def design(self, X):
        """Rows of X with a column of ones for the intercept."""
        return np.column_stack([X, np.ones(len(X))]) if self.problem.fit_intercept else X

    def at(self, eta, Y):
        """Log-likelihoods, shape (rows, K), of linear predictors (rows, K outputs) and targets (rows, outputs)."""
        K = eta.shape[1] // self.n_outputs
        loss = self.link.loss(eta.reshape(-1, self.n_outputs), np.repeat(Y, K, axis=0)).reshape(-1, K)
        return -loss - gammaln(Y + 1) if self.counts else -loss

    def values(self, theta, X, y):
        """Log-likelihoods, shape (rows, K), at parameters of shape (K, p); y holds encoded targets."""
        p = len(self.penalised(X.shape[1]))
        if theta.shape[1] not in (p, p + self.squares):
            raise ValueError(f"draws must hold {p} coefficients, intercepts after them, got shape {theta.shape}.")
        value = self.at(self.design(X) @ theta[:, :p].reshape(len(theta) * self.n_outputs, -1).T, y)
        if theta.shape[1] == p:
            return value
        return value * np.exp(-2 * theta[:, -1]) - theta[:, -1] - 0.5 * np.log(2 * np.pi)

    def derivatives(self, theta, X, y):
        """At parameters (p,): rows of the design, and the first and second derivatives of their losses by output."""
        A = self.design(X)
        return A, *self.link.derivatives(A @ theta.reshape(self.n_outputs, -1).T, y)

    def gradients(self, theta, X, y):
        """Gradient of each row's log-likelihood, shape (rows, p), at parameters of shape (p,)."""
        A, first, _ = self.derivatives(theta, X, y)
        return (-first[:, :, None] * A[:, None, :]).reshape(len(X), -1)

    def expand(self, theta, X, y, w):
        """Weighted sums at parameters of shape (p,): the gradient, and below it minus the Hessian, shape (p + 1, p)."""
        A, first, second = self.derivatives(theta, X, y)
        rows = (w[:, None] * second[:, j] for j in range(self.n_outputs))
        H = [A.T @ (c[:, :, None] * A[:, None, :]).reshape(len(A), -1) for c in rows]
        return np.vstack([-((first * w[:, None]).T @ A).ravel(), *H])


def likelihood(problem, y, classes=None):
    """The `Likelihood` of a problem, and the targets as it takes them."""
    if isinstance(problem, Logistic | Poisson | LeastSquares):
        if y is None:
            raise ValueError(f"y must be given for {type(problem).__name__}, got y=None.")
        found = LinearLikelihood(problem, y, classes)
        return found, found.target
    if not callable(problem) or isinstance(problem, type):
        raise TypeError(
            "problem must be Logistic(), LeastSquares(), Poisson() or a function of (parameters, X, y) that gives "
            f"log-likelihoods, got {problem!r}; of an array of these, recombine chooses rows."
        )
    return Likelihood(problem), y


# Equations: what is summed over the rows, an array with a row for each row.


def values_at(model, X, y, theta):
    """A constant, log-likelihoods at the first of parameters (K, p), and how the others differ: K + 1 equations."""
    values = model.values(theta, X, y)
    return np.column_stack([np.ones(len(values)), values[:, :1], values[:, 1:] - values[:, :1]])


def gradients_at(model, X, y, theta):
    """Gradients at each of some parameters (J, p): J p + 1 equations."""
    return np.column_stack([np.ones(len(X)), *(model.gradients(t, X, y) for t in theta)])


def second_moments(model, X, y):
    """Products of columns of X, y and a constant: (d + 2) (d + 3) / 2 equations, all that least squares sees."""
    j, k = np.tril_indices(X.shape[1] + 2)
    Z = np.column_stack([np.ones(len(X)), X, y])
    return Z[:, j] * Z[:, k]


def expansion_at(model, X, y, mode, basis, pairs, theta):
    """Gradient and curvature at a mode, and what they leave of the log-likelihoods at parameters (K, p).

    2 + p + P + K equations for P pairs of columns of the design multiplied by a basis (p, p).
    """
    j, k = pairs.T
    A, first, second = model.derivatives(mode, X, y)
    first, second, eta, S = first[:, 0], second[:, 0, 0], A @ mode, A @ basis
    move, base = A @ (theta - mode).T, model.at(eta[:, None], y)
    rest = model.at(eta[:, None] + move, y) - base
    rest += (first[:, None] + 0.5 * second[:, None] * move) * move
    return np.column_stack([np.ones(len(A)), base, first[:, None] * S, second[:, None] * S[:, j] * S[:, k], rest])
