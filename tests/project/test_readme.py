"""The README's promises: short, its examples run as they stand, offline, and print what it
shows."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short_and_its_first_code_comes_early():
    assert len(README.splitlines()) <= 150
    assert len(README.split()) <= 1500
    assert len(README.partition("```")[0].split()) <= 80


def test_the_examples_run_offline_and_print_what_is_shown(monkeypatch):
    """All blocks share one namespace, as if a reader had pasted them one after the other."""
    pytest.importorskip("pandas")
    monkeypatch.setattr("requests.sessions.Session.request", _no_network)
    names = {}
    blocks = re.findall(r"```(python|text)\n(.*?)```", README, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    for (_, code), (_, shown) in zip(blocks[::2], blocks[1::2]):
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "README.md", "exec"), names)
        ours = _tokens(printed.getvalue())
        theirs = _tokens(shown)
        assert len(ours) == len(theirs), printed.getvalue()
        assert [pair for pair in zip(ours, theirs) if not _alike(*pair)] == [], printed.getvalue()


def test_first_steps_go_on_where_the_example_stops(tmp_path, monkeypatch):
    """The page's blocks run after the README's first, in its names, and print what is shown."""
    monkeypatch.chdir(tmp_path)
    names = {}
    page = (ROOT / "docs" / "start" / "first_steps.md").read_text(encoding="utf-8")
    with redirect_stdout(io.StringIO()):
        exec(
            compile(re.search(r"```python\n(.*?)```", README, re.DOTALL)[1], "README.md", "exec"),
            names,
        )
    blocks = re.findall(r"```(python|text)\n(.*?)```", page, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "text"] * 3
    for (_, code), (_, shown) in zip(blocks[::2], blocks[1::2]):
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "first_steps.md", "exec"), names)
        ours = _tokens(printed.getvalue())
        theirs = _tokens(shown)
        assert len(ours) == len(theirs)
        assert [pair for pair in zip(ours, theirs) if not _alike(*pair)] == []


def test_its_speeds_are_those_of_the_table():
    table = (ROOT / "benchmarks" / "results" / "peers.md").read_text(encoding="utf-8")
    ratios = [float(x) for x in re.findall(r"\| ([\d.]+) \| x its CPU seconds", table)]
    said = re.findall(r" (\d+\.\d+)", README.partition("## Speed")[2].partition("\n## ")[0])
    assert said
    assert set(said) <= {f"{ratio:.{digits}f}" for ratio in ratios for digits in (1, 2)}


def test_the_tally_of_claims_is_that_of_the_records():
    """Between its marks stands what `handful report` prints last, with names of claims as code."""
    site = pytest.importorskip("handful_papers.site")
    told = README.partition("<!-- tally: begin -->")[2].partition("<!-- tally: end -->")[0]
    assert " ".join(told.replace("`", "").split()) == site.summary(site.item_rows()[0])


def test_both_tables_of_methods_have_one_order():
    longer = (ROOT / "docs" / "start" / "which_method.md").read_text(encoding="utf-8")
    short, rows = (_first_cells(text) for text in (README.partition("## Which method")[2], longer))
    assert [row for row in rows if row in short] == short


def _first_cells(text):
    return re.findall(
        r"^\| ([^|]+?) \|", text.partition("|---|---|\n")[2].partition("\n\n")[0], re.MULTILINE
    )


def _no_network(*_, **__):
    raise AssertionError("an example of the README asks the network")


def _tokens(text):
    """Words and numbers of a table; of `compare`'s without what depends on the clock: seconds,
    break-even, controls."""
    lines = text.strip().splitlines()
    if "(s)" in text:
        rows = [
            line.replace(" fit ", " fit")
            for line in lines
            if not line.startswith(("best of draws", "more uniform"))
        ]
        words = [line.split() for line in rows]
        return [
            token
            for line in words
            for token in (line[:-4] + line[-1:] if line[-1].isdigit() else line)
        ]
    lines = [line.split() for line in lines]
    return [token for line in lines for token in line]


def _alike(a, b):
    try:
        return bool(
            np.isclose(float(a.replace(",", "")), float(b.replace(",", "")), rtol=0.03, atol=0.003)
        )
    except ValueError:
        return a == b
