"""VCGMM against the textbook's loops, weighted EM of a mixture, and what must hold whatever the
data."""

import warnings
from dataclasses import replace

import numba
import numpy as np
import pytest
from handful.blocks import Blocks
from handful.clustering import VCGMM, quantization_error
from handful.clustering.moves import choose_moves, removal_losses, split_gains
from handful.clustering.variational import (
    PAPER,
    TruncatedEM,
    VariationalEM,
    random_neighbours,
    random_sets,
)
from handful.clustering.vcgmm_kernels import Threads, group_by_cluster
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

FULL = dict(compute_labels=False, tol=0.0)
STILL = TruncatedEM(moves=None, grow=False)


def blobs(rng, n=1500, d=6, k=30, dtype=np.float64):
    means = rng.normal(size=(k, d)) * 4
    return (means[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(dtype)


def quietly(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


# Against the textbook


def textbook_e_step(X, centers, K, G):
    # Algorithm 2, with squared distances for eq. (31), as the authors' code has it
    new_K = []
    found = []
    for x, clusters in zip(X, K):
        search = sorted({g for c in clusters for g in G[c]})
        distance = {c: ((x - centers[c]) ** 2).sum() for c in search}
        new_K.append(sorted(search, key=distance.get)[: len(clusters)])
        found.append(distance)
    new_G = []
    for c in range(len(centers)):
        met = {}
        for clusters, distance in zip(new_K, found):
            if clusters[0] == c:
                for other, value in distance.items():
                    met.setdefault(other, []).append(value)
        order = sorted((o for o in met if o != c), key=lambda o: np.mean(met[o]))
        order += [g for g in G[c] if g != c and g not in order]
        new_G.append([c, *order[: len(G[c]) - 1]])
    return np.array(new_K), np.array(new_G)


def textbook_m_step(X, u, centers, variance, K):
    joint = np.full((len(X), len(centers)), -np.inf)
    for n, clusters in enumerate(K):
        joint[n, clusters] = -((X[n] - centers[clusters]) ** 2).sum(axis=1) / (2 * variance)
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True)) * u[:, None]
    mass = share.sum(axis=0)
    new = np.where(mass[:, None] > 0, share.T @ X / np.where(mass, mass, 1)[:, None], centers)
    D = ((X[:, None] - new) ** 2).sum(axis=2)
    bound = u @ logsumexp(joint, axis=1) - u.sum() * (
        np.log(len(centers)) + X.shape[1] / 2 * np.log(2 * np.pi * variance)
    )
    return new, (share * D).sum() / (X.shape[1] * u.sum()), bound


@pytest.mark.parametrize("n_warmup", [0, 3])
def test_iterations_are_those_of_the_textbook(rng, n_warmup):
    X = blobs(rng, n=300, k=12)
    u = rng.exponential(size=300)
    C = 15
    width = 4
    centers = X[:C].copy()
    variance = 0.0
    G = random_neighbours(C, width, rng)
    K = random_sets(300, C, width, rng)
    algorithm = replace(PAPER, n_warmup=n_warmup)
    model = VCGMM(
        C,
        n_neighbors=width,
        init=centers,
        algorithm=algorithm,
        tol=0.0,
        max_iter=4,
        compute_labels=False,
    )
    state = []

    class Recorded(VariationalEM):
        def __init__(self, *args, **kwargs):
            args = (*args[:3], K.copy())
            super().__init__(*args, **kwargs)
            state.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handful.clustering.vcgmm.VariationalEM", Recorded)
        patch.setattr("handful.clustering.vcgmm.random_neighbours", lambda *a: G.copy())
        quietly(model, X, sample_weight=u)
    bounds = []
    ours_K = K
    ours_G = G
    for _ in range(n_warmup):
        ours_K, ours_G = textbook_e_step(X, centers, ours_K, ours_G)
    for step in range(5):
        ours_K, new_G = textbook_e_step(X, centers, ours_K, ours_G)
        if step == 0:
            nearest = ((X - centers[ours_K[:, 0]]) ** 2).sum(axis=1)
            variance = u @ nearest / (X.shape[1] * u.sum())
        new_centers, new_variance, bound = textbook_m_step(X, u, centers, variance, ours_K)
        bounds.append(bound)
        if step < 4:
            centers = new_centers
            variance = new_variance
            ours_G = new_G
    np.testing.assert_allclose(model.lower_bounds_, bounds, rtol=1e-10)
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-8)
    np.testing.assert_array_equal(model.neighbors_, ours_G)
    np.testing.assert_array_equal(state[0].K, ours_K[state[0].rows])
    assert model.variance_ == pytest.approx(variance, rel=1e-10)


def test_all_clusters_kept_is_weighted_em_of_the_mixture(rng):
    X = blobs(rng, n=400, k=5)
    u = rng.exponential(size=400)
    C = 5
    d = X.shape[1]
    model = VCGMM(C, n_neighbors=C, init=X[:C], algorithm=STILL, max_iter=12, **FULL)
    quietly(model, X, sample_weight=u)
    mu = X[:C].copy()
    D = ((X[:, None] - mu) ** 2).sum(axis=2)
    variance = u @ D.min(axis=1) / (d * u.sum())
    for _ in range(12):
        joint = -np.log(C) - d / 2 * np.log(2 * np.pi * variance) - D / (2 * variance)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True)) * u[:, None]
        mu = share.T @ X / share.sum(axis=0)[:, None]
        D = ((X[:, None] - mu) ** 2).sum(axis=2)
        variance = (share * D).sum() / (d * u.sum())
    joint = -np.log(C) - d / 2 * np.log(2 * np.pi * variance) - D / (2 * variance)
    np.testing.assert_allclose(model.cluster_centers_, mu, atol=1e-8)
    assert model.variance_ == pytest.approx(variance, rel=1e-8)
    assert model.lower_bound_ == pytest.approx(u @ logsumexp(joint, axis=1), rel=1e-9)
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-8)
    np.testing.assert_array_equal(model.predict(X), joint.argmax(axis=1))


# What must hold whatever the data


@settings(max_examples=50)
# a single move, taken back
@example(17184, np.float32, "k-means++", 2, "split", "soft", False)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["afkmc2", "greedy", "k-means++"]),
    st.sampled_from([0, 2]),
    st.sampled_from([None, "split"]),
    st.sampled_from(["soft", "hard", "hardened"]),
    st.booleans(),
)
def test_the_bound_never_decreases_also_of_all_rows_in_two_parts(
    seed, dtype, init, n_random, moves, assignment, parts
):
    rng = np.random.default_rng(seed)
    C = int(rng.integers(1, 40))
    X = blobs(
        rng,
        n=int(rng.integers(C, 400)),
        d=int(rng.integers(1, 20)),
        k=int(rng.integers(1, 60)),
        dtype=dtype,
    )
    u = rng.random(len(X))
    algorithm = TruncatedEM(n_random=n_random, moves=moves, grow=parts)
    options = dict(init=init, algorithm=algorithm, max_iter=30, assignment=assignment)
    first = max(C, len(X) // 2) if parts else len(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = VCGMM(C, n_neighbors=3, random_state=seed, **options, **FULL).fit(
            X[:first], sample_weight=u[:first]
        )
        if first < len(X):
            model.partial_fit(X[first:], sample_weight=u[first:])
    bounds = np.array(model.lower_bounds_)
    slack = np.finfo(dtype).eps * 10 * (abs(bounds).max() + X.size)
    # at its floor: rounding of distances of 0 is not yet nothing
    if model.variance_ < 1e-6 * X.var():
        slack += np.sqrt(np.finfo(dtype).eps) * X.size
    assert (np.diff(bounds) > -slack).all(), np.diff(bounds).min()


def test_bound_is_below_the_likelihood_and_equals_it_when_all_clusters_are_kept(rng):
    X = blobs(rng)
    few, every = (VCGMM(20, n_neighbors=g, random_state=0).fit(X) for g in (3, 20))
    assert few.lower_bound_ <= few.score_samples(X).sum() + 1e-6
    assert every.lower_bound_ == pytest.approx(every.score_samples(X).sum(), rel=1e-9)


def test_a_mixture_of_sparse_rows_is_that_of_the_dense_ones(rng):
    X = blobs(rng, n=900, d=12, k=6) * (rng.random((900, 12)) < 0.3)
    S = sparse.csr_array(X)
    dense, ours = (quietly(VCGMM(6, coreset_size=300, random_state=0), form) for form in (X, S))
    np.testing.assert_allclose(ours.cluster_centers_, dense.cluster_centers_, rtol=1e-6, atol=1e-9)
    assert (ours.labels_ == dense.labels_).all()
    for ask in ("predict", "predict_proba", "transform", "score_samples"):
        np.testing.assert_allclose(
            getattr(ours, ask)(S), getattr(dense, ask)(X), rtol=1e-5, atol=1e-7
        )
    assert (ours.predict(S, greedy=True) == dense.predict(X, greedy=True)).mean() > 0.95
    with pytest.raises(ValueError, match="coreset_size must be an integer for sparse rows"):
        VCGMM(6).fit(S)


@pytest.mark.parametrize("factor", [1.0, 1e-3])
def test_papers_rule_ends_at_the_first_small_relative_change(rng, factor):
    model = VCGMM(
        25,
        algorithm=TruncatedEM(stopping="relative", moves=None, grow=False),
        tol=1e-3,
        random_state=0,
    ).fit(blobs(rng) * factor)
    bounds = np.array(model.lower_bounds_)
    small = abs(np.diff(bounds)) <= 1e-3 * abs(bounds[:-1])
    assert small[-1]
    assert not small[:-1].any()


# moves that tie lead elsewhere
@pytest.mark.parametrize(("moves", "rtol"), [(None, 1e-3), ("split", 0.04)])
def test_float32_is_as_good_as_float64(rng, moves, rtol):
    X = blobs(rng, n=4000, d=20, k=60)
    model = VCGMM(
        40,
        init=X[:40],
        n_neighbors=8,
        algorithm=TruncatedEM(moves=moves, grow=False),
        random_state=1,
    )
    errors = [
        quantization_error(X, model.fit(X.astype(t)).cluster_centers_)
        for t in (np.float32, np.float64)
    ]
    assert errors[0] == pytest.approx(errors[1], rel=rtol)


@pytest.mark.parametrize(
    "options",
    [
        dict(algorithm=TruncatedEM(grow=False)),
        dict(algorithm=TruncatedEM(n_random=1, grow=False), coreset_size=1000, init="afkmc2"),
        dict(n_clusters=40),
        dict(n_clusters=40, algorithm=TruncatedEM(grow=False), assignment="hard"),
    ],
    ids=["plain", "all", "grown", "hard"],
)
def test_one_and_two_threads_agree_bitwise(rng, options):
    X = rng.normal(size=(3000, 5)).astype(np.float32)
    before = numba.get_num_threads()
    results = []
    try:
        for n_threads in (1, min(2, numba.config.NUMBA_NUM_THREADS), 1):
            numba.set_num_threads(n_threads)
            results.append(
                quietly(
                    VCGMM(
                        **{"n_clusters": 150, "random_state": 0, "max_iter": 20, **FULL, **options}
                    ),
                    X,
                )
            )
    finally:
        numba.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other.cluster_centers_, results[0].cluster_centers_)
        assert other.lower_bounds_ == results[0].lower_bounds_


# Quality, starts, coresets


def test_coreset_bound_estimates_that_of_all_rows(rng):
    X = blobs(rng, n=6000)
    model = VCGMM(30, coreset_size=3000, random_state=0).fit(X)
    assert model.lower_bound_ == pytest.approx(model.score_samples(X).sum(), rel=0.05)
    assert model.n_distances_ < 6000 + 3000 * 30 * 6 + (model.n_iter_ + 1) * 3000 * 25


def test_warm_start_goes_on_where_it_stopped(rng):
    X = blobs(rng)
    model = VCGMM(30, warm_start=True, random_state=0, n_neighbors=6).fit(X)
    bound = model.lower_bound_
    model.fit(X)
    assert model.n_iter_ <= 3
    assert model.lower_bound_ > bound - 1e-3 * abs(bound)
    model.set_params(n_clusters=29)
    with pytest.raises(ValueError, match="there are 30 centres to go on from"):
        model.fit(X)


def test_empty_clusters_move_or_are_reported(rng):
    X = blobs(rng)
    far = np.r_[X[:20], np.full((5, 6), 1e3)]
    with pytest.warns(ConvergenceWarning, match=r"5 of 25 clusters have no points of their own"):
        stays = VCGMM(25, init=far, algorithm=STILL, n_neighbors=25).fit(X)
    moved = VCGMM(25, init=far, n_neighbors=25).fit(X)
    assert (stays.n_empty_, moved.n_empty_) == (5, 0)
    assert moved.lower_bound_ > stays.lower_bound_


@pytest.mark.parametrize("algorithm", ["fast", "paper"])
@pytest.mark.parametrize("assignment", ["soft", "hard", "hardened"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("distinct", "each", "C"), [(1, 9, 4), (3, 20, 10), (50, 20, 120), (60, 5, 50)]
)
def test_clusters_that_no_row_is_assigned_to_are_counted(
    distinct, each, C, dtype, assignment, algorithm
):
    """Few distinct rows (scikit-learn#10059): centres that differ by rounding alone are no clusters
    of their own."""
    rng = np.random.default_rng(C)
    X = np.repeat(rng.normal(size=(distinct, 4)) + 100, each, axis=0).astype(dtype)
    X = X[rng.permutation(len(X))]
    options = dict(algorithm=algorithm, assignment=assignment, random_state=0)
    model = quietly(VCGMM(C, **options), X)
    assert model.n_empty_ == C - len(np.unique(model.labels_))
    # equal rows have one label
    assert len(np.unique(np.c_[X, model.labels_], axis=0)) == distinct
    if algorithm == "fast":
        assert model.n_empty_ == C - min(distinct, C)
        assert quietly(VCGMM(C, compute_labels=False, **options), X).n_empty_ == model.n_empty_


def test_empty_clusters_are_those_of_the_rows_that_count(rng):
    X = np.repeat(rng.normal(size=(40, 3)), 30, axis=0)
    # the first twenty
    present = np.arange(len(X)) < 600
    C = 60
    assert quietly(VCGMM(C, random_state=0), X, sample_weight=present.astype(float)).n_empty_ == 40
    for rows in (X, sparse.csr_matrix(X), Blocks(X, rows=500)):
        for labels in (True, False):
            model = VCGMM(C, coreset_size=1100, compute_labels=labels, random_state=0)
            assert quietly(model, rows).n_empty_ == 20
    # a coreset that misses rows, which have labels
    few = quietly(VCGMM(C, coreset_size=C, random_state=0), X)
    assert few.n_empty_ == C - len(np.unique(few.labels_))
    with pytest.warns(ConvergenceWarning, match="20 of 60 clusters") as said:
        VCGMM(C, random_state=0).fit(X)
    assert said[0].filename == __file__


@pytest.mark.parametrize("compute_labels", [True, False])
def test_clusters_of_earlier_rows_are_not_empty_and_count_once(rng, compute_labels):
    X = np.repeat(rng.normal(size=(12, 3)) + 10, 20, axis=0)
    model = VCGMM(30, compute_labels=compute_labels, random_state=0)
    for start, stop, seen in ((0, 100, 100), (0, 100, 100), (100, 240, 240), (0, 200, 240)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.partial_fit(X[start:stop])
        assert model.n_empty_ == 30 - len(np.unique(model.predict(X[:seen])))


# Moves, phases, hard assignments


def log_joints(X, model):
    D = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    volume = X.shape[1] / 2 * np.log(2 * np.pi * model.variance_)
    return -np.log(len(model.cluster_centers_)) - volume - D / (2 * model.variance_)


@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_losses_are_what_the_bound_loses_without_the_cluster(rng, assignment):
    X = blobs(rng, n=300, k=8)
    u = rng.exponential(size=300)
    model = quietly(
        VCGMM(8, n_neighbors=8, algorithm=TruncatedEM(grow=False), max_iter=3, **FULL),
        X,
        sample_weight=u,
    )
    joints = log_joints(X, model)
    order = np.argsort(-joints, axis=1)
    K = order.astype(np.int32)
    D = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    best = np.take_along_axis(D, order, axis=1)
    whole = logsumexp(joints, axis=1)
    share = np.exp(np.take_along_axis(joints, order, axis=1) - whole[:, None])
    hard = assignment == "hard"
    ours = removal_losses(u, 0.5 / model.variance_, K, best, share, hard, 8)
    bound = (lambda j: j.max(axis=1)) if hard else (lambda j: logsumexp(j, axis=1))
    expected = [u @ (bound(joints) - bound(np.delete(joints, c, axis=1))) for c in range(8)]
    # Shares below a thousandth are left out, which loses less than that of a nat a point
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=0 if hard else 2e-3 * u.sum())


@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_gains_are_what_the_bound_gains_with_the_halves(rng, assignment):
    X = blobs(rng, n=300, k=8)
    u = rng.exponential(size=300)
    model = quietly(
        VCGMM(5, n_neighbors=5, algorithm=TruncatedEM(grow=False), max_iter=5, **FULL),
        X,
        sample_weight=u,
    )
    joints = log_joints(X, model)
    hard = assignment == "hard"
    share = np.exp(joints - logsumexp(joints, axis=1, keepdims=True))
    if hard:
        share = np.eye(5)[joints.argmax(axis=1)]
    K = np.tile(np.arange(5, dtype=np.int32), (300, 1))
    entries, edges = group_by_cluster(K, share, 5, False)
    D = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    slope = 0.5 / model.variance_
    with Threads() as threads:
        gain, halves = split_gains(
            X, u, slope, share, D, entries, edges, rng.random((5, 2)), hard, threads
        )
    for c in range(5):
        to_halves = ((X[:, None] - halves[c]) ** 2).sum(axis=2)
        volume = X.shape[1] / 2 * np.log(2 * np.pi * model.variance_)
        new = np.c_[np.delete(joints, c, axis=1), -np.log(5) - volume - to_halves * slope]
        # the points of the cluster stay with its halves
        if hard:
            mine = share[:, c] > 0
            change = (new[:, -2:].max(axis=1) - joints[:, c])[mine]
            assert gain[c] == pytest.approx(u[mine] @ change, rel=1e-9)
        else:
            change = logsumexp(new, axis=1) - logsumexp(joints, axis=1)
            assert gain[c] == pytest.approx(u @ change, rel=1e-6, abs=1e-6)
    assert gain.max() > 0


def test_moves_do_not_depend_on_how_many_entries_are_cut_at_once(rng, monkeypatch):
    # more equal rows than are cut at once
    X = np.r_[blobs(rng, n=300, k=8), np.zeros((400, 6))]
    fits = []
    for entries in (1 << 18, 100):
        monkeypatch.setattr("handful.clustering.moves.ENTRIES", entries)
        start = X[np.argsort(X[:, 0])[:20]]
        fits.append(
            quietly(
                VCGMM(20, init=start, algorithm=TruncatedEM(grow=False), random_state=0, **FULL), X
            )
        )
    assert fits[0].n_moves_ > 0
    np.testing.assert_allclose(fits[1].lower_bounds_, fits[0].lower_bounds_, rtol=1e-12)


def test_clusters_in_use_are_left_where_others_take_their_points():
    # cluster 0 is the cheapest to remove, 1 takes its point: 1 can neither go nor be cut; 3 is cut
    K = np.array([[0, 1], [1, 0], [2, 1], [3, 2]], np.int32)
    firsts, edges = group_by_cluster(K, np.ones((4, 2)), 4, True)

    def pairs(loss, gain):
        return choose_moves(loss, gain, np.argsort(loss), np.argsort(-gain), K, firsts, edges)

    found = pairs(np.array([0.1, 0.2, 0.3, 9.0]), np.array([0.0, 9.0, 0.0, 5.0]))
    np.testing.assert_array_equal(found, [[0, 3]])
    assert not len(pairs(np.full(4, 6.0), np.array([0.0, 0.0, 0.0, 5.0])))


def test_split_moves_leave_a_bad_optimum(rng):
    means = np.arange(12)[:, None] * [30.0, 0.0]
    X = means[np.repeat(np.arange(12), 100)] + rng.normal(size=(1200, 2))
    # in one blob
    options = dict(init=X[:12], assignment="hard", random_state=0)
    stuck, free = (
        quietly(VCGMM(12, algorithm=TruncatedEM(moves=moves, grow=False), **options), X)
        for moves in (None, "split")
    )
    assert quantization_error(X, stuck.cluster_centers_) > 10 * quantization_error(
        X, free.cluster_centers_
    )
    assert len(np.unique(np.rint(free.cluster_centers_[:, 0] / 30))) == 12
    assert free.n_moves_ >= 6


def test_phases_reach_the_error_of_all_rows_with_fewer_distances(rng):
    X = blobs(rng, n=20_000, k=40)
    options = dict(compute_labels=False, random_state=0)
    whole, grown = (
        VCGMM(40, algorithm=TruncatedEM(grow=g), **options).fit(X) for g in (False, True)
    )
    errors = [quantization_error(X, model.cluster_centers_) for model in (whole, grown)]
    assert errors[1] < 1.02 * errors[0]
    assert grown.n_distances_ < whole.n_distances_ / 2
    assert grown.lower_bound_ == pytest.approx(grown.score_samples(X).sum(), rel=0.01)


def test_hard_assignments_are_lloyds_iterations(rng):
    X = blobs(rng, n=600, k=10)
    C = 3
    model = quietly(
        VCGMM(C, init=X[:C], assignment="hard", n_neighbors=3, algorithm=STILL, max_iter=8, **FULL),
        X,
    )
    centers = X[:C].copy()
    for _ in range(8):
        labels = ((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        centers = np.array([X[labels == c].mean(axis=0) for c in range(C)])
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-9)


def test_hardened_assignments_are_em_then_lloyds_iterations(rng):
    X = blobs(rng, n=600, k=10)
    u = rng.exponential(size=600)
    C = 4
    options = dict(init=X[:C], n_neighbors=C, algorithm=STILL, **FULL)
    model = quietly(VCGMM(C, assignment="hardened", **options), X, sample_weight=u)

    def sq_dist(centers):
        return ((X[:, None] - centers) ** 2).sum(axis=2)

    centers = X[:C]
    variance = u @ sq_dist(X[:C]).min(axis=1) / (X.shape[1] * u.sum())
    bounds = [np.inf]
    while True:
        *new, bound = textbook_m_step(X, u, centers, variance, np.tile(np.arange(C), (600, 1)))
        bounds.append(bound)
        if abs(bounds[-1] - bounds[-2]) <= 3e-4 * X.shape[1] * u.sum():
            break
        centers, variance = new
    soft = centers
    before = None
    while not np.array_equal(before, centers):
        labels = sq_dist(centers).argmin(axis=1)
        before = centers
        centers = np.array(
            [np.average(X[labels == c], axis=0, weights=u[labels == c]) for c in range(C)]
        )
    assert abs(centers - soft).max() > 0.1
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-9)
    variance = u @ sq_dist(centers).min(axis=1) / (X.shape[1] * u.sum())
    assert model.variance_ == pytest.approx(variance)
    assert model.n_iter_ > len(bounds) - 2


# odd and bad input


ODD = {
    "constant": lambda X: np.ones_like(X),
    "three distinct rows": lambda X: X[np.arange(len(X)) % 3],
    "one huge outlier": lambda X: np.where(np.arange(len(X))[:, None] == 3, 1e30, X),
    "large float32": lambda X: (X * 1e8).astype(np.float32),
    "far from the origin": lambda X: (X + 1e5).astype(np.float32),
    "uneven columns": lambda X: X * 10.0 ** np.arange(-6, 6, 2),
}


@pytest.mark.parametrize("init", ["greedy", "afkmc2"])
@pytest.mark.parametrize("name", ODD)
def test_odd_data_give_finite_centres(rng, name, init):
    X = ODD[name](blobs(rng, n=300))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = VCGMM(8, init=init, random_state=0).fit(X)
        assert np.isfinite(model.cluster_centers_).all()
        assert np.isfinite(model.lower_bound_)
        assert np.isfinite(model.score(X))
    if name == "one huge outlier":
        others = np.delete(X, 3, axis=0)
        assert (
            quantization_error(others, model.cluster_centers_)
            < 0.9 * ((others - others.mean(axis=0)) ** 2).sum()
        )


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (dict(n_clusters=21), "n_clusters must be at most the number of rows, got 21 for 20"),
        (
            dict(coreset_size=2),
            "coreset_size must be an integer of at least 3, got coreset_size=2: a row for each",
        ),
        (dict(init=np.ones((2, 2))), r"init must have shape \(3, 4\)"),
    ],
)
def test_bad_options_are_named(rng, options, names):
    with pytest.raises(ValueError, match=names):
        VCGMM(**{"n_clusters": 3, **options}).fit(rng.normal(size=(20, 4)))


def test_a_coreset_may_have_more_draws_than_rows_and_a_further_one_fewer_than_clusters(rng):
    X = blobs(rng, n=200, k=5)
    model = VCGMM(5, coreset_size=1000, random_state=0).fit(X)
    assert model.converged_
    assert model.counts_.sum() == pytest.approx(200, rel=0.2)
    model.set_params(coreset_size=3).partial_fit(X)
    assert model.counts_.sum() > 250


def test_more_clusters_than_distinct_rows_are_reported(rng):
    X = blobs(rng, n=5)[np.arange(100) % 5]
    with pytest.warns(
        ConvergenceWarning,
        match=r"[1-3] of 8 clusters have no points of their own; there may be fewer",
    ):
        model = VCGMM(8, random_state=0).fit(X)
    assert len(np.unique(model.cluster_centers_.round(9), axis=0)) == 5
    assert quantization_error(X, model.cluster_centers_) < 1e-12 * X.size


# What a mixture is asked


def test_probabilities_criterion_and_inertia_are_those_of_the_mixture(rng):
    X = blobs(rng, n=600, d=3, k=4)
    u = rng.integers(0, 3, 600)
    model = quietly(VCGMM(4, random_state=0), X, sample_weight=u)
    sq_dist = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    joint = np.exp(-sq_dist / (2 * model.variance_)) / (2 * np.pi * model.variance_) ** 1.5 / 4
    np.testing.assert_allclose(
        model.predict_proba(X), joint / joint.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-12
    )
    assert model.bic(X) == pytest.approx(
        (4 * 3 + 1) * np.log(600) - 2 * np.log(joint.sum(axis=1)).sum()
    )
    assert model.inertia_ == pytest.approx(u @ sq_dist.min(axis=1))


def test_log_densities_of_tight_clusters_far_apart_add_up_to_the_bound():
    rng = np.random.default_rng(0)
    X = 1e-4 * rng.normal(size=(1000, 2)) + 1e5 * (np.arange(1000) % 2)[:, None]
    mixture = VCGMM(2, random_state=0).fit(X)
    assert mixture.score_samples(X).sum() == pytest.approx(mixture.lower_bound_, abs=1)


@pytest.mark.parametrize("far", [1e3, -999_999.0, 1e9])
def test_one_row_far_from_all_others_widens_no_cluster_in_float32(rng, far):
    near = np.concatenate([rng.normal(1, 0.01, (500, 2)), rng.normal(-1, 0.01, (500, 2))])
    X = np.append(near, [[far, far]], axis=0)
    single, double = (VCGMM(3, random_state=0).fit(X.astype(t)) for t in (np.float32, np.float64))
    assert single.variance_ == pytest.approx(double.variance_, rel=1e-3)
    assert len(set(single.labels_[:1000])) == 2


def test_clusters_narrower_than_float32_tells_apart_are_said_to_be(rng):
    centers = rng.normal(size=(9, 2))
    centers[3:6] += 1e4
    centers[6:] -= 1e4
    X = centers[rng.integers(9, size=900)] + rng.normal(size=(900, 2), scale=1e-3)
    with pytest.warns(ConvergenceWarning, match="the least that float32 allows"):
        VCGMM(9, random_state=0).fit(X.astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        double = VCGMM(9, random_state=0).fit(X)
    assert double.variance_ == pytest.approx(1e-6, rel=0.2)


def test_clusters_narrower_than_the_floor_of_float64_are_told_of_and_copies_are_not(rng):
    centers = 1e6 * np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    copies = centers[rng.integers(4, size=2000)]
    noise = rng.normal(size=copies.shape)
    with pytest.warns(ConvergenceWarning, match="that float64 allows here, .* labels_ are right"):
        narrow = VCGMM(4, random_state=0).fit(copies + 1e-6 * noise)
    assert narrow.inertia_ / copies.size == pytest.approx(1e-12, rel=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        wide = VCGMM(4, random_state=0).fit(copies + 1e-5 * noise)
        VCGMM(4, random_state=0).fit(copies)
        VCGMM(4, random_state=0).fit(rng.normal(size=(4, 3))[rng.integers(4, size=2000)] + 100)
    assert wide.variance_ == pytest.approx(1e-10, rel=0.1)


def test_one_neighbour_is_refused_where_there_are_more_clusters(rng):
    X = blobs(rng, 200)
    assert VCGMM(1, n_neighbors=1).fit(X).converged_
    with pytest.raises(ValueError, match="n_neighbors must be an integer of at least 2, got"):
        VCGMM(2, n_neighbors=1).fit(X)


@pytest.mark.parametrize("init", [None, np.mean])
def test_what_cannot_be_centres_is_refused_with_the_words_that_can(init, rng):
    with pytest.raises(ValueError, match=r"init of VCGMM must be an array .*'auto'"):
        VCGMM(2, init=init).fit(blobs(rng, 50))
