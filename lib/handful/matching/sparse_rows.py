"""Rows of models with many parameters, of which each row has few.

Which parameters a row has is the pattern of its design, or found by moving parameters.
"""

from functools import cached_property

import numpy as np

from handful.matching.differences import WIDTH, around, steps_at
from handful.matching.groups import find_groups
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.patterns import pattern_by_moves

# Numbers of the rows that are computed at once.
PART = 1 << 22


def parts(places, width):
    """Cuts of an array of rows' numbers, of which so many numbers a row are computed at once."""
    step = max(1, PART // max(1, width))
    starts = range(0, len(places), step)
    return [places[start : start + step] for start in starts]


class GroupedRows(LikelihoodSums):
    """Rows of a model with many parameters, of which each row has few: their `pattern`, CSR of
    shape (n, p), has ones where a row has a parameter."""

    @cached_property
    def groups(self):
        """The `Groups` of the parameters."""
        return find_groups(self.pattern)

    def values_of(self, places, theta):
        """Log-likelihoods of rows of these numbers at parameters (K, p), shape (k, K)."""
        some = self.restricted(places, self.weights[places])
        return some.values(theta)

    def expanded(self, theta):
        """The `expansions` of rows at parameters (p,): a function of their numbers, shape (k,).

        It gives log-likelihoods (k,), their first derivatives (k, C) by the parameters that a row
        has, in the order of `Groups.columns`, and the second (k, C, C).
        """
        raise NotImplementedError


class SparseRows(GroupedRows):
    """Rows of a linear model of one output whose columns are mostly zero.

    Parameters
    ----------
    model : LinearLikelihood
    X : CSR matrix, shape (n, d)
    y : encoded targets, shape (n, 1)
    weights : shape (n,)
    """

    def __init__(self, model, X, y, weights):
        super().__init__(model, X, y, weights)
        self.X = X

    @cached_property
    def design(self):
        """The rows with a column of ones for the intercept, CSR of shape (n, p)."""
        design = self.model.design(self.X)
        design.eliminate_zeros()
        return design

    @cached_property
    def pattern(self):
        """Ones where a row has a parameter."""
        return self.design.sign() ** 2

    def restricted(self, places, weights):
        """As `LikelihoodSums.restricted`, in their own kind."""
        X = self.X[places]
        y = self.y[places]
        return SparseRows(self.model, X, y, weights)

    def expanded(self, theta):
        """As `GroupedRows.expanded`."""

        def expansions(places):
            design = self.design[places]
            targets = self.model.targets(self.y[places])
            eta = (design @ theta)[:, None]
            base = self.model.at(eta, targets)
            link = self.model.link
            first, second = link.derivatives(eta, targets)
            Z = self.groups.local(design)
            bent = -second * Z[:, :, None]
            curvatures = bent * Z[:, None, :]
            return base[:, 0], -first * Z, curvatures

        return expansions


class ProbedRows(GroupedRows):
    """Rows of any likelihood, whose parameters are found by moving them.

    Parameters
    ----------
    rows : LikelihoodSums
    pattern : ones where a row has a parameter, CSR of shape (n, p)
    """

    def __init__(self, rows, pattern):
        super().__init__(rows.model, rows.blocks, rows.y, rows.weights)
        self.pattern = pattern

    @classmethod
    def around(cls, rows, theta):
        """Rows whose parameters are moved around some (p,); None where it is not found which each
        has."""
        pattern = pattern_by_moves(rows, theta)
        return None if pattern is None else cls(rows, pattern)

    def expanded(self, theta):
        """As `GroupedRows.expanded`, by central differences: parameters of all groups are moved at
        once, as no row has those of two."""
        h = self._steps(theta)
        E = self.groups.directions(h)
        C = len(E)
        j, k = np.tril_indices(C, -1)
        one_by_one = around(theta, E)
        pairs = E[j] + E[k]
        _, *two_at_once = around(theta, pairs)
        tried = np.vstack([one_by_one, two_at_once])
        ends = np.cumsum([C, C, len(j)])

        def expansions(places):
            base, *moved = self.values_of(places, tried).T
            changes = np.split(moved - base, ends)
            plus, minus, ahead, behind = changes
            lengths = self.groups.taken(h, places, fill=1.0)
            lengths = lengths.T
            slopes = (plus - minus) / (2 * lengths)
            alone = plus + minus
            both = ahead + behind - alone[j] - alone[k]
            H = np.empty((C, C, len(places)))
            one = np.arange(C)
            H[one, one] = alone / lengths**2
            area = 2 * lengths[j] * lengths[k]
            across = both / area
            H[j, k] = across
            H[k, j] = across
            return base, slopes.T, H.transpose(2, 0, 1)

        return expansions

    def _steps(self, theta):
        """How far parameters (p,) are moved for differences: as wide as the curvature of all rows
        allows."""
        h = steps_at(theta)
        E = self.groups.directions(h)
        tried = around(theta, E)
        bend = np.zeros(len(theta))
        present = np.flatnonzero(self.weights)
        for places in parts(present, len(tried)):
            base, *moved = self.values_of(places, tried).T
            plus, minus = np.split(moved - base, 2)
            bends = (plus + minus).T
            weights = self.weights[places]
            by_group = self.groups.summed(bends, places, weights)
            bend += self.groups.scattered(by_group)
        curvature = np.maximum(np.abs(bend), 1e-300)
        wide = WIDTH * h / np.sqrt(curvature)
        return np.minimum(h, wide)
