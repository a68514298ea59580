"""Figure 6 of the bilevel paper: coresets for binary logistic regression (Section 5.2.2, Appendix
C)."""

import time
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from handful.baselines import KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset
from handful.data import load
from handful.data.dataset import split, standardise
from handful.models import Logistic
from handful.sensitivity.logistic import LogisticSensitivity
from sklearn.linear_model import LogisticRegression

from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences

# The paper's grid for the sensitivity coreset: pairs of k and R.
GRID = tuple(product((5, 10, 25), (0.1, 1.0, 10.0, 100.0)))

# Data sets that the paper splits 90/10 although they have an official test set (deduced from its
# axes).
SPLIT_TRAINING_PART = ("a9a",)

# The options of the bilevel methods. Binary selections have the smaller ones as prefixes, so one
# run serves all sizes.
_BILEVEL = {
    "bico": dict(rule="linear", weighting="equal"),
    "bico weighted": dict(rule="linear", weighting="corrective"),
    "bico quadratic": dict(weighting="equal"),
    "bico weighted quadratic": dict(weighting="optimised"),
}
_BINARY = [method for method, options in _BILEVEL.items() if options["weighting"] == "equal"]
METHODS_SHOWN = ("uniform", "kmeans++", "sensitivity", *_BILEVEL)
# Those with weights, both as good as all rows: they lie on one line where the baselines set the
# scale, so there the paper's stands for both, and the two have a picture of their own.
WEIGHTED = ("bico weighted quadratic", "bico weighted")
BESIDE_BASELINES = ("uniform", "kmeans++", "sensitivity", "bico quadratic", "bico", "bico weighted")


def prepare(name, *, seed, classes=None, test_size=0.1):
    """A data set, split and standardised as in Appendix C: float32, column-major, labels 0 and 1.

    Where there is an official test set it is taken (but see `SPLIT_TRAINING_PART`), else a random
    share `test_size`.

    Returns
    -------
    Dataset with X, y, X_test, y_test
    """
    data = load(name, classes=classes).binary()
    official = name not in SPLIT_TRAINING_PART
    data = split(data, test_size=test_size, random_state=seed, official=official)
    X, X_test = standardise(
        data.X,
        data.X_test,
        dtype=np.float32,
        order="F",
    )
    return replace(data, X=X, X_test=X_test)


def train(X, y, weights, problem, *, n):
    """Logistic regression on weighted rows, with the penalty that `problem` has on the whole data
    set.

    Parameters
    ----------
    X, y, weights : the rows; weights add up to about n
    problem : Logistic with a free intercept
    n : number of rows of the whole data set
    """
    model = LogisticRegression(
        C=1.0 / (problem.l2 * n), solver="newton-cholesky", tol=1e-8, max_iter=1000
    )
    return model.fit(np.asarray(X, dtype=np.float64), y, sample_weight=weights)


def evaluate(model, data):
    """Test accuracy in percent and mean training loss (in nats, without the penalty) of a fitted
    model."""
    sign = np.where(data.y == model.classes_[1], 1.0, -1.0)
    margin = sign * model.decision_function(data.X)
    return {
        "test_accuracy": 100.0 * model.score(data.X_test, data.y_test),
        "train_loss": float(np.logaddexp(0.0, -margin).mean()),
    }


def split_rows(
    dataset,
    seed,
    *,
    classes,
    test_size,
    sizes,
    further,
    l2,
):
    """Rows of `run` for one split of one data set: a task of the sweep.

    Parameters
    ----------
    dataset, seed, test_size : as in `prepare`
    classes : dict, data set -> the pair of classes that makes it binary
    sizes, further, l2 : as in `run` and `Logistic`
    """
    data = prepare(
        dataset,
        seed=seed,
        classes=classes.get(dataset),
        test_size=test_size,
    )
    return run(
        data,
        Logistic(l2=l2),
        sizes,
        seed=seed,
        further=further,
    )


def run(
    data,
    problem,
    sizes,
    *,
    seed,
    further=(),
):
    """Every method at every size on one split of one data set.

    A subset in which a class is missing (small uniform ones) predicts the class it has; its
    training loss is infinite.

    Parameters
    ----------
    data : Dataset from `prepare`
    problem : Logistic, for selection and training alike
    sizes : list of int, the coreset sizes m
    seed : int, of every method
    further : list of int, sizes at which only the paper's two bilevel methods run, the weighted one
        below max(sizes)

    Returns
    -------
    DataFrame, one row per (method, size), with columns method, size, share (of the data, percent),
    test_accuracy (percent), train_loss (nats), seconds (of the selection), n_clusters and radius
    (sensitivity coresets: one row for each point of the paper's grid)
    """
    n = len(data.y)
    largest = max(sizes)
    model = train(data.X, data.y, np.ones(n), problem, n=n)
    full = dict(method="full", size=n, share=100.0)
    rows = [full | evaluate(model, data)]

    def add(
        method,
        selector,
        chosen_sizes,
        *,
        binary=False,
        **more,
    ):
        # Where one selection serves several sizes, only the row of the largest says how long it
        # took.
        start = time.perf_counter()
        with warnings.catch_warnings():
            # The least of the sizes is that of the random start, from which nothing is chosen yet.
            warnings.filterwarnings("ignore", message=r"all \d+ points are of the random start")
            selector.fit(data.X, data.y)
        seconds = time.perf_counter() - start
        for m in chosen_sizes:
            if binary:
                weights = np.full(m, n / m)
            else:
                weights = selector.weights_[:m] * (selector.size / m)
            row = dict(
                method=method,
                size=m,
                share=100.0 * m / n,
                seconds=seconds if m == selector.size else None,
            )
            score = _score(data, selector.indices_[:m], weights, problem)
            rows.append(row | score | more)

    add("uniform", UniformCoreset(largest, random_state=seed), sizes, binary=True)
    add("kmeans++", KMeansPlusPlus(largest, random_state=seed), sizes, binary=True)
    more = {"bico": further, "bico weighted": [m for m in further if m < largest]}
    sizes_of = {method: sorted({*sizes, *more.get(method, ())}) for method in _BILEVEL}

    def bilevel(method, m):
        return BilevelCoreset(
            problem,
            size=m,
            random_state=seed,
            outer_penalty=False,
            **_BILEVEL[method],
        )

    for method in _BINARY:
        own_sizes = sizes_of[method]
        add(method, bilevel(method, own_sizes[-1]), own_sizes, binary=True)
    # The draws are independent: the first m of them are a coreset of m.
    for k, radius in GRID:
        selector = LogisticSensitivity(largest, n_clusters=k, radius=radius, random_state=seed)
        add(
            "sensitivity",
            selector,
            sizes,
            n_clusters=k,
            radius=radius,
        )
    for method in _BILEVEL:
        if method not in _BINARY:
            for m in sizes_of[method]:
                add(method, bilevel(method, m), [m])
    return pd.DataFrame(rows)


def _score(data, indices, weights, problem):
    y = data.y[indices]
    if y.min() == y.max():
        right = data.y_test == y[0]
        return {"test_accuracy": 100.0 * float(np.mean(right)), "train_loss": np.inf}
    model = train(
        data.X[indices],
        y,
        weights,
        problem,
        n=len(data.y),
    )
    return evaluate(model, data)


def of_figure(rows, sizes):
    """The rows of the figure's own sizes, and those of all rows."""
    return rows[rows["size"].isin(sizes) | (rows.method == "full")]


def lead_over_all_rows(rows):
    """Rows with a column `lead`: points of test accuracy above that of all rows of the same
    split."""
    keys = ["dataset", "seed"]
    all_rows = rows[rows.method == "full"].set_index(keys).test_accuracy
    by_split = rows.set_index(keys)
    lead = by_split.test_accuracy - all_rows.reindex(by_split.index)
    return rows.assign(lead=lead.to_numpy())


def choose_sensitivity(rows, by):
    """One sensitivity row per (dataset, size, seed): the grid point with the best mean of `by` over
    the seeds.

    Parameters
    ----------
    rows : DataFrame with the rows of `run` and a column dataset
    by : "test_accuracy" chooses on the test set, as the paper does; "train_loss" without looking at
        it

    Returns
    -------
    DataFrame : `rows` with the sensitivity rows of all other grid points left out
    """
    sensitivity = rows[rows.method == "sensitivity"]
    grid = sensitivity.set_index(["dataset", "size", "n_clusters", "radius"])
    sign = 1.0 if by == "test_accuracy" else -1.0
    means = (sign * grid[by]).groupby(level=[0, 1, 2, 3]).mean()
    best = means.groupby(level=[0, 1]).idxmax()
    kept = grid.loc[best.to_list()].reset_index()
    return pd.concat([rows[rows.method != "sensitivity"], kept], ignore_index=True)


# --- which numbers decide the claims


BASELINES = ["uniform", "kmeans++", "sensitivity"]
TWO_PERCENT = 2.0


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    own_sizes = of_figure(run.rows, run.parameters["sizes"])
    # The test set chooses the grid point, as in the paper.
    rows = choose_sensitivity(own_sizes, "test_accuracy")
    within = run.parameters["within"]
    own = run.rows[run.rows["size"].isin(run.parameters["sizes"]) | (run.rows.method == "full")]
    return {
        "bico-fig06-weighted-2pct": _at_two_percent(rows, "bico weighted"),
        "bico-fig06-binary-twice": Evidence(
            {
                "sizes from the least that suffices": _sizes_over(run.rows, within),
                "sizes of the figure": _sizes_over(own, within),
            },
            facts={"sizes_up_to_2_percent": int(_sizes_below(run.rows).notna().all())},
        ),
        "bico-fig06-above-binary": _lead(rows, "bico"),
        "bico-fig06-above-weighted": _lead(rows, "bico weighted"),
    }


def _gaps(rows, method):
    """Accuracy of a method minus that of all rows: (dataset, size, seed) -> points."""
    full = rows[rows.method == "full"].set_index(["dataset", "seed"]).test_accuracy
    mine = rows[rows.method == method].set_index(["dataset", "size", "seed"]).test_accuracy
    of_split = full.reindex(mine.index.droplevel("size"))
    return mine - of_split.to_numpy()


def _sizes_below(rows):
    """Largest size up to 2 % of the data, by data set; NaN where even the smallest is more."""
    n = rows[rows.method == "full"].groupby("dataset")["size"].max()
    sizes = sorted(rows.loc[rows.method == "bico", "size"].unique())

    def largest_below(n):
        return max((m for m in sizes if m < TWO_PERCENT / 100 * n), default=None)

    return n.map(largest_below)


def _at_two_percent(rows, method):
    gaps = _gaps(rows, method)
    sizes = _sizes_below(rows)
    known = sizes.dropna()
    settings = {dataset: gaps[dataset][m].to_numpy() for dataset, m in known.items()}
    return Evidence(settings, facts={"sizes_up_to_2_percent": int(sizes.notna().all())})


def _sizes_over(rows, within):
    """Seed by seed, the first size of the unweighted coreset over that of the weighted one, on
    average over the data sets."""
    firsts = _first_sizes(rows, "bico", within) / _first_sizes(rows, "bico weighted", within)
    return firsts.groupby(level="seed").mean().to_numpy()


def _first_sizes(rows, method, within):
    """The first size at which a method has the accuracy of all rows, by data set and seed; the
    largest where none has."""
    gaps = _gaps(rows, method).reset_index()
    arrived = gaps[gaps.test_accuracy >= -within].groupby(["dataset", "seed"])["size"].min()
    largest = gaps.groupby(["dataset", "seed"])["size"].max()
    return arrived.reindex(largest.index).fillna(largest)


def _lead(rows, method):
    return paired_differences(
        rows,
        a=method,
        b=BASELINES,
        value="test_accuracy",
        by=["dataset", "size"],
    )
