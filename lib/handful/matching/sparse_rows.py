"""Rows of models with many parameters, of which each row has few.

Which parameters a row has is the pattern of its design, or found by moving parameters.
"""

from functools import cached_property

import numpy as np
from scipy import sparse

from handful.matching.differences import WIDTH, around, steps_at
from handful.matching.groups import find_groups
from handful.matching.patterns import pattern_by_moves

# Numbers of the rows that are computed at once.
PART = 1 << 22


def parts(places, width):
    """Cuts of an array of rows' numbers, of which so many numbers a row are computed at once."""
    step = max(1, PART // max(1, width))
    return [places[start : start + step] for start in range(0, len(places), step)]


class SparseRows:
    """Rows of a linear model of one output whose columns are mostly zero.

    Parameters
    ----------
    model : LinearLikelihood
    X : CSR matrix, shape (n, d)
    y : encoded targets, shape (n, 1)
    weights : shape (n,)
    """

    def __init__(self, model, X, y, weights):
        self.model = model
        self.X = X
        self.y = y
        self.weights = weights
        ones = np.ones((X.shape[0], int(model.problem.fit_intercept)))
        self.design = sparse.hstack([X, sparse.csr_array(ones)], format="csr")
        self.design.eliminate_zeros()

    @cached_property
    def pattern(self):
        """Ones where a row has a parameter, CSR of shape (n, p)."""
        return self.design.sign() ** 2

    @cached_property
    def groups(self):
        """The `Groups` of the parameters."""
        return find_groups(self.pattern)

    def restricted(self, places, weights):
        """Some of the rows, with new weights."""
        return SparseRows(self.model, self.X[places], self.y[places], weights)

    def values(self, theta, places=None):
        """Log-likelihoods of rows of these numbers, all by default, at parameters (K, p), shape (k,
        K)."""
        p = self.design.shape[1]
        if theta.shape[1] != p:
            raise ValueError(
                f"draws must hold {p} coefficients, intercepts after them, got shape {theta.shape}."
            )
        if places is None:
            places = np.arange(len(self.weights))
        found = []
        for part in parts(places, len(theta)):
            found.append(self.model.at(self.design[part] @ theta.T, self.y[part]))
        return np.concatenate(found)

    def sums(self, theta):
        """Log-likelihoods of all rows together at parameters (K, p), shape (K,)."""
        total = np.zeros(len(theta))
        for part in parts(np.arange(len(self.weights)), len(theta)):
            total += self.weights[part] @ self.values(theta, part)
        return total

    def slopes(self, theta):
        """Slopes of the log-likelihood of all rows together at parameters (K, p), shape (K, p)."""
        total = np.zeros(theta.shape)
        for part in parts(np.arange(len(self.weights)), len(theta)):
            eta = self.design[part] @ theta.T
            targets = np.repeat(self.y[part], len(theta), axis=0)
            first, _ = self.model.link.derivatives(eta.reshape(-1, 1), targets)
            weighted = self.weights[part, None] * first.reshape(eta.shape)
            total -= (self.design[part].T @ weighted).T
        return total

    def expanded(self, theta):
        """The `expansions` of rows at parameters (p,): a function of their numbers, shape (k,).

        It gives log-likelihoods (k,), their first derivatives (k, C) by the parameters that a row
        has, in the order of `Groups.columns`, and the second (k, C, C).
        """

        def expansions(places):
            design = self.design[places]
            targets = self.y[places]
            eta = (design @ theta)[:, None]
            first, second = self.model.link.derivatives(eta, targets)
            Z = self.groups.local(design)
            curvatures = -second * Z[:, :, None] * Z[:, None, :]
            return self.model.at(eta, targets)[:, 0], -first * Z, curvatures

        return expansions


class ProbedRows:
    """Rows of any likelihood, whose parameters are found by moving them.

    Parameters
    ----------
    rows : LikelihoodSums
    pattern : ones where a row has a parameter, CSR of shape (n, p)
    """

    def __init__(self, rows, pattern):
        self.rows = rows
        self.model = rows.model
        self.weights = rows.weights
        self.pattern = pattern
        self.groups = find_groups(pattern)
        self.restricted = rows.restricted
        self.sums = rows.sums
        self.slopes = rows.slopes

    @classmethod
    def around(cls, rows, theta):
        """Rows whose parameters are moved around some (p,); None where it is not found which each
        has."""
        pattern = pattern_by_moves(rows, theta)
        return None if pattern is None else cls(rows, pattern)

    def values(self, theta, places):
        """As `SparseRows.values`."""
        return self.rows.restricted(places, self.weights[places]).values(theta)

    def expanded(self, theta):
        """As `SparseRows.expanded`, by central differences: parameters of all groups are moved at
        once, as no row has those of two."""
        h = self._steps(theta)
        E = self.groups.directions(h)
        C = len(E)
        j, k = np.tril_indices(C, -1)
        pairs = E[j] + E[k]
        tried = np.vstack([around(theta, E), theta + pairs, theta - pairs])

        def expansions(places):
            base, *moved = self.values(tried, places).T
            ends = np.cumsum([C, C, len(j)])
            plus, minus, ahead, behind = np.split(moved - base, ends)
            lengths = self.groups.taken(h, places, fill=1.0).T
            alone = plus + minus
            both = ahead + behind - alone[j] - alone[k]
            H = np.empty((C, C, len(places)))
            H[range(C), range(C)] = alone / lengths**2
            H[j, k] = both / (2 * lengths[j] * lengths[k])
            H[k, j] = H[j, k]
            return (
                base,
                ((plus - minus) / (2 * lengths)).T,
                H.transpose(2, 0, 1),
            )

        return expansions

    def _steps(self, theta):
        """How far parameters (p,) are moved for differences: as wide as the curvature of all rows
        allows."""
        h = steps_at(theta)
        E = self.groups.directions(h)
        tried = around(theta, E)
        bend = np.zeros(len(theta))
        for places in parts(np.flatnonzero(self.weights), len(tried)):
            base, *moved = self.values(tried, places).T
            plus, minus = np.split(moved - base, 2)
            by_group = self.groups.summed((plus + minus).T, places, self.weights[places])
            bend += self.groups.scattered(by_group)
        return np.minimum(h, WIDTH * h / np.sqrt(np.maximum(np.abs(bend), 1e-300)))
