"""Figures 4 and 5 of the bilevel paper: coresets for Gaussian mixtures (Section 5.2.1)."""

from itertools import combinations

import numpy as np
import pandas as pd
from handful.baselines import UniformCoreset
from handful.bilevel import BilevelCoreset, Forward
from handful.models import GaussianMixture
from handful.sensitivity.gmm import MixtureSensitivity
from scipy.optimize import linear_sum_assignment

# The number of components, of the data and of the model.
K = 5
# Random points from which the paper's selection starts.
N_START = 10
METHODS_SHOWN = ("uniform", "sensitivity", "bico", "bico quadratic")
_RULE = {"bico": "linear", "bico quadratic": "quadratic"}
# Ranges of the standard deviations along the two axes of a component, and the concentration of the
# Dirichlet weights.
LAWS = {
    "separated": ((0.35, 0.84), (0.14, 0.42), 5.0),
    "elongated": ((0.5, 1.2), (0.2, 0.6), 5.0),
    "round": ((0.3, 0.7), (0.3, 0.7), 5.0),
    # It is elongated, and the rarest component has about 4 % of the points.
    "rare": ((0.5, 1.2), (0.2, 0.6), 1.0),
    "overlapping": ((0.8, 1.92), (0.32, 0.96), 5.0),
}


def make_data(n, law="elongated", *, rng):
    """Points of a random mixture of five Gaussians in the plane, standardised; the paper does not
    print its own.

    Centres are uniform in a square of side 8, at least 2.5 apart; standard deviations along the
    axes of a component are uniform in the two ranges of its law in `LAWS`, its direction is random,
    weights are Dirichlet(a, ..., a).

    Returns
    -------
    array, shape (n, 2)
    """
    long, short, concentration = LAWS[law]
    centres = []
    while len(centres) < K:
        centre = rng.uniform(-4, 4, 2)
        if all(np.linalg.norm(centre - other) > 2.5 for other in centres):
            centres.append(centre)
    weights = rng.dirichlet(np.full(K, concentration))
    component = rng.choice(K, n, p=weights)
    X = np.empty((n, 2))
    for j, centre in enumerate(centres):
        angle = rng.uniform(0, np.pi)
        cosine = np.cos(angle)
        sine = np.sin(angle)
        turn = np.array([[cosine, -sine], [sine, cosine]])
        scale = turn * [rng.uniform(*long), rng.uniform(*short)]
        own = component == j
        X[own] = centre + rng.normal(size=(own.sum(), 2)) @ scale.T
    return (X - X.mean(axis=0)) / X.std(axis=0)


def fit(mixture, X, weights=None):
    """Parameters of the mixture fitted to weighted rows from scratch, as every subset is judged."""
    if weights is None:
        weights = np.ones(len(X))
    weights = np.asarray(weights, dtype=float)
    return mixture.solve(X, None, weights / weights.sum())


def nll(mixture, theta, X):
    """Mean negative log-likelihood of all rows in nats."""
    return float(mixture.losses(theta, X).mean())


def select(method, mixture, X, size, *, seed):
    """The coreset of one method, fitted."""
    if method == "uniform":
        return UniformCoreset(size, random_state=seed).fit(X)
    if method == "sensitivity":
        n_components = mixture.n_components
        return MixtureSensitivity(size, n_components=n_components, random_state=seed).fit(X)
    return _bilevel(
        method,
        mixture,
        size,
        N_START,
        seed,
    ).fit(X)


def _bilevel(method, mixture, size, n_start, seed):
    return BilevelCoreset(
        mixture,
        size=size,
        rule=_RULE[method],
        weighting="equal",
        strategy=Forward(n_start=n_start),
        outer_penalty=False,
        random_state=seed,
    )


def error_rows(
    seed,
    *,
    law,
    n,
    sizes,
    n_draws,
    **mixture,
):
    """Errors of mixtures fitted to every method's subsets of one data set: a task of the sweep.

    Parameters
    ----------
    seed : int, of the data set and of the selections
    law : a key of `LAWS`
    n : points
    sizes : list of int, the sizes m
    n_draws : subsets drawn for each size by the methods that draw at random, whose errors are
        averaged
    mixture : options of `GaussianMixture`, which selects and fits

    Returns
    -------
    DataFrame, one row per (method, size): nll (nats, of all rows) and error, ``nll / nll of the
    full data's fit - 1``
    """
    mixture = GaussianMixture(K, **mixture)
    X = make_data(n, law, rng=np.random.default_rng(seed))
    full = nll(mixture, fit(mixture, X), X)
    of_all = dict(
        method="full",
        size=len(X),
        nll=full,
        error=0.0,
    )
    rows = [of_all]

    def add(method, size, loss):
        row = dict(
            method=method,
            size=size,
            nll=loss,
            error=loss / full - 1,
        )
        rows.append(row)

    for method in METHODS_SHOWN:
        if method in _RULE:
            # Prefixes of the largest selection are the smaller ones.
            largest = select(
                method,
                mixture,
                X,
                max(sizes),
                seed=seed,
            )
            for size in sizes:
                few = X[largest.indices_[:size]]
                add(method, size, nll(mixture, fit(mixture, few), X))
    for method in METHODS_SHOWN:
        if method not in _RULE:
            for size in sizes:
                losses = []
                for i in range(n_draws):
                    drawn = select(
                        method,
                        mixture,
                        X,
                        size,
                        seed=1000 * seed + i,
                    )
                    theta = fit(mixture, X[drawn.indices_], drawn.weights_)
                    losses.append(nll(mixture, theta, X))
                add(method, size, np.mean(losses))
    return pd.DataFrame(rows)


def times_better(rows, method, than):
    """How many times smaller a method's error is, seed by seed; an error below a thousandth counts
    as a thousandth.

    Parameters
    ----------
    rows : DataFrame with the rows of `error_rows` and columns law and seed
    method, than : str

    Returns
    -------
    DataFrame of ratios of absolute errors, one row per (law, seed), one column per size
    """
    errors = rows.assign(error=rows.error.abs().clip(lower=1e-3))
    wide = errors.pivot_table(
        index=["law", "seed"],
        columns=["method", "size"],
        values="error",
    )
    return wide[than] / wide[method]


def density(mixture, theta, span, n_grid=120):
    """log p(x) on a square grid, for contour lines.

    Returns
    -------
    grid : shape (n_grid,), coordinates along both axes
    log_p : shape (n_grid, n_grid)
    """
    grid = np.linspace(-span, span, n_grid)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    return grid, -mixture.losses(theta, points).reshape(n_grid, n_grid)


def component_errors(mixture, theta, reference, n_features=2):
    """How far the components are from those of another fit, matched by their means.

    Returns
    -------
    dict : mean_error, root mean squared distance of the means (units of X); covariance_error, mean
        relative Frobenius distance of the covariances; weight_error, mean absolute difference of
        the mixture weights
    """
    pi, means, covariances = mixture.unpack(theta, n_features)
    pi_0, means_0, covariances_0 = mixture.unpack(reference, n_features)
    sq_dist = ((means[:, None] - means_0) ** 2).sum(axis=2)
    own, other = linear_sum_assignment(sq_dist)
    off = np.linalg.norm(covariances[own] - covariances_0[other], axis=(1, 2))
    sizes = np.linalg.norm(covariances_0[other], axis=(1, 2))
    return {
        "mean_error": float(np.sqrt(sq_dist[own, other].mean())),
        "covariance_error": float((off / sizes).mean()),
        "weight_error": float(np.abs(pi[own] - pi_0[other]).mean()),
    }


def component_rows(
    seed,
    *,
    law,
    n,
    sizes,
    methods,
    **mixture,
):
    """Errors of the components themselves on one data set, a task of the sweep: one row per
    (method, size).

    Parameters as in `error_rows`, columns as in `component_errors`, and the error of `error_rows`.
    """
    mixture = GaussianMixture(K, **mixture)
    X = make_data(n, law, rng=np.random.default_rng(seed))
    reference = fit(mixture, X)
    full = nll(mixture, reference, X)
    rows = []
    for method in methods:
        chosen = select(
            method,
            mixture,
            X,
            max(sizes),
            seed=seed,
        ).indices_
        for size in sizes:
            theta = fit(mixture, X[chosen[:size]])
            error = nll(mixture, theta, X) / full - 1
            row = dict(method=method, size=size, error=error)
            rows.append(row | component_errors(mixture, theta, reference))
    return pd.DataFrame(rows)


def one_gaussian(X, subsets, prior=1e-3):
    """The fits of `GaussianMixture(1)` to subsets of rows, which have a closed form.

    Parameters
    ----------
    X : shape (n, d)
    subsets : int array, shape (k, m)
    prior : as in `GaussianMixture`

    Returns
    -------
    loss : shape (k,), mean negative log-likelihood of all rows in nats; covariances : shape (k, d,
        d)
    """
    rows = X[np.asarray(subsets)]
    means = rows.mean(axis=1)
    centred = rows - means[:, None]
    scatter = centred.swapaxes(1, 2) @ centred / rows.shape[1]
    covariances = scatter + prior * np.eye(X.shape[1])
    covariances /= 1 + prior
    off = X - means[:, None]
    precisions = np.linalg.inv(covariances)
    sq_dist = np.einsum("knd,kde,kne->kn", off, precisions, off).mean(axis=1)
    _, log_volume = np.linalg.slogdet(2 * np.pi * covariances)
    return 0.5 * (sq_dist + log_volume), covariances


def exact_rows(seed, *, n=12, size=4, n_start=2):
    """What the rules choose beside what is best, for one Gaussian and so few rows that every subset
    can be tried.

    Returns
    -------
    list of dict with seed, method, excess_loss (nats above the fit to all rows), covariance_error
    (as in `component_errors`) and volume (the ellipse's area over that of all rows). Methods are
    "best" of all subsets, "exact greedy" (from the same random start, every row is tried and the
    best kept), "bico" and "bico quadratic" (the rule of the first and of the second order), and
    "random": the median over all subsets
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ [[1.0, 0.3], [0.0, 0.4]]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    every = np.array(list(combinations(range(n), size)))
    chosen = {"best": _best_of(X, every), "random": every}
    for method in _RULE:
        selector = _bilevel(
            method,
            GaussianMixture(1, n_init=1),
            size,
            n_start,
            seed,
        )
        chosen[method] = selector.fit(X).indices_[None]
    greedy = chosen["bico"][:, :n_start]
    while greedy.shape[1] < size:
        others = np.setdiff1d(np.arange(n), greedy)[:, None]
        held = np.repeat(greedy, len(others), axis=0)
        greedy = _best_of(X, np.hstack([held, others]))
    chosen["exact greedy"] = greedy
    rows = []
    (full,), (reference,) = one_gaussian(X, [range(n)])
    for method, subsets in chosen.items():
        loss, covariances = one_gaussian(X, subsets)
        off = np.linalg.norm(covariances - reference, axis=(1, 2)) / np.linalg.norm(reference)
        volume = np.sqrt(np.linalg.det(covariances) / np.linalg.det(reference))
        row = dict(
            seed=seed,
            method=method,
            excess_loss=float(np.median(loss - full)),
            covariance_error=float(np.median(off)),
            volume=float(np.median(volume)),
        )
        rows.append(row)
    return rows


def _best_of(X, subsets):
    """The subset whose Gaussian has the least loss of all rows, shape (1, m)."""
    losses, _ = one_gaussian(X, subsets)
    return subsets[[losses.argmin()]]
