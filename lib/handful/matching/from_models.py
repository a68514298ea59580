"""Rows of models that are written for NumPyro, PyMC and Stan; each package is imported on use."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

from handful.matching.model_rows import LogLikRows, ModelRows
from handful.matching.pymc_model import PyMCModel
from handful.types import Seed


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    size: int | None = None,
    tol: float = 1e-3,
    remainder: Literal["quadratic"] | None = None,
    random_state: Seed = None,
    **kwargs: Any,
) -> ModelRows:
    """Rows of a NumPyro model whose posterior is that of all rows, and the same model on them.

    The model says the log-likelihood of each row, the prior and the transforms; nothing is written
    twice. Arguments that have an entry a row are those of the greatest common length, and the model
    has to run on some of them: the number of rows comes from its arguments, such as ``len(y)`` (a
    number that is that length counts along). Observed and factor sites with an entry a row are
    weighted, by name and nothing else; masks and scales stay. What else the model observes is part
    of its prior.

    Parameters
    ----------
    model : callable
        A function with NumPyro's primitives.
    *args, **kwargs : array, or dict and tuple of arrays
        Its arguments, on all rows.
    size, tol, remainder, random_state : options of MatchedCoreset
        An argument of the model that has such a name goes by position.

    Returns
    -------
    ModelRows
        Sample ``NUTS(rows.model_)`` on ``*rows.args_, **rows.kwargs_``, then print
        ``rows.check(mcmc)``.

    Raises
    ------
    ValueError
        with the reason, for a plate that takes a subsample, a discrete latent variable or one for
        each row, a factor that is a sum over rows, a prior that hangs on rows, and a row whose
        log-likelihood hangs on others
    ImportError
        without NumPyro

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> from handful.matching import from_numpyro
    >>> def model(X, y):
    ...     beta = numpyro.sample("beta", dist.Normal(0, 1).expand([2]))
    ...     with numpyro.plate("rows", len(y)):
    ...         numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)
    >>> X = np.random.default_rng(0).normal(size=(3000, 2))
    >>> rows = from_numpyro(model, X, (X[:, 0] > 0.3).astype(int), random_state=0)
    >>> len(rows.indices_), rows.kl_ < 1e-3
    (11, True)
    """
    try:
        home = import_module("handful.matching.numpyro_model")
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "numpyro"):
            raise
        raise ImportError("from_numpyro needs numpyro: pip install numpyro.") from error
    written = home.NumPyroModel(model, args, kwargs)
    options = dict(size=size, tol=tol, remainder=remainder, random_state=random_state)
    return ModelRows(written, **options)


def from_pymc(
    model: Any,
    *,
    size: int | None = None,
    tol: float = 1e-3,
    remainder: Literal["quadratic"] | None = None,
    random_state: Seed = None,
) -> ModelRows:
    """Rows of a PyMC model whose posterior is that of all rows, and the same model on them.

    Observed variables and potentials with an entry a row, along their first axis, are weighted;
    in `model_` potentials of the chosen rows stand for them, and deterministic variables with an
    entry a row are left out. What else the model observes is part of its prior.

    Parameters
    ----------
    model : pymc.Model
        With all of its data.
    size, tol, remainder, random_state : options of MatchedCoreset
        As there.

    Returns
    -------
    ModelRows
        Sample ``rows.model_``, then print ``rows.check(idata)``.

    Raises
    ------
    ValueError
        with the reason, for a minibatch, a discrete latent variable or one for each row, and a
        potential that is a sum over rows
    ImportError
        without PyMC

    Examples
    --------
    >>> import pymc as pm  # doctest: +SKIP
    >>> with pm.Model() as model:  # doctest: +SKIP
    ...     beta = pm.Normal("beta", 0, 1, shape=2)
    ...     pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    >>> rows = from_pymc(model, random_state=0)  # doctest: +SKIP
    >>> with rows.model_:  # doctest: +SKIP
    ...     idata = pm.sample(initvals=rows.start_)
    >>> print(rows.check(idata))  # doctest: +SKIP
    """
    options = dict(size=size, tol=tol, remainder=remainder, random_state=random_state)
    return ModelRows(PyMCModel(model), **options)


def from_log_lik(log_lik: Any, *, size: int = 500) -> LogLikRows:
    """Rows that keep the log-likelihoods of all rows at some draws, for models of Stan.

    Parameters
    ----------
    log_lik : array of shape (draws, n) or (chains, draws, n), InferenceData or DataTree
        Log-likelihoods by row at draws near the posterior (of Pathfinder, or of a short chain), as
        ``fit.stan_variable("log_lik")`` gives them; of ArviZ's containers the group
        `log_likelihood`.
    size : int, default=500
        Most rows; one more than the draws that are matched, which are spread over those given.

    Returns
    -------
    LogLikRows
        `indices_` and `weights_` for the data block of the model on the few rows, and
        ``check(log_lik)`` of all rows at the draws that it made.

    Raises
    ------
    ValueError
        for log-likelihoods of another shape, and what is not finite

    Examples
    --------
    >>> import numpy as np
    >>> from handful.matching import from_log_lik
    >>> rng = np.random.default_rng(0)
    >>> y, mean = rng.normal(size=2000), rng.normal(0, 0.03, size=(600, 1))
    >>> rows = from_log_lik(-0.5 * (y - mean[:50]) ** 2)
    >>> len(rows.indices_)
    3
    >>> rows.check(-0.5 * (y - mean[50:]) ** 2).verdict
    'use the draws'
    """
    return LogLikRows(log_lik, size)
