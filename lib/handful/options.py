"""Options of the public classes, declared once: fields whose types say what they may be."""

import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import partial, wraps
from inspect import get_annotations, signature
from numbers import Integral
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from sklearn.base import BaseEstimator

from handful.checks import check_integer, check_number
from handful.running import warn
from handful.version import site_address


def integer(**limits):
    """What the type of an integer field is annotated with; limits as in `check_integer`."""
    return partial(check_integer, **limits)


def number(**limits):
    """What the type of a field that is a finite number is annotated with; limits as in
    `check_number`."""
    return partial(check_number, **limits)


# Words that options had in the release before, which work for one more.
OLD_WORDS = {"binary": "equal"}

Count: TypeAlias = Annotated[int, integer()]
CountOrZero: TypeAlias = Annotated[int, integer(least=0)]
Positive: TypeAlias = Annotated[float, number(above=0)]
NonNegative: TypeAlias = Annotated[float, number(least=0)]


@dataclass_transform(eq_default=False)
class Options(BaseEstimator):
    """Base class of what has options: a subclass declares them as fields of a dataclass, in place
    of `__init__`.

    ``size: Count = 100`` is an argument with a default; those after ``_: KW_ONLY`` are given by
    name. `check_options` asks the types: `Literal`, None, and what a type is annotated with,
    ``Annotated[float, number(above=0, below=1)]`` or ``Annotated[Any, check]`` with a function
    ``check(name, value, *, of)``; and whether a bool is one. Other types check nothing. A class
    attribute that is no option is not annotated, or is a `ClassVar`. A class that writes `__init__`
    itself keeps it. `_elsewhere` says of options that other libraries have what takes their place:
    it stands in the errors of the constructor and of `set_params`.
    """

    _elsewhere: ClassVar[dict[str, str]] = {}

    def _get_doc_link(self):
        # The class on the site, for its picture in notebooks; "" for classes that are not there,
        # and for an installation that knows no site.
        package, *parts = type(self).__module__.split(".")
        address = site_address()
        if package != "handful" or not address:
            return ""
        room = "handful" if len(parts) == 1 else f"handful.{parts[0]}"
        name = type(self).__name__
        # The reference lists what a package offers.
        if name not in dir(sys.modules[room]):
            return ""
        return f"{address}/reference/{room}.html#{room}.{name}"

    def __init_subclass__(cls, **given):
        if get_annotations(cls):
            own = "__init__" in vars(cls)
            dataclass(repr=False, eq=False)(cls)
            # readers see types without checks, unless one is known to type checkers alone
            with suppress(NameError):
                cls.__init__.__annotations__ = get_type_hints(cls.__init__) | {"return": None}
            if not own:
                cls.__init__ = explained(cls.__init__)
        super().__init_subclass__(**given)

    def set_params(self, **params: Any) -> Self:
        """Set options by name, those of parts as ``part__name``. The ValueError for an unknown name
        says what takes its place, as the TypeError of the constructor does."""
        known = self.get_params(deep=False)
        for name in params:
            own = name.partition("__")[0]
            if own not in known:
                said = f"Invalid parameter {own!r} for estimator {self}"
                end = _meant([own], list(self.get_params()), self._elsewhere, said)
                raise ValueError(f"{said}{end} Valid parameters are: {sorted(known)}.")
        return super().set_params(**params)


Method = TypeVar("Method", bound=Callable[..., object])

# What other libraries call an argument of ours: the first of these that there is, is meant.
SYNONYMS = {
    "rng": ("random_state", "seeds"),
    "seed": ("random_state", "rng", "seeds"),
    "random_state": ("rng", "seeds"),
    "n_seeds": ("seeds",),
    "size": ("n_clusters",),
    "k": ("size", "sizes", "n_clusters"),
    "m": ("size", "sizes", "n_clusters"),
    "budget": ("size", "sizes"),
    "n_clusters": ("size", "sizes"),
    "n_points": ("size", "sizes"),
    "n_rows": ("size", "sizes"),
    "n_samples": ("size", "sizes"),
    "alpha": ("l2",),
    "lam": ("l2",),
    "penalty": ("l2",),
    "reg": ("l2",),
    "ridge": ("l2",),
    "lr": ("learning_rate",),
    "batch": ("batch_size",),
    "epochs": ("n_epochs",),
    "steps": ("n_steps",),
    "cv": ("n_folds", "folds", "seeds"),
    "metric": ("scoring",),
    "model": ("problem", "estimator"),
    "selector": ("selectors",),
}


def explaining(elsewhere: dict[str, str] | None = None) -> Callable[[Method], Method]:
    """Decorator of a function, or of the `__init__` of a class, whose TypeErrors list the arguments
    and say what was meant by one that there is not.

    Parameters
    ----------
    elsewhere : what takes the place of arguments that other libraries have; None for what a class
        says in `_elsewhere`
    """

    def decorate(function):
        form = signature(function)
        known = [name for name in form.parameters if name != "self"]

        @wraps(function)
        def call(*args, **given):
            try:
                form.bind(*args, **given)
            except TypeError as error:
                of_class = function.__name__ == "__init__"
                owner = type(args[0]) if of_class else function
                places = elsewhere or getattr(owner, "_elsewhere", {})
                unknown = [name for name in given if name not in known]
                end = _meant(unknown, known, places, str(error))
                what = "options" if of_class else "arguments"
                raise TypeError(
                    f"{owner.__name__}: {error}{end} "
                    f"The {what} of {owner.__name__} are {', '.join(known)}."
                ) from None
            return function(*args, **given)

        return cast(Method, call)

    return decorate


# The decorator of what has no more to say of arguments than its class does.
explained = explaining()


def _meant(unknown, known, elsewhere, said):
    """The end of a sentence that has `said` something of unknown names: what is meant by the first
    of them of which that can be told."""
    for name in unknown:
        got = "" if repr(name) in said else f"; got {name!r}"
        if name in elsewhere:
            return f"{got}; {elsewhere[name]}."
        synonyms = [word for word in SYNONYMS.get(name, ()) if word in known]
        of_parts = [word for word in known if word.endswith(f"__{name}")]
        near = synonyms or of_parts or get_close_matches(name, known, n=1)
        if near:
            return f"{got}; did you mean {near[0]}?"
    return "."


@contextmanager
def restored(thing, errors=Exception):
    """Context in which one of `errors` leaves the attributes of `thing` as they were before it.

    Attributes that were changed in place stay changed, but for random generators, which are set
    back.
    """
    before = dict(vars(thing))
    generators = [value for value in before.values() if isinstance(value, np.random.Generator)]
    states = [generator.bit_generator.state for generator in generators]
    legacy = [value for value in before.values() if isinstance(value, np.random.RandomState)]
    legacy_states = [one.get_state() for one in legacy]
    try:
        yield
    except errors:
        vars(thing).clear()
        vars(thing).update(before)
        for generator, state in zip(generators, states):
            generator.bit_generator.state = state
        for one, state in zip(legacy, legacy_states):
            one.set_state(state)
        raise


def all_or_nothing(method: Method, errors: type[BaseException] = Exception) -> Method:
    """A method of an estimator which, where it raises an error, leaves the attributes as they
    were."""

    @wraps(method)
    def call(self, *args, **kwargs):
        with restored(self, errors):
            return method(self, *args, **kwargs)

    return cast(Method, call)


def check_options(thing):
    """ValueError unless the options of `thing` are what their types say; the first is named.

    They are the fields of a dataclass, such as `Options`; of another class, all that its body and
    its bases annotate.
    """
    if is_dataclass(thing):
        hints = {field.name: field.type for field in fields(thing)}
    else:
        hints = get_type_hints(type(thing), include_extras=True)
    for name, hint in hints.items():
        check_option(name, getattr(thing, name), hint, thing)


def check_option(name, value, hint, of):
    """ValueError unless `value` is what the type `hint` of a field of `of` says.

    A word of the release before still is, with a FutureWarning.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = _words(kinds)
    if value is None and NoneType in kinds:
        return
    now = current_word(value)
    is_word = any(type(now) is type(word) and now == word for word in words)
    if is_word:
        if now != value:
            said = f"{name}={value!r} of {type(of).__name__} is now {name}={now!r}; "
            said += "the old word goes with the next release."
            warn(said, FutureWarning)
        return
    others = [kind for kind in kinds if get_origin(kind) is not Literal and kind is not NoneType]
    if words and not others:
        raise ValueError(
            f"{name} of {type(of).__name__} must be one of {tuple(words)}, got {name}={value!r}."
        )
    _check_kinds(name, value, others, words, of)


def _check_kinds(name, value, kinds, words, of):
    """Ask the checks that some types are annotated with; the message says which words there are
    besides. A bool is checked without one."""
    if kinds == [bool] and not isinstance(current_word(value), Integral):
        raise ValueError(
            f"{name} of {type(of).__name__} must be True or False, got {name}={value!r}."
        )
    more = {}
    if words:
        more["why"] = f"it may also be {' or '.join(map(repr, words))}"
    for kind in kinds:
        for check in getattr(kind, "__metadata__", ()):
            check(name, value, of=of, **more)


def _words(kinds):
    # All that the `Literal` ones of some types allow.
    return [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]


def current_word(value):
    """What is given for an option, one of numpy's words and truths as Python's; a word of the
    release before as it is today."""
    if isinstance(value, np.str_ | np.bool_):
        value = value.item()
    return OLD_WORDS.get(value, value) if isinstance(value, str) else value


def named_option(option, value, names, base, example):
    """The object that an option means, checked.

    Parameters
    ----------
    option : str, its name
    value : a key of `names`, or an object
    names : dict of classes, whose objects with all defaults the names stand for; None for a name
        that leaves the choice to who asks, and is given back as None
    base : class of all objects that will do
    example : str, of one

    Raises
    ------
    ValueError
        for an unknown name, an object of another kind, and options of the object that make no sense
    """
    if isinstance(value, str) and value in names:
        kind = names[value]
        if kind is None:
            return None
        value = kind()
    if not isinstance(value, base):
        raise ValueError(
            f"{option} must be one of {tuple(names)}, or an object such as {example}, got "
            f"{value!r}."
        )
    check_options(value)
    return value
