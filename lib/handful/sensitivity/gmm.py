"""Sensitivity coresets for Gaussian mixtures and k-means."""

from dataclasses import KW_ONLY

import numpy as np

from handful.baselines.centers import plain_seeds
from handful.checks import MAX_SEED, Accepts
from handful.coreset import SizedSelector
from handful.distances import centred, nearest_centers
from handful.options import Count
from handful.plans import DrawShares
from handful.sensitivity.weighted_draws import multinomial_draw

# rough solutions, of which the best is kept; all ten miss the factor alpha with probability 2^-10
N_STARTS = 10


def rough_centers(X, weights, n_components, *, rng):
    """A rough k-means solution: the best of ten runs of D^2 sampling (k-means++ seeding).

    Parameters
    ----------
    X : shape (n, d); weights : shape (n,), positive
    n_components : int, k
    rng : numpy.random.Generator

    Returns
    -------
    label : int array, shape (n,), the centre of each row, numbered without gaps
    sq_dist : shape (n,), squared distance to it
    """
    k = min(n_components, len(X))
    least = None
    for _ in range(N_STARTS):
        seed = int(rng.integers(MAX_SEED))
        centers = X[plain_seeds(X, weights, k, seed)]
        nearest, sq_dist = nearest_centers(X, centers)
        cost = weights @ sq_dist
        if least is None or cost < least:
            least = cost
            best_nearest = nearest
            best_sq_dist = sq_dist
    _, label = np.unique(best_nearest, return_inverse=True)
    return label, best_sq_dist.astype(np.float64)


def mixture_sensitivities(label, sq_dist, weights):
    """Upper bounds on the sensitivities of k-means; up to a constant they also hold for Gaussian
    mixtures.

    ``2 alpha d_i / c + 4 alpha (mean of d over i's cluster) / c + 4 U / U_cluster`` with squared
    distances d to the centres of a rough solution, their mean c, total weights U and ``alpha = 16
    (log k + 2)``, the factor within which D^2 sampling is optimal with probability one half (Lucic,
    Faulkner, Krause and Feldman 2017, "Training Gaussian Mixture Models at Scale via Coresets").
    For mixtures the constant grows with the condition number that their covariances may have.

    Parameters
    ----------
    label, sq_dist : from `rough_centers`
    weights : shape (n,), positive

    Returns
    -------
    shape (n,) : no set of k centres costs row i more than this times the mean cost
    """
    mass = np.bincount(label, weights=weights)
    spread = np.bincount(label, weights=weights * sq_dist)
    bound = 4.0 * mass.sum() / mass[label]
    mean = spread.sum() / mass.sum()
    if mean > 0:
        alpha = 16.0 * (np.log(len(mass)) + 2.0)
        of_row = sq_dist / mean
        of_cluster = (spread / mass / mean)[label]
        bound += 2.0 * alpha * of_row + 4.0 * alpha * of_cluster
    return bound


class MixtureSensitivity(SizedSelector):
    """Importance-sampling coreset for Gaussian mixtures (Lucic, Faulkner, Krause and Feldman, JMLR
    2017).

    Rows are drawn by a bound on the largest share that each may have in the cost of any mixture:
    those far from all of `n_components` rough centres, and those in small clusters. A baseline of
    the bilevel paper's Section 5.2.1.

    Parameters
    ----------
    size : int, default=100
        Number of draws m, with repetition; a row drawn k times comes once, with k times the
        weight.
    n_components : int, default=5
        Number of Gaussians k.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : shape (at most m,), ascending
    weights_ : shape (at most m,), unbiased: their expected sum is the total sample_weight

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(10_000, centers=5, random_state=0)
    >>> X_small, weights = MixtureSensitivity(500, n_components=5, random_state=0).fit(X).take(X)
    >>> bool(abs(weights.sum() / len(X) - 1) < 0.2)
    True
    """

    _accepts = Accepts("unread")
    _plan = DrawShares()
    _by_scale = True
    _repeats = True
    _draws = True
    _ranks = False

    _: KW_ONLY
    n_components: Count = 5

    def _select(self, X, y, sample_weight, rng):
        share = sample_weight / sample_weight.sum()
        rows, _ = centred(np.ascontiguousarray(X), share)
        label, sq_dist = rough_centers(rows, share, self.n_components, rng=rng)
        q = share * mixture_sensitivities(label, sq_dist, share)
        q /= q.sum()
        return multinomial_draw(q, sample_weight, self.size, rng=rng)
