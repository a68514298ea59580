"""What a strategy may ask of a selection, and what all selections share."""

from dataclasses import dataclass, field, replace

import numpy as np

from handful.bilevel.numerics.ihvp import Exact
from handful.bilevel.numerics.multinomial_passes import SOFTMAX, SoftmaxPasses
from handful.bilevel.numerics.passes import DataPasses


@dataclass
class Rows:
    """The rows of the outer loss; those that may be chosen are among them.

    Attributes
    ----------
    X : array or CSR matrix, shape (n, d)
    y : targets, n of them, or None; encoded by the problem where a selection gets them
    sample_weight : shape (n,), weights in the outer loss
    absent : indices of rows that may not be chosen
    """

    X: np.ndarray
    y: np.ndarray | None
    sample_weight: np.ndarray
    absent: np.ndarray
    _passes: dict = field(default_factory=dict, repr=False)

    @property
    def share(self):
        """Weights in the outer loss that add up to one, shape (n,)."""
        return self.sample_weight / self.sample_weight.sum()

    def take(self, rows):
        """``(X, y)`` of some rows."""
        return self.X[rows], None if self.y is None else self.y[rows]

    def with_targets(self, y):
        """The same rows with other targets."""
        return replace(self, y=y)

    def passes(self, kind):
        """`DataPasses` over the rows; several models of a kind share its copy of the data."""
        if kind in self._passes:
            return self._passes[kind].twin()
        passes = SoftmaxPasses if kind == SOFTMAX else DataPasses
        self._passes[kind] = passes(self.X, self.y, self.sample_weight, kind)
        return self._passes[kind]

    def sample(self, most, rng):
        """Rows on which to estimate the curvature of the outer loss, ascending: `most` of those that count in it."""
        rows = np.flatnonzero(self.sample_weight)
        return np.sort(rng.choice(rows, most, replace=False)) if len(rows) > most else rows


class Selection:
    """Base class: a growing coreset for one inner problem, and what the outer loss says about every further row.

    A strategy adds and drops rows, has the inner problem solved, then asks for scores, gains or weights. Subclasses
    implement `solve`, `row_scores` and `mean_loss`; `outer_loss`, `predicted_gains` and `weight_quadratic` where the
    problem is for more than forward selection by the linear rule with equal weights.

    Parameters
    ----------
    problem : Problem
    data : Rows, with targets that the problem has encoded
    ihvp : InverseHessian, or None for the exact solution

    Attributes
    ----------
    indices : list of int, the chosen rows in the order in which they came
    gradient : of the outer loss by the parameters, after `row_scores` or `outer_loss`
    direction : the inverse Hessian times it, after `row_scores`
    """

    max_candidates = 512  # rows whose gains are predicted
    partners = ()  # what else a choice depends on: the other models of a Joint

    def __init__(self, problem, data, ihvp=None):
        self.problem, self.data = problem, data
        self.ihvp = Exact() if ihvp is None else ihvp
        self.indices = []

    def __len__(self):
        return len(self.indices)

    def labels(self):
        """Class of every row as an integer, shape (n,), or None for problems without classes."""
        if not self.problem.classifies:
            return None
        y = np.asarray(self.data.y)
        return np.argmax(y, axis=1) if y.ndim == 2 else np.unique(y, return_inverse=True)[1]

    def add(self, indices):
        """Append rows to the coreset."""
        self.indices += [int(i) for i in indices]

    def keep(self, alive):
        """Drop the rows where the mask `alive`, shape (s,), is False."""
        self.indices = [i for i, stays in zip(self.indices, alive) if stays]

    def foretell(self, n_rounds, *, loud):
        """Say how long `n_rounds` rounds will take, where `loud` or long; nothing for problems that take no time."""

    def recall(self, count):
        """Rows of the next round, shape (count,), where an earlier run of the same task has recorded it, else None."""
        return None

    def check_memory(self, s):
        """MemoryError where arrays for `s` chosen rows are more than the machine's memory; nothing is allocated."""

    def way(self):
        """How the chosen rows are dealt with at present, in words, where there are several ways."""
        return ""

    def solve(self, weights=None):
        """Solve the inner problem for `weights` (shape (s,), adding up to 1; uniform for None), warm started.

        Raises
        ------
        ConvergenceError
            if the solution is not as exact as implicit gradients need
        """
        raise NotImplementedError

    def row_scores(self):
        """First-order score of every row, shape (n,): ``grad l_k' H^-1 grad g`` (Equation 5)."""
        raise NotImplementedError

    def linear_scores(self):
        """`row_scores`, -inf for rows that are chosen already or may not be."""
        scores = self.row_scores()
        scores[self.indices] = -np.inf
        scores[self.data.absent] = -np.inf
        return scores

    def predicted_gains(self, candidates, *, free_weights=False):
        """Decrease of the outer loss that adding each candidate row predicts, shape (k,). Call after `linear_scores`.

        Adding a row to s rows is a step of size 1 / s, not an infinitesimal one: the Newton step towards the new
        inner solution is shortened by the row's leverage, the penalty's weight grows with the set, and the outer loss
        is followed to second order along the step (its Hessian on a sample of rows). With `free_weights` a row may join
        with less than the weight 1 / s, so the best fraction of the step counts.
        """
        raise NotImplementedError

    def outer_loss(self):
        """Weighted mean of the outer losses at the current parameters, without a penalty; keeps its gradient."""
        raise NotImplementedError

    def mean_loss(self):
        """Weighted mean of the outer losses at the parameters of the last `row_scores` or `outer_loss`."""
        raise NotImplementedError

    def weight_quadratic(self):
        """Curvature (s, s) and slope (s,) of the outer loss by the weights; call after `outer_loss`."""
        raise NotImplementedError


def decrease(slope, bend, free_weights):
    """By how much ``- f slope + f^2 bend / 2`` falls at f = 1, or with free weights at the best f of [0, 1]; (k,)."""
    fraction = 1.0
    if free_weights:
        downhill = np.maximum(slope, 0.0)
        fraction = np.divide(downhill, bend, out=np.sign(downhill), where=bend > downhill)
    return fraction * slope - 0.5 * fraction**2 * bend
