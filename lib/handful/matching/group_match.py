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
        self.common = pilot.draws(BATCH_DRAWS, rng, INFLATION)
        self.local = pilot.draws(LOCAL_DRAWS[-1], rng, INFLATION)

    def equations(self, places, n_draws):
        """Equations of the rows' own groups, shape (rows, E), and of the shared parameters, (rows,
        F), with remainders of the groups at so many draws."""
        b = len(self.groups.shared)
        base, slopes, curvatures = self.expansions(places)
        draws = np.vstack([self.common, self.local[:n_draws]])
        rest = self._remainders(places, draws, base, slopes, curvatures)
        j, k = np.tril_indices(slopes.shape[1] - b)
        own = [
            np.ones((len(places), 1)),
            slopes[:, b:],
            curvatures[:, b + j, b + k],
            curvatures[:, b:, :b].reshape(len(places), -1),
            rest[:, BATCH_DRAWS:],
        ]
        j, k = np.tril_indices(b)
        common = [base[:, None], slopes[:, :b], curvatures[:, j, k], rest[:, :BATCH_DRAWS]]
        # The slope by an indicator times a constant column is that by the indicator.
        _, distinct = np.unique(np.hstack(own), axis=1, return_index=True)
        return np.hstack(own)[:, np.sort(distinct)], np.hstack(common)

    def _remainders(self, places, theta, base, slopes, curvatures):
        """What slope and curvature at the mode leave of the log-likelihoods of some rows at
        parameters (K, p), shape (rows, K)."""
        found = self.rows.values_of(places, theta) - base[:, None]
        for part in parts(np.arange(len(places)), len(theta) * slopes.shape[1]):
            moves = self.groups.taken(theta - self.mode, places[part], fill=0.0)
            bent = slopes[part] + 0.5 * np.einsum("krc,rcd->krd", moves, curvatures[part])
            found[part] -= (bent * moves).sum(2).T
        return found

    def n_equations(self, n_draws):
        """How many equations a group has, and a batch for itself."""
        present = np.flatnonzero(self.rows.weights)
        inside = present[self.groups.of_row[present] >= 0]
        if not len(inside):
            inside = present
        own, common = self.equations(evenly(inside, SEEN), n_draws)
        return own.shape[1], common.shape[1]

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
            yield (np.concatenate([order[ends[g] : ends[g + 1]] for g in small]), None)
        for start in range(0, len(large), n_groups):
            batch = large[start : start + n_groups]
            places = np.concatenate([order[ends[g] : ends[g + 1]] for g in batch])
            yield places, np.repeat(np.arange(len(batch)), counts[1 + batch])

    def _recombined(self, places, group, n_draws):
        weights = self.rows.weights[places]
        if group is None:
            return places, weights, 0.0
        own, common = self.equations(places, n_draws)
        n_groups = group.max() + 1
        self.n_matched += n_groups * own.shape[1] + common.shape[1]

        def features(k):
            spread = np.zeros((len(k), n_groups, own.shape[1]))
            spread[np.arange(len(k)), group[k]] = own[k]
            return np.hstack([spread.reshape(len(k), -1), common[k]])

        chosen, found, residual = recombine(features, len(places), weights)
        return places[chosen], found, residual
