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

    @cached_property
    def widths(self):
        """How many parameters each group has."""
        counts = [len(columns) for columns in self.own]
        return np.array(counts, int)

    @property
    def width(self):
        """The most parameters that a row has, C."""
        largest = self.widths.max(initial=0)
        return len(self.shared) + largest

    @property
    def n_equations(self):
        """About how many sums would be kept, without remainders."""
        b = len(self.shared)
        m = self.widths
        products = m * (m + 1) // 2 + m * b
        of_groups = 2 + m + products
        of_shared = b * (b + 3) // 2
        return int(of_groups.sum()) + of_shared

    @property
    def are_small(self):
        """Whether the equations of a group, and those of a batch, can be solved."""
        b = len(self.shared)
        m = self.width - b
        most = max(m * (m + 2 * b), b * b)
        return most <= 2 * TOO_MANY

    @cached_property
    def columns(self):
        """The parameters of the rows of each group, the shared ones first, shape (groups + 1, C);
        the last are those of rows without a group. -1 stands where there is none."""
        b = len(self.shared)
        n_groups = len(self.own)
        found = np.full((n_groups + 1, self.width), -1)
        found[:, :b] = self.shared
        for row, columns in zip(found, self.own):
            row[b : b + len(columns)] = columns
        return found

    @cached_property
    def place(self):
        """The place of each parameter in `columns`, shape (p,); -1 of those that no row has."""
        place = np.full(self.n_parameters, -1)
        group, at = np.nonzero(self.columns >= 0)
        had = self.columns[group, at]
        place[had] = at
        return place

    def local(self, design):
        """The columns that each row of a CSR design has, shape (k, C)."""
        places = self.place[design.indices]
        entries = (design.data, places, design.indptr)
        shape = (design.shape[0], self.width)
        return sparse.csr_array(entries, shape=shape).toarray()

    def directions(self, h):
        """Steps h, shape (p,), of the parameters that have the same place: shape (C, p)."""
        found = np.zeros((self.width, self.n_parameters))
        had = np.flatnonzero(self.place >= 0)
        found[self.place[had], had] = h[had]
        return found

    def taken(self, values, places, fill):
        """Of values by parameter, shape (..., p), those of the rows' own: (..., k, C)."""
        leading = np.shape(values)[:-1]
        ends = np.full((*leading, 1), fill)
        filled = np.concatenate([values, ends], -1)
        own = self.columns[self.of_row[places]]
        return filled[..., own]

    def summed(self, values, places, weights):
        """Weighted sums of rows' values, shape (k, ...), by group: (groups + 1, ...)."""
        k = len(values)
        n_groups = len(self.own) + 1
        group = self.of_row[places] % n_groups
        entries = (weights, (group, np.arange(k)))
        members = sparse.csr_array(entries, shape=(n_groups, k))
        sums = members @ values.reshape(k, -1)
        return sums.reshape(n_groups, *values.shape[1:])

    def scattered(self, values):
        """Sums by group, shape (groups + 1, C), as those of each parameter, shape (p,)."""
        has = self.columns >= 0
        columns = self.columns[has]
        return np.bincount(columns, values[has], self.n_parameters)

    def crossed(self, values):
        """Sums by group, shape (groups + 1, C, C), as a sparse matrix (p, p)."""
        rows = self.columns[:, :, None]
        columns = self.columns[:, None, :]
        i = np.broadcast_to(rows, values.shape)
        j = np.broadcast_to(columns, values.shape)
        has = (i >= 0) & (j >= 0)
        p = self.n_parameters
        places = (i[has], j[has])
        entries = (values[has], places)
        return sparse.csr_array(entries, shape=(p, p))


def find_groups(pattern):
    """The `Groups` of the columns of a CSR matrix of ones that ask for the fewest sums: columns
    that few rows have belong to one group if they are linked by rows."""
    shares = pattern.sum(0) / pattern.shape[0]
    # Lower limits leave more columns shared, and the same ones where they are as many.
    tried = {}
    limit = FIRST_SHARE
    while limit >= LAST_SHARE:
        shared = np.flatnonzero(shares > limit)
        if len(shared) not in tried:
            tried[len(shared)] = _linked(pattern, shared)
        limit /= 2
    return min(tried.values(), key=lambda groups: groups.n_equations)


def n_terms_of(pattern):
    """First- and second-order terms of the parameters that occur together in a row."""
    together = (pattern.T @ pattern).nnz
    p = pattern.shape[1]
    return p + (p + together) // 2


def _linked(pattern, shared):
    """The `Groups` that are left when these columns are shared."""
    n, p = pattern.shape
    every = np.arange(p)
    rest = np.setdiff1d(every, shared)
    few = pattern[:, rest].tocsr()
    blocks = [[None, few], [few.T, None]]
    graph = sparse.block_array(blocks, format="csr")
    _, label = connected_components(graph, directed=False)
    of_rows, of_columns = np.split(label, [n])
    has = np.diff(few.indptr) > 0
    names, group = np.unique(of_rows[has], return_inverse=True)
    of_row = np.full(n, -1)
    of_row[has] = group
    order = np.argsort(of_columns, kind="stable")
    sorted_labels = of_columns[order]
    starts = np.searchsorted(sorted_labels, names)
    ends = np.searchsorted(sorted_labels, names, side="right")
    columns = rest[order]
    own = [columns[start:end] for start, end in zip(starts, ends)]
    return Groups(shared, of_row, own, p)
