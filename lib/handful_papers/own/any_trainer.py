"""A handful for any trainer: `AnyEstimatorCoreset` against draws and proxies, six trainers, real
data.

Trainers are tuned at the size first, by a short search on one draw, and all methods get the trainer
so tuned: defaults are meant for thousands of rows, and boosting overfits two hundred. On more rows
than the size they keep the defaults. Seconds are those of one thread. Rare classes must be common
enough that a uniform draw of the smallest size holds one of their rows.
"""

import tempfile
import time
from dataclasses import dataclass

import numpy as np
from handful.baselines import KCenter, KMeansPlusPlus, StratifiedCoreset, UniformCoreset
from handful.bilevel import AnyEstimatorCoreset, BilevelCoreset, ProxyCoreset
from handful.bilevel.candidate_scoring import class_weights, held_out_loss
from handful.checks import MAX_SEED
from handful.data import load
from handful.data.dataset import standardise
from handful.models import Joint, Logistic
from handful.proxies import NTK, RBF, Nystrom, TreeLeaves
from handful.trainers import kind_of, weighted_fit
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from handful_papers.claims import Evidence
from handful_papers.own import METHODS
from handful_papers.style import data_name, figure

TRAINERS = {
    "logistic": ("LogisticRegression", lambda: LogisticRegression(max_iter=1000)),
    "boosting": ("HistGradientBoosting", lambda: HistGradientBoostingClassifier(random_state=0)),
    "forest": ("RandomForest", lambda: RandomForestClassifier(random_state=0)),
    "network": ("MLP", lambda: MLPClassifier(random_state=0)),
    "neighbours": ("Nearest neighbours", KNeighborsClassifier),
    "ridge": ("Ridge", Ridge),
}
# What is searched on the rows of one draw. Weights add up to all rows, so that C and alpha are
# those of all rows.
GRIDS = {
    "logistic": {"C": [0.001, 0.01, 0.1, 1.0]},
    "boosting": {"max_iter": [10, 30, 100], "min_samples_leaf": [5, 20]},
    "forest": {"min_samples_leaf": [1, 3, 10]},
    "network": {"alpha": [1e-4, 0.1, 10.0]},
    "neighbours": {"n_neighbors": [5, 10, 20]},
    "ridge": {"alpha": [1.0, 10.0, 100.0, 1000.0]},
}
# of a search
N_FOLDS = 3
CHOICE = "for_estimator"
# What the choice is measured by.
BASELINES = ("uniform", "stratified", "balanced", "kmeans++")
# What as many trainings buy without a choice.
CONTROLS = ["best of draws", "more uniform rows", "full"]
# rows that judge draws, at most, and at most a third of all: defaults of `AnyEstimatorCoreset`
N_HELD_OUT = 4000


@dataclass(frozen=True)
class Task:
    """A trainer's problem: rows to choose from and rows to test on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def prepare(dataset, seed, *, n, n_test):
    """Rows of a binary data set, drawn at random and standardised by those to choose from: a
    `Task`.

    Parameters
    ----------
    dataset : str, a name in the registry, whose training and test rows are put together
    seed : int, of the draw
    n, n_test : int, rows to choose from and to test on, at most; at least a third of them is for
        tests
    """
    data = load(dataset).binary()
    X = data.X
    y = data.y
    if data.X_test is not None:
        X = np.vstack([X, data.X_test])
        y = np.concatenate([y, data.y_test])
    drawn = np.random.default_rng(seed).permutation(len(y))[: n + n_test]
    rows, test = np.split(drawn, [min(n, 2 * len(drawn) // 3)])
    X, X_test = standardise(X[rows].astype(float), X[test].astype(float))
    return Task(X, y[rows], X_test, y[test])


def regression(task, column):
    """The task of predicting a column from the others; without a column, the label as a number, 0
    or 1."""
    if column is None:
        return Task(task.X, task.y.astype(float), task.X_test, task.y_test.astype(float))
    others = np.delete(np.arange(task.X.shape[1]), column)
    return Task(
        task.X[:, others], task.X[:, column], task.X_test[:, others], task.X_test[:, column]
    )


def untuned(trainer, shortened):
    """A trainer with its defaults, but for options that make it quicker: trainer -> options."""
    return TRAINERS[trainer][1]().set_params(**shortened.get(trainer, {}))


def tuned(trainer, task, size, seed, shortened):
    """The trainer as a search tunes it on one stratified draw of `size` rows, and what that found,
    in words.

    The draw is that of the method "stratified", so that it favours no choice.
    """
    model = untuned(trainer, shortened)
    regresses = trainer == "ridge"
    indices, weights, _ = baseline(
        "stratified",
        task,
        size,
        seed,
        regresses=regresses,
    )
    folds = (KFold if regresses else StratifiedKFold)(N_FOLDS, shuffle=True, random_state=seed)
    search = GridSearchCV(
        model,
        GRIDS[trainer],
        scoring=_minus_loss,
        cv=folds,
        refit=False,
    )
    weighted_fit(search).train(search.fit, task.X[indices], task.y[indices], weights)
    found = ", ".join(f"{name}={value:g}" for name, value in search.best_params_.items())
    return model.set_params(**search.best_params_), found


def _minus_loss(model, X, y, sample_weight=None):
    return -held_out_loss(model, X, y, sample_weight)


@threadpool_limits.wrap(limits=1)
def size_rows(
    dataset,
    size,
    seed,
    *,
    trainers,
    shortened,
    targets,
    n,
    n_test,
    n_draws,
    n_exchanges,
):
    """Every baseline and the choice made for the trainer, at one size, for every trainer: rows for
    a sweep.

    Parameters
    ----------
    dataset, seed, n, n_test : as in `prepare`
    size : int, points m
    trainers : list of str, keys of `TRAINERS`
    shortened : dict, trainer -> dict of options that make it quicker
    targets : dict, data set -> column that ridge regression predicts; the label for others
    n_draws, n_exchanges : options of `AnyEstimatorCoreset`

    Returns
    -------
    list of dict with trainer, method, tuned (to what), way (that was taken), seconds (of the
    selection) and the columns of `worth_on_tests`
    """
    rows = []
    task = prepare(dataset, seed, n=n, n_test=n_test)
    with tempfile.TemporaryDirectory() as memory:
        for trainer in trainers:
            mine = regression(task, targets.get(dataset)) if trainer == "ridge" else task
            model, options = tuned(
                trainer,
                mine,
                size,
                seed,
                shortened,
            )
            same = dict(trainer=trainer, tuned=options)
            for method in (*BASELINES, "kcenter"):
                indices, weights, seconds = baseline(
                    method, mine, size, seed, regresses=trainer == "ridge"
                )
                row = dict(
                    same,
                    method=method,
                    way="-",
                    seconds=seconds,
                )
                rows.append(row | scores(model, mine, indices, weights))
            few = AnyEstimatorCoreset(
                model,
                size=size,
                random_state=seed,
                memory=memory,
                n_draws=n_draws,
                n_exchanges=n_exchanges,
            )
            start = time.perf_counter()
            few.fit(mine.X, mine.y)
            seconds = time.perf_counter() - start
            # Draws are numbered.
            way = few.chosen_.rstrip(" 0123456789")
            row = dict(
                same,
                method=CHOICE,
                way=way,
                seconds=seconds,
            )
            rows.append(row | scores(model, mine, few.indices_, few.weights_))
    return rows


def baseline(
    method,
    task,
    size,
    seed,
    *,
    regresses=False,
):
    """(indices, weights, seconds) of a draw; what is no uniform draw weighs a class's rows by the
    class's share.

    Targets of a regression have no classes: draws by class are uniform ones there.
    """
    start = time.perf_counter()
    n = len(task.y)
    labels = None if regresses else task.y
    by_class = UniformCoreset if regresses else StratifiedCoreset
    selectors = {"uniform": UniformCoreset, "kmeans++": KMeansPlusPlus, "kcenter": KCenter}
    few = selectors.get(method, by_class)(size, random_state=seed)
    # each class as heavy as the other
    alike = None
    if method == "balanced" and not regresses:
        alike = 1.0 / np.bincount(task.y)[task.y]
    few.fit(task.X, task.y, sample_weight=alike)
    weights = np.full(size, n / size)
    if method != "uniform":
        weights = class_weights(labels, np.ones(n), few.indices_)
    return few.indices_, weights, time.perf_counter() - start


def trained(model, task, indices, weights):
    """A clone of a trainer fitted to some rows, with weights where it takes them."""
    return weighted_fit(model).train(clone(model).fit, task.X[indices], task.y[indices], weights)


def scores(model, task, indices, weights):
    """What a trainer on some rows is worth on the test rows: see `worth_on_tests`."""
    return worth_on_tests(trained(model, task, indices, weights), task)


def worth_on_tests(model, task):
    """What a trained model is worth on the test rows.

    Returns
    -------
    dict with loss (log-loss in nats, of ridge regression the mean squared error over the targets'
    variance), ap (average precision of class 1, percent) and accuracy (percent), NaN for ridge
    regression
    """
    loss = held_out_loss(model, task.X_test, task.y_test)
    if kind_of(model) == "regressor":
        return dict(
            loss=loss / float(task.y_test.var()),
            ap=np.nan,
            accuracy=np.nan,
        )
    shares = model.predict_proba(task.X_test)[:, 1]
    ap = 100.0 * average_precision_score(task.y_test, shares)
    return dict(
        loss=loss,
        ap=ap,
        accuracy=100.0 * model.score(task.X_test, task.y_test),
    )


@threadpool_limits.wrap(limits=1)
def control_rows(
    dataset,
    size,
    seed,
    *,
    n_trainings,
    trainers,
    shortened,
    targets,
    n,
    n_test,
):
    """Every trainer on the best of as many draws; with its defaults on uniform rows for as many
    seconds, and on all.

    Parameters
    ----------
    dataset, seed, n, n_test : as in `prepare`
    size : int, points m
    n_trainings : int, draws that are tried; `AnyEstimatorCoreset` trains about 65 times by default
    trainers, shortened, targets : as in `size_rows`

    Returns
    -------
    list of dict with trainer, method (of `CONTROLS`), rows (that it is trained on), seconds and the
    columns of `worth_on_tests`
    """
    rows = []
    task = prepare(dataset, seed, n=n, n_test=n_test)
    for trainer in trainers:
        mine = regression(task, targets.get(dataset)) if trainer == "ridge" else task
        n_rows = len(mine.y)
        model, _ = tuned(
            trainer,
            mine,
            size,
            seed,
            shortened,
        )
        default = untuned(trainer, shortened)
        (indices, weights), seconds, single = best_draw(
            model,
            mine,
            size,
            seed,
            n_trainings,
        )
        start = time.perf_counter()
        on_all = trained(default, mine, np.arange(n_rows), np.ones(n_rows))
        whole = time.perf_counter() - start
        found = {
            "best of draws": (size, seconds, scores(model, mine, indices, weights)),
            "full": (n_rows, whole, worth_on_tests(on_all, mine)),
        }
        if whole <= seconds:
            found["more uniform rows"] = found["full"]
        else:
            more = int(size + (seconds - single) / (whole - single) * (n_rows - size))
            drawn = np.random.default_rng(seed).choice(n_rows, more, replace=False)
            given = np.full(more, n_rows / more)
            found["more uniform rows"] = (more, seconds, scores(default, mine, drawn, given))
        for method in CONTROLS:
            n_taken, took, worth = found[method]
            row = dict(
                trainer=trainer,
                method=method,
                rows=n_taken,
                seconds=took,
            )
            rows.append(row | worth)
    return rows


def best_draw(model, task, size, seed, n_draws):
    """The best of `n_draws` draws, stratified where there are classes, by the loss on rows held
    out.

    Returns
    -------
    (indices, weights) of the draw; the seconds of all trainings, and of one
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(task.y))
    regresses = kind_of(model) == "regressor"
    n_held = min(N_HELD_OUT, len(order) // 3)
    held = order[:n_held]
    rest = order[n_held:]
    pool = type(task)(task.X[rest], task.y[rest], None, None)
    least = np.inf
    for draw_seed in rng.integers(MAX_SEED, size=n_draws).tolist():
        indices, weights, _ = baseline(
            "stratified",
            pool,
            size,
            draw_seed,
            regresses=regresses,
        )
        on_draw = trained(model, pool, indices, weights)
        loss = held_out_loss(on_draw, task.X[held], task.y[held])
        if loss < least:
            best = (rest[indices], weights * (len(order) / len(rest)))
            least = loss
    seconds = time.perf_counter() - start
    return best, seconds, seconds / n_draws


def other_trainers(problem):
    """A logistic regression joined by others that one may train: at a tenth and ten times the
    penalty, and one that penalises its intercept."""
    joint = Joint(problem, Logistic(problem.l2 * 0.1))
    joint = Joint(joint, Logistic(problem.l2 * 10))
    return Joint(joint, Logistic(problem.l2, penalise_intercept=True))


def proxies(n):
    """The selections that `proxy_rows` compares: name -> (selector, proxy or None)."""
    linear = Logistic(1 / n)
    soft = Logistic(1e-4)
    robust = other_trainers(linear)
    paper = dict(outer_penalty=False)
    fitted = TreeLeaves(ExtraTreesClassifier(100, max_leaf_nodes=32))
    features = {"RBF": Nystrom(RBF(), n_landmarks=128), "NTK": Nystrom(NTK(), n_landmarks=128)}
    features |= {"random trees": TreeLeaves(), "fitted trees": fitted}
    found = {
        "linear": (BilevelCoreset(linear, weighting="equal", **paper), None),
        "linear, weights": (BilevelCoreset(linear, weighting="optimised", **paper), None),
        "linear, robust": (BilevelCoreset(robust, weighting="equal", **paper), None),
    }
    for name, proxy in features.items():
        found[name] = BilevelCoreset(soft, weighting="equal", **paper), proxy
        if name != "NTK":
            found[f"{name}, weights"] = BilevelCoreset(soft, weighting="optimised", **paper), proxy
    return found


@threadpool_limits.wrap(limits=1)
def proxy_rows(
    dataset,
    seed,
    *,
    size,
    trainers,
    shortened,
    n,
    n_test,
):
    """Every proxy, plain and with optimised weights, for every classifier, trained with and without
    the weights."""
    task = prepare(dataset, seed, n=n, n_test=n_test)
    rows = []
    models = {}
    for trainer in trainers:
        models[trainer], _ = tuned(
            trainer,
            task,
            size,
            seed,
            shortened,
        )
    for method, (selector, proxy) in proxies(len(task.y)).items():
        few = selector if proxy is None else ProxyCoreset(selector, proxy)
        start = time.perf_counter()
        few.set_params(size=size, random_state=seed).fit(task.X, task.y)
        seconds = time.perf_counter() - start
        weights = few.weights_
        own = "optimised"
        if selector.weighting != own:
            weights = class_weights(task.y, np.ones(len(task.y)), few.indices_)
            own = "by class"
        ways = {"equal": np.ones(size), own: weights}
        for trainer in trainers:
            for name, given in ways.items():
                scaled = given * (len(task.y) / given.sum())
                row = dict(
                    trainer=trainer,
                    method=method,
                    weights=name,
                    seconds=seconds,
                )
                rows.append(row | scores(models[trainer], task, few.indices_, scaled))
    return rows


def relative_loss(rows, against=BASELINES):
    """The choice's loss over that of the best of the draws, geometric mean over sizes.

    Parameters
    ----------
    rows : DataFrame of `size_rows` with columns dataset, size and seed
    against : the draws; the best of them is the one of the least mean logarithm of the loss on a
        data set, over all sizes and seeds. That is chosen with the results at hand, which favours
        the draws

    Returns
    -------
    DataFrame with trainer, dataset, seed, best (the draw) and ratio
    """
    logs = (
        rows.assign(log=np.log(rows.loss))
        .groupby(["trainer", "dataset", "seed", "method"], sort=False)
        .log.mean()
    )
    wide = logs.unstack("method")
    means = wide[list(against)].groupby(level=["trainer", "dataset"], sort=False).transform("mean")
    best = means.idxmin(axis=1)
    ratio = np.exp(wide[CHOICE] - [wide.at[row, name] for row, name in best.items()])
    return best.rename("best").to_frame().assign(ratio=ratio).reset_index()


def over_trials(rows, size):
    """The choice's loss over that of the best of as many draws, at one size.

    Parameters
    ----------
    rows : DataFrame of `size_rows` and `control_rows`, with columns dataset, size and seed

    Returns
    -------
    DataFrame with trainer, dataset, seed and ratio
    """
    at_size = rows[(rows["size"] == size) & rows.method.isin([CHOICE, "best of draws"])]
    wide = at_size.pivot(
        index=["trainer", "dataset", "seed"],
        columns="method",
        values="loss",
    )
    return (wide[CHOICE] / wide["best of draws"]).rename("ratio").reset_index()


def draw_relative(rows, datasets, unseen):
    """Loss over the stratified draw's: a panel a trainer, a line a data set; median and quartiles
    over seeds."""
    logged = rows.assign(log=np.log(rows.loss))
    logs = logged.groupby(["trainer", "dataset", "method", "seed"]).log.mean()
    ratio = np.exp(logs - logs.xs("stratified", level="method")).rename("ratio").reset_index()
    names = [*datasets, *unseen]
    fig, axes = figure(
        "double",
        ratio=0.95,
        nrows=2,
        ncols=3,
        sharey=True,
    )
    methods = [m for m in METHODS if m in set(ratio.method) and m != "stratified"]
    for (trainer, (title, _)), ax in zip(TRAINERS.items(), axes.flat):
        of_trainer = ratio[ratio.trainer == trainer]
        for shift, method in zip(np.linspace(-0.25, 0.25, len(methods)), methods):
            by_set = of_trainer[of_trainer.method == method].groupby("dataset")
            quartiles = by_set.ratio.quantile([0.25, 0.5, 0.75]).unstack().loc[names]
            low, middle, high = quartiles.to_numpy().T
            places = np.arange(len(names)) + shift
            style = METHODS.style(method, ls="")
            ax.plot(middle, places, **style)
            ax.hlines(
                places,
                low,
                high,
                color=style["color"],
                lw=0.8,
            )
        ax.axvline(1.0, color="#222222", lw=0.6)
        ax.set(title=title, xscale="log")
        left, right = ax.get_xlim()
        marks = [0.1, 0.2, 0.5, 1, 2, 5, 10] if right > 4 * left else [0.5, 0.7, 1, 1.4, 2]
        ticks = [mark for mark in marks if left <= mark <= right]
        ax.set_xticks(ticks, [f"{mark:g}" for mark in ticks], minor=False)
        ax.minorticks_off()
        labels = [data_name(name) + " *" * (name in unseen) for name in names]
        ax.set_yticks(range(len(names)), labels)
    axes[0, 0].invert_yaxis()
    for ax in axes[1]:
        ax.set_xlabel("loss over the stratified draw's")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=5)
    return fig


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    unseen = run.parameters["unseen"]
    ratios = relative_loss(run.rows[run.rows.part == "sizes"])
    lacks = "" if unseen else "no data set was kept aside"
    tried = over_trials(run.rows, run.parameters["compared"])
    return {
        "own-trainer-unseen": Evidence(by_dataset(ratios, unseen), lacks=lacks),
        "own-trainer-trials": Evidence(by_dataset(tried, unseen), lacks=lacks),
    }


def by_dataset(ratios, datasets):
    """Data set -> geometric mean over trainers of column ratio, one a seed."""
    logs = ratios.assign(log=np.log(ratios.ratio)).groupby(["dataset", "seed"]).log.mean()
    return {dataset: np.exp(logs[dataset].to_numpy()) for dataset in datasets}
