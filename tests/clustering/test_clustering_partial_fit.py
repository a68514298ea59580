"""VCGMM over one coreset after another: incremental EM against its textbook form, and what is kept
of rows before."""

import numpy as np
import pytest
from handful.clustering import VCGMM, quantization_error
from handful.clustering.variational import TruncatedEM
from scipy.special import logsumexp

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def blobs(rng, n, d=5, k=20, dtype=np.float64, means=None):
    means = rng.normal(size=(k, d)) * 4 if means is None else means
    return (means[rng.integers(len(means), size=n)] + rng.normal(size=(n, d))).astype(dtype)


def posterior(X, u, mu, variance):
    D = ((X[:, None] - mu) ** 2).sum(axis=2)
    joint = -np.log(len(mu)) - X.shape[1] / 2 * np.log(2 * np.pi * variance) - D / (2 * variance)
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True)) * u[:, None], u @ logsumexp(
        joint, axis=1
    )


def sufficient(X, share):
    mass = share.sum(axis=0)
    means = share.T @ X / mass[:, None]
    return mass, means, (share * ((X[:, None] - means) ** 2).sum(axis=2)).sum(axis=0)


def test_all_clusters_kept_is_incremental_em_of_the_mixture(rng):
    C = 4
    d = 5
    n_iter = 10
    X = blobs(rng, 600, k=4)
    u = rng.exponential(size=600)
    first = slice(0, 400)
    second = slice(400, 600)
    options = dict(
        n_neighbors=C,
        init=X[:C],
        algorithm=TruncatedEM(moves=None, grow=False),
        compute_labels=False,
        tol=0.0,
    )
    model = VCGMM(C, max_iter=n_iter, **options).fit(X[first], sample_weight=u[first])
    mu = model.cluster_centers_.copy()
    variance = model.variance_
    share, _ = posterior(X[first], u[first], mu, variance)
    M, means, S = sufficient(X[first], share)
    model.partial_fit(X[second], sample_weight=u[second])
    for _ in range(n_iter):
        share, _ = posterior(X[second], u[second], mu, variance)
        m, new, s = sufficient(X[second], share)
        mass = M + m
        mu = (M[:, None] * means + m[:, None] * new) / mass[:, None]
        scatter = S + s + M * ((means - mu) ** 2).sum(axis=1) + m * ((new - mu) ** 2).sum(axis=1)
        variance = scatter.sum() / (d * mass.sum())
    bound = posterior(X[second], u[second], mu, variance)[1]
    bound += (
        M.sum() * (-np.log(C) - d / 2 * np.log(2 * np.pi * variance))
        - ((S + M * ((means - mu) ** 2).sum(axis=1)) / (2 * variance)).sum()
    )
    np.testing.assert_allclose(model.cluster_centers_, mu, atol=1e-8)
    assert model.variance_ == pytest.approx(variance, rel=1e-8)
    assert model.lower_bound_ == pytest.approx(bound, rel=1e-9)
    assert model.counts_.sum() == pytest.approx(u.sum())


def test_coresets_one_by_one_are_nearly_as_good_as_all_rows_at_once(rng):
    X = blobs(rng, 12_000, k=30)
    options = dict(n_clusters=30, n_neighbors=6, random_state=0, compute_labels=False)
    whole = VCGMM(**options).fit(X)
    parts = VCGMM(**options, coreset_size=700)
    for part in np.split(X, 8):
        parts.partial_fit(part)
    assert parts.counts_.sum() == pytest.approx(len(X), rel=0.05)
    errors = [quantization_error(X, model.cluster_centers_) for model in (whole, parts)]
    assert errors[1] < 1.05 * errors[0]
    assert parts.lower_bound_ == pytest.approx(parts.score_samples(X).sum(), rel=0.05)


def test_rows_before_are_not_forgotten(rng):
    means = rng.normal(size=(20, 5)) * 4
    before = blobs(rng, 4000, means=means[:10])
    after = blobs(rng, 400, means=means[10:])
    options = dict(n_clusters=20, random_state=0, compute_labels=False, warm_start=True)
    kept = VCGMM(**options).fit(before)
    forgot = VCGMM(**options).fit(before)
    old = quantization_error(before, kept.cluster_centers_)
    kept.partial_fit(after)
    forgot.fit(after)
    assert quantization_error(before, kept.cluster_centers_) < 1.5 * old
    assert quantization_error(before, forgot.cluster_centers_) > 2 * quantization_error(
        before, kept.cluster_centers_
    )


def test_later_rows_may_be_few_far_or_alike(rng):
    X = blobs(rng, 500)
    model = VCGMM(10, random_state=0)
    for rows in (X, X[:1], np.full((3, 5), 1e6), np.ones((30, 5)), 1e-300 * X):
        model.partial_fit(rows)
        assert np.isfinite(model.cluster_centers_).all()
        assert np.isfinite(model.lower_bound_)
        assert len(model.labels_) == len(rows)
    assert model.counts_.sum() == pytest.approx(500 + 1 + 3 + 30 + 500)


def test_the_first_rows_must_be_enough_and_the_number_of_clusters_stays(rng):
    X = blobs(rng, 50)
    with pytest.raises(
        ValueError, match="n_clusters must be at most the number of rows, got 8 for 5"
    ):
        VCGMM(8).partial_fit(X[:5])
    model = VCGMM(8).partial_fit(X)
    with pytest.raises(ValueError, match="n_clusters is 9, but there are 8 centres"):
        model.set_params(n_clusters=9).partial_fit(X)
    with pytest.raises(ValueError, match="features"):
        VCGMM(8).fit(X).partial_fit(X[:, :3])


def test_counts_may_be_made_shares_in_between(rng):
    X = blobs(rng, 600)
    found = []
    for shares in (False, True):
        model = VCGMM(3, random_state=0).partial_fit(X[:400])
        if shares:
            model.counts_ /= model.counts_.sum()
        found.append(model.partial_fit(X[400:]).counts_)
    np.testing.assert_array_equal(*found)


def test_each_chunk_of_a_stream_has_draws_of_its_own(rng):
    """Rows in one order in each chunk: the same places of all would not average out."""
    centres = np.repeat([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]], 250, axis=0)
    model = VCGMM(4, coreset_size=40, compute_labels=False, random_state=0)
    for _ in range(100):
        model.partial_fit(centres + rng.normal(size=centres.shape))
    assert model.counts_ == pytest.approx(np.full(4, 25_000), rel=0.1)


def test_a_cluster_of_earlier_rows_is_in_use_while_its_nearest_row_is(rng):
    # The first row of the second cluster is nearer to the other centre in the end.
    first = np.array([5.1, 9.5, 9.8, 10, 10.2, 10.1, 0, 0.1, -0.1, 0.2])[:, None]
    then = np.tile([1.5, 1.6, 1.7, 1.4], 5)[:, None]
    model = VCGMM(2, init=np.array([[0.0], [9.0]]), random_state=0)
    model.partial_fit(first).partial_fit(then)
    assert len(np.unique(model.predict(np.vstack([first, then])))) == 2
    assert model.n_empty_ == 0


def test_to_go_on_with_another_number_of_clusters_is_refused_with_a_way_out_that_works(rng):
    X = blobs(rng, 200)
    model = VCGMM(8, random_state=0).fit(X).set_params(n_clusters=9)
    with pytest.raises(ValueError, match="there are 8 centres to go on from; call fit to begin"):
        model.partial_fit(X)
    assert len(model.fit(X).cluster_centers_) == 9
    model.set_params(n_clusters=8, warm_start=True)
    with pytest.raises(ValueError, match=r"call set_params\(warm_start=False\) and fit to begin"):
        model.fit(X)
    assert len(model.set_params(warm_start=False).fit(X).cluster_centers_) == 8
