"""Representatives: rows near the centres of clusters, each standing for its own."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from handful.baselines.centers import plain_seeds
from handful.checks import MAX_SEED, Accepts
from handful.clustering.vcgmm import VCGMM
from handful.coreset import SizedSelector
from handful.distances import cell_means, centred, nearest_centers
from handful.scales import ScaleWarning

# rows up to which Lloyd's rounds beat a mixture; it takes longer to compile, and then less for each
# row
FEW = 256
# of Lloyd; of MNIST's error twenty more take off less than a hundredth
ROUNDS = 10


class Medoids(SizedSelector):
    """Rows that represent all others: those nearest to the centres of clusters. No labels are
    looked at.

    Up to 256 rows: those nearest to the centres of ten rounds of Lloyd from k-means++ seeds. For
    more rows: those nearest to the centres of `VCGMM`, whose cost hardly grows with their number.
    The cells' summed weights become the rows' weights.

    Parameters
    ----------
    size : int, default=100
        Number of points m.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : shape (m,), distinct, ascending
    weights_ : shape (m,), the sample_weight of the rows nearest to each; they add up to the total
        sample_weight

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [0.2], [0.3], [0.4], [9.0], [9.2], [9.1]])
    >>> few = Medoids(2, random_state=0).fit(X)
    >>> sorted(X[few.indices_].ravel().tolist()), sorted(few.weights_.tolist())
    ([0.2, 9.1], [3.0, 5.0])
    """

    _accepts = Accepts("unread")
    _by_scale = True
    _ranks = False

    def _select(self, X: Any, y: Any, sample_weight: Any, rng: Any) -> Any:
        u = sample_weight
        X = np.ascontiguousarray(X)
        X, _ = centred(X, u)
        # squares that float32 holds, and the same digits
        largest = np.abs(X).max()
        _, exponent = np.frexp(largest)
        X /= 2.0**exponent
        if self.size <= FEW:
            seed = int(rng.integers(MAX_SEED))
            seeds = plain_seeds(X, u, self.size, seed)
            start = X[seeds]
            centers = _lloyd(X, u, start)
        else:
            mixture = VCGMM(self.size, compute_labels=False, random_state=rng)
            with warnings.catch_warnings():
                # They name options that this class lacks, and its own speak of scales.
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", ScaleWarning)
                mixture.fit(X, sample_weight=u)
            centers = mixture.cluster_centers_
        label, sq_dist = nearest_centers(X, centers)
        rows = _nearest_rows(label, sq_dist, self.size)
        rows.sort()
        medoids = X[rows]
        cell, _ = nearest_centers(X, medoids)
        weights = np.bincount(cell, weights=u, minlength=self.size)
        return rows, weights


def _lloyd(X, weights, centers):
    for _ in range(ROUNDS):
        label, _ = nearest_centers(X, centers)
        means, mass = cell_means(X, label, weights, len(centers))
        by_center = mass[:, None]
        has_rows = by_center > 0
        centers = np.where(has_rows, means, centers)
    return centers


def _nearest_rows(label, sq_dist, size):
    """Of each of `size` cells the row nearest to its centre; for an empty cell one of the rows
    farthest from their own."""
    order = np.lexsort((sq_dist, label))
    ascending = label[order]
    _, first = np.unique(ascending, return_index=True)
    rows = order[first]
    n_empty = size - len(rows)
    if n_empty == 0:
        return rows
    sq_dist[rows] = -1.0
    farthest_first = np.argsort(-sq_dist, kind="stable")
    more = farthest_first[:n_empty]
    return np.append(rows, more)
