"""Variational EM on weighted rows: the iterations of vc-GMM (Hirschberger, Forster and Lücke 2019,
Algorithm 1)."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from handful.clustering import moves as moving
from handful.clustering import vcgmm_kernels as kernels

# iterations after which rows are sorted by cluster, so that centres stay in the cache
REORDER_AFTER = (2, 6)
# rounds of moves
MAX_ROUNDS = 10
# moves begin when an iteration raises the bound by less, in nats per point and dimension
SETTLED = 1e-3
# tries in a round, each with a quarter of the moves of the one before
ATTEMPTS = 3


@dataclass(frozen=True)
class TruncatedEM:
    """How the bound is ascended. The defaults are ours; `PAPER` is Algorithm 1 as printed.

    Attributes
    ----------
    start : "random" lets each point begin at random clusters, as the paper does: the first variance
        is then large, which acts as a kind of annealing and loses good seeds; "nearest" lets it
        begin at its nearest seed; "auto" is "random" for init="afkmc2" and "nearest" for all others
    moves : how a fit leaves a local optimum. "split" waits until the bound has settled. Then it
        takes clusters whose loss would lower the bound least, and moves them to where cutting
        another cluster in two raises it most, as long as the bound rises on balance. None moves
        nothing, as in the paper and in a `partial_fit`: rows of earlier calls cannot be cut.
    grow : bool, begin with a lightweight coreset of 16 rows for each cluster and go on with four
        times as many, until all rows (or all of the coreset) take part: most iterations are then on
        few rows. The paper has one phase.
    stopping : what `tol` measures. "per point": nats a point and dimension, whatever the units of
        X; "relative": the share of the bound, as in the paper
    n_random : int, random clusters that join each search; the paper adds one where G is 3
    n_warmup : int, E-steps that improve the search sets and neighbourhoods before the first M-step;
        the first variance follows from the last of them (supplement F of the paper: 4 on its RNA
        data, 5 on Tiny Images, else none)
    chain_length : int, m, candidates for each seed by AFK-MC2: more follow k-means++ more closely
        and take longer
    """

    start: str = "auto"
    moves: str | None = "split"
    grow: bool = True
    stopping: str = "per point"
    n_random: int = 0
    n_warmup: int = 0
    chain_length: int = 2


PAPER = TruncatedEM("random", None, False, "relative")


@dataclass
class Mixture:
    """Gaussian mixture of equal priors and one variance, in the coordinates of the fit; rows padded
    with zeros.

    Attributes
    ----------
    centers : array, shape (C, p)
    variance : float; 0 until eq. (8) gives it
    neighbours : int32 array, shape (C, G), each cluster's neighbourhood, itself first
    """

    centers: np.ndarray
    variance: float
    neighbours: np.ndarray


@dataclass
class Statistics:
    """All that the M-step needs to know of rows whose responsibilities no longer change.

    Attributes
    ----------
    mass : float64 array, shape (C,), weight of each cluster
    means : float64 array, shape (C, p)
    scatter : float64 array, shape (C,), weighted sum of squared distances to the mean
    """

    mass: np.ndarray
    means: np.ndarray
    scatter: np.ndarray

    def __add__(self, other):
        mass = self.mass + other.mass
        zero = np.zeros_like(mass)
        part = np.divide(other.mass, mass, out=zero, where=mass > 0)
        step = other.means - self.means
        means = self.means + part[:, None] * step
        squares = (step**2).sum(axis=1)
        scatter = self.scatter + other.scatter + self.mass * part * squares
        return Statistics(mass, means, scatter)


@dataclass
class Trace:
    """Record of an optimisation: bounds after each E-step, iterations, distances, moves, final
    statistics.

    `nearest_rows`, int array of shape (C,), is for each cluster the nearest of the rows that found
    no better cluster, or -1 where there is none.
    """

    bounds: list = field(default_factory=list)
    n_iter: int = 0
    n_distances: int = 0
    n_moves: int = 0
    converged: bool = False
    statistics: Statistics | None = None
    nearest_rows: np.ndarray | None = None


def padded(rows, shift=0.0):
    """`rows - shift` with zero columns up to a multiple of the kernels' width, C-contiguous, in the
    type of `rows`."""
    n, d = rows.shape
    width = math.ceil(d / kernels.LANES) * kernels.LANES
    out = np.zeros((n, width), rows.dtype)
    # a difference in float64 would take twice the rows
    np.subtract(rows, shift, out=out[:, :d], casting="same_kind")
    return out


def random_neighbours(n_clusters, width, rng):
    """Each cluster first, then ``width - 1`` others, all distinct: int32 array, shape (C,
    width)."""
    n_others = n_clusters - 1
    n_wanted = width - 1
    if 3 * width > n_clusters:
        others = np.tile(np.arange(n_others, dtype=np.int32), (n_clusters, 1))
        others = rng.permuted(others, axis=1)[:, :n_wanted]
    else:
        others = rng.integers(n_others, size=(n_clusters, n_wanted), dtype=np.int32)
        twice = _rows_with_repeats(others)
        while len(twice):
            others[twice] = rng.integers(n_others, size=(len(twice), n_wanted), dtype=np.int32)
            twice = _rows_with_repeats(others)
    first = np.arange(n_clusters, dtype=np.int32)[:, None]
    others = others + (others >= first)
    return np.hstack([first, others])


def _rows_with_repeats(numbers):
    steps = np.diff(np.sort(numbers, axis=1), axis=1)
    has_repeats = (steps == 0).any(axis=1)
    return np.flatnonzero(has_repeats)


def random_sets(n, n_clusters, width, rng):
    """The first K(n): `width` random clusters for each point. One may come twice: a search looks at
    each once."""
    return rng.integers(n_clusters, size=(n, width), dtype=np.int32)


class VariationalEM:
    """The weighted rows, their sets K(n), and the iterations on them.

    Parameters
    ----------
    Y : array, shape (n, p), padded
    weights : float64 array, shape (n,), positive
    n_features : int, D, columns of Y that are not padding
    K : int32 array, shape (n, C')
    n_random : int, random clusters that join each search set
    key : int, for the random clusters
    threads : kernels.Threads
    floor : float, the least variance
    hard : bool, give each point to its best cluster alone
    n_steps : int, M-steps that came before on other rows
    past : Statistics of further rows, which stay with their clusters (incremental EM, Neal and
        Hinton 1998), or None
    """

    def __init__(
        self,
        Y,
        weights,
        n_features,
        K,
        *,
        n_random,
        key,
        threads,
        floor,
        hard=False,
        n_steps=0,
        past=None,
    ):
        self.Y = Y
        self.weights = weights
        self.K = K
        self.n_features = n_features
        self.n_random = n_random
        self.key = np.uint64(key)
        self.threads = threads
        self.floor = floor
        self.past = past
        past_weight = 0.0 if past is None else past.mass.sum()
        self.total = weights.sum() + past_weight
        # where each row stood before the reordering
        self.rows = np.arange(len(Y))
        n, n_kept = K.shape
        self.best = np.empty((n, n_kept), Y.dtype)
        self.share = np.empty((n, n_kept))
        self.log_sum = np.empty(n)
        self.n_found = np.zeros(n, np.int32)
        self.found = self.found_value = None
        self.hard = hard
        self.n_steps = n_steps

    def run(self, mixture, *, tol, max_iter, n_warmup=0, relative=False, moves=None, progress=None):
        """Iterate until the bound settles; changes `mixture` in place.

        Parameters
        ----------
        mixture : Mixture; a variance of 0 is replaced by eq. (8) after the first E-step
        tol : float, the least change of the bound per point and dimension or, with `relative`,
            relative to the bound
        max_iter : int, M-steps at most
        n_warmup, moves : as in `TruncatedEM`
        progress : called after every E-step, or None

        Returns
        -------
        Trace; its last bound belongs to the mixture as it is at the end
        """
        trace = Trace()
        previous = None
        rounds = MAX_ROUNDS if moves == "split" else 0
        per_point = self.total * self.n_features
        if not mixture.variance > 0:
            self._warm_up(mixture, trace, n_warmup)
        for n_iter in range(max_iter + 1):
            bound = self.e_step(mixture, trace)
            trace.bounds.append(bound)
            if progress:
                progress()
            if previous is not None:
                change = abs(bound - previous)
                least = tol * (abs(previous) if relative else per_point)
                trace.converged = change <= least
                has_settled = trace.converged or change <= SETTLED * per_point
                if rounds and has_settled:
                    before = bound
                    bound = self._split(mixture, trace, before)
                    pays = bound - before > least
                    rounds = pays * (rounds - 1)
            if trace.converged or n_iter == max_iter:
                break
            previous = bound
            self._m_step(mixture)
            trace.n_iter += 1
            self.n_steps += 1
            if self.n_steps in REORDER_AFTER:
                self._reorder()
        centers = np.array(mixture.centers)
        trace.statistics = self._statistics(centers)
        farthest_first = np.argsort(-self.best[:, 0], kind="stable")
        trace.nearest_rows = np.full(len(mixture.centers), -1)
        trace.nearest_rows[self.K[farthest_first, 0]] = self.rows[farthest_first]
        return trace

    def _warm_up(self, mixture, trace, n_steps):
        # E-steps that improve search sets and neighbourhoods; the variance stays to be found.
        for _ in range(n_steps):
            self.e_step(mixture, trace)
            self._update_neighbours(mixture)
            mixture.variance = 0.0

    def _split(self, mixture, trace, bound):
        # One round of moves, undone unless the bound rises: the bound.
        n_clusters = len(mixture.centers)
        slope, _ = self._values(mixture)
        loss = moving.removal_losses(
            self.weights, slope, self.K, self.best, self.share, self.hard, n_clusters
        )
        entries, edges = kernels.group_by_cluster(self.K, self.share, n_clusters, False)
        gain, halves = self._gains(slope, entries, edges)
        cheapest = np.argsort(loss, kind="stable")
        richest = np.argsort(-gain, kind="stable")
        firsts = kernels.group_by_cluster(self.K, self.share, n_clusters, True)
        pairs = moving.choose_moves(loss, gain, cheapest, richest, self.K, *firsts)
        if not len(pairs):
            trace.bounds.append(bound)
            return bound
        moved, n_moves = self._tried(mixture, trace, bound, pairs, halves, entries, edges)
        trace.bounds.append(moved)
        trace.n_moves += n_moves
        trace.converged &= n_moves == 0
        return moved

    def _gains(self, slope, entries, edges):
        # What the bound gains by cutting each cluster in two, and the halves.
        n_clusters = len(edges) - 1
        keys = self.key + np.arange(2 * n_clusters, dtype=np.uint64)
        self.key += np.uint64(2 * n_clusters)
        bits = kernels.mix(keys) >> np.uint64(11)
        uniforms = (bits / 2.0**53).reshape(n_clusters, 2)
        arrays = self.Y, self.weights, slope, self.share, self.best
        ends = np.arange(moving.ENTRIES, len(entries), moving.ENTRIES)
        cuts = np.searchsorted(edges, ends)
        # no part without entries
        cuts = np.unique(cuts[edges[cuts] < len(entries)])
        parts = []
        for c, d in itertools.pairwise([0, *cuts, n_clusters]):
            first = edges[c]
            own_entries = entries[first : edges[d]]
            own_edges = edges[c : d + 1] - first
            own = moving.split_gains(
                *arrays, own_entries, own_edges, uniforms[c:d], self.hard, self.threads
            )
            parts.append(own)
        gain, halves = map(np.concatenate, zip(*parts))
        return gain, halves

    def _tried(self, mixture, trace, bound, pairs, halves, entries, edges):
        # The bound after the moves of as many pairs as raise it, and how many these are.
        n_kept = self.K.shape[1]
        centers = mixture.centers.copy()
        neighbours = mixture.neighbours.copy()
        K = self.K.copy()
        for _ in range(ATTEMPTS):
            removed, cut = pairs.T
            mixture.centers[cut] = halves[cut, 0]
            mixture.centers[removed] = halves[cut, 1]
            for c, s in pairs:
                rows = entries[edges[s] : edges[s + 1]] // n_kept
                moving.tell_points(self.Y, self.K, mixture.centers, rows, c, s)
                self._introduce(mixture.neighbours, c, s)
            moved = self.e_step(mixture, trace)
            if moved > bound:
                return moved, len(pairs)
            mixture.centers[:] = centers
            mixture.neighbours[:] = neighbours
            self.K[:] = K
            # the pairs of largest gain
            pairs = pairs[: len(pairs) // 4]
            if not len(pairs):
                break
        return self.e_step(mixture, trace), 0

    def e_step(self, mixture, trace):
        """Update K(n), the responsibilities and, where it is 0, the variance (eq. 8): the bound."""
        n, n_kept = self.K.shape
        n_clusters, width = mixture.neighbours.shape
        if self.found is None:
            most = min(n_kept * width, n_clusters) + self.n_random + 4
            self.found = np.empty((n, most), np.int32)
            self.found_value = np.empty((n, most), self.Y.dtype)
        first = not mixture.variance > 0
        if first:
            # the order of the distances does not depend on it
            mixture.variance = 1.0
        slope, constant = self._values(mixture)
        values = self.Y, mixture.centers, slope
        n_further = n * self.n_random
        keys = self.key + np.arange(n_further, dtype=np.uint64)
        further = kernels.mix(keys) % np.uint64(n_clusters)
        further = further.astype(np.int32).reshape(n, self.n_random)
        search = self.K, mixture.neighbours, further
        out = self.best, self.found, self.found_value, self.n_found
        dtype = self.Y.dtype
        most = self.found.shape[1]
        buffers = (n_clusters, np.int64), (n_kept, dtype), (most, dtype)
        self.threads.run(kernels.e_step, n, *values, *search, *out, buffers=buffers)
        self.key += np.uint64(max(n_further, n))
        trace.n_distances += int(self.n_found.sum(dtype=np.int64))
        # eq. (8)
        if first:
            scatter = (self.weights * self.best[:, 0]).sum()
            mixture.variance = self._variance(scatter)
            slope, constant = self._values(mixture)
        kernels.responsibilities(slope, self.best, self.hard, self.share, self.log_sum)
        log_sums = (self.weights * self.log_sum).sum()
        bound = float(log_sums - self.total * constant)
        if self.past is not None:
            steps = self.past.means - mixture.centers
            moved = (steps**2).sum(axis=1)
            scatter = self.past.scatter + self.past.mass * moved
            bound -= float((slope * scatter).sum())
        return bound

    def _variance(self, scatter):
        return max(scatter / (self.n_features * self.total), self.floor)

    def _values(self, mixture):
        # Minus the log joint is slope * squared distance + constant. Without the constant float32
        # suffices.
        log_variance = np.log(2 * np.pi * mixture.variance)
        log_clusters = np.log(len(mixture.centers))
        constant = 0.5 * self.n_features * log_variance + log_clusters
        slope = 0.5 / mixture.variance
        return self.Y.dtype.type(slope), constant

    def _update_neighbours(self, mixture):
        n_clusters, width = mixture.neighbours.shape
        if width > 1:
            firsts, edges = kernels.group_by_cluster(self.K, self.share, n_clusters, True)
            found = self.found, self.found_value, self.n_found
            members = firsts // self.K.shape[1]
            buffers = [(n_clusters, kind) for kind in (np.float64, np.int64, np.int32)]
            buffers += [(width, np.int32), (width, np.float64)]
            arrays = *found, members, edges, mixture.neighbours
            self.threads.run(kernels.update_neighbours, n_clusters, *arrays, buffers=buffers)

    def _m_step(self, mixture):
        self._update_neighbours(mixture)
        found = self._statistics(mixture.centers)
        mixture.variance = self._variance(found.scatter.sum())

    def _statistics(self, centers):
        # Statistics under the present responsibilities; overwrites `centers` with the means.
        n_clusters = len(centers)
        entries, edges = kernels.group_by_cluster(self.K, self.share, n_clusters, False)
        arrays = self.Y, self.weights, self.share, self.best, entries, edges
        mass = np.empty(n_clusters)
        scatter = np.empty(n_clusters)
        out = centers, mass, scatter
        total = self.Y.shape[1], np.float64
        self.threads.run(kernels.m_step, n_clusters, *arrays, *out, buffers=[total])
        found = Statistics(mass, centers.astype(np.float64), scatter)
        if self.past is not None:
            found = self.past + found
            used = found.mass > 0
            centers[used] = found.means[used]
        return found

    @staticmethod
    def _introduce(neighbours, c, home):
        # Make cluster c a neighbour of `home`, with the neighbours of `home`.
        if neighbours.shape[1] > 1 and c != home:
            others = neighbours[home, 1:]
            neighbours[c, 1:] = np.where(others == c, home, others)
            if home not in neighbours[c]:
                neighbours[c, -1] = home
            if c not in neighbours[home]:
                neighbours[home, -1] = c

    def _reorder(self):
        order = np.argsort(self.K[:, 0], kind="stable")
        self.rows = self.rows[order]
        self.Y = self.Y[order]
        self.weights = self.weights[order]
        self.K = self.K[order]
