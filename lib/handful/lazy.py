"""Names of a package that need torch, which is imported when one of them is asked for."""

import sys
from pkgutil import resolve_name


def lazy_names(package, homes):
    """`__getattr__` and `__dir__` of a package some of whose names are imported only when they are asked for.

    Parameters
    ----------
    package : str, the package's `__name__`
    homes : dict of str, the module that defines each of these names, such as {"VCL": "handful.continual.vcl"}
    """

    def __getattr__(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return resolve_name(f"{homes[name]}:{name}")

    def __dir__():
        return sorted({*vars(sys.modules[package]), *homes})

    return __getattr__, __dir__
