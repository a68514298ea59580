"""Protocol of VRM's mini-batch k-means experiment (section 6.4, Figure 3 and Table 1)."""

import time
from itertools import product

import numpy as np
import pandas as pd
from handful.clustering.minibatch import kmeans_step
from handful.data import load
from handful.sampling import (
    BanditSampler,
    MixtureSampler,
    UniformSampler,
    distance_components,
)
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances_argmin_min

from handful_papers.claims import DATA, NOT_RUN, Evidence
from handful_papers.effects import paired_differences
from handful_papers.vrm.full_information import concentration

METHODS = ("uniform", "vrb", "equal mixture", "vrm")


def split(X, *, rng, n_pca=None):
    """Standardised features, or the first `n_pca` principal components, split 80 : 20.

    Returns
    -------
    X_train, X_test : float64 arrays; centred, scaled and projected by the training part's
        statistics; the features as they are where `n_pca` is 0
    """
    order = rng.permutation(len(X))
    n_train = round(0.8 * len(X))
    train = X[order[:n_train]].astype(np.float64)
    test = X[order[n_train:]].astype(np.float64)
    if n_pca == 0:
        return train, test
    if n_pca is not None:
        pca = PCA(n_pca, random_state=0).fit(train)
        return tuple(np.ascontiguousarray(pca.transform(part)) for part in (train, test))
    mean = train.mean(axis=0)
    scale = train.std(axis=0)
    varies = scale > 0
    return tuple((part[:, varies] - mean[varies]) / scale[varies] for part in (train, test))


def loss(X, centres):
    """Mean squared distance to the nearest centre."""
    return float((pairwise_distances_argmin_min(X, centres)[1] ** 2).mean())


def start(X, n_clusters, *, seed):
    """k-means++ centres (Arthur and Vassilvitskii 2007) on all of `X`, and what Lloyd's algorithm
    makes of them."""
    centres, _ = kmeans_plusplus(X, n_clusters, random_state=seed, n_local_trials=1)
    lloyd = KMeans(
        n_clusters,
        init=centres,
        n_init=1,
        max_iter=100,
    ).fit(X)
    return centres, lloyd.cluster_centers_


def make_sampler(
    method,
    X,
    *,
    batch_size,
    n_components,
    rng,
    **options,
):
    """One of `METHODS` over the rows of `X`; the mixtures have `n_components`, the uniform one
    included."""
    if method == "uniform":
        return UniformSampler(len(X), batch_size=batch_size, random_state=rng)
    if method == "vrb":
        return BanditSampler(
            len(X),
            batch_size=batch_size,
            random_state=rng,
            **options,
        )
    p = distance_components(X, n_components - 1, random_state=rng)
    given = None if method == "vrm" else "equal"
    return MixtureSampler(
        p, mixture_weights=given, batch_size=batch_size, random_state=rng, **options
    )


def run(
    method,
    X,
    X_test,
    centres,
    reference,
    *,
    record_at,
    batch_size=100,
    n_components=10,
    rng,
    **options,
):
    """One run of mini-batch k-means.

    Parameters
    ----------
    method : one of `METHODS`
    X, X_test : arrays of one dtype, shapes (n, d) and (n_test, d)
    centres : array, shape (K, d), the start
    reference : float, the test loss of batch k-means from the same start
    record_at : increasing ints, numbers of steps
    options : of the sampler

    Returns
    -------
    rows : list of dict with step, seconds (of CPU; set-up and sampling included, evaluation not),
        error (test loss relative to the reference, less one)
    sampler : as it ended
    """
    begin = time.process_time()
    sampler = make_sampler(
        method, X, batch_size=batch_size, n_components=n_components, rng=rng, **options
    )
    seconds = time.process_time() - begin
    centres = centres.copy()
    counts = np.zeros(len(centres))
    rows = []
    done = 0
    for stop in record_at:
        begin = time.process_time()
        for _ in range(stop - done):
            indices, weights = sampler.sample()
            sampler.update(kmeans_step(X[indices], weights, centres, counts))
        seconds += time.process_time() - begin
        done = stop
        row = dict(
            step=stop,
            seconds=seconds,
            error=loss(X_test, centres) / reference - 1,
        )
        rows.append(row)
    return rows, sampler


def compile_samplers(X, **options):
    """A few steps of each of `METHODS`, so that no time on record holds a compilation."""
    for method in METHODS:
        run(
            method,
            X,
            X[:1],
            X[:2],
            1.0,
            record_at=[2],
            rng=np.random.default_rng(0),
            **options,
        )


def read_rows(name, n_max, *, seed):
    """The rows of a data set, test part included, at most `n_max` of them, drawn with `seed`:
    Dataset and array."""
    data = load(name)
    X = data.X if data.X_test is None else np.concatenate([data.X, data.X_test])
    if len(X) > n_max:
        rng = np.random.default_rng(seed)
        X = X[rng.choice(len(X), size=n_max, replace=False)]
    return data, X


def tuned(
    method,
    X,
    *,
    grid,
    n_clusters,
    n_steps,
    seed,
    **common,
):
    """The options of `grid` with the least loss on a fifth of `X` after training on the rest, as in
    the paper.

    Parameters
    ----------
    grid : dict, option of the sampler -> the values to try; the product of all is tried, from one
        start
    common : `batch_size` and `n_components` of `run`
    """
    order = np.random.default_rng([seed, 1]).permutation(len(X))
    held_out, X = np.split(X[order], [len(X) // 5])
    centres, _ = kmeans_plusplus(X, n_clusters, random_state=seed, n_local_trials=1)
    tried = [dict(zip(grid, values)) for values in product(*grid.values())]
    losses = []
    for options in tried:
        rows, _ = run(
            method,
            X,
            held_out,
            centres,
            1.0,
            record_at=[n_steps],
            rng=np.random.default_rng([seed, 2]),
            **common,
            **options,
        )
        losses.append(rows[-1]["error"])
    return tried[int(np.argmin(losses))]


def start_rows(
    dataset,
    seed,
    *,
    first,
    n_runs,
    n_max,
    pca,
    n_clusters,
    batch_size,
    n_components,
    n_steps,
    grids,
):
    """All methods and runs from one start, with its own split of the data: a task of the sweep.

    Parameters
    ----------
    dataset : str
    seed : int, of split and start; `first`, that of the first start and of the draw of rows
    n_runs : int, runs of each method
    pca : dict, data set -> principal components to keep, 0 for the features as they are; the others
        are standardised
    n_max, n_clusters, batch_size, n_components, n_steps : as in `read_rows` and `run`
    grids : dict, method -> `grid` of `tuned`; the others keep their sampler's defaults

    Returns
    -------
    list of dict of `run`, with dataset, method, start, seed (of the run), c (of the components on
        this split), uniform_weight (VRM's in the end, NaN for the others) and tuned (the options,
        as text)
    """
    _, X = read_rows(dataset, n_max, seed=first)
    X, X_test = split(
        X,
        rng=np.random.default_rng(seed),
        n_pca=pca.get(dataset),
    )
    rng = np.random.default_rng(seed)
    c = concentration(distance_components(X, n_components - 1, random_state=rng))
    centres, batch_centres = start(X, n_clusters, seed=seed)
    reference = loss(X_test, batch_centres)
    rows = []
    common = dict(batch_size=batch_size, n_components=n_components)
    of_tuning = dict(
        n_clusters=n_clusters,
        n_steps=n_steps,
        seed=seed,
        **common,
    )
    options = {method: tuned(method, X, grid=grid, **of_tuning) for method, grid in grids.items()}
    compile_samplers(X, **common)
    common["record_at"] = records(n_steps)
    for r in range(n_runs):
        for method in METHODS:
            rng = np.random.default_rng([seed, r])
            own = options.get(method, {})
            new, sampler = run(
                method,
                X,
                X_test,
                centres,
                reference,
                rng=rng,
                **common,
                **own,
            )
            ids = dict(
                dataset=dataset,
                method=method,
                start=seed,
                seed=(seed - first) * n_runs + r,
            )
            about = dict(
                c=c,
                uniform_weight=sampler.mixture_weights[-1] if method == "vrm" else np.nan,
                tuned=" ".join(f"{name}={value:g}" for name, value in own.items()),
            )
            rows += [ids | row | about for row in new]
    return rows


def standardised_rows(dataset, seed, *, first, n_max, pca, n_components):
    """c of the components where the columns are standardised before their principal components are
    taken, the other reading of the paper's ten features of MNIST: a task of a sweep.

    Parameters and split as in `start_rows`.

    Returns
    -------
    list of dict with dataset, start and c; empty where the rows are not projected
    """
    if not pca.get(dataset):
        return []
    _, X = read_rows(dataset, n_max, seed=first)
    train, _ = split(X, rng=np.random.default_rng(seed))
    train = PCA(pca[dataset], random_state=0).fit_transform(train)
    rng = np.random.default_rng(seed)
    c = concentration(distance_components(train, n_components - 1, random_state=rng))
    return [dict(dataset=dataset, start=seed, c=c)]


def records(n_steps):
    """The steps at which the test error is taken."""
    return np.unique(np.geomspace(20, n_steps, 16).astype(int)).tolist()


# --- which numbers decide the claims

# The paper's data sets by their names in the registry.
PAPERS = ("mnist", "kdd_bio", "csn")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    by_start = run.rows.groupby(["dataset", "method", "start", "step"])
    starts = by_start[["error", "seconds"]].mean().reset_index()
    starts = starts[starts.dataset.isin(PAPERS)]
    ends = at_equal_seconds(starts)
    first = starts[starts.step == starts.step.min()]
    run.facts.update(tuned=int("vrm" in run.parameters.get("grids", {})))
    run.facts.update(mnist_rows=run.facts.get("rows", {}).get("mnist", 0))
    lost = Evidence(lacks="the run has none of the paper's data sets", reason=DATA)
    unchanged = run.parameters.get("unchanged", ["digits", "mnist"])
    changed = ends[~ends.dataset.isin(unchanged)]
    mnist = ends[ends.dataset == "mnist"]
    found = {
        "vrm-fig03-ends-best": lost if changed.empty else _gains(changed, ["uniform", "vrb"]),
        "vrm-fig03-no-gain": lost if mnist.empty else _gains(mnist, "uniform"),
        "vrm-fig03-setup": lost if first.empty else _setup(first),
    }
    c = {name: values for name, values in run.facts["c"].items() if name in PAPERS}
    found["vrm-tab01-c-below-50"] = c or lost
    found["vrm-tab01-c"] = _readings(run, c["mnist"]) if "mnist" in c else lost
    return found


def at_equal_seconds(starts):
    """The errors of all methods after the CPU seconds in which the quickest of them makes all its
    steps: Figure 3 draws them against time.

    Parameters
    ----------
    starts : DataFrame with dataset, start, method, and seconds and error, a row for each record in
        the order of the steps; between two records the error is read along a straight line

    Returns
    -------
    DataFrame with dataset, start, method and error, a row for each of them
    """
    seconds = starts.groupby(["dataset", "start", "method"]).seconds.max()
    quickest = seconds.groupby(["dataset", "start"]).min()
    rows = [
        dict(
            zip(("dataset", "start", "method"), run),
            error=np.interp(quickest[run[:2]], records.seconds, records.error),
        )
        for run, records in starts.groupby(["dataset", "start", "method"])
    ]
    return pd.DataFrame(rows, columns=["dataset", "start", "method", "error"])


def _setup(first):
    return paired_differences(
        first,
        a="vrm",
        b=["uniform", "vrb"],
        value="seconds",
        by="dataset",
        seed="start",
    )


def _readings(run, c):
    """c of MNIST by both readings of its ten features."""
    standardised = run.facts.get("c_standardised", {}).get("mnist")
    if standardised is None:
        return Evidence(lacks="one of the two readings did not run", reason=NOT_RUN)
    return {"components of the pixels": c, "components of standardised pixels": standardised}


def _gains(rows, others):
    gains = paired_differences(
        rows, a="vrm", b=others, value="error", by="dataset", seed="start", higher_is_better=False
    )
    return {setting: 100 * values for setting, values in gains.items()}
