"""Mini-batch k-means (Sculley 2010) that takes importance weights and draws its batches with any
sampler."""

from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from handful.blocks import by_blocks
from handful.checks import (
    MAX_SEED,
    as_generator,
    check_sample_weight,
    check_size,
)
from handful.clustering.estimators import CentersEstimator, centers_of
from handful.distances import cell_means, centred, draw_along, nearest_centers
from handful.options import Count, all_or_nothing, check_options
from handful.running import Bar
from handful.tables import dense
from handful.types import Seed


def kmeans_step(X, weights, centers, counts):
    """One mini-batch step: assign the batch to its nearest centres, then pull these (Sculley,
    Algorithm 1).

    Each point moves its centre by weight / (sum of the weights the centre has seen) of the way, so
    that the centre is the weighted mean of all it has seen; with weights 1/(n q) the expected
    centres are those of uniform batches.

    Parameters
    ----------
    X : array, shape (b, d), the batch
    weights : array, shape (b,)
    centers : array, shape (K, d), changed in place; of float64 they take steps, too, that float32
        would lose in rounding
    counts : array, shape (K,), the weight each centre has seen; changed in place

    Returns
    -------
    array, shape (b,) : 2 ||x - c||, the norm of each point's gradient of the k-means loss before
        the step
    """
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    labels, sq_dist = nearest_centers(X, centers.astype(X.dtype, copy=False))
    offsets = X - centers[labels]
    steps, mass = cell_means(offsets, labels, weights, len(centers))
    counts += mass
    moved = mass > 0
    share = mass[moved] / counts[moved]
    centers[moved] += share[:, None] * steps[moved]
    return 2.0 * np.sqrt(sq_dist)


class MiniBatchKMeans(CentersEstimator):
    """K-means on small batches drawn by a sampler of your choice, with importance weights.

    Sculley (2010), with the weighted update of Borsos, Krause and Levy (2018) and VRM, section 6.4.
    Without a sampler `sklearn.cluster.MiniBatchKMeans` does more: it reassigns centres of few
    points.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters, K.
    sampler : Sampler, callable or None, default=None
        None draws rows by their weights; one of `handful.sampling`'s samplers over the rows of
        X, which goes on from one `fit` to the next; or a function ``(X, rng) -> sampler`` that
        makes one. `fit` tells it each point's gradient norm.
    batch_size : int, default=100
        Points in a batch, at most n; a sampler brings its own.
    n_steps : int, default=1000
        Batches of one `fit`.
    init : "k-means++" or array of shape (K, d), default="k-means++"
        "k-means++" (on a random subset of at most max(3 K, 10 batch_size) rows, drawn by their
        weights) or an array (K, d).
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.
    verbose : bool, default=False
        Whether `fit` shows a progress bar from the start, not only after 30 seconds.

    Attributes
    ----------
    cluster_centers_ : array, shape (K, d)
    counts_ : array, shape (K,), the weight each centre has seen
    labels_ : int array, shape (n,), nearest centre of each row given to `fit` or the last
        `partial_fit`
    inertia_ : float, weighted sum of squared distances to the nearest centres of those rows
    n_steps_ : int, batches seen

    Examples
    --------
    >>> import numpy as np
    >>> from handful.sampling import MixtureSampler, distance_components
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> def far_points(X, rng):
    ...     components = distance_components(X, 9, random_state=rng)
    ...     return MixtureSampler(components, batch_size=100, random_state=rng)
    >>> model = MiniBatchKMeans(n_clusters=5, sampler=far_points, random_state=0)
    >>> model.fit(X).cluster_centers_.shape
    (5, 2)
    """

    n_clusters: Count = 8
    _: KW_ONLY
    sampler: Any = None
    batch_size: Count = 100
    n_steps: Count = 1000
    init: Literal["k-means++"] | Annotated[Any, centers_of] = "k-means++"
    random_state: Seed = None
    verbose: bool = False

    @all_or_nothing
    def fit(self, X, y=None, sample_weight=None):
        """Run `n_steps` batches from a fresh start.

        Ctrl-C raises KeyboardInterrupt, and leaves the centres of the batches so far: `n_steps_`
        says how many.

        Parameters
        ----------
        X : array or CSR matrix, shape (n, d); of a sparse one a batch is made dense at a time
        y : ignored
        sample_weight : shape (n,), how often each row counts: how often it is drawn, or with a
            sampler a factor of the importance weights

        Raises
        ------
        ValueError
            for more clusters than rows, bad weights, or a sampler over another number of points
        """
        X, sample_weight = self._check(X, sample_weight, reset=True)
        self._warn_of_scales(X, sample_weight)
        rng = as_generator(self.random_state)
        n = X.shape[0]
        self._start(X, sample_weight, rng)
        sampler = self.sampler(X, rng) if callable(self.sampler) else self.sampler
        if sampler is not None and getattr(sampler, "n", None) != n:
            raise ValueError(f"sampler must draw from the {n} rows of X, got sampler={sampler!r}.")
        cumulated = np.cumsum(sample_weight)
        ones = np.ones(min(self.batch_size, n))
        # of an earlier fit, should this one be interrupted
        for attribute in ("labels_", "inertia_"):
            vars(self).pop(attribute, None)
        batches = range(self.n_steps)
        with Bar(batches, desc="MiniBatchKMeans", unit="batch", verbose=self.verbose) as steps:
            for _ in steps:
                if sampler is None:
                    rows = draw_along(cumulated, rng.random(len(ones)))
                    self._step(X, rows, ones)
                else:
                    rows, weights = sampler.sample()
                    own = sample_weight[rows]
                    losses = self._step(X, rows, weights * own)
                    sampler.update(losses * own)
        return self._finish(X, sample_weight)

    @all_or_nothing
    def partial_fit(self, X, y=None, sample_weight=None):
        """One step with the rows of `X` as the batch; `sample_weight` are its importance weights.

        The first call chooses the centres among its rows, so it needs at least `n_clusters` of
        them.
        """
        first = not hasattr(self, "cluster_centers_")
        X, sample_weight = self._check(X, sample_weight, reset=first)
        if first:
            self._start(X, sample_weight, as_generator(self.random_state))
        self._step(X, slice(None), sample_weight)
        return self._finish(X, sample_weight)

    @by_blocks
    def predict(self, X):
        """The nearest centre of each row, int array of shape (n,)."""
        check_is_fitted(self)
        labels, _ = nearest_centers(self._validate(X), self.cluster_centers_)
        return labels

    def score(self, X, y=None, sample_weight=None):
        """Minus the (weighted) sum of squared distances to the nearest centres."""
        check_is_fitted(self)
        _, sq_dist = nearest_centers(self._validate(X), self.cluster_centers_)
        weights = check_sample_weight(sample_weight, len(sq_dist))
        return -float(weights @ sq_dist)

    def _check(self, X, sample_weight, *, reset):
        X = self._validate(X, reset=reset)
        if reset:
            check_options(self)
        sample_weight = check_sample_weight(sample_weight, X.shape[0])
        if reset:
            n_present = np.count_nonzero(sample_weight)
            check_size(self.n_clusters, n_present, X.shape[0], name="n_clusters")
        return X, sample_weight

    def _start(self, X, sample_weight, rng):
        if isinstance(self.init, str):
            # here, as importing it takes a while
            from sklearn.cluster import kmeans_plusplus

            size = max(3 * self.n_clusters, 10 * self.batch_size)
            rows, weights = _drawn(sample_weight, size, self.n_clusters, rng)
            seed = int(rng.integers(MAX_SEED))
            near, _ = centred(X[rows], weights)
            _, chosen = kmeans_plusplus(
                near, self.n_clusters, sample_weight=weights, random_state=seed
            )
            centers = dense(X[rows[chosen]])
        else:
            centers = self._given_centers(X.dtype)
        self._centers = np.array(centers, dtype=np.float64, order="C")
        self.cluster_centers_ = self._centers.astype(X.dtype)
        self.counts_ = np.zeros(self.n_clusters)
        self.n_steps_ = 0

    def _step(self, X, rows, weights):
        batch = dense(X[rows])
        self.n_steps_ += 1
        losses = kmeans_step(batch, weights, self._centers, self.counts_)
        self.cluster_centers_ = self._centers.astype(X.dtype)
        return losses

    def _finish(self, X, sample_weight):
        self.labels_, sq_dist = nearest_centers(X, self.cluster_centers_)
        self.inertia_ = float(sample_weight @ sq_dist)
        return self


def _drawn(sample_weight, size, least, rng):
    """At most `size` rows that stand for all, at least `least`, and their weights."""
    rows = np.flatnonzero(sample_weight)
    weights = sample_weight[rows]
    if size >= len(rows):
        return rows, weights
    if (weights == weights[0]).all():
        rows = rng.choice(rows, size, replace=False)
        return rows, sample_weight[rows]
    # A row that counts often is drawn as often as its copies would be.
    drawn = draw_along(np.cumsum(weights), rng.random(size))
    counts = np.bincount(drawn, minlength=len(rows))
    heaviest_first = np.argsort(-weights, kind="stable")
    absent = heaviest_first[counts[heaviest_first] == 0]
    counts[absent[: max(0, least - np.count_nonzero(counts))]] = 1
    chosen = np.flatnonzero(counts)
    return rows[chosen], counts[chosen].astype(np.float64)
