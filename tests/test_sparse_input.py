"""Sparse input gives what the same rows give dense, and no more than a block is made dense."""

import warnings

import numpy as np
import pytest
from handful import VCGMM, KCenter, KMeansPlusPlus, LightweightCoreset, LogisticSensitivity
from handful.clustering import MiniBatchKMeans
from handful.sensitivity.logistic import logistic_sensitivities
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 12)) * (rng.random((900, 12)) < 0.3) + 5 * np.eye(12)[rng.integers(12, size=900)]
    return X, (X[:, 0] + rng.normal(size=900) > 0.4).astype(int), rng.integers(0, 3, 900)


SELECTORS = [
    LightweightCoreset(80, random_state=0),
    LogisticSensitivity(40, random_state=0),
    KMeansPlusPlus(30, random_state=0),
    KMeansPlusPlus(30, weighting="cells", random_state=0),
    KCenter(30, weighting="cells", random_state=0),
]


def test_sensitivities_are_those_of_the_lemma_in_a_plain_loop(rows):
    X, y, u = rows
    Z, weights = np.column_stack([X, np.ones(900)])[:60] * (2 * y[:60, None] - 1), u[:60] + 1.0
    from sklearn.cluster import kmeans_plusplus

    seed = int(np.random.default_rng(0).integers(np.iinfo(np.int32).max))
    _, centers = kmeans_plusplus(Z, 4, sample_weight=weights, random_state=seed, n_local_trials=1)
    label = ((Z[:, None] - Z[np.unique(centers)]) ** 2).sum(axis=2).argmin(axis=1)
    expected = []
    for n in range(60):
        total = weights[n]
        for c in range(label.max() + 1):
            mine = (label == c) & (np.arange(60) != n)
            if mine.any():
                mean = weights[mine] @ Z[mine] / weights[mine].sum()
                total += weights[mine].sum() * np.exp(-0.5 * np.linalg.norm(mean - Z[n]))
        expected.append(weights.sum() / total)
    for form in (Z, sparse.csr_array(Z)):
        found = logistic_sensitivities(form, weights, 4, 0.5, rng=np.random.default_rng(0))
        np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_mini_batches_move_the_same_centres(rows):
    X, _, u = rows
    model = MiniBatchKMeans(5, n_steps=50, init=X[:5], random_state=0)
    dense = model.fit(X, sample_weight=u).cluster_centers_.copy(), model.labels_, model.inertia_
    model.fit(sparse.csr_array(X), sample_weight=u)
    for ours, theirs in zip((model.cluster_centers_, model.labels_, model.inertia_), dense):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert MiniBatchKMeans(5, n_steps=5, random_state=0).fit(sparse.csr_array(X)).cluster_centers_.shape == (5, 12)
    streamed = MiniBatchKMeans(5, init=X[:5]).partial_fit(sparse.csr_array(X[:100])).partial_fit(sparse.csr_array(X))
    assert streamed.counts_.sum() == 1000


def test_a_mixture_of_sparse_rows_is_that_of_the_dense_ones(rows):
    X = rows[0]
    S = sparse.csr_array(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        dense = VCGMM(6, coreset_size=300, random_state=0).fit(X)
        ours = VCGMM(6, coreset_size=300, random_state=0).fit(S)
    np.testing.assert_allclose(ours.cluster_centers_, dense.cluster_centers_, rtol=1e-6, atol=1e-9)
    assert (ours.labels_ == dense.labels_).all()
    for ask in ("predict", "predict_proba", "transform", "score_samples"):
        np.testing.assert_allclose(getattr(ours, ask)(S), getattr(dense, ask)(X), rtol=1e-5, atol=1e-7)
    assert (ours.predict(S, greedy=True) == dense.predict(X, greedy=True)).mean() > 0.95
    with pytest.raises(TypeError, match="Sparse data need a coreset_size"):
        VCGMM(6).fit(S)
