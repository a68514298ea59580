"""A hundred rows: held-out loss of models trained on few rows, above that of the model of all
rows."""

import time

import numpy as np
from handful import BilevelCoreset, Logistic, MatchedCoreset, UniformCoreset
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from handful_papers.own.posterior import table

METHODS_SHOWN = ("uniform", "bilevel", "matched")
# penalties of the trainer, as multiples of the one that rows are chosen for
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)


def chosen(method, m, l2, X, y, seed):
    """At most m rows by one of `METHODS_SHOWN`: the selector, or None where the equations of the
    path do not fit."""
    if method == "uniform":
        return UniformCoreset(m, random_state=seed).fit(X, y)
    if method == "bilevel":
        return BilevelCoreset(
            Logistic(l2=l2), size=m, weighting="optimised", random_state=seed
        ).fit(X, y)
    try:
        return MatchedCoreset(Logistic(l2=l2), size=m).fit(X, y)
    except ValueError as error:
        # what it says where m is too small
        if "BilevelCoreset" not in str(error):
            raise
        return None


def loss_rows(
    dataset,
    seed,
    *,
    n,
    n_test,
    sizes,
    l2,
    columns=None,
):
    """Held-out log-loss above that of all rows, a dict for each method, size and penalty of the
    trainer.

    Parameters
    ----------
    dataset : str, in the registry; the task is the most frequent class against the rest
    seed : int, of the split and of random choices
    n, n_test : int, rows to choose from and to test on, at most; the latter a quarter at most
    sizes : list of int, rows m
    l2 : float, the penalty that rows are chosen for, per mean loss
    columns : int or None, the columns that are used, at most
    """
    X, y = table(dataset, n + n_test, seed, columns)
    cut = min(n, len(X) * 3 // 4)
    test = X[cut:], y[cut:]
    X = X[:cut]
    y = y[:cut]

    def loss(X, y, w, strength, **options):
        model = LogisticRegression(
            C=1 / (strength * w.sum()),
            tol=1e-6,
            max_iter=5000,
            **options,
        )
        return log_loss(
            test[1], model.fit(X, y, sample_weight=w).predict_proba(test[0]), labels=[0, 1]
        )

    ways = [(f"l2 x {factor:g}", l2 * factor, {}) for factor in FACTORS]
    ways.append(("l1", l2, dict(l1_ratio=1.0, solver="liblinear")))
    every = {
        way: loss(
            X,
            y,
            np.ones(cut),
            strength,
            **options,
        )
        for way, strength, options in ways
    }
    found = [
        dict(
            method="full",
            m=cut,
            rows=cut,
            way=way,
            loss=value,
            excess=0.0,
        )
        for way, value in every.items()
    ]
    for method in METHODS_SHOWN:
        for m in sizes:
            start = time.process_time()
            few = chosen(method, m, l2, X, y, seed)
            if few is None or len(np.unique(y[few.indices_])) < 2:
                continue
            same = dict(
                method=method, m=m, rows=len(few.indices_), seconds=time.process_time() - start
            )
            for way, strength, options in ways:
                value = loss(*few.take(X, y), strength, **options)
                found.append(
                    same
                    | dict(
                        way=way,
                        loss=value,
                        excess=value - every[way],
                    )
                )
    return [
        dict(
            dataset=dataset,
            n=cut,
            d=X.shape[1],
        )
        | row
        for row in found
    ]


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    own = "l2 x 1"
    # the least size at which the path fits
    fits = rows[rows.method == "matched"].groupby(["dataset", "seed"]).m.min()

    def at_that_size(method, ways):
        found = rows[(rows.method == method) & rows.way.isin(ways)]
        found = found[found.m == fits.reindex(list(zip(found.dataset, found.seed))).to_numpy()]
        return found.groupby(["dataset", "seed"]).excess

    path = [way for way in rows.way.unique() if way.startswith("l2")]
    matched = at_that_size("matched", [own]).max()
    few = at_that_size("uniform", [own]).max()

    def by_dataset(values):
        return {dataset: one.to_numpy() for dataset, one in values.groupby("dataset")}

    return {
        "own-hundred-path": by_dataset(at_that_size("matched", path).max()),
        "own-hundred-l1": by_dataset(at_that_size("matched", ["l1"]).max()),
        "own-hundred-random": by_dataset((few - matched).dropna()),
    }
