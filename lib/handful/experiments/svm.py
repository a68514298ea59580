"""Protocols of "On Coresets for Support Vector Machines" (2020): errors and times, offline and streaming.

Times are CPU seconds of the process: on a shared machine they say what an arm costs, whoever else is at work.
"""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from handful.coreset import Selector
from handful.data import load, standardise
from handful.sensitivity.draws import multinomial_draw
from handful.sensitivity.svm import SVMCoreset
from handful.streaming import MergeReduce
from handful.svm import LinearSVM, svm_objective

LABELS = {
    "htru2": "HTRU",
    "credit_default": "Credit",
    "pathological": "Pathological",
    "skin_nonskin": "Skin",
    "cod_rna": "Cod-rna",
    "w8a": "W1",
    "breast_cancer": "Breast cancer",
    "digits_3_8": "Digits 3/8",
}


class UniformDraws(Selector):
    """The paper's baseline: Algorithm 1 with constant scores, so draws with repetition, by weight."""

    _takes_sparse = True
    _repeats = True

    def __init__(self, size=100, *, random_state=None):
        self.size = size
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        return multinomial_draw(sample_weight / sample_weight.sum(), sample_weight, self.size, rng=rng)


ARMS = {
    "uniform": lambda: UniformDraws(),
    "svm paper": lambda: SVMCoreset(score="paper", n_clusters="log"),
    "svm tight": lambda: SVMCoreset(),
    "svm mixture": lambda: SVMCoreset(score="mixture", sampling="systematic"),
}
STREAM_ARMS = {
    "uniform": ARMS["uniform"],
    "svm paper": ARMS["svm paper"],
    "svm tight": lambda: SVMCoreset(n_clusters="log"),
    "svm mixture": lambda: SVMCoreset(score="mixture", sampling="systematic", n_clusters="log"),
}
COD_RNA = "Cod-rna lacks its third part (157,413 of 488,565 rows): 331,152 rows"
ONE_CLASS = 1.0  # the error of a sample without one of the classes, as in the authors' code


@dataclass(frozen=True, eq=False)
class SVMProblem:
    """A data set made ready, and its exact solution.

    Attributes
    ----------
    name : str; key of `LABELS`
    X : array, standardised; or CSR with unit standard deviations (not centred: the bias is free)
    y : float array of -1 and +1
    dataset : handful.data.Dataset, for `Experiment.use`
    objective : float; the optimum on all points, lam = 1, certified to 1e-8
    """

    name: str
    X: object
    y: np.ndarray
    dataset: object
    objective: float

    @property
    def label(self):
        return LABELS[self.name]

    @property
    def n(self):
        return len(self.y)


def svm_problem(name, *, seed=0):
    """An `SVMProblem`, standardised as in the paper's Appendix D, with unit weights and lam = 1.

    Parameters
    ----------
    name : str; key of `LABELS`. cod_rna joins its training and test parts; digits_3_8 are two of ten digits
    seed : int; of the generated set (pathological)
    """
    if name == "digits_3_8":
        data = load("digits", classes=(3, 8))
    else:
        data = load(name, seed=seed) if name == "pathological" else load(name)
    X, y = data.X, data.binary().y
    if name == "cod_rna":
        X, y = np.vstack([X, data.X_test]), np.append(y, data.binary().y_test)
    y = 2.0 * y - 1.0
    if name == "w8a":
        scale = X.std(axis=0, dtype=np.float64)
        X = sparse.csr_matrix(X / np.where(scale > 0, scale, 1.0))
    else:
        (X,) = standardise(X)
    return SVMProblem(name, X, y, data, LinearSVM().fit(X, y).objective_)


def paper_sizes(problem, k):
    """`k` sample sizes, geometrically spaced, between the limits of the authors' code (see its table by set)."""
    n, log_n = problem.n, np.log(problem.n)
    low = max(150.0, log_n)
    high = max(min(1000, n / 5), 25 * low)
    if problem.name == "pathological":
        low, high = 150, 800
    elif problem.name == "credit_default":
        low, high = 150, 1000
    elif problem.name == "w8a":
        low, high = 5800, 15000
    elif n > 10_000:
        low, high = max(log_n**2, 200), 10 * log_n**2
    return sorted({round(m) for m in np.geomspace(low, min(high, 0.8 * n), k)})


def relative_error(problem, X, y, weights):
    """``(F(w_S) - F(w*)) / F(w*)`` on all points, for the SVM trained on a weighted sample; seconds of training.

    The weights are scaled to add up to n: the regulariser keeps its share (C' = lam U / V in the authors' code).
    """
    if (y == y[0]).all():
        return ONE_CLASS, 0.0
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 1e-6 of an error of percents
        model = LinearSVM(tol=1e-6).fit(X, y, sample_weight=weights * (problem.n / weights.sum()))
    seconds = time.process_time() - start
    cost = svm_objective(problem.X, problem.y, np.append(model.coef_[0], model.intercept_))
    return cost / problem.objective - 1.0, seconds


def offline_errors(problem, sizes, *, n_trials, seed=0, arms=ARMS):
    """Figure 1: one row per (arm, size, trial), the scores computed once a trial, every size drawn from them.

    Returns
    -------
    list of dict with dataset, method, size, seed, error
    """
    rows = []
    for trial in range(seed, seed + n_trials):
        for arm, make in arms.items():
            selector = make().set_params(size=sizes[0], random_state=trial)
            if arm != "uniform":
                selector.fit(problem.X, problem.y)
            for size in sizes:
                if arm == "uniform":
                    coreset = selector.set_params(size=size).fit(problem.X, problem.y).coreset_
                else:
                    coreset = selector.draw(size, random_state=np.random.default_rng([trial, size]))
                error, _ = relative_error(problem, *coreset.take(problem.X, problem.y))
                rows.append(dict(dataset=problem.label, method=arm, size=size, seed=trial, error=error))
    return rows


def offline_times(problem, sizes, *, n_trials, seed=0, arms=ARMS):
    """Figure 2: seconds to select and to train, each arm anew at every size, the arms taking turns.

    Returns
    -------
    list of dict with dataset, method, size, seed, select, train, seconds (their sum), error
    """
    rows = []
    for trial in range(seed, seed + n_trials):
        for size in sizes:
            for arm, make in arms.items():
                selector = make().set_params(size=size, random_state=trial)
                start = time.process_time()
                X, y, weights = selector.fit(problem.X, problem.y).take(problem.X, problem.y)
                select = time.process_time() - start
                error, train = relative_error(problem, X, y, weights)
                rows.append(
                    dict(dataset=problem.label, method=arm, size=size, seed=trial, error=error)
                    | dict(select=select, train=train, seconds=select + train)
                )
    return rows


def full_times(problem, *, solvers=("LinearSVM", "LinearSVC", "SVC"), repeats=3):
    """Seconds to train on all points, and how near the optimum each solver comes.

    `LinearSVM` is ours, to a certified gap of 1e-8; `SVC` (linear kernel, tol 1e-3) solves the same problem;
    `LinearSVC` (hinge) penalises the bias, so it solves a slightly different one.

    Returns
    -------
    list of dict with dataset, solver, seconds (median), error
    """
    make = {
        "LinearSVM": lambda: LinearSVM(),
        "LinearSVC": lambda: LinearSVC(loss="hinge", random_state=0),
        "SVC": lambda: SVC(kernel="linear", tol=1e-3),
    }
    rows = []
    for solver in solvers:
        seconds = []
        for _ in range(repeats if solver == "LinearSVM" else 1):
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # its error is in the row
                model = make[solver]().fit(problem.X, problem.y)
            seconds.append(time.process_time() - start)
        coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
        cost = svm_objective(problem.X, problem.y, np.append(coef[0], model.intercept_))
        error = cost / problem.objective - 1.0
        rows.append(dict(dataset=problem.label, solver=solver, seconds=float(np.median(seconds)), error=error))
    return rows


def streaming_runs(problem, sizes, *, n_trials, seed=0, arms=STREAM_ARMS):
    """Figures 3 and 5: the shuffled stream through merge-and-reduce, leaves as large as the sample.

    Sizes above n / 2 are left out: the stream would be one leaf. The uniform arm is the same tree.

    Returns
    -------
    list of dict with dataset, method, size, seed, error, select, train, seconds
    """
    rows = []
    for trial in range(seed, seed + n_trials):
        order = np.random.default_rng(trial).permutation(problem.n)
        X, y = problem.X[order], problem.y[order]
        for size in (m for m in sizes if m <= problem.n / 2):
            for arm, make in arms.items():
                stream = MergeReduce(make(), size=size, leaf_size=size, random_state=trial)
                start = time.process_time()
                sample = stream.fit(X, y).root()
                select = time.process_time() - start
                error, train = relative_error(problem, *sample)
                rows.append(
                    dict(dataset=problem.label, method=arm, size=size, seed=trial, error=error)
                    | dict(select=select, train=train, seconds=select + train)
                )
    return rows


def error_ratios(rows, *, of="error"):
    """Mean error of uniform sampling over that of each arm.

    Parameters
    ----------
    rows : pandas.DataFrame of `offline_errors` or `streaming_runs`

    Returns
    -------
    pandas.DataFrame indexed by (dataset, size), a column for each arm but uniform
    """
    means = rows.groupby(["dataset", "size", "method"], sort=False)[of].mean().unstack()
    arms = [arm for arm in rows.method.unique() if arm != "uniform"]
    return means[arms].rdiv(means["uniform"], axis=0)


def total_sensitivities(problem, *, n_seeds, seed=0):
    """Table 1: one row per (bound, clustering): the paper's bound with k = log n, the tight one with k chosen.

    Returns
    -------
    list of dict with dataset, method, seed, n, d, t, percent, clusters
    """
    rows = []
    for s in range(seed, seed + n_seeds):
        for method in ("svm paper", "svm tight"):
            fitted = ARMS[method]().set_params(random_state=s).fit(problem.X, problem.y)
            t = fitted.total_sensitivity_
            rows.append(
                dict(dataset=problem.label, method=method, seed=s, n=problem.n, d=problem.X.shape[1], t=t)
                | dict(percent=100 * t / problem.n, clusters=max(fitted.n_clusters_))
            )
    return rows
