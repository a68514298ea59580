"""Balanced draws beside stratified and uniform ones: the loss on new rows at equal rows, and what
the seconds would have bought.

Decides whether `compare` takes balanced rows as a control in place of stratified ones: where the
loss of stratified rows less that of balanced ones, in percent of it, is above 0 by its interval
over tables, at both sizes and for both estimators, and no table fails more often.
"""

import numpy as np
from _harness import Bench
from handful import BalancedCoreset, compare
from handful.data import load
from scipy.stats import t as student
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

N = 4000
SIZES = [100, 300]
SEEDS = 6
CLASSES = (
    "breast_cancer",
    "digits",
    "phishing",
    "htru2",
    "cod_rna",
    "credit_default",
    "skin_nonskin",
    "covtype_subset",
)
# size, values of each column of words, columns of numbers
OFF = [(50, [3, 4], 0), (50, [], 10), (50, [3, 4], 4), (100, [3, 4, 5], 5), (50, [], 24)]
TABLES = 40
TREES = dict(n_estimators=20, min_samples_leaf=3, random_state=0)
LEARNERS = {
    "classes": {
        "linear": LogisticRegression(C=1.0, max_iter=2000),
        "forest": RandomForestClassifier(**TREES),
    },
    "numbers": {"linear": Ridge(1.0), "forest": RandomForestRegressor(**TREES)},
}
SCORING = {"classes": "neg_log_loss", "numbers": "neg_mean_squared_error"}
METHODS = ("uniform", "stratified", "balanced", "best of draws", "more uniform rows")


def tables():
    """Name, kind of targets, rows, targets: at most N rows, columns of variance one."""
    for name in CLASSES:
        data = load(name)
        yield name, "classes", *_few(data.X, data.y)
    yield "diabetes", "numbers", *_few(load("diabetes").X, load("diabetes").y)
    bike = load("bike_poisson")
    yield "bike_poisson, log counts", "numbers", *_few(bike.X[:, 1:], np.log1p(bike.y))
    credit = load("credit_default")
    yield "credit_default, log limit", "numbers", *_few(credit.X[:, 1:], np.log(credit.X[:, 0]))
    yield "friedman1", "numbers", *_few(*make_friedman1(N, random_state=0))


def _few(X, y):
    rows = np.random.default_rng(0).permutation(len(y))[:N]
    X = np.asarray(X, dtype=np.float64)[rows]
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), np.asarray(y)[rows]


def interval(values):
    """Half of the 95 % interval of the mean over tables."""
    return student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5


def rows_off(rng, n, size, n_values, n_numbers):
    """How many rows of the sample the worst total of a random table is off by.

    Parameters
    ----------
    rng : numpy.random.Generator
    n, size : int, rows of the table and of the sample
    n_values : list of int, a column of words with so many values each
    n_numbers : int, columns of numbers
    """
    shares = [np.eye(k)[rng.choice(k, n, p=rng.dirichlet(np.full(k, 3.0)))] for k in n_values]
    numbers = rng.normal(size=(n, n_numbers))
    numbers = (numbers - numbers.mean(axis=0)) / np.abs(numbers).max(axis=0)
    table = np.column_stack([*shares, numbers])
    draw = BalancedCoreset(size, by=lambda X: X, random_state=rng).fit(table)
    totals = draw.weights_ @ table[draw.indices_] - table.sum(axis=0)
    return np.abs(totals).max() * size / n


def main():
    bench = Bench("balanced", "Balanced draws beside stratified and uniform ones")
    for size, n_values, n_numbers in OFF:
        rng = np.random.default_rng(0)
        off = [rows_off(rng, 2000, size, n_values, n_numbers) for _ in range(TABLES)]
        case = f"random tables, m = {size}: words of {n_values} values, {n_numbers} numbers"
        within = 100 * np.mean(np.array(off) <= 1 + 1e-9)
        bench.value(case, "every total within one row", within, unit="% of 40 draws")
        bench.value(case, "worst total of all draws", max(off), unit="rows")
    leads = {}
    for table, kind, X, y in tables():
        for learner, estimator in LEARNERS[kind].items():
            found = compare(
                {"balanced": BalancedCoreset()},
                estimator,
                X,
                y,
                sizes=SIZES,
                seeds=SEEDS,
                scoring=SCORING[kind],
                verbose=False,
            ).frame
            for size in SIZES:
                at = found[found["size"] == size].assign(loss=-found["score"])
                loss = at.pivot(index="seed", columns="method", values="loss")
                base = loss["uniform"].mean()
                for method in METHODS:
                    if method in loss:
                        case = f"{table}, {learner}, m = {size}"
                        failed = int(loss[method].isna().sum())
                        told = f"% of uniform's loss; {failed} of {SEEDS} failed"
                        bench.value(case, method, 100 * loss[method].mean() / base, unit=told)
                for other in ("stratified", "uniform", "more uniform rows"):
                    if other in loss:
                        lead = (loss[other] - loss["balanced"]).mean() / base
                        leads.setdefault((other, kind, learner, size), []).append(100 * lead)
                seconds = at.groupby("method")["choose_seconds"].median()
                leads.setdefault(("seconds", kind, learner, size), []).append(seconds["balanced"])
    for (other, kind, learner, size), values in leads.items():
        case = f"all tables of {kind}, {learner}, m = {size}"
        if other == "seconds":
            bench.value(case, "seconds to choose, balanced", np.median(values), unit="s")
            continue
        n_ahead = np.count_nonzero(np.array(values) > 0)
        told = f"ahead on {n_ahead} of {len(values)}"
        unit = f"% of uniform's loss, ± {interval(values):.2g}; {told}"
        bench.value(case, f"{other} less balanced", np.mean(values), unit=unit)
    bench.note(
        "Loss is the log-loss of classes and the squared error of numbers, on the quarter of the "
        f"rows that is held out; {SEEDS} seeds, paired. Balanced rows are drawn on all columns and "
        'on y. "more uniform rows" and "best of draws" get the seconds that balancing takes.'
    )
    bench.write(runs=f"means of {SEEDS} seeds", rows_of_a_table=N, sizes=SIZES, seeds=SEEDS)


if __name__ == "__main__":
    main()
