"""The theory of the bilevel paper as numbers: Propositions 1, 2 and 5 to 9, Lemma 10, Theorem 3."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from handful.bilevel import OptimalDesign
from handful.bilevel.design import design_objective, design_traces
from handful.models import Poisson
from scipy.optimize import minimize

from handful_papers.claims import Evidence

# Proposition 1: influence functions --------------------------------------------------------------


def implicit_scores(problem, X, y, weights):
    """The selection rule of Equation 5, ``grad l_k' H^-1 sum_i grad l_i``, for every row k.

    Parameters
    ----------
    problem : Problem
    X, y : all rows, shape (n, d), and their targets as the problem encodes them
    weights : shape (n,), of the inner problem: zero for rows that are not in the coreset

    Returns
    -------
    shape (n,)
    """
    theta = problem.solve(X, y, weights)
    gradients = problem.gradients(theta, X, y)
    return gradients @ np.linalg.solve(problem.hessian(theta, X, y, weights), gradients.sum(axis=0))


def influence_by_refit(
    problem,
    X,
    y,
    weights,
    rows,
    *,
    eps=1e-6,
):
    """What a little more weight on a row does to the outer loss, by training again: ``dG/d eps``.

    Central differences of ``sum_i l_i(theta*(eps))``, theta* trained with ``eps`` added to the
    weight of row k. A large influence in the paper's sense is a large decrease, the negative of
    this.

    The parameters are those of `implicit_scores`; `rows` says which k. Returns shape (len(rows),).
    """
    start = problem.solve(X, y, weights)

    def outer(k, step):
        moved = weights.copy()
        moved[k] += step
        return problem.losses(problem.solve(X, y, moved, start=start), X, y).sum()

    return np.array([(outer(k, eps) - outer(k, -eps)) / (2 * eps) for k in rows])


def scores_and_influences(rng, n=60, size=15):
    """Two arrays of shape (n,) that Proposition 1 says are equal, for Poisson regression trained on
    `size` of n rows.

    They are `implicit_scores` and the negative of `influence_by_refit`.
    """
    X = rng.normal(size=(n, 4))
    y = rng.poisson(np.exp(X @ [0.5, -0.3, 0.2, 0.0])).astype(float)
    weights = np.zeros(n)
    weights[rng.choice(n, size, replace=False)] = 1 / size
    problem = Poisson(l2=0.01, fit_intercept=False)
    y = problem.encode(y)
    scores = implicit_scores(problem, X, y, weights)
    return scores, -influence_by_refit(
        problem,
        X,
        y,
        weights,
        np.arange(n),
    )


# Propositions 2 and 5 to 9: expected errors of ridge regression ----------------------------------


@dataclass(frozen=True)
class LinearModel:
    """``y = X theta + noise``; the inner problem is ridge regression with the penalty ``prior *
    noise^2``.

    Attributes
    ----------
    X : shape (n, d)
    noise : standard deviation sigma
    prior : precision lambda of the parameters, ``theta ~ N(0, I / lambda)``; 0 for a fixed `theta`
    theta : shape (d,), or None for one drawn from the prior
    """

    X: np.ndarray
    noise: float
    prior: float = 0.0
    theta: np.ndarray | None = None

    @property
    def ridge(self):
        """lambda sigma^2."""
        return self.prior * self.noise**2

    def closed_form(self, rows, design):
        """``sigma^2`` times the design objective of the chosen rows, to which Propositions 5, 6 and
        8 reduce."""
        weights = np.zeros(len(self.X))
        weights[rows] = 1.0
        options = dict(design=design, prior_precision=self.ridge)
        return self.noise**2 * design_objective(self.X, weights, **options)

    def simulated(self, rows, outer, n_draws, *, rng):
        """Draws of the outer objective of ridge regression trained on the chosen rows.

        Parameters
        ----------
        rows : int array
        outer : "A", ``1/2 |theta^ - theta|^2``; "V", ``1/(2n) |X theta^ - X theta|^2``; "data", the
            loss of a summary, ``1/(2n) |X theta^ - y|^2``
        n_draws : int

        Returns
        -------
        shape (n_draws,)
        """
        n, d = self.X.shape
        noise = self.noise * rng.normal(size=(n_draws, n))
        truth = self.theta
        if truth is None:
            truth = rng.normal(size=(n_draws, d)) / np.sqrt(self.prior)
        y = truth @ self.X.T + noise
        X_S = self.X[rows]
        information = X_S.T @ X_S + self.ridge * np.eye(d)
        fitted = np.linalg.solve(information, X_S.T @ y[:, rows].T).T
        if outer == "A":
            return 0.5 * ((fitted - truth) ** 2).sum(axis=1)
        wanted = y if outer == "data" else truth @ self.X.T
        return 0.5 * ((fitted @ self.X.T - wanted) ** 2).mean(axis=1)

    def gap(self, rows):
        """Expected loss of the summary minus the V-objective: ``sigma^2 / 2 - sigma^2 / n tr X_S
        F^-1 X_S'``, exactly.

        The second term is what the noise of the chosen rows has in common with the fit; it vanishes
        as n grows, which is what Propositions 2, 7 and 9 say.
        """
        X_S = self.X[rows]
        gram = X_S.T @ X_S
        hat = np.trace(np.linalg.solve(gram + self.ridge * np.eye(len(gram)), gram))
        return self.noise**2 * (0.5 - hat / len(self.X))


def expected_errors(n_problems, n_draws, *, rng):
    """Propositions 5 (error of the parameters), 6 (of the predictions) and 8 (of the predictions
    under a prior).

    Returns
    -------
    list of dict, with statement, seed (of the problem), simulated and closed_form (of the outer
    objective), and value, their distance in standard errors of the simulation
    """
    rows = []
    statements = [("5", "A", 0.0), ("6", "V", 0.0), ("8", "V", 0.8)]
    for name, outer, prior in statements:
        for seed in range(n_problems):
            X = rng.normal(size=(60, 4)) * [2, 1, 1, 0.5]
            theta = None if prior else rng.normal(size=4)
            model = LinearModel(X, 0.7, prior=prior, theta=theta)
            chosen = rng.choice(60, 10, replace=False)
            draws = model.simulated(chosen, outer, n_draws, rng=rng)
            closed = model.closed_form(chosen, outer)
            error = draws.std(ddof=1) / np.sqrt(n_draws)
            row = dict(
                statement=f"Proposition {name}",
                seed=seed,
                value=(draws.mean() - closed) / error,
                simulated=draws.mean(),
                closed_form=closed,
            )
            rows.append(row)
    return rows


def distances_from_the_limit(
    X,
    pool_sizes,
    n_draws,
    *,
    prior,
    theta,
    seed,
    noise=0.7,
    size=10,
):
    """Propositions 2, 7 and 9: how far the loss of a summary minus the V-objective is from half the
    noise variance.

    Each pool is the first n rows of X, for n in `pool_sizes`, of which `size` are the summary; both
    objectives see the same `n_draws` simulated label vectors.

    Returns
    -------
    list of dict, with n, value (closed form), simulated and standard_error
    """
    rows = []
    chosen = np.arange(size)
    for n in pool_sizes:
        model = LinearModel(
            X[:n],
            noise,
            prior=prior,
            theta=theta,
        )
        summary = model.simulated(chosen, "data", n_draws, rng=np.random.default_rng(seed))
        design = model.simulated(chosen, "V", n_draws, rng=np.random.default_rng(seed))
        difference = summary - design
        half = noise**2 / 2
        row = dict(
            n=n,
            value=half - model.gap(chosen),
            simulated=half - difference.mean(),
            standard_error=difference.std(ddof=1) / np.sqrt(n_draws),
        )
        rows.append(row)
    return rows


# Lemma 10: the V-objective is convex and smooth --------------------------------------------------


def v_hessian(X, weights, *, ridge, noise=1.0):
    """Second derivative of the V-objective by the weights: ``sigma^2/n (X F^-1 X') o (X F^-1 X'X
    F^-1 X')``.

    The proof of Lemma 10 has the Hadamard product, which is positive semi-definite by Schur's
    theorem.

    Returns
    -------
    shape (n, n)
    """
    covariance = np.linalg.inv((X.T * weights) @ X + ridge * np.eye(X.shape[1]))
    A = X @ covariance @ X.T
    return noise**2 / len(X) * A * (A @ A)


def smoothness_bound(X, *, prior, noise):
    """The smoothness constant of Lemma 10: ``n L^6 / (lambda^3 sigma^4)``, L the largest norm of a
    row."""
    return len(X) * np.linalg.norm(X, axis=1).max() ** 6 / (prior**3 * noise**4)


def curvatures(n_matrices, *, rng):
    """Lemma 10 on random designs of random sizes.

    Returns
    -------
    least, ratio : shape (n_matrices,), the least eigenvalue of the Hessian over the largest (not
        negative where the objective is convex), and the largest over the constant of the proof
    """
    least = []
    ratio = []
    for _ in range(n_matrices):
        n = rng.integers(2, 30)
        d = rng.integers(1, 8)
        X = rng.normal(size=(n, d))
        weights = rng.exponential(size=n) * rng.integers(0, 2, n)
        prior, noise = 10 ** rng.uniform(-1.5, 1.5, 2)
        hessian = v_hessian(
            X,
            weights,
            ridge=prior * noise**2,
            noise=noise,
        )
        values = np.linalg.eigvalsh(hessian)
        least.append(values[0] / values[-1])
        ratio.append(values[-1] / smoothness_bound(X, prior=prior, noise=noise))
    return np.array(least), np.array(ratio)


# Theorem 3: the rate of Algorithm 1 --------------------------------------------------------------


@dataclass(frozen=True)
class PricedDesign:
    """A convex, smooth outer objective whose minimum is attained: V-optimal design where
    experiments cost something.

    ``G(w) = sigma^2/(2n) tr X (X' D(w) X + ridge I)^-1 X' + price * sum(w)``. Without a price more
    weight is always better, and Theorem 3 has no G* to converge to.

    Attributes
    ----------
    X : shape (n, d); ridge : positive; price : positive
    """

    X: np.ndarray
    ridge: float
    price: float

    def value(self, weights):
        """G(w)."""
        error = design_objective(self.X, weights, prior_precision=self.ridge)
        return error + self.price * weights.sum()

    def gradient(self, weights):
        """dG/dw, shape (n,)."""
        moments = self.X.T @ self.X / len(self.X)
        _, slopes = design_traces(self.X, weights, moments, self.ridge)
        return -0.5 * slopes + self.price

    def minimise(self, support=None, start=None):
        """The best weights on a support (all rows by default), shape (n,)."""
        n = len(self.X)
        support = np.arange(n) if support is None else np.asarray(support)
        start = np.zeros(n) if start is None else start

        def spread(w):
            weights = np.zeros(n)
            weights[support] = w
            return weights

        result = minimize(
            lambda w: self.value(spread(w)),
            start[support],
            jac=lambda w: self.gradient(spread(w))[support],
            method="L-BFGS-B",
            bounds=[(0, None)] * len(support),
            options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
        )
        return spread(result.x)

    def smoothness(self):
        """The largest eigenvalue of the Hessian over all weights: that at zero, where information
        is least."""
        hessian = v_hessian(self.X, np.zeros(len(self.X)), ridge=self.ridge)
        return float(np.linalg.eigvalsh(hessian)[-1])


def matching_pursuit(objective, n_steps):
    """Algorithm 1: add the row of the smallest derivative, minimise over the weights of all chosen
    ones, repeat.

    Parameters
    ----------
    objective : PricedDesign, or anything with `value`, `gradient` and `minimise`
    n_steps : int

    Returns
    -------
    DataFrame, one row per t = 1, 2, ...: row (chosen at t), value (after the correction) and norm,
    the sum of weights
    """
    weights = np.zeros(len(objective.X))
    chosen = []
    rows = []
    for t in range(1, n_steps + 1):
        slopes = objective.gradient(weights)
        slopes[chosen] = np.inf
        k = int(np.argmin(slopes))
        if slopes[k] >= 0:
            # No further row helps: the minimum is reached.
            break
        chosen.append(k)
        weights = objective.minimise(chosen, weights)
        row = dict(
            t=t,
            row=k,
            value=objective.value(weights),
            norm=weights.sum(),
        )
        rows.append(row)
    return pd.DataFrame(rows)


def rate_bound(t, first_gap, smoothness, rho=1.0):
    """What Theorem 3 allows the gap to be after t steps: ``(8 L rho^2 + 4 gap_1) / (t + 3)``; it
    prints no rho."""
    return (8 * smoothness * rho**2 + 4 * first_gap) / (t + 3)


def rate_bounds(steps, smoothness, best_value, best_norm):
    """The gaps to the minimum and what Theorem 3 allows them to be.

    Parameters
    ----------
    steps : DataFrame from `matching_pursuit`
    smoothness : L
    best_value, best_norm : G* and the sum of the optimal weights

    Returns
    -------
    DataFrame : `steps` with gap, printed, the `rate_bound` without rho, and scaled, the one with
        it: the largest sum of weights on the way or at the minimum. Locatello et al. (2017, Theorem
        2) have rho; the bilevel paper prints the bound without it.
    """
    gap = steps.value - best_value
    bound = partial(rate_bound, steps.t, gap.iloc[0], smoothness)
    return steps.assign(
        gap=gap,
        printed=bound(),
        scaled=bound(max(steps.norm.max(), best_norm)),
    )


# Designs without labels --------------------------------------------------------------------------


def gains_of_designs(n_problems, n_draws, *, rng):
    """Simulated error with 20 random experiments of 300, over that with a design by
    `OptimalDesign`: list of dict."""
    rows = []
    for seed in range(n_problems):
        X = rng.normal(size=(300, 6)) * rng.uniform(0.3, 2, 6)
        model = LinearModel(X, 0.7, prior=0.1)
        for design in ("A", "V"):
            selector = OptimalDesign(
                design,
                size=20,
                prior_precision=model.ridge,
                fit_intercept=False,
            )
            chosen = selector.fit(X).indices_
            ours = model.simulated(chosen, design, n_draws, rng=rng).mean()
            errors = []
            for _ in range(10):
                drawn = rng.choice(300, 20, replace=False)
                errors.append(model.simulated(drawn, design, n_draws // 10, rng=rng).mean())
            value = np.mean(errors) / ours
            rows.append(dict(statement=f"{design}-design", seed=seed, value=value))
    return rows


def elongated_pool(rng):
    """300 experiments in the plane, shape (300, 2): most along one feature, a tenth together far
    along the other."""
    most = rng.normal(size=(270, 2)) * [1.0, 0.25]
    far = [0, 2] + 0.2 * rng.normal(size=(30, 2))
    return np.concatenate([most, far])


# --- which numbers decide the claims


# The share of the largest score up to which influences are equal.
A_THOUSANDTH = 0.001
# Standard errors of a simulation that count as agreement.
WITHIN = 4


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    values = {statement: rows for statement, rows in run.rows.groupby("statement")}
    room = {"Proposition 1": 1 - values["Proposition 1"].value / A_THOUSANDTH}
    for name in ("Proposition 5", "Proposition 6", "Proposition 8"):
        room[name] = 1 - values[name].value.abs() / WITHIN
    for name in ("Proposition 7", "Proposition 2 and 9"):
        room |= _limit(name, values[name])
    room["Lemma 10: smooth"] = 1 - values["Lemma 10"].value
    named = {statement.partition(": "): rows for statement, rows in values.items()}
    gaps = {name: rows for (statement, _, name), rows in named.items() if statement == "Theorem 3"}
    room["Lemma 10: convex"] = [run.facts["least_eigenvalue"]]
    return {
        "bico-identities": {name: np.asarray(of) for name, of in room.items()},
        "bico-theorem3-printed": _rate(gaps, run.facts),
    }


def _limit(name, rows):
    """Room between -.9 and the power of n with which the distance from the limit falls, and of the
    simulations."""
    exponent = float(np.polyfit(np.log(rows.n), np.log(rows.value), 1)[0])
    z = ((rows.simulated - rows.value) / rows.standard_error).abs()
    return {f"{name}: exponent": [-0.9 - exponent], f"{name}: simulation": 1 - z / WITHIN}


def _rate(gaps, facts):
    """Gaps to the minimum as shares of the bound of Theorem 3."""
    shares = {}
    for name, rows in gaps.items():
        first = rows.value[rows.t == 1].item()
        allowed = rate_bound(rows.t, first, facts["smoothness"][name])
        shares[name] = (rows.value / allowed).to_numpy()
    settings = {name: 1 - share for name, share in shares.items()}
    largest = max(share.max() for share in shares.values())
    return Evidence(settings, shown=float(largest))
