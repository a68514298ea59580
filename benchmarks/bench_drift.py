"""Streams whose optimum moves: rows matched at a sliding pilot beside trees and reservoirs, at
equal memory.

Judged are models of all rows seen so far, on new rows of the same mixture of times.
"""

import time

import numpy as np
from _harness import Bench
from handful import BilevelCoreset, Logistic, MatchedCoreset, MergeReduce
from handful.streaming import ClassBalancedReservoir, ReservoirCoreset
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

L2 = 1e-2
SIZE = 100
LEAF = 1000
N = 20_000
D = 10
SEEDS = range(5)
# Angle by which the slopes have turned in the end, and by how much the columns' means have moved.
STREAMS = {
    "the optimum stays": (0.0, 0.0),
    "slopes turn by 90 degrees": (np.pi / 2, 0.0),
    "slopes are reversed": (np.pi, 0.0),
    "columns move by two deviations": (0.0, 2.0),
}
PROBLEM = Logistic(l2=L2)
# Three penalties in the tree, as many sums as `SIZE` allows.
MATCHED = MatchedCoreset(PROBLEM, at="path")


def stream(turn, move, n, rng):
    """Rows and labels in the order of time."""
    time_of = np.linspace(0, 1, n)
    X = rng.standard_t(6, size=(n, D))
    X[:, -1] += move * time_of
    angle = turn * time_of
    slopes = np.zeros((n, D))
    slopes[:, 0] = 1.5 * np.cos(angle)
    slopes[:, 1] = 1.5 * np.sin(angle)
    slopes[:, 2:] = 0.3
    logits = (X * slopes).sum(1) - 1
    return X, (logits + rng.logistic(size=n) > 0).astype(int)


class SlidingPilot:
    """Rows that are matched anew with each leaf, at optima of the rows that are held and the leaf
    together."""

    def __init__(self, seed):
        self.matched = MATCHED
        self.held = None

    def partial_fit(self, X, y):
        """Take a leaf."""
        w = np.ones(len(y))
        if self.held is not None:
            X, y, w = (np.concatenate(pair) for pair in zip(self.held, (X, y, w), strict=True))
        rows = self.matched.fit(X, y, w)
        self.held = *rows.take(X, y)[:2], rows.weights_
        return self

    def rows(self):
        """Rows, labels and weights that are held."""
        return self.held


def ways():
    """Name -> what takes a stream, of a seed."""
    bilevel = BilevelCoreset(PROBLEM)
    peak = 7 * SIZE + LEAF
    tree = dict(size=SIZE, leaf_size=LEAF)
    return {
        "matched at a sliding pilot": SlidingPilot,
        "tree, matched": lambda seed: MergeReduce(MATCHED, **tree, random_state=seed),
        "tree, bilevel": lambda seed: MergeReduce(bilevel, **tree, random_state=seed),
        "reservoir, then bilevel": lambda seed: ReservoirCoreset(
            bilevel, size=SIZE, n_held=peak, random_state=seed
        ),
        f"all {peak} rows of a reservoir": lambda seed: ClassBalancedReservoir(
            peak, random_state=seed
        ),
    }


def loss_of(rows, new):
    X, y, w = rows
    model = LogisticRegression(C=1 / (L2 * np.sum(w)), tol=1e-6, max_iter=1000)
    model.fit(X, y, sample_weight=w)
    return log_loss(new[1], model.predict_proba(new[0]))


def case(bench, name, turn, move):
    lost = {}
    spent = {}
    held = {}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X, y = stream(turn, move, N, rng)
        new = stream(turn, move, N, rng)
        best = loss_of((X, y, np.ones(N)), new)
        for what, start in ways().items():
            begin = time.process_time()
            taker = start(seed)
            for first in range(0, N, LEAF):
                taker.partial_fit(X[first : first + LEAF], y[first : first + LEAF])
            rows = taker.rows()
            spent.setdefault(what, []).append(time.process_time() - begin)
            held.setdefault(what, []).append(len(rows[1]))
            lost.setdefault(what, []).append(loss_of(rows, new) - best)
    for what, values in lost.items():
        spread = np.std(values, ddof=1)
        bench.value(
            name,
            f"{what}: loss above all rows",
            np.mean(values),
            unit=f"± {spread:.2g} over seeds, {np.mean(held[what]):.0f} rows",
        )
        bench.value(name, f"{what}: speed", N / np.median(spent[what]), unit="rows/s of a core")


def main():
    bench = Bench("drift", "Streams whose optimum moves")
    for name, (turn, move) in STREAMS.items():
        case(bench, name, turn, move)
    bench.write(size=SIZE, leaf_size=LEAF, stream=N, seeds=len(SEEDS), data="generated")


if __name__ == "__main__":
    main()
