"""The command `handful`, as a newcomer meets it."""

import sys

import pytest
from handful import cli
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
        (["readme"], "README.md"),
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


def test_outside_a_checkout_it_says_where_to_go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce"]) == 2
    assert "not inside a checkout of handful" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_without_the_extra_it_says_what_to_install(root, monkeypatch, capsys, command):
    monkeypatch.setitem(sys.modules, "papermill", None)
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None if name == "papermill" else object())
    assert cli.main([command]) == 2
    assert 'needs papermill: pip install "handful[reproduce]"' in capsys.readouterr().err


def test_help_names_the_commands_and_where_to_begin(capsys):
    assert cli.main([]) == 0
    overview = capsys.readouterr().out
    for word in ("reproduce", "report", "data", "to begin with", "--only fig06"):
        assert word in overview
    assert "readme" not in overview  # for maintainers
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
