"""Networks as inner problems: trained from scratch, implicit gradients from products alone (Section 3.5.1)."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from handful.bilevel.newton import ConvergenceError
from handful.bilevel.problems import Problem, soft_targets
from handful.checks import check_integer, check_number

try:
    import torch
except ImportError as error:
    raise ImportError("Network needs torch: pip install 'handful[torch]'.") from error

CURVATURES = ("gauss-newton", "hessian")
OPTIMISERS = ("sgd", "adam")


def in_type(X, dtype):
    """Rows as a tensor of a network's type; ValueError if that cannot hold them."""
    X = X.to(dtype)
    finite = torch.isfinite(X).flatten(1).all(dim=1)
    if not finite.all():
        raise ValueError(
            f"X has entries that {dtype}, the network's type, cannot hold (first in row {int(finite.byte().argmin())} "
            "of those handed over): scale the data."
        )
    return X


@dataclass(frozen=True)
class TrainConfig:
    """How a network is trained on the chosen rows. The defaults are the paper's for WideResNet-16-4 (Section 5.2.3).

    Attributes
    ----------
    steps : int, minibatches, whatever the number of rows; the paper's 300 n / m epochs are a fixed number of steps
    batch_size : int; fewer rows than that are one minibatch
    lr : float, step size at the start; it falls to zero along half a cosine
    momentum : float, of SGD (Nesterov's)
    weight_decay : float, the penalty ``weight_decay / 2 |theta|^2`` on all parameters, also in implicit gradients
    optimiser : "sgd" or "adam"
    augment : function ``(X, generator) -> X`` of a minibatch and a torch Generator of the CPU, or None
    bfloat16 : bool, whether to train in mixed precision; implicit gradients stay in the network's own
    """

    steps: int = 2000
    batch_size: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    optimiser: str = "sgd"
    augment: Callable | None = field(default=None, repr=False)
    bfloat16: bool = False

    def check(self):
        """ValueError for a setting that makes no sense."""
        for name in ("steps", "batch_size"):
            check_integer(name, getattr(self, name), of=self)
        check_number("lr", self.lr, above=0, of=self)
        for name in ("momentum", "weight_decay"):
            check_number(name, getattr(self, name), least=0, of=self)
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser of TrainConfig must be one of {OPTIMISERS}, got {self.optimiser!r}.")

    def optimise(self, parameters):
        """A new torch optimiser of some parameters."""
        if self.optimiser == "adam":
            return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        options = dict(momentum=self.momentum, nesterov=self.momentum > 0, weight_decay=self.weight_decay)
        return torch.optim.SGD(parameters, lr=self.lr, **options)


class Network(Problem):
    """A torch network as inner problem of `BilevelCoreset` (Borsos et al. 2024, Sections 3.5.1 and 5.2.3).

    Each round trains the network from scratch on the points chosen so far, solves ``H v = grad g`` by a Neumann series
    or conjugate gradients on minibatches, and takes the points of the smallest implicit gradient. Row scores
    ``grad l_k' v`` are directional derivatives: one pass in forward mode over all rows, no gradient per row.

    Selection is forward, with equal weights and the linear rule:
    ``BilevelCoreset(Network(module), size=1000, batch=100, n_start=200, score="linear")``.

    Parameters
    ----------
    module : torch.nn.Module that takes rows as they lie in X, shape (batch, d), each training begins at a copy of it
        as it is now; or a function without arguments that makes one, called anew in every round
    loss : function ``(outputs, targets) -> losses``, shape (batch,). None: cross-entropy, where y holds classes or
        rows of probabilities
    train : TrainConfig
    curvature : "gauss-newton", never negative, so that both iterations converge; "hessian", the paper's, which may be
        indefinite: conjugate gradients then stop, the Neumann series may diverge, which is an error
    curvature_rows : int, chosen rows in the minibatch of one Hessian-vector product
    block : int, rows a pass of scores and gradients reads at a time
    device : of torch, such as "cuda"; None is the CPU
    seed : int, of the minibatches; every round has its own
    checkpoint : path of a file in which the choice is kept after every round, so that the same fit after a crash goes
        on there, as if it had not been; one of another size or batch takes the rounds that it would have chosen, too.
        Other data, options, networks or losses are refused. None keeps nothing

    Raises
    ------
    ValueError
        if the module does not take rows of X's shape, module, loss and targets do not suit each other, X has entries
        beyond the module's type, or the checkpoint is of another task
    ConvergenceError
        if training ends in a loss that is not finite, the Neumann series diverges, or scores are not finite

    Examples
    --------
    >>> import torch
    >>> from handful import BilevelCoreset
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))
    >>> problem = Network(net, train=TrainConfig(steps=50, lr=1e-2, optimiser="adam"))
    >>> coreset = BilevelCoreset(problem, size=40, batch=10, n_start=20, score="linear", random_state=0)
    >>> len(coreset.fit(X / 16, y).indices_)
    40
    """

    forward_only = True

    def __init__(
        self,
        module,
        loss=None,
        *,
        train=None,
        curvature="gauss-newton",
        curvature_rows=512,
        block=1024,
        device=None,
        seed=0,
        checkpoint=None,
    ):
        self.module = module
        self.loss = loss
        self.train = train
        self.curvature = curvature
        self.curvature_rows = curvature_rows
        self.block = block
        self.device = device
        self.seed = seed
        self.checkpoint = checkpoint

    @property
    def classifies(self):
        """Whether y holds classes."""
        return self.loss is None

    def check(self):
        """ValueError for an option that makes no sense, and for CUDA where there is none."""
        if not callable(self.module):
            raise ValueError(f"module must be a torch module or a function that makes one, got {self.module!r}.")
        if self.curvature not in CURVATURES:
            raise ValueError(f"curvature must be one of {CURVATURES}, got {self.curvature!r}.")
        if not (self.loss is None or callable(self.loss)):
            raise ValueError(f"loss must be a function (outputs, targets) -> losses, or None, got {self.loss!r}.")
        if not isinstance(self.training(), TrainConfig):
            raise ValueError(f"train must be a TrainConfig or None, got {self.train!r}.")
        self.training().check()
        for name in ("curvature_rows", "block"):
            check_integer(name, getattr(self, name))
        try:
            kind = torch.device(self.device or "cpu").type
        except RuntimeError as error:
            raise ValueError(f"device={self.device!r} is none that torch knows, such as 'cuda' or None.") from error
        if kind == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={self.device!r}, but torch finds no CUDA device here: take device=None.")

    def training(self):
        """The `TrainConfig` that holds."""
        return TrainConfig() if self.train is None else self.train

    def encode(self, y):
        """Classes as integers in the order of `numpy.unique`; rows of probabilities and others as floats.

        Raises
        ------
        ValueError
            for rows of probabilities that are negative or do not add up to one, and for words beside a loss
        """
        y = np.asarray(y)
        if self.loss is None:
            return np.unique(y, return_inverse=True)[1] if y.ndim == 1 else soft_targets(y).astype(np.float32)
        if y.dtype.kind not in "biuf":
            raise ValueError(f"a loss of your own takes numbers as y, got {y.dtype}: encode the labels.")
        return y.astype(np.float32) if y.dtype.kind == "f" else y

    def selection(self, rows, rng, ihvp):
        """An empty `NetworkSelection`."""
        from handful.bilevel.network_selection import NetworkSelection

        return NetworkSelection(self, rows, ihvp)

    def make(self):
        """A module to be trained, in its initial state."""
        if isinstance(self.module, torch.nn.Module):
            return copy.deepcopy(self.module).to(self.device)
        return self.module().to(self.device)

    def row_losses(self, outputs, y):
        """The loss of every row, shape (batch,)."""
        if self.loss is None:
            return torch.nn.functional.cross_entropy(outputs, y, reduction="none")
        losses = self.loss(outputs, y)
        if losses.shape != (len(outputs),):
            raise ValueError(
                f"loss must give one number a row, shape ({len(outputs)},), got {tuple(losses.shape)}: torch's losses "
                "take reduction='none'."
            )
        return losses

    def check_outputs(self, outputs, y):
        """ValueError if a module's outputs do not suit the targets that cross-entropy compares them with."""
        if self.loss is not None:
            return
        classes = int(y.max()) + 1 if y.ndim == 1 else y.shape[1]
        if outputs.ndim != 2 or outputs.shape[1] < classes or (y.ndim == 2 and outputs.shape[1] > classes):
            raise ValueError(
                f"module must give one number for each of {classes} classes, outputs of shape ({len(outputs)}, "
                f"{classes}), but gives {tuple(outputs.shape)}; another loss is for `loss`."
            )

    def _first_losses(self, module, rows, y):
        # What training begins with: a module or loss that does not suit the data shows here, in torch's words.
        try:
            outputs = module(rows)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"module {type(module).__name__} must take rows as they lie in X, of shape {tuple(rows.shape[1:])} "
                f"(images: reshape them in the module), but fails on {len(rows)} of them: {error}"
            ) from error
        if not isinstance(outputs, torch.Tensor) or outputs.shape[:1] != rows.shape[:1]:
            got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
            raise ValueError(f"module must give one tensor with an output for each of {len(rows)} rows, got {got}.")
        self.check_outputs(outputs, y)
        try:
            return self.row_losses(outputs, y)
        except (RuntimeError, IndexError, TypeError) as error:
            raise ValueError(
                f"loss fails on outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(y.shape)}, "
                f"{y.dtype}: {error}"
            ) from error

    def fit_module(self, X, y, seed, watch=None):
        """A module trained from scratch on some rows.

        Parameters
        ----------
        X : tensor, shape (s, d); y : tensor, encoded targets
        seed : sequence of int
        watch : function ``(step, module)``, called after each minibatch, from 1; for those that look on

        Returns
        -------
        torch.nn.Module, in evaluation mode
        """
        config = self.training()
        rng = np.random.default_rng(seed)
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        size, device = min(config.batch_size, len(X)), torch.device(self.device or "cpu")
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(int(rng.integers(2**63)))  # of the initial weights and dropout
            module = self.make().train()
            trained = [p for p in module.parameters() if p.requires_grad]
            if not trained:
                raise ValueError(f"module {type(module).__name__} has no parameter that asks for a gradient.")
            X = in_type(X, trained[0].dtype)
            optimiser = config.optimise(module.parameters())
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
            order = np.empty(0, np.intp)
            for step in range(config.steps):
                if len(order) < size:  # what is left of an epoch begins the next, so that minibatches have one size
                    order = np.concatenate([order, rng.permutation(len(X))])
                batch, order = torch.from_numpy(order[:size]).to(X.device), order[size:]
                rows = X[batch] if config.augment is None else config.augment(X[batch], generator)
                with torch.autocast(device.type, torch.bfloat16, enabled=config.bfloat16):
                    if step:
                        losses = self.row_losses(module(rows), y[batch])
                    else:
                        losses = self._first_losses(module, rows, y[batch])
                    loss = losses.mean()
                if not torch.isfinite(loss):
                    epoch = 1 + step * size // len(X)
                    raise ConvergenceError(
                        f"training on {len(X)} rows diverged in step {step + 1} of {config.steps} (epoch {epoch}): "
                        f"loss {loss.item():.3g} at the step size {schedule.get_last_lr()[0]:.3g}; lower lr."
                    )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                if watch is not None:
                    watch(step + 1, module)
        return module.eval()
