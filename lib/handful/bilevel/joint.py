"""Coresets for several models at once (Section 4.4)."""

import numpy as np
from sklearn.base import BaseEstimator

from handful.bilevel.forward import recalled
from handful.checks import check_number


class Joint(BaseEstimator):
    """Two inner problems trained on one coreset, their outer losses added up (Borsos et al. 2024, Section 4.4).

    Parameters
    ----------
    problem_a, problem_b : Logistic, LeastSquares or another Problem; one of them may be a Joint again
    trade_off : weight of b's outer loss beside a's, the paper's lambda; 1 suits losses of the same order
    alternate : whether forward selection trains and asks one problem a round, in turn, as the paper does for networks
        (Section 5.2.3), instead of all in every round; their outer losses are then never added up

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

    def __init__(self, problem_a, problem_b, trade_off=1.0, *, alternate=False):
        self.problem_a = problem_a
        self.problem_b = problem_b
        self.trade_off = trade_off
        self.alternate = alternate

    @property
    def forward_only(self):
        """Whether only forward selection by the linear rule with equal weights is there."""
        return self.alternate or any(getattr(problem, "forward_only", False) for problem, _ in self.parts())

    def check(self):
        """ValueError unless the trade-off is a positive finite number."""
        check_number("trade_off", self.trade_off, above=0)

    def parts(self):
        """``(problem, factor of its outer loss)`` for each problem."""
        out = []
        for problem, factor in ((self.problem_a, 1.0), (self.problem_b, float(self.trade_off))):
            inner = problem.parts() if isinstance(problem, Joint) else [(problem, 1.0)]
            out += [(p, f * factor) for p, f in inner]
        return out


class JointSelection:
    """Selections of the same points for several models: scores, gains and outer losses are weighted sums.

    Parameters
    ----------
    models : selections of the same rows
    factors : of their outer losses
    """

    def __init__(self, models, factors=None):
        self.models = models
        self.factors = [1.0] * len(models) if factors is None else factors
        problems = [getattr(model, "problem", None) for model in models]
        for position, model in enumerate(models):
            if hasattr(model, "partners"):
                model.partners = type(self).__name__, self.factors, position, problems

    @property
    def max_candidates(self):
        """Rows whose gains are predicted: what suits the dearest model."""
        return min(model.max_candidates for model in self.models)

    def __len__(self):
        return len(self.models[0])

    @property
    def indices(self):
        """Rows of the coreset, in the order of selection."""
        return self.models[0].indices

    def _each(self, name, *arguments, **options):
        for model in self.models:
            getattr(model, name)(*arguments, **options)

    def _sum(self, name, *arguments, **options):
        return sum(f * getattr(m, name)(*arguments, **options) for m, f in zip(self.models, self.factors))

    def add(self, indices):
        """Append rows to the coreset."""
        self._each("add", indices)

    def recall(self, count):
        """Rows of the next round, shape (count,), if the checkpoints of all models know them, else None."""
        known = [recalled(model, count) for model in self.models]
        return known[0] if all(k is not None and np.array_equal(k, known[0]) for k in known) else None

    def keep(self, alive):
        """Drop the rows where the mask `alive`, shape (s,), is False."""
        self._each("keep", alive)

    def solve(self, weights=None):
        """Solve every inner problem."""
        self._each("solve", weights)

    def row_scores(self):
        """Summed first-order scores, shape (n,)."""
        return self._sum("row_scores")

    def linear_scores(self):
        """Summed first-order scores, -inf where excluded."""
        return self._sum("linear_scores")

    def predicted_gains(self, candidates, *, free_weights=False):
        """Summed predicted gains, shape (k,)."""
        return self._sum("predicted_gains", candidates, free_weights=free_weights)

    def outer_loss(self):
        """Summed outer losses; their gradients are kept."""
        return self._sum("outer_loss")

    def mean_loss(self):
        """Summed outer losses at the parameters of the last pass."""
        return self._sum("mean_loss")

    def weight_quadratic(self):
        """Summed curvatures and slopes by the weights."""
        pairs = [model.weight_quadratic() for model in self.models]
        return tuple(sum(f * pair[i] for f, pair in zip(self.factors, pairs)) for i in (0, 1))


class AlternatingSelection(JointSelection):
    """Selections of the same points for several models, of which each round trains and asks the next."""

    def __init__(self, models, factors=None):
        super().__init__(models, factors)
        self._round = 0

    @property
    def _current(self):
        return self.models[(self._round - 1) % len(self.models)]

    def recall(self, count):
        """As of `JointSelection`; a round that is known counts as that model's turn."""
        known = super().recall(count)
        self._round += known is not None
        return known

    def solve(self, weights=None):
        """Solve the inner problem of the model whose turn it is."""
        self._round += 1
        self._current.solve(weights)

    def linear_scores(self):
        """First-order scores of that model, -inf where excluded."""
        return self._current.linear_scores()

    def mean_loss(self):
        """Outer loss of that model."""
        return self._current.mean_loss()
