"""Embeddings, logits, losses and gradients of a network: what the selector of a replay memory can
choose from."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_softmax, softmax

from handful.checks import check_integer
from handful.tables import as_array


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
        It maps rows to logits.
    X : array or tensor of shape (n, ...)
        The rows.
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
        if the model has no linear layer, or does not use `head`; and for labels that do not fit

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> views = network_views(model, torch.randn(20, 4), torch.randint(3, (20,)))
    >>> views.embeddings.shape, views.gradients.shape
    ((20, 8), (20, 27))
    """
    if head is None:
        linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
        if not linear:
            raise ValueError(
                f"{type(model).__name__} has no linear layer: say which `head` gives its logits."
            )
        head = linear[-1]
    check_integer("batch_size", batch_size)
    if not isinstance(X, torch.Tensor):
        # torch takes no negative strides, and warns of arrays that may not be written to.
        X = torch.as_tensor(np.require(X, requirements=["C", "W"]))
    if X.is_floating_point():
        X = X.to(head.weight.dtype)
    seen = []
    logits = []
    hook = head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    # Frozen parts may be in evaluation mode already.
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            for start in range(0, len(X), batch_size):
                logits.append(model(X[start : start + batch_size]))
    finally:
        hook.remove()
        for module, training in modes.items():
            module.training = training
    if not seen:
        raise ValueError("the model did not use the layer `head`.")
    outputs = as_array(torch.cat(logits))
    # of one logit a model may give a vector
    outputs = outputs.reshape(len(outputs), -1)
    if outputs.shape[1] != head.out_features:
        raise ValueError(
            f"the model has {outputs.shape[1]} outputs and the layer `head` {head.out_features}: "
            "say which linear layer gives the logits."
        )
    embeddings = as_array(torch.cat(seen).flatten(1))
    labels = None if y is None else as_array(y)
    return Views(embeddings, outputs, labels)
