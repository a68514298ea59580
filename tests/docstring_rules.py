"""What numpydoc finds amiss in the docstrings of the public classes and functions: `make lint`
prints it.

Its rules of formatting (GL), parameters (PR) and return values (RT) hold, but for these. Parameters
stand in the order of their importance, not in that of the bases that declare them (PR03), and the
closing quotes stand where ruff puts them (GL02). Members of classes are not asked yet.
"""

import importlib
import inspect
import pkgutil
import sys

import handful

EXCEPT = {"GL02", "PR03"}


def public_things():
    """The full name of each public class and function, once."""
    rooms = [f"handful.{m.name}" for m in pkgutil.iter_modules(handful.__path__) if m.ispkg]
    found = {}
    for room in ["handful", *rooms]:
        package = importlib.import_module(room)
        for name in package.__all__:
            thing = getattr(package, name)
            is_error = inspect.isclass(thing) and issubclass(thing, BaseException)
            if not is_error:
                found.setdefault(thing, f"{room}.{name}")
    return list(found.values())


def faults():
    """A line for each fault: the name, numpydoc's code, and what it says."""
    from numpydoc.validate import validate

    return [
        f"{name}: {code} {said}"
        for name in public_things()
        for code, said in validate(name)["errors"]
        if code[:2] in ("GL", "PR", "RT") and code not in EXCEPT
    ]


if __name__ == "__main__":
    print(*faults(), sep="\n")
    sys.exit(bool(faults()))
