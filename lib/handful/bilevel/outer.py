"""The rows that the outer loss is about: training rows, further ones for validation, or both."""

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from handful.checks import check_magnitude, check_sample_weight
from handful.models.base import Rows

OUTER = ("train", "train+validation", "validation")


def outer_rows(X, y, sample_weight, outer, validation, *, classes):
    """The rows of the outer loss; the training rows come first, and are those that may be chosen.

    Parameters
    ----------
    X, y, sample_weight : the training rows, checked; rows of weight zero may not be chosen
    outer : "train", "train+validation" or "validation"
    validation : ``(X, y)`` or ``(X, y, sample_weight)`` of further rows, or None for "train"
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
    more, more_y, weights = _checked(validation, X, y, classes)
    n = X.shape[0]
    if sparse.issparse(X):
        stacked = sparse.vstack([X, more], format="csr")
    else:
        stacked = np.empty((n + len(more), X.shape[1]), dtype=X.dtype, order="F" if X.flags.f_contiguous else "C")
        stacked[:n], stacked[n:] = X, more
    own = sample_weight if outer == "train+validation" else np.zeros(n)
    absent = np.concatenate([absent, np.arange(n, stacked.shape[0])])
    return Rows(stacked, None if y is None else np.concatenate([y, more_y]), np.concatenate([own, weights]), absent)


def _checked(validation, X, y, classes):
    if not (isinstance(validation, (tuple, list)) and len(validation) in (2, 3)):
        raise ValueError(f"validation must be (X, y) or (X, y, sample_weight), got {type(validation).__name__}.")
    more, more_y, *weights = validation
    more = check_array(more, accept_sparse="csr" if sparse.issparse(X) else False, dtype=X.dtype)
    check_magnitude(more.data if sparse.issparse(more) else more, "the validation set's X", X.dtype)
    if more.shape[1] != X.shape[1]:
        raise ValueError(f"the validation set has {more.shape[1]} features, but X has {X.shape[1]}.")
    if y is not None:
        more_y = check_array(more_y, ensure_2d=False, dtype=None, input_name="the validation set's y")
        if len(more_y) != more.shape[0] or more_y.ndim != y.ndim:
            raise ValueError(
                f"the validation set's y must have shape ({more.shape[0]}, ...) like its X, got {more_y.shape}."
            )
        unknown = np.setdiff1d(more_y, y) if classes and y.ndim == 1 else []
        if len(unknown):
            raise ValueError(f"the validation set has classes that y has not: {unknown[:5].tolist()}.")
    return more, more_y, check_sample_weight(weights[0] if weights else None, more.shape[0])
