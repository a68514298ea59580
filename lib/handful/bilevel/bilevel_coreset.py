"""BilevelCoreset: the points on which training does best on all the data."""

import math
import warnings
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone

from handful.bilevel.compressed import CompressLinear
from handful.bilevel.exchange import Elimination, Exchange
from handful.bilevel.regularised import Regularised
from handful.bilevel.strategy import Forward, Strategy
from handful.checks import Accepts, is_blocks, validate_data
from handful.coreset import Selector
from handful.models.base import outer_rows
from handful.models.inverse import IHVP
from handful.models.linear import PENALTY_OF_PROBLEM, LinearProblem, Logistic
from handful.models.problem import check_problem
from handful.options import Count, current_word, named_option
from handful.running import Bar
from handful.types import Seed, Table

STRATEGIES = {
    "forward": Forward,
    "exchange": Exchange,
    "elimination": Elimination,
    "regularised": Regularised,
}

# In memory so many rows, and so many to choose, are compressed first: a choice reads all rows for
# each point, compressing them costs as much as some thirty points.
FROM_ROWS = 100_000
FROM_SIZE = 50


class BilevelCoreset(Selector):
    """Coreset that minimises the loss on all the data of the model trained on it.

    Three options matter; the others have defaults that suit most data.

    - `problem`: what will be trained on the coreset, with the same `l2`, ``Logistic(l2=1e-2)`` for
      example.
    - `size`: the number of points.
    - `weighting`: "optimised", the default, makes the most of each point, for trainers that take a
      sample_weight; "equal" is for those that do not.

    Bilevel optimisation (Borsos et al., Data Summarization via Bilevel Optimization, JMLR 2024,
    Algorithm 1 and Section 3.5): train on the points chosen so far, ask for every other point how
    much the outer loss falls if it joins them (the implicit gradient), take the best, repeat. The
    outer loss is that of the trained model on all rows, the inner problem is to train it on the
    chosen points. Inner problems are solved as precisely as implicit gradients need, which are
    computed for all n candidates, and each step of a linear model reads the data twice. From
    100,000 rows and a size of 50 on, forward selection for a linear model with optimised weights
    reads them a few times in all: a few matched rows stand for all as the outer loss, and the
    points are chosen among 4,000 uniform rows, or ten times the size, and these (ours). All rows
    are looked at where X is sparse, y holds probabilities or the columns are too many to match, and
    with a validation set or ``outer_penalty=False``.

    Parameters
    ----------
    problem : Problem or None, default=None
        Logistic (binary or multinomial), LeastSquares, a Problem of your own, or a Joint of
        two: what will be trained on the coreset; `Logistic()` by default.
    size : int, default=100
        Number of points m. Optimised weights may be zero, which leaves fewer points that count:
        those that weigh nothing can be left out.
    rule : {"auto", "quadratic", "linear"}, default="auto"
        Which point is best to add; "auto" is "quadratic", and "linear" for problems that know
        no other (`Network`): "linear" takes the smallest implicit gradient (the paper, Equation
        4); "quadratic" takes, among the 512 best of those, the largest decrease of the outer
        loss that a full Newton step predicts (ours: to a small set a point is no infinitesimal
        step, so leverage and outer curvature count). The points that leave in exchange and
        elimination have the largest implicit gradient under both.
    weighting : {"auto", "equal", "optimised", "corrective"}, default="auto"
        "optimised" optimises the weights each time the coreset has grown by a fifth, and at the
        end; "equal" gives every point the weight n / m (the paper's "BiCo", whose weights it
        calls binary); "corrective" optimises them after every selection (Algorithm 1 to the
        letter, the paper's "BiCo w/ weights"), for forward selection only; "auto" is
        "optimised", and "equal" for a `Network`, which takes no weights.
    strategy : str or Strategy, default="forward"
        How the set is found (Section 3.5): "forward", "exchange", "elimination" or
        "regularised"; with options of its own `Forward(batch_size=25)`, `Regularised(...)`, or
        `Exchange(max_iter=100)` and `Elimination(...)` of `handful.bilevel.exchange`.
    outer : {"train", "train+validation", "validation"}, default="train"
        Rows of the outer loss: "train", "train+validation" (the paper's Section 5.1; every row
        counts alike) or "validation"; `fit` takes the rows of the validation set.
    outer_penalty : bool, default=True
        Whether the outer loss has the penalty of the problem, so that the choice goes to the model
        that all rows give (ours). False is the paper's outer loss, under which the points make up
        for a part of the penalty: they overfit where that is small and rows are few.
    ihvp : str or InverseHessian, default="auto"
        How implicit gradients solve their linear system (Section 3.5.1): "auto" suits the
        problem, exactly unless it is a `Network`; "exact", "cg" or "neumann"; with options of
        its own `Exact(damping=1e-3)`, `ConjugateGradients(n_steps=100)` or
        `NeumannSeries(n_terms=100)` of `handful.models.inverse`.
    random_state : int, Generator, RandomState or None, default=None
        Draws the random start, and the rows that estimate the outer curvature.
    verbose : bool, default=False
        Whether to show a progress bar from the start, not only after 30 seconds.

    Attributes
    ----------
    indices_ : int array, shape (m,), in the order of selection: with forward selection and equal
        weights, ``indices_[:k]`` is the coreset of size k
    weights_ : float array, shape (m,), they add up to the total sample_weight (n by default)
    coreset_ : `Coreset`, both together

    Notes
    -----
    A coreset of equal weights is closely fitted to its inner problem: select with the problem that
    you will train (same l2, same treatment of the intercept), and where you cannot, optimised
    weights, or a `Joint` of several. `sample_weight` weighs the rows in the outer loss; in the
    inner problem all chosen points count alike until their weights are optimised.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> coreset = BilevelCoreset(Logistic(l2=1e-2), size=20, random_state=0).fit(X, y)
    >>> X_small, y_small, w = coreset.take(X, y)
    >>> model = LogisticRegression(C=1 / (1e-2 * len(y))).fit(X_small, y_small, sample_weight=w)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    problem: Any = None
    _: KW_ONLY
    size: Count = 100
    rule: Literal["auto", "quadratic", "linear"] = "auto"
    weighting: Literal["auto", "equal", "optimised", "corrective"] = "auto"
    strategy: Any = "forward"
    outer: Literal["train", "train+validation", "validation"] = "train"
    outer_penalty: Literal[True, False] = True
    ihvp: Any = "auto"
    random_state: Seed = None
    verbose: bool = False

    _plan = CompressLinear(rows_per_column=200)
    _elsewhere = PENALTY_OF_PROBLEM

    def fit(
        self, X: Table, y: Table = None, sample_weight: Table = None, *, validation: Any = None
    ) -> Self:
        """Choose the coreset.

        Ctrl-C raises KeyboardInterrupt. The points chosen so far stay in `indices_`, with equal
        weights: fewer than `size` in forward selection, the best set so far in exchange, more than
        `size` in elimination.

        Parameters
        ----------
        X, y, sample_weight : as in `Selector.fit`; `y` may be soft targets, shape (n, classes), for
            `Logistic`
        validation : ``(X, y)`` or ``(X, y, sample_weight)`` of further rows for the outer loss; see
            `outer`

        Raises
        ------
        ValueError
            as in `Selector.fit`, for options that do not go together, and for inner problems that
            can't be solved
        MemoryError
            where the inner problem of so many points needs more bytes than the machine has; nothing
            is allocated
        """
        has_validation = validation is not None or self.outer != "train"
        if has_validation and is_blocks(X, y, sample_weight):
            raise ValueError(
                "validation rows are for data in memory: with data in blocks the outer loss is "
                "that of them, outer='train' without validation."
            )
        return self._fit(X, y, sample_weight, validation=validation)

    def _select(self, X, y, sample_weight, rng, validation=None):
        problem, strategy, rule, weighting, ihvp = self._checked_options()
        validation = self._checked_validation(validation)
        weighs = weighting != "equal" and isinstance(strategy, Forward)
        # The paper's outer loss is that of all rows, to the letter.
        may_compress = isinstance(problem, LinearProblem) and weighs and self.outer_penalty
        of_all = validation is None and self.outer == "train"
        pays = len(sample_weight) >= FROM_ROWS and self.size >= FROM_SIZE
        if may_compress and of_all and pays:
            found = self._plan.in_memory(self, X, y, sample_weight, rng)
            if found is not None:
                return found
        rows = outer_rows(
            X,
            y,
            sample_weight,
            self.outer,
            validation,
            classes=problem.classifies,
            penalised=self.outer_penalty,
        )
        rows = problem.near_zero(rows)
        weighted = weighting != "equal" or isinstance(strategy, Regularised)
        model = problem.model(rows, rng, ihvp=ihvp, weighted=weighted)
        candidates = np.arange(len(sample_weight))
        labels = model.labels()
        total = sample_weight.sum()
        start = strategy.start(candidates, labels, self.size, rule, rng)
        model.check_memory(max(len(start), self.size))
        bar = strategy.bar(len(candidates), len(start), self.size)
        with Bar(desc="BilevelCoreset", verbose=self.verbose, **bar) as bar:
            model.add_rows(start)
            try:
                weights = strategy.run(
                    model, self.size, rule=rule, weighting=weighting, labels=labels, bar=bar
                )
            except KeyboardInterrupt:
                self.indices_, self.weights_ = _weighted(model, None, total)
                raise
        return _weighted(model, weights, total)

    @property
    def _ranks(self):
        strategy = (
            STRATEGIES.get(self.strategy) if isinstance(self.strategy, str) else self.strategy
        )
        equal = current_word(self.weighting) == "equal" or getattr(
            self._problem(), "forward_only", False
        )
        return equal and getattr(strategy, "ranks", False)

    def _problem(self):
        return Logistic() if self.problem is None else self.problem

    @property
    def _by_scale(self):
        return isinstance(self._problem(), LinearProblem)

    @property
    def _accepts(self):
        problem = self._problem()
        y = "unread"
        if getattr(problem, "needs_y", True):
            y = "two classes" if getattr(problem, "classifies", False) else "targets"
        return Accepts(y, sparse=True)

    def _check_part(self, X, y):
        self._checked_options()
        return super()._check_part(X, y)

    def _check_targets(self, y):
        problem, strategy, rule, *_ = self._checked_options()
        problem.check_targets(y)
        # the start may need a row of each class
        if self._accepts.classes and np.ndim(y) == 1:
            labels = np.unique(y, return_inverse=True)[1]
            with warnings.catch_warnings(action="ignore"):
                strategy.start(
                    np.arange(len(labels)), labels, self.size, rule, np.random.default_rng(0)
                )

    def _check_X_y(self, X, y, *, reset=True):
        shape = getattr(y, "shape", None) or (np.shape(y) if isinstance(y, (list, tuple)) else ())
        several = len(shape) == 2 and shape[1] > 1
        # soft targets, or what the problem's `encode` makes of it
        if several and self._accepts.reads_y:
            options = dict(accept_sparse="csr", dtype=list(self._accepts.dtypes), reset=reset)
            return validate_data(self, X, y, **options, multi_output=True)
        return super()._check_X_y(X, y, reset=reset)

    def _checked_validation(self, given):
        if given is None:
            return None
        if not (isinstance(given, (tuple, list)) and len(given) in (2, 3)):
            raise ValueError(
                f"validation must be (X, y) or (X, y, sample_weight), got {type(given).__name__}."
            )
        try:
            return *self._check_X_y(*given[:2], reset=False), *given[2:]
        except ValueError as error:
            raise ValueError(f"validation: {error}") from error

    def _checked_options(self):
        problem = self._problem()
        check_problem(problem)
        strategy = named_option(
            "strategy", self.strategy, STRATEGIES, Strategy, "Forward(batch_size=25)"
        )
        forward = isinstance(strategy, Forward)
        weighting = current_word(self.weighting)
        if weighting == "corrective" and not forward:
            raise ValueError(
                "weighting='corrective' optimises the weights after every selection of forward "
                "selection; with "
                f"strategy={self.strategy!r} take 'optimised', which does so at the end."
            )
        if weighting == "auto":
            weighting = "equal" if problem.forward_only else "optimised"
        rule = self.rule
        if rule == "auto":
            rule = "linear" if problem.forward_only else "quadratic"
        if problem.forward_only and not (forward and rule == "linear" and weighting == "equal"):
            raise ValueError(
                "BilevelCoreset must have strategy='forward' (or a Forward), rule='linear' (or "
                "'auto') and "
                f"weighting='equal' (or 'auto') for {type(problem).__name__}, got "
                f"{(self.strategy, self.rule, self.weighting)}."
            )
        ihvp = named_option("ihvp", self.ihvp, **IHVP)
        return problem, self._in_rounds(strategy, problem), rule, weighting, ihvp

    def _in_rounds(self, strategy, problem):
        # Where a problem asks for few rounds, forward selection adds as many points in each.
        is_forward = isinstance(strategy, Forward)
        if not is_forward or strategy.batch_size is not None or not problem.n_rounds:
            return strategy
        batch_size = math.ceil(self.size / problem.n_rounds)
        return clone(strategy).set_params(batch_size=batch_size)


def _weighted(model, weights, total):
    m = len(model)
    indices = np.array(model.indices, dtype=np.intp)
    share = np.full(m, 1.0 / m) if weights is None else weights
    return indices, total * share
