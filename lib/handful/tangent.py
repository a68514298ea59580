"""What each row does to the predictions of a network: ridge regression on its tangent features."""

from typing import Any

import numpy as np
import torch

from handful.blocks import check_in_memory
from handful.checks import check_memory


def network_influence(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> np.ndarray:
    """What each row does to each prediction of a network: TRAK (Park and others 2023), with no random projection.

    A positive score is of a row that helps: leaving it out lowers the test row's margin log p / (1 - p), p its label's
    probability. The network is taken as linear in its weights, in which a row has the gradient f of its margin. Ridge
    regression then gives f_test' (F'F + c I)^-1 f (1 - p), here by the kernel FF', for which no gradient has to be
    written out; the ridge c is the mean of its diagonal. The scores rank: their unit is not that of `influence`.

    *Give a network that has seen its rows for a few epochs only.* One that is trained to the end fits them, so that
    1 - p says little. Several give more than one, also one training's after different epochs.

    Parameters
    ----------
    model : torch.nn.Module that maps rows to logits, with no parameters but those of linear layers that see a vector a
        row; or a list of them, of which each counts alike. They are asked in evaluation mode
    X, y : rows that are trained on and their labels 0 to classes - 1, arrays or tensors, shapes (n, ...) and (n,)
    X_test, y_test : rows whose predictions are asked for, shapes (t, ...) and (t,)

    Returns
    -------
    array, shape (n, t), the mean over networks of scores with a root mean square of 1 in each column; memory for two of
    shape (n, n)

    Raises
    ------
    TypeError
        for a model with parameters elsewhere, such as those of a convolution
    ValueError
        for labels that do not fit
    MemoryError
        where the kernel would not fit

    Examples
    --------
    >>> import torch
    >>> from handful import network_influence
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> X, y = torch.randn(30, 4), torch.randint(3, (30,))
    >>> network_influence(model, X[:20], y[:20], X[20:], y[20:]).shape  # train it first, for a few epochs
    (20, 10)
    """
    check_in_memory("network_influence", X, y, X_test, y_test)
    check_memory(f"a kernel of {len(X):,} rows", 2 * 4 * len(X) ** 2, "choose rows first")
    models, total = model if isinstance(model, list | tuple) else [model], 0.0
    for one in models:
        train, rest = _margins(one, X, y)
        test, _ = _margins(one, X_test, y_test)
        K, k = _kernel(train, train), _kernel(train, test)
        K.diagonal().add_(K.diagonal().mean())
        scores = (rest[:, None] * torch.cholesky_solve(k, torch.linalg.cholesky(K))).cpu().numpy()
        total = total + scores / np.maximum(np.sqrt((scores**2).mean(axis=0)), np.finfo(scores.dtype).tiny)
    return total / len(models)


def _margins(model, X, y):
    # Of each linear layer: its input, with a one for the bias, and the margins' gradients in its output. And 1 - p.
    layers = {layer: None for layer in model.modules() if isinstance(layer, torch.nn.Linear)}
    known = {id(parameter) for layer in layers for parameter in layer.parameters()}
    if other := [name for name, parameter in model.named_parameters() if id(parameter) not in known]:
        raise TypeError(
            f"network_influence knows linear layers, but {type(model).__name__} has {', '.join(other[:3])}."
        )
    y = torch.as_tensor(y).long().to(next(model.parameters()).device)

    def keep(layer, inputs, output):
        layers[layer] = inputs[0], output

    hooks, training = [layer.register_forward_hook(keep) for layer in layers], model.training
    try:
        with torch.enable_grad():
            logits = model.eval()(torch.as_tensor(X).to(next(model.parameters())))
            if y.shape != logits.shape[:1] or not 0 <= int(y.min()) <= int(y.max()) < logits.shape[1]:
                raise ValueError(f"labels must be one of 0 to {logits.shape[1] - 1} for each of {len(logits)} rows.")
            own = torch.nn.functional.one_hot(y, logits.shape[1]).bool()
            margins = logits[own] - logits.masked_fill(own, -torch.inf).logsumexp(dim=1)
            slopes = torch.autograd.grad(margins.sum(), [output for _, output in layers.values()])
    finally:
        for hook in hooks:
            hook.remove()
        model.train(training)
    ones = [a.new_full((len(a), 1), layer.bias is not None) for layer, (a, _) in layers.items()]
    inputs = [torch.cat([a.detach(), one], dim=1) for (a, _), one in zip(layers.values(), ones)]
    return list(zip(inputs, slopes)), torch.sigmoid(-margins.detach())


def _kernel(one, other):
    return sum((g @ h.T) * (a @ b.T) for (a, g), (b, h) in zip(one, other))
