"""dattri's attribution table: how well scores of rows foretell what training on random halves does
to predictions."""

import time

import numpy as np
from handful import Logistic, influence
from handful.data import load
from handful.data.dataset import split
from scipy.special import softmax
from scipy.stats import rankdata

from handful_papers.public.unrolled import unrolled
from handful_papers.published import published

ITEM = "dattri, MNIST, logistic regression"
# Mean and deviation of the pixels, as the benchmark takes them.
SCALE = {"mnist": (0.1307, 0.3081)}
BATCH = 32
RATE = 0.01
# Trainings whose gradients "TracIn" multiplies.
CHECKPOINTS = 10
# The penalty of `unrolled`: none to speak of, as in the benchmark.
FEW = 1e-6


def images(dataset, n, t):
    """The first n training and t test images and their labels: X, y, X_test, y_test."""
    data = split(load(dataset), test_size=0.2, random_state=0)
    top = float(data.X.max())
    mean, sd = SCALE.get(dataset, (0.0, 1.0))

    def scaled(A):
        return ((np.asarray(A, np.float32) / top - mean) / sd).astype(np.float32)

    X = scaled(data.X[:n])
    T = scaled(data.X_test[:t])
    y = data.y[:n].astype(int)
    y_test = data.y_test[:t].astype(int)
    return X, y, T, y_test


def trained(X, y, subsets, n_epochs, rng):
    """Weights (k, d + 1, c) of a softmax regression trained on each of k subsets by SGD from
    torch's random start."""
    A = np.column_stack([X, np.ones(len(X), X.dtype)])
    Y = np.eye(y.max() + 1, dtype=X.dtype)[y]
    k = len(subsets)
    d = A.shape[1]
    c = Y.shape[1]
    drawn = rng.uniform(-1, 1, (k, d, c)).astype(X.dtype)
    W = drawn / np.sqrt(X.dtype.type(d - 1))
    for _ in range(n_epochs):
        orders = np.stack([rng.permutation(rows) for rows in subsets])
        for start in range(0, orders.shape[1], BATCH):
            rows = orders[:, start : start + BATCH]
            moved = softmax(A[rows] @ W, axis=-1) - Y[rows]
            slope = A[rows].transpose(0, 2, 1) @ moved
            W -= X.dtype.type(RATE / rows.shape[1]) * slope
    return W


def losses_of(W, T, t):
    """Cross-entropy of each test row under each of k weights, shape (k, tests)."""
    Z = np.column_stack([T, np.ones(len(T), T.dtype)]) @ W
    Z -= Z.max(axis=-1, keepdims=True)
    own = np.take_along_axis(Z, t[None, :, None], axis=-1)[..., 0]
    return np.log(np.exp(Z).sum(axis=-1)) - own


def agreements(a, b):
    """Spearman's correlation of two arrays over their first axis, for each column."""
    a = rankdata(a, axis=0)
    b = rankdata(b, axis=0)
    a = a - a.mean(axis=0)
    b = b - b.mean(axis=0)
    squares = (a**2).sum(axis=0) * (b**2).sum(axis=0)
    sizes = np.sqrt(squares)
    return (a * b).sum(axis=0) / sizes


def lds(scores, subsets, losses):
    """Linear datamodeling scores: the summed scores of a subset against the test losses of training
    on it, by ranks."""
    foretold = np.stack([scores[rows].sum(axis=0) for rows in subsets])
    return agreements(foretold, -losses)


def gradient_products(X, y, T, t, W):
    """TracIn's product of each row's gradient with each test row's, summed over weights (k, d + 1,
    c)."""
    k = y.max() + 1
    products = 0.0
    for one in W:
        coef = one[:-1]
        slopes = softmax(X @ coef + one[-1], axis=-1) - np.eye(k)[y]
        tests = softmax(T @ coef + one[-1], axis=-1) - np.eye(k)[t]
        products = products + (X @ T.T + 1) * (slopes @ tests.T)
    return products


def score_rows(
    dataset,
    seed,
    *,
    n,
    t,
    n_subsets,
    n_epochs,
    n_replays,
    penalties,
    components,
):
    """LDS of each score against one truth, and the agreement of that truth with a second one on the
    same subsets.

    Parameters
    ----------
    dataset : str, in the registry
    seed : int, of the subsets, of both truths and of the replays
    n, t : int, training and test rows
    n_subsets : int, random halves that are trained on, once for each truth
    n_epochs : int, of a training on a half; scores take as many steps, on all rows
    n_replays : int, replays whose mean is the last score
    penalties : list of float, `l2` of "influence", which hangs on it
    components : int, principal components that "influence" and "unrolled" are computed in

    Returns
    -------
    list of dict with method, lds, share (of the ceiling) and CPU seconds of the scores
    """
    X, y, T, b = images(dataset, n, t)
    rng = np.random.default_rng((seed, 0))
    subsets = [rng.choice(n, n // 2, replace=False) for _ in range(n_subsets)]
    losses = losses_of(
        trained(X, y, subsets, n_epochs, rng),
        T,
        b,
    )
    second = losses_of(
        trained(X, y, subsets, n_epochs, rng),
        T,
        b,
    )
    # The correlation with a truth without noise, were it known.
    ceiling = np.sqrt(max(agreements(losses, second).mean(), 0.0))
    full = dict(
        method="ceiling",
        l2=0.0,
        lds=float(ceiling),
        seconds=0.0,
    )
    found = [full]

    def add(method, start, scores, l2=0.0):
        seconds = time.process_time() - start
        mean = lds(scores, subsets, losses).mean()
        row = dict(
            method=method,
            l2=l2,
            lds=mean,
            seconds=seconds,
        )
        found.append(row)

    add("random", time.process_time(), rng.normal(size=(n, len(T))))
    start = time.process_time()
    ends = trained(
        X,
        y,
        [np.arange(n)] * CHECKPOINTS,
        n_epochs,
        rng,
    )
    add(
        "TracIn",
        start,
        gradient_products(X, y, T, b, ends),
    )
    start = time.process_time()
    _, directions = np.linalg.eigh(np.cov(X, rowvar=False))
    main = directions[:, -components:].astype(X.dtype)
    middle = X.mean(axis=0)
    P = (X - middle) @ main
    Q = (T - middle) @ main
    for l2 in penalties:
        add(
            "influence",
            start,
            influence(
                Logistic(l2=l2),
                P,
                y,
                Q,
                b,
            ),
            l2,
        )
        start = time.process_time()
    options = dict(
        n_epochs=n_epochs // 2,
        batch_size=BATCH,
        learning_rate=RATE,
        n_replays=1,
    )
    total = 0.0
    start = time.process_time()
    for replay in range(n_replays):
        order = n_replays * seed + replay
        total = total + unrolled(
            Logistic(l2=FEW),
            P,
            y,
            Q,
            b,
            random_state=order,
            **options,
        )
        if replay == 0:
            add("unrolled, one replay", start, total)
        elif replay == n_replays - 1:
            add("unrolled, mean", start, total)
    return with_share(found, ceiling)


def with_share(rows, ceiling):
    """Rows with the share of the ceiling that each LDS is; 0 where the truths do not agree at
    all."""
    return [row | {"share": row["lds"] / ceiling if ceiling else 0.0} for row in rows]


def printed(item=ITEM):
    """The published LDS of each method, a Series, the largest first."""
    table = published("public", item)
    return table.set_index("row").value.sort_values(ascending=False)


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    theirs = printed()

    def of(method):
        mine = rows[rows.method == method]
        return mine.groupby(["l2", "seed"]).lds.mean().unstack("l2")

    one = of("unrolled, one replay")[0.0]
    tuned = of("influence").max(axis=1)
    return {
        "public-lds-published": (one - theirs.max()).to_numpy(),
        "public-lds-influence": (one - tuned).to_numpy(),
    }
