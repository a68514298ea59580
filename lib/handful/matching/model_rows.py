"""Rows of a model that somebody wrote for a sampler: chosen, handed back as the same model, and
checked.

What a package for Bayesian models has to say of a model, `WrittenModel` lists.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from handful.checks import as_real, check_integer
from handful.matching.differences import evenly
from handful.matching.draws import stacked
from handful.matching.importance_check import DrawsReport, check_log_weights
from handful.matching.likelihoods import Likelihood
from handful.matching.matched_coreset import MatchedCoreset
from handful.matching.model_faults import impossible
from handful.matching.recombine import recombine
from handful.models.newton import bordered
from handful.tables import as_array

# So many parameters are named in a message.
MOST_NAMED = 5
# Half the range of the parameters where the search for a mode starts, its most steps, and how often
# it starts.
NEAR_ZERO = 0.3
STEPS = 1000
TRIES = 10
# So many starts are of the full range, and each further one is by so much nearer to zero.
FULL_TRIES = 4
SHRINK = 10.0


class WrittenModel(Likelihood):
    """A model whose log-likelihoods by row, prior and transforms its package knows.

    Parameters are flat and unconstrained, shape (p,). What stands for X is one column, the rows'
    numbers.

    Parameters
    ----------
    n : int, rows
    shapes : dict of str, the shape of each latent variable as draws have it

    Attributes
    ----------
    near : shape (p,), close to a mode
    """

    has_slopes = True
    # `ModelRows` prints what Laplace gives, and the log need not.
    is_printed = True
    near: np.ndarray
    to_a_mode = (
        "centre and scale the data, give narrower priors, and look for an index that lies beyond "
        "the end of its array"
    )
    # What keeps a row that has a gap, in words.
    masking = ""

    def __init__(self, n: int, shapes: dict[str, tuple[int, ...]]):
        super().__init__(self)
        self.n = n
        self.shapes = shapes

    def start(self, rows):
        """As `Likelihood.start`."""
        return self.near

    def find_near(self, negative):
        """Set `near` by `nearby_mode`.

        Raises
        ------
        ValueError
            where no parameters are possible, with the reason
        """
        found = nearby_mode(negative, self.p)
        if found is None:
            thetas = starts_near_zero(self.p)
            tried = [self.terms(theta) for theta in [np.zeros(self.p), *thetas]]
            raise ValueError(impossible(tried, self.data(), self.n, self.masking))
        self.near = found

    def terms(self, theta):
        """The `Term`s of the log density at parameters (p,), always in the same order."""
        raise NotImplementedError

    def data(self):
        """The arrays that the model reads, by what they are called."""
        raise NotImplementedError

    def named(self, numbers):
        """As `Likelihood.named`: by the variable, and the place of the element in it."""
        names = np.array(self._names())[numbers]
        shown = ", ".join(names[:MOST_NAMED])
        more = ", ..." if len(names) > MOST_NAMED else ""
        return f"parameter{'s' if len(names) > 1 else ''} {shown}{more}"

    def _names(self):
        """A name of each parameter; the elements of a variable whose transform changes its shape
        share one."""
        names = []
        for site, part in self.by_site(np.arange(self.p)).items():
            of_element = part.shape and part.shape == self.shapes[site]
            for place in np.ndindex(part.shape):
                names.append(f"{site}{list(place)}" if of_element else site)
        return names

    def by_site(self, theta):
        """Unconstrained values by name of parameters (p,), whose order this is."""
        raise NotImplementedError

    def __call__(self, theta, X):
        return self.of_rows(theta, X[:, 0].astype(np.int64))

    def of_rows(self, theta, rows):
        """Log-likelihoods, shape (K, k), at parameters (K, p) of the rows of these numbers, shape
        (k,)."""
        raise NotImplementedError

    def prior(self, theta):
        """Log densities, shape (K,), of the prior at parameters (K, p)."""
        raise NotImplementedError

    def prior_slopes(self, theta):
        """Slopes of the prior's log density at parameters (K, p), shape (K, p)."""
        raise NotImplementedError

    def prior_derivatives(self, theta):
        """Value, slope (p,) and Hessian (p, p) of the prior's log density at parameters (p,)."""
        raise NotImplementedError

    def derivatives_of(self, theta, rows, w):
        """Value, slope (p,) and Hessian (p, p) of the weighted sum over rows at parameters (p,)."""
        raise NotImplementedError

    def slopes_of(self, theta, rows, w):
        """Slopes, shape (K, p), of the weighted sum over rows at parameters (K, p)."""
        raise NotImplementedError

    def unconstrained(self, draws):
        """Parameters, shape (S, p), of draws as samplers give them: name to array (S, ...)."""
        raise NotImplementedError

    def constrained(self, theta):
        """Values by name of parameters (p,)."""
        raise NotImplementedError

    def as_sampled(self, theta):
        """Values by name, each of shape (S, ...), of parameters (S, p)."""
        each = [self.constrained(one) for one in theta]
        return {name: np.stack([values[name] for values in each]) for name in each[0]}

    def weighted(self, indices, weights, form):
        """The model on some rows with weights, and its arguments by position and by name.

        `form` is a `QuadraticForm` of unconstrained parameters that the model adds to its log
        density, or None.
        """
        raise NotImplementedError

    def expansion(self, theta, X, y, w):
        """As `LinearLikelihood.expansion`."""
        value, slope, hessian = self.derivatives_of(theta, X[:, 0].astype(np.int64), w)
        return bordered(value, slope, -hessian)

    def slopes(self, theta, X, y, w):
        """As `LinearLikelihood.slopes`."""
        return self.slopes_of(theta, X[:, 0].astype(np.int64), w)

    def flat(self, draws):
        """Parameters, shape (chains, S, p) or (S, p), of draws as `ModelRows.check` takes them."""
        if hasattr(draws, "shape") and not hasattr(draws, "keys"):
            draws = as_array(draws)
            self._check_width(draws)
            return draws
        named = {}
        for name, array in by_name(draws).items():
            if name in self.shapes:
                named[name] = np.asarray(array)
        if missing := sorted(set(self.shapes) - set(named)):
            raise ValueError(
                f"draws must hold every latent variable of the model, got none of {missing}; there "
                f"are {sorted(by_name(draws))}."
            )
        leading = {name: _leading(name, array, self.shapes[name]) for name, array in named.items()}
        sizes = set(leading.values())
        if len(sizes) > 1:
            raise ValueError(f"draws must be as many of each variable, got {leading}.")
        (size,) = sizes
        rows = {
            name: array.reshape(-1, *self.shapes[name]).astype(float)
            for name, array in named.items()
        }
        # what lies outside of a support is told below
        with np.errstate(all="ignore"):
            theta = self.unconstrained(rows)
        if not np.isfinite(theta).all():
            raise ValueError(self._outside(rows, theta))
        return theta.reshape(*size, theta.shape[1])

    def _check_width(self, draws):
        if draws.ndim < 2 or draws.shape[-1] != self.p:
            raise ValueError(
                "an array of draws is of unconstrained parameters, shape (draws, p) or (chains, "
                f"draws, p) for {self.named(range(self.p))} (p = {self.p}), got {draws.shape}: "
                "give a dict of arrays by name for what the sampler gives."
            )

    def _outside(self, rows, theta):
        """Which of the draws' variables have no unconstrained value."""
        first = np.flatnonzero(~np.isfinite(theta).all(1))[0]
        at = {name: array[first].round(4).tolist() for name, array in rows.items()}
        return (
            "draws must be as the sampler gives them, of constrained variables: draw "
            f"{first} lies outside of the support of the model, or is not finite: {at}."
        )


def nearby_mode(negative, p):
    """Parameters (p,) near a mode, of minus the log density and its slope, a function of
    parameters (p,).

    The search starts near zero, and again from elsewhere where it ends at nothing finite. None
    where nothing is found.
    """
    for start in starts_near_zero(p):
        if not np.isfinite(negative(start)[0]):
            continue
        found = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS},
        )
        if np.isfinite(found.fun) and np.isfinite(found.x).all():
            return found.x
    return None


def starts_near_zero(p):
    """Parameters where a search may start, shape (TRIES, p): nearer and nearer to zero, as columns
    that are not scaled make densities overflow."""
    rng = np.random.default_rng(0)
    widths = NEAR_ZERO * SHRINK ** -np.maximum(0, np.arange(TRIES) - FULL_TRIES)
    return widths[:, None] * rng.uniform(-1, 1, (TRIES, p))


def group(draws, name):
    """A group of ArviZ's InferenceData or DataTree as a mapping of arrays; None of anything
    else."""
    if hasattr(draws, "children"):
        draws = {child: draws[child] for child in draws.children}
        found = draws.get(name)
    else:
        found = getattr(draws, name, None)
    return None if found is None else getattr(found, "data_vars", found)


def by_name(draws):
    """Arrays by name, of a dict, a sampler that has run, or ArviZ's InferenceData or DataTree."""
    if hasattr(draws, "get_samples"):
        try:
            return draws.get_samples(group_by_chain=True)
        except AssertionError as error:
            raise ValueError(
                "the sampler has not run: mcmc.run(key, *rows.args_, **rows.kwargs_)."
            ) from error
    variables = group(draws, "posterior")
    if variables is None:
        variables = getattr(draws, "data_vars", draws)
    if not hasattr(variables, "keys"):
        raise TypeError(
            "draws must be a dict of arrays, a sampler that has run, ArviZ's InferenceData or "
            f"DataTree, or an array of unconstrained parameters, got {type(draws).__name__}."
        )
    return {name: np.asarray(variables[name]) for name in variables}


def _leading(name, array, shape):
    """The dimensions before those of the variable: (S,) or (chains, S)."""
    before = array.ndim - len(shape)
    if before not in (1, 2) or array.shape[before:] != shape:
        sizes = ", ".join(["draws", *map(str, shape)])
        raise ValueError(
            f"draws of {name} must have shape ({sizes}) or (chains, {sizes}), got {array.shape}."
        )
    return array.shape[:before]


class ModelRows:
    """Rows of a model, whose posterior is that of all rows; the sampler gets the same model.

    Made by `from_numpyro` and `from_pymc`.

    Attributes
    ----------
    model_ : the model, with the weights on the sites that have an entry a row, and with `form_`
        if there is one
    args_, kwargs_ : its arguments by position and by name, on the chosen rows (NumPyro)
    laplace_ : as that of `MatchedCoreset`, its draws a dict by name, constrained, as samplers give
        them
    start_ : dict, a mode of the posterior: values by name where a sampler may start
    indices_, weights_ : the chosen rows, ascending, and their weights
    kl_ : estimated divergence (nats) of the rows' posterior from that of all rows
    form_ : with ``remainder="quadratic"``, the form of unconstrained parameters that `model_` adds;
        None without
    coreset_ : the fitted `MatchedCoreset`, of unconstrained parameters
    """

    def __init__(self, written: WrittenModel, **options: Any):
        self._written = written
        self._numbers = np.arange(written.n, dtype=float)[:, None]
        self.coreset_ = MatchedCoreset(written, at="posterior", prior=written.prior, **options).fit(
            self._numbers
        )
        self.indices_ = self.coreset_.indices_
        self.weights_ = self.coreset_.weights_
        self.kl_ = self.coreset_.kl_
        self.start_ = written.constrained(self.coreset_.modes_[0])
        self.form_ = self.coreset_.form_
        laplace = self.coreset_.laplace_
        self.laplace_ = replace(laplace, draws=written.as_sampled(laplace.draws))
        weighted = written.weighted(self.indices_, self.weights_, self.form_)
        self.model_, self.args_, self.kwargs_ = weighted

    def __repr__(self):
        near = f"estimated divergence from the posterior of all rows {self.kl_:.1g} nats"
        if np.isnan(self.kl_):
            near = "how near their posterior is to that of all rows could not be estimated"
        n = self._written.n
        return f"{len(self.indices_)} of {n} rows; {near}\n{self.laplace_}"

    def check(self, draws: Any) -> DrawsReport:
        """Whether draws made on the rows are draws from the posterior of all rows; print it.

        Parameters
        ----------
        draws : as the sampler gives them, of constrained variables: a dict of arrays (draws, ...)
            or (chains, draws, ...), a NumPyro MCMC that has run, ArviZ's InferenceData or DataTree.
            An array is of unconstrained parameters, (S, p) or (chains, S, p)

        Returns
        -------
        `DrawsReport`

        Raises
        ------
        ValueError
            for less than 100 draws, a variable that is missing, and values outside of its support
        """
        return self.coreset_.check(self._written.flat(draws), self._numbers)

    def log_likelihood(self, draws: Any) -> np.ndarray:
        """Log-likelihoods of all rows, shape (S, n), at draws as `check` takes them, for
        leave-one-out."""
        return self.coreset_.log_likelihood(stacked(self._written.flat(draws)), self._numbers)


class LogLikRows:
    """Rows that keep log-likelihoods at some draws; made by `from_log_lik`.

    Attributes
    ----------
    indices_, weights_ : the chosen rows, ascending, and their weights
    residual_ : largest error of a sum that was matched, relative
    """

    def __init__(self, log_lik: Any, size: int):
        values = by_row(log_lik)
        check_integer("size", size, least=2)
        some = evenly(np.arange(len(values)), size - 1)
        ones = np.ones(values.shape[1])
        # a sum and differences: draws that are near one another lose no digits
        differences = values[some[1:]] - values[some[:1]]
        features = np.column_stack([ones, values[some[0]], differences.T])
        self._n = values.shape[1]
        self.indices_, self.weights_, self.residual_ = recombine(features)

    def check(self, log_lik: Any) -> DrawsReport:
        """Whether the rows are fine at draws that were made on them: give log-likelihoods of all
        rows there, as `from_log_lik` takes them.

        Raises
        ------
        ValueError
            for another number of rows, and less than 100 draws
        """
        values = by_row(log_lik)
        if values.shape[1] != self._n:
            raise ValueError(
                f"log_lik must be of all {self._n} rows, got {values.shape[1]}: of the few rows "
                "alone nothing can be said."
            )
        return check_log_weights(values.sum(1) - values[:, self.indices_] @ self.weights_)


def by_row(log_lik):
    """Log-likelihoods, shape (draws, n), of an array or of the group of ArviZ."""
    variables = group(log_lik, "log_likelihood")
    if variables is not None:
        arrays = [np.asarray(variables[name]) for name in variables]
        if without := [name for name, array in zip(variables, arrays) if array.ndim < 3]:
            raise ValueError(
                f"log_lik must have an entry for each row, shape (chains, draws, n, ...), but "
                f"{without[0]!r} has none: it is a sum, or of one row."
            )
        if len({array.shape[:3] for array in arrays}) != 1:
            raise ValueError(
                "log_lik must be of the same rows in each variable, got shapes "
                f"{[array.shape for array in arrays]}."
            )
        # several variables of a row, or several columns of one
        log_lik = sum(array.reshape(*array.shape[:3], -1).sum(-1) for array in arrays)
    values = as_real(log_lik, "log_lik")
    if values.ndim not in (2, 3) or not values.size:
        raise ValueError(
            f"log_lik must have shape (draws, n) or (chains, draws, n), got {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError("log_lik must be finite: leave out draws that are impossible.")
    return values.reshape(-1, values.shape[-1])
