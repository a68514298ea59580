"""Selection in the features of a proxy."""

import numpy as np
import pytest
from handful import BilevelCoreset, KCenter, Logistic, MergeReduce, SVMCoreset, UniformCoreset
from handful.bilevel import Forward, ProxyCoreset
from handful.continual import ReplayBuffer
from handful.proxies import RBF, Nystrom
from sklearn.datasets import load_digits
from sklearn.svm import SVC


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    # a circle: no linear model of X separates it
    return X, (np.linalg.norm(X, axis=1) > 1.9).astype(int)


def test_it_is_the_selector_on_the_features(data):
    X, y = data
    # all rows are landmarks: features without a draw
    proxy = Nystrom(RBF(0.3), n_landmarks=300)
    few = ProxyCoreset(KCenter(), proxy, size=12, random_state=3).fit(X, y)
    Z = proxy.fit_transform(X)
    K = Z @ Z.T
    first = few.indices_[0]
    # the features may come in another order of rows and signs, distances may not
    sq_dist = np.diag(K)[:, None] - 2 * K + np.diag(K)
    chosen = [first]
    while len(chosen) < 12:
        chosen.append(int(np.argmax(sq_dist[:, chosen].min(axis=1))))
    np.testing.assert_array_equal(few.indices_, chosen)
    assert few.weights_.sum() == pytest.approx(200)
    again = ProxyCoreset(KCenter(), proxy, size=12, random_state=3).fit(X, y)
    np.testing.assert_array_equal(few.indices_, again.indices_)


def test_by_default_many_rows_too_are_better_than_random_ones():
    X, y = load_digits(return_X_y=True)
    selectors = [ProxyCoreset(proxy=Nystrom(RBF(1e-3), n_landmarks=100)), UniformCoreset()]
    errors = []
    for selector in selectors:
        X_small, y_small, w = selector.set_params(size=100, random_state=0).fit(X, y).take(X, y)
        model = SVC(gamma=1e-3).fit(X_small, y_small, sample_weight=w)
        errors.append(1 - model.score(X, y))
    assert errors[0] < 0.6 * errors[1]


def test_it_serves_as_the_selector_of_a_stream(data):
    X, y = data
    few = ProxyCoreset(
        BilevelCoreset(Logistic(1e-2), rule="linear", strategy=Forward(n_start=2)),
        Nystrom(RBF(0.3), n_landmarks=50),
    )
    stream = MergeReduce(few, size=10, leaf_size=25, n_slots=3, random_state=0)
    for start in range(0, 200, 25):
        stream.partial_fit(X[start : start + 25], y[start : start + 25])
    assert len(stream.coreset_) == 30
    assert sum(stream.slot_weights_) == 8
    np.testing.assert_array_equal(stream.rows()[0], X[stream.indices_])
    assert stream.weights_.sum() == pytest.approx(200)


@pytest.mark.parametrize(
    "selector",
    [None, BilevelCoreset(rule="linear", strategy=Forward(n_start=2)), SVMCoreset()],
    ids=repr,
)
def test_leaves_and_tasks_of_one_class_are_the_selector_s_own_matter(selector, data):
    X, y = data
    order = np.argsort(y, kind="stable")
    X = X[order]
    y = y[order]
    few = ProxyCoreset(selector, Nystrom(RBF(0.3), n_landmarks=50))
    stream = MergeReduce(few, size=10, leaf_size=25, random_state=0).fit(X, y)
    assert 1 <= len(stream.coreset_) <= 10
    memory = ReplayBuffer(few, size=20, random_state=0).add(X[y == 0], y[y == 0])
    assert 1 <= len(memory) <= 20
    assert (memory.rows()[1] == 0).all()
