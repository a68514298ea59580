"""The bilevel objective in its plainest terms: scipy minimises the inner problem anew for every
question.

The oracle for `handful.bilevel`: dense float64 numpy, one weight for each row of the data set, no
implicit gradient. Labels are -1 and 1.
"""

import numpy as np
from scipy import optimize


def design(problem, X):
    """Rows ``(x, 1)``; the last column is zero for a model without intercept."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    return np.column_stack([X, np.full(len(X), float(problem.fit_intercept))])


def losses(problem, X, y, theta):
    z = design(problem, X) @ theta
    return np.logaddexp(0, -y * z) if problem.classifies else 0.5 * (z - y) ** 2


def penalties(problem, p):
    """The penalty of each of p parameters, the last of which is the intercept."""
    penalty = np.full(p, problem.l2)
    if problem.fit_intercept and not problem.penalise_intercept:
        penalty[-1] = 0
    return penalty


def outer_loss(problem, X, y, u, theta, *, penalised=False):
    loss = u @ losses(problem, X, y, theta) / u.sum()
    return loss + penalised * 0.5 * penalties(problem, len(theta)) @ theta**2


def inner_solution(problem, X, y, weights):
    """Minimiser of ``sum_i weights_i l_i(theta) + l2 / 2 |theta|^2``; without its last entry if the
    intercept is free.

    `weights`, shape (n,), need not add up to one, and may be slightly negative.
    """
    A = design(problem, X)
    penalty = penalties(problem, A.shape[1])

    def objective(theta):
        return weights @ losses(problem, X, y, theta) + 0.5 * penalty @ theta**2

    def slopes(theta):
        z = A @ theta
        if problem.classifies:
            p = 1 / (1 + np.exp(-y * z))
            return -y * (1 - p), p * (1 - p)
        return z - y, np.ones_like(z)

    def gradient(theta):
        return A.T @ (weights * slopes(theta)[0]) + penalty * theta

    def hessian(theta):
        return (A.T * (weights * slopes(theta)[1])) @ A + np.diag(penalty)

    start = np.zeros(A.shape[1])
    rough = optimize.minimize(
        objective, start, jac=gradient, method="BFGS", options={"gtol": 1e-6}
    ).x
    exact = optimize.root(gradient, rough, jac=hessian, tol=1e-14).x
    assert np.abs(gradient(exact)).max() < 1e-9 * max(1.0, np.abs(gradient(start)).max())
    assert objective(exact) <= objective(rough) + 1e-12 * abs(objective(rough))
    return exact


def outer_after_training(problem, X, y, u, weights, *, penalised=False):
    """G(weights): the outer loss of the model trained with `weights`."""
    theta = inner_solution(problem, X, y, weights)
    return outer_loss(problem, X, y, u, theta, penalised=penalised)


def derivative(problem, X, y, u, weights, k, eps=1e-6, *, penalised=False):
    """dG/dweights_k by central differences; the other weights stay as they are."""
    step = eps * (np.arange(len(y)) == k)
    up, down = (
        outer_after_training(problem, X, y, u, weights + sign * step, penalised=penalised)
        for sign in (1, -1)
    )
    return (up - down) / (2 * eps)


def share(n, chosen, c=None):
    """Weights of all n rows: those of the chosen ones (uniform, adding up to 1, by default), zero
    elsewhere."""
    weights = np.zeros(n)
    weights[chosen] = 1 / len(chosen) if c is None else c
    return weights
