"""A cluster of two processes: the digits of one process, whatever happens to the workers."""

import os
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from handful import VCGMM, BilevelCoreset, KCenter, LightweightCoreset, MergeReduce, SVMCoreset, UniformCoreset
from handful.bilevel import Forward

da = pytest.importorskip("dask.array", reason="dask comes with the extra handful[distributed]")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("dask.distributed", reason="dask comes with the extra handful[distributed]")

from handful.distributed import ChunkError  # noqa: E402 (needs dask)

N, CHUNK = 12_000, 1500
METHODS = [
    BilevelCoreset(size=8, random_state=0, rule="linear", weighting="optimised", strategy=Forward(n_start=4)),
    LightweightCoreset(200, random_state=0),
    SVMCoreset(60, n_clusters=2, random_state=0),
    MergeReduce(UniformCoreset(), size=60, leaf_size=500, random_state=0),
    KCenter(6, random_state=0),
]
KILLED = METHODS[0], METHODS[2]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    return X, (X.sum(axis=1) + rng.normal(size=N) > 0).astype(int)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="1GB")
    options |= dict(local_directory=folder)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client
    assert not [path for path in folder.rglob("*") if path.is_file() and "lock" not in path.name], "left on disk"


def visit(block, folder):
    """The block, slowly, and a file that says which process had it."""
    open(os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}"), "w").close()
    time.sleep(0.05)
    return block


def arrays(data, folder=None):
    X, y = (da.from_array(a, chunks=(CHUNK, *a.shape[1:])) for a in data)
    return (X if folder is None else X.map_blocks(visit, folder=str(folder), meta=np.empty((0, 0)))), y


def answer(method, X, y):
    method.fit(X, y)
    return method.indices_, method.weights_


@pytest.fixture(scope="module")
def alone(data):
    with dask.config.set(scheduler="sync"):
        return [answer(method, *arrays(data)) for method in METHODS]


class Killer(threading.Thread):
    """Kills a worker once more tasks than `after` have begun."""

    def __init__(self, folder, after):
        super().__init__(daemon=True)
        self.folder, self.after, self.killed, self.over = folder, after, None, threading.Event()

    def run(self):
        while not self.over.wait(0.01):
            seen = sorted(self.folder.iterdir(), key=lambda path: int(path.name.split("-")[1]))
            if len(seen) > self.after:
                self.killed = int(seen[-1].name.split("-")[0])
                os.kill(self.killed, signal.SIGKILL)
                return

    def __exit__(self, *exception):
        self.over.set()
        self.join()

    def __enter__(self):
        self.start()
        return self


@pytest.mark.timeout(300)
@pytest.mark.parametrize("i", range(len(METHODS)), ids=lambda i: type(METHODS[i]).__name__)
def test_two_processes_give_the_digits_of_one_whether_or_not_one_is_killed(i, data, client, alone, tmp_path):
    # past the first pass, or within the only other one; a new worker takes seconds to start, so not for every method
    with Killer(tmp_path, after=9 + 2 * i if METHODS[i] in KILLED else np.inf) as killer:
        indices, weights = answer(METHODS[i], *arrays(data, tmp_path))
    assert (killer.killed in (None, os.getpid())) == (METHODS[i] not in KILLED)
    np.testing.assert_array_equal(indices, alone[i][0])
    np.testing.assert_array_equal(weights, alone[i][1])


@pytest.mark.timeout(300)
def test_a_mixture_is_fitted_and_predicts_over_processes(data, client):
    X, _ = arrays(data)
    ours = VCGMM(8, coreset_size=500, random_state=0).fit(X)
    alone = VCGMM(8, coreset_size=500, random_state=0).fit(data[0])
    np.testing.assert_array_equal(ours.cluster_centers_, alone.cluster_centers_)
    np.testing.assert_array_equal(ours.labels_.compute(), alone.labels_)


def greedy(block, block_info=None):
    """The block; of the third, only with more memory than a worker has."""
    if block_info and block_info[0]["chunk-location"][0] == 2:
        held = []
        while len(held) < 60:  # 3 GB
            held.append(np.ones(50 << 17))
            time.sleep(0.05)  # the worker's keeper looks every so often
    return block


@pytest.mark.timeout(300)
def test_a_chunk_that_takes_its_worker_out_of_memory_is_named(data, client):
    X, y = arrays(data)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(ChunkError, match=r"chunk 2 of X cannot be computed: KilledWorker.*make the chunks smaller"),
    ):
        UniformCoreset(20).fit(X.map_blocks(greedy, meta=np.empty((0, 0))), y)


def spoilt(block, what, block_info=None):
    """The block; the sixth with what is wrong."""
    if not block_info or block_info[0]["chunk-location"][0] != 5:
        return block
    if what == "raises":
        raise OSError("the disk is gone")
    return block[:, :3] if what == "columns" else np.where(np.arange(len(block))[:, None] == 7, np.nan, block)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("columns", "chunk 5 of X has 3 columns, chunk 0 has 4"),
        ("nan", "chunk 5: X contains NaN or infinity, first in row 7 of the chunk"),
        ("raises", "chunk 5 of X cannot be computed: OSError: the disk is gone"),
    ],
)
def test_what_is_wrong_in_another_process_is_named_here(what, message, data, client):
    X, y = arrays(data)
    with pytest.raises(ChunkError, match=message):
        UniformCoreset(20).fit(X.map_blocks(spoilt, what=what, meta=np.empty((0, 0))), y)


def test_empty_chunks_and_chunks_of_one_row_of_unknown_lengths_change_no_row_over_processes(data, client, alone):
    edges = [0, 0, 1, 2, 5000, 5000, N - 1, N]
    X, y = (
        da.concatenate(
            [
                da.from_delayed(dask.delayed(values[i:j]), (np.nan, *values.shape[1:]), values.dtype)
                for i, j in pairwise(edges)
            ],
            allow_unknown_chunksizes=True,
        )
        for values in data
    )
    for method, (indices, _) in zip(METHODS, alone):
        if not isinstance(method, SVMCoreset):  # whose draws depend on the chunks
            np.testing.assert_array_equal(answer(method, X, y)[0], indices)
