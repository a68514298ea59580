"""Compiled loops of the Gaussian mixture: densities, a weighted EM, second derivatives.

Parameters as arrays: `log_pi`, shape (k,), log mixture weights; `means`, shape (k, d); `factors`, shape (k, d, d),
lower triangular L with the precision matrix ``L L'`` and a positive diagonal. As one vector: see `GaussianMixture`.
"""

import numpy as np
from numba import njit


def parts_of(theta, k, d):
    """`theta` as log mixture weights (k,), means (k, d) and lower triangular precision factors (k, d, d)."""
    log_pi = np.append(theta[: k - 1], 0.0)
    top = log_pi.max()
    log_pi -= top + np.log(np.exp(log_pi - top).sum())
    blocks, factors = theta[k - 1 :].reshape(k, -1), np.zeros((k, d, d))
    factors[:, *np.tril_indices(d)] = blocks[:, d:]
    return log_pi, blocks[:, :d].copy(), factors


def theta_of(log_pi, means, factors):
    """The inverse of `parts_of`, shape (p,)."""
    lower = factors[:, *np.tril_indices(means.shape[1])]
    return np.append(log_pi[:-1] - log_pi[-1], np.column_stack([means, lower]))


@njit(cache=True, error_model="numpy")
def responsibilities(X, log_pi, means, factors, R):
    """Write the components' posterior probabilities into `R`, shape (n, k); gives the rows' losses, shape (n,)."""
    n, d = X.shape
    k = len(log_pi)
    losses = np.empty(n)
    constant = log_pi - 0.5 * d * np.log(2.0 * np.pi)
    for j in range(k):
        for r in range(d):
            constant[j] += np.log(factors[j, r, r])
    for i in range(n):
        for j in range(k):  # log pi_j N(x_i | mu_j, (L_j L_j')^-1)
            square = 0.0
            for r in range(d):
                u = 0.0
                for s in range(r, d):
                    u += factors[j, s, r] * (X[i, s] - means[j, s])
                square += u * u
            R[i, j] = constant[j] - 0.5 * square
        top = R[i].max()
        total = 0.0
        for j in range(k):
            R[i, j] = np.exp(R[i, j] - top)
            total += R[i, j]
        for j in range(k):
            R[i, j] /= total
        losses[i] = -top - np.log(total)
    return losses


@njit(cache=True, error_model="numpy")
def em(X, weights, R, prior, variance, tol, max_iter, from_responsibilities, log_pi, means, factors):
    """Weighted EM; parameters are overwritten.

    Parameters
    ----------
    X : float64, shape (n, d); weights : shape (n,), adding up to 1
    R : responsibilities, shape (n, k): where to start if `from_responsibilities`, else a buffer
    prior, variance : of `GaussianMixture`
    tol : nats; stops at a step that lowers the penalised loss by less
    log_pi, means, factors : shapes (k,), (k, d) and (k, d, d), lower triangular L with the precision ``L L'``

    Returns
    -------
    float : the penalised loss before the last step
    """
    d = X.shape[1]
    k = len(log_pi)
    value = np.inf
    for iteration in range(max_iter):
        if iteration or not from_responsibilities:
            loss = np.dot(weights, responsibilities(X, log_pi, means, factors, R))
            for j in range(k):
                loss -= prior * log_pi[j]
                for r in range(d):
                    loss -= prior * np.log(factors[j, r, r])
                    for s in range(r, d):
                        loss += 0.5 * prior * variance * factors[j, s, r] ** 2
            gained = value - loss
            value = loss
            if gained < tol:
                break
        for j in range(k):
            share = weights * R[:, j]
            mass = share.sum()
            if mass > 0.0:
                means[j] += np.dot(share, X - means[j]) / mass
            centered = X - means[j]
            scatter = np.dot(centered.T * share, centered)
            for s in range(d):
                scatter[s, s] += prior * variance
            log_pi[j] = np.log((mass + prior) / (1.0 + k * prior))
            factors[j] = np.linalg.cholesky(np.linalg.inv(scatter / (mass + prior)))
    return value


@njit(cache=True, error_model="numpy")
def add_hessian(X, weights, R, pi, means, factors, H):
    """Add the Hessian of the weighted sum of losses to `H`, shape (p, p); parameters as in `GaussianMixture`.

    With ``c_j = -log pi_j N(x | j)`` a row's Hessian is ``sum_j r_j (c_j'' - c_j' c_j'^T) + l' l'^T``, l' the gradient.
    """
    n, d = X.shape
    k = len(pi)
    q = d + d * (d + 1) // 2
    p = k - 1 + k * q
    gradient = np.empty(p)
    own = np.empty(q)
    for i in range(n):
        w = weights[i]
        for a in range(k - 1):
            gradient[a] = pi[a] - R[i, a]
            for b in range(k - 1):
                # c_j'' in the logits less sum_j r_j (pi - e_j) (pi - e_j)'
                H[a, b] -= w * (2.0 * pi[a] * pi[b] - R[i, a] * pi[b] - pi[a] * R[i, b])
            H[a, a] += w * (pi[a] - R[i, a])
        for j in range(k):
            first = k - 1 + j * q
            share = w * R[i, j]
            x = X[i] - means[j]
            L = factors[j]
            u = np.zeros(d)
            for r in range(d):
                for s in range(r, d):
                    u[r] += L[s, r] * x[s]
            at = d
            for s in range(d):
                own[s] = 0.0
                for r in range(s + 1):
                    own[s] -= L[s, r] * u[r]
                    own[at] = x[s] * u[r]
                    if r == s:
                        own[at] -= 1.0 / L[r, r]
                    at += 1
            for a in range(q):
                gradient[first + a] = R[i, j] * own[a]
                for b in range(q):
                    H[first + a, first + b] -= share * own[a] * own[b]
                for b in range(k - 1):
                    cross = share * own[a] * (pi[b] - (1.0 if b == j else 0.0))
                    H[b, first + a] -= cross
                    H[first + a, b] -= cross
            _add_curvature(x, u, L, share, H[first : first + q, first : first + q])
        for a in range(p):
            for b in range(p):
                H[a, b] += w * gradient[a] * gradient[b]


@njit(cache=True, error_model="numpy")
def _add_curvature(x, u, L, share, H):
    # Second derivative of 1/2 |L' (x - mu)|^2 - log |L| by mu and the lower triangle of L, row by row.
    d = len(x)
    for s in range(d):
        for t in range(d):
            for r in range(min(s, t) + 1):
                H[s, t] += share * L[s, r] * L[t, r]
    at = d
    for s in range(d):
        for r in range(s + 1):
            for t in range(r, d):
                mixed = -share * x[s] * L[t, r]
                H[t, at] += mixed
                H[at, t] += mixed
                other = d + t * (t + 1) // 2 + r
                H[at, other] += share * x[s] * x[t]
            H[s, at] -= share * u[r]
            H[at, s] -= share * u[r]
            if r == s:
                H[at, at] += share / L[r, r] ** 2
            at += 1
