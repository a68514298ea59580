"""Mixture weights learned from the losses of all points (VRM, Algorithm 1), and the theorems' settings."""

import numpy as np

from handful.checks import check_integer, check_number, check_vector
from handful.sampling.base import LARGEST_LOSS, as_vector, check_losses
from handful.sampling.components import check_probabilities
from handful.sampling.newton import Learned, NewtonLearner


def mixture_cost(w, probabilities, losses):
    """Second moment of the estimated mean loss: f(w)/n^2 = (1/n^2) sum_i l(i)^2 / <w, p(i)> (VRM, section 2).

    Parameters
    ----------
    w : array, shape (k,)
    probabilities : array, shape (k, n)
    losses : array, shape (n,)
    """
    w, probabilities, losses = _checked_cost(w, probabilities, losses)
    q = w @ probabilities
    with np.errstate(all="ignore"):
        return float(_finite((losses**2 / q).sum() / losses.size**2, q))


def mixture_cost_gradient(w, probabilities, losses):
    """Gradient of `mixture_cost` in w, shape (k,): -(1/n^2) sum_i l(i)^2 p(i) / <w, p(i)>^2."""
    w, probabilities, losses = _checked_cost(w, probabilities, losses)
    q = w @ probabilities
    with np.errstate(all="ignore"):
        return _finite(-(probabilities @ (losses**2 / q**2)) / losses.size**2, q)


def _finite(values, q):
    if not np.isfinite(values).all():
        raise ValueError(f"w gives a point the probability {q.min():.3g}, so small that the cost overflows.")
    return values


def _checked_cost(w, probabilities, losses):
    p, _ = check_probabilities(probabilities, uniform=True)
    w = check_vector(w, "w", len(p))
    w = np.where((w < 0) & (w > -1e-9), 0.0, w)  # rounding of who made them
    losses = as_vector(losses)
    if losses.shape != p.shape[1:]:
        raise ValueError(f"losses must have shape ({p.shape[1]},), one a point, got {losses.shape}.")
    check_losses(losses)
    return check_vector(w, "w", least=0), p, losses


def theory_settings(k, horizon, *, bound=1.0, c=None):
    """beta, gamma and eps for which the theorems' regret bounds are proved.

    Full information (c None): gamma = (20 k^1.5 log T / T)^(1/3) of Theorem 4, with the exp-concavity of
    Lemma 2. Bandit feedback: gamma = k^(3/8) c^(1/5) T^(-1/5), the rate of Theorem 5. Both: beta =
    min(1/(4GD), alpha)/2 and eps = 1/(beta D)^2 with D = sqrt 2 (Hazan et al., 2006). They are for the cost
    f(w)/n^2: pass scale=n**2 to a `MixtureSampler`.

    Parameters
    ----------
    k : int, components
    horizon : int, T > 1, rounds
    bound : float, L, the greatest squared loss
    c : float or None, n times the greatest probability in a component

    Returns
    -------
    dict with beta, gamma, eps
    """
    check_integer("k", k)
    check_integer("horizon", horizon, least=2)
    check_number("bound", bound, above=0)
    if c is not None:
        check_number("c", c, above=0)
    if c is None:
        gamma = min(1.0, (20 * k**1.5 * np.log(horizon) / horizon) ** (1 / 3))
        alpha, slope = 2 * gamma / bound, bound * np.sqrt(k) / gamma**2
    else:
        gamma = min(1.0, k ** (3 / 8) * c ** (1 / 5) * horizon ** (-1 / 5))
        alpha, slope = 2 * gamma**2 / bound, c * bound * np.sqrt(k) / gamma**3
    diameter = np.sqrt(2)
    beta = 0.5 * min(1 / (4 * slope * diameter), alpha)
    return dict(beta=float(beta), gamma=float(gamma), eps=float(1 / (beta * diameter) ** 2))


class FullInformation(Learned):
    """Mixture weights by online Newton steps on the losses of all n points (VRM, Algorithm 1).

    `MixtureSampler` approximates this with the losses of the drawn points only. For analysis and for small n.

    Parameters
    ----------
    probabilities : array, shape (k, n), one distribution a row; the uniform one is appended when `uniform`
        unless the last row is uniform
    beta, gamma, eps : as in `MixtureSampler`
    uniform : bool
    scale : None measures squared losses in units of the running mean of the cost f/n^2; a number divides the
        paper's f by it
    """

    def __init__(self, probabilities, *, beta=0.5, gamma=0.01, eps=1000.0, uniform=True, scale=None):
        p, has_uniform = check_probabilities(probabilities, uniform=uniform)
        n = p.shape[1]
        if scale is not None:
            check_number("scale", scale, above=0)
        self.probabilities = np.vstack([p, np.full((1, n), 1.0 / n)]) if uniform and not has_uniform else p
        self.n, self.k = n, len(self.probabilities)
        self._scale = None if scale is None else float(scale) / n**2
        self._costs, self._rounds = 0.0, 0
        self._learner = NewtonLearner(self.k, beta=beta, gamma=gamma, eps=eps)

    def update(self, losses):
        """Take one round's losses of all points, shape (n,), finite and not negative.

        Returns
        -------
        float : the round's cost f_t(w_t)/n^2, at the weights before the step
        """
        w = self._learner.w
        cost = mixture_cost(w, self.probabilities, losses)
        self._costs, self._rounds = self._costs + cost, self._rounds + 1
        unit = self._scale or self._costs / self._rounds
        if cost > 0:
            gradient = mixture_cost_gradient(w, self.probabilities, losses)
            if not np.abs(gradient).max() < LARGEST_LOSS * unit:
                raise ValueError(f"losses of a cost of {cost:.3g} overflow in units of scale={unit:.3g}: raise scale.")
            self._learner.gradient_step(gradient / unit)
        return cost
