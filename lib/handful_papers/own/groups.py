"""Groups and many columns: rows that stand for the posterior where its parameters are hundreds or
thousands, and whether the check tells right chains from wrong ones."""

import os
import re
import time

import numpy as np
from handful import Logistic, MatchedCoreset
from handful.data import load
from handful.matching.laplace import toward_mean
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import likelihood
from handful.matching.pilot import Pilot
from handful.matching.priors import GaussianPrior
from handful.matching.sparse_pilot import SparsePilot
from handful.matching.sparse_rows import SparseRows
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit

from handful_papers.claims import Evidence

# Of the generated groups: slopes, intercept, and the deviation of the groups' effects.
SLOPES = np.array([0.5, -0.5, 0.3, 0.2])
INTERCEPT = -1.0
DEVIATION = 0.7
# Deviations of the priors of slopes and of the intercept.
OF_SLOPES = 1.0
OF_INTERCEPT = 5.0
# Of Covertype: numeric columns, those that have a slope in each soil type, and the first soil type.
NUMERIC = 10
OF_SOIL = (0, 5, 9)
FIRST_SOIL = 14
# Kinds of chains, and whether their draws are of the posterior.
CHAINS = {
    "right": True,
    "another prior": False,
    "weights halved": False,
    "weights forgotten": False,
    "shifted by .3 deviations": False,
}
SHIFT = 0.3
# A Gaussian whose log weights vary by more does not serve with importance weights.
SUFFICES = 1.5


def generated_groups(n_groups, per_group, seed):
    """Columns, the group of each row, and y, of a logistic regression whose intercept varies."""
    rng = np.random.default_rng([seed, 3])
    n = n_groups * per_group
    X = rng.normal(size=(n, len(SLOPES)))
    group = rng.permutation(np.repeat(np.arange(n_groups), per_group))
    effects = DEVIATION * rng.normal(size=n_groups)
    y = rng.random(n) < expit(X @ SLOPES + INTERCEPT + effects[group])
    return X, group, y.astype(int)


def soil_types(n, seed):
    """Columns of Covertype, the soil type of each of at most n rows, and whether its cover is the
    most frequent."""
    data = load("covtype_subset")
    rng = np.random.default_rng([seed, 4])
    every = rng.permutation(len(data.X))
    rows = every[:n]
    values = np.asarray(data.X, float)[rows]
    X = values[:, :NUMERIC]
    _, group = np.unique(values[:, FIRST_SOIL:].argmax(1), return_inverse=True)
    _, codes = np.unique(data.y, return_inverse=True)
    y = codes == np.bincount(codes).argmax()
    standardised = (X - X.mean(0)) / X.std(0)
    return standardised, group, y[rows].astype(int)


def design_of(X, group, slopes=()):
    """A CSR design with an indicator of each group, and its product with some columns; and the
    deviation of the prior of each parameter, the intercept last."""
    n_groups = group.max() + 1
    places = np.arange(len(X)), group
    blocks = [X]
    shape = len(X), n_groups
    ones = np.ones(len(X))
    for values in [ones, *X[:, list(slopes)].T]:
        block = sparse.csr_array((values, places), shape=shape)
        blocks.append(block)
    of_groups = np.full((len(blocks) - 1) * n_groups, DEVIATION)
    of_slopes = np.full(X.shape[1], OF_SLOPES)
    deviations = np.r_[of_slopes, of_groups, OF_INTERCEPT]
    return sparse.hstack(blocks, format="csr"), deviations


def problem_of(what, n, seed):
    """Design, deviations of the prior, y and the group of each row: of "400 x 200", generated
    groups and rows of each, or of "covtype_subset"."""
    if what == "covtype_subset":
        X, group, y = soil_types(n, seed)
        return *design_of(X, group, OF_SOIL), y, group
    n_groups, n_each = map(int, what.split(" x "))
    X, group, y = generated_groups(n_groups, n_each, seed)
    return *design_of(X, group), y, group


def sparse_rows(design, y, weights=None):
    """`SparseRows` of a logistic regression."""
    model, target = likelihood(Logistic(), y)
    return SparseRows(
        model,
        design,
        target,
        np.ones(len(y)) if weights is None else weights,
    )


def matched_rows(design, y, deviations, seed):
    """A fitted `MatchedCoreset`, and the CPU seconds that it took."""
    start = time.process_time()
    matched = MatchedCoreset(
        Logistic(),
        at="posterior",
        prior=deviations,
        random_state=seed,
    )
    matched.fit(design, y)
    return matched, time.process_time() - start


def drawn_in_groups(group, m, rng):
    """Numbers and weights of about m rows, drawn from each group in proportion to its size."""
    places = []
    weights = []
    for k in range(group.max() + 1):
        own = np.flatnonzero(group == k)
        n_drawn = min(len(own), max(1, round(len(own) * m / len(group))))
        places.append(rng.choice(own, n_drawn, replace=False))
        weights.append(np.full(n_drawn, len(own) / n_drawn))
    return np.concatenate(places), np.concatenate(weights)


def log_weights(rows, prior, gaussian, theta):
    """Log density of a posterior less that of a Gaussian, at parameters (K, p)."""
    return rows.sums(theta) + prior(theta) - gaussian.log_density(theta)


def group_rows(what, seed, *, n, n_draws):
    """Rows of one model with groups, a dict for each method: how much the log weights of draws on
    its rows vary, at draws of the Gaussian near the posterior's mean.

    Parameters
    ----------
    what : see `problem_of`
    seed : int
    n : int, rows of a table at most
    n_draws : int
    """
    design, deviations, y, group = problem_of(what, n, seed)
    rng = np.random.default_rng([seed, 5])
    start = time.process_time()
    matched = MatchedCoreset(Logistic(), at="posterior", prior=deviations, random_state=seed).fit(
        design, y
    )
    seconds = {"matched": time.process_time() - start}
    rows = sparse_rows(design, y)
    prior = GaussianPrior(deviations**-2.0)
    start = time.process_time()
    at_mode = SparsePilot.at_mode(rows, prior, np.zeros(len(deviations)))
    seconds["laplace"] = time.process_time() - start
    near_mean = toward_mean(rows, prior, at_mode, rng)
    seconds["near the mean"] = time.process_time() - start
    theta = near_mean.draws(n_draws, rng)
    every = rows.sums(theta)
    m = len(matched.indices_)
    uniform = rng.choice(len(y), m, replace=False)
    chosen = {
        "uniform": (uniform, np.full(m, len(y) / m)),
        "within groups": drawn_in_groups(group, m, rng),
        "matched": (matched.indices_, matched.weights_),
    }
    variances = {
        "laplace": log_weights(rows, prior, at_mode, at_mode.draws(n_draws, rng)).var(),
        "near the mean": log_weights(rows, prior, near_mean, theta).var(),
    }
    for method, found in chosen.items():
        variances[method] = np.var(every - rows.restricted(*found).sums(theta))
    sizes = {method: len(places) for method, (places, _) in chosen.items()}
    d = len(deviations)
    about = dict(part="groups", what=what, n=len(y), d=d)
    return rows_of_methods(about, sizes, variances, seconds)


def rows_of_methods(about, sizes, variances, seconds):
    """A dict for each method: what all share, its rows, variance and CPU seconds."""
    found = []
    for method, variance in variances.items():
        row = dict(
            method=method,
            rows=sizes.get(method, 0),
            variance=variance,
            seconds=seconds.get(method),
        )
        found.append(about | row)
    return found


# --- many columns


def rare_events(n, d, rate, seed):
    """A table of independent columns, and events of which there are so many on average."""
    rng = np.random.default_rng([seed, 6])
    X = rng.normal(size=(n, d))
    slopes = rng.normal(size=d)
    eta = X @ slopes * (2 / np.sqrt(d))
    intercept = brentq(lambda b: expit(eta + b).mean() - rate, -30, 30)
    happens = rng.random(n) < expit(eta + intercept)
    return X, happens.astype(int)


def form_rows(what, seed, *, size, n_draws):
    """Rows of a logistic regression of many columns, a dict for each method, as `group_rows`.

    Parameters
    ----------
    what : such as "100 columns, 20000 rows, rate 0.031"
    seed : int
    size : int, rows of each method
    n_draws : int
    """
    d, n, rate = re.findall(r"[\d.]+", what)
    X, y = rare_events(int(n), int(d), float(rate), seed)
    rng = np.random.default_rng([seed, 7])
    start = time.process_time()
    fitted = MatchedCoreset(
        Logistic(),
        at="posterior",
        remainder="quadratic",
        size=size,
        random_state=seed,
    )
    fitted.fit(X, y)
    seconds = {"form": time.process_time() - start}
    model, target = likelihood(Logistic(), y)
    rows = LikelihoodSums(model, X, target, np.ones(len(y)))
    prior = GaussianPrior(np.ones(X.shape[1] + 1))
    mode = fitted.modes_[0]
    at_mode = gaussian_at(rows, prior, mode)
    near_mean = gaussian_at(rows, prior, fitted.form_.center)
    theta = near_mean.draws(n_draws, rng)
    every = rows.sums(theta)
    few = rng.choice(len(y), size, replace=False)
    uniform = rows.restricted(few, np.full(size, len(y) / size))
    expansions = rows.expansion(mode) - uniform.expansion(mode)
    moves = theta - mode
    taylor = moves @ expansions[0, 1:]
    taylor -= 0.5 * np.sum(moves @ expansions[1:, 1:] * moves, 1)
    missed = every - uniform.sums(theta)
    with_form = rows.restricted(fitted.indices_, fitted.weights_, fitted.form_)
    variances = {
        "laplace": log_weights(rows, prior, at_mode, at_mode.draws(n_draws, rng)).var(),
        "near the mean": log_weights(rows, prior, near_mean, theta).var(),
        "uniform": missed.var(),
        "taylor": np.var(missed - taylor),
        "form": np.var(every - with_form.sums(theta)),
    }
    sizes = dict.fromkeys(("uniform", "taylor", "form"), size)
    about = dict(part="columns", what=what, n=len(y), d=X.shape[1] + 1)
    return rows_of_methods(about, sizes, variances, seconds)


def gaussian_at(rows, prior, center):
    """The Gaussian with a center and the curvature of the log posterior there."""
    return Pilot([center], [np.eye(len(center))]).at(rows, prior, center)


# --- the check


def check_rows(what, seed, *, n, n_chains, n_steps):
    """What the check says of right and of wrong chains, a dict for each.

    Chains are made of independent proposals, those of a Gaussian near the mean of the density that
    each is of, and are as right as Metropolis and Hastings make them.
    """
    design, deviations, y, _ = problem_of(what, n, seed)
    rng = np.random.default_rng([seed, 8])
    matched = MatchedCoreset(Logistic(), at="posterior", prior=deviations, random_state=seed).fit(
        design, y
    )
    rows = sparse_rows(design, y)
    found = []
    for kind, is_right in CHAINS.items():
        weights = matched.weights_ * (0.5 if kind == "weights halved" else 1.0)
        if kind == "weights forgotten":
            weights = np.ones(len(weights))
        own = deviations.copy()
        if kind == "another prior":
            own[own == DEVIATION] = DEVIATION / 2
        few = rows.restricted(matched.indices_, weights)
        draws, scale = chain_of(few, GaussianPrior(own**-2.0), rng, n_chains, n_steps)
        if kind == "shifted by .3 deviations":
            draws = draws + SHIFT * scale
        report = matched.check(draws, design, y)
        row = dict(
            part="check",
            what=what,
            n=len(y),
            d=len(own),
            rows=len(weights),
            method=kind,
            right=is_right,
            verdict=report.verdict,
            variance=report.variance,
            z=report.stein.z,
        )
        found.append(row)
    return found


def chain_of(rows, prior, rng, n_chains, n_steps):
    """Chains of the posterior of rows, shape (chains, steps, p), and the deviations of its
    Gaussian's draws, shape (p,)."""
    at_mode = SparsePilot.at_mode(rows, prior, np.zeros(rows.design.shape[1]))
    gaussian = toward_mean(rows, prior, at_mode, rng)
    proposed = gaussian.draws(n_chains * n_steps, rng)
    ratio = log_weights(rows, prior, gaussian, proposed).reshape(n_chains, n_steps)
    here = np.zeros(n_chains, int)
    kept = np.empty((n_chains, n_steps), int)
    chains = np.arange(n_chains)
    for step in range(n_steps):
        rise = ratio[:, step] - ratio[chains, here]
        accepts = np.log(rng.random(n_chains)) < rise
        here = np.where(accepts, step, here)
        kept[:, step] = here
    draws = proposed.reshape(n_chains, n_steps, -1)
    return draws[chains[:, None], kept], proposed.std(0)


# --- NUTS


def chain_rows(what, seed, *, n_warmup, n_draws, n_timed):
    """NUTS on the matched rows of a model whose deviation of groups is drawn, too: gradients, and
    milliseconds of one on these rows and on all, a dict for each.

    The posterior on all rows is the same, so that a chain on it takes as many gradients.
    """
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS, init_to_value

    numpyro.enable_x64()
    n_groups, n_each = map(int, what.split(" x "))
    X, group, y = generated_groups(n_groups, n_each, seed)
    design, deviations = design_of(X, group)
    start = time.process_time()
    matched = MatchedCoreset(Logistic(), at="posterior", prior=deviations, random_state=seed).fit(
        design, y
    )
    choosing = time.process_time() - start
    n_groups = group.max() + 1
    d = X.shape[1]

    def model(X, group, y, w):
        normal = numpyro.distributions.Normal
        beta = numpyro.sample("beta", normal(0, OF_SLOPES).expand([d]))
        intercept = numpyro.sample("intercept", normal(0, OF_INTERCEPT))
        tau = numpyro.sample("tau", numpyro.distributions.HalfNormal(1.0))
        effects = numpyro.sample("effects", normal(0, tau).expand([n_groups]))
        eta = X @ beta + intercept + effects[group]
        numpyro.factor(
            "rows",
            (w * (y * eta - jax.numpy.logaddexp(0.0, eta))).sum(),
        )

    mode = matched.modes_[0]
    values = dict(
        beta=mode[:d],
        effects=mode[d:-1],
        intercept=mode[-1],
        tau=DEVIATION,
    )
    few = matched.indices_
    args = X[few], group[few], y[few], matched.weights_
    run = MCMC(
        NUTS(model, init_strategy=init_to_value(values=values)),
        num_warmup=n_warmup,
        num_samples=n_draws,
        progress_bar=False,
    )
    key = jax.random.PRNGKey(seed)
    fields = ("num_steps",)
    run.warmup(key, *args, extra_fields=fields, collect_warmup=True)
    n_gradients = int(run.get_extra_fields()["num_steps"].sum())
    run.run(key, *args, extra_fields=fields)
    n_gradients += int(run.get_extra_fields()["num_steps"].sum())
    samples = run.get_samples()
    sampled = {name: np.asarray(array) for name, array in samples.items()}
    names = "beta", "effects", "intercept"
    draws = np.column_stack([sampled[name] for name in names])
    of_draws = np.broadcast_to(deviations, draws.shape).copy()
    of_draws[:, d:-1] = sampled["tau"][:, None]
    report = matched.check(draws, design, y, prior=of_draws)

    def milliseconds(*args):
        """CPU time of a value and its gradient."""

        def energy(values):
            return numpyro.infer.util.log_density(model, args, {}, values)[0]

        both = jax.jit(jax.value_and_grad(energy))
        jax.block_until_ready(both(values))
        start = time.process_time()
        for _ in range(n_timed):
            jax.block_until_ready(both(values))
        return 1000 * (time.process_time() - start) / n_timed

    about = dict(
        part="NUTS",
        what=what,
        n=len(y),
        d=len(values["effects"]) + d + 2,
        gradients=n_gradients,
    )
    matched_row = dict(
        method="matched",
        rows=len(few),
        seconds=choosing,
        ms=milliseconds(*args),
        verdict=report.verdict,
        variance=report.variance,
    )
    full_row = dict(
        method="full",
        rows=len(y),
        seconds=0.0,
        ms=milliseconds(X, group, y, 1.0),
    )
    return [about | matched_row, about | full_row]


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    of_groups = rows[(rows.part == "groups") & (rows.method == "matched")]
    checked = rows[rows.part == "check"]
    is_right = checked.right.astype(bool)
    is_used = checked.verdict.isin(["use the draws", "use the weights"])
    told = np.where(is_right, checked.verdict != "refuse", ~is_used)
    return {
        "own-groups-variance": {w: one.variance.to_numpy() for w, one in of_groups.groupby("what")},
        "own-groups-form": _where_weights_fail(rows[rows.part == "columns"]),
        "own-groups-check": told.astype(float),
        "own-groups-nuts": _chains(rows[rows.part == "NUTS"]),
    }


def _where_weights_fail(rows):
    """Variances with a form over those of the Gaussian near the mean, where these fail in all
    seeds."""
    wide = rows.pivot_table(index=["what", "seed"], columns="method", values="variance")
    of_gaussian = wide["near the mean"]
    fails = (of_gaussian > SUFFICES).groupby("what").transform("all")
    ratio = (wide["form"] / of_gaussian)[fails]
    if not len(ratio):
        return Evidence(lacks="importance weights serve for all tables of this profile")
    return {what: one.to_numpy() for what, one in ratio.groupby("what")}


def _chains(rows):
    """CPU seconds on all rows over those on the matched rows with their choice, a value a seed."""
    if not len(rows):
        return Evidence(lacks="this profile runs no chain")
    seconds = rows.seconds + rows.gradients * rows.ms / 1000
    rows = rows.assign(total=seconds)
    wide = rows.pivot_table(index="seed", columns="method", values="total")
    ratio = wide["full"] / wide["matched"]
    return {"": ratio.to_numpy()}
