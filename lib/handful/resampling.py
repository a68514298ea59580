"""Selectors inside a pipeline of imbalanced-learn, whose samplers hand on rows and labels but no weights."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from handful.coreset import check_selector
from handful.estimator import Delegate, check_takes_weights
from handful.types import Table


class WeightedLabels:
    """Labels that carry their rows' weights through a pipeline, to a `WeightedFit`.

    They cannot be read as an array: a step that did so would drop the weights.

    Attributes
    ----------
    labels : array, shape (m,)
    weights : float array, shape (m,)
    """

    def __init__(self, labels, weights):
        self.labels = labels
        self.weights = weights
        self.shape = np.shape(labels)

    def __len__(self):
        return self.shape[0]

    def __array__(self, *args, **kwargs):
        raise TypeError(
            "these labels carry the weights of a coreset, which this step would drop: make the last step "
            "WeightedFit(estimator), and let CoresetSampler be the last that looks at labels before it."
        )


class CoresetSampler(BaseEstimator):
    """A selector as a sampler for `imblearn.pipeline.Pipeline`; `WeightedFit` as the last step uses the weights.

    Parameters
    ----------
    selector : Selector

    Attributes
    ----------
    selector_ : the fitted selector
    sample_indices_ : int array, shape (m,), rows chosen
    sample_weight_ : float array, shape (m,), their weights

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from handful import KMeansPlusPlus
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_small, y_small = CoresetSampler(KMeansPlusPlus(40, weighting="cells", random_state=0)).fit_resample(X, y)
    >>> float(y_small.weights.sum())
    569.0
    >>> model = WeightedFit(LogisticRegression(max_iter=5000)).fit(X_small, y_small)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    def __init__(self, selector: Any) -> None:
        self.selector = selector

    def fit_resample(self, X: Table, y: Table) -> tuple[Any, WeightedLabels]:
        """Choose rows.

        Parameters
        ----------
        X, y : as the selector takes them, shape (n, d) and (n,); y may not be None, as it carries the weights

        Returns
        -------
        X_small : the chosen rows, in the type of `X`
        y_small : WeightedLabels, their labels and weights

        Raises
        ------
        TypeError
            if `selector` is no selector
        ValueError
            without y
        """
        check_selector(self.selector, "; CoresetSampler takes the selector alone")
        if y is None:
            raise ValueError("CoresetSampler hands on the weights with y, got y=None: give labels or targets.")
        self.selector_ = clone(self.selector).fit(X, y)
        self.sample_indices_, self.sample_weight_ = self.selector_.indices_, self.selector_.weights_
        X_small, y_small, weights = self.selector_.take(X, y)
        return X_small, WeightedLabels(y_small, weights)

    def fit(self, X: Table, y: Table) -> Self:
        """Choose rows; `sample_indices_` and `sample_weight_` say which."""
        self.fit_resample(X, y)
        return self


class WeightedFit(Delegate):
    """Fits `estimator` with the weights that a `CoresetSampler` earlier in the pipeline gave its labels.

    Parameters
    ----------
    estimator : scikit-learn estimator whose `fit` takes `sample_weight`

    Attributes
    ----------
    estimator_ : the fitted estimator; `predict`, `score` and so on are its own

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from handful import CoresetSampler, LightweightCoreset
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_small, y_small = CoresetSampler(LightweightCoreset(60, random_state=0)).fit_resample(X, y)
    >>> len(WeightedFit(LogisticRegression(max_iter=5000)).fit(X_small, y_small).predict(X))
    569
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Table, y: Any, **params: Any) -> Self:
        """Fit on rows with `WeightedLabels`.

        Raises
        ------
        ValueError
            for labels without weights, and an estimator whose `fit` takes no `sample_weight`
        """
        check_takes_weights(self.estimator)
        if not isinstance(y, WeightedLabels):
            raise ValueError("WeightedFit got labels without weights: put a CoresetSampler before it in the pipeline.")
        options = self._route("fit", params)["estimator"]["fit"]
        self.estimator_ = clone(self.estimator).fit(X, y.labels, sample_weight=y.weights, **options)
        return self

    @property
    def n_features_in_(self):
        """Number of features seen in `fit`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.n_features_in_
