"""vc-GMM (Hirschberger, Forster and Lücke 2019): clustering whose cost hardly grows with points and
clusters."""

from copy import copy
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags
from sklearn.utils.extmath import row_norms

from handful.blocks import as_blocks
from handful.checks import (
    as_generator,
    check_integer,
    check_sample_weight,
    is_blocks,
)
from handful.clustering.estimators import MixtureEstimator, centers_of
from handful.clustering.seeding import afkmc2, kmeans_plusplus, median_of_some
from handful.clustering.variational import (
    PAPER,
    SETTLED,
    Mixture,
    Statistics,
    TruncatedEM,
    VariationalEM,
    padded,
    random_neighbours,
    random_sets,
)
from handful.clustering.vcgmm_kernels import Threads
from handful.distances import nearest_centers, probable_centers
from handful.options import Count, NonNegative, all_or_nothing, check_options
from handful.rows import RowBlocks
from handful.running import Bar, warn
from handful.sensitivity.lightweight import lightweight_blocks, lightweight_coreset
from handful.tables import dense, exceeds_memory
from handful.types import Seed, Table

ALGORITHMS = {"fast": TruncatedEM(), "paper": PAPER}
# rows per cluster in the first phase; factor from each phase to the next
FIRST_ROWS = 16
GROWTH = 4
# up to here greedy seeds take less time than the iterations
FEW_CLUSTERS = 1000
# clusters kept per point with hard assignments, where only the best one counts
HARD_KEPT = 3
# as SETTLED, where hard assignments follow soft ones of the same rows
SOFTENED = 3e-4


def _is_em(name, value, *, of, why):
    # The variants that the paper's figures compare are objects; users choose by a word.
    if not isinstance(value, TruncatedEM):
        raise ValueError(
            f"{name} of {type(of).__name__} must be one of {tuple(ALGORITHMS)}, got "
            f"{name}={value!r}."
        )


class VCGMM(MixtureEstimator):
    """Many clusters on much data: a Gaussian mixture fitted by truncated variational EM on a
    lightweight coreset.

    Hirschberger, Forster and Lücke (2019), Algorithms 1 and 2. Each point looks only at the
    neighbours of the clusters that it found last, so that an iteration costs O(N' G^2 D) with no
    factor for the number of clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters, C.
    coreset_size : int or None, default=None
        N', draws of the lightweight coreset, at least C in the first call. Rows are drawn with
        repetition, so it may exceed n. None fits all rows (the paper's var-GMM-S).
    n_neighbors : int, default=5
        G, clusters in a neighbourhood, and C', clusters kept per point; at least 2, and at most C
        are used.
    init : {"auto", "greedy", "k-means++", "afkmc2"} or array of shape (C, d), default="auto"
        "greedy" (k-means++, the best of 2 + log C draws), "k-means++", "afkmc2" (the paper's:
        short Markov chains instead of passes, from random first sets), an array of centres,
        shape (C, d), or "auto": "greedy" up to 1,000 clusters, and then seeds of "afkmc2" with
        each row at its nearest one, whose time hardly grows with C.
    assignment : {"soft", "hard", "hardened"}, default="soft"
        "soft", truncated posteriors; "hard" gives each point to its best cluster alone, which
        is the objective of k-means and the fastest; "hardened" fits soft assignments first,
        then hard ones in a further phase: for a small quantisation error whether clusters
        overlap or rows repeat.
    algorithm : {"fast", "paper"}, default="fast"
        "paper" is Algorithm 1 as printed: one phase from random first sets, and no moves.
    tol : float, default=0.0001
        The fit ends when an iteration changes the bound by less: in nats per point and
        dimension, or with "paper" as a share of the bound.
    max_iter : int, default=300
        M-steps of one phase.
    warm_start : bool, default=False
        Begin the next `fit` at the present centres, variance and neighbourhoods.
    compute_labels : bool, default=True
        Find the nearest centre of all rows after fitting, which takes n C d operations.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.
    verbose : bool, default=False
        Show progress from the start, not only after 30 seconds.

    Attributes
    ----------
    cluster_centers_ : array, shape (C, d)
    variance_ : float, in each direction, the same for all clusters, as in the paper, whose priors
        are equal, too
    counts_ : float64 array, shape (C,), weight of the rows of each cluster, including rows of
        earlier `partial_fit`
    lower_bound_ : float, of the log-likelihood of all rows, in nats; estimated where there is a
        coreset
    lower_bounds_ : list of float, after each E-step of the last phase; never decreasing
    n_moves_ : int, clusters of little use that "fast" moved to where cutting another one gained
        more, in the last phase
    n_iter_ : int, M-steps of all phases
    n_distances_ : int, distances computed for coreset, seeds and E-steps
    n_empty_ : int, clusters that no row of positive weight is assigned to: after a `fit`,
        ``n_clusters - len(numpy.unique(labels_[sample_weight > 0]))``. Without `labels_` in memory
        the rows that were fitted count, each for the best cluster that its search found. Of the
        rows of each earlier `partial_fit` those count that were nearest to their centres
    converged_ : bool, whether `tol` ended the last phase, not `max_iter`
    neighbors_ : int32 array, shape (C, G), the neighbourhoods
    labels_ : int array, shape (n,), what `predict` gives for the rows of the fit, if
        `compute_labels`
    inertia_ : float, weighted sum of the squared distances of all rows to their nearest centres, if
        `compute_labels`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2)) + 20 * rng.integers(5, size=(20_000, 2))
    >>> VCGMM(25, coreset_size=2_000, random_state=0).fit(X).cluster_centers_.shape
    (25, 2)
    """

    n_clusters: Count = 8
    _: KW_ONLY
    coreset_size: Count | None = None
    n_neighbors: Count = 5
    init: Literal["auto", "greedy", "k-means++", "afkmc2"] | Annotated[Any, centers_of] = "auto"
    assignment: Literal["soft", "hard", "hardened"] = "soft"
    algorithm: Literal["fast", "paper"] | Annotated[Any, _is_em] = "fast"
    tol: NonNegative = 1e-4
    max_iter: Count = 300
    warm_start: bool = False
    compute_labels: bool = True
    random_state: Seed = None
    verbose: bool = False

    def fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : array, shape (n, d); with a `coreset_size` also a CSR matrix, of which no more than the
            coreset, or a block of rows, is made dense at a time; or a dask array, frame or bag of
            chunks, of which a coreset is drawn in two passes, the same as on one machine, and
            fitted here. `labels_` is then a dask array, and there is no `inertia_`
        y : ignored
        sample_weight : shape (n,), how often each row counts

        Raises
        ------
        ValueError
            for bad options, more clusters than rows of positive weight or draws of the coreset, bad
            weights, NaN and infinity
        """
        go_on = self.warm_start and hasattr(self, "cluster_centers_")
        return self._fit(X, sample_weight, go_on=go_on)

    def partial_fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Go on with further rows, or a coreset of them. Rows of earlier calls count on in their
        clusters.

        Incremental EM (Neal and Hinton 1998): the statistics of the earlier rows, as large as the
        centres, take part in each M-step, so that the bound of all rows rises. Centres begin where
        they are. The first call is a `fit`.

        Parameters
        ----------
        X, y, sample_weight : as for `fit`
        """
        go_on = hasattr(self, "cluster_centers_")
        past = self._past if go_on else None
        return self._fit(X, sample_weight, go_on=go_on, past=past)

    @all_or_nothing
    def _fit(self, X, sample_weight, *, go_on, past=None):
        check_options(self)
        check_integer(
            "n_neighbors",
            self.n_neighbors,
            least=min(2, self.n_clusters),
            why="a row that looks at one cluster never leaves it",
        )
        fits_as_one = self.coreset_size is None and exceeds_memory(X)
        in_blocks = is_blocks(X) and not fits_as_one
        weights = None
        if in_blocks:
            source = copy(as_blocks(X, None, sample_weight))
            source.verbose |= self.verbose
            n = source.n
        else:
            source = X = self._validate(X, reset=not go_on)
            n = X.shape[0]
            # None stays None, because a one for each row of a large file might not fit into memory.
            if sample_weight is not None:
                weights = check_sample_weight(sample_weight, n)
        present = slice(None) if weights is None else np.flatnonzero(weights)
        if past is None and not in_blocks:
            self._warn_of_scales(X, weights)
        self._check_coreset_size(source)
        # A stream goes on with its first generator: one made anew for each chunk of equal length
        # would draw the same places of it.
        rng = as_generator(self.random_state) if past is None else self._rng
        self._rng = rng
        fitted, rows, u = self._rows_to_fit(source, weights, present, rng, go_on, past)
        self._shift = median_of_some(rows)
        if past is not None:
            means = padded(past.means, self._shift)
            past = Statistics(past.mass, means, past.scatter)
        # in place of the coreset's rows, which would lie in memory beside these
        rows = padded(rows, self._shift)
        mixture, trace, n_fitting = self._optimise(rows, u, rng, go_on, past)
        n_drawing = 0 if self.coreset_size is None else n
        self.n_distances_ = n_drawing + n_fitting
        earlier = None if past is None else self._in_clusters
        self._keep(mixture, trace)
        sq_dist = self._label(X, weights, in_blocks)
        if isinstance(getattr(self, "labels_", None), np.ndarray):
            in_use = self._rows_in_labels(X, present, sq_dist)
        else:
            in_use = self._rows_in_fit(X, fitted, rows, trace.nearest_rows)
        self._count_empty(*in_use, earlier)
        return self

    def _rows_to_fit(self, source, weights, present, rng, go_on, past):
        # All rows that count, or a coreset of them: their places, None for rows in blocks, the rows
        # and their weights. `source` is a checked matrix or `Blocks`.
        check = self._check_counts if past is None else None
        if isinstance(source, RowBlocks):
            drawn = lightweight_blocks(source, self.coreset_size, rng=rng, check=check)
            rows = self._validate(drawn.X, reset=not go_on)
            return None, dense(rows), drawn.weight
        if check is not None:
            check(source.shape[0] if weights is None else len(present))
        if self.coreset_size is None:
            u = np.ones(len(source)) if weights is None else weights[present]
            return present, source[present], u
        places, u = lightweight_coreset(source, self.coreset_size, rng=rng, sample_weight=weights)
        return places, dense(source[places]), u

    def _check_coreset_size(self, source):
        if self.coreset_size is None and not isinstance(source, np.ndarray):
            raise ValueError(
                "coreset_size must be an integer for sparse rows, dask data and files, of which "
                "VCGMM fits a coreset, got None: try 2**16."
            )

    def _check_counts(self, n_rows):
        # Of the first call: later ones go on with the clusters that there are.
        if self.n_clusters > n_rows:
            raise ValueError(
                f"n_clusters must be at most the number of rows, got {self.n_clusters} for "
                f"{n_rows}."
            )
        if self.coreset_size is not None:
            check_integer(
                "coreset_size",
                self.coreset_size,
                least=self.n_clusters,
                why="a row for each cluster",
            )

    # The clusters in use and, of the rows that count, the one nearest to the centre of each.
    # For rows in blocks, `sq_dist` and `fitted` are None, and rows are not read once more for it.

    def _rows_in_labels(self, X, present, sq_dist):
        if sq_dist is None:
            clusters = np.unique(self.labels_)
            return clusters, self.cluster_centers_[clusters]
        places = np.arange(X.shape[0])[present]
        nearest_first = places[np.lexsort((sq_dist[places], self.labels_[places]))]
        clusters, first = np.unique(self.labels_[nearest_first], return_index=True)
        return clusters, dense(X[nearest_first[first]])

    def _rows_in_fit(self, X, fitted, rows, nearest_rows):
        # `fitted` are the places in X of the rows that were fitted, which `rows` holds as well.
        clusters = np.flatnonzero(nearest_rows >= 0)
        nearest = nearest_rows[clusters]
        if fitted is None:
            return clusters, rows[nearest, : self.n_features_in_] + self._shift
        places = np.arange(X.shape[0])[fitted]
        return clusters, dense(X[places[nearest]])

    def _label(self, X, weights, in_blocks):
        # Returns the squared distances to the nearest centres, None where there are none in memory.
        for attribute in ("labels_", "inertia_"):
            vars(self).pop(attribute, None)
        if not self.compute_labels:
            return None
        if in_blocks:
            self.labels_ = self.predict(X)
            return None
        self.labels_, sq_dist = nearest_centers(X, self.cluster_centers_)
        total = sq_dist.sum() if weights is None else weights @ sq_dist
        self.inertia_ = float(total)
        return sq_dist

    def _count_empty(self, clusters, rows, earlier):
        # `rows` are a row of each of the `clusters` in use; `earlier` is such a pair of the calls
        # before, or None.
        if earlier is not None:
            before, earlier_rows = earlier
            if self.compute_labels:
                before, _ = nearest_centers(earlier_rows, self.cluster_centers_)
            together = np.append(clusters, before)
            clusters, first = np.unique(together, return_index=True)
            rows = np.concatenate([rows, earlier_rows])[first]
        self._in_clusters = clusters, rows
        # A search may give equal rows to several clusters whose centres differ by rounding: only
        # one of these counts.
        self.n_empty_ = self.n_clusters - len(np.unique(rows, axis=0))
        if self.n_empty_:
            said = f"{self.n_empty_} of {self.n_clusters} clusters have no points of their own; "
            said += "there may be fewer distinct rows: lower n_clusters or raise coreset_size."
            warn(said, ConvergenceWarning)

    def _optimise(self, Y, weights, rng, go_on, past):
        # Returns the mixture, the trace of the last phase (with the iterations of all) and the
        # distances computed.
        how = ALGORITHMS.get(self.algorithm, self.algorithm)
        floor = _least_variance(Y)
        sizes = self._sizes(len(Y), how.grow and not go_on)
        phases = [(size, self.assignment == "hard", SETTLED) for size in sizes]
        if self.assignment == "hardened":
            phases.append((len(Y), False, SOFTENED))
        # rows, hard or not, least tol
        phases.append((len(Y), self.assignment != "soft", 0.0))
        mixture = None
        n_distances = 0
        n_iter = 0
        with Threads() as threads, Bar(desc="EM", verbose=self.verbose) as bar:
            for size, hard, least_tol in phases:
                mine = Y
                u = weights
                if size < len(Y):
                    chosen, u = lightweight_coreset(Y, size, rng=rng, sample_weight=weights)
                    mine = Y[chosen]
                order = np.arange(len(mine))
                if mixture is None:
                    mixture, first, n_starting = self._begin(mine, u, rng, how, floor, go_on)
                    width = mixture.neighbours.shape[1]
                    K = random_sets(len(mine), self.n_clusters, width, rng)
                    if first is not None:
                        K[:, 0] = first
                else:
                    first, n_starting = probable_centers(mine, mixture.centers)
                    order = np.argsort(first, kind="stable")
                    mine = mine[order]
                    u = u[order]
                    K = mixture.neighbours[first[order]]
                if hard:
                    K = np.ascontiguousarray(K[:, :HARD_KEPT])
                em = VariationalEM(
                    mine,
                    u,
                    self.n_features_in_,
                    K,
                    n_random=how.n_random,
                    key=rng.integers(2**63),
                    threads=threads,
                    floor=floor,
                    hard=hard,
                    n_steps=n_iter,
                    past=past,
                )
                # of which `em` keeps those that it puts in another order
                del mine, u, K
                trace = em.run(
                    mixture,
                    tol=max(self.tol, least_tol),
                    max_iter=self.max_iter,
                    n_warmup=how.n_warmup,
                    relative=how.stopping == "relative" and not least_tol,
                    # earlier rows cannot be cut
                    moves=how.moves if past is None else None,
                    progress=bar.update,
                )
                # before the next phase makes its copy of the rows
                del em
                n_distances += n_starting + trace.n_distances
                n_iter += trace.n_iter
        if mixture.variance <= floor:
            self._warn_of_floor(Y, floor)
        trace.n_iter = n_iter
        nearest_rows = trace.nearest_rows
        has_row = nearest_rows >= 0
        nearest_rows[has_row] = order[nearest_rows[has_row]]
        return mixture, trace, n_distances

    def _warn_of_floor(self, Y, floor):
        if len(np.unique(Y, axis=0)) <= self.n_clusters:
            # copies of the centres: any variance is too large
            return
        way_out = "labels_ are right, likelihoods and lower_bound_ are not"
        if Y.dtype == np.float32:
            way_out = "give X as float64"
        said = f"variance_ is the least that {Y.dtype} allows here, {floor:.3g}, and clusters are "
        warn(f"{said}narrower; {way_out}.", ConvergenceWarning)

    def _sizes(self, n, grow):
        # How many rows take part in the phases before the last.
        sizes = []
        size = FIRST_ROWS * self.n_clusters
        while grow and size * GROWTH <= 1.5 * n:
            sizes.append(size)
            size *= GROWTH
        return sizes

    def _begin(self, Y, weights, rng, how, floor, go_on):
        # Returns the first mixture, the first cluster of each row (or None) and the distances
        # computed.
        C = self.n_clusters
        width = min(self.n_neighbors, C)
        variance = 0.0
        neighbours = None
        labels = None
        n_distances = 0
        from_seeds = how.start != "random"
        init = self._init_word()
        if go_on:
            centers = self._warm_centers(Y.dtype)
            variance = max(self.variance_, floor)
            if self.neighbors_.shape[1] == width:
                neighbours = self.neighbors_.copy()
        elif init == "given":
            centers = padded(self._given_centers(Y.dtype), self._shift)
        elif init in ("afkmc2", "chains"):
            seeds, n_distances = afkmc2(
                Y, C, chain_length=how.chain_length, sample_weight=weights, rng=rng
            )
            centers = Y[seeds]
            # where "afkmc2" is asked for, the paper's random clusters are the default
            from_seeds &= how.start == "nearest" or init == "chains"
        else:
            trials = 1 if init == "k-means++" else None
            seeds, labels, n_distances = kmeans_plusplus(
                Y, C, sample_weight=weights, n_trials=trials, rng=rng
            )
            centers = Y[seeds]
        first = None
        if from_seeds and labels is not None:
            first = labels
        elif from_seeds:
            first, n_starting = probable_centers(Y, centers)
            n_distances += n_starting
        if neighbours is None:
            neighbours = random_neighbours(C, width, rng)
        mixture = Mixture(np.array(centers), variance, neighbours)
        return mixture, first, n_distances

    def _init_word(self):
        # The way to the first centres; "chains" are those of "afkmc2" where nobody asked for them.
        if not isinstance(self.init, str):
            return "given"
        if self.init != "auto":
            return self.init
        return "greedy" if self.n_clusters <= FEW_CLUSTERS else "chains"

    def _warm_centers(self, dtype):
        n_centers = len(self.cluster_centers_)
        if n_centers != self.n_clusters:
            anew = "set_params(warm_start=False) and fit" if self.warm_start else "fit"
            raise ValueError(
                f"n_clusters is {self.n_clusters}, but there are {n_centers} centres to go on "
                f"from; call {anew} to begin anew."
            )
        return padded(self.cluster_centers_.astype(dtype), self._shift)

    def _keep(self, mixture, trace):
        d = self.n_features_in_
        found = trace.statistics
        # a copy, as `partial_fit` goes on with what is kept
        self.counts_ = found.mass.copy()
        means = found.means[:, :d] + self._shift
        self._past = Statistics(found.mass, means, found.scatter)
        centers = mixture.centers[:, :d].astype(np.float64) + self._shift
        centers = centers.astype(mixture.centers.dtype)
        self.cluster_centers_ = np.ascontiguousarray(centers)
        self.variance_ = float(mixture.variance)
        self.neighbors_ = mixture.neighbours
        self.lower_bounds_ = trace.bounds
        self.lower_bound_ = trace.bounds[-1]
        self.n_moves_ = trace.n_moves
        self.n_iter_ = trace.n_iter
        self.converged_ = trace.converged
        if not trace.converged:
            said = f"VCGMM did not settle in {self.max_iter} iterations; raise max_iter or tol."
            warn(said, ConvergenceWarning)

    def fit_predict(self, X: Table, y: Table = None, sample_weight: Table = None) -> np.ndarray:
        """`fit`, then the labels of `X`."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.coreset_size is not None
        # of `predict_proba`: a column a cluster
        tags.classifier_tags = ClassifierTags()
        return tags


def _least_variance(Y):
    """The floor of the variance: far above what rounding makes of a distance of 0, or else the
    bound would waver where points are centres.

    Rows that lie far from the others do not raise it: of the squared norms it takes the median.
    """
    type_of = np.finfo(Y.dtype)
    sq_norms = row_norms(Y, squared=True)
    away = sq_norms[sq_norms > 0]
    typical = float(np.median(away)) if len(away) else 0.0
    return max(float(type_of.eps) ** 1.5 * typical, float(type_of.tiny / type_of.eps))
