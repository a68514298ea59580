"""What every fitted clusterer of this room does with rows: distances to its centres, and scikit-learn's formalities."""

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.blocks import by_blocks
from handful.clustering.distances import BLOCK_ENTRIES, sq_distances
from handful.types import Table


class CentersEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Base of estimators with `n_clusters` and `cluster_centers_`."""

    @by_blocks
    def transform(self, X: Table) -> np.ndarray:
        """Distances to the centres, shape (n, C)."""
        check_is_fitted(self)
        X = self._validate(X)
        step = max(1, BLOCK_ENTRIES // len(self.cluster_centers_))
        blocks = (X[start : start + step] for start in range(0, X.shape[0], step))
        return np.concatenate([np.sqrt(sq_distances(rows, self.cluster_centers_)).astype(X.dtype) for rows in blocks])

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
