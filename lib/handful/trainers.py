"""How a trainer takes the weights of its rows: by a keyword of its `fit`, for itself or for what it
wraps."""

import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.dummy import DummyClassifier
from sklearn.metrics import get_scorer_names
from sklearn.utils import InputTags, get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

WEIGHT = "sample_weight"
# Classes of scikit-learn, by the start of their full names, whose `fit` passes metadata on only by
# metadata routing.
ROUTED = (
    "sklearn.multiclass.",
    "sklearn.multioutput.ClassifierChain",
    "sklearn.semi_supervised._self_training.",
    "sklearn.model_selection._classification_threshold.",
    "sklearn.feature_selection._rfe.RFECV",
    "sklearn.feature_selection._sequential.",
)
# Those whose `fit` has the keyword, but refuses weights unless the `fit` of what they train has it,
# too.
STRICT = (
    "sklearn.multioutput._MultiOutputEstimator",
    "sklearn.ensemble._weight_boosting.AdaBoostClassifier",
    "sklearn.linear_model._ransac.",
)
# Options that are None where scikit-learn is to train a linear model of its own choice, which takes
# weights.
LINEAR_IF_NONE = ("regressor", "final_estimator")


@dataclass(frozen=True)
class WeightedFit:
    """How an estimator is trained with weights.

    Attributes
    ----------
    keyword : str, that of `fit` which takes them, such as "sample_weight" or "clf__sample_weight";
        None if none does
    routed : bool, whether they reach what is trained by scikit-learn's metadata routing
    """

    keyword: str | None
    routed: bool = False

    def train(self, fit: Any, X: Any, y: Any, weights: Any = None, **options: Any) -> Any:
        """Call `fit`, a method of the estimator or its clone, with the weights if there are any and
        it takes them."""
        given = {}
        if weights is not None and self.keyword is not None:
            given[self.keyword] = weights
        # Routing is off where the keyword names a step of a pipeline; options that came by routing
        # go on by it.
        routing = self.routed or (bool(options) and get_config()["enable_metadata_routing"])
        with config_context(enable_metadata_routing=routing):
            return fit(X, y, **given, **options)


def weighted_fit(estimator: Any, method: str = "fit") -> WeightedFit:
    """How the `fit` or `partial_fit` of an estimator, of scikit-learn or like one, takes weights: a
    `WeightedFit`.

    - by its parameter `sample_weight`
    - a Pipeline by that of its last step, "clf__sample_weight"
    - a search, RFE, a transformed target and whatever else passes keywords on, as what it trains
      takes them; what trains several, such as voting and stacking, if all of them have
      `sample_weight`
    - with scikit-learn's metadata routing enabled, as what the estimator's parts have requested
    """
    routing = get_config()["enable_metadata_routing"]
    if routing and get_routing_for_object(estimator).consumes(method, [WEIGHT]):
        return WeightedFit(WEIGHT, routed=True)
    return WeightedFit(_keyword(estimator, method))


def why_unweighted(estimator: Any, method: str = "fit") -> str:
    """Of an estimator that takes no weights: which of its parts does not, or what lets them
    through."""
    if hasattr(estimator, "steps"):
        return why_unweighted(estimator.steps[-1][1], method)
    reason = f"{type(estimator).__name__}.{method} takes no sample_weight"
    inner = trained(estimator)
    if inner and _is_one_of(ROUTED, estimator):
        names = ", ".join(dict.fromkeys(type(one).__name__ for one in inner))
        way_out = "sklearn.set_config(enable_metadata_routing=True)"
        return (
            f"{reason} without metadata routing, {way_out} and "
            f"set_{method}_request(sample_weight=True) of {names}"
        )
    lacking = [one for one in inner if _keyword(one, method) != WEIGHT]
    if lacking:
        last = lacking[0].steps[-1][1] if hasattr(lacking[0], "steps") else lacking[0]
        return f"{reason} for its {type(last).__name__}"
    return reason


def trained(estimator: Any) -> list:
    """The classifiers and regressors among the options of an estimator, which are what it
    trains."""
    known = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    options = dict(
        estimator.get_params(deep=False) if known else getattr(estimator, "__dict__", {})
    )
    if options.get("cv") == "prefit":
        options.pop("estimators", None)
    found = []
    for value in options.values():
        for one in value if isinstance(value, list | tuple) else [value]:
            # A list of estimators may name each: ("forest", RandomForestClassifier()).
            part = one[-1] if isinstance(one, tuple) and one else one
            if hasattr(part, "fit") and hasattr(part, "predict") and not isinstance(part, type):
                found.append(part)
    return found


def tags_of(estimator: Any) -> Any:
    """scikit-learn's tags of an estimator; None for what has none, as it does not inherit from
    `BaseEstimator`."""
    try:
        return None if isinstance(estimator, type) else get_tags(estimator)
    except AttributeError:
        return None


def check_scoring_name(scoring: Any) -> None:
    """ValueError for a word that is the name of no score of scikit-learn."""
    if not isinstance(scoring, str) or scoring in get_scorer_names():
        return
    loss = f"neg_{scoring}"
    near = [loss] if loss in get_scorer_names() else get_close_matches(scoring, get_scorer_names())
    meant = f"did you mean {near[0]}? " if near else ""
    raise ValueError(
        f"scoring={scoring!r} names no score of scikit-learn: {meant}"
        "sklearn.metrics.get_scorer_names() lists them."
    )


def check_scored_labels(scorer: Any, scoring: Any, labels: Any) -> None:
    """ValueError for labels that a named score refuses, such as "f1" those of three classes, before
    anything is trained.

    The score is asked of a classifier that reads no features: what it says of labels is the same
    for all.

    Parameters
    ----------
    scorer : callable, as scikit-learn makes it of `scoring`
    scoring : str, or anything else, of which nothing is known
    labels : shape (n,), or None of a regressor
    """
    if labels is None or not isinstance(scoring, str):
        return
    labels = np.ravel(labels)
    features = np.zeros((len(labels), 1))
    blind = DummyClassifier().fit(features, labels)
    try:
        with warnings.catch_warnings():
            # such as that of a class that is never predicted
            warnings.simplefilter("ignore")
            scorer(blind, features, labels)
    except ValueError as error:
        said = str(error)
        if "pos_label" in said:
            raise ValueError(
                f"{error}. scoring={scoring!r} is of the class 1: give labels 0 and 1, or "
                "make_scorer with your pos_label."
            ) from error
        others = [name for name in get_scorer_names() if name.startswith(f"{scoring}_")]
        if "multi" in said and others:
            n_classes = len(blind.classes_)
            raise ValueError(
                f"scoring={scoring!r} is of two classes, and y holds {n_classes}: take one of "
                f"{', '.join(others)}."
            ) from error


def kind_of(estimator: Any) -> str | None:
    """ "classifier", "regressor" or another word, as the tags say; None for what tells none."""
    tags = tags_of(estimator)
    return None if tags is None else tags.estimator_type


def input_tags_of(estimator: Any) -> Any:
    """What rows an estimator takes, scikit-learn's `InputTags`; the usual ones for what has no
    tags."""
    tags = tags_of(estimator)
    return InputTags() if tags is None else tags.input_tags


def seed_unset(estimator: Any, random_state: int) -> None:
    """Set every `random_state` of an estimator and of its parts that is None, however deep."""
    if hasattr(estimator, "get_params"):
        options = estimator.get_params()
        unset = [
            name
            for name, value in options.items()
            if name.endswith("random_state") and value is None
        ]
        estimator.set_params(**dict.fromkeys(unset, random_state))


def _keyword(estimator, method="fit"):
    # With metadata routing disabled.
    if hasattr(estimator, "steps"):
        return _keyword_of_step(*estimator.steps[-1], method)
    trains = hasattr(estimator, method)
    if not trains or _is_one_of(ROUTED, estimator):
        return None
    inner = trained(estimator)
    parameters = signature(getattr(estimator, method)).parameters
    is_named = WEIGHT in parameters
    if is_named and not _refuses(estimator, inner):
        return WEIGHT
    if not _takes_any(parameters):
        return None
    if not inner and _is_linear(estimator):
        return WEIGHT
    keywords = {_keyword(one, method) for one in inner}
    # and refused
    if is_named:
        keywords.discard(WEIGHT)
    if keywords != {WEIGHT} and _has_list(estimator, inner):
        return None
    return next(iter(keywords), None)


def _has_list(estimator, inner):
    # What trains a list of estimators hands over sample_weight alone.
    return len(inner) > 1 or isinstance(getattr(estimator, "estimators", None), list)


def _takes_any(parameters):
    return any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())


def _keyword_of_step(name, step, method):
    keyword = _keyword(step, method)
    return keyword and f"{name}__{keyword}"


def _refuses(estimator, inner):
    # Whether weights that the signature names are refused where a part takes none.
    is_strict = _is_one_of(STRICT, estimator)
    return is_strict and not all(has_fit_parameter(one, WEIGHT) for one in inner)


def _is_linear(estimator):
    # Whether a part that is None stands for a linear model, which takes weights.
    return any(getattr(estimator, name, WEIGHT) is None for name in LINEAR_IF_NONE)


def _is_one_of(places, estimator):
    names = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(estimator).__mro__]
    return any(name.startswith(places) for name in names)
