"""Bounds on the sensitivity against the truth, and which points are sensitive, for the notebooks."""

import numpy as np
import pandas as pd

from handful.sensitivity.svm import SVMCoreset
from handful.sensitivity.svm_bounds import exact_sensitivity, printed_bound, tight_bound
from handful.svm import LinearSVM


def overlapping_blobs(n, *, outliers=0.04, rng):
    """Two overlapping classes in the plane, and a few outliers far out on the wrong side.

    Returns
    -------
    X : float array, shape (n, 2)
    y : float array of -1 and +1, shape (n,)
    outlier : bool array, shape (n,)
    """
    y = np.tile([1.0, -1.0], -(-n // 2))[:n]
    outlier = np.arange(n) >= n - round(outliers * n)
    X = rng.normal(size=(n, 2)) + 1.5 * y[:, None]
    X[outlier] = rng.normal(scale=0.6, size=(outlier.sum(), 2)) - 4.0 * y[outlier, None] * [1.0, 0.3]
    return X, y, outlier


def outlier_scores(problem, *, seed=0):
    """Mean bound of the misclassified and of the farthest points, over that of the others.

    Returns
    -------
    pandas.Series with misclassified, far
    """
    bound = SVMCoreset(random_state=seed).fit(problem.X, problem.y).sensitivities_
    wrong = LinearSVM().fit(problem.X, problem.y).predict(problem.X) != problem.y
    far = np.zeros(problem.n, dtype=bool)
    for label in (-1, 1):
        mine = np.flatnonzero(problem.y == label)
        distance = np.linalg.norm(problem.X[mine] - problem.X[mine].mean(axis=0), axis=1)
        far[mine[distance > np.quantile(distance, 0.9)]] = True
    return pd.Series({name: bound[m].mean() / bound[~m].mean() for name, m in (("misclassified", wrong), ("far", far))})


def bound_rows(X, y, sample_weight, lam, index, *, labels=None):
    """The bounds of one point and its true sensitivity; its class is one cluster, or split by `labels`.

    Returns
    -------
    pandas.DataFrame with bound, value, exact, ratio: three rows
    """
    labels = np.zeros(len(y), dtype=int) if labels is None else labels
    opt = LinearSVM(lam=lam, tol=1e-9).fit(X, y, sample_weight=sample_weight).lower_bound_
    mine = (y == y[index]) & (labels == labels[index])
    centre = np.average(X[mine], axis=0, weights=sample_weight[mine])
    distance = np.array([np.linalg.norm(X[index] - centre)])
    weights = sample_weight[[index]], np.array([sample_weight[mine].sum()]), sample_weight.sum()
    exact = exact_sensitivity(X, y, index, lam=lam, sample_weight=sample_weight)
    values = {
        "printed (4/9)": printed_bound(distance, *weights, lam=lam, opt=opt, kappa=4 / 9)[0],
        "code (2/3)": printed_bound(distance, *weights, lam=lam, opt=opt, kappa=2 / 3)[0],
        "tight": tight_bound(distance, *weights, lam=lam, opt=opt)[0],
    }
    return pd.DataFrame([dict(bound=name, value=v, exact=exact, ratio=v / exact) for name, v in values.items()])


def random_bound_rows(n_instances, *, per_instance=4, seed=0):
    """`bound_rows` of points of random instances: weights, scales, label shares and partitions all drawn."""
    frames = []
    for instance in range(n_instances):
        rng = np.random.default_rng([seed, instance])
        n, d = int(rng.integers(4, 26)), int(rng.integers(1, 5))
        y = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
        y[:2] = 1, -1
        X = (rng.normal(size=(n, d)) + y[:, None] * rng.normal(size=d)) * 10 ** rng.uniform(-1, 1)
        u = 10 ** rng.uniform(-rng.uniform(0, 4), 0, size=n)
        lam, labels = 10 ** rng.uniform(-3, 2), rng.integers(rng.integers(1, 4), size=n)
        for i in rng.choice(n, per_instance, replace=False):
            frames.append(bound_rows(X, y, u, lam, i, labels=labels).assign(seed=instance, point=i))
    return pd.concat(frames, ignore_index=True)
