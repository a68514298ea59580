import numpy as np
import pytest
from handful import (
    KCenter,
    KMeansPlusPlus,
    LightweightCoreset,
    LinearSVM,
    SVMCoreset,
)
from handful.distances import cell_means, centred
from handful.proxies import RBF
from handful.sensitivity import MixtureSensitivity
from scipy import sparse

# Far from the origin -----------------------------------------------------------------------------

# sums with 1e8 are exact
GRID = np.round(np.random.default_rng(5).normal(size=(300, 4)) * 2**16) / 2**16
SIGNS = np.where(GRID[:, 0] + GRID[:, 1] > 0.3 * np.random.default_rng(6).normal(size=300), 1, -1)
SELECTORS = {
    "k-means++": lambda: KMeansPlusPlus(20, weighting="cells", random_state=0),
    "k-center": lambda: KCenter(20, weighting="cells", random_state=0),
    "lightweight": lambda: LightweightCoreset(40, random_state=0),
    "mixture": lambda: MixtureSensitivity(40, random_state=0),
    "SVM": lambda: SVMCoreset(40, random_state=0),
}


def mixed(X):
    """Two columns stored in full, one in a half of its rows, and one in a few."""
    few = np.where(np.arange(len(X)) % 10 == 0, X[:, 3], 0.0)
    return np.column_stack([X[:, :2], np.where(np.arange(len(X)) % 2 == 0, GRID[:, 2], 0.0), few])


@pytest.mark.parametrize("form", ["dense", "csr", "mixed csr"])
@pytest.mark.parametrize("name", SELECTORS)
def test_choices_and_weights_stay_as_they_are_far_from_the_origin(name, form):
    selector = SELECTORS[name]()
    X = mixed(GRID) if form == "mixed csr" else GRID
    if form != "dense" and not selector._accepts.sparse:
        return
    near = selector.fit(X, SIGNS)
    for shift in (1e7, 1e8):
        moved = X + shift * np.array([1.0, 1.0, 0.0, 0.0] if form == "mixed csr" else 1.0)
        far = SELECTORS[name]().fit(moved if form == "dense" else sparse.csr_matrix(moved), SIGNS)
        np.testing.assert_array_equal(far.indices_, near.indices_)
        np.testing.assert_allclose(far.weights_, near.weights_, rtol=1e-6)


def test_the_bounds_of_an_svm_on_a_sparse_matrix_stay_as_they_are_far_from_the_origin():
    best = LinearSVM().fit(GRID, SIGNS)
    for shift in (1e7, 1e8):
        far = sparse.csr_matrix(GRID + shift)
        svm = LinearSVM().fit(far, SIGNS)
        assert svm.gap_ < 1e-8
        np.testing.assert_allclose(svm.coef_, best.coef_, atol=1e-5)
        bound = SVMCoreset(40, random_state=0).fit(far, SIGNS).lower_bound_
        assert 0.9 * best.objective_ <= bound <= best.objective_


def test_an_rbf_kernel_stays_as_it_is_far_from_the_origin():
    near = RBF(0.5)(GRID, GRID[:40])
    for shift in (1e7, 1e8):
        np.testing.assert_allclose(RBF(0.5)(GRID + shift, GRID[:40] + shift), near, atol=1e-12)


def test_centred_moves_columns_to_their_mean_and_leaves_those_that_are_mostly_zero():
    X = mixed(GRID)
    weights = np.arange(300.0)
    Y, center = centred(sparse.csr_matrix(X), weights)
    np.testing.assert_allclose(Y.toarray() + center, X)
    np.testing.assert_allclose(center, np.append(weights @ X[:, :2] / weights.sum(), [0.0, 0.0]))
    assert Y.nnz <= 600 + np.count_nonzero(X[:, 2:])
    Y, center = centred(X, weights)
    np.testing.assert_allclose(weights @ Y, 0.0, atol=1e-8)
    np.testing.assert_allclose(Y + center, X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_means_of_cells_add_up_row_after_row(rng, kind):
    X = rng.normal(size=(300, 4))
    label = rng.integers(0, 6, size=300)
    weights = rng.random(300)
    X[X < -0.5] = 0
    # the last cell has no row
    sums = np.zeros((7, 4))
    mass = np.zeros(7)
    for x, c, u in zip(X, label, weights):
        sums[c] += u * x
        mass[c] += u
    means, found = cell_means(kind(X), label, weights, 7)
    np.testing.assert_allclose(means, sums / np.maximum(mass, 1e-300)[:, None], rtol=1e-13)
    np.testing.assert_array_equal(found, mass)
