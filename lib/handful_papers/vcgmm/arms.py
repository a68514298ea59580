"""Protocol of vc-GMM's comparison with k-means (section 4 and supplement; Figures 1, S.2 and S.3,
Table 1)."""

import time
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numba
import numpy as np
import pandas as pd
from handful.clustering import VCGMM
from handful.clustering.seeding import afkmc2, kmeans_plusplus
from handful.clustering.variational import PAPER as PRINTED
from handful.distances import nearest_centers
from handful.sensitivity.lightweight import lightweight_coreset
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score
from threadpoolctl import threadpool_limits

from handful_papers.vcgmm.data import clustering_problem
from handful_papers.vcgmm.lloyd import lloyd

PAPER = ("kmeans++", "afkmc2", "vargmm", "lwcs", "vcgmm")
OURS = "vcgmm ours"
# Our methods, and how they assign rows.
ASSIGNMENTS = {OURS: "soft", "vcgmm hard": "hard", "vcgmm hardened": "hardened"}
PEERS = ("sklearn lloyd", "sklearn elkan", "minibatch", "faiss")
# The lengths m of chains, for AFK-MC2 alone.
CHAINS = (2, 5, 10, 20)
# G and random clusters, for var-GMM-S.
WIDTHS = ((3, 1), (5, 0), (7, 0))
# The relative change of the bound that ends every run of the paper's algorithms.
TOL = 1e-4


@dataclass(frozen=True)
class Setting:
    """One point of the figures: a method and what it is run with.

    Attributes
    ----------
    method : one of `PAPER`, `ASSIGNMENTS` or `PEERS`
    size : int, N', or None for all rows
    n_neighbors, n_random : int, G and the random clusters that join a search
    chain_length : int, m
    n_warmup : int, E-steps before the first M-step
    """

    method: str
    size: int | None = None
    n_neighbors: int = 5
    n_random: int = 0
    chain_length: int = 2
    n_warmup: int = 0

    @property
    def label(self):
        """What distinguishes it from others of its method."""
        if self.size is not None:
            return f"N'={self.size}"
        if self.method == "vargmm":
            random = f"+{self.n_random}" if self.n_random else ""
            return f"G={self.n_neighbors}{random}"
        return f"m={self.chain_length}" if self.method == "afkmc2" else ""


@dataclass
class Fit:
    """Centres, what finding them took, and CPU seconds: of all, and of its parts (NaN where it has
    no parts)."""

    centers: np.ndarray
    iterations: float
    distances: float
    seconds: float
    coreset_seconds: float = np.nan
    seeding_seconds: float = np.nan
    em_seconds: float = np.nan


def paper_settings(
    *,
    sizes,
    n_neighbors=5,
    n_random=0,
    chain_length=2,
    n_warmup=0,
    chains=CHAINS,
    widths=WIDTHS,
    ours=True,
):
    """The settings of a row of Figure 1."""
    search = dict(n_neighbors=n_neighbors, n_random=n_random)
    base = Setting("vcgmm", **search, chain_length=chain_length, n_warmup=n_warmup)
    settings = [Setting("kmeans++")]
    settings += [Setting("afkmc2", chain_length=m) for m in chains]
    wide = replace(base, method="vargmm")
    settings += [replace(wide, n_neighbors=g, n_random=r) for g, r in widths]
    for size in sizes:
        settings.append(replace(base, method="lwcs", size=size))
        settings.append(replace(base, size=size))
        if ours:
            settings.append(Setting(OURS, size=size))
    return settings


def available_peers(names):
    """Those of `names` that are installed, and those that are not."""
    missing = [name for name in names if name == "faiss" and find_spec("faiss") is None]
    return [name for name in names if name not in missing], missing


@contextmanager
def one_thread():
    """BLAS, OpenMP and numba with one thread each: CPU seconds of the process are then those of the
    algorithm."""
    before = numba.get_num_threads()
    with threadpool_limits(1):
        numba.set_num_threads(1)
        try:
            yield
        finally:
            numba.set_num_threads(before)


def fit(setting, X, n_clusters, *, seed):
    """Run one setting once, on one thread; gives a `Fit`.

    Settings of one size and chain length draw the same coreset and the same seeds.

    Parameters
    ----------
    setting : Setting
    X : float32 array, shape (n, d), centred
    n_clusters : int, C
    seed : int
    """
    if setting.method in PEERS:
        return _fit_peer(setting.method, X, n_clusters, seed)
    stream = zlib.crc32(setting.label.encode()) if setting.size is None else setting.size
    rng = np.random.default_rng([seed, stream])
    with one_thread(), warnings.catch_warnings():
        # They warn of clusters that are left empty, as in the paper.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if setting.method in ASSIGNMENTS:
            return _fit_ours(setting, X, n_clusters, rng)
        return _fit_paper(setting, X, n_clusters, rng)


def printed_vcgmm(setting, centers, rng):
    """The vc-GMM of the paper's Algorithm 1 that a setting describes, from given centres, as an
    estimator."""
    algorithm = replace(PRINTED, n_random=setting.n_random, n_warmup=setting.n_warmup)
    return VCGMM(
        len(centers),
        init=centers,
        n_neighbors=setting.n_neighbors,
        algorithm=algorithm,
        tol=TOL,
        compute_labels=False,
        random_state=rng,
    )


def _fit_paper(setting, X, n_clusters, rng):
    clock = [time.process_time()]
    rows = X
    weights = None
    n_distances = 0
    if setting.size is not None:
        indices, weights = lightweight_coreset(X, setting.size, rng=rng)
        rows = X[indices]
        n_distances = len(X)
    clock.append(time.process_time())
    if setting.method == "kmeans++":
        seeds, _, _ = kmeans_plusplus(
            rows,
            n_clusters,
            n_trials=1,
            rng=rng,
        )
        # Counted as in the textbook; blocks compute a few more.
        n_distances += len(rows) * n_clusters
    else:
        seeds, n_seeding = afkmc2(
            rows, n_clusters, chain_length=setting.chain_length, sample_weight=weights, rng=rng
        )
        n_distances += n_seeding
    centers = rows[seeds]
    n_iter = 0
    clock.append(time.process_time())
    if setting.method in ("kmeans++", "lwcs"):
        centers, n_iter, n_em = lloyd(
            rows,
            centers,
            sample_weight=weights,
            tol=TOL,
        )
        n_distances += n_em
    elif setting.method in ("vargmm", "vcgmm"):
        model = printed_vcgmm(setting, centers, rng).fit(rows, sample_weight=weights)
        centers = model.cluster_centers_
        n_iter = model.n_iter_
        n_distances += model.n_distances_
    clock.append(time.process_time())
    return Fit(
        centers,
        n_iter,
        n_distances,
        clock[-1] - clock[0],
        *np.diff(clock),
    )


def _fit_ours(setting, X, n_clusters, rng):
    # As anyone would call it, with other options at their defaults.
    start = time.process_time()
    model = VCGMM(
        n_clusters,
        coreset_size=setting.size,
        assignment=ASSIGNMENTS[setting.method],
        compute_labels=False,
        random_state=rng,
    )
    model.fit(X)
    seconds = time.process_time() - start
    return Fit(model.cluster_centers_, model.n_iter_, model.n_distances_, seconds)


def _fit_peer(name, X, n_clusters, seed):
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        if name == "faiss":
            import faiss

            faiss.omp_set_num_threads(1)
            start = time.process_time()
            options = dict(
                seed=seed + 1,
                max_points_per_centroid=len(X),
                min_points_per_centroid=1,
            )
            model = faiss.Kmeans(X.shape[1], n_clusters, **options)
            model.train(X)
            centers = model.centroids
            n_iter = len(model.iteration_stats)
        else:
            model = _sklearn_peer(name, n_clusters, seed).fit(X)
            centers = model.cluster_centers_
            n_iter = model.n_iter_
        seconds = time.process_time() - start
    return Fit(np.asarray(centers, dtype=X.dtype), n_iter, np.nan, seconds)


def _sklearn_peer(name, n_clusters, seed):
    options = dict(n_init=1, random_state=seed)
    if name == "minibatch":
        return MiniBatchKMeans(n_clusters, batch_size=1024, compute_labels=False, **options)
    return KMeans(n_clusters, algorithm=name.split()[1], **options)


def warm_up(settings, X):
    """Run every method once on a few rows, so that the clock sees no compilation."""
    few = np.ascontiguousarray(X[:: max(1, len(X) // 600)])
    one_each = {setting.method: setting for setting in settings}
    for setting in one_each.values():
        fit(replace(setting, size=setting.size and 256), few, 8, seed=0)
    nearest_centers(few, few[:8])


def panel_rows(
    panel,
    seed,
    *,
    first,
    peers,
    peer_seeds,
    chains,
    widths,
):
    """Every setting of a row of Figure 1 or S.2 with one seed: a task of the sweep.

    Parameters
    ----------
    panel : dict of `data`, `clusters`, `log_sizes` (base 2, of N'), `rows`, `measured`, `seeds`;
        `neighbors`, `random`, `chain` and `initial_e_steps` as in `paper_settings`; `peers`, if not
        all of them
    seed : int; `first`, the first of the panel's seeds, and that of the data
    peers, peer_seeds : which other libraries run, and with how many seeds
    chains, widths : as in `paper_settings`
    """
    problem = clustering_problem(
        panel["data"], rows=panel["rows"], measured=panel["measured"], seed=first
    )
    settings = paper_settings(
        sizes=[2**k for k in panel["log_sizes"]],
        n_neighbors=panel.get("neighbors", 5),
        n_random=panel.get("random", 0),
        chain_length=panel.get("chain", 2),
        n_warmup=panel.get("initial_e_steps", 0),
        chains=chains,
        widths=widths,
    )
    if seed < first + peer_seeds:
        settings += [Setting(name) for name in peers if name in panel.get("peers", peers)]
    rows = seed_rows(
        problem,
        panel["clusters"],
        settings,
        seed=seed,
        other=next_seed(seed, first, panel["seeds"]),
    )
    return [row | dict(dataset=panel["data"]) for row in rows]


def next_seed(seed, first, n_seeds):
    """The seed after `seed`, after the last the first; None where there is one alone."""
    return first + (seed - first + 1) % n_seeds if n_seeds > 1 else None


def seed_rows(
    problem,
    n_clusters,
    settings,
    *,
    seed,
    other=None,
):
    """Run every setting with one seed.

    Parameters
    ----------
    problem : handful_papers.vcgmm.data.Problem
    settings : list of Setting, with "kmeans++" among them
    other : int or None, another seed: the partition of k-means++ is compared with that of k-means++
        with it

    Returns
    -------
    list of dict: dataset, clusters, method, setting, size, seed; error (quantisation error on
    `problem.measured`), iterations, distances, and CPU seconds: seconds, coreset_seconds,
    seeding_seconds, em_seconds; nmi (normalised mutual information with the partition of k-means++
    of this seed)
    """
    warm_up(settings, problem.X)
    reference = None
    rows = []
    if other is not None:
        again = fit(Setting("kmeans++"), problem.X, n_clusters, seed=other)
        reference, _ = _partition(problem, again.centers)
    for setting in sorted(settings, key=lambda s: s.method != "kmeans++"):
        taken = vars(fit(setting, problem.X, n_clusters, seed=seed))
        labels, error = _partition(problem, taken.pop("centers"))
        row = dict(
            dataset=problem.name,
            clusters=n_clusters,
            method=setting.method,
            setting=setting.label,
            size=setting.size,
            seed=seed,
            error=error,
            **taken,
            nmi=np.nan,
        )
        if reference is not None:
            row["nmi"] = normalized_mutual_info_score(reference, labels)
        rows.append(row)
        if setting.method == "kmeans++":
            reference = labels
    return rows


def _partition(problem, centers):
    """Each measured row's nearest centre, and the quantisation error."""
    with one_thread():
        labels, sq_dist = nearest_centers(problem.measured, centers)
    return labels, float(sq_dist.sum())


def by_setting(rows):
    """Rows of a sweep in the order of settings, then seeds, data set by data set."""
    groups = rows.groupby(["dataset", "method", "setting"], sort=False, dropna=False)
    return pd.concat([group for _, group in groups], ignore_index=True)
