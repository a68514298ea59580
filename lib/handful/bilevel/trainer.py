"""TrainerCoreset: points chosen for a given estimator, which is asked which of several choices suits it."""

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.metrics import mean_squared_error, zero_one_loss
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_memory, has_fit_parameter

from handful.baselines import KMeansPlusPlus
from handful.bilevel.families import Way, stand_in, ways_for
from handful.checks import MAX_SEED, check_integer
from handful.coreset import Selector

LEAST_PROBABILITY = 1e-3  # of a class: forests and neighbours give 0, of which the logarithm is infinite


class TrainerCoreset(Selector):
    """The coreset that suits a given estimator; `BilevelCoreset.for_estimator` makes one.

    A coreset is chosen for a model: in the features of a proxy of the estimator's family (Borsos et al. 2024,
    Section 3.5.2), in which a linear model stands in for it. No proxy suits every data set, and some sets have none that
    beats a stratified draw. So the outer loss of the bilevel problem has the last word, with the estimator itself as
    the inner problem (ours): some rows are held out, the estimator is trained on each choice, and the choice with the
    least loss on the held-out rows is taken.

    - linear models: their own problem, with optimised weights
    - trees, forests, boosting: leaves shared in random trees, and in trees fitted to the labels
    - networks: RBF features, with equal and with optimised weights
    - nearest neighbours, kernel machines, Gaussian processes: RBF features

    The choices tried besides are `n_draws` draws stratified by class. Weights estimate sums over all rows: where a way
    gives none of its own, rows of a class share the class's weight, so that probabilities stay calibrated although hard
    (and rare) rows are chosen more often.

    Parameters
    ----------
    selector : `BilevelCoreset` that chooses; its problem, size, weighting and random_state are set here
    estimator : scikit-learn classifier or regressor, or a Pipeline that ends in one: then the steps before it are
        fitted to all rows, and the proxy sees what the estimator sees
    size : number of points m
    proxy : transformer to use instead of the family's, for estimators of other families
    n_draws : stratified draws to compare with; 0 trusts the proxies
    n_held_out : rows on which the choices are compared, at most; a fifth of all rows where that is less. They cannot be
        chosen
    memory : folder or joblib.Memory that keeps proxies' features, as in `sklearn.pipeline.Pipeline`: another size or
        estimator of the family on the same rows then makes none. None keeps nothing
    random_state : int, Generator or None

    Attributes
    ----------
    indices_ : shape (m,)
    weights_ : shape (m,), they add up to the total sample_weight. They are all alike where the estimator's `fit` takes no
        `sample_weight`: then rows are chosen in the order of selection until each class has its share. That costs: hard
        rows of a class stand for no more rows than easy ones
    trials_ : dict, way -> loss of the estimator on the held-out rows: log-loss in nats (probabilities of at least .001),
        the share of errors for classifiers without probabilities, the mean squared error for regressors
    way_ : the way that was taken

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from handful import BilevelCoreset
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0)
    >>> coreset = BilevelCoreset.for_estimator(forest, size=40, random_state=0).fit(X, y)
    >>> X_small, y_small, w = coreset.take(X, y)
    >>> bool(forest.fit(X_small, y_small, sample_weight=w).score(X, y) > 0.9)
    True
    """

    _needs_y = True

    def __init__(
        self,
        selector,
        estimator,
        *,
        size=100,
        proxy=None,
        n_draws=3,
        n_held_out=4000,
        memory=None,
        random_state=None,
    ):
        self.selector = selector
        self.estimator = estimator
        self.size = size
        self.proxy = proxy
        self.n_draws = n_draws
        self.n_held_out = n_held_out
        self.memory = memory
        self.random_state = random_state

    def ways(self, n):
        """The ways to choose, for rows of total sample_weight `n`: a list of `Way`, the family's or the proxy's own.

        Raises
        ------
        ValueError
            for an estimator of no known family where no `proxy` is given
        """
        if self.proxy is not None:
            return [Way("proxy", self.proxy, 1e-4)]
        return ways_for(self._steps()[1], n)

    def _steps(self):
        # (what comes before the estimator, or None; the estimator)
        if isinstance(self.estimator, Pipeline):
            before, last = self.estimator[:-1], self.estimator[-1]
            return (before if len(before) else None), last
        return None, self.estimator

    def _check_X_y(self, X, y):
        check_integer("n_draws", self.n_draws, least=0)
        check_integer("n_held_out", self.n_held_out, least=0)
        before, last = self._steps()
        if before is not None and y is not None:
            self.encoder_ = clone(before).fit(X, y)
            X = self.encoder_.transform(X)
            X = X.toarray() if sparse.issparse(X) else X
        X, y = super()._check_X_y(X, y)
        if not is_regressor(last) and type_of_target(y).startswith("continuous"):
            raise ValueError(
                f"{type(last).__name__} is a classifier, but y holds the targets of a regression (continuous numbers): "
                "give a regressor, or labels."
            )
        return X, y

    def _select(self, X, y, sample_weight, rng):
        estimator = clone(self._steps()[1])
        if estimator.get_params().get("random_state", 0) is None:
            estimator.set_params(random_state=int(rng.integers(MAX_SEED)))
        seeds = rng.integers(MAX_SEED, size=2)  # of the proxies and of the selections: the same for every way
        classes = _Classes(y, sample_weight, regression=is_regressor(estimator))
        weighted = has_fit_parameter(estimator, "sample_weight")
        held = classes.draw(min(self.n_held_out, classes.n_rows // 5, classes.n_rows - self.size), rng, least=0)
        rest = np.setdiff1d(np.flatnonzero(sample_weight), held)
        choices = {}
        for way in self._ways_in_use(sample_weight.sum(), weighted):
            Z = self._features(way.proxy, X, y, rest, int(seeds[0]))
            few = clone(self.selector).set_params(problem=stand_in(estimator, way.l2), weighting=way.weighting)
            choices[way.name] = few, Z
        choices["k-means++"] = KMeansPlusPlus(), X[rest]
        for name, (few, Z) in choices.items():
            # Where weights cannot make up for it, each class shall have its share: choose more rows than wanted.
            size = self.size if weighted else min(2 * self.size, len(rest))
            few.set_params(size=size, random_state=int(seeds[1])).fit(Z, y[rest], sample_weight=sample_weight[rest])
            indices, weights = rest[few.indices_], None
            if not weighted:
                indices = classes.first(indices, self.size)
            elif getattr(few, "weighting") == "optimised":
                weights = few.weights_
            choices[name] = indices, weights
        for i in range(self.n_draws):
            choices[f"stratified draw {i + 1}"] = classes.draw(self.size, rng, among=rest), None
        total = sample_weight.sum()
        for name, (indices, weights) in choices.items():
            if not weighted:
                weights = np.ones(len(indices))
            weights = classes.weights(indices) if weights is None else weights
            choices[name] = indices, weights * (total / weights.sum())
        self.trials_ = {}
        if len(choices) > 1 and len(held):
            for name, (indices, weights) in choices.items():
                model = estimator.fit(X[indices], y[indices], **({"sample_weight": weights} if weighted else {}))
                self.trials_[name] = held_out_loss(model, X[held], y[held], sample_weight[held])
        self.way_ = min(self.trials_, key=self.trials_.get) if self.trials_ else next(iter(choices))
        return choices[self.way_]

    def _ways_in_use(self, n, weighted):
        ways = self.ways(n)
        if weighted:
            return ways
        binary = [way for way in ways if way.weighting == "binary"]
        return binary or [Way(way.name, way.proxy, way.l2) for way in ways]

    def _features(self, proxy, X, y, rest, seed):
        if proxy is None:
            return X[rest]
        proxy = clone(proxy)
        if "random_state" in proxy.get_params():
            proxy.set_params(random_state=seed)
        return check_memory(self.memory).cache(features)(proxy, X[rest], y[rest])


def features(proxy, X, y):
    """The proxy's features of its own training rows: float32 and column by column, as selection reads them fastest."""
    return np.asfortranarray(proxy.fit_transform(X, y), dtype=np.float32)


def held_out_loss(model, X, y, sample_weight=None):
    """Loss of a fitted model: log-loss (nats), the share of errors without probabilities, or the mean squared error.

    Probabilities count as at least `LEAST_PROBABILITY`, before they are made to add up to one again.
    """
    if is_regressor(model):
        return float(mean_squared_error(y, model.predict(X), sample_weight=sample_weight))
    if not hasattr(model, "predict_proba"):
        return float(zero_one_loss(y, model.predict(X), sample_weight=sample_weight))
    shares = np.maximum(model.predict_proba(X), LEAST_PROBABILITY)
    at = np.searchsorted(model.classes_, y)
    known = model.classes_[np.minimum(at, len(model.classes_) - 1)] == y
    own = np.where(known, shares[np.arange(len(y)), np.where(known, at, 0)] / shares.sum(axis=1), LEAST_PROBABILITY)
    return float(np.average(-np.log(own), weights=sample_weight))


class _Classes:
    """The classes of the rows, and shares of them; all rows are one class where y holds a regression's targets."""

    def __init__(self, y, sample_weight, *, regression):
        self._weight = sample_weight
        self.n_rows = np.count_nonzero(sample_weight)
        if regression:
            self._codes = np.zeros(len(y), dtype=np.intp)
        else:
            self._codes = np.unique(y, return_inverse=True)[1]
        self._totals = np.bincount(self._codes, weights=sample_weight)

    def weights(self, indices):
        """Weights of some rows: each class's total, shared out evenly among its rows."""
        counts = np.bincount(self._codes[indices], minlength=len(self._totals))
        return (self._totals / np.maximum(counts, 1))[self._codes[indices]]

    def first(self, order, size, least=1):
        """The first rows in `order` of each class, up to its share of `size`, `least` rows at the least."""
        codes = self._codes[order]
        shares = self._totals * (size / self._totals.sum())
        wanted = np.maximum(shares.astype(int), np.where(self._totals > 0, least, 0))
        rank = np.empty(len(order), dtype=np.intp)  # within its class
        by_class = np.argsort(codes, kind="stable")
        rank[by_class] = np.arange(len(order)) - np.searchsorted(codes[by_class], codes[by_class])
        # Rows within the whole share first, then those by which a class falls short the most.
        late = np.where(rank < wanted[codes], 0.0, 1.0 + rank - shares[codes])
        return order[np.sort(np.argsort(late, kind="stable")[:size])]

    def draw(self, size, rng, *, among=None, least=1):
        """A draw stratified by class, rows of larger sample_weight first (Efraimidis and Spirakis 2006)."""
        among = np.flatnonzero(self._weight) if among is None else among
        order = among[np.argsort(rng.exponential(size=len(among)) / self._weight[among], kind="stable")]
        return self.first(order, max(size, 0), least)
