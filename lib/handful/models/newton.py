"""Newton's method for any function whose value, slope and Hessian are known.

An *expansion* is their bordered matrix at some parameters, ``[[value, slope'], [slope,
-Hessian]]``. Expansions add as the functions do.
"""

import numpy as np

from handful.checks import ConvergenceError


def bordered(value, slope, H):
    """An expansion of its parts."""
    return np.block([[np.reshape(value, (1, 1)), slope[None]], [slope[:, None], H]])


def quadratic(H):
    """The expansion of ``-theta' H theta / 2``, a function of parameters (p,)."""

    def expansion(theta):
        slope = -H @ theta
        return bordered(0.5 * theta @ slope, slope, H)

    return expansion


def newton(expansion, theta, *, enough=1e-10, max_iter=100):
    """A maximum of a function that has an `expansion`, by Newton steps that are halved until they
    lead upwards.

    Parameters
    ----------
    expansion : function of parameters (p,)
    theta : shape (p,), where to start
    enough : what a step promises to gain where it is the last, which squares the error that is left
    max_iter : int, steps

    Returns
    -------
    value, theta : the value, before the last step, and the maximum, shape (p,)
    root : shape (p, p), with ``root @ root.T`` minus the inverse Hessian

    Raises
    ------
    ConvergenceError
        where so many steps do not suffice
    """
    # a long step may leave what floats can hold
    with np.errstate(all="ignore"):
        now = expansion(theta)
        for _ in range(max_iter):
            if not np.isfinite(now).all():
                break
            root = root_of_inverse(now[1:, 1:])
            step = root @ (root.T @ now[0, 1:])
            gain = now[0, 1:] @ step
            length = 1.0
            if gain <= enough:
                return now[0, 0], theta + step, root
            new = expansion(theta + step)
            while not new[0, 0] - now[0, 0] >= 1e-4 * length * gain - enough * abs(now[0, 0]):
                length /= 2
                # nothing on the way is higher, as on a ridge where the slope jumps
                if length < 1e-12:
                    return now[0, 0], theta, root
                new = expansion(theta + length * step)
            theta = theta + length * step
            now = new
    raise ConvergenceError(
        f"no mode in {max_iter} Newton steps: centre and scale the columns of X, or penalise more."
    )


def root_of_inverse(H):
    """A root, ``root @ root.T``, of the inverse of a curvature; what is not curved counts as hardly
    curved, upwards."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    values, vectors = np.linalg.eigh(H * scale * scale[:, None])
    values = np.maximum(np.abs(values), 1e-10 * max(values.max(), 1e-300))
    return vectors / np.sqrt(values) * scale[:, None]
