"""What a trial of rows needs: a choice in a proxy, weights and exchanges by class, and the loss on
held-out rows."""

import math

import numpy as np
from scipy import sparse
from sklearn.metrics import mean_squared_error, zero_one_loss

from handful.checks import accepts_of
from handful.trainers import kind_of

# of a class: forests and neighbours give 0, of which the logarithm is infinite
LEAST_PROBABILITY = 1e-3


def select_in_proxy(selector, proxy, X, y, sample_weight, code=None):
    """What a selector chooses in a proxy's features of the rows, or in the rows themselves:
    ``(indices, weights)``; `code` is the `code_hash` of both, where the choice is kept."""
    if proxy is not None:
        # which selection reads fastest
        found = proxy.fit_transform(X, y)
        # With scikit-learn's option `transform_output` it may be a frame.
        X = (found if sparse.issparse(found) else np.asarray(found)).astype(np.float32)
        # Whoever gave the rows does not scale a proxy's features, and hears nothing of them.
        selector._of_a_part = True
    # What looks at no labels gets none: a class that one draw of several misses is no news.
    selector.fit(X, y if accepts_of(selector).needs_y else None, sample_weight=sample_weight)
    return selector.indices_, selector.weights_


def class_totals(labels, sample_weight):
    """For each row the sample_weight of its class; of all rows where `labels` is None."""
    if labels is None:
        return np.full(len(sample_weight), sample_weight.sum())
    classes = np.unique(labels, return_inverse=True)[1]
    return np.bincount(classes, weights=sample_weight)[classes]


def class_weights(labels, sample_weight, indices, weights=None):
    """Weights of some rows (None: alike), scaled so that each class has its sample_weight; one
    class if no labels."""
    weights = np.ones(len(indices)) if weights is None else weights
    own = class_totals(None if labels is None else labels[indices], weights)
    return weights * (class_totals(labels, sample_weight)[indices] / own)


def exchanged(indices, weights, labels, sample_weight, rows, rng):
    """The chosen rows with a tenth of them exchanged for other `rows` of their class, and the
    weights: ``(indices, weights)``.

    Weights that are alike in a class stay, and newcomers are drawn by their sample_weight. Weights
    that follow the sample_weight do so afterwards, and newcomers are drawn uniformly. Labels None
    count as one class; where a class has too few other rows, fewer are exchanged.
    """
    alike = class_weights(labels, sample_weight, indices)
    following = class_weights(labels, sample_weight, indices, sample_weight[indices])
    total = weights.sum()
    follow = not np.allclose(alike, following) and np.allclose(
        weights * (following.sum() / total), following
    )
    free = np.zeros(len(sample_weight), dtype=bool)
    free[rows] = True
    free[indices] = False
    indices = indices.copy()
    others = np.flatnonzero(free)
    n_exchanged = math.ceil(len(indices) / 10)
    places = rng.choice(len(indices), n_exchanged, replace=False)
    classes = labels
    if labels is None:
        classes = np.zeros(len(sample_weight), dtype=np.intp)
    leaving = classes[indices[places]]
    for label in np.unique(leaving):
        pool = others[classes[others] == label]
        mine = places[leaving == label][: len(pool)]
        if len(mine):
            mass = np.ones(len(pool)) if follow else sample_weight[pool]
            share = mass / mass.sum()
            indices[mine] = rng.choice(pool, len(mine), replace=False, p=share)
    if not follow:
        return indices, weights
    following = class_weights(labels, sample_weight, indices, sample_weight[indices])
    return indices, following * (total / following.sum())


def held_out_loss(model, X, y, sample_weight=None):
    """Loss of a fitted model: log-loss (nats), the share of errors without probabilities, or the
    mean squared error.

    Probabilities count as at least `LEAST_PROBABILITY`, before they are made to add up to one
    again.
    """
    if kind_of(model) == "regressor":
        return float(mean_squared_error(y, model.predict(X), sample_weight=sample_weight))
    if not hasattr(model, "predict_proba"):
        return float(zero_one_loss(y, model.predict(X), sample_weight=sample_weight))
    shares = np.maximum(model.predict_proba(X), LEAST_PROBABILITY)
    shares /= shares.sum(axis=1, keepdims=True)
    classes = model.classes_
    place = np.searchsorted(classes, y)
    place = np.minimum(place, len(classes) - 1)
    is_known = classes[place] == y
    own = shares[np.arange(len(y)), place]
    own = np.where(is_known, own, LEAST_PROBABILITY)
    return float(np.average(-np.log(own), weights=sample_weight))
