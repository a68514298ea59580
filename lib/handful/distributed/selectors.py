"""What `Selector.fit` calls for dask data: the coreset of each selector that can read its data in chunks."""

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from handful.baselines import KCenter, KMeansPlusPlus, StratifiedCoreset, UniformCoreset
from handful.baselines.stratified import allocate
from handful.checks import as_generator, check_integer, check_magnitude, check_number, check_size, signed_labels
from handful.distributed.chunks import Chunks, labels_in
from handful.distributed.draws import importance_draw
from handful.distributed.lightweight import lightweight_rows
from handful.distributed.seeding import farthest_first, kmeans_parallel, nearest
from handful.distributed.svm import svm_coreset
from handful.sensitivity import LightweightCoreset, LogisticSensitivity, MixtureSensitivity, SVMCoreset
from handful.sensitivity.gmm import mixture_bounds
from handful.sensitivity.logistic import logistic_bounds


def fit(selector, X, y, sample_weight):
    """Choose the coreset of a selector from dask data; sets `indices_` and `weights_`.

    Raises
    ------
    ValueError
        for selectors that need all rows at once, with the way out, and as `Selector.fit`
    """
    select = next((SELECT[cls] for cls in type(selector).__mro__ if cls in SELECT), None)
    name = type(selector).__name__
    if select is None:
        raise ValueError(
            f"{name} needs all rows at once and takes no dask data; MergeReduce({name}(...), size=...) does, a part at "
            "a time, or choose from a part: X[:100_000].compute()."
        )
    chunks = Chunks(X, y, sample_weight, classes=selector._needs_y)
    if chunks.sparse and not isinstance(selector, SPARSE):
        raise ValueError(f"{name} takes no sparse chunks: make them dense, or use UniformCoreset or SVMCoreset.")
    if selector._needs_y and not chunks.has_y:
        raise ValueError(
            f"{name} requires y to be passed, or a bag of (X, y): it selects the points on which a model of y can be "
            "trained."
        )
    if selector._reads:
        check_magnitude(np.array([chunks.largest]), "X", chunks.dtype)
    check_size(selector.size, int(chunks.present.sum()), chunks.n, repeats=selector._repeats)
    chunks.describe(selector)
    indices, weights = select(selector, chunks, as_generator(selector.random_state))
    selector.indices_ = np.asarray(indices, dtype=np.intp)
    selector.weights_ = np.asarray(weights, dtype=np.float64)
    return selector


def _uniform(selector, chunks, rng):
    # the draws of one machine: places among the rows of positive weight
    present = int(chunks.present.sum())
    indices = chunks.nth(rng.choice(present, selector.size, replace=False))
    return indices, chunks.take(indices)[2] * (present / selector.size)


def _stratified(selector, chunks, rng):
    if selector.by is not None:
        raise ValueError("over dask data StratifiedCoreset takes its strata from y: give the column as y, and by=None.")
    counts = chunks.label_counts
    classes, n_rows = list(counts), np.array(list(counts.values()))
    if selector.size < len(classes):
        raise ValueError(
            f"size must be at least the number of strata, got size={selector.size} for {len(classes)} classes in y; "
            "UniformCoreset draws without strata."
        )
    (mass,) = chunks.reduce(_class_masses, classes)
    n_drawn = allocate(mass, n_rows, selector.size)
    rows = [chunks.nth(rng.choice(n, k, replace=False), c) for c, n, k in zip(classes, n_rows, n_drawn)]
    drawn, stratum = np.concatenate(rows), np.repeat(np.arange(len(classes)), n_drawn)
    place = np.concatenate([np.arange(k) for k in n_drawn])
    order = np.argsort((place + rng.random(len(classes))[stratum]) / n_drawn[stratum], kind="stable")
    return drawn[order], (chunks.take(drawn)[2] * (n_rows / n_drawn)[stratum])[order]


def _class_masses(chunk, classes):
    labels = labels_in(chunk.y)
    return (np.array([chunk.weights[labels == label].sum() for label in classes]),)


def _lightweight(selector, chunks, rng):
    return lightweight_rows(chunks, selector.size, rng)[1:]


def _centers(selector, chunks, rng):
    if selector.weighting not in ("binary", "cells"):
        raise ValueError(f"weighting must be 'binary' or 'cells', got {selector.weighting!r}.")
    find = farthest_first if isinstance(selector, KCenter) else kmeans_parallel
    indices, centers = find(chunks, selector.size, rng)
    if selector.weighting == "binary":
        return indices, np.full(selector.size, chunks.total / selector.size)
    return indices, chunks.reduce(_cells, centers)[0]


def _cells(chunk, centers):
    if not len(chunk):
        return (np.zeros(len(centers)),)
    return (np.bincount(pairwise_distances_argmin(chunk.X, centers), weights=chunk.weights, minlength=len(centers)),)


def _mixture(selector, chunks, rng):
    check_integer("n_components", selector.n_components)
    k = min(selector.n_components, int(chunks.present.sum()))
    centers = kmeans_parallel(chunks, k, rng)[1]
    mass, spread = chunks.reduce(_cluster_costs, centers)
    there = mass > 0
    return importance_draw(chunks, _mixture_scores, (centers[there], mass[there], spread[there]), selector.size, rng)


def _cluster_costs(chunk, centers):
    label, sq_dist = nearest(chunk.X, centers)
    u = chunk.weights
    return tuple(np.bincount(label, weights=values, minlength=len(centers)) for values in (u, u * sq_dist))


def _mixture_scores(chunk, centers, mass, spread):
    return chunk.weights * mixture_bounds(*nearest(chunk.X, centers), mass, spread)


def _logistic(selector, chunks, rng):
    check_integer("n_clusters", selector.n_clusters)
    check_number("radius", selector.radius, above=0)
    classes, _ = signed_labels(np.array(list(chunks.label_counts)), "logistic regression")
    k = min(selector.n_clusters, int(chunks.present.sum()))
    centers = kmeans_parallel(chunks, k, rng, points=_signed, shared=(classes,))[1]
    mass, sums = chunks.reduce(_cluster_sums, classes, centers)
    there = mass > 0
    shared = classes, centers[there], mass[there], sums[there], selector.radius
    return importance_draw(chunks, _logistic_scores, shared, selector.size, rng)


def _signed(chunk, classes):
    sign = np.where(chunk.y == classes[1], 1.0, -1.0)
    return np.column_stack([chunk.X, np.ones(len(chunk))]) * sign[:, None]


def _cluster_sums(chunk, classes, centers):
    Z, sums = _signed(chunk, classes), np.zeros(centers.shape)
    label = nearest(Z, centers)[0]
    np.add.at(sums, label, chunk.weights[:, None] * Z)
    return np.bincount(label, weights=chunk.weights, minlength=len(centers)), sums


def _logistic_scores(chunk, classes, centers, mass, sums, radius):
    Z, u = _signed(chunk, classes), chunk.weights
    return u * logistic_bounds(Z, u, nearest(Z, centers)[0], mass, sums, radius)


SPARSE = (UniformCoreset, StratifiedCoreset, SVMCoreset)  # these take sparse chunks
SELECT = {
    UniformCoreset: _uniform,
    StratifiedCoreset: _stratified,
    LightweightCoreset: _lightweight,
    KMeansPlusPlus: _centers,
    KCenter: _centers,
    MixtureSensitivity: _mixture,
    LogisticSensitivity: _logistic,
    SVMCoreset: svm_coreset,
}
