"""Losses of generalised linear models with their canonical link: of logits ``Z``, targets ``Y`` and
means ``P``, all of shape (n, K). The derivative of a row's loss by its logits is ``P - Y``, the
second derivative C depends on P alone."""

import numpy as np


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

    def derivatives(self, Z, Y):
        """First and second derivatives of every row's loss by its logits, shapes (n, K) and (n, K,
        K)."""
        P = self.mean(Z)
        return P - Y, self.hessians(P)

    def curve(self, P, D):
        """``C_i d_i`` for every row i of D, shape (n, K)."""
        return self.curvature(P) * D

    def hessians(self, P):
        """``C_i`` of every row, shape (n, K, K)."""
        n, K = P.shape
        identities = np.tile(np.eye(K, dtype=P.dtype), (n, 1))
        return self.curve(np.repeat(P, K, axis=0), identities).reshape(n, K, K)

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
        return 1 / (1 + np.exp(np.minimum(-Z, 80)))

    def loss(self, Z, Y):
        """As `Link.loss`."""
        return (np.maximum(Z, 0) - Y * Z + np.log(1 + np.exp(-np.abs(Z))))[:, 0]

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
        return 0.5 * np.sum(np.square(Z - Y), axis=1)

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
        return np.exp(np.minimum(Z, 80))

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
        return np.log(E.sum(axis=0)) + top - np.einsum("nk,nk->n", Y, Z)

    def curve(self, P, D):
        """As `Link.curve`."""
        PD = P * D
        # a product, as sums along short rows take longer
        PD -= P * (PD @ np.ones((P.shape[1], 1), P.dtype))
        return PD

    def diagonal(self, P):
        """As `Link.diagonal`."""
        return (P * (1 - P)).mean(axis=1)

    def forms(self, P, T):
        """As `Link.forms`."""
        return P @ (T * T).T - np.square(P @ T.T)

    def factors(self, P, T):
        """As `Link.factors`."""
        mean = P @ T.T
        for p, t in zip(P.T, T.T):
            yield np.sqrt(p)[:, None] * (t - mean)


def _exponentials(Z):
    # exp(Z - top) and top = max Z of every row, class by class in memory: sums along short rows
    # take longer
    Z = np.ascontiguousarray(Z.T)
    top = Z.max(axis=0)
    E = Z - top
    return np.exp(E, out=E), top
