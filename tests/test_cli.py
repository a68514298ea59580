"""The command `handful`, as a newcomer meets it."""

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import pytest
from handful import cli
from handful_papers import progress
from handful_papers.notebooks import plan
from tiny_notebooks import profiles_for, saving, write_checkout, write_notebook


@pytest.fixture
def root(tmp_path, monkeypatch):
    write_checkout(tmp_path, profiles_for("demo/a", "demo/bad"))
    write_notebook(tmp_path, "demo/a", *saving("demo/a"))
    write_notebook(tmp_path, "demo/bad", "1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HANDFUL_FIGURES", raising=False)
    return tmp_path


def test_reproduce_tells_what_ran_what_failed_where_and_where_the_report_is(root, capsys):
    assert cli.main(["reproduce"]) == 1
    out = capsys.readouterr().out
    assert "Profile quick: 2 notebooks" in out
    assert out.index("started     demo/a") < out.index("done        demo/a") < out.index("started     demo/bad")
    assert "failed      demo/bad" in out
    assert "1 done, 1 failed." in out
    assert "demo/bad failed, cell 3: ZeroDivisionError: division by zero" in out
    assert "----> 1 1 / 0" in out
    assert f"Report: {root / 'figures' / 'index.html'}" in out
    assert "Verdicts at profile quick: these notebooks make no claims. See the report." in out
    page = (root / "figures" / "index.html").read_text()
    assert "ZeroDivisionError" in page

    assert cli.main(["reproduce", "--only", "demo/a"]) == 0
    assert "unchanged   demo/a" in capsys.readouterr().out
    assert cli.main(["report"]) == 0
    assert "index.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "--only", "nothing"], "no notebook matches 'nothing'"),
        (["readme"], "index.ipynb"),
        (["data", "fetch", "no_such_set"], "no_such_set"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_a_status(root, capsys, arguments, message):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("handful: ")
    assert message in error
    assert "Traceback" not in error


def test_an_unknown_parameter_stops_before_anything_runs(root, capsys):
    write_checkout(root, profiles_for("demo/a") + '["demo/bad"]\nquick = { minutes = 1, typo = 2 }\n')
    assert cli.main(["reproduce"]) == 2
    assert "unknown parameter typo" in capsys.readouterr().err
    assert not (root / "figures").exists()


def test_results_that_cannot_be_written_are_told_for_each_notebook_and_counted(root, monkeypatch, capsys):
    monkeypatch.setenv("HANDFUL_FIGURES", "/dev/null/x")
    assert cli.main(["reproduce"]) == 1
    out, err = capsys.readouterr()
    assert "2 failed." in out
    assert "demo/a failed: it cannot start: [Errno 20] Not a directory: '/dev/null/x/quick/demo/.state" in out
    assert err.startswith("handful: the report cannot be written: [Errno 20]")


def test_a_record_that_is_not_whole_is_named_and_left_out_of_the_report(root, capsys):
    record = root / "figures" / "quick" / "demo" / "a.json"
    record.parent.mkdir(parents=True)
    record.write_text("[]")
    assert cli.main(["report"]) == 0
    assert f"Left out of the report: {record} is no record of results" in capsys.readouterr().out


def test_the_progress_line_tells_the_sweeps_tasks_and_who_has_the_turn(root, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (run,) = plan(root / "notebooks", "quick", ["demo/a"])
    with progress.Progress([run], 10) as shown:
        shown.show([], [(run, 65.0, {"done": 12, "total": 40, "left": 200.4})])
        shown.show([], [(run, None, None)])
    shown = capsys.readouterr().err
    assert "demo/a 1:05 of 0:06, 12/40 tasks, 3:20 left" in shown
    assert "demo/a waits for another process" in shown


def test_the_time_left_is_what_remains_at_the_pace_so_far():
    a, b, c = (SimpleNamespace(name=name, minutes=minutes) for name, minutes in [("a", 2.0), ("b", 4.0), ("c", 6.0)])
    assert progress.seconds_left([a, b, c], [], []) == 12 * 60
    half_as_fast = [SimpleNamespace(run=a, status="done", seconds=240.0)]
    assert progress.seconds_left([a, b, c], half_as_fast, []) == 2 * (4 + 6) * 60
    assert progress.seconds_left([a, b, c], half_as_fast, [(b, 100.0, None)]) == 2 * (4 + 6) * 60 - 100
    assert progress.seconds_left([a, b, c], half_as_fast, [(b, 9e9, None)]) == 2 * 6 * 60
    assert progress.seconds_left([a, b, c], half_as_fast, [(b, 9e9, {"left": 30.0})]) == 2 * 6 * 60 + 30
    assert progress.seconds_left([a, b, c], half_as_fast, [], jobs=2) == (4 + 6) * 60
    unchanged = [SimpleNamespace(run=a, status="unchanged", seconds=9e9)]
    assert progress.seconds_left([a, b], unchanged, []) == 4 * 60


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_commands_and_their_options(capsys, shell):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("reproduce", "--profile", "fetch", "--dry-run"):
        assert word.strip("-") in script


def test_bash_takes_the_completion(capsys, tmp_path):
    assert cli.main(["completion", "bash"]) == 0
    script = tmp_path / "handful.bash"
    script.write_text(capsys.readouterr().out)
    asked = f'source {script}; COMP_WORDS=(handful rep); COMP_CWORD=1; _shtab_handful; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True)
    assert {"reproduce", "report"} <= set(done.stdout.split()), done.stderr


@pytest.mark.parametrize("factor", ["0", "-1", "nan", "ten"])
def test_the_limit_is_a_positive_number_and_shown(root, capsys, factor):
    assert cli.main(["reproduce", "--dry-run", "--limit", "2.5"]) == 0
    assert "0.1 min, at most 2.5" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["reproduce", "--limit", factor])
    assert f"argument --limit: must be a number above 0, got '{factor}'" in capsys.readouterr().err


def test_outside_a_checkout_it_says_where_to_go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce"]) == 2
    assert "not inside a checkout of handful" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_without_the_extra_it_says_what_to_install(root, monkeypatch, capsys, command):
    monkeypatch.setitem(sys.modules, "papermill", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "papermill" else object())
    assert cli.main([command]) == 2
    assert 'needs papermill: pip install -e ".[reproduce]" in the checkout' in capsys.readouterr().err


def test_help_names_the_commands_and_where_to_begin(capsys):
    assert cli.main([]) == 0
    overview = capsys.readouterr().out
    for word in ("reproduce", "report", "readme", "data", "to begin with", "--only fig06"):
        assert word in overview
    for command in ("reproduce", "data", "report"):
        with pytest.raises(SystemExit) as done:
            cli.main([command, "--help"])
        assert done.value.code == 0


@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_jobs_is_a_positive_number(root, capsys, jobs):
    with pytest.raises(SystemExit) as done:
        cli.main(["reproduce", "--jobs", jobs])
    assert done.value.code == 2
    assert f"argument --jobs: must be an integer of at least 1, got '{jobs}'" in capsys.readouterr().err


def test_version_is_the_packages(capsys):
    from importlib.metadata import version

    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.strip() == f"handful {version('handful')}"


def test_data_lists_every_registered_set(capsys):
    from handful.data.registry import ENTRIES

    for arguments in (["data"], ["data", "list"]):
        assert cli.main(arguments) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in ENTRIES)


def test_one_parameter_is_changed_without_touching_a_profiles_record(root, capsys, tmp_path):
    out = tmp_path / "mine"
    assert cli.main(["run", "demo/a", "-p", "n=7", "--out", str(out)]) == 0
    assert '"n": 7' in (out / "quick" / "demo" / "a.json").read_text()
    assert not (root / "figures").exists()
    capsys.readouterr()
    for arguments, message in [
        (["demo/a", "-p", "m=7", "--out", str(out)], "one of n, seed; got 'm=7'"),
        (["demo/a", "-p", "n=many", "--out", str(out)], "n is 3 in the notebook, of type int; got 'many'"),
        (["demo", "--out", str(out)], "names 2 notebooks: demo/a, demo/bad"),
        (["demo/a", "--out", str(root / "figures" / "quick")], "among the profiles' results"),
    ]:
        assert cli.main(["run", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_a_dry_run_and_the_list_run_nothing(root, capsys):
    assert cli.main(["reproduce", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "2 of them to run" in out
    assert "demo/bad" in out
    assert cli.main(["list"]) == 0
    assert "to run" in capsys.readouterr().out
    assert not (root / "figures").exists()


def test_the_list_of_one_notebook_tells_its_parameters_so_that_run_can_be_given_them(root, capsys, tmp_path):
    cell = 'profile = "quick"\n# of the sweep,\n# in rows\nsizes = [\n    1,\n]\nn = 3  # points\n'
    cell += 'more = {\n    "l2": 0.5,  # a penalty\n    "kind": "#1",\n}  # options\nseed = 0\n'
    write_notebook(root, "demo/a", *saving("demo/a"), parameters=cell)
    assert cli.main(["list", "demo/a"]) == 0
    out = capsys.readouterr().out
    row, *blocks, last = out.strip().split("\n\n")
    assert "demo/a" in row
    assert blocks == [
        "sizes: of the sweep, in rows\n    all profiles [1]",
        "n: points\n    quick   3\n    laptop  5\n    paper   10",
        "more: l2: a penalty; options\n    all profiles {'l2': 0.5, 'kind': '#1'}",
        "seed\n    all profiles 0",
    ]
    assert "handful run demo/a -p" in last
    shown = {block.split(":")[0]: block.rpartition("all profiles ")[2] for block in (blocks[0], blocks[2])}
    changes = [f"-p{name}={value}" for name, value in shown.items()]
    assert cli.main(["run", "demo/a", *changes, "--out", str(tmp_path / "mine")]) == 0
    capsys.readouterr()
    assert cli.main(["list", "demo"]) == 0
    first, second, _, hint = capsys.readouterr().out.splitlines()
    assert first.startswith("demo/a")
    assert second.startswith("demo/")
    assert hint.endswith("handful list demo/a")
    assert cli.main(["list", "nothing"]) == 2
    assert "no notebook matches 'nothing'" in capsys.readouterr().err


def test_an_installed_library_says_that_the_reproduction_needs_a_checkout(monkeypatch, capsys):
    def load():
        raise ModuleNotFoundError("No module named 'handful_papers'", name="handful_papers")

    monkeypatch.setattr(cli, "entry_points", lambda group: [SimpleNamespace(load=load)])
    for arguments in (["reproduce", "--only", "fig06"], ["report", "--check"], ["run", "fig06", "-p", "n=3"]):
        assert cli.main(arguments) == 2
        assert "git clone the project" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["data", "--only", "fig06"])
