"""Coreset, the base class of selectors, torch subsets and CoresetEstimator."""

import numpy as np
import pandas as pd
import pytest
import torch
from handful import (
    BilevelCoreset,
    Coreset,
    CoresetEstimator,
    KCenter,
    LeastSquares,
    MergeReduce,
    Selector,
    UniformCoreset,
)
from handful.checks import Accepts
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import get_tags
from torch.utils.data import DataLoader, Dataset, TensorDataset

CORESET = Coreset(np.array([5, 0, 5, 3]), np.array([1.0, 2.0, 3.0, 4.0]))

# Coreset -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "container",
    [
        np.asarray,
        np.asfortranarray,
        sparse.csr_matrix,
        sparse.coo_array,
        pd.DataFrame,
        torch.tensor,
        lambda X: X.tolist(),
    ],
    ids=["array", "fortran", "csr", "coo", "frame", "tensor", "list"],
)
def test_take_gives_the_rows_in_order_with_repetition(container):
    X = np.arange(12.0).reshape(6, 2)
    rows, y, nothing, weights = CORESET.take(container(X), container(X[:, :1]), None)
    assert nothing is None
    np.testing.assert_array_equal(weights, CORESET.weights)
    if not isinstance(container(X), list):
        assert type(rows) is type(container(X)) or sparse.issparse(rows)
    for taken, whole in ((rows, X), (y, X[:, :1])):
        dense = taken.toarray() if sparse.issparse(taken) else np.asarray(taken)
        np.testing.assert_array_equal(dense, whole[[5, 0, 5, 3]])


def test_a_coreset_needs_one_weight_an_index():
    assert len(CORESET) == 4
    for indices, weights in [([1, 2], [1.0]), ([[1]], [[1.0]]), ([], 1.0)]:
        with pytest.raises(
            ValueError, match=r"one weight per index: got indices of shape .* weights of shape"
        ):
            Coreset(np.array(indices), np.array(weights))


# Torch subsets -----------------------------------------------------------------------------------


class Pictures(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.full((2, 2), float(i))


def test_a_subset_yields_items_with_their_weights():
    X = torch.arange(12.0).reshape(6, 2)
    y = torch.arange(6)
    subset = CORESET.subset(TensorDataset(X, y))
    assert len(subset) == 4
    batches = list(DataLoader(subset, batch_size=3))
    rows, labels, weights = (torch.cat(parts) for parts in zip(*batches))
    assert rows.tolist() == X[[5, 0, 5, 3]].tolist()
    assert labels.tolist() == [5, 0, 5, 3]
    assert weights.tolist() == [1, 2, 3, 4]
    assert weights.dtype == torch.float32
    picture, weight = CORESET.subset(Pictures())[3]
    assert (picture == 3).all()
    assert weight == 4


def test_items_that_are_dictionaries_stay_dictionaries():
    rows = [{"text": str(i), "label": i} for i in range(6)]
    subset = CORESET.subset(rows)
    for position, (index, weight) in enumerate(zip(CORESET.indices, CORESET.weights)):
        item = subset[position]
        assert (item["text"], item["label"], item["weight"].item()) == (
            str(index),
            index,
            np.float32(weight),
        )
    assert set(next(iter(DataLoader(subset, batch_size=3)))) == {"text", "label", "weight"}
    assert "weight" not in rows[0]
    with pytest.raises(ValueError, match="an entry 'weight' already"):
        CORESET.subset([{"weight": 1.0}] * 6)[0]


# Selectors ---------------------------------------------------------------------------------------


class Last(Selector):
    """The last rows: the smallest selector there can be."""

    def __init__(self, *, size=2, random_state=None):
        self.size = size
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        self.seen = X, y, sample_weight, rng
        return range(len(X) - self.size, len(X)), np.ones(self.size)


def test_a_subclass_gets_checked_input():
    last = Last().fit([[1, 2], [3, 4], [5, 6]], sample_weight=[1, 0, 2])
    X, y, sample_weight, rng = last.seen
    # a row of weight zero is absent
    assert X.tolist() == [[1, 2], [5, 6]]
    assert sample_weight.tolist() == [1, 2]
    assert X.dtype == sample_weight.dtype == np.float64
    assert y is None
    assert isinstance(rng, np.random.Generator)
    assert last.indices_.tolist() == [0, 2]
    assert last.indices_.dtype == np.intp
    assert last.n_features_in_ == 2
    assert Last().fit(np.ones((3, 1), dtype=np.float32)).seen[0].dtype == np.float32


# CoresetEstimator --------------------------------------------------------------------------------


def spam(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n) > 0, "spam", "ham")


def test_it_is_selection_then_training():
    X, y = spam()
    u = np.random.default_rng(1).exponential(size=300)
    both = CoresetEstimator(BilevelCoreset(size=20, random_state=0), LogisticRegression()).fit(
        X, y, sample_weight=u
    )
    selector = BilevelCoreset(size=20, random_state=0).fit(X, y, sample_weight=u)
    X_small, y_small, w = selector.take(X, y)
    alone = LogisticRegression().fit(X_small, y_small, sample_weight=w)
    np.testing.assert_array_equal(both.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(both.decision_function(X), alone.decision_function(X))
    np.testing.assert_array_equal(both.predict(X), alone.predict(X))
    assert both.score(X, y) == alone.score(X, y) > 0.8
    assert both.score(X, y, sample_weight=u) == alone.score(X, y, sample_weight=u)
    assert both.classes_.tolist() == ["ham", "spam"]
    assert both.n_features_in_ == 4
    assert not hasattr(both, "transform")


def test_the_penalty_that_suits_the_full_data_suits_the_coreset():
    # weights estimate sums over the full data: with all rows in, the fit is that on the full data
    X, y = spam()
    for selector in (
        UniformCoreset(300),
        KCenter(300),
        BilevelCoreset(size=300, weighting="equal"),
    ):
        small = CoresetEstimator(selector, LogisticRegression(C=0.3, tol=1e-10)).fit(X, y)
        full = LogisticRegression(C=0.3, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(small.estimator_.coef_, full.coef_, rtol=1e-5)


def test_regressors_clusterers_transformers_and_sparse_data():
    X, _ = spam()
    target = X @ np.arange(4.0) + 1
    ridge = CoresetEstimator(
        BilevelCoreset(LeastSquares(1e-6), size=20, random_state=0), Ridge(1e-3)
    )
    assert cross_val_score(ridge, X, target, cv=3).min() > 0.99
    clusters = CoresetEstimator(UniformCoreset(50, random_state=0), KMeans(3, random_state=0)).fit(
        X
    )
    assert set(clusters.predict(X)) == {0, 1, 2}
    assert clusters.transform(X).shape == (300, 3)
    assert clusters.score(X) < 0
    both = CoresetEstimator(BilevelCoreset(size=20, random_state=0), LogisticRegression())
    X, y = spam()
    np.testing.assert_allclose(
        both.fit(sparse.csr_matrix(X), y).estimator_.coef_,
        both.fit(X, y).estimator_.coef_,
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("estimator", "way_out"),
    [(KNeighborsClassifier(), "AnyEstimatorCoreset"), (PCA(), "rows that the selector")],
)
def test_an_estimator_that_would_drop_the_weights_is_refused(estimator, way_out):
    X, y = spam()
    with pytest.raises(
        ValueError, match=f"{type(estimator).__name__}.fit takes no sample_weight, .*{way_out}"
    ):
        CoresetEstimator(UniformCoreset(10), estimator).fit(X, y)


SAID_OF_Y = {
    "unread": (False, False, False),
    "optional": (False, True, False),
    "targets": (True, True, False),
    "classes": (True, True, True),
    "two classes": (True, True, True),
}


@pytest.mark.parametrize("y", SAID_OF_Y)
def test_what_is_declared_of_y_is_what_is_asked_of_it(y):
    """What needs y looks at it, and classes are needed."""
    accepts = Accepts(y)
    assert (accepts.needs_y, accepts.reads_y, accepts.classes) == SAID_OF_Y[y]


class Declared(Last):
    """The last rows, of what is declared when it is made."""

    _accepts = Accepts("targets", sparse=True, dtypes=(np.float32,))


def test_what_a_selector_declares_is_what_fit_takes(rng):
    X = rng.normal(size=(9, 2))
    with pytest.raises(ValueError, match="Declared requires y to be passed"):
        Declared().fit(X)
    stream = MergeReduce(Declared(), size=2, leaf_size=4)
    with pytest.raises(ValueError, match="MergeReduce requires y to be passed"):
        stream.partial_fit(X)
    assert Declared()._check_X_y(X, X[:, 0])[0].dtype == np.float32
    rows, y = Declared()._check_X_y(sparse.csr_matrix(X), X[:, 0])
    assert rows.format == "csr"
    np.testing.assert_array_equal(y, X[:, 0])
    with pytest.raises(TypeError, match=r"X is sparse, .* and Last reads dense rows"):
        Last().fit(sparse.csr_matrix(X), X[:, 0])
    tags = get_tags(Declared())
    assert tags.target_tags.required
    assert tags.input_tags.sparse


def test_what_is_taken_of_files_stands_where_it_was_given(tmp_path, rng):
    X, y, w = rng.normal(size=(50, 2)), rng.normal(size=50), rng.exponential(size=50)
    given = []
    for name, array in dict(X=X, y=y, w=w).items():
        np.save(tmp_path / f"{name}.npy", array)
        given.append(tmp_path / f"{name}.npy")
    few = UniformCoreset(5, random_state=0).fit(X).coreset_
    for places in ((0, 1), (0, 1, 2)):
        of_files = few.take(*(given[i] for i in places))
        of_memory = few.take(*((X, y, w)[i] for i in places))
        for ours, theirs in zip(of_files, of_memory, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    rows, none, own, _ = few.take(given[0], None, given[2])
    assert none is None
    np.testing.assert_array_equal(rows, X[few.indices])
    np.testing.assert_array_equal(own, w[few.indices])


def test_a_selector_refuses_items_of_other_data():
    chosen = UniformCoreset(5, random_state=0).fit(np.zeros((30, 1)))
    assert len(chosen.subset(TensorDataset(torch.zeros(30)))) == 5
    for n in (29, 31):
        with pytest.raises(ValueError, match=f"fit saw 30 rows, but got {n} rows"):
            chosen.subset(TensorDataset(torch.zeros(n)))


def test_what_is_taken_may_be_changed(rng):
    X = rng.normal(size=(100, 2))
    few = UniformCoreset(10, random_state=0).fit(X)
    coreset = few.coreset_
    for source in (few, coreset):
        X_small, weights = source.take(X)
        weights /= weights.sum()
        X_small -= X_small.mean()
        assert source.take(X)[1].sum() == pytest.approx(100)
        np.testing.assert_array_equal(source.take(X)[0], X[few.indices_])
    assert few.weights_.sum() == pytest.approx(100)
