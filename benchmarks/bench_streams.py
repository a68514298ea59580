"""Coresets of a stream by merge and reduce: loss on new rows, rows a second, probabilities where a class is rare.

The opponents are uniform draws through the same tree and reservoirs with as many rows as the tree holds.
"""

import statistics
import time

import numpy as np
from _harness import Bench
from bench_wide import inner_work, normal
from handful import BilevelCoreset, Logistic, MergeReduce, StratifiedCoreset, UniformCoreset
from handful.bilevel import Forward
from handful.streaming import ClassBalancedReservoir, Reservoir
from handful_papers.bico import fig06_binary_logistic as binary_logistic
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

SIZE, SEEDS, CHUNK = 100, range(5), 1000
PROBLEM = Logistic(l2=1e-2)
WEAK = Logistic(l2=1e-3)  # for the streams with a rare class
SELECTORS = {
    "linear": {"rule": "linear"},
    "quadratic": {},
    "quadratic, Forward(batch_size=5)": {"strategy": Forward(5)},
    "quadratic, Forward(batch_size=10)": {"strategy": Forward(10)},
    "optimised weights": {"weighting": "optimised"},
}
SLOWEST = 40_000  # rows a second of a core


def stream_sets(n=10_000):
    """Cases of rows, labels: the first half comes in a stream, the second is new."""
    for d in (10, 50):
        yield f"d = {d}", *normal(2 * n, d, np.random.default_rng(d))
    for name in ("phishing", "credit_default", "htru2"):
        data = binary_logistic.prepare(name, seed=0)
        even = min(2 * n, len(data.y) // 2 * 2)
        yield name, data.X[:even].astype(np.float64), data.y[:even]


def rare_sets(n=20_000):
    """As `stream_sets`: two generated sets and a real one, with 2, .5 and 3 % of the rows in class 1."""
    for share in (0.02, 0.005):
        X, y = make_classification(2 * n, 20, weights=[1 - share], flip_y=0, random_state=0)
        yield f"{100 * share:g} % of class 1", (X - X.mean(0)) / X.std(0), y
    data = binary_logistic.prepare("w8a", seed=0)
    order = np.random.default_rng(0).permutation(len(data.y))[: 2 * n]  # its rows come sorted by class
    yield "w8a", np.asarray(data.X[order], dtype=np.float64), (data.y[order] == 1).astype(int)


class Scored:
    """A stream, new rows, and what a logistic regression of all rows of the stream reaches on them."""

    def __init__(self, X, y, problem):
        (self.X, self.X_new), (self.y, self.y_new) = np.split(X, 2), np.split(y, 2)
        self.C = 1 / (problem.l2 * len(self.y))
        self.full = self.score(self.X, self.y, None)[0]

    def score(self, rows, targets, weights):
        """Mean log-loss on the new rows; mean probability of class 1 over its share."""
        model = LogisticRegression(C=self.C, max_iter=3000).fit(rows, targets, sample_weight=weights)
        loss = np.logaddexp(0, -np.where(self.y_new == 1, 1, -1) * model.decision_function(self.X_new)).mean()
        return loss, model.predict_proba(self.X_new)[:, 1].mean() / np.mean(self.y_new == 1)

    def runs(self, start):
        """`start(seed)` fed with the stream, for each seed: excess losses, ratios, CPU seconds, rows held."""
        found, seconds, held = [], [], []
        for seed in SEEDS:
            stream, begin = start(seed), time.process_time()
            for first in range(0, len(self.y), CHUNK):
                stream.partial_fit(self.X[first : first + CHUNK], self.y[first : first + CHUNK])
            seconds.append(time.process_time() - begin)
            held.append(getattr(stream, "n_rows_held_", None))
            found.append(self.score(*stream.rows()))
        losses, ratios = np.transpose(found)
        return losses - self.full, ratios, seconds, held


def spread(values):
    return f"± {np.std(values, ddof=1):.2g} over seeds"


def common(bench):
    """The loss and the speed of each selector, and the loss of a reservoir with as many rows as the tree holds."""
    points = []
    for name, X, y in stream_sets():
        scored, case = Scored(X, y, PROBLEM), f"MergeReduce, {name}"
        n = len(scored.y)
        selectors = {arm: BilevelCoreset(PROBLEM, **options) for arm, options in SELECTORS.items()}
        for arm, selector in {**selectors, "uniform": UniformCoreset()}.items():
            losses, _, seconds, held = scored.runs(
                lambda seed, s=selector: MergeReduce(s, size=SIZE, random_state=seed)
            )
            bench.value(case, f"{arm}: loss above all rows", losses.mean(), unit=spread(losses))
            bar = SLOWEST if arm in selectors else None
            speed = n / statistics.median(seconds)
            bench.value(case, f"{arm}: speed", speed, unit="rows/s of a core", bar=bar, direction=">=")
        losses = scored.runs(lambda seed, m=held[0]: Reservoir(m, random_state=seed))[0]
        bench.value(case, f"reservoir of {held[0]}: loss above all rows", losses.mean(), unit=spread(losses))
        quadratic = MergeReduce(selectors["quadratic"], size=SIZE, random_state=0)
        work = inner_work(lambda X=scored.X, y=scored.y, stream=quadratic: stream.fit(X, y).rows())
        problems = work["problems"]
        points.append(
            f"{n:,} rows of {name} are {problems:,} points chosen, one inner problem and "
            f"{work['steps'] / problems:.1f} Newton steps each, which take {1e6 * work['seconds'] / problems:.0f} of "
            f"the {1e6 * n / SLOWEST / problems:.0f} microseconds that {SLOWEST:,} rows/s leave for a point"
        )
    bench.note(
        f"Streams by the quadratic rule: {'; '.join(points)}. Arrays have at most 1,000 rows, so that a point costs "
        "calls, not operations."
    )


def rare(bench):
    """Losses and probabilities where a leaf holds few rows of a class, for leaves of two sizes."""
    for name, X, y in rare_sets():
        scored = Scored(X, y, WEAK)
        selectors = {
            arm: BilevelCoreset(WEAK, **SELECTORS[arm]) for arm in ("linear", "quadratic", "optimised weights")
        }
        for leaf in (1000, 5000):
            case = f"{name}, leaves of {leaf:,} rows with {leaf * np.mean(scored.y == 1):.0f} of class 1"
            for arm, selector in {**selectors, "stratified": StratifiedCoreset()}.items():
                losses, ratios, _, held = scored.runs(
                    lambda seed, s=selector, leaf=leaf: MergeReduce(s, size=SIZE, leaf_size=leaf, random_state=seed)
                )
                bench.value(case, f"{arm}: loss above all rows", losses.mean(), unit=spread(losses))
                bench.value(case, f"{arm}: mean probability", ratios.mean(), unit="x the share of class 1")
        losses, ratios, *_ = scored.runs(lambda seed, m=held[0]: ClassBalancedReservoir(m, random_state=seed))
        arm = f"class-balanced reservoir of {held[0]}"
        bench.value(name, f"{arm}: loss above all rows", losses.mean(), unit=spread(losses))
        bench.value(name, f"{arm}: mean probability", ratios.mean(), unit="x the share of class 1")


def main():
    bench = Bench("streams", "Streams")
    common(bench)
    rare(bench)
    bench.write(
        l2={"common": PROBLEM.l2, "rare": WEAK.l2}, size=SIZE, seeds=len(SEEDS), data="generated, and the sets named"
    )


if __name__ == "__main__":
    main()
