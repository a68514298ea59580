"""Generalised linear models as inner problems: logistic regression, multinomial too, and least
squares."""

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf
from scipy.sparse import issparse

from handful.checks import ConvergenceError, check_memory
from handful.linalg import Features, Span, dense, n_threads
from handful.models.base import Model, predicted_decrease
from handful.models.links import SquaredLink

MAX_NEWTON = 100
MAX_CG = 300
# features up to which the outer curvature of one output is kept as a matrix
NARROW = 512
# features up to which it is computed anew in every round; else when the coreset has grown by a
# tenth
FRESH = 128
# features up to which they are the coordinates themselves
STAY = 64
# entries of X at a time, which stay in the cache from logits to gradient
BLOCK = 1 << 19
# entries of X from which a pass over it is worth several threads
PARALLEL_ABOVE = 1 << 22


class GLM(Model):
    """A linear model of K outputs trained on the chosen rows: ``sum_i c_i loss_i + l2 / 2
    |coefficients|^2``.

    K is 1, or the number of classes. The inner solution lies in the span of the chosen rows, so the
    problem is solved there, by Newton steps with p = rank + 1 unknowns for each output: exact ones
    for one output, for several by conjugate gradients, preconditioned by the mean of their blocks.
    Outside of the span the Hessian is l2 times the identity. Gradients and directions have shape (d
    + 1, K), the intercepts first; a step reads X three times.

    Parameters
    ----------
    problem : Logistic or LeastSquares
    data : OuterRows; targets have shape (n, K) and the type of X
    rng : numpy.random.Generator, draws the rows on which the outer curvature is estimated
    ihvp : InverseHessian or None
    tol : norm of the inner gradient, in units of the one at zero, at which training ends

    Attributes
    ----------
    A : shape (s, p), the chosen rows in coordinates of their span, a column for the intercept first
    theta : shape (p, K), parameters for these columns
    Z : shape (n, K), logits of all rows after `outer_gradient`
    """

    def __init__(self, problem, data, rng, ihvp=None, tol=1e-6):
        super().__init__(problem, data, ihvp)
        d = data.X.shape[1]
        K = data.y.shape[1]
        self.X = data.X
        self.tol = tol
        self.l2 = float(problem.l2)
        # one output after the other in memory, as logits and residuals then are
        self.Y = np.asfortranarray(data.y)
        self.link = problem.link(K)
        self.intercept = float(problem.fit_intercept)
        self.narrow = K == 1 and d <= NARROW
        self.max_candidates = 512 if self.narrow else 128
        # the last inverse Hessian times gradient
        self._last = None
        self.share = data.share.astype(self.X.dtype)[:, None]
        self._sample = data.sample(4096 if K == 1 else 512, rng)[
            :: 1 if self.narrow or K > 1 else 8
        ]
        self._clear()

    def _clear(self):
        d = self.X.shape[1]
        K = self.Y.shape[1]
        self.span = Features(d) if d <= STAY else Span(self.rows([]))
        p = self.span.rank + 1
        self._hold(np.zeros((0, p)), np.zeros((p, K)))
        self._sampled = 0

    # The chosen rows.

    def rows(self, indices):
        """Features of some rows in float64, shape (k, d), sparse if X is."""
        return self.X[indices].astype(np.float64)

    def design(self, X, intercept=None):
        """Coordinates of rows X, shape (k, p)."""
        inside = self.span.coordinates(X)
        rows = np.empty((len(inside), inside.shape[1] + 1), dtype=inside.dtype)
        rows[:, 0] = self.intercept if intercept is None else intercept
        rows[:, 1:] = inside
        return rows

    def add_rows(self, indices):
        """As `Model.add_rows`; from as many rows as features on, the features are coordinates."""
        X = self.rows(indices)
        span = self.span
        super().add_rows(indices)
        if span.rank < self.X.shape[1] <= len(self):
            theta = self.coefficients
            self.span = Features(self.X.shape[1])
            self._hold(self.design(self.rows(self.indices)), theta)
            return
        if span.rank < self.X.shape[1]:
            for i in range(len(indices)):
                span.extend(X[[i]])
        s, p = self.A.shape
        rows = self.design(X)
        A = np.zeros((s + len(rows), rows.shape[1]))
        theta = np.zeros((rows.shape[1], self.theta.shape[1]))
        A[:s, :p] = self.A
        A[s:] = rows
        theta[:p] = self.theta
        self._hold(A, theta)

    def _hold(self, A, theta):
        self.A = A
        self.theta = theta
        # on each column of the design
        self.penalty = np.full((A.shape[1], 1), self.l2)
        if self.problem.fit_intercept and not self.problem.penalise_intercept:
            # positive where every mean is 0 or 1 to rounding
            self.penalty[0] *= 1e-14

    def drop_rows(self, gone):
        """As `Model.drop_rows`; a span of many more rows than there are is built anew, and without
        rows all begins anew."""
        super().drop_rows(gone)
        if not self.indices:
            self._clear()
            return
        self.A = self.A[~np.asarray(gone, dtype=bool)]
        self._sampled = 0
        if isinstance(self.span, Span) and self.span.rank > 2 * len(self) + 16:
            theta = self._in_features(self.theta)
            rows = self.indices
            self.indices = []
            self._clear()
            self.add_rows(rows)
            self.theta = self._inside(theta)

    def check_memory(self, s):
        """As `Model.check_memory`: designs, Hessians, coordinates of the sample, and of dense rows
        a basis."""
        p = min(s, self.X.shape[1]) + 1
        basis = 0 if issparse(self.X) else self.X.shape[1] * p
        check_memory(
            f"the inner problem of {s:,} points in {p - 1:,} coordinates",
            8 * (3 * s * p + 6 * p**2 + len(self._sample) * p + basis),
            "choose fewer points, or take fewer features",
        )

    def _in_features(self, V):
        return np.concatenate([V[:1], self.span.lift(V[1:])])

    def _inside(self, G):
        return np.concatenate([G[:1], self.span.project(G[1:])])

    @property
    def coefficients(self):
        """Parameters for the features, shape (d + 1, K), the intercepts first."""
        return self._in_features(self.theta)

    # The inner problem.

    def fit(self, weights=None):
        """As `Model.fit`, by Newton's method from the last solution."""
        s = len(self)
        A = self.A
        link = self.link
        penalty = self.penalty
        theta = self.theta
        self.weights = np.full(s, 1.0 / s) if weights is None else weights
        c = self.weights[:, None]
        y = self.Y[self.indices].astype(np.float64)

        def objective(theta):
            Z = A @ theta
            return Z, float(self.weights @ link.loss(Z, y) + 0.5 * np.vdot(penalty * theta, theta))

        zero = np.zeros_like(y)
        first = c * (link.mean(zero) - y)
        unit = np.linalg.norm(A.T @ first)
        # where terms cancel
        unit = max(unit, 1e-6 * np.linalg.norm(np.abs(A).T @ np.abs(first)), 1e-300)
        Z, value = objective(theta)
        # means of 0 and 1 have no curvature to follow
        if not value < self.weights @ link.loss(zero, y):
            theta = np.zeros_like(theta)
            Z = zero
            Z, value = objective(theta)
        for _ in range(MAX_NEWTON):
            P = link.mean(Z)
            self.R = P - y
            gradient = A.T @ (c * self.R) + penalty * theta
            size = np.sqrt(np.vdot(gradient, gradient))
            unit = max(unit, 1e-6 * size)
            left = size / unit
            self._linearise(P)
            if not left > self.tol:
                break
            step = self._solve(gradient, min(0.1, max(left, 0.3 * self.tol / left)))
            slope = np.vdot(gradient, step)
            length = 1.0
            while True:
                Z, new = objective(theta - length * step)
                # the last term allows for rounding: near the solution two values differ by less
                # than their errors
                if new <= value - 0.25 * length * slope + 1e-14 * abs(value) or length < 1e-10:
                    break
                length *= 0.5
            theta = theta - length * step
            value = new
        self.theta = theta
        self._reweighted = weights is not None
        if not left <= max(1e-4, 10 * self.tol):
            raise ConvergenceError(
                f"the inner problem on {s} points was not solved in {MAX_NEWTON} Newton steps "
                f"(gradient {left:.1e} of "
                f"the one at zero); raise l2 (now {self.l2:g}) or scale the features."
            )

    def _linearise(self, P):
        # the Hessian, and a Cholesky factor of the mean of its blocks: the only one if there is one
        # output
        self.P = P
        A = self.A
        c = self.weights * self.link.diagonal(P)
        # where rows are many, a sample is enough
        skip = max(1, len(A) // (4 * A.shape[1])) if P.shape[1] > 1 else 1
        root = np.sqrt(skip * c[::skip])[:, None] * A[::skip]
        # of a product with itself BLAS computes one half
        self._block = root.T @ root
        self._factor = self._factorise(0.0)

    def _factorise(self, damping):
        block = self._block.copy()
        block.ravel()[:: len(block) + 1] += self.penalty[:, 0] + damping
        # LAPACK's order of a transpose
        factor, failed = dpotrf(block.T, lower=True, overwrite_a=True)
        if failed or not np.isfinite(factor[-1, -1]):
            raise ConvergenceError(
                f"the inner problem on {len(self)} points is singular to rounding (features up to "
                f"{np.abs(self.A).max():.1e} against l2={self.l2:g}); scale the features or raise "
                "l2."
            )
        return factor

    def _product(self, V, damping=0.0):
        image = self.weights[:, None] * self.link.curve(self.P, self.A @ V)
        return self.A.T @ image + (self.penalty + damping) * V

    def _precondition(self, G):
        return dpotrs(self._factor, G, lower=True)[0]

    def _solve(self, G, tol, damping=0.0, start=None):
        # the solution V of (H + damping I) V = G, shape (p, K), by preconditioned conjugate
        # gradients, from `start` if that is nearer than the preconditioned G
        factor = self._factor if damping == 0.0 else self._factorise(damping)
        V = dpotrs(factor, G, lower=True)[0]
        if G.shape[1] == 1:
            return V
        enough = tol**2 * np.vdot(G, V)
        rest = G - self._product(V, damping)
        direction = image = dpotrs(factor, rest, lower=True)[0]
        size = np.vdot(rest, image)
        if start is not None:
            other = G - self._product(start, damping)
            there = dpotrs(factor, other, lower=True)[0]
            if np.vdot(other, there) < size:
                V = start
                rest = other
                direction = there
                image = there
                size = np.vdot(other, there)
        for _ in range(MAX_CG):
            if size <= enough:
                return V
            moved = self._product(direction, damping)
            length = size / np.vdot(direction, moved)
            V = V + length * direction
            rest = rest - length * moved
            image = dpotrs(factor, rest, lower=True)[0]
            last = size
            size = np.vdot(rest, image)
            direction = image + size / last * direction
        if size <= 1e4 * enough:
            return V
        raise ConvergenceError(
            f"a linear system of {len(self)} points was not solved in {MAX_CG} conjugate gradients "
            "(residual "
            f"{np.sqrt(size / enough) * tol:.1e}); scale the features, or raise l2 (now "
            f"{self.l2:g}) or damping."
        )

    # The outer loss.

    def _blocks(self, work):
        # `work` of slices of the rows of X, in their order; a slice of a sparse matrix would be a
        # copy
        n, d = self.X.shape
        rows = n if issparse(self.X) else BLOCK // d + 1
        parts = [slice(low, low + rows) for low in range(0, n, rows)]
        threads = n_threads() if len(parts) > 1 and n * d >= PARALLEL_ABOVE else 1
        if threads == 1:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, parts))

    def outer_gradient(self):
        """As `Model.outer_gradient`, shape (d + 1, K)."""
        X = self.X
        theta = self.coefficients.astype(self.X.dtype)
        self.Z = np.empty_like(self.Y)
        self.residuals = np.empty_like(self.Y)

        def gradient(at):
            Z = self.Z[at]
            R = self.residuals[at]
            np.add((theta[1:].T @ X[at].T).T, theta[0], out=Z)
            np.subtract(self.link.mean(Z), self.Y[at], out=R)
            R = self.share[at] * R
            # faster than X.T @ R
            return np.concatenate([R.sum(axis=0, dtype=np.float64)[None], (R.T @ X[at]).T])

        G = sum(self._blocks(gradient))
        G[0] *= self.intercept
        return G

    def mean_loss(self):
        """As `Model.mean_loss`."""
        return float(np.dot(self.data.share, self.link.loss(self.Z, self.Y)))

    def inverse_hessian(self, G):
        """As `Model.inverse_hessian`; outside of the span it divides by l2."""
        if not self.ihvp.exact:
            return self.ihvp.solve(self.hessian_product, G)
        inside = self._inside(G)
        l2 = self.l2 + self.ihvp.damping
        start = self._inside(self._last) if self._reweighted and self._last is not None else None
        V = self._solve(inside, 10 * self.tol, self.ihvp.damping, start)
        if not isinstance(self.span, Features):
            V = np.concatenate([V[:1], self.span.lift(V[1:] - inside[1:] / l2) + G[1:] / l2])
        self._last = V
        return V

    def hessian_product(self, V):
        """As `Model.hessian_product`."""
        inside = self._inside(V)
        image = self._product(inside)
        return np.concatenate(
            [image[:1], self.span.lift(image[1:] - self.l2 * inside[1:]) + self.l2 * V[1:]]
        )

    def row_slopes(self, V):
        """As `Model.row_slopes`."""
        X = self.X
        V = V.astype(self.X.dtype)
        intercept = self.X.dtype.type(self.intercept)

        def slopes(at):
            return (self.residuals[at].T * (V[1:].T @ X[at].T + intercept * V[0][:, None])).sum(
                axis=0
            )

        return np.concatenate(self._blocks(slopes))

    # Its second order.

    def predicted_gains(self, candidates, *, free_weights=False):
        """As `Model.predicted_gains`; for several outputs, the mean of their blocks stands for the
        Hessian."""
        s = len(self)
        l2 = self.l2
        link = self.link
        X = self.rows(candidates)
        A = self.design(X)
        # the step is H^-1 a_k t_k' + q / s with q = H^-1 (penalty * theta)
        q = self._solve(self.penalty * self.theta, 10 * self.tol)
        B = self._precondition(A.T)
        leverage = np.einsum("kp,pk->k", A, B)
        if isinstance(self.span, Span):
            squares = (
                np.ravel(X.multiply(X).sum(axis=1)) if issparse(X) else np.einsum("kj,kj->k", X, X)
            )
            leverage += np.maximum(squares - np.einsum("kj,kj->k", A[:, 1:], A[:, 1:]), 0.0) / l2
        P = link.mean(self.Z[candidates].astype(np.float64))
        rhs = P - self.Y[candidates] - link.curve(P, A @ q) / s
        system = s * np.eye(P.shape[1]) + link.hessians(P) * leverage[:, None, None]
        t = np.linalg.solve(system, rhs[:, :, None])[:, :, 0]
        slope = np.sum(t * (X @ self.direction[1:] + self.intercept * self.direction[0]), axis=1)
        slope += np.sum(self._inside(self.gradient) * q) / s
        link, u, P, S, AS = self._outer_sample()
        if isinstance(self.span, Span):
            B[1:] -= A[:, 1:].T / l2
            M = AS @ B.astype(AS.dtype) + dense(S @ X.T.astype(AS.dtype)) / AS.dtype.type(l2)
        else:
            M = AS @ B.astype(AS.dtype)
        # logits of the sample move by M_ik t_k + (AS q)_i / s
        t = t.astype(AS.dtype)
        own = AS @ q.astype(AS.dtype) / s
        pull = u[:, None] * link.curve(P, own)
        cross = np.einsum("ik,ik->k", M, pull @ t.T)
        curvature = (
            np.einsum("ik,ik->k", np.square(M), u[:, None] * link.forms(P, t))
            + 2 * cross
            + np.sum(own * pull)
        )
        return predicted_decrease(slope, curvature.astype(np.float64), free_weights)

    def weight_quadratic(self):
        """As `Model.weight_quadratic`; the slope is exact, the curvature takes the mean of the
        blocks (Equation 3)."""
        slope = -np.einsum(
            "sk,sk->s", self.R, self.A @ self._solve(self._inside(self.gradient), 10 * self.tol)
        )
        link, u, P, _, AS = self._outer_sample(growth=1.0)
        M = (np.sqrt(u)[:, None] * AS) @ self._precondition(self.A.T).astype(AS.dtype)
        parts = [(M * F).astype(np.float64) for F in link.factors(P, self.R.astype(AS.dtype))]
        return sum(part.T @ part for part in parts), slope

    @cached_property
    def _sampled_rows(self):
        share = self.data.sample_weight[self._sample]
        S = self.X[self._sample]
        if self.narrow:
            S = np.asfortranarray(
                np.column_stack([np.full(len(share), self.intercept, S.dtype), dense(S)])
            )
        return S, (share / share.sum()).astype(self.X.dtype)

    def _outer_sample(self, growth=1.1):
        # Rows on which the curvature of the outer loss is known: (link, weights, means, features,
        # design). For one output and few features they are as many as features, with the second
        # moments of the sample.
        S, u = self._sampled_rows
        if not self.narrow:
            AS = self.design(S)
            return self.link, u, self.link.mean(self.Z[self._sample]), S, AS
        few = self.X.shape[1] <= FRESH
        if few or self._sampled * growth <= len(self):
            self._sampled = len(self)
            root = np.sqrt(u * self.link.diagonal(self.link.mean(self.Z[self._sample])))[:, None]
            scaled = S * root
            G = (scaled.T @ scaled).astype(np.float64)
            # G is singular to rounding
            L, pivots, rank, _ = dpstrf(G, tol=1e-7 * G.diagonal().max(), lower=True)
            root = np.empty((len(G), rank), dtype=np.float64 if few else self.X.dtype)
            root[pivots - 1] = np.tril(L)[:, :rank]
            self._outer = root
        S = self._outer[1:].T
        ones = np.ones(self._outer.shape[1], dtype=self._outer.dtype)
        return SquaredLink(), ones, ones[:, None], S, self.design(S, self._outer[0])
