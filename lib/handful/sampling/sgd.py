"""Stochastic gradient descent for linear models that takes any sampler for its batches."""

import numpy as np
from numba import njit
from sklearn.utils import check_array

from handful.checks import ConvergenceError, check_integer, check_number, check_rows
from handful.sampling.base import LARGEST_LOSS

LOSSES = {"hinge": 0, "logistic": 1, "squared": 2}


@njit(cache=True)
def _gradient(X, y, indices, weights, coef, loss):
    """Weighted mean gradient of a batch, its plain mean, and each point's gradient norm."""
    b, d = indices.size, X.shape[1]
    weighted, plain, norms = np.zeros(d), np.zeros(d), np.zeros(b)
    for i in range(b):
        x = X[indices[i]]
        value, sq_norm = 0.0, 0.0
        for j in range(d):
            value += x[j] * coef[j]
            sq_norm += x[j] * x[j]
        target = y[indices[i]]
        if loss == 2:
            slope = 2.0 * (value - target)
        elif loss == 1:
            slope = -target / (1.0 + np.exp(target * value))
        else:
            slope = -target if target * value < 1.0 else 0.0
        norms[i] = abs(slope) * np.sqrt(sq_norm)
        for j in range(d):
            plain[j] += slope * x[j] / b
            weighted[j] += weights[i] * slope * x[j] / b
    return weighted, plain, norms


def linear_sgd(X, y, sampler, *, loss, learning_rate, n_steps, coef=None, power=0.5, truncation=0.0, record_at=()):
    """Train a linear model by SGD on batches from `sampler`, which is told each point's gradient norm.

    coef <- coef - learning_rate / t^power * (weighted mean gradient of the batch). A sampler of sets is told the norm
    of the batch's mean gradient instead. There is no regulariser and no intercept: append a constant feature.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array, shape (n,); -1 or +1 for "hinge" and "logistic", numbers for "squared"
    sampler : one of handful.sampling's samplers over n points
    loss : "hinge" max(0, 1 - y f), "logistic" log(1 + exp(-y f)) or "squared" (f - y)^2
    learning_rate : float, length of the first step
    n_steps : int, batches
    coef : array, shape (d,), the start; default zero
    power : float, how fast the steps shrink
    truncation : float in [0, 1), importance weights r become (1 - truncation) r + truncation: less variance
        for some bias (VRM, section 6.2)
    record_at : increasing ints, the numbers of steps after which to record the coefficients

    Returns
    -------
    coef : array, shape (d,)
    path : array, shape (len(record_at), d)

    Raises
    ------
    ValueError
        for an unknown loss, labels other than -1 and +1, or a sampler over another number of points
    ConvergenceError
        when the coefficients overflow: the step is too long
    """
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(f"loss must be one of {sorted(LOSSES)}, got {loss!r}.")
    check_number("learning_rate", learning_rate, above=0)
    check_integer("n_steps", n_steps)
    check_number("power", power, least=0, most=10)
    check_number("truncation", truncation, least=0, below=1)
    X = np.ascontiguousarray(check_rows(X))
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    if y.shape != (len(X),) or sampler.n != len(X):
        raise ValueError(f"X has {len(X)} rows, y the shape {y.shape}, and the sampler draws from {sampler.n} points.")
    if loss != "squared" and not np.isin(y, (-1, 1)).all():
        raise ValueError(f"the {loss} loss needs labels -1 and +1, got {np.unique(y)[:5]}.")
    coef = np.zeros(X.shape[1]) if coef is None else np.array(coef, dtype=np.float64)
    path = []
    wanted = set(record_at)
    for t in range(1, n_steps + 1):
        indices, weights = sampler.sample()
        used = (1.0 - truncation) * weights + truncation
        gradient, plain, norms = _gradient(X, y, indices, used, coef, LOSSES[loss])
        if not norms.sum() < LARGEST_LOSS:
            raise ConvergenceError(
                f"linear SGD diverged by step {t} of {n_steps}; scale X, or lower learning_rate={learning_rate}."
            )
        sampler.update(np.linalg.norm(plain) if sampler.draws_sets else norms)
        coef -= learning_rate / t**power * gradient
        if t in wanted:
            path.append(coef.copy())
    return coef, np.array(path).reshape(-1, X.shape[1])
