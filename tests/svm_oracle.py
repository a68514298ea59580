"""The SVM and its sensitivities by a general QP solver, for the tests: written out as they are
defined."""

import numpy as np
from qp_oracle import qp
from scipy import sparse


def random_svm(rng):
    """A badly scaled SVM: conditioning to 1e12, weights over up to ten decades, features up to 1e8
    from zero.

    Returns
    -------
    X : float array, shape (n, d), n < 600, d < 13
    y : float array of -1 and +1, shape (n,)
    u : float array, shape (n,), weights
    l2 : float or None
    """
    n = int(10 ** rng.uniform(0.6, 2.7))
    d = int(rng.integers(1, 13))
    decades = rng.uniform(0, 12) * np.linspace(0, 1, d)
    X = rng.normal(size=(n, d)) * 10**-decades
    if rng.random() < 0.5:
        X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    w = rng.normal(size=d) * 10 ** (rng.random() * decades)
    y = np.where(
        X @ w + X.std() * (10 ** rng.uniform(-2, 0.5) * rng.normal(size=n) + 0.2) > 0, 1.0, -1.0
    )
    y[:2] = 1, -1
    X *= 10 ** rng.uniform(-2, 3)
    X += (rng.random(d) < 0.5) * rng.choice([-1, 1], size=d) * 10 ** rng.uniform(-2, 8)
    u = 10 ** rng.uniform(-rng.uniform(0, 10), 0, size=n)
    return X, y, u, None if rng.random() < 0.3 else 10 ** rng.uniform(-6, 2)


def qp_svm(X, y, c):
    """Lower and upper bound on the optimum of ``1/2 |w|^2 + sum_i c_i [1 - y_i (<x_i, w> + b)]_+``.

    The QP solver (variables w, b and the losses) gets centred features, as only b feels that. Its
    primal point gives the upper bound, its multipliers, made feasible, the lower one; both are
    added up with 80 bits.
    """
    X = X - np.average(X, axis=0, weights=c)
    n, d = X.shape
    P = sparse.block_diag([sparse.eye(d), sparse.csc_matrix((n + 1, n + 1))], format="csc")
    Z = np.hstack([X, np.ones((n, 1))]) * y[:, None]
    A = sparse.bmat(
        [[-Z, -sparse.eye(n)], [sparse.csc_matrix((n, d + 1)), -sparse.eye(n)]], format="csc"
    )
    q = np.concatenate([np.zeros(d + 1), c])
    b = np.concatenate([-np.ones(n), np.zeros(n)])
    solved = qp(P, q, A, b, 0, 1e-10)
    Z = Z.astype(np.longdouble)
    c = c.astype(np.longdouble)
    w = np.array(solved.x[: d + 1], dtype=np.longdouble)
    a = np.clip(np.array(solved.z[:n], dtype=np.longdouble), 0, c)
    up = a[y > 0].sum()
    down = a[y < 0].sum()
    a[y > 0] *= min(1, down / up) if up > 0 else 0
    a[y < 0] *= min(1, up / down) if down > 0 else 0
    lower = a.sum() - 0.5 * np.square(a @ Z[:, :d]).sum()
    return float(lower), float(0.5 * w[:d] @ w[:d] + c @ np.maximum(0, 1 - Z @ w))


def svm_cost(X, y, w, *, price, u):
    """F(w), written out."""
    return 0.5 * w[:-1] @ w[:-1] + price * sum(
        u[i] * max(0.0, 1.0 - y[i] * (X[i] @ w[:-1] + w[-1])) for i in range(len(y))
    )


def qp_sensitivity(X, y, index, *, price, u, rounds=30):
    """sup_w u f(p, w) / F(w) by Dinkelbach's rounds, each a QP in w, b and the hinge losses."""
    n, d = X.shape
    z = y[:, None] * np.hstack([X, np.ones((n, 1))])
    constraints = sparse.bmat([[-z, -sparse.eye(n)], [None, -sparse.eye(n)]], format="csc")
    right = np.concatenate([-np.ones(n), np.zeros(n)])
    best = u[index] / u[y == y[index]].sum()
    s = best * (1 + 1e-6)
    for _ in range(rounds):
        curvature = np.concatenate([np.full(d, s - u[index] / u.sum()), np.zeros(n + 1)])
        slope = np.concatenate([price * u[index] * z[index], s * price * u])
        w = np.array(qp(sparse.diags(curvature), slope, constraints, right, 0, 1e-11).x)[: d + 1]
        share = 0.5 * w[:-1] @ w[:-1] * u[index] / u.sum()
        share += price * u[index] * max(0.0, 1.0 - z[index] @ w)
        ratio = share / svm_cost(X, y, w, price=price, u=u)
        best = max(best, ratio)
        if ratio <= s * (1 + 1e-8):
            break
        s = ratio
    return best
