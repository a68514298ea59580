"""Exact handfuls: CPU seconds of the reweighting, and of the posterior of a million rows, beside
one fit on them."""

import time

import numpy as np
from _harness import Bench
from handful import MatchedCoreset
from handful.matching import recombine
from sklearn.linear_model import LogisticRegression

SEEDS = range(3)


def seconds_of(function):
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def sums(bench, n=100_000, n_features=1000):
    """As many rows as features with the features' sums of all rows."""
    F = np.random.default_rng(0).normal(size=(n, n_features))
    F[:, 0] = 1.0
    seconds, (rows, _, residual) = seconds_of(lambda: recombine(F))
    case = f"recombine, {n_features:,} features of {n:,} rows"
    bench.value(case, "CPU time", seconds, unit="s", bar=10)
    bench.value(case, "rows", len(rows), bar=n_features)
    bench.value(case, "residual", residual, unit="of the sums", bar=1e-11)


def posterior(bench, n=1_000_000, d=10):
    """Logistic regression on a million rows: the choice, beside one fit on all rows."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        y = (X @ rng.normal(size=d) + rng.logistic(size=n) > 0).astype(int)
        seconds, few = seconds_of(
            lambda X=X, y=y: MatchedCoreset(at="posterior", random_state=0).fit(X, y)
        )
        once, _ = seconds_of(lambda X=X, y=y: LogisticRegression(C=1, tol=1e-8).fit(X, y))
        case = f"{n:,} x {d}, seed {seed}"
        bench.value(
            case,
            "CPU time of the choice",
            seconds,
            unit=f"s ({once:.2g} s: one fit on all rows)",
            bar=30,
        )
        bench.value(case, "rows", len(few.indices_))
        bench.value(case, "KL divergence, held out", few.kl_, unit="nats")


def main():
    bench = Bench("matching", "Exact handfuls")
    sums(bench)
    posterior(bench)
    bench.write(runs="one run of each", seeds=list(SEEDS), data="generated")


if __name__ == "__main__":
    main()
