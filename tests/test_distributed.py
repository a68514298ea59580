import importlib
import os
import signal
import sys
import time

import numpy as np
import pytest
from handful.baselines import UniformCoreset
from handful.coreset import Selector
from handful.sensitivity import lightweight as local
from handful.sensitivity.svm import SVMCoreset
from handful.streaming import MergeReduce
from handful.svm import LinearSVM

da = pytest.importorskip("dask.array", reason="dask comes with the extra handful[distributed]")
dask = pytest.importorskip("dask")
db = pytest.importorskip("dask.bag")
distributed = pytest.importorskip("dask.distributed", reason="dask comes with the extra handful[distributed]")

from handful.distributed import LightweightCoreset, merge_reduce, svm_coreset  # noqa: E402 (needs dask)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    return X, np.sign(X.sum(axis=1) + rng.normal(size=3000)).astype(int)


def dask_arrays(X, y, chunk=250):
    return da.from_array(X, chunks=(chunk, 2)), da.from_array(y, chunks=chunk)


def assert_same(a, b):
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.X, b.X)


def test_merge_reduce_gives_what_the_stream_on_one_machine_gives(data):
    X, y = data
    for n in (3000, 2750, 200):  # a full tree, a ragged one, a single leaf
        stream = MergeReduce(SVMCoreset(n_clusters=3), size=60, leaf_size=250, random_state=4).fit(X[:n], y[:n])
        ours = merge_reduce(SVMCoreset(n_clusters=3), *dask_arrays(X[:n], y[:n]), size=60, rng=np.random.default_rng(4))
        np.testing.assert_array_equal(ours.indices, stream.indices_)
        np.testing.assert_array_equal(ours.weights, stream.weights_)
        np.testing.assert_array_equal(ours.X, X[ours.indices])
        np.testing.assert_array_equal(ours.y, y[ours.indices])


def test_a_bag_of_chunks_gives_what_the_array_gives(data):
    X, y = data
    bag = db.from_sequence([(X[i : i + 250], y[i : i + 250]) for i in range(0, 3000, 250)], npartitions=12)
    from_array = merge_reduce(SVMCoreset(n_clusters=3), *dask_arrays(X, y), size=60, rng=np.random.default_rng(1))
    assert_same(merge_reduce(SVMCoreset(n_clusters=3), bag, size=60, rng=np.random.default_rng(1)), from_array)
    assert_same(
        svm_coreset(SVMCoreset(80, random_state=1), bag, None),
        svm_coreset(SVMCoreset(80, random_state=1), *dask_arrays(X, y)),
    )


def test_chunks_of_unknown_length_work(data):
    X, y = dask_arrays(*data)
    kept = y > -2  # all of them, which dask does not know
    unknown = merge_reduce(UniformCoreset(), X.rechunk({1: -1})[kept], y[kept], size=50, rng=np.random.default_rng(0))
    assert_same(unknown, merge_reduce(UniformCoreset(), X, y, size=50, rng=np.random.default_rng(0)))


@pytest.mark.parametrize("rule", ["mixture", "tight"])
def test_algorithm_1_is_unbiased_and_its_probabilities_are_those_of_one_machine(rule, data):
    X, y = data
    w = np.array([0.4, 0.1, 0.3, 0.2, 0.1])
    cost = np.maximum(0, 1 - y * (X @ w[:-1] + w[-1]))
    arrays = dask_arrays(X, y, 1000)
    draws, times_drawn = [], np.zeros(3000)
    for seed in range(60):
        coreset = svm_coreset(SVMCoreset(150, n_clusters=1, rule=rule, random_state=seed), *arrays)
        draws.append([coreset.weights @ cost[coreset.indices], coreset.weights.sum()])
        times_drawn[coreset.indices] += 1
    sem = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - [cost.sum(), 3000]) < 4 * sem).all()
    q = SVMCoreset(150, n_clusters=1, rule=rule).fit(X, y).probabilities_
    groups = np.argsort(q).reshape(10, 300)  # deciles of the probability: shares of the draws
    expected = 1 - (1 - q) ** 150
    np.testing.assert_allclose(times_drawn[groups].sum(1) / 60, expected[groups].sum(1), rtol=0.15)


def test_the_sum_of_the_chunks_optima_is_a_lower_bound(data, monkeypatch):
    X, y = data
    seen = {}

    def spy(*args, opt, **rest):
        seen["opt"] = opt
        return np.ones(len(args[0]))

    monkeypatch.setitem(svm_coreset.__globals__["RULES"], "mixture", spy)
    svm_coreset(SVMCoreset(50, n_clusters=1, random_state=0), *dask_arrays(X, y, 500))
    best = LinearSVM().fit(X, y).objective_
    assert 0.8 * best < seen["opt"] <= best


class Slow(Selector):
    """Uniform selection that leaves a file with its worker's pid, and takes its time."""

    _takes_sparse = True

    def __init__(self, size=10, *, folder=".", random_state=None):
        self.size = size
        self.folder = folder
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        open(os.path.join(self.folder, f"{os.getpid()}-{rng.integers(2**40)}"), "w").close()
        time.sleep(0.15)
        return UniformCoreset(self.size, random_state=rng)._select(X, y, sample_weight, rng)


@pytest.mark.timeout(180)
def test_a_killed_worker_changes_nothing(data, tmp_path):
    """Two workers; one is killed with SIGKILL while the tree is being computed. Same answer as on one machine."""
    X, y = data
    alone = MergeReduce(Slow(folder=str(tmp_path)), size=60, leaf_size=150, random_state=3).fit(X, y)
    for left in tmp_path.iterdir():
        left.unlink()
    alone_svm = svm_coreset(SVMCoreset(80, random_state=1), *dask_arrays(X, y))
    options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        assert_same(svm_coreset(SVMCoreset(80, random_state=1), *dask_arrays(X, y)), alone_svm)
        arrays = dask_arrays(X, y, 150)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(
                merge_reduce, Slow(folder=str(tmp_path)), *arrays, size=60, rng=np.random.default_rng(3)
            )
            deadline = time.monotonic() + 60
            while len(list(tmp_path.iterdir())) < 8 and time.monotonic() < deadline:
                time.sleep(0.02)
            victim = int(next(tmp_path.iterdir()).name.split("-")[0])
            assert victim != os.getpid()
            done_before = len(list(tmp_path.iterdir()))
            os.kill(victim, signal.SIGKILL)
            coreset = answer.result(120)
    assert done_before < 39  # 20 leaves and 19 merges: it was in the middle
    np.testing.assert_array_equal(coreset.indices, alone.indices_)
    np.testing.assert_array_equal(coreset.weights, alone.weights_)


def assert_same_lightweight(ours, X, alone):
    np.testing.assert_array_equal(ours.indices_, alone.indices_)
    np.testing.assert_array_equal(ours.weights_, alone.weights_)
    np.testing.assert_array_equal(ours.X_, X[alone.indices_])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chunks", [(30_000, 3), (8_192, 2), (5_000, 3), ((1, 20_001, 9_998), 3)], ids=str)
def test_lightweight_coreset_is_that_of_one_machine_whatever_the_chunks(chunks, dtype):
    X = np.random.default_rng(0).normal(size=(30_000, 3)).astype(dtype) * [1, 5, 9]
    X = (X + 100).astype(dtype)
    alone = local.LightweightCoreset(400, random_state=3).fit(X)
    ours = LightweightCoreset(400, random_state=3).fit(da.from_array(X, chunks=chunks))
    assert_same_lightweight(ours, X, alone)
    unknown = da.from_array(X, chunks=chunks).rechunk({1: -1})
    unknown = unknown[unknown[:, 0] > -1e9]
    assert_same_lightweight(LightweightCoreset(400, random_state=3).fit(unknown), X, alone)


def test_chunks_without_draws_are_read_once(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20 * 4096, 2))
    rows[4096:] *= 1e-6  # nearly all draws by distance fall into the first block, 2 more go by weight

    def read(block_info=None):
        start = block_info[None]["array-location"][0][0]
        with open(tmp_path / str(start), "a") as seen:
            seen.write("x")
        return rows[start : start + 4096]

    X = da.map_blocks(read, chunks=((4096,) * 20, (2,)), dtype=float)
    LightweightCoreset(4, random_state=0).fit(X)
    times = [len((tmp_path / str(b * 4096)).read_text()) for b in range(20)]
    assert times[0] == 3  # the pivot's rows, the statistics, the draws
    assert sum(t == 2 for t in times) >= 16


def slowly(block, folder):
    open(os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}"), "w").close()
    time.sleep(0.15)
    return block


@pytest.mark.timeout(180)
def test_a_killed_worker_leaves_the_lightweight_coreset_as_it_is(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    X = np.random.default_rng(0).normal(size=(16 * 4096, 3))
    alone = local.LightweightCoreset(500, random_state=1).fit(X)
    lazy = da.from_array(X, chunks=(4096, 3)).map_blocks(slowly, folder=str(tmp_path), meta=np.empty((0, 0)))
    options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster), ThreadPoolExecutor(1) as pool:
        answer = pool.submit(LightweightCoreset(500, random_state=1).fit, lazy)
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 20 and time.monotonic() < deadline:  # past the pivot, in the statistics
            time.sleep(0.02)
        victim = int(next(tmp_path.iterdir()).name.split("-")[0])
        assert victim != os.getpid()
        assert not answer.done()
        os.kill(victim, signal.SIGKILL)
        ours = answer.result(120)
    assert_same_lightweight(ours, X, alone)


def test_bad_input_of_the_lightweight_coreset_is_named():
    X = np.ones((50, 2))
    with pytest.raises(ValueError, match="2-d dask array"):
        LightweightCoreset(5).fit(X)
    with pytest.raises(ValueError, match="rows and columns"):
        LightweightCoreset(5).fit(da.from_array(X[:0]))
    with pytest.raises(ValueError, match="size must be an integer of at least 1"):
        LightweightCoreset(0).fit(da.from_array(X))
    for dtype in (object, complex, str):
        with pytest.raises(ValueError, match=r"X must hold real numbers, got dtype .* convert it with"):
            LightweightCoreset(5).fit(da.from_array(X.astype(dtype), chunks=25))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN, infinity"):
        LightweightCoreset(5).fit(da.from_array(X))


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (SVMCoreset(20, sampling="systematic"), "sampling='multinomial'"),
        (SVMCoreset(20, l2=-1), "l2 must be a finite number greater than 0"),
    ],
)
def test_what_cannot_be_distributed_is_refused(selector, message, data):
    with pytest.raises(ValueError, match=message):
        svm_coreset(selector, *dask_arrays(*data))


def test_bad_data_are_named(data):
    (X, y), rng = data, np.random.default_rng(0)
    with pytest.raises(ValueError, match="one class only"):
        svm_coreset(SVMCoreset(20), *dask_arrays(X, np.repeat([0, 1], 1500), 100))
    with pytest.raises(ValueError, match="dask array or bag"):
        merge_reduce(UniformCoreset(), X, y, size=10, rng=rng)
    with pytest.raises(ValueError, match="y must be a dask array, as X is, got ndarray"):
        merge_reduce(UniformCoreset(), da.from_array(X), y, size=10, rng=rng)
    with pytest.raises(ValueError, match="X must hold real numbers, got dtype object"):
        merge_reduce(UniformCoreset(), da.from_array(X.astype(object), chunks=1000), size=10, rng=rng)
    with pytest.raises(ValueError, match=r"y must be None for a bag, whose items are pairs \(X, y\), got ndarray"):
        merge_reduce(UniformCoreset(), db.from_sequence([(X, y)]), y, size=10, rng=rng)
    with pytest.raises(ValueError, match="size must be an integer of at least 1, got size=0"):
        merge_reduce(UniformCoreset(), *dask_arrays(X, y), size=0, rng=rng)
    with pytest.raises(ValueError, match="one label a row"):
        merge_reduce(UniformCoreset(), dask_arrays(X, y)[0], da.from_array(y[:100]), size=10, rng=rng)
    X = X.copy()
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        merge_reduce(UniformCoreset(), *dask_arrays(X, y), size=10, rng=rng)
    with pytest.raises(ValueError, match="exactly 2 classes"):
        svm_coreset(SVMCoreset(20), *dask_arrays(data[0], np.arange(3000) % 3))


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "handful.distributed")
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"handful\.distributed needs dask: pip install 'dask\[array,distributed\]'"):
        importlib.import_module("handful.distributed")
