"""Coresets of tables with a rare class: loss and ranking on new rows, and whether probabilities are
of the right size.

Each coreset is chosen once from all training rows; `bench_streams.py` has the same for streams.
"""

import numpy as np
from _harness import Bench
from handful import BilevelCoreset, Logistic, StratifiedCoreset, UniformCoreset
from handful_papers.bico import fig06_binary_logistic as binary_logistic
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, log_loss

WEAK = Logistic(l2=1e-3)
SIZES = (50, 200)
SEEDS = range(5)
SELECTORS = {
    "quadratic": BilevelCoreset(WEAK, weighting="equal"),
    "linear": BilevelCoreset(WEAK, rule="linear", weighting="equal"),
    "optimised weights": BilevelCoreset(WEAK),
    "stratified": StratifiedCoreset(),
    "uniform": UniformCoreset(),
}


def spread(values):
    return f"± {np.std(values, ddof=1):.2g} over seeds"


def sets(n=20_000):
    """Name, rows, labels: the first half is for training, the second is new."""
    for share in (0.02, 0.005):
        X, y = make_classification(2 * n, 20, weights=[1 - share], flip_y=0, random_state=0)
        yield f"{100 * share:g} % of class 1", (X - X.mean(0)) / X.std(0), y
    data = binary_logistic.prepare("w8a", seed=0)
    # Its rows come sorted by class.
    order = np.random.default_rng(0).permutation(len(data.y))[: 2 * n]
    yield "w8a", np.asarray(data.X[order], dtype=np.float64), (data.y[order] == 1).astype(int)
    data = binary_logistic.prepare("htru2", seed=0)
    order = np.random.default_rng(0).permutation(len(data.y) // 2 * 2)
    yield "htru2", np.asarray(data.X[order], dtype=np.float64), (data.y[order] == 1).astype(int)


def scores(train, new, weights, n):
    """Log-loss, average precision and mean probability over the share of class 1, on new rows."""
    model = LogisticRegression(C=1 / (WEAK.l2 * n), max_iter=3000).fit(
        *train, sample_weight=weights
    )
    probability = model.predict_proba(new[0])[:, 1]
    ranking = average_precision_score(new[1], probability)
    return log_loss(new[1], probability), ranking, probability.mean() / new[1].mean()


def main():
    bench = Bench("rare", "A rare class: coresets of a table, logistic regression")
    for name, X, y in sets():
        train, new = zip(np.split(X, 2), np.split(y, 2), strict=True)
        n = len(train[1])
        share = f"{100 * train[1].mean():.2g} % of class 1"
        full = scores(train, new, None, n)
        case = name if "class 1" in name else f"{name}, {share}"
        bench.value(case, "all rows: average precision", full[1], unit="")
        for size in SIZES:
            for arm, selector in SELECTORS.items():
                found = []
                rows = []
                for seed in SEEDS:
                    chosen = selector.set_params(size=size, random_state=seed).fit(*train)
                    *rows_of, weights = chosen.take(*train)
                    rows.append(int(rows_of[1].sum()))
                    # a draw may miss the class
                    if 0 < rows[-1] < len(rows_of[1]):
                        found.append(scores(rows_of, new, weights, n))
                what = f"m = {size}, {arm}"
                values = np.array(found).T
                bench.value(case, f"{what}: rows of class 1", np.mean(rows), unit=spread(rows))
                if len(found) < len(SEEDS):
                    bench.value(
                        case,
                        f"{what}: draws without the class",
                        len(SEEDS) - len(found),
                        unit="of 5",
                    )
                    continue
                bench.value(
                    case,
                    f"{what}: loss above all rows",
                    (values[0] - full[0]).mean(),
                    unit=spread(values[0]),
                )
                bench.value(
                    case, f"{what}: average precision", values[1].mean(), unit=spread(values[1])
                )
                bench.value(
                    case,
                    f"{what}: mean probability",
                    values[2].mean(),
                    unit="x the share of class 1",
                )
    bench.write(l2=WEAK.l2, sizes=SIZES, seeds=len(SEEDS), data="generated, and the sets named")


if __name__ == "__main__":
    main()
