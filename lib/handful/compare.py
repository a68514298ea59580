"""`compare`: whether to choose rows at all, and which selector, measured on one's own data and
estimator."""

import math
import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_consistent_length

from handful.baselines import StratifiedCoreset, UniformCoreset
from handful.checks import (
    MAX_SEED,
    check_in_memory,
    check_integer,
    check_labels,
    training_named,
    words_named,
)
from handful.comparison_table import ALL_ROWS, BEST_DRAW, MORE_ROWS, STRATIFIED, UNIFORM, Comparison
from handful.estimator import check_no_resampling
from handful.options import explaining
from handful.parts import check_selector, chosen_rows, warn_of_class_weight
from handful.running import Bar, threads_for, warn
from handful.tables import as_array, readable, take_rows
from handful.trainers import (
    WeightedFit,
    check_scored_labels,
    check_scoring_name,
    kind_of,
    seed_unset,
    tags_of,
    weighted_fit,
    why_unweighted,
)
from handful.types import Table

# Where no sizes are given, they are these shares of the training rows.
SHARES = (0.01, 0.02, 0.05, 0.1)
MOST_DRAWS = 1000
# Of a method that was not measured.
NOTHING = dict(
    score=np.nan,
    choose_seconds=np.nan,
    train_seconds=np.nan,
    n_rows=np.nan,
    n_draws=1,
    error="",
)
# Of what is measured at the seconds of selectors, where all of these failed.
UNSPENT = NOTHING | dict(error="all selectors failed: there are no seconds to spend")
# How an error says that a class is held out that was not trained on.
UNKNOWN_CLASS = "the held-out rows hold classes that the model does not know"
# Of arguments that one may look for: what takes their place.
ELSEWHERE = {
    "X_test": "test=(X_test, y_test) are the held-out rows",
    "y_test": "test=(X_test, y_test) are the held-out rows",
    "cv": "each of seeds is a split of its own, test_size the share of the held-out rows",
    "n_jobs": "fits run one after the other, as their seconds are compared",
    "random_state": "seeds decide splits and draws, such as seeds=[0]",
    "sample_weight": "rows of weight 2 are rows that come twice: weights are not compared",
    "seed": "seeds decide splits and draws, such as seeds=[0]",
}

# Of a selector that refuses the rows which the estimator takes.
AS_IT_IS = (
    "A selector reads X as compare got it: what the estimator's own pipeline encodes or fills in "
    "does not reach it. Encode and fill in X first, or compare AnyEstimatorCoreset(estimator), "
    "which chooses behind the steps of a pipeline."
)


@explaining(ELSEWHERE)
def compare(
    selectors: Any,
    estimator: Any,
    X: Table,
    y: Table,
    *,
    sizes: Any = None,
    scoring: Any = None,
    seeds: Any = 5,
    test_size: float = 0.25,
    test: Any = None,
    controls: bool = True,
    verbose: bool = True,
) -> Comparison:
    """Is choosing rows worth it here? Scores and seconds of selectors beside uniform, stratified
    and all rows.

    For each seed the rows are split; each method chooses from the training rows, a clone of
    `estimator` trains on what it chose, with the weights, and is scored on the held-out rows. All
    methods of a seed share its split.

    Two more methods get the seconds that the slowest of `selectors` took to choose and train, at
    each size and seed: "best of draws" is the best of as many uniform draws of that size as fit in,
    picked on a third of the training rows; "more uniform rows" trains once on as many uniform rows
    as that time allows, all at most. They depend on the clock.

    Parameters
    ----------
    selectors : Selector, or list or dict of them
        What is compared, in a dict by name; their `size` and `random_state` are set here.
    estimator : object with ``fit(X, y)`` and a score
        What is trained. Weights go to a `sample_weight` of its `fit`, or through it to what it
        wraps: the last step of a Pipeline, the candidates of a search, all that vote. An estimator
        that takes none trains on the chosen rows alone, which a warning says.
    X, y : array, data frame or whatever selectors and estimator take
        The rows and their labels or targets. Selectors read X as it is given: scale its columns
        first, as a scaler in the estimator's pipeline does not reach them.
    sizes : list of int or None, default=None
        Rows to choose; None takes 1, 2, 5 and 10 % of the training rows.
    scoring : str, callable or None, default=None
        As in scikit-learn; None for the estimator's own `score`.
    seeds : int or list of int, default=5
        How many, or which.
    test_size : float or int, default=0.25
        The share of the held-out rows, or their number; classes keep their shares.
    test : tuple of X and y, or None, default=None
        Held-out rows, instead of splitting; then a seed decides the draws alone.
    controls : bool, default=True
        Whether to measure the two methods above.
    verbose : bool, default=True
        Whether to show a progress bar from the start, not only after 30 seconds.

    Returns
    -------
    Comparison
        Its `frame` has a row for each method, size and seed; `summary` and `plot` condense it.

    Raises
    ------
    ValueError
        for sizes that are no integers or exceed the training rows, without `y`, for a selector
        called "all rows", "best of draws" or "more uniform rows", and if one of `selectors` or
        training on all rows fails for every seed and size
    TypeError
        for what is no selector, no estimator or not one score
    ImportError
        without pandas

    Notes
    -----
    A ValueError of a selector or estimator is kept in the row of its fit. Any other error ends the
    comparison, and so does Ctrl-C. The fits that had finished stay on the exception as a
    `Comparison`, its attribute `comparison`: ``except KeyboardInterrupt as stopped: found =
    stopped.comparison``, or ``sys.last_value.comparison`` at a prompt.

    On at most 5,000 rows the estimator trains, or is scored, with one thread of OpenMP, as boosting
    does: several wait more than they work there, and on a busy machine much more.

    Warnings of the fits are shown at the end, once for each place in the code that warns, with the
    number of fits that gave them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from handful import KCenter
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> data = scale(X), y
    >>> found = compare(
    ...     KCenter(), LogisticRegression(), *data, sizes=[20, 50], seeds=3, verbose=False
    ... )
    >>> found.summary()["method"].unique().tolist()
    ['all rows', 'uniform', 'stratified', 'KCenter', 'best of draws', 'more uniform rows']
    """
    if find_spec("pandas") is None:
        raise ImportError("compare gives a data frame, which needs pandas: pip install pandas.")
    named = _named(selectors)
    _warn_of_no_size(named)
    _check_trainer(estimator, scoring)
    score = check_scoring(estimator, scoring)
    X, y, test = _readable_data(X, y, test)
    classes = _repeat(y) and kind_of(estimator) != "regressor"
    baselines = {UNIFORM: UniformCoreset()}
    if classes:
        check_scored_labels(score, scoring, y)
        baselines[STRATIFIED] = StratifiedCoreset()
    # Methods that nobody asked for may fail.
    unasked = baselines.keys() - named.keys()
    methods = {name: baselines[name] for name in baselines if name in unasked} | named
    trainer = weighted_fit(estimator)
    if trainer.keyword is None:
        warn(f"{why_unweighted(estimator)}: it trains on the chosen rows alone.")
    warn_of_class_weight(estimator, "selectors do", named.values())
    seeds = _listed_seeds(seeds)
    sizes = None if sizes is None else _listed("sizes", sizes)
    fit = _Fit(estimator, trainer, score, classes)
    bought = named if controls else {}
    rows: list = []
    caught: dict = {}
    try:
        for row in _measure(
            methods, bought, fit, X, y, sizes, seeds, test, test_size, classes, verbose
        ):
            rows.append(row)
            _keep_warnings(caught, row, len(rows))
        found = _comparison(rows, methods, scoring)
        _check_scored(found.frame, named, {*unasked, BEST_DRAW, MORE_ROWS})
        return found
    except BaseException as error:
        if rows:
            vars(error)["comparison"] = _comparison(rows, methods, scoring)
            error.add_note(
                f"compare: the {len(rows)} fits that had finished are on this exception, as its "
                "attribute comparison; at a prompt it is sys.last_value.comparison."
            )
        raise
    finally:
        for warning, fits in caught.values():
            whose = f"{len(fits)} of {len(rows)} fits, of {', '.join(dict.fromkeys(fits.values()))}"
            warn(f"in {whose}: {warning.message}", _made_of_words(warning.category))


def _made_of_words(category):
    # The nearest class of warnings that is made of a text alone.
    for kind in category.__mro__:
        try:
            kind("")
        except TypeError:
            continue
        return kind


def _keep_warnings(caught, row, number):
    """Note which fits, by number and method, gave each warning, once for its place in the code."""
    for warning in row.pop("warnings"):
        place = (warning.category, warning.filename, warning.lineno)
        fits = caught.setdefault(place, (warning, {}))[1]
        fits[number] = row["method"]


def _check_scored(frame, named, may_fail):
    """ValueError where no method has a score, or one that was asked for has none."""
    errors = {
        name: own["error"].iloc[0]
        for name, own in frame.groupby("method", sort=False)
        if own["score"].isna().all()
    }
    if frame["score"].isna().all():
        # What a selector says of the rows holds for the estimator, too, and not the reverse.
        first = errors[next(iter(named), ALL_ROWS)]
        raise ValueError(f"No method got a score: {first}{_cure(errors.values())}")
    for name, error in errors.items():
        if name not in may_fail:
            of_rows = "words: encode" in error or "contains NaN" in error
            if of_rows and name in named:
                error = f"{error.splitlines()[0]} {AS_IT_IS}"
            cure = _cure([error])
            raise ValueError(f"{name} gave no score at all: {error}{cure}")


def _warn_of_no_size(named):
    for name, selector in named.items():
        if "size" not in _options_of(selector):
            warn(f"{name} has no option size: it chooses as many rows at each of the sizes.")


def _check_trainer(estimator, scoring):
    """TypeError for what cannot be trained or scored."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(
            f"estimator must have fit (an instance, not the class), got estimator={estimator!r}."
        )
    check_no_resampling(estimator, "resample the rows before, or leave it out.")
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            f"scoring must be one score, a name or a callable, got {scoring!r}: compare by each in "
            "turn."
        )
    check_scoring_name(scoring)
    if isinstance(scoring, str) and tags_of(estimator) is None:
        raise TypeError(
            f"scoring={scoring!r} asks scikit-learn's tags of an estimator, and "
            f"{type(estimator).__name__} has none: "
            "let it inherit from BaseEstimator, or give scoring=None for its own score, or a "
            "function of (model, X, y)."
        )


def _readable_data(X, y, test):
    """X, y and the held-out rows in forms that all libraries read; ValueError where none score."""
    if y is None:
        raise ValueError("y is None: compare needs labels or targets to score on.")
    held_out = (X, y) if test is None else test
    if not isinstance(held_out, tuple | list) or len(held_out) != 2:
        raise ValueError(
            f"test must be (X, y), the held-out rows and their labels, got {type(test).__name__}."
        )
    check_in_memory("compare", X, y, *held_out)
    if sparse.issparse(y):
        raise TypeError(f"y must be dense, got a sparse matrix of shape {y.shape}: y.toarray().")
    X, y = map(readable, (X, y))
    test = test and tuple(map(readable, test))
    for name, rows, labels in [("y", X, y), ("y of test", *(test or (X, y)))]:
        check_consistent_length(rows, labels)
        check_labels(labels, name)
    return X, y, test


def _listed_seeds(seeds):
    """Seeds as a list in which each comes once; a number stands for so many."""
    if isinstance(seeds, Integral):
        check_integer("seeds", seeds)
        seeds = range(seeds)
    seeds = _listed("seeds", seeds)
    for seed in seeds:
        check_integer("seeds", seed, least=0, most=MAX_SEED)
    return list(dict.fromkeys(seeds))


def _measure(methods, bought, fit, X, y, sizes, seeds, test, test_size, classes, verbose):
    # A row a fit, as soon as it has finished, with the warnings that it gave.
    n = None
    with Bar(desc="compare", verbose=verbose) as bar:
        for seed in seeds:
            train, held_out = _split(X, y, test, test_size, seed, classes)
            if n is None:
                n = len(train[1])
                sizes = sorted({max(2, round(s * n)) for s in SHARES}) if sizes is None else sizes
                for size in sizes:
                    check_integer("size", size, most=n, why=f"there are {n} training rows")
                sizes = list(dict.fromkeys(sizes))
                bar.reset(len(seeds) * (1 + len(sizes) * (len(methods) + 2 * bool(bought))))
            # Seconds to choose and to train, of what was measured for this seed.
            seconds = {}

            def measured(name, size, run, *args, seed=seed, seconds=seconds):
                bar.set_postfix_str(f"{name}, {size} rows")
                with warnings.catch_warnings(record=True) as given:
                    outcome = run(*args)
                seconds[name, size] = outcome["choose_seconds"] + outcome["train_seconds"]
                bar.update()
                kept = dict(
                    method=name, size=size, seed=seed, weighted=fit.trainer.keyword is not None
                )
                return kept | outcome | dict(warnings=given)

            yield measured(ALL_ROWS, n, fit.measure, None, n, seed, train, held_out)
            for size in sizes:
                for name, selector in methods.items():
                    yield measured(name, size, fit.measure, selector, size, seed, train, held_out)
                times = [seconds[name, size] for name in bought if np.isfinite(seconds[name, size])]
                budget = max(times, default=None)
                if bought:
                    yield measured(
                        BEST_DRAW, size, fit.best_draw, budget, size, seed, train, held_out
                    )
                    few = seconds[UNIFORM, size]
                    # where the draw of this seed could not be trained on, no time is known of it
                    ends = few if np.isfinite(few) else 0.0, seconds[ALL_ROWS, n]
                    yield measured(
                        MORE_ROWS,
                        size,
                        fit.more_rows,
                        budget,
                        ends,
                        size,
                        seed,
                        train,
                        held_out,
                    )


def _comparison(rows, methods, scoring):
    import pandas as pd

    order = {name: i for i, name in enumerate([ALL_ROWS, *methods, BEST_DRAW, MORE_ROWS])}
    frame = pd.DataFrame(rows).sort_values(
        ["method", "size", "seed"], key=lambda c: c.map(order) if c.name == "method" else c
    )
    return Comparison(
        frame.reset_index(drop=True), scoring if isinstance(scoring, str) else "score"
    )


def _cure(errors):
    # What scikit-learn does not say: what to give instead.
    said = " ".join(errors)
    if "different number of classes" in said or UNKNOWN_CLASS in said:
        return (
            " A class has too few rows to be trained on and held out: leave it out, or give test."
        )
    return ""


def _named(selectors):
    if not isinstance(selectors, dict):
        several = selectors if isinstance(selectors, list | tuple) else [selectors]
        names = [type(s).__name__ for s in several]
        # The same class twice, with other options, goes by its options.
        selectors = {
            n if names.count(n) == 1 else " ".join(repr(s).split()): s
            for n, s in zip(names, several)
        }
        if len(selectors) < len(several):
            raise ValueError(
                "selectors must differ, but two are the same; a dict gives them names."
            )
    for selector in selectors.values():
        check_selector(selector, "; the order is compare(selectors, estimator, X, y)")
    named = {str(name): selector for name, selector in selectors.items()}
    taken = sorted({ALL_ROWS, BEST_DRAW, MORE_ROWS} & named.keys())
    if taken or len(named) < len(selectors):
        what = (
            f"one is called {taken[0]!r}, as a method beside it is"
            if taken
            else "two have the same"
        )
        raise ValueError(f"selectors need names of their own, but {what}: give it another.")
    return named


def _listed(name, values):
    # As a list of one value at least.
    listed = list(values) if np.iterable(values) and not isinstance(values, str) else []
    if not listed:
        way_out = f": give {name}=[{values}]" if isinstance(values, Integral) else ""
        raise ValueError(
            f"{name} must be a list of at least one integer, got {name}={values!r}{way_out}."
        )
    return listed


def _repeat(y):
    # Whether y holds classes: words, or numbers that come again and again.
    y = np.asarray(y)
    return y.size == len(y) and (
        y.dtype.kind not in "f" or len(np.unique(y)) <= max(2, len(y) // 20)
    )


def _split(X, y, test, test_size, seed, classes):
    if test is not None:
        return (X, y), test
    # It is imported here, as that takes a while.
    from sklearn.model_selection import train_test_split

    labels = np.asarray(y)
    n = len(labels)
    n_test = test_size if isinstance(test_size, Integral) else math.ceil(test_size * n)
    totals = np.unique(labels, return_counts=True)[1] if classes else []
    few = not classes or min(totals) < 2 or len(totals) > min(n_test, n - n_test)
    parts = train_test_split(
        np.arange(n),
        test_size=test_size,
        random_state=seed,
        stratify=None if few else labels,
    )
    return [(take_rows(X, part), take_rows(y, part)) for part in parts]


@dataclass(frozen=True)
class _Fit:
    # Chooses, trains and scores, with the seconds; what cannot be done is told, not hidden.
    estimator: Any
    trainer: WeightedFit
    score: Any
    # Whether y holds classes.
    classes: bool

    def measure(self, selector, size, seed, train, held_out, weights=None):
        # Of a choice that fails nothing is known.
        outcome = dict(NOTHING)
        if selector is None:
            outcome |= dict(choose_seconds=0.0, n_rows=size)
        try:
            if selector is not None:
                start = time.perf_counter()
                fitted = _seeded(selector, seed, size=size).fit(*train)
                *train, weights = chosen_rows(fitted, *train)
                # Optimised weights may be 0.
                counted = np.flatnonzero(weights)
                if self.trainer.keyword is None:
                    train = [take_rows(one, counted) for one in train]
                    weights = weights[counted]
                outcome |= dict(choose_seconds=time.perf_counter() - start, n_rows=len(counted))
            else:
                train = _copied(train)
            held_out = _copied(held_out)
            with threads_for(len(train[1])):
                start = time.perf_counter()
                model = self._trained(seed, train, weights)
                outcome["train_seconds"] = time.perf_counter() - start
            held_out_named = words_named(held_out[0], "the held-out rows")
            with threads_for(len(held_out[1])), held_out_named:
                outcome["score"] = self._scored(model, *held_out)
        except ValueError as error:
            # There may be one class only among the rows, for example.
            outcome["error"] = str(error)
        if np.isnan(outcome["score"]) and not outcome["error"]:
            outcome["error"] = "its score is NaN"
        return outcome

    def best_draw(self, budget, size, seed, train, held_out):
        if budget is None:
            return UNSPENT
        with threads_for(size):
            rows, weights, found = self._best_draw(budget, size, seed, train)
        outcome = self.measure(
            None, size, seed, [take_rows(one, rows) for one in train], held_out, weights
        )
        return outcome | found

    def _best_draw(self, budget, size, seed, train):
        # Rows, their weights, and what it took.
        start = time.perf_counter()
        rng = np.random.default_rng(seed)
        n = len(train[1])
        n_judges = max(0, min(n // 3, n - size))
        order = rng.permutation(n)
        if self.classes:
            order = _each_class_first(order, n_judges, train[1])
        rest = order[n_judges:]
        judges = order[:n_judges]
        best = -np.inf
        rows = rng.choice(rest, size, replace=False)
        n_tried = n_draws = 0
        # With these weights a penalty weighs as much as on all rows.
        weights = np.full(size, n / size)
        while n_tried < MOST_DRAWS and (n_tried == 0 or time.perf_counter() - start < budget):
            drawn = rng.choice(rest, size, replace=False)
            n_tried += 1
            try:
                model = self._trained(seed, [take_rows(one, drawn) for one in train], weights)
                # Taken anew for each model, which may write into them.
                judge = [take_rows(one, judges) for one in train]
                found = self._scored(model, *judge) if n_judges else 0.0
            except ValueError:
                # This draw may have one class only, and the next two.
                continue
            n_draws += 1
            if found > best:
                best = found
                rows = drawn
        seconds = time.perf_counter() - start
        return rows, weights, dict(choose_seconds=seconds, n_draws=n_draws)

    def more_rows(self, budget, ends, size, seed, train, held_out):
        if budget is None:
            return UNSPENT
        n = len(train[1])
        (few, all_rows) = ends
        # All rows, unless they take longer: then fewer, as if the time rose with the rows.
        m = n
        if all_rows > max(few, budget):
            m = int(np.clip(size + (budget - few) / (all_rows - few) * (n - size), size, n))
        rows = np.random.default_rng(seed).choice(n, m, replace=False)
        # Weights of one are slow for some estimators.
        weights = None if m == n else np.full(m, n / m)
        few_rows = [take_rows(one, rows) for one in train]
        return self.measure(None, m, seed, few_rows, held_out, weights)

    def _scored(self, model, X, y):
        # scikit-learn pairs what a model says of classes with those of y by their places.
        if self.classes and getattr(self.score, "_response_method", "predict") != "predict":
            _check_known_classes(model, y)
        score = self.score(model, X, y)
        try:
            return float(score)
        except TypeError as error:
            raise TypeError(f"scoring must give one number, got {score!r}.") from error

    def _trained(self, seed, train, weights):
        model = _seeded(self.estimator, seed)
        with training_named(self.estimator, train[0], "compare(selectors, {}, X, y)"):
            self.trainer.train(model.fit, *train, weights)
        return model


def _copied(data):
    # What is trained or scored may write into its rows, as a scaler does that has copy=False.
    return [take_rows(one, np.arange(len(data[1]))) for one in data]


def _each_class_first(order, n_first, y):
    # Places in an order in which each class that has two rows has one among the first.
    labels = np.ravel(as_array(y))[order]
    _, first, totals = np.unique(labels, return_index=True, return_counts=True)
    late = first[(first >= n_first) & (totals > 1)]
    return np.concatenate([order[late], np.delete(order, late)])


def _check_known_classes(model, y):
    known = getattr(model, "classes_", None)
    if not isinstance(known, np.ndarray) or known.ndim != 1:
        return
    unknown = sorted(set(np.ravel(as_array(y)).tolist()) - set(known.tolist()))
    if unknown:
        raise ValueError(f"{UNKNOWN_CLASS}: {unknown[:5]}.")


def _options_of(part):
    return part.get_params() if hasattr(part, "get_params") else {}


def _seeded(part, seed, **more):
    part = clone(part, safe=False)
    known = _options_of(part)
    values = {"random_state": seed, **more}
    if known:
        part.set_params(**{k: v for k, v in values.items() if k in known})
    # Steps, and what a search or a vote trains, have seeds of their own.
    seed_unset(part, seed)
    return part
