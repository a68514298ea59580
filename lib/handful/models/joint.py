"""Several models trained on the same rows (Section 4.4)."""

from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np

from handful.models.base import Model
from handful.models.problem import Problem, check_problem
from handful.options import Positive, check_options


class Joint(Problem):
    """Two inner problems trained on one coreset, their outer losses added up (Borsos et al. 2024,
    Section 4.4).

    Parameters
    ----------
    problem_a, problem_b : Problem
        What is trained, such as `Logistic` or `LeastSquares`; one of them may be a Joint again.
    trade_off : float, default=1.0
        Weight of b's outer loss beside a's, the paper's lambda; 1 suits losses of the same
        order.
    alternate : bool, default=False
        Whether forward selection trains and asks one problem a round, in turn, as the paper
        does for networks (Section 5.2.3), instead of all in every round; their outer losses are
        then never added up.

    Examples
    --------
    >>> from handful import BilevelCoreset, Logistic
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> problem = Joint(Logistic(l2=1e-3), Logistic(l2=1e-1))
    >>> BilevelCoreset(problem, size=20, random_state=0).fit(X, y).weights_.sum().round()
    np.float64(569.0)
    """

    problem_a: Any
    problem_b: Any
    trade_off: Positive = 1.0
    _: KW_ONLY
    alternate: bool = False

    @property
    def _problems(self):
        return self.problem_a, self.problem_b

    def _any(self, name):
        return any(getattr(problem, name, False) for problem in self._problems)

    @property
    def needs_y(self):
        """As in `Problem`."""
        return self._any("needs_y")

    @property
    def classifies(self):
        """As in `Problem`."""
        return self._any("classifies")

    @property
    def forward_only(self):
        """As in `Problem`."""
        return self.alternate or self._any("forward_only")

    @property
    def n_rounds(self):
        """As in `Problem`."""
        wanted = [problem.n_rounds for problem in self._problems if problem.n_rounds]
        return min(wanted, default=None)

    def check(self):
        """As `Problem.check`, of both problems, too."""
        check_options(self)
        for problem in self._problems:
            check_problem(problem)

    def check_targets(self, y):
        """As `Problem.check_targets`, of both problems."""
        for problem in self._problems:
            problem.check_targets(y)

    def near_zero(self, rows):
        """As `Problem.near_zero`, where both problems move their rows; the targets only where they
        move them alike, as a regression does and a classification does not."""
        moved = [problem.near_zero(rows) for problem in self._problems]
        if any(one is rows for one in moved):
            return rows
        (a, b) = moved
        return a if np.array_equal(a.y, b.y) else replace(a, y=rows.y)

    def model(self, rows, rng, **options):
        """As `Problem.model`: a `JointModel`."""
        models = [problem.model(rows, rng, **options) for problem in self._problems]
        return JointModel(models, [1.0, self.trade_off], self.alternate)


class JointModel(Model):
    """Scores, gains and outer losses are weighted sums over the models.

    Parameters
    ----------
    models : list of Model over the same rows
    factors : list of float, of their outer losses
    alternate : whether each `fit` trains one model, in turn, and only that one is asked afterwards
    """

    def __init__(self, models, factors, alternate=False):
        self.models = models
        self.data = models[0].data
        self.factors = factors
        self.alternate = alternate
        self._round = 0

    @property
    def _asked(self):
        # (model, factor) of those that count in this round
        if self.alternate:
            turn = (self._round - 1) % len(self.models)
            return [(self.models[turn], 1.0)]
        return list(zip(self.models, self.factors))

    @property
    def max_candidates(self):
        """Rows whose gains are predicted: what suits the dearest model."""
        return min(model.max_candidates for model in self.models)

    @property
    def indices(self):
        """As in `Model`."""
        return self.models[0].indices

    def count_penalty(self, counts):
        """As `Model.count_penalty`, of both models."""
        self._each("count_penalty", counts)
        self.data = self.models[0].data

    def check_memory(self, s):
        self._each("check_memory", s)

    def _each(self, name, *arguments):
        for model in self.models:
            getattr(model, name)(*arguments)

    def _sum(self, name, *arguments, **options):
        total = 0
        for model, factor in self._asked:
            method = getattr(model, name)
            total = total + factor * method(*arguments, **options)
        return total

    def labels(self):
        """As `Model.labels`, of the first model that has classes."""
        for model in self.models:
            labels = model.labels()
            if labels is not None:
                return labels
        return None

    def add_rows(self, indices):
        self._each("add_rows", indices)

    def drop_rows(self, gone):
        self._each("drop_rows", gone)

    def fit(self, weights=None):
        """As `Model.fit`, of the parts whose turn it is."""
        self._round += 1
        for model, _ in self._asked:
            model.fit(weights)

    def implicit_gradients(self):
        return self._sum("implicit_gradients")

    def predicted_gains(self, candidates, *, free_weights=False):
        return self._sum("predicted_gains", candidates, free_weights=free_weights)

    def outer_loss(self):
        return self._sum("outer_loss")

    def mean_loss(self):
        return self._sum("mean_loss")

    def weight_quadratic(self):
        """As `Model.weight_quadratic`."""
        curvature = 0
        slope = 0
        for model, factor in self._asked:
            Q, own_slope = model.weight_quadratic()
            curvature = curvature + factor * Q
            slope = slope + factor * own_slope
        return curvature, slope
