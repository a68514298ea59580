"""Generalised linear models as inner problems: logistic regression, multinomial too, and least
squares."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf
from scipy.sparse import issparse

from handful.checks import ConvergenceError, check_memory
from handful.models.base import Model, predicted_decrease
from handful.models.inverse import conjugate_gradients
from handful.models.links import LinearModel, SquaredLink
from handful.models.newton import climb
from handful.models.span import Features, Span
from handful.running import n_threads
from handful.tables import dense

# The inner problem gets at most so many Newton steps, and each of their systems so many conjugate
# gradients.
MAX_NEWTON = 100
MAX_CG = 300
# A Newton step must bring this share of what its slope promises; values that differ by less than
# the second share of them differ by rounding.
PROMISED = 0.25
ROUNDING = 1e-14
# Up to so many features the outer curvature of one output is kept as a matrix.
NARROW = 512
# Up to so many features it is computed anew in every round; else when the coreset has grown by a
# tenth.
FRESH = 128
# Up to so many features they are the coordinates themselves.
STAY = 64
# So many entries of X are handled at once: they stay in the cache from logits to gradient.
BLOCK = 1 << 19
# From so many entries of X on a pass over it is worth several threads.
PARALLEL_ABOVE = 1 << 22


class GLM(Model):
    """A linear model of K outputs trained on the chosen rows: ``sum_i c_i loss_i + l2 / 2
    |coefficients|^2``.

    K is 1, or the number of classes. The inner solution lies in the span of the chosen rows, so the
    problem is solved there, by Newton steps with p = rank + 1 unknowns for each output: exact ones
    for one output, for several by conjugate gradients, preconditioned by the mean of their blocks.
    Outside of the span the Hessian is l2 times the identity. Gradients and directions have shape (d
    + 1, K), the intercepts last, or (d, K) without; a step reads X three times.

    Parameters
    ----------
    problem : Logistic or LeastSquares
    data : OuterRows; targets have shape (n, K) and the type of X
    rng : numpy.random.Generator, draws the rows on which the outer curvature is estimated
    ihvp : InverseHessian or None
    tol : norm of the inner gradient, in units of the one at zero, at which training ends

    Attributes
    ----------
    A : shape (s, p), the chosen rows in coordinates of their span, a column for the intercept last
    theta : shape (p, K), parameters for these columns
    Z : shape (n, K), logits of all rows after `outer_gradient`
    """

    def __init__(self, problem, data, rng, ihvp=None, tol=1e-6):
        super().__init__(problem, data, ihvp)
        K = data.y.shape[1]
        self.X = data.X
        self.d = data.X.shape[1]
        self.tol = tol
        self.l2 = float(problem.l2)
        # one output after the other in memory, as logits and residuals then are
        self.Y = np.asfortranarray(data.y)
        self.linear = LinearModel(problem, K)
        self.link = self.linear.link
        self.narrow = K == 1 and self.d <= NARROW
        self.max_candidates = 512 if self.narrow else 128
        # the last inverse Hessian times gradient
        self._last = None
        share = data.share.astype(self.X.dtype)
        self.share = share[:, None]
        self._sample = data.sample(4096 if K == 1 else 512, rng)
        if K == 1 and not self.narrow:
            self._sample = self._sample[::8]
        self._clear()

    def _clear(self):
        if self.d <= STAY:
            self.span = Features(self.d)
        else:
            self.span = Span(self.rows([]))
        p = self.span.rank + self.problem.fit_intercept
        no_rows = np.zeros((0, p))
        theta = np.zeros((p, self.Y.shape[1]))
        self._hold(no_rows, theta)
        self._sampled = 0

    # The chosen rows.

    def rows(self, indices):
        """Features of some rows in float64, shape (k, d), sparse if X is."""
        return self.X[indices].astype(np.float64)

    def design(self, X):
        """Rows X in coordinates, shape (k, p)."""
        return self.linear.design(self.span.coordinates(X))

    def add_rows(self, indices):
        """As `Model.add_rows`; from as many rows as features on, the features are coordinates."""
        X = self.rows(indices)
        span = self.span
        r = span.rank
        super().add_rows(indices)
        if r < self.d <= len(self):
            theta = self.coefficients
            self.span = Features(self.d)
            A = self.design(self.rows(self.indices))
            self._hold(A, theta)
            return
        if r < self.d:
            for i in range(len(indices)):
                span.extend(X[[i]])
        # Newcomers have no part of new coordinates in the rows and parameters that there were.
        n_new = span.rank - r
        K = self.theta.shape[1]
        coordinates, ones = np.hsplit(self.A, [r])
        new_columns = np.zeros((len(self.A), n_new))
        A = np.hstack([coordinates, new_columns, ones])
        slopes, intercepts = np.vsplit(self.theta, [r])
        new_slopes = np.zeros((n_new, K))
        theta = np.vstack([slopes, new_slopes, intercepts])
        A = np.vstack([A, self.design(X)])
        self._hold(A, theta)

    def _hold(self, A, theta):
        self.A = A
        self.theta = theta
        # on each column of the design
        n_columns = A.shape[1]
        self.penalty = np.full((n_columns, 1), self.l2)
        if self.problem.fit_intercept and not self.problem.penalise_intercept:
            # positive where every mean is 0 or 1 to rounding
            self.penalty[-1] *= 1e-14

    @property
    def outer_penalty(self):
        """The penalty of the outer loss on each column of the design, shape (p, 1)."""
        return self.data.penalised * self.penalty

    def drop_rows(self, gone):
        """As `Model.drop_rows`; a span of many more rows than there are is built anew, and without
        rows all begins anew."""
        super().drop_rows(gone)
        if not self.indices:
            self._clear()
            return
        stays = ~np.asarray(gone, dtype=bool)
        self.A = self.A[stays]
        self._sampled = 0
        most = 2 * len(self) + 16
        if isinstance(self.span, Span) and self.span.rank > most:
            theta = self._in_features(self.theta)
            rows = self.indices
            self.indices = []
            self._clear()
            self.add_rows(rows)
            self.theta = self._inside(theta)

    def check_memory(self, s):
        """As `Model.check_memory`: designs, Hessians, coordinates of the sample, and of dense rows
        a basis."""
        p = min(s, self.d) + 1
        basis = 0 if issparse(self.X) else self.d * p
        sample = len(self._sample) * p
        n_numbers = 3 * s * p + 6 * p**2 + sample + basis
        check_memory(
            f"the inner problem of {s:,} points in {p - 1:,} coordinates",
            8 * n_numbers,
            "choose fewer points, or take fewer features",
        )

    def _in_features(self, V):
        of_span, of_intercept = np.vsplit(V, [self.span.rank])
        return np.concatenate([self.span.lift(of_span), of_intercept])

    def _inside(self, G):
        of_features, of_intercept = np.vsplit(G, [self.d])
        return np.concatenate([self.span.project(of_features), of_intercept])

    @property
    def coefficients(self):
        """Parameters for the features, shape (d + 1, K), the intercepts last if there are any."""
        return self._in_features(self.theta)

    # The inner problem.

    def fit(self, weights=None):
        """As `Model.fit`, by Newton's method from the last solution."""
        s = len(self)
        self.weights = np.full(s, 1.0 / s) if weights is None else weights
        self._reweighted = weights is not None
        y = self.Y[self.indices].astype(np.float64)
        self._unit = self._size_of_terms(y)

        def at(theta):
            return _Inner(self, theta, y)

        zero = np.zeros_like(self.theta)
        start = self.theta
        is_better = at(start).value > at(zero).value
        # means of 0 and 1 have no curvature to follow
        if not is_better:
            start = zero
        options = dict(max_iter=MAX_NEWTON, share=PROMISED, slack=ROUNDING)
        self.theta, _ = climb(at, start, **options)
        if not self._left <= max(1e-4, 10 * self.tol):
            raise ConvergenceError(
                f"the inner problem on {s} points was not solved in {MAX_NEWTON} Newton steps "
                f"(gradient {self._left:.1e} of the one at zero); raise l2 (now {self.l2:g}) or "
                "scale the features."
            )

    def _size_of_terms(self, y):
        """Norm of the gradient at zero, or a millionth of that of its terms where they cancel."""
        mean = self.link.mean(np.zeros_like(y))
        first = self.weights[:, None] * (mean - y)
        gradient = np.linalg.norm(self.A.T @ first)
        sizes = np.abs(self.A).T @ np.abs(first)
        terms = np.linalg.norm(sizes)
        return max(gradient, 1e-6 * terms, 1e-300)

    def newton_step(self, theta, Z, y):
        """A Newton step of the inner problem from parameters whose logits are Z, and the slope
        along it; None where the gradient is within the tolerance."""
        P = self.link.mean(Z)
        self.R = P - y
        of_rows = self.weights[:, None] * self.R
        gradient = self.A.T @ of_rows + self.penalty * theta
        square = np.vdot(gradient, gradient)
        size = np.sqrt(square)
        self._unit = max(self._unit, 1e-6 * size)
        self._left = size / self._unit
        self._linearise(P)
        if not self._left > self.tol:
            return None
        # Systems are solved the better the nearer the solution is.
        exactness = max(self._left, 0.3 * self.tol / self._left)
        step = self._solve(gradient, min(0.1, exactness))
        return -step, np.vdot(gradient, step)

    def _linearise(self, P):
        # the Hessian, and a Cholesky factor of the mean of its blocks: the only one if there is one
        # output
        self.P = P
        A = self.A
        c = self.weights * self.link.diagonal(P)
        # where rows are many, a sample is enough
        skip = 1
        if P.shape[1] > 1:
            enough = 4 * A.shape[1]
            skip = max(1, len(A) // enough)
        some = slice(None, None, skip)
        root = np.sqrt(skip * c[some])
        root = root[:, None] * A[some]
        # of a product with itself BLAS computes one half
        self._block = root.T @ root
        self._factor = self._factorise(0.0)

    def _factorise(self, damping):
        block = self._block.copy()
        diagonal = np.einsum("pp->p", block)
        diagonal += self.penalty[:, 0] + damping
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
        curved = self.link.curve(self.P, self.A @ V)
        image = self.weights[:, None] * curved
        return self.A.T @ image + (self.penalty + damping) * V

    def _precondition(self, G):
        return dpotrs(self._factor, G, lower=True)[0]

    def _solve(self, G, tol, damping=0.0, start=None):
        # the solution V of (H + damping I) V = G, shape (p, K), by preconditioned conjugate
        # gradients, from `start` if that is nearer than the preconditioned G
        factor = self._factor if damping == 0.0 else self._factorise(damping)

        def precondition(V):
            return dpotrs(factor, V, lower=True)[0]

        def product(V):
            return self._product(V, damping)

        V = precondition(G)
        if G.shape[1] == 1:
            return V
        enough = tol**2 * np.vdot(G, V)
        rest = G - product(V)
        if start is not None:
            other = G - product(start)
            size = np.vdot(rest, precondition(rest))
            if np.vdot(other, precondition(other)) < size:
                V = start
                rest = other
        V, size = conjugate_gradients(
            product,
            V,
            rest,
            precondition=precondition,
            enough=enough,
            max_iter=MAX_CG,
        )
        if size > 1e4 * enough:
            raise ConvergenceError(
                f"a linear system of {len(self)} points was not solved in {MAX_CG} conjugate "
                f"gradients (residual {np.sqrt(size / enough) * tol:.1e}); scale the features, or "
                f"raise l2 (now {self.l2:g}) or damping."
            )
        return V

    # The outer loss.

    def _over_rows(self, work):
        # `work` of slices of the rows of X, in their order; a slice of a sparse matrix would be a
        # copy
        n = self.X.shape[0]
        rows = n if issparse(self.X) else BLOCK // self.d + 1
        starts = range(0, n, rows)
        parts = [slice(low, low + rows) for low in starts]
        is_large = len(parts) > 1 and n * self.d >= PARALLEL_ABOVE
        threads = n_threads() if is_large else 1
        if threads == 1:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, parts))

    def _along(self, V, X):
        # Linear predictors of rows X at parameters or directions V, shape (K, rows).
        of_features, of_intercept = np.vsplit(V, [self.d])
        intercepts = of_intercept.sum(axis=0)
        return of_features.T @ X.T + intercepts[:, None]

    def outer_gradient(self):
        """As `Model.outer_gradient`, shape (d + 1, K)."""
        theta = self.coefficients.astype(self.X.dtype)
        self.Z = np.empty_like(self.Y)
        self.residuals = np.empty_like(self.Y)
        n_intercepts = int(self.problem.fit_intercept)

        def gradient(at):
            X = self.X[at]
            R = self.residuals[at]
            self.Z[at] = self._along(theta, X).T
            P = self.link.mean(self.Z[at])
            np.subtract(P, self.Y[at], out=R)
            R = self.share[at] * R
            # faster than X.T @ R
            of_features = (R.T @ X).T
            of_intercept = R.sum(axis=0, dtype=np.float64, keepdims=True)
            of_intercept = of_intercept[:n_intercepts]
            return np.concatenate([of_features, of_intercept])

        of_penalty = self._in_features(self.outer_penalty * self.theta)
        return sum(self._over_rows(gradient)) + of_penalty

    def mean_loss(self):
        """As `Model.mean_loss`."""
        losses = self.link.loss(self.Z, self.Y)
        loss = np.dot(self.data.share, losses)
        pulled = self.outer_penalty * self.theta
        penalty = 0.5 * np.vdot(pulled, self.theta)
        return float(loss + penalty)

    def inverse_hessian(self, G):
        """As `Model.inverse_hessian`; outside of the span it divides by l2."""
        if not self.ihvp.exact:
            return self.ihvp.solve(self.hessian_product, G)
        inside = self._inside(G)
        l2 = self.l2 + self.ihvp.damping
        start = None
        if self._reweighted and self._last is not None:
            start = self._inside(self._last)
        V = self._solve(inside, 10 * self.tol, self.ihvp.damping, start)
        if not isinstance(self.span, Features):
            r = self.span.rank
            rest = V - inside / l2
            rest[r:] = V[r:]
            V = self._in_features(rest)
            V[: self.d] += G[: self.d] / l2
        self._last = V
        return V

    def hessian_product(self, V):
        """As `Model.hessian_product`."""
        r = self.span.rank
        inside = self._inside(V)
        image = self._product(inside)
        image[:r] -= self.l2 * inside[:r]
        image = self._in_features(image)
        outside = self.l2 * V[: self.d]
        image[: self.d] += outside
        return image

    def row_slopes(self, V):
        """As `Model.row_slopes`."""
        V = V.astype(self.X.dtype)

        def slopes(at):
            along = self._along(V, self.X[at])
            products = self.residuals[at].T * along
            return products.sum(axis=0)

        return np.concatenate(self._over_rows(slopes))

    # Its second order.

    def predicted_gains(self, candidates, *, free_weights=False):
        """As `Model.predicted_gains`; for several outputs, the mean of their blocks stands for the
        Hessian."""
        s = len(self)
        r = self.span.rank
        link = self.link
        X = self.rows(candidates)
        A = self.design(X)
        # the step is H^-1 a_k t_k' + q / s with q = H^-1 (penalty * theta)
        pulled = self.penalty * self.theta
        q = self._solve(pulled, 10 * self.tol)
        B = self._precondition(A.T)
        outside = self._outside(X, A[:, :r])
        inside = np.einsum("kp,pk->k", A, B)
        leverage = inside + outside
        Z = self.Z[candidates].astype(np.float64)
        P = link.mean(Z)
        by_penalty = link.curve(P, A @ q)
        rhs = P - self.Y[candidates] - by_penalty / s
        curved = link.hessians(P) * leverage[:, None, None]
        system = s * np.eye(P.shape[1]) + curved
        solved = np.linalg.solve(system, rhs[:, :, None])
        t = solved[:, :, 0]
        along = self._along(self.direction, X).T
        slope = np.sum(t * along, axis=1)
        gradient = self._inside(self.gradient)
        slope += np.sum(gradient * q) / s
        penalty = self._penalty_of_steps(B, t, q / s, outside)
        sample = self._outer_sample()
        M = self._sample_products(sample, X, A, B)
        # logits of the sample move by M_ik t_k + (AS q)_i / s
        t = t.astype(M.dtype)
        u = sample.u[:, None]
        own = sample.A @ q.astype(M.dtype) / s
        pull = u * sample.link.curve(sample.P, own)
        cross = np.einsum("ik,ik->k", M, pull @ t.T)
        forms = u * sample.link.forms(sample.P, t)
        curvature = np.einsum("ik,ik->k", np.square(M), forms)
        alike = np.sum(own * pull)
        curvature = curvature + 2 * cross + alike
        curvature = curvature.astype(np.float64) + penalty
        return predicted_decrease(slope, curvature, free_weights)

    def _penalty_of_steps(self, B, t, q, outside):
        # Twice the outer penalty of the steps B_k t_k' + q, shape (k,); what lies outside of the
        # span adds `outside` times the penalty of H^-1 there.
        penalty = self.outer_penalty
        in_span = np.einsum("pk,pk->k", penalty * B, B)
        of_rows = in_span + self.data.penalised * outside
        pulled = penalty * q
        cross = t * (B.T @ pulled)
        cross = cross.sum(axis=1)
        squares = np.sum(t * t, axis=1)
        return of_rows * squares + 2 * cross + np.vdot(pulled, q)

    def _outside(self, X, inside):
        # What the part of rows X outside of the span adds to their leverages, shape (k,).
        if isinstance(self.span, Features):
            return 0.0
        if issparse(X):
            products = X.multiply(X)
            squares = np.ravel(products.sum(axis=1))
        else:
            squares = np.einsum("kj,kj->k", X, X)
        squares_inside = np.einsum("kj,kj->k", inside, inside)
        rest = np.maximum(squares - squares_inside, 0.0)
        return rest / self.l2

    def _sample_products(self, sample, X, A, B):
        # Products of the sample's rows with the inverse Hessian times candidates X, which have the
        # coordinates A and the products B in the span, shape (sample, k).
        if isinstance(self.span, Features):
            return sample.A @ B.astype(sample.A.dtype)
        r = self.span.rank
        dtype = sample.A.dtype
        inside = A[:, :r].T
        B[:r] -= inside / self.l2
        products = dense(sample.X @ X.T.astype(dtype))
        outside = products / dtype.type(self.l2)
        return sample.A @ B.astype(dtype) + outside

    def weight_quadratic(self):
        """As `Model.weight_quadratic`; the slope is exact, the curvature takes the mean of the
        blocks (Equation 3)."""
        gradient = self._inside(self.gradient)
        toward = self._solve(gradient, 10 * self.tol)
        moved = self.A @ toward
        slope = -np.einsum("sk,sk->s", self.R, moved)
        sample = self._outer_sample(growth=1.0)
        dtype = sample.A.dtype
        B = self._precondition(self.A.T)
        by_penalty = B.T @ (self.outer_penalty * B)
        curvature = by_penalty * (self.R @ self.R.T)
        root = np.sqrt(sample.u)[:, None]
        M = (root * sample.A) @ B.astype(dtype)
        residuals = self.R.astype(dtype)
        for F in sample.link.factors(sample.P, residuals):
            part = (M * F).astype(np.float64)
            curvature = curvature + part.T @ part
        return curvature, slope

    @cached_property
    def _sampled_rows(self):
        share = self.data.sample_weight[self._sample]
        S = self.X[self._sample]
        if self.narrow:
            S = np.asfortranarray(self.linear.design(S))
        u = share / share.sum()
        return S, u.astype(self.X.dtype)

    def _outer_sample(self, growth=1.1):
        # The rows on which the curvature of the outer loss is known. For one output and few
        # features they are as many as features, with the second moments of the sample.
        S, u = self._sampled_rows
        if not self.narrow:
            P = self.link.mean(self.Z[self._sample])
            return _Sample(self.link, u, P, S, self.design(S))
        if self.d <= FRESH or self._sampled * growth <= len(self):
            self._sampled = len(self)
            self._outer = self._root_of_curvature(S, u)
        root = self._outer
        ones = np.ones(root.shape[1], dtype=root.dtype)
        X = root[: self.d].T
        intercepts = root[self.d :].T
        A = np.hstack([self.span.coordinates(X), intercepts])
        return _Sample(SquaredLink(), ones, ones[:, None], X, A)

    def _root_of_curvature(self, S, u):
        # A root, shape (d + 1, rank), of the outer curvature by one output's parameters.
        P = self.link.mean(self.Z[self._sample])
        root = np.sqrt(u * self.link.diagonal(P))
        scaled = S * root[:, None]
        products = scaled.T @ scaled
        G = products.astype(np.float64)
        # G is singular to rounding
        tol = 1e-7 * G.diagonal().max()
        L, pivots, rank, _ = dpstrf(G, tol=tol, lower=True)
        L = np.tril(L)
        dtype = np.float64 if self.d <= FRESH else self.X.dtype
        root = np.empty((len(G), rank), dtype=dtype)
        root[pivots - 1] = L[:, :rank]
        return root


class _Inner:
    """The inner problem of a `GLM` at some parameters, as `climb` asks for it: the objective with a
    minus."""

    def __init__(self, model, theta, y):
        self.model = model
        self.theta = theta
        self.y = y
        self.Z = model.A @ theta
        penalty = 0.5 * np.vdot(model.penalty * theta, theta)
        loss = model.weights @ model.link.loss(self.Z, y)
        self.value = -float(loss + penalty)

    def step(self):
        """As `GLM.newton_step`."""
        return self.model.newton_step(self.theta, self.Z, self.y)


@dataclass(frozen=True)
class _Sample:
    """Rows on which the curvature of the outer loss is known.

    Attributes
    ----------
    link : Link
    u : weights, shape (k,)
    P : means, shape (k, K)
    X : features, shape (k, d)
    A : the rows in coordinates, shape (k, p)
    """

    link: Any
    u: np.ndarray
    P: np.ndarray
    X: Any
    A: np.ndarray
