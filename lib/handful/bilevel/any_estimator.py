"""AnyEstimatorCoreset: points chosen for a given estimator, which is asked which of several choices
suits it."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_memory

from handful.baselines import KMeansPlusPlus, StratifiedCoreset, UniformCoreset
from handful.bilevel.bilevel_coreset import BilevelCoreset
from handful.bilevel.candidate_scoring import (
    class_totals,
    class_weights,
    exchanged,
    held_out_loss,
    select_in_proxy,
)
from handful.bilevel.numbers import as_numbers
from handful.bilevel.proxy_candidates import L2, Candidate, candidates_for, check_trainer
from handful.checks import (
    MAX_SEED,
    Accepts,
    check_labels,
    training_named,
    validate_data,
    words_named,
)
from handful.code_hash import code_hash
from handful.coreset import Selector
from handful.models.linear import LeastSquares, Logistic
from handful.options import Count, CountOrZero, check_options
from handful.parts import warn_of_class_weight
from handful.plans import Compress
from handful.running import Bar, one_openmp_thread, warn
from handful.tables import readable, take_rows
from handful.trainers import (
    WeightedFit,
    check_scored_labels,
    check_scoring_name,
    input_tags_of,
    kind_of,
    seed_unset,
    trained,
    weighted_fit,
    why_unweighted,
)
from handful.types import Seed

# How a message writes what to train.
EXAMPLE = "AnyEstimatorCoreset({})"


@dataclass(frozen=True)
class Choice:
    """Rows that may be taken, of shape (m,), their weights, and whether these were optimised."""

    indices: np.ndarray
    weights: np.ndarray
    is_optimised: bool = False

    @property
    def rows(self):
        return self.indices, self.weights


@dataclass(frozen=True)
class Trial:
    """An estimator that is trained on some rows and judged on those that are held out.

    Attributes
    ----------
    estimator : estimator, of which a clone is trained
    trainer : WeightedFit
    rows, y, sample_weight : all rows as the estimator sees them
    labels : y, or None of a regressor
    rest, held : int arrays, the rows that may be chosen, and those that are held out
    scorer : callable or None, for `held_out_loss`
    """

    estimator: Any
    trainer: WeightedFit
    rows: Any
    y: np.ndarray
    labels: np.ndarray | None
    sample_weight: np.ndarray
    rest: np.ndarray
    held: np.ndarray
    scorer: Any

    def __call__(self, indices, weights):
        with one_openmp_thread():
            # as fit of an estimator with warm_start goes on from the trial before
            model = clone(self.estimator)
            with training_named(self.estimator, self.rows, EXAMPLE):
                chosen = take_rows(self.rows, indices)
                self.trainer.train(model.fit, chosen, self.y[indices], weights)
            return self._loss(model)

    def _loss(self, model):
        judged = take_rows(self.rows, self.held), self.y[self.held]
        weights = self.sample_weight[self.held]
        if self.scorer is None:
            return held_out_loss(model, *judged, weights)
        # Some scores know no weights; alike they say nothing.
        more = {} if np.ptp(weights) == 0 else {"sample_weight": weights}
        try:
            return -self.scorer(model, *judged, **more)
        except TypeError as error:
            if more and "sample_weight" in str(error):
                raise ValueError(
                    "scoring must take sample_weight where the rows have weights that differ, and "
                    f"{self.scorer!r} does not ({error})."
                ) from error
            raise

    def misses_a_class(self, indices):
        """Whether some class is not among the chosen rows."""
        if self.labels is None:
            return False
        return not np.isin(self.labels[self.rest], self.labels[indices]).all()

    def exchanged(self, indices, weights, rng):
        """As the function of that name, of the rows that may be chosen."""
        return exchanged(indices, weights, self.labels, self.sample_weight, self.rest, rng)


class AnyEstimatorCoreset(Selector):
    """The coreset that suits a given estimator: boosting, a forest, a network, neighbours, or a
    linear model.

    Logistic, ridge and least-squares regression are the problem of a `BilevelCoreset` themselves:
    its choice from all rows is taken, with optimised weights, and nothing is tried. For other
    estimators a coreset is chosen in the features of a proxy of their family (Borsos et al. 2024,
    Section 3.5.2), in which a linear model stands in for them. No proxy suits every data set, and
    on some none beats a stratified draw. So several candidates are chosen, and the estimator itself
    decides between them (ours): some rows are held out, the estimator is trained on each candidate,
    and the one with the least loss on the held-out rows is taken. If its weights were not optimised
    for its rows, some of these are then exchanged for others of their class, again and again; an
    exchange is kept if that loss falls.

    - other linear models: logistic or ridge regression with their penalty, with optimised weights
    - trees, forests, boosting: leaves shared in random trees (`TreeLeaves`); RBF features
    - networks, nearest neighbours, kernel machines, Gaussian processes: RBF features
    - every classifier also tries the plain logistic coreset, with optimised weights

    These are tried beside `n_draws` random draws: in turn by k-means++ (unless it misses a class),
    stratified by class, and with equally many rows of each class. Weights estimate sums over all
    rows. Where they are not optimised, each class has its weight among all rows, shared by its
    chosen rows: equally, or in draws by their sample_weight. So predicted probabilities are not
    shifted towards classes that are chosen more often than they occur.

    Some 65 trainings on `size` rows often take longer than one on all rows: `handful.compare` says
    from how many fits on that pays.

    Parameters
    ----------
    estimator : classifier, regressor or Pipeline of scikit-learn
        What will be trained, its options tuned at this size, or a Pipeline that
        ends in one: then the steps before it are fitted to all rows, and the proxy sees what
        the estimator sees. A search or another wrapper is of the family of what it trains, and
        trained as it is. Rows with missing values, categories or words go to an estimator that
        takes them as they are; the proxy sees numbers in their place.
    size : int, default=100
        Number of points m.
    selector : BilevelCoreset or None, default=None
        `BilevelCoreset` with options of its own, such as ``BilevelCoreset(rule="linear")``; its
        problem, size, weighting and random_state are set here. By default ``BilevelCoreset()``
        where the estimator is the problem itself, so that it becomes that of all rows; otherwise
        the paper's outer loss, ``BilevelCoreset(outer_penalty=False)``, as a proxy's penalty is
        not the estimator's.
    proxy : transformer or None, default=None
        What to use instead of the family's, for estimators of other families.
    n_draws : int, default=12
        Draws to compare with (for regressors: k-means++ and uniform ones in turn); 0 trusts the
        proxies.
    n_exchanges : int, default=50
        Exchanges of rows that are tried; the estimator is trained on `size` rows for each. 0
        for none.
    scoring : str, callable or None, default=None
        None for the loss of `trials_`; or what scikit-learn's `check_scoring` takes, such as
        "average_precision", which suits a rare class: then losses are negative scores, and each
        choice is tried with equal weights, too, with which a rare class counts for more and
        probabilities are not calibrated.
    n_held_out : int, default=4000
        Rows on which the choices are compared, at most; a third of all rows where that is less.
        They cannot be chosen. With 0, nothing is compared or exchanged: the choice in the
        family's first proxy is taken.
    memory : str, joblib.Memory or None, default=None
        Folder or joblib.Memory that keeps what was chosen in each proxy, as in
        `sklearn.pipeline.Pipeline`: another estimator on the same rows, at the same size and
        random_state, is then only fitted to it.
    n_jobs : int or None, default=None
        Processes that choose and train, as in joblib; the points are those of one process.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.
    verbose : bool, default=False
        Whether to show a progress bar of selections and trainings from the start, not only
        after 30 seconds.

    Attributes
    ----------
    indices_ : shape (m,)
    weights_ : shape (m,), they add up to the total sample_weight. They are all alike where the
        estimator's `fit` takes no `sample_weight`: then nothing makes up for the shares of the
        classes among the chosen rows, nor for hard rows that stand for few others. That raises the
        loss on the held-out rows, so such an estimator often ends with a draw
    encoder_ : the steps of a Pipeline before its estimator, fitted to all rows
    trials_ : dict, candidate -> loss of the estimator on the held-out rows: log-loss in nats
        (probabilities of at least .001), the share of errors for classifiers without probabilities,
        the mean squared error for regressors
    chosen_ : str, the candidate that was taken, such as "random trees"
    exchanges_ : list of the losses on the held-out rows after each exchange that stayed

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from handful import AnyEstimatorCoreset
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0)
    >>> coreset = AnyEstimatorCoreset(forest, size=40, random_state=0).fit(X, y)
    >>> X_small, y_small, w = coreset.take(X, y)
    >>> bool(forest.fit(X_small, y_small, sample_weight=w).score(X, y) > 0.9)
    True
    """

    estimator: Any
    _: KW_ONLY
    size: Count = 100
    selector: Any = None
    proxy: Any = None
    n_draws: CountOrZero = 12
    n_exchanges: CountOrZero = 50
    n_held_out: CountOrZero = 4000
    scoring: Any = None
    memory: Any = None
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: bool = False

    # it trains dozens of times
    _plan = Compress()

    def candidates(self, n: float) -> list:
        """The family's candidates, or the proxy's own, for rows of total sample_weight `n`: a list
        of `Candidate`.

        Raises
        ------
        ValueError
            for an estimator of no known family where no `proxy` is given
        """
        if self.proxy is not None:
            check_trainer(self._steps()[1])
            return [Candidate("proxy", self.proxy, L2)]
        return candidates_for(self._steps()[1], n)

    def _steps(self):
        # (what comes before the estimator, or None; the estimator)
        if isinstance(self.estimator, Pipeline):
            before = self.estimator[:-1]
            last = self.estimator[-1]
            return (before if len(before) else None), last
        return None, self.estimator

    def _chooser(self, own=False):
        # The outer loss holds the penalty where that is the estimator's own, not a proxy's.
        return BilevelCoreset(outer_penalty=own) if self.selector is None else clone(self.selector)

    def _check_X_y(self, X, y):
        check_scoring_name(self.scoring)
        # tells first whether the family is unknown
        self.candidates(1.0)
        before, last = self._steps()
        X = readable(X)
        rows = X
        if y is not None:
            y = readable(y)
            check_labels(y)
        if before is not None and y is not None:
            self.encoder_, rows = _encoded(before, X, y)
        seen = rows if y is None else self._as_numbers(*_seen(last, rows, y))
        numbers, y = self._check_features(seen, y, last)
        self._rows = numbers if seen is rows else rows
        if seen is not X:
            # the number and the names of the features as they came
            validate_data(self, X, skip_check_array=True)
        if kind_of(last) != "regressor" and type_of_target(y).startswith("continuous"):
            raise ValueError(
                f"{type(last).__name__} is a classifier, but y holds the targets of a regression "
                "(continuous numbers): "
                "give a regressor, or labels."
            )
        return numbers, y

    def _as_numbers(self, trainer, rows):
        own = self.proxy is None and self.candidates(1.0)[0].own
        # Of several that are trained together none speaks for all: the trials show whether they
        # take gaps.
        missing = input_tags_of(trainer).allow_nan or len(trained(trainer)) > 1
        return rows if own else as_numbers(rows, missing=missing)

    @property
    def _accepts(self):
        # sparse rows are for linear models: see `_check_features`
        steps, estimator = self._steps()
        y = "targets" if kind_of(estimator) == "regressor" else "two classes"
        return Accepts(y, sparse=True, encodes=steps is not None)

    def _check_targets(self, y):
        if self._accepts.classes:
            self._chooser().set_params(problem=Logistic(), size=self.size)._check_targets(y)

    def _check_part(self, X, y):
        # What comes before the estimator is fitted to all rows: a part of them shows nothing but
        # its targets.
        if self._steps()[0] is None:
            return super()._check_part(X, y)
        check_options(self)
        return X, validate_data(self, y=y)

    def _check_features(self, X, y, estimator):
        name = type(estimator).__name__
        if sparse.issparse(X) and not self._linear():
            raise ValueError(
                f"X is sparse, and the proxies of {name} measure distances between dense rows: put "
                "a TruncatedSVD in "
                f"front, AnyEstimatorCoreset(make_pipeline(TruncatedSVD(100), {name}())), or give "
                "a dense X. Linear "
                "models take it."
            )
        with training_named(estimator, X, EXAMPLE):
            return super()._check_X_y(X, y)

    def _linear(self):
        return all(one.proxy is None for one in self.candidates(1.0))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            tags.input_tags.sparse = self._linear()
        except (TypeError, ValueError):
            # what is no estimator, or of no family, is refused by `fit`
            tags.input_tags.sparse = False
        tags.input_tags.allow_nan = input_tags_of(self.estimator).allow_nan
        return tags

    def _select(self, X, y, sample_weight, rng):
        rows = vars(self).pop("_rows")
        estimator = clone(self._steps()[1])
        # drawn in any case, so that all see the same choices
        seed_unset(estimator, int(rng.integers(MAX_SEED)))
        trainer = weighted_fit(estimator)
        is_weighted = trainer.keyword is not None
        if not is_weighted and trained(estimator):
            warn(f"{why_unweighted(estimator)}: all chosen rows get equal weights.")
        if self.scoring is None:
            warn_of_class_weight(estimator, "choices are compared by a loss that does")
        labels = None if kind_of(estimator) == "regressor" else y
        select = check_memory(self.memory).cache(select_in_proxy)
        selectors = self._selectors(X, labels, sample_weight, is_weighted, rng)
        self.trials_ = {}
        self.exchanges_ = []
        has_own_problem = is_weighted and self.scoring is None and self.candidates(1.0)[0].own
        if has_own_problem:
            self.chosen_, selector, *_ = next(selectors)
            return select(selector, None, X, y, sample_weight, self._code(selector, None))
        rest, held = self._split(labels, sample_weight, rng)
        scorer = None if self.scoring is None else check_scoring(estimator, self.scoring)
        check_scored_labels(scorer, self.scoring, labels)
        trial = Trial(estimator, trainer, rows, y, labels, sample_weight, rest, held, scorer)
        of_rest = X[rest], y[rest]
        with (
            Parallel(n_jobs=self.n_jobs, return_as="generator") as parallel,
            Bar(desc="AnyEstimatorCoreset", unit="step", verbose=self.verbose) as bar,
        ):
            selectors = list(selectors)
            # about as many trainings as selections, unless equal weights are tried as well
            bar.total = 2 * len(selectors) + self.n_exchanges
            found = parallel(
                delayed(select)(one, proxy, *of_rest, w[rest], self._code(one, proxy))
                for _, one, proxy, w in selectors
            )
            choices = {}
            chosen = bar.through(found)
            for (name, selector, *_), (places, weights) in zip(selectors, chosen, strict=True):
                choices |= self._choices(name, selector, rest[places], weights, trial)
            if len(held) == 0:
                self.chosen_ = next(iter(choices))
                return choices[self.chosen_].rows
            bar.total = len(selectors) + len(choices) + self.n_exchanges
            best = self._best(choices, trial, parallel, bar)
            # weights that were optimised for their rows suit no others
            left = 0 if best.is_optimised else self.n_exchanges
            bar.total = len(selectors) + len(choices) + left
            return self._improved(best, left, rng, trial, parallel, bar)

    def _code(self, selector, proxy):
        return None if self.memory is None else code_hash(selector, proxy)

    def _choices(self, name, selector, indices, weights, trial):
        """The `Choice` of rows that a selector took, by its name, with the weights that the
        estimator gets; where a score is asked for, also that of equal weights. Nothing where rows
        of a class are missing, as k-means++ may miss one."""
        if trial.misses_a_class(indices):
            return {}
        total = trial.sample_weight.sum()
        equal = np.full(self.size, total / self.size)
        if trial.trainer.keyword is None:
            return {name: Choice(indices, equal)}
        is_optimised = getattr(selector, "weighting", "") == "optimised"
        if not is_optimised:
            weights = class_weights(trial.labels, trial.sample_weight, indices, weights)
        found = {name: Choice(indices, weights * (total / weights.sum()), is_optimised)}
        if self.scoring is not None:
            found[f"{name}, equal weights"] = Choice(indices, equal)
        return found

    def _best(self, choices, trial, parallel, bar):
        """The choice of the least loss; sets `trials_` and `chosen_`."""
        trials = parallel(delayed(trial)(*choice.rows) for choice in choices.values())
        losses = list(bar.through(trials))
        self.trials_ = dict(zip(choices, losses))
        if np.isnan(losses).all():
            score = "loss" if self.scoring is None else f"score {self.scoring!r}"
            raise ValueError(
                f"the {score} of all choices is NaN, on {len(trial.held)} held-out rows: take a "
                "scoring that is a number for these, or a larger n_held_out."
            )
        # A loss that is no number is no least one.
        self.chosen_ = min(choices, key=lambda name: np.nan_to_num(self.trials_[name], nan=np.inf))
        self._warn_of_ties(losses, self.trials_[self.chosen_])
        return choices[self.chosen_]

    def _improved(self, best, left, rng, trial, parallel, bar):
        """The rows of a choice and their weights after so many tried exchanges, of which those
        stay that lower the loss; sets `exchanges_`."""
        indices, weights = best.rows
        least = self.trials_[self.chosen_]
        at_once = effective_n_jobs(self.n_jobs)
        while left:
            # exchanges as they follow each other if none of them is made
            proposed = []
            for _ in range(min(left, at_once)):
                other = trial.exchanged(indices, weights, rng)
                proposed.append((other, rng.bit_generator.state))
            losses = list(parallel(delayed(trial)(*other) for other, _ in proposed))
            made = next((i for i, loss in enumerate(losses) if loss < least), None)
            tried = len(losses)
            if made is not None:
                (indices, weights), rng.bit_generator.state = proposed[made]
                least = losses[made]
                self.exchanges_.append(least)
                tried = made + 1
            left -= tried
            bar.update(tried)
        return indices, weights

    def _warn_of_ties(self, losses, least):
        """Say so where most choices have the least loss: then the loss says nothing of the rows."""
        ties = sum(np.isclose(loss, least, rtol=1e-9, atol=0) for loss in losses)
        if ties <= len(losses) / 2:
            return
        warn(
            f"{ties} of {len(losses)} choices have the same loss, {least:.4g}: on {self.size} rows "
            f"{type(self._steps()[1]).__name__} cannot tell them apart, as happens with "
            f"boosting, which may not split so few. {self.chosen_!r} is taken; raise size.",
        )

    def _select_one_class(self, X, sample_weight, rng):
        selector = self._chooser().set_params(problem=Logistic(), size=self.size)
        return selector._select_one_class(X, sample_weight, rng)

    def _split(self, labels, sample_weight, rng):
        """Rows that may be chosen, and rows held out; of each class at least one may be chosen."""
        n = len(sample_weight)
        shuffled = rng.permutation(n)
        held = shuffled[: min(self.n_held_out, n // 3, n - self.size)]
        if labels is not None:
            held = held[np.isin(labels[held], labels[shuffled[len(held) :]])]
        return np.setdiff1d(shuffled, held), held

    def _selectors(self, X, labels, sample_weight, weighted, rng):
        # (name, selector, proxy or None, weights) of all choices; a seed is drawn for each, whether
        # it needs one or not
        seeds = iter(rng.integers(MAX_SEED, size=2 + self.n_draws).tolist())
        proxy_seed = next(seeds)
        seed = next(seeds)
        for one in self.candidates(sample_weight.sum()):
            proxy = None if one.proxy is None else clone(one.proxy)
            if proxy is not None:
                given = proxy.get_params()
                unset = [
                    key for key in given if key.endswith("random_state") and given[key] is None
                ]
                proxy.set_params(**dict.fromkeys(unset, proxy_seed))
            weighting = one.weighting if weighted else "equal"
            problem = (LeastSquares if labels is None else Logistic)(
                one.l2, fit_intercept=one.fit_intercept
            )
            options = dict(problem=problem, size=self.size, weighting=weighting, random_state=seed)
            yield one.name, self._chooser(one.own).set_params(**options), proxy, sample_weight
        scaled = StandardScaler(with_mean=not sparse.issparse(X))
        draws = [("k-means++", KMeansPlusPlus, scaled, sample_weight)]
        if labels is None:
            draws += [("uniform draw", UniformCoreset, None, sample_weight)]
        else:
            balanced = sample_weight / class_totals(labels, sample_weight)
            draws += [("stratified draw", StratifiedCoreset, None, sample_weight)]
            draws += [("balanced draw", StratifiedCoreset, None, balanced)]
        for i, seed in enumerate(seeds):
            name, draw, proxy, given = draws[i % len(draws)]
            yield f"{name} {i + 1}", draw(self.size, random_state=seed), proxy, given


def _seen(estimator, rows, y):
    """The innermost thing that an estimator trains, if it trains one, and the rows as that sees
    them.

    The steps of a pipeline in a search or its like are fitted to all rows.
    """
    if isinstance(estimator, Pipeline):
        return _seen(
            estimator[-1], _encoded(estimator[:-1], rows, y)[1] if len(estimator) > 1 else rows, y
        )
    inner = trained(estimator)
    return _seen(inner[0], rows, y) if len(inner) == 1 else (estimator, rows)


def _encoded(before, rows, y):
    # The first steps of a pipeline, fitted to all rows, and what they make of these.
    with words_named(rows):
        fitted = clone(before).fit(rows, y)
    if not hasattr(fitted, "transform"):
        names = ", ".join(type(step).__name__ for _, step in before.steps)
        raise ValueError(
            f"the steps before the estimator must transform rows one by one, and one of {names} "
            "does not, as what "
            "resamples rows: resample them first, then choose from these."
        )
    found = fitted.transform(rows)
    return fitted, found.toarray() if sparse.issparse(found) else found
