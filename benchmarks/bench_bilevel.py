"""Bilevel coresets: time against the bytes that must be read, quality against full-data training.

The yardstick of the times is 200 products ``X @ v`` over the same float32, column-major array: what
selecting 100 points must read at least (two passes a point). Real data sets come through
HANDFUL_DATA or a download.
"""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
from _harness import Bench
from handful import BilevelCoreset, Logistic
from handful_papers.bico import fig06_binary_logistic as bl
from sklearn.linear_model import LogisticRegression

L2 = 0.01
SEEDS = range(5)
# bars of the linear rule
SETS = {"phishing": 4.0, "cod_rna": 1.5, "a9a": 3.0, "covtype_subset": 2.0}
PROBLEM = Logistic(l2=L2)


def coreset(data, **options):
    return BilevelCoreset(
        PROBLEM, **{"size": 100, "weighting": "equal", "random_state": 0, **options}
    ).fit(data.X, data.y)


def products(X):
    v = np.random.default_rng(0).random(X.shape[1]).astype(np.float32)

    def run():
        for _ in range(200):
            X @ v

    return run


def times(bench, name, data, bar):
    base = bench.time(
        f"{name} {data.X.shape[0]:,} x {data.X.shape[1]}",
        {
            "linear, m = 100": lambda: coreset(data, rule="linear"),
            "quadratic, m = 100": lambda: coreset(data),
            "quadratic + weights, m = 100": lambda: coreset(data, weighting="optimised"),
        },
        ("200 products X @ v", products(data.X)),
        bars={"linear, m = 100": bar},
        repeats=5,
    )
    linear, quadratic, weighted = base.values()
    bench.value(name, "quadratic / linear", quadratic / linear, unit="x", bar=4)
    bench.value(name, "weighted / quadratic", weighted / quadratic, unit="x", bar=3)


def synthetic(n=523_000, d=54):
    rng = np.random.default_rng(0)
    X = np.empty((n, d), dtype=np.float32, order="F")
    # column by column, so that making X takes no memory beside it
    for j in range(d):
        X[:, j] = rng.standard_normal(n, dtype=np.float32)
    logit = X @ rng.standard_normal(d).astype(np.float32) / np.sqrt(d)
    return SimpleNamespace(X=X, y=(logit + rng.logistic(size=n) > 0).astype(int))


def memory(bench):
    # In a process of its own, whose peak resident memory (VmHWM: Linux) is not that of this one; X
    # counts as well.
    code = (
        "import re, pathlib, bench_bilevel as b\n"
        "status = pathlib.Path('/proc/self/status')\n"
        "peak = lambda: 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1])\n"
        "b.coreset(b.synthetic(2000), weighting='optimised')\n"
        "before = peak(); data = b.synthetic()\n"
        "b.coreset(data, weighting='optimised'); print((peak() - before) / data.X.nbytes)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=sys.path[0]
    )
    bench.value(
        "523,000 x 54 float32", "peak memory, weighted", float(out.stdout), unit="x X", bar=3
    )


def scores(data, selector, size, problem=PROBLEM):
    n = len(data.y)
    weights = selector.weights_ if len(selector.weights_) == size else np.full(size, n / size)
    model = bl.train(
        data.X[selector.indices_[:size]], data.y[selector.indices_[:size]], weights, problem, n=n
    )
    return bl.evaluate(model, data)


def quality(bench, name):
    full = []
    linear = []
    quadratic = []
    weighted = []
    for seed in SEEDS:
        data = bl.prepare(name, seed=seed)
        n = len(data.y)
        full.append(
            bl.evaluate(bl.train(data.X, data.y, np.ones(n), PROBLEM, n=n), data)["test_accuracy"]
        )
        linear.append(
            scores(data, coreset(data, rule="linear", random_state=seed), 100)["train_loss"]
        )
        quadratic.append(scores(data, coreset(data, size=50, random_state=seed), 50)["train_loss"])
        best = coreset(data, size=50, weighting="optimised", random_state=seed)
        weighted.append(scores(data, best, 50)["test_accuracy"])
    bench.value(
        f"{name}, {len(SEEDS)} seeds",
        "train loss, quadratic m = 50",
        np.mean(quadratic),
        unit=f"linear m = 100: {np.mean(linear):.4f}",
        bar=round(float(np.mean(linear)), 4) if name != "covtype_subset" else None,
    )
    bench.value(
        f"{name}, {len(SEEDS)} seeds",
        "accuracy, weighted 50 - full",
        np.mean(weighted) - np.mean(full),
        unit=f"points (full {np.mean(full):.2f} %)",
        bar=-0.1,
        direction=">=",
    )


def imbalanced(data, share, seed):
    rng = np.random.default_rng(seed)
    rare = int(np.argmin(np.bincount(data.y)))
    ones = np.flatnonzero(data.y == rare)
    rest = np.flatnonzero(data.y != rare)
    keep = rng.choice(ones, int(share * len(rest) / (1 - share)), replace=False)
    rows = np.sort(np.concatenate([keep, rest]))
    return SimpleNamespace(
        X=np.asfortranarray(data.X[rows]), y=data.y[rows], X_test=data.X_test, y_test=data.y_test
    )


# factors on l2, and the other treatment of the intercept
TRAINERS = (1, 0.1, 10, "penalised intercept")
ROBUST = {
    "linear": dict(rule="linear"),
    "quadratic": {},
    "weighted": dict(weighting="optimised"),
}


def train_penalised_intercept(X, y, weights, n):
    # a column of ones without an intercept of its own is an intercept that the penalty covers
    model = LogisticRegression(
        C=1 / (L2 * n), fit_intercept=False, solver="newton-cholesky", tol=1e-8, max_iter=1000
    )
    return model.fit(
        np.column_stack([X, np.ones(len(X))]).astype(np.float64), y, sample_weight=weights
    )


def train_loss(data, rows, weights, trainer):
    """Mean loss over all training rows of a trainer on some of them; without the penalty."""
    n = len(data.y)
    if trainer == "penalised intercept":
        model = train_penalised_intercept(data.X[rows], data.y[rows], weights, n)
        z = data.X @ model.coef_[0, :-1] + model.coef_[0, -1]
    else:
        model = bl.train(data.X[rows], data.y[rows], weights, Logistic(l2=L2 * trainer), n=n)
        z = model.decision_function(data.X)
    return np.logaddexp(0, -np.where(data.y == 1, z, -z)).mean()


def mismatch(bench, name, share=None):
    """Trainers other than the one that selected: l2 tenfold off either way, an intercept that is
    penalised."""
    rows = {}
    for seed in SEEDS[:3]:
        data = bl.prepare(name, seed=seed)
        if share:
            data = imbalanced(data, share, seed)
        n = len(data.y)
        full = {t: train_loss(data, np.arange(n), np.ones(n), t) for t in TRAINERS}
        for key, options in ROBUST.items():
            selector = coreset(data, random_state=seed, **options)
            for t in TRAINERS:
                loss = train_loss(data, selector.indices_, selector.weights_, t)
                rows.setdefault((t, key), []).append(loss - full[t])
    case = f"{name}, rare class {100 * share:.0f} %" if share else name
    for (trainer, key), values in rows.items():
        who = trainer if isinstance(trainer, str) else f"l2 x {trainer:g}"
        bench.value(
            f"{case}, trainer {who}",
            f"excess train loss, {key}",
            np.mean(values),
            unit=f"± {np.std(values):.3f}",
        )


def main():
    bench = Bench("bilevel", "Bilevel coresets for logistic regression")
    checksums = {}
    for name, bar in SETS.items():
        data = bl.prepare(name, seed=0)
        checksums[name] = data.sha256
        times(bench, name, data, bar)
    times(bench, "synthetic", synthetic(), 1.3)
    memory(bench)
    for name in SETS:
        quality(bench, name)
    for name in ("phishing", "cod_rna"):
        mismatch(bench, name)
    for share in (0.05, 0.01):
        for name in ("phishing", "a9a"):
            mismatch(bench, name, share)
    bench.write(data=checksums, l2=L2, seeds=list(SEEDS))


if __name__ == "__main__":
    main()
