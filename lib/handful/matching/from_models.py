"""Rows of models that are written for NumPyro, PyMC and Stan; each package is imported on use."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from handful.matching.model_rows import ModelRows
from handful.types import Seed


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    size: int | None = None,
    tol: float = 1e-3,
    random_state: Seed = None,
    **kwargs: Any,
) -> ModelRows:
    """Rows of a NumPyro model whose posterior is that of all rows, and the same model for its
    sampler."""
    written = _module("numpyro_model", "numpyro").NumPyroModel(model, args, kwargs)
    return ModelRows(written, size=size, tol=tol, random_state=random_state)


def from_pymc(
    model: Any, *, size: int | None = None, tol: float = 1e-3, random_state: Seed = None
) -> ModelRows:
    """Rows of a PyMC model whose posterior is that of all rows, and the same model on them."""
    written = _module("pymc_model", "pymc").PyMCModel(model)
    return ModelRows(written, size=size, tol=tol, random_state=random_state)


def _module(name, package):
    try:
        return import_module(f"handful.matching.{name}")
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(f"from_{package} needs {package}: pip install {package}.") from error
