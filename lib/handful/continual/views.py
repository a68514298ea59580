"""What a trained network makes of a task's rows: the views on which selectors of a replay memory work."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

try:
    import torch
except ImportError as error:
    raise ImportError("views of a torch network need torch: pip install 'handful[torch]'.") from error


@dataclass(frozen=True)
class Views:
    """Embeddings and logits of some rows, and what follows from them.

    Attributes
    ----------
    embeddings : float array, shape (n, d); the input of the last linear layer
    logits : float array, shape (n, classes)
    y : int array, shape (n,), columns of the logits; None for views that need no labels

    Raises
    ------
    ValueError
        for labels of another shape, and such as are no columns of the logits
    """

    embeddings: np.ndarray
    logits: np.ndarray
    y: np.ndarray | None = None

    def __post_init__(self):
        if self.y is None:
            return
        y, (n, classes) = np.asarray(self.y), self.logits.shape
        if y.shape != (n,) or y.dtype.kind not in "iu":
            raise ValueError(f"y must hold {n} integers, one label a row, got shape {y.shape}, dtype {y.dtype}.")
        if n and not 0 <= y.min() <= y.max() < classes:
            raise ValueError(
                f"y must hold columns of the {classes} logits, 0 to {classes - 1}, got {y.min()} to {y.max()}."
            )

    @property
    def losses(self):
        """Cross-entropy of each row, shape (n, 1), as `Hardest` takes it."""
        return -log_softmax(self.logits, axis=1)[np.arange(len(self._labels())), self.y][:, None]

    @property
    def gradients(self):
        """Gradient of each row's loss by the last layer's weights and bias, shape (n, classes * (d + 1))."""
        residual = softmax(self.logits, axis=1)
        residual[np.arange(len(self._labels())), self.y] -= 1.0
        inputs = np.concatenate([self.embeddings, np.ones((len(residual), 1), self.embeddings.dtype)], axis=1)
        return (residual[:, :, None] * inputs[:, None, :]).reshape(len(inputs), -1)

    def _labels(self):
        if self.y is None:
            raise ValueError("losses and gradients need the labels y.")
        return self.y


def views(model, X, y=None, *, head=None, batch_size=1000):
    """The `Views` that a torch network has of some rows, in evaluation mode (no dropout).

    Parameters
    ----------
    model : torch.nn.Module that gives logits
    X : tensor or array, shape (n, ...), what the model takes
    y : labels 0..classes-1, shape (n,), for losses and gradients
    head : torch.nn.Linear, the layer whose input is the embedding; by default the last linear layer of the model
    batch_size : rows at a time

    Raises
    ------
    ValueError
        if the model has no linear layer, does not use `head`, or has no output for a label; and for labels of another
        length.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> view = views(model, torch.randn(20, 4), torch.randint(3, (20,)))
    >>> view.embeddings.shape, view.gradients.shape
    ((20, 8), (20, 27))
    """
    if head is None:
        linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
        if not linear:
            raise ValueError(f"{type(model).__name__} has no linear layer: say which `head` gives its logits.")
        head = linear[-1]
    X = torch.as_tensor(X)
    seen, logits = [], []
    hook = head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    training = model.training
    try:
        model.eval()
        with torch.no_grad():
            for start in range(0, len(X), batch_size):
                logits.append(model(X[start : start + batch_size]))
    finally:
        hook.remove()
        model.train(training)
    if not seen:
        raise ValueError("the model did not use the layer `head`.")
    embeddings = _array(torch.cat(seen).flatten(1))
    labels = None if y is None else torch.as_tensor(y).cpu().numpy()
    return Views(embeddings, _array(torch.cat(logits)), labels)


def _array(values):
    # numpy knows no bfloat16, which a model under autocast gives
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).cpu().numpy()
