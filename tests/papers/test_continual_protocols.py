"""The protocols of continual learning and streaming with a replay memory."""

import numpy as np
import pandas as pd
import pytest
from handful_papers.bico import continual, continual_stream
from handful_papers.bico.continual_data import images, permuted_tasks, split_tasks, stream_of
from handful_papers.bico.fig13_merge_reduce import algorithm_3
from handful_papers.bico.stacked import StackedMLP


@pytest.fixture(scope="module")
def arrays():
    return images("digits")


class Recorder:
    """A learner that writes down what it is trained on, and predicts at random."""

    def __init__(self):
        self.n_runs = 1
        self.calls = []

    def repeat(self, times):
        self.n_runs *= times
        return self

    def fit(self, X, y, *, n_epochs, batch_size, memory=None, sample_weight=None, key=0):
        self.calls.append((X, y, memory, n_epochs, batch_size, key))
        return self

    def views(self, X, y, run):
        return StackedMLP((X.shape[1], 5, 5, 10), seed=run).views(X, y, 0)

    def accuracy(self, X, y):
        return np.zeros(self.n_runs)


def test_permuted_tasks_permute_the_same_rows_and_split_tasks_hold_their_pair(arrays):
    permuted = permuted_tasks(arrays, n_tasks=3, n_train=200, n_val=100)
    for task in permuted:
        np.testing.assert_array_equal(np.sort(task.X), np.sort(permuted[0].X))
        np.testing.assert_array_equal(task.y, arrays[1][:200])
        np.testing.assert_array_equal(np.sort(task.X_test), np.sort(arrays[2]))
    assert not np.array_equal(permuted[0].X, permuted[1].X)
    split = split_tasks(arrays, n_train=[20, 20, 20, 20, 150], n_val=30)
    assert [sorted(set(t.y)) for t in split] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert [len(t.X) for t in split] == [20, 20, 20, 20, 150]
    # rows that choose beta are not rows that train
    for task in split:
        assert not {r.tobytes() for r in task.X} & {r.tobytes() for r in task.X_val}
    assert [len(t.X_val) for t in split_tasks(arrays, n_train=200, n_val=[20, 30, 40, 50, 60])] == [
        20,
        30,
        40,
        50,
        60,
    ]
    with pytest.raises(
        ValueError, match=r"at most 271, the training rows of classes \(0, 1\), got 200 \+ 72"
    ):
        split_tasks(arrays, n_train=200, n_val=72)
    with pytest.raises(
        ValueError,
        match=r"n_train \+ n_val must be at most 1347, the training rows, got 1400 \+ 1000",
    ):
        permuted_tasks(arrays, n_train=1400, n_val=1000)


def test_memories_of_a_run_are_shares_of_each_older_task_weighted_by_beta(arrays):
    tasks = split_tasks(arrays, n_train=60, n_val=20)
    arms = [(continual.NO_REPLAY, 0.0), ("kcenter embeddings", 0.1), ("bico", 1.0), ("bico", 10.0)]
    learner = Recorder()
    rows = continual.run(tasks, arms, seed=0, size=20, learner=learner, n_epochs=3, batch_size=7)
    assert len(rows) == 4 * 5
    assert [call[5] for call in learner.calls] == [0, 1, 2, 3, 4]
    assert learner.calls[0][2] is None
    for t, (X, _, memory, n_epochs, batch_size, _) in enumerate(learner.calls[1:], start=1):
        np.testing.assert_array_equal(X, tasks[t].X)
        assert (n_epochs, batch_size) == (3, 7)
        kept, labels, coefficients = memory
        share = 20 // t
        assert kept.shape[1] == share * t
        # no replay
        assert (coefficients[0] == 0).all()
        for arm in range(1, 4):
            np.testing.assert_allclose(coefficients[arm], arms[arm][1] / share, rtol=1e-6)
            for older in range(t):
                own = slice(older * share, (older + 1) * share)
                assert set(labels[arm, own]) <= {2 * older, 2 * older + 1}
        # the proxy knows no beta
        np.testing.assert_array_equal(kept[2], kept[3])
        assert not np.array_equal(kept[1], kept[2])


@pytest.mark.parametrize("method", [m for m in continual.METHODS if m != "bico"])
def test_every_method_fills_the_memory(method, arrays):
    tasks = split_tasks(arrays, n_train=40, n_val=10)[:3]
    learner = Recorder()
    continual.run(tasks, [(method, 1.0)], seed=0, size=12, learner=learner, n_epochs=1)
    kept = learner.calls[2][2][0]
    assert kept.shape[1] == 12
    for older in range(2):
        rows = {r.tobytes() for r in kept[0, 6 * older : 6 * older + 6]}
        assert len(rows) == 6
        assert rows <= {r.tobytes() for r in tasks[older].X}


def test_a_stream_s_memories_weigh_slots_by_the_batches_behind_them_and_a_reservoir_evenly(arrays):
    tasks = split_tasks(arrays, n_train=100, n_val=40)
    batches = stream_of(tasks, batch_size=25)
    learner = Recorder()
    arms = [("reservoir", 2.0), ("bico", 0.5), ("cbrs", 1.0), ("coreset only", 1.0)]
    rows = continual_stream.run(
        batches,
        tasks,
        arms,
        seed=0,
        size=21,
        slots=3,
        learner=lambda seed: learner,
        n_steps=3,
        n_final_epochs=5,
    )
    assert len(rows) == 4 * 5
    assert len(learner.calls) == len(batches) + 1
    behind = algorithm_3(3, len(batches))
    assert max(map(max, behind)) >= 4
    for i, (_, _, memory, n_epochs, batch_size, _) in enumerate(learner.calls[:-1]):
        assert (n_epochs, batch_size) == (3, 25)
        if i:
            kept, _, coefficients = memory
            np.testing.assert_allclose(coefficients[0], 2.0 / 21, rtol=1e-6)
            # merge and reduce: beta times the mean loss of each slot times the number of batches
            # behind it
            weights = behind[i - 1]
            expected = np.repeat(np.array(weights) * 0.5 / 7, 7)
            np.testing.assert_allclose(coefficients[1, : len(expected)], expected, rtol=1e-6)
            assert (coefficients[1, len(expected) :] == 0).all()
            for slot, last in enumerate(np.cumsum(weights)):
                own = {r.tobytes() for X, _ in batches[last - weights[slot] : last] for r in X}
                assert {r.tobytes() for r in kept[1, 7 * slot : 7 * slot + 7]} <= own
    X, _, memory, n_epochs, batch_size, _ = learner.calls[-1]
    assert memory is None
    assert (len(X), n_epochs, batch_size) == (21, 5, 21)


def test_methods_give_in_tasks_of_their_own_what_they_give_side_by_side():
    about = dict(
        data="digits",
        kind="split",
        n_train=60,
        n_val=20,
        network="mlp",
        size=10,
        betas=[1.0],
        n_epochs=3,
    )
    options = dict(seed=0, batch_size=30, learning_rate=0.002, device="cpu")
    methods = ["uniform", "kcenter features", "hardest"]
    together = continual.replay_rows("SMNIST", about, methods=methods, **options)
    alone = pd.concat(
        [continual.replay_rows("SMNIST", about, methods=[method], **options) for method in methods]
    )
    for column in ("accuracy", "val_accuracy"):
        np.testing.assert_allclose(together[column], alone[column], atol=1e-6)
