"""Many networks at once: the runs of a table differ in what they replay, and share everything else.

`StackedMLP` trains small dense networks side by side in batched matrix products; `TorchRuns` trains torch modules one
after the other, for networks large enough to keep a processor busy alone. Both have the same methods.
"""

import copy

import numpy as np
import torch

from handful.continual.views import Views, views


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
    lr : Adam's step size; Adam starts anew in each `fit`, as in the protocol of Borsos et al. (2024)
    bfloat16 : whether activations and matrix products of the hidden layers are in bfloat16 (the logits, weights and
        Adam's sums stay in float32)

    Attributes
    ----------
    parameters : list of float32 tensors, W1 (R, inputs, hidden), b1 (R, 1, hidden), W2, b2, W3, b3
    """

    def __init__(self, widths, n_runs=1, *, seed=0, dropout=0.2, lr=5e-4, bfloat16=False):
        self.widths, self.seed, self.dropout, self.lr = tuple(widths), seed, dropout, lr
        self.dtype = torch.bfloat16 if bfloat16 else torch.float32
        rng = np.random.default_rng([*_ints(seed), 0])
        self.parameters = []
        for fan_in, fan_out in zip(self.widths, self.widths[1:]):
            for shape in ((1, fan_in, fan_out), (1, 1, fan_out)):  # torch's defaults for a linear layer
                values = rng.uniform(-1, 1, shape) / np.sqrt(fan_in)
                self.parameters.append(torch.tensor(values, dtype=torch.float32))
        self.repeat(n_runs)

    @property
    def n_runs(self):
        return self.parameters[1].shape[0]

    def repeat(self, times):
        """Make `times` runs of each run: they go separate ways from here."""
        self.parameters = [p.repeat_interleave(times, dim=0) for p in self.parameters]
        return self

    @torch.no_grad()
    def fit(self, X, y, *, epochs, batch_size, memory=None, sample_weight=None, key=0):
        """Train all runs on the same rows, each beside its own memory.

        The loss of run r is the mean cross-entropy of the minibatch plus the sum of its memory's losses times
        coefficients, at every step over the whole memory.

        Parameters
        ----------
        X : float32 array, shape (n, inputs)
        y : int array, shape (n,)
        epochs, batch_size : ints; rows are shuffled in every epoch
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
        X, y = torch.as_tensor(X).to(self.dtype), torch.as_tensor(y)
        n, m = len(X), 0 if memory is None else memory[0].shape[1]
        batch_size = min(batch_size, n)
        # The minibatch comes first, then the memory, which stays where it is.
        rows = torch.empty(self.n_runs, batch_size + m, self.widths[0], dtype=self.dtype)
        targets = torch.zeros(self.n_runs, batch_size + m, self.widths[-1])
        coefficients = torch.empty(self.n_runs, batch_size + m, 1)
        if m:
            rows[:, batch_size:] = torch.as_tensor(memory[0])
            targets[:, batch_size:] = _one_hot(memory[1], self.widths[-1])
            coefficients[:, batch_size:, 0] = torch.as_tensor(memory[2])
        one_hot, factors = _one_hot(y, self.widths[-1]), _factors(sample_weight, n)
        optimiser = torch.optim.Adam(self.parameters, lr=self.lr, fused=True)
        for epoch in range(epochs):
            order = torch.from_numpy(rng.permutation(n))
            for start in range(0, n, batch_size):
                batch = order[start : start + batch_size]
                first = batch_size - len(batch)  # the last minibatch of an epoch may be short
                rows[:, first:batch_size] = X[batch]
                targets[:, first:batch_size] = one_hot[batch]
                coefficients[:, first:batch_size, 0] = factors[batch] / len(batch)
                loss = self._gradients(rows[:, first:], targets[:, first:], coefficients[:, first:], rng)
                optimiser.step()
            _check_finite(loss, epoch, epochs, self.lr)
        return self

    def _gradients(self, X, Y, coefficients, rng):
        # Sets every parameter's gradient; gives the loss of each run.
        W1, b1, W2, b2, W3, b3 = self.parameters
        W1, b1, W2, b2 = (p.to(self.dtype) for p in (W1, b1, W2, b2))
        keep1, keep2 = (_mask(rng, (X.shape[1], width), self.dropout, self.dtype) for width in self.widths[1:3])
        H1 = torch.baddbmm(b1, X, W1).relu_().mul_(keep1)
        H2 = torch.baddbmm(b2, H1, W2).relu_().mul_(keep2)
        H2_ = H2.float()
        log_p = torch.log_softmax(torch.baddbmm(b3, H2_, W3), dim=2)
        loss = -((log_p * Y).sum(dim=2, keepdim=True) * coefficients).sum(dim=(1, 2))

        G = log_p.exp_().sub_(Y).mul_(coefficients)
        scale = 1.0 / (1.0 - self.dropout)
        gate = torch.ops.aten.threshold_backward  # a unit that is zero passes nothing on
        D2 = gate(torch.bmm(G, (W3 * scale).transpose(1, 2)).to(self.dtype), H2, 0)
        D1 = gate(torch.bmm(D2, (W2 * scale).transpose(1, 2)), H1, 0)
        gradients = (
            (torch.bmm(X.transpose(1, 2), D1), D1.sum(1, keepdim=True)),
            (torch.bmm(H1.transpose(1, 2), D2), D2.sum(1, keepdim=True)),
            (torch.bmm(H2_.transpose(1, 2), G), G.sum(1, keepdim=True)),
        )
        for p, g in zip(self.parameters, (g for layer in gradients for g in layer)):
            p.grad = g.float()
        return loss

    @torch.no_grad()
    def embeddings(self, X, run=None):
        """The last hidden layer, without dropout: shape (R, n, hidden), or (n, hidden) for one run."""
        W1, b1, W2, b2 = (p if run is None else p[run : run + 1] for p in self.parameters[:4])
        X = torch.as_tensor(X).float().expand(len(W1), -1, -1)
        H1 = torch.baddbmm(b1, X, W1).relu_()
        H2 = torch.baddbmm(b2, H1, W2).relu_()
        return H2 if run is None else H2[0]

    def logits(self, X, run=None):
        """Logits, shape (R, n, classes), or (n, classes) for one run."""
        W3, b3 = self.parameters[4:]
        H2 = self.embeddings(X, run)
        return torch.baddbmm(b3, H2, W3) if run is None else H2 @ W3[run] + b3[run]

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
    n_runs, seed, lr : as in `StackedMLP`
    """

    def __init__(self, make, n_runs=1, *, seed=0, lr=5e-4):
        self.seed, self.lr = seed, lr
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

    def fit(self, X, y, *, epochs, batch_size, memory=None, sample_weight=None, key=0):
        """Train all runs on the same rows, each beside its own memory; as `StackedMLP.fit`."""
        X, y, factors = torch.as_tensor(X).float(), torch.as_tensor(y), _factors(sample_weight, len(X))
        for run, module in enumerate(self.modules):
            one = None if memory is None else [torch.as_tensor(np.ascontiguousarray(a[run])) for a in memory]
            with torch.random.fork_rng():  # every run meets the same masks, as far as their memories are of one size
                torch.manual_seed(_torch_seed(self.seed, 1, key))
                rng = np.random.default_rng([*_ints(self.seed), 1, key])
                self._fit_one(module, (X, y, factors), one, epochs, batch_size, rng)
        return self

    def _fit_one(self, module, rows, memory, epochs, batch_size, rng):
        X, y, factors = rows
        optimiser = torch.optim.Adam(module.parameters(), lr=self.lr)
        cross_entropy = torch.nn.functional.cross_entropy
        module.train()
        for epoch in range(epochs):
            order = torch.from_numpy(rng.permutation(len(X)))
            for start in range(0, len(X), batch_size):
                batch = order[start : start + batch_size]
                losses = cross_entropy(module(X[batch]), y[batch], reduction="none")
                loss = (factors[batch] * losses).mean()
                if memory is not None:
                    kept, labels, coefficients = memory
                    loss = loss + coefficients.float() @ cross_entropy(module(kept), labels, reduction="none")
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            _check_finite(loss.detach(), epoch, epochs, self.lr)

    def views(self, X, y, run):
        """The `Views` that one run has of some rows."""
        return views(self.modules[run], torch.as_tensor(X).float(), y)

    def logits(self, X, run=None):
        """Logits, shape (R, n, classes), or (n, classes) for one run."""
        if run is None:
            return torch.stack([self.logits(X, r) for r in range(self.n_runs)])
        return torch.from_numpy(views(self.modules[run], torch.as_tensor(X).float()).logits)

    def accuracy(self, X, y):
        """Share of rows whose class is predicted, percent, shape (R,)."""
        return 100.0 * (self.logits(X).argmax(dim=2) == torch.as_tensor(y)).double().mean(dim=1).numpy()


def _check_finite(loss, epoch, epochs, lr):
    if not torch.isfinite(loss).all():
        raise Diverged(
            f"training diverged in epoch {epoch + 1} of {epochs}: loss {loss.max():.3g} with step size {lr:g}; lower "
            "the step size or the weight of the memory."
        )


def _ints(seed):
    return [int(s) for s in np.atleast_1d(seed)]


def _torch_seed(seed, *key):
    return int(np.random.default_rng([*_ints(seed), *key]).integers(2**63))


def _factors(sample_weight, n):
    return torch.ones(n) if sample_weight is None else torch.as_tensor(sample_weight, dtype=torch.float32)


def _one_hot(y, classes):
    return torch.nn.functional.one_hot(torch.as_tensor(y), classes).float()


def _mask(rng, shape, dropout, dtype):
    # Kept units scaled up, dropped ones zero; 16 random bits a unit decide.
    if not dropout:
        return torch.ones(shape, dtype=dtype)
    bits = np.frombuffer(rng.bytes(2 * shape[0] * shape[1]), dtype="<u2").reshape(shape)
    return torch.from_numpy((bits >= round(65536 * dropout)).astype(np.float32) / np.float32(1.0 - dropout)).to(dtype)
