"""Clustering: an EM iteration against a bare kernel, quality and time against what a user would
pick instead.

Errors over families of mixtures and further data sets are in the notebook vcgmm/own_mixtures. Real
data sets come through HANDFUL_DATA or a download; faiss is required.
"""

import time
import warnings

import numpy as np
from _harness import Bench
from handful.clustering import VCGMM, quantization_error
from handful.clustering.seeding import afkmc2, kmeans_plusplus
from handful.clustering.variational import (
    Mixture,
    TruncatedEM,
    VariationalEM,
    padded,
    random_neighbours,
    random_sets,
)
from handful.clustering.vcgmm_kernels import Threads
from handful.distances import nearest_centers
from handful.sensitivity.lightweight import lightweight_coreset
from handful_papers.vcgmm.data import clustering_problem
from handful_papers.vcgmm.lloyd import four_distances, lloyd
from numba import njit
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

PAPER = dict(init="afkmc2", algorithm="paper")


@njit
def bare_kernel(Y, centers, ids):
    """As many squared distances as `ids` has, four centres at a time, and nothing else."""
    total = Y.dtype.type(0)
    for i in range(Y.shape[0]):
        for k in range(0, ids.shape[1], 4):
            a = ids[i, k]
            b = ids[i, k + 1]
            c = ids[i, k + 2]
            d = ids[i, k + 3]
            for s in four_distances(Y[i], centers[a], centers[b], centers[c], centers[d]):
                total += s
    return total


def mixture_rows(n, d, k, rng):
    """Rows of a mixture of `k` heavy-tailed clusters of unequal distances from the origin,
    float32."""
    means = rng.normal(size=(k, d)) * rng.gamma(2, 1, size=(k, 1))
    return (means[rng.integers(k, size=n)] + rng.standard_t(5, size=(n, d)) * 0.7).astype(
        np.float32
    )


def settled(X, n_clusters, threads, *, n_neighbors=5, warm_up=7):
    """An optimisation past its reorderings: what most iterations look like."""
    rng = np.random.default_rng(0)
    Y = padded(X - X.mean(axis=0))
    seeds, _ = afkmc2(Y, n_clusters, rng=rng)
    mixture = Mixture(Y[seeds], 0.0, random_neighbours(n_clusters, n_neighbors, rng))
    K = random_sets(len(Y), n_clusters, n_neighbors, rng)
    options = dict(n_random=0, key=1, threads=threads, floor=1e-12)
    em = VariationalEM(Y, np.ones(len(Y)), X.shape[1], K, **options)
    em.run(mixture, tol=0.0, max_iter=warm_up)
    return em, mixture


def iterations(bench, X):
    with Threads() as threads:
        runs = {}
        for n_clusters in (500, 2000, 8000):
            em, mixture = settled(X, n_clusters, threads)

            def step(em=em, mixture=mixture):
                trace = em.run(mixture, tol=0.0, max_iter=3)
                return trace.n_distances / (trace.n_iter + 1)

            runs[n_clusters] = step
        em, mixture = settled(X, 2000, threads)
        per_point = int(np.ceil(runs[2000]() / len(X) / 4)) * 4
        ids = np.ascontiguousarray(em.found[:, :per_point])
        ids[np.arange(per_point) >= em.n_found[:, None]] = 0

        def bare():
            # three M-steps lie between four E-steps
            for _ in range(4):
                bare_kernel(em.Y, mixture.centers, ids)

        case = f"EM, {len(X):,} x {X.shape[1]}, C = 2,000, G = 5"
        bench.time(
            case,
            {"iteration": runs[2000]},
            ("bare kernel, same distances", bare),
            bars={"iteration": 4},
        )
        bench.time(
            "EM, C = 8,000",
            {"iteration": runs[8000]},
            ("C = 500", runs[500]),
            bars={"iteration": 1.8},
        )


def passes(bench, X, centers):
    def sums():
        X.sum(axis=0)
        X.sum(axis=0)

    rng = np.random.default_rng
    bench.time(
        "lightweight coreset of 2^15",
        {"two passes": lambda: lightweight_coreset(X, 1 << 15, rng=rng(0))},
        ("two column sums", sums),
        bars={},
    )
    small = X[: 1 << 16]
    bench.time(
        "nearest of 2,000 centres",
        {"exact": lambda: nearest_centers(small, centers)},
        ("product X @ centers.T", lambda: small @ centers.T),
        bars={"exact": 2},
    )
    bench.time(
        "greedy k-means++, C = 500, 2^14",
        {"greedy": lambda: kmeans_plusplus(X[: 1 << 14], 500, rng=rng(0))},
        ("one trial", lambda: kmeans_plusplus(X[: 1 << 14], 500, n_trials=1, rng=rng(0))),
        bars={},
    )


def seconds_and_error(make, X):
    """CPU seconds of a fit, and its quantisation error on all rows."""
    start = time.process_time()
    centers = make(X)
    seconds = time.process_time() - start
    return seconds, quantization_error(X, centers)


def ours(n_clusters, **options):
    def run(X, seed=0):
        model = VCGMM(n_clusters, compute_labels=False, random_state=seed, **options).fit(X)
        return model.cluster_centers_

    return run


def minibatch(n_clusters):
    def run(X, seed=0):
        options = dict(batch_size=1024, n_init=1, compute_labels=False, random_state=seed)
        return MiniBatchKMeans(n_clusters, **options).fit(X).cluster_centers_

    return run


def faiss_kmeans(n_clusters):
    def run(X, seed=0):
        import faiss

        faiss.omp_set_num_threads(1)
        model = faiss.Kmeans(X.shape[1], n_clusters, seed=seed + 1, max_points_per_centroid=len(X))
        model.train(X)
        return model.centroids

    return run


def full_kmeans(n_clusters):
    """The yardstick: k-means++ with Lloyd on all rows, as the paper takes it."""

    def run(X, seed=0):
        seeds = kmeans_plusplus(X, n_clusters, n_trials=1, rng=np.random.default_rng(seed))[0]
        return lloyd(X, X[seeds])[0]

    return run


def against_peers(bench, case, X, arms, bars):
    """One run of each arm: errors over that of "k-means++, Lloyd", seconds over those of the peers.

    Parameters
    ----------
    arms : dict, name -> function of the rows
    bars : dict, (arm, quantity) -> bar; quantity "error" or the name of another arm
    """
    found = {name: seconds_and_error(run, X) for name, run in arms.items()}
    reference = found["k-means++, Lloyd"][1]
    for name, (seconds, error) in found.items():
        unit = "x k-means++, Lloyd"
        bench.value(
            case, f"{name}: error", error / reference, unit=unit, bar=bars.get((name, "error"))
        )
        bench.value(case, f"{name}: CPU time", seconds, unit="s")
    for (name, peer), bar in bars.items():
        if peer != "error":
            ratio = found[peer][0] / found[name][0]
            bench.value(
                case, f"{name}: faster than {peer}", ratio, unit="x", bar=bar, direction=">="
            )
    return found


def many_points(bench, X):
    case = f"{len(X):,} x {X.shape[1]}, C = 2,000, N' = 2^16"
    arms = {
        "k-means++, Lloyd": full_kmeans(2000),
        "MiniBatchKMeans": minibatch(2000),
        "VCGMM": ours(2000, coreset_size=1 << 16),
        "VCGMM, hard": ours(2000, coreset_size=1 << 16, assignment="hard"),
        "vc-GMM as in the paper": ours(2000, coreset_size=1 << 16, **PAPER),
    }
    bars = {
        ("VCGMM", "error"): 0.98,
        ("VCGMM", "k-means++, Lloyd"): 10,
        ("VCGMM", "MiniBatchKMeans"): 1,
    }
    found = against_peers(bench, case, X, arms, bars)
    share = found["VCGMM"][1] / found["MiniBatchKMeans"][1]
    bench.value(case, "VCGMM: error", share, unit="x MiniBatchKMeans", bar=1.0)


def real_data(bench):
    cifar = clustering_problem("cifar10").X
    rna = clustering_problem("cod_rna").X
    arms = {
        "k-means++, Lloyd": full_kmeans(500),
        "faiss": faiss_kmeans(500),
        "MiniBatchKMeans": minibatch(500),
        "VCGMM, N' = 2^13": ours(500, coreset_size=1 << 13),
        "VCGMM, hard, N' = 2^14": ours(500, coreset_size=1 << 14, assignment="hard"),
        "VCGMM, hard, AFK-MC2, N' = 2^14": ours(
            500,
            coreset_size=1 << 14,
            assignment="hard",
            init="afkmc2",
            algorithm=TruncatedEM(start="nearest"),
        ),
    }
    fast = "VCGMM, hard, AFK-MC2, N' = 2^14"
    bars = {(fast, "error"): 1.02, (fast, "faiss"): 10, (fast, "MiniBatchKMeans"): 4}
    against_peers(
        bench, f"CIFAR-10, {len(cifar):,} x {cifar.shape[1]:,}, C = 500", cifar, arms, bars
    )
    arms = {
        "k-means++, Lloyd": full_kmeans(500),
        "faiss": faiss_kmeans(500),
        "MiniBatchKMeans": minibatch(500),
        "VCGMM, N' = 2^15": ours(500, coreset_size=1 << 15),
        "VCGMM": ours(500),
    }
    bars = {("VCGMM, N' = 2^15", "error"): 1.05, ("VCGMM", "error"): 1.05}
    against_peers(bench, f"cod-rna, {len(rna):,} x {rna.shape[1]}, C = 500", rna, arms, bars)


def greedy_labels(bench, X, kind):
    """Labels by a search over the neighbourhoods, of rows of some kind: what it misses and
    saves."""
    for n_clusters in (2000, 8000):
        options = dict(coreset_size=1 << 16, max_iter=20, compute_labels=False, random_state=0)
        model = VCGMM(n_clusters, **options).fit(X)
        model.predict(X[:100], greedy=True)
        clock = [time.process_time()]
        exact, sq_dist = nearest_centers(X, model.cluster_centers_)
        clock.append(time.process_time())
        greedy = model.predict(X, greedy=True)
        clock.append(time.process_time())
        case = f"labels, {len(X):,} x {X.shape[1]} {kind}, C = {n_clusters:,}"
        error = ((X - model.cluster_centers_[greedy]) ** 2).sum(dtype=np.float64) / sq_dist.sum()
        bench.value(
            case, "greedy: rows at another centre", 100 * np.mean(greedy != exact), unit="%"
        )
        bench.value(case, "greedy: error", error, unit="x exact")
        bench.value(
            case, "greedy: CPU time", (clock[2] - clock[1]) / (clock[1] - clock[0]), unit="x exact"
        )


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    bench = Bench("clustering", "Clustering")
    X = mixture_rows(500_000, 90, 3000, np.random.default_rng(0))
    X -= X.mean(axis=0)
    for run in (
        ours(100, coreset_size=4096),
        full_kmeans(100),
        ours(100, coreset_size=4096, **PAPER),
    ):
        # compiles
        run(X[:20_000])
    iterations(bench, X[: 1 << 16])
    passes(bench, X[: 1 << 17], X[:2000].copy())
    real_data(bench)
    greedy_labels(bench, X[:100_000], "in clusters")
    greedy_labels(
        bench,
        np.random.default_rng(0).normal(size=(100_000, 20)).astype(np.float32),
        "of one normal law",
    )
    many_points(bench, X)
    # One run of each arm against the peers: CPU seconds, which neighbours hardly change
    bench.write(runs="one of each arm; iterations and passes: five turns")


if __name__ == "__main__":
    main()
