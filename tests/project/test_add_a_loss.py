"""The page *Add a loss*: its code runs, prints what it says, and shows the base classes as they
are."""

import ast
import re
from inspect import signature
from pathlib import Path

import handful.models.links
from handful.models import Problem

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "add_a_loss.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_pages_code_runs_and_prints_what_it_says(capsys):
    names = {}
    for number, code in enumerate(blocks("python")):
        exec(compile(code, f"docs/add_a_loss.md, block {number}", "exec"), names)
    assert capsys.readouterr().out == "".join(blocks("text"))


def test_the_base_classes_are_shown_as_they_are():
    bases = {"Link": handful.models.links.Link, "Problem": Problem}
    shown = [ast.parse(code).body[0] for code in blocks("py")]
    assert {one.name for one in shown} == set(bases)
    for one in shown:
        for method in one.body:
            own = signature(getattr(bases[one.name], method.name))
            assert [argument.arg for argument in method.args.args] == list(own.parameters)
