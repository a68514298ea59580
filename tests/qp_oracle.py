"""The projection onto the restricted simplex by a general quadratic-program solver, for the tests."""

import clarabel
import numpy as np
from scipy import sparse


def qp_projection(H, target, gamma):
    """The point of the restricted simplex nearest to `target` in the norm of H, by interior points."""
    k = len(target)
    lower = np.r_[np.zeros(k - 1), gamma]
    solver_settings = clarabel.DefaultSettings()
    solver_settings.verbose = False
    solver_settings.tol_gap_abs = solver_settings.tol_gap_rel = solver_settings.tol_feas = 1e-12
    A = sparse.vstack([np.ones((1, k)), -sparse.eye(k)]).tocsc()
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(k)]
    upper = sparse.triu(sparse.csc_matrix(2 * H)).tocsc()
    problem = clarabel.DefaultSolver(upper, -2 * H @ target, A, np.r_[1, -lower], cones, solver_settings)
    return np.array(problem.solve().x)
