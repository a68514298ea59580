"""Newton's method for any function whose value, slope and Hessian are known.

An *expansion* is their bordered matrix at some parameters, ``[[value, slope'], [slope,
-Hessian]]``. Expansions add as the functions do.
"""

import numpy as np

from handful.checks import ConvergenceError

# Steps are halved to this share of their length.
SHORTEST = 1e-12
# A curvature has at least this share of the largest one.
HARDLY_CURVED = 1e-10
TINY = 1e-300
# Rounding is a smaller share of a value.
ROUNDING = 1e-10
WAY_OUT = "centre and scale the columns of X, or penalise more"


def bordered(value, slope, H):
    """An expansion of its parts."""
    p = len(slope)
    expansion = np.empty((p + 1, p + 1))
    expansion[0, 0] = value
    expansion[0, 1:] = slope
    expansion[1:, 0] = slope
    expansion[1:, 1:] = H
    return expansion


def quadratic(H):
    """The expansion of ``-theta' H theta / 2``, a function of parameters (p,)."""

    def expansion(theta):
        slope = -H @ theta
        return bordered(0.5 * theta @ slope, slope, H)

    return expansion


def climb(at, theta, *, max_iter, share, slack):
    """Newton's method towards a maximum: steps that are halved until they lead upwards.

    Parameters
    ----------
    at : function of parameters, which gives an object with the function's `value` there and a
        method `step()`: a step and the slope along it, or None where no step is needed any more
    theta : parameters, where to start
    max_iter : int, steps
    share : of what its slope promises, that a step must bring
    slack : share of the value by which it may fall all the same, by rounding

    Returns
    -------
    theta : parameters
    here : what `at` gives there; None where so many steps did not suffice
    """
    here = at(theta)
    for _ in range(max_iter):
        onward = here.step()
        if onward is None:
            return theta, here
        step, slope = onward
        length = 1.0
        there = at(theta + step)
        allowed = slack * abs(here.value)
        while not there.value - here.value >= share * length * slope - allowed:
            length /= 2
            # nothing on the way is higher, as on a ridge where the slope jumps
            if length < SHORTEST:
                return theta, here
            there = at(theta + length * step)
        theta = theta + length * step
        here = there
    return theta, None


class Expanded:
    """A function of parameters (p,) at some of them, of which an expansion is known.

    Attributes
    ----------
    value : of the function
    root : shape (p, p), with ``root @ root.T`` minus the inverse Hessian
    last : shape (p,), a step that is too short to be checked; zero as long as there is none
    """

    def __init__(self, expansion, enough):
        self.value = expansion[0, 0]
        self.last = 0.0
        self._expansion = expansion
        self._enough = enough

    def step(self):
        """A Newton step and what it promises; None where that is not more than enough."""
        is_finite = np.isfinite(self._expansion)
        if not is_finite.all():
            raise ConvergenceError(f"not a number on the way to a mode: {WAY_OUT}.")
        slope = self._expansion[0, 1:]
        self.root = root_of_inverse(self._expansion[1:, 1:])
        step = self.root @ (self.root.T @ slope)
        gain = slope @ step
        if gain <= self._enough:
            self.last = step
            return None
        return step, gain


def newton(expansion, theta, *, enough=1e-10, max_iter=100):
    """A maximum of a function that has an `expansion`, by Newton's method.

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
        theta, end = climb(
            lambda theta: Expanded(expansion(theta), enough),
            theta,
            max_iter=max_iter,
            share=1e-4,
            slack=min(enough, ROUNDING),
        )
    if end is None:
        raise ConvergenceError(f"no mode in {max_iter} Newton steps: {WAY_OUT}.")
    return end.value, theta + end.last, end.root


def root_of_inverse(H):
    """A root, ``root @ root.T``, of the inverse of a curvature; what is not curved counts as hardly
    curved, upwards."""
    diagonal = np.maximum(np.abs(np.diag(H)), TINY)
    scale = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(H * scale * scale[:, None])
    largest = max(values.max(), TINY)
    values = np.maximum(np.abs(values), HARDLY_CURVED * largest)
    return vectors / np.sqrt(values) * scale[:, None]
