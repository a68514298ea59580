"""What a selector makes of a part of the data, such as a chunk of a stream, a block or a task."""

from dataclasses import replace
from textwrap import shorten

import numpy as np
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import has_fit_parameter

from handful.checks import accepts_of, counted_rows
from handful.forms import check_kind, kind_of_labels
from handful.rows import joined
from handful.running import warn
from handful.tables import as_array, missing, take_rows

# More different numbers are counts, or the targets of a regression.
MOST_CLASSES = 100
# Classes are counted without being sorted if they are whole numbers in a range of this width.
WIDE = 10_000


def reduced(blocks, selector, size, rng, seen_as=None):
    """At most `size` weighted rows that stand for several blocks: Rows.

    A union of at most `size` rows is kept as it is, one of at most `size` rows of positive weight
    without the others; otherwise `choose` selects from it.

    Parameters
    ----------
    blocks : list of Rows
    selector : Selector; its `size` and `random_state` are set here
    size : int
    rng : numpy.random.Generator
    seen_as : function of the rows X that gives what the selector sees of them; None: X itself
    """
    union = joined(blocks)
    if len(union) <= size:
        return union
    # Optimised weights may be 0.
    if np.count_nonzero(union.weight) <= size:
        return union.of_positive_weight()
    chosen, weights = choose(
        clone(selector).set_params(size=size, random_state=rng),
        seen_as(union.X) if seen_as else union.X,
        union.y,
        union.weight,
        rng,
    )
    return replace(union.take(chosen), weight=np.asarray(weights, dtype=np.float64))


def chosen_rows(selector, *data):
    """The rows of the data that a fitted selector chose, and their weights, as `Coreset.take` gives
    them: without what the `take` of a selector may add, such as folds.

    Raises
    ------
    ValueError
        for rows that stand for the data only beside a quadratic form, which nothing trains with
    """
    if getattr(selector, "form_", None) is not None:
        raise ValueError(
            "remainder must be None where a model is trained: these rows stand for the data only "
            "beside form_, which a sampler adds to its log density and no estimator takes."
        )
    return getattr(selector, "coreset_", selector).take(*data)


def check_selector(selector, hint=""):
    """TypeError unless `selector` chooses rows and takes their `sample_weight`; `hint` ends the
    message."""
    if isinstance(selector, type):
        name = selector.__name__
        raise TypeError(
            f"selector must choose rows, as BilevelCoreset() does, got the class {name}: give "
            f"{name}()."
        )
    if not (hasattr(selector, "take") and hasattr(selector, "fit")):
        got = shorten(repr(selector), 80)
        raise TypeError(f"selector must choose rows, as BilevelCoreset does, got {got}{hint}.")
    if not has_fit_parameter(selector, "sample_weight"):
        name = type(selector).__name__
        raise TypeError(
            f"selector must choose rows by sample_weight, as BilevelCoreset does, but {name} takes "
            "none."
        )


def check_part(selector, size, X, y, sample_weight=None, classes=None):
    """Refuse a part of the data, such as a chunk of a stream, that would spoil every choice in
    which its rows are.

    Parameters
    ----------
    selector : Selector; anything else that chooses rows passes unchecked
    size : int, of the selector when it chooses
    X, y : the rows of the part, at least one, and their labels, or None
    sample_weight : shape (n,), or None; labels of rows of weight zero do not count
    classes : what this function gave for the parts before; None for the first one

    Returns
    -------
    array of the different labels of all parts so far, or None where the selector does not look for
    classes in y

    Raises
    ------
    ValueError, TypeError
        as the selector's `fit` for all parts together, but for the number of rows and for a class
        that is alone as yet
    """
    if not hasattr(selector, "_check_part"):
        return None
    selector = clone(selector).set_params(size=size)
    _, y = selector._check_part(X, y)
    if y is not None and sample_weight is not None:
        y = y[as_array(sample_weight) > 0]
    if y is None or len(y) == 0:
        return classes
    if np.ndim(y) != 1:
        selector._check_targets(y)
        return None
    check_kind(y)
    if not selector._accepts.classes:
        selector._check_targets(y)
        return None
    if classes is not None and kind_of_labels(classes) != kind_of_labels(y):
        raise ValueError(
            f"y holds {kind_of_labels(y)}, but the labels so far are {kind_of_labels(classes)}."
        )
    classes = np.unique(y) if classes is None else np.union1d(classes, y)
    # Each class three times: where most labels come once, scikit-learn warns of the targets of a
    # regression.
    labels = np.tile(classes, 3)
    check_classification_targets(labels)
    if len(classes) > 1:
        selector._check_targets(labels)
    return classes


def class_totals(y, weights):
    """The weight of each class in y, of rows that count: a dict.

    Labels that are missing count for none. None stands for y=None, for what has no classes
    (fractions, more than `MOST_CLASSES` numbers, dates), and for labels of several columns.
    """
    if y is None or as_array(y).ndim != 1:
        return None
    labels = as_array(y)
    present = (weights > 0) & ~missing(y)
    if not present.all():
        labels = labels[present]
        weights = weights[present]
    if len(labels) == 0:
        return {}
    kind = kind_of_labels(labels)
    if kind == "words":
        places: dict = {}
        codes = [places.setdefault(label, len(places)) for label in labels.tolist()]
        return dict(zip(places, np.bincount(codes, weights).tolist()))
    if kind != "numbers":
        return None
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist())
    if labels.dtype.kind not in "biu" and not (labels == np.floor(labels)).all():
        return None
    found, codes = _numbered(labels)
    mass = np.bincount(codes, weights, len(found))
    there = np.bincount(codes, minlength=len(found)) > 0
    if np.count_nonzero(there) > MOST_CLASSES:
        return None
    return dict(zip(found[there].astype(labels.dtype).tolist(), mass[there].tolist()))


def _numbered(labels):
    # Whole numbers, ascending, and the place of each label among them; of a narrow range all.
    low = labels.min()
    high = labels.max()
    if float(high) - float(low) >= WIDE or high > np.iinfo(np.intp).max:
        return np.unique(labels, return_inverse=True)
    low = int(low)
    return np.arange(low, int(high) + 1), labels.astype(np.intp) - low


def united(totals):
    """`class_totals` of several parts, joined; None if one of them has no classes."""
    if any(one is None for one in totals):
        return None
    out: dict = {}
    for one in totals:
        for label, mass in one.items():
            out[label] = out.get(label, 0.0) + mass
    return out


def choose(selector, X, y, sample_weight, rng):
    """What a selector chooses of a part of the data, such as a leaf of a stream or a task:
    ``(indices, weights)``.

    A part with one class only, zero weights aside, goes to the `_select_one_class` of a selector
    that needs two: a classifier's loss does, and a part of a stream may hold one.

    Parameters
    ----------
    selector : Selector, its size set
    X, y : the rows and their labels, or None
    sample_weight : shape (n,), or None
    rng : numpy.random.Generator, for `_select_one_class`

    Raises
    ------
    ValueError
        as the selector's `fit`
    """
    if accepts_of(selector).y == "two classes" and of_one_class(y, sample_weight):
        present = counted_rows(X, sample_weight)
        if present is not None:
            X, y, sample_weight = (take_rows(a, present) for a in (X, y, sample_weight))
        X, _, sample_weight = selector._check_input(X, y, sample_weight)
        chosen, weights = selector._select_one_class(X, sample_weight, rng)
        return chosen if present is None else present[chosen], weights
    selector._of_a_part = True
    selector.fit(X, y, sample_weight=sample_weight)
    return selector.indices_, selector.weights_


def of_one_class(y, sample_weight):
    """Whether all labels of positive weight are the same one, of input that is not checked yet."""
    labels = as_array(y)
    if np.shape(sample_weight) == labels.shape:
        labels = labels[as_array(sample_weight) != 0]
    return labels.ndim == 1 and len(labels) > 0 and bool((labels == labels[0]).all())


def warn_of_class_weight(estimator, who, selectors=()):
    """Say so where an estimator, or what it trains, weighs classes, and `who` does not; draws
    without bias know none, and need none."""
    if selectors and all(getattr(selector, "_draws", False) for selector in selectors):
        return
    get_params = getattr(estimator, "get_params", dict)
    for name, given in get_params().items():
        if name.rpartition("__")[2] == "class_weight" and given is not None:
            # what forests call so is the same, of each tree's own rows
            of_rows = "balanced" if given == "balanced_subsample" else given
            warn(
                f"{who} not know {name}={given!r} of {type(estimator).__name__}, so that the "
                "chosen rows work against it. Leave it out, and give fit what it stands for: "
                "sample_weight="
                f"sklearn.utils.class_weight.compute_sample_weight({of_rows!r}, y)."
            )
