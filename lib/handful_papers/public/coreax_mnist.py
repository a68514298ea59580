"""coreax's table on MNIST: rows are chosen, a small network is trained on them, and its test
accuracy is compared."""

import time
import tracemalloc
from functools import lru_cache

import numpy as np
from handful import BilevelCoreset, Logistic, StratifiedCoreset, UniformCoreset
from handful.clustering import Medoids
from handful.data import load
from handful.data.dataset import split, standardise
from handful.proxies import RBF, Nystrom

from handful_papers.published import published

ITEM = "coreax, MNIST"
RANDOM = "Random Sample"
LABEL_FREE = ("uniform", "medoids")
LABELLED = ("stratified", "medoids by class", "bilevel")
METHODS_SHOWN = (*LABEL_FREE, *LABELLED, "rs2")
# They look at no component.
RAW = ("uniform", "stratified", "rs2")
WAYS = {"test": "stopped on the test set, as published", "valid": "stopped on a validation split"}
# Principal components in which rows are chosen, where the data have as many.
COMPONENTS = 50
# Their pixels are brought to 0 to 1; the columns of all other data are standardised.
IMAGES = ("mnist", "digits", "cifar10")
# A test set has at most as many rows as MNIST's.
TESTED = 10_000


# --- the data, and the rows that are chosen


@lru_cache(1)
def tables(dataset, n_valid, seed):
    """Rows and labels of the pool, the validation split and the test set: three pairs; cached.

    Pixels are from 0 to 1, other columns standardised by the pool; labels are 0, 1, ... Of a test
    set of more than `TESTED` rows as many are drawn, the same for all seeds.
    """
    data = split(load(dataset), test_size=0.2, random_state=0)
    rng = np.random.default_rng((seed, 1))
    drawn = rng.choice(len(data.y), n_valid, replace=False)
    valid = np.isin(np.arange(len(data.y)), drawn)
    tested = np.arange(len(data.y_test))
    if len(tested) > TESTED:
        tested = np.random.default_rng(0).choice(tested, TESTED, replace=False)
    parts = [data.X[~valid], data.X[valid], data.X_test[tested]]
    if dataset in IMAGES:
        brightest = np.float32(data.X.max())
        parts = [np.asarray(A, np.float32) / brightest for A in parts]
    else:
        parts = standardise(*parts, dtype=np.float32)
    labels = np.unique(data.y)
    of_parts = [data.y[~valid], data.y[valid], data.y_test[tested]]
    return [(A, np.searchsorted(labels, y)) for A, y in zip(parts, of_parts)]


def components(X):
    """The rows of X in its first principal components."""
    centred = X - X.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return centred @ directions[:, -COMPONENTS:]


@lru_cache(8)
def components_of(dataset, n_valid, seed):
    """`components` of the pool, and the CPU seconds that they took; cached."""
    (X, _), _, _ = tables(dataset, n_valid, seed)
    start = time.process_time()
    return components(X), time.process_time() - start


def choose(
    method,
    m,
    P,
    y,
    *,
    n_pool,
    seed,
):
    """Indices of m rows by one of `METHODS_SHOWN`; P are the rows in principal components.

    Labels are looked at by "stratified", "medoids by class" and "bilevel", and by no other.
    """
    if method in ("uniform", "rs2"):
        return UniformCoreset(m, random_state=seed).fit(P).indices_
    if method == "stratified":
        return StratifiedCoreset(m, random_state=seed).fit(P, y).indices_
    if method == "medoids":
        return Medoids(m, random_state=seed).fit(P).indices_
    if method == "medoids by class":
        return _medoids_by_class(m, P, y, seed)
    return _chosen_by_bico(m, P, y, n_pool, seed)


def _medoids_by_class(m, P, y, seed):
    """Medoids of each class, as many of each, or one more."""
    labels = np.unique(y)
    sizes = np.bincount(np.arange(m) % len(labels))
    chosen = []
    for label, size in zip(labels, sizes):
        own = np.flatnonzero(y == label)
        medoids = Medoids(size, random_state=seed).fit(P[own])
        chosen.append(own[medoids.indices_])
    return np.concatenate(chosen)


def _chosen_by_bico(m, P, y, n_pool, seed):
    """A coreset of logistic regression on kernel features of `n_pool` random rows."""
    pool = np.random.default_rng((seed, 2)).permutation(len(y))[:n_pool]
    Z = P[pool] / (P[pool].std() * P.shape[1] ** 0.5)
    proxy = Nystrom(RBF(gamma=0.25), n_landmarks=300, random_state=seed)
    selector = BilevelCoreset(
        Logistic(l2=1e-3),
        size=m,
        weighting="equal",
        outer_penalty=False,
        random_state=seed,
    )
    selector.fit(proxy.fit_transform(Z), y[pool])
    return pool[selector.indices_]


def mebibytes(method, m, X, y, **options):
    """Peak of what a choice allocates beside X and y, the components' included, in MiB, as
    tracemalloc sees it.

    It sees numpy's arrays and Python's objects, and not what compiled code takes for itself:
    buffers of BLAS and numba.
    """
    tracemalloc.start()
    try:
        P = X if method in RAW else components(X)
        choose(method, m, P, y, **options)
        _, peak = tracemalloc.get_traced_memory()
        return peak / 2**20
    finally:
        tracemalloc.stop()


# --- the network


def train(
    few,
    valid,
    test,
    seed,
    *,
    n_epochs=100,
    patience=5,
    min_delta=1e-3,
):
    """Accuracies of the network of coreax's benchmark on a test set, in per cent: stopped in each
    of the `WAYS`.

    d-64-k (784-64-10 on MNIST) with dropout .2 and batch norm, AdamW at 1e-3 with decay 1e-5,
    batches of min(m // 2, 64) rows in a fixed order. An epoch is the best so far if its accuracy is
    above the best by more than `min_delta`; training ends after `patience` epochs without one.

    Parameters
    ----------
    few : function of the epoch that gives its rows and their labels, m of each
    valid, test : pairs of rows and labels
    seed : int, of the network's start and its dropout

    Returns
    -------
    dict : way -> test accuracy of the best epoch; and its number of epochs, under "epochs"
    """
    import torch
    from torch.nn.functional import cross_entropy

    torch.manual_seed(seed)
    valid = [torch.from_numpy(part) for part in valid]
    test = [torch.from_numpy(part) for part in test]
    net = _network(test[0].shape[1], int(test[1].max()) + 1)
    optimiser = torch.optim.AdamW(
        net.parameters(),
        lr=1e-3,
        weight_decay=1e-5,
    )
    best = dict.fromkeys(WAYS, 0.0)
    found = dict.fromkeys(WAYS, 0.0)
    waited = dict.fromkeys(WAYS, 0)

    def accuracy(pair):
        with torch.no_grad():
            right = net(pair[0]).argmax(1) == pair[1]
            return float(right.float().mean())

    for epoch in range(n_epochs):
        A, b = map(torch.from_numpy, few(epoch))
        size = min(len(b) // 2, 64)
        net.train()
        for start in range(0, len(b) - size + 1, size):
            batch = slice(start, start + size)
            optimiser.zero_grad()
            loss = cross_entropy(net(A[batch]), b[batch])
            loss.backward()
            optimiser.step()
        net.eval()
        now = {
            "test": accuracy(test),
            "valid": accuracy(valid),
        }
        for way in WAYS:
            if waited[way] >= patience:
                continue
            better = now[way] > best[way] + min_delta
            waited[way] = 0 if better else waited[way] + 1
            if better:
                best[way] = now[way]
                found[way] = now["test"]
        if min(waited.values()) >= patience:
            break
    return {way: 100 * one for way, one in found.items()} | {"epochs": epoch + 1}


def _network(d, k):
    """The benchmark's network on d columns and k classes, with flax's start."""
    from torch import nn

    net = nn.Sequential(
        nn.Linear(d, 64),
        nn.Dropout(0.2),
        nn.BatchNorm1d(64, momentum=0.01),
        nn.ReLU(),
        nn.Linear(64, k),
    )
    # flax draws from a normal, cut at two deviations, of variance 1 / fan-in.
    for layer in (net[0], net[4]):
        sd = layer.in_features**-0.5 / 0.87962566
        nn.init.trunc_normal_(
            layer.weight,
            std=sd,
            a=-2 * sd,
            b=2 * sd,
        )
        nn.init.zeros_(layer.bias)
    return net


def accuracy_rows(
    method,
    seed,
    *,
    dataset,
    sizes,
    n_valid,
    n_pool,
    most,
):
    """A dict for each size: test accuracies, and what the choice cost, the components' included.

    Parameters
    ----------
    method : str, of `METHODS_SHOWN`
    seed : int, of the validation split, of the choice and of the network
    dataset : str, in the registry
    sizes : list of int, rows m
    n_valid : int, training rows that only say when to stop
    n_pool : int, rows that "bilevel" chooses from, at most
    most : int, the largest size at which "bilevel" is run

    Returns
    -------
    list of dict : m, rows, one for each of the `WAYS`, epochs, seconds (CPU) and mib, the peak of
        `mebibytes`, of seed 0 alone: for it rows are chosen once more, as tracing takes time
    """
    (X, y), valid, test = tables(dataset, n_valid, seed)
    P, before = (X, 0.0) if method in RAW else components_of(dataset, n_valid, seed)
    rows = []
    options = dict(n_pool=n_pool, seed=seed)
    for m in sizes:
        if method == "bilevel" and m > most:
            continue
        start = time.process_time()
        chosen = choose(
            method,
            m,
            P,
            y,
            **options,
        )
        chosen = np.random.default_rng(seed).permutation(chosen)
        seconds = before + time.process_time() - start
        fresh = np.random.default_rng((seed, 3))

        def few(epoch, chosen=chosen, fresh=fresh):
            if method == "rs2":
                chosen = fresh.choice(len(y), len(chosen), replace=False)
            return X[chosen], y[chosen]

        row = dict(
            m=m,
            rows=len(chosen),
            **train(few, valid, test, seed),
            seconds=seconds,
            mib=np.nan,
        )
        if seed == 0:
            row["mib"] = mebibytes(
                method,
                m,
                X,
                y,
                **options,
            )
        rows.append(row)
    return rows


# --- the published numbers, and which numbers decide the claims


def printed():
    """Published accuracies: a row for each of the nine solvers, a column for each size (int)."""
    table = published("public", ITEM).pivot(
        index="row",
        columns="column",
        values="value",
    )
    table.columns = table.columns.astype(int)
    return table.sort_index(axis=1)


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows[run.rows.dataset == run.parameters["dataset"]]
    best = printed().max()

    def of(method):
        mine = rows[rows.method == method]
        return mine.pivot(index="seed", columns="m", values="test")

    def over(a, values):
        return {f"m={m}": (a[m] - values[m]).to_numpy() for m in a if m in values}

    medoids = of("medoids")
    by_class = of("medoids by class")
    return {
        "public-coreax-label-free": over(medoids, best),
        "public-coreax-fresh": over(of("rs2"), by_class.where(by_class > medoids, medoids)),
    }
