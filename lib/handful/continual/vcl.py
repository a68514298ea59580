"""`VCL`: variational continual learning with coresets: the posterior after one task is the prior of the next."""

from itertools import pairwise

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from handful.checks import as_generator, check_integer, check_magnitude, check_number
from handful.continual.memory import check_view, remember
from handful.coreset import check_selector, choose

try:
    import torch
    from torch.nn.functional import cross_entropy

    from handful.torch_training import train_epochs
except ImportError as error:
    raise ImportError("VCL needs torch: pip install torch.") from error

COUNTS = ("n_classes", "n_kept", "n_epochs", "n_coreset_epochs", "batch_size", "n_draws")


class VCL(BaseEstimator):
    """A Bayesian network that learns one task after another (Nguyen et al. 2018; Borsos et al. 2024, Section 5.3).

    All weights of a fully connected network with ReLUs and one head are independent Gaussians, and the posterior after
    one task is the prior of the next. A few rows of each task, its coreset, take no part in this: a copy of the
    posterior is tuned on the coresets of all tasks before each prediction, so that no row counts twice.

    Parameters
    ----------
    selector : Selector that chooses the coresets, such as `BilevelCoreset`; its own `size` and `random_state` are not
        used. None: no coresets and no tuning
    n_kept : int, rows of each coreset; the paper: 20
    n_classes : int, outputs; labels are 0, ..., n_classes - 1
    hidden : tuple of int, units of each hidden layer; the paper: two layers of 256
    prior_sd : float from 1e-8 to 1e8, standard deviation of the weights before the first task
    start_sd : float from 1e-8 to 1e8, their standard deviation where training on the first task begins; their means
        begin at the weights of an ordinary network trained on that task, as in Nguyen et al.
    kl_weight : float, factor of the divergence from the prior. 1 is Bayes' rule; below 1 each row counts as
        ``1 / kl_weight`` rows, for tasks with few rows, which cannot move the many weights from their prior otherwise
    n_epochs : int, passes over the rows of each task
    n_coreset_epochs : int, passes over the coresets in tuning
    batch_size : int
    learning_rate : float, of Adam, which starts anew for every task
    n_draws : int, draws of the weights over which a prediction is averaged
    random_state : None, int or Generator

    Attributes
    ----------
    posterior_ : list of float32 tensors: mean and log variance of the weights, then of the bias, of each layer in turn
    memories_ : list of `Memory`, the coresets, that of the first task first

    Raises
    ------
    ConvergenceError
        if the loss stops being finite in training

    Examples
    --------
    >>> from handful import KCenter
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> few = dict(hidden=(64,), n_epochs=50, n_coreset_epochs=50, n_draws=20)
    >>> model = VCL(KCenter(), n_kept=50, kl_weight=0.1, learning_rate=1e-2, **few, random_state=0)
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
        n_epochs=100,
        n_coreset_epochs=100,
        batch_size=256,
        learning_rate=1e-3,
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
        self.n_epochs = n_epochs
        self.n_coreset_epochs = n_coreset_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_draws = n_draws
        self.random_state = random_state

    def add_task(self, X, y, *, view=None):
        """Learn a task from all its rows but those of its coreset.

        An error, and Ctrl-C, leaves `posterior_` and `memories_` as they were.

        Parameters
        ----------
        X : array, shape (n, d)
        y : int array, shape (n,)
        view : array, shape (n, k), from which the selector chooses instead of `X`, such as features of a proxy

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
            prior = _gaussians([torch.zeros(shape) for shape in self._shapes(X.shape[1])], self.prior_sd)
            start = _gaussians(self._point_start(X[rest], y[rest]), self.start_sd)
        else:
            prior = start = self.posterior_
        posterior = self._fit(X[rest], y[rest], prior, start, self.n_epochs)
        memories = [] if first else self.memories_
        self.posterior_, self.memories_ = posterior, memories if memory is None else [*memories, memory]
        return self

    def predict_proba(self, X):
        """Class probabilities, shape (n, n_classes), averaged over draws of the weights tuned on the coresets."""
        if not hasattr(self, "posterior_"):
            raise NotFittedError("this VCL has learned no task yet: call add_task first.")
        X = self._check_rows(X)
        return self._probabilities(self._tuned(), X)

    def predict(self, X):
        """The most probable class of each row, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def score(self, X, y):
        """The share of rows whose class is predicted correctly."""
        predicted, y = self.predict(X), np.asarray(y)
        if y.shape != predicted.shape:
            raise ValueError(f"y must have shape {predicted.shape}, one label a row, got {y.shape}.")
        return float(np.mean(predicted == y))

    def _check_rows(self, X):
        if np.iscomplexobj(X):
            raise ValueError("Complex data not supported: X must hold real numbers.")
        with np.errstate(over="ignore"):
            X = np.asarray(X, dtype=np.float32)
        if X.ndim != 2 or not X.size:
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
        for name in ("kl_weight", "learning_rate"):
            check_number(name, getattr(self, name), above=0, most=1e8, why="larger ones overflow in float32")
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
            got = f"shape {y.shape}, dtype {y.dtype}" + (f", {y.min()} to {y.max()}" if y.size else "")
            raise ValueError(
                f"y must hold {len(X)} integers from 0 to n_classes - 1 = {self.n_classes - 1}, got {got}."
            )
        return X, y.astype(np.int64)

    def _shapes(self, inputs):
        widths = (inputs, *self.hidden, self.n_classes)
        return [shape for a, b in pairwise(widths) for shape in ((a, b), (b,))]

    def _point_start(self, X, y):
        # Weights of an ordinary network of the first task. From random means the noise of the weights hides the data.
        means = []
        for shape in self._shapes(X.shape[1]):
            fan_in = shape[0] if len(shape) == 2 else means[-1].shape[0]
            means.append((2 * torch.rand(shape, generator=self._draws) - 1) / np.sqrt(fan_in))
        means = [m.requires_grad_() for m in means]

        def outputs(X):
            for i in range(0, len(means), 2):
                X = (X if i == 0 else X.relu()) @ means[i] + means[i + 1]
            return X

        self._descend(means, lambda X, y: cross_entropy(outputs(X), y), X, y, self.n_epochs)
        return [m.detach() for m in means]

    def _fit(self, X, y, prior, start, n_epochs):
        # Minimises KL(q, prior) / n minus the mean log-likelihood: the negative evidence lower bound of a row.
        share = self.kl_weight / len(X)
        q = [t.detach().clone().requires_grad_() for t in start]

        def loss(X, y):
            return cross_entropy(self._outputs(q, X), y) + share * gaussian_kl(q, prior)

        self._descend(q, loss, X, y, n_epochs)
        return [t.detach() for t in q]

    def _descend(self, parameters, loss, X, y, n_epochs):
        X, y = torch.as_tensor(X), torch.as_tensor(y)
        options = dict(batch_size=self.batch_size, learning_rate=self.learning_rate, rng=self._draws)
        train_epochs(lambda rows: loss(X[rows], y[rows]), parameters, len(X), n_epochs=n_epochs, **options)

    def _outputs(self, q, X, first=None):
        # Draws the outputs of each layer, not its weights: the law is the same for each row, and as rows are then
        # independent, the gradient varies less. `first`: moments of the first layer, where they are known.
        for i in range(0, len(q), 4):
            mean, variance = first if first and i == 0 else _moments(q[i : i + 4], X if i == 0 else X.relu())
            X = mean + variance.sqrt() * torch.randn(mean.shape, generator=self._draws)
        return X

    def _tuned(self):
        if not self.memories_:
            return self.posterior_
        X, y = (np.concatenate([getattr(m, name) for m in self.memories_]) for name in ("X", "y"))
        state = self._draws.get_state()  # restored, so that a prediction does not change what is learned next
        tuned = self._fit(X, y, self.posterior_, self.posterior_, self.n_coreset_epochs)
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


def _gaussians(means, sd):
    # A list like `posterior_`, with one standard deviation for all.
    return [t for mean in means for t in (mean, torch.full_like(mean, 2.0 * float(np.log(sd))))]


def _moments(layer, X):
    # Mean and variance of a layer's outputs.
    mean, log_var, bias, bias_log_var = layer
    return torch.addmm(bias, X, mean), torch.addmm(bias_log_var.exp(), X.square(), log_var.exp())


def gaussian_kl(q, p):
    """KL divergence of q from p in nats, both lists of means and log variances such as `VCL.posterior_`."""
    total = 0.0
    for mean, log_var, p_mean, p_log_var in zip(q[::2], q[1::2], p[::2], p[1::2]):
        ratio = (log_var - p_log_var).exp() + (mean - p_mean).square() * (-p_log_var).exp()
        total = total + 0.5 * (ratio - 1.0 + p_log_var - log_var).sum()
    return total
