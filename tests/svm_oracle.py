"""Sensitivities of the SVM objective by a general QP solver, for the tests: section by section as defined."""

import clarabel
import numpy as np
from scipy import sparse


def svm_cost(X, y, w, *, lam, u):
    """F(w), written out."""
    return 0.5 * w[:-1] @ w[:-1] + lam * sum(
        u[i] * max(0.0, 1.0 - y[i] * (X[i] @ w[:-1] + w[-1])) for i in range(len(y))
    )


def qp_sensitivity(X, y, index, *, lam, u, rounds=30):
    """sup_w u f(p, w) / F(w) by Dinkelbach's rounds, each a QP in w, b and the hinge losses."""
    n, d = X.shape
    z = y[:, None] * np.hstack([X, np.ones((n, 1))])
    constraints = sparse.bmat([[-z, -sparse.eye(n)], [None, -sparse.eye(n)]], format="csc")
    right = np.concatenate([-np.ones(n), np.zeros(n)])
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    best = u[index] / u[y == y[index]].sum()
    s = best * (1 + 1e-6)
    for _ in range(rounds):
        curvature = np.concatenate([np.full(d, s - u[index] / u.sum()), np.zeros(n + 1)])
        slope = np.concatenate([lam * u[index] * z[index], s * lam * u])
        cones = [clarabel.NonnegativeConeT(2 * n)]
        P = sparse.diags(curvature, format="csc")
        w = np.array(clarabel.DefaultSolver(P, slope, constraints, right, cones, options).solve().x)[: d + 1]
        share = 0.5 * w[:-1] @ w[:-1] * u[index] / u.sum()
        share += lam * u[index] * max(0.0, 1.0 - z[index] @ w)
        ratio = share / svm_cost(X, y, w, lam=lam, u=u)
        best = max(best, ratio)
        if ratio <= s * (1 + 1e-8):
            break
        s = ratio
    return best
