"""The exact SVM against SVC and LogisticRegression, and the cost of a coreset.

SVC needs half a minute on Credit, so it runs once, between two blocks of ours, and CPU seconds are
compared.
"""

import statistics
import time
import warnings
from types import SimpleNamespace
from unittest import mock

import numpy as np
from _harness import Bench
from handful import UniformCoreset
from handful.sensitivity import svm
from handful.sensitivity.svm import SVMCoreset
from handful.streaming import MergeReduce
from handful.svm import LinearSVM
from handful.svm.interior_point import minimise, with_ones
from handful.svm.linear_svm import svm_objective
from handful.svm.smoothing import solve
from handful_papers.svm.errors import LABELS, paper_sizes, svm_problem
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC


def cpu(function):
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def against_svc(bench, problem, bar):
    """Seconds of SVC over ours, and how far SVC's solution is from the optimum."""
    fit = lambda: LinearSVM().fit(problem.X, problem.y)  # noqa: E731
    fit()
    ours = [cpu(fit)[0] for _ in range(3)]
    theirs, svc = cpu(lambda: SVC(kernel="linear", tol=1e-3).fit(problem.X, problem.y))
    ours += [cpu(fit)[0] for _ in range(3)]
    ratio = theirs / statistics.median(ours)
    bench.value(
        problem.label, "SVC / LinearSVM", ratio, unit="x, CPU seconds", bar=bar, direction=">="
    )
    cost = svm_objective(problem.X, problem.y, np.append(svc.coef_[0], svc.intercept_))
    bench.value(problem.label, "SVC's error", cost / problem.objective - 1, unit="of the objective")
    bench.value(
        problem.label, "LinearSVM's certified gap", fit().gap_, unit="of the objective", bar=1e-8
    )


def against_logistic(bench, problem, bar):
    X = problem.X
    y = problem.y
    bench.time(
        problem.label,
        {"LinearSVM": lambda: LinearSVM().fit(X, y)},
        ("LogisticRegression()", lambda: LogisticRegression().fit(X, y)),
        bars={"LinearSVM": bar},
        repeats=9,
        clock=time.process_time,
    )


def construction(bench, problem, bar):
    """All of `SVMCoreset.fit`, and bound and sampling alone: line 1 of the algorithm, the rough
    solution, given."""
    X = problem.X
    y = problem.y
    size = paper_sizes(problem, 5)[2]
    ones = np.ones(len(y))
    found = {}

    def rough(A, signs, c, *, tol):
        if tol not in found:
            found[tol] = solve(A, signs, c, tol=tol)
        return found[tol]

    def fit(n_clusters, rough_solver):
        def run():
            with mock.patch.object(svm, "solve", rough_solver):
                SVMCoreset(size, n_clusters=n_clusters, random_state=0).fit(X, y)

        return run

    candidates = {
        "all of it, k = log n": fit("log", solve),
        "all of it, k chosen": fit("auto", solve),
        "bound, sampling, k = log n": fit("log", rough),
        "bound, sampling, k chosen": fit("auto", rough),
    }
    bars = dict.fromkeys(candidates, bar)
    for name, solver in (
        ("LinearSVM", lambda: LinearSVM().fit(X, y)),
        ("interior point, no stages", lambda: minimise(with_ones(X), y, ones, tol=1e-8)),
    ):
        case = f"{problem.label}, m = {size}"
        bench.time(case, candidates, (name, solver), bars=bars, repeats=7, clock=time.process_time)


def documents(n, d, *, rng):
    """Rows of two kinds of documents, tf-idf of unit length, and labels of which 3 % are wrong.

    Words follow Zipf's law; a sixth of them are more or less frequent in half of the second kind's
    places.
    """
    frequency = 1.0 / (np.arange(d) + 5.0)
    topic = frequency * np.exp(0.7 * rng.normal(size=d) * (rng.random(d) < 0.15))
    lengths = rng.poisson(60, size=n) + 5
    y = np.where(rng.random(n) < 0.4, 1, -1)
    rows = np.repeat(np.arange(n), lengths)
    general, special = (rng.choice(d, size=len(rows), p=p / p.sum()) for p in (frequency, topic))
    words = np.where((y[rows] > 0) & (rng.random(len(rows)) < 0.5), special, general)
    X = TfidfTransformer().fit_transform(
        sparse.csr_matrix((np.ones(len(rows)), (rows, words)), shape=(n, d))
    )
    return X, np.where(rng.random(n) < 0.03, -y, y)


def wide(bench):
    """Text of many features, against the solver of the same loss (which penalises the bias)."""
    for d, bar in ((1500, 3), (20_000, 5)):
        X, y = documents(16_000, d, rng=np.random.default_rng(0))
        case = f"text, 16,000 x {d:,}"
        exact = LinearSVM().fit(X, y)
        theirs = LinearSVC(loss="hinge", random_state=0).fit(X, y)
        gap = (
            svm_objective(X, y, np.append(theirs.coef_[0], theirs.intercept_)) / exact.objective_
            - 1
        )
        bench.time(
            case,
            {
                "LinearSVM, gap of LinearSVC": lambda X=X, y=y, gap=gap: LinearSVM(tol=gap).fit(
                    X, y
                ),
                "LinearSVM, gap 1e-6": lambda X=X, y=y: LinearSVM(tol=1e-6).fit(X, y),
                "LinearSVM, gap 1e-8": lambda X=X, y=y: LinearSVM().fit(X, y),
                "SVMCoreset": lambda X=X, y=y: SVMCoreset(1000, random_state=0).fit(X, y),
            },
            (
                'LinearSVC(loss="hinge")',
                lambda X=X, y=y: LinearSVC(loss="hinge", random_state=0).fit(X, y),
            ),
            bars={
                "LinearSVM, gap of LinearSVC": 1.3,
                "LinearSVM, gap 1e-6": bar,
                "SVMCoreset": bar,
            },
            clock=time.process_time,
        )
        bench.value(case, "LinearSVC's objective over ours", gap, unit="relative")
        bench.value(case, "LinearSVM's certified gap", LinearSVM(tol=1e-6).fit(X, y).gap_, bar=1e-6)


def trees(bench, problem, n=20_000, size=200, leaf_size=1000, n_seeds=20):
    """Independent draws and the comb under merge and reduce: error of the objective, and what the
    weights add up to."""
    rows = np.random.default_rng(0).permutation(problem.n)[:n]
    X = problem.X[rows]
    y = problem.y[rows]
    best = LinearSVM().fit(X, y).objective_
    selectors = {
        f"SVMCoreset, {how}": SVMCoreset(sampling=how) for how in ("multinomial", "systematic")
    }
    for name, selector in {**selectors, "uniform": UniformCoreset()}.items():
        excess = []
        totals = []
        for seed in range(n_seeds):
            tree = MergeReduce(selector, size=size, leaf_size=leaf_size, random_state=seed).fit(
                X, y
            )
            few, labels, weights = tree.rows()
            svm_of_few = LinearSVM().fit(few, labels, sample_weight=weights)
            solution = np.append(svm_of_few.coef_[0], svm_of_few.intercept_)
            excess.append(svm_objective(X, y, solution) / best - 1)
            totals.append(weights.sum() / len(y))
        case = f"{problem.label}, {len(y):,} rows by MergeReduce, m = {size}"
        bench.value(case, f"{name}: error, mean", np.mean(excess), unit="of the objective")
        bench.value(
            case, f"{name}: error, greatest of {n_seeds}", max(excess), unit="of the objective"
        )
        bench.value(case, f"{name}: sum of the weights, least", min(totals), unit="x rows")
        bench.value(case, f"{name}: sum of the weights, greatest", max(totals), unit="x rows")


def main():
    # LogisticRegression at its default of 100 iterations
    warnings.simplefilter("ignore", ConvergenceWarning)
    bench = Bench("svm", "SVM: exact solver, coreset construction")
    problems = {
        name: svm_problem(name) for name in ("htru2", "credit_default", "skin_nonskin", "cod_rna")
    }
    for name, bar in (("htru2", 4), ("credit_default", 4), ("skin_nonskin", 1.5), ("cod_rna", 1.5)):
        against_logistic(bench, problems[name], bar)
    for name in ("credit_default", "cod_rna"):
        construction(bench, problems[name], 0.25)
    for name, bar in (("htru2", 10), ("credit_default", 200)):
        against_svc(bench, problems[name], bar)
    wide(bench)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 200))
    y = (X[:, :10].sum(axis=1) / 2 + rng.logistic(size=len(X)) > 0).astype(int)
    against_logistic(bench, SimpleNamespace(label="20,000 x 200", X=X, y=y), 10)
    for name in ("htru2", "credit_default", "cod_rna"):
        trees(bench, problems[name])
    bench.write(
        data={p.dataset.name: p.dataset.sha256 for p in problems.values()},
        counts={LABELS[name]: dict(n=p.n, d=p.X.shape[1]) for name, p in problems.items()},
    )


if __name__ == "__main__":
    main()
