"""Passes over the whole data set for multinomial logistic regression: what `passes.DataPasses` is to linear models."""

from copy import copy

import numpy as np
from scipy import sparse

from handful.bilevel.numerics.multinomial import softmax

SOFTMAX = 2  # the kind of loss, beside LOGISTIC and SQUARED


class SoftmaxPasses:
    """The data set, and the buffers that passes write to.

    Parameters
    ----------
    X : float array or CSR matrix, shape (n, d)
    y : targets in the type of X, shape (n, classes), rows that add up to one
    sample_weight : shape (n,), used in the outer loss
    kind : SOFTMAX

    Attributes
    ----------
    r : shape (n, classes), probabilities minus targets at the parameters of the last `outer_gradient`
    """

    def __init__(self, X, y, sample_weight, kind):
        self.X, self.y = X, y
        self._share = (sample_weight / sample_weight.sum()).astype(X.dtype)
        self._uniform = bool((sample_weight == sample_weight[0]).all())
        self._P, self.r = np.empty_like(y), np.empty_like(y)
        self._loss = np.empty(len(y), dtype=X.dtype)

    def twin(self):
        """The same data with residuals of its own, for a second model."""
        other = copy(self)
        other.r, other._loss = np.empty_like(self.r), np.empty_like(self._loss)
        return other

    def outer_gradient(self, theta):
        """Gradient of the mean loss at `theta`, intercepts first, shape (d + 1, classes) in float64."""
        X, P = self.X, self._P
        theta = theta.astype(X.dtype)
        if sparse.issparse(X):
            P[:] = X @ theta[1:]
        else:
            np.matmul(X, theta[1:], out=P)
        P += theta[0]
        softmax(P, self.y, self._loss)
        R = np.subtract(P, self.y, out=self.r)
        weighted, unit = (R, float(self._share[0])) if self._uniform else (R * self._share[:, None], 1.0)
        return unit * np.vstack([weighted.sum(axis=0)[None], X.T @ weighted]).astype(np.float64)

    def mean_loss(self):
        """Weighted mean loss at the parameters of the last `outer_gradient`."""
        return float(np.dot(self._loss.astype(np.float64), self._share))

    def linear_scores(self, V):
        """``sum_c r_kc a_k' v_c`` for every row k, with the residuals of the last `outer_gradient`; shape (n,)."""
        V = V.astype(self.X.dtype)
        return np.einsum("nk,nk->n", self.r, self.X @ V[1:] + V[0])
