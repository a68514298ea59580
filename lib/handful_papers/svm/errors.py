"""Protocols of "On Coresets for Support Vector Machines" (2020): errors and times, offline and
streaming.

A task of a sweep is one data set with one seed. Times are CPU seconds of the process: on a shared
machine they say what an arm costs, whoever else is at work.
"""

import math
import time
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
from handful.checks import Accepts
from handful.coreset import Selector
from handful.data import load
from handful.data.dataset import standardise
from handful.distances import cell_means
from handful.sensitivity.svm import SVMCoreset
from handful.sensitivity.svm_mixture import distances
from handful.sensitivity.weighted_draws import multinomial_draw
from handful.streaming import MergeReduce
from handful.svm import LinearSVM
from handful.svm.linear_svm import svm_objective
from scipy import sparse
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.svm import SVC, LinearSVC

LABELS = {
    "htru2": "HTRU",
    "credit_default": "Credit",
    "pathological": "Pathological",
    "skin_nonskin": "Skin",
    "cod_rna": "Cod-rna",
    "cod_rna_full": "Cod-rna",
    "w8a": "w8a",
    "breast_cancer": "Breast cancer",
    "digits_3_8": "Digits 3/8",
}


class UniformDraws(Selector):
    """The paper's baseline: Algorithm 1 with constant scores, so draws with repetition, by
    weight."""

    _accepts = Accepts(sparse=True)
    _repeats = True

    def __init__(self, size=100, *, random_state=None):
        self.size = size
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        chances = sample_weight / sample_weight.sum()
        return multinomial_draw(chances, sample_weight, self.size, rng=rng)


class SearchedCoreset(SVMCoreset):
    """Algorithm 1 with the clusters of the authors' code: for each class three numbers k, of which
    the one with the smallest sum of bounds is kept.

    Each clustering is one seeding by k-means++ with two candidates for a centre, without steps of
    Lloyd's algorithm. Other than in that code, a cluster's centre is the mean of its rows, which
    the bound needs.
    """

    def _clusters(self, X, u, bound, constants, rng):
        best = None
        least = np.inf
        for k in searched_numbers(X.shape[0]):
            seeds, _ = kmeans_plusplus(
                X,
                k,
                sample_weight=u,
                n_local_trials=2,
                random_state=int(rng.integers(2**31)),
            )
            labels = pairwise_distances_argmin(X, seeds)
            centers, weight = cell_means(X, labels, u, k)
            away = distances(X, labels, centers)
            total = bound(away, u, weight[labels], **constants).sum()
            if total < least:
                best = labels, centers, weight
                least = total
        return best


def searched_numbers(n):
    """The numbers of clusters that the authors' code tries for a class of n rows: three from 2
    log(2 n) to the root of n in equal ratios, none above n to the .6."""
    first = 2 * math.ceil(math.log(2 * n))
    tried = np.geomspace(first, math.sqrt(n), 3)
    return sorted({int(k) for k in np.clip(tried, 1, n**0.6)})


# "svm paper" is Algorithm 1 as printed; "svm searched" is the same with clusters searched.
ARMS = {
    "uniform": lambda: UniformDraws(),
    "svm paper": lambda: SVMCoreset(rule="paper", n_clusters="log"),
    "svm searched": lambda: SearchedCoreset(rule="paper"),
    "svm tight": lambda: SVMCoreset(rule="tight", n_clusters="auto"),
    "svm mixture": lambda: SVMCoreset(rule="mixture", n_clusters="auto", sampling="systematic"),
}
STREAM_ARMS = {
    "uniform": ARMS["uniform"],
    "svm paper": ARMS["svm paper"],
    "svm tight": lambda: SVMCoreset(rule="tight", n_clusters="log"),
    "svm mixture": lambda: SVMCoreset(rule="mixture", n_clusters="log", sampling="systematic"),
}
SOLVERS = {
    "LinearSVM": lambda: LinearSVM(),
    "LinearSVC": lambda: LinearSVC(loss="hinge", random_state=0),
    "SVC": lambda: SVC(kernel="linear", tol=1e-3),
}
# Whose samples the paper's solver trains as well, which the paper compares.
TRAINED_BY_SVC = ("uniform", "svm paper")
# The error of a sample without one of the classes, as in the authors' code.
ONE_CLASS = 1.0


@dataclass(frozen=True, eq=False)
class SVMProblem:
    """A data set made ready, and its exact solution.

    Attributes
    ----------
    name : str; key of `LABELS`
    X : array, standardised; or CSR with unit standard deviations (not centred: the bias is free)
    y : float array of -1 and +1
    dataset : handful.data.dataset.Dataset, for `Experiment.use`
    objective : float; the optimum on all points, lambda = 1, certified to 1e-8
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


@cache
def svm_problem(name, *, seed=0):
    """An `SVMProblem`, standardised as in the paper's Appendix D, with unit weights and lambda = 1.

    Parameters
    ----------
    name : str; key of `LABELS`. cod_rna joins its training and test parts; digits_3_8 are two of
        ten digits
    seed : int; of the generated set (pathological)
    """
    if name == "digits_3_8":
        data = load("digits", classes=(3, 8))
    elif name == "pathological":
        data = load(name, random_state=seed)
    else:
        data = load(name)
    X = data.X
    y = data.binary().y
    if name == "cod_rna":
        X = np.vstack([X, data.X_test])
        y = np.append(y, data.binary().y_test)
    y = 2.0 * y - 1.0
    if name == "w8a":
        scale = X.std(axis=0, dtype=np.float64)
        X = sparse.csr_matrix(X / np.where(scale > 0, scale, 1.0))
    else:
        (X,) = standardise(X)
    objective = LinearSVM().fit(X, y).objective_
    return SVMProblem(name, X, y, data, objective)


def paper_sizes(problem, k):
    """`k` sample sizes, geometrically spaced, between the limits of the authors' code (see its
    table by set)."""
    n = problem.n
    log_n = np.log(problem.n)
    low = max(150.0, log_n)
    high = max(min(1000, n / 5), 25 * low)
    if problem.name == "pathological":
        low = 150
        high = 800
    elif problem.name == "credit_default":
        low = 150
        high = 1000
    elif problem.name == "w8a":
        low = 5800
        high = 15000
    elif n > 10_000:
        low = max(log_n**2, 200)
        high = 10 * log_n**2
    sizes = np.geomspace(low, min(high, 0.8 * n), k)
    return sorted({round(m) for m in sizes})


def stream_sizes(problem, k):
    """Those of `paper_sizes` of at most half of the rows: with larger ones the stream would be one
    leaf."""
    return [m for m in paper_sizes(problem, k) if m <= problem.n / 2]


def relative_error(problem, X, y, weights):
    """``(F(w_S) - F(w*)) / F(w*)`` on all points, for the SVM trained on a weighted sample; seconds
    of training.

    The weights are scaled to add up to n: the regulariser keeps its share (C' = lambda U / V in the
    authors' code).
    """
    if (y == y[0]).all():
        return ONE_CLASS, 0.0
    # Errors are percents, beside which a gap of 1e-6 is nothing.
    model, seconds = _train(LinearSVM(tol=1e-6), X, y, _adding_up_to_n(problem, weights))
    return _error(problem, model), seconds


def _adding_up_to_n(problem, weights):
    return weights * (problem.n / weights.sum())


def _train(model, X, y, weights=None):
    """A trained model and its CPU seconds; where it stops early its error says so, so that no
    warning has to."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weights)
    return model, time.process_time() - start


def _error(problem, model):
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    w = np.append(coef[0], model.intercept_)
    return svm_objective(problem.X, problem.y, w) / problem.objective - 1.0


def _timed_row(problem, sample, select, with_svc):
    """Error and CPU seconds of a selected sample; `train_svc` is the time of the paper's solver,
    where it trains the sample as well."""
    error, train = relative_error(problem, *sample)
    row = dict(
        error=error,
        select=select,
        train=train,
        seconds=select + train,
    )
    if with_svc:
        row["train_svc"] = _svc_seconds(problem, *sample)
    return row


def _svc_seconds(problem, X, y, weights):
    if (y == y[0]).all():
        return 0.0
    _, seconds = _train(SOLVERS["SVC"](), X, y, _adding_up_to_n(problem, weights))
    return seconds


def offline_errors(dataset, *, n_sizes, data_seed, seed):
    """Figure 1: one row per (arm, size), the scores computed once, every size drawn from them.

    Returns
    -------
    list of dict with dataset, method, size, seed, error
    """
    problem = svm_problem(dataset, seed=data_seed)
    rows = []
    sizes = paper_sizes(problem, n_sizes)
    for arm, make in ARMS.items():
        selector = make().set_params(size=sizes[0], random_state=seed)
        if arm != "uniform":
            selector.fit(problem.X, problem.y)
        for size in sizes:
            if arm == "uniform":
                coreset = selector.set_params(size=size).fit(problem.X, problem.y).coreset_
            else:
                coreset = selector.draw(size, random_state=np.random.default_rng([seed, size]))
            error, _ = relative_error(problem, *coreset.take(problem.X, problem.y))
            row = dict(
                dataset=problem.label,
                method=arm,
                size=size,
                seed=seed,
                error=error,
            )
            rows.append(row)
    return rows


def offline_times(dataset, *, n_sizes, data_seed, seed):
    """Figure 2: seconds to select and to train, each arm anew at every size, the arms taking turns.

    Returns
    -------
    list of dict with dataset, method, size, seed, error, select, train, seconds (their sum) and,
    for the arms of `TRAINED_BY_SVC`, train_svc
    """
    problem = svm_problem(dataset, seed=data_seed)
    rows = []
    _compile(dataset, data_seed)
    for size in paper_sizes(problem, n_sizes):
        for arm, make in ARMS.items():
            selector = make().set_params(size=size, random_state=seed)
            start = time.process_time()
            sample = selector.fit(problem.X, problem.y).take(problem.X, problem.y)
            select = time.process_time() - start
            timed = _timed_row(problem, sample, select, arm in TRAINED_BY_SVC)
            row = dict(
                dataset=problem.label,
                method=arm,
                size=size,
                seed=seed,
                **timed,
            )
            rows.append(row)
    return rows


@cache
def _compile(dataset, data_seed):
    """Run every arm on a data set once, so that nothing is compiled while the clock runs."""
    problem = svm_problem(dataset, seed=data_seed)
    for make in ARMS.values():
        selector = make().set_params(size=150, random_state=0)
        selector.fit(problem.X, problem.y)
        relative_error(problem, *selector.take(problem.X, problem.y))


def full_times(
    dataset,
    solver,
    *,
    data_seed,
    limit=math.inf,
    repeats=3,
):
    """Seconds to train on all points, and how near the optimum a solver comes: one row.

    `LinearSVM` is ours, to a certified gap of 1e-8; `SVC` (linear kernel, tol 1e-3) solves the same
    problem; `LinearSVC` (hinge) penalises the bias, so it solves a slightly different one.

    Parameters
    ----------
    limit : float, CPU seconds after which `SVC` is stopped: its time is then a lower bound

    Returns
    -------
    list of dict with dataset, solver, seconds (median), error, stopped (1 or 0)
    """
    problem = svm_problem(dataset, seed=data_seed)
    stopped = False
    if solver == "SVC":
        model, seconds, stopped = train_within(limit, problem.X, problem.y)
    else:
        times = []
        for _ in range(repeats if solver == "LinearSVM" else 1):
            model, one = _train(SOLVERS[solver](), problem.X, problem.y)
            times.append(one)
        seconds = float(np.median(times))
    row = dict(
        dataset=problem.label,
        solver=solver,
        seconds=seconds,
        error=_error(problem, model),
        stopped=int(stopped),
    )
    return [row]


def train_within(limit, X, y):
    """The paper's solver, trained to its end or until it has taken `limit` CPU seconds.

    It can be stopped only after a number of iterations, so it runs again from the start with more
    of them until one run ends or lasts that long.

    Parameters
    ----------
    limit : float, CPU seconds

    Returns
    -------
    model : SVC, of the last run
    seconds : float, CPU seconds of the last run; at least `limit` where it was stopped
    stopped : bool
    """
    n_iterations = 1000
    while True:
        solver = SOLVERS["SVC"]()
        solver.set_params(max_iter=n_iterations)
        model, seconds = _train(solver, X, y)
        stopped = model.fit_status_ == 1
        if not stopped or seconds >= limit:
            return model, seconds, stopped
        # A tenth more than its pace so far says, as later iterations may be faster.
        growth = 1.1 * limit / seconds
        growth = min(max(growth, 2.0), 16.0)
        n_iterations = round(growth * n_iterations)


def streaming_runs(
    dataset,
    *,
    n_sizes,
    data_seed,
    with_svc=False,
    seed,
):
    """Figures 3 and 5: the shuffled stream through merge-and-reduce, leaves as large as the sample.

    The uniform arm is the same tree.

    Parameters
    ----------
    with_svc : bool, whether the paper's solver, too, trains at the root of the arms of
        `TRAINED_BY_SVC`

    Returns
    -------
    list of dict with dataset, method, size, seed, error, select, train, seconds and, where it was
    asked for, train_svc
    """
    problem = svm_problem(dataset, seed=data_seed)
    rows = []
    order = np.random.default_rng(seed).permutation(problem.n)
    X = problem.X[order]
    y = problem.y[order]
    _compile(dataset, data_seed)
    for size in stream_sizes(problem, n_sizes):
        for arm, make in STREAM_ARMS.items():
            stream = MergeReduce(
                make(),
                size=size,
                leaf_size=size,
                random_state=seed,
            )
            start = time.process_time()
            sample = stream.fit(X, y).rows()
            select = time.process_time() - start
            timed = _timed_row(problem, sample, select, with_svc and arm in TRAINED_BY_SVC)
            row = dict(
                dataset=problem.label,
                method=arm,
                size=size,
                seed=seed,
                **timed,
            )
            rows.append(row)
    return rows


def total_sensitivities(dataset, *, data_seed, seed):
    """Table 1: one row per (bound, clustering): the paper's bound with k = log n and with k
    searched, the tight one.

    Returns
    -------
    list of dict with dataset, method, seed, n, d, t, percent, clusters and fewest_clusters (of the
    two classes)
    """
    problem = svm_problem(dataset, seed=data_seed)
    rows = []
    for method in ("svm paper", "svm searched", "svm tight"):
        selector = ARMS[method]().set_params(random_state=seed)
        selector.fit(problem.X, problem.y)
        t = selector.total_sensitivity_
        row = dict(
            dataset=problem.label,
            method=method,
            seed=seed,
            n=problem.n,
            d=problem.X.shape[1],
            t=t,
            percent=100 * t / problem.n,
            clusters=max(selector.n_clusters_),
            fewest_clusters=min(selector.n_clusters_),
        )
        rows.append(row)
    return rows
