"""Throws one input at one public thing, and judges what comes back."""

import inspect
import re
import traceback
import warnings
import zlib
from dataclasses import fields, is_dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from fuzz.kinds import FAILS, WORKS, World

# Whose defaults need more rows, or more time, than an input has.
ALWAYS = ("X", "y", "size", "batch_size", "n_clusters", "n_classes", "n_kept", "test_size", "latent", "selector")
ALWAYS += ("n_steps", "n_epochs", "n_coreset_epochs", "n_init", "n_components")


class Surprise(AssertionError):
    """An input that neither worked nor was refused by name."""


class Entry(NamedTuple):
    """A public thing, the kinds of its arguments by name, and how it is used and checked."""

    thing: object
    arguments: dict
    run: object  # run(thing, arguments, world) -> result, of which all numbers must be finite
    check: object  # check(result, arguments, world): asserts what must hold, or None
    most_rows: int
    adjust: object  # adjust(world): changes the verdicts in world.cases that depend on one another, or None


def entry(thing, by_name, *, run=None, check=None, most_rows=30, adjust=None, without=(), **arguments):
    """The Entry of `thing`: a kind for each parameter, from `arguments` or else from `by_name`; KeyError without one.

    An argument of None is left out: at its default, or given by `run`.
    """
    without = {*without, *(name for name, kind in arguments.items() if kind is None)}
    own = {name: kind for name, kind in arguments.items() if kind is not None}
    for name in parameters(thing):
        if name not in own and name not in without:
            if name not in by_name:
                raise KeyError(f"{thing.__name__} has a parameter {name!r} for which the table names no kind.")
            own[name] = by_name[name]
    return Entry(thing, own, run or call, check, most_rows, adjust)


def parameters(thing):
    """The named parameters of a function or a class."""
    variable = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return {name: p for name, p in inspect.signature(thing).parameters.items() if p.kind not in variable}


def call(thing, arguments, world):
    """Calls a function, or makes an object of a class."""
    own = parameters(thing)
    return thing(**{name: value for name, value in arguments.items() if name in own})


def draw(entry, name, i):
    """The world and the cases of input `i`: none, one or two of them odd."""
    world = World(np.random.default_rng([zlib.crc32(name.encode()), i]), entry.most_rows)
    rng = world.rng
    names = list(entry.arguments)
    n_odd = min(len(names), int(rng.choice(4, p=[0.15, 0.55, 0.2, 0.1])))
    odd = set(rng.choice(names, size=n_odd, replace=False).tolist())
    own = parameters(entry.thing)
    for argument in names:
        optional = argument in own and own[argument].default is not inspect.Parameter.empty
        if argument in odd or not optional or rng.random() < 0.6 or argument in ALWAYS:
            world.cases[argument] = entry.arguments[argument](world, argument, argument in odd)
    if entry.adjust is not None:
        entry.adjust(world)
    return world


def throw(entry, name, i):
    """ "worked" or "refused"; Surprise for anything else.

    Parameters
    ----------
    entry : Entry
    name : str, of the thing; with `i` it seeds all that is drawn
    i : int, the number of the input
    """
    world = draw(entry, name, i)
    values = {argument: case.value for argument, case in world.cases.items()}
    odd = {argument: case for argument, case in world.cases.items() if case.verdict != WORKS}

    def surprise(what, error=None):
        shown = {k: _short(v) for k, v in values.items()}
        trace = "" if error is None else "".join(traceback.format_exception(error)[-6:])
        return Surprise(f"{name}, input {i}: {what}\n  with {shown}\n  odd: {sorted(odd)}\n{trace}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", DataConversionWarning)  # a column vector y, as in scikit-learn
        warnings.simplefilter("ignore", ConvergenceWarning)
        # scikit-learn's own: labels of 1e300, rows of 1e300 for its trees
        warnings.filterwarnings("ignore", "(invalid value|overflow) encountered in cast", module="sklearn")
        try:
            result = entry.run(entry.thing, values, world)
        except (ValueError, TypeError) as error:
            reasons = [case.names or rf"\b{argument}\b" for argument, case in odd.items()]
            if any(re.search(reason, str(error)) for reason in reasons):
                return "refused"
            raise surprise(f"{type(error).__name__}: {error} does not name {sorted(odd)}", error) from None
        except Exception as error:
            raise surprise(f"{type(error).__name__}: {str(error)[:300]}", error) from None
    wrong = [argument for argument, case in odd.items() if case.verdict == FAILS]
    if wrong:
        raise surprise(f"took {wrong}, gave {_short(result)}")
    if not finite(result):
        raise surprise(f"gave numbers that are not finite: {_short(result)}")
    if entry.check is not None:
        try:
            entry.check(result, values, world)
        except Exception as error:
            raise surprise(f"gave {_short(result)}, which should not be", error) from None
    return "worked"


def finite(value):
    """Whether all numbers in a result are finite: in arrays, tuples, dictionaries, data classes, learned attributes."""
    if isinstance(value, (tuple, list)):
        return all(map(finite, value))
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if sparse.issparse(value):
        return finite(value.data)
    if hasattr(value, "detach"):
        return bool(value.isfinite().all())
    if isinstance(value, (float, np.ndarray, np.generic)):
        value = np.asarray(value)
        return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
    if is_dataclass(value) and not isinstance(value, type):
        return all(finite(getattr(value, field.name)) for field in fields(value))
    if hasattr(value, "get_params"):
        learned = {k: v for k, v in vars(value).items() if k.endswith("_") and not k.startswith("_")}
        return finite(learned)
    return True


def _short(value):
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {np.array2string(value.ravel()[:4], precision=4)}"
    return repr(value)[:160].replace("\n", " ")
