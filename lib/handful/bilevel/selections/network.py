"""A growing coreset of a torch network, scored by minibatched implicit gradients (Section 3.5.1)."""

import sys
from copy import copy
from dataclasses import replace
from time import perf_counter

import numpy as np
import torch
from torch.func import functional_call, grad, jvp, vjp
from tqdm.auto import tqdm

from handful.bilevel.selections.checkpoint import Checkpoint, digest
from handful.bilevel.selections.training import Trainer, in_type
from handful.checks import ConvergenceError
from handful.models.base import Model
from handful.models.inverse import ConjugateGradients, NeumannSeries

SHORT = 2_000  # training steps in all below which nothing is timed beforehand
TIMED_STEPS = 8  # of training, from which the time that a selection takes is foretold
NO_GAIN = 1e-300  # upper limit of the random scores that rows get where the outer gradient is zero


class NetworkModel(Model):
    """A growing coreset of a `Network`, for forward selection by the linear rule with equal weights.

    All derivatives are taken in evaluation mode: dropout is off, batch normalisation has its running averages.

    Parameters
    ----------
    problem : Network
    data : Rows
    ihvp : InverseHessian; None is a `NeumannSeries`
    """

    max_candidates = 1 << 62  # no limit: gains are not predicted

    def __init__(self, problem, data, ihvp=None):
        super().__init__(problem, data, NeumannSeries() if ihvp is None else ihvp)
        if self.ihvp.exact:
            raise ValueError(
                f"ihvp={self.ihvp!r} needs the whole Hessian, which is out of reach for a network: take 'neumann' or "
                "'cg'."
            )
        self._trainer = Trainer(problem)
        self._u = data.share
        self._X = torch.as_tensor(np.ascontiguousarray(data.X))
        self._y = torch.as_tensor(data.y)
        self.module = None
        self._kept, self._rounds = None, 0

    def add(self, indices):
        """As `Model.add`; the checkpoint records the rows, if there is one."""
        super().add(indices)
        if self.problem.checkpoint is None:
            return
        if self._kept is None:
            p = self.problem
            options = self.ihvp, p.training(), p.curvature, p.curvature_batch_size, p.random_state, p.module, p.loss
            data = self._X, self._y, self._u, self.data.absent, self.indices
            self._kept = Checkpoint(p.checkpoint, digest(options, self.partners, data))
        self._kept.record(self._rounds, indices)
        self._rounds += 1

    def foretell(self, n_rounds, *, loud):
        """As `Model.foretell`, on standard error: from a few steps of training, whose cost all passes share."""
        config, seconds = self.problem.training(), []
        if not loud and n_rounds * config.n_steps < SHORT:
            return
        brief = copy(self.problem)
        for brief.train in (replace(config, n_steps=2), replace(config, n_steps=2 + TIMED_STEPS)):
            start = perf_counter()
            brief.fit_module(*self._rows(self.indices), np.random.default_rng(0))
            seconds.append(perf_counter() - start)
        row_seconds = max(seconds[1] - seconds[0], 0.0) / TIMED_STEPS / min(config.batch_size, len(self))
        products = getattr(self.ihvp, "n_terms", 0) + getattr(self.ihvp, "n_steps", 0)
        rows = config.n_steps * min(config.batch_size, len(self)) + 2 * len(self._u)
        rows += products * min(self.problem.curvature_batch_size, len(self))
        minutes = n_rounds * rows * row_seconds / 60.0
        if loud or minutes > 1.0:
            what = f"BilevelCoreset: {n_rounds} rounds of {config.n_steps} training steps"
            tqdm.write(f"{what}, about {minutes:.1f} minutes", file=sys.stderr)

    def recall(self, count):
        """As `Model.recall`."""
        return None if self._kept is None else self._kept.recall(self._rounds, count)

    def _rng(self, purpose):
        # one for each purpose in each round, so that a run that goes on from a checkpoint draws the same
        return np.random.default_rng((self.problem.random_state, purpose, len(self)))

    def _rows(self, rows):
        rows = torch.as_tensor(np.asarray(rows))
        return self._X[rows].to(self.problem.device), self._y[rows].to(self.problem.device)

    def _blocks(self, rows):
        for low in range(0, len(rows), self.problem.batch_size):
            part = rows[low : low + self.problem.batch_size]
            yield part, *self._rows(part)

    def fit(self, weights=None):
        """Train the network from scratch on the coreset; weights must be equal."""
        if weights is not None and np.ptp(weights) > 1e-12:
            raise ValueError("a Network trains with equal weights only: take weighting='binary'.")
        first = self.module is None
        self.module = self.problem.fit_module(*self._rows(self.indices), self._rng(0))
        parameters = {name: p.detach() for name, p in self.module.named_parameters() if p.requires_grad}
        self._names, self._shapes = list(parameters), [p.shape for p in parameters.values()]
        self._theta = parameters
        if first:
            self._X = in_type(self._X, parameters[self._names[0]].dtype)
            with torch.no_grad():  # all classes of the data count, also those without a chosen row
                self._trainer.check_outputs(self.module(self._rows([0])[0]), self._y)

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
        return self._trainer.row_losses(self._outputs(theta, X), y)

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
        size = min(self.problem.curvature_batch_size, len(self))
        chosen, decay = np.array(self.indices), self.problem.training().weight_decay
        if isinstance(self.ihvp, ConjugateGradients):
            chosen = rng.choice(chosen, size, replace=False)

        def times(vector):
            X, y = self._rows(rng.choice(chosen, size, replace=False) if size < len(chosen) else chosen)
            v = self._tensors(vector)
            if self.problem.curvature == "hessian":
                gradient = grad(lambda theta: self._losses(theta, X, y).mean())
                _, image = jvp(gradient, (self._theta,), (v,))
            else:
                outputs, slopes = jvp(lambda theta: self._outputs(theta, X), (self._theta,), (v,))
                _, bent = jvp(grad(lambda o: self._trainer.row_losses(o, y).mean()), (outputs,), (slopes,))
                image = vjp(lambda theta: self._outputs(theta, X), self._theta)[1](bent)[0]
            return self._vector(image) + decay * vector

        return times

    def scores(self, v):
        """As `Model.scores`; noise where the network fits all rows, so that no place in X is favoured."""
        scores = np.empty(len(self._u))
        if not self.gradient.any():
            return self._rng(2).uniform(0.0, NO_GAIN, len(scores))
        v = self._tensors(v)
        for rows, X, y in self._blocks(np.arange(len(scores))):
            _, slopes = jvp(lambda theta, X=X, y=y: self._losses(theta, X, y), (self._theta,), (v,))
            scores[rows] = slopes.cpu().numpy()
        return scores

    def inverse_hessian(self, g):
        """As `Model.inverse_hessian`; ConvergenceError where a Neumann series diverges."""
        return self._solve(g, self._rng(1))

    def _solve(self, g, rng):
        if not g.any():  # the network fits all rows to the last digit
            return g
        product = self.product(rng)
        if isinstance(self.ihvp, ConjugateGradients):
            return self.ihvp.solve(product, g)
        n_terms, damping = self.ihvp.n_terms, self.ihvp.damping
        with np.errstate(over="ignore", invalid="ignore"):
            direction = self.ihvp.solve(product, g)
        # If no curvature is negative, each of the terms is at most |g| over the largest one, hence at most this:
        length, longest = np.linalg.norm(direction), g @ g / np.linalg.norm(product(g) + damping * g)
        if not length <= 2 * n_terms * longest:  # twice, since minibatches differ
            raise ConvergenceError(
                f"the Neumann series on {len(self)} points diverged (length {length:.2g} after {n_terms} "
                "terms): the Hessian is not positive; take curvature='gauss-newton', or a damping."
            )
        return direction
