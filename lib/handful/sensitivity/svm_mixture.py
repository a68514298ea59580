"""The rule "mixture" of `SVMCoreset`: mostly points near the margin, by their norm relative to the covariance.

A fifth of the probability goes by the proved bound, which keeps the theorem at five times the total sensitivity. The
rest goes to the points that the optimum depends on: those whose margin at the rough solution is small, the farther
from the mean the more. The distance is relative to the covariance of the data, so that no linear change of the
features moves it; above `FULL` features it is relative to their variances, in O(nnz + n + d) memory.
"""

from dataclasses import dataclass

import numpy as np

from handful.svm.kernels import STRIP, SparseDesign

GUARD = 0.2  # the bound's part of the probability; this and MARGIN by measurement on HTRU, Credit and Skin
MARGIN = 1.5  # the other part: points whose margin at the rough solution is below
FULL = 512  # with more features their variances stand for the covariance
RIDGE = 1e-6  # relative to the mean variance, for features that depend on one another


@dataclass(frozen=True)
class Moments:
    """Weighted moments of rows.

    Attributes
    ----------
    weight : float, the sum of the weights
    mean : float array, shape (d,)
    scatter : float array, shape (d, d), weighted sum of the outer products of the centred rows; for more than `FULL`
        features its diagonal, shape (d,)
    """

    weight: float
    mean: np.ndarray
    scatter: np.ndarray


def moments(columns, u):
    """The `Moments` of the rows of a `DenseDesign` or `SparseDesign` with weights `u`, shape (n,)."""
    weight = u.sum()
    mean = columns.transposed_times(u)[:-1] / weight
    full = columns.d <= FULL
    if isinstance(columns, SparseDesign):
        if full:
            G, _ = columns.gram(u, u)
            return Moments(weight, mean, G[:-1, :-1] - weight * np.outer(mean, mean))
        return Moments(weight, mean, columns.X.power(2).T @ u - weight * mean**2)
    scatter = np.zeros((columns.d, columns.d) if full else columns.d)
    for start in range(0, columns.n, STRIP):
        part = columns.XT[:, start : start + STRIP] - mean[:, None]
        weighted = part * u[start : start + STRIP]
        scatter += weighted @ part.T if full else np.einsum("ji,ji->j", weighted, part)
    return Moments(weight, mean, scatter)


def joined(parts):
    """The `Moments` of all rows, from those of disjoint parts."""
    weight = sum(part.weight for part in parts)
    mean = sum(part.weight * part.mean for part in parts) / weight
    full = parts[0].scatter.ndim == 2
    outer = np.outer if full else np.multiply
    between = sum(part.weight * outer(part.mean - mean, part.mean - mean) for part in parts)
    return Moments(weight, mean, sum(part.scatter for part in parts) + between)


def sq_mahalanobis(columns, whole):
    """Squared distances to the mean of `whole` relative to its covariance, a little ridge added; shape (n,)."""
    covariance = whole.scatter / whole.weight
    if covariance.ndim == 1:
        return _sq_scaled(columns, whole.mean, 1.0 / (np.maximum(covariance, 0.0) + _ridge(covariance)))
    values, vectors = np.linalg.eigh(covariance)
    T = vectors.T / np.sqrt(np.maximum(values, 0.0) + _ridge(np.diag(covariance)))[:, None]
    out = np.empty(columns.n)
    for start in range(0, columns.n, STRIP):
        strip = slice(start, start + STRIP)
        if isinstance(columns, SparseDesign):
            part = (columns.X[strip] @ T.T - T @ whole.mean).T
        else:
            part = T @ (columns.XT[:, strip] - whole.mean[:, None])
        out[strip] = np.einsum("ji,ji->i", part, part)
    return out


def _sq_scaled(columns, mean, scale):
    if isinstance(columns, SparseDesign):
        X = columns.X
        return np.maximum(0.0, X.power(2) @ scale - 2.0 * (X @ (mean * scale)) + mean**2 @ scale)
    out = np.empty(columns.n)
    for start in range(0, columns.n, STRIP):
        strip = slice(start, start + STRIP)
        out[strip] = scale @ (columns.XT[:, strip] - mean[:, None]) ** 2
    return out


def _ridge(variances):
    return max(RIDGE * variances.mean(), np.finfo(float).tiny)


def pulls(columns, u, margins, whole):
    """How much the optimum depends on each row, shape (n,), by the rows' `margins` at the rough solution."""
    return np.where(margins < MARGIN, u * np.sqrt(sq_mahalanobis(columns, whole) + 1.0), 0.0)


def mixture(sensitivities, pull, *, total_sensitivity, total_pull):
    """Probabilities from the bound and the `pulls` of some rows; the totals are those of all rows."""
    q = sensitivities / total_sensitivity
    return GUARD * q + (1.0 - GUARD) * pull / total_pull if total_pull > 0 else q
