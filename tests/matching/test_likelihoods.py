"""Matched rows of any `Problem`: its losses are log-likelihoods with a minus."""

import numpy as np
import pytest
from handful import BilevelCoreset, Logistic, MatchedCoreset
from handful.models import GaussianMixture, Joint, Network, Poisson, Problem
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression, Ridge

N = 500


class ByHand(Problem):
    """Poisson regression without an intercept."""

    l2: float = 1e-2

    def losses(self, theta, X, y):
        return np.exp(X @ theta) - y * (X @ theta)

    def gradients(self, theta, X, y):
        return (np.exp(X @ theta) - y)[:, None] * X

    def hessian(self, theta, X, y, weights):
        return (X.T * (weights * np.exp(X @ theta))) @ X + self.l2 * np.eye(X.shape[1])


class InTorch(Problem):
    """The same, of one row, in torch."""

    l2: float = 1e-2

    def loss(self, theta, x, y):
        return (x @ theta).exp() - y * (x @ theta)


class Softmax(Problem):
    """Multinomial regression without intercepts, labels as they come."""

    l2: float = 1e-2
    classifies = True

    def encode(self, y):
        return np.unique(y, return_inverse=True)[1]

    def start(self, X, y):
        return np.zeros(3 * X.shape[1])

    def losses(self, theta, X, y):
        return -log_softmax(X @ theta.reshape(3, -1).T, axis=1)[np.arange(len(X)), y]

    def gradients(self, theta, X, y):
        first = softmax(X @ theta.reshape(3, -1).T, axis=1) - np.eye(3)[y]
        return (first[:, :, None] * X[:, None]).reshape(len(X), -1)

    def hessian(self, theta, X, y, weights):
        P = softmax(X @ theta.reshape(3, -1).T, axis=1)
        second = P[:, :, None] * (np.eye(3) - P[:, None])
        H = np.einsum("n,nab,ni,nj->aibj", weights, second, X, X)
        return H.reshape(len(theta), -1) + self.l2 * np.eye(len(theta))


@pytest.fixture
def counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, rng.poisson(np.exp(X @ [0.5, -0.5, 0.2]))


def posterior(problem, X, y, n_draws=1000):
    """Draws of about the posterior of all rows under N(0, 1) priors, and its mode."""
    theta = np.zeros(X.shape[1])
    ones = np.ones(len(X))
    for _ in range(30):
        H = problem.hessian(theta, X, y, ones) + (1 - problem.l2) * np.eye(len(theta))
        theta = theta - np.linalg.solve(H, ones @ problem.gradients(theta, X, y) + theta)
    root = np.linalg.cholesky(np.linalg.inv(H))
    return theta + np.random.default_rng(1).normal(size=(n_draws, len(theta))) @ root.T, theta


@pytest.mark.parametrize("problem", [ByHand(), InTorch()], ids=lambda p: type(p).__name__)
def test_rows_of_a_problem_have_its_posterior(counts, problem):
    X, y = counts
    matched = MatchedCoreset(problem, at="posterior", random_state=0).fit(X, y)
    assert len(matched.indices_) <= 19
    assert matched.kl_ < 1e-3
    draws, mode = posterior(ByHand(), X, y)
    np.testing.assert_allclose(matched.modes_[0], mode, atol=1e-6)
    values = -np.array([ByHand().losses(theta, X, y) for theta in draws[:50]])
    np.testing.assert_allclose(matched.log_likelihood(draws[:50], X, y), values)
    difference = values.sum(1) - values[:, matched.indices_] @ matched.weights_
    assert difference.var() < 1e-2
    assert matched.check(draws, X, y).verdict == "use the draws"
    assert matched.check(draws + 1.0, X, y).verdict == "refuse"


def test_many_draws_do_not_cut_the_rows_into_many_parts(counts):
    """A problem is asked once a draw, not once for each few rows of it."""
    X, y = counts
    draws = 0.1 * np.random.default_rng(0).normal(size=(1500, X.shape[1]))
    matched = MatchedCoreset(ByHand(), at=draws[:3]).fit(X, y)
    asked = []

    def losses(self, theta, X, y):
        asked.append(len(X))
        return ByHand.losses(self, theta, X, y)

    matched.problem.__class__ = type("Counting", (ByHand,), {"losses": losses})
    matched.check(draws, X, y)
    assert asked.count(N) >= len(draws)
    assert len(asked) < 5 * len(draws)
    asked.clear()
    values = matched.log_likelihood(draws, X, y)
    assert asked == [N] * len(draws)
    np.testing.assert_allclose(
        values[::100], -np.array([ByHand().losses(t, X, y) for t in draws[::100]])
    )


@pytest.mark.parametrize("problem", [ByHand(), InTorch()], ids=lambda p: type(p).__name__)
def test_the_path_of_a_problem_is_that_of_all_rows(counts, problem):
    X, y = counts
    matched = MatchedCoreset(problem).fit(X, y)
    own = MatchedCoreset(Poisson(fit_intercept=False)).fit(X, y)
    np.testing.assert_allclose(matched.parameters_, own.parameters_, atol=1e-8)
    assert len(matched.indices_) <= 10
    for l2 in (1e-3, 1e-2, 1e-1):
        trained = [
            ByHand(l2).solve(X[places], y[places], w / N)
            for places, w in (
                (matched.indices_, matched.weights_),
                (np.arange(N), np.ones(N)),
            )
        ]
        np.testing.assert_allclose(*trained, atol=1e-6)


def test_given_parameters_are_matched_as_for_the_same_function(counts):
    X, y = counts
    theta = np.random.default_rng(1).normal(size=(6, 3))

    def function(theta, X, y):
        return y * (theta @ X.T) - np.exp(theta @ X.T)

    of_problem, of_function = (
        MatchedCoreset(one, at=theta).fit(X, y) for one in (ByHand(), function)
    )
    sums = function(theta, X, y).sum(1)
    few = of_problem.indices_
    np.testing.assert_allclose(function(theta, X[few], y[few]) @ of_problem.weights_, sums)
    assert len(few) == len(of_function.indices_)


def test_blocks_and_weights_are_those_of_an_array(counts, tmp_path):
    X, y = counts
    weights = np.random.default_rng(3).integers(0, 3, N).astype(float)
    often = np.repeat(np.arange(N), weights.astype(int))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for at in ("path", "posterior"):
        given = [(X, y, weights), (mapped, y, weights), (X[often], y[often])]
        fits = [MatchedCoreset(ByHand(), at=at, random_state=0).fit(*one) for one in given]
        for other in fits[1:]:
            np.testing.assert_allclose(other.parameters_[0], fits[0].parameters_[0], atol=1e-6)
        assert (weights[fits[0].indices_] > 0).all()


def test_labels_that_a_few_rows_lack_are_coded_as_in_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    eta = X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(N, 3))
    y = np.array(["a", "b", "c"])[eta.argmax(axis=1)]
    matched = MatchedCoreset(Softmax(), at="posterior", random_state=0).fit(X, y)
    assert matched.classes_.tolist() == ["a", "b", "c"]
    assert matched.kl_ < 1e-3
    theta = rng.normal(size=(4, 6))
    of_all = matched.log_likelihood(theta, X, y)
    only = np.flatnonzero(y == "c")
    np.testing.assert_array_equal(matched.log_likelihood(theta, X[only], y[only]), of_all[:, only])
    own = MatchedCoreset(Logistic(fit_intercept=False), at="posterior", random_state=0).fit(X, y)
    np.testing.assert_allclose(matched.modes_[0], own.modes_[0], atol=1e-6)
    with pytest.raises(ValueError, match="y must hold the classes"):
        matched.log_likelihood(theta, X[:1], ["d"])


def test_a_problem_without_labels_says_where_its_search_starts():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 0.5, (N, 2)), rng.normal(2, 0.5, (N, 2))])
    matched = MatchedCoreset(GaussianMixture(2), at="posterior", prior=3.0, random_state=0).fit(X)
    assert matched.kl_ < 1e-3
    means = GaussianMixture(2).unpack(matched.modes_[0], 2)[1]
    np.testing.assert_allclose(np.sort(means[:, 0]), [-2, 2], atol=0.1)


class Quartic(InTorch):
    """A penalty that is not quadratic."""

    def penalty(self, theta):
        return self.l2 * ((theta - 1.0) ** 4).sum()


class Shifted(InTorch):
    """A quadratic penalty whose minimum is not at zero."""

    def penalty(self, theta):
        return 0.5 * self.l2 * ((theta - 3.0) ** 2).sum()


class WrongShape(ByHand):
    """Losses as a column."""

    def losses(self, theta, X, y):
        return super().losses(theta, X, y)[:, None]


def test_words_that_a_problem_does_not_encode_are_told(counts):
    X, y = counts
    with pytest.raises(ValueError, match=r"ByHand.losses fails .* y of <U3, shape \(\d+,\)"):
        MatchedCoreset(ByHand()).fit(X, np.where(y > 0, "yes", "no"))


@pytest.mark.parametrize(
    ("problem", "at", "error", "message"),
    [
        (Joint(Logistic(), Logistic()), "path", TypeError, "Joint has no losses of rows"),
        (Network(lambda: None), "posterior", TypeError, "Network has no losses of rows"),
        (ByHand, "path", TypeError, "problem must be"),
        (Problem(), "path", TypeError, "must implement losses, gradients, hessian"),
        (GaussianMixture(2), "path", ValueError, "strength l2.*GaussianMixture lacks.*posterior"),
        (Quartic(), "path", ValueError, "quadratic.*Quartic is not: take at='posterior'"),
        (Shifted(), "path", ValueError, "minimum at zero.*Shifted is not: take at='posterior'"),
        (WrongShape(), "posterior", ValueError, r"WrongShape.losses must give shape \(\d+,\)"),
        (ByHand(), np.zeros((3, 2)), ValueError, r"ByHand.losses fails at parameters of shape \(2"),
    ],
    # The text of a problem may hold an address, which two processes do not share.
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_matched_says_why(counts, problem, at, error, message):
    X, y = counts
    with pytest.raises(error, match=message):
        MatchedCoreset(problem, at=at).fit(X, np.minimum(y, 1))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda theta, X, y: X @ theta.T,
            r"\(parameters, rows\) = .*got ndarray of shape \(256, 1",
        ),
        (lambda theta, X, y: None, r"\(parameters, rows\) = .*, got NoneType of shape \(\)"),
        (lambda theta, X, y: (theta @ X.T).astype("f"), r"must be float64, got float32\.$"),
        (lambda theta, X, y: (theta @ X.T).astype(int), r"must be float64, got int64\.$"),
    ],
    ids=["transposed", "None", "float32", "int"],
)
def test_a_function_of_another_shape_or_type_is_told_which(function, message):
    with pytest.raises(ValueError, match=message):
        MatchedCoreset(function, at=np.zeros((3, 2))).fit(np.ones((9, 2)), np.ones(9))


def test_only_jax_is_told_what_jax_needs():
    jnp = pytest.importorskip("jax").numpy

    def by_jax(theta, X, y):
        return (jnp.asarray(theta) @ jnp.asarray(X).T).astype("float32")

    with pytest.raises(ValueError, match=r"got float32; JAX needs .*jax_enable_x64"):
        MatchedCoreset(by_jax, at=np.zeros((3, 2))).fit(np.ones((9, 2)), np.ones(9))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            LogisticRegression(),
            r"got LogisticRegression\(\): .* give Logistic\(l2=1 / \(C \* n\)\)",
        ),
        (LogisticRegression, r"give Logistic\(l2=1 / \(C \* n\)\), of n rows\.$"),
        (Ridge(), r"give LeastSquares\(l2=alpha / n\), of n rows\.$"),
        (Logistic, r"got <class .*>: give Logistic\(\.\.\.\)\.$"),
        ("logistic", "got 'logistic'\\.$"),
        (np.ones((10, 300)), r"got array\(.*; of an array .*, recombine chooses rows\.$"),
    ],
    ids=["estimator", "its class", "ridge", "class", "word", "array"],
)
def test_what_is_no_problem_is_told_what_to_give(problem, message):
    with pytest.raises(TypeError, match=message):
        MatchedCoreset(problem).fit(np.ones((9, 2)), np.arange(9) % 2)


@pytest.mark.parametrize("problem", [Shifted(), Quartic()], ids=["shifted", "quartic"])
def test_a_penalty_that_newtons_method_would_not_see_is_refused(counts, problem):
    X, y = counts
    with pytest.raises(ValueError, match="not quadratic with its minimum at zero: write a solve"):
        BilevelCoreset(problem, size=5, random_state=0).fit(X, y)
