"""Log-likelihoods by row, of linear models and of anything that gives them, and the equations made of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, gammaln

from handful.checks import as_array, check_vector, signed_labels
from handful.models import LeastSquares, Logistic

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


def log_sum(eta):
    """Logarithm of the sum of exponentials over the last axis; scipy's takes several times as long on few columns."""
    top = eta.max(-1)
    return top + np.log(np.exp(eta - top[..., None]).sum(-1))


class Likelihood:
    """Log-likelihoods of a function of parameters (K, p), X (k, d) and y (k,), or of the first two without y."""

    one_output = False  # whether the parameters act by one linear predictor, whose derivatives are known

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
    """

    def __init__(self, problem: Any, y: Any):
        self.intercept, self.n_classes = problem.fit_intercept, 1
        self.penalise_intercept = getattr(problem, "penalise_intercept", False)
        self.link = {Logistic: "logit", LeastSquares: "identity"}.get(type(problem)) or problem.link
        if self.link == "logit":
            classes, signs = signed_labels(y, "logistic regression", several=True)
            self.n_classes = 1 if len(classes) == 2 else len(classes)
            self.target = (signs + 1) / 2 if self.n_classes == 1 else np.argmax(signs, axis=0)
        elif self.link in ("log", "softplus", "identity"):
            self.target = check_vector(y, "y", least=None if self.link == "identity" else 0)
        else:
            raise ValueError(f"link of Poisson must be 'log' or 'softplus', got link={self.link!r}.")
        self.one_output = self.n_classes == 1

    def penalised(self, d):
        """One for each parameter that a penalty covers, else zero, shape (p,), for d columns."""
        out = np.ones((self.n_classes, d + self.intercept))
        out[:, d:] = self.penalise_intercept
        return out.ravel()

    def design(self, X):
        """Rows of X with a column of ones for the intercept."""
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else np.asarray(X, float)

    def values(self, theta, X, y):
        """Log-likelihoods, shape (rows, K), at parameters of shape (K, p); y holds encoded targets."""
        p = X.shape[1] + self.intercept
        blocks = theta[:, : p * self.n_classes].reshape(-1, p)
        eta = X @ blocks[:, : X.shape[1]].T + (blocks[:, -1] if self.intercept else 0.0)
        if self.n_classes > 1:
            eta = eta.reshape(len(X), len(theta), -1)
            return np.take_along_axis(eta, y[:, None, None], 2)[:, :, 0] - log_sum(eta)
        value = self.row_values(eta, y[:, None])
        if theta.shape[1] == p:
            return value
        return value * np.exp(-2 * theta[:, -1]) - theta[:, -1] - 0.5 * np.log(2 * np.pi)

    def row_values(self, eta, t):
        """Log-likelihoods of linear predictors eta and targets t."""
        if self.link == "identity":
            return -0.5 * (t - eta) ** 2
        if self.link == "log":
            return t * eta - np.exp(eta) - gammaln(t + 1)
        if self.link == "logit":  # log1p would take twice the time, for digits that do not count
            return t * eta - np.maximum(eta, 0) - np.log(1 + np.exp(-np.abs(eta)))
        rate = np.maximum(np.logaddexp(0, eta), 1e-300)
        return t * np.log(rate) - rate - gammaln(t + 1)

    def slopes(self, eta, t):
        """First and second derivative of a row's log-likelihood by its linear predictor."""
        if self.link == "identity":
            return t - eta, -np.ones_like(eta)
        if self.link == "log":
            return t - np.exp(eta), -np.exp(eta)
        p = expit(eta)
        if self.link == "logit":
            return t - p, -p * (1 - p)
        rate = np.maximum(np.logaddexp(0, eta), 1e-300)
        return (t / rate - 1) * p, (t / rate - 1) * p * (1 - p) - t * (p / rate) ** 2

    def derivatives(self, theta, X, y):
        """At parameters of shape (p,): rows of the design, their slopes (rows, C) and curvatures (rows, C, C)."""
        A, T = self.design(X), theta.reshape(self.n_classes, -1).T
        if self.n_classes == 1:
            first, second = self.slopes(A @ theta, y)
            return A, first[:, None], second[:, None, None]
        eta = A @ T
        P = np.exp(eta - log_sum(eta)[:, None])
        return A, (y[:, None] == np.arange(len(T.T))) - P, P[:, :, None] * (P[:, None, :] - np.eye(len(T.T)))

    def gradients(self, theta, X, y):
        """Gradient of each row's log-likelihood, shape (rows, p), at parameters of shape (p,)."""
        A, first, _ = self.derivatives(theta, X, y)
        return (first[:, :, None] * A[:, None, :]).reshape(len(X), -1)

    def expand(self, theta, X, y, w):
        """Weighted sums at parameters of shape (p,): the gradient, and below it minus the Hessian, shape (p + 1, p)."""
        A, first, second = self.derivatives(theta, X, y)
        H = np.empty((self.n_classes, A.shape[1], self.n_classes, A.shape[1]))
        for j, k in np.ndindex(self.n_classes, self.n_classes):
            H[j, :, k] = (A.T * (-w * second[:, j, k])) @ A
        return np.vstack([((first * w[:, None]).T @ A).ravel(), H.reshape(theta.size, -1)])


def likelihood(problem, y):
    """The `Likelihood` of a problem, and the targets as it takes them."""
    if isinstance(problem, Logistic | Poisson | LeastSquares):
        found = LinearLikelihood(problem, y)
        return found, found.target
    if not callable(problem):
        raise TypeError(
            "problem must be Logistic(), LeastSquares(), Poisson(), a function of (parameters, X, y) that gives "
            f"log-likelihoods, or an array of them, got {problem!r}."
        )
    return Likelihood(problem), y


# Equations: what is summed over the rows, an array with a row for each row.


def values_at(model, X, y, theta):
    """Log-likelihoods at parameters (K, p): K + 1 equations."""
    return by_difference(model.values(theta, X, y))


def by_difference(values):
    """A constant, log-likelihoods at the first parameters, and how the others differ from them."""
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
    move, base = A @ (theta - mode).T, model.row_values(eta, y)
    rest = model.row_values(eta[:, None] + move, y[:, None]) - base[:, None]
    rest -= (first[:, None] + 0.5 * second[:, None] * move) * move
    return np.column_stack([np.ones(len(A)), base, first[:, None] * S, second[:, None] * S[:, j] * S[:, k], rest])
