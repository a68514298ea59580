"""A grid search on coresets that are selected once a fold, beside the search on all rows: CPU time
and agreement."""

import tempfile
import time

import numpy as np
from _harness import Bench
from handful import CoresetEstimator, KMeansPlusPlus, StratifiedCoreset, UniformCoreset, data
from scipy.stats import kendalltau
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

SETS = ("digits", "phishing", "cod_rna", "credit_default", "covtype_subset", "mnist")
GRID = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.001, 0.01, 0.1]}
MOST = 1500
SHARE = 0.2
SEEDS = range(5)
REPEATS = 3


def rows(name, seed):
    source = data.load(name)
    order = np.random.default_rng(seed).permutation(len(source.y))[:MOST]
    X = np.asarray(source.X[order], dtype=float)
    y = source.y[order]
    return (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12) / np.sqrt(X.shape[1] / 10), y


def search(X, y, seed, selector=None, memory=None):
    estimator = SVC()
    grid = GRID
    if selector is not None:
        estimator = CoresetEstimator(selector, SVC(), memory=memory, random_state=seed)
        grid = {f"estimator__{name}": values for name, values in GRID.items()}
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    return (
        GridSearchCV(estimator, grid, cv=folds, refit=False)
        .fit(X, y)
        .cv_results_["mean_test_score"]
    )


def once_a_fold(X, y, seed, selector):
    with tempfile.TemporaryDirectory() as memory:
        return search(X, y, seed, selector, memory)


bench = Bench(
    "search",
    "Grid search of an RBF SVM: 12 candidates, 3 folds, selected once a fold, scored on held-out "
    "rows",
)
for name in SETS:
    size = round(SHARE * 2 / 3 * len(rows(name, 0)[1]))
    selectors = {
        "k-means++": KMeansPlusPlus(size, weighting="cells"),
        "stratified": StratifiedCoreset(size),
        "uniform": UniformCoreset(size),
    }
    X, y = rows(name, 0)
    far = selectors["k-means++"]
    candidates = {
        "k-means++, once a fold": lambda: once_a_fold(X, y, 0, far),
        "k-means++, each candidate": lambda: search(X, y, 0, far),
    }
    whole = ("search on all rows", lambda: search(X, y, 0))
    bench.time(
        f"{name}, {size} rows a fold",
        candidates,
        whole,
        bars={},
        repeats=REPEATS,
        clock=time.process_time,
    )
    agreement = {}
    lost = {}
    for seed in SEEDS:
        X, y = rows(name, seed)
        full = search(X, y, seed)
        for label, selector in selectors.items():
            few = once_a_fold(X, y, seed, selector)
            agreement.setdefault(label, []).append(kendalltau(full, few).statistic)
            lost.setdefault(label, []).append(100 * (full.max() - full[few.argmax()]))
    for label in selectors:
        unit = (
            f"Kendall's tau with the full search ± {np.std(agreement[label], ddof=1):.2f} "
            f"({len(SEEDS)} seeds)"
        )
        bench.value(name, label, np.mean(agreement[label]), unit=unit)
        unit = f"points of accuracy lost by its choice ± {np.std(lost[label], ddof=1):.2f}"
        bench.value(name, label, np.mean(lost[label]), unit=unit)
bench.write(
    parameters=dict(
        grid=GRID, most=MOST, share=SHARE, seeds=list(SEEDS), sets=SETS, repeats=REPEATS
    )
)
