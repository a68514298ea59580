"""All rows of a data set, in memory or in blocks: sums over them, and the few rows that keep such sums."""

from functools import partialmethod

import numpy as np
from scipy.linalg import solve_triangular

from handful.blocks import Blocks
from handful.checks import check_rows
from handful.matching.recombine import recombine

BLOCK = 1 << 18  # numbers of a part of the rows in memory at once: they fit into a cache


class Rows:
    """Rows in memory.

    Parameters
    ----------
    model : Likelihood
    X, y, weights : arrays of n entries; y as the model takes it, or None
    """

    def __init__(self, model, X, y, weights):
        self.model, self.X, self.y, self.weights = model, X, y, weights
        self.n_columns = X.shape[1]

    def take(self, rows, weights=None):
        """Some of the rows, with their weights or new ones, in memory."""
        y = None if self.y is None else self.y[rows]
        return Rows(self.model, self.X[rows], y, self.weights[rows] if weights is None else weights)

    def _parts(self, width):
        step = max(1, BLOCK // max(1, width))
        return (self.take(slice(a, a + step)) for a in range(0, len(self.weights), step))

    def sums(self, theta):
        """Log-likelihoods of all rows together at parameters (K, p), shape (K,)."""
        return sum(part.weights @ self.model.values(theta, part.X, part.y) for part in self._parts(len(theta)))

    def expand(self, theta):
        """Of the log-likelihood at parameters (p,): the gradient, and below it minus the Hessian, shape (p + 1, p)."""
        return sum(self.model.expand(theta, part.X, part.y, part.weights) for part in self._parts(self.n_columns))

    def touched(self, theta):
        """In how many rows two parameters move the log-likelihood together, shape (p, p)."""
        points, counts = np.vstack([theta, theta + np.diag(1e-3 * np.maximum(1.0, np.abs(theta)))]), 0.0
        for part in self._parts(4 * len(theta)):
            values = self.model.values(points, part.X, part.y)
            moved = (values[:, 1:] != values[:, :1]).astype(np.float32)
            counts = counts + (moved.T @ moved).astype(float)
        return counts

    def longest(self, root):
        """Largest length of a row of a linear model's design, in the metric of a Cholesky factor."""
        designs = (self.model.design(part.X).T for part in self._parts(self.n_columns))
        return max(np.sqrt((solve_triangular(root, A, lower=True) ** 2).sum(0).max()) for A in designs)

    def match(self, equations, n_parts=1):
        """Rows whose sums of some equations are those of all.

        Parameters
        ----------
        equations : function of (model, X, y) that gives an array with a row for each row
        n_parts : independent parts of the rows, whose sums add

        Returns
        -------
        places, rows, residual : places of the chosen rows, ascending; these `Rows`; what `recombine` says
        """
        found = []
        for part in (np.arange(k, len(self.weights), n_parts) for k in range(n_parts)):

            def features(r, part=part):
                rows = self.take(part[r])
                return equations(self.model, rows.X, rows.y)

            if self.weights[part].any():
                i, w, residual = recombine(features, len(part), self.weights[part])
                found.append((part[i], w, residual))
        places, w, residuals = (np.hstack(values) for values in zip(*found))
        order = np.argsort(places)
        return places[order], self.take(places[order], w[order]), float(residuals.max())


def _added(self, method, theta):
    return sum(self._each(method, theta))


class RowsInBlocks(Rows):
    """Rows of which the columns are read block by block; each sum is that of the blocks' sums.

    Parameters
    ----------
    model, y, weights : as for `Rows`
    blocks : Blocks
    """

    def __init__(self, model, blocks: Blocks, y, weights):
        self.model, self.blocks, self.y, self.weights, self.n_columns = model, blocks, y, weights, blocks.d
        stretches = [slice(a, a + n) for a, n in zip(blocks.starts, blocks.lengths)]
        self.own = [(None if y is None else y[s], weights[s]) for s in stretches]

    def _each(self, method, *args):
        return self.blocks.map(_of_block, self.model, method, args, own=self.own)

    sums, expand, touched = (partialmethod(_added, method) for method in ("sums", "expand", "touched"))

    def longest(self, root):
        """As of `Rows`."""
        return max(self._each("longest", root))

    def take(self, rows, weights=None):
        """As of `Rows`."""
        few = check_rows(self.blocks.take(rows).X)
        return Rows(self.model, few, None if self.y is None else self.y[rows], weights)

    def match(self, equations, n_parts=1):
        """As of `Rows`: the rows of each block, and of their union those that keep its sums."""
        kept = [f for f in self._each("match", equations) if f is not None]
        places, rows, _ = zip(*kept)
        union = Rows(
            self.model,
            *(None if c[0] is None else np.concatenate(c) for c in zip(*((r.X, r.y, r.weights) for r in rows))),
        )
        chosen, few, residual = union.match(equations, n_parts)
        return np.concatenate(places)[chosen], few, residual


def _of_block(block, model, method, args, own):
    y, weights = own
    rows = Rows(model, check_rows(block.X), y, weights)
    if method != "match":
        return getattr(rows, method)(*args)
    if not weights.any():
        return None
    places, few, residual = rows.match(*args)
    return block.ids[places], few, residual
