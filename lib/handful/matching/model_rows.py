"""Rows of a model that somebody wrote for a sampler: chosen, handed back as the same model, and
checked.

What a package for Bayesian models has to say of a model, `WrittenModel` lists.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize

from handful.matching.draws import stacked
from handful.matching.importance_check import DrawsReport
from handful.matching.likelihoods import LEAST_ROWS, Likelihood
from handful.matching.matched_coreset import MatchedCoreset
from handful.models.newton import bordered
from handful.types import Seed

# Half the range of the parameters where the search for a mode starts, its most steps, and how often
# it starts.
NEAR_ZERO = 0.3
STEPS = 1000
TRIES = 10


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
    near: np.ndarray

    def __init__(self, n: int, shapes: dict[str, tuple[int, ...]]):
        super().__init__(self)
        self.n = n
        self.shapes = shapes

    def start(self, rows):
        """As `Likelihood.start`."""
        return self.near

    def __call__(self, theta, X):
        return self.of_rows(theta, X[:, 0].astype(np.int64))

    def of_rows(self, theta, rows):
        """Log-likelihoods, shape (K, k), at parameters (K, p) of the rows of these numbers, shape
        (k,)."""
        raise NotImplementedError

    def prior(self, theta):
        """Log densities, shape (K,), of the prior at parameters (K, p)."""
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

    def weighted(self, indices, weights):
        """The model on some rows with weights, and its arguments by position and by name."""
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
        if isinstance(draws, np.ndarray):
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

    def _outside(self, rows, theta):
        """Which of the draws' variables have no unconstrained value."""
        first = np.flatnonzero(~np.isfinite(theta).all(1))[0]
        at = {name: array[first].round(4).tolist() for name, array in rows.items()}
        return (
            "draws must be as the sampler gives them, of constrained variables: draw "
            f"{first} lies outside of the support of the model, or is not finite: {at}."
        )


def padded(rows, w):
    """Numbers of rows and their weights, a power of two of them: few shapes for a compiler."""
    count = max(LEAST_ROWS, 1 << (len(rows) - 1).bit_length())
    pad = np.minimum(np.arange(count), len(rows) - 1)
    return rows[pad], np.append(w, np.zeros(count - len(rows)))


def nearby_mode(negative, p):
    """Parameters (p,) near a mode, of minus the log density and its slope, a function of
    parameters (p,).

    The search starts near zero, and again from elsewhere where it ends at nothing finite.
    """
    rng = np.random.default_rng(0)
    for _ in range(TRIES):
        start = rng.uniform(-NEAR_ZERO, NEAR_ZERO, p)
        if not np.isfinite(negative(start)[0]):
            continue
        found = minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        if np.isfinite(found.fun) and np.isfinite(found.x).all():
            return found.x
    raise ValueError(
        "the density of the model is not finite near its unconstrained parameters of zero: look "
        "for observations outside of the support of their distribution."
    )


def by_name(draws):
    """Arrays by name, of a dict, a sampler that has run, or ArviZ's InferenceData or DataTree."""
    if hasattr(draws, "get_samples"):
        return draws.get_samples(group_by_chain=True)
    posterior = getattr(draws, "posterior", None)
    if posterior is None and hasattr(draws, "children"):
        posterior = draws["posterior"]
    found = draws if posterior is None else posterior
    if not hasattr(found, "keys"):
        raise TypeError(
            "draws must be a dict of arrays, a sampler that has run, ArviZ's InferenceData or "
            f"DataTree, or an array of unconstrained parameters, got {type(draws).__name__}."
        )
    variables = getattr(found, "data_vars", found)
    return {name: np.asarray(variables[name]) for name in variables}


def _leading(name, array, shape):
    """The dimensions before those of the variable: (S,) or (chains, S)."""
    before = array.ndim - len(shape)
    if before not in (1, 2) or array.shape[before:] != shape:
        raise ValueError(
            f"draws of {name} must have shape (draws, *{shape}) or (chains, draws, *{shape}), got "
            f"{array.shape}."
        )
    return array.shape[:before]


class ModelRows:
    """Rows of a model, whose posterior is that of all rows; the sampler gets the same model.

    Made by `from_numpyro` and `from_pymc`.

    Attributes
    ----------
    model_ : the model, with the weights on the sites that have an entry a row
    args_, kwargs_ : its arguments by position and by name, on the chosen rows (NumPyro)
    start_ : dict, a mode of the posterior: values by name where a sampler may start
    indices_, weights_ : the chosen rows, ascending, and their weights
    kl_ : estimated divergence (nats) of the rows' posterior from that of all rows
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
        self.model_, self.args_, self.kwargs_ = written.weighted(self.indices_, self.weights_)

    def __repr__(self):
        return (
            f"{len(self.indices_)} of {self._written.n} rows; estimated divergence from the "
            f"posterior of all rows {self.kl_:.1g} nats\n{self.coreset_.laplace_}"
        )

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


def written_rows(written: WrittenModel, size: int | None, tol: float, random_state: Seed):
    """The `ModelRows` of a model."""
    return ModelRows(written, size=size, tol=tol, random_state=random_state)
