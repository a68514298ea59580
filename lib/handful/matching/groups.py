"""Groups of parameters: those of a group occur in its own rows, together with the shared ones and
with no other group's."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

# A parameter that more than this share of the rows have is shared; smaller shares are tried by
# halves, down to the last.
FIRST_SHARE = 0.5
LAST_SHARE = 2.0**-16
# More equations of one group, or of one batch, are not taken, as time grows with their cube.
TOO_MANY = 3001


@dataclass
class Groups:
    """Which parameters are shared, and which group each row and each other parameter has.

    Attributes
    ----------
    shared : int array, parameters
    of_row : int array, shape (n,), the group of each row; -1 where it has none
    own : list of int arrays, the parameters of each group
    n_parameters : int, p
    """

    shared: np.ndarray
    of_row: np.ndarray
    own: list
    n_parameters: int

    @property
    def n_equations(self):
        """About how many sums would be kept, without remainders."""
        b = len(self.shared)
        widths = np.array([len(columns) for columns in self.own])
        return int((2 + widths + widths * (widths + 1) // 2 + widths * b).sum()) + b * (b + 3) // 2

    @property
    def are_small(self):
        """Whether the equations of a group, and those of a batch, can be solved."""
        b = len(self.shared)
        width = self.columns.shape[1] - b
        return max(width * (width + 2 * b), b * b) <= 2 * TOO_MANY

    @cached_property
    def columns(self):
        """The parameters of the rows of each group, the shared ones first, shape (groups + 1, C);
        the last are those of rows without a group. -1 stands where there is none."""
        b = len(self.shared)
        width = max([len(columns) for columns in self.own], default=0)
        found = np.full((len(self.own) + 1, b + width), -1)
        found[:, :b] = self.shared
        for row, columns in zip(found, self.own):
            row[b : b + len(columns)] = columns
        return found

    @cached_property
    def place(self):
        """The place of each parameter in `columns`, shape (p,); -1 of those that no row has."""
        place = np.full(self.n_parameters, -1)
        group, at = np.nonzero(self.columns >= 0)
        place[self.columns[group, at]] = at
        return place

    def local(self, design):
        """The columns that each row of a CSR design has, shape (k, C)."""
        shape = (design.shape[0], self.columns.shape[1])
        entries = (design.data, self.place[design.indices], design.indptr)
        return sparse.csr_array(entries, shape=shape).toarray()

    def directions(self, h):
        """Steps h, shape (p,), of the parameters that have the same place: shape (C, p)."""
        found = np.zeros((self.columns.shape[1], self.n_parameters))
        had = np.flatnonzero(self.place >= 0)
        found[self.place[had], had] = h[had]
        return found

    def taken(self, values, places, fill):
        """Of values by parameter, shape (..., p), those of the rows' own: (..., k, C)."""
        ends = np.full((*np.shape(values)[:-1], 1), fill)
        return np.concatenate([values, ends], -1)[..., self.columns[self.of_row[places]]]

    def summed(self, values, places, weights):
        """Weighted sums of rows' values, shape (k, ...), by group: (groups + 1, ...)."""
        n_groups = len(self.own) + 1
        group = self.of_row[places] % n_groups
        members = sparse.csr_array(
            (weights, (group, np.arange(len(group)))), shape=(n_groups, len(group))
        )
        return (members @ values.reshape(len(values), -1)).reshape(n_groups, *values.shape[1:])

    def scattered(self, values):
        """Sums by group, shape (groups + 1, C), as those of each parameter, shape (p,)."""
        has = self.columns >= 0
        return np.bincount(self.columns[has], values[has], self.n_parameters)

    def crossed(self, values):
        """Sums by group, shape (groups + 1, C, C), as a sparse matrix (p, p)."""
        i = np.broadcast_to(self.columns[:, :, None], values.shape)
        j = np.broadcast_to(self.columns[:, None, :], values.shape)
        has = (i >= 0) & (j >= 0)
        shape = (self.n_parameters, self.n_parameters)
        return sparse.csr_array((values[has], (i[has], j[has])), shape=shape)


def find_groups(pattern):
    """The `Groups` of the columns of a CSR matrix of ones that ask for the fewest sums: columns
    that few rows have belong to one group if they are linked by rows."""
    counts = pattern.sum(0)
    best = None
    share = FIRST_SHARE
    tried = None
    while share >= LAST_SHARE:
        shared = np.flatnonzero(counts > share * pattern.shape[0])
        share /= 2
        if tried is not None and len(shared) == tried:
            continue
        tried = len(shared)
        found = _linked(pattern, shared)
        if best is None or found.n_equations < best.n_equations:
            best = found
    return best


def n_terms_of(pattern):
    """First- and second-order terms of the parameters that occur together in a row."""
    together = (pattern.T @ pattern).nnz
    p = pattern.shape[1]
    return p + (p + together) // 2


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
    return Groups(shared, of_row, own, p)
