"""A growing coreset of a torch network, scored by minibatched implicit gradients (Section 3.5.1)."""

import numpy as np
import torch
from torch.func import functional_call, grad, jvp, vjp

from handful.bilevel.checkpoint import Checkpoint, digest
from handful.bilevel.ihvp import conjugate_gradients, neumann_series
from handful.bilevel.network import in_type
from handful.bilevel.newton import ConvergenceError

NO_GAIN = 1e-300  # below any score


class NetworkSelection:
    """A growing coreset of a `Network`, and what the outer loss says about every further row.

    Has the methods of `GenericSelection` that forward selection with equal weights asks for. All derivatives are taken
    in evaluation mode: dropout is off, batch normalisation has its running averages.

    Parameters
    ----------
    problem : Network
    rows : Rows
    ihvp : Ihvp; "auto" is "neumann"
    """

    max_candidates = 1 << 62  # scores are all there is, so every row is one

    def __init__(self, problem, rows, ihvp):
        if ihvp.method == "cholesky":
            raise ValueError(
                "ihvp='cholesky' needs the whole Hessian, which a network has not: take 'neumann' or 'cg'."
            )
        self.problem, self.ihvp, self.absent = problem, ihvp, rows.absent
        self.indices = []
        self._u = rows.sample_weight / rows.sample_weight.sum()
        self._X = torch.as_tensor(np.ascontiguousarray(rows.X))
        self._y = torch.as_tensor(rows.y)
        self.module = None
        self.partners = ()  # what else the choice depends on: other models of a Joint
        self._kept, self._rounds = None, 0

    def __len__(self):
        return len(self.indices)

    def add(self, indices):
        """Append rows to the coreset, and to the checkpoint if there is one."""
        self.indices += [int(i) for i in indices]
        if self.problem.checkpoint is None:
            return
        if self._kept is None:
            p = self.problem
            options = self.ihvp, p.training(), p.curvature, p.curvature_rows, p.seed, p.module, p.loss
            data = self._X, self._y, self._u, self.absent, self.indices
            self._kept = Checkpoint(p.checkpoint, digest(options, self.partners, data))
        self._kept.record(self._rounds, indices)
        self._rounds += 1

    def recall(self, count):
        """Rows of the next round, shape (count,), as an earlier run of the same task chose them; None if unknown."""
        return None if self._kept is None else self._kept.recall(self._rounds, count)

    def _rows(self, rows):
        rows = torch.as_tensor(np.asarray(rows))
        return self._X[rows].to(self.problem.device), self._y[rows].to(self.problem.device)

    def _blocks(self, rows):
        for low in range(0, len(rows), self.problem.block):
            part = rows[low : low + self.problem.block]
            yield part, *self._rows(part)

    def solve(self, weights=None):
        """Train the network from scratch on the coreset; weights must be equal."""
        if weights is not None and np.ptp(weights) > 1e-12:
            raise ValueError("a Network trains with equal weights only: take weighting='binary'.")
        first = self.module is None
        self.module = self.problem.fit_module(*self._rows(self.indices), (self.problem.seed, 0, len(self)))
        parameters = {name: p.detach() for name, p in self.module.named_parameters() if p.requires_grad}
        self._names, self._shapes = list(parameters), [p.shape for p in parameters.values()]
        self._theta = parameters
        if first:
            self._X = in_type(self._X, parameters[self._names[0]].dtype)
            with torch.no_grad():  # classes that no chosen row has count, too
                self.problem.check_outputs(self.module(self._rows([0])[0]), self._y)

    def _vector(self, tensors):
        return np.concatenate([tensors[name].detach().cpu().numpy().ravel() for name in self._names]).astype(np.float64)

    def _tensors(self, vector):
        # a float64 vector as tensors of the parameters' shapes and types
        out, low = {}, 0
        for name, shape in zip(self._names, self._shapes):
            like, size = self._theta[name], shape.numel()
            out[name] = torch.from_numpy(vector[low : low + size].reshape(shape)).to(like.device, like.dtype)
            low += size
        return out

    def _outputs(self, theta, X):
        return functional_call(self.module, theta, (X,))

    def _losses(self, theta, X, y):
        return self.problem.row_losses(self._outputs(theta, X), y)

    def outer_gradient(self):
        """Gradient of the mean outer loss, shape (p,)."""
        total = None
        for rows, X, y in self._blocks(np.flatnonzero(self._u)):
            u = torch.as_tensor(self._u[rows], device=X.device)
            part = grad(lambda theta, X=X, y=y, u=u: (u * self._losses(theta, X, y)).sum())(self._theta)
            total = part if total is None else {name: total[name] + part[name] for name in total}
        return self._vector(total)

    @torch.no_grad()
    def mean_loss(self):
        """Weighted mean of the outer losses at the current parameters."""
        blocks = self._blocks(np.flatnonzero(self._u))
        return float(sum(self._u[rows] @ self._losses(self._theta, X, y).cpu().numpy() for rows, X, y in blocks))

    def product(self, rng):
        """The function ``v -> H v``, float64: curvature of the inner problem on a minibatch.

        Conjugate gradients, which are for one matrix, have the same minibatch in every call, the Neumann series, which
        averages, a fresh one.
        """
        size = min(self.problem.curvature_rows, len(self))
        chosen, decay = np.array(self.indices), self.problem.training().weight_decay
        if self.ihvp.method == "cg":
            chosen = rng.choice(chosen, size, replace=False)

        def times(vector):
            X, y = self._rows(rng.choice(chosen, size, replace=False) if size < len(chosen) else chosen)
            v = self._tensors(vector)
            if self.problem.curvature == "hessian":
                gradient = grad(lambda theta: self._losses(theta, X, y).mean())
                _, image = jvp(gradient, (self._theta,), (v,))
            else:
                outputs, slopes = jvp(lambda theta: self._outputs(theta, X), (self._theta,), (v,))
                _, bent = jvp(grad(lambda o: self.problem.row_losses(o, y).mean()), (outputs,), (slopes,))
                image = vjp(lambda theta: self._outputs(theta, X), self._theta)[1](bent)[0]
            return self._vector(image) + decay * vector

        return times

    def row_scores(self):
        """First-order score of every row, shape (n,): ``grad l_k' v`` with ``v = H^-1 grad g`` (Equation 5)."""
        self.gradient = self.outer_gradient()
        self.direction = self._solve(self.gradient, np.random.default_rng((self.problem.seed, 1, len(self))))
        v = self._tensors(self.direction)
        scores = np.empty(len(self._u))
        for rows, X, y in self._blocks(np.arange(len(scores))):
            _, slopes = jvp(lambda theta, X=X, y=y: self._losses(theta, X, y), (self._theta,), (v,))
            scores[rows] = slopes.cpu().numpy()
        return scores

    def _solve(self, g, rng):
        if not g.any():  # the network fits all rows to the last digit
            return g
        product, damping = self.product(rng), self.ihvp.damping

        def damped(v):
            return product(v) + damping * v

        if self.ihvp.method == "cg":
            return conjugate_gradients(damped, g, steps=self.ihvp.steps)
        with np.errstate(over="ignore", invalid="ignore"):
            direction = neumann_series(damped, g, terms=self.ihvp.steps)
        # If no curvature is negative, each of the terms is at most |g| over the largest one, hence at most this:
        length, longest = np.linalg.norm(direction), g @ g / np.linalg.norm(damped(g))
        if not length <= 2 * self.ihvp.steps * longest:  # twice, since minibatches differ
            raise ConvergenceError(
                f"the Neumann series on {len(self)} points diverged (length {length:.2g} after {self.ihvp.steps} "
                "terms): the Hessian is not positive; take curvature='gauss-newton', or a damping."
            )
        return direction

    def linear_scores(self):
        """`row_scores`, -inf for rows that are chosen already or may not be."""
        scores = self.row_scores()
        if not self.gradient.any():  # no row promises anything: any will do, and not the first ones of a sorted X
            scores = np.random.default_rng((self.problem.seed, 2, len(self))).uniform(0.0, NO_GAIN, len(scores))
        scores[self.indices] = -np.inf
        scores[self.absent] = -np.inf
        return scores
