"""BilevelCoreset: the points on which training does best on all the data."""

import warnings
from functools import cache

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

from handful.bilevel import forward, regularised, subsets
from handful.bilevel.ihvp import Ihvp
from handful.bilevel.models import OUTER, check_problem, class_labels, outer_rows, parts, selection_for
from handful.bilevel.problems import Logistic
from handful.bilevel.weights import descend, optimise_weights
from handful.checks import check_integer, check_magnitude, check_sample_weight
from handful.coreset import Selector

FORWARD = ("forward", "linear", "binary")  # all that networks and alternating problems know
PAPER_START = 10  # random points that the paper starts from

OPTIONS = {
    "strategy": ("forward", "exchange", "elimination", "regularised"),
    "score": ("quadratic", "linear"),
    "weighting": ("auto", "binary", "optimised", "corrective"),
    "outer": OUTER,
}


def _classifies(selector):
    return any(part.classifies for part, _ in parts(selector._problem()))


class BilevelCoreset(Selector):
    """Coreset that minimises the loss on all the data of the model trained on it.

    Greedy forward selection (Borsos et al., Data Summarization via Bilevel Optimization, JMLR 2024, Algorithm 1 and
    Section 3.5): train on the points chosen so far, ask for every other point how much the outer loss falls if it
    joins them (the implicit gradient), take the best, repeat. Inner problems are solved exactly, implicit gradients
    are exact for all n candidates, and each step of a linear model reads the data twice.

    Parameters
    ----------
    problem : Logistic (binary or multinomial), LeastSquares, a Problem of your own, or a Joint of two: what will be
        trained on the coreset; `Logistic()` by default
    size : number of points m
    strategy : how the set is found (Section 3.5):
        "forward" adds the best points to a few random ones;
        "exchange" swaps the worst for the best, starting from m random ones;
        "elimination" drops the worst, starting from all rows: for coresets not much smaller than the data;
        "regularised" optimises the weights of all rows under a penalty that makes most of them zero (Algorithm 2)
    score : which point is best to add:
        "linear" takes the smallest implicit gradient (the paper, Equation 4);
        "quadratic" takes, among the 512 best of those, the largest decrease of the outer loss that a full Newton step
        predicts (ours: to a small set a point is no infinitesimal step, so leverage and outer curvature count).
        What leaves in "exchange" and "elimination" has the largest implicit gradient under both
    weighting : "binary" gives every point the weight n / m (the paper's "BiCo");
        "optimised" optimises the weights each time the coreset has grown by a fifth, and at the end;
        "corrective" optimises them after every selection (Algorithm 1 to the letter, the paper's "BiCo w/ weights");
        "auto" is "optimised" for the regularised strategy, which is about weights, and "binary" for the others
    batch : points added, dropped or swapped a step (Section 3.5.1). None: 1, a 200th of the rows, 1 % of m
    max_steps : steps of "exchange" (None: 200, the paper's) and "regularised" (None: 1,000)
    outer : rows of the outer loss: "train", "train+validation" (the paper's Section 5.1; every row counts alike) or
        "validation", those given to `fit`
    ihvp : how implicit gradients solve their linear system (Section 3.5.1): "auto" exactly, by the cheapest way for
        the problem; "cholesky" with a factor of the whole Hessian; "cg" by `ihvp_steps` conjugate gradients from zero;
        "neumann" by as many terms of the Neumann series
    ihvp_steps : 100 in the paper
    damping : added to the Hessian's diagonal in implicit gradients, for penalties that leave it nearly singular
    robust : select for trainers with a penalty tenfold off either way or with the intercept treated the other way as
        well, through the mean of their outer losses (the joint coreset of Section 4.4); about four times the work
    n_start : random points to start from; one of each class at least. None: 10 for the linear rule, as in
        the paper, and 2 for the quadratic one, which makes better use of them. Where they are all of `size`, nothing is
        selected, and a UserWarning says so
    random_state : int, Generator or None; the random start, and the rows that estimate the outer curvature
    verbose : whether to show a progress bar

    Attributes
    ----------
    indices_ : shape (m,), in the order of selection: for forward selection ``indices_[:k]`` is the binary coreset of
        size k
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
        weighting="auto",
        batch=None,
        max_steps=None,
        outer="train",
        ihvp="auto",
        ihvp_steps=100,
        damping=0.0,
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
        self.max_steps = max_steps
        self.outer = outer
        self.ihvp = ihvp
        self.ihvp_steps = ihvp_steps
        self.damping = damping
        self.robust = robust
        self.n_start = n_start
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _ranks(self):
        return self.strategy == "forward"

    def fit(self, X, y=None, sample_weight=None, *, validation=None):
        """Choose the coreset.

        Parameters
        ----------
        X, y, sample_weight : as in `Selector.fit`; `y` may be soft targets, shape (n, classes), for `Logistic`
        validation : ``(X, y)`` or ``(X, y, sample_weight)`` of further rows for the outer loss; see `outer`

        Raises
        ------
        ValueError
            as in `Selector.fit`, for options that do not go together, and for inner problems that can't be solved
        """
        self._validation = validation
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._validation

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._asks_for_y()
        return tags

    @available_if(_classifies)
    def select_one_class(self, X, sample_weight, rng):
        """A coreset of rows of one class, for a part of a stream or a task: `fit` wants two.

        One class alone has no boundary to be wrong about, so every row is as good: drawn by weight, all count alike.

        Returns
        -------
        indices, weights : as of `fit`
        """
        share = sample_weight / sample_weight.sum()
        chosen = rng.choice(len(share), self.size, replace=False, p=share)
        return chosen, np.full(self.size, sample_weight.sum() / self.size)

    def _problem(self):
        return Logistic() if self.problem is None else self.problem

    def _asks_for_y(self):
        problem = self._problem()
        return any(getattr(part, "needs_y", True) for part, _ in parts(problem))

    def _check_X_y(self, X, y):
        options = dict(accept_sparse="csr", dtype=list(self._dtypes))
        if y is None and not self._asks_for_y():
            return validate_data(self, X, **options), None
        shape = getattr(y, "shape", None) or (np.shape(y) if isinstance(y, (list, tuple)) else ())
        if len(shape) == 2 and shape[1] > 1:  # soft targets, or what the problem's `encode` makes of it
            return validate_data(self, X, y, **options, multi_output=True)
        return super()._check_X_y(X, y)

    def _select(self, X, y, sample_weight, rng):
        problem = self._problem()
        self._check_options()
        check_problem(problem)
        weighting = self.weighting
        if weighting == "auto":
            weighting = "optimised" if self.strategy == "regularised" else "binary"
        if getattr(problem, "forward_only", False) and (self.strategy, self.score, weighting) != FORWARD:
            raise ValueError(
                f"BilevelCoreset must have strategy='forward', score='linear' and weighting='binary' (or 'auto') for "
                f"{type(problem).__name__}, got {(self.strategy, self.score, weighting)}."
            )
        n = X.shape[0]
        X, y, u, absent = self._outer(X, y, sample_weight)
        candidates = np.flatnonzero(sample_weight)
        everything = self.strategy in ("elimination", "regularised")
        capacity = len(candidates) if everything else self.size
        ihvp = Ihvp(self.ihvp, self.ihvp_steps, self.damping)
        options = dict(ihvp=ihvp, robust=self.robust, weighted=weighting != "binary" or self.strategy == "regularised")
        model = selection_for(problem, X, y, u, absent, capacity, rng, **options)
        labels = class_labels(problem, y)
        start = self._random_start(None if labels is None else labels[:n], candidates, rng)
        # Inner problems are small: several BLAS threads would wait for each other more than they work.
        with _threadpools().limit(limits=1, user_api="blas"), self._bar(len(candidates), len(start)) as bar:
            model.add(candidates if everything else start)
            weights = self._run(model, weighting, labels, bar)
        chosen = np.array(model.indices)
        if weights is None:
            weights = np.full(len(chosen), 1.0 / len(chosen))
        return chosen, sample_weight.sum() * weights

    def _run(self, model, weighting, labels, bar):
        batch, size = self.batch, self.size
        if self.strategy == "forward":
            return forward.grow(model, size, score=self.score, weighting=weighting, batch=batch or 1, bar=bar)
        if self.strategy == "regularised":
            weights = regularised.regularise(model, size, max_steps=self.max_steps, bar=bar)
            return None if weighting == "binary" else weights
        if self.strategy == "elimination":
            subsets.eliminate(model, size, batch=batch, labels=labels, bar=bar)
        else:
            options = dict(score=self.score, batch=batch, max_steps=self.max_steps)
            subsets.exchange(model, size, **options, labels=labels, bar=bar)
        if weighting == "binary":
            return None
        return optimise_weights(model) if size <= regularised.GAUSS_NEWTON_BELOW else descend(model)

    def _bar(self, n, n_start):
        options = dict(disable=not self.verbose, desc="BilevelCoreset")
        if self.strategy == "forward":
            return tqdm(total=self.size, initial=n_start, unit="point", **options)
        if self.strategy == "exchange":
            return tqdm(total=self.max_steps or subsets.EXCHANGE_STEPS, unit="step", **options)
        return tqdm(total=n - self.size, unit="point", **options)

    def _check_options(self):
        for name, allowed in OPTIONS.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {value!r}.")
        for name in ("batch", "max_steps", "n_start"):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value)
        Ihvp(self.ihvp, self.ihvp_steps, self.damping).check()
        if self.strategy != "forward" and self.weighting == "corrective":
            raise ValueError(
                f"weighting='corrective' optimises the weights after every selection of strategy='forward'; with "
                f"strategy={self.strategy!r} take 'optimised', which does so at the end."
            )
        if (self._validation is None) != (self.outer == "train"):
            given = "no" if self._validation is None else "a"
            raise ValueError(
                f"outer={self.outer!r} with {given} validation set: give fit(..., validation=(X, y)) together with "
                "outer='train+validation' or 'validation'."
            )

    def _outer(self, X, y, sample_weight):
        # the rows of the outer loss, of which the training rows are the first
        if self._validation is None:
            return X, y, *outer_rows(X, sample_weight, "train", None)[1:]
        given = self._validation
        if not (isinstance(given, (tuple, list)) and len(given) in (2, 3)):
            raise ValueError(f"validation must be (X, y) or (X, y, sample_weight), got {type(given).__name__}.")
        more = check_array(given[0], accept_sparse="csr" if sparse.issparse(X) else False, dtype=X.dtype)
        check_magnitude(more.data if sparse.issparse(more) else more, "the validation set's X", X.dtype)
        if more.shape[1] != X.shape[1]:
            raise ValueError(f"the validation set has {more.shape[1]} features, but X has {X.shape[1]}.")
        weights = check_sample_weight(given[2] if len(given) == 3 else None, more.shape[0])
        if y is not None:
            more_y = check_array(given[1], ensure_2d=False, dtype=None, input_name="the validation set's y")
            if len(more_y) != more.shape[0] or more_y.ndim != y.ndim:
                raise ValueError(
                    f"the validation set's y must have shape ({more.shape[0]}, ...) like its X, got {more_y.shape}."
                )
            unknown = [] if y.ndim > 1 or class_labels(self._problem(), y) is None else np.setdiff1d(more_y, y)
            if len(unknown):
                raise ValueError(f"the validation set has classes that y has not: {unknown[:5].tolist()}.")
            y = np.concatenate([y, more_y])
        stacked, u, absent = outer_rows(X, sample_weight, self.outer, (more, weights))
        return stacked, y, u, absent

    def _random_start(self, labels, candidates, rng):
        if self.strategy in ("elimination", "regularised"):
            return candidates
        n_start = self.n_start or (PAPER_START if self.score == "linear" else 2)
        if self.strategy == "exchange":
            n_start = self.size
        start = rng.choice(candidates, min(n_start, len(candidates)), replace=False)
        if labels is not None:
            start = _with_every_class(start, labels, candidates, self.size, rng)
        if self.strategy == "forward" and self.size <= len(start) and self.size < len(candidates):
            warnings.warn(
                f"all {self.size} points are of the random start (n_start={n_start}), so that nothing was selected: "
                "take a smaller n_start, or a larger size.",
                UserWarning,
                stacklevel=5,
            )
        return start[: self.size]


def _with_every_class(start, labels, candidates, size, rng):
    # one point of each class comes first, so that every prefix of that length has all of them
    of_candidates = labels[candidates]
    classes = np.unique(of_candidates)
    if len(classes) < 2:
        raise ValueError("all rows with a positive sample_weight have the same label: two classes are needed.")
    if size < len(classes):
        raise ValueError(f"size must be at least {len(classes)}, one point of each class, got size={size}.")
    first = {}
    for row in start:
        first.setdefault(labels[row], row)
    for label in classes:
        if label not in first:
            first[label] = rng.choice(candidates[of_candidates == label])
    heads = list(first.values())
    rest = start[~np.isin(start, heads)][: max(len(start) - len(heads), 0)]
    return np.concatenate([heads, rest]).astype(np.intp)


@cache
def _threadpools():
    # finding the loaded libraries takes as long as a small selection
    return ThreadpoolController()
