"""Continual learning with a replay memory that a selector fills (Borsos et al. 2024, Section 4.1).

`VCL` and `views` need torch, which is imported when they are asked for.
"""

from importlib import import_module

from handful.continual.memory import Memory, ReplayBuffer

__all__ = ["Memory", "ReplayBuffer"]

NEED_TORCH = ("VCL", "views")


def __getattr__(name):
    if name in NEED_TORCH:
        module = import_module(f"handful.continual.{name.lower()}")
        return module.VCL if name == "VCL" else module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *NEED_TORCH})
