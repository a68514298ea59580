"""All rows of a data set, in memory or in blocks: sums over them, and the few rows that keep such sums."""

import numpy as np
from scipy.linalg import solve_triangular

from handful.blocks import Blocks
from handful.matching.recombine import recombine
from handful.types import join_rows

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

    def over(self, reduce, function, width, *args):
        """``reduce`` of what a function of `Rows` and `args` gives of parts, of so many numbers a row."""
        step = max(1, BLOCK // max(1, width))
        return reduce(function(self.take(slice(a, a + step)), *args) for a in range(0, len(self.weights), step))

    def values(self, theta):
        """Log-likelihoods of each row at parameters (K, p), shape (n, K)."""
        return self.over(_stack, _values, len(theta) * max(1, self.model.n_outputs), theta)

    def sums(self, theta):
        """Log-likelihoods of all rows together at parameters (K, p), shape (K,)."""
        return self.over(sum, _sums, len(theta) * max(1, self.model.n_outputs), theta)

    def expand(self, theta):
        """Of the log-likelihood at parameters (p,): the gradient, and below it minus the Hessian, shape (p + 1, p)."""
        return self.over(sum, _expand, len(theta), theta)

    def touched(self, theta):
        """In how many rows two parameters move the log-likelihood together, shape (p, p)."""
        points = np.vstack([theta, theta + np.diag(1e-3 * np.maximum(1.0, np.abs(theta)))])
        return self.over(sum, _touched, 4 * len(theta), points)

    def longest(self, root):
        """Largest length of a row of a linear model's design, in the metric of a Cholesky factor."""
        return self.over(max, _longest, self.n_columns, root)

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


def _stack(parts):
    return np.concatenate(list(parts))


def _values(rows, theta):
    return rows.model.values(theta, rows.X, rows.y)


def _sums(rows, theta):
    return rows.weights @ _values(rows, theta)


def _expand(rows, theta):
    return rows.model.expand(theta, rows.X, rows.y, rows.weights)


def _touched(rows, points):
    values = _values(rows, points)
    moved = (values[:, 1:] != values[:, :1]).astype(np.float32)
    return (moved.T @ moved).astype(float)


def _longest(rows, root):
    return np.sqrt((solve_triangular(root, rows.model.design(rows.X).T, lower=True) ** 2).sum(0).max())


class RowsInBlocks(Rows):
    """Rows of which the columns are read block by block: what is reduced over them is reduced over each block first.

    Parameters
    ----------
    model, y, weights : as for `Rows`
    blocks : Blocks, whose rows were checked
    """

    def __init__(self, model, blocks: Blocks, y, weights):
        self.model, self.blocks, self.y, self.weights, self.n_columns = model, blocks, y, weights, blocks.d
        own = [(y if y is None else y[a : a + n], weights[a : a + n]) for a, n in zip(blocks.starts, blocks.lengths)]
        self.own = [sides if sides[1].any() else None for sides in own]

    def over(self, reduce, *args):
        """As `Rows.over`; `reduce` and the function at the top level of a module."""
        return reduce(self.blocks.map(_of_block, self.model, "over", (reduce, *args), own=self.own))

    def take(self, rows, weights=None):
        """As `Rows.take`."""
        X = np.asarray(self.blocks.take(rows).X, float)
        return Rows(self.model, X, None if self.y is None else self.y[rows], weights)

    def match(self, equations, n_parts=1):
        """As `Rows.match`: the rows of each block, and of their union those that keep its sums."""
        kept = self.blocks.map(_of_block, self.model, "match", (equations,), own=self.own)
        places, rows, _ = zip(*kept)
        union = Rows(self.model, *(join_rows([getattr(r, name) for r in rows]) for name in ("X", "y", "weights")))
        chosen, few, residual = union.match(equations, n_parts)
        return np.concatenate(places)[chosen], few, residual


def _of_block(block, model, method, args, own):
    found = getattr(Rows(model, np.asarray(block.X, float), *own), method)(*args)
    return (block.ids[found[0]], *found[1:]) if method == "match" else found
