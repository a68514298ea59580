"""Sweeps: the same rows however they run, finished tasks are kept, changed ones run again."""

import json
import time
from pathlib import Path

import pandas as pd
import pytest
from handful_papers import sweep as sweep_module
from handful_papers.bico.merge_reduce import record_run
from handful_papers.sweep import sweep


def _task(a, seed, scale=1.0, log=None):
    if log:
        with open(log, "a") as file:
            file.write(f"{a} {seed}\n")
    return [{"value": scale * a + seed / 7, "name": f"{a}"}, {"value": float("nan"), "name": None}]


@pytest.fixture(autouse=True)
def code(monkeypatch):
    """Lets functions of a test be swept over; the fingerprint of their code is this dict's."""
    versions = {}
    monkeypatch.setattr(sweep_module, "_code", lambda function: versions.setdefault(function, "1"))
    return versions


SETTINGS = [{"a": 1}, {"a": 2}]


def test_rows_are_the_same_from_one_process_from_two_and_from_disk(tmp_path):
    fresh, seconds = sweep(_task, SETTINGS, range(3), folder=tmp_path / "one")
    again, kept = sweep(_task, SETTINGS, range(3), folder=tmp_path / "one")
    other, _ = sweep(_task, SETTINGS, range(3), folder=tmp_path / "two", n_jobs=2)
    pd.testing.assert_frame_equal(fresh, again)
    pd.testing.assert_frame_equal(fresh, other)
    assert kept == pytest.approx(seconds)
    assert list(fresh.columns) == ["value", "name", "a", "seed"]
    assert fresh.value[0] == 1.0
    assert fresh["value"].iloc[2] == 1 + 1 / 7  # every digit survives
    plain = [row | {"a": s["a"], "seed": seed} for s in SETTINGS for seed in range(3) for row in _task(**s, seed=seed)]
    pd.testing.assert_frame_equal(fresh, pd.DataFrame(plain))


def test_a_killed_sweep_goes_on_at_the_task(tmp_path):
    log = str(tmp_path / "log")
    sweep(_task, SETTINGS[:1], range(2), folder=tmp_path, log=log)
    sweep(_task, SETTINGS, range(2), folder=tmp_path, log=log)
    assert (tmp_path / "log").read_text().splitlines() == ["1 0", "1 1", "2 0", "2 1"]


def test_other_code_arguments_or_data_run_again(tmp_path, code, monkeypatch):
    log = tmp_path / "log"

    def runs(**changes):
        sweep(_task, [{"a": 1}], [0], folder=tmp_path, **{"log": str(log)} | changes)
        return len(log.read_text().splitlines())

    assert runs() == 1
    assert runs() == 1
    assert runs(scale=2.0) == 2
    code[_task] = "2"
    assert runs() == 3
    monkeypatch.setattr(sweep_module, "data_fingerprint", lambda name: "other data")
    assert runs() == 4


def test_a_damaged_task_file_is_run_again(tmp_path):
    first, _ = sweep(_task, [{"a": 1}], [0], folder=tmp_path)
    (path,) = tmp_path.glob("*.json")
    for text in ("", "{", "[]", "{}", '{"rows": 3}'):
        path.write_text(text)
        again, _ = sweep(_task, [{"a": 1}], [0], folder=tmp_path)
        pd.testing.assert_frame_equal(first, again)
    assert json.loads(path.read_text())["arguments"] == {"a": 1, "seed": 0}


def _fails(a, seed, log):
    with open(log, "a") as file:
        file.write(f"{a}\n")
    if a == 2:
        until = time.monotonic() + 60
        while len(list(Path(log).parent.rglob("*.*"))) < 1 and time.monotonic() < until:  # the other one is kept
            time.sleep(0.05)
        raise ArithmeticError("a is two")
    return [{"a": a}]


@pytest.mark.parametrize("n_jobs", [1, 2, "dask"])
def test_a_task_that_raises_ends_the_sweep_and_keeps_what_had_finished(tmp_path, n_jobs, request, monkeypatch):
    if n_jobs == "dask":
        monkeypatch.setenv(sweep_module.DASK, request.getfixturevalue("cluster").scheduler_address)
        n_jobs = 1
    log = tmp_path / "log"
    with pytest.raises(ArithmeticError, match="a is two"):
        sweep(_fails, [{"a": 1}, {"a": 2}], [0], folder=tmp_path, n_jobs=n_jobs, log=str(log))
    with pytest.raises(ArithmeticError):
        sweep(_fails, [{"a": 1}, {"a": 2}], [0], folder=tmp_path, n_jobs=n_jobs, log=str(log))
    assert sorted(log.read_text().split()) == ["1", "2", "2"]


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="dask comes with the extra handful[distributed]")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


def test_a_dask_cluster_gives_the_same_rows(tmp_path, monkeypatch, cluster):
    here, _ = sweep(_task, SETTINGS, range(3), folder=tmp_path / "here")
    monkeypatch.setenv(sweep_module.DASK, cluster.scheduler_address)
    there, _ = sweep(_task, SETTINGS, range(3), folder=tmp_path / "there")
    pd.testing.assert_frame_equal(here, there)


def _waits(seed, log, go, fails):
    with open(log, "a") as file:
        file.write(f"{seed}\n")
    _until(lambda: len(Path(log).read_text().split()) > 1)
    if fails and seed == 0:
        raise ArithmeticError("seed is zero")
    _until(Path(go).exists)
    return [{"b": seed}]


def _until(there):
    end = time.monotonic() + 300
    while not there() and time.monotonic() < end:
        time.sleep(0.02)
    assert there()


@pytest.mark.parametrize("fails", [True, False], ids=["a task raises", "Ctrl-C"])
def test_what_ends_a_sweep_on_dask_takes_back_what_waits_and_drops_what_is_at_work(
    fails, tmp_path, monkeypatch, cluster
):
    monkeypatch.setenv(sweep_module.DASK, cluster.scheduler_address)
    log, go = tmp_path / "log", tmp_path / "go"
    log.touch()
    options = dict(folder=tmp_path / "tasks", log=str(log), go=str(go), fails=fails)

    def interrupted(*_, **__):  # as by Ctrl-C while results are awaited
        _until(lambda: len(log.read_text().split()) > 1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if not fails:
            patch.setattr("dask.distributed.as_completed", interrupted)
        with pytest.raises(ArithmeticError if fails else KeyboardInterrupt):
            sweep(_waits, [{}], range(8), **options)
    go.touch()
    _until(lambda: not cluster.scheduler.tasks)
    begun = len(log.read_text().split())
    assert begun <= 3  # one on each worker, and one after the task that failed
    rows, _ = sweep(_waits, [{}], range(1, 8), **options)
    assert rows["b"].tolist() == list(range(1, 8))
    assert len(log.read_text().split()) == begun + 7


def test_what_another_process_could_not_import_or_tell_apart_is_refused(tmp_path, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(ValueError, match="top level of a module"):
        sweep(lambda seed: [], [{}], [0], folder=tmp_path)
    with pytest.raises(ValueError, match="plain values"):
        sweep(record_run, [{"a": object()}], folder=tmp_path)
    with pytest.raises(ValueError, match="no settings"):
        sweep(record_run, [], folder=tmp_path)


def test_progress_is_written_for_the_runner(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_PROGRESS", str(tmp_path / "progress"))
    sweep(_task, SETTINGS, range(2), folder=tmp_path)
    assert json.loads((tmp_path / "progress").read_text())["done"] == 4
