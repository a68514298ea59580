"""A handful that is the posterior: divergence from the posterior of all rows, for six models,
tables and a protocol."""

import os
import time
import warnings

import numpy as np
from handful import Logistic, MatchedCoreset
from handful.data import load
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import likelihood
from handful.matching.pilot import find_pilot
from handful.models import Poisson
from handful.models.links import Link
from scipy.special import expit, gammaln, log_expit, logsumexp
from scipy.stats import gaussian_kde

from handful_papers.claims import Evidence

MODELS = (
    "poisson",
    "student",
    "groups",
    "negative binomial",
    "nonlinear",
    "mixture",
)


def student(theta, X, y):
    """Student's t with unknown scale and degrees of freedom, whose logarithms stand last."""
    nu = np.exp(theta[:, -1:]) + 1
    z = (y - theta[:, :-2] @ X.T) * np.exp(-theta[:, -2:-1])
    scale = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - theta[:, -2:-1]
    return scale - (nu + 1) / 2 * np.log1p(z**2 / nu)


def poisson(theta, X, y):
    """Poisson regression with a log link."""
    eta = theta @ X.T
    return y * eta - np.exp(eta)


def logistic(theta, X, y):
    """Logistic regression."""
    eta = theta @ X.T
    return y * eta - np.logaddexp(0, eta)


def negative_binomial(theta, X, y):
    """Negative binomial regression; the logarithm of the dispersion stands last."""
    eta = theta[:, :-1] @ X.T
    size = np.exp(theta[:, -1:])
    count = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
    return count + size * np.log(size) + y * eta - (y + size) * np.logaddexp(eta, np.log(size))


def nonlinear(theta, X, y):
    """A saturating curve of the first column."""
    level, log_height, log_slope, shift, log_sd = np.split(theta, 5, axis=1)
    curve = np.tanh(X[:, 0] * np.exp(log_slope) + shift)
    fit = level + np.exp(log_height) * curve
    return -0.5 * ((y - fit) * np.exp(-log_sd)) ** 2 - log_sd


def mixture(theta, X):
    """Two Gaussians: means, logarithms of deviations, log odds of the first."""
    first_mean, second_mean, first_log_sd, second_log_sd, log_odds = np.split(theta, 5, axis=1)
    x = X[:, 0]
    first = -0.5 * ((x - first_mean) * np.exp(-first_log_sd)) ** 2 - first_log_sd
    second = -0.5 * ((x - second_mean) * np.exp(-second_log_sd)) ** 2 - second_log_sd
    return np.logaddexp(log_expit(log_odds) + first, log_expit(-log_odds) + second)


class SoftplusPoisson(Poisson):
    """Poisson regression whose rate is log(1 + exp(eta)), as in Chen and Campbell 2024."""

    def link(self, n_outputs):
        """As `Poisson.link`."""
        return SoftplusLink()


class SoftplusLink(Link):
    """Counts whose rate is log(1 + exp(Z)), which is not the canonical link."""

    def loss(self, Z, Y):
        """As `Link.loss`."""
        rate = np.maximum(np.logaddexp(0, Z), 1e-300)
        return (rate - Y * np.log(rate))[:, 0]

    def derivatives(self, Z, Y):
        """As `Link.derivatives`."""
        p = expit(Z)
        rate = np.maximum(np.logaddexp(0, Z), 1e-300)
        slope = (1 - Y / rate) * p
        curvature = slope * (1 - p) + Y * (p / rate) ** 2
        return slope, curvature[:, :, None]


def generated(model, n, seed):
    """Rows of one of `MODELS`: log-likelihood, X, y and where a search for the mode may start."""
    rng = np.random.default_rng([seed, MODELS.index(model)])
    X = np.column_stack([rng.standard_t(5, size=(n, 8)) / np.sqrt(5 / 3), np.ones(n)])
    b = rng.normal(size=9) * 0.4
    if model == "poisson":
        y = rng.poisson(np.exp(np.clip(0.6 * X @ b, -8, 4)))
        return poisson, X, y.astype(float), np.zeros(9)
    if model == "student":
        return student, X, X @ b + 0.7 * rng.standard_t(3, size=n), np.zeros(11)
    if model == "negative binomial":
        mean = np.exp(np.clip(0.5 * X @ b, -5, 5))
        y = rng.negative_binomial(2, 1 / (1 + mean / 2))
        return negative_binomial, X, y.astype(float), np.zeros(10)
    if model == "groups":
        group = rng.integers(0, 20, n)
        eta = X[:, :5] @ b[:5] + 0.8 * rng.normal(size=20)[group]
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
        return (
            logistic,
            np.column_stack([X[:, :5], np.eye(20)[group]]),
            y,
            np.zeros(25),
        )
    if model == "nonlinear":
        curve = b[0] + abs(b[1]) * np.tanh(1.5 * X[:, 0])
        return nonlinear, X, curve + 0.3 * rng.normal(size=n), np.zeros(5)
    x = np.where(rng.random(n) < 0.35, rng.normal(-1, 0.7, n), rng.normal(1.2, 0.9, n))
    return mixture, x[:, None], None, np.array([-1.0, 1.0, -0.3, -0.3, -0.5])


def table(dataset, n, seed, columns=None):
    """At most n rows of a data set, standardised, and whether they are of the most frequent
    class."""
    data = load(dataset)
    dense = data.X.todense() if hasattr(data.X, "todense") else data.X
    X = np.asarray(dense, float)[:, :columns]
    codes = np.unique(data.y, return_inverse=True)[1]
    rows = np.random.default_rng(seed).permutation(len(X))[:n]
    X = X[rows]
    y = (codes == np.bincount(codes).argmax())[rows].astype(int)
    X = X[:, X.std(0) > 0]
    return (X - X.mean(0)) / X.std(0), y


class Truth:
    """A posterior, by draws of a multivariate t around its mode that are weighted over all of its
    rows."""

    def __init__(
        self,
        problem,
        X,
        y,
        prior,
        start,
        rng,
        n_draws,
        weights=None,
        freedom=20,
    ):
        self.asked = dict(problem=problem, prior=prior, start=start, n_draws=n_draws)
        self.X = X
        self.y = y
        model, target = likelihood(problem, y)
        self.rows = LikelihoodSums(
            model, X, target, np.ones(len(X)) if weights is None else weights
        )
        self.pilot, self.log_prior, counts = find_pilot(self.rows, prior, start)
        self.n_terms = len(counts) + np.count_nonzero(np.tril(counts))
        d = len(counts)
        chi = np.sqrt(rng.chisquare(freedom, (n_draws, 1)) / freedom)
        self.z = rng.standard_normal((n_draws, d)) / chi
        self.theta = self.pilot.modes[0] + self.z @ self.pilot.roots[0].T
        self.proposal = -0.5 * (freedom + d) * np.log1p((self.z**2).sum(1) / freedom)
        self.proposal -= np.linalg.slogdet(self.pilot.roots[0])[1]
        self.full = self.of(self.theta)
        self.weights = self.normalised(self.full)

    def normalised(self, log_density):
        """Weights of the draws for a density that is known up to a constant."""
        log_weights = log_density - self.proposal
        return np.exp(log_weights - logsumexp(log_weights))

    def of(self, theta):
        """Log density at other parameters, up to the constant that `log_z` is."""
        return self.rows.sums(theta) + self.log_prior(theta)

    def of_rows(self, indices, weights):
        """Log density of the posterior of some weighted rows, at the draws, up to a constant."""
        return self.rows.restricted(indices, weights).sums(self.theta) + self.log_prior(self.theta)

    def log_z(self, log_density=None):
        """Logarithm of the integral of a density, this posterior's own if None, up to what all of
        its size share."""
        if log_density is None:
            log_density = self.full
        return logsumexp(log_density - self.proposal) - np.log(len(self.z))

    def divergence(self, log_density, log_z=None):
        """Divergence from this posterior to another, in nats; `log_z` is for one that lies
        elsewhere."""
        if log_z is None:
            log_z = self.log_z(log_density)
        return float(self.weights @ (self.full - log_density) - self.log_z() + log_z)

    def moments(self, log_density):
        """Mean and covariance of a density."""
        w = self.normalised(log_density)
        mean = w @ self.theta
        centred = self.theta - mean
        return mean, (centred.T * w) @ centred


def problem_of(what, n, seed, columns):
    """Problem, X, y, start and prior of a model, a table or the protocol: see `posterior_rows`."""
    if what in MODELS:
        return *generated(what, n, seed), 2.0
    if what == "bike_poisson":
        data = load("bike_poisson")
        return (
            SoftplusPoisson(fit_intercept=False),
            data.X,
            data.y.astype(float),
            None,
            1.0,
        )
    return Logistic(), *table(what, n, seed, columns), None, 1.0


def random_rows(truth, rng):
    """3,000 random rows, of few a third, that stand for all by their weights: how many, and their
    posterior."""
    n = len(truth.X)
    few = rng.choice(n, min(3000, n // 3), replace=False)
    weights = np.full(len(few), n / len(few))
    y = None if truth.y is None else truth.y[few]
    return len(few), Truth(X=truth.X[few], y=y, rng=rng, weights=weights, **truth.asked)


def posterior_rows(
    what,
    seed,
    *,
    n,
    n_draws,
    multiples,
    columns=None,
):
    """Rows of one model, table or protocol: a dict for each number of matched rows, and for each
    control.

    Parameters
    ----------
    what : one of `MODELS`, a data set of the registry (logistic regression), or "bike_poisson" (the
        published protocol)
    seed : int
    n : int, rows at most
    n_draws : int, that tell the divergence
    multiples : list of float; as many equations as so many times the first- and second-order terms,
        and one
    columns : int or None, the columns of a table that are used, at most
    """
    rng = np.random.default_rng([seed, 7])
    problem, X, y, start, prior = problem_of(what, n, seed, columns)
    truth = Truth(
        problem,
        X,
        y,
        prior,
        start,
        rng,
        n_draws,
    )
    same = dict(
        what=what,
        n=len(X),
        d=truth.theta.shape[1],
        n_terms=truth.n_terms,
        n_effective=1 / (truth.weights**2).sum(),
    )
    found = []

    def add(method, rows, kl, **more):
        found.append(
            same
            | dict(
                method=method,
                rows=rows,
                **more,
                kl=kl,
            )
        )

    add("laplace", 0, truth.divergence(-0.5 * (truth.z**2).sum(1)))
    m, random = random_rows(truth, rng)
    add("uniform", m, truth.divergence(random.of(truth.theta), random.log_z()))
    for multiple in multiples:
        start_time = time.process_time()
        selector = MatchedCoreset(
            problem,
            at="posterior",
            size=int(multiple * truth.n_terms) + 1,
            prior=prior,
            start=start,
            random_state=seed,
        )
        with warnings.catch_warnings():
            # What too few equations cost is what the least of the multiples is there to measure.
            warnings.filterwarnings("ignore", message=r"\d+ rows are fewer than")
            matched = selector.fit(X, y)
        seconds = time.process_time() - start_time
        density = truth.of_rows(matched.indices_, matched.weights_)
        w = truth.normalised(density)
        draws = truth.theta[rng.choice(n_draws, 1000, p=w)]
        add(
            "matched",
            len(matched.indices_),
            truth.divergence(density),
            multiple=multiple,
        )
        row = found[-1]
        row["kl_estimated"] = matched.kl_
        row["seconds"] = seconds
        row["verdict"] = matched.check(draws, X, y).verdict
        if what == "bike_poisson":
            stan = data_moments()
            row["kl_stan"] = two_moments(truth.moments(density), stan)
            row["kl_stan_all"] = two_moments(truth.moments(truth.full), stan)
    return found


def marginal_rows(
    what,
    seed,
    *,
    n,
    n_draws,
    columns=None,
    n_points=121,
):
    """The marginal of the coefficient that is largest at the mode, a dict for each method and point
    of its axis.

    Parameters
    ----------
    what, n, n_draws, columns : as in `posterior_rows`; the rows are matched at `MatchedCoreset`'s
        own choice of size
    n_points : int, over four standard deviations around the means of all methods
    """
    rng = np.random.default_rng([seed, 8])
    problem, X, y, start, prior = problem_of(what, n, seed, columns)
    truth = Truth(
        problem,
        X,
        y,
        prior,
        start,
        rng,
        n_draws,
    )
    selector = MatchedCoreset(
        problem,
        at="posterior",
        prior=prior,
        start=start,
        random_state=seed,
    )
    matched = selector.fit(X, y)
    m, random = random_rows(truth, rng)
    of_matched = truth.normalised(truth.of_rows(matched.indices_, matched.weights_))
    which = int(np.argmax(np.abs(truth.pilot.modes[0])))
    draws = {
        "full": (len(X), truth.theta[:, which], truth.weights),
        "matched": (len(matched.indices_), truth.theta[:, which], of_matched),
        "uniform": (m, random.theta[:, which], random.weights),
    }
    ends = []
    for _, x, w in draws.values():
        mean = w @ x
        deviation = np.sqrt(w @ (x - mean) ** 2)
        ends += [mean - 4 * deviation, mean + 4 * deviation]
    grid = np.linspace(min(ends), max(ends), n_points)
    same = dict(
        what="marginal",
        n=len(X),
        d=truth.theta.shape[1],
        n_terms=truth.n_terms,
    )
    found = []
    for method, (size, x, w) in draws.items():
        heights = gaussian_kde(x, weights=w)(grid)
        for i, (at, height) in enumerate(zip(grid, heights)):
            found.append(
                same
                | dict(
                    method=method,
                    rows=size,
                    point=i,
                    x=at,
                    density=height,
                )
            )
    return found


def data_moments():
    """Mean and covariance of Stan's draws of the protocol's posterior (Chen and Campbell 2024)."""
    data = load("bike_poisson")
    return data.extra["stan_mean"], data.extra["stan_cov"]


def two_moments(a, b):
    """Divergence between the Gaussians of two means and covariances, KL(a || b), in nats."""
    inverse = np.linalg.inv(b[1])
    move = a[0] - b[0]
    ratio = inverse @ a[1]
    _, log_determinant = np.linalg.slogdet(ratio)
    twice = np.trace(ratio) - len(move) + move @ inverse @ move - log_determinant
    return float(0.5 * twice)


# --- Hamiltonian Monte Carlo


def chain_rows(
    seed,
    *,
    n,
    d,
    n_warmup,
    n_draws,
    everything,
):
    """NUTS (NumPyro) for logistic regression on generated rows: on the matched rows, and on all: a
    dict for each.

    A chain on ten rows comes first, untimed: what JAX takes once in a process, to start, belongs to
    neither arm. What it takes to compile a chain for its number of rows is in the seconds of both.

    Parameters
    ----------
    seed : int
    n, d : int, rows and columns
    n_warmup, n_draws : int
    everything : bool, whether a chain on all rows is run, too
    """
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS, init_to_value

    numpyro.enable_x64()
    rng = np.random.default_rng(seed)
    apart = rng.standard_t(5, size=(n, d))
    X = apart @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / np.sqrt(d))
    X = (X - X.mean(0)) / X.std(0)
    uniform = rng.random(n)
    chances = 1 / (1 + np.exp(2 - X @ rng.normal(size=d) * 0.5))
    y = (uniform < chances).astype(int)
    start = time.process_time()
    matched = MatchedCoreset(
        Logistic(),
        at="posterior",
        random_state=seed,
    ).fit(X, y)
    choosing = time.process_time() - start

    def model(A, y, w):
        prior = numpyro.distributions.Normal(0, 1).expand([d + 1]).to_event(1)
        theta = numpyro.sample("theta", prior)
        eta = A @ theta
        terms = y * eta - jax.numpy.logaddexp(0.0, eta)
        numpyro.factor("likelihood", (w * terms).sum())

    def chain(X, y, w):
        at_the_mode = init_to_value(values={"theta": matched.modes_[0]})
        kernel = NUTS(model, dense_mass=True, init_strategy=at_the_mode)
        run = MCMC(
            kernel,
            num_warmup=n_warmup,
            num_samples=n_draws,
            progress_bar=False,
        )
        A = np.column_stack([X, np.ones(len(X))])
        start = time.process_time()
        run.run(jax.random.PRNGKey(seed), A, y, w)
        return np.asarray(run.get_samples()["theta"]), time.process_time() - start

    # This starts JAX.
    chain(X[:10], y[:10], np.ones(10))
    draws, seconds = chain(*matched.take(X, y))
    said = matched.check(draws, X, y)
    same = dict(what="NUTS", n=n, d=d + 1)
    row = dict(
        method="matched",
        rows=len(matched.indices_),
        seconds=choosing,
        chain=seconds,
        kl=said.kl,
        verdict=said.verdict,
        n_effective=said.n_effective,
        pareto_k=said.pareto_k,
    )
    found = [same | row]
    if everything:
        _, seconds = chain(X, y, np.ones(n))
        found.append(same | dict(method="full", rows=n, chain=seconds))
    return found


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    twice = rows[(rows.method == "matched") & (rows.multiple == 2)]
    told = rows[(rows.method == "matched") & (rows.what != "NUTS") & (rows.kl > 1e-8)]
    divergences = {what: one.kl.to_numpy() for what, one in twice.groupby("what")}
    # A half to twice the truth.
    near = (told.kl_estimated / told.kl - 1.25).abs() < 0.75
    return {
        "own-posterior-divergence": divergences,
        "own-posterior-estimate": near.astype(float).to_numpy(),
        "own-posterior-seconds": _chains(rows[rows.what == "NUTS"]),
    }


def _chains(rows):
    """Seconds of a chain on all rows over those of one on the matched rows, one value a seed."""
    if "full" not in set(rows.method):
        return Evidence(lacks="this profile runs no chain on all rows")
    wide = rows.pivot_table(index="seed", columns="method", values="chain")
    return {"": (wide["full"] / wide["matched"]).to_numpy()}
