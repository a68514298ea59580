"""Coresets of a stream at equal memory: loss on new rows, probabilities where a class is rare, rows
a second.

The memory of merge and reduce is its peak, the rows of a leaf among them; the reservoirs hold as
many.
"""

import statistics
import time

import numpy as np
from _harness import Bench
from bench_wide import normal
from handful import BilevelCoreset, Logistic, MergeReduce, StratifiedCoreset
from handful.streaming import ClassBalancedReservoir, ReservoirCoreset
from handful_papers.bico import fig06_binary_logistic as binary_logistic
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

SIZE = 100
LEAF = 1000
SEEDS = range(3)
CHUNK = 50
OPTIONS = {
    "optimised": {"weighting": "optimised"},
    "linear": {"rule": "linear", "weighting": "equal"},
}


def streams(n=10_000):
    """Cases of name, rows, labels, l2: the first half comes in a stream, the second is new."""
    for d in (10, 50):
        yield f"d = {d}", *normal(2 * n, d, np.random.default_rng(d)), 1e-2
    for name in ("phishing", "credit_default", "htru2"):
        data = binary_logistic.prepare(name, seed=0)
        even = min(2 * n, len(data.y) // 2 * 2)
        yield name, data.X[:even].astype(np.float64), data.y[:even], 1e-2
    for share in (0.02, 0.005):
        X, y = make_classification(2 * n, 20, weights=[1 - share], flip_y=0, random_state=0)
        yield f"{100 * share:g} % of class 1", (X - X.mean(0)) / X.std(0), y, 1e-3
    data = binary_logistic.prepare("w8a", seed=0)
    # its rows come sorted by class
    order = np.random.default_rng(0).permutation(len(data.y))[: 2 * n]
    yield "w8a", np.asarray(data.X[order], dtype=np.float64), (data.y[order] == 1).astype(int), 1e-3


def runs(start, X, y):
    """`start(seed)` fed with the stream, for each seed: rows, CPU seconds, and the most rows
    held."""
    for seed in SEEDS:
        stream = start(seed)
        begin = time.process_time()
        peak = 0
        for first in range(0, len(y), CHUNK):
            stream.partial_fit(X[first : first + CHUNK], y[first : first + CHUNK])
            peak = max(peak, stream.n_rows_held_)
        yield stream.rows(), time.process_time() - begin, peak + CHUNK


def case(bench, name, X, y, l2):
    (X, X_new), (y, y_new), C = np.split(X, 2), np.split(y, 2), 1 / (l2 * len(y) / 2)

    def judged(rows, labels, weights):
        model = LogisticRegression(C=C, max_iter=3000).fit(rows, labels, sample_weight=weights)
        loss = np.logaddexp(0, -np.where(y_new == 1, 1, -1) * model.decision_function(X_new)).mean()
        return loss, model.predict_proba(X_new)[:, 1].mean() / np.mean(y_new == 1)

    def arm(what, start):
        found, seconds, peaks = zip(*runs(start, X, y))
        losses, ratios = np.transpose([judged(*rows) for rows in found])
        spread = f"± {np.std(losses, ddof=1):.2g} over seeds"
        bench.value(
            name, f"{what}: loss above all rows", losses.mean() - judged(X, y, None)[0], unit=spread
        )
        bench.value(name, f"{what}: mean probability", ratios.mean(), unit="x the share of class 1")
        bench.value(
            name, f"{what}: speed", len(y) / statistics.median(seconds), unit="rows/s of a core"
        )
        return max(peaks)

    problem = Logistic(l2=l2)
    tree = dict(size=SIZE, leaf_size=LEAF)
    arms = {
        f"tree, {weights}": BilevelCoreset(problem, **options)
        for weights, options in OPTIONS.items()
    }
    for what, selector in (arms | {"tree, stratified": StratifiedCoreset()}).items():
        peak = arm(what, lambda seed, s=selector: MergeReduce(s, **tree, random_state=seed))
    bench.value(name, "rows held at the peak of a tree", peak, unit="rows")
    best = BilevelCoreset(problem, **OPTIONS["optimised"])
    held = dict(size=SIZE, n_held=peak)
    arm("reservoir, then optimised", lambda seed: ReservoirCoreset(best, **held, random_state=seed))
    arm(
        f"all {peak} rows of a balanced reservoir",
        lambda seed: ClassBalancedReservoir(peak, random_state=seed),
    )


def main():
    bench = Bench("streams", "Streams")
    for name, *stream in streams():
        case(bench, name, *stream)
    bench.write(size=SIZE, leaf_size=LEAF, seeds=len(SEEDS), data="generated, and the sets named")


if __name__ == "__main__":
    main()
