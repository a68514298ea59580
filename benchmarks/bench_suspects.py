"""Finding flipped labels: `suspects` with a logistic model and a forest, beside cleanlab with the same models."""

import time

import numpy as np
from _harness import Bench
from _tables import halves
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from handful import Logistic, suspects
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

L2, N_FOLDS, RATES, SEEDS = 1e-2, 5, (0.1, 0.2), range(2)
SETS = ("breast_cancer", "digits", "phishing", "cod_rna", "credit_default", "mnist")
MOST = 1500  # rows


def forest():
    return RandomForestClassifier(300, min_samples_leaf=5)


def rankings(X, y, seed):
    """Scores, large is suspect, and the seconds of each; and what cleanlab itself calls an issue, with the forest."""
    found = {}
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    for name, problem, model in (
        ("logistic", Logistic(L2), LogisticRegression(C=1 / (L2 * 0.8 * len(y)), max_iter=1000)),
        ("forest", forest(), forest().set_params(random_state=seed)),
    ):
        start = time.process_time()
        scores = suspects(problem, X, y, n_folds=N_FOLDS, random_state=seed).scores_
        found[f"suspects, {name}"] = scores, time.process_time() - start
        start = time.process_time()
        chances = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
        scores = -get_label_quality_scores(y, chances, method="self_confidence")
        found[f"cleanlab, {name}"] = scores, time.process_time() - start
    return found, find_label_issues(y, chances)


def friedman(rng, n=1000):
    """OpenDataVal's `fried`: Friedman's first function, above its median or not."""
    X = rng.random((n, 10))
    rest = 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)
    return X, (10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + rest > 14.41).astype(int)


def planes(rng, n=1000):
    """OpenDataVal's `2dplanes`: Breiman's two planes, above zero or not."""
    X = rng.integers(-1, 2, (n, 10)).astype(float)
    X[:, 0] = rng.choice([-1.0, 1.0], n)
    one, other = 3 + 3 * X[:, 1] + 2 * X[:, 2] + X[:, 3], -3 + 3 * X[:, 4] + 2 * X[:, 5] + X[:, 6]
    return X, (np.where(X[:, 0] > 0, one, other) + np.sqrt(2) * rng.normal(size=n) > 0).astype(int)


def lower_cluster(values):
    """OpenDataVal's rule: the lower of two clusters of the values, by the split of the least squared error."""
    order = np.argsort(values)
    v, k = values[order], np.arange(1, len(values))
    first, second = np.cumsum(v)[:-1], np.cumsum(v**2)[:-1]
    rest = (second[-1] + v[-1] ** 2 - second) - (v.sum() - first) ** 2 / (len(v) - k)
    return np.isin(np.arange(len(v)), order[: np.argmin(second - first**2 / k + rest) + 1])


bench = Bench("suspects", "Suspect labels: 10 and 20 % flipped, found by rankings of the rows")
for name, make in {"fried": friedman, "2dplanes": planes}.items():
    for ranking, model in {"suspects, logistic": Logistic(L2), "suspects, forest": forest()}.items():
        found = []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            X, y = make(rng)
            truth = np.isin(np.arange(len(y)), rng.choice(len(y), len(y) // 5, replace=False))
            y, X, start = np.where(truth, 1 - y, y), (X - X.mean(0)) / X.std(0), time.process_time()
            values = np.exp(-suspects(model, X, y, random_state=seed).scores_)
            found.append((f1_score(truth, lower_cluster(values)), time.process_time() - start))
        f1, seconds = np.mean(found, axis=0)
        bar = {"fried": 0.64, "2dplanes": 0.70}[name] if "forest" in ranking else None
        bench.value(f"{name}, 20%", ranking, f1, unit="F1 (10 seeds), OpenDataVal's rule", bar=bar, direction=">=")
        bench.value(f"{name}, 20%", ranking, seconds, unit="CPU s")
for name in SETS:
    for rate in RATES:
        measured = {}
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            X, clean, *_ = halves(name, rng, MOST)
            n, k = len(clean), clean.max() + 1
            flipped = rng.choice(n, round(rate * n), replace=False)
            y = clean.copy()
            y[flipped] = (y[flipped] + rng.integers(1, k, len(flipped))) % k
            truth = np.isin(np.arange(n), flipped)
            found, issues = rankings(X, y, seed)
            for ranking, (scores, seconds) in found.items():
                first = np.isin(np.arange(n), np.argsort(-scores, kind="stable")[: len(flipped)])
                row = average_precision_score(truth, scores), f1_score(truth, first), seconds
                measured.setdefault(ranking, []).append(row)
            measured.setdefault("cleanlab's issues, forest", []).append((np.nan, f1_score(truth, issues), np.nan))
        for ranking, rows in measured.items():
            precision, f1, seconds = np.mean(rows, axis=0)
            case = f"{name}, {rate:.0%}"
            if np.isfinite(precision):
                bench.value(case, ranking, precision, unit=f"average precision ({len(rows)} seeds)")
                bench.value(case, ranking, seconds, unit="CPU s")
            bench.value(
                case, ranking, f1, unit="F1 of as many rows as were flipped" if "issues" not in ranking else "F1"
            )
bench.write(parameters=dict(l2=L2, n_folds=N_FOLDS, rates=list(RATES), seeds=list(SEEDS), most=MOST, sets=SETS))
