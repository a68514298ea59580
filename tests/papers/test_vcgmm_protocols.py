import numpy as np
import pandas as pd
import pytest
from handful.clustering import quantization_error
from handful_papers.vcgmm import arms as protocol
from handful_papers.vcgmm.arms import Setting, fit, paper_settings
from handful_papers.vcgmm.lloyd import bound, lloyd
from handful_papers.vcgmm.scaling import measure
from handful_papers.vcgmm.tables import (
    cost_to_reach,
    nearest_to_target,
    quantities,
    relative_errors,
    same_error_ratios,
    summarise,
)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 7))[rng.integers(6, size=700)] * 4 + rng.normal(size=(700, 7))
    return (X - X.mean(axis=0)).astype(np.float32)


# Lloyd -------------------------------------------------------------------------------------------


def textbook(X, weights, centers, n_iter):
    centers = centers.astype(np.float64)
    for _ in range(n_iter):
        nearest = ((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        for c in np.unique(nearest):
            mine = nearest == c
            centers[c] = np.average(X[mine], axis=0, weights=weights[mine])
    return centers


@pytest.mark.parametrize("n_clusters", [1, 3, 6, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lloyd_is_the_textbook_loop(X, n_clusters, dtype):
    weights = np.random.default_rng(1).uniform(0.5, 2, len(X))
    centers, n_iter, n_distances = lloyd(
        X.astype(dtype), X[:n_clusters].astype(dtype), sample_weight=weights, tol=0.0, max_iter=4
    )
    np.testing.assert_allclose(
        centers, textbook(X, weights, X[:n_clusters], n_iter), rtol=1e-4, atol=1e-4
    )
    assert n_distances == n_iter * len(X) * n_clusters


def test_lloyd_stops_at_the_first_small_change_of_the_bound(X):
    _, n_iter, _ = lloyd(X, X[:6], tol=1e-4)
    costs = [quantization_error(X, textbook(X, np.ones(len(X)), X[:6], k)) for k in range(n_iter)]
    values = np.array([bound(q, len(X), X.shape[1], 6) for q in costs])
    changes = np.abs(np.diff(values) / values[:-1])
    assert changes[-1] < 1e-4 <= changes[:-1].min()


def test_the_bound_is_the_likelihood_of_a_mixture_of_far_clusters():
    # so far apart that the posterior is certain: the bound is then the log-likelihood at its best
    # variance
    rng = np.random.default_rng(0)
    centers = 1000.0 * np.eye(3)
    X = np.repeat(centers, 50, axis=0) + rng.normal(size=(150, 3))
    cost = quantization_error(X, centers)
    variance = cost / X.size
    sq_dist = ((X[:, None] - centers) ** 2).sum(axis=2)
    log_density = np.log(np.exp(-sq_dist / (2 * variance)).mean(axis=1)) - 1.5 * np.log(
        2 * np.pi * variance
    )
    assert bound(cost, 150, 3, 3) == pytest.approx(log_density.sum(), rel=1e-12)


# the arms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [*paper_settings(sizes=[256]), *(Setting(p) for p in protocol.PEERS if p != "faiss")],
    ids=str,
)
def test_each_arm_lowers_the_error_and_repeats_itself(X, setting):
    fits = [fit(setting, X, 6, seed=1) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].centers, fits[1].centers)
    assert fits[0].centers.shape == (6, 7)
    assert quantization_error(X, fits[0].centers) < (X**2).sum() / 2
    if setting.method in protocol.PAPER:
        parts = fits[0].coreset_seconds, fits[0].seeding_seconds, fits[0].em_seconds
        assert sum(parts) == pytest.approx(fits[0].seconds)


def test_distances_are_counted(X):
    n = len(X)
    full = fit(Setting("kmeans++"), X, 6, seed=0)
    assert full.distances == n * 6 * (full.iterations + 1)
    lwcs = fit(Setting("lwcs", size=100), X, 6, seed=0)
    assert lwcs.distances <= n + 100 * 6 * lwcs.iterations + 100 + 2 * 6 * 6 * 2
    vcgmm = fit(Setting("vcgmm", size=100, n_neighbors=2), X, 6, seed=0)
    assert vcgmm.distances <= n + 100 * 4 * (vcgmm.iterations + 1) + 100 + 2 * 6 * 6 * 2


# tables ------------------------------------------------------------------------------------------


def made_up(vcgmm_seconds):
    """Two coreset sizes with errors of 20 % and 5 %; k-means++ takes 100 s and 1,000 distances."""
    rows = []
    for method, sizes, errors, seconds in (
        ("kmeans++", [None], [100.0], [100.0]),
        ("vargmm", [None], [101.0], [50.0]),
        ("lwcs", [64, 128], [120.0, 105.0], [10.0, 20.0]),
        ("vcgmm", [64, 128], [120.0, 105.0], vcgmm_seconds),
    ):
        for size, error, time in zip(sizes, errors, seconds):
            for seed, off in enumerate((-1.0, 1.0)):
                rows.append(
                    dict(
                        dataset="a",
                        clusters=2,
                        method=method,
                        setting=f"N'={size}" if size else "G=5",
                        size=size,
                        seed=seed,
                        error=error + off,
                        nmi=0.5,
                        iterations=3,
                        distances=10 * time,
                        seconds=time,
                        coreset_seconds=0.1 * time,
                        seeding_seconds=0.1 * time,
                        em_seconds=0.8 * time,
                    )
                )
    return relative_errors(pd.DataFrame(rows))


def test_errors_and_speed_ups_are_relative_to_kmeanspp():
    table = summarise(made_up([1.0, 4.0])).set_index(["method", "setting"])
    assert table.eta["kmeans++", "G=5"] == pytest.approx(0)
    assert table.eta["lwcs", "N'=64"] == pytest.approx(20)
    assert table.eta_sem["lwcs", "N'=64"] == pytest.approx(1)
    assert table.speedup_time["vcgmm", "N'=64"] == pytest.approx(100)
    assert table.speedup_distances["vcgmm", "N'=128"] == pytest.approx(25)
    assert table.share["lwcs", "N'=64"] == pytest.approx(20)


def test_errors_hold_the_noise_of_the_mean_that_they_are_relative_to():
    rows = made_up([1.0, 4.0])
    found = quantities(rows, "a", "vcgmm", "N'=128").error
    # Seeds that are as bad for k-means++ as for vc-GMM hardly tell the two apart.
    assert found.tolist() == pytest.approx([5.05, 4.95])
    still = rows.assign(error=rows.error.where(rows.method != "kmeans++", 100.0))
    assert quantities(still, "a", "vcgmm", "N'=128").error.tolist() == pytest.approx([4.0, 6.0])


def test_the_share_of_coreset_and_seeding_is_of_the_time():
    rows = made_up([1.0, 4.0])
    assert quantities(rows, "a", "vcgmm", "N'=128").share.tolist() == pytest.approx([20, 20])


def test_seconds_to_an_error_lie_on_the_line_between_two_sizes():
    rows = made_up([1.0, 4.0])
    summary = summarise(rows)
    curve = summary[summary.method == "vcgmm"]
    assert cost_to_reach(curve, 20.0) == pytest.approx(1)
    assert cost_to_reach(curve, 5.0) == pytest.approx(4)
    # half the way, on a log scale
    assert cost_to_reach(curve, 12.5) == pytest.approx(2)
    # passed before the smallest coreset
    assert np.isnan(cost_to_reach(curve, 50.0))
    assert np.isnan(cost_to_reach(curve, 1.0))
    assert nearest_to_target(summary, "a", "lwcs")["size"] == 128
    np.testing.assert_allclose(
        same_error_ratios(rows, "a", target=10.0), 10 / 2.0 ** np.array([9 / 15, 11 / 15])
    )


# data --------------------------------------------------------------------------------------------


# families of mixtures ----------------------------------------------------------------------------


# complexities ------------------------------------------------------------------------------------


def test_parts_are_counted_as_the_table_states_them():
    found = {(m["part"], m["quantity"]): m["value"] for m in measure(512, 16, 3, 8, seed=0)}
    assert found["coreset", "distances"] == 512
    assert found["LWCS iteration", "distances"] == 512 * 16
    assert 512 * 3 <= found["vc-GMM iteration", "distances"] <= 512 * 9
    assert found["vc-GMM memory", "bytes"] > 0
