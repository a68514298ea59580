"""Clustering: an EM iteration against a bare kernel, quality and time against what a user would pick instead."""

import time

import numpy as np
from _harness import Bench
from handful.clustering.distances import nearest_centers, quantization_error
from handful.clustering.seeding import afkmc2, kmeans_plusplus
from handful.clustering.variational import Mixture, VariationalEM, padded, random_neighbours, random_sets
from handful.clustering.vcgmm import VCGMM
from handful.clustering.vcgmm_kernels import Threads, four_distances
from handful.sensitivity.lightweight import lightweight_coreset
from numba import njit
from sklearn.cluster import MiniBatchKMeans


@njit
def bare_kernel(Y, centers, ids):
    """As many squared distances as `ids` has, four centres at a time, and nothing else."""
    total = Y.dtype.type(0)
    for i in range(Y.shape[0]):
        for k in range(0, ids.shape[1], 4):
            a, b, c, d = ids[i, k], ids[i, k + 1], ids[i, k + 2], ids[i, k + 3]
            for s in four_distances(Y[i], centers[a], centers[b], centers[c], centers[d]):
                total += s
    return total


def mixture_rows(n, d, k, rng, *, pareto=False, df=5):
    """Rows of a mixture of `k` heavy-tailed clusters, float32."""
    means = rng.normal(size=(k, d)) * rng.gamma(2, 1, size=(k, 1))
    shares = rng.pareto(1.0, size=k) + 0.01 if pareto else np.ones(k)
    labels = rng.choice(k, size=n, p=shares / shares.sum())
    return (means[labels] + rng.standard_t(df, size=(n, d)) * 0.7).astype(np.float32)


def settled(X, n_clusters, threads, *, n_neighbors=5, warm_up=7):
    """An optimisation past its reorderings: what most iterations look like."""
    rng = np.random.default_rng(0)
    Y = padded(X - X.mean(axis=0))
    seeds, _ = afkmc2(Y, n_clusters, rng=rng)
    prior = np.full(n_clusters, -np.log(n_clusters))
    mixture = Mixture(Y[seeds], np.zeros(n_clusters), prior, random_neighbours(n_clusters, n_neighbors, rng))
    K = random_sets(len(Y), n_clusters, n_neighbors, rng)
    options = dict(n_random=0, shared=True, key=1, threads=threads, floor=1e-12)
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
            for _ in range(4):  # three M-steps lie between four E-steps
                bare_kernel(em.Y, mixture.centers, ids)

        case = f"EM, {len(X):,} x {X.shape[1]}, C = 2,000, G = 5"
        bench.time(case, {"iteration": runs[2000]}, ("bare kernel, same distances", bare), bars={"iteration": 4})
        bench.time("EM, C = 8,000", {"iteration": runs[8000]}, ("C = 500", runs[500]), bars={"iteration": 1.8})


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


def against_peers(bench, name, X, n_clusters, coreset_size, n_seeds=3):
    """Error and CPU seconds of each method over those of MiniBatchKMeans, medians over seeds."""
    methods = {
        "MiniBatchKMeans(1024)": lambda seed: MiniBatchKMeans(
            n_clusters, batch_size=1024, n_init=1, compute_labels=False, random_state=seed
        ),
        "vc-GMM as in the paper": lambda seed: VCGMM(
            n_clusters,
            coreset_size=coreset_size,
            init="afkmc2",
            moves=None,
            grow=False,
            stopping="paper",
            compute_labels=False,
            random_state=seed,
        ),
        "VCGMM": lambda seed: VCGMM(n_clusters, coreset_size=coreset_size, compute_labels=False, random_state=seed),
    }
    rows = {method: [] for method in methods}
    for seed in range(n_seeds):
        for method, make in methods.items():
            start = time.process_time()
            model = make(seed).fit(X)
            seconds = time.process_time() - start
            rows[method].append((quantization_error(X, model.cluster_centers_), seconds))
    peer = np.median(rows.pop("MiniBatchKMeans(1024)"), axis=0)
    for method, found in rows.items():
        error, seconds = np.median(found, axis=0) / peer
        bench.value(name, f"{method}: error", error, unit="x MiniBatchKMeans(1024)", bar=1.02)
        bench.value(name, f"{method}: CPU time", seconds, unit="x MiniBatchKMeans(1024)", bar=0.5)


def main():
    bench = Bench("clustering", "Clustering")
    rng = np.random.default_rng(0)
    X = mixture_rows(1 << 17, 90, 3000, rng)
    iterations(bench, X[: 1 << 16])
    passes(bench, X, X[:2000].copy())
    families = {
        "balanced": mixture_rows(1 << 17, 32, 800, rng),
        "Pareto weights": mixture_rows(1 << 17, 32, 800, rng, pareto=True),
        "heavy tails": mixture_rows(1 << 17, 32, 800, rng, df=2.5),
    }
    for name, rows in families.items():
        against_peers(bench, f"{name}, C = 500, N' = 2^15", rows, 500, 1 << 15)
    bench.write()


if __name__ == "__main__":
    main()
