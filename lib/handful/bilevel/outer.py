"""The rows that the outer loss is about: training rows, further ones for validation, or both."""

import numpy as np
from scipy import sparse

from handful.checks import check_magnitude, check_sample_weight
from handful.models.base import Rows


def outer_rows(X, y, sample_weight, outer, validation, *, classes):
    """The rows of the outer loss; the training rows come first, and are those that may be chosen.

    Parameters
    ----------
    X, y, sample_weight : the training rows, checked; rows of weight zero may not be chosen
    outer : "train", "train+validation" or "validation"
    validation : ``(X, y)`` or ``(X, y, sample_weight)`` of further rows, checked as X and y were, or None for "train"
    classes : whether a one-dimensional y holds classes

    Returns
    -------
    Rows

    Raises
    ------
    ValueError
        for a validation set that does not suit `outer` or the training rows
    """
    if (validation is None) != (outer == "train"):
        given = "no" if validation is None else "a"
        raise ValueError(
            f"outer={outer!r} with {given} validation set: give fit(..., validation=(X, y)) together with "
            "outer='train+validation' or 'validation'."
        )
    absent = np.flatnonzero(sample_weight == 0)
    if validation is None:
        return Rows(X, y, sample_weight, absent)
    more, more_y, *weights = validation
    _check_agreement(more, more_y, X, y, classes)
    weights = check_sample_weight(weights[0] if weights else None, more.shape[0])
    n = X.shape[0]
    if sparse.issparse(X):
        stacked = sparse.vstack([X, more.astype(X.dtype)], format="csr")
    else:
        stacked = np.empty((n + len(more), X.shape[1]), dtype=X.dtype, order="F" if X.flags.f_contiguous else "C")
        stacked[:n], stacked[n:] = X, more
    own = sample_weight if outer == "train+validation" else np.zeros(n)
    absent = np.concatenate([absent, np.arange(n, stacked.shape[0])])
    return Rows(stacked, None if y is None else np.concatenate([y, more_y]), np.concatenate([own, weights]), absent)


def _check_agreement(more, more_y, X, y, classes):
    check_magnitude(more.data if sparse.issparse(more) else more, "the validation set's X", X.dtype)
    if more.shape[1] != X.shape[1]:
        raise ValueError(f"the validation set has {more.shape[1]} features, but X has {X.shape[1]}.")
    if sparse.issparse(more) and not sparse.issparse(X):
        raise ValueError("the validation set is sparse, but X is dense: give validation=(X.toarray(), y).")
    if np.shape(more_y)[1:] != np.shape(y)[1:]:
        raise ValueError(f"the validation set's y has shape {np.shape(more_y)}, but y has {np.shape(y)}.")
    unknown = np.setdiff1d(more_y, y) if classes and y.ndim == 1 else []
    if len(unknown):
        raise ValueError(f"the validation set has classes that y has not: {unknown[:5].tolist()}.")
