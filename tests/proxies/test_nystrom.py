"""Nystrom features: what they approximate, what is kept on disk, and kernels that are none."""

from functools import partial

import numpy as np
import pytest
from handful import LeastSquares
from handful.bilevel import BilevelCoreset
from handful.proxies import CNTK, RBF, Nystrom
from handful.proxies.nystrom import BLOCK, kernel_blocks
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.pipeline import make_pipeline


class Counting:
    """A kernel that counts the rows it was asked for."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.rows = 0

    def __call__(self, X, Y):
        self.rows += len(X)
        return self.kernel(X, Y)

    def __repr__(self):
        return f"Counting({self.kernel})"

    # the count is no part of what it computes
    def __getstate__(self):
        return self.kernel


def kernel_matrix(kernel, X, Y, cache):
    return np.concatenate([block for _, block in kernel_blocks(kernel, X, Y, cache=cache)])


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(2 * BLOCK + 30, 5))


def test_features_are_those_of_the_formula(X):
    proxy = Nystrom(RBF(0.05), n_landmarks=40, random_state=3).fit(X)
    Q = X[proxy.landmark_indices_]
    K = RBF(0.05)(X, Q)
    Z = proxy.transform(X)
    np.testing.assert_allclose(
        Z @ Z.T, K @ np.linalg.pinv(RBF(0.05)(Q), hermitian=True) @ K.T, atol=1e-8
    )
    assert (np.diff(proxy.eigenvalues_) <= 0).all()


def test_all_rows_as_landmarks_give_the_kernel_itself(X):
    few = X[:60]
    Z = Nystrom(RBF(0.1), n_landmarks=1000).fit_transform(few)
    np.testing.assert_allclose(Z @ Z.T, RBF(0.1)(few), atol=1e-10)


def test_rows_never_seen_are_transformed_like_any_other(X):
    proxy = Nystrom(partial(polynomial_kernel, degree=2), n_landmarks=30, random_state=0).fit(
        X
        # of rank 21: exact with 30 landmarks
    )
    new = np.random.default_rng(9).normal(size=(11, 5))
    assert proxy.transform(X).shape == (len(X), 21)
    np.testing.assert_allclose(
        proxy.transform(new) @ proxy.transform(X).T, polynomial_kernel(new, X, degree=2), rtol=1e-6
    )


def test_float32_rows_give_float32_features(X):
    few = X.astype(np.float32)
    Z = Nystrom(RBF(0.1), n_landmarks=50, random_state=0).fit_transform(few)
    assert Z.dtype == np.float32
    exact = Nystrom(RBF(0.1), n_landmarks=50, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, exact @ exact.T, atol=1e-3)


def test_repeated_rows_leave_fewer_features():
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 20, axis=0)
    proxy = Nystrom(RBF(0.1), n_landmarks=80).fit(X)
    assert len(proxy.eigenvalues_) == 4
    Z = proxy.transform(X)
    np.testing.assert_allclose(Z @ Z.T, RBF(0.1)(X), atol=1e-9)


def test_a_selector_goes_on_from_features():
    digits = load_digits()
    pipeline = make_pipeline(
        Nystrom(CNTK((3,)), n_landmarks=40, random_state=0),
        BilevelCoreset(LeastSquares(), size=10, random_state=0),
    )
    pipeline.fit(digits.data[:300].astype(np.float32), digits.target[:300])
    assert len(set(pipeline[-1].indices_)) == 10


# --- the cache


def test_cached_rows_are_computed_once_and_a_longer_run_goes_on(X, tmp_path):
    kernel = Counting(RBF(0.1))
    proxy = Nystrom(kernel, n_landmarks=30, cache=tmp_path / "new", random_state=0)
    first = proxy.fit(X).transform(X[: 2 * BLOCK])
    assert kernel.rows == 30 + 2 * BLOCK
    again = Nystrom(kernel, n_landmarks=30, cache=tmp_path / "new", random_state=0).fit(X)
    assert (again.transform(X)[: 2 * BLOCK] == first).all()
    assert kernel.rows == 30 + len(X)
    np.testing.assert_array_equal(
        again.transform(X), Nystrom(RBF(0.1), n_landmarks=30, random_state=0).fit(X).transform(X)
    )


def test_another_kernel_other_rows_and_other_landmarks_are_other_files(X, tmp_path):
    for kernel, rows, landmarks in [
        (0.1, X, X[:9]),
        (0.2, X, X[:9]),
        (0.1, X + 1, X[:9]),
        (0.1, X, X[1:10]),
    ]:
        found = kernel_matrix(RBF(kernel), rows, landmarks, cache=tmp_path)
        np.testing.assert_array_equal(found, RBF(kernel)(rows, landmarks))


@pytest.mark.parametrize("damage", [b"", b"no array"])
@pytest.mark.filterwarnings("ignore:Exception while loading results")
def test_a_damaged_file_in_the_cache_is_made_again(X, tmp_path, damage):
    kernel = Counting(RBF(0.1))
    for n_rows in (10, 20, 20):
        np.testing.assert_array_equal(
            kernel_matrix(kernel, X[:10], X[:5], tmp_path), RBF(0.1)(X[:10], X[:5])
        )
        assert kernel.rows == n_rows
        if n_rows == 10:
            [path] = tmp_path.rglob("output.pkl")
            path.write_bytes(damage)


class Interrupted(Counting):
    """Interrupted at the last, shorter block."""

    def __call__(self, X, Y):
        if len(X) < BLOCK:
            raise KeyboardInterrupt
        return super().__call__(X, Y)


def test_an_interrupted_run_keeps_what_it_has(X, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        kernel_matrix(Interrupted(RBF(0.1)), X, X[:5], cache=tmp_path)
    # whole blocks
    assert len(list(tmp_path.rglob("output.pkl"))) == len(X) // BLOCK


def test_a_kernel_that_cannot_be_told_from_others_is_not_cached(X, tmp_path):
    with pytest.raises(ValueError, match="cannot be kept in a cache"):
        kernel_matrix(lambda A, B: A @ B.T, X, X[:5], cache=tmp_path)


# --- kernels that are none


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda A, B: -A @ B.T, "is not positive semi-definite on 20 landmarks: the eigenvalues"),
        (lambda A, B: np.tanh(A @ B.T - 2), "is not positive semi-definite"),
        (lambda A, B: A @ np.roll(B, 1, axis=1).T, "is not symmetric"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "not finite"),
        (
            lambda A, B: np.zeros((len(A), len(B))),
            "has no features: scale X, which is zero or tiny",
        ),
        (lambda A, B: np.ones(len(A)), r"must give a matrix of shape \(20, 20\)"),
    ],
)
def test_kernels_that_are_none_are_refused(kernel, message, X):
    with pytest.raises(ValueError, match=message):
        Nystrom(kernel, n_landmarks=20).fit(X)


@pytest.mark.parametrize("kernel", ["rbf", RBF, None, np.eye(3)])
def test_what_is_no_kernel_is_named_where_it_is_used(kernel, X, tmp_path):
    message = (
        r"kernel must be one such as RBF\(\) .* or a function of two arrays of rows, got kernel="
    )
    with pytest.raises(TypeError, match=message):
        Nystrom(kernel).fit(X)
    with pytest.raises(TypeError, match=message):
        kernel_matrix(kernel, X, X[:5], cache=tmp_path)


def test_a_cache_tells_kernels_of_one_name_apart(tmp_path, monkeypatch, rng):
    X = rng.normal(size=(50, 2))
    for scale in (1.0, 0.1):
        monkeypatch.setitem(globals(), "SCALE", scale)
        kept = Nystrom(of_scale, n_landmarks=50, random_state=0, cache=tmp_path).fit_transform(X)
        np.testing.assert_allclose(kept @ kept.T, of_scale(X, X), atol=1e-9)


SCALE = 1.0


def of_scale(X, Y):
    return np.exp(-SCALE * cdist(X, Y, "sqeuclidean"))


@pytest.mark.parametrize("far", [1e3, 1e5, 1e7, 1e9, 1e12])
@pytest.mark.parametrize("form", ["a sentinel", "two clusters"])
def test_rows_far_away_do_not_spoil_the_kernel_of_the_others(far, form, rng):
    X = rng.normal(size=(400, 3))
    if form == "a sentinel":
        X[7, 1] = -far
    else:
        X[200:] += far
    expected = np.exp(-cdist(X, X, "sqeuclidean") / 3)
    np.testing.assert_allclose(RBF()(X, X), expected, atol=1e-11)
    features = Nystrom(RBF(), n_landmarks=100, random_state=0).fit_transform(X)
    assert np.isfinite(features).all()
