"""Uniform and stratified sampling, k-means++, k-center and herding."""

from itertools import combinations, islice

import numpy as np
import pandas as pd
import pytest
from handful import KCenter, KMeansPlusPlus, StratifiedCoreset, UniformCoreset
from handful.baselines import Herding
from handful.baselines.centers import farthest_first, plain_seeds, seeds_one_by_one
from handful.baselines.stratified import allocate
from handful.clustering import Medoids, quantization_error
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import chisquare
from sklearn.cluster import kmeans_plusplus

# Uniform -----------------------------------------------------------------------------------------


def test_uniform_draws_every_row_as_often_and_none_twice():
    fits = [
        UniformCoreset(5, random_state=seed).fit(np.zeros((20, 1))).indices_ for seed in range(2000)
    ]
    assert all(len(set(indices)) == 5 for indices in fits)
    assert chisquare(np.bincount(np.concatenate(fits), minlength=20)).pvalue > 1e-4
    whole = UniformCoreset(20, random_state=0).fit(sparse.csr_matrix((20, 3)))
    assert sorted(whole.indices_) == list(range(20))
    assert (whole.weights_ == 1).all()


# Stratified --------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.floats(0, 1))
def test_shares_are_within_one_row_of_proportional_where_every_stratum_gets_one_anyway(
    n_rows, share
):
    n_rows = np.array(n_rows)
    size = len(n_rows) + round(share * (n_rows.sum() - len(n_rows)))
    counts = allocate(n_rows.astype(float), n_rows, size)
    assert counts.sum() == size
    assert (counts >= 1).all()
    assert (counts <= n_rows).all()
    quota = size * n_rows / n_rows.sum()
    if quota.min() >= 1:
        assert (abs(counts - quota) < 1).all()
    else:
        assert (counts <= np.maximum(np.ceil(quota), 1)).all()


COLUMN = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [40, 25, 5]))
WORDS = np.array(["ham", "spam", "eggs"], dtype=object)[COLUMN]


@pytest.mark.parametrize(
    "column",
    [
        COLUMN,
        COLUMN * 0.5,
        WORDS,
        WORDS.astype(str),
        pd.Categorical(WORDS),
        pd.array(WORDS, dtype="string"),
        np.where(COLUMN == 1, np.nan, COLUMN),
        np.where(COLUMN == 1, np.nan, WORDS),
        np.where(COLUMN == 1, None, WORDS),
        pd.array([None if c == 1 else c for c in COLUMN], dtype="Int64"),
    ],
    ids=lambda c: f"{type(c).__name__}-{c.dtype}",
)
def test_strata_are_the_values_of_a_column_of_any_kind(column):
    frame = pd.DataFrame({"junk": [object()] * 70, "kind": column}, index=np.arange(70) + 5)
    fit = StratifiedCoreset(14, by="kind", random_state=0).fit(frame)
    assert np.bincount(COLUMN[fit.indices_]).tolist() == [8, 5, 1]
    assert fit.weights_.tolist() == [5.0] * 14
    for same in (
        StratifiedCoreset(14, by=-1, random_state=0).fit(frame),
        StratifiedCoreset(14, random_state=0).fit(np.zeros((70, 1)), COLUMN),
        StratifiedCoreset(14, by=1, random_state=0).fit(
            sparse.csr_array(np.column_stack([COLUMN, COLUMN]))
        ),
    ):
        assert same.indices_.tolist() == fit.indices_.tolist()


def test_a_prefix_holds_each_stratum_in_about_its_share():
    indices = StratifiedCoreset(35, random_state=0).fit(np.zeros((70, 1)), COLUMN).indices_
    for k in range(1, 36):
        counts = np.bincount(COLUMN[indices[:k]], minlength=3)
        assert (abs(counts - k * np.array([40, 25, 5]) / 70) < 2).all()


def test_stratified_says_what_does_not_fit():
    X = np.zeros((20, 2))
    y = np.arange(20) % 4
    with pytest.raises(
        ValueError, match=r"at least the number of strata, got size=3 for 4 classes in y"
    ):
        StratifiedCoreset(3).fit(X, y)
    with pytest.raises(ValueError, match=r"continuous.*there is UniformCoreset"):
        StratifiedCoreset(10).fit(X, y + 0.5)
    with pytest.raises(
        ValueError, match=r"by must be a column of X, got by='b' .* its columns are \['a', 'c'\]"
    ):
        StratifiedCoreset(10, by="b").fit(pd.DataFrame(X, columns=["a", "c"]))
    with pytest.raises(ValueError, match=r"got by=2 for 2 columns; its columns have no names"):
        StratifiedCoreset(10, by=2).fit(X)
    with pytest.raises(ValueError, match=r"one column of X, got by=\['a'\]: BalancedCoreset takes"):
        StratifiedCoreset(10, by=["a"]).fit(pd.DataFrame(X, columns=["a", "c"]))


# k-center ----------------------------------------------------------------------------------------


def naive_k_center(X, size, first):
    chosen = [first]
    while len(chosen) < size:
        radius = [
            -1.0 if i in chosen else min(np.sum((x - X[c]) ** 2) for c in chosen)
            for i, x in enumerate(X)
        ]
        chosen.append(int(np.argmax(radius)))
    return chosen


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["real", "lattice"]))
def test_k_center_is_the_naive_loop(seed, kind):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    d = int(rng.integers(1, 4))
    # on the lattice there are many ties, and all arithmetic is exact if n is a power of two
    X = rng.normal(size=(n, d)) if kind == "real" else rng.integers(0, 3, (16, d)).astype(float)
    size = int(rng.integers(1, len(X) + 1))
    chosen = KCenter(size, random_state=seed).fit(X).indices_
    assert chosen.tolist() == naive_k_center(X, size, chosen[0])


@pytest.mark.parametrize(
    ("dtype", "offset"), [(np.float64, 1e9), (np.float32, 1e5), (np.float32, 1e7)]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_k_center_of_clusters_far_from_each_other_is_the_naive_loop(dtype, offset, order):
    X = np.random.default_rng(0).normal(size=(200, 2))
    X[::2] += offset
    X = np.asarray(X, dtype=dtype, order=order)
    chosen = KCenter(20, random_state=0).fit(X).indices_
    assert chosen.tolist() == naive_k_center(X.astype(float), 20, chosen[0])


def covering_radius(X, centres):
    return np.sqrt(((X[:, None] - X[list(centres)]) ** 2).sum(axis=2).min(axis=1).max())


@pytest.mark.parametrize("seed", range(10))
def test_k_center_covers_within_twice_the_best_radius(seed):
    X = np.random.default_rng(seed).normal(size=(12, 2))
    for size in (1, 2, 3, 4):
        best = min(covering_radius(X, centres) for centres in combinations(range(12), size))
        assert covering_radius(X, KCenter(size, random_state=seed).fit(X).indices_) <= 2 * best


# Both --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [KMeansPlusPlus, KCenter])
def test_weights_are_equal_or_those_of_the_nearest_rows(cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    u = rng.exponential(size=80) * (np.arange(80) % 5 > 0)
    fits = [
        cls(9, weighting=weighting, random_state=1).fit(X, sample_weight=u)
        for weighting in ("equal", "cells")
    ]
    assert (fits[0].indices_ == fits[1].indices_).all()
    np.testing.assert_allclose(fits[0].weights_, u.sum() / 9)
    cells = np.zeros(9)
    for x, weight in zip(X, u):
        cells[np.argmin(((x - X[fits[1].indices_]) ** 2).sum(axis=1))] += weight
    np.testing.assert_allclose(fits[1].weights_, cells)


@pytest.mark.parametrize("cls", [KMeansPlusPlus, KCenter])
def test_fewer_distinct_rows_than_centres_are_filled_up_with_copies(cls):
    X = np.repeat([[0.0, 1], [5, 5], [-3, 2]], 6, axis=0)
    fit = cls(8, random_state=0).fit(X)
    assert len(set(fit.indices_)) == 8
    # the distinct ones first
    assert len(np.unique(X[fit.indices_[:3]], axis=0)) == 3


@pytest.mark.parametrize("cls", [KMeansPlusPlus, KCenter])
def test_a_prefix_is_the_smaller_selection(cls):
    X = np.random.default_rng(0).normal(size=(100, 3))
    largest = cls(30, random_state=0).fit(X).indices_
    for size in (1, 2, 11):
        assert (cls(size, random_state=0).fit(X).indices_ == largest[:size]).all()


# Herding -----------------------------------------------------------------------------------------


def naive_herding(X, size, target):
    chosen = []
    for _ in range(size):
        left = [i for i in range(len(X)) if i not in chosen]
        distance = [np.linalg.norm(X[[*chosen, i]].mean(axis=0) - target) for i in left]
        chosen.append(left[int(np.argmin(distance))])
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_herding_is_the_naive_loop_over_running_means(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    u = rng.exponential(size=40)
    raw = Herding(15, normalise=False).fit(X, sample_weight=u)
    assert raw.indices_.tolist() == naive_herding(X, 15, u @ X / u.sum())
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    assert Herding(15).fit(7 * X).indices_.tolist() == naive_herding(unit, 15, unit.mean(axis=0))


@pytest.mark.parametrize("normalise", [True, False])
def test_of_equal_rows_herding_chooses_the_one_of_the_smallest_index(normalise):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, d = rng.integers(3, 60), rng.integers(2, 40)
        # far from zero, too, where little is left of the rows once they are centred
        X = rng.normal(size=(n, d)) + 1e3 * (seed % 2)
        chosen = Herding(6, normalise=normalise).fit(np.tile(X, (3, 1))).indices_
        for place, row in enumerate(chosen):
            equal_before = np.count_nonzero(chosen[:place] % n == row % n)
            assert row // n == equal_before


# Seeds and representatives -----------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_seeds_are_those_of_scikit_learn(form):
    X = np.random.default_rng(0).normal(size=(400, 5))
    u = np.random.default_rng(1).exponential(size=400)
    for seed in range(5):
        theirs = kmeans_plusplus(X, 40, sample_weight=u, random_state=seed, n_local_trials=1)[1]
        np.testing.assert_array_equal(plain_seeds(form(X), u, 40, seed), theirs)


# by Lloyd's rounds, and by a mixture
@pytest.mark.parametrize("size", [20, 300])
def test_medoids_stand_for_the_rows_nearest_to_them_and_lie_nearer_than_seeds(size):
    rng = np.random.default_rng(0)
    X = 4 * rng.normal(size=(40, 3))[rng.integers(40, size=1500)] + rng.normal(size=(1500, 3))
    u = rng.exponential(size=1500) * (np.arange(1500) % 3 > 0)
    few = Medoids(size, random_state=0).fit(X, sample_weight=u)
    assert len(set(few.indices_)) == size
    assert (u[few.indices_] > 0).all()
    nearest = ((X[:, None] - X[few.indices_]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_allclose(few.weights_, np.bincount(nearest, u, minlength=size), rtol=1e-9)
    seeds = [KMeansPlusPlus(size, random_state=seed).fit(X, sample_weight=u) for seed in range(3)]
    errors = [quantization_error(X, X[seed.indices_], u) for seed in seeds]
    assert quantization_error(X, X[few.indices_], u) < 0.9 * np.mean(errors)


@pytest.mark.parametrize("size", [20, 300])
def test_medoids_of_groups_far_from_each_other_stand_for_the_nearest_rows(size):
    rng = np.random.default_rng(0)
    sites = 1e6 * rng.random((50, 1, 2)) + 10 * rng.normal(size=(50, 2, 2))
    X = (sites[:, :, None] + 0.1 * rng.normal(size=(50, 2, 20, 2))).reshape(-1, 2)
    few = Medoids(size, random_state=0).fit(X)
    nearest = ((X[:, None] - X[few.indices_]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(few.weights_, np.bincount(nearest, minlength=size))


def test_medoids_of_few_distinct_rows_are_distinct_rows():
    X = np.repeat([[0.0, 1.0], [5.0, 5.0]], 6, axis=0)
    few = Medoids(5, random_state=0).fit(X)
    assert len(set(few.indices_)) == 5
    assert few.weights_.sum() == pytest.approx(12)


def test_ties_go_to_the_first_row_whether_the_table_is_dense_or_sparse():
    for seed in range(20):
        X = np.round(3 * np.random.default_rng(seed).normal(size=(60, 3)))
        for cls in (KCenter, KMeansPlusPlus):
            forms = (X, sparse.csr_array(X))
            dense, csr = (cls(20, weighting="cells", random_state=0).fit(form) for form in forms)
            np.testing.assert_array_equal(dense.indices_, csr.indices_)
            nearest = ((X[:, None] - X[dense.indices_]) ** 2).sum(axis=2).argmin(axis=1)
            for few in (dense, csr):
                np.testing.assert_array_equal(few.weights_, np.bincount(nearest, minlength=20))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 400),
    st.integers(1, 8),
    st.sampled_from([np.float32, np.float64]),
)
def test_buckets_choose_the_rows_of_the_plain_algorithm(seed, rows, d, dtype):
    """Rows on a grid with ties, rows that come often, rows far from zero, and points that are
    covered."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d)) * 10.0 ** rng.integers(-3, 4, size=d) + rng.choice([0.0, 1e6])
    if seed % 3:
        X = np.round(X / X.std(), seed % 2) if X.std() > 0 else X
    X = X[rng.integers(rows, size=rows)].astype(dtype)
    n = int(rng.integers(1, rows + 1))
    covered = X[: seed % 4]
    weights = rng.integers(0, 3, size=rows) + (np.arange(rows) == 0)
    size = min(n, int(np.count_nonzero(weights)))

    def chosen():
        first = farthest_first(X, n, rng=np.random.default_rng(1), covered=covered)
        fitted = KCenter(size, weighting="cells", random_state=0).fit(X, sample_weight=weights)
        return first.tolist(), fitted.indices_.tolist(), fitted.weights_.tolist()

    plain = chosen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handful.baselines.centers.MANY_DISTANCES", 0)
        patch.setattr("handful.baselines.centers.BUCKET", 8)
        assert chosen() == plain


def test_seeds_of_wide_rows_that_are_repeated_are_distinct():
    rng = np.random.default_rng(0)
    for seed in range(10):
        distinct = rng.integers(0, 256, (6, 784)).astype(float)
        X = distinct[rng.integers(0, 6, 100)]
        indices = KMeansPlusPlus(20, random_state=seed).fit(X).indices_
        assert len(set(indices.tolist())) == 20


# in columns of such scales distances are mostly those of one column, which the user is told
@pytest.mark.filterwarnings("ignore::handful.scales.ScaleWarning")
@pytest.mark.parametrize("far", [0.0, 1e8, -2147483648.0, 1e12])
def test_a_column_with_a_value_far_away_does_not_make_the_seeds_uniform(far, rng):
    X = rng.normal(size=(1000, 2))
    X[:20] += 12
    Z = np.column_stack([X, np.where(rng.random(1000) < 0.3, far, 0)])
    rows = [KMeansPlusPlus(10, random_state=seed).fit(Z).indices_ for seed in range(20)]
    # a uniform draw finds one of the twenty in .18 of the cases
    assert np.mean([(found < 20).any() for found in rows]) > 0.9
    seeds = list(islice(seeds_one_by_one(Z, np.ones(1000), rng.random), 10))
    assert len(seeds) == 10
    for row, found in seeds:
        np.testing.assert_allclose(found, ((Z - Z[row]) ** 2).sum(axis=1), rtol=1e-7)


@pytest.mark.filterwarnings("ignore::handful.scales.ScaleWarning")
def test_few_medoids_are_found_beside_a_column_with_a_value_far_away(rng):
    centers = rng.permutation(10) * 50.0
    X = np.repeat(centers, 20) + rng.normal(size=200)
    Z = np.column_stack([X, np.repeat([0.0, 1e11], 100)])
    found = Medoids(10, random_state=0).fit(Z).indices_
    assert len(set(found // 20)) == 10
