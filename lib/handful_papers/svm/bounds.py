"""Bounds on the sensitivity against the truth, and which points are sensitive, for the
notebooks."""

import numpy as np
import pandas as pd
from handful.sensitivity.svm import SVMCoreset
from handful.sensitivity.svm_bounds import printed_bound, tight_bound
from handful.svm import LinearSVM
from handful.svm.interior_point import minimise, with_ones

from handful_papers.svm.errors import svm_problem


def exact_sensitivity(
    X,
    y,
    index,
    *,
    price=1.0,
    sample_weight=None,
    tol=1e-9,
    max_iter=50,
):
    """The sensitivity of one point, by fractional programming (Dinkelbach 1967).

    Above ``s = u / U`` the numerator minus s times F is concave in w; each round maximises it, a
    weighted SVM with a linear term, and takes the ratio at the maximiser for the next s. For small
    data: a round costs an SVM.

    Parameters
    ----------
    X : float array, shape (n, d)
    y : shape (n,), -1 or +1
    index : int, the point
    price : float; of a unit of hinge loss
    sample_weight : shape (n,); ones if None
    tol : float, relative change of s at which to stop
    max_iter : int, rounds

    Returns
    -------
    float; the ratio that some w reaches (so never above the sensitivity), or u / U of the point's
    class, which a bias going to infinity approaches
    """
    u = np.ones(len(y)) if sample_weight is None else sample_weight
    z = y[index] * np.append(X[index], 1.0)
    A = with_ones(X)
    total = u.sum()
    s = least = u[index] / u[y == y[index]].sum()
    s *= 1.0 + 1e-6
    for _ in range(max_iter):
        curvature = s - u[index] / total
        prices = s * price * u / curvature
        slope = -price * u[index] * z / curvature
        w = minimise(
            A,
            y,
            prices,
            tol=1e-10,
            linear=slope,
        ).w
        norm = 0.5 * w[:-1] @ w[:-1]
        cost = norm + price * u @ np.maximum(0.0, 1.0 - y * (A @ w))
        own_norm = u[index] / total * norm
        own_loss = price * u[index] * max(0.0, 1.0 - z @ w)
        ratio = (own_norm + own_loss) / cost
        if ratio <= s * (1.0 + tol):
            break
        s = ratio
    return max(least, ratio)


def printed_bound_counterexample(distance=2.3, light=1e-3, heavy=1e5):
    """Three points on a line for which the printed bound is below the sensitivity.

    Two positive points, at 1 (weight 1) and at ``1 - distance`` (weight `light`), one negative at
    -1 (weight `heavy`), price = 1/2, one cluster per class. As `light` goes to 0 and `heavy` to
    infinity the optimum is ``w = 1, b = 0``, and it is where the light point matters most.

    Returns
    -------
    X : float array, shape (3, 1)
    y : float array, shape (3,)
    sample_weight : float array, shape (3,)
    price : float; of a unit of hinge loss
    index : int, the light point
    """
    X = np.array([[1.0], [1.0 - distance], [-1.0]])
    y = np.array([1.0, 1.0, -1.0])
    sample_weight = np.array([1.0, light, heavy])
    return X, y, sample_weight, 0.5, 1


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
    far = 4.0 * y[outlier, None] * [1.0, 0.3]
    X[outlier] = rng.normal(scale=0.6, size=(outlier.sum(), 2)) - far
    return X, y, outlier


def sensitivity_bounds(X, y, n_clusters, *, seed):
    """The bounds of every point, for several numbers of clusters in each class.

    Returns
    -------
    dict : "k=3" -> the tight bound, "paper k=3" -> the paper's; float arrays, shape (n,)
    """
    found = {}
    for prefix, rule in (("", "tight"), ("paper ", "paper")):
        for k in n_clusters:
            selector = SVMCoreset(
                50,
                rule=rule,
                n_clusters=k,
                random_state=seed,
            )
            found[f"{prefix}k={k}"] = selector.fit(X, y).sensitivities_
    return found


def outlier_scores(dataset, *, data_seed, seed):
    """Mean bound of the misclassified and of the farthest points, over that of the others: one row
    a bound.

    Returns
    -------
    list of dict with dataset, method, seed, misclassified, far
    """
    problem = svm_problem(dataset, seed=data_seed)
    rows = []
    model = LinearSVM().fit(problem.X, problem.y)
    wrong = model.predict(problem.X) != problem.y
    far = _farthest_tenths(problem)
    for rule, n_clusters in (("paper", "log"), ("tight", "auto")):
        selector = SVMCoreset(rule=rule, n_clusters=n_clusters, random_state=seed)
        bound = selector.fit(problem.X, problem.y).sensitivities_
        row = dict(dataset=problem.label, method=f"svm {rule}", seed=seed)
        row["misclassified"] = bound[wrong].mean() / bound[~wrong].mean()
        row["far"] = bound[far].mean() / bound[~far].mean()
        rows.append(row)
    return rows


def _farthest_tenths(problem):
    """A mask of the tenth of each class that lies farthest from its mean."""
    far = np.zeros(problem.n, dtype=bool)
    for label in (-1, 1):
        mine = np.flatnonzero(problem.y == label)
        X = problem.X[mine]
        distance = np.linalg.norm(X - X.mean(axis=0), axis=1)
        far[mine[distance > np.quantile(distance, 0.9)]] = True
    return far


def bound_rows(
    X,
    y,
    sample_weight,
    price,
    index,
    *,
    labels=None,
):
    """The bounds of one point and its true sensitivity; its class is one cluster, or split by
    `labels`.

    Returns
    -------
    pandas.DataFrame with bound, value, exact, ratio: three rows
    """
    if labels is None:
        labels = np.zeros(len(y), dtype=int)
    l2 = 1.0 / (price * sample_weight.sum())
    model = LinearSVM(l2=l2, tol=1e-9).fit(X, y, sample_weight=sample_weight)
    mine = (y == y[index]) & (labels == labels[index])
    centre = np.average(
        X[mine],
        axis=0,
        weights=sample_weight[mine],
    )
    # The bounds take one entry for each point.
    place = (
        np.array([np.linalg.norm(X[index] - centre)]),
        sample_weight[[index]],
        np.array([sample_weight[mine].sum()]),
        sample_weight.sum(),
    )
    how = dict(price=price, opt=model.lower_bound_)
    bounds = {
        "printed (4/9)": printed_bound(*place, **how, kappa=4 / 9),
        "code (2/3)": printed_bound(*place, **how, kappa=2 / 3),
        "tight": tight_bound(*place, **how),
    }
    exact = exact_sensitivity(
        X,
        y,
        index,
        price=price,
        sample_weight=sample_weight,
    )
    values = [value[0] for value in bounds.values()]
    rows = pd.DataFrame({"bound": list(bounds), "value": values})
    return rows.assign(exact=exact, ratio=rows.value / exact)


def line_bound_rows(distances):
    """`bound_rows` of the three points on a line, for several distances of the two positive
    ones."""
    return pd.concat(
        [bound_rows(*printed_bound_counterexample(D)).assign(distance=D) for D in distances]
    )


def real_bound_rows(dataset, *, n_points, data_seed):
    """`bound_rows` of random points of a data set, each class a cluster."""
    problem = svm_problem(dataset, seed=data_seed)
    some = np.random.default_rng(data_seed).choice(problem.n, n_points, replace=False)
    ones = np.ones(problem.n)
    frames = [bound_rows(problem.X, problem.y, ones, 1.0, i) for i in some]
    return pd.concat(frames)


def random_bound_rows(instances, *, per_instance=4, data_seed=0):
    """`bound_rows` of points of random instances: weights, scales, label shares and partitions all
    drawn."""
    frames = []
    for instance in instances:
        rng = np.random.default_rng([data_seed, instance])
        n = int(rng.integers(4, 26))
        d = int(rng.integers(1, 5))
        y = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
        y[:2] = 1, -1
        X = rng.normal(size=(n, d)) + y[:, None] * rng.normal(size=d)
        X *= 10 ** rng.uniform(-1, 1)
        u = 10 ** rng.uniform(-rng.uniform(0, 4), 0, size=n)
        price = 10 ** rng.uniform(-3, 2)
        labels = rng.integers(rng.integers(1, 4), size=n)
        for i in rng.choice(n, per_instance, replace=False):
            rows = bound_rows(
                X,
                y,
                u,
                price,
                i,
                labels=labels,
            )
            frames.append(rows.assign(seed=instance, point=i))
    return pd.concat(frames, ignore_index=True)
