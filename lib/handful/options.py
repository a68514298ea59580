"""Options of the public classes, declared once: fields whose types say what they may be."""

from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import partial, wraps
from inspect import get_annotations, signature
from types import NoneType, UnionType
from typing import (
    Annotated,
    ClassVar,
    Literal,
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


def integer(**limits):
    """What the type of an integer field is annotated with; limits as in `check_integer`."""
    return partial(check_integer, **limits)


def number(**limits):
    """What the type of a field that is a finite number is annotated with; limits as in
    `check_number`."""
    return partial(check_number, **limits)


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
    ``check(name, value, *, of)``. Other types check nothing. A class attribute that is no option is
    not annotated, or is a `ClassVar`. A class that writes `__init__` itself keeps it. `_elsewhere`
    says of options that other libraries have what takes their place: it ends the message of a
    TypeError.
    """

    _elsewhere: ClassVar[dict[str, str]] = {}

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


Method = TypeVar("Method", bound=Callable[..., object])


def explained(init: Method) -> Method:
    """An `__init__` whose TypeErrors name the class and its options, and what was meant by one that
    it does not have.

    That is what the class says of the name in `_elsewhere`, else the option that is spelt most like
    it.
    """
    form = signature(init)

    @wraps(init)
    def __init__(self, *args, **options):
        try:
            form.bind(self, *args, **options)
        except TypeError as error:
            known = [name for name in form.parameters if name != "self"]
            elsewhere = getattr(self, "_elsewhere", {})
            way_out = [_meant(name, known, elsewhere) for name in options if name not in known]
            name = type(self).__name__
            raise TypeError(
                f"{name} {error}{''.join(way_out)}. The options of {name} are {', '.join(known)}."
            ) from None
        init(self, *args, **options)

    return cast(Method, __init__)


def _meant(name, known, elsewhere):
    # The end of a message on an option that a class does not have, "" where nothing is like it.
    if name in elsewhere:
        return f"; {elsewhere[name]}"
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


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


def all_or_nothing(method: Method) -> Method:
    """A method of an estimator which, where it raises an error, leaves the attributes as they
    were."""

    @wraps(method)
    def call(self, *args, **kwargs):
        with restored(self):
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
    """ValueError unless `value` is what the type `hint` of a field of `of` says."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    others = [kind for kind in kinds if get_origin(kind) is not Literal and kind is not NoneType]
    if (value is None and NoneType in kinds) or any(
        type(value) is type(word) and value == word for word in words
    ):
        return
    if words and not others:
        raise ValueError(
            f"{name} of {type(of).__name__} must be one of {tuple(words)}, got {name}={value!r}."
        )
    more = dict(why=f"it may also be {' or '.join(map(repr, words))}") if words else {}
    for check in [check for kind in others for check in getattr(kind, "__metadata__", ())]:
        check(name, value, of=of, **more)
