"""Figure 6 of the bilevel paper: coresets for binary logistic regression (Section 5.2.2, Appendix C)."""

import time
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from handful.baselines import KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset, Logistic
from handful.data import load, split, standardise
from handful.sensitivity.logistic import LogisticSensitivity
from sklearn.linear_model import LogisticRegression

# The paper's grid for the sensitivity coreset.
GRID = tuple(product((5, 10, 25), (0.1, 1.0, 10.0, 100.0)))  # (k, R)

# Data sets that the paper splits 90/10 although they have an official test set (deduced from its axes).
SPLIT_TRAINING_PART = ("a9a",)

# Selections of which every prefix is the selection of that size: one run serves all sizes.
_PREFIXES = {
    "uniform": lambda problem, size, seed: UniformCoreset(size, random_state=seed),
    "kmeans++": lambda problem, size, seed: KMeansPlusPlus(size, random_state=seed),
    "bico": lambda problem, size, seed: BilevelCoreset(problem, size=size, rule="linear", random_state=seed),
    "bico quadratic": lambda problem, size, seed: BilevelCoreset(problem, size=size, random_state=seed),
}
_WEIGHTED = {
    "bico weighted": lambda problem, size, seed: BilevelCoreset(
        problem, size=size, rule="linear", weighting="corrective", random_state=seed
    ),
    "bico weighted quadratic": lambda problem, size, seed: BilevelCoreset(
        problem, size=size, weighting="optimised", random_state=seed
    ),
}
METHODS_SHOWN = (
    "uniform",
    "kmeans++",
    "sensitivity",
    "bico",
    "bico weighted",
    "bico quadratic",
    "bico weighted quadratic",
)


def prepare(name, *, seed, classes=None, test_size=0.1):
    """A data set, split and standardised as in Appendix C: float32, column-major, labels 0 and 1.

    Where there is an official test set it is taken (but see `SPLIT_TRAINING_PART`), else a random share `test_size`.

    Returns
    -------
    Dataset with X, y, X_test, y_test
    """
    data = load(name, classes=classes).binary()
    data = split(data, test_size=test_size, random_state=seed, official=name not in SPLIT_TRAINING_PART)
    X, X_test = standardise(data.X, data.X_test, dtype=np.float32, order="F")
    return replace(data, X=X, X_test=X_test)


def train(X, y, weights, problem, *, n):
    """Logistic regression on weighted rows, with the penalty that `problem` has on the whole data set.

    Parameters
    ----------
    X, y, weights : the rows; weights add up to about n
    problem : Logistic with a free intercept
    n : number of rows of the whole data set
    """
    model = LogisticRegression(C=1.0 / (problem.l2 * n), solver="newton-cholesky", tol=1e-8, max_iter=1000)
    return model.fit(np.asarray(X, dtype=np.float64), y, sample_weight=weights)


def evaluate(model, data):
    """Test accuracy in percent and mean training loss (in nats, without the penalty) of a fitted model."""
    margin = np.where(data.y == model.classes_[1], 1.0, -1.0) * model.decision_function(data.X)
    return {
        "test_accuracy": 100.0 * model.score(data.X_test, data.y_test),
        "train_loss": float(np.logaddexp(0.0, -margin).mean()),
    }


def split_rows(dataset, seed, *, classes, test_size, sizes, l2):
    """Rows of `run` for one split of one data set: a task of the sweep.

    Parameters
    ----------
    dataset, seed, test_size : as in `prepare`
    classes : dict, data set -> the pair of classes that makes it binary
    sizes, l2 : as in `run` and `Logistic`
    """
    data = prepare(dataset, seed=seed, classes=classes.get(dataset), test_size=test_size)
    return run(data, Logistic(l2=l2), sizes, seed=seed)


def run(data, problem, sizes, *, seed):
    """Every method at every size on one split of one data set.

    A subset in which a class is missing (small uniform ones) predicts the class it has; its training loss is infinite.

    Parameters
    ----------
    data : Dataset from `prepare`
    problem : Logistic, for selection and training alike
    sizes : list of int, the coreset sizes m
    seed : int, of every method

    Returns
    -------
    DataFrame, one row per (method, size), with columns method, size, share (of the data, percent), test_accuracy
    (percent), train_loss (nats), seconds (of the selection), n_clusters and radius (sensitivity coresets: one row
    for each point of the paper's grid)
    """
    n = len(data.y)
    rows = []

    def add(method, size, indices, weights, seconds, **more):
        score = _score(data, indices, weights, problem)
        rows.append(dict(method=method, size=size, share=100.0 * size / n, seconds=seconds, **score, **more))

    full = evaluate(train(data.X, data.y, np.ones(n), problem, n=n), data)
    rows.append(dict(method="full", size=n, share=100.0, **full))
    work = [("prefix", key) for key in _PREFIXES]
    work += [("sensitivity", pair) for pair in GRID]
    work += [(key, size) for key in _WEIGHTED for size in sizes]
    for kind, what in work:
        if kind == "prefix":
            selector, seconds = _timed(_PREFIXES[what](problem, max(sizes), seed), data)
            for size in sizes:
                add(
                    what,
                    size,
                    selector.indices_[:size],
                    np.full(size, n / size),
                    seconds if size == max(sizes) else None,
                )
        elif kind == "sensitivity":
            k, radius = what
            selector = LogisticSensitivity(max(sizes), n_clusters=k, radius=radius, random_state=seed)
            selector, seconds = _timed(selector, data)
            for size in sizes:  # independent draws: the first m of them are a coreset of m
                weights = selector.weights_[:size] * (max(sizes) / size)
                chosen = selector.indices_[:size]
                add(
                    "sensitivity",
                    size,
                    chosen,
                    weights,
                    seconds if size == max(sizes) else None,
                    n_clusters=k,
                    radius=radius,
                )
        else:
            selector, seconds = _timed(_WEIGHTED[kind](problem, what, seed), data)
            add(kind, what, selector.indices_, selector.weights_, seconds)
    return pd.DataFrame(rows)


def _timed(selector, data):
    start = time.perf_counter()
    selector.fit(data.X, data.y)
    return selector, time.perf_counter() - start


def _score(data, indices, weights, problem):
    y = data.y[indices]
    if y.min() == y.max():
        return {"test_accuracy": 100.0 * float(np.mean(data.y_test == y[0])), "train_loss": np.inf}
    return evaluate(train(data.X[indices], y, weights, problem, n=len(data.y)), data)


def choose_sensitivity(rows, by):
    """One sensitivity row per (dataset, size, seed): the grid point with the best mean of `by` over the seeds.

    Parameters
    ----------
    rows : DataFrame with the rows of `run` and a column dataset
    by : "test_accuracy" chooses on the test set, as the paper does; "train_loss" without looking at it

    Returns
    -------
    DataFrame : `rows` with the sensitivity rows of all other grid points left out
    """
    grid = rows[rows.method == "sensitivity"]
    sign = 1.0 if by == "test_accuracy" else -1.0
    means = (sign * grid.set_index(["dataset", "size", "n_clusters", "radius"])[by]).groupby(level=[0, 1, 2, 3]).mean()
    best = means.groupby(level=[0, 1]).idxmax()
    kept = grid.set_index(["dataset", "size", "n_clusters", "radius"]).loc[best.to_list()].reset_index()
    return pd.concat([rows[rows.method != "sensitivity"], kept], ignore_index=True)


def size_reaching_full(rows, method, *, within):
    """Smallest size at which a method's mean test accuracy is within `within` points of full-data training.

    Returns
    -------
    Series, by dataset: the size, NaN where no size reaches it
    """
    wide = rows.pivot_table(index=["dataset", "seed"], columns="method", values="test_accuracy", aggfunc="mean")["full"]
    own = rows[rows.method == method].set_index(["dataset", "seed"])
    short = (own.test_accuracy - wide.reindex(own.index)).groupby([own.index.get_level_values(0), own["size"]]).mean()
    reached = short[short >= -within].reset_index()
    smallest = reached.groupby("dataset")["size"].min()
    return smallest.reindex(sorted(rows.dataset.unique()))
