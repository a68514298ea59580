"""Measured regret of VRM's learners against the exponents of Theorems 4 and 5."""

import numpy as np
from handful.sampling import MixtureSampler, group_components
from scipy.optimize import minimize

from handful_papers.claims import Evidence
from handful_papers.vrm.full_information import (
    FullInformation,
    concentration,
    mixture_cost,
    mixture_cost_gradient,
    theory_settings,
)

GROUP_SIZES = (15, 20, 25)
ADVERSARIES = ("random", "adaptive")


def problem():
    """Three groups of 60 points, a component each and the uniform one: groups (n,) and
    probabilities (4, n)."""
    groups = np.repeat(np.arange(len(GROUP_SIZES)), GROUP_SIZES)
    components = group_components(groups, leak=0.01)
    uniform = np.full(len(groups), 1 / len(groups))
    return groups, np.vstack([components, uniform])


def best_in_hindsight(probabilities, squares):
    """The least total cost of a fixed mixture, min_w (1/n^2) sum_i squares(i) / <w, p(i)>, over the
    whole simplex.

    Parameters
    ----------
    probabilities : array, shape (k, n)
    squares : array, shape (n,), each point's squared losses summed over the rounds

    Returns
    -------
    float, the cost; array, shape (k,), the mixture
    """
    k = len(probabilities)
    scale = squares.max()
    losses = np.sqrt(squares / scale)
    result = minimize(
        mixture_cost,
        np.full(k, 1 / k),
        args=(probabilities, losses),
        jac=mixture_cost_gradient,
        method="SLSQP",
        bounds=[(0, 1)] * k,
        constraints=dict(
            type="eq",
            fun=lambda w: w.sum() - 1,
            jac=lambda w: np.ones(k),
        ),
        options=dict(ftol=1e-14, maxiter=500),
    )
    w = np.maximum(result.x, 0)
    w /= w.sum()
    return scale * mixture_cost(w, probabilities, losses), w


def regret(
    feedback,
    adversary,
    horizon,
    *,
    seed,
    settings=None,
):
    """Regret_T of one run: cost of the learner's mixtures less that of the best fixed one, both
    over n^2.

    Losses are 1 on one group and 0.1 elsewhere, so L = 1. The "random" adversary draws the group
    with probabilities 0.6, 0.3 and 0.1; the "adaptive" one takes the group whose points are the
    least likely at the moment.

    Parameters
    ----------
    feedback : "full" (Algorithm 1 sees all losses) or "bandit" (Algorithm 2 sees that of one drawn
        point)
    adversary : "random" or "adaptive"
    horizon : int, T
    settings : dict of beta, gamma, eps for f/n^2; None takes those of the theorems

    Returns
    -------
    dict with regret, cost, fixed (cost of weights that stay equal), less the best cost likewise
    """
    rng = np.random.default_rng([seed, horizon])
    groups, p = problem()
    k, n = p.shape
    if settings is None:
        c = concentration(p) if feedback == "bandit" else None
        settings = theory_settings(k, horizon, c=c)
    if feedback == "full":
        learner = FullInformation(p, scale=n**2, **settings)
    else:
        learner = MixtureSampler(
            p,
            batch_size=1,
            scale=n**2,
            random_state=rng,
            **settings,
        )
    patterns = np.where(groups == np.arange(len(GROUP_SIZES))[:, None], 1.0, 0.1)
    firsts = np.searchsorted(groups, np.arange(len(GROUP_SIZES)))
    drawn = rng.choice(
        len(GROUP_SIZES),
        size=horizon,
        p=(0.6, 0.3, 0.1),
    )
    cost = 0.0
    counts = np.zeros(len(GROUP_SIZES))
    for t in range(horizon):
        if adversary == "random":
            hit = drawn[t]
        else:
            hit = int(np.argmin(learner.mixture_weights @ p[:, firsts]))
        losses = patterns[hit]
        counts[hit] += 1
        if feedback == "full":
            cost += learner.update(losses)
        else:
            cost += mixture_cost(learner.mixture_weights, p, losses)
            indices, _ = learner.sample()
            learner.update(losses[indices])
    best, _ = best_in_hindsight(p, counts @ patterns**2)
    equal = np.full(k, 1 / k)
    fixed = sum(n_hits * mixture_cost(equal, p, losses) for n_hits, losses in zip(counts, patterns))
    fixed = float(fixed)
    return dict(regret=cost - best, cost=cost, fixed=fixed - best)


def theorem_4_bound(k, horizon, bound=1.0):
    """5 L k^(1/2) T^(2/3) log^(1/3) T, the regret that Theorem 4 allows."""
    in_rounds = horizon ** (2 / 3) * np.log(horizon) ** (1 / 3)
    return 5 * bound * np.sqrt(k) * in_rounds


def fitted_exponent(horizons, regrets):
    """Slope of log regret against log T by least squares; the regrets must be positive."""
    return float(np.polyfit(np.log(horizons), np.log(regrets), 1)[0])


# The settings of the learners, as `regret` takes them.
SETTINGS = {
    "theorem": None,
    "default": dict(beta=0.5, gamma=0.01, eps=1000.0),
}


def regret_rows(feedback, adversary, settings, horizon, seed):
    """The row of `regret` for one game; `settings` is a key of `SETTINGS`: a task of the sweep."""
    row = dict(
        feedback=feedback,
        adversary=adversary,
        settings=settings,
        horizon=horizon,
        seed=seed,
    )
    row |= regret(
        feedback,
        adversary,
        horizon,
        seed=seed,
        settings=SETTINGS[settings],
    )
    return [row]


def exponents_by_seed(rows):
    """Fitted exponents of the regret: a Series by feedback, settings, adversary and seed."""
    groups = rows.groupby(["feedback", "settings", "adversary", "seed"])
    return groups[["horizon", "regret"]].apply(lambda g: fitted_exponent(g.horizon, g.regret))


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    fits = exponents_by_seed(run.rows)
    found = {}
    for feedback in ("full", "bandit"):
        by_adversary = fits[feedback, "theorem"].groupby("adversary")
        found[f"vrm-regret-{feedback}"] = {
            adversary: group.to_numpy() for adversary, group in by_adversary
        }
    full = run.rows[(run.rows.feedback == "full") & (run.rows.settings == "theorem")]
    shares = np.array([row.regret / theorem_4_bound(4, row.horizon) for row in full.itertuples()])
    unused = 1 - shares
    found["vrm-regret-bound"] = Evidence({"full information": unused}, shown=float(unused.min()))
    return found
