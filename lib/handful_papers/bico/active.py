"""Table 7 and Figures 10 and 11 of the bilevel paper: batch active learning of spoken words
(Section 5.5)."""

import time

import numpy as np
from handful.active import Badge, BilevelQuery, KCenterQuery, MaxEntropyQuery, UniformQuery
from handful.active.loop import ActiveLoop

from handful_papers.bico.active_data import features, recordings

TRAININGS = ("supervised", "supervised augmented", "mixmatch", "mixmatch aligned")
METHODS_SHOWN = ("uniform", "max-entropy", "kcenter", "consistency", "badge", "bico")
# Augmentations over which predictions are averaged and compared.
ENTROPY_VARIANTS = 2
CONSISTENCY_VARIANTS = 5


def train(
    data,
    labelled,
    labels,
    *,
    training="mixmatch",
    seed,
    **options,
):
    """A network trained on a few labelled recordings of the pool, and by MixMatch on all the
    others.

    Parameters
    ----------
    data : Recordings
    labelled, labels : int arrays, rows of the pool and their classes
    training : "supervised" (as they are), "supervised augmented", "mixmatch", or "mixmatch
        aligned", which is "mixmatch" with its option `align`
    seed : int
    options : of `MixMatch`; what `SupervisedNetwork` does not know is left out for it

    Returns
    -------
    SupervisedNetwork or MixMatch
    """
    from handful_papers.bico.few_labels import MixMatch, SupervisedNetwork

    if training not in TRAININGS:
        raise ValueError(f"training must be one of {TRAININGS}, got {training!r}.")
    kind = SupervisedNetwork if training.startswith("supervised") else MixMatch
    if training == "mixmatch aligned":
        options = options | {"align": True}
    known = kind.__dataclass_fields__
    own = {name: value for name, value in options.items() if name in known}
    model = kind(**own, random_state=seed)
    y = np.full(len(data.X), -1)
    y[np.asarray(labelled)] = labels
    copies = None if training == "supervised" else data.copies
    return model.fit(
        data.X,
        y,
        copies=copies,
        classes=np.arange(len(data.words)),
    )


def accuracy(model, data):
    """Test accuracy, in percent."""
    return 100.0 * float(np.mean(model.predict(data.X_test) == data.y_test))


def first_labels(y, n, *, seed):
    """`n` random points with at least one of every class, as the first pool of Section 5.5: int
    array, shape (n,)."""
    rng = np.random.default_rng([seed, 10])
    classes = np.unique(y)
    if n < len(classes):
        raise ValueError(f"n must be at least the number of classes, {len(classes)}, got n={n}.")
    one_each = [int(rng.choice(np.flatnonzero(y == c))) for c in classes]
    others = np.setdiff1d(np.arange(len(y)), one_each)
    rest = rng.permutation(others)[: n - len(classes)]
    return np.concatenate([one_each, rest]).astype(np.intp)


def most_varying(P, n):
    """The `n` points whose predictions `P`, shape (variants, pool, classes), vary most (Gao et al.
    2020): int array."""
    P = P / P.sum(axis=2, keepdims=True, dtype=np.float64)
    variation = P.var(axis=0).sum(axis=1)
    return np.argsort(-variation, kind="stable")[:n]


def augmented(data, rows, n, *, seed, n_labelled):
    """`n` different ones of the presampled augmentations of each recording, for each seed and
    number of labels anew.

    Returns
    -------
    float16, shape (n, rows, 32, 32)
    """
    rng = np.random.default_rng([seed, 11, n_labelled])
    n_copies = data.copies.shape[1]
    drawn = [rng.choice(n_copies, n, replace=False) for _ in rows]
    return data.copies[rows, np.stack(drawn, axis=1)]


def acquire(
    method,
    n,
    data,
    model,
    labelled,
    labels,
    *,
    proxy=None,
    seed,
):
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

    def predicted(variants):
        copies = augmented(
            data,
            pool,
            variants,
            seed=seed,
            n_labelled=len(labelled),
        )
        return np.stack([model.predict_proba(rows) for rows in copies])

    if method == "uniform":
        chosen = UniformQuery(random_state=rng).query(n, n_pool=len(pool))
    elif method == "max-entropy":
        chosen = MaxEntropyQuery().query(n, probabilities=predicted(ENTROPY_VARIANTS))
    elif method == "consistency":
        as_it_is = model.predict_proba(data.X[pool])[None]
        P = np.concatenate([as_it_is, predicted(CONSISTENCY_VARIANTS)])
        chosen = most_varying(P, n)
    elif method == "kcenter":
        features = model.embed(data.X[pool])
        chosen = KCenterQuery().query(
            n,
            features=features,
            labelled=model.embed(data.X[labelled]),
        )
    elif method == "badge":
        P = model.predict_proba(data.X[pool])
        features = model.embed(data.X[pool])
        chosen = Badge(random_state=rng).query(n, features=features, probabilities=P)
    else:
        query = BilevelQuery(variants=lambda row: proxy.variants(pool[row]))
        chosen = query.query(
            n,
            features=proxy.Z[pool],
            probabilities=model.predict_proba(data.X[pool]),
            labelled=np.stack([proxy.variants(i) for i in labelled]),
            labels=labels,
            classes=np.arange(len(data.words)),
        )
    return pool[chosen]


def describe(chosen, model, data, labelled):
    """How diverse a batch is and how rich in mistakes, before it is labelled.

    Returns
    -------
    dict : mistakes (points of the batch that the model gets wrong), pool_mistakes (the same number
        for a batch of the pool's average), classes (different true classes in the batch), spread
        (mean distance of a point to the nearest other of the batch, in embeddings, over that of
        random batches of the pool)
    """
    pool = np.setdiff1d(np.arange(len(data.X)), labelled)
    wrong = model.predict(data.X[pool]) != data.y[pool]
    at = np.searchsorted(pool, chosen)
    E = model.embed(data.X[pool]).astype(np.float64)
    rng = np.random.default_rng(0)
    draws = [rng.choice(len(pool), len(chosen), replace=False) for _ in range(50)]
    random = np.mean([_nearest(E[drawn]) for drawn in draws])
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


def query_rows(
    method,
    *,
    pool,
    sizes,
    options,
    proxy,
    seed,
):
    """`run_active` as a task of a sweep.

    Parameters
    ----------
    pool : dict, arguments of `recordings`
    proxy : dict, options of `Proxy`
    """
    known = features(pool, proxy) if method == "bico" else None
    rows = run_active(
        recordings(**pool),
        method,
        seed,
        sizes=sizes,
        options=options,
        proxy=known,
    )
    for row in rows:
        if "chosen" in row:
            row["chosen"] = " ".join(map(str, row["chosen"]))
    return rows


def batch_rows(*, pool, n_first, options, proxy, seed):
    """The first batch of ten that each of `METHODS_SHOWN` asks for, described: a task of a sweep.

    Parameters
    ----------
    pool : dict, arguments of `recordings`
    n_first : int, labels of the first pool
    options : dict, of `MixMatch`
    proxy : dict, options of `Proxy`

    Returns
    -------
    list of dict, one for each method : method, seed, accuracy (percent, before the batch) and what
        `describe` says
    """
    data = recordings(**pool)
    model, labelled = first_model(data, n_first, seed=seed, options=options)
    known = features(pool, proxy)
    rows = []
    before = accuracy(model, data)
    labels = data.y[labelled]
    for method in METHODS_SHOWN:
        chosen = acquire(
            method,
            10,
            data,
            model,
            labelled,
            labels,
            proxy=known,
            seed=seed,
        )
        row = dict(method=method, seed=seed, accuracy=before)
        rows.append(row | describe(chosen, model, data, labelled))
    return rows


def first_model(data, n, *, seed, options):
    """MixMatch trained on the first `n` labels of a seed, as every method of `run_active` is:
    (model, labelled)."""
    labelled = first_labels(data.y, n, seed=seed)
    model = train(
        data,
        labelled,
        data.y[labelled],
        seed=training_seed(seed, n),
        **options,
    )
    return model, labelled


def training_seed(seed, n_labels):
    """The seed of a training: the same for every method, so that all have the same first model."""
    return 1000 * seed + n_labels


def run_active(
    data,
    method,
    seed,
    *,
    sizes,
    options,
    proxy=None,
):
    """One acquisition function with one seed: train, measure, ask the oracle, from the first size
    to the last.

    Parameters
    ----------
    data : Recordings
    method : one of `METHODS_SHOWN`
    sizes : list of int, numbers of labels, evenly spaced
    options : dict, of `MixMatch`
    proxy : Proxy, for "bico"

    Returns
    -------
    list of dict, one for each size : method, seed, labels (their number), accuracy (percent), and,
    for all but the last size, what `describe` says of the batch that follows, seconds_query and
    chosen (the batch); seconds_train
    """
    rows = []

    def measure(labelled, labels):
        start = time.perf_counter()
        model = train(
            data,
            labelled,
            labels,
            seed=training_seed(seed, len(labelled)),
            **options,
        )
        seconds = time.perf_counter() - start
        row = dict(
            method=method,
            seed=seed,
            labels=len(labelled),
            accuracy=accuracy(model, data),
            seconds_train=seconds,
        )
        rows.append(row)
        return model

    def propose(labelled, labels, pool, n):
        model = measure(labelled, labels)
        start = time.perf_counter()
        chosen = acquire(
            method,
            n,
            data,
            model,
            labelled,
            labels,
            proxy=proxy,
            seed=seed,
        )
        seconds = time.perf_counter() - start
        rows[-1] |= describe(chosen, model, data, labelled)
        rows[-1] |= dict(seconds_query=seconds, chosen=chosen.tolist())
        return chosen

    batch = sizes[1] - sizes[0]
    loop = ActiveLoop(
        propose,
        n_pool=len(data.X),
        classes=range(len(data.words)),
        batch_size=batch,
    )
    for index in first_labels(data.y, sizes[0], seed=seed):
        loop.label(index, data.y[index])
    loop.run(lambda index: data.y[index], n_rounds=len(sizes) - 1)
    measure(loop.labelled, loop.labels)
    return rows


def training_rows(method, *, pool, sizes, options, seed):
    """One training of Table 7, on the labels that "uniform" of `run_active` has at each size: a
    task of a sweep.

    Parameters
    ----------
    method : one of `TRAININGS`
    pool : dict, arguments of `recordings`
    sizes, options, seed : as in `run_active`

    Returns
    -------
    list of dict, one for each size : method, seed, labels, accuracy (percent)
    """
    data = recordings(**pool)
    rows = []
    step = min(sizes)
    labelled = first_labels(data.y, step, seed=seed)
    for n in range(step, max(sizes) + 1, step):
        if n > step:
            more = acquire(
                "uniform",
                step,
                data,
                None,
                labelled,
                None,
                seed=seed,
            )
            labelled = np.append(labelled, more)
        if n in sizes:
            model = train(
                data,
                labelled,
                data.y[labelled],
                training=method,
                seed=training_seed(seed, n),
                **options,
            )
            row = dict(
                method=method,
                seed=seed,
                labels=n,
                accuracy=accuracy(model, data),
            )
            rows.append(row)
    return rows
