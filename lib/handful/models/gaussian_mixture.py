"""Gaussian mixtures as inner problem: weighted EM inside, the negative log-likelihood outside."""

from contextlib import suppress
from dataclasses import KW_ONLY
from operator import itemgetter
from typing import Annotated

import numpy as np
from scipy.linalg import eigh
from scipy.special import log_softmax
from sklearn.metrics import pairwise_distances_argmin

from handful.checks import MAX_SEED, ConvergenceError, as_generator
from handful.models.newton import bordered, newton
from handful.models.problem import Problem
from handful.options import Count, number
from handful.types import Seed

# EM takes at most so many steps.
MAX_EM = 2000
# A step of EM must improve the mean loss by so many nats; Newton's method does the rest.
EM_TOL = 1e-7
# Newton's method begins anew at most so many times, after each saddle point that was left.
MAX_NEWTON = 50
# A step away from a saddle point is halved up to so many times.
MAX_HALVINGS = 14
# The penalty must add this share of the variance of X to a covariance.
SINGULAR = 1e-13
# A further Newton step is not taken where it would gain less than so many nats.
NEWTON_TOL = 1e-12
ENOUGH = "without it the covariance of a component with few points is singular"
# An array over starts or rows, components and features has so many entries.
CHUNK_ENTRIES = 1 << 20


class GaussianMixture(Problem):
    """Mixture of Gaussians with full covariances (Borsos et al. 2024, Section 5.2.1), for data
    without labels.

    The loss of a row is its negative log-likelihood, ``-log sum_j pi_j N(x | mu_j, Sigma_j)``. The
    inner problem is solved by EM on the weighted rows, then by Newton's method, so that implicit
    gradients are exact. A penalty keeps covariances of few points away from singular: every
    component counts as if it had seen a further share `prior` of the data, spread about its mean
    with variance `prior_variance` (an inverse Wishart and a Dirichlet prior).

    Parameters
    ----------
    n_components : int, default=5
        Number of Gaussians k.
    prior : float, default=0.001
        Share of the data that the penalty counts for in each component, positive.
    prior_variance : float, default=1.0
        Variance of those, in squared units of X, in every direction; 1 suits standardised
        features.
    n_init : int, default=10
        K-means++ starts, of which the best is kept, where there is no warm start.
    random_state : int, Generator, RandomState or None, default=0
        Seeds these starts.

    Notes
    -----
    The parameters `theta`, shape (p,) with p = k - 1 + k (d + d (d + 1) / 2), are the logits of the
    first k - 1 mixture weights against the last, then for each component its mean and the lower
    triangle of L (row by row), where ``L L'`` is the precision matrix. `unpack` translates.

    The loss has many local minima. `solve` takes the best that EM reaches from several starts, so
    that a coreset is selected for a trainer who does the same.

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

    n_components: Count = 5
    _: KW_ONLY
    prior: Annotated[float, number(above=0, why=ENOUGH)] = 1e-3
    prior_variance: Annotated[float, number(above=0, why=ENOUGH)] = 1.0
    n_init: Count = 10
    random_state: Seed = 0

    needs_y = False

    # Parameters.

    def _parts(self, theta, d):
        # log mixture weights (k,), means (k, d) and lower triangular precision factors (k, d, d)
        k = self.n_components
        logits = np.append(theta[: k - 1], 0.0)
        blocks = np.reshape(theta[k - 1 :], (k, -1))
        means, lower = np.hsplit(blocks, [d])
        rows, columns = np.tril_indices(d)
        factors = np.zeros((k, d, d))
        factors[:, rows, columns] = lower
        return log_softmax(logits), means, factors

    def unpack(self, theta, n_features):
        """The mixture behind `theta`.

        Returns
        -------
        weights : shape (k,); means : shape (k, d); covariances : shape (k, d, d)
        """
        log_pi, means, factors = self._parts(theta, n_features)
        precisions = factors @ factors.transpose(0, 2, 1)
        return np.exp(log_pi), means, np.linalg.inv(precisions)

    # Losses and their derivatives.

    def losses(self, theta, X, y=None):
        """Negative log-likelihood of every row in nats, shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        log_pi, means, factors = self._parts(theta, X.shape[1])
        n_entries = X.size * self.n_components
        n_parts = 1 + n_entries // CHUNK_ENTRIES
        losses = []
        for part in np.array_split(X, n_parts):
            centred = part - means[:, None]
            _, of_part = _responsibilities(centred, log_pi, factors)
            losses.append(of_part)
        return np.concatenate(losses)

    def _components(self, theta, X):
        # For each component j: which entries of theta it depends on, the gradient (n, .) of c_j =
        # -log pi_j N(x | j) by them, the posterior probabilities r_j of the rows, (n,), and what
        # `_curvature` needs.
        n, d = X.shape
        log_pi, means, factors = self._parts(theta, d)
        k = self.n_components
        pi = np.exp(log_pi[:-1])
        logits = np.arange(k - 1)
        own = np.arange(k - 1, len(theta)).reshape(k, -1)
        rows, columns = np.tril_indices(d)
        centred = X - means[:, None]
        R, _ = _responsibilities(centred, log_pi, factors)
        for j in range(k):
            x = centred[j]
            L = factors[j]
            at = np.append(logits, own[j])
            U = x @ L
            by_logits = np.tile(pi - (logits == j), (n, 1))
            by_mean = -U @ L.T
            inverses = np.diag(1.0 / np.diag(L))
            products = x[:, rows] * U[:, columns]
            of_determinant = inverses[rows, columns]
            by_factor = products - of_determinant
            by = np.concatenate([by_logits, by_mean, by_factor], axis=1)
            yield at, by, R[j], x, L

    def gradients(self, theta, X, y=None):
        """Gradient of every row's loss by `theta`, shape (n, p)."""
        X = np.asarray(X, dtype=np.float64)
        gradients = np.zeros((len(X), len(theta)))
        for at, by, r, _, _ in self._components(theta, X):
            gradients[:, at] += r[:, None] * by
        return gradients

    def _hessians(self, theta, X, weights):
        # Hessians of weighted sums of losses, (b, p, p), of b groups of as many rows; weights are
        # (b, rows). A row has sum_j r_j (c_j'' - c_j' c_j'^T) + l' l'^T, with the gradient l'.
        n, d = X.shape
        p = len(theta)
        b = len(weights)
        n_logits = self.n_components - 1
        log_pi, _, _ = self._parts(theta, d)
        of_logits = _logit_curvature(log_pi)
        H = np.zeros((b, p, p))
        slopes = np.zeros((n, p))
        for at, by, r, x, L in self._components(theta, X):
            slopes[:, at] += r[:, None] * by
            share = weights * r.reshape(b, -1)
            by = by.reshape(b, -1, len(at))
            x = x.reshape(b, -1, d)
            mass = share.sum(axis=1)[:, None, None]
            weighted = share[:, :, None] * by
            own = -by.transpose(0, 2, 1) @ weighted
            own[:, :n_logits, :n_logits] += mass * of_logits
            of_component = _curvature(share, x, L)
            own[:, n_logits:, n_logits:] += of_component
            H[:, at[:, None], at] += own
        slopes = slopes.reshape(b, -1, p)
        weighted = weights[:, :, None] * slopes
        products = slopes.transpose(0, 2, 1) @ weighted
        return H + products

    def row_hessians(self, theta, X, y=None):
        """As `Problem.row_hessians`, in closed form."""
        X = np.asarray(X, dtype=np.float64)
        each = np.ones((len(X), 1))
        return self._hessians(theta, X, each)

    def hessian(self, theta, X, y, weights):
        """Hessian of the weighted sum of losses plus the penalty, shape (p, p)."""
        X = np.asarray(X, dtype=np.float64)
        weights = np.asarray(weights, dtype=np.float64)
        k = self.n_components
        d = X.shape[1]
        (H,) = self._hessians(theta, X, weights[None])
        log_pi, _, factors = self._parts(theta, d)
        of_logits = _logit_curvature(log_pi)
        H[: k - 1, : k - 1] += k * self.prior * of_logits
        spread = self.prior * self.prior_variance
        by_factors = np.full((k, d, d), spread)
        squares = _diagonals(factors) ** 2
        diagonal = np.arange(d)
        by_factors[:, diagonal, diagonal] += self.prior / squares
        H[np.diag_indices(len(H))] += _of_factors(by_factors)
        return H

    def penalty_at(self, theta, X, y=None):
        """As `Problem.penalty_at`."""
        log_pi, _, factors = self._parts(theta, X.shape[1])
        return float(self._penalty(log_pi, factors))

    def _penalty(self, log_pi, factors):
        squares = (factors**2).sum(axis=(-3, -2, -1))
        spread = 0.5 * self.prior_variance * squares
        log_diagonals = np.log(_diagonals(factors))
        log_determinants = log_diagonals.sum(axis=(-2, -1))
        log_shares = log_pi.sum(axis=-1)
        return self.prior * (spread - log_determinants - log_shares)

    def _penalty_gradient(self, theta, d):
        log_pi, _, factors = self._parts(theta, d)
        k = self.n_components
        by_factors = self.prior_variance * factors
        diagonal = np.arange(d)
        by_factors[:, diagonal, diagonal] -= 1.0 / _diagonals(factors)
        gradient = _of_factors(self.prior * by_factors)
        pi = np.exp(log_pi[:-1])
        by_logits = k * pi - 1.0
        gradient[: k - 1] = self.prior * by_logits
        return gradient

    # The inner problem.

    def start(self, X, y=None):
        """Parameters to which EM leads from one k-means++ start, shape (p,)."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        weights = np.full(len(X), 1.0 / len(X))
        R, means = self._starts(X, weights, 1)
        return self._em(X, weights, R, means)[1]

    def _starts(self, X, weights, n_init):
        # responsibilities (starts, k, n) of k-means++ centers, and the means (starts, k, d) where
        # components stay that get no point
        rng = as_generator(self.random_state)
        k = self.n_components
        components = np.arange(k)[:, None]
        memberships = []
        for _ in range(n_init):
            labels = self._labels(X, weights, rng)
            memberships.append(components == labels)
        R = np.array(memberships)
        means = np.tile(weights @ X, (n_init, k, 1))
        return R, means

    def solve(self, X, y, weights, start=None):
        """Minimise ``sum_i weights_i loss_i + penalty``, a local minimum.

        Parameters
        ----------
        X : shape (n, d); y is not looked at
        weights : shape (n,), non-negative, adding up to 1
        start : shape (p,), parameters to start from as well, such as the solution for other weights

        Returns
        -------
        theta : shape (p,), the best local minimum that EM reaches from `start` and from `n_init`
            k-means++ starts

        Raises
        ------
        ConvergenceError
            if the penalty is lost in the rounding of the covariance of X
        """
        X = np.ascontiguousarray(X, dtype=np.float64)
        centred = X - weights @ X
        squares = (centred**2).sum(axis=1)
        spread = float(weights @ squares)
        if not self.prior * self.prior_variance > SINGULAR * spread:
            raise ConvergenceError(
                f"covariances may be singular to rounding, with prior={self.prior:g} and "
                "prior_variance="
                f"{self.prior_variance:g} beside a variance of X of {spread:.3g}: raise them, or "
                "scale X."
            )
        R, means = self._starts(X, weights, self.n_init)
        # starts at a time
        step = 1 + CHUNK_ENTRIES // (self.n_components * X.size)
        results = []
        for first in range(0, len(R), step):
            some = slice(first, first + step)
            found = self._em(X, weights, R[some], means[some])
            results.append(found)
        if start is not None:
            results.append(self._em_from(X, weights, start))
        _, best = min(results, key=itemgetter(0))
        return self._polish(X, weights, best)

    def _labels(self, X, weights, rng):
        # here, as importing it takes a while
        from sklearn.cluster import kmeans_plusplus

        # whose squares keep the digits of distances
        X = X - weights @ X / weights.sum()
        present = np.flatnonzero(weights)
        k = min(self.n_components, len(present))
        seed = int(rng.integers(MAX_SEED))
        centers, _ = kmeans_plusplus(
            X[present],
            k,
            sample_weight=weights[present],
            random_state=seed,
            n_local_trials=1,
        )
        return pairwise_distances_argmin(X, centers)

    def _em_from(self, X, weights, theta):
        log_pi, means, factors = self._parts(theta, X.shape[1])
        centred = X - means[:, None]
        R, losses = _responsibilities(centred, log_pi, factors)
        value = weights @ losses + self._penalty(log_pi, factors)
        return self._em(X, weights, R[None], means[None], value)

    def _em(self, X, weights, R, means, value=np.inf):
        # The best (penalised loss, theta) to which EM leads from responsibilities (starts, k, n),
        # with the means that components keep where they have no point, (starts, k, d), and the
        # penalised loss there.
        k = self.n_components
        prior = self.prior
        best = (np.inf, None)
        for step in range(MAX_EM):
            share = R * weights
            mass = share.sum(axis=2)
            centred = X - means[:, :, None]
            moved = np.einsum("akn,aknd->akd", share, centred)
            divisor = np.maximum(mass, np.finfo(float).tiny)
            means = means + moved / divisor[:, :, None]
            centred = X - means[:, :, None]
            weighted = share[:, :, :, None] * centred
            scatter = weighted.swapaxes(2, 3) @ centred
            scatter += prior * self.prior_variance * np.eye(X.shape[1])
            total = mass + prior
            covariances = scatter / total[:, :, None, None]
            factors = _precision_factors(covariances)
            log_pi = np.log(total / (1.0 + k * prior))
            R, losses = _responsibilities(centred, log_pi, factors)
            new = losses @ weights + self._penalty(log_pi, factors)
            going_on = (value - new >= EM_TOL) & (step < MAX_EM - 1)
            if not going_on.all():
                of_ended = np.where(going_on, np.inf, new)
                j = np.argmin(of_ended)
                least, _ = best
                if new[j] < least:
                    theta = _theta_of(log_pi[j], means[j], factors[j])
                    best = (new[j], theta)
                R = R[going_on]
                means = means[going_on]
                new = new[going_on]
                if not len(new):
                    break
            value = new
        return best

    def _objective(self, theta, X, weights):
        # infinite outside the domain, where a diagonal entry of some L is not positive
        log_pi, _, factors = self._parts(theta, X.shape[1])
        if (_diagonals(factors) <= 0).any():
            return np.inf
        loss = weights @ self.losses(theta, X)
        return loss + self._penalty(log_pi, factors)

    def _polish(self, X, weights, theta):
        # Newton's method from where EM slowed down, and away from saddle points, where EM stays.
        def expansion(theta):
            value = self._objective(theta, X, weights)
            of_losses = weights @ self.gradients(theta, X)
            of_penalty = self._penalty_gradient(theta, X.shape[1])
            slope = of_losses + of_penalty
            H = self.hessian(theta, X, None, weights)
            return -bordered(value, slope, -H)

        for _ in range(MAX_NEWTON):
            with suppress(ConvergenceError):
                _, theta, _ = newton(expansion, theta, enough=NEWTON_TOL)
            value = self._objective(theta, X, weights)
            H = self.hessian(theta, X, None, weights)
            least, downhill = eigh(H, subset_by_index=[0, 0])
            if least > 0:
                break
            direction = downhill[:, 0]
            new, trial = self._leave_saddle(X, weights, theta, value, direction)
            if not new < value:
                break
            theta = trial
        return theta

    def _leave_saddle(self, X, weights, theta, value, direction):
        # The lowest of here and of where EM leads from either side along a direction of negative
        # curvature.
        results = [(value, theta)]
        for side in (direction, -direction):
            for halvings in range(MAX_HALVINGS):
                trial = theta + 0.5**halvings * side
                if self._objective(trial, X, weights) < value:
                    _, there = self._em_from(X, weights, trial)
                    reached = self._objective(there, X, weights)
                    results.append((reached, there))
                    break
        return min(results, key=itemgetter(0))


def _theta_of(log_pi, means, factors):
    # the inverse of `GaussianMixture._parts`
    rows, columns = np.tril_indices(means.shape[1])
    lower = factors[:, rows, columns]
    logits = log_pi[:-1] - log_pi[-1]
    of_components = np.column_stack([means, lower])
    return np.append(logits, of_components)


def _of_factors(by_factors):
    # `_theta_of` what belongs to factors alone, (k, d, d)
    k, d, _ = by_factors.shape
    no_logits = np.zeros(k)
    no_means = np.zeros((k, d))
    return _theta_of(no_logits, no_means, by_factors)


def _logit_curvature(log_pi):
    # the second derivative of the mixture weights' normaliser by the logits, (k - 1, k - 1)
    pi = np.exp(log_pi[:-1])
    products = np.outer(pi, pi)
    return np.diag(pi) - products


def _diagonals(factors):
    return np.diagonal(factors, axis1=-2, axis2=-1)


def _precision_factors(covariances):
    # Lower triangular L with L L' the inverse. The covariance is U U' with U upper triangular:
    # Cholesky's factor of the matrix with rows and columns reversed.
    reverse = slice(None, None, -1)
    lower = np.linalg.cholesky(covariances[..., reverse, reverse])
    upper = lower[..., reverse, reverse]
    inverse = np.linalg.inv(upper)
    return np.tril(inverse.swapaxes(-1, -2))


def _responsibilities(centred, log_pi, factors):
    # Posterior probabilities of the components, (..., k, n), and losses of the rows, (..., n),
    # where `centred`, (..., k, n, d), are the rows less each mean.
    U = centred @ factors
    d = centred.shape[-1]
    log_determinants = np.log(_diagonals(factors)).sum(axis=-1)
    logs = log_pi + log_determinants - 0.5 * d * np.log(2.0 * np.pi)
    squares = np.einsum("...d,...d->...", U, U)
    logs = logs[..., None] - 0.5 * squares
    top = logs.max(axis=-2, keepdims=True)
    R = np.exp(logs - top)
    total = R.sum(axis=-2, keepdims=True)
    losses = -(top + np.log(total))
    return R / total, losses[..., 0, :]


def _curvature(share, x, L):
    # Second derivative of sum_i share_i (1/2 |L' x_i|^2 - log |L|) by the mean and the lower
    # triangle of L, (b, q, q), of b groups of centred rows: share (b, n), x (b, n, d). Moments of
    # the rows are enough.
    d = len(L)
    rows, columns = np.tril_indices(d)
    mass = share.sum(axis=1)[:, None, None]
    first = share[:, None, :] @ x
    weighted = share[:, :, None] * x
    second = weighted.transpose(0, 2, 1) @ x
    by_factor = first @ L
    of_mean = np.eye(d)[:, rows]
    mixed = -L[:, columns] * first[:, :, rows]
    mixed = mixed - of_mean * by_factor[:, :, columns]
    same_column = columns[:, None] == columns
    squares = second[:, rows[:, None], rows]
    inverse_squares = np.diag(1.0 / np.diag(L) ** 2)
    of_determinant = np.diag(inverse_squares[rows, columns])
    q = d + len(rows)
    H = np.empty((len(x), q, q))
    means = slice(None, d)
    lower = slice(d, None)
    H[:, means, means] = mass * (L @ L.T)
    H[:, means, lower] = mixed
    H[:, lower, means] = mixed.transpose(0, 2, 1)
    H[:, lower, lower] = squares * same_column
    H[:, lower, lower] += mass * of_determinant
    return H
