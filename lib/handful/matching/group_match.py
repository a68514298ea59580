"""Matched rows of models with groups: equations that grow with the groups, not with their square.

The rows of some groups together, a batch, are recombined on their own: sums of each group (its
weight, the slopes and curvatures of its parameters, also with the shared ones, and what these leave
of its log-likelihood at a few draws), and sums of the batch (slopes and curvatures of the shared
parameters, and what is left at further draws).
"""

import numpy as np

from handful.matching.differences import evenly
from handful.matching.pilot import INFLATION
from handful.matching.recombine import recombine
from handful.matching.sparse_rows import parts

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
# Rows that show how many equations a group has.
SEEN = 1000


class GroupMatch:
    """Rows that keep the sums of each group and of each batch at the pilot's mode and draws.

    Parameters
    ----------
    rows : SparseRows or ProbedRows
    pilot : SparsePilot
    rng : Generator, of the draws that are matched
    """

    def __init__(self, rows, pilot, rng):
        self.rows = rows
        self.groups = rows.groups
        self.mode = pilot.mode
        self.expansions = rows.expanded(pilot.mode)
        most = LOCAL_DRAWS[-1]
        self.common = pilot.draws(BATCH_DRAWS, rng, INFLATION)
        self.local = pilot.draws(most, rng, INFLATION)

    def equations(self, places, n_draws):
        """Equations of the rows' own groups, shape (rows, E), and of the shared parameters, (rows,
        F), with remainders of the groups at so many draws."""
        k = len(places)
        b = len(self.groups.shared)
        base, slopes, curvatures = self.expansions(places)
        local = self.local[:n_draws]
        draws = np.vstack([self.common, local])
        rest = self._remainders(places, draws, base, slopes, curvatures)
        # The lower triangles of symmetric matrices.
        i, j = np.tril_indices(b)
        common = [
            base[:, None],
            slopes[:, :b],
            curvatures[:, i, j],
            rest[:, :BATCH_DRAWS],
        ]
        m = slopes.shape[1] - b
        i, j = np.tril_indices(m)
        across = curvatures[:, b:, :b]
        own = [
            np.ones((k, 1)),
            slopes[:, b:],
            curvatures[:, b + i, b + j],
            across.reshape(k, -1),
            rest[:, BATCH_DRAWS:],
        ]
        own = np.hstack(own)
        # The slope by an indicator times a constant column is that by the indicator.
        _, distinct = np.unique(own, axis=1, return_index=True)
        own = own[:, np.sort(distinct)]
        return own, np.hstack(common)

    def _remainders(self, places, theta, base, slopes, curvatures):
        """What slope and curvature at the mode leave of the log-likelihoods of some rows at
        parameters (K, p), shape (rows, K)."""
        found = self.rows.values_of(places, theta)
        found -= base[:, None]
        width = len(theta) * slopes.shape[1]
        every = np.arange(len(places))
        moved = theta - self.mode
        for part in parts(every, width):
            own = places[part]
            moves = self.groups.taken(moved, own, fill=0.0)
            bends = np.einsum("krc,rcd->krd", moves, curvatures[part])
            mean_slopes = slopes[part] + 0.5 * bends
            foreseen = (mean_slopes * moves).sum(2)
            found[part] -= foreseen.T
        return found

    def n_equations(self, n_draws):
        """How many equations a group has, and a batch for itself."""
        present = np.flatnonzero(self.rows.weights)
        has_group = self.groups.of_row[present] >= 0
        inside = present[has_group]
        if not len(inside):
            inside = present
        some = evenly(inside, SEEN)
        own, common = self.equations(some, n_draws)
        return own.shape[1], common.shape[1]

    def match(self, n_draws):
        """Places, ascending, weights and residual of rows that keep the sums, remainders of the
        groups at so many draws."""
        self.n_matched = 0
        kept, batches = self._batches(n_draws)
        of_kept = self.rows.weights[kept]
        found = [(kept, of_kept, 0.0)]
        for members in batches:
            found.append(self._recombined(members, n_draws))
        places, weights, residuals = zip(*found)
        places = np.concatenate(places)
        weights = np.concatenate(weights)
        order = np.argsort(places)
        return places[order], weights[order], max(residuals)

    def _batches(self, n_draws):
        """The rows of groups that are small enough to be kept; and batches, lists of the rows of
        each group, of so many groups that their equations outnumber those of the batch. Rows
        without a group are a batch."""
        of_row = self.groups.of_row
        order = np.argsort(of_row, kind="stable")
        counted = self.rows.weights[order] > 0
        order = order[counted]
        counts = np.bincount(1 + of_row[order])
        ends = np.cumsum(counts)
        without, *members = np.split(order, ends[:-1])
        n_own, n_common = self.n_equations(n_draws)
        most_kept = KEPT * n_own
        kept = [order[:0]]
        large = []
        for rows in members:
            (kept if len(rows) <= most_kept else large).append(rows)
        wanted = np.clip(OWN_SHARE * n_common, LEAST_EQUATIONS, MOST_EQUATIONS)
        n_groups = max(1, int(wanted) // n_own)
        batches = []
        for start in range(0, len(large), n_groups):
            batches.append(large[start : start + n_groups])
        if len(without):
            batches.append([without])
        return np.concatenate(kept), batches

    def _recombined(self, members, n_draws):
        """Places, weights and residual of the rows of a batch, see `_batches`."""
        places = np.concatenate(members)
        counts = [len(rows) for rows in members]
        n_groups = len(members)
        group = np.repeat(np.arange(n_groups), counts)
        own, common = self.equations(places, n_draws)
        n_own = own.shape[1]
        self.n_matched += n_groups * n_own + common.shape[1]

        def features(rows):
            k = len(rows)
            of_groups = np.zeros((k, n_groups, n_own))
            every = np.arange(k)
            of_groups[every, group[rows]] = own[rows]
            of_groups = of_groups.reshape(k, -1)
            return np.hstack([of_groups, common[rows]])

        weights = self.rows.weights[places]
        n = len(places)
        chosen, found, residual = recombine(features, n, weights)
        return places[chosen], found, residual
