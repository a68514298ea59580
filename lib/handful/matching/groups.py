"""Matched rows of models with groups: equations that grow with the groups, not with their square.

The parameters of a group occur in its own rows, together with the shared ones and with no other
group's. So the rows of some groups together, a batch, are recombined on their own: sums of each
group (its weight, the slopes and curvatures of its parameters, also with the shared ones, and what
these leave of its log-likelihood at a few draws), and sums of the batch (slopes and curvatures of
the shared parameters, and what is left at further draws).
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from handful.checks import ConvergenceError
from handful.matching.pilot import INFLATION, deviations_of
from handful.matching.recombine import recombine

# Numbers of the rows' predictors that are computed at once.
PART = 1 << 22
# A column that is not zero in more than this share of the rows is shared; smaller shares are tried
# by halves, down to the last.
FIRST_SHARE = 0.5
LAST_SHARE = 2.0**-16
# Draws at which the remainders of each group are matched, one after another until `tol` is met.
LOCAL_DRAWS = (2, 3, 4, 6, 8, 12, 16)
# Draws at which those of each batch are matched.
BATCH_DRAWS = 20
# A batch has about so many equations of its groups for each of its own, and so many at least.
OWN_SHARE = 4
LEAST_EQUATIONS = 160
MOST_EQUATIONS = 1200
# A group whose rows are at most so many times its equations keeps them all.
KEPT = 1.5
# More equations of one group, or of one batch, are not taken, as time grows with their cube.
TOO_MANY = 3001
# Draws at which the divergence is estimated.
HELD_OUT = 200
# A share of the rows from which more draws are not tried.
MOST_ROWS = 1 / 3
# A dense matrix is taken for one of indicators if it has more columns and at most this share of
# entries that are not zero.
FEWEST_COLUMNS = 50
MOST_NONZERO = 0.25
# Rows that show how many equations a group has.
SEEN = 1000
# Newton steps to the mode, and what a step promises to gain where it is the last.
MAX_STEPS = 100
ENOUGH = 1e-10


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

    def restricted(self, places, weights):
        """Some of the rows, with new weights."""
        return SparseRows(self.model, self.X[places], self.y[places], weights)

    def parts(self, n_columns):
        """Slices of the rows, whose predictors at so many parameters are held at once."""
        step = max(1, PART // max(1, n_columns))
        n = self.design.shape[0]
        return [slice(start, start + step) for start in range(0, n, step)]

    def values(self, theta):
        """Log-likelihoods of each row at parameters (K, p), shape (n, K)."""
        found = [self._values(part, theta) for part in self.parts(len(theta))]
        return np.concatenate(found)

    def sums(self, theta):
        """Log-likelihoods of all rows together at parameters (K, p), shape (K,)."""
        total = np.zeros(len(theta))
        for part in self.parts(len(theta)):
            total += self.weights[part] @ self._values(part, theta)
        return total

    def slopes(self, theta):
        """Slopes of the log-likelihood of all rows together at parameters (K, p), shape (K, p)."""
        total = np.zeros(theta.shape)
        for part in self.parts(len(theta)):
            eta = self.design[part] @ theta.T
            targets = np.repeat(self.y[part], len(theta), axis=0)
            first, _ = self.model.link.derivatives(eta.reshape(-1, 1), targets)
            weighted = self.weights[part, None] * first.reshape(eta.shape)
            total -= (self.design[part].T @ weighted).T
        return total

    def _values(self, part, theta):
        p = self.design.shape[1]
        if theta.shape[1] != p:
            raise ValueError(
                f"draws must hold {p} coefficients, intercepts after them, got shape {theta.shape}."
            )
        return self.model.at(self.design[part] @ theta.T, self.y[part])

    def n_terms(self):
        """First- and second-order terms of the parameters that occur together in a row."""
        pattern = _pattern(self.design)
        together = (pattern.T @ pattern).nnz
        p = self.design.shape[1]
        return p + (p + together) // 2

    def derivatives(self, theta):
        """First and second derivatives of each row's loss by its predictor at parameters (p,), both
        of shape (n,)."""
        eta = (self.design @ theta)[:, None]
        first, second = self.model.link.derivatives(eta, self.y)
        return first[:, 0], second[:, 0, 0]


class SparsePilot:
    """The Gaussian at the mode of a log-concave posterior whose curvature is a sparse matrix.

    Parameters
    ----------
    rows : SparseRows
    deviations : of the prior of mean zero, shape (p,)

    Raises
    ------
    ConvergenceError
        where no mode is found
    """

    def __init__(self, rows, deviations):
        self.rows = rows
        self.deviations = deviations
        self.mode = np.zeros(rows.design.shape[1])
        with np.errstate(all="ignore"):
            self._climb()

    def _climb(self):
        value = self.log_posterior(self.mode)
        for _ in range(MAX_STEPS):
            first, second = self.rows.derivatives(self.mode)
            slope = -self.rows.design.T @ (self.rows.weights * first)
            slope -= self.mode / self.deviations**2
            self.root_curvature = np.sqrt(self.rows.weights * second)
            self.curvature = self._curvature()
            self.solve = splu(self.curvature.tocsc(), permc_spec="MMD_AT_PLUS_A").solve
            step = self.solve(slope)
            gain = slope @ step
            if not np.isfinite(gain):
                break
            if gain <= ENOUGH:
                self.mode = self.mode + step
                return
            length = 1.0
            higher = self.log_posterior(self.mode + step)
            while not higher - value >= 1e-4 * length * gain - ENOUGH * abs(value):
                length /= 2
                if length < 1e-12:
                    return
                higher = self.log_posterior(self.mode + length * step)
            self.mode = self.mode + length * step
            value = higher
        raise ConvergenceError(
            "no mode was found: centre and scale the columns of X, or give a narrower prior."
        )

    def log_prior(self, theta):
        """Of parameters (K, p), up to a constant, shape (K,)."""
        return -0.5 * (theta**2) @ self.deviations**-2.0

    def log_posterior(self, theta):
        """Of parameters (p,)."""
        return (self.rows.sums(theta[None]) + self.log_prior(theta[None]))[0]

    def _curvature(self):
        weighted = sparse.diags_array(self.root_curvature) @ self.rows.design
        return (weighted.T @ weighted + sparse.diags_array(self.deviations**-2.0)).tocsc()

    def draws(self, n, rng, inflation=1.0):
        """Parameters, shape (n, p): noise of the curvature's covariance, solved by the curvature
        (Papandreou and Yuille 2010, Section 3)."""
        noise = rng.standard_normal((n, len(self.mode))) / self.deviations
        for part in self.rows.parts(n):
            root = self.root_curvature[part, None]
            noise += (self.rows.design[part].T @ (root * rng.standard_normal((len(root), n)))).T
        return self.mode + inflation * self.solve(noise.T).T


@dataclass
class Groups:
    """Which columns of a design are shared, and which group each row and each other column has.

    Attributes
    ----------
    shared : int array, columns
    of_row : int array, shape (n,), the group of each row; -1 where it has none
    own : list of int arrays, the columns of each group
    """

    shared: np.ndarray
    of_row: np.ndarray
    own: list

    @property
    def n_equations(self):
        """About how many sums would be kept, without remainders."""
        b = len(self.shared)
        widths = np.array([len(columns) for columns in self.own])
        return int((2 + widths + widths * (widths + 1) // 2 + widths * b).sum()) + b * (b + 3) // 2


def find_groups(design):
    """The `Groups` of the columns of a CSR design that ask for the fewest sums: columns that few
    rows have belong to one group if they are linked by rows."""
    pattern = _pattern(design)
    counts = pattern.sum(0)
    best = None
    share = FIRST_SHARE
    tried = None
    while share >= LAST_SHARE:
        shared = np.flatnonzero(counts > share * design.shape[0])
        share /= 2
        if tried is not None and len(shared) == tried:
            continue
        tried = len(shared)
        found = _linked(pattern, shared)
        if best is None or found.n_equations < best.n_equations:
            best = found
    return best


def _pattern(design):
    """Ones where a CSR matrix is not zero."""
    pattern = sparse.csr_array(design, copy=True)
    pattern.eliminate_zeros()
    pattern.data[:] = 1
    return pattern


def _linked(pattern, shared):
    """The `Groups` that are left when these columns are shared."""
    n, p = pattern.shape
    rest = np.setdiff1d(np.arange(p), shared)
    few = pattern[:, rest].tocsr()
    graph = sparse.block_array([[None, few], [few.T, None]], format="csr")
    _, label = connected_components(graph, directed=False)
    has = np.diff(few.indptr) > 0
    of_row = np.full(n, -1)
    names, of_row[has] = np.unique(label[:n][has], return_inverse=True)
    of_column = label[n:]
    order = np.argsort(of_column, kind="stable")
    starts = np.searchsorted(of_column[order], names)
    ends = np.searchsorted(of_column[order], names, side="right")
    own = [rest[order[start:end]] for start, end in zip(starts, ends)]
    return Groups(shared, of_row, own)


class GroupMatch:
    """Rows that keep the sums of each group and of each batch at the pilot's mode and draws.

    Parameters
    ----------
    rows : SparseRows
    pilot : SparsePilot
    groups : Groups
    rng : Generator, of the draws that are matched
    """

    def __init__(self, rows, pilot, groups, rng):
        self.rows = rows
        self.pilot = pilot
        self.groups = groups
        self.first, self.second = rows.derivatives(pilot.mode)
        self.shared = rows.design[:, groups.shared]
        self.own = self._own_columns()
        self.common = pilot.draws(BATCH_DRAWS, rng, INFLATION)
        self.local = pilot.draws(LOCAL_DRAWS[-1], rng, INFLATION)

    def _own_columns(self):
        # The columns that are not shared, each at its place in its group.
        p = self.rows.design.shape[1]
        place = np.full(p, -1)
        for columns in self.groups.own:
            place[columns] = np.arange(len(columns))
        kept = place[self.rows.design.indices] >= 0
        ends = np.concatenate([[0], np.cumsum(kept)])[self.rows.design.indptr]
        width = max([len(columns) for columns in self.groups.own], default=0)
        return sparse.csr_array(
            (self.rows.design.data[kept], place[self.rows.design.indices[kept]], ends),
            shape=(len(self.first), width),
        )

    def remainders(self, places, theta):
        """What slope and curvature at the mode leave of the log-likelihoods of some rows at
        parameters (K, p), shape (rows, K)."""
        design = self.rows.design[places]
        base = (design @ self.pilot.mode)[:, None]
        move = design @ (theta - self.pilot.mode).T
        targets = self.rows.y[places]
        model = self.rows.model
        slope = self.first[places, None]
        bend = 0.5 * self.second[places, None]
        return (
            model.at(base + move, targets) - model.at(base, targets) + (slope + bend * move) * move
        )

    def of_groups(self, places, n_draws):
        """Equations of the rows' own groups, shape (rows, E)."""
        own = self.own[places].toarray()
        shared = self.shared[places].toarray()
        first = self.first[places, None]
        second = self.second[places, None]
        j, k = np.tril_indices(own.shape[1])
        crossed = (own[:, :, None] * shared[:, None, :]).reshape(len(places), -1)
        found = [
            np.ones((len(places), 1)),
            first * own,
            second * own[:, j] * own[:, k],
            second * crossed,
            self.remainders(places, self.local[:n_draws]),
        ]
        # The slope by an indicator times a constant column is that by the indicator.
        _, distinct = np.unique(np.hstack(found), axis=1, return_index=True)
        return np.hstack(found)[:, np.sort(distinct)]

    def of_batch(self, places):
        """Equations of the shared parameters, of some rows: shape (rows, E)."""
        shared = self.shared[places].toarray()
        first = self.first[places, None]
        second = self.second[places, None]
        base = (self.rows.design[places] @ self.pilot.mode)[:, None]
        j, k = np.tril_indices(shared.shape[1])
        found = [
            self.rows.model.at(base, self.rows.y[places]),
            first * shared,
            second * shared[:, j] * shared[:, k],
            self.remainders(places, self.common),
        ]
        return np.hstack(found)

    def n_equations(self, n_draws):
        """How many equations a group has, and a batch for itself.

        Raises
        ------
        ValueError
            for more than can be solved, as where the columns have no groups
        """
        inside = np.flatnonzero((self.groups.of_row >= 0) & (self.rows.weights > 0))
        width = self.own.shape[1]
        b = len(self.groups.shared)
        if width * (width + 2 * b) > 2 * TOO_MANY or b * b > 2 * TOO_MANY:
            raise ValueError(
                f"these columns have no groups that are small enough: {b} are shared by many rows, "
                f"and {width} belong together beside them; a group may have some tens of columns. "
                "Take fewer columns, or BilevelCoreset(...)."
            )
        seen = inside[np.linspace(0, len(inside) - 1, min(SEEN, len(inside))).astype(int)]
        n_own = self.of_groups(seen, n_draws).shape[1] if len(seen) else 1
        return n_own, self.of_batch(seen[:1]).shape[1]

    def match(self, n_draws):
        """Places, ascending, weights and residual of rows that keep the sums, remainders of the
        groups at so many draws."""
        self.n_matched = 0
        found = []
        for places, group in self._batches(n_draws):
            found.append(self._recombined(places, group, n_draws))
        places, weights, residuals = zip(*found)
        places = np.concatenate(places)
        order = np.argsort(places)
        return places[order], np.concatenate(weights)[order], max(residuals)

    def _batches(self, n_draws):
        """Rows of so many groups that their equations outnumber those of the batch, and the number
        of each row's group among these; rows without a group come first."""
        weights = self.rows.weights
        order = np.argsort(self.groups.of_row, kind="stable")
        order = order[weights[order] > 0]
        counts = np.bincount(self.groups.of_row[order] + 1, minlength=len(self.groups.own) + 1)
        ends = np.cumsum(counts)
        n_own, n_common = self.n_equations(n_draws)
        wanted = min(max(LEAST_EQUATIONS, OWN_SHARE * n_common), MOST_EQUATIONS)
        n_groups = max(1, wanted // n_own)
        if ends[0]:
            yield order[: ends[0]], np.zeros(ends[0], int)
        large = np.flatnonzero(counts[1:] > KEPT * n_own)
        small = np.flatnonzero((counts[1:] > 0) & (counts[1:] <= KEPT * n_own))
        if len(small):
            yield np.concatenate([order[ends[g] : ends[g + 1]] for g in small]), None
        for start in range(0, len(large), n_groups):
            batch = large[start : start + n_groups]
            places = np.concatenate([order[ends[g] : ends[g + 1]] for g in batch])
            yield places, np.repeat(np.arange(len(batch)), counts[1 + batch])

    def _recombined(self, places, group, n_draws):
        weights = self.rows.weights[places]
        if group is None:
            return places, weights, 0.0
        own = self.of_groups(places, n_draws)
        common = self.of_batch(places)
        n_groups = group.max() + 1
        self.n_matched += n_groups * own.shape[1] + common.shape[1]

        def features(k):
            spread = np.zeros((len(k), n_groups, own.shape[1]))
            spread[np.arange(len(k)), group[k]] = own[k]
            return np.hstack([spread.reshape(len(k), -1), common[k]])

        chosen, found, residual = recombine(features, len(places), weights)
        return places[chosen], found, residual


@dataclass
class MatchOfGroups:
    """What `match_groups` found.

    Attributes
    ----------
    places, weights : of the rows, places ascending
    residual : largest error of a sum, relative
    kl : half the variance of what the rows miss of the log-likelihood, at draws of the pilot that
        were not matched
    n_equations : sums that were matched
    mode : shape (p,)
    parameters : shape (K, p), where remainders were matched
    """

    places: np.ndarray
    weights: np.ndarray
    residual: float
    kl: float
    n_equations: int
    mode: np.ndarray
    parameters: np.ndarray


def mostly_zero(X):
    """Whether a matrix is sparse, or so many of its columns are indicators that it should be."""
    if sparse.issparse(X):
        return True
    return X.shape[1] > FEWEST_COLUMNS and np.count_nonzero(X) < MOST_NONZERO * X.size


def match_groups(rows, groups, prior, tol, rng):
    """Rows that keep the sums of each group, remainders at more draws until `tol` nats are met.

    Parameters
    ----------
    rows : SparseRows
    groups : Groups, of its design
    prior : deviations of a Gaussian prior, a number or shape (p,)
    tol : largest divergence
    rng : Generator

    Returns
    -------
    MatchOfGroups
    """
    pilot = SparsePilot(rows, deviations_of(prior, rows.design.shape[1]))
    matched = GroupMatch(rows, pilot, groups, rng)
    held = pilot.draws(HELD_OUT, rng)
    full = rows.sums(held)
    for n_draws in LOCAL_DRAWS:
        places, weights, residual = matched.match(n_draws)
        missed = full - rows.restricted(places, weights).sums(held)
        kl = float(np.var(missed) / 2)
        if kl <= tol or len(places) > MOST_ROWS * np.count_nonzero(rows.weights):
            break
    return MatchOfGroups(
        places,
        weights,
        residual,
        kl,
        matched.n_matched,
        pilot.mode,
        np.vstack([matched.local[:n_draws], matched.common]),
    )
