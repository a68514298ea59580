"""OpenDataVal's noisy labels: how well rankings of the rows find them, on its formula sets and on
six real tables."""

import time

import numpy as np
from cleanlab.rank import get_label_quality_scores
from handful import Logistic, suspects
from handful.data import load
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from handful_papers.claims import Evidence
from handful_papers.published import published

L2 = 1e-2
N_FOLDS = 5
FORMULAS = ("fried", "2dplanes")
LEAST = "least loss"
ITEM = "OpenDataVal, noisy labels"


def models(n):
    """The classifiers that rank, by name; n rows are trained on."""
    trees = dict(n_estimators=n, min_samples_leaf=5)
    return {
        "logistic": Logistic(L2),
        "forest": RandomForestClassifier(**trees),
        "extra trees": ExtraTreesClassifier(**trees, bootstrap=True, max_features=0.5),
    }


def friedman(rng, n):
    """OpenDataVal's `fried`: Friedman's first function, above its mean or not."""
    X = rng.random((n, 10))
    rest = 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    rest += rng.normal(size=n)
    value = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + rest
    return X, (value > 14.41).astype(int)


def planes(rng, n):
    """OpenDataVal's `2dplanes`: Breiman's two planes, above zero or not."""
    X = rng.integers(-1, 2, (n, 10)).astype(float)
    X[:, 0] = rng.choice([-1.0, 1.0], n)
    # The mean is one plane or the other, by the sign of the first column.
    one = 3 + 3 * X[:, 1] + 2 * X[:, 2] + X[:, 3]
    other = -3 + 3 * X[:, 4] + 2 * X[:, 5] + X[:, 6]
    mean = np.where(X[:, 0] > 0, one, other)
    value = mean + np.sqrt(2) * rng.normal(size=n)
    return X, (value > 0).astype(int)


def noisy(dataset, n, rate, rng):
    """n rows, columns of variance one, labels 0, 1, ... of which a share is replaced by others; and
    which ones."""
    if dataset == "fried":
        X, y = friedman(rng, n)
    elif dataset == "2dplanes":
        X, y = planes(rng, n)
    else:
        source = load(dataset)
        rows = rng.permutation(len(source.y))[:n]
        X = np.asarray(source.X[rows], float)
        y = np.unique(source.y[rows], return_inverse=True)[1]
    X = X[:, X.std(axis=0) > 0]
    n_classes = y.max() + 1
    wrong = rng.choice(len(y), round(rate * len(y)), replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    return standardised, y, np.isin(np.arange(len(y)), wrong)


def lower_cluster(values):
    """OpenDataVal's rule: the lower of two clusters of the values, by the split of the least
    squared error."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    k = np.arange(1, len(values))
    first = np.cumsum(v)[:-1]
    second = np.cumsum(v**2)[:-1]
    below = second - first**2 / k
    rest = second[-1] + v[-1] ** 2 - second
    above = rest - (v.sum() - first) ** 2 / (len(v) - k)
    n_below = np.argmin(below + above) + 1
    return np.isin(np.arange(len(v)), order[:n_below])


def rankings(X, y, n_trees, seed):
    """Ranking -> probability of each row's label by a model that did not see it, and the CPU
    seconds that took."""
    found = {}
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    for name, model in models(n_trees).items():
        start = time.process_time()
        ranked = suspects(
            model,
            X,
            y,
            n_folds=N_FOLDS,
            random_state=seed,
        )
        values = np.exp(-ranked.scores_)
        found[f"suspects, {name}"] = values, time.process_time() - start
        start = time.process_time()
        if name == "logistic":
            own = model.estimator(len(y) * (1 - 1 / N_FOLDS))
        else:
            own = model.set_params(random_state=seed)
        chances = cross_val_predict(
            own,
            X,
            y,
            cv=folds,
            method="predict_proba",
        )
        values = get_label_quality_scores(y, chances, method="self_confidence")
        found[f"cleanlab, {name}"] = values, time.process_time() - start
    # The last ranking is that of the model whose predictions fit the labels best, wrong ones
    # included.
    for whose in ("suspects", "cleanlab"):
        mine = [one for ranking, one in found.items() if ranking.startswith(whose)]
        best = min((values for values, _ in mine), key=_mean_loss)
        found[f"{whose}, {LEAST}"] = best, sum(seconds for _, seconds in mine)
    return found


def _mean_loss(values):
    """Mean log loss of probabilities of the labels."""
    return -np.log(np.maximum(values, 1e-12)).mean()


def label_rows(dataset, seed, *, n, rates, n_trees):
    """F1 and average precision of every ranking, a dict for each and for each share of wrong
    labels.

    Parameters
    ----------
    dataset : "fried" or "2dplanes", or a name of the registry
    seed : int, of the rows, of the wrong labels and of the models
    n : int, rows, at most
    rates : list of float, shares of the labels that are replaced by another class
    n_trees : int, of the forests
    """
    rows = []
    for rate in rates:
        rng = np.random.default_rng((seed, round(1000 * rate)))
        X, y, wrong = noisy(dataset, n, rate, rng)
        for ranking, (values, seconds) in rankings(X, y, n_trees, seed).items():
            first = np.argsort(values, kind="stable")[: wrong.sum()]
            worst = np.isin(np.arange(len(y)), first)
            row = dict(
                dataset=dataset,
                rate=rate,
                method=ranking,
                n=len(y),
                f1=f1_score(wrong, lower_cluster(values)),
                f1_share=f1_score(wrong, worst),
                ap=average_precision_score(wrong, -values),
                loss=_mean_loss(values),
                seconds=seconds,
            )
            rows.append(row)
    return rows


def printed():
    """The published F1 scores as a table: a row for each method, columns "fried 10%", ..."""
    return published("public", ITEM).pivot(
        index="row",
        columns="column",
        values="value",
    )


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    table = printed()

    def known(given):
        if given:
            return Evidence(given)
        return Evidence(lacks="no published number for these sets", reason="data")

    def by_setting(f1):
        found = f1.groupby(["dataset", "rate"])
        return {f"{dataset} {rate:.0%}": one.to_numpy() for (dataset, rate), one in found}

    wide = rows.pivot(
        index=["dataset", "rate", "seed"],
        columns="method",
        values="f1",
    )
    ours = wide[f"suspects, {LEAST}"]
    formula = wide.index.get_level_values("dataset").isin(FORMULAS)
    best = table.loc["LossVal, the best of its settings"]
    on_formulas = by_setting(ours[formula])
    lead = (ours - wide[f"cleanlab, {LEAST}"])[~formula]
    over_best = {name: f1 - best[name] for name, f1 in on_formulas.items() if name in best}
    return {
        "public-labels-lossval": known(over_best),
        "public-labels-cleanlab-f1": known(by_setting(lead)),
    }
