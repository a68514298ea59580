"""Hashes that tell functions apart by what they do, not by their names: results that are kept in
files outlive the code that gave them."""

import pickle
import sys
from functools import cache
from inspect import getclosurevars
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType

from joblib.hashing import NumpyHasher

from handful.version import __version__

INSTALLED = {"site-packages", "dist-packages"}


def code_hash(function, *given):
    """A hash of what the results of a function depend on: its code, what it reads beside its
    arguments, and the arguments given.

    The user's own functions count by their code, their defaults and the variables that they read,
    which may be functions again, and the user's own classes by their methods and constants.
    Functions of installed packages count by their names and code, and the library by its version
    too.

    Raises
    ------
    pickle.PicklingError
        if the function reads what cannot be pickled
    """
    try:
        return _CodeHasher(function).hash([__version__, function, given])
    except (TypeError, AttributeError, ValueError) as error:
        raise pickle.PicklingError(str(error)) from error


class _CodeHasher(NumpyHasher):
    """As joblib's, which goes by the names of functions and classes."""

    def __init__(self, function):
        super().__init__("md5")
        plain = getattr(function, "__func__", function)
        self.home = plain.__module__ if isinstance(plain, FunctionType) else None
        self.seen = set()

    def save(self, obj):
        super().save(self._told_apart(obj))

    def _told_apart(self, obj):
        # What is saved in place of an object whose name says too little, or too much.
        if isinstance(obj, ModuleType):
            return obj.__name__
        if isinstance(obj, frozenset):
            # joblib sorts sets alone
            return set(obj)
        if isinstance(obj, FunctionType):
            return self._once(obj, _code_of, _read_by)
        if isinstance(obj, type):
            return self._once(obj, _bases_of, _held_by) if self._is_own(obj) else obj
        # what numba, JAX or functools have made of a function
        inner = getattr(obj, "__wrapped__", None) if callable(obj) else None
        return [type(obj).__qualname__, inner] if isinstance(inner, FunctionType) else obj

    def _once(self, obj, briefly, wholly):
        parts = [obj.__module__, obj.__qualname__]
        # One that reads itself has an end.
        if id(obj) not in self.seen:
            self.seen.add(id(obj))
            parts += [briefly(obj), wholly(obj) if self._is_own(obj) else None]
        return parts

    def _is_own(self, obj):
        return obj.__module__ == self.home or _is_own(obj.__module__)


@cache
def _is_own(module):
    """Whether a module is neither Python's nor installed: a script or notebook, say, or one beside
    them."""
    if module is None or module.partition(".")[0] in {*sys.stdlib_module_names, "handful"}:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not INSTALLED & set(Path(file).parts)


def _read_by(function):
    """What a function reads beside its arguments: its defaults, variables around it by name, those
    of the modules among them, and its attributes."""
    around = function.__globals__
    names = sorted(_names(function.__code__))
    read = {name: around[name] for name in names if name in around}
    read |= getclosurevars(function).nonlocals
    # also those that the function imports itself
    modules = [*read.values(), *map(sys.modules.get, names)]
    defaults = function.__defaults__, function.__kwdefaults__
    return defaults, read, _of_modules(names, modules), _attributes(function)


def _attributes(function):
    """What was set on a function by name, such as the implementations of a singledispatch."""
    return {
        name: dict(value) if isinstance(value, MappingProxyType) else value
        for name, value in vars(function).items()
        if name != "__wrapped__"
    }


def _of_modules(names, modules):
    """What the user's own modules, and those in them, hold under some names: a dict by module."""
    found = {}
    for module in modules:
        is_new = isinstance(module, ModuleType) and module.__name__ not in found
        if is_new and _is_own(module.__name__):
            held = {name: vars(module)[name] for name in names if name in vars(module)}
            found[module.__name__] = held
            # which the loop comes to
            modules.extend(held.values())
    return found


def _names(code):
    """Names that code asks for, those in functions and comprehensions within it included."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _code_of(function):
    return _instructions(function.__code__)


def _instructions(code):
    # Instructions and what they name, without lines and paths, which differ from one notebook to
    # the next.
    constants = [_instructions(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.co_code, code.co_names, constants


def _bases_of(cls):
    return cls.__mro__[1:]


def _held_by(cls):
    """The methods, properties and constants of a class by name."""
    held = {}
    for name, value in vars(cls).items():
        if isinstance(value, property):
            held[name] = value.fget, value.fset
        elif isinstance(value, FunctionType) or not name.startswith(("__", "_abc_")):
            held[name] = getattr(value, "__func__", value)
    return held
