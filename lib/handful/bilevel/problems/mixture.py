"""Gaussian mixtures as inner problem: weighted EM inside, the negative log-likelihood outside."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from sklearn.metrics import pairwise_distances_argmin

from handful.bilevel.problems.mixture_kernels import add_hessian, em, parts_of, responsibilities, theta_of
from handful.checks import MAX_SEED, ConvergenceError, as_generator, check_integer, check_number
from handful.models.problem import Problem

MAX_EM = 2000
EM_TOL = 1e-7  # nats of the mean loss by which a step of EM must improve; Newton's method does the rest
MAX_NEWTON = 50
SINGULAR = 1e-14  # of the variance of X: what the penalty must add to a covariance
NEWTON_TOL = 1e-12  # nats that a further Newton step would gain


class GaussianMixture(Problem):
    """Mixture of Gaussians with full covariances (Borsos et al. 2024, Section 5.2.1), for data without labels.

    The loss of a row is its negative log-likelihood, ``-log sum_j pi_j N(x | mu_j, Sigma_j)``. The inner problem is
    solved by EM on the weighted rows, then by Newton's method, so that implicit gradients are exact. A penalty keeps
    covariances of few points away from singular: every component counts as if it had seen a further share `prior` of
    the data, spread about its mean with variance `prior_variance` (an inverse Wishart and a Dirichlet prior).

    Parameters
    ----------
    n_components : number of Gaussians k
    prior : share of the data that the penalty counts for in each component, positive
    prior_variance : variance of those, in squared units of X, in every direction; 1 suits standardised features
    n_init : k-means++ starts, of which the best is kept, where there is no warm start
    random_state : int, of these starts

    Notes
    -----
    The parameters `theta`, shape (p,) with p = k - 1 + k (d + d (d + 1) / 2), are the logits of the first k - 1 mixture
    weights against the last, then for each component its mean and the lower triangle of L (row by row), where
    ``L L'`` is the precision matrix. `unpack` translates.

    The loss has many local minima. `solve` takes the best that EM reaches from several starts, so that a coreset is
    selected for a trainer who does the same.

    Examples
    --------
    >>> from handful import BilevelCoreset
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-2, 0.5, (500, 2)), rng.normal(2, 0.5, (500, 2))])
    >>> mixture = GaussianMixture(2)
    >>> coreset = BilevelCoreset(mixture, size=10, random_state=0).fit(X)
    >>> theta = mixture.solve(X[coreset.indices_], None, coreset.weights_ / len(X))
    >>> sorted(mixture.unpack(theta, 2)[1][:, 0].round().tolist())
    [-2.0, 2.0]
    """

    needs_y = False

    def __init__(self, n_components=5, *, prior=1e-3, prior_variance=1.0, n_init=10, random_state=0):
        self.n_components = n_components
        self.prior = prior
        self.prior_variance = prior_variance
        self.n_init = n_init
        self.random_state = random_state

    def check(self):
        """ValueError unless counts are positive integers, and prior and prior_variance positive finite numbers."""
        for name in ("n_components", "n_init"):
            check_integer(name, getattr(self, name))
        why = "without it the covariance of a component with few points is singular"
        for name in ("prior", "prior_variance"):
            check_number(name, getattr(self, name), above=0, why=why)

    # Parameters ------------------------------------------------------------------------------------------------------

    def _parts(self, theta, d):
        return parts_of(np.asarray(theta, dtype=np.float64), self.n_components, d)

    def unpack(self, theta, n_features):
        """The mixture behind `theta`.

        Returns
        -------
        weights : shape (k,); means : shape (k, d); covariances : shape (k, d, d)
        """
        log_pi, means, factors = self._parts(theta, n_features)
        return np.exp(log_pi), means, np.linalg.inv(factors @ factors.transpose(0, 2, 1))

    # Losses and their derivatives ------------------------------------------------------------------------------------

    def _responsibilities(self, theta, X):
        X = np.ascontiguousarray(X, dtype=np.float64)
        parts = self._parts(theta, X.shape[1])
        R, losses = np.empty((len(X), self.n_components)), np.empty(len(X))
        responsibilities(X, *parts, R, losses)
        return X, parts, R, losses

    def losses(self, theta, X, y=None):
        """Negative log-likelihood of every row in nats, shape (n,)."""
        return self._responsibilities(theta, X)[3]

    def gradients(self, theta, X, y=None):
        """Gradient of every row's loss by `theta`, shape (n, p)."""
        X, parts, R, _ = self._responsibilities(theta, X)
        gradients = np.empty((len(X), len(theta)))
        k = self.n_components
        gradients[:, : k - 1] = np.exp(parts[0])[:-1] - R[:, :-1]
        q = (len(theta) - k + 1) // k
        for j in range(k):
            block = slice(k - 1 + j * q, k - 1 + (j + 1) * q)
            gradients[:, block] = R[:, j, None] * _component_gradients(X, parts[1][j], parts[2][j])
        return gradients

    def hessian(self, theta, X, y, weights):
        """Hessian of the weighted sum of losses plus the penalty, shape (p, p)."""
        X, (log_pi, means, factors), R, _ = self._responsibilities(theta, X)
        d, k = X.shape[1], self.n_components
        H = np.zeros((len(theta), len(theta)))
        buffers = (np.empty(size) for size in (len(theta), d + d * (d + 1) // 2, d, d))
        add_hessian(X, np.asarray(weights, dtype=np.float64), R, np.exp(log_pi), means, factors, *buffers, H)
        pi = np.exp(log_pi[:-1])
        H[: k - 1, : k - 1] += k * self.prior * (np.diag(pi) - np.outer(pi, pi))
        slope = np.full((k, d, d), self.prior * self.prior_variance)
        slope[:, np.arange(d), np.arange(d)] += self.prior / factors.diagonal(axis1=1, axis2=2) ** 2
        H[np.diag_indices(len(H))] += theta_of(np.zeros(k), np.zeros((k, d)), slope)
        return H

    def _penalty(self, theta, d):
        log_pi, _, factors = self._parts(theta, d)
        diagonals = np.log(factors.diagonal(axis1=1, axis2=2)).sum()
        return self.prior * (0.5 * self.prior_variance * (factors**2).sum() - diagonals - log_pi.sum())

    def _penalty_gradient(self, theta, d):
        log_pi, _, factors = self._parts(theta, d)
        k = self.n_components
        slope = self.prior_variance * factors
        slope[:, np.arange(d), np.arange(d)] -= 1.0 / factors.diagonal(axis1=1, axis2=2)
        gradient = theta_of(np.zeros(k), np.zeros((k, d)), self.prior * slope)
        gradient[: k - 1] = self.prior * (k * np.exp(log_pi[:-1]) - 1.0)
        return gradient

    # The inner problem -----------------------------------------------------------------------------------------------

    def solve(self, X, y, weights, start=None):
        """Minimise ``sum_i weights_i loss_i + penalty``, a local minimum.

        Parameters
        ----------
        X : shape (n, d); y is not looked at
        weights : shape (n,), non-negative, adding up to 1
        start : shape (p,), parameters to start from as well, such as the solution for other weights

        Returns
        -------
        theta : shape (p,), the best local minimum that EM reaches from `start` and from `n_init` k-means++ starts

        Raises
        ------
        ConvergenceError
            if the penalty is lost in the rounding of the covariance of X
        """
        X = np.ascontiguousarray(X, dtype=np.float64)
        spread = float(weights @ ((X - weights @ X) ** 2).sum(axis=1))
        if not self.prior * self.prior_variance > SINGULAR * spread:
            raise ConvergenceError(
                f"covariances may be singular to rounding, with prior={self.prior:g} and prior_variance="
                f"{self.prior_variance:g} beside a variance of X of {spread:.3g}: raise them, or scale X."
            )
        rng = as_generator(self.random_state)
        results = [self._em(X, weights, labels=self._labels(X, weights, rng)) for _ in range(self.n_init)]
        if start is not None:
            results.append(self._em(X, weights, parts=self._parts(start, X.shape[1])))
        return self._polish(X, weights, min(results, key=lambda result: result[0])[1])

    def _labels(self, X, weights, rng):
        from sklearn.cluster import kmeans_plusplus  # here, as importing it takes a while

        present = np.flatnonzero(weights)
        k = min(self.n_components, len(present))
        seed = int(rng.integers(MAX_SEED))
        centers, _ = kmeans_plusplus(X[present], k, sample_weight=weights[present], random_state=seed, n_local_trials=1)
        return pairwise_distances_argmin(X, centers)

    def _em(self, X, weights, *, parts=None, labels=None):
        n, d = X.shape
        k = self.n_components
        R = np.zeros((n, k))
        if parts is None:
            R[np.arange(n), labels] = 1.0
            center = weights @ X  # the mean of components that get no point
            parts = np.zeros(k), np.tile(center, (k, 1)), np.zeros((k, d, d))
        settings = self.prior, self.prior_variance, EM_TOL, MAX_EM, labels is not None
        value = em(X, weights, R, np.empty(n), *settings, *parts)
        return value, theta_of(*parts)

    def _objective(self, theta, X, weights):
        # infinite outside the domain, where a diagonal entry of some L is not positive
        if (self._parts(theta, X.shape[1])[2].diagonal(axis1=1, axis2=2) <= 0).any():
            return np.inf
        return weights @ self.losses(theta, X) + self._penalty(theta, X.shape[1])

    def _polish(self, X, weights, theta):
        # Newton's method from where EM slowed down, and away from saddle points, where EM stays.
        d = X.shape[1]
        value = self._objective(theta, X, weights)
        for _ in range(MAX_NEWTON):
            gradient = weights @ self.gradients(theta, X) + self._penalty_gradient(theta, d)
            hessian = self.hessian(theta, X, None, weights)
            try:
                step = -cho_solve(cho_factor(hessian), gradient)
            except LinAlgError:
                trial, new = self._leave_saddle(
                    X, weights, theta, value, eigh(hessian, subset_by_index=[0, 0])[1][:, 0]
                )
                if not new < value:
                    break
                theta, value = trial, new
                continue
            slope = -gradient @ step
            if not slope > NEWTON_TOL:
                break
            length = 1.0
            while length > 1e-6:
                new = self._objective(theta + length * step, X, weights)
                if new <= value - 0.1 * length * slope:
                    break
                length *= 0.5
            else:
                break
            theta, value = theta + length * step, new
        return theta

    def _leave_saddle(self, X, weights, theta, value, direction):
        # The lower of the two places to which EM leads from either side along a direction of negative curvature.
        results = [(value, theta)]
        for side in (direction, -direction):
            length = 1.0
            while length > 1e-4 and not self._objective(theta + length * side, X, weights) < value:
                length *= 0.5
            if length > 1e-4:
                there = self._em(X, weights, parts=self._parts(theta + length * side, X.shape[1]))[1]
                results.append((self._objective(there, X, weights), there))
        new, trial = min(results, key=lambda result: result[0])
        return trial, new


def _component_gradients(X, mean, factor):
    # Derivative of 1/2 |L'(x - mu)|^2 - log |L| by mu and the lower triangle of L, shape (n, q).
    centred = X - mean
    U = centred @ factor
    rows, columns = np.tril_indices(len(mean))
    by_factor = centred[:, rows] * U[:, columns]
    by_factor[:, rows == columns] -= 1.0 / np.diag(factor)
    return np.concatenate([-U @ factor.T, by_factor], axis=1)
