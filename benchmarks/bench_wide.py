"""Wide, sparse and small data: sparse text, every number of features, kernel features, small
clusterings.

Medians of CPU seconds, taken in turns: neighbours on the machine change them less than the clock's.
"""

import statistics
import time
from functools import partial
from itertools import pairwise

import numpy as np
from _harness import Bench
from bench_bilevel import products
from bench_multiclass import coreset as multinomial_coreset
from bench_multiclass import features
from bench_svm import documents
from handful import VCGMM, BilevelCoreset, Logistic
from handful_papers.bico import fig06_binary_logistic as binary_logistic
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
    return BilevelCoreset(problem, **{"weighting": "equal", "random_state": 0, **options}).fit(X, y)


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
        bench.value(
            "text, 16,000 x 20,000", name, value / base, unit="x 200 products X @ v", bar=bar
        )


def binary(bench, m=100, repeats=7):
    for name, bar in (("cod_rna", 1.5), ("a9a", 2), ("phishing", 3)):
        data = binary_logistic.prepare(name, seed=0)
        functions = {
            "base": products(data.X),
            "linear": lambda data=data: coreset(data.X, data.y, size=m, rule="linear"),
        }
        base, ours = medians(functions, repeats).values()
        case = f"{name}, {data.X.shape[0]:,} x {data.X.shape[1]}"
        bench.value(case, f"linear, m = {m}", ours / base, unit="x 200 products X @ v", bar=bar)
    steps = m - 10
    bench.note(
        f"Binary selection: each of {steps} steps takes three products with X (logits, gradient, "
        "scores) and one "
        f"exponential a row. The products alone are {3 * steps / 200:.2f} times the yardstick's "
        "200: these sets stay "
        "in the processor's cache, so that reading X once for two of them saves little. The rest "
        "are exponentials, "
        f"which weigh most where rows are short, and {steps} exact inner problems of up to {m} "
        "points, which weigh "
        "most where rows are few."
    )


def several_classes(bench, m=400, repeats=5):
    Z, y, _ = features(1000, 512)
    (n, d) = Z.shape
    k = len(np.unique(y))
    steps = m - 10
    T = np.zeros((d, k), Z.dtype)
    R = np.zeros((n, k), Z.dtype)

    def data_alone():
        for _ in range(steps):
            Z @ T, Z.T @ R, Z @ T

    functions = {
        "base": lambda: LogisticRegression(C=10, max_iter=1000).fit(Z, y),
        f"{m} points": lambda: multinomial_coreset(Z, y, m),
        f"{3 * steps} products with the data alone": data_alone,
    }
    base, *seconds = (times := medians(functions, repeats)).values()
    for name, value, bar in zip(list(times)[1:], seconds, (10, None)):
        bench.value(
            f"MNIST, {n:,} x {d}", name, value / base, unit="x LogisticRegression(C=10)", bar=bar
        )
    bench.note(
        f"Several classes, {m} of {n:,} x {d}: {3 * steps} products with the data are "
        f"{6 * steps * n * d * k / 1e9:.1f} billion operations. At {m} points the design is "
        f"{8 * m**2 / 1e6:.1f} MB, "
        "more than the processor's second cache holds, and each conjugate gradient reads it twice."
    )


def steps(bench, repeats=3):
    """Seconds with a few more features over those before, around every place where another way
    becomes cheaper."""
    rng = np.random.default_rng(0)
    for widths in ((72, 80, 88), (120, 128, 130, 136), (200, 216), (256, 272, 288, 304, 320, 336)):
        data = {d: normal(5000, d, rng) for d in widths}
        functions = {d: partial(coreset, *data[d], size=50) for d in widths}
        worst = max(
            after / before for before, after in pairwise(medians(functions, repeats).values())
        )
        case = f"5,000 rows, m = 50, d = {', '.join(map(str, widths))}"
        bench.value(case, "greatest step", worst, unit="x the d before", bar=1.3)


def kernel_features(bench):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = (np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    Z = Nystroem(gamma=0.03, n_components=300, random_state=0).fit_transform(X)
    problem = Logistic(l2=1e-4)
    # compiles
    coreset(Z, y, problem, size=5, weighting="optimised")
    for weighting, bar in (("equal", 6), ("optimised", 12)):
        start = time.process_time()
        coreset(Z, y, problem, size=200, weighting=weighting)
        seconds = time.process_time() - start
        bench.value(
            "RBF features, 20,000 x 300",
            f"{weighting} weights, m = 200",
            seconds,
            unit="s of a core",
            bar=bar,
        )


def clustering(bench, repeats=7):
    rng = np.random.default_rng(0)
    for n, d, k in ((300, 2, 5), (1000, 5, 10), (2000, 20, 20), (5000, 10, 50)):
        centers = 4 * rng.normal(size=(k, d))
        X = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
        functions = {
            "KMeans(n_init=1)": lambda X=X, k=k: KMeans(k, n_init=1, random_state=0).fit(X),
            "VCGMM": lambda X=X, k=k: VCGMM(k, random_state=0).fit(X),
        }
        theirs, ours = medians(functions, repeats).values()
        bench.value(
            f"float64, {n:,} x {d}, {k} clusters",
            "VCGMM",
            ours / theirs,
            unit="x KMeans(n_init=1)",
            bar=2,
        )


def main():
    bench = Bench("wide", "Wide, sparse and small data")
    text(bench)
    binary(bench)
    several_classes(bench)
    steps(bench)
    kernel_features(bench)
    clustering(bench)
    bench.write(l2=PROBLEM.l2, data="generated, and the sets named")


if __name__ == "__main__":
    main()
