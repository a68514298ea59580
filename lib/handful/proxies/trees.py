"""Features of tree ensembles: which leaves rows share."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from handful.blocks import by_blocks
from handful.checks import MAX_SEED, as_generator, check_in_memory, check_labels, validate_data
from handful.options import Count, Options, all_or_nothing, check_options
from handful.proxies.kernels import DTYPES, flattened
from handful.tables import readable, take_rows
from handful.trainers import kind_of
from handful.types import Seed

# that the forest and the singular vectors are fitted to
MOST_ROWS = 20_000


class TreeLeaves(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Options):
    """Features whose inner products approximate the share of trees in which two rows fall into the
    same leaf.

    A proxy for boosting and forests (ours; the paper's Section 3.5.2 proposes kernels for
    networks). The leaves of a forest are the columns of a matrix of zeros and ones; its leading
    right singular vectors make few features of them. Random trees (Geurts, Ernst and Wehenkel 2006,
    with cuts drawn without labels) suit what is not known yet; a forest that was fitted to the
    labels looks where they change.

    Parameters
    ----------
    forest : forest of scikit-learn or None, default=None
        None for `RandomTreesEmbedding(100, max_depth=6)`, whose trees are drawn without labels;
        or a forest of scikit-learn's, such as `ExtraTreesClassifier(100, max_leaf_nodes=32)`,
        that is fitted to them.
    n_components : int, default=64
        Number of features at most.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the forest and the singular vectors.

    Attributes
    ----------
    forest_ : the fitted forest
    encoder_, svd_ : what makes features of its leaves

    Examples
    --------
    >>> import numpy as np
    >>> from handful.proxies import TreeLeaves
    >>> X = np.repeat([[0.0], [1.0]], 10, axis=0)
    >>> Z = TreeLeaves(random_state=0).fit_transform(X)
    >>> (Z @ Z.T)[0, [1, 19]] > 0.9  # equal rows share all leaves, distant ones few
    array([ True, False])
    """

    forest: Any = None
    _: KW_ONLY
    n_components: Count = 64
    random_state: Seed = None

    @all_or_nothing
    def fit(self, X, y=None):
        """Grow the forest on the rows of `X`, and labels or targets `y` unless its trees are
        random.

        Of more than 20,000 rows so many are drawn: more change the features little, and take
        longer.

        Raises
        ------
        TypeError
            if `forest` has no leaves to ask for, or is a class
        """
        # here, as importing them takes a while
        from sklearn.decomposition import TruncatedSVD
        from sklearn.ensemble import RandomTreesEmbedding
        from sklearn.preprocessing import OneHotEncoder

        check_options(self)
        forest = RandomTreesEmbedding(max_depth=6) if self.forest is None else self.forest
        if isinstance(forest, type) or not hasattr(forest, "apply"):
            raise TypeError(
                "forest must have leaves to ask for, as ExtraTreesClassifier() has (an instance, "
                "not the class), got "
                f"forest={forest!r}."
            )
        check_in_memory("TreeLeaves", X, y)
        y = self._checked_labels(y)
        X = self._rows(X, reset=True)
        rng = as_generator(self.random_state)
        seeds = rng.integers(MAX_SEED, size=2).tolist()
        if len(X) > MOST_ROWS:
            rows = rng.choice(len(X), MOST_ROWS, replace=False)
            X = X[rows]
            y = take_rows(y, rows)
        forest = clone(forest).set_params(random_state=seeds[0])
        # Leaves are encoded as a sparse matrix, whatever the option says for tables.
        with config_context(transform_output="default"):
            self.forest_ = forest.fit(X, y)
        encoder = OneHotEncoder(handle_unknown="ignore", dtype=np.float32)
        encoder.set_output(transform="default")
        self.encoder_ = encoder.fit(self._leaf_numbers(X))
        leaves = self._leaves(X)
        rank = min(self.n_components, *leaves.shape)
        # the explained share of no variance, which nobody reads
        with np.errstate(invalid="ignore", divide="ignore"):
            svd = TruncatedSVD(rank, random_state=seeds[1])
            svd.set_output(transform="default")
            self.svd_ = svd.fit(leaves)
        self._n_features_out = rank
        return self

    @by_blocks
    def transform(self, X):
        """The features of each row of `X`, shape (n, r)."""
        check_is_fitted(self, "svd_")
        return self.svd_.transform(self._leaves(self._rows(X, reset=False)))

    def _asks_for_y(self):
        return kind_of(self.forest) in ("classifier", "regressor")

    def _checked_labels(self, y):
        # None where the forest does not look at them.
        if y is None or not self._asks_for_y():
            return None
        y = readable(y)
        check_labels(y)
        return y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._asks_for_y()
        return tags

    def _rows(self, X, *, reset):
        return validate_data(self, flattened(X), dtype=DTYPES, reset=reset)

    def _leaf_numbers(self, X):
        # boosting has one tree a step and class
        return self.forest_.apply(X).reshape(len(X), -1)

    def _leaves(self, X):
        numbers = self._leaf_numbers(X)
        return self.encoder_.transform(numbers) / np.float32(np.sqrt(numbers.shape[1]))
