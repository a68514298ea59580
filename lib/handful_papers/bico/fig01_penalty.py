"""Figure 1 of the bilevel paper: the L1/2 penalty on the simplex, and what it does to weights
(Section 3.5.3)."""

import numpy as np
from handful.bilevel.weights import descend

from handful_papers.bico import multiclass
from handful_papers.bico.cntk_features import image_features

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3.0) / 2.0]])


def simplex_grid(n):
    """Points of the simplex in three dimensions, ``n (n + 1) / 2`` of them, and their places in the
    plane.

    Returns
    -------
    w : shape (points, 3), non-negative, adding up to one
    place : shape (points, 2), in an equilateral triangle of side one
    """
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    inside = i + j < n
    first = i[inside] / (n - 1)
    second = j[inside] / (n - 1)
    w = np.column_stack([first, second, np.maximum(1.0 - first - second, 0.0)])
    return w, w @ CORNERS


def penalty(w, q=0.5):
    """``sum_i w_i^q`` for weights in the last axis; the paper takes q = 1/2."""
    return np.sum(np.maximum(w, 0.0) ** q, axis=-1)


def smallest_falls(n_directions, n_steps, *, rng, q=0.5):
    """Smallest fall of the penalty from one step to the next, along random ways from the centre to
    the boundary.

    Returns
    -------
    shape (n_directions,), positive where it falls at every step of the way
    """
    falls = []
    for _ in range(n_directions):
        corner = rng.dirichlet(np.ones(3))
        away = corner - corner.mean()
        reach = (1.0 / 3.0) / -away.min()
        way = 1.0 / 3.0 + np.linspace(0.0, reach, n_steps)[:, None] * away
        falls.append(-np.diff(penalty(way, q)).max())
    return np.array(falls)


def path_rows(
    dataset,
    seed,
    *,
    n_train,
    n_landmarks,
    gamma,
    l2,
    share,
):
    """Positive weights along Algorithm 2 on one split, with its penalty and without: a task of the
    sweep.

    Parameters
    ----------
    dataset, n_train, n_landmarks, gamma, seed : as in `image_features` and `split`; 100 rows more
        validate
    l2 : penalty of the inner problem
    share : percent of positive weights at which the run ends

    Returns
    -------
    list of dict: seed, method, level (percent), step (the first after which at most `level` percent
        of the weights are positive) and positive (percent, after that step); at the level `share`
        where either method ends, without the penalty at the latest after as many steps
    """
    data = image_features(
        dataset,
        n_train=n_train + 100,
        n_test=300,
        n_landmarks=n_landmarks,
        gamma=gamma,
    )
    data = multiclass.split(
        data,
        n_train=n_train,
        n_validation=100,
        seed=seed,
    )
    sizes = multiclass.sizes_of(data, [share])
    variants = multiclass.Variants(
        data,
        l2,
        sizes,
        seed=seed,
        outer="train",
    )
    counts = []
    variants.regularised(watch=lambda support: counts.append(int(support)))
    every = variants.holding(range(len(data)), weighted=True)
    without = descend(every, max_iter=len(counts), tol=0.0)
    shares = 100 * np.array(counts) / n_train
    rows = []
    for level in range(100, share, -5):
        first = int(np.argmax(shares <= level))
        row = dict(
            method="penalty",
            level=level,
            step=first,
            positive=shares[first],
        )
        rows.append(row)
    left = {"penalty": shares[-1], "no penalty": 100 * np.count_nonzero(without) / n_train}
    for method, positive in left.items():
        last = len(counts) - 1
        row = dict(
            method=method,
            level=share,
            step=last,
            positive=positive,
        )
        rows.append(row)
    return [dict(seed=seed) | row for row in rows]


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    last = run.rows[run.rows.level == run.parameters["share"]]
    left = last.pivot(index="seed", columns="method", values="positive")
    return {"bico-fig01-sparsity": (left["no penalty"] / left["penalty"]).to_numpy()}
