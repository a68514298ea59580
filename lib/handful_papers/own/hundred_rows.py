"""A hundred rows: held-out loss of models trained on few rows, above that of the model of all
rows."""

import time

import numpy as np
from handful import BilevelCoreset, Logistic, MatchedCoreset, UniformCoreset
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from handful_papers.own.posterior import table

METHODS_SHOWN = ("uniform", "bilevel", "matched")
# Penalties of the trainer, as multiples of the one that rows are chosen for.
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)


def chosen(method, m, l2, X, y, seed):
    """At most m rows by one of `METHODS_SHOWN`: the selector, or None where the equations of the
    path do not fit."""
    if method == "uniform":
        return UniformCoreset(m, random_state=seed).fit(X, y)
    if method == "bilevel":
        selector = BilevelCoreset(
            Logistic(l2=l2),
            size=m,
            weighting="optimised",
            outer_penalty=False,
            random_state=seed,
        )
        return selector.fit(X, y)
    try:
        return MatchedCoreset(Logistic(l2=l2), size=m).fit(X, y)
    except ValueError as error:
        # Where m is too small the message names the class to take instead.
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
    X, X_test = np.split(X, [cut])
    y, y_test = np.split(y, [cut])

    def losses(X, y, w):
        """Way of training -> held-out loss of what is trained on weighted rows."""
        found = {}
        for way, strength, options in ways_to_train(l2):
            model = LogisticRegression(
                C=1 / (strength * w.sum()),
                tol=1e-6,
                max_iter=5000,
                **options,
            )
            model.fit(X, y, sample_weight=w)
            found[way] = log_loss(y_test, model.predict_proba(X_test), labels=[0, 1])
        return found

    every = losses(X, y, np.ones(cut))
    found = []
    for way, loss in every.items():
        row = dict(
            method="full",
            m=cut,
            rows=cut,
            way=way,
            loss=loss,
            excess=0.0,
        )
        found.append(row)
    for method in METHODS_SHOWN:
        for m in sizes:
            start = time.process_time()
            few = chosen(
                method,
                m,
                l2,
                X,
                y,
                seed,
            )
            if few is None or len(np.unique(y[few.indices_])) < 2:
                continue
            seconds = time.process_time() - start
            same = dict(
                method=method,
                m=m,
                rows=len(few.indices_),
                seconds=seconds,
            )
            for way, loss in losses(*few.take(X, y)).items():
                found.append(
                    same
                    | dict(
                        way=way,
                        loss=loss,
                        excess=loss - every[way],
                    )
                )
    about = dict(dataset=dataset, n=cut, d=X.shape[1])
    return [about | row for row in found]


def ways_to_train(l2):
    """(name, strength of the penalty, options of the trainer) of each penalty that is tried."""
    ways = [(f"l2 x {factor:g}", l2 * factor, {}) for factor in FACTORS]
    # This solver goes through the columns in a random order.
    return [*ways, ("l1", l2, dict(l1_ratio=1.0, solver="liblinear", random_state=0))]


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    own = "l2 x 1"
    matched_rows = rows[rows.method == "matched"]
    least = matched_rows.groupby(["dataset", "seed"]).m.min().rename("least")

    def at_that_size(method, ways):
        """The excess at the least size at which the path fits, by data set and seed."""
        found = rows[(rows.method == method) & rows.way.isin(ways)]
        found = found.join(least, on=["dataset", "seed"])
        return found[found.m == found.least].groupby(["dataset", "seed"]).excess

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
