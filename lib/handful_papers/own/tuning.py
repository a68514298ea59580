"""Tuning a penalty on a thousand rows: the curve of a cross-validation on few rows, beside that on
all."""

import time
import warnings

import numpy as np
from handful import Logistic, MatchedCoreset
from handful.matching.folds import along
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import likelihood
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

from handful_papers.own.posterior import table

# What of a penalty is the sum of absolute values; the rest is half the squares.
KINDS = {"L2": 0.0, "elastic net": 0.5, "L1": 1.0}
METHODS_SHOWN = ("uniform", "same seconds", "sgd", "matched")


def curve_rows(dataset, seed, *, n, columns, folds, low, high, n_penalties):
    """Mean held-out loss at each penalty: a dict for each kind of penalty, method and penalty.

    Parameters
    ----------
    dataset : str, in the registry; the task is the most frequent class against the rest
    seed : int, of the rows, the folds, and random choices
    n : int, rows, at most
    columns : int or None, the columns that are used, at most
    folds : int
    low, high : floats, the least and the largest penalty, per mean loss
    n_penalties : int

    Returns
    -------
    list of dict with kind, method, penalty, rows (that trained and tested), loss (nats, the mean
    over folds), error (loss less that of all rows) and seconds (CPU time of the curve, the choice
    of rows included)
    """
    X, y = table(dataset, n, seed, columns)
    penalties = np.geomspace(high, low, n_penalties)
    rng = np.random.default_rng([seed, 1])
    start = time.process_time()
    few = MatchedCoreset(Logistic(), folds=folds, penalties=[low, high], random_state=seed)
    chosen = few.fit(X, y).take(X, y)
    choice = time.process_time() - start
    n = len(y)
    n_chosen = len(chosen[1])
    every = (X, y, np.ones(len(y)), few.row_folds_)
    found = []
    for kind, share in KINDS.items():
        pairs = [(share * penalty, (1 - share) * penalty) for penalty in penalties]
        full, all_seconds = timed(curve, *every, pairs)
        matched, seconds = timed(curve, *chosen, pairs)
        seconds += choice
        # So many random rows take as many seconds, if these grow with the rows.
        n_same = max(n_chosen, round(n * seconds / all_seconds))
        n_same = min(n, n_same)
        curves = {
            "full": (n, full, all_seconds),
            "matched": (n_chosen, matched, seconds),
        }
        for method, size in (("uniform", n_chosen), ("same seconds", n_same)):
            sample = drawn(every, size, rng)
            losses, spent = timed(curve, *sample, pairs)
            curves[method] = size, losses, spent
        losses, spent = descent(X, y, few.row_folds_, share, penalties, seconds, seed)
        curves["sgd"] = n, losses, spent
        for method, (size, losses, spent) in curves.items():
            same = dict(kind=kind, method=method, rows=size, seconds=spent)
            for penalty, loss, truth in zip(penalties, losses, full):
                error = loss - truth
                found.append(same | dict(penalty=penalty, loss=loss, error=error))
    about = dict(n=n, d=X.shape[1])
    return [about | row for row in found]


def timed(function, *args):
    """What a function gives, and its CPU seconds."""
    start = time.process_time()
    found = function(*args)
    return found, time.process_time() - start


def curve(X, y, w, folds, pairs):
    """Mean held-out loss (nats) of logistic regressions at pairs of an L1 and an L2 penalty.

    The optima are Newton's, to 1e-9 nats, each from the one before: all methods have the same
    trainer, the fastest that we know for all three kinds of penalties.
    """
    model, target = likelihood(Logistic(), y)
    rows = LikelihoodSums(model, X, target, w).moved("path")
    losses = []
    for k in np.unique(folds):
        thetas = along(rows.where(folds != k), pairs)
        held = rows.where(folds == k)
        losses.append(-held.sums(thetas) / held.weights.sum())
    return np.mean(losses, axis=0)


def drawn(every, size, rng):
    """A uniform sample of rows with their folds, all with the same weight."""
    X, y, w, folds = every
    n = len(y)
    some = np.sort(rng.permutation(n)[:size])
    weights = w[some] * n / size
    return X[some], y[some], weights, folds[some]


def descent(X, y, folds, share, penalties, seconds, seed):
    """The curve of averaged stochastic gradient descent on all rows, of as many passes as fit into
    some CPU seconds, one at least; and its CPU seconds."""
    options = dict(
        loss="log_loss",
        penalty="elasticnet",
        l1_ratio=share,
        average=True,
        tol=None,
        random_state=seed,
    )

    def passes(n_epochs):
        losses = np.zeros(len(penalties))
        for k in np.unique(folds):
            held = folds == k
            for i, penalty in enumerate(penalties):
                model = SGDClassifier(alpha=penalty, max_iter=n_epochs, **options)
                model.fit(X[~held], y[~held])
                losses[i] += log_loss(y[held], model.predict_proba(X[held]))
        return losses / len(np.unique(folds))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        once, spent = timed(passes, 1)
        n_epochs = int(seconds / spent)
        return timed(passes, n_epochs) if n_epochs > 1 else (once, spent)


# --- which numbers decide the claims


def errors(rows, method, kinds):
    """The largest error of a curve over its penalties and some kinds: data set -> one value a
    seed."""
    own = rows[(rows.method == method) & rows.kind.isin(kinds)]
    sizes = own.error.abs()
    worst = sizes.groupby([own.dataset, own.seed], sort=False).max()
    by_dataset = worst.groupby(level=0, sort=False)
    return {dataset: one.to_numpy() for dataset, one in by_dataset}


def by_kind(rows, method):
    """`errors` of each kind of penalty alone: (data set, kind) -> one value a seed."""
    return {
        (dataset, kind): values
        for kind in rows.kind.unique()
        for dataset, values in errors(rows, method, [kind]).items()
    }


def steps(rows, method):
    """Steps of the grid from the best penalty of all rows to that of a method: a frame with a
    column for each kind, and a row for each data set and seed."""
    where = ["dataset", "seed", "kind"]

    def best(one):
        own = rows[rows.method == one].reset_index(drop=True)
        places = own.groupby(where, sort=False).loss.transform(lambda loss: np.argmin(loss))
        own = own.assign(place=places)
        return own.groupby(where, sort=False).place.first()

    return (best(method) - best("full")).abs().unstack("kind")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    matched = by_kind(rows, "matched")
    random = by_kind(rows, "uniform")
    same = by_kind(rows, "same seconds")
    return {
        "own-tuning-l2": errors(rows, "matched", ["L2"]),
        "own-tuning-l1": errors(rows, "matched", ["L1", "elastic net"]),
        "own-tuning-rows": {where: values / random[where] for where, values in matched.items()},
        "own-tuning-seconds": {where: same[where] - values for where, values in matched.items()},
    }
