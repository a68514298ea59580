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
from handful.distances import RELATIVE, measured
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
TINY = np.finfo(float).tiny
EPS = np.finfo(float).eps


def strips(n, width):
    """Slices of `n` rows that hold at most `ENTRIES` numbers if each row has `width`."""
    step = max(1, ENTRIES // width)
    starts = range(0, n, step)
    return [slice(start, min(start + step, n)) for start in starts]


def distances(X, labels, centers):
    """The distance of each row of a dense or CSR matrix to the center of its cluster, shape
    (n,)."""
    if not sparse.issparse(X):
        found = np.empty(X.shape[0])
        for strip in strips(*X.shape):
            own = centers[labels[strip]]
            found[strip] = row_norms(X[strip] - own)
        return found
    products = np.empty(X.shape[0])
    # one at a time: n rows of length d do not fit for many features
    for k, center in enumerate(centers):
        mine = np.flatnonzero(labels == k)
        products[mine] = X[mine] @ center
    of_rows = row_norms(X, squared=True)
    of_centers = (centers**2).sum(axis=1)
    sq_norms = of_rows + of_centers[labels]
    sq_dist = sq_norms - 2.0 * products
    n_terms = 4 + np.sqrt(X.shape[1])
    rounding = 2 * EPS * n_terms * sq_norms
    is_cancelled = sq_dist < rounding / RELATIVE
    again = np.flatnonzero(is_cancelled)
    own = labels[again]
    sq_dist[again] = measured(X, centers, again, own)
    return np.sqrt(sq_dist)


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
    found = seeds_one_by_one(X, u, rng.random)
    for _, sq_dist in islice(found, k):
        is_nearer = sq_dist < closest - rounding
        label = np.where(is_nearer, len(labels), label)
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
    sums = A.T @ u
    mean = sums[:-1] / weight
    if X.shape[1] <= FULL:
        products = gram(A, u)[:-1, :-1] / weight
        T = _whitening(products, mean)
        moved = mean @ T
        found = np.empty(len(u))
        for strip in strips(*X.shape):
            found[strip] = row_norms(X[strip] @ T - moved, squared=True)
        return found
    squares = X.power(2) if sparse.issparse(X) else X**2
    products = squares.T @ u / weight
    variances = np.maximum(products - mean**2, 0.0) + RIDGE * products
    scale = 1.0 / np.maximum(variances, TINY)
    cross = X @ (mean * scale)
    sq_dist = squares @ scale - 2.0 * cross + mean**2 @ scale
    return np.maximum(0.0, sq_dist)


def _whitening(products, mean):
    """A matrix, shape (d, d), after which columns of these mean products have unit covariance."""
    variances = np.maximum(np.diag(products), TINY)
    unit = 1.0 / np.sqrt(variances)
    covariance = products - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(unit * covariance * unit[:, None])
    deviations = np.sqrt(np.maximum(values, 0.0) + RIDGE)
    return unit[:, None] * vectors / deviations


def mixture(sensitivities, A, u, margins):
    """Probabilities of the rule "mixture", from the bound and the rows' `margins` at the rough
    solution."""
    q = sensitivities / sensitivities.sum()
    length = np.sqrt(sq_mahalanobis(A, u) + 1.0)
    pull = np.where(margins < MARGIN, u * length, 0.0)
    if not pull.any():
        return q
    return GUARD * q + (1.0 - GUARD) * pull / pull.sum()
