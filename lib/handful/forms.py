"""The form and the types of parts of one data set, which have to be alike: columns, labels, dense
or sparse."""

from numbers import Number

import numpy as np
from scipy import sparse

from handful.tables import as_array, is_missing, names_of

# Labels of one of these kinds can be compared with one another.
KINDS = ("words", "numbers", "dates", "times")


def types_of(X, y):
    """The types of the values, by the words of a message that says what has them: a dict."""
    columns = getattr(X, "columns", None)
    if hasattr(X, "iloc") and columns is not None:
        found = {f"column {name!r}": type_of(X.iloc[:, j]) for j, name in enumerate(columns)}
    else:
        found = {"X": type_of(X)}
    return found if y is None else found | {"y": type_of(y)}


def type_of(values):
    """The type of an array or a column in words, alike where joining them keeps it."""
    dtype = getattr(values, "dtype", None)
    dtype = np.asarray(values).dtype if dtype is None else dtype
    levels = getattr(dtype, "categories", None)
    if levels is not None and dtype.ordered:
        return f"ordered categories {' < '.join(map(str, levels))}"
    if levels is not None:
        return f"categories of {levels.dtype}"
    return "words" if getattr(dtype, "kind", "O") in "US" else str(dtype)


def names_of_labels(y):
    """The names of the columns of several labels a row; none of one label a row, whose name says
    nothing."""
    names = names_of(y)
    return names if len(names) > 1 else []


def form_of(X, y, label_names=None):
    """What must not differ between parts of one data set, in words: a dict.

    `label_names` are the `names_of_labels` of the frame that `y` was; None: those of `y` itself.
    """
    columns = getattr(X, "columns", None)
    label_names = names_of_labels(y) if label_names is None else label_names
    return {
        "X": "sparse rows" if sparse.issparse(X) else "dense rows",
        "columns": f"{X.shape[1:]} columns"
        if columns is None
        else f"the columns {', '.join(map(str, columns))}",
        "y": "no y" if y is None else f"{_columns_of(y, label_names)}{kind_of_labels(y)} in y",
    }


def _columns_of(y, names):
    if names:
        return f"the columns {', '.join(map(str, names))} of "
    return "" if np.ndim(y) == 1 else f"rows of shape {np.shape(y)[1:]} of "


def kind_of_labels(y):
    """What labels are, in a word: "words", "numbers", "dates", or of mixed objects the names of
    their types.

    Labels that are missing do not count.
    """
    if sparse.issparse(y):
        return "numbers"
    y = as_array(y)
    if y.dtype.kind != "O":
        return {"U": "words", "S": "words", "T": "words", "M": "dates", "m": "times"}.get(
            y.dtype.kind, "numbers"
        )
    types = {type(label) for label in y.ravel().tolist() if not is_missing(label)}
    if types and all(issubclass(one, (bool, Number, np.bool_)) for one in types):
        return "numbers"
    if all(issubclass(one, str) for one in types):
        return "words"
    return " and ".join(sorted(one.__name__ for one in types))


def check_kind(y):
    """ValueError unless the labels are all words, all numbers, all dates or all times."""
    if (kind := kind_of_labels(y)) not in KINDS:
        raise ValueError(
            f"y must hold labels of one kind, {', '.join(KINDS[:-1])} or {KINDS[-1]}; got {kind}."
        )


def check_form(before, now, name, others):
    """ValueError where a part's form `now` is not the form `before` of the `others`."""
    for what in before:
        if now[what] != before[what]:
            raise ValueError(
                f"{name} has {now[what]}, but {others} has {before[what]}; give every part in the "
                "same form."
            )


def check_types(before, now, name, others):
    """ValueError where a part's types `now` are not the types `before` of the `others`."""
    for what in before:
        if now[what] != before[what]:
            raise ValueError(
                f"{name} has {what} of {now[what]}, but {others} has it of {before[what]}; give "
                "every part in the same "
                "types."
            )


def forms_of(X, y, weights):
    """The form of a part of one data set, and its types: what `check_alike` compares."""
    return form_of(X, y) | {"weights": f"{'no ' * (weights is None)}sample_weight"}, types_of(X, y)


def check_alike(before, now, name, others):
    """ValueError where the form or the types of a part are not those of the `others`."""
    check_form(before[0], now[0], name, others)
    check_types(before[1], now[1], name, others)
