"""Samplers from a mixture of given distributions, with weights fixed or learned online (VRM)."""

from typing import Any

import numpy as np
from numba import njit

from handful.checks import check_number
from handful.linalg import alias_records, resolve_alias
from handful.sampling.base import Sampler
from handful.sampling.components import check_probabilities
from handful.sampling.newton import NewtonLearner, check_mixture_weights
from handful.types import Seed, Table

# The authors' published code: beta, gamma, eps, a constant unit of f, five short projected-gradient steps
# instead of the projection, and one component for the whole batch.
REFERENCE = dict(beta=10.0, gamma=0.01, eps=0.1, scale=1e14, n_pgd_steps=5, shared_component=True)


@njit(cache=True)
def _draw_batch(uniforms, w, tables, densities, rows, indices, weights, places, fetched, cumulative):
    """Draw b points; fills `rows`, shape (b, k), with n p(i), `indices` and `weights`, shape (b,).

    `uniforms` has shape (b,), or (b + 1,) when the last one is to choose one component for the whole batch. `tables`
    holds the alias tables of the components but the uniform one, one after the other. `places`, `fetched` and
    `cumulative` are buffers, shapes (b,), (b,) and (k,): making arrays in here would take long to compile.
    """
    b, k = rows.shape
    n, n_tables = densities.shape
    total = 0.0
    for j in range(k):
        total += w[j]
        cumulative[j] = total
    shared = uniforms.size > b
    for i in range(b):
        u = uniforms[b if shared else i] * total
        component = 0
        for j in range(k - 1):
            component += u >= cumulative[j]
        while w[component] <= 0.0:  # if rounding makes u the total, skip last weights of zero
            component -= 1
        # The position of u within its component is uniform again.
        x = uniforms[i] * n if shared else (u - cumulative[component] + w[component]) / w[component] * n
        bin_ = np.int64(x)
        if bin_ < 0:  # rounding
            bin_ = 0
        elif bin_ >= n:
            bin_ = n - 1
        indices[i], weights[i] = bin_, x - bin_
        places[i] = component * n + bin_
    # The rest waits for memory; short loops let the processor fetch many places at a time.
    if n_tables > 0:
        for i in range(b):
            fetched[i] = tables[places[i] if places[i] < tables.size else 0]
        for i in range(b):
            if places[i] < tables.size:  # the uniform component has no table: the bin is the index
                indices[i] = resolve_alias(fetched[i], indices[i], weights[i])
        for i in range(b):
            weights[i] = densities[indices[i], 0] + densities[indices[i], n_tables - 1]
    for i in range(b):
        q = 0.0
        for j in range(n_tables):
            rows[i, j] = densities[indices[i], j]
            q += w[j] * rows[i, j]
        if n_tables < k:
            rows[i, n_tables] = 1.0
            q += w[n_tables]
        weights[i] = 1.0 / q


def _tables(probabilities, n_tables):
    """Alias tables, one after the other, and float32 rows n p(i), shape (n, m), of the first m distributions."""
    n = probabilities.shape[1]
    densities = np.empty((n, n_tables), np.float32)
    for start in range(0, n, 512):  # a tile at a time: the transpose stays in the cache
        tile = slice(start, start + 512)
        densities[tile] = (probabilities[:n_tables, tile] * n).T
    return alias_records(probabilities[:n_tables]).ravel(), densities


class FixedMixture(Sampler):
    """Samples from a mixture of given distributions with weights that stay as they are.

    The control for `MixtureSampler`: what prior knowledge alone gives. O(1) a draw by alias tables.

    Parameters
    ----------
    probabilities : array, shape (k, n), one distribution over the n points a row, each adding up to one
    mixture_weights : array, shape (k,) with `uniform` False, otherwise (k + 1,) with the uniform component's
        last (k when the last row is uniform already); default: all equal
    batch_size : int
    uniform : bool, append the uniform distribution unless the last row is uniform already. Without it every
        point needs a positive probability in every component.
    shared_component : bool, draw a batch's points from one and the same random component (as the authors'
        code does; still unbiased, but correlated) instead of independently (the paper's text)
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    mixture_weights : array, shape (k,), the uniform component's last
    k : int, components, the uniform one included

    Raises
    ------
    ValueError
        for rows that are not distributions, points that could not be drawn, a batch larger than n
    """

    def __init__(
        self,
        probabilities: Table,
        *,
        mixture_weights: Table = None,
        batch_size: int = 100,
        uniform: bool = True,
        shared_component: bool = False,
        random_state: Seed = None,
    ) -> None:
        self._uniform = uniform
        n = self._set_tables(probabilities)
        super().__init__(n, batch_size=batch_size, random_state=random_state)
        self.shared_component = shared_component
        if mixture_weights is None:
            mixture_weights = np.full(self.k, 1.0 / self.k)
        self._w = check_mixture_weights(mixture_weights, self.k)
        b = self.batch_size
        self._rows = np.empty((b, self.k))  # n p(i) of the batch drawn last
        self._buffers = np.empty(b, np.int64), np.empty(b, np.uint64), np.empty(self.k)

    def _set_tables(self, probabilities):
        probabilities, self._has_uniform = check_probabilities(probabilities, uniform=self._uniform)
        m = len(probabilities) - self._has_uniform
        n = probabilities.shape[1]
        self.k = m + self._uniform
        self._alias_tables, self._densities = _tables(probabilities, m)
        return n

    def set_probabilities(self, probabilities: Table) -> Any:
        """Replace the components by others of the same number, keeping the weights (time-varying p_t of VRM).

        O(k n). Call it between an update and the next sample.
        """
        k, n = self.k, self.n
        if np.shape(probabilities) not in ((k, n), (k - self._uniform, n)):
            raise ValueError(f"the new components must be like the old, {k} over {n} points.")
        self._set_tables(probabilities)
        if self.k != k:
            raise ValueError(f"the new components count {self.k} with the uniform one, not {k} as the old.")

    @property
    def mixture_weights(self) -> Any:
        """The mixture weights, shape (k,), the uniform component's last."""
        return self._w.copy()

    @property
    def probabilities(self) -> Any:
        """The distribution q that points are drawn from now, shape (n,). O(k n)."""
        m = self._densities.shape[1]
        q = self._densities @ self._w[:m] + (self._w[m] if m < self.k else 0.0)
        return q / self.n

    def _draw(self):
        uniforms = self.rng.random(self.batch_size + self.shared_component)
        indices, weights = np.empty(self.batch_size, np.int64), np.empty(self.batch_size)
        _draw_batch(
            uniforms, self._w, self._alias_tables, self._densities, self._rows, indices, weights, *self._buffers
        )
        return indices, weights

    def _learn(self, indices, weights, losses):
        pass


class MixtureSampler(FixedMixture):
    """Importance sampling that learns which of the given distributions to sample from (VRM, Algorithm 2).

    The mixture weights follow online Newton steps on the variance of the estimated mean; by Theorem 5 they
    do as well as the best fixed mixture in the long run. In each training step, draw a batch with `sample`, multiply
    its losses by the weights, so that their mean estimates the mean over all points without bias, and give the losses
    to `update`, as the example does; without `update` it learns nothing. One update costs O(k^2) and a projection. A
    torch DataLoader takes it as
    ``batch_sampler=AdaptiveBatchSampler(sampler)``, see `handful.sampling.AdaptiveBatchSampler`.

    Parameters
    ----------
    probabilities : array, shape (k, n), one distribution over the n points a row, each adding up to one;
        `group_components` makes them from classes or clusters, `distance_components` from distances to centers
    beta : float, inverse step length; smaller moves faster
    gamma : float in [0, 1], least share of the uniform component; weights never exceed 1/gamma
    eps : float, H starts as eps I: larger moves slower at first, so that single draws do not decide early
    batch_size : int, points a call of `sample`
    uniform : bool, append the uniform distribution unless the last row is uniform already. Without it every
        point needs a positive probability in every component, and gamma bounds the last one's share.
    scale : None (default) measures squared losses in units of their running mean, so that beta, gamma and eps
        mean the same for every data set; a number divides the paper's f(w) by it, as the authors' code does
    n_pgd_steps : int; 0 (default) projects exactly in the norm of H, otherwise that many projected-gradient
        steps of length 0.2 stand in for it, as in the authors' code
    shared_component : bool, draw each batch from one random component, as in the authors' code
    random_state : int, Generator, RandomState or None

    Notes
    -----
    VRM is Borsos, Curi, Levy and Krause, Online Variance Reduction with Mixtures (ICML 2019). It prints no beta, gamma
    or eps. Ours were chosen on its blobs (section 6.1), where a batch is one draw: with a small eps the first draws
    that show a loss decide, and the weights can end on a wrong blob. With batches of 100, ``beta=10, eps=1`` works as
    well.
    ``MixtureSampler(p, **REFERENCE)`` takes the values of the authors' code, `handful.sampling.REFERENCE`.

    Examples
    --------
    >>> import numpy as np
    >>> from handful.sampling import group_components
    >>> groups, losses = np.array([0] * 90 + [1] * 10), np.array([0.1] * 90 + [5.0] * 10)
    >>> sampler = MixtureSampler(group_components(groups), random_state=0)
    >>> for step in range(200):
    ...     indices, weights = sampler.sample()
    ...     estimate = (weights * losses[indices]).mean()  # of losses.mean(); to train, take its gradient
    ...     sampler.update(losses[indices])
    >>> int(sampler.mixture_weights.argmax())  # of group 0, group 1 and the uniform distribution
    1
    """

    def __init__(
        self,
        probabilities: Table,
        *,
        beta: float = 0.5,
        gamma: float = 0.01,
        eps: float = 1000.0,
        batch_size: int = 100,
        uniform: bool = True,
        scale: float | None = None,
        n_pgd_steps: int = 0,
        shared_component: bool = False,
        random_state: Seed = None,
    ) -> None:
        super().__init__(
            probabilities,
            batch_size=batch_size,
            uniform=uniform,
            shared_component=shared_component,
            random_state=random_state,
        )
        if scale is not None:
            check_number("scale", scale, above=0)
            scale = scale / self.n**2  # the learner's cost is f(w)/n^2
        self._learner = NewtonLearner(self.k, beta=beta, gamma=gamma, eps=eps, scale=scale, n_pgd_steps=n_pgd_steps)
        self._w = self._learner.w

    def set_mixture_weights(self, mixture_weights: Table) -> None:
        """Go on learning from other mixture weights, shape (k,), such as the mean over several processes."""
        self._learner.w[:] = check_mixture_weights(mixture_weights, self.k)

    def _learn(self, indices, weights, losses):
        if indices is None:
            rows = self._rows
        else:
            rows = np.ones((len(indices), self.k))
            rows[:, : self._densities.shape[1]] = self._densities[indices]
        self._learner.step(rows, weights, losses)
