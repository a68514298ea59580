"""Rows of NumPyro's models: no line of likelihood, the density that NUTS sees, mistakes that are
told."""

from functools import cache
from unittest import mock

import numpy as np
import pytest

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")

import jax.numpy as jnp
import numpyro.distributions as dist
from handful.matching import from_numpyro, likelihoods, pilot
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.matched_coreset import jumps_of
from handful.matching.numpyro_model import NumPyroModel, in_64_bits
from numpyro import handlers
from numpyro.infer import MCMC, NUTS, init_to_value
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import potential_energy
from scipy import sparse
from scipy.special import expit

N = 1500


def regressors(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    return rng, X, X @ [0.8, -0.5, 0.3]


# Ten models without a line of likelihood ----------------------------------------------------------


def linear(X, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    with numpyro.plate("rows", len(X)):
        numpyro.sample("y", dist.Normal(numpyro.deterministic("mu", X @ beta), sigma), obs=y)


def student(X, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    nu = numpyro.sample("nu", dist.Gamma(2.0, 0.1))
    numpyro.sample("y", dist.StudentT(nu, X @ beta, sigma), obs=y)


def exposed_counts(X, exposure, y=None):
    with numpyro.plate("columns", 3):
        beta = numpyro.sample("beta", dist.Normal(0, 1))
    numpyro.sample("y", dist.Poisson(exposure * jnp.exp(X @ beta)), obs=y)


def overdispersed(data):
    beta = numpyro.sample("beta", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)))
    size = numpyro.sample("size", dist.LogNormal(0.0, 1.0))
    rate = jnp.exp(data["X"] @ beta)
    numpyro.sample("y", dist.NegativeBinomial2(rate, size), obs=data["y"])


def zero_inflated(X, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    gate = numpyro.sample("gate", dist.Beta(1.0, 1.0))
    numpyro.sample("y", dist.ZeroInflatedPoisson(gate, jnp.exp(X @ beta)), obs=y)


def grouped(X, g, n_groups, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("groups", n_groups):
        z = numpyro.sample("z", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta + tau * z[g]), obs=y)


def ordinal(X, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    steps = dist.TransformedDistribution(
        dist.Normal(0, 2).expand([2]), dist.transforms.OrderedTransform()
    )
    cuts = numpyro.sample("cuts", steps)
    numpyro.sample("y", dist.OrderedLogistic(X @ beta, cuts), obs=y)


def censored(X, time, event):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    shape = numpyro.sample("shape", dist.Gamma(2.0, 1.0))
    z = shape * (jnp.log(time) - X @ beta)
    numpyro.factor("y", event * (jnp.log(shape) + z - jnp.log(time)) - jnp.exp(z))


def two_clusters(y):
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    means = numpyro.sample(
        "means",
        dist.TransformedDistribution(
            dist.Normal(0, 2).expand([2]), dist.transforms.OrderedTransform()
        ),
    )
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    mixture = dist.MixtureSameFamily(dist.Categorical(share), dist.Normal(means, sigma))
    numpyro.sample("y", mixture, obs=y)


def several_sites(X, seen, y, pairs, prior_data):
    """Two observed sites, one of two columns and masked, a factor, a scale, and data of a prior."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    sigma = numpyro.sample("sigma", dist.Uniform(0.1, 5.0))
    numpyro.sample("before", dist.Normal(beta[0], 1.0), obs=prior_data)
    with handlers.scale(scale=0.5):
        numpyro.sample("y", dist.Normal(X @ beta, sigma), obs=y)
    columns = numpyro.plate("columns", 2, dim=-1)
    in_rows = numpyro.plate("rows", len(X), dim=-2)
    with columns, in_rows, handlers.mask(mask=seen[:, None]):
        numpyro.sample("pairs", dist.Normal((X @ beta)[:, None], 2.0), obs=pairs)
    numpyro.factor("penalty", -0.1 * beta[1] ** 2 * jnp.abs(X[:, 0]))


def model_and_data(name):
    """A model, its arguments by position and by name."""
    rng, X, eta = regressors()
    groups = rng.integers(0, 8, N)
    if name == "linear":
        return linear, (X, eta + rng.normal(size=N)), {}
    if name == "student":
        return student, (jnp.asarray(X), jnp.asarray(eta + rng.standard_t(4, size=N))), {}
    if name == "exposed_counts":
        exposure = rng.uniform(0.5, 2, N)
        return exposed_counts, (X, exposure), {"y": rng.poisson(exposure * np.exp(eta))}
    if name == "overdispersed":
        data = {"X": X, "y": rng.negative_binomial(2, 1 / (1 + np.exp(eta) / 2))}
        return overdispersed, (data,), {}
    if name == "zero_inflated":
        return zero_inflated, (X, rng.poisson(np.exp(eta)) * (rng.random(N) < 0.7)), {}
    if name == "grouped":
        y = rng.random(N) < expit(eta + 0.7 * rng.normal(size=8)[groups])
        return grouped, (X, groups, 8, y.astype(int)), {}
    if name == "ordinal":
        y = np.searchsorted([-1.0, 1.0], eta + rng.logistic(size=N))
        return ordinal, (X, y), {}
    if name == "censored":
        time = np.exp(eta) * rng.weibull(1.5, N)
        return censored, (X, np.minimum(time, 2.0)), {"event": (time < 2.0).astype(float)}
    if name == "two_clusters":
        first = rng.random(N) < 0.4
        return two_clusters, (np.where(first, rng.normal(-1.5, 0.8, N), rng.normal(1, 0.8, N)),), {}
    pairs = eta[:, None] + 2 * rng.normal(size=(N, 2))
    y = eta + rng.normal(size=N)
    return several_sites, (X, rng.random(N) < 0.8, y, pairs, 0.3), {}


TEN = [
    "linear",
    "student",
    "exposed_counts",
    "overdispersed",
    "zero_inflated",
    "grouped",
    "ordinal",
    "censored",
    "two_clusters",
    "several_sites",
]


@pytest.fixture(autouse=True, scope="module")
def little_optimisation():
    """Nearly all of the time goes into compiling, for models that are small."""
    option = "jax_disable_most_optimizations"
    before = jax.config.read(option)
    jax.config.update(option, True)
    yield
    jax.config.update(option, before)


def chain(rows, n=400):
    """Draws, shape (n, p), of the posterior on the rows, unconstrained: by short chains, not by
    NUTS."""
    written = rows._written
    numbers = np.arange(written.n, dtype=float)[:, None]
    few = LikelihoodSums(written, numbers, None, np.ones(written.n)).restricted(
        rows.indices_, rows.weights_, rows.form_
    )
    found, log_prior, _ = pilot.find_pilot(few, written.prior, None)
    # A step keeps about 97 % of where a chain was, which is forgotten after 200; few rows are not
    # filled up to 256, each of which costs as much.
    with mock.patch.object(pilot, "WARM_UP", 200), mock.patch.object(likelihoods, "LEAST_ROWS", 32):
        return found.chain(lambda t: few.sums(t) + log_prior(t), n, np.random.default_rng(1))


def energies(model, args, kwargs, rows, theta):
    """Minus the log densities, which NUTS sees, of a model at unconstrained parameters (K, p)."""
    with in_64_bits():
        seeded = handlers.seed(model, 0)
        energy = jax.jit(lambda t: potential_energy(seeded, args, kwargs, rows._written.unravel(t)))
        return np.array([float(energy(t)) for t in theta])


@cache
def rows_of(name):
    """What is chosen for one of `TEN`."""
    model, args, kwargs = model_and_data(name)
    return from_numpyro(model, *args, random_state=0, **kwargs)


@pytest.mark.parametrize("name", TEN)
def test_ten_models_get_their_rows_without_a_line_of_likelihood(name):
    model, args, kwargs = model_and_data(name)
    rows = rows_of(name)
    assert len(rows.indices_) < N / 3
    # what NUTS samples is what was matched, with masks, scales and transforms
    theta = rows.coreset_.modes_[0] + 0.1 * np.random.default_rng(0).normal(
        size=(3, rows._written.p)
    )
    values = rows.log_likelihood(theta)
    prior = rows._written.prior(theta)
    every = energies(model, args, kwargs, rows, theta)
    few = energies(rows.model_, rows.args_, rows.kwargs_, rows, theta)
    np.testing.assert_allclose(values.sum(1) + prior, -every, rtol=1e-6)
    np.testing.assert_allclose(values[:, rows.indices_] @ rows.weights_ + prior, -few, rtol=1e-6)
    report = rows.check(chain(rows))
    assert report.variance < 0.01
    assert report.verdict == "use the draws"


def test_draws_are_taken_as_samplers_give_them():
    rows = rows_of("grouped")
    assert "of 1500 rows" in repr(rows)
    kernel = NUTS(rows.model_, init_strategy=init_to_value(values=rows.start_))
    mcmc = MCMC(
        kernel,
        num_warmup=300,
        num_samples=500,
        num_chains=2,
        progress_bar=False,
        chain_method="sequential",
    )
    mcmc.run(jax.random.PRNGKey(0), *rows.args_, **rows.kwargs_)
    by_chain = {name: np.asarray(v) for name, v in mcmc.get_samples(group_by_chain=True).items()}
    report = rows.check(by_chain)
    assert report.verdict in ("use the draws", "make more draws")
    assert rows.check(mcmc).variance == report.variance
    one = rows.check(mcmc.get_samples())
    assert one.variance == pytest.approx(report.variance, rel=1e-6)

    class Tree:
        posterior = by_chain

    assert rows.check(Tree()).variance == report.variance
    # what Laplace gives is named as well, and draws of the posterior once it is weighted
    laplace = rows.laplace_
    assert {name: v.shape[1:] for name, v in laplace.draws.items()} == rows._written.shapes
    np.testing.assert_allclose(
        rows._written.flat(laplace.draws), rows.coreset_.laplace_.draws, atol=1e-6
    )
    mean = laplace.weights @ laplace.draws["beta"]
    deviation = by_chain["beta"].std((0, 1))
    assert (np.abs(mean - by_chain["beta"].mean((0, 1))) < 0.5 * deviation).all()
    theta = np.vstack([np.asarray(rows._written.flat(by_chain)).reshape(1000, -1)])
    assert rows.log_likelihood(by_chain).shape == (1000, N)
    # back and forth
    values = rows._written.constrained(theta[7])
    np.testing.assert_allclose(values["tau"], by_chain["tau"].ravel()[7], rtol=1e-5)


def test_reparametrised_models_and_counts_of_rows_are_understood():
    rng, X, eta = regressors()
    g = rng.integers(0, 6, N)
    y = eta + rng.normal(size=6)[g] + rng.normal(size=N)

    def model(n, X, g, y):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        a = numpyro.sample("a", dist.Normal(0, tau).expand([6]))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(X @ beta + a[g], 1.0), obs=y)

    centred = handlers.reparam(model, config={"a": LocScaleReparam(0)})
    rows = from_numpyro(centred, N, X, g, y, random_state=0)
    assert rows.args_[0] == len(rows.indices_)
    assert set(rows.start_) == {"beta", "tau", "a_decentered"}
    assert rows.check(chain(rows)).verdict == "use the draws"


def many_groups(centred):
    """A model of 150 groups whose deviation is drawn as well."""

    def model(X, g, n_groups, y):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        with numpyro.plate("groups", n_groups):
            z = numpyro.sample("z", dist.Normal(0, tau if centred else 1))
        effect = z if centred else tau * z
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Bernoulli(logits=X @ beta + effect[g]), obs=y)

    return model


@pytest.mark.parametrize("centred", [False, True])
def test_groups_of_a_model_are_found_and_the_rows_are_right_at_draws_of_nuts(centred):
    rng = np.random.default_rng(0)
    n_groups, n = 150, 12_000
    X = rng.normal(size=(n, 3))
    g = rng.integers(0, n_groups, n)
    eta = X @ [0.8, -0.5, 0.3] + 0.8 * rng.normal(size=n_groups)[g]
    y = (rng.random(n) < expit(eta)).astype(int)
    rows = from_numpyro(many_groups(centred), X, g, n_groups, y, random_state=0)
    # many fewer than the 1,829 sums of all pairs of parameters would need for each of two
    assert len(rows.indices_) < 0.2 * n
    kernel = NUTS(rows.model_, init_strategy=init_to_value(values=rows.start_))
    mcmc = MCMC(kernel, num_warmup=150, num_samples=150, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), *rows.args_, **rows.kwargs_)
    draws = {name: np.asarray(v, float) for name, v in mcmc.get_samples().items()}
    effect = draws["z"] if centred else draws["tau"][:, None] * draws["z"]
    eta = draws["beta"] @ X.T + effect[:, g]
    loglik = y * eta - np.logaddexp(0, eta)
    difference = loglik.sum(1) - loglik[:, rows.indices_] @ rows.weights_
    assert np.var(difference) < 1e-2
    assert rows.check(mcmc).verdict != "refuse"
    assert rows.check(draws | {"tau": draws["tau"] * 1.3}).verdict == "refuse"


# Mistakes -----------------------------------------------------------------------------------------


def many_columns(seed=0):
    """A table whose columns have more products than a tenth of its rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 20))
    eta = X @ rng.normal(size=20) * 0.2 - 1
    return X, (rng.random(2000) < expit(eta)).astype(int)


def test_rows_and_a_quadratic_form_are_the_model_of_all_rows():
    X, y = many_columns()

    def model(X, y):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        beta = numpyro.sample("beta", dist.Normal(0, scale).expand([X.shape[1]]))
        alpha = numpyro.sample("alpha", dist.Normal(0, 2))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Bernoulli(logits=X @ beta + alpha), obs=y)

    rows = from_numpyro(model, X, y, size=500, remainder="quadratic", random_state=0)
    # the sampler sees the rows with their weights, the prior and the form, once
    theta = rows.form_.center + 0.1 * np.random.default_rng(0).normal(size=(3, rows._written.p))
    values = rows.log_likelihood(theta)
    few = values[:, rows.indices_] @ rows.weights_ + rows.form_(theta) + rows._written.prior(theta)
    seen = energies(rows.model_, rows.args_, rows.kwargs_, rows, theta)
    np.testing.assert_allclose(few, -seen, rtol=1e-6)
    theta = chain(rows)
    report = rows.check(theta)
    assert report.verdict in ("use the draws", "use the weights", "make more draws")
    # by hand, of all rows; unconstrained parameters stand in the order of their names
    eta = theta[:, 1:-1] @ X.T + theta[:, :1]
    by_row = y * eta - np.logaddexp(0, eta)
    few = by_row[:, rows.indices_] @ rows.weights_ + rows.form_(theta)
    assert report.variance == pytest.approx(np.var(by_row.sum(1) - few), rel=1e-3)
    assert report.variance < 0.1


def test_a_form_at_the_mode_of_a_scaled_model_is_told_to_be_of_no_use():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    g = rng.integers(0, 40, 2000)
    y = (rng.random(2000) < expit(X @ [0.8, -0.5, 0.3])).astype(int)
    model = many_groups(centred=False)
    with pytest.warns(UserWarning, match="too far from a Gaussian for a quadratic form"):
        from_numpyro(model, X, g, 40, y, size=500, remainder="quadratic", random_state=0)


def test_what_has_no_rows_is_refused_with_the_reason():
    rng, X, eta = regressors()
    y = eta + rng.normal(size=N)

    def latent_by_row(X, y):
        with numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(z, 1.0), obs=y)

    def discrete(X, y):
        k = numpyro.sample("k", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(X[:, 0] * k, 1.0), obs=y)

    def subsampled(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y), subsample_size=100) as i:
            numpyro.sample("y", dist.Normal(X[i, 0] * b, 1.0), obs=y[i])

    def summed(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(b, 1.0), obs=X[:, 0])
        numpyro.factor("total", -0.5 * ((y - X[:, 0] * b) ** 2).sum())

    def prior_of_rows(X, y):
        b = numpyro.sample("b", dist.Normal(0, X[:, 0].std()))
        numpyro.sample("y", dist.Normal(X[:, 0] * b, 1.0), obs=y)

    def reads_values(X, y):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([len(np.unique(np.asarray(y) > 0))]))
        numpyro.sample("y", dist.Normal(a[0], 1.0), obs=y)

    def of_fixed_length(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", N):
            numpyro.sample("y", dist.Normal(X[:, 0] * b, 1.0), obs=y)

    def without_prior(X, y):
        b = numpyro.param("b", 0.0)
        numpyro.sample("y", dist.Normal(X[:, 0] * b, 1.0), obs=y)

    def no_rows(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.factor("total", -0.5 * ((y - X[:, 0] * b) ** 2).sum())

    def prior_of_their_number(X, y):
        b = numpyro.sample("b", dist.Normal(0, len(y) ** -0.5))
        numpyro.sample("y", dist.Normal(b * X[:, 0], 1), obs=y)

    def factor_of_their_number(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.factor("penalty", -0.5 * len(y) * b**2)
        numpyro.sample("y", dist.Normal(b * X[:, 0], 1), obs=y)

    said = {
        latent_by_row: "latent variable 'z' of shape .* grows with the rows",
        discrete: "latent variable 'k' is discrete: sum it out",
        subsampled: "plate 'rows' takes a subsample",
        summed: "site 'total' is one number of all rows together",
        prior_of_rows: "the prior of 'b' hangs on the rows",
        prior_of_their_number: "the prior of 'b' hangs on the rows or on their number",
        factor_of_their_number: "site 'penalty' is one number of all rows together",
        reads_values: "reads values of its rows while it is built",
        of_fixed_length: "the number of rows has to come from its arguments",
        without_prior: "parameter 'b' has no prior",
        no_rows: "no observed or factor site of the model has an entry for each row",
    }
    for model, words in said.items():
        with pytest.raises(ValueError, match=words):
            from_numpyro(model, X, y)
    with pytest.raises(ValueError, match="no observed or factor site"):
        from_numpyro(lambda: linear(X, y))
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="arguments of a NumPyro model must be arrays"):
        from_numpyro(linear, pandas.DataFrame(X), y)


def test_a_prior_that_rows_in_the_middle_move_is_refused():
    rng = np.random.default_rng(0)
    is_rare = np.zeros(N)
    is_rare[100:110] = 1

    def model(is_rare, y):
        b = numpyro.sample("b", dist.Normal(is_rare.mean(), 1))
        numpyro.sample("y", dist.Normal(b, 1), obs=y)

    with pytest.raises(ValueError, match="the prior of 'b' hangs on the rows"):
        from_numpyro(model, is_rare, rng.normal(size=N))


def test_an_observation_that_was_forgotten_is_asked_for():
    _, X, _ = regressors()

    def forgotten(X):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta))

    with pytest.raises(ValueError, match=r"'y' is discrete: .*if it is observed, give it obs="):
        from_numpyro(forgotten, X)


def test_arrays_of_another_length_serve_the_users_chains_afterwards():
    rng, X, _ = regressors()
    y = rng.integers(0, 2, N)
    few = rng.normal(0.3, 1.0, 50)

    def two_lengths(X, y, few):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))
        center = numpyro.sample("center", dist.Normal(0, 1))
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)
        numpyro.sample("few", dist.Normal(center, 1.0), obs=few)

    rows = from_numpyro(two_lengths, X, y, few, random_state=0)
    for model, args in ((rows.model_, rows.args_), (two_lengths, (X, y, few))):
        mcmc = MCMC(NUTS(model), num_warmup=5, num_samples=5, progress_bar=False)
        mcmc.run(jax.random.PRNGKey(0), *args)
        assert np.isfinite(mcmc.get_samples()["center"]).all()


def test_a_model_that_looks_at_its_block_is_named():
    rng, X, eta = regressors()

    def standardises(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        x = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
        numpyro.sample("y", dist.Normal(x * b, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"alone .* in company"):
        from_numpyro(standardises, X, eta + rng.normal(size=N))


def test_parameters_are_named_in_messages_by_their_site_and_element():
    rng, X, _ = regressors()

    def steps(X, y):
        cuts = numpyro.sample("cuts", dist.Uniform(-2, 2).expand([2]))
        level = numpyro.sample("level", dist.Normal(0, 1))
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
        mean = level * (X[:, 0] > cuts[1]) + share[0] * cuts[0]
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    y = 2 * (X[:, 0] > 0.3) + rng.normal(size=N)
    written = NumPyroModel(steps, (X, y), {})
    assert written.named(range(5)) == "parameters cuts[0], cuts[1], level, share, share"
    assert written.named([2]) == "parameter level"
    rows = LikelihoodSums(written, np.arange(float(N))[:, None], None, np.ones(N))
    assert jumps_of(rows, written.near[None]) == [1]


def test_gaps_and_impossible_observations_are_named_with_their_argument_and_first_row():
    rng, X, eta = regressors()
    y = eta + rng.normal(size=N)

    def with_entry(values, place, entry):
        changed = np.array(values, float)
        changed[place] = entry
        return changed

    def masked(X, y):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
        with handlers.mask(mask=~jnp.isnan(y)):
            numpyro.sample("y", dist.Normal(X @ beta, 1.0), obs=y)

    def counts(data):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
        numpyro.sample("y", dist.Poisson(jnp.exp(data["X"] @ beta)), obs=data["y"])

    def events(X, y):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)

    event = rng.integers(0, 2, N)
    count = rng.poisson(1.0, N)
    X_gap = with_entry(X, (9, 1), np.nan)
    cases = [
        (
            linear,
            (X, with_entry(y, [7, 30], np.nan)),
            "argument y holds NaN in 2 of 1500 rows, .*7",
        ),
        (linear, (X, with_entry(y, 7, np.inf)), "argument y holds inf in 1 of 1500 rows, .*row 7"),
        (counts, ({"X": X_gap, "y": count},), r"argument data\['X'\] holds NaN in 1 .* row 9"),
        (
            counts,
            ({"X": X, "y": with_entry(count, [4, 5], -1)},),
            "site 'y' is not finite in 2 of 1500 rows .* row 4, which observes -1.0",
        ),
        # The log-likelihood of such a row is finite at zero, and has no slope.
        (events, (with_entry(X, (9, 1), np.inf), event), "argument X holds inf in 1 .* row 9"),
        # a gap that is masked is not the reason
        (masked, (with_entry(X, (9, 1), np.nan), with_entry(y, 7, np.nan)), "argument X holds NaN"),
    ]
    for model, args, words in cases:
        with pytest.raises(ValueError, match=words):
            from_numpyro(model, *args)
    assert from_numpyro(masked, X, with_entry(y, 7, np.nan), random_state=0).kl_ < 1e-3
    with pytest.raises(ValueError, match=r"argument y hides .* entries, the first in row"):
        from_numpyro(linear, X, np.ma.masked_greater(y, 1))


def test_arrays_from_outside_and_shapes_are_told_by_their_names():
    rng, X, eta = regressors()
    y = eta + rng.normal(size=N)

    def outside(y):
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(X @ beta, 1.0), obs=y)

    def outside_beside_a_module(y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(jnp.exp(X[:, 0] * b), 1.0), obs=y)

    def in_a_helper(y):
        numpyro.sample("y", dist.Normal(mean(numpyro.sample("b", dist.Normal(0, 1))), 1.0), obs=y)

    def mean(b):
        return X[:, 0] * b

    def a_set(X, g, y):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([len(set(g))]))
        numpyro.sample("y", dist.Normal(a[g], 1.0), obs=y)

    def unknown(X, y):
        numpyro.sample("y", dist.Normal(X[:, 0], 1.0), obs=y)

    def looked_up(X, table, g, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(X[:, 0] * b * table[g], 1.0), obs=y)

    said = [
        (outside, (y,), "the model reads X, of all 1500 rows, from outside of its arguments"),
        (outside_beside_a_module, (y,), "the model reads X, of all 1500 rows, from outside"),
        (in_a_helper, (y,), r"the model reads an array of shape \(1500,\), of all 1500 rows"),
        (linear, (X, y[:-5]), r"X of shape \(1500, 3\), y of shape \(1495,\): .*to run by itself"),
        (linear, (X,), "X of shape .*missing 1 required positional argument: 'y'"),
        (linear, (X, y[:, None]), r"give y.ravel\(\)"),
        (a_set, (X, np.arange(N) % 5, y), "reads values of its rows while it is built"),
        (unknown, (X, y), "no latent variable"),
        (linear, (X[:1], y[:1]), "of two rows or more"),
        (linear, (X[:40], y[:40].tolist()), r"y is a list of 40 entries, .*: np.asarray\(y\)"),
        (looked_up, (X, np.ones(N), np.arange(N)[::-1], y), "a table that rows look things up in"),
        (looked_up, (X, y, np.arange(N), y), "in company of other rows, .* a table that rows look"),
    ]
    for model, args, words in said:
        with pytest.raises(ValueError, match=words):
            from_numpyro(model, *args)
    for args, words in [
        ((linear, X, y.tolist()), r"a list of 1500 rows: give np.asarray\(y\)"),
        ((linear, X, y.astype(str)), "argument y must hold numbers, got an array of <U"),
        ((linear, sparse.csr_array(X), y), r"got X sparse of shape .*: give X.toarray\(\)"),
        ((NUTS(linear), X, y), "model must be a function that calls numpyro.sample, got NUTS"),
    ]:
        with pytest.raises(TypeError, match=words):
            from_numpyro(*args)


def test_three_mistakes_with_draws_are_told():
    model, args, _ = model_and_data("linear")
    rows = rows_of("linear")

    def sampled(model):
        mcmc = MCMC(NUTS(model), num_warmup=300, num_samples=600, progress_bar=False)
        mcmc.run(jax.random.PRNGKey(1), *rows.args_, **rows.kwargs_)
        return mcmc.get_samples()

    right = sampled(rows.model_)
    assert rows.check(right).verdict == "use the draws"
    # the weights are forgotten
    assert rows.check(sampled(model)).verdict == "refuse"
    # weights around the whole model scale its priors as well
    prior_too = handlers.scale(model, scale=jnp.asarray(50.0))
    assert rows.check(sampled(prior_too)).verdict == "refuse"
    # the logarithm of the scale for the scale
    wrong = dict(right, sigma=np.log(right["sigma"]) - 1)
    with pytest.raises(ValueError, match=r"outside of the support .*sigma"):
        rows.check(wrong)
    with pytest.raises(ValueError, match=r"none of \['sigma'\]"):
        rows.check({"beta": right["beta"]})
    with pytest.raises(ValueError, match=r"unconstrained .* beta\[2\], sigma \(p = 4\), got"):
        rows.check(np.ones((500, 3)))
    with pytest.raises(ValueError, match="the sampler has not run"):
        rows.check(MCMC(NUTS(rows.model_), num_warmup=1, num_samples=1))
    with pytest.raises(ValueError, match=r"'y' has 1500 entries for .* weights: .* model that you"):
        handlers.seed(rows.model_, 0)(*args)
    with pytest.raises(ValueError, match="draws of beta must have shape"):
        rows.check(dict(right, beta=right["beta"][:, :2]))
    with pytest.raises(TypeError, match="draws must be a dict"):
        rows.check([1, 2, 3])


def test_arrays_that_change_afterwards_change_no_log_likelihood():
    model, (X, y), _ = model_and_data("linear")
    given = X.copy()
    rows = from_numpyro(model, given, y, random_state=0)
    draws = {name: values[:5] for name, values in rows.laplace_.draws.items()}
    before = np.asarray(rows.log_likelihood(draws))
    given *= 2
    np.testing.assert_array_equal(rows.log_likelihood(draws), before)


def test_masked_observations_are_told_to_leave():
    y = np.random.default_rng(0).normal(size=800)

    def masked(mask, y):
        a = numpyro.sample("a", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(a, 1.0), obs=y, obs_mask=mask)

    with pytest.raises(ValueError, match=r"obs_mask makes .* leave these out"):
        from_numpyro(masked, y < 1, y)


def test_an_argument_may_be_longer_than_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X.sum(1) + rng.normal(size=400)
    grid = np.linspace(0, 1, 600)

    def model(X, grid, y):
        b = numpyro.sample("b", dist.Normal(0, jnp.ones(3)).to_event(1))
        numpyro.factor("soft", -(grid @ grid) * b[0] ** 2 / 1000)
        numpyro.sample("y", dist.Normal(X @ b, 1.0), obs=y)

    rows = from_numpyro(model, X, grid, y)
    assert rows.indices_.max() < 400
    assert rows.weights_.sum() == pytest.approx(400)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_constraint_that_is_impossible_at_the_trial_does_not_hang_on_rows(sign):
    def ordered(y):
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.factor("order", jnp.log(sign * (b - a)))
        numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)

    y = np.random.default_rng(0).normal(size=800)
    assert len(from_numpyro(ordered, y).indices_) < 800


def test_a_site_that_hangs_on_the_number_of_rows_is_refused():
    rng, X, eta = regressors()
    y = eta + rng.normal(size=N)

    def blocks(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(X @ b, 1.0), obs=y)
        for k in range(len(y) // 500):
            some = slice(500 * k, 500 * (k + 1))
            numpyro.sample(f"total{k}", dist.Normal((X[some] @ b).sum(), 1), obs=y[some].sum())

    def penalty(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(X @ b, 1.0), obs=y)
        if len(y) < 100:
            numpyro.factor("few", -(b**2).sum())

    def latents(X, y):
        shifts = [numpyro.sample(f"a{k}", dist.Normal(0, 1)) for k in range(len(y) // 500)]
        numpyro.sample("y", dist.Normal(X[:, 0] + sum(shifts), 1.0), obs=y)

    for model, name in ((blocks, "total0"), (penalty, "few"), (latents, "a0")):
        with pytest.raises(ValueError, match=f"the site '{name}' is there on .* not on both"):
            from_numpyro(model, X, y)


def test_draws_may_be_an_array_of_jax_and_an_argument_may_be_empty():
    rng, X, eta = regressors()
    y = eta + rng.normal(size=N)

    def model(X, y, extra):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(X @ b, 1.0), obs=y)

    rows = from_numpyro(model, X, y, np.zeros(0), random_state=0)
    theta = rows.coreset_.modes_[0] + 0.02 * rng.normal(size=(200, 3))
    with in_64_bits():
        np.testing.assert_array_equal(
            rows.log_likelihood(jnp.asarray(theta)), rows.log_likelihood(theta)
        )
    with pytest.raises(ValueError, match="argument y holds NaN in 1 of 1500 rows"):
        from_numpyro(model, X, np.where(np.arange(N) == 7, np.nan, y), np.zeros(0))


def test_products_of_single_precision_are_no_company_of_other_rows():
    rng = np.random.default_rng(0)
    X = jnp.asarray(rng.normal(size=(400, 50)), jnp.float32)
    W = jnp.asarray(rng.normal(size=(50, 8)), jnp.float32)

    def model(X, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([8]).to_event(1))
        numpyro.sample("y", dist.Normal(jnp.tanh(X @ W) @ b, 1.0), obs=y)

    assert from_numpyro(model, X, rng.normal(size=400), random_state=0).kl_ < 1e-3
