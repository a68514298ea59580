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

# The options of the bilevel methods. Binary selections have the smaller ones as prefixes, so one run serves all sizes.
_BILEVEL = {
    "bico": dict(rule="linear"),
    "bico weighted": dict(rule="linear", weighting="corrective"),
    "bico quadratic": {},
    "bico weighted quadratic": dict(weighting="optimised"),
}
_BINARY = [method for method, options in _BILEVEL.items() if "weighting" not in options]
METHODS_SHOWN = ("uniform", "kmeans++", "sensitivity", *_BILEVEL)


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
    n, largest = len(data.y), max(sizes)
    full = evaluate(train(data.X, data.y, np.ones(n), problem, n=n), data)
    rows = [dict(method="full", size=n, share=100.0, **full)]

    def add(method, selector, chosen_sizes, *, binary=False, **more):
        # Where one selection serves several sizes, only the row of the largest says how long it took.
        start = time.perf_counter()
        selector.fit(data.X, data.y)
        seconds = time.perf_counter() - start
        for m in chosen_sizes:
            weights = np.full(m, n / m) if binary else selector.weights_[:m] * (selector.size / m)
            score = _score(data, selector.indices_[:m], weights, problem)
            took = seconds if m == selector.size else None
            rows.append(dict(method=method, size=m, share=100.0 * m / n, seconds=took, **score, **more))

    add("uniform", UniformCoreset(largest, random_state=seed), sizes, binary=True)
    add("kmeans++", KMeansPlusPlus(largest, random_state=seed), sizes, binary=True)
    for method in _BINARY:
        selector = BilevelCoreset(problem, size=largest, random_state=seed, **_BILEVEL[method])
        add(method, selector, sizes, binary=True)
    for k, radius in GRID:  # independent draws: the first m of them are a coreset of m
        selector = LogisticSensitivity(largest, n_clusters=k, radius=radius, random_state=seed)
        add("sensitivity", selector, sizes, n_clusters=k, radius=radius)
    for method, m in product([name for name in _BILEVEL if name not in _BINARY], sizes):
        add(method, BilevelCoreset(problem, size=m, random_state=seed, **_BILEVEL[method]), [m])
    return pd.DataFrame(rows)


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
