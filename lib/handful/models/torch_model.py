"""Models by torch: a growing coreset of a network, scored by minibatched implicit gradients
(Section 3.5.1), and the derivatives of a `Problem` whose `loss` of one row is written in torch."""

from contextlib import contextmanager

import numpy as np
import torch
from torch.func import functional_call, grad, hessian, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from handful.checks import ConvergenceError
from handful.models.base import Model
from handful.models.inverse import ConjugateGradients, NeumannSeries

# upper limit of the random scores that rows get where the outer gradient is zero
NO_GAIN = 1e-300


class NetworkModel(Model):
    """A growing coreset of a `Network`, for forward selection by the linear rule with equal
    weights.

    All derivatives are taken in evaluation mode: dropout is off, batch normalisation has its
    running averages.

    Parameters
    ----------
    problem : Network
    data : OuterRows
    ihvp : InverseHessian; None is a `NeumannSeries`

    Attributes
    ----------
    module : torch.nn.Module, trained; theta : tensor, its parameters that ask for gradients, in one
        vector
    """

    def __init__(self, problem, data, ihvp=None):
        super().__init__(problem, data, NeumannSeries() if ihvp is None else ihvp)
        if self.ihvp.exact:
            raise ValueError(
                f"ihvp={self.ihvp!r} needs the whole Hessian, which is out of reach for a network: "
                "take 'neumann' or "
                "'cg'."
            )
        self._u = data.share
        self._X = torch.as_tensor(np.ascontiguousarray(data.X))
        self._y = torch.as_tensor(data.y)
        self.module = self.theta = None

    # Training.

    def _rng(self, purpose):
        # one for each purpose in each round
        return np.random.default_rng((self.problem.random_state, purpose, len(self)))

    def _rows(self, rows):
        rows = torch.as_tensor(np.asarray(rows))
        device = self.problem.device
        X = self._X[rows].to(device)
        y = self._y[rows].to(device)
        return X, y

    def _batches(self, rows):
        size = self.problem.batch_size
        for low in range(0, len(rows), size):
            part = rows[low : low + size]
            X, y = self._rows(part)
            yield part, X, y

    def fit(self, weights=None):
        """Train the network from scratch on the coreset; weights must be equal."""
        if weights is not None and np.ptp(weights) > 1e-12:
            raise ValueError("a Network trains with equal weights only: take weighting='equal'.")
        is_first = self.module is None
        X, y = self._rows(self.indices)
        self.module = self.problem.fit_module(X, y, self._rng(0))
        trained = {}
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                trained[name] = parameter.detach()
        self._shapes = {name: p.shape for name, p in trained.items()}
        flat = [p.ravel() for p in trained.values()]
        self.theta = torch.cat(flat)
        if is_first:
            self._X, self._y = self.problem.in_type_of(self.module, self._X, self._y)
            row, _ = self._rows([0])
            # all classes of the data count, also those without a chosen row
            with torch.no_grad():
                outputs = self.module(row)
                self.problem.check_outputs(outputs, self._y)

    def _outputs(self, theta, X):
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = theta.split(sizes)
        parameters = {}
        for part, (name, shape) in zip(parts, self._shapes.items()):
            parameters[name] = part.view(shape)
        return functional_call(self.module, parameters, (X,))

    def _losses(self, theta, X, y):
        return self.problem.row_losses(self._outputs(theta, X), y)

    # Products: vectors are float64 arrays of shape (p,), whatever the module's type and device.

    def _tensor(self, vector):
        return torch.from_numpy(vector).to(self.theta.device, self.theta.dtype)

    def outer_gradient(self):
        """As `Model.outer_gradient`, shape (p,)."""
        total = 0.0
        for rows, X, y in self._batches(np.flatnonzero(self._u)):
            u = torch.as_tensor(self._u[rows], device=X.device)

            def weighted_loss(theta, X=X, y=y, u=u):
                losses = u * self._losses(theta, X, y)
                return losses.sum()

            total = total + grad(weighted_loss)(self.theta)
        return _vector(total + self._outer_decay * self.theta)

    @property
    def _outer_decay(self):
        return self.problem.training().weight_decay if self.data.penalised else 0.0

    @torch.no_grad()
    def mean_loss(self):
        """As `Model.mean_loss`."""
        total = 0
        for rows, X, y in self._batches(np.flatnonzero(self._u)):
            losses = self._losses(self.theta, X, y)
            total = total + self._u[rows] @ _vector(losses)
        penalty = 0.5 * self._outer_decay * (self.theta @ self.theta)
        return float(total + penalty)

    def hvp(self, rng):
        """The function ``v -> H v``: curvature of the inner problem on a minibatch.

        Conjugate gradients, which are for one matrix, have the same minibatch in every call, the
        Neumann series, which averages, a fresh one.
        """
        size = min(self.problem.curvature_batch_size, len(self))
        chosen = np.array(self.indices)
        decay = self.problem.training().weight_decay
        if isinstance(self.ihvp, ConjugateGradients):
            chosen = rng.choice(chosen, size, replace=False)

        def hvp(vector):
            batch = chosen
            if size < len(chosen):
                batch = rng.choice(chosen, size, replace=False)
            X, y = self._rows(batch)
            v = self._tensor(vector)

            def outputs_of(theta):
                return self._outputs(theta, X)

            def loss_of(outputs):
                return self.problem.row_losses(outputs, y).mean()

            with _forward_mode():
                if self.problem.curvature == "hessian":
                    _, product = jvp(
                        grad(lambda theta: loss_of(outputs_of(theta))),
                        (self.theta,),
                        (v,),
                    )
                else:
                    outputs, tangent = jvp(outputs_of, (self.theta,), (v,))
                    _, loss_hvp = jvp(grad(loss_of), (outputs,), (tangent,))
                    _, pull_back = vjp(outputs_of, self.theta)
                    (product,) = pull_back(loss_hvp)
            return _vector(product) + decay * vector

        return hvp

    def hessian_product(self, v):
        """As `Model.hessian_product`, on the round's first minibatch."""
        return self.hvp(self._rng(1))(v)

    def inverse_hessian(self, g):
        """As `Model.inverse_hessian`; ConvergenceError where a Neumann series diverges."""
        # the network fits all rows to the last digit
        if not g.any():
            return g
        hvp = self.hvp(self._rng(1))
        if isinstance(self.ihvp, ConjugateGradients):
            return self.ihvp.solve(hvp, g)
        n_terms = self.ihvp.n_terms
        damping = self.ihvp.damping
        with np.errstate(over="ignore", invalid="ignore"):
            direction = self.ihvp.solve(hvp, g)
        # If no curvature is negative, each of the terms is at most |g| over the largest one, hence
        # at most this:
        length = np.linalg.norm(direction)
        image = hvp(g) + damping * g
        longest = g @ g / np.linalg.norm(image)
        # twice, since minibatches differ
        if not length <= 2 * n_terms * longest:
            raise ConvergenceError(
                f"the Neumann series on {len(self)} points diverged (length {length:.2g} after "
                f"{n_terms} "
                "terms): the Hessian is not positive; take curvature='gauss-newton', or a damping."
            )
        return direction

    def row_slopes(self, v):
        """As `Model.row_slopes`; noise where the network fits all rows, so that no place in X is
        favoured."""
        scores = np.empty(len(self._u))
        if not self.gradient.any():
            return self._rng(2).uniform(0.0, NO_GAIN, len(scores))
        v = self._tensor(v)
        for rows, X, y in self._batches(np.arange(len(scores))):

            def losses(theta, X=X, y=y):
                return self._losses(theta, X, y)

            with _forward_mode():
                _, slopes = jvp(losses, (self.theta,), (v,))
            scores[rows] = _vector(slopes)
        return scores


@contextmanager
def _forward_mode():
    """Torch's derivatives in forward mode, along the paths that have them: attention has others."""
    was_fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    except NotImplementedError as error:
        raise ValueError(
            "module and loss must be made of what torch differentiates in forward mode, as LSTM "
            f"and huber_loss on the CPU are not: {error}"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(was_fast)


def _vector(tensor):
    # numpy has no bfloat16
    return tensor.detach().cpu().double().numpy()


def by_rows(problem, kind, theta, X, y):
    """What torch makes of the loss of every row.

    Parameters
    ----------
    problem : Problem
    kind : "losses", shape (n,); "gradients", (n, p); or "hessians", (n, p, p)
    theta, X, y : as in `Problem.losses`

    Raises
    ------
    ValueError
        if `loss` does not give one number by torch's operations
    """
    of_row = {
        "losses": problem.loss,
        "gradients": grad(problem.loss, 0),
        "hessians": hessian(problem.loss, 0),
    }[kind]
    theta = _tensor(theta)
    X = _tensor(X)
    y = _tensor(y)
    try:
        axis_of_y = None if y is None else 0
        of_rows = vmap(of_row, (None, 0, axis_of_y))
        values = of_rows(theta, X, y)
        if kind == "losses" and values.ndim != 1:
            raise ValueError(f"it gives shape {tuple(values.shape[1:])}")
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"{type(problem).__name__}.loss(theta, x, y) must give one number for a row x of shape "
            f"{tuple(X.shape[1:])} and theta of shape {tuple(theta.shape)}, by operations of "
            f"torch: {error}"
        ) from error
    return values.numpy()


def penalty_of(problem, theta):
    """The penalty, a float."""
    return float(problem.penalty(_tensor(theta)))


def penalty_hessian(problem, theta):
    """Second derivative of the penalty, shape (p, p)."""
    second = hessian(problem.penalty)
    return second(_tensor(theta)).detach().numpy()


def _tensor(array):
    if array is None:
        return None
    array = np.asarray(array)
    kind = array.dtype.kind
    if kind not in "biuf":
        raise ValueError(
            f"a loss in torch takes numbers, got {array.dtype}: turn the labels into numbers in "
            "the problem's `encode`."
        )
    # Small integers would wrap where a loss asks for 2 * y - 1.
    dtype = {"f": np.float64, "b": bool}.get(kind, np.int64)
    return torch.from_numpy(np.array(array, dtype=dtype))
