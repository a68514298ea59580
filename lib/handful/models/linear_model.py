"""What every linear model shares: its columns, its parameters and their order, and what a loss of
the linear predictors means for the parameters."""

import numpy as np

from handful.linalg import dense


class LinearModel:
    """The model of a linear problem with K outputs: K linear predictors of a row, and a loss of
    them.

    Parameters have shape (p,), p = K (d + 1): for each output in turn the coefficients of d
    columns, then its intercept, which is absent for a problem without one.

    Parameters
    ----------
    problem : LinearProblem
    n_outputs : int, K
    """

    def __init__(self, problem, n_outputs):
        self.problem = problem
        self.n_outputs = n_outputs
        self.link = problem.link(n_outputs)

    def design(self, X):
        """Rows X, shape (n, d), with a column of ones last if there is an intercept."""
        X = dense(X)
        if not self.problem.fit_intercept:
            return X
        return np.column_stack([X, np.ones(len(X), X.dtype)])

    def penalised(self, d):
        """One for each parameter of d columns that the penalty covers, else zero, shape (p,)."""
        covered = np.ones((self.n_outputs, d + self.problem.fit_intercept))
        covered[:, d:] = self.problem.penalise_intercept
        return covered.ravel()

    def predictors(self, theta, A):
        """Linear predictors, shape (n, J K), of rows A of the design at parameters (p,) or (J,
        p)."""
        return A @ theta.reshape(-1, A.shape[1]).T

    def gradients(self, first, A):
        """Gradients of the rows' losses by the parameters, shape (n, p), of those by the
        predictors, (n, K)."""
        return (first[:, :, None] * A[:, None]).reshape(len(A), -1)

    def hessian(self, second, A, weights):
        """Second derivative of the weighted sum of losses by the parameters, shape (p, p), of those
        by the predictors, (n, K, K)."""
        weighted = weights[:, None, None] * second
        rows = [A.T @ self.gradients(of_output, A) for of_output in weighted.swapaxes(0, 1)]
        return np.vstack(rows)
