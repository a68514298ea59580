"""Many networks at once: the runs of a table differ in what they replay, and share everything else.

`StackedMLP` trains small dense networks side by side in batched matrix products; `TorchRuns` trains
torch modules one after the other, for networks large enough to keep a processor busy alone. Both
have the same methods.
"""

import copy
from itertools import pairwise

import numpy as np
import torch
from handful.continual.views import Views, network_views
from torch.nn.functional import cross_entropy


class Diverged(FloatingPointError):
    """Training gave a loss that is no number."""


class Runs:
    """R networks that are trained on the same rows, each beside its own memory.

    All runs have the same start, minibatches and dropout masks (common random numbers: two runs
    differ in what they replay and in nothing else). Adam starts anew in each `fit`, as in the
    protocol of Borsos et al. (2024).

    Parameters
    ----------
    seed : int, or sequence of ints; of the start, the minibatches and the masks
    learning_rate : Adam's step size
    bfloat16 : whether hidden layers compute in bfloat16; the logits, weights and Adam's sums stay
        in float32
    device : of torch; None is the CPU
    """

    def __init__(
        self,
        *,
        seed=0,
        learning_rate=5e-4,
        bfloat16=False,
        device=None,
    ):
        self.seed = np.atleast_1d(seed).tolist()
        self.learning_rate = learning_rate
        self.bfloat16 = bfloat16
        self.device = torch.device(device or "cpu")

    def fit(
        self,
        X,
        y,
        *,
        n_epochs,
        batch_size,
        memory=None,
        sample_weight=None,
        key=0,
    ):
        """Train all runs on the same rows, each beside its own memory.

        The loss of run r is the mean cross-entropy of the minibatch plus the sum of its memory's
        losses times coefficients, at every step over the whole memory.

        Parameters
        ----------
        X : float32 array, shape (n, inputs)
        y : int array, shape (n,)
        n_epochs, batch_size : ints; rows are shuffled in every epoch
        memory : None, or arrays X (R, m, inputs), y (R, m) and coefficients (R, m); runs that hold
            fewer rows are filled up with rows of coefficient zero
        sample_weight : shape (n,), factors of the rows' losses
        key : int, of this part of the training: its minibatches and masks

        Raises
        ------
        Diverged
            if the loss becomes NaN or infinite; names the epoch, the loss and the step size.
        """
        factors = np.ones(len(X)) if sample_weight is None else sample_weight
        rows = self._tensors(X, y, factors)
        kept = None if memory is None else self._tensors(*memory)
        for parameters, loss, rng in self._parts(rows, kept, key):
            optimiser = torch.optim.Adam(
                parameters,
                lr=self.learning_rate,
                fused=True,
            )
            for epoch in range(n_epochs):
                for batch in (
                    torch.from_numpy(rng.permutation(len(X))).to(self.device).split(batch_size)
                ):
                    losses = loss(*(a[batch] for a in rows), rng)
                    optimiser.zero_grad()
                    losses.sum().backward()
                    optimiser.step()
                if not losses.isfinite().all():
                    raise Diverged(
                        f"training diverged in epoch {epoch + 1} of {n_epochs}: loss "
                        f"{losses.max():.3g} with step size "
                        f"{self.learning_rate:g}; lower the step size or the weight of the memory."
                    )
        return self

    def _tensors(self, X, y, coefficients):
        given = (X, y, coefficients)
        X, y, coefficients = (torch.from_numpy(np.ascontiguousarray(a)) for a in given)
        X = X.to(self.device).float()
        y = y.to(self.device).long()
        return X, y, coefficients.to(self.device).float()

    def accuracy(self, X, y, *, block=1000):
        """Share of rows whose class is predicted, percent, shape (R,)."""
        n_right = 0
        for part, labels in zip(torch.as_tensor(X).split(block), torch.as_tensor(y).split(block)):
            right = self.logits(part).argmax(dim=2) == labels
            n_right = n_right + right.sum(dim=1)
        return 100.0 * n_right.numpy() / len(X)


class StackedMLP(Runs):
    """R fully connected networks of one architecture, trained side by side: each layer is one
    batched matrix product.

    Two hidden layers with ReLU and dropout, cross-entropy. A run alone gives what it gives in a
    stack, up to rounding.

    Parameters
    ----------
    widths : (inputs, hidden, hidden, classes)
    n_runs : int, R
    dropout : share of hidden units dropped
    options : of `Runs`

    Attributes
    ----------
    parameters : list of float32 tensors, W1 (R, hidden, inputs), b1 (R, hidden, 1), W2, b2, W3, b3
    """

    def __init__(
        self,
        widths,
        n_runs=1,
        *,
        dropout=0.2,
        **options,
    ):
        super().__init__(**options)
        self.dropout = dropout
        self.parameters = []
        rng = np.random.default_rng([*self.seed, 0])
        for fan_in, fan_out in pairwise(widths):
            # They are drawn as torch draws those of a linear layer.
            for shape in ((fan_in, fan_out), (1, fan_out)):
                values = rng.uniform(-1, 1, shape).T / np.sqrt(fan_in)
                parameter = torch.tensor(values, dtype=torch.float32, device=self.device)
                self.parameters.append(parameter[None])
        self.repeat(n_runs)

    def repeat(self, times):
        """Make `times` runs of each run: they go separate ways from here."""
        self.parameters = [
            p.detach().repeat_interleave(times, dim=0).requires_grad_() for p in self.parameters
        ]
        return self

    def _parts(self, rows, kept, key):
        nothing = torch.empty(len(self.parameters[0]), 0, device=self.device)
        X_kept, y_kept, c_kept = kept or (None, nothing, nothing)

        def loss(X, y, factors, rng):
            n_rows = len(X) + y_kept.shape[1]
            weights = self.parameters[:4:2]
            masks = [_mask(rng, (n_rows, W.shape[1]), self.dropout) for W in weights]
            masks = [mask.to(self.device) for mask in masks]
            dtype = torch.bfloat16 if self.bfloat16 else torch.float32
            _, logits = self._forward(X, X_kept, masks, dtype=dtype)
            n_runs = len(logits)
            labels = torch.cat([y.expand(n_runs, -1), y_kept.long()], dim=1)
            shares = (factors / len(X)).expand(n_runs, -1)
            coefficients = torch.cat([shares, c_kept], dim=1)
            losses = cross_entropy(logits, labels, reduction="none")
            return (coefficients * losses).sum(dim=1)

        yield self.parameters, loss, np.random.default_rng([*self.seed, 1, key])

    def _forward(
        self,
        X,
        kept=None,
        masks=None,
        *,
        dtype=torch.float32,
        run=None,
    ):
        # The last hidden layer and the logits, shape (R, units, rows): activations have a column
        # for each row of data, so that all runs' first layer of shared rows is one product of two
        # matrices, and so is its gradient.
        parameters = self.parameters
        if run is not None:
            parameters = [parameter[run : run + 1] for parameter in parameters]
        *hidden, W3, b3 = parameters
        W1, b1, W2, b2 = (parameter.to(dtype) for parameter in hidden)
        H = (W1.flatten(0, 1) @ X.to(dtype).T).unflatten(0, W1.shape[:2])
        if kept is not None:
            H = torch.cat([H, torch.bmm(W1, kept.to(dtype).transpose(1, 2))], dim=2)
        if not masks:
            masks = [torch.ones((), device=self.device)] * 2
        first, second = (mask.to(dtype) for mask in masks)
        H = (H + b1).relu() * first
        H = torch.baddbmm(b2, W2, H).relu() * second
        return H.float(), torch.baddbmm(b3, W3, H.float())

    @torch.no_grad()
    def logits(self, X, run=None):
        """Logits on the CPU, shape (R, n, classes), or (n, classes) for one run."""
        _, logits = self._forward(torch.as_tensor(X).to(self.device), run=run)
        logits = logits.transpose(1, 2).cpu()
        return logits if run is None else logits[0]

    @torch.no_grad()
    def views(self, X, y, run):
        """The `Views` that one run has of some rows."""
        seen = self._forward(torch.as_tensor(X).to(self.device), run=run)
        return Views(*(a[0].T.cpu().numpy() for a in seen), np.asarray(y))


class TorchRuns(Runs):
    """R copies of a torch network, trained one after the other.

    Parameters
    ----------
    make : function without arguments that gives a torch module
    n_runs : int, R
    options : of `Runs`; with `bfloat16`, torch's autocast does convolutions and matrix products
    """

    def __init__(self, make, n_runs=1, **options):
        super().__init__(**options)
        with torch.random.fork_rng():
            torch.manual_seed(self._torch_seed(0))
            self.modules = [make().to(self.device)]
        self.repeat(n_runs)

    def _torch_seed(self, *key):
        return int(np.random.default_rng([*self.seed, *key]).integers(2**63))

    def repeat(self, times):
        """Make `times` runs of each run: they go separate ways from here."""
        self.modules = [copy.deepcopy(m) for m in self.modules for _ in range(times)]
        return self

    def _parts(self, rows, kept, key):
        for run, module in enumerate(self.modules):

            def loss(
                X,
                y,
                factors,
                rng,
                run=run,
                module=module,
            ):
                parts = [X, y, factors / len(X)]
                if kept:
                    parts = [torch.cat([part, a[run]]) for part, a in zip(parts, kept)]
                with self._autocast():
                    logits = module(parts[0]).float()
                return parts[2] @ cross_entropy(logits, parts[1], reduction="none")

            # Every run meets the same masks, as far as their memories are of one size.
            with torch.random.fork_rng():
                torch.manual_seed(self._torch_seed(1, key))
                rng = np.random.default_rng([*self.seed, 1, key])
                yield module.train().parameters(), loss, rng

    def _autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bfloat16)

    def logits(self, X, run=None):
        """Logits on the CPU, shape (R, n, classes), or (n, classes) for one run."""
        if run is None:
            return torch.stack([self.logits(X, r) for r in range(len(self.modules))])
        return torch.from_numpy(self.views(X, None, run).logits)

    def views(self, X, y, run):
        """The `Views` that one run has of some rows."""
        rows = torch.as_tensor(X).float().to(self.device)
        with self._autocast():
            return network_views(self.modules[run], rows, y)


def _mask(rng, shape, dropout):
    # Kept units scaled up, dropped ones zero, shape (units, rows); 16 random bits a unit decide.
    if not dropout:
        return torch.ones(shape[::-1])
    drawn = rng.bytes(2 * shape[0] * shape[1])
    bits = np.frombuffer(drawn, dtype="<u2").reshape(shape)
    kept = (bits >= round(65536 * dropout)).T.astype(np.float32)
    return torch.from_numpy(kept / np.float32(1.0 - dropout))
