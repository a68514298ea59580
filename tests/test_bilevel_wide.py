"""Wide data: the span of sparse rows, the curvature by rows and by features, and what does not fit into memory."""

import tracemalloc

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, Logistic
from handful.bilevel import Problem
from handful.bilevel.numerics import curvature
from handful.bilevel.numerics.curvature import OuterCurvature, RowProducts
from handful.bilevel.numerics.span import RowSpan, SparseSpan
from handful.bilevel.selections import linear
from scipy import sparse


def sparse_rows(n, d, *, seed=0, density=0.3):
    return sparse.random(
        n, d, density, format="csr", random_state=seed, data_rvs=np.random.default_rng(seed).standard_normal
    )


def labels_of(X, seed=0):
    rng = np.random.default_rng(seed)
    z = X @ rng.normal(size=X.shape[1])
    return (z + 0.5 * z.std() * rng.normal(size=len(z)) > 0).astype(int)


@pytest.mark.parametrize("make", [lambda d: RowSpan(d, np.float64, 1e-10), SparseSpan], ids=["dense", "sparse"])
def test_a_span_projects_onto_its_rows_and_back(make):
    X = sparse_rows(9, 30)
    X = sparse.vstack([X, 2.0 * X[3], X[1] - X[4]], format="csr")  # two rows that add no direction
    span, rows = make(30), X if make is SparseSpan else X.toarray()
    for i in range(rows.shape[0]):
        span.extend(rows[i])
    assert span.rank == 9
    Q = span.lift(np.eye(9))
    np.testing.assert_allclose(Q.T @ Q, np.eye(9), atol=1e-12)
    np.testing.assert_allclose(Q @ (Q.T @ X.toarray().T), X.toarray().T, atol=1e-12)
    other = sparse_rows(5, 30, seed=1)
    other = other if make is SparseSpan else other.toarray()
    np.testing.assert_allclose(span.inside(other), other @ Q, atol=1e-12)
    known = span.inside(other)[:, :4]
    np.testing.assert_allclose(span.inside(other, known), (other @ Q)[:, 4:], atol=1e-12)
    g = np.random.default_rng(2).normal(size=30)
    np.testing.assert_allclose(span.project(g), Q.T @ g, atol=1e-12)


def test_kept_products_are_those_of_the_rows_asked_for_whatever_was_asked_before():
    X, rng = sparse_rows(200, 30), np.random.default_rng(0)
    sample = X[rng.choice(200, 40, replace=False)]
    for kind in (sparse.csr_matrix, lambda m: m.toarray()):
        products = RowProducts(kind(sample), room=25)
        for _ in range(30):
            rows = np.sort(rng.choice(200, rng.integers(1, 26), replace=False))
            kept, places = products.of(rows, kind(X[rows]))
            np.testing.assert_allclose(kept[places], (X[rows] @ sample.T).toarray(), atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(weighting="optimised"),
        dict(problem=LeastSquares(0.1)),
        dict(strategy="exchange"),
        dict(robust=True),
    ],
    ids=str,
)
def test_curvature_by_rows_and_by_features_choose_the_same(kind, options, monkeypatch):
    X = sparse_rows(90, 40).toarray()
    y = labels_of(X)
    monkeypatch.setattr(linear, "SPAN_ABOVE", 1)
    monkeypatch.setattr(curvature, "KEPT", 60)
    chosen = []
    for by_rows in (True, False):
        monkeypatch.setattr(OuterCurvature, "by_rows", lambda *_, by_rows=by_rows: by_rows)
        selector = BilevelCoreset(**{"problem": Logistic(0.1), "size": 14, "random_state": 0} | options)
        chosen.append(selector.fit(kind(X), y).coreset_)
    assert (chosen[0].indices == chosen[1].indices).all()
    np.testing.assert_allclose(chosen[0].weights, chosen[1].weights, rtol=1e-4, atol=1e-4)


def test_sparse_rows_of_many_features_are_never_made_dense():
    n, d = 800, 60_000
    X = sparse_rows(n, d, density=2e-4)
    y = labels_of(X)
    for options in (dict(), dict(weighting="optimised")):
        selector = BilevelCoreset(Logistic(1e-2), size=20, random_state=0, **options)
        tracemalloc.start()
        selector.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * 100 * d  # a hundred dense rows; the candidates alone would be 512


def test_a_matrix_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("handful.checks.physical_memory", lambda: 100_000)
    X = sparse_rows(150, 300)
    with pytest.raises(MemoryError, match=r"inner problem of 100 points in 100 coordinates needs [\d,]+ bytes, more"):
        BilevelCoreset(Logistic(), size=100).fit(X, labels_of(X))
    with pytest.raises(MemoryError, match=r"a column-major copy of X needs 360,000 bytes, more than the 100,000 of"):
        BilevelCoreset(Logistic(), size=10).fit(X.toarray(), labels_of(X))
    with pytest.raises(MemoryError, match=r"150 rows in 150 classes needs [\d,]+ bytes.*There is LeastSquares"):
        BilevelCoreset(Logistic(), size=10).fit(X[:, :2], np.arange(150))

    class Wide(Problem):
        takes_sparse = True
        losses = gradients = hessian = lambda *_: pytest.fail("was asked for")

    with pytest.raises(MemoryError, match=r"the Hessian of Wide, 300 x 300, needs 2,880,000 bytes"):
        BilevelCoreset(Wide(), size=10).fit(X, np.arange(150.0))


def test_verbose_says_which_way_was_chosen(capsys):
    X = sparse_rows(60, 200)
    BilevelCoreset(Logistic(), size=5, random_state=0, verbose=True).fit(X, labels_of(X))
    assert "inner problem in the rows' span, curvature by" in capsys.readouterr().err
    BilevelCoreset(Logistic(), size=5, random_state=0, verbose=True).fit(X[:, :10], labels_of(X))
    assert "inner problem in the features, curvature by features" in capsys.readouterr().err
