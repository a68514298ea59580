"""Backgrounds for Shapley values: the table of contributions against the definition, and each way
to choose rows against what it promises."""

from itertools import combinations, permutations
from math import comb

import numpy as np
import pandas as pd
import pytest
from handful_papers.own import shap_background as shapley


def model(rows):
    """A model whose columns work together."""
    return np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2]) + rows[:, 3] * rows[:, 0]


def by_definition(x, background, weights):
    """Shapley values from all coalitions: the mean gain of a column, coalitions weighed by their
    size."""
    d = len(x)
    share = weights / weights.sum()

    def worth(columns):
        mixture = background.copy()
        mixture[:, list(columns)] = x[list(columns)]
        return share @ model(mixture)

    found = np.zeros(d)
    for j in range(d):
        others = [k for k in range(d) if k != j]
        for size in range(d):
            for columns in combinations(others, size):
                gain = worth([*columns, j]) - worth(columns)
                found[j] += gain / (d * comb(d - 1, size))
    return found


def test_the_table_of_contributions_gives_the_values_against_any_weighted_rows(rng):
    background = rng.normal(size=(30, 4))
    x = rng.normal(size=(2, 4))
    weights = rng.random(30)
    orders = np.array(list(permutations(range(4))))
    table = shapley.contributions(model, x, background, orders)
    for i in range(2):
        expected = by_definition(x[i], background, weights)
        np.testing.assert_allclose(table[i] @ weights / weights.sum(), expected, atol=1e-12)


def test_whatever_the_orders_a_rows_values_add_up_to_what_it_is_above_the_background(rng):
    background = rng.normal(size=(10, 4))
    x = rng.normal(size=(3, 4))
    table = shapley.contributions(model, x, background, shapley.paired_orders(4, 1, rng))
    gap = model(x)[:, None] - model(background)
    np.testing.assert_allclose(table.sum(axis=1), gap, atol=1e-12)


def test_matched_rows_have_the_mean_outputs_of_all_rows_and_the_values_of_a_model_of_few_parts(rng):
    pool = rng.normal(size=(300, 4))
    others = rng.normal(size=(50, 4))

    def few_parts(rows):
        return rows[:, 0] * rows[:, 1] + rows[:, 2] - 2 * rows[:, 3]

    # outputs at any mixture are spanned by 1, b0 b1, b0, b1, b2 and b3
    pilots = shapley.pilot_outputs(few_parts, pool, others, 60, rng)
    assert np.linalg.matrix_rank(pilots - pilots.mean(axis=0)) == 5
    rows, weights = shapley.matched(pilots, 6, rng)
    assert len(rows) == len(np.unique(rows)) <= 6
    np.testing.assert_allclose(weights @ pilots[rows], pilots.sum(axis=0), rtol=1e-9, atol=1e-8)
    x = rng.normal(size=(2, 4))
    table = shapley.contributions(few_parts, x, pool, shapley.paired_orders(4, 2, rng))
    found = table[:, :, rows] @ weights / weights.sum()
    np.testing.assert_allclose(found, table.mean(axis=2), atol=1e-9)


def test_centroids_are_those_of_shap(rng):
    shap = pytest.importorskip("shap")
    pool = rng.normal(size=(200, 3)).round(1)
    points, counts = shapley.centroids(pool, 7, 0)
    theirs = shap.kmeans(pool, 7)
    np.testing.assert_array_equal(points, theirs.data)
    np.testing.assert_allclose(counts / counts.sum(), theirs.weights)


def test_thinned_rows_have_a_mean_kernel_nearer_to_that_of_all_rows_than_random_ones(rng):
    pool = rng.standard_t(5, size=(256, 3))
    kernel = np.exp(-((pool[:, None] - pool) ** 2).sum(axis=2) / 12)

    def distance(rows):
        return kernel[np.ix_(rows, rows)].mean() - 2 * kernel[rows].mean() + kernel.mean()

    for _ in range(5):
        rows = shapley.thinned(pool, 16, rng)
        assert rows.shape == (16,)
        random = [distance(rng.permutation(256)[:16]) for _ in range(40)]
        assert distance(rows) < min(random)


def test_equal_rows_are_thinned_without_a_division_by_zero(rng):
    assert len(shapley.thinned(np.ones((32, 2)), 8, rng)) == 8


def test_a_row_of_each_group_of_outputs(rng):
    outputs = rng.permutation(100.0 * np.arange(40))
    rows = shapley.by_output(outputs, 8, rng)
    np.testing.assert_array_equal(outputs[rows] // 500, np.arange(8))


def test_the_background_of_as_many_calls_has_the_rows_that_the_pilots_cost(rng):
    found = shapley._backgrounds_of_calls(np.zeros((1000, 26)), 30, 210, rng)
    # 210,000 calls, of 2,100 coalitions for each explained row and background row
    assert [len(rows) for _, rows, _ in found] == [130, 130, 40, 40, 31, 31]
    methods = [known["method"] for known, *_ in found]
    assert methods[:4] == [
        "calls of 1",
        "thinned, calls of 1",
        "calls of 10",
        "thinned, calls of 10",
    ]
    # Eight columns have 254 coalitions, of which none is sampled twice.
    few = shapley._backgrounds_of_calls(np.zeros((1024, 8)), 32, 256, rng)
    assert [len(rows) for _, rows, _ in few] == [1024, 1024, 135, 135, 42, 42]


def test_a_ratio_is_to_the_best_of_the_others_in_each_setting():
    errors = {"matched": [1.0, 2.0], "uniform": [4.0, 4.0], "cube": [2.0, 3.0]}
    rows = [
        dict(dataset="t", model="m", method=method, m=32, seed=seed, error=error)
        for method, values in errors.items()
        for seed, error in enumerate(values)
    ]
    found = shapley.ratios(pd.DataFrame(rows), ["uniform", "cube"])
    np.testing.assert_allclose(found["t", "m"], [1 / 2, 2 / 3])
