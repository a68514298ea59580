"""Partitions of the classes into clusters, with weighted means and the distances to them."""

import numpy as np
from numba import njit
from scipy import sparse

from handful.svm.kernels import FAST

STRIP = 512


class DenseRows:
    """Rows of a dense matrix, stored feature by feature: shape (d, n)."""

    def __init__(self, XT):
        self.XT = XT
        self.n = XT.shape[1]

    def take(self, rows):
        return DenseRows(self.XT[:, rows])

    def part(self, stretch):
        """A stretch of the rows, a slice."""
        return DenseRows(np.ascontiguousarray(self.XT[:, stretch]))

    def row(self, i):
        return self.XT[:, i]

    def sq_dist(self, center):
        """Squared distances to one point, shape (n,)."""
        return _sq_dist(self.XT, center)

    def nearest(self, centers):
        """The nearest of the `centers`, shape (k, d), of each row."""
        return _nearest(self.XT, centers)

    def means(self, labels, u, k):
        """Weighted means, shape (k, d), and weights, shape (k,), of the clusters."""
        weight = np.bincount(labels, weights=u, minlength=k)
        sums = np.column_stack([np.bincount(labels, weights=u * row, minlength=k) for row in self.XT])
        return sums / np.maximum(weight, np.finfo(float).tiny)[:, None], weight

    def distances(self, labels, centers):
        """The distance of each row to the center of its cluster, shape (n,)."""
        total = np.zeros(self.n)
        for row, values in zip(self.XT, centers.T):
            total += (row - values[labels]) ** 2
        return np.sqrt(total)


class SparseRows:
    """The same for a CSR matrix."""

    def __init__(self, X):
        self.X = X
        self.n = X.shape[0]
        self.sq_norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()

    def take(self, rows):
        return SparseRows(self.X[rows])

    part = take

    def row(self, i):
        return self.X[[i]].toarray()[0]

    def sq_dist(self, center):
        return np.maximum(0.0, self.sq_norms - 2.0 * (self.X @ center) + center @ center)

    def nearest(self, centers):
        return np.argmin((centers**2).sum(axis=1) - 2.0 * (self.X @ centers.T), axis=1)

    def means(self, labels, u, k):
        """Weighted means, shape (k, d), and weights, shape (k,), of the clusters."""
        member = sparse.csr_matrix((u, (labels, np.arange(self.n))), shape=(k, self.n))
        weight = np.bincount(labels, weights=u, minlength=k)
        return (member @ self.X).toarray() / np.maximum(weight, np.finfo(float).tiny)[:, None], weight

    def distances(self, labels, centers):
        """The distance of each row to the center of its cluster, shape (n,)."""
        own = np.empty(self.n)
        for k, center in enumerate(centers):  # one at a time: n rows of length d do not fit for many features
            mine = np.flatnonzero(labels == k)
            own[mine] = self.X[mine] @ center
        return np.sqrt(np.maximum(0.0, self.sq_norms - 2.0 * own + (centers**2).sum(axis=1)[labels]))


def seeds(rows, u, k, *, rng):
    """Partitions around up to `k` rows, chosen by weighted k-means++ seeding (u times squared distance).

    Returns
    -------
    list of at most k int arrays, shape (n,): labels[j] is the partition by the first j + 1 of them; fewer where
    no row is left at a distance
    """
    first = int(np.searchsorted(np.cumsum(u), rng.random() * u.sum()))
    closest = rows.sq_dist(rows.row(min(first, rows.n - 1)))
    label = np.zeros(rows.n, dtype=np.int64)
    labels = [label]
    floor = 1e-14 * closest.max()
    while len(labels) < k:
        chances = np.cumsum(u * np.where(closest > floor, closest, 0.0))
        if not chances[-1] > 0:
            break
        i = int(np.searchsorted(chances, rng.random() * chances[-1], side="right"))
        distance = rows.sq_dist(rows.row(min(i, rows.n - 1)))
        label = np.where(distance < closest, len(labels), label)
        closest = np.minimum(closest, distance)
        labels.append(label)
    return labels


@njit(cache=True, fastmath=FAST)
def _sq_dist(XT, center):
    d, n = XT.shape
    out = np.zeros(n)
    for j in range(d):
        row = XT[j]
        for i in range(n):
            out[i] += (row[i] - center[j]) ** 2
    return out


@njit(cache=True, fastmath=FAST)
def _nearest(XT, centers):
    d, n = XT.shape
    k = len(centers)
    labels = np.zeros(n, dtype=np.int64)
    half = np.zeros(k)
    for c in range(k):
        for j in range(d):
            half[c] += 0.5 * centers[c, j] * centers[c, j]
    best, score = np.empty(STRIP), np.empty(STRIP)
    for start in range(0, n, STRIP):
        m = min(STRIP, n - start)
        label = labels[start : start + m]
        for c in range(k):
            for b in range(m):
                score[b] = half[c]
            for j in range(d):
                row = XT[j][start : start + m]
                for b in range(m):
                    score[b] -= centers[c, j] * row[b]
            for b in range(m):
                if c == 0 or score[b] < best[b]:
                    best[b] = score[b]
                    label[b] = c
    return labels
