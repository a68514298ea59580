import tracemalloc
import warnings

import numpy as np
import pytest
from handful.blocks import Blocks
from handful.sensitivity.svm import SVMCoreset
from handful.svm import LinearSVM
from handful.svm.coordinate_descent import descend
from handful.svm.interior_point import STRIP, gram, minimise, with_ones
from handful.svm.linear_svm import hinge_price, svm_objective
from handful.svm.smoothing import solve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from sklearn.svm import SVC
from svm_oracle import qp_svm, random_svm


def make(rng, n, d, *, spread=1.0, noise=1.0):
    X = rng.normal(size=(n, d)) * spread
    y = np.sign(X @ rng.normal(size=d) + noise * rng.normal(size=n) + 0.3)
    y[:2] = 1, -1
    return X, y


def fitted(model):
    return np.append(model.coef_[0], model.intercept_)


@pytest.mark.parametrize(
    ("n", "d", "l2"), [(2, 1, 0.5), (5, 8, None), (60, 3, 0.2), (300, 12, 3e-4)]
)
def test_objective_equals_that_of_a_qp_solver(rng, n, d, l2):
    X, y = make(rng, n, d)
    u = rng.exponential(size=n)
    model = LinearSVM(l2=l2, tol=1e-9).fit(X, y, sample_weight=u)
    assert model.objective_ == pytest.approx(
        svm_objective(X, y, fitted(model), l2=l2, sample_weight=u)
    )
    c = u if l2 is None else u / u.sum() / l2
    lower, upper = qp_svm(X, y, c)
    assert upper == pytest.approx(lower, rel=1e-6)
    assert model.objective_ == pytest.approx(upper, rel=1e-6)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    d=st.integers(1, 6),
    log_l2=st.floats(-6, 6),
    log_spread=st.floats(-3, 3),
    decades=st.floats(0, 12),
)
@settings(max_examples=150, deadline=None)
def test_the_certificate_holds_on_whatever_data(seed, n, d, log_l2, log_spread, decades):
    """Lower bound <= F at any w: at the solution, around it, and at solutions of a tighter solve.

    Rarely, with weights over ten orders of magnitude, rounding keeps the gap above the tolerance:
    then it says so.
    """
    rng = np.random.default_rng(seed)
    X, y = make(rng, n, d, spread=10**log_spread)
    u = 10 ** rng.uniform(-decades, 0, size=n)
    l2 = 10**log_l2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = LinearSVM(l2=l2, tol=1e-3).fit(X, y, sample_weight=u)
    assert model.gap_ <= 1e-3 or any(w.category is ConvergenceWarning for w in caught)
    others = [fitted(model) * (1 + 0.1 * rng.normal(size=d + 1)) for _ in range(20)]
    with warnings.catch_warnings():
        # any w tests the bound
        warnings.simplefilter("ignore", ConvergenceWarning)
        others.append(fitted(LinearSVM(l2=l2, tol=1e-9).fit(X, y, sample_weight=u)))
    slack = 1e-12 * model.objective_
    assert all(
        svm_objective(X, y, w, l2=l2, sample_weight=u) >= model.lower_bound_ - slack for w in others
    )


def test_gap_and_bound_hold_on_badly_scaled_problems():
    """Conditioning to 1e12, weights over ten decades, offsets to 1e8; a QP solver's bounds on the
    optimum decide."""
    decided = 0
    for seed in range(80):
        X, y, u, l2 = random_svm(np.random.default_rng([17, seed]))
        model = LinearSVM(l2=l2).fit(X, y, sample_weight=u)
        assert model.gap_ <= 1e-8
        lower, upper = qp_svm(X, y, hinge_price(l2, u.sum()) * u)
        assert model.lower_bound_ <= upper * (1 + 1e-12)
        assert model.objective_ >= lower * (1 - 1e-12)
        decided += upper - lower <= 1e-6 * upper
    # elsewhere the QP solver's own bounds are too far apart to say much
    assert decided >= 60


@pytest.mark.parametrize("l2", [1e7, 1e-11])
def test_separable_data_and_extreme_l2(rng, l2):
    X = np.vstack([rng.normal(size=(50, 2)) + 6, rng.normal(size=(50, 2)) - 6])
    y = np.repeat([1, -1], 50)
    model = LinearSVM(l2=l2).fit(X, y)
    assert model.gap_ <= 1e-8
    if l2 < 1:
        # the hard margin
        assert (y * model.decision_function(X)).min() == pytest.approx(1, abs=1e-6)


def test_equal_points_of_both_labels_give_the_majority():
    model = LinearSVM().fit(np.ones((5, 2)), [0, 0, 0, 1, 1])
    np.testing.assert_allclose(model.coef_, 0, atol=1e-6)
    # each of the two in the minority pays 1 - (-1)
    assert model.objective_ == pytest.approx(2 * 2)
    assert (model.predict(np.ones((3, 2))) == 0).all()


def test_two_points_give_the_maximal_margin():
    model = LinearSVM(l2=0.005).fit([[0.0, 0.0], [0.0, 4.0]], ["no", "yes"])
    np.testing.assert_allclose(fitted(model), [0, 0.5, -1], atol=1e-6)


@pytest.mark.parametrize("l2", [1e-300, 1e-160, 1e-60, 1e150])
def test_bounds_stay_finite_at_penalties_that_rounding_drowns(rng, l2):
    X = rng.normal(size=(40, 3))
    y = np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVM(l2=l2, max_iter=20).fit(X, y)
    assert 0 <= model.lower_bound_ <= model.objective_ * (1 + 1e-9)
    assert model.gap_ == pytest.approx(1 - model.lower_bound_ / model.objective_, abs=1e-12)
    assert model.gap_ <= 1


def test_l2_is_the_penalty_per_mean_loss(rng):
    """The solution is that of SVC at C = 1 / (l2 n), and does not depend on the scale of the
    weights."""
    X, y = make(rng, 150, 4)
    ours = LinearSVM(l2=0.02, tol=1e-10).fit(X, y)
    theirs = SVC(kernel="linear", C=1 / (0.02 * 150), tol=1e-8).fit(X, y)
    np.testing.assert_allclose(fitted(ours), fitted(theirs), atol=1e-5)
    heavy = LinearSVM(l2=0.02, tol=1e-10).fit(X, y, sample_weight=np.full(150, 7.0))
    np.testing.assert_allclose(fitted(ours), fitted(heavy), atol=1e-6)
    default = LinearSVM(tol=1e-10).fit(X, y)
    np.testing.assert_allclose(
        fitted(default), fitted(LinearSVM(l2=1 / 150, tol=1e-10).fit(X, y)), atol=1e-6
    )


@pytest.mark.parametrize("noise", [0.0, 0.3, 30.0])
def test_staged_solution_is_certified_on_all_rows(rng, noise):
    """Separable, ordinary and label-noise data, beyond the size at which stages begin."""
    X, y = make(rng, 20_000, 6, noise=noise)
    model = LinearSVM().fit(X, y)
    assert model.gap_ <= 1e-8
    assert svm_objective(X, y, fitted(model)) == pytest.approx(model.objective_, rel=1e-12)
    # fewer non-negative terms: its optimum bounds from below
    a_part = LinearSVM().fit(X[:7000], y[:7000])
    assert a_part.lower_bound_ <= model.objective_


def test_staged_solve_of_a_rare_class(rng):
    X = rng.normal(size=(15_000, 3))
    y = np.full(15_000, -1)
    y[:3] = 1
    X[:3] = X[:3] + 3
    assert LinearSVM().fit(X, y).gap_ <= 1e-8


# each once gave a wrong certificate, or none
@pytest.mark.parametrize("seed", [13, 33, 178, 371])
def test_part_without_a_solution_leaves_the_whole_solve_its_digits(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2000, 15000))
    d = int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * np.exp(2 * rng.normal(size=d))
    y = np.where(rng.random(n) < rng.choice([0.02, 0.05, 0.1, 0.15, 0.25]), 1.0, -1.0)
    c = 10 ** rng.uniform(-6, -2) * (rng.exponential(size=n) if rng.random() < 0.5 else np.ones(n))
    A = with_ones(X)
    ours = solve(A, y, c, tol=1e-8)
    plain = minimise(A, y, c, tol=1e-8)
    assert abs(ours.gap) <= 1e-8
    assert ours.objective == pytest.approx(plain.objective, rel=2e-8)


def wide_text(rng, n, d):
    """Rows of unit length with few entries, such as documents."""
    X = sparse.random(n, d, density=12 / d, random_state=int(rng.integers(1000)), format="csr")
    X = normalize(X[X.getnnz(axis=1) > 0])
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=X.shape[0]) > 0.1, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("l2", [None, 1e-5, 0.3])
def test_wide_sparse_solution_is_within_the_bounds_of_a_qp_solver(l2, rng):
    X, y = wide_text(rng, 250, 700)
    u = rng.exponential(size=len(y))
    model = LinearSVM(l2=l2).fit(X, y, sample_weight=u)
    assert model.method_ == "coordinate descent"
    assert model.gap_ <= 1e-8
    lower, upper = qp_svm(X.toarray(), y, hinge_price(l2, u.sum()) * u)
    assert model.lower_bound_ <= upper * (1 + 1e-12)
    assert model.objective_ >= lower * (1 - 1e-12)
    assert upper == pytest.approx(lower, rel=1e-6)
    assert model.objective_ == pytest.approx(
        svm_objective(X, y, fitted(model), l2=l2, sample_weight=u)
    )


def test_both_methods_give_the_same_solution(rng, monkeypatch):
    X, y = wide_text(rng, 900, 600)
    # the descent meets the bias twice
    X = sparse.hstack([X, np.full((len(y), 1), 0.5)], format="csr")
    descent = LinearSVM(tol=1e-9, warm_start=True).fit(X, y)
    again = descent.fit(X, y)
    monkeypatch.setattr("handful.svm.coordinate_descent.WIDE", 10**9)
    interior = LinearSVM(tol=1e-9).fit(X, y)
    assert (again.method_, interior.method_) == ("coordinate descent", "interior point")
    assert descent.objective_ == pytest.approx(interior.objective_, rel=2e-9)
    np.testing.assert_allclose(descent.coef_, interior.coef_, atol=1e-3)


@pytest.mark.parametrize("decades", [0, 8])
@pytest.mark.parametrize("price", [1e-6, 1e-3, 1.0])
def test_descent_reaches_its_gap_at_any_price_and_with_weights_over_decades(price, decades, rng):
    """A small price is the hard case for the bias: the sum that moves it is small, too."""
    X, y = wide_text(rng, 150, 120)
    c = price * 10 ** rng.uniform(-decades, 0, size=len(y))
    A = with_ones(X)
    ours = descend(A, y, c, tol=1e-8)
    interior = minimise(A, y, c, tol=1e-9)
    assert ours.gap <= 1e-8
    assert ours.lower_bound <= interior.objective * (1 + 1e-12)
    assert interior.lower_bound <= ours.objective * (1 + 1e-12)


def test_descent_that_is_too_slow_hands_over_to_the_interior_point_method(rng):
    X, y = wide_text(rng, 400, 600)
    X = (X @ sparse.diags(10 ** rng.uniform(-3, 3, size=600))).tocsr()
    model = LinearSVM(l2=1e-9).fit(X, y)
    assert model.method_ == "interior point"
    assert model.gap_ <= 1e-8


def test_many_features_need_no_matrix_of_their_square(rng, monkeypatch):
    """Where one d x d matrix does not fit, solver and coreset work within that of X and of the 64
    cluster centers."""
    for module in ("svm.interior_point", "checks"):
        monkeypatch.setattr(f"handful.{module}.physical_memory", lambda: 8 * 10_000**2)
    X, y = wide_text(rng, 1000, 10_000)
    tracemalloc.start()
    model = LinearSVM(tol=1e-6).fit(X, y)
    coreset = SVMCoreset(200, random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.gap_ <= 1e-6
    assert 0.85 * model.objective_ < coreset.lower_bound_ <= model.objective_
    assert peak < 10 * (12 * X.nnz + 8 * (1000 + 10_000)) + 4 * 8 * 64 * 10_000
    with pytest.raises(
        MemoryError, match=r"10000 features needs 6,401,280,064 bytes, more than the 800,000,000"
    ):
        minimise(with_ones(X), y, np.ones(len(y)), tol=1e-3)


def test_stopping_the_descent_early_warns_and_still_certifies(rng, monkeypatch):
    monkeypatch.setattr("handful.svm.interior_point.physical_memory", lambda: 1)
    X, y = wide_text(rng, 2000, 2000)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = LinearSVM(l2=1e-7, tol=1e-10, max_iter=1).fit(X, y)
    best = LinearSVM(l2=1e-7, tol=1e-6).fit(X, y)
    assert model.lower_bound_ <= best.objective_
    assert best.lower_bound_ <= model.objective_


def test_warm_start_begins_near_the_solution(rng):
    X, y = make(rng, 4000, 5)
    model = LinearSVM(warm_start=True).fit(X, y)
    cold = model.n_iter_
    coef = model.coef_.copy()
    model.fit(X, y)
    assert model.n_iter_ < cold
    np.testing.assert_allclose(model.coef_, coef, atol=1e-4)


@pytest.mark.parametrize("n", [300, 12_000])
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
def test_offsets_of_the_features_change_only_the_bias(rng, n, offset):
    X, y = make(rng, n, 4)
    # so that adding the offset loses few digits of the data
    X = np.round(X, 3 if offset < 1e8 else 1)
    near = LinearSVM().fit(X, y)
    X += np.array([offset, 0, -offset, 0])
    far = LinearSVM(warm_start=True).fit(X, y)
    # cold, then warm
    for model in (far, far.fit(X, y)):
        assert model.gap_ <= 1e-8
        assert model.objective_ == pytest.approx(near.objective_, rel=1e-6)
        np.testing.assert_allclose(model.coef_, near.coef_, atol=1e-3)
    shifted = svm_objective(X, y, fitted(far))
    assert shifted == pytest.approx(far.objective_, rel=1e-15 * offset + 1e-9)


def test_stopping_early_warns_and_still_certifies(rng):
    X, y = make(rng, 200, 3)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = LinearSVM(max_iter=3).fit(X, y)
    best = LinearSVM().fit(X, y).objective_
    assert model.lower_bound_ <= best <= model.objective_


def test_several_classes_are_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = LinearSVM(l2=0.01).fit(X, names)
    for k, name in enumerate(model.classes_):
        alone = LinearSVM(l2=0.01).fit(X, names == name)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], rtol=1e-5, atol=1e-7)
        assert model.objective_[k] == pytest.approx(alone.objective_, rel=1e-6)
    margins = model.decision_function(X)
    assert margins.shape == (150, 3)
    assert (model.predict(X) == model.classes_[margins.argmax(axis=1)]).all()
    assert model.gap_ <= 1e-8
    again = LinearSVM(l2=0.01, warm_start=True).fit(X, names)
    assert again.fit(X, names).coef_.shape == (3, 4)


@pytest.mark.parametrize("class_weight", [{1: 5.0}, {0: 0.5, 1: 2}, "balanced"])
def test_class_weights_multiply_the_losses_as_in_svc(rng, class_weight):
    X, y = make(rng, 80, 3)
    y = (y > 0).astype(int)
    y[:30] = 0
    ours = LinearSVM(l2=0.05, class_weight=class_weight).fit(X, y)
    svc = SVC(kernel="linear", C=1 / (0.05 * 80), class_weight=class_weight, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, svc.coef_, rtol=1e-4, atol=1e-5)
    repeated = LinearSVM(l2=0.05, class_weight=class_weight).fit(
        np.repeat(X, 2, axis=0), np.repeat(y, 2)
    )
    weighted = LinearSVM(l2=0.05, class_weight=class_weight).fit(
        X, y, sample_weight=np.full(80, 2.0)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5, atol=1e-7)
    for bad in ({7: 1.0}, {0: 0.0, 1: 1.0}, {0: -1.0, 1: 1.0}, {0: np.nan, 1: 1.0}):
        with pytest.raises(ValueError, match="class_weight"):
            LinearSVM(class_weight=bad).fit(X, y)


@pytest.mark.parametrize("make_sparse", [False, True])
def test_gram_matrices_are_the_textbook_products(make_sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(STRIP + 77, 5))
    D = rng.random(STRIP + 77)
    A = np.column_stack([X, np.ones(len(X))])
    found = gram(with_ones(sparse.csr_matrix(X) if make_sparse else X), D)
    np.testing.assert_allclose(found, A.T @ (D[:, None] * A), atol=1e-9)


@pytest.mark.parametrize("class_weight", ["foo", {0: 1, 1: "x"}, {"a": 1, "b": 2}, [1, 2]])
def test_weights_of_classes_are_refused_with_what_they_must_be(class_weight):
    X = np.arange(8.0)[:, None]
    with pytest.raises(ValueError, match=r"class_weight of LinearSVM must be .* classes \[0, 1\]"):
        LinearSVM(class_weight=class_weight).fit(X, (X.ravel() > 3).astype(int))


@pytest.mark.parametrize(("seed", "exponent"), [(176, 8), (1279, 12)])
def test_the_gap_is_that_of_the_coefficients_at_any_price_and_weights(seed, exponent):
    """Margins that were added up step by step told of a gap of 1e-9 where it was .9."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 40))
    d = int(rng.integers(2, 8))
    X = 100 * rng.normal(size=(n, d))
    X -= X.mean(0)
    noise = rng.choice([0, 30])
    y = np.where(X @ rng.normal(size=d) + noise * rng.normal(size=n) > 0, 1, -1)
    # as the search drew that found these seeds
    rng.choice([4, 8])
    u = 10.0 ** rng.uniform(-8, 0, n)
    l2 = 10.0**-exponent / u.sum()
    model = LinearSVM(l2=l2).fit(X, y, u)
    w = np.append(model.coef_, model.intercept_)
    objective = svm_objective(X, y, w, l2=l2, sample_weight=u)
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    assert 1 - model.lower_bound_ / objective < 1e-6


def test_rows_in_blocks_are_refused_with_or_without_labels_beside_them():
    X = np.arange(8.0)[:, None]
    y = (X.ravel() > 3).astype(int)
    for given_y in ([], [y]):
        with pytest.raises(
            ValueError, match=r"LinearSVM must have its rows in memory, got .*Blocks"
        ):
            LinearSVM().fit(Blocks(X, y), *given_y)
