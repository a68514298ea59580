import threading

import numpy as np
import pytest
from handful import (
    AnyEstimatorCoreset,
    KCenter,
    KMeansPlusPlus,
    LightweightCoreset,
    LinearSVM,
    SVMCoreset,
    UniformCoreset,
    linalg,
)
from handful.linalg import alias_records, cell_means, centred, draw_alias, one_blas_thread
from handful.proxies import RBF
from handful.sensitivity import MixtureSensitivity
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_info, threadpool_limits


def test_alias_table_holds_the_distribution_exactly():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 1000):
        p = rng.gamma(0.3, size=n)
        p[rng.random(n) < 0.2] = 0
        p[0] += 0.1
        p /= p.sum()
        records = alias_records(p)
        own = (records >> np.uint64(32)).astype(float) / 2**32
        alias = (records & np.uint64(0xFFFFFFFF)).astype(int)
        held = own / n
        np.add.at(held, alias, (1 - own) / n)
        np.testing.assert_allclose(held, p, atol=2**-32)
        assert (np.array([draw_alias(records, u) for u in rng.random(2000)]) < n).all()


def test_the_greatest_draw_does_not_leave_the_table():
    # 3 u rounds up to 3 for the greatest u below one
    three = alias_records(np.full(3, 1 / 3))
    assert draw_alias(three, np.nextafter(1.0, 0.0)) == 2


def test_passes_over_the_rows_take_as_many_threads_as_the_user_gives_blas():
    for allowed in (1, 2):
        with threadpool_limits(allowed, "blas"):
            assert linalg.n_threads() == allowed
            with one_blas_thread():
                assert linalg.n_threads() == allowed


def test_overlapping_threads_leave_blas_as_they_found_it():
    # of the libraries that the context sees; a test before this one may have loaded others since
    def numbers():
        return [library.get_num_threads() for library in linalg._blas()]

    def set_to(numbers):
        linalg._set_threads(zip(linalg._blas(), numbers))

    entered = threading.Event()
    leave = threading.Event()

    # enters first and leaves last but one
    def other():
        with one_blas_thread():
            entered.set()
            leave.wait(10)

    before = numbers()
    try:
        set_to([2] * len(before))
        found = numbers()
        assert 2 in found
        first = threading.Thread(target=other)
        first.start()
        entered.wait(10)
        with one_blas_thread():
            leave.set()
            first.join()
            assert set(numbers()) == {1}
        assert numbers() == found
    finally:
        set_to(before)


def threads_of(api):
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == api}


def test_every_selector_chooses_with_one_thread_of_blas():
    seen = []

    class Watching(UniformCoreset):
        def _select(self, X, y, sample_weight, rng):
            seen.append(threads_of("blas"))
            return super()._select(X, y, sample_weight, rng)

    X = np.random.default_rng(0).normal(size=(400, 2))
    with threadpool_limits(2, "blas"):
        Watching(5).fit(X)
        assert threads_of("blas") == {2}
    assert seen == [{1}]


def test_trials_on_few_rows_take_one_thread_of_openmp():
    seen = []

    class Watching(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append((threads_of("openmp"), threads_of("blas")))
            return super().fit(X, y, sample_weight=sample_weight)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    with threadpool_limits(2):
        AnyEstimatorCoreset(Watching(), size=10, n_draws=1, n_exchanges=2).fit(X, X[:, 0] > 0)
        assert threads_of("openmp") == {2}
    assert seen == [({1}, {1})] * len(seen)
    assert len(seen) > 3


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
