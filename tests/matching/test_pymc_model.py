"""Rows of PyMC's models: no line of likelihood, the density that samplers see, mistakes told."""

import numpy as np
import pytest

pm = pytest.importorskip("pymc")
pt = pytest.importorskip("pytensor.tensor")

from handful.matching import from_pymc
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.pilot import find_pilot
from scipy.special import expit
from scipy.stats import binom

N = 1500


def regressors(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    return rng, X, X @ [0.8, -0.5, 0.3]


def linear():
    rng, X, eta = regressors()
    beta = pm.Normal("beta", 0, 1, shape=3)
    sigma = pm.HalfNormal("sigma", 2)
    mu = pm.Deterministic("mu", pm.math.dot(X, beta))
    pm.Normal("y", mu, sigma, observed=eta + rng.normal(size=N))


def student():
    rng, X, eta = regressors()
    beta = pm.Normal("beta", 0, 1, shape=3)
    sigma = pm.HalfCauchy("sigma", 1)
    nu = pm.Gamma("nu", 2, 0.1)
    data = pm.Data("X", X)
    pm.StudentT("y", nu=nu, mu=data @ beta, sigma=sigma, observed=eta + rng.standard_t(4, size=N))


def exposed_counts():
    rng, X, eta = regressors()
    exposure = rng.uniform(0.5, 2, N)
    beta = [pm.Normal(f"beta{k}", 0, 1) for k in range(3)]
    rate = exposure * pm.math.exp(sum(b * X[:, k] for k, b in enumerate(beta)))
    pm.Poisson("y", rate, observed=rng.poisson(exposure * np.exp(eta)))


def overdispersed():
    rng, X, eta = regressors()
    beta = pm.MvNormal("beta", np.zeros(3), np.eye(3))
    size = pm.LogNormal("size", 0, 1)
    y = rng.negative_binomial(2, 1 / (1 + np.exp(eta) / 2))
    pm.NegativeBinomial("y", mu=pm.math.exp(X @ beta), alpha=size, observed=y)


def zero_inflated():
    rng, X, eta = regressors()
    beta = pm.Normal("beta", 0, 1, shape=3)
    share = pm.Beta("share", 1, 1)
    y = rng.poisson(np.exp(eta)) * (rng.random(N) < 0.7)
    pm.ZeroInflatedPoisson("y", share, pm.math.exp(X @ beta), observed=y)


def grouped():
    rng, X, eta = regressors()
    g = rng.integers(0, 8, N)
    y = (rng.random(N) < expit(eta + 0.7 * rng.normal(size=8)[g])).astype(int)
    beta = pm.Normal("beta", 0, 1, shape=3)
    tau = pm.HalfNormal("tau", 1)
    z = pm.Normal("z", 0, 1, shape=8)
    pm.Bernoulli("y", logit_p=X @ beta + tau * z[g], observed=y)


def ordinal():
    rng, X, eta = regressors()
    y = np.searchsorted([-1.0, 1.0], eta + rng.logistic(size=N))
    beta = pm.Normal("beta", 0, 1, shape=3)
    ordered = pm.distributions.transforms.ordered
    cuts = pm.Normal("cuts", 0, 2, shape=2, transform=ordered, initval=[-1, 1])
    pm.OrderedLogistic("y", eta=X @ beta, cutpoints=cuts, observed=y, compute_p=False)


def censored():
    """A potential with an entry a row."""
    rng, X, eta = regressors()
    time = np.exp(eta) * rng.weibull(1.5, N)
    event = (time < 2.0).astype(float)
    time = np.minimum(time, 2.0)
    beta = pm.Normal("beta", 0, 1, shape=3)
    shape = pm.Gamma("shape", 2, 1)
    z = shape * (np.log(time) - X @ beta)
    pm.Potential("y", event * (pm.math.log(shape) + z - np.log(time)) - pm.math.exp(z))


def two_clusters():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(N) < 0.4, rng.normal(-1.5, 0.8, N), rng.normal(1, 0.8, N))
    share = pm.Dirichlet("share", np.ones(2))
    ordered = pm.distributions.transforms.ordered
    means = pm.Normal("means", 0, 2, shape=2, transform=ordered, initval=[-1, 1])
    sigma = pm.HalfNormal("sigma", 1)
    pm.NormalMixture("y", share, means, sigma, observed=y)


def several_sites():
    """Two observed variables, one of two columns, a potential of the prior, and bounds that are
    variables."""
    rng, X, eta = regressors()
    top = pm.Exponential("top", 0.2)
    beta = pm.Normal("beta", 0, 1, shape=3)
    sigma = pm.Uniform("sigma", 0, 3 + top)
    pm.Normal("before", beta[0], 1.0, observed=0.3)
    pm.Potential("penalty", -0.1 * beta[1] ** 2)
    mu = X @ beta
    pm.Normal("y", mu, sigma, observed=eta + rng.normal(size=N))
    pairs = eta[:, None] + 2 * rng.normal(size=(N, 2))
    pm.Normal("pairs", mu[:, None], 2.0, observed=pairs)


TEN = [
    linear,
    student,
    exposed_counts,
    overdispersed,
    zero_inflated,
    grouped,
    ordinal,
    censored,
    two_clusters,
    several_sites,
]


def chain(rows, n=400):
    """Draws, shape (n, p), of the posterior on the rows, unconstrained, by short chains."""
    written = rows._written
    numbers = np.arange(written.n, dtype=float)[:, None]
    every = LikelihoodSums(written, numbers, None, np.ones(written.n))
    few = every.restricted(rows.indices_, rows.weights_, rows.form_)
    pilot, log_prior, _ = find_pilot(few, written.prior, None)
    return pilot.chain(lambda t: few.sums(t) + log_prior(t), n, np.random.default_rng(1))


def of_model(model, theta, variables=None):
    """Log densities that a sampler of PyMC sees, at unconstrained parameters (K, p) of a model's
    variables, which a copy of it has in another order."""
    density = model.compile_logp()
    point = model.initial_point()
    found = []
    for one in theta:
        at = {}
        start = 0
        for variable in variables or model.continuous_value_vars:
            shape = np.shape(point[variable.name])
            size = int(np.prod(shape))
            at[variable.name] = one[start : start + size].reshape(shape)
            start += size
        found.append(float(density(at)))
    return np.array(found)


@pytest.mark.parametrize("written", TEN)
def test_ten_models_get_their_rows_without_a_line_of_likelihood(written):
    with pm.Model() as model:
        written()
    rows = from_pymc(model, random_state=0)
    assert len(rows.indices_) < N / 3
    # the chosen rows alone are in the model
    assert rows._written.slices
    theta = rows.coreset_.modes_[0] + 0.1 * np.random.default_rng(0).normal(
        size=(3, rows._written.p)
    )
    values = rows.log_likelihood(theta)
    prior = rows._written.prior(theta)
    np.testing.assert_allclose(values.sum(1) + prior, of_model(model, theta), rtol=1e-6)
    np.testing.assert_allclose(
        values[:, rows.indices_] @ rows.weights_ + prior,
        of_model(rows.model_, theta, model.continuous_value_vars),
        rtol=1e-6,
    )
    # back and forth
    named = rows._written.constrained(theta[0])
    np.testing.assert_allclose(
        rows._written.flat({name: np.array([value]) for name, value in named.items()})[0],
        theta[0],
        atol=1e-6,
    )
    report = rows.check(chain(rows))
    assert report.variance < 0.01
    assert report.verdict == "use the draws"


def test_draws_of_pymc_are_checked_as_they_are_and_mistakes_are_told():
    with pm.Model() as model:
        linear()
    rows = from_pymc(model, random_state=0)

    def sampled(model):
        with model:
            return pm.sample(
                600,
                tune=400,
                chains=2,
                cores=1,
                random_seed=1,
                progressbar=False,
                initvals=rows.start_,
                compute_convergence_checks=False,
            )

    right = sampled(rows.model_)
    assert "mu" not in right.posterior
    report = rows.check(right)
    assert report.verdict == "use the draws"
    by_name = {name: right.posterior[name].values for name in ("beta", "sigma")}
    assert rows.check(by_name).variance == report.variance
    # the weights are forgotten
    with pm.Model() as forgotten:
        beta = pm.Normal("beta", 0, 1, shape=3)
        sigma = pm.HalfNormal("sigma", 2)
        rng, X, eta = regressors()
        y = eta + rng.normal(size=N)
        pm.Normal("y", X[rows.indices_] @ beta, sigma, observed=y[rows.indices_])
    assert rows.check(sampled(forgotten)).verdict == "refuse"
    # another prior
    with rows.model_:
        pm.Potential("by mistake", -200 * (rows.model_["beta"] ** 2).sum())
    assert rows.check(sampled(rows.model_)).verdict == "refuse"
    # the logarithm of the scale for the scale
    by_name["sigma"] = np.log(by_name["sigma"]) - 1
    with pytest.raises(ValueError, match="outside of the support"):
        rows.check(by_name)


def test_a_model_that_looks_at_all_its_rows_is_right_and_slow():
    rng, X, eta = regressors()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1)
        data = pm.Data("x", X[:, 0])
        x = (data - data.mean()) / data.std()
        pm.Normal("y", beta * x, 1.0, observed=eta + rng.normal(size=N))
    rows = from_pymc(model, random_state=0)
    assert not rows._written.slices
    theta = np.array([[0.7], [0.9]])
    values = rows.log_likelihood(theta)
    prior = rows._written.prior(theta)
    np.testing.assert_allclose(values.sum(1) + prior, of_model(model, theta), rtol=1e-9)
    np.testing.assert_allclose(
        values[:, rows.indices_] @ rows.weights_ + prior,
        of_model(rows.model_, theta, model.continuous_value_vars),
        rtol=1e-9,
    )


def test_what_has_no_rows_is_refused_with_the_reason():
    rng, X, eta = regressors()
    y = eta + rng.normal(size=N)

    def latent_by_row():
        z = pm.Normal("z", 0, 1, shape=N)
        pm.Normal("y", z, 1, observed=y)

    def discrete():
        k = pm.Bernoulli("k", 0.5)
        pm.Normal("y", k, 1, observed=y)

    def subsampled():
        b = pm.Normal("b", 0, 1)
        part = pm.Minibatch(y, batch_size=100)
        pm.Normal("y", b, 1, observed=part, total_size=N)

    def summed():
        b = pm.Normal("b", 0, 1)
        pm.Normal("x", b, 1, observed=X[:, 0])
        pm.Potential("total", -0.5 * ((y - b) ** 2).sum())

    def nothing_observed():
        pm.Normal("b", 0, 1)

    said = {
        latent_by_row: "latent variable 'z' of shape .* one for each row",
        discrete: r"latent variables \['k'\] are discrete: sum them out",
        subsampled: "variable 'y' takes a subsample",
        summed: "term 'total' is of all 1500 rows together",
        nothing_observed: "no observed variable or potential",
    }
    for written, words in said.items():
        with pm.Model() as model:
            written()
        with pytest.raises(ValueError, match=words):
            from_pymc(model)


def gap(values, place, entry):
    changed = np.array(values, float)
    changed[place] = entry
    return changed


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_gaps_imputations_and_indices_are_told_at_once_with_the_data_and_the_row():
    rng, X, eta = regressors()
    y = eta + rng.normal(size=N)
    count = rng.poisson(1.0, N)
    hidden = np.ma.masked_greater(y, 2)

    def observed(y):
        pm.Normal("y", pm.math.dot(X, pm.Normal("beta", 0, 1, shape=3)), 1, observed=y)

    def named(X, y):
        observed_data = pm.Data("outcome", y)
        columns = pm.Data("columns", X)
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Normal("y", pm.math.dot(columns, beta), 1, observed=observed_data)

    def binary(X):
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=(y > 0).astype(int))

    def imputed():
        x = pm.Normal("x", 0, 1, observed=np.ma.masked_invalid(gap(X[:, 0], 3, np.nan)))
        pm.Normal("y", x * pm.Normal("beta", 0, 1), 1, observed=y)

    def groups(g):
        pm.Normal("y", pm.Normal("a", 0, 1, shape=5)[g], 1, observed=y)

    said = [
        (lambda: observed(gap(y, [7, 9], np.nan)), "'y' observes 2 of 1500 .*the first in row 7"),
        (lambda: observed(hidden), f"'y' observes {hidden.mask.sum()} of 1500 entries"),
        (imputed, "'x' observes 1 of 1500 entries .* row 3, .*Latent variables of single rows"),
        (lambda: named(X, gap(y, 7, np.inf)), "the data 'outcome' holds inf in 1 of 1500 .* row 7"),
        (lambda: named(gap(X, (5, 1), np.inf), y), "the data 'columns' holds inf .* row 5"),
        (
            lambda: binary(gap(X, (4, 2), np.nan)),
            r"array of shape \(1500, 3\) in the term 'y' holds",
        ),
        (lambda: groups(1 + np.arange(N) % 5), "index 5 of row 4 lies beyond the end .* 5 entries"),
    ]
    for written, words in said:
        with pm.Model() as model:
            written()
        with pytest.raises(ValueError, match=words):
            from_pymc(model)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Poisson("y", pm.math.exp(pm.math.dot(X, beta)), observed=np.where(count == 3, -1, count))
    with pytest.raises(ValueError, match=r"variable 'y' is not finite .*, which observes -1"):
        from_pymc(model)


def test_groups_are_found_whose_deviation_is_drawn_as_well():
    rng = np.random.default_rng(0)
    n_groups, n = 130, 9000
    X = rng.normal(size=(n, 2))
    group = rng.integers(0, n_groups, n)
    eta = X @ [0.8, -0.5] + 0.8 * rng.normal(size=n_groups)[group]
    y = (rng.random(n) < expit(eta)).astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        tau = pm.HalfNormal("tau", 1)
        effect = pm.Normal("effect", 0, tau, shape=n_groups)
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta) + effect[group], observed=y)
    rows = from_pymc(model, random_state=0)
    few = rows.indices_
    assert len(few) < 0.25 * n
    # as wide as the data say of each parameter by itself
    theta = np.tile(rows.start_["effect"], (50, 1)) + 0.25 * rng.normal(size=(50, n_groups))
    slopes = rows.start_["beta"] + 0.03 * rng.normal(size=(50, 2))
    eta = slopes @ X.T + theta[:, group]
    loglik = y * eta - np.logaddexp(0, eta)
    assert np.var(loglik.sum(1) - loglik[:, few] @ rows.weights_) < 1e-2


def test_rows_and_a_quadratic_form_are_the_model_of_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 30))
    y = (rng.random(3000) < expit(0.2 * X.sum(1) - 2)).astype(int)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        beta = pm.Normal("beta", 0, scale, shape=30)
        pm.Bernoulli("y", logit_p=X @ beta - 2, observed=y)
    rows = from_pymc(model, size=800, remainder="quadratic", random_state=0)
    written = rows._written
    theta = rows.form_.center + 0.1 * np.random.default_rng(0).normal(size=(3, written.p))
    values = rows.log_likelihood(theta)
    few = values[:, rows.indices_] @ rows.weights_ + rows.form_(theta) + written.prior(theta)
    logp = rows.model_.compile_logp()
    names = [v.name for v in written.value_vars]
    seen = [logp(dict(zip(names, written._split(one)))) for one in theta]
    np.testing.assert_allclose(few, seen, rtol=1e-6)
    report = rows.check(chain(rows))
    assert report.variance < 0.1


def test_a_prior_made_of_the_data_stays_that_of_all_rows():
    rng, X, eta = regressors()
    y = 3 + eta + rng.normal(size=N)
    with pm.Model() as model:
        outcome = pm.Data("outcome", y)
        a = pm.Normal("a", outcome.mean(), 1)
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Normal("y", a + pm.math.dot(X, beta), 1, observed=outcome)
    rows = from_pymc(model, random_state=0)
    theta = rows.coreset_.modes_[0] + 0.1 * rng.normal(size=(3, 4))
    by_row = rows.log_likelihood(theta)
    np.testing.assert_allclose(
        by_row[:, rows.indices_] @ rows.weights_ + rows._written.prior(theta),
        of_model(rows.model_, theta, model.continuous_value_vars),
        rtol=1e-6,
    )


def test_numbers_of_trials_are_no_numbers_of_rows():
    rng = np.random.default_rng(0)
    # one of these is the number of rows, of a group that few rows are in
    group = np.zeros(N, int)
    group[3:9] = 1
    trials = np.array([50, N])[group]
    y = rng.binomial(trials, 0.3)
    with pm.Model() as model:
        table = pt.constant(np.array([50, N]))
        p = pm.Beta("p", 1, 1)
        pm.Binomial("y", n=table[group], p=p, observed=y)
    rows = from_pymc(model, random_state=0)
    theta = np.array([[-1.0], [0.3]])
    p = expit(theta)
    np.testing.assert_allclose(
        rows.log_likelihood(theta), binom.logpmf(y, trials, p), rtol=1e-6, atol=1e-8
    )
