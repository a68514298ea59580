"""Selection for multinomial logistic regression: everything inside the span of the chosen rows."""

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from handful.bilevel.ihvp import Ihvp
from handful.bilevel.multinomial import grow_inverse, hessian_product, softmax, solve_hessian, solve_multinomial
from handful.bilevel.newton import ConvergenceError
from handful.bilevel.span import RowSpan

TOL = 1e-6  # of gradients, in units of the one at zero, and of linear systems
SELECTION_TOL = 1e-3  # more digits change no choice that matters: the losses after training are the same
LOOSEST = 1e-2  # while points are selected a fifth of what the newcomer upset is digits enough, up to this
WEIGHTS_TOL = 1e-4  # where weights follow the gradient
IMPLICIT = 10.0  # times the tolerance, for implicit gradients: their digits rank rows only
FLOAT32_TOL = 1e-3  # what can be asked of float32
MAX_NEWTON, MAX_CG = 100, 300
CURVATURE_ROWS = 512  # rows on which the outer curvature is estimated
REFRESH_AFTER = 16  # conjugate gradients of a solve above which the preconditioner is computed anew, unless it is young
IN_SPAN = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-4}  # share of a row that is no new direction
LARGE = 1 << 20  # entries of the inner design from which it keeps the type of X
DENSE_BELOW = 8000  # unknowns up to which ihvp="cholesky" factors the whole Hessian


class SoftmaxSelection:
    """A growing coreset of multinomial logistic regression, with the methods of `LinearSelection`.

    The inner solution lies in the span of the chosen rows, so the unknowns are (rank + 1) x classes, whatever the
    number of features; outside the span the Hessian is the penalty. A selection step reads the data in three matrix
    products.

    Parameters
    ----------
    problem : Logistic
    data : Rows, with targets of shape (n, classes) that add up to one
    rng : numpy.random.Generator, for the rows of the outer curvature
    ihvp : Ihvp
    tol : to which inner problems and implicit gradients are solved; from 1e-3 on, float32 data stay float32
    """

    max_candidates = 128  # whose gains are predicted: each costs more than a linear model's

    def __init__(self, problem, data, rng, ihvp=None, tol=TOL):
        self.problem, self.data = problem, data
        self.ihvp = ihvp or Ihvp()
        self.tol = tol
        n, d = data.X.shape
        # two outputs describe one logit: twice the penalty makes them the binary model
        self.l2 = float(problem.l2) * (2.0 if data.y.shape[1] == 2 else 1.0)
        self.intercept = float(problem.fit_intercept)
        self.indices = []
        self._u = (data.sample_weight / data.sample_weight.sum()).astype(data.X.dtype)
        self._P, self._R = (np.empty((n, data.y.shape[1]), dtype=data.X.dtype) for _ in range(2))
        self._loss = np.empty(n, dtype=data.X.dtype)
        self._uniform = bool((data.sample_weight == data.sample_weight[0]).all())
        self._kind = data.X.dtype if tol >= FLOAT32_TOL else np.dtype(np.float64)
        self._span = RowSpan(d, self._kind, IN_SPAN[self._kind])
        self._A = np.zeros((0, 1))
        self.theta = np.zeros((1, data.y.shape[1]))
        self._direction = np.zeros_like(self.theta)
        self._inverse = None  # the preconditioner, built for so many rows, so many solves ago
        self._built = self._age = self._effort = 0
        rows = np.flatnonzero(data.sample_weight)
        if len(rows) > CURVATURE_ROWS:
            rows = np.sort(rng.choice(rows, CURVATURE_ROWS, replace=False))
        self._sample = rows

    def __len__(self):
        return len(self.indices)

    @property
    def _Q(self):
        # orthonormal basis of the chosen rows' span, (d, rank); None where they span everything
        return None if self._span is None else self._span.Q

    @property
    def y(self):
        """Targets of the chosen rows, shape (s, classes)."""
        return self.data.y[self.indices]

    def rows(self, indices):
        """Features of some rows in float64."""
        X = self.data.X[indices]
        return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)

    # The chosen rows, in coordinates: a column for the intercept, then the basis of their span.

    def add(self, indices):
        """Append rows to the coreset."""
        indices = [int(i) for i in indices]
        d = self.data.X.shape[1]
        if self._span is not None and len(indices) >= d:
            self._leave_span()
        if self._span is None:
            self._append(self._coordinates(self.rows(indices)).astype(self._type(len(self) + len(indices)), copy=False))
        else:
            if len(indices) > 1:
                self._inverse = None
            for x in self.rows(indices).astype(self._kind, copy=False):
                self._span.extend(x)
                self._append(self._coordinates(x[None]).astype(self._type(len(self)), copy=False))
        self.indices += indices

    def _type(self, s):
        return self.data.X.dtype if s * (self.data.X.shape[1] + 1) > LARGE else self._kind

    def _append(self, rows):
        s, p = self._A.shape
        A = np.zeros((s + len(rows), rows.shape[1]), dtype=rows.dtype)
        A[:s, :p] = self._A
        A[s:] = rows
        self._A = A
        if rows.shape[1] > p:
            grown = ((0, rows.shape[1] - p), (0, 0))
            self.theta, self._direction = np.pad(self.theta, grown), np.pad(self._direction, grown)

    def _leave_span(self):
        # so many rows span everything: coordinates are the features themselves
        self.theta, self._direction = self._to_data(self.theta), self._to_data(self._direction)
        self._span = self._inverse = None
        self._A = self._coordinates(self.rows(self.indices)).astype(self._type(len(self)), copy=False)

    def _coordinates(self, X):
        inside = X if self._span is None else X @ self._Q
        return np.column_stack([np.full(len(inside), self.intercept, dtype=inside.dtype), inside])

    def _to_data(self, theta):
        return theta if self._span is None else np.vstack([theta[:1], self._Q @ theta[1:]])

    def keep(self, alive):
        """Drop the rows where the mask `alive`, shape (s,), is False; the basis stays as it is."""
        self.indices = [i for i, stays in zip(self.indices, alive) if stays]
        self._A = self._A[np.asarray(alive, dtype=bool)]
        self._built = -1

    # The inner problem.

    def _arrays(self, weights):
        kind = self._A.dtype
        penalty = np.full(self._A.shape[1], self.l2, dtype=kind)
        if self.problem._free_intercept() or not self.intercept:
            penalty[0] = 0.0 if self.intercept else 1.0
        return np.ascontiguousarray(self.y, dtype=kind), weights.astype(kind), penalty

    def solve(self, weights=None):
        """Solve the inner problem for `weights` (shape (s,), adding up to 1; uniform for None), warm started.

        Raises
        ------
        ConvergenceError
            if Newton's method stops short of the tolerance
        """
        s = len(self)
        self.weights = np.full(s, 1.0 / s) if weights is None else weights
        Y, c, self._penalty = self._arrays(self.weights)
        self._c = c
        kind = self._A.dtype
        theta, self._P_inner = np.ascontiguousarray(self.theta, dtype=kind), np.empty(Y.shape, dtype=kind)
        self._update_preconditioner(theta)
        tol = self._tolerance()
        loosest = LOOSEST if self.tol >= SELECTION_TOL else 0.0
        for attempt in range(2):
            options = self._inverse, theta, self._P_inner, tol, MAX_NEWTON, loosest
            left, n_products = solve_multinomial(self._A, Y, c, self._penalty, *options)
            if left <= max(tol, loosest) or attempt:
                break
            self._inverse = None  # from another preconditioner
            self._update_preconditioner(theta)
        self._effort = n_products
        self.theta = theta
        if not left <= max(10.0 * tol, 1e-4):
            raise ConvergenceError(
                f"the inner problem on {s} points was not solved in {MAX_NEWTON} Newton steps (gradient {left:.1e} of "
                f"the one at zero); raise l2 (now {self.problem.l2:g}) or scale the features."
            )

    def _tolerance(self):
        return max(self.tol, FLOAT32_TOL) if self._A.dtype == np.float32 else self.tol

    def _implicit_tolerance(self):
        return IMPLICIT * self._tolerance() if self.tol >= SELECTION_TOL else self._tolerance()

    def _update_preconditioner(self, theta):
        s, p = self._A.shape
        self._age += 1
        if self._inverse is not None:  # few of many rows may have taken the design back to float64
            self._inverse = self._inverse.astype(self._A.dtype, copy=False)
        if self._inverse is not None and self._built == s - 1:  # one more row
            self._inverse = grow_inverse(self._inverse, self._A[-1], self._curvatures(theta)[-1], self._penalty[-1])
        stale = self._effort > REFRESH_AFTER and self._effort * self._age > 2 * REFRESH_AFTER**2
        if self._inverse is None or len(self._inverse) != p or stale:
            self._inverse = self._inverse_block(self._curvatures(theta)).astype(self._A.dtype)
            self._age = 0
        self._built = s

    def _curvatures(self, theta):
        # weighted curvature of each row, mean over the classes, shape (s,)
        P = self._A @ theta
        softmax(P, np.ascontiguousarray(self.y, dtype=P.dtype), np.empty(len(P), dtype=P.dtype))
        return np.maximum((P * (1.0 - P)).mean(axis=1), 1e-7).astype(P.dtype) * self._c

    def _inverse_block(self, curvatures):
        s, p = self._A.shape
        skip = max(1, s // (4 * p))  # of many rows a part will do
        A, curvatures = self._A[::skip], skip * curvatures[::skip]
        B = (A.T @ (A * curvatures[:, None])).astype(np.float64)
        B[np.diag_indices_from(B)] += self._penalty + 1e-10 * np.trace(B) / p
        factor, bad = dpotrf(B, lower=True)
        if bad:
            raise ConvergenceError(
                f"the inner problem on {len(self)} points is singular to rounding (features up to "
                f"{np.abs(self._A).max():.1e} against l2={self.problem.l2:g}); scale the features or raise l2."
            )
        lower = np.tril(dpotri(factor, lower=True)[0])
        return lower + np.tril(lower, -1).T

    def _product(self, V):
        # H V inside the span
        out = np.empty_like(V)
        hessian_product(self._A, self._P_inner, self._c, self._penalty, V, np.empty_like(self._P_inner), out)
        return out

    def _solve_inside(self, G, start):
        V = start.astype(self._A.dtype)
        G = np.ascontiguousarray(G, dtype=self._A.dtype)
        penalty = self._penalty + np.asarray(self.ihvp.damping, dtype=self._A.dtype)
        inverse, tol = self._inverse, self._implicit_tolerance()
        n_products, left = solve_hessian(self._A, self._P_inner, self._c, penalty, inverse, G, V, tol, MAX_CG)
        if left > tol:  # from another preconditioner
            self._inverse = None
            self._update_preconditioner(self.theta)
            _, left = solve_hessian(self._A, self._P_inner, self._c, penalty, self._inverse, G, V, tol, MAX_CG)
        self._effort = max(self._effort, n_products)
        if not left <= 100.0 * tol:
            raise ConvergenceError(
                f"the implicit gradient of {len(self)} points was not solved in {MAX_CG} conjugate gradients (residual "
                f"{left:.1e}); raise l2 (now {self.problem.l2:g}) or damping (now {self.ihvp.damping:g})."
            )
        return V

    # The outer loss.

    def outer_loss(self):
        """Mean loss over the outer rows at the current parameters, whose gradient is kept."""
        X, u = self.data.X, self._u
        theta = self._to_data(self.theta).astype(X.dtype)
        P = self._P
        if sparse.issparse(X):
            P[:] = X @ theta[1:]
        else:
            np.matmul(X, theta[1:], out=P)
        P += theta[0]
        softmax(P, self.data.y, self._loss)
        R = np.subtract(P, self.data.y, out=self._R)
        weighted, unit = (R, float(u[0])) if self._uniform else (R * u[:, None], 1.0)
        total = self.intercept * weighted.sum(axis=0)[None]
        self.gradient = unit * np.vstack([total, X.T @ weighted]).astype(np.float64)
        self._mean_loss = float(np.dot(self._loss.astype(np.float64), u))
        return self._mean_loss

    def mean_loss(self):
        """Mean outer loss at the parameters of the last `linear_scores` or `outer_loss`."""
        return self._mean_loss

    def _inside(self, G):
        return G if self._span is None else np.vstack([G[:1], self._Q.T @ G[1:]])

    def _inverse_hessian_product(self, G):
        # in data coordinates; outside the span of the chosen rows the Hessian is l2 times the identity
        if self._span is not None:
            G = G.astype(self._kind, copy=False)  # products of two types would copy the basis
        if not self.ihvp.exact:
            return self.ihvp.approximate(self._product_in_data, G)
        projected = self._inside(G)
        if self.ihvp.method == "cholesky":
            inside = self._dense_solve(projected)
        else:
            inside = self._direction = self._solve_inside(projected, self._direction)
        if self._span is None:
            return inside
        scale = 1.0 / (self.l2 + self.ihvp.damping)
        return np.vstack([inside[:1], self._Q @ (inside[1:] - scale * projected[1:]) + scale * G[1:]])

    def _product_in_data(self, V):
        kind = self._A.dtype
        image = self._to_data(self._product(np.ascontiguousarray(self._inside(V), dtype=kind))).astype(np.float64)
        if self._span is not None:
            image[1:] += self.l2 * (V[1:] - self._Q @ (self._Q.T @ V[1:]))
        return image

    def _dense_solve(self, G):
        p, k = G.shape
        if p * k > DENSE_BELOW:
            raise ValueError(
                f"ihvp='cholesky' would factor a Hessian of {p * k} unknowns, more than {DENSE_BELOW}; 'auto' is as "
                "exact, by preconditioned conjugate gradients."
            )
        A, P, c = (a.astype(np.float64) for a in (self._A, self._P_inner, self._c))
        H = np.zeros((p, k, p, k))
        for i in range(k):
            for j in range(k):
                H[:, i, :, j] = (A.T * (c * P[:, i] * ((i == j) - P[:, j]))) @ A
        H = H.reshape(p * k, p * k)
        H[np.diag_indices(p * k)] += np.repeat(self._penalty + self.ihvp.damping, k)
        # one number added to all classes' intercepts changes nothing: that direction gets a curvature of its own
        H[:k, :k] += 1.0 / k
        return cho_solve(cho_factor(H), G.ravel()).reshape(p, k)

    def row_scores(self):
        """First-order score of every row, shape (n,): ``grad l_k' H^-1 grad g`` (Equation 5)."""
        self.outer_loss()
        self.direction = self._inverse_hessian_product(self.gradient)
        V = self.direction.astype(self.data.X.dtype)
        return np.einsum("nk,nk->n", self._R, self.data.X @ V[1:] + self.intercept * V[0])

    def linear_scores(self):
        """`row_scores`, -inf for rows that are chosen already or may not be."""
        scores = self.row_scores()
        scores[self.indices] = -np.inf
        scores[self.data.absent] = -np.inf
        return scores

    # Second order.

    def predicted_gains(self, candidates, *, free_weights=False):
        """Decrease of the outer loss that adding each candidate row predicts, shape (k,).

        As in `LinearSelection`: the Newton step is shortened by the row's leverage, the penalty's weight grows with
        the set, the outer loss is followed to second order. Leverages and outer curvature take the preconditioner for
        the Hessian; the slope is exact. Call after `linear_scores`.
        """
        s, X = len(self), self.rows(candidates)
        R = self._R[candidates].astype(np.float64)
        P = R + self.data.y[candidates]
        classes = P.shape[1]
        # the step is H^-1 (a t') + q / s with q = H^-1 (penalty * theta)
        pull = (self._penalty[:, None] * self.theta).astype(np.float64)
        q = self._to_data(self._solve_inside(pull, np.zeros_like(pull)).astype(np.float64))
        along = X @ q[1:] + self.intercept * q[0]
        rhs = R - P * (along - np.sum(P * along, axis=1, keepdims=True)) / s
        inside, inverse = self._coordinates(X), self._inverse
        outside = 0.0 if self._span is None else (X - inside[:, 1:] @ self._Q.T) / self.l2
        leverage = np.einsum("kp,kp->k", inside @ inverse, inside) + np.sum(outside * X, axis=1)
        curvature = np.einsum("kc,cd->kcd", P, np.eye(classes)) - P[:, :, None] * P[:, None]
        system = s * np.eye(classes) + curvature * leverage[:, None, None]
        t = np.linalg.solve(system, rhs[:, :, None])[:, :, 0]
        V = self.direction
        slope = np.einsum("kc,kc->k", t, X @ V[1:] + self.intercept * V[0]) + np.sum(self.gradient * q) / s
        bend = self._outer_curvature(inside, outside, inverse, t, q / s)
        fraction = 1.0
        if free_weights:  # the minimum of the parabola where it lies within the step
            downhill = np.maximum(slope, 0.0)
            fraction = np.divide(downhill, bend, out=np.sign(downhill), where=bend > downhill)
        return fraction * slope - 0.5 * fraction**2 * bend

    def _outer_curvature(self, inside, outside, inverse, t, shift):
        # of the outer loss along each candidate's step, (k,), on the sample of rows
        u, X_out, P_out = self._outer_sample()
        kind = self.data.X.dtype
        apart = (X_out.astype(kind) @ np.asarray(outside, dtype=kind).T) if self._span is not None else kind.type(0)
        rows, inside = self._coordinates(X_out).astype(kind), inside.astype(kind)
        own = X_out @ shift[1:] + shift[0]
        square = np.zeros((len(rows), len(inside)), dtype=kind)
        mean = np.zeros_like(square)
        products = rows @ (inverse.astype(kind, copy=False) @ inside.T) + apart
        for k in range(t.shape[1]):
            z = products * t[:, k].astype(kind) + own[:, k, None].astype(kind)
            pz = z * P_out[:, k, None].astype(kind)
            mean += pz
            square += pz * z
        return u @ (square - mean**2)

    def _outer_sample(self):
        rows = self._sample
        u = self._u[rows].astype(np.float64)
        P = (self._R[rows] + self.data.y[rows]).astype(np.float64)
        return u / u.sum(), self.rows(rows), P

    def weight_quadratic(self):
        """Curvature (s, s) and slope (s,) of the outer loss by the weights; call after `outer_loss`.

        The slope is exact, the curvature takes one block for all classes.
        """
        self._direction = self._solve_inside(self._inside(self.gradient), self._direction)
        R = (self._P_inner - self.y).astype(np.float64)
        slope = -np.einsum("sk,sk->s", R, self._A @ self._direction)
        u, X_out, P_out = self._outer_sample()
        inverse = self._inverse_block(self._curvatures(self.theta))
        S = self._coordinates(X_out) @ inverse @ self._A.T.astype(np.float64)  # (sample, s)
        own = (S * np.sqrt(u)[:, None]) * (P_out @ R.T)
        Q = -own.T @ own
        for k in range(R.shape[1]):
            M = S * R[:, k] * np.sqrt(u * P_out[:, k])[:, None]
            Q += M.T @ M
        return Q, slope
