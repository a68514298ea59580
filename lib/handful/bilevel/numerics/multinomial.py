"""Exact inner solves of multinomial logistic regression: Newton steps by preconditioned conjugate gradients.

Parameters are matrices, shape (p, classes), the design is ``A``, shape (s, p), and the inner problem is
``sum_i c_i (-sum_k Y_ik log softmax(a_i' theta)_k) + 1/2 sum_jk l2_j theta_jk^2``.
"""

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def softmax(Z, Y, loss):
    """Turn logits `Z` into probabilities in place; the cross-entropy with the targets `Y` goes into `loss`, (s,)."""
    for i in range(Z.shape[0]):
        top = Z[i, 0]
        for k in range(1, Z.shape[1]):
            top = max(top, Z[i, k])
        total, inner = 0.0, 0.0
        for k in range(Z.shape[1]):
            inner += Y[i, k] * (Z[i, k] - top)
            Z[i, k] = np.exp(Z[i, k] - top)
            total += Z[i, k]
        loss[i] = np.log(total) - inner  # the targets add up to one
        for k in range(Z.shape[1]):
            Z[i, k] /= total


@njit(cache=True, error_model="numpy")
def hessian_product(A, P, c, l2, V, D, out):
    """``H V`` into `out` for probabilities `P`; `D`, shape (s, classes), is overwritten."""
    np.dot(A, V, D)
    for i in range(D.shape[0]):
        mean = P[i, 0] * D[i, 0]
        for k in range(1, D.shape[1]):
            mean += P[i, k] * D[i, k]
        for k in range(D.shape[1]):
            D[i, k] = c[i] * P[i, k] * (D[i, k] - mean)
    np.dot(A.T, D, out)
    for j in range(V.shape[0]):
        for k in range(V.shape[1]):
            out[j, k] += l2[j] * V[j, k]


@njit(cache=True, error_model="numpy")
def precondition(inverse, R, out):
    """Apply one block to every class, then remove the part that the classes share.

    The Hessian knows no such part of its own (one vector added to all classes' parameters changes no probability), and
    neither do gradients: without the projection three times as many conjugate gradients are needed.
    """
    np.dot(inverse, R, out)
    p, classes = R.shape
    for j in range(p):
        mean = out[j, 0] * 0
        for k in range(classes):
            mean += out[j, k]
        mean /= classes
        for k in range(classes):
            out[j, k] -= mean


@njit(cache=True, error_model="numpy")
def solve_hessian(A, P, c, l2, inverse, G, V, tol, max_iter):
    """Solve ``H V = G`` from the start `V`, which is overwritten; the classes' columns of `G` add up to zero.

    Parameters
    ----------
    inverse : shape (p, p), of the mean of the Hessian's diagonal blocks, the preconditioner
    tol : relative residual at which to stop

    Returns
    -------
    n_products : conjugate gradients taken
    left : the relative residual
    """
    p, k = G.shape
    D = np.empty((A.shape[0], k), dtype=A.dtype)
    R, HP, Z = np.empty_like(G), np.empty_like(G), np.empty_like(G)
    hessian_product(A, P, c, l2, V, D, HP)
    R[:] = G - HP
    unit = np.sum(G * G)
    enough = tol * tol * unit
    unit = max(unit, np.finfo(A.dtype).tiny)
    precondition(inverse, R, Z)
    S = Z.copy()
    rz = np.sum(R * Z)
    for iteration in range(max_iter):
        square = np.sum(R * R)
        if square <= enough or rz <= 0.0:
            return iteration, np.sqrt(square / unit)
        hessian_product(A, P, c, l2, S, D, HP)
        curvature = np.sum(S * HP)
        if curvature <= 0.0:
            return iteration, np.sqrt(square / unit)
        length = rz / curvature
        for i in range(p):
            for j in range(k):
                V[i, j] += length * S[i, j]
                R[i, j] -= length * HP[i, j]
        precondition(inverse, R, Z)
        before = rz
        rz = np.sum(R * Z)
        ratio = rz / before
        for i in range(p):
            for j in range(k):
                S[i, j] = Z[i, j] + ratio * S[i, j]
    return max_iter, np.sqrt(np.sum(R * R) / unit)


@njit(cache=True, error_model="numpy")
def grow_inverse(inverse, row, weight, l2):
    """The preconditioner after one more row, and perhaps one more direction, by a rank-one update.

    Parameters
    ----------
    inverse : shape (p, p)
    row : shape (p,) or (p + 1,), of the design
    weight : curvature that the row adds
    l2 : of the new direction

    Returns
    -------
    a new array
    """
    old, p = len(inverse), len(row)
    out = np.zeros((p, p), dtype=inverse.dtype)
    image = np.empty(p, dtype=inverse.dtype)
    image[:old] = np.dot(inverse, row[:old])
    for j in range(old, p):
        image[j] = row[j] / l2
    shrink = weight / (1.0 + weight * np.dot(image, row))
    for i in range(old):
        factor = shrink * image[i]
        for j in range(old):
            out[i, j] = inverse[i, j] - factor * image[j]
    for i in range(old, p):
        for j in range(p):
            out[i, j] = -shrink * image[i] * image[j]
            out[j, i] = out[i, j]
        out[i, i] += 1.0 / l2
    return out


@njit(cache=True, error_model="numpy")
def _objective(A, Y, c, l2, theta, P, loss):
    np.dot(A, theta, P)
    softmax(P, Y, loss)
    value = np.sum(c * loss)
    for j in range(theta.shape[0]):
        value += 0.5 * l2[j] * np.sum(theta[j] * theta[j])
    return value


@njit(cache=True, error_model="numpy")
def solve_multinomial(A, Y, c, l2, inverse, theta, P, tol, max_iter, loosest=0.0):
    """Minimise the inner problem from `theta`, which is overwritten by the solution and `P` by its probabilities.

    Parameters
    ----------
    A, Y, c, l2 : as above, all of one float type
    inverse : the preconditioner, as in `solve_hessian`
    tol : norm of the gradient at which to stop, in units of the data's gradient at zero
    loosest : upper limit of a looser tolerance, a fifth of the gradient at the start, which replaces `tol` where it is
        larger

    Returns
    -------
    left : norm of the gradient in these units
    n_products : conjugate gradients taken
    """
    s, k = Y.shape
    loss = np.empty(s, dtype=A.dtype)
    G, step, trial = np.empty_like(theta), np.empty_like(theta), np.empty_like(theta)
    rest = (1.0 / k - Y) * c.reshape((s, 1))
    np.dot(A.T, rest.astype(A.dtype), G)
    unit = np.sqrt(np.sum(G * G))
    # where the terms of the gradient at zero cancel, what is left would be rounding
    np.dot(np.abs(A).T, np.abs(rest).astype(A.dtype), G)
    unit = max(unit, max(1e-6, 1e4 * np.finfo(A.dtype).eps) * np.sqrt(np.sum(G * G)), 1e-30)
    value = _objective(A, Y, c, l2, theta, P, loss)
    if not value <= np.sum(c) * np.log(k):  # probabilities of 0 and 1 have no curvature to follow: start at zero
        theta[:] = 0.0
        value = _objective(A, Y, c, l2, theta, P, loss)
    n_products = 0
    left = np.inf
    for step_number in range(max_iter):
        rest = ((P - Y) * c.reshape((s, 1))).astype(A.dtype)
        np.dot(A.T, rest, G)
        for j in range(theta.shape[0]):
            G[j] += l2[j] * theta[j]
        left = np.sqrt(np.sum(G * G)) / unit
        if step_number == 0:
            tol = max(tol, min(loosest, 0.2 * left))
        if not left > tol:
            break
        step[:] = 0.0
        # a superlinear forcing term, but no more digits than are asked for
        n_products += solve_hessian(A, P, c, l2, inverse, G, step, max(min(0.1, left), 0.3 * tol / left), 200)[0]
        slope = np.sum(G * step)
        length = 1.0
        while True:
            trial[:] = theta - length * step
            new = _objective(A, Y, c, l2, trial, P, loss)
            # the last term allows for rounding: near the solution two values differ by less than their errors
            if new <= value - 0.25 * length * slope + 4.0 * np.finfo(A.dtype).eps * abs(value) or length < 1e-7:
                break
            length *= 0.5
        theta[:] = trial
        value = new
    return left, n_products
