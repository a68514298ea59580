"""Table 7 and Figures 10 and 11 of the bilevel paper: batch active learning of spoken words (Section 5.5)."""

import json
import os
import tempfile
import time

import joblib
import numpy as np
import pandas as pd

from handful.active import Badge, BilevelQuery, Consistency, KCenterQuery, MaxEntropy, UniformQuery
from handful.active.loop import ActiveLoop
from handful.experiments.active_data import cache_folder

VERSION = 1  # of what the cache holds: raise it when the code below would give other numbers
TRAININGS = ("supervised", "supervised augmented", "mixmatch")
METHODS_SHOWN = ("uniform", "max-entropy", "kcenter", "consistency", "badge", "bico")
ENTROPY_VARIANTS, CONSISTENCY_VARIANTS = 2, 5  # augmentations over which predictions are averaged and compared


def train(data, labelled, labels, *, training="mixmatch", seed, **options):
    """A network trained on a few labelled recordings of the pool, and by MixMatch on all the others.

    Parameters
    ----------
    data : Recordings
    labelled, labels : int arrays, rows of the pool and their classes
    training : "supervised" (as they are), "supervised augmented" or "mixmatch"
    seed : int
    options : of `MixMatch`; what `SupervisedNetwork` does not know is left out for it

    Returns
    -------
    SupervisedNetwork or MixMatch
    """
    from handful.active.mixmatch import MixMatch, SupervisedNetwork

    if training not in TRAININGS:
        raise ValueError(f"training must be one of {TRAININGS}, got {training!r}.")
    kind = MixMatch if training == "mixmatch" else SupervisedNetwork
    known = kind().get_params()
    model = kind(**{k: v for k, v in options.items() if k in known}, random_state=seed)
    y = np.full(len(data.X), -1)
    y[np.asarray(labelled)] = labels
    copies = None if training == "supervised" else data.copies
    return model.fit(data.X, y, copies=copies, classes=np.arange(len(data.words)))


def accuracy(model, data):
    """Test accuracy, in percent."""
    return 100.0 * float(np.mean(model.predict(data.X_test) == data.y_test))


def first_labels(y, n, *, seed):
    """`n` random points with at least one of every class, as the first pool of Section 5.5: int array, shape (n,)."""
    rng = np.random.default_rng([seed, 10])
    classes = np.unique(y)
    if n < len(classes):
        raise ValueError(f"n must be at least the number of classes, {len(classes)}, got n={n}.")
    one_each = [int(rng.choice(np.flatnonzero(y == c))) for c in classes]
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), one_each))[: n - len(classes)]
    return np.concatenate([one_each, rest]).astype(np.intp)


def acquire(method, n, data, model, labelled, labels, *, proxy=None, seed):
    """The next `n` points by one of `METHODS_SHOWN`.

    Parameters
    ----------
    data : Recordings
    model : trained on `labelled`
    labelled, labels : int arrays
    proxy : Proxy, for "bico"
    seed : int

    Returns
    -------
    int array, shape (n,), rows of the pool
    """
    pool = np.setdiff1d(np.arange(len(data.X)), labelled)
    rng = np.random.default_rng([seed, len(labelled), METHODS_SHOWN.index(method)])
    classes = np.arange(len(data.words))

    def predicted(variants):
        return np.stack([model.predict_proba(data.copies[pool, k]) for k in range(variants)])

    if method == "uniform":
        chosen = UniformQuery(random_state=rng).query(n, n_pool=len(pool))
    elif method == "max-entropy":
        chosen = MaxEntropy().query(n, probabilities=predicted(ENTROPY_VARIANTS))
    elif method == "consistency":
        chosen = Consistency().query(n, probabilities=predicted(CONSISTENCY_VARIANTS))
    elif method == "kcenter":
        chosen = KCenterQuery().query(n, features=model.embed(data.X[pool]), labelled=model.embed(data.X[labelled]))
    elif method == "badge":
        P = model.predict_proba(data.X[pool])
        chosen = Badge(random_state=rng).query(n, features=model.embed(data.X[pool]), probabilities=P)
    else:
        query = BilevelQuery(variants=lambda row: proxy.variants(pool[row]))
        chosen = query.query(
            n,
            features=proxy.Z[pool],
            probabilities=model.predict_proba(data.X[pool]),
            labelled=np.stack([proxy.variants(i) for i in labelled]),
            labels=labels,
            classes=classes,
        )
    return pool[chosen]


def describe(chosen, model, data, labelled):
    """How diverse a batch is and how rich in mistakes, before it is labelled.

    Returns
    -------
    dict : mistakes (points of the batch that the model gets wrong), pool_mistakes (the same number for a batch of the
        pool's average), classes (different true classes in the batch), spread (mean distance of a point to the nearest
        other of the batch, in embeddings, over that of random batches of the pool)
    """
    pool = np.setdiff1d(np.arange(len(data.X)), labelled)
    wrong = model.predict(data.X[pool]) != data.y[pool]
    at = np.searchsorted(pool, chosen)
    E = model.embed(data.X[pool]).astype(np.float64)
    rng = np.random.default_rng(0)
    random = np.mean([_nearest(E[rng.choice(len(pool), len(chosen), replace=False)]) for _ in range(50)])
    return {
        "mistakes": int(wrong[at].sum()),
        "pool_mistakes": len(chosen) * float(wrong.mean()),
        "classes": len(np.unique(data.y[chosen])),
        "spread": _nearest(E[at]) / random,
    }


def _nearest(E):
    sq = np.sum((E[:, None] - E[None]) ** 2, axis=2)
    np.fill_diagonal(sq, np.inf)
    return float(np.sqrt(sq.min(axis=1)).mean())


def run_active(data, method, seed, *, sizes, options, proxy=None, models=None):
    """One acquisition function with one seed: train, measure, ask the oracle, from the first size to the last.

    Parameters
    ----------
    data : Recordings
    method : one of `METHODS_SHOWN`
    sizes : list of int, numbers of labels, evenly spaced
    options : dict, of `MixMatch`
    proxy : Proxy or function that gives one, for "bico"
    models : dict or None, keeps the model of each seed's first labels, which all methods share

    Returns
    -------
    list of dict, one for each size : method, seed, labels (their number), accuracy (percent), and, for all but the last
    size, what `describe` says of the batch that follows, seconds_query and chosen (the batch)
    """
    rows = []
    first = {} if models is None else models
    proxy = proxy() if method == "bico" and callable(proxy) else proxy

    def measure(labelled, labels):
        # the same training seed for every method, so that the first model is the same
        model = first.get(seed) if len(labelled) == sizes[0] else None
        if model is None:
            model = train(data, labelled, labels, seed=1000 * seed + len(labelled), **options)
        if len(labelled) == sizes[0]:
            first[seed] = model
        rows.append(dict(method=method, seed=seed, labels=len(labelled), accuracy=accuracy(model, data)))
        return model

    def propose(labelled, labels, pool, n):
        model = measure(labelled, labels)
        start = time.perf_counter()
        chosen = acquire(method, n, data, model, labelled, labels, proxy=proxy, seed=seed)
        seconds = time.perf_counter() - start
        rows[-1] |= describe(chosen, model, data, labelled) | dict(seconds_query=seconds, chosen=chosen.tolist())
        return chosen

    batch = sizes[1] - sizes[0]
    loop = ActiveLoop(propose, n_pool=len(data.X), classes=range(len(data.words)), batch=batch)
    for index in first_labels(data.y, sizes[0], seed=seed):
        loop.label(index, data.y[index])
    loop.run(lambda index: data.y[index], n_rounds=len(sizes) - 1)
    measure(loop.labelled, loop.labels)
    return rows


def run_uniform(data, training, seed, *, sizes, options):
    """One training of Table 7 with one seed, on the labels that "uniform" of `run_active` has at each size.

    Returns
    -------
    list of dict, one for each size : method (the training), seed, labels, accuracy (percent)
    """
    rows = []
    labelled = first_labels(data.y, min(sizes), seed=seed)
    while True:
        if len(labelled) in sizes:
            model = train(
                data, labelled, data.y[labelled], training=training, seed=1000 * seed + len(labelled), **options
            )
            rows.append(dict(method=training, seed=seed, labels=len(labelled), accuracy=accuracy(model, data)))
        if len(labelled) >= max(sizes):
            return rows
        more = acquire("uniform", min(sizes), data, None, labelled, None, seed=seed)
        labelled = np.concatenate([labelled, more])


def remember(key, function, *, cache=True):
    """What `function()` gives (a list of dicts), from a file if a run with this `key` (a dict) has left one.

    So a sweep that was stopped goes on where it was, and two notebooks share their runs.
    """
    path = cache_folder() / f"run-{joblib.hash((VERSION, key))}.json"
    if cache and path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))["rows"]
    rows = function()
    if cache:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"key": key, "rows": rows}, file)
        os.replace(part, path)
    return rows


def sweep(data, arms, run, *, cache, watch=iter, **settings):
    """Every arm with every seed, each remembered.

    Parameters
    ----------
    data : Recordings
    arms : list of (name, seed)
    run : `run_active` or `run_uniform`
    cache : bool
    watch : wraps the list of arms to show progress, e.g. tqdm
    settings : sizes, options, and for `run_active` proxy, of_proxy (a dict that says what `proxy` is) and models

    Returns
    -------
    DataFrame, the rows of `run`
    """
    of_proxy = settings.pop("of_proxy", None)
    rows = []
    for name, seed in watch(arms):
        key = dict(
            run=run.__name__,
            data=[data.name, data.sha256, list(data.copies.shape)],
            arm=[name, int(seed)],
            sizes=[int(s) for s in settings["sizes"]],
            options=settings["options"],
            proxy=of_proxy if name == "bico" else None,
        )
        rows += remember(key, lambda name=name, seed=seed: run(data, name, seed, **settings), cache=cache)
    return pd.DataFrame(rows)
