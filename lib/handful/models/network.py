"""Networks as inner problems, and how one is trained on chosen rows (Sections 3.5.1 and 5.2.3)."""

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass, field
from inspect import signature
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.utils.multiclass import type_of_target

from handful.checks import ConvergenceError
from handful.models.linear import soft_targets
from handful.models.problem import Problem
from handful.models.torch_model import NetworkModel
from handful.options import Count, CountOrZero, check_options, number
from handful.running import warn

# least and most minibatches of a training without a TrainConfig
DEFAULT_STEPS = 200, 2000
# by which the sum of a row of probabilities may miss one
NEAR_ONE = 1e-3


@dataclass(frozen=True)
class TrainConfig:
    """How a network is trained on the chosen rows. The defaults are the paper's for WideResNet-16-4
    (Section 5.2.3).

    Attributes
    ----------
    n_steps : int, minibatches, whatever the number of rows; the paper's 300 n / m epochs are a
        fixed number of steps
    batch_size : int; fewer rows than that are one minibatch
    learning_rate : float, at the start; it falls to zero along half a cosine
    momentum : float, of SGD (Nesterov's)
    weight_decay : float, the penalty ``weight_decay / 2 |theta|^2`` on all parameters, also in
        implicit gradients
    optimiser : "sgd" or "adam"
    augment : function ``(X, generator) -> X`` of a minibatch and a torch Generator of the CPU, or
        None
    bfloat16 : bool, whether to train in mixed precision; implicit gradients stay in the network's
        own. It is for GPUs and for processors that compute in bfloat16, as those with AMX do: on
        one with AVX2 alone a convolution took 48 times as long as in single precision
    """

    n_steps: Count = 2000
    batch_size: Count = 128
    learning_rate: Annotated[float, number(above=0, most=1e8)] = 0.1
    momentum: Annotated[float, number(least=0, most=1e8)] = 0.9
    weight_decay: Annotated[float, number(least=0, most=1e8)] = 5e-4
    optimiser: Literal["sgd", "adam"] = "sgd"
    augment: Callable | None = field(default=None, repr=False)
    bfloat16: bool = False

    def optimiser_of(self, parameters):
        """The torch optimiser of some parameters."""
        if self.optimiser == "adam":
            return torch.optim.Adam(
                parameters,
                lr=self.learning_rate,
                weight_decay=self.weight_decay,
            )
        momentum = dict(momentum=self.momentum, nesterov=self.momentum > 0)
        return torch.optim.SGD(
            parameters,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            **momentum,
        )


class Network(Problem):
    """A torch network as inner problem of `BilevelCoreset` (Borsos et al. 2024, Sections 3.5.1 and
    5.2.3).

    Each round trains the network from scratch on the points chosen so far, solves ``H v = grad g``
    by a Neumann series (``ihvp="auto"``) or conjugate gradients on minibatches, and takes the
    points of the smallest implicit gradient. Row scores ``grad l_k' v`` are directional
    derivatives: one pass in forward mode over all rows, no gradient per row.

    Selection is forward, with equal weights and the linear rule:
    ``BilevelCoreset(Network(module), size=1000, strategy=Forward(batch_size=100, n_start=200))``.

    Parameters
    ----------
    module : torch.nn.Module or callable
        A module that takes rows as they lie in X, shape (batch, d), so that one for
        images begins with `torch.nn.Unflatten`; each training begins at a copy of it as it is
        now. Or a function without arguments that makes one, called anew in every round.
    loss : callable or None, default=None
        Function ``(outputs, targets) -> losses``, shape (batch,); targets that are floats come in
        the module's type, in float32 to one of half precision. None: cross-entropy, where y
        holds classes or rows of probabilities. Classes are numbered in ascending order: of labels 5
        and 7 alone these are outputs 0 and 1. Give rows of probabilities, one column an output, to
        a module that knows more classes.
    train : TrainConfig or None, default=None
        How the network is trained. None: the defaults of `TrainConfig`, but with one step for
        every five rows of the data, at least 200 and at most the paper's 2,000 steps.
    curvature : {"gauss-newton", "hessian"}, default="gauss-newton"
        "gauss-newton", never negative, so that both iterations converge; "hessian", the
        paper's, which may be indefinite: conjugate gradients then stop, the Neumann series may
        diverge, which is an error.
    curvature_batch_size : int, default=512
        Chosen rows in the minibatch of one Hessian-vector product.
    batch_size : int, default=1024
        Rows that passes for scores and gradients read at a time; training has its own in
        `train`.
    device : str, torch.device or None, default=None
        Where it runs, such as "cuda"; None is the CPU.
    random_state : int, default=0
        Every round derives from it the seeds of its initial weights and minibatches.

    Raises
    ------
    ValueError
        if the module does not take rows of X's shape, module, loss and targets do not suit each
        other, or X or targets have entries beyond the module's type
    ConvergenceError
        if training ends in a loss that is not finite, the Neumann series diverges, or scores are
        not finite

    Examples
    --------
    >>> import torch
    >>> from handful.bilevel import BilevelCoreset, Forward
    >>> from handful.models import Network
    >>> from handful.models.network import TrainConfig
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))
    >>> problem = Network(net, train=TrainConfig(n_steps=50, learning_rate=1e-2, optimiser="adam"))
    >>> strategy = Forward(batch_size=10, n_start=20)
    >>> coreset = BilevelCoreset(problem, size=40, strategy=strategy, random_state=0)
    >>> len(coreset.fit(X / 16, y).indices_)
    40
    """

    module: Any
    loss: Any = None
    _: KW_ONLY
    train: TrainConfig | None = None
    curvature: Literal["gauss-newton", "hessian"] = "gauss-newton"
    curvature_batch_size: Count = 512
    batch_size: Count = 1024
    device: Any = None
    random_state: CountOrZero = 0

    forward_only = True
    n_rounds = 100

    @property
    def classifies(self):
        """Whether y holds classes."""
        return self.loss is None

    def check(self):
        """As `Problem.check`."""
        check_options(self)
        if not callable(self.module):
            raise ValueError(
                f"module must be a torch module or a function that makes one, got {self.module!r}."
            )
        _check_makes_alone(self.module)
        if not (self.loss is None or callable(self.loss)):
            raise ValueError(
                f"loss must be a function (outputs, targets) -> losses, or None, got {self.loss!r}."
            )
        if not isinstance(self.training(), TrainConfig):
            raise ValueError(f"train must be a TrainConfig or None, got {self.train!r}.")
        check_options(self.training())

    def training(self):
        """The `TrainConfig` that holds."""
        return TrainConfig() if self.train is None else self.train

    def encode(self, y):
        """Classes as integers in the order of `numpy.unique`; rows of probabilities and others as
        floats, in double precision until the module's type is known.

        Raises
        ------
        ValueError
            for rows of probabilities that are negative or do not add up to one, for numbers that
            are no classes where there is no loss, and for words beside a loss
        """
        y = np.asarray(y)
        if self.loss is None:
            if y.ndim == 1 and (kind := type_of_target(y)).startswith("continuous"):
                raise ValueError(
                    f"Unknown label type: {kind}. Without a loss, Network needs y to hold classes; "
                    "for a regression "
                    "give one: loss=lambda outputs, targets: (outputs[:, 0] - targets) ** 2."
                )
            if y.ndim == 1:
                return np.unique(y, return_inverse=True)[1]
            return soft_targets(y)
        if y.dtype.kind not in "biuf":
            raise ValueError(
                f"a loss of your own takes numbers as y, got {y.dtype}: encode the labels."
            )
        # Small integers would wrap where a loss asks for 2 * y - 1.
        return y.astype({"f": np.float64, "b": bool}.get(y.dtype.kind, np.int64))

    def model(self, rows, rng, *, ihvp=None, weighted=False):
        """An empty `NetworkModel`."""
        problem = copy(self)
        rows = rows.encoded(self)
        if self.train is None:
            n_steps = np.clip(len(rows.sample_weight) // 5, *DEFAULT_STEPS)
            problem.train = TrainConfig(n_steps=int(n_steps))
        return NetworkModel(problem, rows, ihvp)

    def fit_module(self, X, y, rng, watch=None):
        """A module trained from scratch on some rows.

        Parameters
        ----------
        X : tensor, shape (s, d); y : tensor, encoded targets
        rng : numpy.random.Generator, of the initial weights and the minibatches
        watch : function ``(step, module)``, called after each minibatch, counted from 1, or None

        Returns
        -------
        torch.nn.Module, in evaluation mode
        """
        config = self.training()
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        size = min(config.batch_size, len(X))
        device = torch.device(self.device or "cpu")
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            # of the initial weights and dropout
            torch.manual_seed(int(rng.integers(2**63)))
            module = self.make_module().train()
            X, y = self.in_type_of(module, X, y)
            optimiser = config.optimiser_of(module.parameters())
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.n_steps)
            order = np.empty(0, np.intp)
            for step in range(config.n_steps):
                # rows left of an epoch begin the next: minibatches have one size
                if len(order) < size:
                    order = np.concatenate([order, rng.permutation(len(X))])
                batch = torch.from_numpy(order[:size]).to(X.device)
                order = order[size:]
                rows = X[batch]
                if config.augment is not None:
                    rows = config.augment(rows, generator)
                with torch.autocast(device.type, torch.bfloat16, enabled=config.bfloat16):
                    losses = (
                        self.row_losses(module(rows), y[batch])
                        if step
                        else self.first_losses(module, rows, y[batch])
                    )
                    loss = losses.mean()
                if not torch.isfinite(loss):
                    raise ConvergenceError(
                        f"training on {len(X)} rows diverged in step {step + 1} of "
                        f"{config.n_steps} (epoch "
                        f"{1 + step * size // len(X)}): loss {loss.item():.3g} at the rate "
                        f"{schedule.get_last_lr()[0]:.3g}; lower learning_rate, as in "
                        "Network(..., train=TrainConfig(learning_rate=...)), or scale X and the "
                        "targets."
                    )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                if watch is not None:
                    watch(step + 1, module)
        return module.eval()

    def make_module(self):
        """A module to be trained, in its initial state."""
        is_module = isinstance(self.module, torch.nn.Module)
        module = deepcopy(self.module) if is_module else self.module()
        if not isinstance(module, torch.nn.Module):
            raise ValueError(
                f"module must be a torch module or a function that makes one, got {self.module!r}, "
                f"which makes {type(module).__name__}."
            )
        return module.to(self.device)

    def in_type_of(self, module, X, y):
        """Rows X and targets y, if they are floats, in the module's type, or y in float32 where
        that is of half precision; ValueError if it cannot hold them, and where nothing is to be
        trained."""
        dtype = next((p.dtype for p in module.parameters() if p.requires_grad), None)
        if dtype is None:
            raise ValueError(
                f"module {type(module).__name__} has no parameter that asks for a gradient."
            )
        X = _in_type(dtype, X, "X")
        if y.is_floating_point():
            y = _in_type(torch.promote_types(dtype, torch.float32), y, "y")
        return X, y

    def row_losses(self, outputs, y):
        """The loss of every row, shape (batch,); ValueError, in torch's words too, if a loss of
        one's own fails."""
        if self.loss is None:
            return torch.nn.functional.cross_entropy(outputs, y, reduction="none")
        try:
            losses = self.loss(outputs, y)
        except (torch.OutOfMemoryError, NotImplementedError):
            # of the memory, and of a derivative, is told elsewhere
            raise
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            said = str(error).rstrip(".")
            raise ValueError(
                f"loss must take outputs, {outputs.dtype} of shape {tuple(outputs.shape)}, and "
                f"targets, {y.dtype} of shape {tuple(y.shape)}, but fails: {said}."
                f"{_way_out(said, outputs, y)}"
            ) from error
        return _each_of(losses, len(outputs))

    def first_losses(self, module, X, y):
        """As `row_losses`, of a module's first minibatch: ValueError, in torch's words too, if it
        fails."""
        try:
            outputs = module(X)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"module {type(module).__name__} must take rows as they lie in X, of shape "
                f"{tuple(X.shape[1:])} "
                f"(images: reshape them in the module), but fails on {len(X)} of them: {error}"
            ) from error
        if not isinstance(outputs, torch.Tensor) or outputs.shape[:1] != X.shape[:1]:
            got = (
                tuple(outputs.shape)
                if isinstance(outputs, torch.Tensor)
                else type(outputs).__name__
            )
            raise ValueError(
                f"module must give one tensor with an output for each of {len(X)} rows, got {got}."
            )
        self.check_outputs(outputs, y)
        losses = self.row_losses(outputs, y)
        if self.loss is None:
            return losses
        alone = self.row_losses(outputs[:1], y[:1])
        if not torch.allclose(alone, losses[:1], rtol=1e-2, equal_nan=True):
            raise ValueError(
                "loss of a row must not depend on the other rows of its batch, as it does "
                f"where outputs, {tuple(outputs.shape)}, and targets, {tuple(y.shape)}, are "
                "broadcast: flatten the module's outputs, or take outputs[:, 0]."
            )
        return losses

    def check_outputs(self, outputs, y):
        """ValueError if a module's outputs do not suit the targets that cross-entropy compares them
        with; a warning where they are probabilities, not logits."""
        if self.loss is not None:
            return
        classes = int(y.max()) + 1 if y.ndim == 1 else y.shape[1]
        suits = outputs.ndim == 2 and outputs.shape[1] >= classes
        if suits and y.ndim == 2:
            suits = outputs.shape[1] == classes
        if not suits:
            raise ValueError(
                f"module must give one number for each of {classes} classes, outputs of shape "
                f"({len(outputs)}, "
                f"{classes}), but gives {tuple(outputs.shape)}; another loss is for `loss`."
            )
        sums = outputs.detach().float().sum(dim=1)
        if outputs.shape[1] > 1 and (outputs >= 0).all() and ((sums - 1).abs() < NEAR_ONE).all():
            warn(
                "module gives probabilities, numbers of at least 0 that add up to 1, and "
                "cross-entropy takes logits, of which it makes probabilities itself: leave out the "
                "module's Softmax."
            )


def _check_makes_alone(module):
    """ValueError for a class or a function in place of a module that asks for arguments."""
    if isinstance(module, torch.nn.Module):
        return
    try:
        signature(module).bind()
    except TypeError as error:
        raise ValueError(
            "module must be a torch module or a function without arguments that makes one, but "
            f"{module!r} asks for some ({error}): call it first, as in "
            "Network(torch.nn.Linear(64, 10))."
        ) from error


def _in_type(dtype, values, name):
    """Floats, shape (n, ...), in a type; ValueError if that cannot hold them."""
    values = values.to(dtype)
    finite = torch.isfinite(values).reshape(len(values), -1).all(dim=1)
    if not finite.all():
        raise ValueError(
            f"{name} has entries that {dtype}, the network's type, cannot hold (first in row "
            f"{int(finite.byte().argmin())} of those handed over): scale the data."
        )
    return values


def _way_out(said, outputs, y):
    """What to say of a loss that fails on some outputs and targets, for what torch said of it."""
    if "Long" in said and y.dtype != torch.int64:
        return " A loss of classes, such as cross-entropy, takes y.astype(int)."
    if said.startswith("Target") and "out of bounds" in said:
        return " Labels are numbered from 0, and the module needs an output for each of them."
    if "expected scalar type" in said or "same dtype" in said:
        return f" Tensors of its own, such as weights of classes, must be {outputs.dtype}."
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        return (
            " A loss of numbers, such as a binary cross-entropy, takes outputs[:, 0] and "
            "y.astype(float)."
        )
    return ""


def _each_of(losses, n):
    """Losses of n rows; ValueError if they are not a tensor of one number a row."""
    is_tensor = isinstance(losses, torch.Tensor)
    if not is_tensor or losses.shape != (n,):
        got = tuple(losses.shape) if is_tensor else type(losses).__name__
        raise ValueError(
            f"loss must give one number a row, a tensor of shape ({n},), got {got}: torch's losses "
            "take reduction='none'."
        )
    return losses
