"""Which parameters move the log-likelihood of a row, of all rows, by few evaluations of each.

Some rows are asked for each parameter. Parameters that none of them has together get one colour; of
those of a colour a row has at most one, and the bits of its number are asked for: parameters whose
number has this bit are moved together, then those that lack it. Rows that answer to both, or to
parameters that no row was seen to have, are asked for each parameter as well.
"""

import numpy as np
from scipy import sparse

from handful.matching.differences import evenly, steps_at

# Log-likelihoods that are asked for together.
MOST = 1 << 22
# Parameters that are moved one by one, at once.
AT_ONCE = 256
# How often further rows are asked for each parameter.
ROUNDS = 10


def pattern_by_moves(rows, theta):
    """Ones where a row has a parameter, CSR of shape (n, p); None where it is not found.

    Parameters
    ----------
    rows : LikelihoodSums
    theta : shape (p,), around which parameters are moved
    """
    n = len(rows.weights)
    p = len(theta)
    asked = Moves(rows, theta)
    present = np.flatnonzero(rows.weights)
    most = 1 << max(4, (2 * MOST // p).bit_length() - 1)
    doubtful = present
    seen = sparse.csr_array((0, p))
    for _ in range(ROUNDS):
        few = evenly(doubtful, most)
        found = asked.each(few)
        seen = sparse.vstack([seen, found], format="csr")
        if len(few) == len(present):
            return sparse.csr_array(_placed(found, present, n))
        colour = colours(seen)
        if not 0 < _n_probes(colour) < p:
            return None
        found, doubtful = asked.decoded(colour, present)
        if not len(doubtful):
            return _placed(found, present, n)
    return None


class Moves:
    """Which rows are moved by parameters near some (p,)."""

    def __init__(self, rows, theta):
        self.rows = rows
        self.theta = theta
        self.h = steps_at(theta)

    def by(self, masks, places):
        """Whether rows of these numbers move with the parameters of masks (K, p), together: shape
        (k, K)."""
        tried = np.vstack([self.theta, self.theta + masks * self.h])
        step = max(1, MOST // len(tried))
        found = []
        for start in range(0, len(places), step):
            part = places[start : start + step]
            values = self.rows.restricted(part, np.ones(len(part))).values(tried)
            found.append(values[:, 1:] != values[:, :1])
        return np.concatenate(found)

    def each(self, places):
        """Ones where rows of these numbers move with a parameter, CSR of shape (k, p)."""
        p = len(self.theta)
        found = []
        for start in range(0, p, AT_ONCE):
            masks = np.eye(min(AT_ONCE, p - start), p, start)
            found.append(sparse.csr_array(self.by(masks, places).astype(float)))
        return sparse.hstack(found, format="csr")

    def decoded(self, colour, places):
        """As `each`, of parameters of which a row has at most one of a colour, and the rows of
        which that is not so."""
        p = len(colour)
        unseen = self.by((colour < 0)[None], places)[:, 0] & (colour < 0).any()
        if unseen.any():
            return None, places[unseen]
        doubtful = np.zeros(len(places), bool)
        entries = []
        for one in range(colour.max() + 1):
            columns = np.flatnonzero(colour == one)
            bits = bits_of(len(columns))
            masks = np.zeros((2 * bits.shape[1], p))
            masks[:, columns] = np.hstack([bits, 1 - bits]).T
            moved = self.by(masks, places)
            has, lacks = np.split(moved, 2, axis=1)
            own = moved.any(1)
            doubtful |= own & (has == lacks).any(1)
            which = has[own] @ (1 << np.arange(bits.shape[1]))
            which = np.minimum(which, len(columns) - 1)
            entries.append((np.flatnonzero(own), columns[which]))
        found = _ones(*np.hstack(entries), (len(places), p))
        return found, places[doubtful]


def bits_of(m):
    """The bits of the numbers below m, shape (m, bits)."""
    n_bits = max(1, (m - 1).bit_length())
    return (np.arange(m)[:, None] >> np.arange(n_bits)) & 1


def _n_probes(colour):
    """About how often a row is asked; a colour of one parameter asks once."""
    counts = np.bincount(colour[colour >= 0])
    asked = [1 if m == 1 else 2 * bits_of(int(m)).shape[1] for m in counts]
    return sum(asked)


def colours(pattern):
    """A colour for each column of a pattern, shape (p,), so that no row has two columns of one
    colour; -1 of columns that no row has."""
    together = sparse.csr_array(pattern.T @ pattern)
    degree = np.diff(together.indptr)
    colour = np.full(pattern.shape[1], -1)
    for column in np.argsort(-degree, kind="stable"):
        if degree[column]:
            near = together.indices[together.indptr[column] : together.indptr[column + 1]]
            taken = np.zeros(len(near) + 2, bool)
            of_near = colour[near]
            taken[of_near[(of_near >= 0) & (of_near < len(taken))]] = True
            colour[column] = np.argmin(taken)
    return colour


def _placed(pattern, places, n):
    """A pattern of rows of these numbers, of all n rows."""
    i, j = pattern.nonzero()
    return _ones(places[i], j, (n, pattern.shape[1]))


def _ones(i, j, shape):
    """A CSR matrix of ones at some places."""
    return sparse.csr_array((np.ones(len(i)), (i, j)), shape=shape)
