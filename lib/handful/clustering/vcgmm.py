"""vc-GMM (Hirschberger, Forster and Lücke 2019): clustering whose cost hardly grows with points and clusters."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm.auto import tqdm

from handful.clustering.distances import nearest_centers, probable_centers, sq_norms
from handful.clustering.seeding import afkmc2, kmeans_plusplus
from handful.clustering.variational import SETTLED, Mixture, VariationalEM, padded, random_neighbours, random_sets
from handful.clustering.vcgmm_kernels import Threads
from handful.coreset import as_generator, check_magnitude, check_sample_weight, check_size
from handful.sensitivity.lightweight import lightweight_coreset

INITS = ("afkmc2", "greedy", "k-means++")
FIRST_ROWS, GROWTH = 16, 4  # a cluster in the first phase; each further phase has so many times the rows
HARD_KEPT = 3  # clusters kept a point where only the best of them counts
N_SHIFT = 4096  # rows whose median becomes the origin
SCORE_ENTRIES = 1 << 22  # of the distances held at a time


class VCGMM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Many clusters on much data: a Gaussian mixture fitted by truncated variational EM on a lightweight coreset.

    Hirschberger, Forster and Lücke (2019), Algorithms 1 and 2. Each point looks only at the neighbours of the clusters
    that it found last, so that an iteration costs O(N' G^2 D), whatever the numbers of points and of clusters.

    Parameters
    ----------
    n_clusters : int, C
    coreset_size : int, N', draws of the lightweight coreset; None fits all rows (var-GMM-S)
    n_neighbors : int, G, of a cluster's neighbourhood, and C', clusters kept a point; at most C are used
    n_random : int, random clusters that join each search; the paper adds one where G is 3
    init : "greedy" (k-means++, the best of 2 + log C draws), "k-means++", "afkmc2" (the paper's) or an array of
        centres, shape (C, d)
    chain_length : int, m, of AFK-MC2
    start : "random" lets each point begin at random clusters, as the paper does: a large first variance, so a kind of
        annealing, which forgets good seeds; "nearest" at its nearest seed; "auto" the former for "afkmc2" alone
    moves : "split" moves, whenever the bound has settled, clusters that the bound hardly misses to where cutting
        another in two raises it most, as far as it rises on balance; "empty" moves clusters that have lost all points
        to where the fit is worst; None leaves them, as the paper
    grow : bool, begin with a lightweight coreset of 16 rows a cluster and go on with four times as many, until all
        (or all of the coreset) take part: most iterations then are on few rows
    assignment : "soft", truncated posteriors; "hard" gives each point to its best cluster alone: the objective of
        k-means, for a small quantisation error where clusters overlap
    covariance : "shared", one variance and equal priors, as in the paper; "isotropic", a variance and a prior each
    tol : float, of the stopping rule
    stopping : "per point" ends when the bound changes by less than `tol` nats a point and dimension, whatever the
        units of X; "paper" when it changes by less than the share `tol` of itself
    max_iter : int
    warm_start : bool, begin the next `fit` at the present centres, variance and neighbourhoods
    compute_labels : bool, find the nearest centre of all rows after fitting, which takes n C d operations
    random_state : int, RandomState, Generator or None
    verbose : bool, show progress

    Attributes
    ----------
    cluster_centers_ : array, shape (C, d)
    variance_ : float, or with "isotropic" float64 array of shape (C,)
    weights_ : float64 array, shape (C,), priors
    lower_bound_ : float, of the log-likelihood of all rows, in nats; estimated where there is a coreset
    lower_bounds_ : list of float, after each E-step, with `grow` of the last phase; never decreasing
    n_moves_ : int, clusters moved by "split", in the last phase
    n_iter_ : int, M-steps of all phases
    n_distances_ : int, distances computed for coreset, seeds and E-steps
    n_empty_ : int, clusters left without any weight
    neighbors_ : int32 array, shape (C, G), the neighbourhoods
    labels_ : int array, shape (n,), where `compute_labels`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2)) + 20 * rng.integers(5, size=(20_000, 2))
    >>> VCGMM(25, coreset_size=2_000, random_state=0).fit(X).cluster_centers_.shape
    (25, 2)
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        coreset_size=None,
        n_neighbors=5,
        n_random=0,
        init="greedy",
        chain_length=2,
        start="auto",
        moves="empty",
        covariance="shared",
        grow=False,
        assignment="soft",
        tol=1e-4,
        stopping="per point",
        max_iter=300,
        warm_start=False,
        compute_labels=True,
        random_state=None,
        verbose=False,
    ):
        self.n_clusters = n_clusters
        self.coreset_size = coreset_size
        self.n_neighbors = n_neighbors
        self.n_random = n_random
        self.init = init
        self.chain_length = chain_length
        self.start = start
        self.moves = moves
        self.covariance = covariance
        self.grow = grow
        self.assignment = assignment
        self.tol = tol
        self.stopping = stopping
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.compute_labels = compute_labels
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None, sample_weight=None):
        """Fit the mixture.

        Parameters
        ----------
        X : array or memory map, shape (n, d)
        y : ignored
        sample_weight : shape (n,), how often each row counts

        Raises
        ------
        ValueError
            for bad options, more clusters than rows of positive weight, bad weights, NaN and infinity
        """
        self._check_options()
        X = self._validate(X, reset=not (self.warm_start and hasattr(self, "cluster_centers_")))
        check_magnitude(X, "X", X.dtype)
        weights = check_sample_weight(sample_weight, len(X))
        n_rows = int(np.count_nonzero(weights))
        if self.n_clusters > n_rows:
            raise ValueError(f"n_clusters must be at most the number of rows, got {self.n_clusters} for {n_rows}.")
        rng = as_generator(self.random_state)
        rows, counts, n_distances = self._coreset(X, weights if sample_weight is not None else None, rng)
        self._set_frame(rows)
        # The weights' unit drops out of everything but the bound.
        unit = counts.max()
        mixture, trace, n_fitting = self._optimise(rows, counts / unit, rng)
        self.n_distances_ = n_distances + n_fitting
        in_units_of_X = (counts / unit).sum() * X.shape[1] * np.log(self._unit)
        self._keep(mixture, trace, unit, in_units_of_X)
        if self.compute_labels:
            self.labels_ = nearest_centers(X, self.cluster_centers_)[0]
        elif hasattr(self, "labels_"):
            del self.labels_
        return self

    def _optimise(self, rows, weights, rng):
        # The mixture, the trace of the last phase with all iterations counted, and all distances computed.
        Y = padded(self._to_frame(rows))
        floor, mixture, n_distances, n_iter, n_steps = self._variance_floor(Y), None, 0, 0, 0
        with Threads() as threads, tqdm(desc="EM", disable=not self.verbose) as bar:
            for size in self._sizes(len(Y)):
                last = size == len(Y)
                mine, u = Y, weights
                if not last:
                    chosen, u = lightweight_coreset(Y, size, rng=rng, sample_weight=weights)
                    mine = Y[chosen]
                if mixture is None:
                    mixture, first, n_starting = self._begin(mine, u, rng)
                    K = random_sets(len(mine), self.n_clusters, mixture.neighbours.shape[1], rng, first=first)
                else:
                    first, n_starting = probable_centers(mine, mixture.centers)
                    order = np.argsort(first, kind="stable")
                    mine, u, K = mine[order], u[order], mixture.neighbours[first[order]]
                if self.assignment == "hard":
                    K = np.ascontiguousarray(K[:, :HARD_KEPT])
                em = VariationalEM(
                    mine,
                    u,
                    rows.shape[1],
                    K,
                    n_random=self.n_random,
                    shared=self.covariance == "shared",
                    hard=self.assignment == "hard",
                    key=rng.integers(2**63),
                    threads=threads,
                    floor=floor,
                    n_steps=n_steps,
                )
                paper = self.stopping == "paper" and last
                trace = em.run(
                    mixture,
                    tol=self.tol if last else max(self.tol, SETTLED),
                    max_iter=self.max_iter,
                    relative_to=em.total * rows.shape[1] * np.log(self._unit) if paper else None,
                    moves=self.moves,
                    progress=lambda bound: bar.update(),
                )
                floor, n_steps = em.floor, em.n_steps
                n_distances += n_starting + trace.n_distances
                n_iter += trace.n_iter
        trace.n_iter = n_iter
        return mixture, trace, n_distances

    def _sizes(self, n):
        # Rows of each phase.
        sizes = [n]
        if self.grow and not (self.warm_start and hasattr(self, "cluster_centers_")):
            size = FIRST_ROWS * self.n_clusters
            sizes = []
            while size * GROWTH <= 1.5 * n:
                sizes.append(size)
                size *= GROWTH
            sizes.append(n)
        return sizes

    def _coreset(self, X, weights, rng):
        # Rows and their weights, none of them zero, and the distances that finding them took.
        if self.coreset_size is None:
            counts = np.ones(len(X)) if weights is None else weights
            present = slice(None) if weights is None else np.flatnonzero(weights)
            return X[present], counts[present], 0
        indices, counts = lightweight_coreset(X, self.coreset_size, rng=rng, sample_weight=weights)
        return X[indices], counts, len(X)

    def _set_frame(self, rows):
        # Coordinates about the median, in units of a power of two: distances neither cancel, nor over- or underflow.
        sample = rows[:: -(-len(rows) // N_SHIFT)]
        self._shift = np.median(sample, axis=0).astype(np.float64)
        largest = np.abs(rows - self._shift).max()
        self._unit = float(2.0 ** np.clip(np.floor(np.log2(largest)), -1000, 1000)) if largest > 0 else 1.0

    def _to_frame(self, rows):
        return ((rows - self._shift) / self._unit).astype(rows.dtype)

    def _variance_floor(self, Y):
        # far above what rounding makes of a distance of 0, or the bound of points that are their own centres wavers
        eps = float(np.finfo(Y.dtype).eps)
        return max(eps**1.5 * float(np.mean(sq_norms(Y), dtype=np.float64)), float(np.finfo(Y.dtype).tiny) / eps)

    def _begin(self, Y, counts, rng):
        # The first mixture, each row's first cluster (or None), and the distances that finding them took.
        C, width = self.n_clusters, min(self.n_neighbors, self.n_clusters)
        variance, log_prior = np.zeros(C), np.full(C, -np.log(C))
        neighbours, first, n_distances = None, None, 0
        from_nearest = self.start == "nearest"
        if self.warm_start and hasattr(self, "cluster_centers_"):
            if len(self.cluster_centers_) != C:
                raise ValueError(
                    f"n_clusters is {C}, but the warm start has {len(self.cluster_centers_)} centres; "
                    "set warm_start=False."
                )
            centers = padded(self._to_frame(self.cluster_centers_.astype(Y.dtype)))
            variance = np.maximum(np.broadcast_to(self.variance_, C) / self._unit**2, self._variance_floor(Y))
            log_prior = np.log(np.maximum(self.weights_, np.finfo(np.float64).tiny))
            if self.covariance == "shared":
                variance, log_prior = np.full(C, variance.mean()), np.full(C, -np.log(C))
            neighbours = self.neighbors_.copy() if self.neighbors_.shape[1] == width else None
            from_nearest = self.start != "random"
        elif not isinstance(self.init, str):
            given, d = np.asarray(self.init, dtype=Y.dtype), self.n_features_in_
            if given.shape != (C, d) or not np.isfinite(given).all():
                raise ValueError(f"init must be finite, of shape {(C, d)}, got shape {given.shape}.")
            centers = padded(self._to_frame(given))
            from_nearest = self.start != "random"
        elif self.init == "afkmc2":
            seeds, n_distances = afkmc2(Y, C, chain_length=self.chain_length, sample_weight=counts, rng=rng)
            centers = Y[seeds]
        else:
            trials = 1 if self.init == "k-means++" else None
            seeds, labels, n_distances = kmeans_plusplus(Y, C, sample_weight=counts, n_trials=trials, rng=rng)
            centers = Y[seeds]
            first = labels if self.start != "random" else None
        if from_nearest and first is None:
            first, n_starting = probable_centers(Y, centers)
            n_distances += n_starting
        if neighbours is None:
            neighbours = random_neighbours(C, width, rng)
        return Mixture(np.array(centers), variance, log_prior, neighbours), first, n_distances

    def _keep(self, mixture, trace, unit, in_units_of_X):
        d = self.n_features_in_
        centers = mixture.centers[:, :d].astype(np.float64) * self._unit + self._shift
        self.cluster_centers_ = np.ascontiguousarray(centers.astype(mixture.centers.dtype))
        self._log_variance = np.log(mixture.variance) + 2 * np.log(self._unit)
        variance = np.exp(self._log_variance)
        self.variance_ = variance if self.covariance == "isotropic" else float(variance[0])
        self.weights_ = np.exp(mixture.log_prior)
        self.weights_ /= self.weights_.sum()
        self.neighbors_ = mixture.neighbours
        self.lower_bounds_ = [unit * (bound - in_units_of_X) for bound in trace.bounds]
        self.lower_bound_ = self.lower_bounds_[-1]
        self.n_moves_ = trace.n_moves
        self.n_iter_, self.converged_ = trace.n_iter, trace.converged
        self.n_empty_ = int(np.count_nonzero(trace.mass == 0))
        if not trace.converged:
            warnings.warn(
                f"VCGMM did not settle in {self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if self.n_empty_:
            warnings.warn(
                f"{self.n_empty_} of {self.n_clusters} clusters have no points; "
                + (
                    "there may be fewer distinct rows: lower n_clusters or raise coreset_size."
                    if self.moves
                    else "set moves='empty' to use them elsewhere."
                ),
                ConvergenceWarning,
                stacklevel=3,
            )

    def predict(self, X):
        """The nearest centre of each row (with "isotropic" the likeliest cluster), int array of shape (n,)."""
        check_is_fitted(self)
        X = self._validate(X)
        if self.covariance == "shared":
            return nearest_centers(X, self.cluster_centers_)[0]
        return np.concatenate([joints.argmax(axis=1) for joints in self._log_joints(X)])

    def fit_predict(self, X, y=None, sample_weight=None):
        """`fit`, then the labels of `X`."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def transform(self, X):
        """Distances to the centres, shape (n, C)."""
        check_is_fitted(self)
        return euclidean_distances(self._validate(X), self.cluster_centers_)

    def score_samples(self, X):
        """Log-density of each row under the mixture, in nats, float64 array of shape (n,)."""
        check_is_fitted(self)
        return np.concatenate([logsumexp(joints, axis=1) for joints in self._log_joints(self._validate(X))])

    def score(self, X, y=None):
        """Mean log-density of the rows."""
        return float(self.score_samples(X).mean())

    def _log_joints(self, X):
        # Blocks of log p(c, x), shape (at most n, C), in the frame of the fit, where squares do not underflow.
        centers = (self.cluster_centers_.astype(np.float64) - self._shift) / self._unit
        scaled = self._log_variance - 2 * np.log(self._unit)
        with np.errstate(divide="ignore"):
            constant = np.log(self.weights_) - 0.5 * self.n_features_in_ * (np.log(2 * np.pi) + self._log_variance)
        step = max(1, SCORE_ENTRIES // len(centers))
        for start in range(0, len(X), step):
            rows = (X[start : start + step].astype(np.float64) - self._shift) / self._unit
            yield constant - 0.5 * euclidean_distances(rows, centers, squared=True) * np.exp(-scaled)

    def _validate(self, X, reset=False):
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], order="C")

    def _check_options(self):
        least = {"n_clusters": 1, "n_neighbors": 1, "n_random": 0, "chain_length": 1, "max_iter": 1}
        for name, limit in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < limit:
                raise ValueError(f"{name} must be an integer of at least {limit}, got {value!r}.")
        if self.coreset_size is not None:
            check_size(self.coreset_size, self.coreset_size, self.coreset_size, repeats=True)
        if isinstance(self.tol, bool) or not isinstance(self.tol, Real) or not 0 <= self.tol < np.inf:
            raise ValueError(f"tol must be a finite number of at least 0, got {self.tol!r}.")
        choices = {
            "start": ("auto", "random", "nearest"),
            "moves": (None, "empty", "split"),
            "covariance": ("shared", "isotropic"),
            "grow": (False, True),
            "assignment": ("soft", "hard"),
            "stopping": ("per point", "paper"),
        }
        if isinstance(self.init, str):
            choices["init"] = INITS
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}.")

    @property
    def _n_features_out(self):
        return self.n_clusters

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
