"""Parts of `SVMCoreset`: partitions of a class into clusters, and the rule "mixture".

The mixture gives a fifth of the probability to the proved bound, which keeps the theorem at five
times the total sensitivity. The rest goes to the points that the optimum depends on: those whose
margin at the rough solution is small, the farther from the mean the more. The distance is relative
to the covariance of the data, so that no linear change of the features moves it; above `FULL`
features it is relative to their variances, in O(nnz + n + d) memory.
"""

from itertools import islice

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from handful.baselines.centers import seeds_one_by_one
from handful.svm.interior_point import gram

# the bound's part of the probability; this and MARGIN by measurement on HTRU, Credit and Skin
GUARD = 0.2
# the other part: points whose margin at the rough solution is below
MARGIN = 1.5
# with more features their variances stand for the covariance
FULL = 512
# relative to the mean square of each feature, for features that depend on one another
RIDGE = 1e-6
# of the dense matrices that are made at a time
ENTRIES = 1 << 20


def strips(n, width):
    """Slices of `n` rows that hold at most `ENTRIES` numbers if each row has `width`."""
    step = max(1, ENTRIES // width)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def distances(X, labels, centers):
    """The distance of each row of a dense or CSR matrix to the center of its cluster, shape
    (n,)."""
    if not sparse.issparse(X):
        return np.concatenate([row_norms(X[s] - centers[labels[s]]) for s in strips(*X.shape)])
    own = np.empty(X.shape[0])
    # one at a time: n rows of length d do not fit for many features
    for k, center in enumerate(centers):
        mine = np.flatnonzero(labels == k)
        own[mine] = X[mine] @ center
    return np.sqrt(
        np.maximum(0.0, row_norms(X, squared=True) - 2.0 * own + (centers**2).sum(axis=1)[labels])
    )


def seeds(X, u, k, *, rng):
    """Partitions around up to `k` rows, chosen by weighted k-means++ seeding (u times squared
    distance).

    Returns
    -------
    list of at most k int arrays, shape (n,): labels[j] is the partition by the first j + 1 of them;
    fewer where no row is left at a distance
    """
    label = np.zeros(X.shape[0], dtype=np.int64)
    closest = np.inf
    labels = []
    # what differs by less is a tie, of dense and of sparse rows
    rounding = 1e-14 * row_norms(X, squared=True).max()
    for _, sq_dist in islice(seeds_one_by_one(X, u, rng.random), k):
        label = np.where(sq_dist < closest - rounding, len(labels), label)
        closest = np.minimum(closest, sq_dist)
        labels.append(label)
    return labels


def sq_mahalanobis(A, u):
    """Squared distances to the weighted mean relative to the covariance, a little ridge added;
    shape (n,).

    Parameters
    ----------
    A : ``[X, 1]`` of centred rows as from `handful.svm.interior_point.with_ones`, shape (n, d + 1)
    u : float array, shape (n,), weights
    """
    X = A[:, :-1]
    weight = u.sum()
    tiny = np.finfo(float).tiny
    mean = (A.T @ u)[:-1] / weight
    if X.shape[1] <= FULL:
        products = gram(A, u)[:-1, :-1] / weight
        unit = 1.0 / np.sqrt(np.maximum(np.diag(products), tiny))
        values, vectors = np.linalg.eigh(unit * (products - np.outer(mean, mean)) * unit[:, None])
        T = unit[:, None] * vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)
        return np.concatenate(
            [row_norms(X[s] @ T - mean @ T, squared=True) for s in strips(len(u), X.shape[1])]
        )
    squares = X.power(2) if sparse.issparse(X) else X**2
    products = squares.T @ u / weight
    scale = 1.0 / np.maximum(np.maximum(products - mean**2, 0.0) + RIDGE * products, tiny)
    return np.maximum(0.0, squares @ scale - 2.0 * (X @ (mean * scale)) + mean**2 @ scale)


def mixture(sensitivities, A, u, margins):
    """Probabilities of the rule "mixture", from the bound and the rows' `margins` at the rough
    solution."""
    q = sensitivities / sensitivities.sum()
    pull = np.where(margins < MARGIN, u * np.sqrt(sq_mahalanobis(A, u) + 1.0), 0.0)
    return GUARD * q + (1.0 - GUARD) * pull / pull.sum() if pull.any() else q
