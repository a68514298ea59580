"""Sensitivity coresets for logistic regression."""

from dataclasses import KW_ONLY

import numpy as np
from scipy import sparse
from sklearn.utils import ClassifierTags

from handful.baselines.centers import plain_seeds
from handful.checks import MAX_SEED, Accepts, signed_labels
from handful.coreset import SizedSelector
from handful.distances import cell_means, nearest_centers, sq_distances
from handful.options import Count, Positive
from handful.plans import DrawShares
from handful.svm.interior_point import with_ones
from handful.tables import dense


def logistic_sensitivities(Z, weights, n_clusters, radius, *, rng):
    """Upper bounds on the sensitivities of logistic losses over parameters of norm at most
    `radius`.

    ``U / (u_n + sum_i U_i exp(-radius * |mean_i - z_n|))`` with the clusters i of the signed
    points, their weights U_i and means without the point n itself (Huggins, Campbell and Broderick
    2016, Lemma 3.1 and Algorithm 1), whose own weight u_n is 1 there; U is the total weight.

    Parameters
    ----------
    Z : signed points ``y_n (x_n, 1)``, array or CSR matrix, shape (n, d + 1)
    weights : shape (n,), positive
    n_clusters : int, k
    radius : float, R, in units of one over those of the columns of Z
    rng : numpy.random.Generator, for the k-means++ centres

    Returns
    -------
    shape (n,), without unit, each between 1 and U / u_n: times u_n / U it bounds the point's
    largest share of the total loss
    """
    n = Z.shape[0]
    seed = int(rng.integers(MAX_SEED))
    k = min(n_clusters, n)
    centers = Z[plain_seeds(Z, weights, k, seed)]
    nearest, _ = nearest_centers(Z, dense(centers))
    _, label = np.unique(nearest, return_inverse=True)
    k = label.max() + 1
    means, mass = cell_means(Z, label, weights, k)
    distances = np.sqrt(sq_distances(Z, means))  # (n, k)
    loss = mass * np.exp(-radius * distances)
    # A point's own cluster counts without the point, which moves the mean away from it by mass /
    # rest.
    own = np.arange(n), label
    own_mass = mass[label]
    rest = own_mass - weights
    is_alone = rest <= 1e-12 * own_mass
    divisor = np.where(is_alone, 1.0, rest)
    away = distances[own] * own_mass / divisor
    least = np.exp(-radius * away)
    of_others = rest * least
    loss[own] = np.where(is_alone, 0.0, of_others)
    total = weights + loss.sum(axis=1)
    return mass.sum() / total


class LogisticSensitivity(SizedSelector):
    """Importance-sampling coreset for logistic regression (Huggins, Campbell and Broderick, NIPS
    2016, Algorithm 1).

    Parameters
    ----------
    size : int, default=100
        Number of draws m, with repetition.
    n_clusters : int, default=10
        The k of the k-means++ clustering behind the bound; the bilevel paper tries 5, 10, 25.
    radius : float, default=1.0
        R, how large the parameters may be; the bilevel paper tries .1, 1, 10, 100.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : shape (m,), a row may come more than once
    weights_ : shape (m,), unbiased: their expected sum is the total sample_weight

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> X_small, y_small, w = LogisticSensitivity(100, random_state=0).fit(X, y).take(X, y)
    >>> bool(LogisticRegression().fit(X_small, y_small, sample_weight=w).score(X, y) > 0.9)
    True
    """

    _accepts = Accepts("two classes", sparse=True)
    _plan = DrawShares()
    _repeats = True
    _draws = True
    _by_scale = True

    _: KW_ONLY
    n_clusters: Count = 10
    radius: Positive = 1.0

    def _select(self, X, y, sample_weight, rng):
        _, signs = self._check_targets(y)
        return self._draw(X, signs, sample_weight, rng)

    def _check_targets(self, y):
        return signed_labels(y, "logistic regression")

    def _select_one_class(self, X, sample_weight, rng):
        # the bound asks for no second class
        signs = np.ones(X.shape[0])
        return self._draw(X, signs, sample_weight, rng)

    def _draw(self, X, signs, sample_weight, rng):
        A = with_ones(X)
        if sparse.issparse(A):
            Z = sparse.diags_array(signs) @ A
        else:
            Z = A * signs[:, None]
        bound = logistic_sensitivities(Z, sample_weight, self.n_clusters, self.radius, rng=rng)
        q = sample_weight / sample_weight.max() * bound
        q /= q.sum()
        draws = rng.choice(len(q), self.size, p=q)
        expected = self.size * q[draws]
        return draws, sample_weight[draws] / expected

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags
