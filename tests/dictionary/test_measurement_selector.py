"""Measurement selection: gradients against finite differences, exact gains, recoveries against
other solvers."""

import warnings

import numpy as np
import pytest
from handful.dictionary import L1, L2, MeasurementSelector
from handful.dictionary.atoms import wavelet_atoms
from handful.dictionary.measurement_selector import recovery_error
from handful.dictionary.recovery import Recovery
from handful_papers.bico.fig12_dictionary import approximate_greedy, gaussian_atoms
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

D = 24


@pytest.fixture
def X(rng):
    return rng.normal(size=(30, D)) * (rng.random((30, D)) < 0.2)


@pytest.fixture
def atoms(rng):
    return gaussian_atoms(60, D, rng=rng)


def scores(recovery, A, atoms, X, *, quadratic):
    estimates, state = recovery.recover(A, X @ A.T)
    return recovery.scores(A, atoms, X - estimates, state, quadratic=quadratic)


# --- recoveries


@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_l2_solves_its_normal_equations(size, X, atoms):
    A = atoms[:size]
    estimates, _ = L2(0.3).recover(A, X @ A.T)
    np.testing.assert_allclose(
        estimates, X @ np.linalg.inv(A.T @ A + 0.3 * np.eye(D)).dot(A.T @ A).T, atol=1e-10
    )


@pytest.mark.parametrize("size", [3, 12, 30])
def test_l1_reaches_the_objective_of_scikit_learns_lasso(size, X, atoms):
    A = atoms[:size]
    penalty = 0.05

    def objective(Y):
        return ((X - Y) @ A.T) ** 2 @ np.ones(size) + penalty * np.abs(Y).sum(1)

    estimates, _ = L1(penalty, tol=1e-7).recover(A, X @ A.T)
    lasso = Lasso(alpha=penalty / (2 * size), fit_intercept=False, tol=1e-10, max_iter=100_000)
    other = np.array([lasso.fit(A, A @ x).coef_ for x in X])
    np.testing.assert_allclose(objective(estimates), objective(other), rtol=1e-4)


def test_l1_recovers_sparse_signals_that_l2_does_not(X, atoms):
    sparse = X * (np.abs(X).argsort(1).argsort(1) >= D - 2)
    A = atoms[:14]
    assert recovery_error(L1(1e-4, tol=1e-6), A, sparse) < 0.02 * recovery_error(
        L2(1e-4), A, sparse
    )


# --- scores


@pytest.mark.parametrize("size", [0, 5])
def test_linear_score_is_minus_the_derivative_of_the_error(size, X, atoms):
    recovery = L2(0.1)
    A = atoms[:size]
    h = 1e-6
    found = scores(recovery, A, atoms[40:45], X, quadratic=False)
    before = ((X - recovery.recover(A, X @ A.T)[0]) ** 2).sum()
    for score, atom in zip(found, atoms[40:45]):
        # a measurement of weight h
        longer = np.vstack([A, np.sqrt(h) * atom])
        after = ((X - recovery.recover(longer, X @ longer.T)[0]) ** 2).sum()
        assert score == pytest.approx((before - after) / h, rel=1e-3)


@pytest.mark.parametrize("size", [0, 5])
def test_quadratic_score_of_l2_is_the_decrease_itself(size, X, atoms):
    recovery = L2(0.1)
    A = atoms[:size]
    found = scores(recovery, A, atoms[20:], X, quadratic=True)
    before = len(X) * recovery_error(recovery, A, X)
    after = [len(X) * recovery_error(recovery, np.vstack([A, atom]), X) for atom in atoms[20:]]
    np.testing.assert_allclose(found, before - np.array(after), rtol=1e-8)


# --- the selector


def test_selection_for_l2_is_greedy_selection(X, atoms):
    chosen = []
    for _ in range(6):
        errors = [
            recovery_error(L2(), atoms[[*chosen, j]], X) if j not in chosen else np.inf
            for j in range(len(atoms))
        ]
        chosen.append(int(np.argmin(errors)))
    assert MeasurementSelector(atoms, L2(), size=6).fit(X).indices_.tolist() == chosen


@pytest.mark.parametrize("rule", ["linear", "quadratic"])
def test_a_shorter_selection_is_the_beginning_of_a_longer_one(rule, X, atoms):
    for recovery in (L2(), L1()):
        short, long = (
            MeasurementSelector(atoms, recovery, size=m, rule=rule).fit(X) for m in (3, 8)
        )
        assert (long.indices_[:3] == short.indices_).all()
        assert len(set(long.indices_)) == 8
        assert (long.measurements_ == atoms[long.indices_]).all()


def test_errors_are_those_of_the_measurements_chosen(X, atoms):
    selector = MeasurementSelector(atoms, L2(), size=5).fit(X)
    np.testing.assert_allclose(
        selector.errors_,
        [recovery_error(L2(), atoms[selector.indices_[:k]], X) for k in range(1, 6)],
    )
    back = selector.inverse_transform(selector.transform(X))
    assert ((X - back) ** 2).sum(1).mean() == pytest.approx(selector.errors_[-1])


def test_without_atoms_single_coordinates_are_measured(X):
    X = X * np.linspace(0.1, 3, D)
    selector = MeasurementSelector(recovery=L2(1e-3), size=4).fit(X)
    energy = (X**2).sum(0)
    assert set(selector.indices_) == set(np.argsort(-energy)[:4])


def test_a_recovery_of_ones_own_serves(X, atoms):
    class Mean(Recovery):
        def recover(self, A, measured, state=None):
            return np.zeros((len(measured), A.shape[1])), None

        def scores(self, A, atoms, errors, state, *, quadratic):
            return ((errors @ atoms.T) ** 2).sum(0)

    selector = MeasurementSelector(atoms, Mean(), size=3).fit(X)
    assert selector.indices_.tolist() == np.argsort(-((X @ atoms.T) ** 2).sum(0))[:3].tolist()


def test_an_interrupted_selection_is_raised_and_keeps_what_was_chosen(X, atoms):
    class Interrupted(L2):
        def scores(self, A, *args, **options):
            if len(A) == 3:
                raise KeyboardInterrupt
            return super().scores(A, *args, **options)

    selector = MeasurementSelector(atoms, Interrupted(), size=6)
    whole = MeasurementSelector(atoms, L2(), size=3).fit(X)
    with pytest.raises(KeyboardInterrupt):
        selector.fit(X)
    assert selector.indices_.tolist() == whole.indices_.tolist()
    np.testing.assert_array_equal(selector.errors_, whole.errors_)
    np.testing.assert_array_equal(selector.transform(X), whole.transform(X))


def test_float32_signals_choose_what_float64_ones_do(X, atoms):
    for recovery in (L2(0.1), L1(0.1)):
        exact, single = (
            MeasurementSelector(atoms, recovery, size=4).fit(X.astype(t))
            for t in (np.float64, np.float32)
        )
        assert (exact.indices_ == single.indices_).all()
        assert single.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("of_signals", [1e-22, 6e4, 1e8])
@pytest.mark.parametrize("of_atoms", [1.0, 6e4])
@pytest.mark.parametrize("recovery", [L2(1e-12), L2(0.01), L1(0.01)])
@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:some signals are not recovered")
def test_float32_signals_of_any_scale_choose_what_float64_ones_do(recovery, of_signals, of_atoms):
    rng = np.random.default_rng(0)
    signals = of_signals * rng.normal(size=(40, 30)).cumsum(axis=1)
    atoms = of_atoms * rng.normal(size=(100, 30))
    selector = MeasurementSelector(atoms, recovery, size=4)
    exact = selector.fit(signals).indices_.tolist()
    assert selector.fit(signals.astype(np.float32)).indices_.tolist() == exact
    assert len(set(exact)) == 4


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_choose_no_atom(score, X, atoms):
    class Lost(L2):
        def scores(self, A, *args, **options):
            found = super().scores(A, *args, **options)
            return found if len(A) < 2 else np.full(len(found), score)

    with pytest.raises(ValueError, match="scores of the atoms must be finite, but the best"):
        MeasurementSelector(atoms, Lost(), size=6).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(size=61), "size must be an integer of at least 1 and at most 60, got size=61"),
        (dict(recovery="L1"), "recovery must be L2"),
        (
            dict(atoms=np.ones((3, D - 1))),
            "atoms must be as long as the signals, 24 values, got 23",
        ),
        (dict(atoms=np.full((60, D), np.nan)), "atoms contains NaN"),
    ],
)
def test_bad_input_is_named(options, message, X, atoms):
    with pytest.raises(ValueError, match=message):
        MeasurementSelector(**{"atoms": atoms, "size": 2, **options}).fit(X)


# --- dictionaries, baseline


def test_wavelets_are_orthonormal_and_begin_with_the_coarsest():
    W = wavelet_atoms((28, 28))
    np.testing.assert_allclose(W @ W.T, np.eye(784), atol=1e-12)
    support = (np.abs(W) > 1e-12).sum(1)
    # the mean of 4 x 4 pixels: 28 can be halved twice
    assert support[0] == 16
    assert support[-1] == 4
    assert (np.diff(support) <= 0).all()


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((28, 28), dict(level=3), "can be halved 2 times, got level=3"),
        ((8, 8), dict(wavelet="bior2.2"), "must be orthogonal"),
    ],
)
def test_wavelets_that_are_not_orthonormal_are_refused(shape, options, message):
    with pytest.raises(ValueError, match=message):
        wavelet_atoms(shape, **options)


def test_approximate_greedy_takes_the_largest_mean_inner_products(X, atoms):
    mean = [np.mean([abs(x @ a) for x in X]) for a in atoms]
    assert approximate_greedy(X, atoms, 7).tolist() == np.argsort(mean)[::-1][:7].tolist()


@pytest.mark.parametrize("recovery", [L2(1e-4), L1(1e-3)])
def test_single_precision_takes_more_measurements_than_coordinates(rng, recovery):
    X = rng.normal(size=(20, 8)) * 100
    atoms = rng.normal(size=(16, 8)) * 100
    single = MeasurementSelector(atoms, recovery, size=12).fit(X.astype(np.float32))
    double = MeasurementSelector(atoms, recovery, size=12).fit(X)
    np.testing.assert_array_equal(single.indices_[:6], double.indices_[:6])
    assert single.errors_[-1] < 1e-6 * np.square(X).sum(axis=1).mean()


def test_a_penalty_lost_in_rounding_is_told(rng):
    X = rng.normal(size=(20, 8)) * 1e6
    with pytest.raises(ValueError, match="lost in rounding beside measurement vectors"):
        MeasurementSelector(X, L2(1e-9), size=16).fit(X)


def test_signals_that_max_iter_leaves_unfinished_are_told(X, atoms):
    A = atoms[:12]
    with pytest.warns(ConvergenceWarning, match="max_iter=1 sweeps"):
        L1(1e-4, max_iter=1).recover(A, X @ A.T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        L1().recover(A, X @ A.T)


@pytest.mark.parametrize("recovery", [L1(l1=0.01), L2(l2=0.01)])
@pytest.mark.parametrize("dtype", [int, bool, np.float16, list])
def test_measurement_vectors_of_any_numbers_recover_what_floats_do(recovery, dtype):
    A = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    measured = [[0.7, 5.2], [0.1, -0.3]]
    given = A.tolist() if dtype is list else A.astype(dtype)
    estimates, _ = recovery.recover(given, measured)
    expected, _ = recovery.recover(A, measured)
    assert estimates.dtype.kind == "f"
    np.testing.assert_allclose(estimates, expected, rtol=1e-6)


@pytest.mark.parametrize("recovery", [L1(), L2()])
@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ([[np.inf, 1.0]], "infinity"),
        ([[np.nan, 1.0]], "NaN"),
        ([[1.0, 2.0, 3.0]], "a column for each of the 2 rows of A"),
    ],
)
def test_measurements_that_say_nothing_are_refused(recovery, measured, message):
    with pytest.raises(ValueError, match=message):
        recovery.recover(np.eye(2), measured)
