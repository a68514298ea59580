"""Inverse-Hessian-vector products: how implicit gradients solve ``H v = g`` (Section 3.5.1)."""

from dataclasses import KW_ONLY
from typing import Annotated

import numpy as np

from handful.checks import ConvergenceError
from handful.options import Count, NonNegative, Options, number

# by which the power iteration may underestimate the largest eigenvalue
_SAFETY = 1.05
# A term of the Neumann series that is longer than the one before by more than rounding.
_GROWTH = 1.0 + 1e-5


def conjugate_gradients(product, v, rest, *, enough, max_iter, precondition=np.asarray):
    """A solution of ``H v = g`` by preconditioned conjugate gradients.

    Parameters
    ----------
    product : function, v -> H v for a positive definite H; they end where it is not
    v, rest : where to start, and g - H v there
    enough : the size of a residual at which to stop
    max_iter : int, products
    precondition : function, g -> about v

    Returns
    -------
    v : of the shape of g
    size : of the residual that is left, its product with what `precondition` makes of it
    """
    direction = precondition(rest)
    size = np.vdot(rest, direction)
    for _ in range(max_iter):
        if size <= enough:
            break
        image = product(direction)
        curvature = np.vdot(direction, image)
        if curvature <= 0:
            break
        length = size / curvature
        v = v + length * direction
        rest = rest - length * image
        toward = precondition(rest)
        before = size
        size = np.vdot(rest, toward)
        direction = toward + (size / before) * direction
    return v, size


class InverseHessian(Options):
    """Base class: a way to solve ``(H + damping I) v = g``. `Exact` ones are solved by the
    problem's own means."""

    _: KW_ONLY
    damping: NonNegative = 0.0

    exact = False

    def solve(self, product, g):
        """The solution v, from products alone.

        Parameters
        ----------
        product : function, v -> H v for a positive definite H
        g : array of any shape
        """
        raise NotImplementedError

    def _damped(self, product):
        return lambda v: product(v) + self.damping * v


class Exact(InverseHessian):
    """Implicit gradients by an exact solve, whichever is cheapest for the problem.

    Parameters
    ----------
    damping : float, default=0.0
        Added to the Hessian's diagonal, for penalties that leave it nearly singular.
    """

    exact = True


class ConjugateGradients(InverseHessian):
    """Implicit gradients by conjugate gradients from zero (Pedregosa 2016).

    Parameters
    ----------
    n_steps : int, default=100
        Steps at most; the paper takes 100. With few steps, directions of small curvature are not
        yet resolved, which acts like a damping.
    damping : float, default=0.0
        Added to the Hessian's diagonal.
    tol : float, default=1e-05
        Residual, relative to g and at most 1, at which to stop earlier.
    """

    n_steps: Count = 100
    _: KW_ONLY
    tol: Annotated[float, number(least=0, most=1)] = 1e-5

    def solve(self, product, g):
        """As `InverseHessian.solve`; ends early where the Hessian is singular to rounding."""
        enough = self.tol**2 * np.vdot(g, g)
        zero = np.zeros_like(g)
        return conjugate_gradients(
            self._damped(product),
            zero,
            g,
            enough=enough,
            max_iter=self.n_steps,
        )[0]


class NeumannSeries(InverseHessian):
    """Implicit gradients by the series ``a sum_i (I - a H)^i g`` (Lorraine, Vicol and Duvenaud
    2020).

    The paper does not give its scale a; here it is one over the largest eigenvalue, from 20 power
    iterations, and the series begins anew with a smaller one where a term grows, as products with
    minibatches of unlike curvature let it. So it converges wherever no curvature is negative: by
    the factor ``1 - min / max eigenvalue`` a term, slowly for a small penalty.

    Parameters
    ----------
    n_terms : int, default=100
        Terms of the series; the paper takes 100.
    damping : float, default=0.0
        Added to the Hessian's diagonal.
    """

    n_terms: Count = 100

    def solve(self, product, g):
        """As `InverseHessian.solve`; ConvergenceError if a product is zero or not finite."""
        product = self._damped(product)
        if not g.any():
            return np.zeros_like(g)
        largest = 0.0
        direction = g / np.linalg.norm(g)
        for _ in range(20):
            image = product(direction)
            length = float(np.linalg.norm(image))
            if not 0.0 < length < np.inf:
                raise ConvergenceError(
                    "the Neumann series needs a Hessian that is finite and not zero, but a "
                    "product with it has length "
                    f"{length:.3g}: scale the data, or add a penalty or a damping."
                )
            largest = max(largest, length)
            direction = image / length
        while True:
            scale = 1.0 / (_SAFETY * largest)
            total, curvature = self._sum(product, g, scale)
            if curvature is None:
                return scale * total
            largest = curvature

    def _sum(self, product, g, scale):
        """The sum of the terms at a scale, and None; or what was summed before a term that grew,
        and the curvature that made it grow, which is above ``2 / scale``."""
        term = g.copy()
        total = g.copy()
        for _ in range(self.n_terms - 1):
            image = product(term)
            following = term - scale * image
            # Of a Hessian without negative curvature, terms of a small enough scale do not grow.
            if np.linalg.norm(following) > _GROWTH * np.linalg.norm(term):
                along = float(np.vdot(term, image))
                curvature = float(np.vdot(image, image)) / along if along > 0.0 else np.inf
                if curvature < np.inf:
                    return total, curvature
            term = following
            total += term
        return total, None


# What an option `ihvp` may be, as `named_option` takes it; "auto" leaves it to the problem.
IHVP = {
    "names": {"auto": None, "exact": Exact, "cg": ConjugateGradients, "neumann": NeumannSeries},
    "base": InverseHessian,
    "example": "ConjugateGradients(n_steps=100)",
}
