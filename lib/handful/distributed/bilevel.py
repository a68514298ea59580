"""Exact bilevel selection over chunks: inner problems here, gradients and the best candidates of each chunk there.

Two passes choose a row, or a batch of them, as on one machine. In the first each chunk adds up its part of the outer
gradient; in the second it scores its rows and hands up the best with their features, of which a tree keeps the best of
all. Chunks keep nothing between passes, so a worker that dies takes nothing with it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from handful.bilevel.numerics.multinomial import softmax
from handful.bilevel.numerics.multinomial_passes import SOFTMAX
from handful.bilevel.numerics.multinomial_solver import SELECTION_TOL, WEIGHTS_TOL
from handful.bilevel.numerics.passes import SQUARED, residuals, total_logistic_loss, total_squared_loss
from handful.bilevel.problems.linear import LinearProblem
from handful.bilevel.selections.linear import LinearSelection
from handful.bilevel.selections.softmax import SoftmaxSelection
from handful.bilevel.strategies.base import top_candidates, top_rows
from handful.bilevel.strategies.forward import Forward
from handful.checks import check_magnitude, check_size
from handful.distributed.chunks import Chunks, labels_in
from handful.distributed.sources import joined

BLOCK = 2048  # rows that are multiplied at once: they stay in the cache for the second product


def bilevel_model(selector, X, y, sample_weight, validation, rng, *, problem, strategy, ihvp, weighted):
    """The empty selection of a `BilevelCoreset` over dask data, its candidates, and the sum of the weights.

    Raises
    ------
    ValueError
        for what selection over chunks is not made for, and for data that `Chunks` or the problem refuses
    """
    way_out = "; or choose on a part of the rows, or use MergeReduce(BilevelCoreset(...)), which takes every selector."
    if not isinstance(problem, LinearProblem) or selector.robust:
        raise ValueError(
            "over dask data BilevelCoreset selects for Logistic and LeastSquares, with robust=False, got "
            f"{problem!r}, robust={selector.robust}{way_out}"
        )
    if not isinstance(strategy, Forward) or validation is not None or selector.outer != "train":
        raise ValueError(
            "over dask data BilevelCoreset selects by strategy='forward' (or a Forward) and outer='train', got "
            f"{selector.strategy!r} and {selector.outer!r}{way_out}"
        )
    chunks = Chunks(X, y, sample_weight, classes=problem.classifies)
    if not chunks.has_y:
        raise ValueError(
            "BilevelCoreset requires y to be passed: it selects the points on which to train a model of y."
        )
    chunks.describe(selector)
    check_magnitude(np.array([chunks.largest]), "X", chunks.dtype)
    check_size(selector.size, int(chunks.present.sum()), chunks.n)
    rows = ChunkRows(chunks, problem)
    if rows.coding.kind == SOFTMAX:
        model = SoftmaxSelection(problem, rows, rng, ihvp, WEIGHTS_TOL if weighted else SELECTION_TOL)
    else:
        model = LinearSelection(problem, rows, rng, ihvp)
    return model, ChunkCandidates(rows), chunks.total


@dataclass(frozen=True)
class Coding:
    """How a chunk turns its y into targets.

    Attributes
    ----------
    problem : Logistic or LeastSquares
    kind : LOGISTIC, SQUARED or SOFTMAX
    classes : array of all labels, ascending; None for targets and for soft labels
    codes : the target of each class
    """

    problem: LinearProblem
    kind: int
    classes: Any = None
    codes: Any = None

    def targets(self, y, dtype):
        """Targets of some rows, shape (n,) or (n, classes)."""
        if self.classes is not None:
            y = np.asarray(y).astype(self.classes.dtype, copy=False)
            return self.codes[np.searchsorted(self.classes, y)].astype(dtype)
        y = self.problem.encode(y) if len(y) else np.asarray(y, dtype=np.float64)
        check_magnitude(y, "y", dtype)
        return y.astype(dtype)


class View:
    """An array of which a function gives the rows that are asked for."""

    def __init__(self, rows, shape, dtype):
        self._rows, self.shape, self.dtype, self.ndim = rows, shape, dtype, len(shape)

    def __getitem__(self, indices):
        return self._rows(indices)


class ChunkRows:
    """What `bilevel` calls `Rows`, for data in chunks: rows in use are held here, all others stay where they are.

    Parameters
    ----------
    chunks : Chunks, with `class_counts` where the problem classifies
    problem : Logistic or LeastSquares
    """

    absent = ()  # chunks leave rows of weight zero out of their best

    def __init__(self, chunks, problem):
        self.chunks, self.coding = chunks, Coding(problem, problem.kind)
        self.held, self.latest = {}, {}
        n_outputs = 1
        if problem.classifies and chunks.y_width:
            self.coding, n_outputs = Coding(problem, SOFTMAX), chunks.y_width
        elif problem.classifies:
            classes = np.array(sorted({label for counts in chunks.class_counts for label in counts}))
            codes = problem.encode(classes)
            self.coding = Coding(problem, problem.kind if codes.ndim == 1 else SOFTMAX, classes, codes)
            n_outputs = 1 if codes.ndim == 1 else len(classes)
        shape = (chunks.n,) if self.coding.kind != SOFTMAX else (chunks.n, n_outputs)
        self.X = View(lambda rows: self._get(rows, 0), (chunks.n, chunks.d), chunks.dtype)
        self.y = View(lambda rows: self._get(rows, 1), shape, chunks.dtype)
        self.sample_weight = View(lambda rows: self._get(rows, 2), (chunks.n,), np.dtype(np.float64))

    def _get(self, rows, part):
        missing = [i for i in map(int, rows) if i not in self.held and i not in self.latest]
        if missing:
            self.hold(missing, *self.chunks.take(missing))
        found = [(self.held.get(i) or self.latest[i])[part] for i in map(int, rows)]
        return np.array(found, dtype=(self.X, self.y, self.sample_weight)[part].dtype)

    def hold(self, rows, X, y, weights):
        """Keep rows as chunks hold them."""
        X = X.toarray() if sparse.issparse(X) else X
        self.held.update(zip(rows, zip(X, self.coding.targets(y, self.X.dtype), weights)))

    def passes(self, kind):
        """As `Rows.passes`."""
        return ChunkPasses(self)

    def sample(self, most, rng):
        """As `Rows.sample`."""
        n = int(self.chunks.present.sum())
        places = np.sort(rng.choice(n, most, replace=False)) if n > most else np.arange(n)
        rows = self.chunks.nth(places)
        self._get(rows, 0)
        return rows


class ChunkCandidates:
    """As `Candidates`, for rows in chunks."""

    labels = None  # of all rows: forward selection does without

    def __init__(self, rows):
        self._rows, self._chunks = rows, rows.chunks

    def __len__(self):
        return int(self._chunks.present.sum())

    def classes(self):
        """As `Candidates.classes`."""
        return self._chunks.label_counts if self._rows.coding.problem.classifies else None

    def nth(self, positions, label=None):
        """As `Candidates.nth`."""
        rows = self._chunks.nth(np.atleast_1d(positions), label)
        return rows if np.ndim(positions) else rows[0]

    def labels_of(self, rows):
        """As `Candidates.labels_of`."""
        X, y, weights = self._chunks.take(rows)
        self._rows.hold(rows.tolist(), X, y, weights)
        return labels_in(y)


class ChunkPasses:
    """What `DataPasses` and `SoftmaxPasses` are to arrays; an array of a number a row gives the rows held here."""

    sparse = False  # rows arrive dense

    def __init__(self, rows):
        self.rows, self.y, self._softmax = rows, rows.y, rows.coding.kind == SOFTMAX
        self.z = View(lambda i: self._held(i)[0], rows.y.shape, rows.X.dtype)
        self.r = View(lambda i: self._held(i)[1], rows.y.shape, rows.X.dtype)

    def _held(self, indices):
        X, y = self.rows.X[indices], self.rows.y[indices]
        Z = X @ self.theta[1:] + self.theta[0]
        return Z.copy(), _residuals(self.rows.coding.kind, Z, y, np.ones(len(y)))[0]

    def _intercept_first(self, theta):
        theta = theta if self._softmax else np.roll(theta, 1)
        return theta.astype(self.rows.X.dtype)

    def outer_gradient(self, theta):
        """As `DataPasses.outer_gradient`: one pass."""
        chunks, self.theta = self.rows.chunks, self._intercept_first(theta)
        scale = chunks.n / chunks.total
        gradient, loss = chunks.reduce(_gradient, self.rows.coding, self.theta, scale)
        self._mean_loss = float(loss) / chunks.n
        return (gradient if self._softmax else np.roll(gradient, -1)) / chunks.n

    def mean_loss(self):
        """As `DataPasses.mean_loss`."""
        return self._mean_loss

    def linear_scores(self, v):
        """As `DataPasses.linear_scores`, of which only the `top` ever leaves the chunks."""
        return ChunkScores(self, self._intercept_first(v))


class ChunkScores:
    """Scores of all rows, to be computed in their chunks when the best are asked for."""

    def __init__(self, passes, v):
        self._passes, self._theta, self._v, self._excluded = passes, passes.theta, v, []

    def __setitem__(self, indices, value):
        # only -inf is ever set
        self._excluded += [int(i) for i in indices]

    def __getitem__(self, indices):
        held = self._passes.rows
        products = held.X[indices] @ self._v[1:] + self._v[0]
        r = self._passes.r[indices]
        return r * products if r.ndim == 1 else np.einsum("nk,nk->n", r, products)

    def top(self, k):
        """As `top_rows`: one pass, and the rows are held until the next one."""
        held = self._passes.rows
        arguments = held.coding, self._theta, self._v, k, np.sort(self._excluded).astype(np.int64)
        scores, rows, X, y, weights, _ = held.chunks.reduce(_best, *arguments, combine=_best_of)
        held.held.update({i: held.latest[i] for i in self._excluded if i in held.latest})
        held.latest = dict(zip(rows.tolist(), zip(X, y, weights)))
        return rows, scores


# --- in tasks


def _residuals(kind, Z, y, u):
    """Derivatives of losses by the logits `Z`, which are overwritten, and the sum of the losses, weighted by `u`."""
    if kind == SOFTMAX:
        loss = np.empty(len(Z), dtype=Z.dtype)
        softmax(Z, y, loss)
        return Z - y, float(loss.astype(np.float64) @ u)
    r = np.empty_like(Z)
    residuals(kind, Z, y, r)
    if kind == SQUARED:
        return r, total_squared_loss(r, u)
    return r, total_logistic_loss(Z, r, y, u, True)


def _blocks(chunk, coding, theta, scale=1.0):
    # Of every few rows: where they are, their features, residuals, weights in the outer loss and summed loss.
    y, u = coding.targets(chunk.y, chunk.X.dtype), chunk.weights * scale
    for start in range(0, len(chunk), BLOCK):
        some = slice(start, start + BLOCK)
        X = chunk.X[some]
        yield some, X, *_residuals(coding.kind, X @ theta[1:] + theta[0], y[some], u[some]), u[some]


def _gradient(chunk, coding, theta, scale):
    """The chunk's part of the outer gradient, intercepts first, and of the loss."""
    gradient, total = np.zeros(theta.shape), 0.0
    for _, X, R, loss, u in _blocks(chunk, coding, theta, scale):
        R *= u.astype(R.dtype).reshape((-1,) + (1,) * (R.ndim - 1))
        gradient[0] += R.sum(axis=0)
        gradient[1:] += X.T @ R
        total += loss
    return gradient, np.float64(total)


def _best(chunk, coding, theta, v, k, excluded):
    """The scores of the chunk's k best rows, their places, features, targets and weights."""
    scores = np.empty(len(chunk), dtype=chunk.X.dtype)
    for some, X, R, _, _ in _blocks(chunk, coding, theta):
        products = X @ v[1:] + v[0]
        scores[some] = R * products if R.ndim == 1 else np.einsum("nk,nk->n", R, products)
    scores[chunk.weights == 0] = -np.inf
    mine = excluded[(excluded >= chunk.start) & (excluded < chunk.start + len(chunk))]
    scores[mine - chunk.start] = -np.inf
    rows, best = top_rows(scores, k) if len(chunk) else (np.empty(0, np.intp), scores)
    keep = best > -np.inf
    rows, best = rows[keep], best[keep]
    X = chunk.X[rows]
    y = coding.targets(chunk.y[rows], chunk.X.dtype)
    return best, chunk.start + rows, X.toarray() if sparse.issparse(X) else X, y, chunk.weights[rows], k


def _best_of(parts):
    k = parts[0][-1]
    columns = [joined(values) for values in list(zip(*parts))[:-1]]
    best = top_candidates(columns[0], k)
    return *(values[best] for values in columns), k
