"""Uniform sampling: the baseline that every selection has to beat."""

import numpy as np

from handful.blocks import uniform_rows
from handful.checks import Accepts, check_size
from handful.coreset import SizedSelector
from handful.parts import class_totals, united
from handful.plans import Plan, census


class _DrawOfAll(Plan):
    """One draw from all blocks together."""

    def select(self, selector, blocks, rng):
        n_present, _, totals = zip(*blocks.map(census))
        n_present = np.array(n_present)
        drawn = uniform_rows(blocks, selector.size, rng, n_present)
        check_size(selector.size, len(drawn), blocks.n)
        found = class_totals(drawn.y, drawn.weight)
        selector._tell_lost(united(totals), found)
        return drawn.ids, drawn.weight


class UniformCoreset(SizedSelector):
    """Rows drawn uniformly without repetition; X may hold anything, as its values are never read.

    Parameters
    ----------
    size : int, default=100
        Number of points m.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    indices_ : shape (m,)
    weights_ : shape (m,), ``sample_weight * n / m``: an unbiased estimate of every weighted sum

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> X_small, w = UniformCoreset(5, random_state=0).fit(X).take(X)
    >>> X_small.shape, w.tolist()
    ((5, 2), [2.0, 2.0, 2.0, 2.0, 2.0])
    """

    _accepts = Accepts("unread", sparse=True, values=False)
    _plan = _DrawOfAll()
    _draws = True

    def _select(self, X, y, sample_weight, rng):
        n = len(sample_weight)
        indices = rng.choice(n, self.size, replace=False)
        n_rows_each = n / self.size
        return indices, sample_weight[indices] * n_rows_each
