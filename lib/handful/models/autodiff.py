"""Losses, gradients and Hessians of a `Problem` whose `loss` of one row is written in torch, by torch.func."""

import numpy as np

try:
    import torch
    from torch.func import grad, hessian, vmap
except ImportError as error:
    raise ImportError("a Problem with a loss in torch needs torch: pip install torch.") from error


def by_rows(problem, kind, theta, X, y):
    """What torch makes of the loss of every row.

    Parameters
    ----------
    problem : Problem
    kind : "losses", shape (n,); "gradients", (n, p); or "hessians", (n, p, p)
    theta, X, y : as in `Problem.losses`

    Raises
    ------
    ValueError
        if `loss` does not give one number by torch's operations
    """
    of_row = {"losses": problem.loss, "gradients": grad(problem.loss, 0), "hessians": hessian(problem.loss, 0)}[kind]
    theta, X, y = _tensor(theta), _tensor(X), _tensor(y)
    try:
        values = vmap(of_row, (None, 0, None if y is None else 0))(theta, X, y)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"{type(problem).__name__}.loss(theta, x, y) must give one number for a row x of shape "
            f"{tuple(X.shape[1:])} and theta of shape {tuple(theta.shape)}, by operations of torch: {error}"
        ) from error
    return values.numpy()


def penalty_hessian(problem, theta):
    """Second derivative of the penalty, shape (p, p)."""
    return hessian(problem.penalty)(_tensor(theta)).detach().numpy()


def _tensor(array):
    if array is None:
        return None
    array = np.asarray(array)
    return torch.from_numpy(np.array(array, dtype=np.float64 if array.dtype.kind == "f" else array.dtype))
