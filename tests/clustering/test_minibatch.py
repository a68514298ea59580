import numpy as np
import pytest
from handful.clustering import VCGMM, MiniBatchKMeans
from handful.clustering.minibatch import kmeans_step
from handful.sampling import BanditSampler, MixtureSampler, distance_components
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_step_is_sculleys_loop(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)).astype(dtype)
    centres = X[:4].copy()
    counts = rng.random(4) * 5
    indices = rng.integers(50, size=30)
    weights = rng.gamma(1, size=30)
    weights[7] = 0
    slow = centres.astype(float)
    slow_counts = counts.copy()
    squares = ((X[indices, None].astype(float) - slow) ** 2).sum(axis=2)
    for i, c, r in zip(indices, squares.argmin(axis=1), weights):
        slow_counts[c] += r
        if r:
            slow[c] = (1 - r / slow_counts[c]) * slow[c] + r / slow_counts[c] * X[i]
    norms = kmeans_step(X[indices], weights, centres, counts)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        norms, 2 * np.sqrt(squares.min(axis=1)), rtol=tolerance, atol=tolerance
    )
    np.testing.assert_allclose(centres, slow, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(counts, slow_counts)


def make_mixture(X, rng):
    return MixtureSampler(
        distance_components(X, 5, random_state=rng), batch_size=50, random_state=rng
    )


def make_bandit(X, rng):
    return BanditSampler(len(X), batch_size=50, random_state=rng)


@pytest.mark.parametrize("sampler", [None, make_mixture, make_bandit])
def test_comes_near_the_batch_algorithm_with_any_sampler(sampler):
    X, _ = make_blobs(2000, centers=5, cluster_std=1.0, random_state=0)
    start = KMeans(5, n_init=1, max_iter=1, random_state=0).fit(X).cluster_centers_
    batch = KMeans(5, init=start, n_init=1).fit(X)
    ours = MiniBatchKMeans(
        5, sampler=sampler, batch_size=50, init=start, n_steps=600, random_state=0
    ).fit(X)
    assert ours.inertia_ < 1.02 * batch.inertia_
    assert -ours.score(X) == pytest.approx(ours.inertia_, rel=1e-6)
    assert ours.n_steps_ == 600


def test_sampler_hears_the_gradient_norms_times_the_sample_weight():
    X = np.random.default_rng(0).normal(size=(40, 2))
    heard = []

    class Recorder:
        n = 40

        def sample(self):
            return np.arange(10), np.full(10, 2.0)

        def update(self, losses):
            heard.append(losses)

    sample_weight = np.arange(40) + 1.0
    start = X[:3]
    model = MiniBatchKMeans(3, sampler=Recorder(), init=start, n_steps=1).fit(
        X, sample_weight=sample_weight
    )
    nearest = np.sqrt(((X[:10, None] - start) ** 2).sum(axis=2)).min(axis=1)
    np.testing.assert_allclose(heard[0], 2 * nearest * sample_weight[:10], atol=1e-12)
    assert model.counts_.sum() == pytest.approx(2 * sample_weight[:10].sum())
    with pytest.raises(ValueError, match="sampler must draw from the 39 rows of X"):
        MiniBatchKMeans(3, sampler=Recorder()).fit(X[:-1])


def test_importance_weights_leave_the_centre_of_one_cluster_unbiased():
    """With one centre the result is the weighted mean of the draws, a ratio: near the mean of X."""
    rng = np.random.default_rng(0)
    X = rng.normal(loc=(3, 0), size=(500, 2))
    ends = np.array(
        [
            MiniBatchKMeans(1, sampler=make_mixture, n_steps=40, random_state=s)
            .fit(X)
            .cluster_centers_[0]
            for s in range(60)
        ]
    )
    sem = ends.std(axis=0, ddof=1) / np.sqrt(len(ends))
    assert (np.abs(ends.mean(axis=0) - X.mean(axis=0)) < 4 * sem).all()


def test_partial_fit_is_one_step_on_the_batch():
    X, _ = make_blobs(300, centers=3, random_state=1)
    model = MiniBatchKMeans(3, random_state=0)
    model.partial_fit(X[:100])
    centres = model.cluster_centers_.copy()
    counts = model.counts_.copy()
    weights = np.linspace(0, 3, 200)
    model.partial_fit(X[100:], sample_weight=weights)
    kmeans_step(X[100:], weights, centres, counts)
    np.testing.assert_array_equal(model.cluster_centers_, centres)
    assert model.n_steps_ == 2
    assert model.labels_.shape == (200,)
    streamed = (
        MiniBatchKMeans(3, init=X[:3])
        .partial_fit(sparse.csr_array(X[:100]))
        .partial_fit(sparse.csr_array(X))
    )
    assert streamed.counts_.sum() == 400


def test_bad_input_is_refused():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="at most the number of rows"):
        MiniBatchKMeans(21).fit(X)
    with pytest.raises(ValueError, match="init"):
        MiniBatchKMeans(3, init="random").fit(X)
    with pytest.raises(ValueError, match="init must have shape"):
        MiniBatchKMeans(3, init=X[:2]).fit(X)


def far_clusters(offset):
    rng = np.random.default_rng(0)
    centers = 10 * rng.normal(size=(5, 2))
    return centers[rng.integers(5, size=2000)] + 0.3 * rng.normal(size=(2000, 2)) + offset


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_minibatch_kmeans_far_from_the_origin_has_the_inertia_of_its_centres(offset):
    X = far_clusters(offset)
    found = MiniBatchKMeans(5, n_steps=300, random_state=0).fit(X)
    nearest = cdist(X, found.cluster_centers_)
    np.testing.assert_allclose(found.inertia_, (nearest.min(axis=1) ** 2).sum(), rtol=1e-6)
    np.testing.assert_allclose(found.score(X), -(nearest.min(axis=1) ** 2).sum(), rtol=1e-6)


@pytest.mark.parametrize(
    "estimator", [MiniBatchKMeans(5, random_state=0), VCGMM(5, random_state=0)]
)
def test_transform_far_from_the_origin_gives_distances(estimator):
    X = far_clusters(1e6)
    found = estimator.fit(X)
    np.testing.assert_allclose(found.transform(X), cdist(X, found.cluster_centers_), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_centre_far_away_does_not_blur_the_others(dtype):
    centers = np.array([[0], [1], [2], [3], [1e6 if dtype is np.float32 else 1e9]], dtype)
    model = MiniBatchKMeans(5, init=centers).partial_fit(centers)
    np.testing.assert_array_equal(model.cluster_centers_, centers)


def test_a_centre_of_float32_far_from_zero_is_the_mean_of_all_that_it_has_seen():
    X = (1e4 + np.linspace(0, 1, 3000)[:, None]).astype(np.float32)
    model = MiniBatchKMeans(1, init=X[:1])
    for start in range(0, len(X), 3):
        model.partial_fit(X[start : start + 3])
    assert model.cluster_centers_.dtype == np.float32
    mean = X.mean(dtype=np.float64)
    assert abs(model.cluster_centers_[0, 0] - mean) <= np.spacing(np.float32(1e4))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16])
def test_a_step_on_rows_of_any_type_is_that_on_their_values(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(40, 3)).astype(dtype)
    steps = []
    for rows in (X, X.astype(np.float64)):
        centers = np.arange(9.0).reshape(3, 3) / 9
        norms = kmeans_step(rows, np.ones(40), centers, np.zeros(3))
        steps.append((norms, centers))
    np.testing.assert_array_equal(steps[0][0], steps[1][0])
    np.testing.assert_array_equal(steps[0][1], steps[1][1])


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_how_often_a_row_counts(seed):
    rng = np.random.default_rng(seed)
    n = 20_000
    heavy = rng.random(n) < 0.002
    X = rng.normal(size=(n, 2))
    X[heavy, 0] += 30 * rng.integers(0, 6, heavy.sum()) + 50
    weights = np.where(heavy, 500, 1)
    weighted = MiniBatchKMeans(8, random_state=seed).fit(X, sample_weight=weights)
    repeated = MiniBatchKMeans(8, random_state=seed).fit(np.repeat(X, weights, axis=0))
    assert weighted.inertia_ < 2 * repeated.inertia_


def test_there_are_enough_rows_for_the_centres_where_few_have_the_weight():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    weights = np.ones(2000)
    weights[:3] = 1e9
    model = MiniBatchKMeans(20, batch_size=5, random_state=0).fit(X, sample_weight=weights)
    assert len(np.unique(model.cluster_centers_, axis=0)) == 20
