"""Runs over processes: the same table as a loop's."""

import os
import time

import numpy as np
import pandas as pd
import pytest
from handful.experiments.processes import gather_runs
from joblib import delayed

WORDS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def square(x, wait=0.0):
    time.sleep(wait)
    return [{"x": x, "square": x * x}, {"x": -x, "square": x * x}]


def write_into(array):
    array[0] = 1.0  # a run may scale its rows in place
    return pd.DataFrame({"sum": [float(array.sum())], **{word: [os.environ.get(word)] for word in WORDS}})


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_come_in_the_order_of_the_runs(n_jobs):
    runs = [({"name": f"run {x}"}, delayed(square)(x, wait=0.3 * (x == 0))) for x in range(3)]
    table = gather_runs(runs, n_jobs)
    assert table.name.tolist() == ["run 0", "run 0", "run 1", "run 1", "run 2", "run 2"]
    assert table.x.tolist() == [0, 0, 1, -1, 2, -2]
    assert table.square.tolist() == [0, 0, 1, 1, 4, 4]
    assert table.index.tolist() == list(range(6))


def test_processes_have_one_thread_and_shared_arrays_stay_as_they_were(monkeypatch):
    for word in WORDS:
        monkeypatch.setenv(word, "2")
    shared = np.zeros(1_000_000)  # large enough to be mapped
    table = gather_runs([({}, delayed(write_into)(shared)) for _ in range(3)], n_jobs=2)
    assert table["sum"].tolist() == [1.0] * 3
    assert not shared.any()
    assert (table[list(WORDS)] == "1").all(axis=None)


def test_what_a_run_raises_is_raised():
    with pytest.raises(TypeError, match="can't multiply"):
        gather_runs([({}, delayed(square)(1)), ({}, delayed(square)("a"))], n_jobs=2)
