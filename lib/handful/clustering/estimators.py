"""What a fitted clusterer, and a fitted mixture of isotropic Gaussians, says of rows."""

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.blocks import by_blocks
from handful.checks import as_generator, check_integer
from handful.clustering.distances import blocks_of, inverted_file, nearest_centers, probable_centers, sq_distances
from handful.clustering.variational import Mixture, Trace, VariationalEM, padded
from handful.clustering.vcgmm_kernels import Threads
from handful.types import Table

SCORE_ENTRIES = 1 << 22  # distances held at a time
WALKED = 1 << 16  # rows whose greedy search is held at a time
STEPS = 4  # E-steps of a greedy search
TINY = np.finfo(np.float64).tiny


class CentersEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Base of estimators with `n_clusters` and `cluster_centers_`."""

    @by_blocks
    def transform(self, X: Table) -> np.ndarray:
        """Distances to the centres, shape (n, C)."""
        check_is_fitted(self)
        X, centers = self._validate(X), self.cluster_centers_
        return np.concatenate(
            [np.sqrt(sq_distances(X[part], centers)).astype(X.dtype) for part in blocks_of(X, len(centers))]
        )

    def _validate(self, X, reset=False):
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], order="C", accept_sparse="csr")

    @property
    def _n_features_out(self):
        return self.n_clusters

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class MixtureEstimator(CentersEstimator):
    """Base of estimators with `cluster_centers_`, `variance_`, `weights_` and `neighbors_`."""

    @by_blocks
    def predict(self, X: Table, *, greedy: bool = False) -> np.ndarray:
        """The nearest centre of each row (with "isotropic" the likeliest cluster), int array of shape (n,).

        Parameters
        ----------
        X : array or memory map, shape (n, d); of a dask array, frame or bag the result is a dask array, as it
            is of `predict_proba`, `transform` and `score_samples`
        greedy : bool, begin at the centre that an inverted file finds, and go on over the neighbourhoods of the fit as
            an E-step does: about 5 sqrt(C) + 50 distances for each row instead of C, worth it from several thousand
            clusters on. Of rows that lie in clusters, a few in a hundred end at another centre; without clusters a
            third may.
        """
        check_is_fitted(self)
        X = self._validate(X)
        if greedy:
            return self._searched(X)
        return nearest_centers(X, self.cluster_centers_)[0] if self.covariance == "shared" else self._likeliest(X)

    @by_blocks
    def score_samples(self, X: Table) -> np.ndarray:
        """Log-density of each row under the mixture, in nats, float64 array of shape (n,)."""
        check_is_fitted(self)
        return np.concatenate([logsumexp(joints, axis=1) for joints in self._log_joints(self._validate(X))])

    def score(self, X: Table, y: Table = None) -> float:
        """Mean log-density of the rows."""
        return float(self.score_samples(X).mean())

    @by_blocks
    def predict_proba(self, X: Table) -> np.ndarray:
        """Posterior probabilities of the clusters for each row, float64 array of shape (n, C); all C are computed."""
        check_is_fitted(self)
        return np.concatenate([softmax(joints, axis=1) for joints in self._log_joints(self._validate(X))])

    def bic(self, X: Table) -> float:
        """Bayesian information criterion on `X` (Schwarz 1978), in nats; lower is better.

        ``k log n - 2 log p(X)``, where the k free parameters are the centres and one variance or, with "isotropic", a
        variance and a prior each.
        """
        log_densities = self.score_samples(X)
        n_clusters, d = self.cluster_centers_.shape
        free = n_clusters * d + (1 if self.covariance == "shared" else 2 * n_clusters - 1)
        return float(free * np.log(len(log_densities)) - 2 * log_densities.sum())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw from the mixture, with `random_state`: rows, shape (n_samples, d), and the cluster of each."""
        check_is_fitted(self)
        check_integer("n_samples", n_samples)
        rng = as_generator(self.random_state)
        labels = rng.choice(len(self.weights_), n_samples, p=self.weights_)
        std = np.sqrt(np.broadcast_to(self.variance_, len(self.weights_))[labels, None])
        rows = self.cluster_centers_[labels] + std * rng.standard_normal((n_samples, self.n_features_in_))
        return rows.astype(self.cluster_centers_.dtype), labels

    def _searched(self, X):
        # E-steps from the neighbourhood of the centre that an inverted file finds.
        centers, width = self._to_frame(self.cluster_centers_), self.n_features_in_
        variance, log_prior = np.array(np.broadcast_to(self.variance_, len(centers))), np.log(self.weights_ + TINY)
        mixture, file = Mixture(padded(centers), variance, log_prior, self.neighbors_), inverted_file(centers)
        labels = np.empty(X.shape[0], np.intp)
        with Threads() as threads:
            for part in blocks_of(X, 1, WALKED):
                rows = self._to_frame(X[part].toarray() if sparse.issparse(X) else X[part])
                first = mixture.neighbours[probable_centers(rows, centers, file)[0]]
                options = dict(n_random=0, shared=self.covariance == "shared", key=0, threads=threads, floor=0.0)
                search = VariationalEM(padded(rows), np.ones(len(rows)), width, first, **options)
                for _ in range(STEPS):
                    search.e_step(mixture, Trace())
                labels[part] = search.K[:, 0]
        return labels

    def _likeliest(self, X):
        return np.concatenate([joints.argmax(axis=1) for joints in self._log_joints(X)])

    def _log_joints(self, X):
        # Blocks of log p(c, x), shape (at most n, C).
        variance = np.broadcast_to(self.variance_, len(self.cluster_centers_))
        with np.errstate(divide="ignore"):
            constant = np.log(self.weights_) - 0.5 * self.n_features_in_ * np.log(2 * np.pi * variance)
        for part in blocks_of(X, len(variance), SCORE_ENTRIES):
            yield constant - sq_distances(X[part], self.cluster_centers_) / (2 * variance)
