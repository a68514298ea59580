"""Coresets: weighted rows of a data set, and the selectors that choose them."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from handful.checks import as_generator, check_magnitude, check_sample_weight, check_size


@dataclass(frozen=True)
class Coreset:
    """A weighted subset of a data set.

    Attributes
    ----------
    indices : int array, shape (m,); rows of the data set, in the order in which they were chosen
    weights : float array, shape (m,); they estimate sums over the whole data set, so they add up to
        about its number of rows (or to the sum of its ``sample_weight``)
    """

    indices: np.ndarray
    weights: np.ndarray

    def __post_init__(self):
        indices, weights = np.asarray(self.indices), np.asarray(self.weights)
        if indices.ndim != 1 or indices.shape != weights.shape:
            raise ValueError(
                "a coreset needs one weight per index: got indices of shape "
                f"{indices.shape} and weights of shape {weights.shape}."
            )

    def __len__(self):
        return len(self.indices)

    def take(self, X, *arrays):
        """Rows of `X` and of each further array, and the weights.

        Parameters
        ----------
        X, *arrays : arrays, data frames, sparse matrices or torch tensors of the data set's length; None stays None

        Returns
        -------
        list : the rows of each argument, in the order of the call, then the weights, shape (m,)

        Raises
        ------
        ValueError
            for an argument that is shorter than the data set that the coreset was chosen from
        """
        return [*(_rows(a, self.indices) for a in (X, *arrays)), self.weights]

    def subset(self, dataset):
        """The coreset of a `torch.utils.data.Dataset`, as a `torch.utils.data.Subset` that yields weights.

        Items are those of `dataset` with the point's weight (a 0-d float32 tensor) appended; to a dictionary, as the
        items of Hugging Face's data sets are, as its entry "weight".
        """
        from handful.torch_data import WeightedSubset

        return WeightedSubset(dataset, self.indices, self.weights)


def _rows(array, indices):
    if array is None:
        return None
    if not hasattr(array, "shape"):  # a list, or anything that numpy can read
        array = np.asarray(array)
    if len(indices) and np.max(indices) >= array.shape[0]:
        largest, n = np.max(indices), array.shape[0]
        raise ValueError(f"the coreset holds row {largest}, but got {n} rows: take from the data it was fitted on.")
    if hasattr(array, "iloc"):  # pandas
        return array.iloc[indices]
    if sparse.issparse(array):
        return array.tocsr()[indices]
    if hasattr(array, "index_select"):  # torch
        import torch

        return array[torch.as_tensor(indices, device=array.device)]
    return np.asarray(array)[indices]


class Selector(BaseEstimator):
    """Base class: checks the input once, then asks the subclass's `_select` for a coreset.

    A subclass sets its hyper-parameters in `__init__` (keyword-only; `size` and `random_state` among
    them) and implements

    ``_select(X, y, sample_weight, rng) -> (indices, weights)``

    where `X` is a checked 2-d array or CSR matrix of finite floats, `y` a 1-d array or None,
    `sample_weight` a float64 array of length n (ones where the caller gave none) and `rng` a
    `numpy.random.Generator`. Rows of weight zero count as absent: they must not be selected.
    """

    _needs_y = False  # `fit` refuses y=None
    _takes_sparse = False
    _dtypes = (np.float64, np.float32)  # others are converted to the first
    _repeats = False  # draws with repetition: `size` may exceed the number of rows
    _computes = True  # does arithmetic on X, so that `fit` refuses values that would overflow
    _ranks = True  # the first k rows chosen are a coreset of k; False if rows come in another order, such as ascending

    def fit(self, X, y=None, sample_weight=None):
        """Choose the coreset.

        Parameters
        ----------
        X : array, data frame or CSR matrix (where `sparse` input is supported), shape (n, d)
        y : labels or targets, shape (n,); optional for selectors that do not look at them
        sample_weight : shape (n,), non-negative; how often each row counts

        Returns
        -------
        self, with `indices_` (m,), `weights_` (m,) and `coreset_`

        Raises
        ------
        ValueError
            for non-finite or huge values, wrong lengths, negative or all-zero weights, a size outside
            1..n and empty input; the message names the thing, the limit and what it got.
        """
        X, y, sample_weight = self._check_input(X, y, sample_weight)
        indices, weights = self._select(X, y, sample_weight, as_generator(self.random_state))
        self.indices_ = np.asarray(indices, dtype=np.intp)
        self.weights_ = np.asarray(weights, dtype=np.float64)
        return self

    def _check_input(self, X, y, sample_weight):
        X, y = self._check_X_y(X, y)
        if self._computes:
            check_magnitude(X.data if sparse.issparse(X) else X, "X", X.dtype)
        sample_weight = check_sample_weight(sample_weight, X.shape[0])
        check_size(self.size, int(np.count_nonzero(sample_weight)), X.shape[0], repeats=self._repeats)
        return X, y, sample_weight

    def _check_X_y(self, X, y):
        options = dict(
            accept_sparse="csr" if self._takes_sparse else False,
            dtype=list(self._dtypes),
            ensure_min_samples=1,
        )
        if y is None and self._needs_y:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: "
                "it selects the points on which a model of y can be trained."
            )
        if y is None:
            return validate_data(self, X, **options), None
        X, y = validate_data(self, X, y, **options, multi_output=False, y_numeric=False)
        return X, y

    @property
    def coreset_(self):
        """The fitted `Coreset`."""
        check_is_fitted(self, "indices_")
        return Coreset(self.indices_, self.weights_)

    def take(self, X, *arrays):
        """Shorthand for ``self.coreset_.take(X, *arrays)``."""
        return self.coreset_.take(X, *arrays)

    def subset(self, dataset):
        """Shorthand for ``self.coreset_.subset(dataset)``."""
        return self.coreset_.subset(dataset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.target_tags.required = self._needs_y
        return tags


def check_selector(selector, hint=""):
    """TypeError unless `selector` chooses rows and takes their `sample_weight`; `hint` ends the message."""
    if isinstance(selector, type):
        name = selector.__name__
        raise TypeError(f"selector must choose rows, as BilevelCoreset() does, got the class {name}: give {name}().")
    if not (hasattr(selector, "take") and hasattr(selector, "fit")):
        raise TypeError(f"selector must choose rows, as BilevelCoreset does, got {selector!r}{hint}.")
    if not has_fit_parameter(selector, "sample_weight"):
        name = type(selector).__name__
        raise TypeError(f"selector must choose rows by sample_weight, as BilevelCoreset does, but {name} takes none.")


def choose(selector, X, y, sample_weight, rng):
    """What a selector chooses of a part of the data, such as a leaf of a stream or a task: ``(indices, weights)``.

    A part with one class only, zero weights aside, goes to the selector's `select_one_class` where it has one: a
    classifier's loss needs two classes, a part of a stream may hold one.

    Parameters
    ----------
    selector : Selector, its size set
    X, y : the rows and their labels, or None
    sample_weight : shape (n,), or None
    rng : numpy.random.Generator, for `select_one_class`

    Raises
    ------
    ValueError
        as the selector's `fit`
    """
    if hasattr(selector, "select_one_class") and _of_one_class(y, sample_weight):
        X, _, sample_weight = selector._check_input(X, y, sample_weight)
        return selector.select_one_class(X, sample_weight, rng)
    selector.fit(X, y, sample_weight=sample_weight)
    return selector.indices_, selector.weights_


def _of_one_class(y, sample_weight):
    # The input is not checked yet.
    labels = np.asarray(y)
    if np.shape(sample_weight) == labels.shape:
        labels = labels[np.asarray(sample_weight) != 0]
    return labels.ndim == 1 and len(labels) > 0 and bool((labels == labels[0]).all())


def _estimator_has(method):
    def check(self):
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


def _of_the_estimator(name, doc):
    # A method that asks the fitted estimator; it exists if the estimator has a method of that name.
    def method(self, X):
        check_is_fitted(self, "estimator_")
        return getattr(self.estimator_, name)(X)

    method.__name__, method.__doc__ = name, doc
    return available_if(_estimator_has(name))(method)


class CoresetEstimator(MetaEstimatorMixin, BaseEstimator):
    """Select a coreset, then fit `estimator` on it: drops into a Pipeline or a GridSearchCV.

    Parameters
    ----------
    selector : Selector
    estimator : scikit-learn estimator whose `fit` takes `sample_weight`

    Attributes
    ----------
    selector_ : the fitted selector
    estimator_ : the estimator, fitted on the coreset with its weights; `predict`, `predict_proba`,
        `decision_function`, `transform` and `score` are its own

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from handful import BilevelCoreset, Logistic
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> few = BilevelCoreset(Logistic(l2=1e-2), size=20, random_state=0)
    >>> model = make_pipeline(StandardScaler(), CoresetEstimator(few, LogisticRegression(C=1 / (1e-2 * len(y)))))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    """

    def __init__(self, selector, estimator):
        self.selector = selector
        self.estimator = estimator

    def fit(self, X, y=None, sample_weight=None):
        """Select from (X, y), then fit a clone of `estimator` on the weighted selection.

        Raises
        ------
        TypeError
            if `selector` is no selector (the selector comes first, then the estimator), or takes no `sample_weight`
        ValueError
            if the estimator's `fit` has no `sample_weight`: the weights would be dropped
        """
        check_selector(self.selector, "; the order is CoresetEstimator(selector, estimator)")
        if not has_fit_parameter(self.estimator, "sample_weight"):
            way_out = "choose an estimator that takes one."
            if hasattr(self.estimator, "steps"):
                way_out = "put its scaler before: make_pipeline(scaler, CoresetEstimator(selector, classifier))."
            raise ValueError(
                f"{type(self.estimator).__name__}.fit takes no sample_weight, so it cannot train on a weighted "
                f"coreset; {way_out}"
            )
        self.selector_ = clone(self.selector).fit(X, y, sample_weight=sample_weight)
        X_small, y_small, weights = self.selector_.take(X, y)
        self.estimator_ = clone(self.estimator).fit(X_small, y_small, sample_weight=weights)
        return self

    @property
    def classes_(self):
        return self.estimator_.classes_

    @property
    def n_features_in_(self):
        """Number of features seen in `fit`."""
        check_is_fitted(self, "selector_")
        return self.selector_.n_features_in_

    predict = _of_the_estimator("predict", "What the fitted estimator predicts for the rows of `X`.")
    predict_proba = _of_the_estimator("predict_proba", "Class probabilities by the fitted estimator, (n, classes).")
    decision_function = _of_the_estimator("decision_function", "Decision values of the fitted estimator.")
    transform = _of_the_estimator("transform", "`X` as the fitted estimator transforms it.")

    @available_if(_estimator_has("score"))
    def score(self, X, y=None, sample_weight=None):
        """The fitted estimator's own score on (X, y)."""
        check_is_fitted(self, "estimator_")
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self.estimator_.score(X, y, **weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner, selector = get_tags(self.estimator), get_tags(self.selector)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.transformer_tags = inner.transformer_tags
        tags.target_tags = inner.target_tags
        tags.target_tags.required |= selector.target_tags.required
        tags.target_tags.multi_output &= selector.target_tags.multi_output
        tags.input_tags.sparse = inner.input_tags.sparse and selector.input_tags.sparse
        if tags.classifier_tags is not None and selector.classifier_tags is not None:
            tags.classifier_tags.multi_class &= selector.classifier_tags.multi_class
        return tags
