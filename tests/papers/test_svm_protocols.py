"""Comparisons of the SVM paper: what its ratios estimate, and how often their rules err."""

import math

import numpy as np
import pandas as pd
import pytest
from handful_papers.claims import AGREES
from handful_papers.svm.comparisons import (
    FLOOR,
    geometric_mean,
    jackknifed_ratio,
    overheads,
    ratios,
    trials,
)
from handful_papers.svm.errors import ARMS, searched_numbers, train_within
from handful_papers.svm.fig02_offline_time import solvers_on_all_points
from handful_papers.verdicts import decide
from scipy import sparse
from sklearn.svm import SVC


def test_the_geometric_mean_is_the_ratio_of_means_with_the_jackknifes_correction(rng):
    a = rng.exponential(size=30)
    b = 2 * rng.exponential(size=30)
    whole = np.log(a.mean() / b.mean())
    left_out = [np.log(np.delete(a, i).mean() / np.delete(b, i).mean()) for i in range(30)]
    corrected = 30 * whole - 29 * np.mean(left_out)
    assert np.log(jackknifed_ratio(a, b)).mean() == pytest.approx(corrected)
    assert corrected == pytest.approx(whole, abs=0.05)


def test_errors_below_the_solvers_gap_count_as_the_gap():
    np.testing.assert_allclose(
        jackknifed_ratio(np.full(5, 1e-2), np.array([0.0, -1e-9, 1e-8, 0, 0])), 1e-2 / FLOOR
    )


def test_equal_arms_hold_in_at_most_five_percent_of_the_cases(rng):
    trials = 600
    n = 40
    held = 0
    for _ in range(trials):
        # errors over trials are skewed about as much
        a, b = np.exp(1.0 * rng.normal(size=(2, n)))
        held += decide({"": jackknifed_ratio(a, b)}, above=1, scale="log")[0] == AGREES
    assert held / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_the_searched_clusters_are_the_authors_grid_and_lower_the_sum(rng):
    assert searched_numbers(48_270) == [24, 72, 219]
    assert searched_numbers(100) == [10, 12]  # 12 = 2 log 200 is more than the root
    y = np.repeat([0, 1], [4000, 500])
    X = rng.normal(size=(len(y), 3)) + 4 * rng.integers(0, 5, (len(y), 1)) + y[:, None]
    for rows in (X, sparse.csr_array(X)):
        arms = {
            name: ARMS[name]().set_params(random_state=0) for name in ("svm paper", "svm searched")
        }
        by_log, searched = (arm.fit(rows, y) for arm in arms.values())
        assert set(searched.n_clusters_) <= {*searched_numbers(4000), *searched_numbers(500)}
        assert searched.total_sensitivity_ < by_log.total_sensitivity_


def _rows():
    cells = [("A", m, s) for m in (10, 20) for s in range(3)]
    uniform = pd.DataFrame(
        [dict(dataset=d, size=m, seed=s, method="uniform", train=1.0) for d, m, s in cells]
    )
    uniform["select"], uniform["error"] = 1.0, uniform.seed + uniform["size"]
    arm = uniform.assign(method="svm paper", error=uniform.error / 4, select=uniform["size"] / 2.0)
    return pd.concat([uniform, arm], ignore_index=True)


def test_ratios_compare_means_or_spreads_at_the_sizes_asked_for():
    for spread in (False, True):
        found = ratios(_rows(), "svm paper", spread=spread)
        assert list(found) == [("A", 10), ("A", 20)]
        np.testing.assert_allclose(np.array(list(found.values())), 4, rtol=1e-4)
    assert list(ratios(_rows(), "svm paper", sizes=lambda sizes: sizes[:1])) == [("A", 10)]
    np.testing.assert_allclose(geometric_mean({"a": [1.0, 4.0], "b": [4.0, 4.0]}), [2, 4])


def test_overheads_are_of_choosing_and_training_together():
    np.testing.assert_allclose(overheads(_rows(), "svm paper")["A"], np.sqrt((6 / 2) * (11 / 2)))


def test_a_training_that_ends_is_the_plain_one_and_one_that_does_not_is_stopped(rng):
    X = rng.normal(size=(3000, 5))
    y = np.where(X[:, 0] + 2 * rng.normal(size=3000) > 0, 1.0, -1.0)
    plain = SVC(kernel="linear", tol=1e-3).fit(X, y)
    # It needs more iterations than the first run has.
    assert plain.n_iter_ > 1000
    ended, _, stopped = train_within(math.inf, X, y)
    assert not stopped
    np.testing.assert_array_equal(ended.coef_, plain.coef_)
    _, seconds, stopped = train_within(1e-9, X, y)
    assert stopped
    assert seconds >= 1e-9


def test_trials_are_fewer_only_where_that_is_said():
    found = trials(["a", "b"], 3, {"b": 2, "c": 1}, first=5)
    assert [(one["dataset"], one["seed"]) for one in found] == [
        ("a", 5),
        ("a", 6),
        ("a", 7),
        ("b", 5),
        ("b", 6),
    ]
    assert len(trials(["b"], 1, {"b": 2}, first=0)) == 1


def test_the_papers_solver_stops_after_the_coresets_longest_mean_time():
    rows = _rows().assign(train_svc=3.0)
    settings = solvers_on_all_points(rows, ["a"], ["A"], 20)
    limits = {one["solver"]: one.get("limit") for one in settings}
    # Size 20: 10 seconds to select, 3 to train.
    assert limits == {"LinearSVM": None, "LinearSVC": None, "SVC": 20 * 13.0}
