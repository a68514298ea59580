"""vc-GMM (Hirschberger, Forster and Lücke 2019): clustering whose cost hardly grows with points and clusters."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from tqdm.auto import tqdm

from handful.checks import as_generator, check_integer, check_magnitude, check_number, check_sample_weight
from handful.clustering.distances import nearest_centers, probable_centers, sq_norms
from handful.clustering.mixture_estimator import MixtureEstimator
from handful.clustering.seeding import afkmc2, kmeans_plusplus
from handful.clustering.variational import (
    N_SHARED,
    SETTLED,
    Mixture,
    Statistics,
    VariationalEM,
    padded,
    random_neighbours,
    random_sets,
)
from handful.clustering.vcgmm_kernels import Threads
from handful.sensitivity.lightweight import lightweight_coreset

INITS = ("afkmc2", "greedy", "k-means++")
FIRST_ROWS, GROWTH = 16, 4  # a cluster in the first phase; each further phase has so many times the rows
HARD_KEPT = 3  # clusters kept a point where only the best of them counts
N_SHIFT = 4096  # rows whose median becomes the origin


class VCGMM(MixtureEstimator):
    """Many clusters on much data: a Gaussian mixture fitted by truncated variational EM on a lightweight coreset.

    Hirschberger, Forster and Lücke (2019), Algorithms 1 and 2. Each point looks only at the neighbours of the clusters
    that it found last, so that an iteration costs O(N' G^2 D), whatever the numbers of points and of clusters.

    Parameters
    ----------
    n_clusters : int, C
    coreset_size : int, N', draws of the lightweight coreset, at least C for the first rows; draws are repeated, so it
        may exceed n, as for `LightweightCoreset`; None fits all rows (var-GMM-S)
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
        (or all of the coreset) take part: most iterations then are on few rows; the paper has one phase
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
    counts_ : float64 array, shape (C,), weight of the rows of each cluster, of those before a `partial_fit`, too
    lower_bound_ : float, of the log-likelihood of all rows, in nats; estimated where there is a coreset
    lower_bounds_ : list of float, after each E-step, with `grow` of the last phase; never decreasing
    n_moves_ : int, clusters moved by "split", in the last phase
    n_iter_ : int, M-steps of all phases
    n_distances_ : int, distances computed for coreset, seeds and E-steps
    n_empty_ : int, clusters without points of their own: left without any weight, or at the centre of another
    converged_ : bool, whether the stopping rule ended the last phase, not `max_iter`
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
        moves="split",
        covariance="shared",
        grow=True,
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
            for bad options, more clusters than rows of positive weight or draws of the coreset, bad weights, NaN and
            infinity
        """
        return self._fit(X, sample_weight, go_on=self.warm_start and hasattr(self, "cluster_centers_"))

    def partial_fit(self, X, y=None, sample_weight=None):
        """Go on with further rows, or a further coreset; those before count on, each with the clusters that it has.

        Incremental EM (Neal and Hinton 1998): statistics of the rows before, of the size of the centres, take part in
        each M-step, so that the bound of all rows rises. Centres begin where they are. The first call is `fit`.

        Parameters
        ----------
        X, y, sample_weight : as of `fit`; with `coreset_size` a coreset of these rows is drawn, too
        """
        go_on = hasattr(self, "cluster_centers_")
        return self._fit(X, sample_weight, go_on=go_on, past=self._past if go_on else None)

    def _fit(self, X, sample_weight, *, go_on, past=None):
        self._check_options()
        X = self._validate(X, reset=not go_on)
        check_magnitude(X, "X", X.dtype)
        # None stays None: ones for each row of a file might not fit into memory
        weights = None if sample_weight is None else check_sample_weight(sample_weight, len(X))
        n_rows = len(X) if weights is None else int(np.count_nonzero(weights))
        if self.n_clusters > n_rows and past is None:
            raise ValueError(f"n_clusters must be at most the number of rows, got {self.n_clusters} for {n_rows}.")
        if self.coreset_size is not None and past is None:
            check_integer("coreset_size", self.coreset_size, least=self.n_clusters, why="a row for each cluster")
        rng = as_generator(self.random_state)
        rows, counts, n_distances = self._coreset(X, weights, rng)
        self._set_frame(rows if past is None else np.concatenate([rows, self.cluster_centers_.astype(rows.dtype)]))
        # The weights' unit drops out of everything but the bound.
        unit = counts.max()
        past = past and self._past_in_frame(*past, unit, padded(rows[:1]).shape[1])
        mixture, trace, n_fitting = self._optimise(rows, counts / unit, rng, go_on, past)
        self.n_distances_ = n_distances + n_fitting
        self._keep(mixture, trace, unit)
        if self.compute_labels:
            self.labels_ = nearest_centers(X, self.cluster_centers_)[0]
        elif hasattr(self, "labels_"):
            del self.labels_
        return self

    def _past_in_frame(self, statistics, old_unit, unit, width):
        ratio = (old_unit / self._unit) ** 2
        means = np.zeros((len(statistics.mass), width))
        means[:, : self.n_features_in_] = (statistics.means - self._shift) / self._unit
        return Statistics(statistics.mass / unit, means, statistics.scatter / unit * ratio)

    def _optimise(self, rows, weights, rng, go_on, past):
        # The mixture, the trace of the last phase with all iterations counted, and all distances computed.
        Y = padded(self._to_frame(rows))
        floor, mixture, n_distances, n_iter = self._variance_floor(Y), None, 0, 0
        n_steps = 0 if past is None else N_SHARED
        moves = "empty" if self.moves == "split" and past is not None else self.moves  # what is past cannot be cut
        with Threads() as threads, tqdm(desc="EM", disable=not self.verbose) as bar:
            for size in self._sizes(len(Y), go_on):
                last = size == len(Y)
                mine, u = Y, weights
                if not last:
                    chosen, u = lightweight_coreset(Y, size, rng=rng, sample_weight=weights)
                    mine = Y[chosen]
                if mixture is None:
                    mixture, first, n_starting = self._begin(mine, u, rng, go_on)
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
                    past=past,
                )
                paper = self.stopping == "paper" and last
                trace = em.run(
                    mixture,
                    tol=self.tol if last else max(self.tol, SETTLED),
                    max_iter=self.max_iter,
                    relative_to=em.total * rows.shape[1] * np.log(self._unit) if paper else None,
                    moves=moves,
                    progress=lambda bound: bar.update(),
                )
                floor, n_steps = em.floor, em.n_steps
                n_distances += n_starting + trace.n_distances
                n_iter += trace.n_iter
        trace.n_iter = n_iter
        return mixture, trace, n_distances

    def _sizes(self, n, go_on):
        # Rows of each phase.
        sizes = [n]
        if self.grow and not go_on:
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

    def _variance_floor(self, Y):
        # far above what rounding makes of a distance of 0, or the bound of points that are their own centres wavers
        eps = float(np.finfo(Y.dtype).eps)
        return max(eps**1.5 * float(np.mean(sq_norms(Y), dtype=np.float64)), float(np.finfo(Y.dtype).tiny) / eps)

    def _begin(self, Y, counts, rng, go_on):
        # The first mixture, each row's first cluster (or None), and the distances that finding them took.
        C, width = self.n_clusters, min(self.n_neighbors, self.n_clusters)
        variance, log_prior = np.zeros(C), np.full(C, -np.log(C))
        neighbours, first, n_distances = None, None, 0
        from_nearest = self.start == "nearest"
        if go_on:
            if len(self.cluster_centers_) != C:
                raise ValueError(
                    f"n_clusters is {C}, but the warm start has {len(self.cluster_centers_)} centres; "
                    "call fit with warm_start=False."
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

    def _keep(self, mixture, trace, unit):
        d, found = self.n_features_in_, trace.statistics
        in_units_of_X = found.mass.sum() * d * np.log(self._unit)
        self.counts_ = unit * found.mass
        means = found.means[:, :d] * self._unit + self._shift
        self._past = Statistics(self.counts_, means, unit * found.scatter), self._unit
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
        self.n_empty_ = self.n_clusters - len(np.unique(self.cluster_centers_[found.mass > 0], axis=0))
        if not trace.converged:
            warnings.warn(
                f"VCGMM did not settle in {self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self.n_empty_:
            warnings.warn(
                f"{self.n_empty_} of {self.n_clusters} clusters have no points of their own; "
                + (
                    "there may be fewer distinct rows: lower n_clusters or raise coreset_size."
                    if self.moves
                    else "set moves='empty' to use them elsewhere."
                ),
                ConvergenceWarning,
                stacklevel=4,
            )

    def fit_predict(self, X, y=None, sample_weight=None):
        """`fit`, then the labels of `X`."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _check_options(self):
        least = {"n_clusters": 1, "n_neighbors": 1, "n_random": 0, "chain_length": 1, "max_iter": 1}
        for name, limit in least.items():
            check_integer(name, getattr(self, name), least=limit)
        if self.coreset_size is not None:
            check_integer("coreset_size", self.coreset_size)
        check_number("tol", self.tol, least=0)
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
