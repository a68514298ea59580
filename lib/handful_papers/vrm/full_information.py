"""Mixture weights learned from the losses of all points (VRM, Algorithm 1), and the theorems'
settings."""

import numpy as np
from handful.sampling.online_newton import NewtonLearner


def mixture_cost(w, probabilities, losses):
    """Second moment of the estimated mean loss: f(w)/n^2 = (1/n^2) sum_i l(i)^2 / <w, p(i)> (VRM,
    section 2).

    Parameters
    ----------
    w : array, shape (k,)
    probabilities : array, shape (k, n)
    losses : array, shape (n,)
    """
    mixed = w @ probabilities
    return float((losses**2 / mixed).sum() / losses.size**2)


def mixture_cost_gradient(w, probabilities, losses):
    """Gradient of `mixture_cost` in w, shape (k,): -(1/n^2) sum_i l(i)^2 p(i) / <w, p(i)>^2."""
    mixed = w @ probabilities
    return -(probabilities @ (losses**2 / mixed**2)) / losses.size**2


def concentration(probabilities):
    """The least c with p_j(i) <= c/n for all components, shape (k, n), and points (VRM, Assumption
    1 and Table 1)."""
    return float(probabilities.max() * probabilities.shape[1])


def theory_settings(k, horizon, *, bound=1.0, c=None):
    """beta, gamma and eps for which the theorems' regret bounds are proved.

    Full information (c None): gamma = (20 k^1.5 log T / T)^(1/3) of Theorem 4, with the
    exp-concavity of Lemma 2. Bandit feedback: gamma = k^(3/8) c^(1/5) T^(-1/5), the rate of Theorem
    5. Both: beta = min(1/(4GD), alpha)/2 and eps = 1/(beta D)^2 with D = sqrt 2 (Hazan et al.,
    2006). They are for the cost f(w)/n^2: pass scale=n**2 to a `MixtureSampler`.

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
    if c is None:
        gamma = min(1.0, (20 * k**1.5 * np.log(horizon) / horizon) ** (1 / 3))
        alpha = 2 * gamma / bound
        slope = bound * np.sqrt(k) / gamma**2
    else:
        gamma = min(1.0, k ** (3 / 8) * c ** (1 / 5) * horizon ** (-1 / 5))
        alpha = 2 * gamma**2 / bound
        slope = c * bound * np.sqrt(k) / gamma**3
    diameter = np.sqrt(2)
    beta = 0.5 * min(1 / (4 * slope * diameter), alpha)
    return dict(
        beta=float(beta),
        gamma=float(gamma),
        eps=float(1 / (beta * diameter) ** 2),
    )


class FullInformation:
    """Mixture weights by online Newton steps on the losses of all n points (VRM, Algorithm 1).

    `MixtureSampler` approximates this with the losses of the drawn points only.

    Parameters
    ----------
    probabilities : array, shape (k, n), one distribution a row, the uniform one last
    beta, gamma, eps : as in `MixtureSampler`
    scale : None measures squared losses in units of the running mean of the cost f/n^2; a number
        divides the paper's f by it
    """

    def __init__(
        self,
        probabilities,
        *,
        beta=0.5,
        gamma=0.01,
        eps=1000.0,
        scale=None,
    ):
        self.probabilities = probabilities
        self._scale = None if scale is None else scale / probabilities.shape[1] ** 2
        self._costs = 0.0
        self._rounds = 0
        self._learner = NewtonLearner(
            len(probabilities),
            beta=beta,
            gamma=gamma,
            eps=eps,
        )

    @property
    def mixture_weights(self):
        """The mixture weights, shape (k,), the uniform component's last."""
        return self._learner.w.copy()

    def update(self, losses):
        """Take one round's losses of all points, shape (n,).

        Returns
        -------
        float : the round's cost f_t(w_t)/n^2, at the weights before the step
        """
        w = self._learner.w
        cost = mixture_cost(w, self.probabilities, losses)
        self._costs = self._costs + cost
        self._rounds = self._rounds + 1
        if cost > 0:
            unit = self._scale or self._costs / self._rounds
            slope = mixture_cost_gradient(w, self.probabilities, losses)
            self._learner.gradient_step(slope / unit)
        return cost
