"""Points for boosting and forests: the time of the choice against one fit of the estimator on all
rows; hard cases."""

import time

import numpy as np
from _harness import Bench
from handful import AnyEstimatorCoreset, StratifiedCoreset, UniformCoreset
from handful.proxies import TreeLeaves
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import average_precision_score

ROWS = 50_000
FEATURES = 50
SIZE = 200
# times one fit of that estimator on all rows
AIM = 10.0
SEEDS = range(5)


def main():
    bench = Bench("trainer", "Points for boosting and forests")
    X, y = make_classification(
        ROWS, FEATURES, n_informative=20, n_clusters_per_class=4, flip_y=0.05, random_state=0
    )
    X = X.astype(np.float32)
    leaves(bench)
    two_cores(bench, X, y)
    for estimator in (
        HistGradientBoostingClassifier(random_state=0),
        RandomForestClassifier(random_state=0),
    ):
        few = AnyEstimatorCoreset(estimator, size=SIZE, random_state=0)
        bench.time(
            f"{ROWS:,} x {FEATURES}, m = {SIZE}",
            {type(estimator).__name__: lambda few=few: few.fit(X, y)},
            (
                "the CPU seconds of one fit on all rows",
                lambda estimator=estimator: estimator.fit(X, y),
            ),
            bars={type(estimator).__name__: AIM},
            clock=time.process_time,
            # a forest on all rows takes a minute
            repeats=1 if isinstance(estimator, RandomForestClassifier) else 3,
        )
    heavy_noise(bench)
    rare_class(bench)
    bench.write(n_rows=ROWS, n_features=FEATURES, size=SIZE, seeds=list(SEEDS))


def leaves(bench, n=100_000, d=20):
    """The proxy of tree models, fitted to a large table."""
    X = np.random.default_rng(0).normal(size=(n, d))
    start = time.process_time()
    TreeLeaves(random_state=0).fit_transform(X)
    bench.value(
        f"{n:,} x {d}",
        "TreeLeaves.fit_transform",
        time.process_time() - start,
        unit="s of a core",
        bar=2.3,
    )


def two_cores(bench, X, y, rows=10_000):
    """The trials of a choice in two processes, by the clock: the workers are there already."""
    seconds = {}
    for n_jobs in (2, 1):
        few = AnyEstimatorCoreset(
            RandomForestClassifier(random_state=0), size=SIZE, n_jobs=n_jobs, random_state=0
        )
        few.fit(X[:2000], y[:2000])
        start = time.perf_counter()
        few.fit(X[:rows], y[:rows])
        seconds[n_jobs] = time.perf_counter() - start
    faster = seconds[1] / seconds[2]
    bench.value(
        f"{rows:,} x {FEATURES}, a forest",
        "n_jobs=2",
        faster,
        unit="x one, wall",
        bar=1.7,
        direction=">=",
    )


def heavy_noise(bench):
    """A forest on 60 of 3,000 rows with Student's t noise, against uniform draws: its squared error
    from the truth."""
    forest = RandomForestRegressor(random_state=0)
    ratios = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 6))
        X_test = rng.normal(size=(2000, 6))
        y = _truth(X) + 0.5 * rng.standard_t(2, size=3000)

        def error(few, X=X, y=y, X_test=X_test):
            X_small, y_small, weights = few.fit(X, y).take(X, y)
            model = forest.fit(X_small, y_small, sample_weight=weights)
            return np.mean((model.predict(X_test) - _truth(X_test)) ** 2)

        drawn = np.median([error(UniformCoreset(60, random_state=i)) for i in SEEDS])
        ratios.append(error(AnyEstimatorCoreset(forest, size=60, random_state=seed)) / drawn)
    worst = max(ratios)
    mean = np.exp(np.mean(np.log(ratios)))
    bench.value(
        "Student's t noise, m = 60",
        "squared error",
        mean,
        unit="x the median uniform draw's",
        bar=1.0,
    )
    bench.value(
        "the same, worst of 5 seeds", "squared error", worst, unit="x the median uniform draw's"
    )


def _truth(X):
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]


def rare_class(bench):
    """A forest on 200 of 20,000 rows, one percent of them of class 1, against the mean of draws of
    three kinds."""
    forest = RandomForestClassifier(random_state=0)
    gains = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30_000, 6))
        rank = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=30_000)
        y = (rank > np.quantile(rank, 0.99)).astype(int)
        train = slice(20_000)
        alike = 1 / np.bincount(y[train])[y[train]]

        def precision(few, weight=None, X=X, y=y, train=train):
            X_small, y_small, weights = few.fit(X[train], y[train], sample_weight=weight).take(
                X[train], y[train]
            )
            model = forest.fit(X_small, y_small, sample_weight=weights)
            # no row of the class was drawn: no ranking, all scores are alike
            if len(model.classes_) == 1:
                return 100 * y[20_000:].mean()
            return 100 * average_precision_score(y[20_000:], model.predict_proba(X[20_000:])[:, 1])

        drawn = {
            "uniform": np.mean([precision(UniformCoreset(200, random_state=i)) for i in SEEDS]),
            "stratified": np.mean(
                [precision(StratifiedCoreset(200, random_state=i)) for i in SEEDS]
            ),
            "balanced": np.mean(
                [precision(StratifiedCoreset(200, random_state=i), alike) for i in SEEDS]
            ),
        }
        few = AnyEstimatorCoreset(forest, size=200, random_state=seed, scoring="average_precision")
        gains.append([precision(few), max(drawn.values())])
    chosen, best = np.mean(gains, axis=0)
    lead = np.mean(np.subtract(*np.transpose(gains)))
    bench.value("class of 1 %, m = 200", "average precision", chosen, unit="%")
    bench.value("class of 1 %, m = 200", "that of the best kind of draw", best, unit="%")
    bench.value("class of 1 %, m = 200", "lead", lead, unit="points", bar=0.0, direction=">=")


if __name__ == "__main__":
    main()
