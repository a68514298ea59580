"""Stochastic gradient descent for linear models that takes any sampler for its batches."""

import numpy as np

from handful_papers.vrm.sets import SetMixture

# Of the losses max(0, 1 - y f) and (f - y)^2, in f.
SLOPES = {
    "hinge": lambda f, y: np.where(y * f < 1, -y, 0.0),
    "squared": lambda f, y: 2 * (f - y),
}


def linear_sgd(
    X,
    y,
    sampler,
    *,
    loss,
    learning_rate,
    n_steps,
    truncation=0.0,
    record_at=(),
):
    """Train a linear model by SGD on batches from `sampler`, which is told each point's gradient
    norm.

    coef <- coef - learning_rate / sqrt(t) * (weighted mean gradient of the batch). A sampler of
    sets is told the norm of the batch's mean gradient instead. There is no regulariser and no
    intercept: append a constant feature.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array, shape (n,); -1 or +1 for "hinge"
    sampler : one of handful.sampling's samplers over n points, or a `SetMixture`
    loss : a key of `SLOPES`
    learning_rate : float, length of the first step
    n_steps : int, batches
    truncation : float in [0, 1), importance weights r become (1 - truncation) r + truncation: less
        variance for some bias (VRM, section 6.2)
    record_at : increasing ints, the numbers of steps after which to record the coefficients

    Returns
    -------
    coef : array, shape (d,)
    path : array, shape (len(record_at), d)
    """
    coef = np.zeros(X.shape[1])
    path = []
    wanted = set(record_at)
    for t in range(1, n_steps + 1):
        indices, weights = sampler.sample()
        rows = X[indices]
        slopes = SLOPES[loss](rows @ coef, y[indices])
        if isinstance(sampler, SetMixture):
            sampler.update(np.linalg.norm(slopes @ rows) / len(rows))
        else:
            lengths = np.sqrt((rows * rows).sum(axis=1))
            sampler.update(np.abs(slopes) * lengths)
        used = (1 - truncation) * weights + truncation
        coef -= learning_rate / t**0.5 * ((used * slopes) @ rows) / len(rows)
        if t in wanted:
            path.append(coef.copy())
    return coef, np.array(path).reshape(-1, X.shape[1])
