"""`compare`: whether to choose rows at all, and which selector, measured on one's own data and estimator."""

import textwrap
import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import zip_longest
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_consistent_length, has_fit_parameter
from tqdm.auto import tqdm

from handful.baselines import StratifiedCoreset, UniformCoreset
from handful.checks import MAX_SEED, check_integer
from handful.coreset import check_selector, take_rows
from handful.types import Table

SHARES = (0.01, 0.02, 0.05, 0.1)  # of the training rows, where no sizes are given
ALL_ROWS, UNIFORM, STRATIFIED = "all rows", "uniform", "stratified"
WIDTH = 100  # characters of a line of what a Comparison prints


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` measured.

    Attributes
    ----------
    frame : pandas.DataFrame, one row for each method, size and seed, with ``score`` on the held-out rows;
        ``choose_seconds`` and ``train_seconds`` of wall-clock time; ``n_rows``, the number of rows trained on;
        ``weighted``, whether the estimator took their weights; ``error``, the message of a method that failed (its
        score is NaN), or ""
    scoring : str, the name of the scores
    """

    frame: Any
    scoring: str

    def __repr__(self) -> str:
        """The summary, every column of it however narrow the terminal; a long name goes on in the lines below."""
        table = self.summary()
        names = table.pop("method")
        for name in ("score", "lead"):
            spreads = table.pop(f"{name}_std")
            pairs = zip(table[name], spreads)
            table[name] = [f"{mean:.4g} ± {std:.2g}" if mean == mean else "–" for mean, std in pairs]
        table = table.rename(columns={"choose_seconds": "choose (s)", "train_seconds": "train (s)"})
        head, *lines = table.to_string(index=False, float_format="{:.3g}".format).splitlines()
        room = WIDTH - len(head) - 1
        shown = [("method", head)]
        for method in names.unique():
            own = [line for name, line in zip(names, lines) if name == method]
            shown += zip_longest(textwrap.wrap(method, room), own, fillvalue="")
        width = max(len(name) for name, _ in shown)
        return "\n".join([f"{self.scoring} on held-out rows", *(f"{a:<{width}} {b:<{len(head)}}" for a, b in shown)])

    def summary(self) -> Any:
        """A row a method and size: mean and standard deviation of the score, lead over uniform, median seconds.

        ``lead`` is the mean over seeds of the score minus that of uniform sampling of the same size and seed, and
        ``lead_std`` its standard deviation; ``failed`` counts the seeds without a score.

        Returns
        -------
        pandas.DataFrame
        """
        frame, keys = self.frame, ["method", "size"]
        uniform = frame[frame["method"] == UNIFORM].set_index(["size", "seed"])["score"]
        pairs = frame.set_index(["size", "seed"]).index
        frame = frame.assign(lead=frame["score"] - uniform.reindex(pairs).to_numpy(), failed=frame["error"] != "")
        groups = frame.groupby(keys, sort=False)
        columns = {
            "score": groups["score"].mean(),
            "score_std": groups["score"].std(),
            "lead": groups["lead"].mean(),
            "lead_std": groups["lead"].std(),
            "choose_seconds": groups["choose_seconds"].median(),
            "train_seconds": groups["train_seconds"].median(),
            "failed": groups["failed"].sum(),
        }
        return type(frame)(columns).reset_index()

    def plot(self, axes: Any = None) -> Any:
        """Draw score and seconds (choosing and training) against size: means, bands of a standard deviation.

        Parameters
        ----------
        axes : two matplotlib axes, or None for a new figure

        Returns
        -------
        array of the two axes
        """
        import matplotlib.pyplot as plt

        if axes is None:
            _, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        table = self.summary()
        table["seconds"] = table["choose_seconds"] + table["train_seconds"]
        for method, rows in table.groupby("method", sort=False):
            if method == ALL_ROWS:
                score, std = rows["score"].item(), np.nan_to_num(rows["score_std"].item())
                axes[0].axhline(score, color="black", linestyle="--", label=method)
                axes[0].axhspan(score - std, score + std, color="black", alpha=0.1, linewidth=0)
                axes[1].axhline(rows["seconds"].item(), color="black", linestyle="--", label=method)
                continue
            [line] = axes[0].plot(rows["size"], rows["score"], marker="o", label=method)
            low, high = rows["score"] - rows["score_std"], rows["score"] + rows["score_std"]
            axes[0].fill_between(rows["size"], low, high, color=line.get_color(), alpha=0.15, linewidth=0)
            axes[1].plot(rows["size"], rows["seconds"], marker="o", color=line.get_color(), label=method)
        for axis, label in zip(axes, (self.scoring, "seconds to choose and train")):
            axis.set(xscale="log", xlabel="rows chosen", ylabel=label)
        axes[1].set_yscale("log")
        axes[0].legend()
        return axes


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
    verbose: bool = True,
) -> Any:
    """Is choosing rows worth it here? Scores and seconds of selectors beside uniform, stratified and all rows.

    For each seed the rows are split; each method chooses from the training rows, a clone of `estimator` trains on what
    it chose, with the weights, and is scored on the held-out rows. All methods of a seed share its split.

    Parameters
    ----------
    selectors : Selector, a list of them, or a dict of them by name; their `size` and `random_state` are set here
    estimator : anything with ``fit(X, y)`` and a score. Weights go to a `sample_weight` of its `fit`, or of the last
        step's if it is a Pipeline; an estimator without one trains on the chosen rows alone, which a warning says
    X, y : the rows and their labels or targets, whatever the selectors and the estimator take. Selectors read X as it
        is given: scale its columns first, as a scaler in the estimator's pipeline does not reach them
    sizes : list of int, rows to choose; None takes 1, 2, 5 and 10 % of the training rows
    scoring : None for the estimator's own `score`, a name or a callable, as in scikit-learn
    seeds : int, how many; or a list of ints
    test_size : float, share of the held-out rows, or int, their number; classes keep their shares
    test : ``(X, y)`` of held-out rows, instead of splitting; then a seed decides the draws alone
    verbose : bool, show a progress bar

    Returns
    -------
    Comparison : its `frame` has a row for each method, size and seed; `summary` and `plot` condense it

    Raises
    ------
    ValueError
        for sizes that are no integers or exceed the training rows, without `y`, and if one of `selectors` or training
        on all rows fails for every seed and size
    TypeError
        for what is no selector or no estimator
    ImportError
        without pandas

    Notes
    -----
    A ValueError of a selector or estimator is kept in the row of its fit. Any other error ends the comparison, and so
    does Ctrl-C. The fits that had finished stay on the exception as a `Comparison`, its attribute `comparison`:
    ``except KeyboardInterrupt as stopped: found = stopped.comparison``, or ``sys.last_value.comparison`` at a prompt.

    Warnings of the fits are shown at the end, once for each place in the code that warns, with the number of fits that
    gave them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> from handful import KCenter
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = compare(KCenter(), LogisticRegression(), scale(X), y, sizes=[20, 50], seeds=3, verbose=False)
    >>> found.summary()["method"].unique().tolist()
    ['all rows', 'uniform', 'stratified', 'KCenter']
    """
    if find_spec("pandas") is None:
        raise ImportError("compare gives a data frame, which needs pandas: pip install pandas.")
    named = _named(selectors)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must have fit (an instance, not the class), got estimator={estimator!r}.")
    score = check_scoring(estimator, scoring)
    if y is None:
        raise ValueError("y is None: compare needs labels or targets to score on.")
    check_consistent_length(X, y)
    classes = _repeat(y) and not (hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator))
    baselines = {UNIFORM: UniformCoreset()} | ({STRATIFIED: StratifiedCoreset()} if classes else {})
    unasked = baselines.keys() - named.keys()  # these may fail
    methods = {name: baselines[name] for name in baselines if name in unasked} | named
    prefix = _weight_name(estimator)
    if prefix is None:
        last = type(estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator).__name__
        warnings.warn(f"{last}.fit takes no sample_weight: it trains on the chosen rows alone.", stacklevel=2)
    if isinstance(seeds, Integral):
        check_integer("seeds", seeds)
        seeds = range(seeds)
    seeds, sizes = _listed("seeds", seeds), None if sizes is None else _listed("sizes", sizes)
    for seed in seeds:
        check_integer("seeds", seed, least=0, most=MAX_SEED)
    seeds = list(dict.fromkeys(seeds))  # one given twice would count twice
    rows: list = []
    caught: dict = {}
    try:
        for row in _measure(methods, estimator, prefix, X, y, sizes, seeds, test, test_size, classes, score, verbose):
            rows.append(row)
            for warning in row.pop("warnings"):
                place = (warning.category, warning.filename, warning.lineno)
                caught.setdefault(place, (warning, {}))[1][len(rows)] = row["method"]
        found = _comparison(rows, methods, scoring)
        nothing = {
            name: own["error"].iloc[0] or "every score is NaN"
            for name, own in found.frame.groupby("method", sort=False)
            if own["score"].isna().all()
        }
        if found.frame["score"].isna().all():
            raise ValueError(f"No method got a score: {next(iter(nothing.values()))}{_cure(nothing.values(), scoring)}")
        for name, error in nothing.items():
            if name not in unasked:
                raise ValueError(f"{name} gave no score at all: {error}")
        return found
    except BaseException as error:
        if rows:
            vars(error)["comparison"] = _comparison(rows, methods, scoring)
            error.add_note(
                f"compare: the {len(rows)} fits that had finished are on this exception, as its attribute comparison; "
                "at a prompt it is sys.last_value.comparison."
            )
        raise
    finally:
        for warning, fits in caught.values():
            whose = f"{len(fits)} of {len(rows)} fits, of {', '.join(dict.fromkeys(fits.values()))}"
            warnings.warn(f"in {whose}: {warning.message}", warning.category, stacklevel=2)


def _measure(methods, estimator, prefix, X, y, sizes, seeds, test, test_size, classes, score, verbose):
    # A row a fit, as soon as it has finished, with the warnings that it gave.
    n = None
    with tqdm(disable=not verbose, desc="compare") as bar:
        for seed in seeds:
            train, held_out = _split(X, y, test, test_size, seed, classes)
            if n is None:
                n = len(train[1])
                sizes = sorted({max(2, round(s * n)) for s in SHARES}) if sizes is None else sizes
                for size in sizes:
                    check_integer("size", size, most=n, why=f"there are {n} training rows")
                sizes = list(dict.fromkeys(sizes))
                bar.reset(len(seeds) * (1 + len(sizes) * len(methods)))
            tasks = [(ALL_ROWS, None, n), *((name, s, size) for size in sizes for name, s in methods.items())]
            for name, selector, size in tasks:
                bar.set_postfix_str(f"{name}, {size} rows")
                with warnings.catch_warnings(record=True) as given:
                    outcome = _run(selector, estimator, prefix, size, seed, train, held_out, score)
                yield dict(method=name, size=size, seed=seed, weighted=prefix is not None, **outcome, warnings=given)
                bar.update()


def _comparison(rows, methods, scoring):
    import pandas as pd

    order = {name: i for i, name in enumerate([ALL_ROWS, *methods])}
    frame = pd.DataFrame(rows).sort_values(
        ["method", "size", "seed"], key=lambda c: c.map(order) if c.name == "method" else c
    )
    return Comparison(frame.reset_index(drop=True), scoring if isinstance(scoring, str) else "score")


def _cure(errors, scoring):
    # Of scores of one class, where labels are words: scikit-learn names the labels but not what to give instead.
    if not any("pos_label" in error for error in errors):
        return ""
    return f" scoring={scoring!r} is of the class 1: give labels 0 and 1, or make_scorer with your pos_label."


def _named(selectors):
    if not isinstance(selectors, dict):
        several = selectors if isinstance(selectors, list | tuple) else [selectors]
        names = [type(s).__name__ for s in several]
        # The same class twice, with other options, goes by its options.
        selectors = {n if names.count(n) == 1 else " ".join(repr(s).split()): s for n, s in zip(names, several)}
        if len(selectors) < len(several):
            raise ValueError("selectors must differ, but two are the same; a dict gives them names.")
    for selector in selectors.values():
        check_selector(selector)
    return selectors


def _listed(name, values):
    # As a list of one value at least.
    listed = list(values) if np.iterable(values) and not isinstance(values, str) else []
    if not listed:
        raise ValueError(f"{name} must be a list of at least one integer, got {name}={values!r}.")
    return listed


def _repeat(y):
    # Whether y holds classes: words, or numbers that come again and again.
    y = np.asarray(y)
    return y.ndim == 1 and (y.dtype.kind not in "f" or len(np.unique(y)) <= max(2, len(y) // 20))


def _weight_name(estimator):
    # The keyword of `fit` that takes the weights: of the last step of a pipeline, or None.
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        inner = _weight_name(last)
        return inner and f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def _split(X, y, test, test_size, seed, classes):
    if test is not None:
        return (X, y), test
    from sklearn.model_selection import train_test_split  # here, as importing it takes a while

    labels = np.asarray(y)
    few = not classes or np.unique(labels, return_counts=True)[1].min() < 2
    parts = train_test_split(
        np.arange(len(labels)), test_size=test_size, random_state=seed, stratify=None if few else labels
    )
    return [(take_rows(X, part), take_rows(y, part)) for part in parts]


def _run(selector, estimator, prefix, size, seed, train, held_out, score):
    # Choose, train and score, with the seconds; what cannot be done is told, not hidden.
    def seeded(part, **more):
        part = clone(part, safe=False)
        known = part.get_params() if hasattr(part, "get_params") else {}
        values = {"random_state": seed, **more}
        return part.set_params(**{k: v for k, v in values.items() if k in known}) if known else part

    outcome = dict(score=np.nan, choose_seconds=0.0, train_seconds=np.nan, n_rows=size, error="")
    try:
        weights, options = None, {}
        if selector is not None:
            start = time.perf_counter()
            *train, weights = seeded(selector, size=size).fit(*train).take(*train)
            outcome |= dict(choose_seconds=time.perf_counter() - start, n_rows=len(weights))
            options = {} if prefix is None else {prefix: weights}
        start = time.perf_counter()
        model = seeded(estimator)
        model.fit(*train, **options)
        outcome["train_seconds"] = time.perf_counter() - start
        outcome["score"] = float(score(model, *held_out))
    except ValueError as error:  # such as one class only among the rows
        outcome["error"] = str(error)
    return outcome
