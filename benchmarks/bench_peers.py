"""Against what one would pick instead: scikit-learn, faiss, imblearn, apricot, goodpoints, coreax,
skmatter, river.

Each pair takes turns in one thread. A row of seconds is the median of ours over theirs turn by
turn, with the least and the greatest of these ratios; a row of quality is ours over theirs in what
both are for, smaller is better, medians over the turns' seeds. Below one we win. A peer that is not
installed is left out, and the table says so; those that handful does not require are imported by
name.
"""

import statistics
import time
import warnings
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from _harness import Bench
from bench_svm import documents
from handful import (
    VCGMM,
    BilevelCoreset,
    KCenter,
    KMeansPlusPlus,
    LightweightCoreset,
    LinearSVM,
    Logistic,
    UniformCoreset,
)
from handful.clustering import Medoids
from handful.clustering import MiniBatchKMeans as handful_minibatch
from handful.clustering.quantization import quantization_error
from handful.data import load
from handful.svm.linear_svm import svm_objective
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.svm import LinearSVC

TURNS = 5
L2 = 1e-2


class Peers:
    """Pairs of functions of a seed that take turns, and the peers that are not there."""

    def __init__(self, bench):
        self.bench = bench
        self.missing = set()

    def pair(self, case, ours, theirs, quality, *, module, measure, turns=TURNS):
        """Two rows of the table.

        Parameters
        ----------
        case : str
        ours, theirs : (name, function of a seed); what the function gives goes into `quality`
        quality : function of what they give, smaller is better
        module : str, what must be installed
        measure : str, what `quality` is
        """
        if find_spec(module) is None:
            self.missing.add(module)
            return
        seconds = ([], [])
        found = ([], [])
        # the first one compiles
        for turn in range(turns + 1):
            for which, (_, function) in enumerate((ours, theirs)):
                start = time.process_time()
                result = function(turn)
                if turn:
                    seconds[which].append(time.process_time() - start)
                    found[which].append(quality(result))
        ratios = [a / b for a, b in zip(*seconds)]
        names = f"{ours[0]} / {theirs[0]}"
        span = f"x its CPU seconds ({min(ratios):.2g} to {max(ratios):.2g})"
        self.bench.value(case, names, statistics.median(ratios), unit=span, bar=1)
        better = statistics.median(found[0]) / statistics.median(found[1])
        self.bench.value(case, names, better, unit=f"x its {measure}", bar=1)


def clusters(n, d, k, rng):
    centers = 3 * rng.normal(size=(k, d))
    return (centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(np.float32)


def clustering(peers, n=50_000, d=16, k=100):
    X = clusters(n, d, k, np.random.default_rng(0))
    case = f"{n:,} x {d} float32, {k} clusters"

    def error(centers):
        return quantization_error(X, centers)

    def faiss(seed):
        faiss = import_module("faiss")
        kmeans = faiss.Kmeans(d, k, niter=25, seed=seed, max_points_per_centroid=n)
        kmeans.train(X)
        return kmeans.centroids

    ours = "VCGMM", lambda seed: VCGMM(k, random_state=seed).fit(X).cluster_centers_
    options = dict(measure="k-means error")
    sklearn = (
        "KMeans(n_init=1)",
        lambda seed: KMeans(k, n_init=1, random_state=seed).fit(X).cluster_centers_,
    )
    batches = (
        "MiniBatchKMeans(n_init=1)",
        lambda seed: MiniBatchKMeans(k, n_init=1, random_state=seed).fit(X).cluster_centers_,
    )
    peers.pair(case, ours, sklearn, error, module="sklearn", **options)
    peers.pair(case, ours, batches, error, module="sklearn", **options)
    peers.pair(case, ours, ("faiss.Kmeans, 25 rounds", faiss), error, module="faiss", **options)


def representatives(peers, n=10_000, d=16, m=100):
    """Rows that stand for all: seeds of k-means, far points, facility location, thinning by a
    kernel."""
    X = clusters(n, d, 50, np.random.default_rng(1)).astype(np.float64)
    case = f"{n:,} x {d}, m = {m}"

    def error(rows):
        return quantization_error(X, X[rows])

    def reach(rows):
        return pairwise_distances_argmin_min(X, X[rows])[1].max()

    def seeding(seed):
        return kmeans_plusplus(X, m, random_state=seed)[1]

    def farthest(seed):
        return (
            import_module("skmatter.sample_selection")
            .FPS(n_to_select=m, initialize=seed)
            .fit(X)
            .selected_idx_
        )

    def facilities(rows):
        return import_module("apricot").FacilityLocationSelection(m).fit(rows).ranking

    for selector in (KMeansPlusPlus, Medoids):
        ours = (
            selector.__name__,
            lambda seed, selector=selector: selector(m, random_state=seed).fit(X).indices_,
        )
        peers.pair(
            case,
            ours,
            ("kmeans_plusplus", seeding),
            error,
            module="sklearn",
            measure="k-means error",
        )
    ours_far = "KCenter", lambda seed: KCenter(m, random_state=seed).fit(X).indices_
    peers.pair(
        case,
        ours_far,
        ("skmatter FPS", farthest),
        reach,
        module="skmatter",
        measure="greatest distance",
    )

    few = X[:2000]
    ours_few = "Medoids", lambda seed: Medoids(m, random_state=seed).fit(few).indices_
    peers.pair(
        f"2,000 x {d}, m = {m}",
        ours_few,
        ("apricot facility location", lambda seed: facilities(few)),
        lambda rows: quantization_error(few, few[rows]),
        module="apricot",
        measure="k-means error",
        turns=2,
    )


def thinning(peers, n=4096, d=8, m=64):
    """Weighted points for k-means: the error on all rows of ten centres that are fitted to the
    points."""
    X = clusters(n, d, 10, np.random.default_rng(2)).astype(np.float64)
    case = f"{n:,} x {d}, m = {m}, then 10 clusters"

    def error(found):
        rows, weights = found
        centers = (
            KMeans(10, n_init=5, random_state=0)
            .fit(X[rows], sample_weight=weights)
            .cluster_centers_
        )
        return quantization_error(X, centers)

    def of(selector):
        return lambda seed: (lambda few: (few.indices_, few.weights_))(
            selector(m, random_state=seed).fit(X)
        )

    def compressed(seed):
        # to the root of n, a power of 4
        compress = import_module("goodpoints.compress").compresspp_kt
        rows = compress(X, kernel_type=b"gaussian", k_params=np.array([2.0 * d]), g=4, seed=seed)
        return rows, np.ones(len(rows))

    def herded(seed):
        kernel = import_module("coreax.kernels").SquaredExponentialKernel(
            length_scale=float(np.sqrt(d))
        )
        solver = import_module("coreax.solvers").KernelHerding(coreset_size=m, kernel=kernel)
        coreset, _ = solver.reduce(
            import_module("coreax").Data(import_module("jax.numpy").asarray(X))
        )
        return np.asarray(coreset.indices.data).ravel(), np.ones(m)

    mine = ("Medoids", of(Medoids))
    options = dict(measure="k-means error")
    # the same law as the draws of all sensitivity sampling
    drawn = "LightweightCoreset", of(LightweightCoreset)
    uniform = "UniformCoreset", of(UniformCoreset)
    peers.pair(case, drawn, uniform, error, module="sklearn", **options)
    peers.pair(
        case, mine, ("goodpoints Compress++", compressed), error, module="goodpoints", **options
    )
    peers.pair(
        case, mine, ("coreax kernel herding", herded), error, module="coreax", turns=2, **options
    )


def classes(peers, m=200):
    """Points for a logistic regression: its loss on held-out rows."""
    data = load("cod_rna")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.X))[:20_000]
    X = np.asarray(data.X[order], dtype=np.float64)
    y = data.y[order]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    (X, X_new) = np.split(X, 2)
    (y, y_new) = np.split(y, 2)

    def loss(found):
        rows, targets, weights = found
        model = LogisticRegression(C=1 / (L2 * len(rows))).fit(
            rows, targets, sample_weight=weights * len(rows) / weights.sum()
        )
        z = model.decision_function(X_new)
        return np.logaddexp(0, -np.where(y_new == model.classes_[1], z, -z)).mean()

    def ours(seed):
        return (
            BilevelCoreset(Logistic(l2=L2), size=m, weighting="equal", random_state=seed)
            .fit(X, y)
            .take(X, y)
        )

    def resampled(name, **options):
        share = np.bincount(np.unique(y, return_inverse=True)[1]) / len(y)
        sizes = dict(zip(np.unique(y), np.round(m * share).astype(int)))
        method = getattr(import_module("imblearn.under_sampling"), name)
        rows, targets = method(sampling_strategy=sizes, **options).fit_resample(X, y)
        return rows, targets, np.ones(len(rows))

    def centroids(seed):
        return resampled("ClusterCentroids", random_state=seed)

    def near_miss(seed):
        return resampled("NearMiss")

    def at_random(seed):
        return resampled("RandomUnderSampler", random_state=seed)

    case = f"cod-rna, 10,000 x {X.shape[1]}, m = {m}"
    for name, theirs, turns in (
        ("imblearn ClusterCentroids", centroids, 2),
        ("imblearn NearMiss", near_miss, 2),
        ("imblearn RandomUnderSampler", at_random, TURNS),
    ):
        options = dict(module="imblearn", measure="held-out log-loss", turns=turns)
        peers.pair(case, ("BilevelCoreset", ours), (name, theirs), loss, **options)


def machines(peers):
    """The same linear SVM, C = 1, ours to the gap at which liblinear stops on text: its
    objective."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 20))
    y = np.where(X @ rng.normal(size=20) + 2 * rng.logistic(size=len(X)) > 0, 1, -1)
    T, t = documents(16_000, 20_000, rng=np.random.default_rng(0))
    for case, rows, targets in (("20,000 x 20", X, y), ("sparse text, 16,000 x 20,000", T, t)):

        def objective(model, rows=rows, targets=targets):
            return svm_objective(rows, targets, np.append(model.coef_[0], model.intercept_))

        def ours(seed, rows=rows, targets=targets):
            return LinearSVM(tol=1e-6).fit(rows, targets)

        def theirs(seed, rows=rows, targets=targets):
            return LinearSVC(loss="hinge", max_iter=5000, random_state=seed).fit(rows, targets)

        peers.pair(
            case,
            ("LinearSVM", ours),
            ("LinearSVC(loss='hinge')", theirs),
            objective,
            module="sklearn",
            measure="objective",
        )


def streams(peers, n=50_000, d=16, k=100, chunk=1000, few=5000):
    """Clusters of a stream: chunk by chunk against scikit-learn, and row by row against river, both
    from rows of it."""
    X = clusters(n, d, k, np.random.default_rng(4)).astype(np.float64)
    start = X[np.random.default_rng(5).choice(n, k, replace=False)]

    def error(centers):
        return quantization_error(X, centers)

    def fed(model, size, rows=n):
        model.partial_fit(X[:k])
        for low in range(k, rows, size):
            model.partial_fit(X[low : low + size])
        return model.cluster_centers_

    def theirs(seed):
        return fed(MiniBatchKMeans(k, init=start, n_init=1, random_state=seed), chunk)

    def rivers(seed):
        model = import_module("river.cluster").KMeans(n_clusters=k, halflife=0.5, seed=seed)
        for row in X[:few]:
            model.learn_one(dict(enumerate(row)))
        return np.array([[model.centers[j][i] for i in range(d)] for j in range(k)])

    options = dict(measure="k-means error")
    ours = (
        "partial_fit",
        lambda seed: fed(handful_minibatch(k, init=start, random_state=seed), chunk),
    )
    case = f"{n:,} x {d} in chunks of {chunk:,}, {k} clusters"
    peers.pair(
        case, ours, ("MiniBatchKMeans.partial_fit", theirs), error, module="sklearn", **options
    )
    ours = (
        "partial_fit",
        lambda seed: fed(handful_minibatch(k, init=start, random_state=seed), 1, few),
    )
    peers.pair(
        f"{few:,} rows one by one",
        ours,
        ("river KMeans.learn_one", rivers),
        error,
        module="river",
        **options,
    )


def main():
    bench = Bench("peers", "Against what one would pick instead")
    peers = Peers(bench)
    for part in (clustering, representatives, thinning, classes, machines, streams):
        part(peers)
    names = ("sklearn", "faiss", "imblearn", "apricot", "goodpoints", "coreax", "skmatter", "river")
    versions = {name: _version(name) for name in names}
    if peers.missing:
        bench.title += f" (not installed, and left out: {', '.join(sorted(peers.missing))})"
    bench.write(
        peers=versions,
        not_installed=sorted(peers.missing),
        turns=TURNS,
        data="generated, and cod-rna",
    )


def _version(name):
    if find_spec(name) is None:
        return None
    return getattr(import_module(name), "__version__", "unknown")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
