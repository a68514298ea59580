"""A warning where columns have units of their own, and none where they have not."""

import warnings

import numpy as np
import pytest
from handful import (
    VCGMM,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    KMeansPlusPlus,
    LeastSquares,
    LightweightCoreset,
    LinearSVM,
    Logistic,
    LogisticSensitivity,
    MatchedCoreset,
    MergeReduce,
    StratifiedCoreset,
    SVMCoreset,
    UniformCoreset,
)
from handful.active import KCenterQuery, KMeansQuery
from handful.baselines import Herding
from handful.bilevel.candidate_scoring import select_in_proxy
from handful.clustering import Medoids, MiniBatchKMeans
from handful.proxies import RBF, Nystrom
from handful.scales import ScaleWarning
from handful.sensitivity import MixtureSensitivity
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

X, Y = load_breast_cancer(return_X_y=True)
BY_SCALE = [
    BilevelCoreset(Logistic(), size=10),
    BilevelCoreset(LeastSquares(), size=10),
    MatchedCoreset(LeastSquares(), penalties=[1.0]),
    KMeansPlusPlus(10),
    KCenter(10),
    Herding(10),
    Medoids(10),
    LightweightCoreset(50),
    MixtureSensitivity(50),
    SVMCoreset(50),
    LogisticSensitivity(50),
    VCGMM(3),
    MiniBatchKMeans(n_clusters=3, n_steps=5),
    LinearSVM(tol=0.1),
]
by_name = pytest.mark.parametrize("model", BY_SCALE, ids=lambda m: " ".join(repr(m).split())[:40])


def told(fit, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*args)
    return [w for w in caught if issubclass(w.category, ScaleWarning)]


@by_name
def test_raw_columns_are_told_of_once_with_the_line_that_mends_it(model):
    (said,) = told(model.fit, X, Y)
    text = str(said.message)
    assert "columns of X differ in scale by a factor of" in text
    assert f"{type(model).__name__} goes by the large ones" in text
    assert "StandardScaler()" in text
    assert said.filename == __file__
    assert told(model.fit, StandardScaler().fit_transform(X), Y) == []


@pytest.mark.parametrize("model", [Medoids(10), VCGMM(3), MiniBatchKMeans(n_clusters=3, n_steps=5)])
def test_rows_of_weight_zero_are_not_looked_at(model):
    rows = np.random.default_rng(0).normal(size=(500, 2))
    weights = np.ones(500)
    weights[:100] = 0
    rows[:100, 1] *= 1e6
    assert told(model.fit, rows, None, weights) == []
    assert len(told(model.fit, rows)) == 1


def test_medoids_of_many_clusters_are_told_of_once_in_their_name():
    rows = (np.random.default_rng(0).normal(size=(280, 3)) * [1, 1, 1000])[np.arange(2000) % 280]
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        Medoids(300, random_state=0).fit(rows)
    (said,) = given
    assert "Medoids goes by the large ones" in str(said.message)


def test_two_columns_of_a_factor_of_a_hundred_are_named():
    rows = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 1.0, 250.0]
    (said,) = told(KCenter(5).fit, rows)
    assert "the deviation of column 2 is 2" in str(said.message)
    assert told(KCenter(5).fit, rows * [1, 1, 1 / 5]) == []


def words(n=400, d=200):
    rng = np.random.default_rng(0)
    return rng.poisson(1.0 / np.arange(1, d + 1) ** 2 * np.ones((n, 1))).astype(float)


HARMLESS = {
    "digits": load_digits().data,
    "iris": load_iris().data,
    "diabetes": load_diabetes().data,
    "counts of words": 100 * words(),
    "rare flags beside a wide column": np.c_[
        np.arange(400) < 3, np.random.default_rng(0).normal(0, 20, 400)
    ],
    "flags": np.c_[np.arange(4000) < 3, np.arange(4000) % 2, np.ones(4000)],
    "a constant, but for rounding": np.c_[
        1e6 + 1e-4 * np.random.default_rng(0).random(400), np.arange(400)
    ],
    "principal components": PCA(whiten=False).fit_transform(X),
    "Nystrom features": Nystrom(RBF(0.01), n_landmarks=60, random_state=0).fit_transform(
        load_iris().data
    ),
    "one row twice": np.zeros((10, 2)),
}


@pytest.mark.parametrize("rows", HARMLESS.values(), ids=HARMLESS)
def test_columns_of_one_unit_are_not_told_of(rows):
    assert told(KMeansPlusPlus(2).fit, rows) == []


def test_what_does_not_go_by_scale_and_sparse_rows_are_not_told_of():
    for model in (
        UniformCoreset(10),
        StratifiedCoreset(10),
        MatchedCoreset(LeastSquares(), at="posterior"),
    ):
        assert told(model.fit, X, Y) == []
    assert told(KCenter(10).fit, sparse.csr_array(X)) == []
    assert told(MergeReduce(KCenter(), size=10, leaf_size=100).fit, X, Y) == []


def test_queries_and_pipelines():
    features = load_wine().data
    for query in (KCenterQuery(), KMeansQuery(random_state=0)):
        assert len(told(lambda query=query: query.query(5, features=features))) == 1
    model = CoresetEstimator(
        BilevelCoreset(size=20, random_state=0), LogisticRegression(max_iter=5000)
    )
    assert len(told(model.fit, X, Y)) == 1
    assert told(make_pipeline(StandardScaler(), model).fit, X, Y) == []


def test_nobody_hears_of_the_scales_of_a_proxys_features():
    """Some columns of Nystrom's features may be nearly empty, which no scaler of the user mends."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    uneven = FunctionTransformer(lambda X: X * [1.0, 1.0, 1e-4])

    def scales_named(proxy, rows):
        selector = BilevelCoreset(Logistic(l2=1e-2), size=5, random_state=0)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            select_in_proxy(selector, proxy, rows, y, np.ones(60))
        return any(issubclass(w.category, ScaleWarning) for w in given)

    assert not scales_named(uneven, X)
    assert scales_named(None, uneven.fit_transform(X))


@pytest.mark.parametrize("model", [Herding(5), SVMCoreset(5), LinearSVM()], ids=repr)
def test_rows_of_weight_zero_have_no_scale(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = X[:, 0] > 0
    X[50:, 2] *= 1e5
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        model.fit(X, y, sample_weight=np.repeat([1.0, 0.0], 50))
    with pytest.warns(ScaleWarning):
        model.fit(X, y)
