"""Many networks at once: the runs of a table differ in what they replay, and share everything else.

`StackedMLP` trains small dense networks side by side in batched matrix products; `TorchRuns` trains torch modules one
after the other, for networks large enough to keep a processor busy alone. Both have the same methods.
"""

import copy

import numpy as np
import torch
from handful.continual.views import Views, network_views
from torch.nn.functional import cross_entropy, one_hot


class Diverged(FloatingPointError):
    """Training gave a loss that is no number."""


class StackedMLP:
    """R fully connected networks of one architecture, trained side by side with Adam.

    Two hidden layers with ReLU and dropout, cross-entropy. All runs have the same start, minibatches and dropout masks
    (common random numbers: two runs differ in what they replay and in nothing else), each layer is one batched matrix
    product. A run alone gives what it gives in a stack, up to rounding.

    Parameters
    ----------
    widths : (inputs, hidden, hidden, classes)
    n_runs : int, R
    seed : int, or sequence of ints; of the start, the minibatches and the masks
    dropout : share of hidden units dropped
    learning_rate : Adam's step size; Adam starts anew in each `fit`, as in the protocol of Borsos et al. (2024)
    bfloat16 : whether activations and matrix products of the hidden layers are in bfloat16 (the logits, weights and
        Adam's sums stay in float32)

    Attributes
    ----------
    parameters : list of float32 tensors, W1 (R, hidden, inputs), b1 (R, hidden, 1), W2, b2, W3, b3
    """

    # Activations have a column for each row of data: shape (R, units, rows). With weights of shape (R, out, in) all
    # runs' first layer of a shared minibatch is one product of two matrices, and so is its gradient.

    def __init__(self, widths, n_runs=1, *, seed=0, dropout=0.2, learning_rate=5e-4, bfloat16=False):
        self.widths, self.seed, self.dropout, self.learning_rate = tuple(widths), seed, dropout, learning_rate
        self.dtype = torch.bfloat16 if bfloat16 else torch.float32
        rng = np.random.default_rng([*_ints(seed), 0])
        self.parameters = []
        for fan_in, fan_out in zip(self.widths, self.widths[1:]):
            for shape in ((fan_in, fan_out), (1, fan_out)):  # torch's defaults for a linear layer
                values = rng.uniform(-1, 1, shape).T / np.sqrt(fan_in)
                self.parameters.append(torch.tensor(values, dtype=torch.float32)[None])
        self.repeat(n_runs)

    @property
    def n_runs(self):
        return len(self.parameters[0])

    def repeat(self, times):
        """Make `times` runs of each run: they go separate ways from here."""
        self.parameters = [p.repeat_interleave(times, dim=0) for p in self.parameters]
        return self

    @torch.no_grad()
    def fit(self, X, y, *, n_epochs, batch_size, memory=None, sample_weight=None, key=0):
        """Train all runs on the same rows, each beside its own memory.

        The loss of run r is the mean cross-entropy of the minibatch plus the sum of its memory's losses times
        coefficients, at every step over the whole memory.

        Parameters
        ----------
        X : float32 array, shape (n, inputs)
        y : int array, shape (n,)
        n_epochs, batch_size : ints; rows are shuffled in every epoch
        memory : None, or arrays X (R, m, inputs), y (R, m) and coefficients (R, m); runs that hold fewer rows are
            filled up with rows of coefficient zero
        sample_weight : shape (n,), factors of the rows' losses
        key : int, of this part of the training: its minibatches and masks

        Raises
        ------
        Diverged
            if the loss becomes NaN or infinite; names the epoch, the loss and the step size.
        """
        rng = np.random.default_rng([*_ints(self.seed), 1, key])
        X, Y, factors = torch.as_tensor(X).to(self.dtype), self._one_hot(y), _factors(sample_weight, len(X))
        kept = None
        if memory is not None and memory[0].shape[1]:
            coefficients = torch.as_tensor(memory[2], dtype=torch.float32)
            kept = torch.as_tensor(memory[0]).to(self.dtype), self._one_hot(memory[1]), coefficients[:, None]
        optimiser = torch.optim.Adam(self.parameters, lr=self.learning_rate, fused=True)
        for epoch in range(n_epochs):
            for batch in torch.from_numpy(rng.permutation(len(X))).split(batch_size):
                loss = self._gradients((X[batch], Y[:, batch], factors[batch] / len(batch)), kept, rng)
                optimiser.step()
            _check_finite(loss, epoch, n_epochs, self.learning_rate)
        return self

    def _one_hot(self, y):
        return one_hot(torch.as_tensor(y).long(), self.widths[-1]).float().transpose(-1, -2)

    def _gradients(self, batch, kept, rng):
        # Sets every parameter's gradient; gives the loss of each run.
        W1, b1, W2, b2, W3, b3 = self.parameters
        W1, b1, W2, b2 = (p.to(self.dtype) for p in (W1, b1, W2, b2))
        X, Y, coefficients = batch
        n, m = len(X), 0 if kept is None else kept[0].shape[1]
        masks = (_mask(rng, (n + m, width), self.dropout, self.dtype) for width in self.widths[1:3])
        keep1, keep2 = (mask.T.contiguous() for mask in masks)

        H1 = torch.empty(*W1.shape[:2], n + m, dtype=self.dtype)
        H1[:, :, :n] = (W1.flatten(0, 1) @ X.T).unflatten(0, W1.shape[:2])
        if m:
            H1[:, :, n:] = torch.bmm(W1, kept[0].transpose(1, 2))
            Y = torch.cat([Y.expand(self.n_runs, -1, -1), kept[1]], dim=2)
            coefficients = torch.cat([coefficients.expand(self.n_runs, 1, -1), kept[2]], dim=2)
        H1.add_(b1).relu_().mul_(keep1)
        H2 = torch.baddbmm(b2, W2, H1).relu_().mul_(keep2)
        H2_ = H2.float()
        log_p = torch.log_softmax(torch.baddbmm(b3, W3, H2_), dim=1)
        loss = -((log_p * Y).sum(dim=1, keepdim=True) * coefficients).sum(dim=(1, 2))

        G = log_p.exp_().sub_(Y).mul_(coefficients)
        scale = 1.0 / (1.0 - self.dropout)
        gate = torch.ops.aten.threshold_backward  # a unit that is zero passes nothing on
        D2 = gate(torch.bmm((W3 * scale).transpose(1, 2), G).to(self.dtype), H2, 0)
        D1 = gate(torch.bmm((W2 * scale).transpose(1, 2), D2), H1, 0)
        first = (D1[:, :, :n].flatten(0, 1) @ X).unflatten(0, W1.shape[:2]).float()
        if m:
            first += torch.bmm(D1[:, :, n:], kept[0])
        gradients = (
            (first, D1.sum(2, keepdim=True)),
            (torch.bmm(D2, H1.transpose(1, 2)), D2.sum(2, keepdim=True)),
            (torch.bmm(G, H2_.transpose(1, 2)), G.sum(2, keepdim=True)),
        )
        for p, g in zip(self.parameters, (g for layer in gradients for g in layer)):
            p.grad = g.float()
        return loss

    @torch.no_grad()
    def embeddings(self, X, run=None):
        """The last hidden layer, without dropout: shape (R, n, hidden), or (n, hidden) for one run."""
        H2 = self._last_hidden(X, run).transpose(1, 2)
        return H2 if run is None else H2[0]

    def _last_hidden(self, X, run):
        # in float32, shape (R, hidden, n)
        W1, b1, W2, b2 = (p if run is None else p[run : run + 1] for p in self.parameters[:4])
        H1 = (W1.flatten(0, 1) @ torch.as_tensor(X).float().T).unflatten(0, W1.shape[:2])
        return torch.baddbmm(b2, W2, H1.add_(b1).relu_()).relu_()

    @torch.no_grad()
    def logits(self, X, run=None):
        """Logits, shape (R, n, classes), or (n, classes) for one run."""
        W3, b3 = (p if run is None else p[run : run + 1] for p in self.parameters[4:])
        logits = torch.baddbmm(b3, W3, self._last_hidden(X, run)).transpose(1, 2)
        return logits if run is None else logits[0]

    def views(self, X, y, run):
        """The `Views` that one run has of some rows."""
        return Views(self.embeddings(X, run).numpy(), self.logits(X, run).numpy(), np.asarray(y))

    def accuracy(self, X, y, *, block=1000):
        """Share of rows whose class is predicted, percent, shape (R,)."""
        y = torch.as_tensor(y)
        right = sum(
            (self.logits(X[i : i + block]).argmax(dim=2) == y[i : i + block]).sum(dim=1)
            for i in range(0, len(X), block)
        )
        return 100.0 * right.numpy() / len(X)


class TorchRuns:
    """R copies of a torch network, trained one after the other with Adam; otherwise as `StackedMLP`.

    Parameters
    ----------
    make : function without arguments that gives a torch module
    n_runs, seed, learning_rate : as in `StackedMLP`
    bfloat16 : whether torch's autocast does convolutions and matrix products in bfloat16
    """

    def __init__(self, make, n_runs=1, *, seed=0, learning_rate=5e-4, bfloat16=False):
        self.seed, self.learning_rate, self.bfloat16 = seed, learning_rate, bfloat16
        with torch.random.fork_rng():
            torch.manual_seed(_torch_seed(seed, 0))
            self.modules = [make()]
        self.repeat(n_runs)

    @property
    def n_runs(self):
        return len(self.modules)

    def repeat(self, times):
        """Make `times` runs of each run: they go separate ways from here."""
        self.modules = [copy.deepcopy(m) for m in self.modules for _ in range(times)]
        return self

    def fit(self, X, y, *, n_epochs, batch_size, memory=None, sample_weight=None, key=0):
        """Train all runs on the same rows, each beside its own memory; as `StackedMLP.fit`."""
        X, y, factors = torch.as_tensor(X).float(), torch.as_tensor(y).long(), _factors(sample_weight, len(X))
        for run, module in enumerate(self.modules):
            kept = [] if memory is None else [torch.from_numpy(np.array(a[run])) for a in memory]
            with torch.random.fork_rng():  # every run meets the same masks, as far as their memories are of one size
                torch.manual_seed(_torch_seed(self.seed, 1, key))
                rng = np.random.default_rng([*_ints(self.seed), 1, key])
                self._fit_one(module, (X, y, factors), kept, n_epochs, batch_size, rng)
        return self

    def _fit_one(self, module, rows, kept, n_epochs, batch_size, rng):
        optimiser = torch.optim.Adam(module.parameters(), lr=self.learning_rate, fused=True)
        module.train()
        for epoch in range(n_epochs):
            for batch in torch.from_numpy(rng.permutation(len(rows[0]))).split(batch_size):
                X, y, coefficients = (a[batch] for a in rows)
                coefficients = coefficients / len(batch)
                if kept:
                    X, y = torch.cat([X, kept[0]]), torch.cat([y, kept[1].long()])
                    coefficients = torch.cat([coefficients, kept[2].float()])
                with self._autocast():
                    logits = module(X).float()
                loss = coefficients @ cross_entropy(logits, y, reduction="none")
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            _check_finite(loss.detach(), epoch, n_epochs, self.learning_rate)

    def _autocast(self):
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bfloat16)

    def views(self, X, y, run):
        """The `Views` that one run has of some rows."""
        with self._autocast():
            return network_views(self.modules[run], torch.as_tensor(X).float(), y)

    def logits(self, X, run=None):
        """Logits, shape (R, n, classes), or (n, classes) for one run."""
        if run is None:
            return torch.stack([self.logits(X, r) for r in range(self.n_runs)])
        return torch.from_numpy(self.views(X, None, run).logits)

    def accuracy(self, X, y):
        """Share of rows whose class is predicted, percent, shape (R,)."""
        return 100.0 * (self.logits(X).argmax(dim=2) == torch.as_tensor(y)).double().mean(dim=1).numpy()


def _check_finite(loss, epoch, n_epochs, learning_rate):
    if not torch.isfinite(loss).all():
        raise Diverged(
            f"training diverged in epoch {epoch + 1} of {n_epochs}: loss {loss.max():.3g} with step size "
            f"{learning_rate:g}; lower the step size or the weight of the memory."
        )


def _ints(seed):
    return [int(s) for s in np.atleast_1d(seed)]


def _torch_seed(seed, *key):
    return int(np.random.default_rng([*_ints(seed), *key]).integers(2**63))


def _factors(sample_weight, n):
    return torch.ones(n) if sample_weight is None else torch.as_tensor(sample_weight, dtype=torch.float32)


def _mask(rng, shape, dropout, dtype):
    # Kept units scaled up, dropped ones zero; 16 random bits a unit decide.
    if not dropout:
        return torch.ones(shape, dtype=dtype)
    bits = np.frombuffer(rng.bytes(2 * shape[0] * shape[1]), dtype="<u2").reshape(shape)
    return torch.from_numpy((bits >= round(65536 * dropout)).astype(np.float32) / np.float32(1.0 - dropout)).to(dtype)
