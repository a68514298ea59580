"""Priors of a posterior: log densities, up to a constant, and what is known of their
derivatives."""

import numpy as np
from scipy import sparse

from handful.checks import check_vector
from handful.matching.differences import differences, slopes_by_differences
from handful.models.newton import bordered

# Of a prior that is a function alone no curvature of more parameters is taken by differences.
MOST_BY_DIFFERENCES = 1000


class Prior:
    """A log density of parameters as the model's methods take them; called with (K, p), it gives
    (K,)."""

    def __call__(self, theta):
        raise NotImplementedError

    def expansion(self, theta):
        """At parameters (p,), as `handful.models.newton` says."""
        raise NotImplementedError

    def slopes_along(self, theta, directions):
        """Slopes at parameters (K, p) along the columns of directions, shape (p, r): (K, r)."""
        raise NotImplementedError

    def slopes(self, theta):
        """Slopes at parameters (K, p), shape (K, p)."""
        p = theta.shape[1]
        return self.slopes_along(theta, np.eye(p))

    def slope_and_curvature(self, theta):
        """At parameters (p,): shape (p,), and a sparse matrix (p, p) of minus the second
        derivatives."""
        expansion = self.expansion(theta)
        slope = expansion[0, 1:]
        curvature = expansion[1:, 1:]
        return slope, sparse.csc_array(curvature)


class GaussianPrior(Prior):
    """Independent Gaussians of mean zero.

    Parameters
    ----------
    precision : shape (p,)
    outer : a linear map, shape (K, p) to (K, p), from the parameters to what is distributed so;
        None for that of equals
    """

    def __init__(self, precision, outer=None):
        self.precision = precision
        self.outer = np.array if outer is None else outer
        self.is_diagonal = outer is None

    def __call__(self, theta):
        return -0.5 * self.outer(theta) ** 2 @ self.precision

    def expansion(self, theta):
        """As `Prior.expansion`."""
        p = len(self.precision)
        to_outer = self.outer(np.eye(p))
        theta = theta[None]
        pull = self.precision * self.outer(theta)[0]
        curvature = (to_outer * self.precision) @ to_outer.T
        return bordered(self(theta)[0], -to_outer @ pull, curvature)

    def slopes_along(self, theta, directions):
        """As `Prior.slopes_along`."""
        pull = self.precision * self.outer(theta)
        return -pull @ self.outer(directions.T).T

    def slopes(self, theta):
        """As `Prior.slopes`."""
        if self.is_diagonal:
            return -self.precision * theta
        return super().slopes(theta)

    def slope_and_curvature(self, theta):
        """As `Prior.slope_and_curvature`."""
        if self.is_diagonal:
            curvature = sparse.diags_array(self.precision, format="csc")
            return -self.precision * theta, curvature
        return super().slope_and_curvature(theta)


class FunctionPrior(Prior):
    """A function of parameters that users see, shape (K, p) to (K,).

    Parameters
    ----------
    function : see above
    outer : as `Likelihood.outer`
    """

    def __init__(self, function, outer):
        self.function = function
        self.outer = outer

    def __call__(self, theta):
        return self.function(self.outer(theta))

    def expansion(self, theta):
        """As `Prior.expansion`, by differences."""
        p = len(theta)
        if p > MOST_BY_DIFFERENCES:
            raise ValueError(
                f"the prior of {p} parameters must be deviations, or that of a model of NumPyro or "
                f"PyMC: of a function no more than {MOST_BY_DIFFERENCES} are curved by differences."
            )
        every_pair = np.argwhere(np.tri(p))
        return differences(self, every_pair)(theta)

    def slopes_along(self, theta, directions):
        """As `Prior.slopes_along`, by differences."""
        return slopes_by_differences(self, theta, directions)


class ModelPrior(Prior):
    """The prior of a `WrittenModel`, which knows its derivatives."""

    def __init__(self, model):
        self.model = model

    def __call__(self, theta):
        return self.model.prior(theta)

    def expansion(self, theta):
        """As `Prior.expansion`."""
        value, slope, hessian = self.model.prior_derivatives(theta)
        return bordered(value, slope, -hessian)

    def slopes_along(self, theta, directions):
        """As `Prior.slopes_along`."""
        return self.slopes(theta) @ directions

    def slopes(self, theta):
        """As `Prior.slopes`."""
        return self.model.prior_slopes(theta)


def posterior_of(rows, prior):
    """The log density of the posterior of rows under a `Prior`, a function of parameters (K, p)."""

    def log_density(theta):
        return rows.sums(theta) + prior(theta)

    return log_density


def prior_of(model, prior, starts):
    """The `Prior` of a model.

    Parameters
    ----------
    model : Likelihood
    prior : deviation of a Gaussian, number or shape (p,), or function of parameters (K, p), that
        users see, which gives (K,)
    starts : shape (S, p), parameters as the model's methods take them, to try it

    Raises
    ------
    ValueError
        for a prior of another length or shape
    """
    p = starts.shape[1]
    if not callable(prior):
        moved = getattr(model, "shift", None) is not None
        outer = model.outer if moved else None
        return GaussianPrior(deviations_of(prior, p) ** -2.0, outer)
    if prior == getattr(model, "prior", None):
        return ModelPrior(model)
    found = FunctionPrior(prior, model.outer)
    got = np.shape(found(starts))
    if got != (len(starts),):
        raise ValueError(f"prior must give shape ({len(starts)},) for {starts.shape}, got {got}.")
    return found


def deviations_of(prior, p):
    """Deviations of a Gaussian prior as an array, shape (p,).

    Raises
    ------
    ValueError
        for others than one or p positive numbers
    """
    found = check_vector(np.atleast_1d(prior), "prior")
    if len(found) not in (1, p) or found.min() <= 0:
        raise ValueError(
            f"prior must hold positive deviations, one or {p}, got "
            f"{len(found)} from {found.min():g}: one of each parameter, intercepts last."
        )
    return np.broadcast_to(found, p)
