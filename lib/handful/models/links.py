"""Linear predictors of rows, losses of them, and what these mean for the parameters.

A loss is a function of linear predictors (logits) ``Z``, targets ``Y`` and means ``P``, all of
shape (n, K). With its canonical link the derivative of a row's loss by its logits is ``P - Y``, and
the second derivative C depends on P alone. A loss with another link can be matched.
"""

import numpy as np

from handful.tables import dense


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
        ones = np.ones(len(X), X.dtype)
        return np.column_stack([X, ones])

    def penalised(self, d):
        """One for each parameter of d columns that the penalty covers, else zero, shape (p,)."""
        n_columns = d + self.problem.fit_intercept
        covered = np.ones((self.n_outputs, n_columns))
        covered[:, d:] = self.problem.penalise_intercept
        return covered.ravel()

    def predictors(self, theta, A):
        """Linear predictors, shape (n, J K), of rows A of the design at parameters (p,) or (J,
        p)."""
        n_columns = A.shape[1]
        of_outputs = theta.reshape(-1, n_columns)
        return A @ of_outputs.T

    def gradients(self, first, A):
        """Gradients of the rows' losses by the parameters, shape (n, p), of those by the
        predictors, (n, K)."""
        products = first[:, :, None] * A[:, None]
        return products.reshape(len(A), -1)

    def hessian(self, second, A, weights):
        """Second derivative of the weighted sum of losses by the parameters, shape (p, p), of those
        by the predictors, (n, K, K)."""
        weighted = weights[:, None, None] * second
        rows = []
        for of_output in weighted.swapaxes(0, 1):
            by_parameters = self.gradients(of_output, A)
            rows.append(A.T @ by_parameters)
        return np.vstack(rows)


class Link:
    """Base class, of losses of one logit: their `curvature` is a number a row. `SoftmaxLink` has
    more logits."""

    def mean(self, Z):
        """Means for logits."""
        raise NotImplementedError

    def loss(self, Z, Y):
        """Loss of every row, shape (n,)."""
        raise NotImplementedError

    def curvature(self, P):
        """C of every row, shape (n, 1)."""
        raise NotImplementedError

    @property
    def canonical(self):
        """Whether the first derivative is ``P - Y``. A link for which it is not overrides
        `derivatives`."""
        return type(self).derivatives is Link.derivatives

    def derivatives(self, Z, Y):
        """First and second derivatives of every row's loss by its logits, shapes (n, K) and (n, K,
        K)."""
        P = self.mean(Z)
        return P - Y, self.hessians(P)

    def slopes(self, Z, Y):
        """First derivative of every row's loss by its logits, shape (n, K)."""
        if self.canonical:
            return self.mean(Z) - Y
        first, _ = self.derivatives(Z, Y)
        return first

    def curve(self, P, D):
        """``C_i d_i`` for every row i of D, shape (n, K)."""
        return self.curvature(P) * D

    def hessians(self, P):
        """``C_i`` of every row, shape (n, K, K)."""
        n, K = P.shape
        identity = np.eye(K, dtype=P.dtype)
        identities = np.tile(identity, (n, 1))
        each = np.repeat(P, K, axis=0)
        return self.curve(each, identities).reshape(n, K, K)

    def diagonal(self, P):
        """Mean of the diagonal of every ``C_i``, shape (n,)."""
        return self.curvature(P)[:, 0]

    def forms(self, P, T):
        """``t_k' C_i t_k`` for rows i of P and k of T, shape (n, k)."""
        return self.curvature(P) @ (T * T).T

    def factors(self, P, T):
        """K matrices F, shape (n, k), whose products ``F[i, k] F[i, l]`` add up to ``t_k' C_i
        t_l``."""
        yield np.sqrt(self.curvature(P)) @ T.T


class LogisticLink(Link):
    """Two classes: one logit, targets of 0 and 1 or between."""

    def mean(self, Z):
        """As `Link.mean`."""
        # beyond it the exponential would overflow in float32
        bounded = np.minimum(-Z, 80)
        return 1 / (1 + np.exp(bounded))

    def loss(self, Z, Y):
        """As `Link.loss`."""
        smaller = np.exp(-np.abs(Z))
        tail = np.log(1 + smaller)
        losses = np.maximum(Z, 0) - Y * Z + tail
        return losses[:, 0]

    def curvature(self, P):
        """As `Link.curvature`."""
        return P * (1 - P)


class SquaredLink(Link):
    """Half the squared error."""

    def mean(self, Z):
        """As `Link.mean`."""
        return Z

    def loss(self, Z, Y):
        """As `Link.loss`."""
        squares = np.square(Z - Y)
        return 0.5 * np.sum(squares, axis=1)

    def curvature(self, P):
        """As `Link.curvature`."""
        return np.ones_like(P)

    def diagonal(self, P):
        """As `Link.diagonal`, in float64 whatever P is."""
        return np.ones(len(P))


class PoissonLink(Link):
    """Counts whose rate is exp(Z)."""

    def mean(self, Z):
        """As `Link.mean`."""
        # float32 ends at exp(88)
        bounded = np.minimum(Z, 80)
        return np.exp(bounded)

    def loss(self, Z, Y):
        """As `Link.loss`, without the logarithm of the factorial."""
        return (self.mean(Z) - Y * Z)[:, 0]

    def curvature(self, P):
        """As `Link.curvature`."""
        return P


class SoftmaxLink(Link):
    """K > 2 classes, targets that add up to one."""

    def mean(self, Z):
        """As `Link.mean`."""
        E, _ = _exponentials(Z)
        E /= E.sum(axis=0)
        return E.T

    def loss(self, Z, Y):
        """As `Link.loss`."""
        E, top = _exponentials(Z)
        normaliser = np.log(E.sum(axis=0)) + top
        of_targets = np.einsum("nk,nk->n", Y, Z)
        return normaliser - of_targets

    def curve(self, P, D):
        """As `Link.curve`."""
        PD = P * D
        # a product, as sums along short rows take longer
        ones = np.ones((P.shape[1], 1), P.dtype)
        totals = PD @ ones
        PD -= P * totals
        return PD

    def diagonal(self, P):
        """As `Link.diagonal`."""
        return (P * (1 - P)).mean(axis=1)

    def forms(self, P, T):
        """As `Link.forms`."""
        squares = P @ (T * T).T
        means = P @ T.T
        return squares - np.square(means)

    def factors(self, P, T):
        """As `Link.factors`."""
        mean = P @ T.T
        for p, t in zip(P.T, T.T):
            root = np.sqrt(p)
            yield root[:, None] * (t - mean)


def _exponentials(Z):
    # exp(Z - top) and top = max Z of every row, class by class in memory: sums along short rows
    # take longer
    Z = np.ascontiguousarray(Z.T)
    top = Z.max(axis=0)
    E = Z - top
    return np.exp(E, out=E), top
