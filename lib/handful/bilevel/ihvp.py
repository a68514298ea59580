"""Inverse-Hessian-vector products from Hessian-vector products alone (Section 3.5.1)."""

from dataclasses import dataclass

import numpy as np

from handful.bilevel.newton import ConvergenceError
from handful.checks import check_integer, check_number

METHODS = ("auto", "cholesky", "cg", "neumann")
_SAFETY = 1.05  # by which the power iteration may underestimate the largest eigenvalue


@dataclass(frozen=True)
class Ihvp:
    """How implicit gradients solve ``H v = g``.

    Attributes
    ----------
    method : "auto" (exact), "cholesky", "cg" or "neumann"
    steps : of conjugate gradients from zero, or terms of the Neumann series
    damping : added to the Hessian's diagonal
    """

    method: str = "auto"
    steps: int = 100
    damping: float = 0.0

    def check(self):
        """ValueError for an option that is none."""
        if self.method not in METHODS:
            raise ValueError(f"ihvp must be one of {METHODS}, got {self.method!r}.")
        check_integer("ihvp_steps", self.steps)
        check_number("damping", self.damping, least=0)

    @property
    def exact(self):
        """Whether the linear system is solved to the end."""
        return self.method in ("auto", "cholesky")

    def approximate(self, product, g):
        """``(H + damping I)^-1 g`` by the iterative method, for ``product(v) = H v``; `g` of any shape."""

        def damped(v):
            return product(v) + self.damping * v

        if self.method == "cg":
            return conjugate_gradients(damped, g, steps=self.steps)
        return neumann_series(damped, g, terms=self.steps)


def conjugate_gradients(product, g, *, steps, tol=1e-5):
    """Solution v of ``H v = g`` after at most `steps` conjugate gradients from zero (Pedregosa 2016).

    Parameters
    ----------
    product : function, v -> H v for a positive definite H
    g : array of any shape
    steps : int; the paper takes 100. Stopped short, directions of small curvature stay damped
    tol : relative residual at which to stop earlier
    """
    v, r = np.zeros_like(g), g.copy()
    p, square = r.copy(), np.vdot(r, r)
    enough = tol**2 * square
    for _ in range(steps):
        if square <= enough:
            break
        Hp = product(p)
        curvature = np.vdot(p, Hp)
        if curvature <= 0:  # no further digit to be had from a Hessian that is singular to rounding
            break
        length = square / curvature
        v += length * p
        r -= length * Hp
        square, before = np.vdot(r, r), square
        p = r + (square / before) * p
    return v


def neumann_series(product, g, *, terms):
    """``a sum_i (I - a H)^i g`` with `terms` terms, which tends to ``H^-1 g`` (Lorraine, Vicol and Duvenaud 2020).

    The paper's scale a is not given; here it is one over the largest eigenvalue, from 20 power iterations, so that
    the series always converges: by the factor ``1 - min / max eigenvalue`` a term, slowly for a small penalty.

    Parameters
    ----------
    product : function, v -> H v for a positive definite H
    g : array of any shape
    terms : int; the paper takes 100

    Raises
    ------
    ConvergenceError
        if a product is zero or not finite
    """
    if not g.any():
        return np.zeros_like(g)
    largest, direction = 0.0, g / np.linalg.norm(g)
    for _ in range(20):
        image = product(direction)
        length = float(np.linalg.norm(image))
        if not 0.0 < length < np.inf:
            raise ConvergenceError(
                f"the Neumann series needs a Hessian that is finite and not zero, but a product with it has length "
                f"{length:.3g}: scale the data, or add a penalty or a damping."
            )
        largest = max(largest, length)
        direction = image / length
    scale = 1.0 / (_SAFETY * largest)
    term, total = g.copy(), g.copy()
    for _ in range(terms - 1):
        term = term - scale * product(term)
        total += term
    return scale * total
