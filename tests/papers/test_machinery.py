"""The machinery of the reproduction on a checkout of its own, with one tiny paper: run, fail,
resume, refuse, audit."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import handful_papers
import nbformat
import pandas as pd
import papermill
import pytest
from cells import run_handful
from handful_papers.provenance import to_json
from handful_papers.records import read_record
from handful_papers.run import check_gpu, minutes_left, plan
from handful_papers.tasks import part, run_task, workers
from handful_papers.verification import changed
from joblib import delayed

MODULE = """
import os
from pathlib import Path

def task(method, seed, n):
    Path(os.environ["CALLS"], f"{method} {seed} {os.getpid()}").touch()
    if os.environ.get("KILL") == str(seed):
        os._exit(9)
    return [{"value": n + seed + 0.25 * (method == "b"), "seconds": 1.0}]

def evidence(run):
    wide = run.rows.pivot(index="seed", columns="method", values="value")
    return {"demo-lead": (wide["b"] - wide["a"]).to_numpy()}
"""
PLAIN = """
def plain(seed, n):
    return [{"value": 10.0 * n + seed, "seconds": 1.0}]
"""
ENTRY = """
[[item]]
label = "Figure 1"
title = "A demonstration"
about = "Values of two methods"

[minutes]
quick = 0.1
laptop = 0.1
paper = 1

[expected]
keys = ["method", "seed"]
value = { rtol = 1e-6, reason = "sums" }
seconds = "wall time"

[[claim]]
id = "demo-lead"
text = "b leads"
measured = "lead of b"
unit = "points"
quote = "b is best"
where = "Section 1"
rule = { above = 0.0 }
"""
PARAMETERS = {"laptop": "n: 5\n", "paper": "n: 10\nn_seeds: 9\n"}
CELLS = [
    "n = 3  # points\nn_seeds = 3\nn_jobs = 1",
    "from handful_papers import Experiment\nfrom handful_papers.demo.fig import evidence, task\n"
    "from matplotlib.figure import Figure\nexp = Experiment('demo/fig', globals())\nexp.reductions",
    "settings = [{'method': m} for m in 'ab']\nrows = exp.sweep(task, settings, range(n_seeds), "
    "n_jobs=n_jobs, n=n)",
    "fig = Figure()\nfig.subplots().plot(rows.value)\nexp.save(rows, fig, evidence, "
    "caption='v')\nexp.claims_table()",
]
METADATA = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


class Checkout:
    """A checkout with the real machinery, one paper of two figures, one of which fails, and a way
    to run `handful`."""

    def __init__(self, root):
        self.root = root
        self.papers = root / "lib" / "handful_papers"
        self.calls = root / "calls"
        self.papers.mkdir(parents=True)
        self.calls.mkdir()
        for path in Path(handful_papers.__file__).parent.glob("*.*"):
            shutil.copy(path, self.papers)
        demo = self.papers / "demo"
        demo.mkdir()
        (demo / "__init__.py").touch()
        (demo / "paper.toml").write_text(
            'order = 1\ntitle = "Demo"\nsource = "us"\nabout = "a demo"\n'
        )
        (demo / "fig.py").write_text(MODULE)
        for name in ("fig", "bad"):
            (demo / f"{name}.toml").write_text(
                ENTRY if name == "fig" else ENTRY.split("[[claim]]")[0]
            )
            for profile, text in PARAMETERS.items():
                self.parameters(profile, text, name)
        self.notebook("bad", ["n = 3\nn_seeds = 3", "1 / 0"])
        self.notebook("fig", CELLS)
        (root / "tests" / "expected" / "demo").mkdir(parents=True)

    def notebook(self, name, cells):
        cells = [nbformat.v4.new_code_cell(source) for source in cells]
        cells[0].metadata["tags"] = ["parameters"]
        path = self.root / "notebooks" / "demo" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=METADATA), path)

    def parameters(self, profile, text, name="fig"):
        path = self.root / "profiles" / profile / "demo" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def environment(self):
        here = os.pathsep.join([str(self.papers.parent), os.environ.get("PYTHONPATH", "")])
        return {"CALLS": str(self.calls), "PYTHONPATH": here}

    def handful(self, *arguments, **more):
        return run_handful(
            self.papers.parent, arguments, self.environment() | more, self.root / "told"
        )

    def record(self, profile="quick"):
        return self.root / "figures" / profile / "demo" / "fig.json"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("checkout"))


@pytest.mark.timeout(600)
def test_a_failing_notebook_stops_no_other_and_records_stay_current_until_numbers_change(
    checkout,
):
    # The one run of the command itself; the others are forked from a process that has imported what
    # they need.
    command = [
        sys.executable,
        "-m",
        "handful.cli",
        "reproduce",
        "--profile",
        "laptop",
        "--jobs",
        "2",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | checkout.environment()
    )
    assert done.returncode == 1, done.stderr
    assert "demo/bad: failed, cell 3: ZeroDivisionError: division by zero" in done.stdout
    assert "demo/fig: done" in done.stdout
    assert "2 notebooks, 2 to run: about 0.1 min where nothing else runs." in done.stdout
    # after the first of the two
    assert done.stdout.count("min left") == 1
    record = read_record(checkout.record("laptop"))
    assert (record["profile"], record["parameters"]["n"], record["seeds"]) == (
        "laptop",
        5,
        [0, 1, 2],
    )
    assert record["reductions"] == ["n = 5 instead of 10", "n_seeds = 3 instead of 9"]
    [claim] = record["claims"]
    assert (claim["verdict"], claim["ours"], claim["seeds"]) == ("agrees", 0.25, 3)
    executed = checkout.record("laptop").with_suffix(".ipynb").read_text()
    assert "Other than in the paper: n = 5 instead of 10" in executed
    assert str(checkout.root) not in executed
    assert not (checkout.record("laptop").parent / ".tasks" / "fig").exists()

    again = checkout.handful("reproduce", "--profile", "laptop", "--only", "fig")
    assert again.returncode == 0
    assert "1 notebooks, 0 to run" in again.stdout
    assert set(record["files"]) == {"fig.csv", "fig.png", "fig.pdf", "fig.ipynb"}
    assert changed(checkout.record("laptop"), record) == []
    rows = checkout.record("laptop").with_suffix(".csv")
    ran = rows.read_bytes()
    rows.write_bytes(ran.replace(b"5.25", b"9.25"))
    checked = checkout.handful("report", "--check", "--judge")
    assert "demo/fig: fig.csv: not what the run left" in checked.stdout
    assert f"{rows} cannot be judged: it is not what the run left" in checked.stdout
    assert checked.returncode == 1
    rows.write_bytes(ran)
    expected = checkout.root / "tests" / "expected" / "demo" / "fig.csv"
    shutil.copy(checkout.record("laptop").with_suffix(".csv"), expected)
    checked = checkout.handful("report", "--check")
    assert "stale: its quick numbers moved" in checked.stdout
    assert checked.returncode == 1
    expected.unlink()

    entry = checkout.papers / "demo" / "fig.toml"
    entry.write_text(ENTRY.replace("above = 0.0", "above = 0.5"))
    checkout.parameters("laptop", "n: 6\n")
    ran = checkout.record("laptop").with_suffix(".ipynb").read_bytes()
    judged = checkout.handful("report", "--judge")
    assert "parameters n changed" in judged.stdout
    assert "judged anew: demo/fig at laptop" in judged.stdout
    assert read_record(checkout.record("laptop"))["claims"][0]["verdict"] == "disagrees"
    # it is what ran
    assert checkout.record("laptop").with_suffix(".ipynb").read_bytes() == ran
    entry.write_text(ENTRY)
    checkout.parameters("laptop", PARAMETERS["laptop"])


@pytest.mark.timeout(600)
def test_a_killed_sweep_goes_on_where_it_stopped(checkout):
    failed = checkout.handful("reproduce", "--only", "fig", KILL="2")
    assert failed.returncode == 1
    assert "demo/fig: failed" in failed.stdout
    before = {path.name for path in checkout.calls.iterdir() if path.name.startswith("a")}
    assert checkout.handful("reproduce", "--only", "fig").returncode == 0
    after = {path.name for path in checkout.calls.iterdir() if path.name.startswith("a")} - before
    assert {name[:3] for name in before} >= {"a 0", "a 1", "a 2"}
    assert {name[:3] for name in after} == {"a 2"}
    told = checkout.handful("report", "--profile", "quick").stdout
    assert told.splitlines()[-1].startswith(
        "Quick runs test the code; verdicts are those of profile laptop"
    )
    assert "agree" not in told
    assert pd.read_csv(checkout.record().with_suffix(".csv")).value.tolist() == [
        3,
        4,
        5,
        3.25,
        4.25,
        5.25,
    ]


@pytest.mark.timeout(600)
def test_papermill_runs_a_notebook_from_any_folder_and_touches_no_record(
    checkout, tmp_path, monkeypatch
):
    before = {
        path: path.read_bytes() for path in checkout.root.rglob("figures/**/*") if path.is_file()
    }
    notebook = str(checkout.root / "notebooks" / "demo" / "fig.ipynb")
    for name, value in checkout.environment().items():
        monkeypatch.setenv(name, value)
    given = {"n_seeds": 2, "n_jobs": 2}
    papermill.execute_notebook(
        notebook, tmp_path / "out.ipynb", given, cwd=tmp_path, progress_bar=False
    )
    record = read_record(tmp_path / "results" / "demo" / "fig.json")
    assert (record["profile"], record["seeds"]) == ("by hand", [0, 1])
    assert {
        path: path.read_bytes() for path in checkout.root.rglob("figures/**/*") if path.is_file()
    } == before


@pytest.mark.timeout(600)
def test_one_seed_and_a_run_again_leave_what_ran_and_a_misspelt_parameter_stops_it(
    checkout, tmp_path, monkeypatch
):
    notebook = checkout.root / "notebooks" / "demo" / "fig.ipynb"
    first = tmp_path / "first.ipynb"
    for name, value in checkout.environment().items():
        monkeypatch.setenv(name, value)

    def ran(source, target, given):
        papermill.execute_notebook(
            str(source), str(target), given, cwd=tmp_path, progress_bar=False
        )
        return read_record(tmp_path / "results" / "demo" / "fig.json")

    [claim] = ran(notebook, first, {"n_seeds": 1})["claims"]
    assert (claim["verdict"], claim["low"], claim["high"]) == ("cannot tell", None, None)
    again = ran(first, tmp_path / "second.ipynb", {"n": 7})["parameters"]
    assert (again["n"], again["n_seeds"]) == (7, 3)
    assert nbformat.read(tmp_path / "second.ipynb", as_version=4).metadata.papermill.parameters == {
        "n": 7
    }
    with pytest.raises(
        papermill.PapermillExecutionError, match=r"no parameter nseeds\. Did you mean n_seeds"
    ):
        ran(notebook, tmp_path / "third.ipynb", {"nseeds": 1})

    checkout.parameters("laptop", "n: 5\nn_seeds: 1\n")
    one = checkout.handful("reproduce", "--profile", "laptop", "--only", "fig", "--force")
    assert one.returncode == 0, one.stdout
    assert read_record(checkout.record("laptop"))["seeds"] == [0]
    checkout.parameters("laptop", PARAMETERS["laptop"])
    shutil.rmtree(checkout.record("laptop").parent)
    shutil.copy(first, notebook)
    refused = checkout.handful("reproduce", "--only", "fig")
    checkout.notebook("fig", CELLS)
    assert refused.returncode == 2
    assert "holds the parameters of an earlier run by papermill" in refused.stdout


@pytest.mark.timeout(600)
def test_an_audit_runs_recorded_tasks_again_and_tells_what_differs(checkout):
    if not checkout.record("laptop").is_file():
        checkout.handful("reproduce", "--profile", "laptop", "--only", "fig")
    made = read_record(checkout.record("laptop"))
    same = checkout.handful("audit", "--share", "0.5", "--only", "fig")
    assert "demo/fig at profile laptop: 3 rows as on record" in same.stdout, same.stdout
    assert same.returncode == 0
    before = checkout.record("laptop").read_bytes()
    audited = read_record(checkout.record("laptop"))
    if (known := audited.pop("audit", None)) is not None:
        assert (known["share"], known["worst"]) == (0.5, 0.0)
    assert audited == {key: value for key, value in made.items() if key != "audit"}
    (checkout.papers / "demo" / "fig.py").write_text(MODULE.replace("n + seed", "n + 1.001 * seed"))
    moved = checkout.handful("audit", "--share", "1", "--only", "fig")
    assert "value differs in 4 of 6 rows" in moved.stdout
    assert moved.returncode == 1
    assert checkout.record("laptop").read_bytes() == before
    (checkout.papers / "demo" / "fig.py").write_text("import lost")
    broken = checkout.handful("audit", "--only", "fig")
    assert "demo/fig at profile laptop: its tasks do not run: ModuleNotFoundError" in broken.stdout
    assert broken.returncode == 1
    (checkout.papers / "demo" / "fig.py").write_text(MODULE)


def in_history(checkout):
    """Commit a checkout to a history of its own; a function that commits what has changed since,
    and audits all tasks."""
    root = checkout.root

    def git(*arguments):
        names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "-C", root, *names, *arguments], check=True, capture_output=True)

    def audited():
        git("add", "--all")
        git("commit", "--quiet", "-m", "a change")
        done = checkout.handful("audit", "--share", "1", "--only", "fig")
        return done, read_record(checkout.record("laptop"))["audit"]

    (root / ".gitignore").write_text("__pycache__\ncalls\ntold*\n")
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "-m", "the code of the record")
    return audited


@pytest.mark.timeout(600)
def test_an_audit_tells_another_machine_from_other_code(tmp_path):
    """Rows on record that no code gives here are another machine's where the record's own code
    gives today's rows, and other code's where it does not."""
    checkout = Checkout(tmp_path)

    audited = in_history(checkout)
    made = checkout.handful("reproduce", "--profile", "laptop", "--only", "fig")
    assert made.returncode == 0, made.stdout
    rows = checkout.record("laptop").with_suffix(".csv")
    rows.write_text(rows.read_text().replace("\n6,", "\n6.03,"))

    done, kept = audited()
    assert "6 rows as the record's own code gives them here" in done.stdout, done.stdout
    assert done.returncode == 0
    assert kept["worst"] == pytest.approx(0.03 / 6.03)
    assert kept["own_code"] == 0.0

    (checkout.papers / "demo" / "fig.py").write_text(MODULE.replace("n + seed", "n + 1.001 * seed"))
    done, kept = audited()
    assert "value differs in 4 of 6 rows" in done.stdout, done.stdout
    assert done.returncode == 1
    assert kept["own_code"] == pytest.approx(0.002 / 7)


@pytest.mark.timeout(600)
def test_an_audit_compares_rows_that_a_notebook_completes_with_its_own_code_alone(tmp_path):
    """Rows without a key of the record would stand beside those of another sweep."""
    checkout = Checkout(tmp_path)
    module = MODULE + PLAIN
    (checkout.papers / "demo" / "fig.py").write_text(module)
    cells = [cell.replace("evidence, task", "evidence, plain, task") for cell in CELLS]
    cells[2] = (
        "import pandas as pd\n"
        + cells[2]
        + "\nplain_rows = exp.sweep(plain, [{}], range(n_seeds), n_jobs=n_jobs, n=n)"
        + "\nrows = pd.concat([rows, plain_rows.assign(method='c')])"
    )
    checkout.notebook("fig", cells)
    audited = in_history(checkout)
    made = checkout.handful("reproduce", "--profile", "laptop", "--only", "fig")
    assert made.returncode == 0, made.stdout

    done, kept = audited()
    assert "9 rows as the record's own code gives them here, 6 of them as on record" in done.stdout
    assert done.returncode == 0
    assert (kept["worst"], kept["own_code"]) == (0.0, 0.0)

    (checkout.papers / "demo" / "fig.py").write_text(module.replace("10.0 * n", "10.001 * n"))
    done, kept = audited()
    assert "value differs in 3 of 3 rows" in done.stdout, done.stdout
    assert done.returncode == 1
    assert kept["own_code"] == pytest.approx(0.005 / 50, rel=0.1)


@pytest.mark.timeout(600)
def test_an_audit_calls_the_functions_of_the_sweeps_and_does_not_run_their_notebook(checkout):
    if not checkout.record("laptop").is_file():
        checkout.handful("reproduce", "--profile", "laptop", "--only", "fig")
    [sweep] = read_record(checkout.record("laptop"))["sweeps"]
    assert sweep == {
        "function": "handful_papers.demo.fig:task",
        "settings": [{"method": "a"}, {"method": "b"}],
        "seeds": [0, 1, 2],
        "shared": {"n": 5},
    }
    checkout.notebook("fig", [CELLS[0], "1 / 0"])
    audited = checkout.handful("audit", "--share", "1", "--only", "fig")
    checkout.notebook("fig", CELLS)
    assert "demo/fig at profile laptop: 6 rows as on record" in audited.stdout
    # A record of before has no sweeps, and one without a sweep is the notebook's.
    text = checkout.record("laptop").read_text()
    record = json.loads(text)
    checkout.record("laptop").write_text(to_json(record | {"sweeps": []}))
    audited = checkout.handful("audit", "--only", "fig")
    assert "demo/fig at profile laptop: 6 rows as on record" in audited.stdout
    # One whose only sweep went into a summary is the notebook's, too.
    summed_up = {
        "function": "copy:copy",
        "settings": [{"x": [{"summary": 1.0}]}],
        "seeds": [None],
        "shared": {},
    }
    checkout.record("laptop").write_text(to_json(record | {"sweeps": [summed_up]}))
    audited = checkout.handful("audit", "--only", "fig")
    assert "demo/fig at profile laptop: 6 rows as on record" in audited.stdout
    del record["sweeps"]
    checkout.record("laptop").write_text(to_json(record))
    audited = checkout.handful("audit", "--only", "fig")
    assert "demo/fig at profile laptop: 6 rows as on record" in audited.stdout
    audited = checkout.handful("audit", "--only", "fig", "--minutes", "0")
    assert (
        "the record holds no sweep of its rows, and its notebook as a whole takes" in audited.stdout
    )
    checkout.record("laptop").write_text(text)


def test_a_damaged_record_or_notebook_is_named_and_the_others_are_shown(checkout):
    if not checkout.record("laptop").is_file():
        checkout.handful("reproduce", "--profile", "laptop", "--only", "fig")
    path = checkout.record("laptop")
    text = checkout.record("laptop").read_text()
    executed = path.with_suffix(".ipynb").read_text()
    path.write_text(text.replace('"agrees"', '"holds"').replace('"disagrees"', '"holds"'))
    path.with_suffix(".ipynb").write_text("")
    report = checkout.handful("report")
    assert f"Left out: {path} is no record" in report.stdout, report.stdout
    assert report.returncode == 0
    path.write_text(text)
    path.with_suffix(".ipynb").write_text(executed)
    assert json.loads(text)["item"] == "demo/fig"


@pytest.mark.parametrize("n_jobs", [1, 2, "dask"])
def test_tasks_give_the_same_in_this_process_in_others_and_on_dask(n_jobs):
    calls = [delayed(divmod)(i, 7) for i in range(20)]
    if n_jobs == "dask":
        distributed = pytest.importorskip("dask.distributed", reason="an optional extra")
        with (
            distributed.LocalCluster(
                n_workers=1, processes=False, dashboard_address=None
            ) as cluster,
            workers(1, cluster.scheduler_address) as run,
        ):
            found = list(run(iter(calls)))
    else:
        with workers(n_jobs) as run:
            found = list(run(iter(calls)))
    assert found == [divmod(i, 7) for i in range(20)]


def in_parts(folder, stop_at=None):
    """Rows and seconds of a task of three parts, as a sweep runs it; killed before a part, if
    `stop_at` names one."""
    made = []

    def compute(name):
        if name == stop_at:
            raise KeyboardInterrupt
        time.sleep(0.02)
        made.append(name)
        return name

    def task(n):
        return [{"part": part(name, lambda name=name: compute(name))} for name in "abc"]

    with contextlib.suppress(KeyboardInterrupt):
        return *run_task(task, {"n": 1}, [], str(folder))[:2], made
    return made


def test_a_killed_task_goes_on_after_its_last_part_and_counts_the_seconds_of_those_before(tmp_path):
    assert in_parts(tmp_path, stop_at="c") == ["a", "b"]
    rows, seconds, made = in_parts(tmp_path)
    assert (rows, made) == ([{"part": name} for name in "abc"], ["c"])
    assert seconds > 0.06
    # outside of a task nothing is kept
    assert part("a", lambda: "anew") == "anew"


def test_the_minutes_that_are_left_go_by_the_pace_of_what_has_run():
    assert minutes_left([], [2.0, 4.0], 1) == 6.0
    assert minutes_left([(0.5, 3.0)], [2.0, 4.0], 1) == 36.0
    assert minutes_left([(0.5, 3.0), (1.5, 1.0)], [2.0, 4.0], 2) == 6.0
    assert minutes_left([(0.5, 3.0)], [], 1) == 0.0


def test_profile_gpu_is_profile_paper_but_for_what_its_entry_says_and_is_refused_without_a_gpu(
    monkeypatch,
):
    (paper,) = plan("paper", ["bico/tab03"])
    (gpu,) = plan("gpu", ["bico/tab03"])
    assert gpu.parameters["device"] == "cuda"
    keys = {*paper.parameters, *gpu.parameters}
    differ = {key for key in keys if paper.parameters[key] != gpu.parameters[key]}
    assert differ == {"device", "methods_a_task"}
    assert {run.parameters["device"] for run in plan("gpu")} == {"cuda"}
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for only, told in (
        (["bico/fig08"], "needs a CUDA device"),
        (["fig06"], "is of bico/fig03_variants, "),
    ):
        with pytest.raises(ValueError, match=told):
            check_gpu(plan("gpu", only))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    check_gpu([gpu])
