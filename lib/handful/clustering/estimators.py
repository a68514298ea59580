"""What a fitted clusterer, and a fitted mixture of Gaussians with one variance, says of rows."""

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from handful.blocks import by_blocks
from handful.checks import check_in_memory, check_magnitude, check_rows, validate_data
from handful.clustering.variational import Mixture, Trace, VariationalEM, padded
from handful.clustering.vcgmm_kernels import Threads
from handful.distances import (
    blocks_of,
    inverted_file,
    nearest_centers,
    probable_centers,
    sq_distances,
)
from handful.options import Options
from handful.scales import warn_of_scales
from handful.tables import dense
from handful.types import Table

# distances held at a time
SCORE_ENTRIES = 1 << 22
# rows whose greedy search is held at a time
WALKED = 1 << 16
# E-steps of a greedy search
STEPS = 4


def centers_of(name, value, *, of, why):
    """ValueError for a word, a function or None in place of centres, which are checked once their
    shape can be; see `handful.options`."""
    if value is None or callable(value) or isinstance(value, (str, bytes)):
        raise ValueError(
            f"{name} of {type(of).__name__} must be an array of centers, got {name}={value!r}: "
            f"{why}."
        )


class CentersEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Options):
    """Base of estimators with `n_clusters` and `cluster_centers_`."""

    @by_blocks
    def transform(self, X: Table) -> np.ndarray:
        """Distances to the centres, shape (n, C)."""
        check_is_fitted(self)
        X = self._validate(X)
        centers = self.cluster_centers_
        return np.concatenate(
            [
                np.sqrt(sq_distances(X[part], centers)).astype(X.dtype)
                for part in blocks_of(X, len(centers))
            ]
        )

    def _warn_of_scales(self, X, sample_weight):
        name = type(self).__name__
        all_count = sample_weight is None or sample_weight.all()
        warn_of_scales(
            X if all_count else X[sample_weight > 0],
            name,
            f"Scale them first: make_pipeline(StandardScaler(), {name}(...)).",
        )

    def _given_centers(self, dtype):
        given = check_rows(self.init, "init").astype(dtype)
        if given.shape != (self.n_clusters, self.n_features_in_):
            raise ValueError(
                f"init must have shape {(self.n_clusters, self.n_features_in_)}, got {given.shape}."
            )
        return given

    def _validate(self, X, reset=False):
        check_in_memory(type(self).__name__, X)
        X = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], order="C", accept_sparse="csr"
        )
        values = X.data if sparse.issparse(X) else X
        check_magnitude(values, "X", X.dtype)
        return X

    @property
    def _n_features_out(self):
        # of the fit, whatever `n_clusters` is now
        return len(self.cluster_centers_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class MixtureEstimator(CentersEstimator):
    """Base of estimators with `cluster_centers_`, `variance_` and `neighbors_`."""

    @by_blocks
    def predict(self, X: Table, *, greedy: bool = False) -> np.ndarray:
        """The nearest centre of each row, its likeliest cluster, int array of shape (n,).

        Parameters
        ----------
        X : array or memory map, shape (n, d); of a dask array, frame or bag the result is a dask
            array, as it is of `predict_proba`, `transform` and `score_samples`
        greedy : bool, begin at the centre that an inverted file finds, and go on over the
            neighbourhoods of the fit as an E-step does: about 5 sqrt(C) + 50 distances for each row
            instead of C, worth it from several thousand clusters on. Of rows that lie in clusters,
            a few in a hundred end at another centre; without clusters a third may.
        """
        check_is_fitted(self)
        X = self._validate(X)
        if greedy:
            return self._searched(X)
        labels, _ = nearest_centers(X, self.cluster_centers_)
        return labels

    @by_blocks
    def score_samples(self, X: Table) -> np.ndarray:
        """Log-density of each row under the mixture, in nats, float64 array of shape (n,)."""
        check_is_fitted(self)
        blocks = self._log_joints(self._validate(X))
        return np.concatenate([logsumexp(joints, axis=1) for joints in blocks])

    def score(self, X: Table, y: Table = None) -> float:
        """Mean log-density of the rows."""
        return float(self.score_samples(X).mean())

    @by_blocks
    def predict_proba(self, X: Table) -> np.ndarray:
        """Posterior probabilities of the clusters for each row, float64 array of shape (n, C); all
        C are computed."""
        check_is_fitted(self)
        blocks = self._log_joints(self._validate(X))
        return np.concatenate([softmax(joints, axis=1) for joints in blocks])

    def bic(self, X: Table) -> float:
        """Bayesian information criterion on `X` (Schwarz 1978), in nats; lower is better.

        ``k log n - 2 log p(X)``, where the k free parameters are the centres and the variance.
        """
        log_densities = self.score_samples(X)
        free = self.cluster_centers_.size + 1
        penalty = free * np.log(len(log_densities))
        return float(penalty - 2 * log_densities.sum())

    def _searched(self, X):
        # E-steps from the neighbourhood of the centre that an inverted file finds.
        centers = self._to_frame(self.cluster_centers_)
        mixture = Mixture(padded(centers), self.variance_, self.neighbors_)
        file = inverted_file(centers)
        labels = np.empty(X.shape[0], np.intp)
        with Threads() as threads:
            for part in blocks_of(X, 1, WALKED):
                rows = self._to_frame(dense(X[part]))
                nearest, _ = probable_centers(rows, centers, file)
                first = mixture.neighbours[nearest]
                ones = np.ones(len(rows))
                options = dict(n_random=0, key=0, threads=threads, floor=0.0)
                search = VariationalEM(padded(rows), ones, X.shape[1], first, **options)
                for _ in range(STEPS):
                    search.e_step(mixture, Trace())
                labels[part] = search.K[:, 0]
        return labels

    def _to_frame(self, rows):
        return (rows - self._shift).astype(rows.dtype)

    def _log_joints(self, X):
        # Blocks of log p(c, x), shape (at most n, C).
        n_clusters, d = self.cluster_centers_.shape
        log_variance = np.log(2 * np.pi * self.variance_)
        constant = -np.log(n_clusters) - 0.5 * d * log_variance
        for part in blocks_of(X, n_clusters, SCORE_ENTRIES):
            yield constant - sq_distances(X[part], self.cluster_centers_) / (2 * self.variance_)
