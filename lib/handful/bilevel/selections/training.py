"""Training of a `Network` on chosen rows, and its losses."""

import copy

import numpy as np

from handful.checks import ConvergenceError

try:
    import torch
except ImportError as error:
    raise ImportError("Network needs torch: pip install torch.") from error


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


def check_device(device):
    """ValueError for a device that torch does not know, and for CUDA where there is none."""
    try:
        kind = torch.device(device or "cpu").type
    except RuntimeError as error:
        raise ValueError(f"device={device!r} is unknown to torch: take 'cuda', for example, or None.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but torch finds no CUDA device here: take device=None.")


def _optimiser(config, parameters):
    if config.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
    options = dict(momentum=config.momentum, nesterov=config.momentum > 0, weight_decay=config.weight_decay)
    return torch.optim.SGD(parameters, lr=config.learning_rate, **options)


class Trainer:
    """What is done with the module and the loss of a `Network`.

    Parameters
    ----------
    problem : Network
    """

    def __init__(self, problem):
        self.problem = problem

    def make(self):
        """A module to be trained, in its initial state."""
        if isinstance(self.problem.module, torch.nn.Module):
            return copy.deepcopy(self.problem.module).to(self.problem.device)
        return self.problem.module().to(self.problem.device)

    def row_losses(self, outputs, y):
        """The loss of every row, shape (batch,)."""
        if self.problem.loss is None:
            return torch.nn.functional.cross_entropy(outputs, y, reduction="none")
        losses = self.problem.loss(outputs, y)
        if losses.shape != (len(outputs),):
            raise ValueError(
                f"loss must give one number a row, shape ({len(outputs)},), got {tuple(losses.shape)}: torch's losses "
                "take reduction='none'."
            )
        return losses

    def check_outputs(self, outputs, y):
        """ValueError if a module's outputs do not suit the targets that cross-entropy compares them with."""
        if self.problem.loss is not None:
            return
        classes = int(y.max()) + 1 if y.ndim == 1 else y.shape[1]
        if outputs.ndim != 2 or outputs.shape[1] < classes or (y.ndim == 2 and outputs.shape[1] > classes):
            raise ValueError(
                f"module must give one number for each of {classes} classes, outputs of shape ({len(outputs)}, "
                f"{classes}), but gives {tuple(outputs.shape)}; another loss is for `loss`."
            )

    def _first_losses(self, module, rows, y):
        # A module or loss that does not suit the data fails at the first minibatch: the error repeats torch's words.
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

    def fit(self, X, y, rng, watch=None):
        """As `Network.fit_module`."""
        config = self.problem.training()
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        size, device = min(config.batch_size, len(X)), torch.device(self.problem.device or "cpu")
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(int(rng.integers(2**63)))  # of the initial weights and dropout
            module = self.make().train()
            trained = [p for p in module.parameters() if p.requires_grad]
            if not trained:
                raise ValueError(f"module {type(module).__name__} has no parameter that asks for a gradient.")
            X = in_type(X, trained[0].dtype)
            optimiser = _optimiser(config, module.parameters())
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.n_steps)
            order = np.empty(0, np.intp)
            for step in range(config.n_steps):
                if len(order) < size:  # rows left of an epoch begin the next: minibatches have one size
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
                        f"training on {len(X)} rows diverged in step {step + 1} of {config.n_steps} (epoch {epoch}): "
                        f"loss {loss.item():.3g} at the rate {schedule.get_last_lr()[0]:.3g}; lower learning_rate, as "
                        "in Network(..., train=TrainConfig(learning_rate=...)), or scale X and the targets."
                    )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                if watch is not None:
                    watch(step + 1, module)
        return module.eval()
