"""What each row does to the predictions of a network: ridge regression on its tangent features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from handful.checks import check_memory


@dataclass(frozen=True)
class Call:
    """One call of a linear layer by all rows: what went in, and the margins' gradients in what came
    out.

    Attributes
    ----------
    weight, bias : the layer's parameters; None for one that is not trained
    inputs : tensor, shape (n, inputs of the layer)
    slopes : tensor, shape (n, outputs of the layer)
    """

    weight: Any
    bias: Any
    inputs: torch.Tensor
    slopes: torch.Tensor


def network_influence(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> np.ndarray:
    """What each row does to each prediction of a network: TRAK (Park and others 2023), with no
    random projection.

    A positive score is of a row that helps: leaving it out lowers the test row's margin log p / (1
    - p), p its label's probability. The network is taken as linear in its weights, in which a row
    has the gradient f of its margin. Ridge regression then gives f_test' (F'F + c I)^-1 f (1 - p),
    here by the kernel FF', for which no gradient has to be written out; the ridge c is the mean of
    its diagonal. The scores rank: their unit is not that of `influence`.

    *Give a network that has seen its rows for a few epochs only.* One that is trained to the end
    fits them, so that 1 - p says little. Several give more than one, also one training's after
    different epochs.

    Parameters
    ----------
    model : torch.nn.Module that maps rows to logits, with no parameters but those of linear layers
        that see a vector a row; or a list of them, of which each counts alike. They are asked in
        evaluation mode. Layers may be called several times and share parameters; a parameter that
        asks for no gradient is taken as given
    X, y : rows that are trained on and their labels 0 to classes - 1, arrays or tensors, shapes (n,
        ...) and (n,)
    X_test, y_test : rows whose predictions are asked for, shapes (t, ...) and (t,)

    Returns
    -------
    array, shape (n, t), the mean over networks of scores with a root mean square of 1 in each
    column; memory for two of shape (n, n)

    Raises
    ------
    TypeError
        for what is no module, and for a model with parameters elsewhere, such as those of a
        convolution
    ValueError
        for labels that do not fit, a model whose parameters are all frozen, one that uses a
        parameter outside of its layer, and one whose logits of a row depend on other rows or on
        chance
    MemoryError
        where the kernel would not fit

    Examples
    --------
    >>> import torch
    >>> from handful_papers.public.network_influence import network_influence
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> X, y = torch.randn(30, 4), torch.randint(3, (30,))
    >>> # Train it first, for a few epochs.
    >>> network_influence(model, X[:20], y[:20], X[20:], y[20:]).shape
    (20, 10)
    """
    check_memory(f"a kernel of {len(X):,} rows", 2 * 4 * len(X) ** 2, "choose rows first")
    models = list(model) if isinstance(model, list | tuple) else [model]
    if not models:
        raise ValueError("network_influence needs a network, got an empty list.")
    total = 0.0
    for one in models:
        check_layers(one)
        train, rest = calls_and_rest(one, X, y)
        test, _ = calls_and_rest(one, X_test, y_test)
        K = kernel(train, train)
        k = kernel(train, test)
        K.diagonal().add_(K.diagonal().mean())
        solved = torch.cholesky_solve(k, torch.linalg.cholesky(K))
        scores = (rest[:, None] * solved).cpu().numpy()
        size = np.sqrt((scores**2).mean(axis=0))
        total = total + scores / np.maximum(size, np.finfo(scores.dtype).tiny)
    return total / len(models)


def check_layers(model):
    """TypeError for a parameter that is no weight and no bias of a linear layer; ValueError if all
    are frozen."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"network_influence needs a torch.nn.Module, got {type(model).__name__}.")
    other = []
    for place, module in model.named_modules():
        known = ("weight", "bias") if isinstance(module, torch.nn.Linear) else ()
        own = [name for name, _ in module.named_parameters(recurse=False) if name not in known]
        other += [f"{place}.{name}".lstrip(".") for name in own]
    if other:
        raise TypeError(
            f"network_influence knows linear layers, but {type(model).__name__} has "
            f"{', '.join(other[:3])}."
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(
            f"{type(model).__name__} has no parameter that asks for a gradient: nothing was "
            "trained."
        )


def calls_and_rest(model, X, y):
    """The `Call` of each trained layer, in order, and 1 - p of each row, shape (n,)."""
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    modes = [(module, module.training) for module in model.modules()]
    found = []

    def keep(layer, given, named, output):
        inputs = given[0] if given else named["input"]
        found.append((layer, inputs.detach(), output))
        # What follows may change its input in place, which must not change what the gradient is
        # taken in.
        return output.clone()

    # A model may change its input in place as well, and the caller's rows must stay.
    rows = torch.as_tensor(X).to(next(model.parameters())).clone()
    hooks = [layer.register_forward_hook(keep, with_kwargs=True) for layer in layers]
    try:
        model.eval()
        with torch.enable_grad():
            logits = model(rows.clone())
            margins = margins_of(logits, y)
            calls = calls_of(model, list(found), margins)
        check_rows_apart(model, rows, logits)
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes:
            module.training = training
    return calls, torch.sigmoid(-margins.detach())


def margins_of(logits, y):
    """log p / (1 - p) of each row's label, shape (n,)."""
    is_tensor = isinstance(logits, torch.Tensor)
    two_or_more = is_tensor and logits.ndim == 2 and logits.shape[1] > 1
    if not two_or_more:
        shape = tuple(logits.shape) if is_tensor else type(logits).__name__
        raise ValueError(
            "the model must give logits of shape (n, classes), of two classes at least; got "
            f"{shape}."
        )
    given = torch.as_tensor(y).to(logits.device)
    labels = given.long()
    one_each = labels.shape == logits.shape[:1]
    whole = one_each and bool((labels == given).all())
    if not whole or labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"labels must be one of 0 to {logits.shape[1] - 1} for each of {len(logits)} rows."
        )
    own = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
    return logits[own] - logits.masked_fill(own, -torch.inf).logsumexp(dim=1)


def check_rows_apart(model, rows, logits):
    """ValueError unless the first half of the rows has the same logits without the other half."""
    half = (len(rows) + 1) // 2
    with torch.no_grad():
        alone = model(rows[:half].clone())
    close = tolerance(logits) * logits.detach().abs().max()
    if (alone - logits[:half]).abs().max() > close:
        raise ValueError(
            f"a row's logits must depend on that row alone, but those of {type(model).__name__} "
            "change with the other "
            "rows or from call to call: leave out what looks at a batch, and chance in evaluation "
            "mode."
        )


def calls_of(model, found, margins):
    """The calls of trained layers with the margins' gradients, checked against those of autograd in
    the parameters."""
    named = model.named_parameters()
    trained = {name: parameter for name, parameter in named if parameter.requires_grad}
    # The outputs of a layer that is not trained need no gradient.
    found = [call for call in found if call[2].requires_grad]
    if not margins.requires_grad:
        raise ValueError(
            f"no logit of {type(model).__name__} depends on a parameter that asks for a gradient."
        )
    outputs = [output for _, _, output in found]
    asked = [*trained.values(), *outputs]
    slopes = torch.autograd.grad(margins.sum(), asked, allow_unused=True)
    of_outputs = slopes[len(trained) :]
    calls = []
    for (layer, inputs, _), slope in zip(found, of_outputs):
        if slope is None:
            continue
        if inputs.ndim != 2 or len(inputs) != len(margins):
            raise ValueError(
                f"a linear layer must see a vector a row, shape ({len(margins)}, inputs); one of "
                f"{type(model).__name__} sees {tuple(inputs.shape)}."
            )
        weight = _if_trained(layer.weight)
        calls.append(Call(weight, _if_trained(layer.bias), inputs, slope))
    for (name, parameter), slope in zip(trained.items(), slopes):
        check_gradient(name, parameter, slope, calls)
    return calls


def _if_trained(parameter):
    """A parameter that asks for a gradient; None for one that does not, and for a bias that the
    layer does not have."""
    return parameter if parameter is not None and parameter.requires_grad else None


def check_gradient(name, parameter, slope, calls):
    """ValueError unless the gradient of all rows in a parameter is the sum of what the calls of its
    layers have."""
    total = torch.zeros_like(parameter)
    size = torch.zeros_like(parameter)
    for call in calls:
        if call.weight is parameter:
            total += call.slopes.T @ call.inputs
            size += call.slopes.abs().T @ call.inputs.abs()
        if call.bias is parameter:
            total += call.slopes.sum(dim=0)
            size += call.slopes.abs().sum(dim=0)
    expected = torch.zeros_like(parameter) if slope is None else slope
    rounding = tolerance(parameter) * size.max()
    if ((total - expected).abs() > rounding).any():
        raise ValueError(
            f"network_influence cannot follow {name}, which the model uses outside of the call of "
            "its linear layer: "
            "call the layer, not a function of its parameters."
        )


def tolerance(of):
    """Half of the digits of a tensor's type: what sums in another order may differ by, relative to
    their terms."""
    return torch.finfo(of.dtype).eps ** 0.5


def kernel(rows, others):
    """Products of the gradients of two sets of rows, over all parameters, shape (n, t)."""
    total = 0.0
    for one in rows:
        for other in others:
            same_weight = one.weight is not None and one.weight is other.weight
            same_bias = one.bias is not None and one.bias is other.bias
            if same_weight or same_bias:
                reach = one.inputs @ other.inputs.T if same_weight else 0.0
                total = total + (one.slopes @ other.slopes.T) * (reach + float(same_bias))
    return total
