"""Families of estimators: in which features, with which penalty and weights points are chosen for each."""

from dataclasses import dataclass

from sklearn.base import is_regressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from handful.bilevel.problems.linear import LeastSquares, Logistic
from handful.bilevel.proxies import RBF, Nystrom, TreeLeaves


@dataclass(frozen=True)
class Way:
    """One way to choose points for a family.

    Attributes
    ----------
    name : str, for `TrainerCoreset.trials_`
    proxy : transformer, or None for the features as they are
    l2 : strength of the penalty of the model that stands in for the estimator
    weighting : "binary" or "optimised", as in `BilevelCoreset`
    """

    name: str
    proxy: object
    l2: float
    weighting: str = "binary"


def linear(estimator, n):
    """The estimator's own problem: its penalty for n rows, where it tells one, and optimised weights."""
    given = estimator.get_params()
    if isinstance(C := given.get("C"), float | int):
        l2 = 1 / (C * n)
    elif type(estimator).__name__.startswith("SGD"):
        l2 = given["alpha"]  # a penalty on the mean loss already
    else:
        alpha = given.get("alpha")
        l2 = alpha / n if isinstance(alpha, float | int) and alpha > 0 else 1 / n
    return [Way("linear", None, l2, "optimised")]


def trees(estimator, n):
    """Leaves that rows share, in random trees and in trees fitted to the labels."""
    forest = ExtraTreesRegressor if is_regressor(estimator) else ExtraTreesClassifier
    fitted = forest(100, max_leaf_nodes=32)
    return [Way("random trees", TreeLeaves(), 1e-4), Way("fitted trees", TreeLeaves(fitted), 1e-3)]


def networks(estimator, n):
    """Kernel features: the RBF kernel serves as well as a network's tangent kernel (the paper's Table 10)."""
    proxy = Nystrom(RBF(), n_landmarks=128)
    return [Way("RBF", proxy, 1e-4), Way("RBF, weights", proxy, 1e-4, "optimised")]


def kernels(estimator, n):
    """Features of the RBF kernel."""
    return [Way("RBF", Nystrom(RBF(), n_landmarks=128), 1e-4)]


# Family -> (where its classes are defined, its ways); the first that fits counts. A module stands for all in it.
FAMILIES = {
    "linear": (("sklearn.linear_model", "sklearn.svm._classes.Linear", "sklearn.discriminant_analysis"), linear),
    "trees": (("sklearn.tree", "sklearn.ensemble", "xgboost", "lightgbm", "catboost"), trees),
    "networks": (("sklearn.neural_network",), networks),
    "kernels and neighbours": (("sklearn.neighbors", "sklearn.svm", "sklearn.gaussian_process"), kernels),
}


def ways_for(estimator, n):
    """The ways to choose points for an estimator.

    Parameters
    ----------
    estimator : scikit-learn estimator, the last step of a pipeline
    n : float, the total sample_weight of the rows, on which the strength of a linear model's penalty depends

    Raises
    ------
    ValueError
        for an estimator of no known family; the message names the families
    """
    names = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(estimator).__mro__]
    for places, ways in FAMILIES.values():
        if any(name.startswith(places) for name in names):
            return ways(estimator, n)
    known = "; ".join(f"{family} ({', '.join(places)})" for family, (places, _) in FAMILIES.items())
    raise ValueError(
        f"{type(estimator).__name__} is of no family whose proxy is known: {known}. Give a proxy of its own, a "
        "transformer whose features a linear model could use in its place: "
        "BilevelCoreset.for_estimator(estimator, proxy=Nystrom(RBF()))."
    )


def stand_in(estimator, l2):
    """The linear model that stands in for the estimator in the features of its proxy."""
    return LeastSquares(l2) if is_regressor(estimator) else Logistic(l2)
