"""Families of estimators: in which features, with which penalty and weights points are chosen for
each."""

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from handful.proxies import RBF, Nystrom, TreeLeaves
from handful.trainers import kind_of, trained

KERNEL = Nystrom(RBF(), n_landmarks=128)
# in features of unit length: little, since what it stands in for follows single rows
L2 = 1e-4
# the problem itself
OWN = ("LogisticRegression", "LogisticRegressionCV", "Ridge", "RidgeCV", "LinearRegression")
# with less, the inner problem of a handful of separable rows has no solution to rounding
LEAST_L2 = 1e-6


@dataclass(frozen=True)
class Candidate:
    """One way to choose points for a family.

    Attributes
    ----------
    name : str, for `AnyEstimatorCoreset.trials_`
    proxy : transformer, or None for the features as they are
    l2 : strength of the penalty of the model that stands in for the estimator
    weighting : "equal" or "optimised", as in `BilevelCoreset`
    fit_intercept : whether that model has an intercept
    own : whether that model is the estimator itself, so that there is nothing to try
    """

    name: str
    proxy: object
    l2: float
    weighting: str = "equal"
    fit_intercept: bool = True
    own: bool = False


def linear(estimator, n):
    """The estimator's own problem: its penalty for n rows, where it tells one, and optimised
    weights.

    An `alpha` counts as that of `Ridge`, beside the sum of losses, or as that of `SGDClassifier`,
    beside their mean.
    """
    given = estimator.get_params()
    inverse = given.get("C")
    alpha = given.get("alpha")
    if np.size(alpha) == 1 and not isinstance(alpha, str | None):
        # scikit-learn takes an array of one, too
        alpha = np.ravel(alpha)[0]
    if given.get("penalty", "l2") is None:
        # whatever its C or alpha
        l2 = LEAST_L2
    elif isinstance(inverse, Real):
        l2 = 1 / (inverse * n)
    elif "l2" in given:
        # `LinearSVM`, whose penalty stands beside the mean loss, and is that of C=1 unless it is
        # given
        l2 = given["l2"] or 1 / n
    elif isinstance(alpha, Real):
        # that of SGDClassifier and the like stands beside the mean loss already
        l2 = alpha if "learning_rate" in given else alpha / n
    else:
        # it finds one by cross-validation, or has none
        l2 = 1 / n if {"Cs", "alphas"} & given.keys() else LEAST_L2
    return [
        Candidate(
            "linear",
            None,
            max(l2, LEAST_L2),
            "optimised",
            given.get("fit_intercept", True),
            _is_own(estimator, alpha),
        )
    ]


def _is_own(estimator, alpha):
    """Whether an estimator, its alpha a number or None, minimises a loss and a squared penalty that
    `Logistic` or `LeastSquares` is of."""
    given = estimator.get_params()
    return (
        type(estimator).__name__ in OWN
        and not (_has_l1(given.get("l1_ratio")) or _has_l1(given.get("l1_ratios")))
        # a penalty for each output is no problem of ours
        and np.size(alpha) == 1
        and given.get("penalty") in (None, "l2", "deprecated")
        and given.get("class_weight") is None
        and not given.get("positive")
        # it penalises the intercept
        and given.get("solver") != "liblinear"
    )


def _has_l1(ratios):
    """Whether one of some shares of an L1 penalty is above zero; a word stands for none."""
    return not isinstance(ratios, str) and any(np.ravel(ratios))


def trees(estimator, n):
    """Leaves that rows share in random trees, and kernel features; trees do not mind scales, so the
    kernel must not."""
    proxies = {"random trees": TreeLeaves(), "RBF": make_pipeline(StandardScaler(), KERNEL)}
    return [
        *(Candidate(name, proxy, L2) for name, proxy in proxies.items()),
        *logistic(estimator, n),
    ]


def networks(estimator, n):
    """Kernel features (an RBF serves as well as a network's tangent kernel: the paper's Table 10),
    and none."""
    return [Candidate("RBF", KERNEL, L2), Candidate("linear", None, 1 / n, "optimised")]


def kernels(estimator, n):
    """Features of the RBF kernel."""
    return [Candidate("RBF", KERNEL, L2), *logistic(estimator, n)]


def logistic(estimator, n):
    """The plain logistic coreset, for classifiers: under boosting it is often the best of all."""
    return (
        [Candidate("logistic", StandardScaler(), 1 / n, "optimised")]
        if kind_of(estimator) == "classifier"
        else []
    )


# Family -> (where its classes are imported from, its candidates); the first that fits counts. A
# module stands for all in it.
FAMILIES = {
    "linear": (
        (
            "sklearn.linear_model",
            "sklearn.svm.LinearSVC",
            "sklearn.svm.LinearSVR",
            "sklearn.discriminant_analysis",
            "handful.svm",
        ),
        linear,
    ),
    "trees": (("sklearn.tree", "sklearn.ensemble", "xgboost", "lightgbm", "catboost"), trees),
    "networks": (("sklearn.neural_network",), networks),
    "kernels and neighbours": (
        ("sklearn.neighbors", "sklearn.svm", "sklearn.gaussian_process"),
        kernels,
    ),
}


def check_trainer(estimator):
    """TypeError for a class in place of an estimator, and for what neither classifies nor
    regresses."""
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator must be an object, got the class {estimator.__name__}: give "
            f"{estimator.__name__}()."
        )
    if not hasattr(estimator, "fit") or kind_of(estimator) not in ("classifier", "regressor"):
        raise TypeError(
            "estimator must be a classifier or a regressor, as scikit-learn's ClassifierMixin or "
            "RegressorMixin with "
            f"BaseEstimator makes it, or a Pipeline that ends in one, got {estimator!r}."
        )


def _public_name(cls):
    """A class's name as it is imported: without the private modules that define it."""
    parts = f"{cls.__module__}.{cls.__qualname__}".split(".")
    return ".".join(part for part in parts if not part.startswith("_"))


def candidates_for(estimator, n):
    """The ways to choose points for an estimator.

    Parameters
    ----------
    estimator : scikit-learn estimator, the last step of a pipeline
    n : float, the total sample_weight of the rows, on which the strength of a linear model's
        penalty depends

    Raises
    ------
    TypeError
        as `check_trainer`
    ValueError
        for an estimator of no known family; the message names the families
    """
    check_trainer(estimator)
    names = [_public_name(cls) for cls in type(estimator).__mro__]
    for places, candidates in FAMILIES.values():
        if any(name.startswith(places) for name in names):
            return candidates(estimator, n)
    # A pipeline, a grid search or a transformed target is of the family of what it trains, if not
    # the same problem.
    inner = [estimator.steps[-1][1]] if hasattr(estimator, "steps") else trained(estimator)
    if len(inner) == 1:
        return [replace(one, own=False) for one in candidates_for(inner[0], n)]
    known = "; ".join(f"{family} ({', '.join(places)})" for family, (places, _) in FAMILIES.items())
    raise ValueError(
        f"{type(estimator).__name__} is of no family whose proxy is known: {known}. Give a proxy "
        "of its own, a "
        "transformer whose features a linear model could use in its place: "
        "AnyEstimatorCoreset(estimator, proxy=Nystrom(RBF()))."
    )
