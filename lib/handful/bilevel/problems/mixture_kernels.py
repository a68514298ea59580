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


# Plain loops over given buffers: numba takes seconds to compile array expressions, products and factorisations.


@njit(cache=True, error_model="numpy")
def responsibilities(X, log_pi, means, factors, R, losses):
    """Write the components' posterior probabilities into `R`, shape (n, k), and the rows' losses, shape (n,)."""
    n, d = X.shape
    k = len(log_pi)
    for j in range(k):
        constant = log_pi[j] - 0.5 * d * np.log(2.0 * np.pi)
        for r in range(d):
            constant += np.log(factors[j, r, r])
        for i in range(n):  # log pi_j N(x_i | mu_j, (L_j L_j')^-1)
            square = 0.0
            for r in range(d):
                u = 0.0
                for s in range(r, d):
                    u += factors[j, s, r] * (X[i, s] - means[j, s])
                square += u * u
            R[i, j] = constant - 0.5 * square
    for i in range(n):
        top = -np.inf
        for j in range(k):
            if R[i, j] > top:
                top = R[i, j]
        total = 0.0
        for j in range(k):
            R[i, j] = np.exp(R[i, j] - top)
            total += R[i, j]
        for j in range(k):
            R[i, j] /= total
        losses[i] = -top - np.log(total)


@njit(cache=True, error_model="numpy")
def em(X, weights, R, losses, prior, variance, tol, max_iter, from_responsibilities, log_pi, means, factors):
    """Weighted EM; parameters are overwritten.

    Parameters
    ----------
    X : float64, shape (n, d); weights : shape (n,), adding up to 1
    R : responsibilities, shape (n, k): where to start if `from_responsibilities`, else a buffer; overwritten
    losses : buffer, shape (n,)
    prior, variance : of `GaussianMixture`
    tol : nats; stops at a step that lowers the penalised loss by less
    log_pi, means, factors : shapes (k,), (k, d) and (k, d, d), lower triangular L with the precision ``L L'``

    Returns
    -------
    float : the penalised loss before the last step
    """
    n, d = X.shape
    k = len(log_pi)
    value = np.inf
    for iteration in range(max_iter):
        if iteration or not from_responsibilities:
            responsibilities(X, log_pi, means, factors, R, losses)
            loss = 0.0
            for i in range(n):
                loss += weights[i] * losses[i]
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
            mass = 0.0
            for i in range(n):
                R[i, j] *= weights[i]
                mass += R[i, j]
            for s in range(d):
                moved = 0.0
                for i in range(n):
                    moved += R[i, j] * (X[i, s] - means[j, s])
                if mass > 0.0:
                    means[j, s] += moved / mass
            log_pi[j] = np.log((mass + prior) / (1.0 + k * prior))
            _precision_factor(X, R, j, means, prior * variance, mass + prior, factors)
    return value


@njit(cache=True, error_model="numpy")
def _precision_factor(X, R, j, means, ridge, mass, factors):
    # The factor L of component j. Its covariance is V'V, with V lower triangular and found from its last row upwards;
    # L is the inverse of V. All of it happens in the lower triangle of factors[j].
    n, d = X.shape
    for r in range(d):
        for s in range(r + 1):
            factors[j, r, s] = ridge if r == s else 0.0
    for i in range(n):
        for r in range(d):
            part = R[i, j] * (X[i, r] - means[j, r])
            for s in range(r + 1):
                factors[j, r, s] += part * (X[i, s] - means[j, s])
    for r in range(d - 1, -1, -1):
        for s in range(r, -1, -1):
            entry = factors[j, r, s] / mass
            for m in range(r + 1, d):
                entry -= factors[j, m, r] * factors[j, m, s]
            if s == r:  # no pivot is below the ridge, but rounding may say so
                factors[j, r, r] = np.sqrt(entry if entry > ridge / mass else ridge / mass)
            else:
                factors[j, r, s] = entry / factors[j, r, r]
    for s in range(d):
        factors[j, s, s] = 1.0 / factors[j, s, s]
        for r in range(s + 1, d):
            total = 0.0
            for m in range(s, r):
                total += factors[j, r, m] * factors[j, m, s]
            factors[j, r, s] = -total / factors[j, r, r]


@njit(cache=True, error_model="numpy")
def add_hessian(X, weights, R, pi, means, factors, gradient, own, x, u, H):
    """Add the Hessian of the weighted sum of losses to `H`, shape (p, p); parameters as in `GaussianMixture`.

    With ``c_j = -log pi_j N(x | j)`` a row's Hessian is ``sum_j r_j (c_j'' - c_j' c_j'^T) + l' l'^T``, l' the gradient.
    Buffers: `gradient`, shape (p,), `own`, shape (d + d (d + 1) / 2,), `x` and `u`, shape (d,).
    """
    n, d = X.shape
    k, q, p = len(pi), len(own), len(gradient)
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
            for s in range(d):
                x[s] = X[i, s] - means[j, s]
            for r in range(d):
                u[r] = 0.0
                for s in range(r, d):
                    u[r] += factors[j, s, r] * x[s]
            at = d
            for s in range(d):
                own[s] = 0.0
                for r in range(s + 1):
                    own[s] -= factors[j, s, r] * u[r]
                    own[at] = x[s] * u[r]
                    if r == s:
                        own[at] -= 1.0 / factors[j, r, r]
                    at += 1
            for a in range(q):
                gradient[first + a] = R[i, j] * own[a]
                for b in range(q):
                    H[first + a, first + b] -= share * own[a] * own[b]
                for b in range(k - 1):
                    cross = share * own[a] * (pi[b] - (1.0 if b == j else 0.0))
                    H[b, first + a] -= cross
                    H[first + a, b] -= cross
            _add_curvature(x, u, factors, j, share, first, H)
        for a in range(p):
            for b in range(p):
                H[a, b] += w * gradient[a] * gradient[b]


@njit(cache=True, error_model="numpy")
def _add_curvature(x, u, factors, j, share, first, H):
    # Second derivative of 1/2 |L' (x - mu)|^2 - log |L| by mu and the lower triangle of L, row by row.
    d = len(x)
    for s in range(d):
        for t in range(d):
            for r in range(min(s, t) + 1):
                H[first + s, first + t] += share * factors[j, s, r] * factors[j, t, r]
    at = first + d
    for s in range(d):
        for r in range(s + 1):
            for t in range(r, d):
                mixed = -share * x[s] * factors[j, t, r]
                H[first + t, at] += mixed
                H[at, first + t] += mixed
                H[at, first + d + t * (t + 1) // 2 + r] += share * x[s] * x[t]
            H[first + s, at] -= share * u[r]
            H[at, first + s] -= share * u[r]
            if r == s:
                H[at, at] += share / factors[j, r, r] ** 2
            at += 1
