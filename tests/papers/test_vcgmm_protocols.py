import numpy as np
import pandas as pd
import pytest
from handful.clustering import quantization_error
from handful_papers.vcgmm import arms as protocol
from handful_papers.vcgmm.arms import (
    Setting,
    by_setting,
    fit,
    next_seed,
    paper_settings,
    seed_rows,
)
from handful_papers.vcgmm.data import clustering_problem, cut_patches, patch_file
from handful_papers.vcgmm.lloyd import bound, lloyd
from handful_papers.vcgmm.own_mixtures import against_best
from handful_papers.vcgmm.scaling import draw_coreset, many_clusters, measure
from handful_papers.vcgmm.tables import (
    against_printed,
    cost_to_reach,
    draw_nmi,
    draw_tradeoff,
    nearest_to_target,
    relative_errors,
    same_error_ratios,
    summarise,
)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 7))[rng.integers(6, size=700)] * 4 + rng.normal(size=(700, 7))
    return (X - X.mean(axis=0)).astype(np.float32)


# Lloyd --------------------------------------------------------------------------------------------------------------


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
    np.testing.assert_allclose(centers, textbook(X, weights, X[:n_clusters], n_iter), rtol=1e-4, atol=1e-4)
    assert n_distances == n_iter * len(X) * n_clusters


def test_lloyd_stops_at_the_first_small_change_of_the_bound(X):
    _, n_iter, _ = lloyd(X, X[:6], tol=1e-4)
    costs = [quantization_error(X, textbook(X, np.ones(len(X)), X[:6], k)) for k in range(n_iter)]
    values = np.array([bound(q, len(X), X.shape[1], 6) for q in costs])
    changes = np.abs(np.diff(values) / values[:-1])
    assert changes[-1] < 1e-4 <= changes[:-1].min()


def test_the_bound_is_the_likelihood_of_a_mixture_of_far_clusters():
    # so far apart that the posterior is certain: the bound is then the log-likelihood at its best variance
    rng = np.random.default_rng(0)
    centers = 1000.0 * np.eye(3)
    X = np.repeat(centers, 50, axis=0) + rng.normal(size=(150, 3))
    cost = quantization_error(X, centers)
    variance = cost / X.size
    sq_dist = ((X[:, None] - centers) ** 2).sum(axis=2)
    log_density = np.log(np.exp(-sq_dist / (2 * variance)).mean(axis=1)) - 1.5 * np.log(2 * np.pi * variance)
    assert bound(cost, 150, 3, 3) == pytest.approx(log_density.sum(), rel=1e-12)


# the arms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", [*paper_settings(sizes=[256]), *(Setting(p) for p in protocol.PEERS if p != "faiss")], ids=str
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


# tables -------------------------------------------------------------------------------------------------------------


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
                        dataset="a", clusters=2, method=method, setting=f"N'={size}" if size else "G=5", size=size,
                        seed=seed, error=error + off, nmi=0.5, iterations=3, distances=10 * time, seconds=time,
                        coreset_seconds=0.1 * time, seeding_seconds=0.1 * time, em_seconds=0.8 * time,
                    )
                )  # fmt: skip
    return relative_errors(pd.DataFrame(rows))


def test_errors_and_speed_ups_are_relative_to_kmeanspp():
    table = summarise(made_up([1.0, 4.0])).set_index(["method", "setting"])
    assert table.eta["kmeans++", "G=5"] == pytest.approx(0)
    assert table.eta["lwcs", "N'=64"] == pytest.approx(20)
    assert table.eta_sem["lwcs", "N'=64"] == pytest.approx(1)
    assert table.speedup_time["vcgmm", "N'=64"] == pytest.approx(100)
    assert table.speedup_distances["vcgmm", "N'=128"] == pytest.approx(25)
    assert table.share["lwcs", "N'=64"] == pytest.approx(20)


def test_seconds_to_an_error_lie_on_the_line_between_two_sizes():
    rows = made_up([1.0, 4.0])
    summary = summarise(rows)
    curve = summary[summary.method == "vcgmm"]
    assert cost_to_reach(curve, 20.0) == pytest.approx(1)
    assert cost_to_reach(curve, 5.0) == pytest.approx(4)
    assert cost_to_reach(curve, 12.5) == pytest.approx(2)  # half the way, on a log scale
    assert np.isnan(cost_to_reach(curve, 50.0))  # passed before the smallest coreset
    assert np.isnan(cost_to_reach(curve, 1.0))
    assert nearest_to_target(summary, "a", "lwcs")["size"] == 128
    np.testing.assert_allclose(same_error_ratios(rows, "a", target=10.0), 10 / 2.0 ** np.array([9 / 15, 11 / 15]))


def test_ours_is_set_against_the_printed_size_and_no_other():
    rows = made_up([1.0, 4.0])
    rows = rows.assign(setting=rows.setting.replace("N'=128", "N'=4096"))  # the size that Table 1 has for CIFAR-10
    found = against_printed(rows, "a", "CIFAR-10", "time")
    assert {m: v.tolist() for m, v in found.items()} == {
        "vargmm": pytest.approx([2 / 12.6] * 2), "lwcs": pytest.approx([5 / 17.3] * 2),
        "vcgmm": pytest.approx([25 / 166.4] * 2),
    }  # fmt: skip
    np.testing.assert_allclose(against_printed(rows, "a", "CIFAR-10", "error")["lwcs"], [4 - 10.34, 6 - 10.34])
    assert list(against_printed(rows, "a", "SUSY", "time")) == ["vargmm"]  # N' = 2^15 did not run
    assert "vargmm" not in against_printed(rows, "a", "SUSY", "share")  # printed as <1


def test_a_sweep_leaves_a_row_for_each_setting_and_seed_and_can_be_drawn():
    problem = clustering_problem("digits", rows=400, measured=200)
    settings = paper_settings(sizes=[64, 128], chains=[2], widths=[(2, 0)])
    found = [row for s in (0, 1) for row in seed_rows(problem, 5, settings, seed=s, other=next_seed(s, 0, 2))]
    rows = by_setting(pd.DataFrame(found))
    assert rows.seed.tolist() == [0, 1] * len(settings)
    assert not rows.duplicated(["method", "setting", "seed"]).any()
    assert len(rows) == 2 * len(settings)
    assert rows.nmi.between(0, 1).all()
    summary = summarise(relative_errors(rows))
    for fig in (draw_tradeoff(summary, {"digits": "digits"}), draw_nmi(summary, {"digits": "digits"})):
        fig.draw_without_rendering()


# data ---------------------------------------------------------------------------------------------------------------


def test_patches_are_cut_from_the_images():
    images = np.random.default_rng(0).integers(256, size=(3, 3, 6, 6), dtype=np.uint8)
    patches = cut_patches(images, 200, size=2, rng=np.random.default_rng(1))
    windows = np.lib.stride_tricks.sliding_window_view(images, (2, 2), axis=(2, 3))
    every = {w.tobytes() for w in np.moveaxis(windows, 1, 3).reshape(-1, 12)}
    assert {p.tobytes() for p in patches} <= every
    assert len({p.tobytes() for p in patches}) > 50
    grey = cut_patches(images, 200, size=2, rng=np.random.default_rng(1), grey=True)
    np.testing.assert_array_equal(grey, patches.reshape(-1, 3, 4).mean(axis=1).astype(np.uint8))


def test_a_coreset_of_a_file_and_many_clusters_on_it(tmp_path):
    X, _ = patch_file(tmp_path / "p.npy", 30_000, source="sample_images")
    assert isinstance(X, np.memmap)
    rows, weights, mean, _ = draw_coreset(X, 1000, seed=0)
    assert weights.sum() == pytest.approx(len(X), rel=0.1)
    np.testing.assert_allclose(mean, X.mean(axis=0) + 0.5, rtol=0.1)
    line = many_clusters(rows, weights, X[:500] - mean.astype(np.float32), 20, seed=0)
    assert line["distances_per_point"] <= 26
    assert line["error"] < (np.asarray(X[:500] - mean) ** 2).sum() / 4


def test_memory_of_a_coreset_does_not_grow_with_the_file(tmp_path):
    rng, megabytes = np.random.default_rng(0), []
    for n in (100_000, 800_000):
        X = np.lib.format.open_memmap(tmp_path / f"{n}.npy", mode="w+", dtype=np.uint8, shape=(n, 48))
        X[:] = rng.integers(256, size=48, dtype=np.uint8)
        X[::7] += 1
        megabytes.append(draw_coreset(X, 2000, seed=0)[3]["megabytes"])
    assert megabytes[1] < 1.5 * megabytes[0]  # 8 times the rows; statistics of blocks alone grow
    assert megabytes[1] < X.nbytes / 10 / 2**20  # a tenth of the file, a fortieth of its rows as float32


# families of mixtures ------------------------------------------------------------------------------------------------


def test_arms_are_measured_by_the_best_and_the_fastest_that_gets_there():
    rows = pd.DataFrame(
        [
            dict(dataset="a", method=m, setting="", seed=s, error=e + (s - 0.5), seconds=t)
            for m, e, t in (("kmeans++", 100, 8), ("faiss", 101.5, 4), ("minibatch", 110, 1), ("vcgmm ours", 99, 3))
            for s in (0, 1)
        ]
    )
    table = against_best(rows, ["kmeans++", "faiss", "minibatch"]).set_index("method")
    assert table.ratio["vcgmm ours"] == pytest.approx(0.99)
    assert table.time_ratio["vcgmm ours"] == pytest.approx(0.75)  # of faiss: the faster minibatch is 10 % off
    assert against_best(rows, ["kmeans++", "minibatch"]).set_index("method").time_ratio["vcgmm ours"] == 0.375


# complexities -------------------------------------------------------------------------------------------------------


def test_parts_are_counted_as_the_table_states_them():
    found = {(m["part"], m["quantity"]): m["value"] for m in measure(512, 16, 3, 8, seed=0)}
    assert found["coreset", "distances"] == 512
    assert found["LWCS iteration", "distances"] == 512 * 16
    assert 512 * 3 <= found["vc-GMM iteration", "distances"] <= 512 * 9
    assert found["vc-GMM memory", "bytes"] > 0
