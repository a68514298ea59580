"""Mixtures of distributions over sets of points (VRM, sections 4 and 6.2)."""

import numpy as np
from handful.sampling.kdpp import log_binomial
from handful.sampling.online_newton import NewtonLearner
from handful.sampling.state import Stateful


class UniformSubsets:
    """Every set of k of n points with the same probability: the uniform component among sets."""

    def __init__(self, n, k):
        self.n = n
        self.k = k
        self._log_prob = -float(log_binomial(n, k))

    def sample(self, rng):
        """One set, int array of shape (k,), ascending."""
        chosen = rng.choice(
            self.n,
            size=self.k,
            replace=False,
            shuffle=False,
        )
        return np.sort(chosen)

    def log_prob(self, indices):
        """log probability of any set of k distinct points: minus log of n choose k."""
        return self._log_prob


class SetMixture(Stateful):
    """Learns which of several distributions over sets of points to draw its batches from.

    The batch is one set; its loss is one number, such as the norm of its mean gradient. Only the
    components' log-probabilities are used, relative to that of the uniform distribution over sets
    of the same size.

    Parameters
    ----------
    components : list of objects over the same points and set size, each with `n`, `k`,
        ``sample(rng) -> indices`` and ``log_prob(indices) -> float``, such as `KDPP`; the uniform
        one is appended
    beta, gamma, eps : as in `MixtureSampler`
    learn : bool, False keeps the weights at 1/(number of components)
    random_state : int, Generator, RandomState or None

    Notes
    -----
    `sample` returns the set and its importance weight, the same for each of its points: ``(weights
    * losses[indices]).mean()`` estimates the mean loss without bias. `update` takes one loss.
    """

    _state = ("rng", "_learner", "_row", "_weight")
    _same = ("batch_size",)

    def __init__(
        self, components, *, beta=0.5, gamma=0.01, eps=1000.0, learn=True, random_state=None
    ):
        n = components[0].n
        k = components[0].k
        self.components = [*components, UniformSubsets(n, k)]
        self.batch_size = k
        self.learn = learn
        self.rng = np.random.default_rng(random_state)
        # Both are of the set drawn last.
        self._row = None
        self._weight = None
        self._learner = NewtonLearner(
            len(self.components),
            beta=beta,
            gamma=gamma,
            eps=eps,
        )

    @property
    def mixture_weights(self):
        """The mixture weights, shape (k,), the uniform component's last."""
        return self._learner.w.copy()

    def sample(self):
        """Draw a set: its points and their weights, both of shape (k,)."""
        w = self._learner.w
        drawn = int(np.searchsorted(np.cumsum(w), self.rng.random(), side="right"))
        # The cumulated weights may end just below one.
        component = self.components[min(drawn, len(w) - 1)]
        indices = component.sample(self.rng)
        logs = np.array([one.log_prob(indices) for one in self.components])
        logs -= self.components[-1].log_prob(indices)
        # N p_j; larger ratios would overflow when squared.
        self._row = np.exp(np.minimum(logs, 600.0))
        self._weight = 1.0 / (w @ self._row)
        return indices, np.full(self.batch_size, self._weight)

    def update(self, loss):
        """Take the feedback for the set drawn last: a number, finite and not negative."""
        if self.learn:
            weights = np.array([self._weight])
            self._learner.step(self._row[None], weights, np.array([loss]))
