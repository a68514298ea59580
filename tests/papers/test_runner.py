"""Running notebooks for real: processes, resuming, failures, interruptions."""

import base64
import fcntl
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import psutil
import pytest
from handful_papers.gather import collect, damaged, failures
from handful_papers.kept import read_results, state_path, up_to_date
from handful_papers.notebooks import plan
from handful_papers.runner import n_cores, reproduce
from handful_papers.slim import LIMIT, slim
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


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The figures of a checkout whose one notebook ran."""
    root = write_checkout(tmp_path_factory.mktemp("finished"), profiles_for("demo/a"))
    write_notebook(root, "demo/a", *saving("demo/a"))
    assert _run(root)["demo/a"].status == "done"
    return root / "figures"


def _run(root, profile="quick", only=(), **options):
    outcomes = reproduce(plan(root / "notebooks", profile, only), figures=root / "figures", **options)
    return {o.run.name: o for o in outcomes}


def test_a_small_copy_of_a_laptop_run_lies_beside_its_record_and_a_failure_leaves_it(checkout):
    root = checkout(a=saving("demo/a", "import warnings; warnings.warn('twice'); warnings.warn('twice')"))
    figures = root / "figures"
    assert _run(root, "laptop")["demo/a"].status == "done"
    copy = figures / "laptop" / "demo" / "a.ipynb"
    content = json.loads(copy.read_text())
    assert all(c["execution_count"] for c in content["cells"] if c["cell_type"] == "code")
    assert str(root) not in copy.read_text()
    assert "papermill" not in copy.read_text()
    shutil.rmtree(figures / "notebooks")  # as in a fresh clone
    (result,) = collect(figures, ("laptop",))
    assert result.executed == copy

    write_notebook(root, "demo/a", "1 / 0")
    before = copy.read_bytes()
    assert _run(root, "laptop")["demo/a"].status == "failed"
    assert copy.read_bytes() == before


def _notebook_with(*outputs):
    cells = [{"cell_type": "code", "source": "", "metadata": {"papermill": {}, "tags": []}, "outputs": list(outputs)}]
    return json.dumps({"cells": cells, "metadata": {"papermill": {"input_path": "/home/me"}}, "nbformat": 4})


def test_a_copy_is_small_whatever_was_put_out():
    noise = np.random.default_rng(0).integers(0, 255, size=(300, 400, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    plt.imsave(buffer, noise, format="png")
    picture = {"output_type": "display_data", "data": {"image/png": base64.b64encode(buffer.getvalue()).decode()}}
    words = {"output_type": "stream", "name": "stdout", "text": ["short and kept\n"]}
    long = {"output_type": "stream", "name": "stdout", "text": ["x" * 200_000]}
    text = slim(_notebook_with(picture, words, long))
    assert len(text) < LIMIT + 5000
    (cell,) = json.loads(text)["cells"]
    kinds = [output["output_type"] for output in cell["outputs"]]
    assert kinds == ["display_data", "stream", "stream"]
    assert cell["outputs"][1]["text"] == ["short and kept\n"]
    assert "200 kB is left out" in cell["outputs"][2]["text"][0]
    assert cell["metadata"] == {}
    kept = plt.imread(io.BytesIO(base64.b64decode(cell["outputs"][0]["data"]["image/png"])))
    assert kept.shape[:2] == (300, 400)


def test_a_copy_tells_a_warning_once_and_without_paths():
    warning = {"output_type": "stream", "name": "stderr", "text": "/home/me/x/lib/handful/a.py:3: UserWarning: so\n"}
    other = {"output_type": "stream", "name": "stderr", "text": "/home/me/x/lib/handful/b.py:3: UserWarning: so\n"}
    saved = {"output_type": "stream", "name": "stdout", "text": "Saved in /home/me/x/data/labels/a.json.\n"}
    (cell,) = json.loads(slim(_notebook_with(warning, other, warning, saved)))["cells"]
    assert [output["text"] for output in cell["outputs"]] == [
        "lib/handful/a.py:3: UserWarning: so\n",
        "lib/handful/b.py:3: UserWarning: so\n",
        "Saved in data/labels/a.json.\n",
    ]


def test_finished_runs_are_kept_until_something_changes(checkout):
    root = checkout(a=saving("demo/a"))
    assert _run(root)["demo/a"].status == "done"
    record = root / "figures" / "quick" / "demo" / "a.json"
    assert json.loads(record.read_text())["parameters"] == {"n": 3, "seed": 0}
    executed = json.loads((root / "figures" / "notebooks" / "quick" / "demo" / "a.ipynb").read_text())
    assert all(c["execution_count"] for c in executed["cells"] if c["cell_type"] == "code")

    assert not record.with_suffix(".ipynb").exists()  # of quick runs nothing is committed

    written = record.stat().st_mtime_ns
    assert _run(root)["demo/a"].status == "unchanged"
    assert record.stat().st_mtime_ns == written

    write_notebook(root, "demo/a", *saving("demo/a", before="other = 1\n"))
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
    again = _run(root, only=["demo/good", "demo/idle"])
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
            write_notebook(root, "demo/a", *saving("demo/a", meeting + "\nedited = 1"))
            go.touch()

    assert _run(root, watch=edit)["demo/a"].status == "done"
    assert _run(root)["demo/a"].status == "done"
    assert _run(root)["demo/a"].status == "unchanged"


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"3", b"\xe9", b'{"status": "done"}', b'{"status": "failed"}'])
def test_a_damaged_state_counts_as_none(checkout, text):
    root = checkout(a=saving("demo/a"))
    (run,) = plan(root / "notebooks", "quick")
    path = state_path(root / "figures", "quick", "demo/a")
    path.parent.mkdir(parents=True)
    whole = {"status": "failed", "key": None, "seconds": 1, "data": {}, "results": {}}
    whole |= {"error": {"cell": 1, "source": "", "error": "E: no", "traceback": ""}}
    path.write_text(json.dumps(whole))
    assert [f["error"] for f in failures(root / "figures")] == ["E: no"]
    path.write_bytes(text)
    assert up_to_date(run, root / "figures") is None
    assert failures(root / "figures") == []


def test_results_that_are_not_whole_fail_their_notebook_the_rest_runs_and_the_report_leaves_them_out(checkout):
    def then(name, line):
        return [saving(name)[0] + line + "\n"]

    root = checkout(
        bare=then("demo/bare", '(folder / "bare.csv").unlink()'),
        blocked=then("demo/blocked", '(folder / ".state" / "blocked.json").mkdir()'),
        good=saving("demo/good"),
    )
    outcomes = _run(root)
    assert outcomes["demo/good"].status == "done"
    assert "bare.json is without its bare.csv" in outcomes["demo/bare"].error["error"]
    assert "that it ran cannot be written down: [Errno 21] Is a directory" in outcomes["demo/blocked"].error["error"]
    assert {r.name for r in collect(root / "figures")} == {"demo/good", "demo/blocked"}
    assert [Path(s.split(" ")[0]).stem for s in damaged(root / "figures")] == ["bare"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda record: b"[]", "a.json is no record of results"),
        (lambda record: b"\xe9", "a.json is no record of results"),
        (lambda record: record | dict(item="demo/x"), "a.json holds the results of demo/x at profile quick"),
        (
            lambda record: record | dict(seeds=3, claims=3),
            "a.json is no whole record of results: look at its seeds, claims",
        ),
    ],
    ids=["empty", "latin", "other", "part"],
)
def test_a_record_that_is_not_whole_is_told(finished, change, sentence):
    path = finished / "quick" / "demo" / "a.json"
    whole = path.read_bytes()
    assert read_results(path)["item"] == "demo/a"
    changed = change(json.loads(whole))
    path.write_bytes(changed if isinstance(changed, bytes) else json.dumps(changed).encode())
    try:
        with pytest.raises(ValueError, match=sentence):
            read_results(path)
        assert collect(finished) == []
    finally:
        path.write_bytes(whole)


def test_a_folder_that_cannot_be_written_fails_its_notebooks_and_the_rest_runs(checkout):
    root = checkout(a=saving("demo/a"))
    with open(root / "notebooks" / "profiles.toml", "a") as file:
        file.write(profiles_for("full/b"))
    write_notebook(root, "full/b", "1 / 0")
    (root / "figures" / "quick").mkdir(parents=True)
    (root / "figures" / "quick" / "full").touch()
    outcomes = _run(root)
    assert {name: o.status for name, o in outcomes.items()} == {"demo/a": "done", "full/b": "failed"}
    assert "it cannot start: " in outcomes["full/b"].error["error"]
    assert "quick/full" in outcomes["full/b"].error["error"]


def test_a_notebook_over_its_limit_is_ended_and_the_rest_runs(checkout):
    root = checkout(a=["import time; time.sleep(300)"], b=saving("demo/b"))
    start = time.monotonic()
    outcome = _run(root, only=["demo/a"], limit=0.05)["demo/a"]
    assert 3 < time.monotonic() - start < 60  # a twentieth of the minute that counts at least
    assert outcome.status == "failed"
    assert "ended at its limit of 0.05 min, for the 0.1 min that" in outcome.error["error"]
    assert not [p for p in psutil.Process().children(recursive=True) if "ipykernel" in " ".join(p.cmdline())]
    assert _run(root, only=["demo/b"])["demo/b"].status == "done"


def test_two_runs_at_once_take_turns(checkout, tmp_path):
    log, seen, statuses = tmp_path / "log", [], []
    write = f"with open({str(log)!r}, 'a') as file: print('ran', file=file)\nimport time; time.sleep(1)"
    root = checkout(a=saving("demo/a", write))

    def one():
        statuses.append(_run(root, watch=lambda outcomes, active: seen.extend(active))["demo/a"].status)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == ["done", "unchanged"]
    assert log.read_text().splitlines() == ["ran"]
    assert {seconds is None for _, seconds, _ in seen} == {True, False}


def test_a_turn_ends_with_the_process_that_held_it(checkout):
    root = checkout(a=saving("demo/a"))
    path = state_path(root / "figures", "quick", "demo/a").with_suffix(".lock")
    path.parent.mkdir(parents=True)
    hold = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True)"
    holder = subprocess.Popen([sys.executable, "-c", hold + "; time.sleep(300)", path], stdout=subprocess.PIPE)
    holder.stdout.readline()

    def watch(outcomes, active):
        if active and active[0][1] is None:
            holder.kill()

    assert _run(root, watch=watch)["demo/a"].status == "done"
    assert holder.wait() == -signal.SIGKILL
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # given back


SWEEP = """
import time
from handful_papers import sweep as module
module._code = lambda function: "1"  # the fingerprint of a module's code; this function has none

def task(a, seed):
    time.sleep(0.05)
    with open(LOG, "a") as file:
        file.write(f"STEM {a} {seed}\\n")
    return [{"value": a + seed / 7}]

folder = pathlib.Path(os.environ["HANDFUL_FIGURES"], profile, "demo")
rows, _ = module.sweep(task, [{"a": a} for a in range(3)], range(10), n_jobs=JOBS,
                       folder=folder / ".state" / "tasks" / "STEM")
rows.to_csv(folder / "STEM.csv", index=False)
"""
N_KILLS = int(os.environ.get("HANDFUL_KILLS", 2))  # more in a longer hunt


def test_sweeps_killed_at_random_moments_lose_nothing_and_run_nothing_twice(checkout, tmp_path):
    log = tmp_path / "log"

    def sweeping(stem, n_jobs):
        record = saving(f"demo/{stem}")[0].replace(f'(folder / "{stem}.csv").write_text', "print")
        sweep = SWEEP.replace("LOG", repr(str(log))).replace("STEM", stem).replace("JOBS", str(n_jobs))
        return ["import os, pathlib", sweep, record]

    root = checkout(a=sweeping("a", 1), b=sweeping("b", 2))
    tasks = root / "figures" / "quick" / "demo" / ".state" / "tasks"
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    kept, logged = {}, []
    for _ in range(N_KILLS):
        before = len(kept)
        runner = _start(root, "--jobs", "2")
        while runner.poll() is None and len(_kept(tasks)) == before:
            time.sleep(0.05)
        time.sleep(rng.random() / 2)
        _nothing_is_lost_or_run_twice(kept, logged, tasks, log, seed)
        kept, logged = _kept(tasks), log.read_text().splitlines()  # what is kept by now; other tasks are under way
        runner.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        runner.communicate(timeout=60)
    told = []
    outcomes = _run(root, jobs=2, watch=lambda outcomes, active: told.extend(p for *_, p in active if p))
    assert {o.status for o in outcomes.values()} <= {"done", "unchanged"}, (seed, outcomes)
    _nothing_is_lost_or_run_twice(kept, logged, tasks, log, seed)
    assert len(_kept(tasks)) == 60
    expected = [f"{a + s / 7!r},{a},{s}" for a in range(3) for s in range(10)]
    for stem in "ab":
        rows = (root / "figures" / "quick" / "demo" / f"{stem}.csv").read_text().splitlines()
        assert rows == ["value,a,seed", *expected], seed
    assert all(p["total"] == 30 and 0 < p["done"] <= 30 and p["left"] >= 0 for p in told), told


@pytest.mark.timeout(900)
def test_a_cluster_gives_the_csv_of_one_process_though_a_worker_is_killed_midway(tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask comes with the extra handful[distributed]")

    def sweeping(name):
        root, log = write_checkout(tmp_path / name, profiles_for("demo/a")), tmp_path / f"{name}.log"
        sweep = SWEEP.replace("LOG", repr(str(log))).replace("STEM {a} {seed}", "{os.getpid()}").replace("STEM", "a")
        record = saving("demo/a")[0].replace('(folder / "a.csv").write_text', "print")
        write_notebook(root, "demo/a", "import os, pathlib", sweep.replace("JOBS", "1"), record)
        return root, log, root / "figures" / "quick" / "demo" / "a.csv"

    root, log, alone = sweeping("alone")
    assert _run(root)["demo/a"].status == "done"
    root, log, there = sweeping("there")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        workers = {nanny.pid for nanny in cluster.workers.values()}
        runner = _start(root, "--dask", cluster.scheduler_address)
        try:
            _wait(lambda: runner.poll() is not None or (log.exists() and len(log.read_text().split()) > 8), 300)
            killed = int(log.read_text().split()[-1])
            os.kill(killed, signal.SIGKILL)
            output, _ = runner.communicate(timeout=300)
        finally:
            runner.kill()
    assert runner.returncode == 0, output
    assert killed in workers
    assert there.read_bytes() == alone.read_bytes()


def _nothing_is_lost_or_run_twice(kept, logged, tasks, log, seed):
    assert kept.items() <= _kept(tasks).items(), seed
    since = log.read_text().splitlines()[len(logged) :]
    assert not {" ".join(map(str, task)) for task, _ in kept.values()} & set(since), seed


def _kept(tasks):
    """Finished tasks: path -> ((notebook, a, seed), when it was written)."""
    found = {}
    for path in tasks.glob("*/[!.]*.json"):
        arguments = json.loads(path.read_text())["arguments"]
        found[path] = ((path.parent.name, arguments["a"], arguments["seed"]), path.stat().st_mtime_ns)
    return found


def test_a_sweeps_progress_is_told(checkout, tmp_path):
    go = tmp_path / "go"
    tell = (
        "import json, os; open(os.environ['HANDFUL_PROGRESS'], 'w').write(json.dumps(dict(done=12, total=40, left=9)))"
    )
    root = checkout(a=saving("demo/a", f"{tell}\n{WAIT}\nwait_for({str(go)!r})"))
    seen = []

    def watch(outcomes, active):
        seen.extend(progress for *_, progress in active)
        if seen and seen[-1]:
            go.touch()

    assert _run(root, watch=watch)["demo/a"].status == "done"
    assert seen[0] is None
    assert seen[-1] == {"done": 12, "total": 40, "left": 9}


def test_jobs_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        reproduce([], figures=tmp_path, jobs=0)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_a_stopped_run_keeps_what_had_finished_leaves_no_litter_and_resumes(checkout, tmp_path, how):
    kernel, go = tmp_path / "kernel", tmp_path / "go"
    mark = f"import os\npathlib.Path({str(kernel)!r} + '_').write_text(str(os.getpid()))\n"
    mark += f"os.replace({str(kernel)!r} + '_', {str(kernel)!r})"
    litter = tmp_path / "temporary"
    litter.mkdir()
    more = "import tempfile\ntempfile.mkdtemp()\n"
    slow = f"{WAIT}\n{more}\n{mark}\nwait_for({str(go)!r}, 300)"
    root = checkout(fast=saving("demo/fast"), slow=saving("demo/slow", slow), waiting=saving("demo/waiting"))
    runner = _start(root, TMPDIR=str(litter))
    try:
        _wait(lambda: kernel.exists() or runner.poll() is not None)
        pid = int(kernel.read_text())
        assert state_path(root / "figures", "quick", "demo/fast").is_file()
        runner.send_signal(how)
        output, _ = runner.communicate(timeout=60)
        _wait(lambda: not _alive(pid))
        _wait(lambda: not list(litter.iterdir()))
    finally:
        runner.kill()
    if how != signal.SIGKILL:
        assert runner.returncode == 130
        assert "1 done, 1 interrupted, 1 not started." in output
        assert "interrupted demo/slow" in output
        assert "not started demo/waiting" in output
    assert not state_path(root / "figures", "quick", "demo/slow").exists()

    go.touch()
    outcomes = _run(root, only=["demo/fast", "demo/slow"])
    assert {name: o.status for name, o in outcomes.items()} == {"demo/fast": "unchanged", "demo/slow": "done"}


def _start(root, *options, **environment):
    """`handful reproduce` as a process."""
    environment = {k: v for k, v in os.environ.items() if k != "HANDFUL_FIGURES"} | environment
    # what shells and nohup start may ignore Ctrl-C and SIGHUP; this runner is to hear them
    heard = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in heard.items()}
    try:
        command = [sys.executable, "-m", "handful.cli", "reproduce", *options]
        return subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
