"""Names of a package that are imported when one of them is asked for: they need torch, or time."""

import sys
from importlib import import_module
from importlib.util import find_spec

from handful.running import warn


def module_with_torch(name, what):
    """A module that imports torch; where torch is missing, ImportError says `what` needs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"{what} needs torch: pip install torch.") from error


def lazy_names(package, homes, *, moved=None, gone=None):
    """`__getattr__` and `__dir__` of a package some of whose names are found only when they are
    asked for.

    Parameters
    ----------
    package : str
        The package's `__name__`.
    homes : dict of str
        The module that defines each of these names, such as {"network_views":
        "handful.continual.views"}; for a name that is itself a module of the package, that module:
        {"data": "handful.data"}.
    moved : dict of str, default=None
        For names of the release before, which work for one more with a FutureWarning: where their
        like is now, {"Joint": "handful.models.Joint"}.
    gone : dict of str, default=None
        For names that the package had until lately, where their like is now: the end of a sentence.
        To ask for one is an ImportError, which ``from package import name`` hands on, as it does no
        AttributeError.
    """
    moved = moved or {}
    gone = gone or {}

    def __getattr__(name):
        if name in gone:
            raise ImportError(f"{package}.{name} was removed: {gone[name]}", name=name)
        if name in moved:
            return _moved(f"{package}.{name}", moved[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # what it lacks is told: pkgutil would ask this function again
        home = module_with_torch(homes[name], name)
        return home if homes[name] == f"{package}.{name}" else getattr(home, name)

    def __dir__():
        # what needs torch is no submodule: where torch is missing, `help` must not ask for it
        there = (
            name
            for name, home in homes.items()
            if home == f"{package}.{name}" or find_spec("torch")
        )
        return sorted({*vars(sys.modules[package]), *there})

    return __getattr__, __dir__


def _moved(old, new):
    # What has the full name `new` now, with a FutureWarning for those who asked for the `old` one.
    home, _, name = new.rpartition(".")
    thing = getattr(module_with_torch(home, name), name)
    message = f"{old} is now {new}; the old name goes with the next release."
    # this function, the package's `__getattr__`, who asked
    warn(message, FutureWarning)
    return thing


class LazyModule:
    """A module of a package that the library does without, imported when something of it is asked
    for.

    Parameters
    ----------
    name : str, of the module; ImportError says how to get the package that it is in
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute):
        # what looks at any object, such as doctest, asks for nothing of the module
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        try:
            module = import_module(self._name)
        except ModuleNotFoundError as error:
            package = self._name.partition(".")[0]
            if error.name != package:
                raise
            raise ImportError(f"this needs {package}: pip install {package}.") from error
        return getattr(module, attribute)
