"""Herding: rows whose running mean stays near the mean of all."""

from dataclasses import KW_ONLY

import numpy as np

from handful.baselines.centers import ROUNDING
from handful.checks import Accepts
from handful.coreset import SizedSelector
from handful.running import Bar


class _EqualWeights(SizedSelector):
    """Selectors of distinct rows of equal weight; `_order` chooses among the rows with a positive
    sample_weight."""

    def _select(self, X, y, sample_weight, rng):
        order = self._order(X.astype(np.float64, order="C"), y, sample_weight, rng)
        mean_weight = sample_weight.sum() / self.size
        return order, np.full(self.size, mean_weight)


class Herding(_EqualWeights):
    """Rows whose running mean stays near the mean of all (Welling 2009; Algorithm 4 of iCaRL,
    Rebuffi et al. 2017).

    On gradients this is the "gradient matching" of Borsos et al. (2024), a Hilbert coreset of equal
    weights.

    Parameters
    ----------
    size : int, default=100
        Number of points m.
    normalise : bool, default=True
        Whether rows are scaled to length one first.
    random_state : int, Generator, RandomState or None, default=None
        Not used; ties go to the smallest index.

    Attributes
    ----------
    indices_ : shape (m,), distinct, in the order of selection
    weights_ : shape (m,), equal, adding up to the total sample_weight

    Examples
    --------
    >>> Herding(2, normalise=False).fit([[0.0], [1.0], [4.0], [7.0]]).indices_.tolist()
    [2, 1]
    """

    _accepts = Accepts("unread")
    _by_scale = True

    _: KW_ONLY
    normalise: bool = True

    def _order(self, X, y, sample_weight, rng):
        rows = unit_rows(X) if self.normalise else X
        return herd(rows, sample_weight, self.size)


def unit_rows(X):
    """Rows scaled to length one; zero rows stay."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    # before squaring: squares of tiny numbers would underflow
    X = X / np.where(largest > 0, largest, 1.0)
    length = np.sqrt(np.einsum("ij,ij->i", X, X))
    divisor = np.where(length > 0, length, 1.0)
    return X / divisor[:, None]


def herd(X, sample_weight, size):
    """`size` rows of X, each the one that brings the mean of those chosen nearest to the mean of
    all."""
    share = sample_weight / sample_weight.sum()
    # the target is now zero
    X = X - share @ X
    sq_length = np.einsum("ij,ij->i", X, X)
    chosen = []
    total = np.zeros(X.shape[1])
    with Bar(range(size), desc="herding", unit="row") as steps:
        for _ in steps:
            products = X @ total
            # |total + x|^2 without |total|^2
            scores = sq_length + 2.0 * products
            scores[chosen] = np.inf
            best = _first_of_least(scores, sq_length, total)
            chosen.append(best)
            total += X[best]
    return np.array(chosen)


def _first_of_least(scores, sq_length, total):
    # Equal rows have scores that differ by the rounding of their terms, which may be larger than
    # the score itself.
    least = np.argmin(scores)
    length = np.sqrt(sq_length[least])
    largest_product = length * np.linalg.norm(total)
    terms = sq_length[least] + 2.0 * largest_product
    rounding = ROUNDING * terms
    highest = scores[least] + rounding
    tied = scores <= highest
    first = np.argmax(tied)
    return int(first)
