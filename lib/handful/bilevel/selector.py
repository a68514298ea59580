"""BilevelCoreset: the points on which training does best on all the data."""

import warnings
from functools import cache

import numpy as np
from scipy import sparse
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

from handful.bilevel.generic import GenericSelection, Rows
from handful.bilevel.linear import LinearSelection
from handful.bilevel.passes import DataPasses
from handful.bilevel.problems import LinearProblem, Logistic, Problem
from handful.bilevel.weights import optimise_weights
from handful.coreset import Selector, check_magnitude

CANDIDATES = 512  # rows of the highest linear score whose gain the quadratic rule predicts
PAPER_START = 10  # random points that the paper starts from
# Weights are optimised again each time the coreset has grown by this factor, in so many Gauss-Newton steps; 1.2 ends
# at the same loss as after every single point, at a third of the cost.
GROWTH = {"binary": np.inf, "optimised": 1.2, "corrective": 1.0}
STEPS_ON_THE_WAY = 3
REFILLS = 4  # times that points whose optimal weight is zero make room for others

OPTIONS = {
    "strategy": ("forward",),
    "score": ("quadratic", "linear"),
    "weighting": ("binary", "optimised", "corrective"),
}


class BilevelCoreset(Selector):
    """Coreset that minimises the loss on all the data of the model trained on it.

    Greedy forward selection (Borsos et al., Data Summarization via Bilevel Optimization, JMLR 2024, Algorithm 1 and
    Section 3.5): train on the points chosen so far, ask for every other point how much the outer loss falls if it
    joins them (the implicit gradient), take the best, repeat. Inner problems are solved exactly, implicit gradients
    are exact for all n candidates, and each step reads the data twice.

    Parameters
    ----------
    problem : Logistic or LeastSquares, what will be trained on the coreset; `Logistic()` by default
    size : number of points m
    strategy : "forward"
    score : which point is best:
        "linear" takes the smallest implicit gradient (the paper, Equation 4);
        "quadratic" takes, among the 512 best of those, the largest decrease of the outer loss that a full Newton step
        predicts (ours: to a small set a point is no infinitesimal step, so leverage and outer curvature count)
    weighting : "binary" gives every point the weight n / m (the paper's "BiCo");
        "optimised" optimises the weights each time the coreset has grown by a fifth, and at the end;
        "corrective" optimises them after every selection (Algorithm 1 to the letter, the paper's "BiCo w/ weights")
    batch : points added a step (Section 3.5.1); the best `batch` by score
    robust : select for trainers with a penalty tenfold off either way or with the intercept treated the other way as
        well, through the mean of their outer losses (the joint coreset of Section 4.4); about four times the work
    n_start : random points to start from; one of each class at least. None: 10 for the linear rule, as in
        the paper, and 2 for the quadratic one, which makes better use of them
    random_state : int, Generator or None; the random start, and the 4,096 rows that estimate the outer curvature
    verbose : whether to show a progress bar

    Attributes
    ----------
    indices_ : shape (m,), in the order of selection: ``indices_[:k]`` is the binary coreset of size k
    weights_ : shape (m,), they add up to the total sample_weight (n by default)
    coreset_ : both together

    Notes
    -----
    A binary coreset fits its inner problem closely: let the problem that selects be the one that trains (same l2, same
    treatment of the intercept), choose `robust=True` or optimised weights if it cannot be. `sample_weight` weighs the
    rows in the outer loss; inside, chosen points count alike until their weights are optimised.

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

    _needs_y = True
    _takes_sparse = True

    def __init__(
        self,
        problem=None,
        *,
        size=100,
        strategy="forward",
        score="quadratic",
        weighting="binary",
        batch=1,
        robust=False,
        n_start=None,
        random_state=None,
        verbose=False,
    ):
        self.problem = problem
        self.size = size
        self.strategy = strategy
        self.score = score
        self.weighting = weighting
        self.batch = batch
        self.robust = robust
        self.n_start = n_start
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if getattr(self._problem(), "two_classes", False):
            tags.classifier_tags = ClassifierTags(multi_class=False)
        tags.target_tags.required = getattr(self._problem(), "needs_y", True)
        return tags

    def _problem(self):
        return Logistic() if self.problem is None else self.problem

    def _select(self, X, y, sample_weight, rng):
        problem = self._problem()
        self._check_options()
        problem.check()
        y = problem.encode(y)
        models = self._models(problem, X, y, sample_weight, rng)
        start = self._random_start(problem, y, sample_weight, rng)
        # Inner problems are small: several BLAS threads would wait for each other more than they work.
        with _threadpools().limit(limits=1, user_api="blas"):
            for model in models:
                model.add(start)
            weights = self._grow(models)
        chosen = models[0].indices
        if weights is None:
            weights = np.full(len(chosen), 1.0 / len(chosen))
        return chosen, sample_weight.sum() * weights

    def _check_X_y(self, X, y):
        problem = self._problem()
        if y is None and not getattr(problem, "needs_y", True):
            return validate_data(self, X, accept_sparse="csr", dtype=list(self._dtypes)), None
        return super()._check_X_y(X, y)

    def _models(self, problem, X, y, sample_weight, rng):
        if isinstance(problem, LinearProblem):
            check_magnitude(y, "y", X.dtype)
            data = DataPasses(X, y, sample_weight, problem.kind)
            problems = problem.variants() if self.robust else [problem]
            return [LinearSelection(p, data if i == 0 else data.twin(), self.size, rng) for i, p in enumerate(problems)]
        if self.robust:
            raise ValueError(f"robust=True knows the variants of linear models only, not of {problem!r}.")
        if sparse.issparse(X) and not problem.takes_sparse:
            raise ValueError(f"{type(problem).__name__} takes no sparse X: use X.toarray().")
        absent = np.flatnonzero(sample_weight == 0)
        return [GenericSelection(problem, Rows(X, y, sample_weight, absent), rng)]

    def _check_options(self):
        if not isinstance(self._problem(), (LinearProblem, Problem)):
            raise ValueError(f"problem must be a Logistic or a LeastSquares or another Problem, got {self.problem!r}.")
        for name, allowed in OPTIONS.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {value!r}.")
        for name in ("batch", "n_start"):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= 1) and not (name == "n_start" and value is None):
                raise ValueError(f"{name} must be a positive integer, got {value!r}.")

    def _random_start(self, problem, y, sample_weight, rng):
        candidates = np.flatnonzero(sample_weight)
        n_start = self.n_start or (PAPER_START if self.score == "linear" else 2)
        start = rng.choice(candidates, min(n_start, len(candidates)), replace=False)
        if getattr(problem, "two_classes", False):
            label = y
            y = label[candidates]
            if y.min() == y.max():
                raise ValueError("all rows with a positive sample_weight have the same label: two classes are needed.")
            if self.size < 2:
                raise ValueError(f"size must be at least 2, one point of each class, got size={self.size}.")
            # a point of the other class comes second, so that every prefix has both
            unlike = start[label[start] != label[start[0]]]
            second = unlike[0] if len(unlike) else rng.choice(candidates[y != label[start[0]]])
            rest = start[1:][start[1:] != second][: max(len(start) - 2, 0)]
            start = np.concatenate([start[:1], [second], rest])
        return start[: self.size]

    def _grow(self, models):
        # Returns the weights, adding up to 1, or None for uniform ones.
        lead = models[0]
        weights = None
        corrected = 1  # size at which the weights were last optimised
        refills = REFILLS
        bar = tqdm(total=self.size, initial=len(lead), disable=not self.verbose, unit="point", desc="BilevelCoreset")
        try:
            while True:
                while len(lead) < self.size:
                    weights = _with_newcomers(weights, len(lead))
                    if len(lead) >= GROWTH[self.weighting] * corrected:
                        weights = optimise_weights(models, weights, max_iter=STEPS_ON_THE_WAY)
                        corrected = len(lead)
                    else:
                        for model in models:
                            model.solve(weights)
                    best = self._best(models, min(self.batch, self.size - len(lead)))
                    for model in models:
                        model.add(best)
                    bar.update(len(best))
                if self.weighting == "binary":
                    break
                weights = optimise_weights(models, _with_newcomers(weights, len(lead)))
                alive = weights > 0
                if alive.all() or refills == 0 or not self._worth_refilling(models, int((~alive).sum())):
                    break
                refills -= 1
                for model in models:
                    model.keep(alive)
                weights, corrected = weights[alive], len(lead)
                bar.update(-int((~alive).sum()))
        except KeyboardInterrupt:
            warnings.warn(
                f"interrupted after {len(lead)} of {self.size} points; they are kept, with equal weights.",
                stacklevel=2,
            )
            weights = None
        finally:
            bar.close()
        return weights

    def _worth_refilling(self, models, n_dead):
        # whether that many points like the best one would lower the outer loss by a thousandth
        loss = sum(model.mean_loss() for model in models)
        best = self._best(models, 1)
        return n_dead * sum(model.predicted_gains(best, free_weights=True)[0] for model in models) > 1e-3 * loss

    def _best(self, models, count):
        # Rows of the largest summed score; ties go to the smaller index.
        total = models[0].linear_scores()
        if len(models) > 1:
            total = total.copy()
            for model in models[1:]:
                total += model.linear_scores()
        if self.score == "quadratic":
            rows = top_candidates(total, max(CANDIDATES, 4 * self.batch))
            gains = sum(model.predicted_gains(rows, free_weights=self.weighting != "binary") for model in models)
        else:
            rows = top_candidates(total, count) if count > 1 else np.array([np.argmax(total)])
            gains = total[rows]
        return rows[np.argsort(-gains, kind="stable")[:count]]


@cache
def _threadpools():
    # finding the loaded libraries takes as long as a small selection
    return ThreadpoolController()


def _with_newcomers(weights, s):
    # Newcomers to optimised weights enter with the weight 1 / s.
    if weights is None or len(weights) == s:
        return weights
    weights = np.append(weights, np.full(s - len(weights), 1.0 / s))
    return weights / weights.sum()


def top_candidates(scores, k):
    """Indices of the `k` largest finite scores (of all if they are fewer), ascending; ties go to the smaller index.

    For long arrays the threshold is read off every 16th score: a full partition would cost as much as a pass over
    the data.
    """
    n = len(scores)
    chosen = np.arange(n)
    if n > 64 * k:
        sample = scores[::16]
        rank = k // 8 + 1  # aims at 2 k, so that fewer than k are rare
        threshold = np.partition(sample, len(sample) - rank)[len(sample) - rank]
        above = np.flatnonzero(scores >= threshold)
        if len(above) >= k:
            chosen = above
    if len(chosen) > k:
        values = scores[chosen]
        least = np.partition(values, len(values) - k)[len(values) - k]
        above = values > least
        tied = np.flatnonzero(values == least)[: k - np.count_nonzero(above)]
        above[tied] = True
        chosen = chosen[above]
    return chosen[scores[chosen] > -np.inf]
