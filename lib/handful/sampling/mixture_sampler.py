"""Samplers from a mixture of given distributions, with weights fixed or learned online (VRM)."""

from typing import Any

import numpy as np
from numba import njit

from handful.options import Positive, explained
from handful.running import warn
from handful.sampling.alias import alias_records, draw_alias
from handful.sampling.components import check_probabilities
from handful.sampling.online_newton import Mixed
from handful.sampling.sampler import Sampler
from handful.types import Seed, Table


@njit(cache=True)
def _draw_batch(uniforms, w, tables, densities, rows, indices, weights):
    """Draw b points; fills `rows`, shape (b, k), with n p(i), `indices` and `weights`, shape (b,).

    `tables`, shape (m, n), holds the alias tables of the components but the uniform one,
    `densities`, shape (n, m), n times their probabilities.
    """
    b, k = rows.shape
    n, m = densities.shape
    total = 0.0
    for j in range(k):
        total += w[j]
    for i in range(b):
        u = uniforms[i] * total
        component = 0
        cumulative = w[0]
        while component < k - 1 and u >= cumulative:
            component += 1
            cumulative += w[component]
        # if rounding makes u the total, skip last weights of zero
        while w[component] <= 0.0:
            component -= 1
        # The position of u within its component is uniform again.
        place = (u - cumulative + w[component]) / w[component]
        if component < m:
            indices[i] = draw_alias(tables[component], place)
        else:
            indices[i] = min(np.int64(place * n), n - 1)
    for i in range(b):
        q = 0.0
        for j in range(m):
            rows[i, j] = densities[indices[i], j]
            q += w[j] * rows[i, j]
        if m < k:
            rows[i, m] = 1.0
            q += w[m]
        weights[i] = 1.0 / q


class MixtureSampler(Mixed, Sampler):
    """Importance sampling that learns which of the given distributions to sample from (VRM,
    Algorithm 2).

    The mixture weights follow online Newton steps on the variance of the estimated mean; by Theorem
    5 they do as well as the best fixed mixture in the long run. In each training step, draw a batch
    with `sample`, multiply its losses by the weights, so that their mean estimates the mean over
    all points without bias, and give the losses to `update`, as the example does; without `update`
    it learns nothing. A draw takes O(k) by alias tables, an update O(k^2) and a projection. A torch
    DataLoader takes it as ``batch_sampler=AdaptiveBatchSampler(sampler)``, see
    `handful.sampling.AdaptiveBatchSampler`.

    Parameters
    ----------
    probabilities : array of shape (k, n)
        One distribution over the n points a row, each adding up to one; `group_components`
        makes them from classes or clusters, `distance_components` from distances to centers.
    mixture_weights : array of shape (k,), "equal" or None, default=None
        None learns them. "equal", or an array, shape (k,), that adds up to one, with the
        uniform component's last: they stay as they are, which is what prior knowledge alone
        gives.
    beta : float, default=0.5
        Inverse step length; smaller moves faster.
    gamma : float, default=0.01
        Least share of the uniform component, from 0 to 1: where the mixture weights are learned,
        importance weights never exceed 1/gamma.
    eps : float, default=1000.0
        H starts as eps I: larger moves slower at first, so that single draws do not decide
        early.
    batch_size : int, default=100
        Points a call of `sample`.
    uniform : bool, default=True
        Append the uniform distribution unless the last row is uniform already. Without it every
        point needs a positive probability in every component, and gamma bounds the last one's
        share.
    scale : float or None, default=None
        None measures squared losses in units of their running mean, so that beta, gamma and eps
        mean the same for every data set; a number divides the paper's f(w), summed over the
        batch, by it, as the authors' code does.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    mixture_weights : array, shape (k,), the uniform component's last
    k : int, components, the uniform one included

    Raises
    ------
    ValueError
        for rows that are not distributions, points that could not be drawn (with given weights, or
        by weights learned with ``gamma=0``), a batch larger than n

    Notes
    -----
    VRM is Borsos, Curi, Levy and Krause, Online Variance Reduction with Mixtures (ICML 2019). It
    prints no beta, gamma or eps. Ours were chosen on its blobs (section 6.1), where a batch is one
    draw: with a small eps the first draws that show a loss decide, and the weights can end on a
    wrong blob. With batches of 100, ``beta=10, eps=1`` works as well. The authors' code takes
    beta=10, eps=.1 and scale=1e14, draws a batch from one component, and ends its projection after
    five gradient steps, none of which is in the text.

    Examples
    --------
    >>> import numpy as np
    >>> from handful.sampling import group_components
    >>> groups, losses = np.array([0] * 90 + [1] * 10), np.array([0.1] * 90 + [5.0] * 10)
    >>> sampler = MixtureSampler(group_components(groups), random_state=0)
    >>> for step in range(200):
    ...     indices, weights = sampler.sample()
    ...     # An estimate of losses.mean(); to train, take its gradient.
    ...     estimate = (weights * losses[indices]).mean()
    ...     sampler.update(losses[indices])
    >>> int(sampler.mixture_weights.argmax())  # of group 0, group 1 and the uniform distribution
    1
    """

    _elsewhere = {
        "components": "the distributions are probabilities, one a row",
        "labels": "group_components(labels) are probabilities",
        "groups": "group_components(groups) are probabilities",
        "rows": "probabilities have a column for each row, batch_size rows a batch",
        "n": "probabilities have a column for each point",
    }

    scale: Positive | None

    _state = (*Sampler._state, "_replaced", "_learner")
    _same = (*Sampler._same, "k", "_fixed")

    @explained
    def __init__(
        self,
        probabilities: Table,
        *,
        mixture_weights: Table = None,
        beta: float = 0.5,
        gamma: float = 0.01,
        eps: float = 1000.0,
        batch_size: int = 100,
        uniform: bool = True,
        scale: float | None = None,
        random_state: Seed = None,
    ) -> None:
        self.beta = beta
        self.gamma = gamma
        self.eps = eps
        self.scale = scale
        self._uniform = uniform
        self.k, self._alias_tables, self._densities = self._tables(probabilities)
        super().__init__(len(self._densities), batch_size=batch_size, random_state=random_state)
        # the learner's cost is f(w)/n^2
        scale = None if scale is None else scale / self.n**2
        self._set_weights(mixture_weights, self.k, scale)
        # the components that it was made with, once they are replaced
        self._given: Any = None
        self._check_drawn(self._densities)

    def _tables(self, probabilities, k=None):
        """The number of components, and the tables of those that are not uniform; with `k`, that
        number, fewer rows are all without the uniform one."""
        probabilities, has_uniform = check_probabilities(probabilities, uniform=self._uniform)
        has_uniform = has_uniform and k in (None, len(probabilities))
        m = len(probabilities) - has_uniform
        densities = (probabilities[:m] * probabilities.shape[1]).T
        return (
            m + self._uniform,
            alias_records(probabilities[:m]),
            np.ascontiguousarray(densities, dtype=np.float32),
        )

    def set_probabilities(self, probabilities: Table) -> Any:
        """Replace the components by others of the same number, keeping the weights (time-varying
        p_t of VRM).

        O(k n). Call it between an update and the next sample.
        """
        k = self.k
        n = self.n
        if np.shape(probabilities) not in ((k, n), (k - self._uniform, n)):
            raise ValueError(f"the new components must be like the old, {k} over {n} points.")
        count, *tables = self._tables(probabilities, k)
        if count != k:
            raise ValueError(
                f"the new components count {count} with the uniform one, not {k} as the old."
            )
        self._check_drawn(tables[-1])
        self._replace(tables)

    def _replace(self, tables):
        if self._given is None:
            self._given = self._alias_tables, self._densities
        self._alias_tables, self._densities = tables

    def _check_drawn(self, densities):
        # Learned weights keep `gamma` for the last component, which draws every point.
        if self._fixed:
            missed = self._mixed(densities) == 0
        elif self.gamma == 0:
            missed = (densities == 0).any(axis=1)
        else:
            return
        if missed.any():
            raise ValueError(
                f"point {missed.argmax()} could not be drawn, and no estimate would see it "
                f"({np.count_nonzero(missed)} of {self.n} points): give a positive weight to a "
                "component that draws it, or learn the weights with gamma above 0."
            )

    @property
    def _replaced(self):
        # The components, where they are no longer those that the constructor was given.
        return None if self._given is None else [self._alias_tables, self._densities]

    @_replaced.setter
    def _replaced(self, components):
        if components is not None:
            alias_tables, densities = components
            self._replace([alias_tables.view(np.uint64), densities])
        elif self._given is not None:
            self._alias_tables, self._densities = self._given
            self._given = None

    @property
    def probabilities(self) -> Any:
        """The distribution q that points are drawn from now, shape (n,). O(k n)."""
        # The densities are of single precision.
        q = self._mixed(self._densities)
        return q / q.sum()

    def _mixed(self, densities):
        # n q(i)
        m = densities.shape[1]
        return densities @ self._w[:m] + (self._w[m] if m < self.k else 0.0)

    def _draw(self):
        indices = np.empty(self.batch_size, np.int64)
        weights = np.empty(self.batch_size)
        # n p_j(i)
        rows = np.empty((self.batch_size, self.k))
        uniforms = self.rng.random(self.batch_size)
        _draw_batch(uniforms, self._w, self._alias_tables, self._densities, rows, indices, weights)
        return indices, weights, rows

    def _drawn_earlier(self, indices, weights):
        rows = np.ones((len(indices), self.k))
        rows[:, : self._densities.shape[1]] = self._densities[indices]
        return indices, weights, rows

    def _learn(self, drawn, losses):
        _, weights, rows = drawn
        if not self._fixed:
            self._learner.step(rows, weights, losses)


def FixedMixture(
    probabilities: Table, *, mixture_weights: Table = "equal", **options: Any
) -> MixtureSampler:
    """The name that `MixtureSampler` with given `mixture_weights` had; it goes with the next
    release.

    Parameters
    ----------
    probabilities : array of shape (k, n)
        As in `MixtureSampler`.
    mixture_weights : array of shape (k,), "equal" or None, default="equal"
        As in `MixtureSampler`; None stands for "equal".
    **options : dict
        Further options of `MixtureSampler`.

    Returns
    -------
    MixtureSampler
        A sampler whose weights stay as they are.
    """
    said = "FixedMixture is now MixtureSampler with mixture_weights, 'equal' or an array; "
    said += "the old name goes with the next release."
    warn(said, FutureWarning)
    if mixture_weights is None:
        mixture_weights = "equal"
    return MixtureSampler(probabilities, mixture_weights=mixture_weights, **options)
