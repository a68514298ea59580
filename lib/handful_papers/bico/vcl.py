"""`VCL`: variational continual learning with coresets: the posterior after one task is the prior of
the next."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from handful.checks import as_generator
from handful.continual.memory import Memory
from handful.parts import choose
from sklearn.base import clone
from torch.nn.functional import cross_entropy

from handful_papers.bico.training import train_epochs


@dataclass
class VCL:
    """A Bayesian network that learns one task after another (Nguyen et al. 2018; Borsos et al.
    2024, Section 5.3).

    All weights of a fully connected network with ReLUs and one head are independent Gaussians, and
    the posterior after one task is the prior of the next. A few rows of each task, its coreset,
    take no part in this: a copy of the posterior is tuned on the coresets of all tasks before each
    prediction, so that no row counts twice.

    Parameters
    ----------
    selector : Selector that chooses the coresets, such as `BilevelCoreset`; its own `size` and
        `random_state` are not used. None: no coresets and no tuning
    n_kept : int, rows of each coreset; the paper: 20
    n_classes : int, outputs; labels are 0, ..., n_classes - 1
    hidden : tuple of int, units of each hidden layer; the paper: two layers of 256
    prior_sd : float, standard deviation of the weights before the first task
    start_sd : float, their standard deviation where training on the first task begins; their means
        begin at the weights of an ordinary network trained on that task, as in Nguyen et al.
    kl_weight : float, factor of the divergence from the prior. 1 is Bayes' rule; below 1 each row
        counts as ``1 / kl_weight`` rows, for tasks with few rows, which cannot move the many
        weights from their prior otherwise
    n_epochs : int, passes over the rows of each task
    n_coreset_epochs : int, passes over the coresets in tuning
    batch_size : int
    learning_rate : float, of Adam, which starts anew for every task
    n_draws : int, draws of the weights over which a prediction is averaged
    random_state : None, int or Generator

    Attributes
    ----------
    posterior_ : list of float32 tensors: mean and log variance of the weights, then of the bias, of
        each layer in turn
    memories_ : list of `Memory`, the coresets, that of the first task first
    """

    selector: object = None
    n_kept: int = 20
    n_classes: int = 10
    hidden: tuple = (256, 256)
    prior_sd: float = 1.0
    start_sd: float = 0.05
    kl_weight: float = 1.0
    n_epochs: int = 100
    n_coreset_epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 1e-3
    n_draws: int = 100
    random_state: int | None = None

    def add_task(self, X, y, *, view=None):
        """Learn a task from all its rows but those of its coreset.

        Parameters
        ----------
        X : array, shape (n, d)
        y : int array, shape (n,)
        view : array, shape (n, k), from which the selector chooses instead of `X`, such as features
            of a proxy

        Returns
        -------
        self
        """
        X = np.asarray(X, dtype=np.float32)
        y = np.asarray(y, dtype=np.int64)
        rest = np.arange(len(X))
        first = not hasattr(self, "posterior_")
        if first:
            self._generator = as_generator(self.random_state)
            self.memories_ = []
            self._draws = torch.Generator().manual_seed(int(self._generator.integers(2**63)))
        if self.selector is not None:
            chooser = clone(self.selector)
            chooser.set_params(size=self.n_kept, random_state=self._generator)
            seen = X if view is None else view
            indices, _ = choose(
                chooser,
                seen,
                y,
                None,
                self._generator,
            )
            indices = np.asarray(indices)
            self.memories_.append(Memory(X[indices], y[indices], indices))
            rest = np.setdiff1d(rest, indices)
        if first:
            zeros = [torch.zeros(shape) for shape in self._shapes(X.shape[1])]
            prior = _gaussians(zeros, self.prior_sd)
            start = _gaussians(self._point_start(X[rest], y[rest]), self.start_sd)
        else:
            prior = self.posterior_
            start = self.posterior_
        self.posterior_ = self._fit(
            X[rest],
            y[rest],
            prior,
            start,
            self.n_epochs,
        )
        return self

    def predict_proba(self, X):
        """Class probabilities, shape (n, n_classes), averaged over draws of the weights tuned on
        the coresets."""
        return self._probabilities(self._tuned(), X)

    def predict(self, X):
        """The most probable class of each row, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def _shapes(self, inputs):
        widths = (inputs, *self.hidden, self.n_classes)
        return [shape for a, b in pairwise(widths) for shape in ((a, b), (b,))]

    def _point_start(self, X, y):
        # Weights of an ordinary network of the first task. From random means the noise of the
        # weights hides the data.
        means = []
        for shape in self._shapes(X.shape[1]):
            fan_in = shape[0] if len(shape) == 2 else means[-1].shape[0]
            drawn = torch.rand(shape, generator=self._draws)
            means.append((2 * drawn - 1) / np.sqrt(fan_in))
        means = [mean.requires_grad_() for mean in means]

        def loss(X, y):
            for i in range(0, len(means), 2):
                if i > 0:
                    X = X.relu()
                X = X @ means[i] + means[i + 1]
            return cross_entropy(X, y)

        self._descend(
            means,
            loss,
            X,
            y,
            self.n_epochs,
        )
        return [mean.detach() for mean in means]

    def _fit(self, X, y, prior, start, n_epochs):
        # Minimises KL(q, prior) / n minus the mean log-likelihood: the negative evidence lower
        # bound of a row.
        share = self.kl_weight / len(X)
        q = [t.detach().clone().requires_grad_() for t in start]

        def loss(X, y):
            return cross_entropy(self._outputs(q, X), y) + share * gaussian_kl(q, prior)

        self._descend(q, loss, X, y, n_epochs)
        return [t.detach() for t in q]

    def _descend(self, parameters, loss, X, y, n_epochs):
        X = torch.as_tensor(X)
        y = torch.as_tensor(y)
        train_epochs(
            lambda rows: loss(X[rows], y[rows]),
            parameters,
            len(X),
            n_epochs=n_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=self._draws,
        )

    def _outputs(self, q, X, first=None):
        # Draws the outputs of each layer, not its weights: the law is the same for each row, and as
        # rows are then independent, the gradient varies less. `first`: moments of the first layer,
        # where they are known.
        for i in range(0, len(q), 4):
            if i > 0:
                X = X.relu()
            known = first if i == 0 else None
            mean, variance = known or _moments(q[i : i + 4], X)
            noise = torch.randn(mean.shape, generator=self._draws)
            X = mean + variance.sqrt() * noise
        return X

    def _tuned(self):
        if not self.memories_:
            return self.posterior_
        X = np.concatenate([memory.X for memory in self.memories_])
        y = np.concatenate([memory.y for memory in self.memories_])
        # It is restored, so that a prediction does not change what is learned next.
        state = self._draws.get_state()
        tuned = self._fit(
            X,
            y,
            self.posterior_,
            self.posterior_,
            self.n_coreset_epochs,
        )
        self._draws.set_state(state)
        return tuned

    @torch.no_grad()
    def _probabilities(self, q, X):
        X = torch.as_tensor(np.asarray(X, dtype=np.float32))
        state = self._draws.get_state()
        blocks = []
        for block in X.split(2000):
            first = _moments(q[:4], block)
            draws = (self._outputs(q, block, first).softmax(1) for _ in range(self.n_draws))
            blocks.append(sum(draws))
        self._draws.set_state(state)
        return (torch.cat(blocks) / self.n_draws).numpy()


def _gaussians(means, sd):
    # A list like `posterior_`, with one standard deviation for all.
    log_variance = 2.0 * float(np.log(sd))
    found = []
    for mean in means:
        found += [mean, torch.full_like(mean, log_variance)]
    return found


def _moments(layer, X):
    # Mean and variance of a layer's outputs.
    mean, log_var, bias, bias_log_var = layer
    variance = torch.addmm(bias_log_var.exp(), X.square(), log_var.exp())
    return torch.addmm(bias, X, mean), variance


def gaussian_kl(q, p):
    """KL divergence of q from p in nats, both lists of means and log variances such as
    `VCL.posterior_`."""
    total = 0.0
    for mean, log_var, p_mean, p_log_var in zip(q[::2], q[1::2], p[::2], p[1::2]):
        moved = (mean - p_mean).square() * (-p_log_var).exp()
        ratio = (log_var - p_log_var).exp() + moved
        total = total + 0.5 * (ratio - 1.0 + p_log_var - log_var).sum()
    return total
