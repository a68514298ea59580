"""How vc-GMM's cost grows: measured exponents against the complexities of Table S.1, and Table 2 at
large scale."""

import resource
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from handful.clustering import VCGMM, quantization_error
from handful.clustering.seeding import afkmc2
from handful.data.synthetic import gaussian_mixture
from handful.sensitivity.lightweight import lightweight_coreset
from sklearn.exceptions import ConvergenceWarning

from handful_papers.vcgmm.arms import Setting, one_thread, printed_vcgmm
from handful_papers.vcgmm.data import patch_file
from handful_papers.vcgmm.lloyd import lloyd

AXES = ("points", "clusters", "neighbors", "dimensions")
# Table S.1: exponents in the points it runs on (N or N'), C, G and D; None where the cost has terms
# of either kind
STATED = {
    ("coreset", "points"): 1,
    ("coreset", "dimensions"): 1,
    ("seeding", "clusters"): 2,
    ("seeding", "dimensions"): 1,
    ("LWCS iteration", "points"): 1,
    ("LWCS iteration", "clusters"): 1,
    ("LWCS iteration", "dimensions"): 1,
    ("vc-GMM iteration", "points"): 1,
    ("vc-GMM iteration", "clusters"): 0,
    ("vc-GMM iteration", "neighbors"): 2,
    ("vc-GMM iteration", "dimensions"): 1,
}


def measure(
    n,
    C,
    G,
    d,
    *,
    seed,
    n_iter=6,
):
    """Cost of each part on n rows of a mixture with as many components as clusters, C; G
    neighbours, d dimensions.

    Returns
    -------
    list of dict: part, quantity ("distances", "seconds" of CPU time on one thread, "bytes" at the
    peak), value. An iteration's cost is the mean over all but the first.
    """
    rng = np.random.default_rng([seed, n, C, G, d])
    X, _ = gaussian_mixture(
        n,
        d,
        C,
        overlap=0.3,
        dtype=np.float32,
        rng=rng,
    )
    X -= X.mean(axis=0)
    found = []

    def note(part, **quantities):
        for name, value in quantities.items():
            found.append(dict(part=part, quantity=name, value=value))

    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        lightweight_coreset(X, max(1, n // 8), rng=rng)
        note("coreset", seconds=time.process_time() - start, distances=n)
        start = time.process_time()
        seeds, n_distances = afkmc2(X, C, chain_length=2, rng=rng)
        note("seeding", seconds=time.process_time() - start, distances=n_distances)
        centers = X[seeds]
        few = _lloyd_cost(X, centers, 1)
        many = _lloyd_cost(X, centers, 2)
        note("LWCS iteration", **_difference(few, many, 1))
        few = _em_cost(X, centers, G, 1, seed)
        many = _em_cost(
            X,
            centers,
            G,
            1 + n_iter,
            seed,
        )
        note("vc-GMM iteration", **_difference(few, many, n_iter))
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        # The centres that are handed over count as memory, too.
        _em_cost(X, X[seeds], G, 1, seed)
        _, peak = tracemalloc.get_traced_memory()
        note("vc-GMM memory", bytes=peak - before)
        tracemalloc.stop()
    return found


def measured(
    axis,
    points,
    clusters,
    neighbors,
    dimensions,
    seed,
    *,
    n_iter,
):
    """Rows of `measure` at one scale, for the curve along `axis`: a task of the sweep."""
    # What compiles does so here.
    measure(
        256,
        8,
        2,
        8,
        seed=0,
        n_iter=1,
    )
    return measure(
        points,
        clusters,
        neighbors,
        dimensions,
        seed=seed,
        n_iter=n_iter,
    )


def long_form(rows):
    """Rows with one column a quantity, as they are kept, one quantity a row; without those that a
    part has not."""
    if "quantity" in rows:
        return rows
    kept = [c for c in rows if c not in ("bytes", "distances", "seconds")]
    return rows.melt(id_vars=kept, var_name="quantity").dropna(subset="value")


def _lloyd_cost(X, centers, n_iter):
    start = time.process_time()
    _, _, n_distances = lloyd(
        X,
        centers,
        tol=0.0,
        max_iter=n_iter,
    )
    return dict(distances=n_distances, seconds=time.process_time() - start)


def _em_cost(X, centers, n_neighbors, n_iter, seed):
    model = VCGMM(
        len(centers),
        init=centers,
        algorithm="paper",
        n_neighbors=n_neighbors,
        max_iter=n_iter,
        tol=0.0,
        compute_labels=False,
        random_state=seed,
    )
    start = time.process_time()
    model.fit(X)
    return dict(distances=model.n_distances_, seconds=time.process_time() - start)


def _difference(few, many, steps):
    return {name: max(many[name] - few[name], 0) / steps for name in few}


def fitted_exponent(sizes, costs):
    """Slope of log cost against log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def exponents(rows):
    """Measured exponents per part, quantity, axis and seed.

    Parameters
    ----------
    rows : DataFrame with axis, the sizes (see `measured`), seed, part, quantity, value (see
        `long_form`)

    Returns
    -------
    list of dict: part, quantity, axis, seed, exponent
    """
    found = []
    curves = rows.groupby(["part", "quantity", "axis", "seed"], sort=False)
    for (part, quantity, axis, seed), group in curves:
        costs = group.groupby(axis).value.mean()
        if len(costs) > 1 and (costs > 0).all():
            exponent = fitted_exponent(costs.index, costs)
            row = dict(
                part=part,
                quantity=quantity,
                axis=axis,
                seed=seed,
                exponent=exponent,
            )
            found.append(row)
    return found


# Table 2 -----------------------------------------------------------------------------------------


def draw_coreset(X, size, *, seed):
    """A lightweight coreset of a file of uint8 rows, with uniform noise in [0, 1) on what was
    drawn.

    Returns
    -------
    rows : float32 array, about their weighted mean
    weights : float64 array
    mean : array, shape (d,)
    cost : dict of seconds (CPU) and megabytes (most that was allocated beside the file's cached
        pages)
    """
    # What compiles does so here, and counts for neither time nor memory of the coreset.
    lightweight_coreset(X[:2], 1, rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    tracemalloc.start()
    start = time.process_time()
    with one_thread():
        indices, weights = lightweight_coreset(X, size, rng=rng)
        seconds = time.process_time() - start
        chosen = X[indices]
        rows = chosen.astype(np.float32) + rng.random(chosen.shape, dtype=np.float32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    mean = (weights / weights.sum()) @ rows
    cost = dict(seconds=seconds, megabytes=peak / 2**20)
    return rows - mean.astype(np.float32), weights, mean, cost


def many_clusters(
    rows,
    weights,
    X_test,
    n_clusters,
    *,
    chain_length=20,
    n_warmup=0,
    seed,
):
    """One line of Table 2: quantisation error on `X_test`, CPU seconds of seeding and of EM,
    iterations."""
    rng = np.random.default_rng([seed, n_clusters])
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clock = [time.process_time()]
        seeds, n_seeding = afkmc2(
            rows, n_clusters, chain_length=chain_length, sample_weight=weights, rng=rng
        )
        clock.append(time.process_time())
        setting = Setting("vcgmm", n_random=1, n_warmup=n_warmup)
        model = printed_vcgmm(setting, rows[seeds], rng).fit(rows, sample_weight=weights)
        clock.append(time.process_time())
        error = quantization_error(X_test, model.cluster_centers_)
    seeding, em = np.diff(clock)
    return dict(
        clusters=n_clusters,
        seed=seed,
        error=error,
        seeding_seconds=seeding,
        em_seconds=em,
        iterations=model.n_iter_,
        seconds_per_iteration=em / (model.n_iter_ + 1),
        seeding_distances=n_seeding,
        distances_per_point=model.n_distances_ / (len(rows) * (model.n_iter_ + 1)),
        empty=model.n_empty_,
    )


def table_2(
    seed,
    *,
    first,
    source,
    n_train,
    n_test,
    side,
    coreset_size,
    clusters,
    chain_length,
    initial_e_steps,
):
    """Table 2 with one seed, all numbers of clusters on one coreset of a file: a task of the sweep.

    Parameters
    ----------
    seed : int, of seeding and EM
    first : int, the seed of the file, of the coreset and of the test rows, alike for all `seed`
    source, side : as in `patch_file` (there `size`)
    n_train, n_test : int, rows of the file: the last `n_test` are for the test
    coreset_size, clusters, chain_length, initial_e_steps : N', the numbers of clusters, m, E-steps
        before the first M-step

    Returns
    -------
    list of dict of `many_clusters`, with error_per_point, coreset_seconds, coreset_megabytes,
    file_megabytes and peak_megabytes (most that this process has held, cached pages of files
    included)
    """
    with tempfile.TemporaryDirectory() as folder:
        X, _ = patch_file(
            Path(folder) / "patches.npy", n_train + n_test, source=source, size=side, seed=first
        )
        # What compiles does so here, and before the first line of the table.
        draw_coreset(X[:5000], 100, seed=first)
        rows, weights, mean, cost = draw_coreset(X[:n_train], coreset_size, seed=first)
        held_out = np.array(X[n_train:])
        megabytes = X.nbytes / 2**20
    noise = np.random.default_rng(first).random(held_out.shape, dtype=np.float32)
    X_test = held_out + noise - mean.astype(np.float32)
    many_clusters(
        rows[:2000],
        weights[:2000],
        X_test[:500],
        20,
        seed=seed,
    )
    common = dict(chain_length=chain_length, n_warmup=initial_e_steps, seed=seed)
    found = [many_clusters(rows, weights, X_test, C, **common) for C in clusters]
    about = {f"coreset_{name}": value for name, value in cost.items()}
    about["file_megabytes"] = megabytes
    about["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [row | dict(error_per_point=row["error"] / n_test) | about for row in found]
