"""Coresets for several models at once (Section 4.4)."""

from scipy import sparse

from handful.bilevel.problems.base import Problem, check_problem
from handful.bilevel.selections.joint import AlternatingSelection, JointSelection
from handful.checks import check_number


class Joint(Problem):
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

    def _any(self, name):
        return any(getattr(problem, name, False) for problem, _ in self.parts())

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
        return min((p.n_rounds for p, _ in self.parts() if p.n_rounds), default=None)

    def check(self):
        """ValueError unless the trade-off is a positive finite number and the problems are ones to be selected for."""
        check_number("trade_off", self.trade_off, above=0)
        check_problem(self.problem_a)
        check_problem(self.problem_b)

    def parts(self):
        """As `Problem.parts`; ValueError as `check`."""
        self.check()
        out = []
        for problem, factor in ((self.problem_a, 1.0), (self.problem_b, self.trade_off)):
            inner = problem.parts() if isinstance(problem, Problem) else [(problem, 1.0)]
            out += [(p, f * factor) for p, f in inner]
        return out

    def selection(self, rows, rng, **options):
        """As `selection_for`, for rows whose targets are not encoded."""
        return selection_for(self, rows, rng, **options)


def selection_for(problem, rows, rng, *, robust=False, **options):
    """An empty selection for all parts of a problem, each with its own coding of the targets.

    Parameters
    ----------
    problem : Problem
    rows : Rows, with targets as the user gave them
    rng : numpy.random.Generator
    robust : whether to join the variants of each part
    options : as in `Problem.selection`

    Raises
    ------
    ValueError
        for targets that a part can't have, sparse rows that it does not take, and where it has no variants
    """
    models, factors = [], []
    for part, factor in problem.parts():
        if sparse.issparse(rows.X) and not part.takes_sparse:
            raise ValueError(f"{type(part).__name__} takes no sparse X: use X.toarray().")
        own = rows.with_targets(part.encode(rows.y))
        for variant in part.variants() if robust else [part]:
            models.append(variant.selection(own, rng, **options))
            factors.append(factor)
    if problem.alternate:
        return AlternatingSelection(models, factors)
    return models[0] if factors == [1.0] else JointSelection(models, factors)
