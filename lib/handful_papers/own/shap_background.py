"""Which rows stand for all as the background of Shapley values, at equal rows and at equal calls of
the model.

The explanation of a row against a background is the mean over the background's rows of the
explanation against each of them alone. So a background's error is known from one table of
contributions, and rows matched at some outputs of the model have those of all rows.
"""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from handful.baselines import BalancedCoreset
from handful.data import load
from handful.data.dataset import standardise
from handful.matching import recombine
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor

# Model -> a classifier, a regressor and what both are given.
MODELS = {
    "boosting": (HistGradientBoostingClassifier, HistGradientBoostingRegressor, dict(max_iter=50)),
    "forest": (
        RandomForestClassifier,
        RandomForestRegressor,
        dict(n_estimators=50, min_samples_leaf=5),
    ),
    "network": (MLPClassifier, MLPRegressor, dict(hidden_layer_sizes=(64, 32), max_iter=60)),
}
# A target of more values is a number, and its models are regressions.
MOST_CLASSES = 20
METHODS_SHOWN = (
    "uniform",
    "cube",
    "by output",
    "centroids",
    "thinned",
    "cube of pilots",
    "matched",
)
# Rows explained, of which the pilots' calls are a share, for the backgrounds of as many calls.
EXPLAINED = (1, 10, 100)
# at which the claims are judged
CLAIMED = 32


@dataclass(frozen=True)
class Task:
    """A table's rows: to train on, that stand for the data (the pool), and to explain."""

    X: np.ndarray
    y: np.ndarray
    pool: np.ndarray
    explained: np.ndarray


def prepare(dataset, seed, *, n_train, n_pool, n_explained):
    """Rows of a data set, drawn at random and standardised by those to train on: a `Task`.

    Constant columns are left out. A target of two to twenty values becomes one class against the
    rest, another one a number of mean 0 and deviation 1.

    Parameters
    ----------
    dataset : str, a name in the registry, of whose rows those for training are taken
    seed : int, of the draw
    n_train, n_pool, n_explained : int, numbers of rows
    """
    data = load(dataset)
    is_number = len(np.unique(data.y)) > MOST_CLASSES
    y = (data.y - data.y.mean()) / data.y.std() if is_number else data.binary().y
    order = np.random.default_rng(seed).permutation(len(y))
    train, pool, explained, _ = np.split(order, np.cumsum([n_train, n_pool, n_explained]))
    varies = data.X[train].std(axis=0) > 0
    parts = [data.X[rows][:, varies].astype(float) for rows in (train, pool, explained)]
    X, pool, explained = standardise(*parts)
    return Task(X, y[train], pool, explained)


def trained(name, task, seed):
    """A function of rows, shape (k, d), that gives a fitted model's outputs, shape (k,): of a
    classifier the probability of class 1."""
    classifier, regressor, options = MODELS[name]
    with warnings.catch_warnings():
        # a network that has not converged is a model like any other
        warnings.simplefilter("ignore", ConvergenceWarning)
        if task.y.dtype.kind == "f":
            return regressor(**options, random_state=seed).fit(task.X, task.y).predict
        model = classifier(**options, random_state=seed).fit(task.X, task.y)
    return lambda rows: model.predict_proba(rows)[:, 1]


def contributions(output, explained, background, orders):
    """Shapley values of each explained row against each background row alone.

    A column's value is the mean over the orders of what the output gains as the column goes from
    the background's value to the explained one, after those before it in the order (Strumbelj and
    Kononenko 2014, Algorithm 1, with the same orders for every row).

    Parameters
    ----------
    output : function of rows, shape (k, d), that gives shape (k,)
    explained : float array of shape (e, d)
    background : float array of shape (n, d)
    orders : int array of shape (r, d), a permutation of the columns each

    Returns
    -------
    float array of shape (e, d, n) : the values against weighted rows are ``result @ w / w.sum()``
    """
    n, d = background.shape
    found = np.zeros((len(explained), d, n))
    first = output(background)
    for i, row in enumerate(explained):
        last = np.full(n, output(row[None])[0])
        for order in orders:
            # coalition k has the first k + 1 columns of the order
            is_in = np.argsort(order) <= np.arange(d - 1)[:, None]
            mixtures = np.where(is_in[:, None], row, background)
            between = output(mixtures.reshape(-1, d)).reshape(d - 1, n)
            found[i, order] += np.diff([first, *between, last], axis=0)
    return found / len(orders)


def paired_orders(d, n_pairs, rng):
    """Random permutations of d columns, each followed by its reverse: shape (2 n_pairs, d)."""
    orders = np.array([rng.permutation(d) for _ in range(n_pairs)])
    return np.concatenate([orders, orders[:, ::-1]])


def pilot_outputs(output, background, others, n_pilots, rng):
    """Outputs at mixtures of each background row with other rows: shape (n, n_pilots).

    The first pilot is the row itself. Each of the rest takes some columns from one of the other
    rows, each column with a probability that is drawn for the pilot, as a Shapley value weighs all
    sizes of coalitions alike.
    """
    columns = [output(background)]
    for row in others[rng.integers(len(others), size=n_pilots - 1)]:
        is_in = rng.random(len(row)) < rng.random()
        columns.append(output(np.where(is_in, row, background)))
    return np.column_stack(columns)


# --- backgrounds: each gives rows, shape (m, d), and weights


def matched(pilots, size, rng):
    """Rows and weights with the mean outputs of all rows along the `size` - 1 first principal
    components of the pilots.

    Parameters
    ----------
    pilots : float array of shape (n, K), K at least `size`
    size : int, most rows m
    rng : numpy.random.Generator, of the order in which rows are looked at

    Returns
    -------
    indices, weights : at most `size` rows, and weights that add up to n
    """
    n = len(pilots)
    left = np.linalg.svd(pilots - pilots.mean(axis=0), full_matrices=False)[0]
    features = np.column_stack([np.ones(n), np.sqrt(n) * left[:, : size - 1]])
    order = rng.permutation(n)
    rows, weights, _ = recombine(features[order])
    return order[rows], weights


def centroids(pool, size, seed):
    """Centres of k-means, their coordinates moved to the nearest values of the pool, and the
    clusters' sizes: `shap.kmeans`."""
    clusters = KMeans(size, n_init=10, random_state=seed).fit(pool)
    centers = clusters.cluster_centers_.copy()
    for values, column in zip(pool.T, centers.T):
        column[:] = values[np.abs(values - column[:, None]).argmin(axis=1)]
    return centers, np.bincount(clusters.labels_, minlength=size)


def balanced(columns, size, seed):
    """Random rows with the mean columns of all rows, up to a fraction of a row: the cube method."""
    few = BalancedCoreset(size, random_state=seed).fit(columns)
    return few.indices_, few.weights_


def by_output(outputs, size, rng):
    """A row of each of `size` groups that follow each other by the model's output."""
    groups = np.array_split(np.argsort(outputs, kind="stable"), size)
    return np.array([rng.choice(group) for group in groups])


def thinned(pool, size, rng):
    """Rows with nearly the mean kernel of all rows: kernel thinning (Dwivedi and Mackey 2024,
    Algorithm 1).

    It is what compress-then-explain does (Baniecki, Casalicchio, Bischl and Biecek 2025), with the
    Gaussian kernel of their width, sqrt(2 d). The rows are halved again and again, and then
    exchanged one by one.

    Parameters
    ----------
    pool : float array of shape (n, d), n at least `size` times a power of two
    size : int
    rng : numpy.random.Generator
    """
    n, d = pool.shape
    kernel = np.exp(-cdist(pool, pool, "sqeuclidean") / (4 * d))
    rows = rng.permutation(n)[: size * 2 ** int(np.log2(n / size))]
    while len(rows) > size:
        rows = _halved(kernel, rows, rng)
    mean = kernel.mean(axis=1)
    own = np.diag(kernel)
    near = kernel[:, rows].sum(axis=1)
    for place in range(size):
        near -= kernel[:, rows[place]]
        far = 2 * near + own
        far -= 2 * size * mean
        rows[place] = np.argmin(far)
        near += kernel[:, rows[place]]
    return rows


def _halved(kernel, rows, rng):
    """Half of the rows: of each pair the one that keeps the mean kernel, by a self-balancing
    walk."""
    pairs = rows.reshape(-1, 2)
    signed = np.zeros(len(kernel))
    scale = 0.0
    # the walk fails with probability one half at most (delta of Theorem 1)
    bound = np.sqrt(2 * np.log(4 * len(pairs)))
    kept = []
    for one, other in pairs:
        length = kernel[one, one] + kernel[other, other] - 2 * kernel[one, other]
        threshold = max(np.sqrt(scale * length) * bound, length)
        along = signed[one] - signed[other]
        if threshold > 0:
            growth = 1 + (length - 2 * threshold) * scale / threshold**2
            scale = scale + length * max(growth, 0.0)
            swaps = rng.random() > 0.5 * (1 - along / threshold)
        else:
            swaps = rng.random() < 0.5
        # the row that is kept counts against the other one
        keep, drop = (other, one) if swaps else (one, other)
        signed += kernel[keep] - kernel[drop]
        kept.append(keep)
    return np.array(kept)


# --- the sweep


def error_rows(
    dataset,
    seed,
    *,
    models,
    sizes,
    n_train,
    n_pool,
    n_explained,
    n_pairs,
    n_pilots,
):
    """The error of each background of each size for each model: rows for a sweep.

    Parameters
    ----------
    dataset, seed, n_train, n_pool, n_explained : as in `prepare`
    models : list of str, keys of `MODELS`
    sizes : list of int, rows m of a background
    n_pairs : int, pairs of an order of the columns and its reverse, see `contributions`
    n_pilots : int, K, see `pilot_outputs`

    Returns
    -------
    list of dict with model, method, m, rows (that the background has), calls (of the model on a
    row, to choose the background), seconds (CPU time to choose it, the calls included) and error
    (mean absolute error of the Shapley values against those of the whole pool, over their mean
    absolute value)
    """
    task = prepare(
        dataset,
        seed,
        n_train=n_train,
        n_pool=n_pool,
        n_explained=n_explained,
    )
    rng = np.random.default_rng([seed, 1])
    blind = [found for size in sizes for found in _blind_backgrounds(task.pool, size, seed)]
    rows = []
    for model in models:
        output = trained(model, task, seed)
        judge = Judge(output, task, paired_orders(task.pool.shape[1], n_pairs, rng))
        start = time.process_time()
        pilots = pilot_outputs(
            output,
            task.pool,
            task.X,
            n_pilots,
            rng,
        )
        piloted = time.process_time() - start
        backgrounds = list(blind)
        for size in sizes:
            backgrounds += _seeing_backgrounds(pilots, piloted, size, seed)
            backgrounds += _backgrounds_of_calls(task.pool, size, n_pilots, rng)
        for known, background, weights in backgrounds:
            error = judge.error(background, weights)
            rows.append(dict(model=model) | known | dict(rows=len(weights), error=error))
    return rows


class Judge:
    """What tells the error of a background: the Shapley values of some rows, and a table of
    contributions for them.

    Parameters
    ----------
    output, orders : as in `contributions`
    task : Task
    """

    def __init__(self, output, task, orders):
        self.output = output
        self.explained = task.explained
        self.orders = orders
        self.of_rows = contributions(output, task.explained, task.pool, orders)
        self.truth = self.of_rows.mean(axis=2)

    def error(self, background, weights):
        """Mean absolute error of the values, over their mean absolute value.

        Parameters
        ----------
        background : int array of shape (m,), rows of the pool; or float array of shape (m, d),
            points that need not be rows
        weights : array of shape (m,)
        """
        if background.ndim == 1:
            each = self.of_rows[:, :, background]
        else:
            each = contributions(self.output, self.explained, background, self.orders)
        missed = each @ (weights / weights.sum()) - self.truth
        return float(np.abs(missed).mean() / np.abs(self.truth).mean())


def _blind_backgrounds(pool, size, seed):
    """Backgrounds that do not see the model: a list of (what is known of it, rows or points,
    weights)."""
    rng = np.random.default_rng([seed, size])
    one = np.ones(size)
    ways = {
        "uniform": lambda: (rng.permutation(len(pool))[:size], one),
        "cube": lambda: balanced(pool, size, seed),
        "centroids": lambda: centroids(pool, size, seed),
        "thinned": lambda: (thinned(pool, size, rng), one),
    }
    return [_timed(method, size, choose) for method, choose in ways.items()]


def _seeing_backgrounds(pilots, piloted, size, seed):
    """Backgrounds that see the model's outputs, as above; all pilots took `piloted` CPU seconds."""
    rng = np.random.default_rng([seed, size])
    n, n_pilots = pilots.shape
    ways = {
        "by output": (1, lambda: (by_output(pilots[:, 0], size, rng), np.ones(size))),
        "cube of pilots": (n_pilots, lambda: balanced(pilots, size, seed)),
        "matched": (n_pilots, lambda: matched(pilots, size, rng)),
    }
    return [
        _timed(
            method,
            size,
            choose,
            calls=n * used,
            seconds=piloted * used / n_pilots,
        )
        for method, (used, choose) in ways.items()
    ]


def _backgrounds_of_calls(pool, size, n_pilots, rng):
    """Random and thinned backgrounds whose explanations call the model as often as the pilots and
    the explanations of `size` rows do, with the coalitions of `shap.KernelExplainer`: 2 d + 2,048
    by default, and never more than a row of d columns has."""
    n, d = pool.shape
    coalitions = min(2 * d + 2048, 2**d - 2)
    [thinner] = rng.spawn(1)
    found = []
    for count in EXPLAINED:
        more = min(n, size + round(n_pilots * n / (coalitions * count)))
        drawn = rng.permutation(n)[:more]
        near = thinned(pool, more, thinner)
        ones = np.ones(more)
        ways = {
            "calls of": drawn,
            "thinned, calls of": near,
        }
        for way, background in ways.items():
            known = dict(
                method=f"{way} {count}",
                m=size,
                calls=0,
                seconds=0.0,
            )
            found.append((known, background, ones))
    return found


def _timed(
    method,
    size,
    choose,
    *,
    calls=0,
    seconds=0.0,
):
    start = time.process_time()
    background, weights = choose()
    seconds += time.process_time() - start
    return (
        dict(
            method=method,
            m=size,
            calls=calls,
            seconds=seconds,
        ),
        background,
        weights,
    )


def ratios(rows, to, m=CLAIMED):
    """Error of the matched rows over that of another background: (table, model) -> one value a
    seed.

    Parameters
    ----------
    rows : DataFrame of `error_rows` with columns dataset and seed
    to : str or list of str; of several the one of the least mean logarithm of the error in a
        setting, chosen with the results at hand, which favours it
    m : int, rows
    """
    logs = rows[rows.m == m].assign(log=lambda frame: np.log(frame.error))
    wide = logs.pivot(
        index=["dataset", "model", "seed"],
        columns="method",
        values="log",
    )
    found = {}
    for setting, part in wide.groupby(level=["dataset", "model"], sort=False):
        others = part[[to] if isinstance(to, str) else list(to)]
        best = others.mean().idxmin()
        found[setting] = np.exp(part["matched"] - part[best]).to_numpy()
    return found


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    m = CLAIMED if CLAIMED in set(run.rows.m) else run.rows.m.max()
    others = [method for method in METHODS_SHOWN if method != "matched"]
    return {
        "own-shap-half": ratios(run.rows, "uniform", m),
        "own-shap-best": ratios(run.rows, others, m),
        "own-shap-calls": ratios(run.rows, ["calls of 10", "thinned, calls of 10"], m),
    }
