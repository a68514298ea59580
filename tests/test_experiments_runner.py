"""Running notebooks for real: processes, resuming, failures, interruptions."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from handful.experiments.notebooks import plan
from handful.experiments.runner import n_cores, reproduce, state_path
from tiny_notebooks import profiles_for, saving, write_checkout, write_notebook

WAIT = """
import pathlib, time
def wait_for(path, seconds=60):
    end = time.time() + seconds
    while not pathlib.Path(path).exists():
        assert time.time() < end, f"{path} never came"
        time.sleep(0.02)
"""


@pytest.fixture
def checkout(tmp_path):
    def make(**sources):
        names = [f"demo/{stem}" for stem in sources]
        root = write_checkout(tmp_path / "checkout", profiles_for(*names))
        for name, cells in zip(names, sources.values()):
            write_notebook(root, name, *cells)
        return root

    return make


def _run(root, profile="quick", only=(), **options):
    outcomes = reproduce(plan(root / "notebooks", profile, only), figures=root / "figures", **options)
    return {o.run.name: o for o in outcomes}


def test_finished_runs_are_kept_until_something_changes(checkout):
    root = checkout(a=saving("demo/a"))
    assert _run(root)["demo/a"].status == "done"
    record = root / "figures" / "quick" / "demo" / "a.json"
    assert json.loads(record.read_text())["parameters"] == {"n": 3, "seed": 0}
    executed = json.loads((root / "figures" / "notebooks" / "quick" / "demo" / "a.ipynb").read_text())
    assert all(c["execution_count"] for c in executed["cells"] if c["cell_type"] == "code")

    written = record.stat().st_mtime_ns
    assert _run(root)["demo/a"].status == "unchanged"
    assert record.stat().st_mtime_ns == written

    write_notebook(root, "demo/a", *saving("demo/a", before="# another comment\n"))
    assert _run(root)["demo/a"].status == "done"
    assert _run(root)["demo/a"].status == "unchanged"
    # Results that someone changed or lost are no results.
    record.with_suffix(".csv").write_text("method,seed,value\nuniform,0,9\n")
    assert _run(root)["demo/a"].status == "done"
    assert _run(root, force=True)["demo/a"].status == "done"


def test_another_profile_is_another_run_with_its_own_parameters(checkout):
    root = checkout(a=saving("demo/a"))
    assert _run(root, "laptop")["demo/a"].status == "done"
    record = json.loads((root / "figures" / "laptop" / "demo" / "a.json").read_text())
    assert record["parameters"] == {"n": 5, "seed": 0}
    assert not (root / "figures" / "quick").exists()


def test_a_changed_registry_entry_makes_its_users_stale(checkout, monkeypatch):
    uses = saving("demo/a")[0].replace("data={}", 'data={"phishing": "ab"}')
    root = checkout(a=[uses])
    assert _run(root)["demo/a"].status == "done"
    assert _run(root)["demo/a"].status == "unchanged"
    from dataclasses import replace

    from handful.data import registry

    entry = replace(registry.ENTRIES["phishing"], sha256="0" * 64)
    monkeypatch.setitem(registry.ENTRIES, "phishing", entry)
    assert _run(root)["demo/a"].status == "done"


def test_a_failing_notebook_is_told_with_cell_and_traceback_and_the_rest_goes_on(checkout):
    root = checkout(
        bad=["x = 1", "def deep():\n    return x / 0", "deep()"],
        dead=["import os; os._exit(3)"],
        good=saving("demo/good"),
        idle=["x = 1"],
    )
    outcomes = _run(root)
    assert {name: o.status for name, o in outcomes.items()} == {
        "demo/bad": "failed",
        "demo/dead": "failed",
        "demo/good": "done",
        "demo/idle": "failed",
    }
    bad = outcomes["demo/bad"].error
    assert bad["cell"] == 5  # title, parameters, three more: as a reader counts
    assert bad["source"] == "deep()"
    assert bad["error"] == "ZeroDivisionError: division by zero"
    assert "return x / 0" in bad["traceback"]
    assert "\x1b" not in bad["traceback"]
    assert "DeadKernel" in outcomes["demo/dead"].error["error"]
    assert "saved no results" in outcomes["demo/idle"].error["error"]
    assert json.loads(state_path(root / "figures", "quick", "demo/bad").read_text())["error"] == bad
    # What failed runs again, what worked does not.
    write_notebook(root, "demo/idle", *saving("demo/idle"))
    again = _run(root)
    assert again["demo/bad"].status == "failed"
    assert again["demo/idle"].status == "done"
    assert again["demo/good"].status == "unchanged"


def test_jobs_run_side_by_side_and_share_the_cores(checkout, tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    # Each waits for the other's mark: one after the other, they would never end.
    marks = {"a": tmp_path / "mark_a", "b": tmp_path / "mark_b"}

    def meeting(mine, other):
        return f"{WAIT}\npathlib.Path({str(marks[mine])!r}).touch()\nwait_for({str(marks[other])!r})"

    root = checkout(a=saving("demo/a", meeting("a", "b")), b=saving("demo/b", meeting("b", "a")))
    seen = set()
    outcomes = _run(root, jobs=2, watch=lambda done, active: seen.add(len(active)))
    assert {o.status for o in outcomes.values()} == {"done"}
    assert 2 in seen
    for stem in marks:
        record = json.loads((root / "figures" / "quick" / "demo" / f"{stem}.json").read_text())
        assert record["threads"] == max(1, n_cores() // 2)


def test_a_lower_thread_limit_of_the_users_stands(checkout, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    root = checkout(a=saving("demo/a"))
    _run(root)
    assert json.loads((root / "figures" / "quick" / "demo" / "a.json").read_text())["threads"] == 1


def test_the_kernel_is_this_python_whatever_is_installed(checkout, tmp_path, monkeypatch):
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(
        json.dumps({"argv": ["/bin/false"], "display_name": "other", "language": "python"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    check = f"import sys\nassert sys.executable == {sys.executable!r}, sys.executable"
    outcome = _run(checkout(a=saving("demo/a", check)))["demo/a"]
    assert outcome.status == "done", outcome.error


def test_a_source_edited_under_way_runs_again(checkout, tmp_path):
    started, go = tmp_path / "started", tmp_path / "go"
    meeting = f"{WAIT}\npathlib.Path({str(started)!r}).touch()\nwait_for({str(go)!r})"
    root = checkout(a=saving("demo/a", meeting))

    def edit(outcomes, active):
        if started.exists() and not go.exists():
            write_notebook(root, "demo/a", *saving("demo/a", meeting + "  # edited"))
            go.touch()

    assert _run(root, watch=edit)["demo/a"].status == "done"
    assert _run(root)["demo/a"].status == "done"
    assert _run(root)["demo/a"].status == "unchanged"


def test_jobs_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        reproduce([], figures=tmp_path, jobs=0)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_stopped_run_keeps_what_had_finished_and_resumes(checkout, tmp_path, how):
    kernel, go = tmp_path / "kernel", tmp_path / "go"
    mark = f"import os\npathlib.Path({str(kernel)!r} + '_').write_text(str(os.getpid()))\n"
    mark += f"os.replace({str(kernel)!r} + '_', {str(kernel)!r})"
    slow = f"{WAIT}\n{mark}\nwait_for({str(go)!r}, 300)"
    root = checkout(fast=saving("demo/fast"), slow=saving("demo/slow", slow), waiting=saving("demo/waiting"))
    command = [sys.executable, "-m", "handful.cli", "reproduce"]
    environment = {k: v for k, v in os.environ.items() if k != "HANDFUL_FIGURES"}
    # shells let what they start in the background ignore Ctrl-C; this runner is to hear it
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runner = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, heard)
    try:
        _wait(lambda: kernel.exists() or runner.poll() is not None)
        pid = int(kernel.read_text())
        assert state_path(root / "figures", "quick", "demo/fast").is_file()
        runner.send_signal(how)
        output, _ = runner.communicate(timeout=60)
        _wait(lambda: not _alive(pid))
    finally:
        runner.kill()
    if how == signal.SIGINT:
        assert runner.returncode == 130
        assert "1 done, 1 interrupted, 1 not started." in output
        assert "interrupted demo/slow" in output
        assert "not started demo/waiting" in output
    assert not state_path(root / "figures", "quick", "demo/slow").exists()

    go.touch()
    outcomes = _run(root, only=["demo/fast", "demo/slow"])
    assert {name: o.status for name, o in outcomes.items()} == {"demo/fast": "unchanged", "demo/slow": "done"}


def _alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
