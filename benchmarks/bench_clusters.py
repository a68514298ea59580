"""Ten million rows on disk into up to 50,000 clusters: error, CPU seconds and peak memory, each fit
in its own process.

`python bench_clusters.py [FOLDER]`: rows that are in FOLDER already are not written again, and what
broke off goes on.
"""

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import joblib
import numpy as np
from _harness import Bench
from handful.blocks import Blocks
from handful.distances import nearest_centers
from handful_papers.own.beyond_memory import measured_fit, write_rows

# rows; files of fewer rows; rows that give the error
N = 10_000_000
FEW = {"1M": 4, "3M": 12}
MEASURED = 100_000
# method, clusters, rows or draws for each of them, iterations. faiss gets rows for about the
# seconds of VCGMM (at 5,000 clusters it took fewer); KMeans and MiniBatchKMeans run where their
# seeding, quadratic in the clusters, lets them.
ARMS = [
    ("vcgmm", 50_000, 32, 0),
    ("faiss", 50_000, 4, 10),
    ("vcgmm", 1_000, 64, 0),
    ("faiss", 1_000, 256, 10),
    ("vcgmm", 5_000, 64, 0),
    ("faiss", 5_000, 32, 10),
    ("vcgmm", 20_000, 32, 0),
    ("faiss", 20_000, 6, 10),
    ("minibatch", 1_000, 1000, 0),
    ("minibatch", 5_000, 100, 0),
    ("kmeans", 1_000, 256, 0),
    ("faiss", 1_000, 64, 10),
    ("faiss", 20_000, 15, 4),
    ("faiss", 50_000, 10, 4),
    ("minibatch", 20_000, 10, 0),
]


def fitted(method, folder, clusters, size, n_iter):
    """Centres, CPU seconds, peak megabytes and those of the imports, of a fit in a process of its
    own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(measured_fit, method, folder, clusters, size, 0, n_iter).result()
    print(
        method,
        folder.name,
        f"C = {clusters:,}",
        size,
        *(f"{value:.1f}" for value in found[1:]),
        flush=True,
    )
    return found


def of_an_arm(folder, rows, arm):
    method, clusters, size, n_iter = arm
    centers, seconds, peak, imports = fitted(method, folder, clusters, size * clusters, n_iter)
    sq_dist = nearest_centers(rows, centers.astype(np.float32))[1]
    return dict(sq_dist=sq_dist, seconds=seconds, peak=peak, imports=imports)


def noted(bench, arm, found, ours):
    """The error of an arm (that of VCGMM alone; of others over it, with its standard error),
    seconds and peak."""
    (method, clusters, size, n_iter) = arm
    sq_dist = found["sq_dist"]
    case = (
        f"{N:,} x 64, C = {clusters:,}, {method}, {size} rows a cluster"
        + f", {n_iter} iterations" * (n_iter > 0)
    )
    if sq_dist is not ours:
        ratio = sq_dist.mean() / ours.mean()
        bench.value(
            case,
            "error",
            ratio,
            unit="x vcgmm",
            bar=1.0 if method == "faiss" else None,
            direction=">=",
        )
        noise = (sq_dist - ratio * ours).std() / np.sqrt(len(ours)) / ours.mean()
        bench.value(case, "its standard error over rows", noise, unit="x vcgmm")
    else:
        bench.value(case, "error", sq_dist.mean(), unit="squared distance of a row")
    bench.value(
        case, "CPU time", found["seconds"], unit="s", bar=7200 if method == "vcgmm" else None
    )
    limit = 2048 if method == "vcgmm" else None
    bench.value(
        case, "peak resident memory, imports included", found["peak"], unit="MiB", bar=limit
    )


def exponent(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def main():
    bench = Bench("clusters", "Ten million rows on disk in up to 50,000 clusters")
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        folder = home / "mixture"
        if not folder.exists():
            folder.mkdir(parents=True)
            write_rows(folder, "mixture", N, seed=0)
        for name, n_files in FEW.items():
            (home / name).mkdir(exist_ok=True)
            for i in range(n_files):
                (home / name / f"rows{i}.npy").unlink(missing_ok=True)
                (home / name / f"rows{i}.npy").hardlink_to(folder / f"rows{i}.npy")
        places = np.random.default_rng(1).choice(N, MEASURED, replace=False)
        rows = Blocks(folder).take(places).X
        np.save(home / "few.npy", rows[:1000])
        of_one = joblib.Memory(home / "found", verbose=0).cache(of_an_arm)
        with ThreadPoolExecutor(2) as threads:
            fewer = {
                name: threads.submit(of_one, home / name, rows, ("vcgmm", 1000, 64, 0))
                for name in FEW
            }
            jobs = {arm: threads.submit(of_one, folder, rows, arm) for arm in ARMS}
            found = {arm: job.result() for arm, job in jobs.items()}
            seconds = [job.result()["seconds"] for job in fewer.values()]
    mine = {arm[1]: found[arm] for arm in ARMS if arm[0] == "vcgmm"}
    for arm in sorted(ARMS, key=lambda arm: arm[1]):
        noted(bench, arm, found[arm], mine[arm[1]]["sq_dist"])
    sizes = [n_files << 18 for n_files in FEW.values()] + [N]
    case = "VCGMM, CPU time"
    bench.value(
        case,
        "exponent in n (1, 3, 10 million), C = 1,000",
        exponent(sizes, [*seconds, mine[1000]["seconds"]]),
    )
    in_c = exponent(list(mine), [part["seconds"] for part in mine.values()])
    bench.value(case, "exponent in C, draws in proportion (64, 64, 32, 32 a cluster)", in_c)
    bench.note(
        f"The error is the mean squared distance to the nearest centre of {MEASURED:,} of the "
        "rows, drawn at random, "
        "and not of all, which would take hours; one seed. Two fits ran at a time, one thread each."
    )
    bench.write(
        runs="one run of each", data="handful_papers.own.beyond_memory.write_rows('mixture')"
    )


if __name__ == "__main__":
    main()
