"""Inner problems: what will be trained on the coreset, and the protocol for a user's own."""

from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from handful.checks import ConvergenceError, check_memory
from handful.lazy import module_with_torch
from handful.models.base import Model, predicted_decrease
from handful.models.newton import bordered, newton
from handful.options import Options, check_options

# A `solve` ends where a step promises less than this share of the objective, or after so many
# steps.
ENOUGH = 1e-13
MAX_ITER = 200
# Gradients or Hessians of rows are held in blocks of so many entries.
BLOCK_ENTRIES = 1 << 22
# The outer Hessian is estimated on so many rows; more change the choices little.
CURVATURE_ROWS = 4096
# A problem with neither a `loss` in torch nor a `Model` of its own must implement these.
NEEDED = ("losses", "gradients", "hessian")


class Problem(Options):
    """Base class of inner problems: `BilevelCoreset` selects for any model that one describes.

    A model with parameters theta, shape (p,), has a loss for every row and a penalty. A subclass
    declares its hyper-parameters as fields and implements `loss`, of one row, in torch, which takes
    the derivatives. The penalty is ``l2 / 2 |theta|^2`` unless the subclass has a `penalty` of its
    own. Without torch, it implements `losses`, `gradients` and `hessian` of many rows instead.
    Penalties that are not quadratic with their minimum at zero, and losses that are not convex,
    need a `solve` of their own.

    Everything works with p x p matrices and reads all rows once a step: p up to some hundreds.

    Examples
    --------
    Poisson regression (rows x, counts y, mean exp(x' theta)):

    >>> from handful import BilevelCoreset
    >>> class Poisson(Problem):
    ...     l2: float = 1e-2
    ...
    ...     def losses(self, theta, X, y):
    ...         return np.exp(X @ theta) - y * (X @ theta)
    ...
    ...     def gradients(self, theta, X, y):
    ...         return (np.exp(X @ theta) - y)[:, None] * X
    ...
    ...     def hessian(self, theta, X, y, weights):
    ...         return (X.T * (weights * np.exp(X @ theta))) @ X + self.l2 * np.eye(X.shape[1])
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = rng.poisson(np.exp(X @ [0.5, -0.5, 0.2]))
    >>> coreset = BilevelCoreset(Poisson(), size=20, random_state=0).fit(X, y)
    >>> len(coreset.indices_)
    20

    The same with torch, whose operations take the place of those three methods::

        class Poisson(Problem):
            l2: float = 1e-2

            def loss(self, theta, x, y):
                return torch.exp(x @ theta) - y * (x @ theta)
    """

    # `fit` refuses y=None
    needs_y = True
    takes_sparse = False
    # whether y holds classes, of which each must be among the chosen rows
    classifies = False
    # rounds of forward selection without a batch size; None adds one point a round
    n_rounds: ClassVar[Any] = None
    # whether it supports forward selection by the linear rule with equal weights only
    forward_only = False
    # whether the parts of a joint problem take turns
    alternate = False

    def check(self):
        """ValueError if a hyper-parameter is not what the type of its field says."""
        check_options(self)

    def encode(self, y):
        """Targets in the coding that the other methods expect; None for problems without (`needs_y
        = False`)."""
        return y

    def check_targets(self, y):
        """ValueError for targets, as the user gave them, that no model can have."""
        self.encode(y)

    def model(self, rows, rng, *, ihvp=None, weighted=False):
        """The `Model` of this problem, without rows as yet; a `GenericModel`, unless a subclass has
        a better one.

        Parameters
        ----------
        rows : OuterRows, with targets as the user gave them, which the model takes as
            `OuterRows.encoded` gives them
        rng : numpy.random.Generator, for samples of rows
        ihvp : InverseHessian, or None for the problem's own way
        weighted : whether weights will be optimised, for which losses are compared: inner problems
            are solved further
        """
        return GenericModel(self, rows.encoded(self), rng, ihvp)

    def near_zero(self, rows):
        """The same `OuterRows`, or rows nearer to zero, where more digits are left, if that changes
        no choice of rows."""
        return rows

    def start(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Parameters from which the first inner problem is solved, shape (p,); zeros, one for each
        column of X."""
        return np.zeros(X.shape[1])

    def loss(self, theta: Any, x: Any, y: Any) -> Any:
        """Loss of one row, a number, by operations of torch on tensors: theta, shape (p,), x, shape
        (d,), and y."""
        raise NotImplementedError

    def penalty(self, theta: Any) -> Any:
        """The penalty, a number, by operations of torch: ``l2 / 2 |theta|^2``, of a problem with a
        `loss` in torch."""
        return 0.5 * self.l2 * (theta**2).sum()

    def penalty_at(self, theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
        """The penalty of parameters, a number: `penalty`, or without a `loss` in torch the
        quadratic form of the `hessian` of zero weights."""
        if type(self).loss is not Problem.loss:
            return _torch_model().penalty_of(self, theta)
        no_weights = np.zeros(len(X))
        penalty = self.hessian(theta, X, y, no_weights)
        return float(0.5 * theta @ penalty @ theta)

    def has_quadratic_penalty(
        self, theta: np.ndarray, curvature: np.ndarray, X: np.ndarray, y: np.ndarray
    ) -> bool:
        """Whether `penalty_at` these parameters is ``theta' curvature theta / 2`` above its value
        at zero, as `solve` takes it to be; `curvature` is the `hessian` of zero weights."""
        # The rows only say how many columns there are.
        one = X[:1], None if y is None else y[:1]
        of_zero = self.penalty_at(np.zeros_like(theta), *one)
        rise = self.penalty_at(theta, *one) - of_zero
        expected = theta @ curvature @ theta / 2
        return bool(np.isclose(rise, expected, rtol=1e-6, atol=1e-9 * abs(of_zero)))

    def losses(self, theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Loss of every row, without the penalty, shape (n,)."""
        return _torch_model().by_rows(self, "losses", theta, X, y)

    def gradients(self, theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Gradient of every row's loss by the parameters, shape (n, p); callers give few rows at a
        time."""
        return _torch_model().by_rows(self, "gradients", theta, X, y)

    def row_hessians(self, theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Second derivative of every row's loss, shape (n, p, p); callers give few rows at a
        time."""
        if type(self).loss is not Problem.loss:
            return _torch_model().by_rows(self, "hessians", theta, X, y)
        n = len(X)
        one = np.ones(1)
        penalty = self.hessian(theta, X, y, np.zeros(n))
        found = np.empty((n, *penalty.shape))
        for i in range(n):
            row = slice(i, i + 1)
            target = None if y is None else y[row]
            found[i] = self.hessian(theta, X[row], target, one)
        return found - penalty

    def hessian(
        self, theta: np.ndarray, X: np.ndarray, y: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Second derivative of ``sum_i weights_i loss_i + penalty``, shape (p, p); zero weights
        give the penalty's."""
        H = _torch_model().penalty_hessian(self, theta)
        step = 1 + BLOCK_ENTRIES // len(theta) ** 2
        alive = np.flatnonzero(weights)
        for first in range(0, len(alive), step):
            rows = alive[first : first + step]
            if len(rows):
                targets = None if y is None else y[rows]
                own = self.row_hessians(theta, X[rows], targets)
                H = H + np.tensordot(weights[rows], own, axes=1)
        return H

    def solve(
        self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, start: np.ndarray | None = None
    ) -> np.ndarray:
        """Minimiser of ``sum_i weights_i loss_i(theta) + penalty(theta)``, shape (p,).

        Damped Newton steps, for convex losses and a quadratic penalty with its minimum at zero.

        Parameters
        ----------
        X, y : the rows, shape (s, d) and (s,)
        weights : shape (s,), non-negative, adding up to 1
        start : where to start, e.g. the solution for other weights; `self.start(X, y)` for None

        Raises
        ------
        ConvergenceError
            if steps end short of the tolerance
        ValueError
            for another penalty
        """
        theta = self.start(X, y) if start is None else start
        zero = np.zeros_like(theta)
        penalty = self.hessian(theta, X, y, np.zeros(len(weights)))

        def objective(theta):
            loss = weights @ self.losses(theta, X, y)
            return loss + 0.5 * theta @ penalty @ theta

        def gradient(theta):
            slope = weights @ self.gradients(theta, X, y)
            return slope + penalty @ theta

        def expansion(theta):
            H = self.hessian(theta, X, y, weights)
            return -bordered(objective(theta), gradient(theta), -H)

        size = max(abs(objective(theta)), abs(objective(zero)))
        unit = max(
            np.abs(gradient(theta)).max(),
            np.abs(gradient(zero)).max(),
            np.finfo(float).tiny,
        )
        left = np.inf
        gain = np.inf
        with suppress(ConvergenceError):
            _, theta, root = newton(expansion, theta, enough=ENOUGH * size, max_iter=MAX_ITER)
            slope = gradient(theta)
            left = np.abs(slope).max() / unit
            # What one more step promises: where the start is the solution, `unit` is but rounding.
            gain = np.sum((root.T @ slope) ** 2)
        is_solved = left <= 1e-6 or gain <= ENOUGH * abs(objective(theta))
        if not is_solved:
            raise ConvergenceError(
                f"the inner problem {self!r} on {len(weights)} points was not solved in {MAX_ITER} "
                "Newton steps "
                f"(gradient {left:.1e} of the largest): scale the features or raise the penalty."
            )
        if not self.has_quadratic_penalty(theta, penalty, X, y):
            raise ValueError(
                f"the penalty of {type(self).__name__} is not quadratic with its minimum at zero: "
                "write a solve(X, y, weights, start) of its own, or move its parameters so that "
                "the minimum is at zero."
            )
        return theta


def _torch_model():
    return module_with_torch("handful.models.torch_model", "a Problem with a loss in torch")


class GenericModel(Model):
    """A growing coreset of a user's problem, at a cost of p^3 and n p a step.

    Parameters
    ----------
    problem, data, ihvp : as in `Model`
    rng : numpy.random.Generator, for the rows of the outer Hessian
    """

    def __init__(self, problem, data, rng, ihvp=None):
        super().__init__(problem, data, ihvp)
        self.theta = None
        self._sample = data.sample(CURVATURE_ROWS, rng)
        self._u = data.share

    def fit(self, weights=None):
        """As `Model.fit`; the problem's own `solve` and `hessian` do it."""
        s = len(self)
        c = np.full(s, 1.0 / s) if weights is None else weights
        X, y = self.data.at(self.indices)
        if self.theta is None:
            p = len(self.problem.start(X, y))
            way_out = (
                "a model with so many parameters needs a `Model` of its own, as "
                "handful.models.Network has"
            )
            what = f"the Hessian of {type(self.problem).__name__}, {p:,} x {p:,},"
            check_memory(what, 32 * p**2, way_out)
        self.theta = self._finite("solve", None, X, y, c, start=self.theta)
        p = len(self.theta)
        self.weights = c
        self._hessian = self._finite("hessian", (p, p), self.theta, X, y, c)
        damped = self._hessian + self.ihvp.damping * np.eye(p)
        try:
            self._factor = cho_factor(damped)
        except LinAlgError:
            least = eigvalsh(self._hessian)[0]
            raise ConvergenceError(
                f"the Hessian of {self.problem!r} on {s} points is not positive definite (least "
                "eigenvalue "
                f"{least:.1e}), so that it gives no implicit gradient: raise the penalty, or "
                "damping (now "
                f"{self.ihvp.damping:g})."
            ) from None

    def _finite(self, method, shape, *arguments, **options):
        # what a method of the problem gives, if that is of this shape, one-dimensional for None,
        # and finite
        asked = getattr(self.problem, method)
        values = np.asarray(asked(*arguments, **options), dtype=np.float64)
        shape = (values.size,) if shape is None else shape
        is_finite = np.isfinite(values)
        if values.shape != shape or not is_finite.all():
            raise ConvergenceError(
                f"{type(self.problem).__name__}.{method} must give finite numbers of shape "
                f"{shape}, got shape "
                f"{values.shape} with {np.count_nonzero(~is_finite)} entries that are "
                "not finite."
            )
        return values

    def _stretches(self, rows, entries=None):
        # rows, few enough at a time that arrays of so many entries a row fit into memory:
        # gradients, for None
        entries = entries or max(len(self.theta), 1)
        step = max(1, BLOCK_ENTRIES // entries)
        for lo in range(0, len(rows), step):
            yield rows[lo : lo + step]

    def _gradients(self, rows):
        X, y = self.data.at(rows)
        return self.problem.gradients(self.theta, X, y)

    def mean_loss(self):
        """As `Model.mean_loss`."""
        rows = self.data
        losses = self._finite("losses", self._u.shape, self.theta, rows.X, rows.y)
        loss = float(self._u @ losses)
        if rows.penalised:
            X, y = rows.at(self.indices)
            loss += self.problem.penalty_at(self.theta, X, y)
        return loss

    def outer_gradient(self):
        """As `Model.outer_gradient`."""
        g = np.zeros(len(self.theta))
        for rows in self._stretches(np.flatnonzero(self._u)):
            g += self._u[rows] @ self._gradients(rows)
        if self.data.penalised:
            g = g + self._penalty_gradient()
        return g

    def _penalty_gradient(self):
        # at the solution it balances that of the losses
        return -self.weights @ self._gradients(self.indices)

    def hessian_product(self, v):
        """As `Model.hessian_product`."""
        return self._hessian @ v

    def inverse_hessian(self, g):
        """As `Model.inverse_hessian`."""
        if self.ihvp.exact:
            return cho_solve(self._factor, g)
        return super().inverse_hessian(g)

    def row_slopes(self, v):
        """As `Model.row_slopes`."""
        scores = np.empty(len(self._u))
        for rows in self._stretches(np.arange(len(scores))):
            scores[rows] = self._gradients(rows) @ v
        return scores

    def predicted_gains(self, candidates, *, free_weights=False):
        """As `Model.predicted_gains`, by one Newton step of the problem with each row."""
        s = len(self)
        X, y = self.data.at(self.indices)
        rows = self._gradients(candidates)
        pull = self._penalty_gradient()
        penalty = self.problem.hessian(self.theta, X, y, np.zeros(s))
        whole = self.problem.hessian(self.theta, X, y, self.weights)
        data = s * (whole - penalty)
        H_out = self.outer_hessian()
        slope = np.empty(len(candidates))
        curvature = np.empty(len(candidates))
        every = np.arange(len(candidates))
        for part in self._stretches(every, len(pull) ** 2):
            more, more_y = self.data.at(candidates[part])
            own = self.problem.row_hessians(self.theta, more, more_y)
            system = data + s * penalty + own
            rhs = rows[part] + pull
            solved = np.linalg.solve(system, rhs[:, :, None])
            steps = solved[:, :, 0]
            slope[part] = steps @ self.gradient
            bent = steps @ H_out
            curvature[part] = np.einsum("kp,kp->k", bent, steps)
        return predicted_decrease(slope, curvature, free_weights)

    def outer_hessian(self):
        """Hessian of the outer loss at the current parameters, on a sample of rows, shape (p,
        p)."""
        X, y = self.data.at(self._sample)
        u = self._u[self._sample]
        u = u / u.sum()
        hessian = self.problem.hessian(self.theta, X, y, u)
        if self.data.penalised:
            return hessian
        penalty = self.problem.hessian(self.theta, X, y, 0 * u)
        return hessian - penalty

    def weight_quadratic(self):
        """As `Model.weight_quadratic`, by the derivative of the solution by the weights (Equation
        3)."""
        gradients = self._gradients(self.indices)
        jacobian = -cho_solve(self._factor, gradients.T)
        curvature = jacobian.T @ self.outer_hessian() @ jacobian
        slope = self.gradient @ jacobian
        return curvature, slope


def has_losses(problem):
    """Whether a problem gives the losses of rows at any parameters: Network and Joint do not."""
    loss = type(problem).loss
    by_row = callable(loss) and loss is not Problem.loss
    return by_row or type(problem).losses is not Problem.losses


def check_problem(problem):
    """Refuse what cannot be selected for.

    Raises
    ------
    TypeError
        for a `Problem` that lacks methods
    ValueError
        for what is no problem, and parameters that make no sense
    """
    if not isinstance(problem, Problem):
        way = ""
        if isinstance(problem, type):
            way = f": give {problem.__name__}(...)"
        elif hasattr(problem, "state_dict"):
            way = ": a torch module goes into handful.models.Network(module)"
        elif hasattr(problem, "fit"):
            way = ": for an estimator there is AnyEstimatorCoreset(estimator)"
        raise ValueError(
            "problem must be a Logistic or a LeastSquares or another Problem or a Joint of them, "
            "got "
            f"{' '.join(repr(problem).split())}{way}."
        )
    if type(problem).model is Problem.model:
        _check_methods(problem)
    problem.check()


def _check_methods(problem):
    """TypeError for a `Problem` with the generic model that lacks methods or a penalty."""
    in_torch = type(problem).loss is not Problem.loss
    if in_torch and type(problem).penalty is Problem.penalty and not hasattr(problem, "l2"):
        raise TypeError(
            f"{type(problem).__name__} must have a field l2, such as l2: float = 1e-2, or a method "
            "penalty(theta) of its own: see handful.models.Problem."
        )
    if not in_torch:
        methods = {name: getattr(problem, name) for name in NEEDED}
        missing = [
            name
            for name, m in methods.items()
            if getattr(m, "__func__", None) is getattr(Problem, name)
        ]
        if missing:
            raise TypeError(
                f"{type(problem).__name__} must implement {', '.join(NEEDED)} to be selected for, "
                "and lacks "
                f"{', '.join(missing)}; or a loss in torch alone: see handful.models.Problem."
            )
