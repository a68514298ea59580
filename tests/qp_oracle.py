"""Quadratic programs by a general solver, for the tests."""

import clarabel
import numpy as np
from scipy import sparse


def qp(P, q, A, b, n_zero, tol):
    """Minimise ``x P x / 2 + q x`` where ``b - A x`` is 0 in the first `n_zero` entries, at least 0
    in the others."""
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = tol
    cones = [clarabel.ZeroConeT(n_zero), clarabel.NonnegativeConeT(A.shape[0] - n_zero)]
    P = sparse.triu(sparse.csc_matrix(P)).tocsc()
    return clarabel.DefaultSolver(
        P, q, sparse.csc_matrix(A), b, cones if n_zero else cones[1:], options
    ).solve()


def on_the_simplex(Q, b, least=0.0):
    """The minimum of ``x Q x / 2 - b x`` over x of at least `least` that add up to 1, shape
    (k,)."""
    A = sparse.vstack([np.ones((1, len(b))), -sparse.eye(len(b))])
    return np.array(qp(Q, -b, A, np.r_[1, -np.broadcast_to(least, len(b))], 1, 1e-12).x)


def qp_projection(H, target, gamma):
    """The point of the restricted simplex nearest to `target` in the norm of H."""
    return on_the_simplex(2 * H, 2 * H @ target, np.r_[np.zeros(len(target) - 1), gamma])
