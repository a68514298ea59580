"""Selections of the same points for several models at once (Section 4.4)."""

import numpy as np

from handful.bilevel.selections.base import Selection


class JointSelection(Selection):
    """Scores, gains and outer losses are weighted sums over the models.

    Parameters
    ----------
    models : list of Selection over the same rows
    factors : list of float, of their outer losses; ones by default
    """

    def __init__(self, models, factors=None):
        self.models = models
        self.factors = [1.0] * len(models) if factors is None else factors
        problems = [model.problem for model in models]
        for position, model in enumerate(models):
            model.partners = type(self).__name__, self.factors, position, problems

    @property
    def max_candidates(self):
        """Rows whose gains are predicted: what suits the dearest model."""
        return min(model.max_candidates for model in self.models)

    @property
    def indices(self):
        """As in `Selection`."""
        return self.models[0].indices

    def check_memory(self, s):
        self._each("check_memory", s)

    def way(self):
        """As `Selection.way`, of the first model."""
        return self.models[0].way()

    def _each(self, name, *arguments):
        for model in self.models:
            getattr(model, name)(*arguments)

    def _sum(self, name, *arguments, **options):
        return sum(f * getattr(m, name)(*arguments, **options) for m, f in zip(self.models, self.factors))

    def labels(self):
        """As `Selection.labels`, of the first model that has classes."""
        return next((labels for model in self.models if (labels := model.labels()) is not None), None)

    def add(self, indices):
        self._each("add", indices)

    def keep(self, alive):
        self._each("keep", alive)

    def recall(self, count):
        """As `Selection.recall`, where all models have recorded the same rows."""
        known = [model.recall(count) for model in self.models]
        return known[0] if all(k is not None and np.array_equal(k, known[0]) for k in known) else None

    def solve(self, weights=None):
        self._each("solve", weights)

    def row_scores(self):
        return self._sum("row_scores")

    def linear_scores(self):
        return self._sum("linear_scores")

    def predicted_gains(self, candidates, *, free_weights=False):
        return self._sum("predicted_gains", candidates, free_weights=free_weights)

    def outer_loss(self):
        return self._sum("outer_loss")

    def mean_loss(self):
        return self._sum("mean_loss")

    def weight_quadratic(self):
        """As `Selection.weight_quadratic`."""
        pairs = [model.weight_quadratic() for model in self.models]
        return tuple(sum(f * pair[i] for f, pair in zip(self.factors, pairs)) for i in (0, 1))


class AlternatingSelection(JointSelection):
    """Each round trains and asks one model, in turn."""

    def __init__(self, models, factors=None):
        super().__init__(models, factors)
        self._round = 0

    @property
    def _current(self):
        return self.models[(self._round - 1) % len(self.models)]

    def recall(self, count):
        """As `JointSelection.recall`; a round that is recalled counts as that model's turn."""
        known = super().recall(count)
        self._round += known is not None
        return known

    def solve(self, weights=None):
        """Solve the inner problem of the model whose turn it is."""
        self._round += 1
        self._current.solve(weights)

    def linear_scores(self):
        return self._current.linear_scores()

    def mean_loss(self):
        return self._current.mean_loss()
