"""Balanced draws: right probabilities, totals that are kept, against plainer draws and a cube
method row by row."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from handful.baselines import BalancedCoreset, StratifiedCoreset, UniformCoreset
from handful.baselines.balanced import inclusion_probabilities, leading_columns
from handful.baselines.cube import cube_sample
from hypothesis import given, settings
from hypothesis import strategies as st


def row_by_row(columns, probabilities, rng):
    """The flight of Deville and Tillé (2004) by one null vector of all undecided rows a step,
    without the landing."""
    state = probabilities.copy()
    balanced = columns / probabilities[:, None]
    while True:
        undecided = np.flatnonzero((state > 1e-9) & (state < 1 - 1e-9))
        if len(undecided) <= columns.shape[1]:
            return state
        direction = np.linalg.svd(balanced[undecided].T)[2][-1]
        room = np.where(direction > 0, 1 - state[undecided], state[undecided]) / np.abs(direction)
        back = np.where(direction > 0, state[undecided], 1 - state[undecided]) / np.abs(direction)
        ahead = room.min()
        behind = back.min()
        step = ahead if rng.random() < behind / (ahead + behind) else -behind
        state[undecided] += step * direction


def total_error(columns, probabilities, drawn):
    return (columns[drawn] / probabilities[drawn, None]).sum(axis=0) - columns.sum(axis=0)


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(4, 60),
    n_columns=st.integers(1, 6),
    share=st.floats(0.1, 0.9),
    seed=st.integers(0, 2**31),
    is_equal=st.booleans(),
)
def test_the_size_is_exact_and_totals_are_kept_up_to_the_last_rows(
    n, n_columns, share, seed, is_equal
):
    rng = np.random.default_rng(seed)
    size = max(1, round(share * n))
    probabilities = inclusion_probabilities(
        np.ones(n) if is_equal else rng.gamma(1.0, size=n) + 1e-3, size
    )
    columns = np.column_stack(
        [probabilities, rng.normal(size=(n, n_columns - 1)) * probabilities[:, None]]
    )
    drawn = cube_sample(columns, probabilities, rng)
    assert len(drawn) == size
    assert set(np.flatnonzero(probabilities == 1)) <= set(drawn)
    most = np.abs(columns / probabilities[:, None]).max(axis=0)
    assert (np.abs(total_error(columns, probabilities, drawn)) <= n_columns * most + 1e-6).all()


def test_each_row_is_drawn_with_its_probability():
    rng = np.random.default_rng(0)
    probabilities = inclusion_probabilities(rng.gamma(2.0, size=25), 8)
    columns = np.column_stack([probabilities, rng.normal(size=(25, 3))])
    n_draws = 3000
    counts = np.zeros(25)
    for _ in range(n_draws):
        counts[cube_sample(columns, probabilities, rng)] += 1
    deviation = np.sqrt(probabilities * (1 - probabilities) / n_draws)
    assert (np.abs(counts / n_draws - probabilities) <= 4 * deviation + 1e-12).all()


def test_pairs_are_drawn_as_often_as_without_a_column_to_balance():
    """With the size alone, six rows of which three are drawn: each pair as often as in a uniform
    draw, 1 in 5."""
    rng = np.random.default_rng(1)
    probabilities = np.full(6, 0.5)
    n_draws = 6000
    pairs = dict.fromkeys(combinations(range(6), 2), 0)
    for _ in range(n_draws):
        for pair in combinations(cube_sample(probabilities[:, None], probabilities, rng), 2):
            pairs[pair] += 1
    shares = np.array(list(pairs.values())) / n_draws
    assert np.abs(shares - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / n_draws)


def test_a_sample_that_can_be_balanced_exactly_is():
    """Rows in pairs of x and -x, in strata of four: a balanced half exists, and nothing is left for
    the landing."""
    rng = np.random.default_rng(2)
    strata = np.repeat(np.eye(10), 4, axis=0)
    probabilities = np.full(40, 0.5)
    columns = np.column_stack([probabilities, strata])
    for _ in range(20):
        drawn = cube_sample(columns, probabilities, rng)
        assert np.abs(total_error(columns, probabilities, drawn)).max() < 1e-9


def test_groups_leave_what_the_flight_row_by_row_leaves():
    """Both end with at most q undecided rows; the errors of totals after the landing have the same
    size."""
    rng = np.random.default_rng(3)
    probabilities = np.full(300, 0.1)
    columns = np.column_stack([probabilities, rng.normal(size=(300, 4)) * 0.1])
    state = row_by_row(columns, probabilities, rng)
    assert np.abs((columns / probabilities[:, None]).T @ (state - probabilities)).max() < 1e-9
    plain = []
    ours = []
    for _ in range(60):
        state = row_by_row(columns, probabilities, rng)
        landed = rng.random(300) < state
        plain.append(total_error(columns, probabilities, landed))
        ours.append(total_error(columns, probabilities, cube_sample(columns, probabilities, rng)))
    assert np.std(ours) < 1.5 * np.std(plain)


def errors_of_means(selector, X, y=None, n_draws=60):
    found = []
    for seed in range(n_draws):
        selector.set_params(random_state=seed).fit(X, y)
        found.append(selector.weights_ @ X[selector.indices_] / len(X) - X.mean(axis=0))
    return np.sqrt(np.mean(np.square(found), axis=0)) / X.std(axis=0)


def test_means_of_all_columns_are_kept_better_than_by_uniform_and_stratified_draws():
    rng = np.random.default_rng(4)
    X = rng.gamma(2.0, size=(2000, 6)) @ rng.normal(size=(6, 6))
    y = (X[:, 0] > X[:, 0].mean()).astype(int)
    balanced = errors_of_means(BalancedCoreset(60), X, y)
    assert (balanced < 0.4 * errors_of_means(UniformCoreset(60), X, y)).all()
    assert (balanced < 0.4 * errors_of_means(StratifiedCoreset(60), X, y)).all()


def test_variances_are_kept_with_degree_two():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 3))
    squares = (X - X.mean(axis=0)) ** 2

    def spread(degree):
        found = []
        for seed in range(60):
            selector = BalancedCoreset(60, degree=degree, random_state=seed).fit(X)
            found.append(
                selector.weights_ @ squares[selector.indices_] / len(X) - squares.mean(axis=0)
            )
        return np.std(found, axis=0)

    assert spread(2).mean() < 0.5 * spread(1).mean()


@pytest.mark.parametrize("by", ["town", ["town"], ("town", "kind"), ["kind", ("town", "kind")]])
def test_shares_of_values_and_of_cells_are_within_a_row(by):
    rng = np.random.default_rng(6)
    table = pd.DataFrame(
        {"town": rng.choice(list("abc"), 3000), "kind": rng.choice(["x", "y"], 3000), "z": 1.0}
    )
    cells = ["town"] if by in ("town", ["town"]) else ["town", "kind"]
    expected = table.value_counts(cells) / 3000 * 50
    for seed in range(10):
        few, _ = BalancedCoreset(50, by=by, random_state=seed).fit(table).take(table)
        off = (few.value_counts(cells).reindex(expected.index, fill_value=0) - expected).abs()
        slack = 1.0 if by in ("town", ["town"], ("town", "kind")) else 2.0
        assert off.max() <= slack + 1e-9


def test_sample_weights_are_the_probabilities_and_totals_are_kept():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1000, 3))
    weights = rng.gamma(1.0, size=1000)
    selector = BalancedCoreset(80, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_allclose(selector.weights_.sum(), weights.sum(), rtol=0.02)
    estimated = selector.weights_ @ X[selector.indices_]
    deviation = np.sqrt(weights.sum() * (weights @ X**2) / 80)
    assert (np.abs(estimated - weights @ X) < 0.5 * deviation).all()


def test_missing_values_words_times_and_rare_values_are_balanced_too():
    rng = np.random.default_rng(8)
    table = pd.DataFrame(
        {
            "number": np.where(rng.random(2000) < 0.3, np.nan, rng.normal(size=2000)),
            "word": rng.choice(["often", None], 2000, p=[0.7, 0.3]),
            "day": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 999, 2000), unit="D"),
            "name": [f"only {i}" for i in range(2000)],
            "whole": pd.array(rng.integers(0, 5, 2000), dtype="Int64"),
        }
    )
    few, _ = BalancedCoreset(60, random_state=0).fit(table).take(table)
    assert abs(few["number"].isna().sum() - 0.3 * 60) <= 3
    assert abs(few["word"].isna().sum() - 0.3 * 60) <= 3
    assert abs(few["whole"].mean() - table["whole"].mean()) < 0.3
    assert abs((few["day"].mean() - table["day"].mean()).days) < 60


def test_a_function_says_what_is_balanced():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(1000, 4))
    selector = BalancedCoreset(40, by=lambda X: X[:, :2] ** 2, random_state=0).fit(X)
    assert selector.n_balanced_ == 2
    estimated = selector.weights_ @ X[selector.indices_, :2] ** 2 / 1000
    assert np.abs(estimated - (X[:, :2] ** 2).mean(axis=0)).max() < 0.15
    with pytest.raises(ValueError, match=r"by\(X\) must be finite numbers of shape \(1000, k\)"):
        BalancedCoreset(40, by=lambda X: X[:, 0]).fit(X)


def test_more_columns_than_rows_can_balance_become_principal_components():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 40)) + 0.1 * rng.normal(size=(500, 40))
    selector = BalancedCoreset(20, random_state=0).fit(X)
    assert selector.n_balanced_ == 10
    assert (
        errors_of_means(BalancedCoreset(20), X).mean()
        < 0.6 * errors_of_means(UniformCoreset(20), X).mean()
    )


def test_columns_that_combine_others_are_left_out():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 2))
    features = np.column_stack([X, X.sum(axis=1), np.ones(200), 1e9 + X[:, 0]])
    assert leading_columns(features, np.ones(200), most=10).shape == (200, 2)


def test_a_column_that_is_not_there_is_named():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"by must be a column of X, got by='b'.*\['a'\]"):
        BalancedCoreset(2, by="b").fit(table)


@pytest.mark.parametrize("as_given", [list, np.array, pd.Series], ids=["list", "array", "Series"])
def test_a_column_of_words_is_balanced_by_its_values(as_given):
    words = ["often"] * 60 + ["seldom"] * 40
    few, _ = BalancedCoreset(10, random_state=0).fit(as_given(words)).take(words)
    assert few.count("often") == 6


def test_rows_that_are_no_table_need_a_function():
    images = np.random.default_rng(0).normal(size=(50, 4, 4))
    with pytest.raises(ValueError, match=r"X must be a table, shape \(n, d\), got shape \(50, 4"):
        BalancedCoreset(10).fit(images)
    flat = BalancedCoreset(10, by=lambda X: X.reshape(len(X), -1), random_state=0).fit(images)
    assert len(flat.indices_) == 10
