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


def row_sums(M):
    """Sums along the rows of a matrix with few columns, shape (s, 1): by a product, as `numpy.sum` takes longer."""
    return M @ np.ones((M.shape[1], 1), dtype=M.dtype)


def hessian_product(A, P, c, l2, V):
    """``H V`` for probabilities `P`, shape (p, classes); weights `c` and penalties `l2` are columns, (s, 1), (p, 1)."""
    D = A @ V
    PD = P * D
    PD -= P * row_sums(PD)
    PD *= c
    return A.T @ PD + l2 * V


def precondition(inverse, R):
    """Apply one block to every class, then remove the part that the classes share.

    The Hessian knows no such part of its own (one vector added to all classes' parameters changes no probability), and
    neither do gradients: without the projection three times as many conjugate gradients are needed.
    """
    out = inverse @ R
    out -= row_sums(out) / out.shape[1]
    return out


def solve_hessian(A, P, c, l2, inverse, G, V, tol, max_iter):
    """Solve ``H V = G`` from the start `V`, which is overwritten; the classes' columns of `G` add up to zero.

    Parameters
    ----------
    A, P, c, l2 : as in `hessian_product`
    inverse : shape (p, p), of the mean of the Hessian's diagonal blocks, the preconditioner
    tol : relative residual at which to stop

    Returns
    -------
    n_products : conjugate gradients taken
    left : the relative residual
    """
    R = G - hessian_product(A, P, c, l2, V) if V.any() else G.copy()
    unit = np.vdot(G, G)
    enough = tol * tol * unit
    unit = max(unit, np.finfo(A.dtype).tiny)
    Z = precondition(inverse, R)
    S, rz = Z.copy(), np.vdot(R, Z)
    for iteration in range(max_iter):
        square = np.vdot(R, R)
        if square <= enough or rz <= 0.0:
            return iteration, np.sqrt(square / unit)
        HS = hessian_product(A, P, c, l2, S)
        curvature = np.vdot(S, HS)
        if curvature <= 0.0:
            return iteration, np.sqrt(square / unit)
        length = rz / curvature
        V += length * S
        R -= length * HS
        Z = precondition(inverse, R)
        before, rz = rz, np.vdot(R, Z)
        S *= rz / before
        S += Z
    return max_iter, np.sqrt(np.vdot(R, R) / unit)


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
    out[:old, :old] = inverse
    if p > old:
        out[old, old] = 1.0 / l2
    image = out @ row
    out -= np.outer((weight / (1.0 + weight * (image @ row))) * image, image)
    return out


def _objective(A, Y, c, l2, theta, P, loss):
    np.matmul(A, theta, out=P)
    softmax(P, Y, loss)
    return float(c[:, 0] @ loss + 0.5 * np.vdot(l2 * theta, theta))


def solve_multinomial(A, Y, c, l2, inverse, theta, P, tol, max_iter, loosest=0.0):
    """Minimise the inner problem from `theta`, which is overwritten by the solution and `P` by its probabilities.

    Parameters
    ----------
    A, Y, c, l2 : as above, all of one float type; weights and penalties as columns, (s, 1) and (p, 1)
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
    eps = float(np.finfo(A.dtype).eps)
    loss = np.empty(s, dtype=A.dtype)
    rest = (1.0 / k - Y) * c
    unit = np.linalg.norm(A.T @ rest)
    # where the terms of the gradient at zero cancel, what is left would be rounding
    terms = np.linalg.norm(np.abs(A).T @ np.abs(rest))
    unit = max(unit, max(1e-6, 1e4 * eps) * terms, 1e-30)
    value = _objective(A, Y, c, l2, theta, P, loss)
    if not value <= c.sum() * np.log(k):  # probabilities of 0 and 1 have no curvature to follow: start at zero
        theta[:] = 0.0
        value = _objective(A, Y, c, l2, theta, P, loss)
    n_products = 0
    left = np.inf
    for step_number in range(max_iter):
        G = A.T @ ((P - Y) * c) + l2 * theta
        left = np.linalg.norm(G) / unit
        if step_number == 0:
            tol = max(tol, min(loosest, 0.2 * left))
        if not left > tol:
            break
        step = np.zeros_like(theta)
        # a superlinear forcing term, but no more digits than are asked for
        n_products += solve_hessian(A, P, c, l2, inverse, G, step, max(min(0.1, left), 0.3 * tol / left), 200)[0]
        slope = np.vdot(G, step)
        length = 1.0
        while True:
            trial = theta - length * step
            new = _objective(A, Y, c, l2, trial, P, loss)
            # the last term allows for rounding: near the solution two values differ by less than their errors
            if new <= value - 0.25 * length * slope + 4.0 * eps * abs(value) or length < 1e-7:
                break
            length *= 0.5
        theta[:] = trial
        value = new
    return left, n_products
