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
    n_fit = 2 * MOST // p
    # A power of two, at least 16.
    most = 1 << max(4, n_fit.bit_length() - 1)
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
        moved = self.theta + masks * self.h
        tried = np.vstack([self.theta, moved])
        step = max(1, MOST // len(tried))
        found = []
        for start in range(0, len(places), step):
            part = places[start : start + step]
            ones = np.ones(len(part))
            some = self.rows.restricted(part, ones)
            here, *there = some.values(tried).T
            moves = np.not_equal(there, here)
            found.append(moves.T)
        return np.concatenate(found)

    def each(self, places):
        """Ones where rows of these numbers move with a parameter, CSR of shape (k, p)."""
        p = len(self.theta)
        found = []
        for start in range(0, p, AT_ONCE):
            count = min(AT_ONCE, p - start)
            masks = np.eye(count, p, start)
            moves = self.by(masks, places)
            found.append(sparse.csr_array(moves.astype(float)))
        return sparse.hstack(found, format="csr")

    def decoded(self, colour, places):
        """As `each`, of parameters of which a row has at most one of a colour, and the rows of
        which that is not so."""
        p = len(colour)
        is_unseen = colour < 0
        moves = self.by(is_unseen[None], places)
        unseen = moves[:, 0] & is_unseen.any()
        if unseen.any():
            return None, places[unseen]
        doubtful = np.zeros(len(places), bool)
        entries = []
        for one in range(colour.max() + 1):
            columns = np.flatnonzero(colour == one)
            bits = bits_of(len(columns))
            n_bits = bits.shape[1]
            masks = np.zeros((2 * n_bits, p))
            masks[:n_bits, columns] = bits.T
            masks[n_bits:, columns] = 1 - bits.T
            moved = self.by(masks, places)
            has, lacks = np.split(moved, 2, axis=1)
            own = moved.any(1)
            doubtful |= own & (has == lacks).any(1)
            powers = 1 << np.arange(n_bits)
            number = has[own] @ powers
            number = np.minimum(number, len(columns) - 1)
            rows = np.flatnonzero(own)
            entries.append((rows, columns[number]))
        rows, moving = np.hstack(entries)
        shape = (len(places), p)
        found = _ones(rows, moving, shape)
        return found, places[doubtful]


def bits_of(m):
    """The bits of the numbers below m, shape (m, bits)."""
    n_bits = max(1, (m - 1).bit_length())
    numbers = np.arange(m)[:, None]
    shifted = numbers >> np.arange(n_bits)
    return shifted & 1


def _n_probes(colour):
    """About how often a row is asked; a colour of one parameter asks once."""
    seen = colour[colour >= 0]
    counts = np.bincount(seen).tolist()
    asked = 0
    for m in counts:
        asked += 1 if m == 1 else 2 * bits_of(m).shape[1]
    return asked


def colours(pattern):
    """A colour for each column of a pattern, shape (p,), so that no row has two columns of one
    colour; -1 of columns that no row has."""
    together = sparse.csr_array(pattern.T @ pattern)
    degree = np.diff(together.indptr)
    colour = np.full(pattern.shape[1], -1)
    for column in np.argsort(-degree, kind="stable"):
        start, end = together.indptr[column : column + 2]
        if start == end:
            continue
        of_near = colour[together.indices[start:end]]
        # One of so many colours is free.
        taken = np.zeros(end - start + 2, bool)
        counts = (of_near >= 0) & (of_near < len(taken))
        taken[of_near[counts]] = True
        colour[column] = np.argmin(taken)
    return colour


def _placed(pattern, places, n):
    """A pattern of rows of these numbers, of all n rows."""
    i, j = pattern.nonzero()
    shape = (n, pattern.shape[1])
    return _ones(places[i], j, shape)


def _ones(i, j, shape):
    """A CSR matrix of ones at some places."""
    ones = np.ones(len(i))
    entries = (ones, (i, j))
    return sparse.csr_array(entries, shape=shape)
