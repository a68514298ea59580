"""Predictions of a fitted mixture of isotropic Gaussians: the cluster of each row, and its density."""

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.utils.validation import check_is_fitted

from handful.blocks import by_blocks
from handful.checks import as_generator, check_integer
from handful.clustering.centers_estimator import CentersEstimator
from handful.clustering.distances import dense_blocks, nearest_centers, sq_distances
from handful.clustering.walk import walk_to_centers
from handful.types import Table

SCORE_ENTRIES = 1 << 22  # distances held at a time


class MixtureEstimator(CentersEstimator):
    """Base of estimators with `cluster_centers_`, `variance_`, `weights_` and `neighbors_`."""

    @by_blocks
    def predict(self, X: Table, *, greedy: bool = False) -> np.ndarray:
        """The nearest centre of each row (with "isotropic" the likeliest cluster), int array of shape (n,).

        Parameters
        ----------
        X : array or memory map, shape (n, d); of a dask array, frame or bag the result is a dask array, as it
            is of `predict_proba`, `transform` and `score_samples`
        greedy : bool, begin at the centre that an inverted file finds and walk on over the neighbourhoods of the fit:
            about 5 sqrt(C) + 50 distances for each row instead of C, worth it from several thousand clusters on. Of
            rows that lie in clusters, one or two in a hundred end at another centre; without clusters a third may.
        """
        check_is_fitted(self)
        X = self._validate(X)
        if greedy:
            return np.concatenate([self._walk(rows) for _, rows in dense_blocks(X, X.shape[0])])
        if self.covariance == "shared":
            return nearest_centers(X, self.cluster_centers_)[0]
        return self._likeliest(X)

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

    def _likeliest(self, X):
        return np.concatenate([joints.argmax(axis=1) for joints in self._log_joints(X)])

    def _walk(self, X):
        centers = self._to_frame(self.cluster_centers_)
        scaled = self._log_variance - 2 * np.log(self._unit)
        offset = 0.5 * self.n_features_in_ * scaled - np.log(np.maximum(self.weights_, np.finfo(np.float64).tiny))
        values = offset - offset.min(), 0.5 * np.exp(-scaled)
        return walk_to_centers(X, centers, self.neighbors_, *values, to_frame=self._to_frame)[0]

    def _to_frame(self, rows):
        return ((rows - self._shift) / self._unit).astype(rows.dtype)

    def _log_joints(self, X):
        # Blocks of log p(c, x), shape (at most n, C), in the frame of the fit, where squares do not underflow.
        centers = (self.cluster_centers_.astype(np.float64) - self._shift) / self._unit
        scaled = self._log_variance - 2 * np.log(self._unit)
        with np.errstate(divide="ignore"):
            constant = np.log(self.weights_) - 0.5 * self.n_features_in_ * (np.log(2 * np.pi) + self._log_variance)
        step = max(1, SCORE_ENTRIES // len(centers))
        for _, block in dense_blocks(X, step):
            rows = (block.astype(np.float64) - self._shift) / self._unit
            yield constant - 0.5 * sq_distances(rows, centers) * np.exp(-scaled)
