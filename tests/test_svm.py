import warnings

import clarabel
import numpy as np
import pytest
from handful.svm import LinearSVM, svm_objective
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks


@pytest.fixture
def rng():
    return np.random.default_rng(0)


NOT_CLAIMED = "runs only where SCIPY_ARRAY_API=1 is set before scipy is imported; not claimed"


@parametrize_with_checks([LinearSVM()], expected_failed_checks=lambda _: {"check_array_api_input": NOT_CLAIMED})
def test_estimator_checks(estimator, check):
    check(estimator)


def make(rng, n, d, *, spread=1.0, noise=1.0):
    X = rng.normal(size=(n, d)) * spread
    y = np.sign(X @ rng.normal(size=d) + noise * rng.normal(size=n) + 0.3)
    y[:2] = 1, -1
    return X, y


def fitted(model):
    return np.append(model.coef_[0], model.intercept_)


def qp_objective(X, y, c):
    """The optimum by a general QP solver: variables w, b, xi."""
    n, d = X.shape
    P = sparse.block_diag([sparse.eye(d), sparse.csc_matrix((n + 1, n + 1))], format="csc")
    Z = np.hstack([X, np.ones((n, 1))]) * y[:, None]
    A = sparse.bmat([[-Z, -sparse.eye(n)], [sparse.csc_matrix((n, d + 1)), -sparse.eye(n)]], format="csc")
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_rel = options.tol_gap_abs = options.tol_feas = 1e-10
    q = np.concatenate([np.zeros(d + 1), c])
    b = np.concatenate([-np.ones(n), np.zeros(n)])
    return clarabel.DefaultSolver(P, q, A, b, [clarabel.NonnegativeConeT(2 * n)], options).solve().obj_val


@pytest.mark.parametrize(("n", "d", "lam"), [(2, 1, 1.0), (5, 8, 1.0), (60, 3, 0.1), (300, 12, 10.0)])
def test_objective_equals_that_of_a_qp_solver(rng, n, d, lam):
    X, y = make(rng, n, d)
    u = rng.exponential(size=n)
    model = LinearSVM(lam=lam, tol=1e-9).fit(X, y, sample_weight=u)
    assert model.objective_ == pytest.approx(svm_objective(X, y, fitted(model), lam=lam, sample_weight=u))
    assert model.objective_ == pytest.approx(qp_objective(X, y, lam * u), rel=1e-6)


def test_agrees_with_svc_on_real_data():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), 2.0 * y - 1
    ours = LinearSVM().fit(X, y)
    theirs = SVC(kernel="linear", tol=1e-6).fit(X, y)
    their_objective = svm_objective(X, y, fitted(theirs))
    assert ours.objective_ <= their_objective
    assert their_objective == pytest.approx(ours.objective_, rel=1e-4)
    np.testing.assert_allclose(fitted(ours), fitted(theirs), atol=1e-2)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    d=st.integers(1, 6),
    log_lam=st.floats(-6, 4),
    log_spread=st.floats(-3, 3),
    decades=st.floats(0, 12),
)
@settings(max_examples=150, deadline=None)
def test_the_certificate_holds_on_whatever_data(seed, n, d, log_lam, log_spread, decades):
    """Lower bound <= F at any w: at the solution, around it, and at solutions of a tighter solve.

    Rarely, with weights over ten orders of magnitude, rounding keeps the gap above the tolerance: then it says so.
    """
    rng = np.random.default_rng(seed)
    X, y = make(rng, n, d, spread=10**log_spread)
    u, lam = 10 ** rng.uniform(-decades, 0, size=n), 10**log_lam
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = LinearSVM(lam=lam, tol=1e-3).fit(X, y, sample_weight=u)
    assert model.gap_ <= 1e-3 or any(w.category is ConvergenceWarning for w in caught)
    others = [fitted(model) * (1 + 0.1 * rng.normal(size=d + 1)) for _ in range(20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any w tests the bound
        others.append(fitted(LinearSVM(lam=lam, tol=1e-9).fit(X, y, sample_weight=u)))
    slack = 1e-12 * model.objective_
    assert all(svm_objective(X, y, w, lam=lam, sample_weight=u) >= model.lower_bound_ - slack for w in others)


def test_reaches_its_tolerance_on_weights_over_twelve_orders_of_magnitude(rng):
    X, y = make(rng, 2000, 5)
    u = 10 ** rng.uniform(-12, 0, size=2000)
    assert LinearSVM().fit(X, y, sample_weight=u).gap_ <= 1e-8


@pytest.mark.parametrize("lam", [1e-9, 1e9])
def test_separable_data_and_extreme_lam(rng, lam):
    X = np.vstack([rng.normal(size=(50, 2)) + 6, rng.normal(size=(50, 2)) - 6])
    y = np.repeat([1, -1], 50)
    model = LinearSVM(lam=lam).fit(X, y)
    assert model.gap_ <= 1e-8
    if lam > 1:
        assert (y * model.decision_function(X)).min() == pytest.approx(1, abs=1e-6)  # the hard margin


def test_equal_points_of_both_labels_give_the_majority():
    model = LinearSVM().fit(np.ones((5, 2)), [0, 0, 0, 1, 1])
    np.testing.assert_allclose(model.coef_, 0, atol=1e-6)
    assert model.objective_ == pytest.approx(2 * 2)  # each of the two in the minority pays 1 - (-1)
    assert (model.predict(np.ones((3, 2))) == 0).all()


def test_two_points_give_the_maximal_margin():
    model = LinearSVM(lam=100.0).fit([[0.0, 0.0], [0.0, 4.0]], ["no", "yes"])
    np.testing.assert_allclose(fitted(model), [0, 0.5, -1], atol=1e-6)


def test_weight_two_is_a_row_given_twice(rng):
    X, y = make(rng, 80, 4)
    twice = LinearSVM(tol=1e-10).fit(np.vstack([X, X[:30]]), np.append(y, y[:30]))
    weighted = LinearSVM(tol=1e-10).fit(X, y, sample_weight=np.where(np.arange(80) < 30, 2.0, 1.0))
    np.testing.assert_allclose(fitted(twice), fitted(weighted), atol=1e-6)


def test_rows_of_weight_zero_count_as_absent(rng):
    X, y = make(rng, 80, 4)
    u = (np.arange(80) < 50).astype(float)
    np.testing.assert_array_equal(
        fitted(LinearSVM().fit(X, y, sample_weight=u)), fitted(LinearSVM().fit(X[:50], y[:50]))
    )


def test_sparse_and_dense_agree_and_centring_changes_only_the_bias(rng):
    X = sparse.random(1500, 40, density=0.1, random_state=0, format="csr")
    y = np.sign(X @ rng.normal(size=40) + 0.2 * rng.normal(size=1500))
    scaled = StandardScaler(with_mean=False).fit_transform(X)
    from_sparse = LinearSVM(tol=1e-10).fit(scaled, y)
    from_centred = LinearSVM(tol=1e-10).fit(StandardScaler().fit_transform(X.toarray()), y)
    assert from_sparse.objective_ == pytest.approx(from_centred.objective_, rel=1e-9)
    np.testing.assert_allclose(from_sparse.coef_, from_centred.coef_, atol=1e-5)


def test_float32_fortran_order_and_strings_give_the_same_solution(rng):
    X, y = make(rng, 200, 3)
    X = X.astype(np.float32)
    expected = LinearSVM().fit(X.astype(np.float64), y)
    for other in (X, np.asfortranarray(X)):
        np.testing.assert_array_equal(fitted(LinearSVM().fit(other, y)), fitted(expected))
    named = LinearSVM().fit(X, np.where(y > 0, "pulsar", "noise"))
    assert set(named.predict(X)) == {"pulsar", "noise"}
    np.testing.assert_array_equal(fitted(named), fitted(expected))


@pytest.mark.parametrize("noise", [0.0, 0.3, 30.0])
def test_staged_solution_is_certified_on_all_rows(rng, noise):
    """Separable, ordinary and label-noise data, beyond the size at which stages begin."""
    X, y = make(rng, 20_000, 6, noise=noise)
    model = LinearSVM().fit(X, y)
    assert model.gap_ <= 1e-8
    assert svm_objective(X, y, fitted(model)) == pytest.approx(model.objective_, rel=1e-12)
    a_part = LinearSVM().fit(X[:7000], y[:7000])  # fewer non-negative terms: its optimum bounds from below
    assert a_part.lower_bound_ <= model.objective_


def test_staged_and_single_solves_agree(rng, monkeypatch):
    X, y = make(rng, 12_000, 5)
    staged = LinearSVM().fit(X, y)
    monkeypatch.setattr("handful.svm.staged.SMALLEST", 10**9)
    single = LinearSVM().fit(X, y)
    assert staged.objective_ == pytest.approx(single.objective_, rel=2e-8)
    np.testing.assert_allclose(fitted(staged), fitted(single), atol=1e-3)


def test_staged_solve_of_a_rare_class(rng):
    X = rng.normal(size=(15_000, 3))
    y = np.full(15_000, -1)
    y[:3], X[:3] = 1, X[:3] + 3
    assert LinearSVM().fit(X, y).gap_ <= 1e-8


def test_warm_start_begins_near_the_solution(rng):
    X, y = make(rng, 4000, 5)
    model = LinearSVM(warm_start=True).fit(X, y)
    cold, coef = model.n_iter_, model.coef_.copy()
    model.fit(X, y)
    assert model.n_iter_ < cold
    np.testing.assert_allclose(model.coef_, coef, atol=1e-4)


def test_features_far_from_zero_still_converge(rng):
    X, y = make(rng, 3000, 4)
    near, far = LinearSVM().fit(X, y), LinearSVM().fit(X + 1e3, y)
    assert far.gap_ <= 1e-8
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-7)


def test_stopping_early_warns_and_still_certifies(rng):
    X, y = make(rng, 200, 3)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = LinearSVM(max_iter=3).fit(X, y)
    best = LinearSVM().fit(X, y).objective_
    assert model.lower_bound_ <= best <= model.objective_


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1, 1, 1], "one class"),
        ([0, 1, 2, 1], "Only binary"),
        ([0.5, 1.5, 2.2, 0.1], "Unknown label type"),
    ],
)
def test_labels_other_than_two_classes_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        LinearSVM().fit(np.arange(8.0).reshape(4, 2), labels)


@pytest.mark.parametrize("bad", [{"lam": 0}, {"lam": -1.0}, {"tol": 0}])
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="must be a finite number greater than 0"):
        LinearSVM(**bad).fit([[0.0], [1.0]], [0, 1])
