"""Embeddings, logits, losses and gradients of a network: what the selector of a replay memory can
choose from."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_softmax, softmax

from handful.checks import check_integer
from handful.tables import as_array

# times the precision of a type: by so much of their size logits may differ that are the same
ROUNDING = 16


@dataclass(frozen=True)
class Views:
    """Embeddings and logits of some rows, and the losses and gradients that follow from them.

    Attributes
    ----------
    embeddings : float array, shape (n, d); the input of the last linear layer
    logits : float array, shape (n, classes)
    y : int array, shape (n,), labels 0 to classes - 1; None if neither losses nor gradients are
        needed

    Raises
    ------
    ValueError
        for labels of another shape or outside 0 to classes - 1
    """

    embeddings: np.ndarray
    logits: np.ndarray
    y: np.ndarray | None = None

    def __post_init__(self):
        if self.y is None:
            return
        y = np.asarray(self.y)
        (n, classes) = self.logits.shape
        if y.shape != (n,) or y.dtype.kind not in "iu":
            raise ValueError(
                f"y must hold {n} integers, one label a row, got shape {y.shape}, dtype {y.dtype}."
            )
        if n and not 0 <= y.min() <= y.max() < classes:
            raise ValueError(
                f"y must hold columns of the {classes} logits, 0 to {classes - 1}, got {y.min()} "
                f"to {y.max()}."
            )

    @property
    def losses(self):
        """Cross-entropy of each row, shape (n, 1)."""
        return -log_softmax(self.logits, axis=1)[np.arange(len(self._labels())), self.y][:, None]

    @property
    def gradients(self):
        """Gradient of each row's loss in the last layer's weights and bias, shape (n, classes * (d
        + 1))."""
        residual = softmax(self.logits, axis=1)
        residual[np.arange(len(self._labels())), self.y] -= 1.0
        inputs = np.concatenate(
            [self.embeddings, np.ones((len(residual), 1), self.embeddings.dtype)], axis=1
        )
        return (residual[:, :, None] * inputs[:, None, :]).reshape(len(inputs), -1)

    def _labels(self):
        if self.y is None:
            raise ValueError("losses and gradients need the labels y.")
        return self.y


def network_views(model, X, y=None, *, head=None, batch_size=1000):
    """The `Views` of some rows under a torch network in evaluation mode (without dropout).

    Parameters
    ----------
    model : torch.nn.Module
        It maps rows to the logits that `head` gives. A number a row may be taken off them, as by a
        LogSoftmax, and classes may be masked by logits of minus infinity or next to it.
    X : array or tensor of shape (n, ...)
        The rows; floats come to the model in the type of `head`, integers as they are.
    y : array or tensor of int, shape (n,), or None, default=None
        Labels from 0 to classes - 1, for losses and gradients.
    head : torch.nn.Linear or None, default=None
        The layer whose input is the embedding; None: the last linear layer of the model.
    batch_size : int, default=1000
        Rows at a time.

    Returns
    -------
    Views
        What the network makes of the rows.

    Raises
    ------
    ValueError
        if the model has no linear layer, does not use `head` once in a pass, gives other logits
        than those of `head`, such as probabilities, or takes no such rows; for no rows; and for
        labels that do not fit

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> views = network_views(model, torch.randn(20, 4), torch.randint(3, (20,)))
    >>> views.embeddings.shape, views.gradients.shape
    ((20, 8), (20, 27))
    """
    head = _last_linear(model) if head is None else head
    check_integer("batch_size", batch_size)
    X = _tensor_of(X, head.weight.dtype)
    seen = []
    embeddings = []
    logits = []

    def see(module, inputs, outputs):
        # The model may go on in place.
        seen.append((inputs[0].detach(), outputs.detach().clone()))

    hook = head.register_forward_hook(see)
    # Frozen parts may be in evaluation mode already.
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            for start in range(0, len(X), batch_size):
                outputs = _outputs(model, X[start : start + batch_size])
                inputs, of_head = _of_one_pass(seen)
                logits.append(_logits(outputs, of_head))
                embeddings.append(inputs.flatten(1))
    finally:
        hook.remove()
        for module, training in modes.items():
            module.training = training
    labels = None if y is None else as_array(y)
    return Views(as_array(torch.cat(embeddings)), as_array(torch.cat(logits)), labels)


def _last_linear(model):
    """The last linear layer of a model; ValueError if it has none."""
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    if not linear:
        raise ValueError(
            f"{type(model).__name__} has no linear layer: say which `head` gives its logits."
        )
    return linear[-1]


def _tensor_of(X, dtype):
    """Rows as a tensor, floats in a type; ValueError if there is none."""
    if not isinstance(X, torch.Tensor):
        # torch takes no negative strides, and warns of arrays that may not be written to.
        X = torch.as_tensor(np.require(X, requirements=["C", "W"]))
    if X.ndim == 0 or len(X) == 0:
        raise ValueError(f"X must hold at least one row, got shape {tuple(X.shape)}.")
    return X.to(dtype) if X.is_floating_point() else X


def _outputs(model, rows):
    """What a model gives of some rows, shape (n, ...); ValueError if that is no tensor of as many
    rows, and for integers that it does not take."""
    try:
        # A model that begins in place is not to write into the caller's rows.
        outputs = model(rows.clone())
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        if rows.is_floating_point():
            raise
        raise ValueError(
            f"{type(model).__name__} fails on X of {rows.dtype}: {error}. Give X as floats, scaled "
            "as those that the model was trained on, if they are no numbers of words."
        ) from error
    is_tensor = isinstance(outputs, torch.Tensor)
    if not is_tensor or outputs.shape[:1] != rows.shape[:1]:
        got = f"shape {tuple(outputs.shape)}" if is_tensor else type(outputs).__name__
        raise ValueError(
            f"{type(model).__name__} must give one tensor of logits, a row for each of {len(rows)} "
            f"rows of X, got {got}: wrap it in a module that does."
        )
    return outputs


def _of_one_pass(seen):
    """Inputs and outputs of the head in the pass of a model; ValueError unless it was used once.

    `seen` holds a pair for each use, and is empty afterwards.
    """
    n_uses = len(seen)
    if n_uses == 0:
        raise ValueError("the model did not use the layer `head`.")
    if n_uses > 1:
        raise ValueError(
            f"the model used the layer `head` {n_uses} times in a pass, and embeddings are the "
            "inputs of a single use: give a module that uses it once."
        )
    return seen.pop()


def _logits(outputs, of_head):
    """The outputs of a model, shape (n, classes); ValueError where they are not the logits of the
    head."""
    # of one logit a model may give a vector
    outputs = outputs.flatten(1) if outputs.ndim > 1 else outputs[:, None]
    n_classes = of_head.shape[-1]
    if outputs.shape[1] != n_classes:
        raise ValueError(
            f"the model has {outputs.shape[1]} outputs and the layer `head` {n_classes}: "
            "say which linear layer gives the logits."
        )
    precision = max(torch.finfo(part.dtype).eps for part in (outputs, of_head))
    if of_head.numel() != outputs.numel() or not _are_same(
        as_array(outputs), as_array(of_head.reshape(outputs.shape)), precision
    ):
        raise ValueError(
            "the model's outputs are not those of the layer `head`, so that its gradients are "
            "others: say which linear layer gives the logits, and leave out what follows it, such "
            "as a Softmax or a factor."
        )
    return outputs


def _are_same(logits, others, precision):
    """Whether two arrays of logits, shape (n, classes), have the same losses and gradients, to
    rounding: the difference of a row is the same number for all classes that have a probability,
    and zero where there is one class only."""
    if np.array_equal(logits, others):
        return True
    logits = logits.astype(np.float64)
    others = others.astype(np.float64)
    with np.errstate(invalid="ignore"):
        # not those that a mask leaves out, nor rows that are not finite
        counts = softmax(logits, axis=1) > 0
        difference = logits - others
    start = 0.0 if logits.shape[1] == 1 else np.inf
    highest = difference.max(axis=1, initial=-start, where=counts)
    lowest = difference.min(axis=1, initial=start, where=counts)
    largest = np.maximum(abs(logits), abs(others)).max(axis=1, initial=1.0, where=counts)
    return bool((highest - lowest <= ROUNDING * precision * largest).all())
