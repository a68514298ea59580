"""The command `handful`, as a newcomer meets it. What runs notebooks is in
tests/papers/test_machinery.py."""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from handful import cli


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "--only", "nothing"], "no notebook matches 'nothing'"),
        (["audit", "--share", "0"], "--share must lie above 0"),
        (["data", "fetch", "no_such_set"], "no_such_set"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_a_status(capsys, arguments, message):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("handful: ")
    assert message in error
    assert "Traceback" not in error


def test_a_reader_that_went_away_and_a_closed_output_are_told_apart_from_success():
    command = [sys.executable, "-m", "handful.cli", "data"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        141,
        "handful: stopped, as nothing reads its output any more.\n",
    )
    closed = subprocess.run(
        ["bash", "-c", f"{' '.join(command)} >&-"], capture_output=True, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys, command):
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "papermill" else object()
    )
    assert cli.main([command]) == 2
    assert (
        'needs papermill: pip install -e ".[reproduce]" in the checkout' in capsys.readouterr().err
    )


def test_every_command_has_its_help(capsys):
    assert cli.main([]) == 0
    assert "reproduce" in capsys.readouterr().out
    for command in ("reproduce", "data", "report"):
        with pytest.raises(SystemExit) as done:
            cli.main([command, "--help"])
        assert done.value.code == 0


def test_data_lists_every_registered_set(capsys):
    from handful.data.registry import ENTRIES

    for arguments in (["data"], ["data", "list"]):
        assert cli.main(arguments) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in ENTRIES)


def test_an_installed_library_says_that_the_reproduction_needs_a_checkout(monkeypatch, capsys):
    def load():
        raise ModuleNotFoundError("No module named 'handful_papers'", name="handful_papers")

    monkeypatch.setattr(cli, "entry_points", lambda group: [SimpleNamespace(load=load)])
    for arguments in (
        ["reproduce", "--only", "fig06"],
        ["report", "--check"],
        ["audit", "--share", ".1"],
    ):
        assert cli.main(arguments) == 2
        assert "git clone the project" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["data", "--only", "fig06"])
    capsys.readouterr()
    assert cli.main([]) == 0
    assert cli.main(["completion", "bash"]) == 0
    shown = capsys.readouterr().out
    assert "data" in shown
    # `handful data list` is everybody's
    of_a_checkout = {*cli.REPRODUCTION, "papers", "fig06"} - {"list"}
    assert [word for word in of_a_checkout if word in shown] == []
    with pytest.raises(SystemExit):
        cli.main(["no-such-command"])
    assert "reproduce" not in capsys.readouterr().err


def test_the_commands_of_a_checkout_are_those_that_a_wheel_sends_there():
    [add_commands] = cli._adders()
    commands = argparse.ArgumentParser().add_subparsers()
    add_commands(commands)
    assert tuple(commands.choices) == cli.REPRODUCTION


def test_data_sets_are_listed_and_loaded_without_pandas(tmp_path):
    """As after a bare `pip install handful`; what a module on demand lacks is told, not looked for
    for ever."""
    (tmp_path / "pandas.py").write_text("raise ModuleNotFoundError(\"No module named 'pandas'\")")
    script = "import handful, handful.cli\nhandful.data.load('wine')\nhandful.cli.main(['data'])\n"
    script += "handful.data.loaders.status()"
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": _path(tmp_path)},
    )
    assert "wine " in run.stdout
    assert run.stderr.strip().endswith("No module named 'pandas'")


def _path(first):
    return os.pathsep.join([str(first), os.environ.get("PYTHONPATH", "")])


def test_the_page_of_the_commands_names_those_that_there_are():
    page = (Path(__file__).parents[1] / "docs" / "command_line.md").read_text(encoding="utf-8")
    told = {
        tuple(re.findall("[a-z]+", words))
        for words in re.findall(r"^\| `handful ([a-z ]+)", page, re.MULTILINE)
    }
    commands = _commands(cli._parser(cli._adders()))
    # as `data` alone
    data = {("data", action) for action in _commands(commands["data"])} - {("data", "list")}
    assert told == {(name,) for name in commands} | data


def _commands(parser):
    [action] = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    return action.choices


@pytest.mark.parametrize("command", [["data"], ["data", "fetch", "a9a"]])
def test_a_folder_of_data_that_is_not_there_is_one_sentence(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HANDFUL_DATA", str(tmp_path / "nowhere"))
    assert cli.main(command) == 2
    assert "nowhere', which is not a folder" in capsys.readouterr().err
