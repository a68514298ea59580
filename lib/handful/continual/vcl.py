"""`VCL`: variational continual learning, each task's posterior the next one's prior, with a coreset beside it."""

from itertools import pairwise

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from handful.checks import as_generator, check_integer, check_magnitude, check_number
from handful.continual.memory import check_view, remember
from handful.coreset import check_selector, choose

try:
    import torch
except ImportError as error:
    raise ImportError("VCL needs torch: pip install 'handful[torch]'.") from error

COUNTS = ("n_classes", "n_kept", "epochs", "coreset_epochs", "batch_size", "n_draws")


class VCL(BaseEstimator):
    """A Bayesian network that learns one task after another (Nguyen et al. 2018; Borsos et al. 2024, Section 5.3).

    All weights of a fully connected network with ReLUs and one head are independent Gaussians. A new task takes the
    posterior of the tasks before as its prior; a few of its rows, its coreset, are left out of that, and the posterior
    is tuned on all coresets only in order to predict. So nothing counts twice.

    Parameters
    ----------
    selector : Selector that chooses the coresets, such as `BilevelCoreset`; its own `size` and `random_state` are not
        used. None: no coresets, so that nothing is tuned
    n_kept : int, rows of each task's coreset; the paper's 20
    n_classes : int, outputs; labels are 0, ..., n_classes - 1
    hidden : tuple of int, hidden units; the paper's two layers of 256
    prior_sd, start_sd : standard deviations of the weights before the first task, and where training them begins, from
        1e-8 to 1e8; the means begin at those of an ordinary network of the first task, as in Nguyen et al.
    kl_weight : float, factor of the divergence from the prior. 1 is Bayes' rule; below 1 each row counts as
        ``1 / kl_weight`` rows, for tasks of so few rows that the prior of a large network drowns them
    epochs, coreset_epochs : int, for each task, and of the tuning
    batch_size : int
    lr : float, Adam's step size; Adam starts anew for every task
    n_draws : int, draws of the weights that a prediction averages
    random_state : None, int or Generator

    Attributes
    ----------
    posterior_ : list of float32 tensors, mean and log variance of each layer's weights and bias
    memories_ : list of `Memory`, the coresets, the oldest first

    Raises
    ------
    FloatingPointError
        if training gives a loss that is no number; names the epoch, the loss and the step size

    Examples
    --------
    >>> from handful import KCenter
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> few = dict(hidden=(64,), epochs=50, coreset_epochs=50, n_draws=20)
    >>> model = VCL(KCenter(), n_kept=50, kl_weight=0.1, lr=1e-2, **few, random_state=0)
    >>> for task in (y < 5, y >= 5):
    ...     model = model.add_task(X[task] / 16, y[task])
    >>> bool(model.score(X / 16, y) > 0.9), [len(m) for m in model.memories_]
    (True, [50, 50])
    """

    def __init__(
        self,
        selector=None,
        *,
        n_kept=20,
        n_classes=10,
        hidden=(256, 256),
        prior_sd=1.0,
        start_sd=0.05,
        kl_weight=1.0,
        epochs=100,
        coreset_epochs=100,
        batch_size=256,
        lr=1e-3,
        n_draws=100,
        random_state=None,
    ):
        self.selector = selector
        self.n_kept = n_kept
        self.n_classes = n_classes
        self.hidden = hidden
        self.prior_sd = prior_sd
        self.start_sd = start_sd
        self.kl_weight = kl_weight
        self.epochs = epochs
        self.coreset_epochs = coreset_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.n_draws = n_draws
        self.random_state = random_state

    def add_task(self, X, y, *, view=None):
        """Learn a task, but for the rows of its coreset.

        Parameters
        ----------
        X : array, shape (n, d)
        y : int array, shape (n,)
        view : array, shape (n, k), what the selector looks at instead of `X`, such as features of a proxy

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for rows, labels, options or a view that do not fit, and for `n_classes` or `hidden` changed between tasks
        TypeError
            if `selector` is no selector, or `view` no array
        """
        X, y = self._check(X, y)
        memory, rest = None, np.arange(len(X))
        first = not hasattr(self, "posterior_")
        if first:
            self._generator = as_generator(self.random_state)
            self._draws = torch.Generator().manual_seed(int(self._generator.integers(2**63)))
        if self.selector is not None:
            if self.n_kept >= len(X):
                raise ValueError(f"n_kept must be below the {len(X)} rows of the task, got n_kept={self.n_kept}.")
            view = X if view is None else check_view(view, len(X))
            chooser = clone(self.selector).set_params(size=self.n_kept, random_state=self._generator)
            memory = remember(X, y, np.asarray(choose(chooser, view, y, None, self._generator)[0]))
            rest = np.setdiff1d(rest, memory.indices)
        if first:
            self.memories_ = []
            prior = self._first_prior(X.shape[1])
            start = self._point_start(X[rest], y[rest])
        else:
            prior = start = self.posterior_
        self.posterior_ = self._fit(X[rest], y[rest], prior, start, self.epochs)
        if memory is not None:
            self.memories_ = [*self.memories_, memory]
        return self

    def predict_proba(self, X):
        """Class probabilities averaged over draws of the weights, after tuning on the coresets; shape (n, classes)."""
        if not hasattr(self, "posterior_"):
            raise NotFittedError("this VCL has learned no task yet: call add_task first.")
        X = self._check_rows(X)
        return self._probabilities(self._tuned(), X)

    def predict(self, X):
        """The most probable class of each row, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def score(self, X, y):
        """Share of rows whose class is predicted."""
        predicted, y = self.predict(X), np.asarray(y)
        if y.shape != predicted.shape:
            raise ValueError(f"y must have shape {predicted.shape}, one label a row, got {y.shape}.")
        return float(np.mean(predicted == y))

    def _check_rows(self, X):
        X = np.asarray(X, dtype=np.float32)
        if X.ndim != 2 or not len(X):
            raise ValueError(f"X must be 2-d and not empty, got shape {X.shape}.")
        if not np.isfinite(X).all():
            raise ValueError("X contains NaN, infinity or values that float32 does not hold.")
        check_magnitude(X, "X", X.dtype)
        if hasattr(self, "posterior_") and X.shape[1] != self.posterior_[0].shape[0]:
            raise ValueError(f"X has {X.shape[1]} features, but the first task had {self.posterior_[0].shape[0]}.")
        return X

    def _check(self, X, y):
        for name in COUNTS:
            check_integer(name, getattr(self, name))
        if np.ndim(self.hidden) != 1:
            raise ValueError(f"hidden must be a tuple of integers, one a layer, got hidden={self.hidden!r}.")
        for width in self.hidden:
            check_integer("hidden", width)
        for name in ("prior_sd", "start_sd"):
            check_number(name, getattr(self, name), least=1e-8, most=1e8, why="squares of others overflow in float32")
        for name in ("kl_weight", "lr"):
            check_number(name, getattr(self, name), above=0)
        if self.selector is not None:
            check_selector(self.selector)
        X, y = self._check_rows(X), np.asarray(y)
        if hasattr(self, "posterior_") and self._shapes(X.shape[1]) != [tuple(t.shape) for t in self.posterior_[::2]]:
            before = tuple(len(t) for t in self.posterior_[2::4])
            raise ValueError(
                f"hidden and n_classes must stay as at the first task, {before[:-1]} and {before[-1]}, got "
                f"{tuple(self.hidden)} and {self.n_classes}: the posterior is of that network."
            )
        if y.shape != (len(X),) or y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= self.n_classes:
            got = f"shape {y.shape}, dtype {y.dtype}"
            if y.dtype.kind in "iu" and y.size:
                got += f", {y.min()} to {y.max()}"
            raise ValueError(
                f"y must hold {len(X)} integers from 0 to n_classes - 1 = {self.n_classes - 1}, got {got}."
            )
        return X, y.astype(np.int64)

    def _shapes(self, inputs):
        widths = (inputs, *self.hidden, self.n_classes)
        return [shape for a, b in pairwise(widths) for shape in ((a, b), (b,))]

    def _first_prior(self, inputs):
        log_var = 2.0 * float(np.log(self.prior_sd))
        return [t for s in self._shapes(inputs) for t in (torch.zeros(s), torch.full(s, log_var))]

    def _point_start(self, X, y):
        # Means of an ordinary network of the first task; without them the noise drowns what there is to learn.
        means = []
        for shape in self._shapes(X.shape[1]):
            fan_in = shape[0] if len(shape) == 2 else means[-1].shape[0]
            means.append((2 * torch.rand(shape, generator=self._draws) - 1) / np.sqrt(fan_in))
        means = [m.requires_grad_() for m in means]

        def loss(X, y):
            for i in range(0, len(means), 2):
                X = (X if i == 0 else X.relu()) @ means[i] + means[i + 1]
            return torch.nn.functional.cross_entropy(X, y)

        self._descend(loss, means, X, y, self.epochs)
        log_var = 2.0 * float(np.log(self.start_sd))
        return [t for m in means for t in (m.detach(), torch.full_like(m, log_var))]

    def _fit(self, X, y, prior, start, epochs):
        # Minimises KL(q, prior) / n minus the mean log-likelihood: the negative evidence lower bound, a row.
        share = self.kl_weight / len(X)
        q = [t.detach().clone().requires_grad_() for t in start]

        def loss(rows, labels):
            outputs = self._outputs(q, rows)
            return torch.nn.functional.cross_entropy(outputs, labels) + share * gaussian_kl(q, prior)

        self._descend(loss, q, X, y, epochs)
        return [t.detach() for t in q]

    def _descend(self, loss_of, parameters, X, y, epochs):
        X, y = torch.as_tensor(X), torch.as_tensor(y)
        optimiser = torch.optim.Adam(parameters, lr=self.lr)
        for epoch in range(epochs):
            order = torch.randperm(len(X), generator=self._draws)
            for batch in order.split(self.batch_size):
                loss = loss_of(X[batch], y[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            if not torch.isfinite(loss):
                raise FloatingPointError(
                    f"training diverged in epoch {epoch + 1} of {epochs}: loss {loss.item():.3g} with step size "
                    f"{self.lr:g}; lower the step size."
                )

    def _outputs(self, q, X, first=None):
        # Draws the inputs of each layer instead of its weights: for each row the same law, at less variance over rows.
        # `first`: the moments of the first layer, where they are known.
        for i in range(0, len(q), 4):
            mean, variance = first if first and i == 0 else _moments(q[i : i + 4], X if i == 0 else X.relu())
            X = mean + variance.sqrt() * torch.randn(mean.shape, generator=self._draws)
        return X

    def _tuned(self):
        if not self.memories_:
            return self.posterior_
        X, y = (np.concatenate([getattr(m, name) for m in self.memories_]) for name in ("X", "y"))
        state = self._draws.get_state()  # that a task is predicted changes nothing of what is learned next
        tuned = self._fit(X, y, self.posterior_, self.posterior_, self.coreset_epochs)
        self._draws.set_state(state)
        return tuned

    @torch.no_grad()
    def _probabilities(self, q, X):
        X = torch.as_tensor(np.asarray(X, dtype=np.float32))
        state = self._draws.get_state()
        blocks = []
        for block in X.split(2000):
            first = _moments(q[:4], block)
            blocks.append(sum(self._outputs(q, block, first).softmax(1) for _ in range(self.n_draws)))
        self._draws.set_state(state)
        return (torch.cat(blocks) / self.n_draws).numpy()


def _moments(layer, X):
    # mean and variance of a layer's outputs
    mean, log_var, bias, bias_log_var = layer
    return torch.addmm(bias, X, mean), torch.addmm(bias_log_var.exp(), X.square(), log_var.exp())


def gaussian_kl(q, p):
    """KL divergence, in nats, of independent Gaussians: lists of means and log variances, as `VCL.posterior_`."""
    total = 0.0
    for mean, log_var, p_mean, p_log_var in zip(q[::2], q[1::2], p[::2], p[1::2]):
        ratio = (log_var - p_log_var).exp() + (mean - p_mean).square() * (-p_log_var).exp()
        total = total + 0.5 * (ratio - 1.0 + p_log_var - log_var).sum()
    return total
