"""`CoresetEstimator`: an estimator that trains on the rows that a selector chooses."""

import os
from collections.abc import Mapping, Sized
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_memory

from handful.blocks import as_blocks, rowwise
from handful.checks import (
    MAX_SEED,
    WORDS_NAMED,
    accepts_of,
    as_generator,
    check_array,
    check_in_memory,
    check_labels,
    check_sample_weight,
    counted_rows,
    is_blocks,
    training_named,
    validate_data,
)
from handful.code_hash import code_hash
from handful.forms import kind_of_labels
from handful.options import Options, all_or_nothing
from handful.parts import (
    check_part,
    check_selector,
    choose,
    chosen_rows,
    of_one_class,
    warn_of_class_weight,
)
from handful.running import threads_for
from handful.tables import as_array, is_numeric, n_rows_of, readable, row_array, take_rows
from handful.trainers import (
    input_tags_of,
    kind_of,
    seed_unset,
    weighted_fit,
    why_unweighted,
)
from handful.types import Seed, Table

# Validation data are called so by scikit-learn.
VALIDATION = ("X_val", "y_val", "sample_weight_val")
# Selector and estimator change together, or not at all.
undone_by_anything = partial(all_or_nothing, errors=BaseException)
# How a message writes what to train.
EXAMPLE = "CoresetEstimator(selector, {})"
ASKED = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score")


def _estimator_has(method):
    def check(self):
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


def _of_the_estimator(name, doc):
    # A method that asks the fitted estimator; it exists if the estimator has a method of that name.
    def method(self, X: Table, **params: Any) -> np.ndarray:
        check_is_fitted(self, "estimator_")
        if is_blocks(X):
            return rowwise(self, name, X, **params)
        return getattr(self.estimator_, name)(self._as_fitted(X), **self._asked(name, params))

    method.__name__ = name
    method.__doc__ = doc
    return available_if(_estimator_has(name))(method)


def check_no_resampling(estimator, way_out):
    """ValueError for a pipeline, or what trains one, a step of which draws rows anew, as
    imbalanced-learn's do: the weights of the rows would go to others."""
    parts = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for part in parts.values():
        if hasattr(part, "fit_resample") and not isinstance(part, type):
            raise ValueError(
                f"{type(part).__name__} of the {type(estimator).__name__} makes other rows, for "
                f"which there are no weights: {way_out}"
            )


def _check_takes_weights(estimator, method):
    """TypeError for what cannot be trained; ValueError, with a way out, unless the estimator's
    `fit` or `partial_fit` takes weights."""
    if isinstance(estimator, type) or not hasattr(estimator, method):
        raise TypeError(
            f"estimator must have {method} (an instance, not the class), got "
            f"estimator={estimator!r}."
        )
    check_no_resampling(
        estimator, "it belongs in front, in a Pipeline that ends with the CoresetEstimator."
    )
    if weighted_fit(estimator, method).keyword is not None:
        return
    way_out = (
        "choose an estimator that takes one, or train it yourself on the rows that the selector "
        "takes."
    )
    if hasattr(estimator, "predict"):
        way_out = (
            "choose an estimator that takes one, or train it yourself on rows of "
            "AnyEstimatorCoreset."
        )
    raise ValueError(
        f"{why_unweighted(estimator, method)}, so it cannot train on a weighted coreset; {way_out}"
    )


@contextmanager
def _encoders_named(estimator):
    """Context of a selection in which a ValueError about words in the rows says where the steps of
    the estimator, a Pipeline, belong that make numbers of them."""
    try:
        yield
    except ValueError as error:
        if not hasattr(estimator, "steps") or WORDS_NAMED not in str(error):
            raise
        *first, last = (type(step).__name__ for _, step in estimator.steps)
        order = ", ".join([*first, f"CoresetEstimator(selector, {last})"])
        raise ValueError(
            f"{error} The selector comes before the steps of the Pipeline: put them in front of "
            f"both, make_pipeline({order})."
        ) from error


class CoresetEstimator(MetaEstimatorMixin, Options):
    """Select a coreset, then fit `estimator` on it: drops into a Pipeline or a GridSearchCV.

    Parameters
    ----------
    selector : Selector
        What chooses the rows that the estimator is fitted to.
    estimator : estimator of scikit-learn
        Its `fit` takes weights: by `sample_weight`, or passing them on
        to what it wraps, as a search, voting, stacking or a transformed target does (a search
        weighs its fits and scores as its own `fit(X, y, sample_weight=...)` does), or a
        Pipeline for its last step. The steps before that are fitted to the chosen rows,
        unweighted: a scaler belongs before the CoresetEstimator, as below.
    memory : str, joblib.Memory or None, default=None
        None, a folder or a `joblib.Memory`, where selections are kept, as in a Pipeline: a grid
        search over the estimator's parameters then selects once a fold, whatever the number of
        candidates. So does a selector without a seed: what it drew first is kept.
    random_state : int, Generator, RandomState or None, default=None
        None leaves selector and estimator their own, otherwise it seeds both.

    Attributes
    ----------
    selector_ : the fitted selector
    estimator_ : the estimator, fitted on the coreset with its weights; `predict`, `predict_proba`,
        `predict_log_proba`, `decision_function`, `transform` and `score` are its own, and so are
        `classes_`, `coef_` and `feature_importances_`, by which RFE ranks columns
    n_features_in_, feature_names_in_ : of the data seen in `fit`

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from handful import BilevelCoreset, Logistic
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> few = BilevelCoreset(Logistic(l2=1e-2), size=20, random_state=0)
    >>> trainer = LogisticRegression(C=1 / (1e-2 * len(y)))
    >>> model = make_pipeline(StandardScaler(), CoresetEstimator(few, trainer))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    """

    selector: Any
    estimator: Any
    _: KW_ONLY
    memory: Any = None
    random_state: Seed = None

    @undone_by_anything
    def fit(self, X: Table, y: Table = None, sample_weight: Table = None, **params: Any) -> Self:
        """Select from (X, y), then fit a clone of `estimator` on the weighted selection.

        Parameters
        ----------
        X, y, sample_weight : as the selector takes them
        **params : what selector and estimator have requested, with scikit-learn's metadata routing
            enabled; the estimator gets the chosen rows of what has one entry a row, and validation
            data as they are: lists of arrays (`eval_set`) and what scikit-learn calls `X_val`,
            `y_val` and `sample_weight_val`

        Raises
        ------
        TypeError
            if `selector` is no selector (the selector comes first, then the estimator), or takes no
            `sample_weight`
        ValueError
            if the estimator's `fit` takes no weights, or is of a pipeline that makes other rows:
            they would be dropped, or go to other rows; for dask data beside `memory`
        """
        self._check_parts("fit")
        routed = self._route("fit", params)
        selector, estimator, self._rng = self._fresh_parts()
        # Labels of further parts are compared with these.
        self._labels = None
        X, y = self._checked_rows(X, y, sample_weight)
        memory = os.fspath(self.memory) if isinstance(self.memory, os.PathLike) else self.memory
        select = check_memory(memory).cache(_select)
        code = None if memory is None else code_hash(selector)
        files = None
        if memory is not None and is_blocks(X, y, sample_weight):
            blocks = as_blocks(X, y, sample_weight)
            if blocks._dask:
                raise ValueError(
                    "memory must be None for dask data: whether they are what was kept cannot be "
                    "told without reading them."
                )
            files = blocks.versions
        with _encoders_named(estimator):
            self.selector_ = select(
                selector, X, y, sample_weight, routed["selector"]["fit"], code, files
            )
        if is_blocks(X):
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
                if hasattr(self.selector_, name):
                    setattr(self, name, getattr(self.selector_, name))
        else:
            validate_data(self, X, skip_check_array=True)
        X_small, y_small, weights = chosen_rows(self.selector_, X, y)
        n = getattr(self.selector_, "n_samples_fit_", None)
        n = n_rows_of(X) if n is None else n
        options = _chosen(routed["estimator"]["fit"], n, self.selector_.indices_)
        with threads_for(len(weights)), training_named(estimator, X_small, EXAMPLE):
            weighted_fit(estimator).train(estimator.fit, X_small, y_small, weights, **options)
        self.estimator_ = estimator
        return self

    @available_if(_estimator_has("partial_fit"))
    @undone_by_anything
    def partial_fit(
        self,
        X: Table,
        y: Table = None,
        classes: Any = None,
        sample_weight: Table = None,
        **params: Any,
    ) -> Self:
        """Select from these rows, all that weigh anything if they are no more than the size, then
        go on training. Of rows of one class all are kept by a selector that needs two and finds its
        number of rows itself, as a `MatchedCoreset` does.

        The selected rows stand for the rows of this call alone: their weights add up to the number
        of these (with `sample_weight` to its sum), so that parts count by their rows.
        `SGDClassifier` and its like scale a row's step by its weight: in place of n steps they take
        m, each n / m times as long. Give them a learning rate that is m / n of the usual one, such
        as ``learning_rate="constant", eta0=1e-3``.

        An error, and Ctrl-C, leaves everything as it was, the estimator too, a copy of which goes
        on training. Selector and estimator keep the options of the first call.

        Parameters
        ----------
        X, y, sample_weight, **params : as in `fit`
        classes : all labels that will come, for the first call of a classifier

        Raises
        ------
        ValueError
            for rows and labels that the selector's `fit` would refuse of all rows so far, however
            few they are, and for labels that are not among the classes: some classifiers train on
            them as on another class
        """
        self._check_parts("partial_fit")
        routed = self._route("partial_fit", params)
        first = not hasattr(self, "estimator_")
        if first:
            self.selector_, self.estimator_, self._rng = self._fresh_parts()
            self._labels = None
        validate_data(self, X, reset=first, skip_check_array=True)
        X, y = self._checked_rows(X, y, sample_weight)
        X = X if hasattr(X, "shape") else np.asarray(X)
        given = check_sample_weight(sample_weight, X.shape[0])
        indices = np.flatnonzero(given)
        size = getattr(self.selector_, "size", None)
        self._labels = check_part(self.selector_, size, X, y, given, self._labels)
        _check_known(
            y, getattr(self.estimator_, "classes_", classes) if classes is None else classes
        )
        if size is None:
            # Which rows are enough is for two classes to say: of one alone all are kept.
            is_chosen = accepts_of(self.selector_).y != "two classes" or not of_one_class(y, given)
        else:
            is_chosen = size < len(indices)
        if is_chosen:
            selector = clone(self.selector_)
            if "random_state" in selector.get_params(deep=False):
                selector.set_params(random_state=self._rng)
            indices, weights = choose(selector, X, y, sample_weight, self._rng)
        else:
            weights = given[indices]
        options = _chosen(routed["estimator"]["partial_fit"], X.shape[0], indices)
        if classes is not None:
            options["classes"] = classes
        rows = take_rows(X, indices), take_rows(y, indices)
        estimator = deepcopy(self.estimator_)
        with training_named(estimator, rows[0], EXAMPLE):
            weighted_fit(estimator, "partial_fit").train(
                estimator.partial_fit, *rows, weights, **options
            )
        self.estimator_ = estimator
        return self

    @available_if(_estimator_has("transform"))
    def fit_transform(
        self, X: Table, y: Table = None, sample_weight: Table = None, **params: Any
    ) -> np.ndarray:
        """`fit`, then `transform` of all rows of `X`."""
        return self.fit(X, y, sample_weight, **params).transform(X)

    @property
    def classes_(self) -> Any:
        return self.estimator_.classes_

    @property
    def coef_(self) -> Any:
        return self.estimator_.coef_

    @property
    def feature_importances_(self) -> Any:
        return self.estimator_.feature_importances_

    predict = _of_the_estimator(
        "predict", "What the fitted estimator predicts for the rows of `X`."
    )
    predict_proba = _of_the_estimator(
        "predict_proba", "Class probabilities by the fitted estimator, (n, classes)."
    )
    predict_log_proba = _of_the_estimator(
        "predict_log_proba", "Logarithms of the class probabilities, (n, classes)."
    )
    decision_function = _of_the_estimator(
        "decision_function", "Decision values of the fitted estimator."
    )
    transform = _of_the_estimator("transform", "`X` as the fitted estimator transforms it.")

    @available_if(_estimator_has("score"))
    def score(self, X: Table, y: Table = None, sample_weight: Table = None, **params: Any) -> float:
        """The fitted estimator's own score on (X, y), in memory."""
        check_is_fitted(self, "estimator_")
        check_in_memory("score of CoresetEstimator", X, y)
        self._check_labels(y)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        asked = self._asked("score", params)
        return self.estimator_.score(self._as_fitted(X), readable(y), **weights, **asked)

    @available_if(_estimator_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that `transform` gives."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.get_feature_names_out(input_features)

    @available_if(_estimator_has("set_output"))
    def set_output(self, *, transform: Any = None) -> Any:
        """Choose what `transform` gives, such as "pandas", as in scikit-learn's transformers."""
        parts: Any = (self.estimator, getattr(self, "estimator_", self.estimator))
        for part in parts:
            part.set_output(transform=transform)
        return self

    def _as_fitted(self, X):
        # The estimator may have been fitted to what keeps no names of columns.
        X = readable(X)
        if hasattr(self, "feature_names_in_") and hasattr(X, "columns"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return X

    def _asked(self, method, params):
        # What goes to a method of the fitted estimator: all, as from a Pipeline, or what is routed.
        if not get_config()["enable_metadata_routing"]:
            return params
        return self._route(method, params)["estimator"][method]

    def _route(self, method, params):
        if params and not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"{method} got {', '.join(params)}, which goes to the parts only with metadata "
                "routing: "
                "sklearn.set_config(enable_metadata_routing=True), and their "
                f"set_{method}_request."
            )
        return process_routing(self, method, **params)

    def _check_parts(self, method):
        check_selector(self.selector, "; the order is CoresetEstimator(selector, estimator)")
        _check_takes_weights(self.estimator, method)

    def _checked_rows(self, X, y, sample_weight):
        # As both parts read them; rows of weight zero may be anything. Where the selector takes
        # anything, a row that the estimator would refuse must not depend on being drawn. Whether
        # words are refused hangs on no row, so the estimator says it, of a frame's columns more
        # than its tags.
        X = readable(X)
        y = readable(y)
        counted = None if is_blocks(X, y, sample_weight) else counted_rows(X, sample_weight)
        self._check_labels(y if counted is None else take_rows(y, counted))
        takes = input_tags_of(self.estimator)
        of_words = hasattr(X, "columns") and not is_numeric(X)
        words = takes.string or takes.categorical or of_words
        of_rows = row_array(X) if isinstance(X, list | tuple) else X
        # Texts and images are as the estimator has them.
        table = len(getattr(of_rows, "shape", (0, 0))) == 2
        if table and not is_blocks(X) and not accepts_of(self.selector).values and not words:
            finite = "allow-nan" if takes.allow_nan else True
            rows = X if counted is None else take_rows(X, counted)
            check_array(rows, accept_sparse=True, ensure_all_finite=finite, estimator=self)
        return X, y

    def _check_labels(self, y):
        learns_them = kind_of(self.estimator) in ("classifier", "regressor")
        if learns_them and y is not None and not is_blocks(y):
            check_labels(y)

    def _fresh_parts(self):
        parts = [clone(self.selector), clone(self.estimator)]
        rng = as_generator(self.random_state)
        if self.random_state is not None:
            for part in parts:
                seed = int(rng.integers(MAX_SEED))
                if "random_state" in part.get_params(deep=False):
                    part.set_params(random_state=seed)
                seed_unset(part, seed)
        elif isinstance(getattr(parts[0], "random_state", None), np.random.RandomState):
            # It must not be asked for a number here before the selector draws.
            rng = as_generator(deepcopy(parts[0].random_state))
        elif getattr(parts[0], "random_state", None) is not None:
            rng = as_generator(parts[0].random_state)
        warn_of_class_weight(parts[1], "the selector does", parts[:1])
        return *parts, rng

    def get_metadata_routing(self) -> Any:
        """Where metadata go: `sample_weight` to this estimator, the rest to the parts that request
        it."""
        mapping = MethodMapping()
        for method in ("fit", "partial_fit", *ASKED):
            mapping.add(caller=method, callee=method)
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=mapping)
        return router.add(
            selector=self.selector, method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        selector = get_tags(self.selector)
        inner = get_tags(self.estimator)
        for name in (
            "estimator_type",
            "classifier_tags",
            "regressor_tags",
            "transformer_tags",
            "target_tags",
        ):
            setattr(tags, name, getattr(inner, name))
        tags.input_tags = inner.input_tags
        tags.target_tags.required |= selector.target_tags.required
        tags.target_tags.multi_output &= selector.target_tags.multi_output
        for kind in ("sparse", "allow_nan", "string", "categorical"):
            both = getattr(tags.input_tags, kind) and getattr(selector.input_tags, kind)
            setattr(tags.input_tags, kind, both)
        if tags.classifier_tags is not None and selector.classifier_tags is not None:
            tags.classifier_tags.multi_class &= selector.classifier_tags.multi_class
        return tags


def _select(selector, X, y, sample_weight, options, code, files):
    # `code` and `files` tell what was kept in memory apart.
    return selector.fit(X, y, sample_weight=sample_weight, **options)


def _check_known(y, classes):
    # Of one column of labels; what else there may be is the estimator's to say.
    if classes is None or np.ndim(classes) != 1 or np.ndim(y) != 1:
        return
    labels = as_array(y)
    known = np.asarray(classes)
    if kind_of_labels(labels) != kind_of_labels(known):
        raise ValueError(f"y holds {kind_of_labels(labels)}, but the classes are {known.tolist()}.")
    unknown = np.unique(labels[~np.isin(labels, known)]).tolist()
    if unknown:
        raise ValueError(
            f"y holds labels that are not among the classes {known.tolist()}: {unknown[:5]}. All "
            "labels that will come "
            "have to be named in `classes` at the first call."
        )


def _chosen(options, n, indices):
    # What has an entry a row goes with its rows; validation data do not, however many they are.
    return {
        name: take_rows(value, indices)
        if name not in VALIDATION and _entries(value) == n
        else value
        for name, value in options.items()
    }


def _entries(value):
    # Rows of an array, a frame or a list; None for what has none, as the list of pairs that an
    # `eval_set` is.
    if hasattr(value, "shape"):
        return value.shape[0] if value.shape else None
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sized):
        return None
    return None if any(isinstance(v, tuple) for v in value) else len(value)
