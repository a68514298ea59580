"""What a selection asks of a model, and what all models share."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from handful.checks import check_magnitude, check_sample_weight
from handful.models.inverse import Exact
from handful.tables import join_rows


@dataclass
class OuterRows:
    """The rows of the outer loss; those that may be chosen are among them.

    Attributes
    ----------
    X : array or CSR matrix, shape (n, d)
    y : targets, n of them, or None; encoded by the problem where a model gets them
    sample_weight : shape (n,), weights in the outer loss
    absent : indices of rows that may not be chosen
    penalised : whether the outer loss has the problem's penalty, too
    """

    X: np.ndarray
    y: np.ndarray | None
    sample_weight: np.ndarray
    absent: np.ndarray
    penalised: bool = False

    @property
    def share(self):
        """Weights in the outer loss that add up to one, shape (n,)."""
        return self.sample_weight / self.sample_weight.sum()

    def at(self, rows):
        """``(X, y)`` of some rows."""
        targets = None if self.y is None else self.y[rows]
        return self.X[rows], targets

    def encoded(self, problem):
        """The same rows, with targets as a problem encodes them.

        Raises
        ------
        ValueError
            for targets that the problem can't have, and sparse rows that it does not take
        """
        if sparse.issparse(self.X) and not problem.takes_sparse:
            raise ValueError(f"{type(problem).__name__} takes no sparse X: use X.toarray().")
        return replace(self, y=problem.encode(self.y))

    def sample(self, most, rng):
        """Rows on which to estimate the curvature of the outer loss, ascending: `most` of those
        that count in it."""
        rows = np.flatnonzero(self.sample_weight)
        if len(rows) <= most:
            return rows
        drawn = rng.choice(rows, most, replace=False)
        return np.sort(drawn)


def outer_rows(X, y, sample_weight, outer, validation, *, classes, penalised=False):
    """The rows of the outer loss; the training rows come first, and are those that may be chosen.

    Parameters
    ----------
    X, y, sample_weight : the training rows, checked; rows of weight zero may not be chosen
    outer : "train", "train+validation" or "validation"
    validation : ``(X, y)`` or ``(X, y, sample_weight)`` of further rows, checked as X and y were,
        or None for "train"
    classes : whether a one-dimensional y holds classes
    penalised : as in `OuterRows`

    Returns
    -------
    OuterRows

    Raises
    ------
    ValueError
        for a validation set that does not suit `outer` or the training rows
    """
    if (validation is None) != (outer == "train"):
        given = "no" if validation is None else "a"
        raise ValueError(
            f"outer={outer!r} with {given} validation set: give fit(..., validation=(X, y)) "
            "together with "
            "outer='train+validation' or 'validation'."
        )
    absent = np.flatnonzero(sample_weight == 0)
    if validation is None:
        return OuterRows(X, y, sample_weight, absent, penalised)
    more, more_y, *weights = validation
    _check_agreement(more, more_y, X, y, classes)
    given = weights[0] if weights else None
    weights = check_sample_weight(given, more.shape[0])
    stacked = join_rows([X, more.astype(X.dtype)])
    own = sample_weight
    if outer == "validation":
        own = np.zeros_like(sample_weight)
    of_validation = np.arange(X.shape[0], stacked.shape[0])
    absent = np.concatenate([absent, of_validation])
    return OuterRows(
        stacked,
        None if y is None else np.concatenate([y, more_y]),
        np.concatenate([own, weights]),
        absent,
        penalised,
    )


def _check_agreement(more, more_y, X, y, classes):
    values = more.data if sparse.issparse(more) else more
    check_magnitude(values, "the validation set's X", X.dtype)
    if more.shape[1] != X.shape[1]:
        raise ValueError(
            f"the validation set has {more.shape[1]} features, but X has {X.shape[1]}."
        )
    if sparse.issparse(more) and not sparse.issparse(X):
        raise ValueError(
            "the validation set is sparse, but X is dense: give validation=(X.toarray(), y)."
        )
    if np.shape(more_y)[1:] != np.shape(y)[1:]:
        raise ValueError(
            f"the validation set's y has shape {np.shape(more_y)}, but y has {np.shape(y)}."
        )
    unknown = np.setdiff1d(more_y, y) if classes and y.ndim == 1 else []
    if len(unknown):
        raise ValueError(f"the validation set has classes that y has not: {unknown[:5].tolist()}.")


class Model:
    """Base class: a model that is trained on some rows (the inner problem) and judged on all (the
    outer loss).

    Bilevel selection (Borsos et al. 2024, Algorithm 1) asks four things of a model, in this order;
    a subclass implements them:

    - ``fit(weights)`` trains it on the chosen rows;
    - ``outer_gradient()`` is the gradient of the outer loss at the trained parameters;
    - ``hessian_product(v)`` multiplies with the Hessian of the inner problem, or
      ``inverse_hessian(g)`` solves with it where the model can do so exactly;
    - ``row_slopes(v)`` are the slopes ``grad l_k' v`` of all rows' losses.

    Gradients and directions are arrays of one shape, which is the model's own affair. The quadratic
    rule and optimised weights ask for second derivatives of the outer loss, too: `predicted_gains`
    and `weight_quadratic`, and for `mean_loss`. A model without them can be selected for by the
    linear rule, with equal weights.

    Parameters
    ----------
    problem : Problem
    data : OuterRows, with targets that the problem has encoded
    ihvp : InverseHessian, or None for the exact solution

    Attributes
    ----------
    indices : list of int, the chosen rows in the order in which they came
    gradient : of the outer loss, after `implicit_gradients` or `outer_loss`
    direction : the inverse Hessian times it, after `implicit_gradients`
    """

    # The quadratic rule predicts the gains of so many rows of the highest linear score.
    max_candidates = 512

    def __init__(self, problem, data, ihvp=None):
        self.problem = problem
        self.data = data
        self.ihvp = Exact() if ihvp is None else ihvp
        self.indices = []

    def __len__(self):
        return len(self.indices)

    def count_penalty(self, counts):
        """Decide whether the outer loss has the problem's penalty, too."""
        self.data = replace(self.data, penalised=counts)

    # The chosen rows.

    def add_rows(self, indices):
        """Append rows to the chosen ones."""
        self.indices += [int(i) for i in indices]

    def drop_rows(self, gone):
        """Drop the chosen rows where the mask `gone`, shape (s,), is True."""
        self.indices = [i for i, goes in zip(self.indices, gone) if not goes]

    def set_rows(self, indices):
        """Make these the chosen rows, in this order."""
        self.drop_rows(np.ones(len(self), dtype=bool))
        self.add_rows(indices)

    def labels(self):
        """Class of every row as an integer, shape (n,), or None for problems without classes."""
        if not self.problem.classifies:
            return None
        y = np.asarray(self.data.y)
        if y.ndim == 1:
            return np.unique(y, return_inverse=True)[1]
        if y.shape[1] > 1:
            return np.argmax(y, axis=1)
        is_second = y[:, 0] > 0.5
        return is_second.astype(np.intp)

    def check_memory(self, s):
        """MemoryError where arrays for `s` chosen rows are more than the machine's memory; nothing
        is allocated."""

    # What a subclass implements.

    def fit(self, weights=None):
        """Train on the chosen rows: minimise the sum of their losses times `weights`, plus the
        penalty; warm started.

        Parameters
        ----------
        weights : shape (s,), adding up to 1; None for equal ones

        Raises
        ------
        ConvergenceError
            if the solution is not as exact as implicit gradients need
        """
        raise NotImplementedError

    def outer_gradient(self):
        """Gradient of the outer loss: the weighted mean of all rows' losses, and the penalty if the
        data say so."""
        raise NotImplementedError

    def hessian_product(self, v):
        """The Hessian of the inner problem times `v`."""
        raise NotImplementedError

    def inverse_hessian(self, g):
        """The solution v of ``H v = g``; by products alone, as `ihvp` says, unless the model has a
        better way."""
        return self.ihvp.solve(self.hessian_product, g)

    def row_slopes(self, v):
        """``grad l_k' v`` of every row k, shape (n,); follows `outer_gradient` at the same
        parameters."""
        raise NotImplementedError

    def mean_loss(self):
        """The outer loss at the parameters of the last `outer_gradient`."""
        raise NotImplementedError

    def predicted_gains(self, candidates, *, free_weights=False):
        """Decrease of the outer loss that adding each candidate row predicts, shape (k,). Call
        after `implicit_gradients`.

        Adding a row to s rows is a step of size 1 / s, not an infinitesimal one: the Newton step
        towards the new inner solution is shortened by the row's leverage, the penalty's weight
        grows with the set, and the outer loss is followed to second order along the step (its
        Hessian on a sample of rows). With `free_weights` a row may join with less than the weight 1
        / s, so the best fraction of the step counts.
        """
        raise NotImplementedError

    def weight_quadratic(self):
        """Curvature (s, s) and slope (s,) of the outer loss by the weights; call after
        `outer_loss`."""
        raise NotImplementedError

    # What follows.

    def outer_loss(self):
        """The outer loss at the trained parameters; keeps its gradient."""
        self.gradient = self.outer_gradient()
        return self.mean_loss()

    def implicit_gradients(self):
        """First-order score of every row, shape (n,): ``grad l_k' H^-1 grad g`` (Equation 5)."""
        self.gradient = self.outer_gradient()
        self.direction = self.inverse_hessian(self.gradient)
        return self.row_slopes(self.direction)

    def candidate_scores(self):
        """`implicit_gradients`, -inf for rows that are chosen already or may not be."""
        scores = self.implicit_gradients()
        scores[self.indices] = -np.inf
        scores[self.data.absent] = -np.inf
        return scores


def predicted_decrease(slope, curvature, free_weights):
    """By how much ``- f slope + f^2 curvature / 2`` falls at f = 1, or with free weights at the
    best f of [0, 1]; (k,)."""
    fraction = 1.0
    if free_weights:
        downhill = np.maximum(slope, 0.0)
        whole = np.sign(downhill)
        is_part = curvature > downhill
        fraction = np.divide(downhill, curvature, out=whole, where=is_part)
    return fraction * slope - 0.5 * fraction**2 * curvature
