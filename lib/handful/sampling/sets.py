"""Mixtures of distributions over sets of points (VRM, sections 4 and 6.2)."""

import numpy as np

from handful.sampling.base import Sampler, as_vector, check_losses
from handful.sampling.kdpp import UniformSubsets
from handful.sampling.newton import Learned, NewtonLearner


class SetMixture(Learned, Sampler):
    """Learns which of several distributions over sets of points to draw its batches from.

    The batch is one set; its loss is one number, such as the norm of its mean gradient. Only the components'
    log-probabilities are used, relative to that of the uniform distribution over sets of the same size.

    Parameters
    ----------
    components : list of objects over the same points and set size, each with `n`, `k`, ``sample(rng) ->
        indices`` and ``log_prob(indices) -> float``, such as `KDPP`; the uniform one is appended
    beta, gamma, eps : as in `MixtureSampler`
    learn : bool, False keeps the weights at 1/(number of components)
    random_state : int, Generator, RandomState or None

    Notes
    -----
    `sample` returns the set and its importance weight, the same for each of its points:
    ``(weights * losses[indices]).mean()`` estimates the mean loss without bias. `update` takes one loss.
    """

    draws_sets = True

    def __init__(self, components, *, beta=0.5, gamma=0.01, eps=1000.0, learn=True, random_state=None):
        components = list(components) if np.iterable(components) else []
        if not components or not all(hasattr(c, "log_prob") and hasattr(c, "sample") for c in components):
            raise ValueError("components must be a list of at least one distribution over sets, such as KDPP.")
        shapes = {(c.n, c.k) for c in components}
        if len(shapes) > 1:
            raise ValueError(f"components must agree on the number of points and the set size, got {shapes}.")
        n, k = shapes.pop()
        super().__init__(n, batch_size=k, random_state=random_state)
        self.components = [*components, UniformSubsets(n, k)]
        self.learn, self._row = learn, np.ones(len(self.components))
        self._learner = NewtonLearner(len(self.components), beta=beta, gamma=gamma, eps=eps)

    def _relative(self, indices):
        """Importance weight r = 1/(N q) and the row N p_j of one set, N the number of sets."""
        uniform = self.components[-1]
        logs = np.array([c.log_prob(indices) for c in self.components]) - uniform.log_prob(indices)
        row = np.exp(np.minimum(logs, 600.0))  # larger ratios would overflow when squared
        return 1.0 / (self._learner.w @ row), row

    def _draw(self):
        w = self._learner.w
        component = min(int(np.searchsorted(np.cumsum(w), self.rng.random(), side="right")), len(w) - 1)
        indices = self.components[component].sample(self.rng)
        r, self._row = self._relative(indices)
        return indices, np.full(self.batch_size, r)

    def update(self, loss, indices=None, weights=None):
        """Take the feedback for one set: a number, finite and not negative.

        Parameters
        ----------
        loss : float
        indices, weights : what `sample` gave for that set; needed only when it is not the latest one
        """
        if indices is None and self._last is None:
            raise RuntimeError("update() takes the loss of a drawn set: call sample() first.")
        loss = as_vector([loss])
        check_losses(loss)
        row, r = (self._row, self._last[1][0]) if indices is None else (self._relative(indices)[1], weights[0])
        if self.learn:
            self._learner.step(row[None], np.array([r]), loss)
