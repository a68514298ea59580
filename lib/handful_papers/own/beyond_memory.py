"""Many clusters of rows that stay on disk: error, seconds and peak memory of VCGMM and of what a
user would pick."""

import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from handful.blocks import Blocks
from handful.clustering import VCGMM, quantization_error
from handful.data import load
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from handful_papers.own import METHODS
from handful_papers.style import legend_below, log_ticks, panels

# Pixels along the side of a patch, which has 64 columns.
SIDE = 8
# Rows of each file.
FILE_ROWS = 1 << 18
# Rows of a batch of MiniBatchKMeans, at least.
BATCH = 1 << 13


def images(data):
    """What patches are cut from: grey images as uint8, shape (m, height, width), and their
    `Dataset`."""
    if data == "sample_images":
        dataset = load("sample_patches", size=32, stride=32)
        return dataset.X.reshape(-1, 32, 32, 3).mean(axis=3).astype(np.uint8), dataset
    dataset = load(data)
    shape = (-1, 3, 32, 32) if data == "cifar10" else (-1, 1, 28, 28)
    return dataset.X.reshape(shape).mean(axis=1).astype(np.uint8), dataset


def write_rows(folder, data, n, *, seed):
    """Write `n` rows of 64 float32 columns as .npy files of 262,144 rows: bytes that they take.

    Parameters
    ----------
    data : "mixture", a mixture of 5,000 heavy-tailed clusters of unequal weights; "sample_images",
        "cifar10" or "mnist", patches of 8 x 8 pixels, in grey, from random places of the images,
        with uniform noise
    """
    rng = np.random.default_rng([seed, n])
    draw_rows = _mixture(rng) if data == "mixture" else _patches(images(data)[0], rng)
    n_bytes = 0
    for i, start in enumerate(range(0, n, FILE_ROWS)):
        X = draw_rows(min(FILE_ROWS, n - start)).astype(np.float32)
        np.save(folder / f"rows{i}.npy", X)
        n_bytes += X.nbytes
    return n_bytes


def _mixture(rng):
    """A function that draws rows of a mixture of heavy-tailed clusters of unequal weights."""
    means = 2 * rng.normal(size=(5000, SIDE**2))
    shares = rng.pareto(1.5, 5000) + 0.1
    shares /= shares.sum()

    def draw_rows(m):
        cluster = rng.choice(5000, m, p=shares)
        return means[cluster] + rng.standard_t(4, size=(m, SIDE**2))

    return draw_rows


def _patches(pictures, rng):
    """A function that draws patches from random places of grey images, with uniform noise."""
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (SIDE, SIDE), axis=(1, 2))

    def draw_rows(m):
        picture = np.sort(rng.integers(windows.shape[0], size=m))
        down, right = rng.integers(windows.shape[1], size=(2, m))
        patches = windows[picture, down, right].reshape(m, -1)
        noisy = patches + rng.random((m, SIDE**2))
        return noisy[rng.permutation(m)]

    return draw_rows


def sample(folder, m, rng):
    """`m` rows at random, without repetition, in random order; blocks are read one at a time."""
    blocks = Blocks(folder)
    drawn = rng.choice(blocks.n, min(m, blocks.n), replace=False)
    return blocks.take(rng.permutation(drawn)).X


def fit(
    method,
    folder,
    n_clusters,
    *,
    size,
    seed,
    n_iter=10,
):
    """Centres by one method, on one thread, from a folder of files.

    Parameters
    ----------
    method : "vcgmm" (hardened, on a coreset of `size` draws), "faiss" (`n_iter` iterations on
        `size` random rows), "minibatch" (scikit-learn's, batches from `size` random rows) or
        "kmeans" (scikit-learn's, on as many)
    """
    rng = np.random.default_rng(seed)
    if method == "vcgmm":
        model = VCGMM(
            n_clusters,
            coreset_size=size,
            assignment="hardened",
            compute_labels=False,
            random_state=seed,
        )
        return model.fit(folder).cluster_centers_
    X = sample(folder, size, rng)
    if method == "faiss":
        import faiss

        faiss.omp_set_num_threads(1)
        model = faiss.Kmeans(
            X.shape[1],
            n_clusters,
            niter=n_iter,
            seed=seed + 1,
            max_points_per_centroid=len(X),
            min_points_per_centroid=1,
        )
        model.train(X)
        return model.centroids
    if method == "kmeans":
        model = KMeans(n_clusters, n_init=1, random_state=seed)
        return model.fit(X).cluster_centers_
    model = MiniBatchKMeans(n_clusters, random_state=seed, compute_labels=False)
    batch = max(BATCH, 2 * n_clusters)
    for start in range(0, len(X), batch):
        part = X[start : start + batch]
        if len(part) >= n_clusters:
            model.partial_fit(part)
    return model.cluster_centers_


def measured_fit(
    method,
    folder,
    n_clusters,
    size,
    seed,
    n_iter=10,
):
    """`fit` in a process of its own: centres, CPU seconds, and the most megabytes that the process
    has held.

    The peak is VmHWM of /proc/self/status, with what importing took, which comes fourth.
    """
    warnings.simplefilter("ignore", ConvergenceWarning)
    few = folder.parent / "few.npy"
    # What compiles does so here.
    fit(
        method,
        few,
        8,
        size=500,
        seed=0,
    )
    before = peak_megabytes()
    start = time.process_time()
    centers = fit(
        method,
        folder,
        n_clusters,
        size=size,
        seed=seed,
        n_iter=n_iter,
    )
    return centers, time.process_time() - start, peak_megabytes(), before


def peak_megabytes():
    """The most resident memory that this process has held so far, as Linux counts it."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def curve_rows(
    dataset,
    seed,
    *,
    rows,
    measured,
    arms,
    kmeans_rows,
):
    """Every arm on one data set with one seed, each in a process of its own: a task of the sweep.

    Parameters
    ----------
    dataset : str, as `data` of `write_rows`
    seed : int, of all draws; the files are the same for all seeds
    rows : int, in the files
    measured : int, further rows, not in the files, on which the error is taken
    arms : list of [method, clusters, rows per cluster]
    kmeans_rows : int, the most rows of "kmeans" and "minibatch" that are read into memory

    Returns
    -------
    list of dict: method, clusters, size (rows or draws), n (rows in the files), error (mean squared
    distance of measured rows to the nearest centre), seconds (CPU, reading included), megabytes
    (peak of the process), imports (of these before the fit) and file_megabytes
    """
    found = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        (folder / "test").mkdir()
        n_bytes = write_rows(folder / "data", dataset, rows, seed=0)
        write_rows(folder / "test", dataset, measured, seed=1)
        held_out = Blocks(folder / "test").take(np.arange(measured)).X
        np.save(folder / "few.npy", held_out[:1000])
        for method, clusters, per_cluster in arms:
            in_memory = method not in ("vcgmm", "faiss")
            most = min(rows, kmeans_rows) if in_memory else rows
            size = min(per_cluster * clusters, most)
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                job = pool.submit(
                    measured_fit,
                    method,
                    folder / "data",
                    clusters,
                    size,
                    seed,
                )
                centers, seconds, megabytes, imports = job.result()
            error = quantization_error(held_out, centers.astype(np.float32)) / measured
            row = dict(
                method=method,
                clusters=clusters,
                size=size,
                n=rows,
                error=error,
                seconds=seconds,
                megabytes=megabytes,
                imports=imports,
                file_megabytes=n_bytes / 2**20,
            )
            found.append(row)
    return found


def draw(rows, titles):
    """Error over the best one against CPU seconds, a panel for each data set and number of
    clusters."""
    by_arm = rows.groupby(["dataset", "clusters", "method", "size"], sort=False)
    means = by_arm[["error", "seconds"]].mean().reset_index()
    groups = list(means.groupby(["dataset", "clusters"], sort=False))
    fig, axes = panels(len(groups), most=3, ratio=0.8)
    for ax, ((dataset, clusters), part) in zip(axes.flat, groups):
        for method, line in part.groupby("method", sort=False):
            line = line.sort_values("seconds")
            excess = 100 * (line.error / part.error.min() - 1)
            ax.plot(line.seconds, excess, **METHODS.style(method))
        ax.set(title=f"{titles[dataset]}, C = {clusters:,}", xscale="log", xlabel="CPU seconds")
        log_ticks(ax.xaxis)
    for ax in axes[:, 0]:
        ax.set_ylabel("excess error (%)")
    legend_below(fig, ncols=4)
    return fig


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    against = {}
    for (dataset, clusters), part in run.rows.groupby(["dataset", "clusters"], sort=False):
        if "faiss" in set(part.method):
            against[f"{dataset}, C = {clusters:,}"] = _errors_at_equal_seconds(part)
    by_clusters = run.rows[run.rows.method == "vcgmm"].groupby("clusters")
    peak = by_clusters.megabytes.max() / 1024
    return {
        "own-beyond-faiss": against,
        "own-beyond-peak": {f"C = {clusters:,}": [value] for clusters, value in peak.items()},
    }


def _errors_at_equal_seconds(part):
    """Our error on the largest coreset over that of faiss on the most rows for which it takes no
    longer, one value a seed."""
    ours = part[part.method == "vcgmm"]
    ours = ours[ours["size"] == ours["size"].max()].set_index("seed")
    theirs = part[part.method == "faiss"]
    seconds = theirs.groupby("size").seconds.mean()
    affordable = seconds.index[seconds <= ours.seconds.mean()]
    size = affordable.max() if len(affordable) else seconds.index.min()
    theirs = theirs[theirs["size"] == size].set_index("seed")
    return (ours.error / theirs.error).to_numpy()
