"""Wide, sparse and small data: sparse text, every number of features, kernel features, streams, small clusterings.

Medians of CPU seconds, taken in turns: neighbours on the machine change them less than the clock's.
"""

import statistics
import time
from functools import partial
from itertools import pairwise

import numpy as np
from _harness import Bench
from bench_svm import documents
from handful import VCGMM, BilevelCoreset, Logistic, UniformCoreset
from handful.bilevel import Forward
from handful.streaming import MergeReduce
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression

PROBLEM = Logistic(l2=1e-2)


def medians(functions, repeats):
    """Median CPU seconds of each function; the first of the turns compiles and does not count."""
    seconds = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            if turn:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def coreset(X, y, problem=PROBLEM, **options):
    return BilevelCoreset(problem, **{"random_state": 0, **options}).fit(X, y)


def normal(n, d, rng):
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=d) / np.sqrt(d) + rng.logistic(size=n) > 0).astype(int)


def text(bench, repeats=1):
    X, y = documents(16_000, 20_000, rng=np.random.default_rng(0))
    v = np.random.default_rng(0).random(X.shape[1])

    def products():
        for _ in range(200):
            X @ v

    functions = {
        "base": products,
        "linear, m = 100": lambda: coreset(X, y, size=100, rule="linear"),
        "quadratic, m = 100": lambda: coreset(X, y, size=100),
        "quadratic, m = 30": lambda: coreset(X, y, size=30),
        "LogisticRegression() on all rows": lambda: LogisticRegression().fit(X, y),
    }
    base, *seconds = (times := medians(functions, repeats)).values()
    for name, value, bar in zip(list(times)[1:], seconds, (4, 16, 16, None)):
        bench.value("text, 16,000 x 20,000", name, value / base, unit="x 200 products X @ v", bar=bar)


def steps(bench, repeats=3):
    """Seconds with a few more features over those before, around every place where another way becomes cheaper."""
    rng = np.random.default_rng(0)
    for features in ((72, 80, 88), (120, 128, 130, 136), (200, 216), (256, 272, 288, 304, 320, 336)):
        data = {d: normal(5000, d, rng) for d in features}
        functions = {d: partial(coreset, *data[d], size=50) for d in features}
        worst = max(after / before for before, after in pairwise(medians(functions, repeats).values()))
        case = f"5,000 rows, m = 50, d = {', '.join(map(str, features))}"
        bench.value(case, "greatest step", worst, unit="x the d before", bar=1.3)


def kernel_features(bench):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = (np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    Z = Nystroem(gamma=0.03, n_components=300, random_state=0).fit_transform(X)
    problem = Logistic(l2=1e-4)
    coreset(Z, y, problem, size=5, weighting="optimised")  # compiles
    for weighting, bar in (("binary", 6), ("optimised", 12)):
        start = time.process_time()
        coreset(Z, y, problem, size=200, weighting=weighting)
        seconds = time.process_time() - start
        bench.value("RBF features, 20,000 x 300", f"{weighting} weights, m = 200", seconds, unit="s of a core", bar=bar)


def streams(bench, n=10_000, n_seeds=3):
    """Rows a second of the tree, and the loss on new rows of a model trained on its root, less that with all rows."""
    selectors = {
        "linear": BilevelCoreset(PROBLEM, rule="linear"),
        "quadratic": BilevelCoreset(PROBLEM),
        "quadratic, Forward(batch_size=5)": BilevelCoreset(PROBLEM, strategy=Forward(5)),
        "quadratic, Forward(batch_size=10)": BilevelCoreset(PROBLEM, strategy=Forward(10)),
        "uniform": UniformCoreset(),
    }
    for d in (10, 50):
        X, y = normal(2 * n, d, np.random.default_rng(d))
        (X, X_new), (y, y_new) = np.split(X, 2), np.split(y, 2)

        def loss(rows, targets, weights, X_new=X_new, y_new=y_new):
            model = LogisticRegression(C=1 / (PROBLEM.l2 * n), max_iter=1000).fit(rows, targets, sample_weight=weights)
            return np.logaddexp(0, -np.where(y_new == 1, 1, -1) * model.decision_function(X_new)).mean()

        full = loss(X, y, None)
        for name, selector in selectors.items():
            seconds, excess = [], []
            for seed in range(n_seeds + 1):
                start = time.process_time()
                stream = MergeReduce(selector, random_state=seed).fit(X, y)
                seconds.append(time.process_time() - start)
                excess.append(loss(*stream.rows()) - full)
            bar = 40_000 if selector is not selectors["uniform"] else None
            speed = n / statistics.median(seconds[1:])
            bench.value(f"MergeReduce, d = {d}", name, speed, unit="rows/s of a core", bar=bar, direction=">=")
            bench.value(f"MergeReduce, d = {d}", f"{name}: excess loss", np.mean(excess), unit="on new rows")


def clustering(bench, repeats=9):
    rng = np.random.default_rng(0)
    for n, d, k in ((300, 2, 5), (1000, 5, 10), (2000, 20, 20), (5000, 10, 50)):
        centers = 4 * rng.normal(size=(k, d))
        X = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
        functions = {
            "KMeans(n_init=1)": lambda X=X, k=k: KMeans(k, n_init=1, random_state=0).fit(X),
            "VCGMM": lambda X=X, k=k: VCGMM(k, random_state=0).fit(X),
        }
        theirs, ours = medians(functions, repeats).values()
        bench.value(f"float64, {n:,} x {d}, {k} clusters", "VCGMM", ours / theirs, unit="x KMeans(n_init=1)", bar=2)


def main():
    bench = Bench("wide", "Wide, sparse and small data")
    text(bench)
    steps(bench)
    kernel_features(bench)
    streams(bench)
    clustering(bench)
    bench.write(l2=PROBLEM.l2, data="generated")


if __name__ == "__main__":
    main()
