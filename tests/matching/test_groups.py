"""Matched rows of models with groups: equations that grow with the groups."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from handful import Logistic, MatchedCoreset, Poisson
from handful.checks import ConvergenceError
from handful.matching import draws as matching_draws
from handful.matching.group_match import GroupMatch
from handful.matching.groups import find_groups
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import likelihood
from handful.matching.patterns import pattern_by_moves
from handful.matching.priors import GaussianPrior
from handful.matching.sparse_pilot import SparsePilot, factored
from handful.matching.sparse_rows import ProbedRows, SparseRows
from scipy import sparse


def indicators(group, n_groups, values=None):
    """CSR matrix with one entry a row, in the column of its group."""
    n = len(group)
    values = np.ones(n) if values is None else values
    return sparse.csr_array((values, (np.arange(n), group)), shape=(n, n_groups))


def grouped(n_groups, sizes, *, slopes=False, seed=0, counts=False):
    """A logistic (or Poisson) model with two shared slopes, an intercept for each group and, if
    wanted, a slope for each; rows in random order."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    n = len(group)
    X = rng.standard_normal((n, 2))
    columns = [X, indicators(group, n_groups)]
    eta = X @ [0.7, -0.4] + 0.6 * rng.standard_normal(n_groups)[group]
    if slopes:
        columns.append(indicators(group, n_groups, X[:, 0]))
        eta += 0.4 * rng.standard_normal(n_groups)[group] * X[:, 0]
    y = rng.poisson(np.exp(0.5 * eta)) if counts else (rng.random(n) < 1 / (1 + np.exp(-eta)))
    return sparse.csr_array(sparse.hstack(columns)), y.astype(int), group


def pilot_of(rows, deviations=1.0):
    """The `SparsePilot` of rows under independent Gaussians of mean zero."""
    p = rows.design.shape[1]
    prior = GaussianPrior(np.broadcast_to(deviations, p) ** -2.0)
    return SparsePilot.at_mode(rows, prior, np.zeros(p))


def missed(problem, design, y, found, weights=None, seed=1):
    """Variance over the pilot's draws of what chosen rows miss of the log-likelihood, computed from
    dense predictors."""
    n = design.shape[0]
    weights = np.ones(n) if weights is None else weights
    model, target = likelihood(problem, y)
    pilot = pilot_of(SparseRows(model, design, target, weights))
    theta = pilot.draws(100, np.random.default_rng(seed))
    eta = design.toarray() @ theta[:, :-1].T + theta[:, -1]
    if isinstance(problem, Poisson):
        loglik = y[:, None] * eta - np.exp(eta)
    else:
        loglik = y[:, None] * eta - np.logaddexp(0, eta)
    return np.var(weights @ loglik - found.weights_ @ loglik[found.indices_])


@pytest.mark.parametrize("slopes", [False, True], ids=["intercepts", "intercepts and slopes"])
def test_rows_of_a_model_with_groups_keep_its_log_likelihood(slopes):
    design, y, _ = grouped(130, 100, slopes=slopes)
    found = MatchedCoreset(at="posterior", random_state=0).fit(design, y)
    assert missed(Logistic(), design, y, found) < 4e-3
    assert found.kl_ < 1e-3
    assert found.residual_ < 1e-11
    assert len(found.indices_) < (0.25 if slopes else 0.15) * len(y)
    assert found.weights_.sum() == pytest.approx(len(y))


def test_a_dense_matrix_of_indicators_is_taken_as_the_sparse_one():
    design, y, _ = grouped(400, 20)
    with warnings.catch_warnings():
        # Groups of twenty rows hardly pay.
        warnings.simplefilter("ignore")
        of_sparse = MatchedCoreset(at="posterior", random_state=0).fit(design, y)
        of_dense = MatchedCoreset(at="posterior", random_state=0).fit(design.toarray(), y)
    np.testing.assert_array_equal(of_sparse.indices_, of_dense.indices_)
    np.testing.assert_array_equal(of_sparse.weights_, of_dense.weights_)


def test_few_sparse_columns_are_matched_as_dense_ones_are():
    design, y, _ = grouped(5, 400)
    of_sparse = MatchedCoreset(at="posterior", random_state=0).fit(design, y)
    of_dense = MatchedCoreset(at="posterior", random_state=0).fit(design.toarray(), y)
    np.testing.assert_array_equal(of_sparse.indices_, of_dense.indices_)
    assert of_sparse.log_likelihood(of_sparse.parameters_[:3], design, y) == pytest.approx(
        of_dense.log_likelihood(of_sparse.parameters_[:3], design.toarray(), y)
    )


def test_groups_of_few_rows_keep_them_all():
    sizes = np.r_[np.full(200, 6), np.full(150, 150)]
    design, y, group = grouped(350, sizes)
    found = MatchedCoreset(at="posterior", random_state=0).fit(design, y)
    small = np.flatnonzero(sizes[group] == 6)
    assert np.isin(small, found.indices_).all()
    assert found.weights_[np.isin(found.indices_, small)] == pytest.approx(1)
    assert missed(Logistic(), design, y, found) < 4e-3


def test_counts_and_weights_of_rows():
    design, y, _ = grouped(160, 90, counts=True)
    weights = np.random.default_rng(2).integers(0, 4, size=len(y)).astype(float)
    found = MatchedCoreset(Poisson(), at="posterior", random_state=0).fit(
        design, y, sample_weight=weights
    )
    assert (weights[found.indices_] > 0).all()
    assert found.weights_.sum() == pytest.approx(weights.sum())
    assert missed(Poisson(), design, y, found, weights) < 4e-3


def test_what_is_shared_and_what_belongs_together_is_found():
    design, y, group = grouped(40, 50, slopes=True)
    # A class within each group, and a column that no row has.
    inner = 2 * group + (np.arange(len(y)) % 2)
    nested = sparse.hstack(
        [design, indicators(inner, 80), sparse.csr_array((len(y), 1))], format="csr"
    )
    found = find_groups(nested.sign() ** 2)
    assert found.shared.tolist() == [0, 1]
    assert len(found.own) == 40
    for columns in found.own:
        [own] = [c - 2 for c in columns if c < 42]
        assert sorted(columns) == [2 + own, 42 + own, 82 + 2 * own, 82 + 2 * own + 1]
    members = found.of_row
    assert len(np.unique(np.column_stack([members, group]), axis=0)) == 40


def test_sums_of_each_group_and_of_each_batch_are_kept():
    design, y, group = grouped(30, 80)
    model, target = likelihood(Logistic(), y)
    rows = SparseRows(model, design, target, np.ones(len(y)))
    match = GroupMatch(rows, pilot_of(rows), np.random.default_rng(0))
    places, weights, _ = match.match(3)
    every = np.arange(len(y))
    own, common = match.equations(every, 3)
    for g in range(30):
        inside = group[places] == g
        kept = weights[inside] @ own[places[inside]]
        np.testing.assert_allclose(kept, own[group == g].sum(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(weights @ common[places], common.sum(0), rtol=1e-9, atol=1e-9)


def test_draws_of_the_pilot_have_its_covariance():
    design, y, _ = grouped(4, 60)
    model, target = likelihood(Logistic(), y)
    pilot = pilot_of(SparseRows(model, design, target, np.ones(len(y))))
    draws = pilot.draws(40_000, np.random.default_rng(0))
    covariance = np.linalg.inv(pilot.curvature.toarray())
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03 * covariance.max())
    np.testing.assert_allclose(draws.mean(0), pilot.mode, atol=0.03)
    slope = pilot.rows.slopes(pilot.mode[None])[0] - pilot.mode
    assert np.abs(slope).max() < 1e-6


def chain(rows, deviations, rng, n_chains=20, n_draws=200):
    """Hamiltonian draws, shape (chains, draws, p), under a Gaussian prior with these deviations."""
    pilot = pilot_of(rows, deviations)
    scale = pilot.draws(300, rng).std(0)

    def density(theta):
        return rows.sums(theta) - 0.5 * ((theta / deviations) ** 2).sum(1)

    def slope(theta):
        return scale * (rows.slopes(theta) - theta / deviations**2)

    theta = pilot.mode + scale * rng.standard_normal((n_chains, len(scale)))
    value = density(theta)
    kept = []
    for step in range(100 + n_draws):
        momentum = rng.standard_normal(theta.shape)
        size = 0.25 * rng.uniform(0.6, 1.0, (n_chains, 1))
        energy = value - 0.5 * (momentum**2).sum(1)
        new = theta.copy()
        momentum += 0.5 * size * slope(new)
        for leap in range(10):
            new += size * scale * momentum
            momentum += (0.5 if leap == 9 else 1.0) * size * slope(new)
        there = density(new)
        goes = np.log(rng.random(n_chains)) < there - 0.5 * (momentum**2).sum(1) - energy
        theta[goes] = new[goes]
        value[goes] = there[goes]
        if step >= 100:
            kept.append(theta.copy())
    return np.array(kept).swapaxes(0, 1)


def test_check_knows_right_draws_of_a_model_with_groups_from_wrong_ones(monkeypatch):
    monkeypatch.setattr("handful.matching.matched_coreset.MANY_EQUATIONS", 100)
    design, y, _ = grouped(20, 100)
    p = design.shape[1] + 1
    found = MatchedCoreset(at="posterior", random_state=0).fit(design, y)
    model, target = likelihood(Logistic(), y)
    few = SparseRows(model, design, target, np.ones(len(y))).restricted(
        found.indices_, found.weights_
    )
    rng = np.random.default_rng(3)
    right = chain(few, np.ones(p), rng)
    assert found.check(right, design, y).verdict == "use the draws"
    every_prior = np.ones(right.shape)
    assert found.check(right, design, y, prior=every_prior).verdict == "use the draws"
    assert found.check(right, design, y, prior=0.3).verdict == "refuse"
    assert found.check(right + 0.3 * right.std((0, 1)), design, y).verdict == "refuse"
    squared = few.restricted(np.arange(len(found.weights_)), found.weights_**2)
    assert found.check(chain(squared, np.ones(p), rng), design, y).verdict == "refuse"
    with pytest.raises(
        ValueError, match=r"deviations of each draw, shape \(4000, 23\), got \(5, 23"
    ):
        found.check(right, design, y, prior=np.ones((5, p)))


def test_columns_without_groups_are_refused_and_small_groups_told():
    rng = np.random.default_rng(0)
    texts = sparse.random_array((3000, 400), density=0.02, rng=rng, format="csr")
    y = rng.integers(0, 2, 3000)
    with pytest.raises(ValueError, match="no groups that are small enough"):
        MatchedCoreset(at="posterior", random_state=0).fit(texts, y)
    design, y, _ = grouped(400, 9)
    with pytest.warns(UserWarning, match=r"it hardly pays: \d+ of 3600 rows"):
        MatchedCoreset(at="posterior", random_state=0).fit(design, y)
    with pytest.raises(ValueError, match="which takes no size, not size=500"):
        MatchedCoreset(at="posterior", size=500).fit(design, y)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        MatchedCoreset(at="path").fit(design, y)


# Functions, whose groups are found by moving parameters ------------------------------------------


def crossed(theta, D, y):
    """Three slopes, the logarithm of a deviation, effects of 40 groups (non-centred), their slopes,
    and effects of four items, which all groups have."""
    group = D[:, 3].astype(int)
    eta = theta[:, :3] @ D[:, :3].T + np.exp(theta[:, 3:4]) * theta[:, 4:44][:, group]
    eta += 0.4 * theta[:, 44:84][:, group] * D[:, 0] + theta[:, 84:][:, D[:, 4].astype(int)]
    return y * eta - np.logaddexp(0, eta)


def crossed_data(size=250):
    rng = np.random.default_rng(0)
    n = 40 * size
    group = rng.permutation(np.repeat(np.arange(40), size))
    D = np.column_stack([rng.standard_normal((n, 3)), group, rng.integers(0, 4, n)])
    truth = np.r_[0.7, -0.4, 0.2, -0.3, rng.standard_normal(80), 0.3, -0.2, 0.1, 0.0]
    rate = 1 / (1 + np.exp(-(crossed(truth[None], D, 1.0) - crossed(truth[None], D, 0.0))[0]))
    return D, (rng.random(n) < rate).astype(float)


@pytest.mark.parametrize("most", [1 << 22, 1 << 12], ids=["all rows", "few rows"])
def test_parameters_of_each_row_are_found_by_moving_them(monkeypatch, most):
    monkeypatch.setattr("handful.matching.patterns.MOST", most)
    D, y = crossed_data(60)
    model, _ = likelihood(crossed, y)
    weights = np.ones(len(y))
    weights[::7] = 0
    rows = LikelihoodSums(model, D, y, weights)
    pattern = pattern_by_moves(rows, np.random.default_rng(1).normal(size=88))
    group = D[:, 3].astype(int)
    expected = np.zeros((len(y), 88))
    expected[:, :4] = 1
    every = np.arange(len(y))
    for column in (4 + group, 44 + group, 84 + D[:, 4].astype(int)):
        expected[every, column] = 1
    expected[weights == 0] = 0
    np.testing.assert_array_equal(pattern.toarray(), expected)
    found = ProbedRows(rows, pattern).groups
    assert sorted(found.shared) == [0, 1, 2, 3, 84, 85, 86, 87]
    assert len(found.own) == 40


def test_derivatives_by_moves_of_all_groups_at_once_are_those_of_each_row():
    D, y = crossed_data(60)
    model, _ = likelihood(crossed, y)
    rows = LikelihoodSums(model, D, y, np.ones(len(y)))
    theta = 0.3 * np.random.default_rng(1).normal(size=88)
    probed = ProbedRows.around(rows, theta)
    places = np.array([5, 700, 1199])
    _, slopes, curvatures = probed.expanded(theta)(places)
    # of one linear predictor
    probability = np.exp(crossed(theta[None], D, 1.0)[0])
    group = D[:, 3].astype(int)
    for row, place in enumerate(places):
        effect = np.exp(theta[3]) * theta[4 + group[place]]
        items = (np.arange(4) == D[place, 4]).astype(float)
        of_eta = [*D[place, :3], effect, *items, np.exp(theta[3]), 0.4 * D[place, 0]]
        bend = probability[place] * (1 - probability[place])
        expected = -bend * np.outer(of_eta, of_eta)
        missed_by = y[place] - probability[place]
        expected[3, 3] += missed_by * effect
        expected[3, 8] += missed_by * np.exp(theta[3])
        expected[8, 3] = expected[3, 8]
        np.testing.assert_allclose(slopes[row], missed_by * np.array(of_eta), atol=1e-6)
        np.testing.assert_allclose(curvatures[row], expected, atol=1e-4)


def test_a_function_with_groups_gets_rows_that_keep_its_log_likelihood():
    D, y = crossed_data()
    found = MatchedCoreset(crossed, at="posterior", start=np.zeros(88), random_state=0).fit(D, y)
    assert found.kl_ < 1e-3
    assert len(found.indices_) < len(y) / 3
    # at draws of independent Gaussians around the mode, each as wide as the data say by themselves
    rng = np.random.default_rng(3)
    size = np.r_[np.full(4, 0.03), np.full(80, 0.2), np.full(4, 0.03)]
    theta = found.modes_[0] + size * rng.standard_normal((60, 88))
    difference = crossed(theta, D, y).sum(1)
    few = found.indices_
    difference -= crossed(theta, D[few], y[few]) @ found.weights_
    assert np.var(difference) < 1e-2
    uniform = rng.choice(len(y), len(few), replace=False)
    of_uniform = crossed(theta, D[uniform], y[uniform]).sum(1) * len(y) / len(few)
    assert np.var(crossed(theta, D, y).sum(1) - of_uniform) > 10


def test_a_factor_of_a_sparse_curvature_is_its_root():
    rng = np.random.default_rng(0)
    H = np.diag(rng.uniform(2, 3, 30))
    H[0, 1:] = H[1:, 0] = rng.normal(size=29) / 5
    found, of_itself = factored(sparse.csc_array(H))
    root = found.root(np.eye(30))
    np.testing.assert_allclose(root @ root.T, H, atol=1e-12)
    assert of_itself
    H[0, 0] = -1.0
    larger, of_itself = factored(sparse.csc_array(H))
    assert larger.is_definite
    assert not of_itself


@pytest.mark.parametrize("entry", [0.0, -1.0])
def test_a_sparse_curvature_that_is_exactly_singular_gets_a_larger_diagonal(entry):
    H = sparse.diags_array([1.0, entry, 2.0], format="csc")
    found, of_itself = factored(H)
    assert found.is_definite
    assert not of_itself


def test_a_curvature_that_is_no_number_is_no_mode():
    H = sparse.diags_array([1.0, np.nan, 2.0], format="csc")
    with pytest.raises(ConvergenceError, match="no mode was found"):
        factored(H)


def test_no_pattern_is_found_where_no_parameter_moves_the_rows_looked_at(monkeypatch):
    monkeypatch.setattr("handful.matching.patterns.MOST", 1 << 8)

    def flat(theta, D, y):
        return np.zeros((len(theta), len(y)))

    y = np.zeros(500)
    model, _ = likelihood(flat, y)
    rows = LikelihoodSums(model, np.zeros((500, 1)), y, np.ones(500))
    assert pattern_by_moves(rows, np.zeros(60)) is None


@pytest.mark.parametrize("ndim", [1, 2])
def test_draws_of_many_parameters_are_tested_around_a_start_of_either_shape(ndim):
    p = 401
    model = SimpleNamespace(n_outputs=0, has_slopes=True)
    few = SimpleNamespace(
        model=model, sums=lambda theta: -0.5 * (theta**2).sum(1), slopes=lambda theta: -theta
    )
    draws = np.random.default_rng(0).standard_normal((300, p)) / np.sqrt(2)
    start = np.zeros(p) if ndim == 1 else np.zeros((1, p))
    found, why = matching_draws.tested(few, draws, 1, 1.0, start)
    assert not why
    assert not found.wrong


def test_a_prior_may_bind_groups_to_one_another():
    """Levels of 100 days, a random walk: the curvature there is known by hand."""
    rng = np.random.default_rng(0)
    days, n = 100, 6000
    day = rng.integers(0, days, n)
    D = np.column_stack([rng.standard_normal((n, 2)), day])
    level = np.cumsum(0.2 * rng.standard_normal(days))
    y = rng.poisson(np.exp(D[:, :2] @ [0.4, -0.2] + level[day])).astype(float)

    def counts(theta, D, y):
        eta = theta[:, :2] @ D[:, :2].T + theta[:, 2:][:, D[:, 2].astype(int)]
        return y * eta - np.exp(eta)

    def walk(theta):
        first = (theta[:, :3] ** 2).sum(1)
        return -0.5 * first - 12.5 * (np.diff(theta[:, 2:], axis=1) ** 2).sum(1)

    p = days + 2
    found = MatchedCoreset(
        counts, at="posterior", start=np.zeros(p), prior=walk, random_state=0
    ).fit(D, y)
    few = found.indices_
    assert len(few) < n / 5
    mode = found.modes_[0]
    Z = np.zeros((n, p))
    Z[:, :2] = D[:, :2]
    Z[np.arange(n), 2 + day] = 1
    steps = np.diff(np.eye(p)[2:], axis=0)
    prior_curvature = np.diag((np.arange(p) < 3).astype(float)) + 25 * steps.T @ steps
    rate = np.exp(Z @ mode)
    slope = Z.T @ (y - rate) - prior_curvature @ mode
    assert np.abs(slope).max() < 1e-2
    covariance = np.linalg.inv((Z * rate[:, None]).T @ Z + prior_curvature)
    theta = rng.multivariate_normal(mode, covariance, 100)
    missed_by = counts(theta, D, y).sum(1) - counts(theta, D[few], y[few]) @ found.weights_
    assert np.var(missed_by) < 1e-4
