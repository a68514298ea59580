"""`handful report --check`: each way in which a record may fail to vouch for what it shows is found."""

import json
import shutil
from pathlib import Path

import pytest
from handful_papers import check as check_module
from handful_papers.check import check, judge_all_records, stale

ROOT = Path(__file__).resolve().parents[2]
NAME = "laptop/bico/fig13_merge_reduce"


@pytest.fixture
def figures(tmp_path, monkeypatch):
    """One committed record of the project, by itself."""
    folder = tmp_path / "figures" / "laptop" / "bico"
    folder.mkdir(parents=True)
    for path in (ROOT / "figures" / "laptop" / "bico").glob("fig13_merge_reduce*"):
        shutil.copy(path, folder)
    one = [n for n in check_module.find_notebooks(ROOT / "notebooks") if n.name.endswith("fig13_merge_reduce")]
    monkeypatch.setattr(check_module, "find_notebooks", lambda folder: one)
    return tmp_path / "figures"


def _edit(folder, **changes):
    path = folder / f"{NAME}.json"
    record = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in record.items() if v != "gone"}))
    return record


def test_a_committed_record_passes(figures):
    assert check(figures, ROOT / "notebooks") == []


@pytest.mark.parametrize("column", ["seed", "weight"])  # the evidence takes one as rows["..."], the other as rows....
def test_judging_again_names_a_record_that_cannot_be_read_and_goes_on_with_the_others(figures, column):
    other = figures / "quick" / "bico"
    shutil.copytree(figures / "laptop" / "bico", other)
    record = json.loads((other / "fig13_merge_reduce.json").read_text()) | {"profile": "quick", "claims": []}
    (other / "fig13_merge_reduce.json").write_text(json.dumps(record))
    rows = figures / f"{NAME}.csv"
    header, rest = rows.read_text().split("\n", 1)
    rows.write_text(header.replace(column, "unknown") + "\n" + rest)
    changed, failed = judge_all_records(figures, ROOT / "notebooks")
    assert changed == ["quick/bico/fig13_merge_reduce"]
    assert [sentence.split(": its")[0] for sentence in failed] == [NAME]
    assert f"{NAME}.json: its claims cannot be judged" in "\n".join(check(figures, ROOT / "notebooks"))


def test_text_that_was_mended_after_the_run_is_missed_in_the_executed_copy_and_put_there(figures):
    copy = figures / f"{NAME}.ipynb"
    notebook = json.loads(copy.read_text())
    texts = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    before, texts[-1]["source"] = "".join(texts[-1]["source"]), "An older text."
    copy.write_text(json.dumps(notebook))
    wrong = [f"{NAME}.json: its executed notebook has an older text: handful report --judge"]
    assert check(figures, ROOT / "notebooks") == wrong
    assert judge_all_records(figures, ROOT / "notebooks") == ([NAME], [])
    assert check(figures, ROOT / "notebooks") == []
    mended = json.loads(copy.read_text())
    assert ["".join(c["source"]) for c in mended["cells"] if c["cell_type"] == "markdown"][-1] == before
    for cell, old in zip(mended["cells"], notebook["cells"]):  # what ran stays
        assert cell["cell_type"] == "markdown" or cell == old


# Made before their code was committed; a run at laptop empties this.
UNSTAMPED = set()


def test_all_committed_records_pass():
    wrong = check(ROOT / "figures", ROOT / "notebooks")
    allowed = {f"laptop/{name}.json: made by code that is in no commit" for name in UNSTAMPED}
    assert sorted(set(wrong) - allowed) == []
    assert allowed - set(wrong) == set(), "take it off the list"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"dirty": True}, "made by code that is in no commit"),
        ({"redrawn": {"commit": "abc", "dirty": True}}, "figures were drawn again by code that is in no commit"),
        ({"unreadable": ["fig13_merge_reduce: '1' lies over data"]}, "'1' lies over data"),
        ({"facts": "gone"}, "lacks facts"),
        ({"seconds": "long"}, "seconds is 'long', which is no"),
        ({"profile": "paper"}, "is of bico/fig13_merge_reduce at profile paper"),
        ({"claims": []}, "its claims are not what its rows give"),
        ({"figures": ["lost"]}, "lost.png is missing"),
    ],
)
def test_what_is_wrong_is_told(figures, changes, problem):
    _edit(figures, **changes)
    assert any(problem in sentence for sentence in check(figures, ROOT / "notebooks"))


def test_an_executed_notebook_that_is_missing_is_told(figures):
    (figures / f"{NAME}.ipynb").unlink()
    assert check(figures, ROOT / "notebooks") == [f"{NAME}.json: its executed notebook is missing"]


def test_rows_that_were_changed_are_told(figures):
    path = figures / f"{NAME}.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[: len(lines) // 2]) + "\n")
    assert any("claims" in sentence for sentence in check(figures, ROOT / "notebooks"))


def test_a_record_that_cannot_be_read_and_a_notebook_without_one_are_told(figures):
    (figures / f"{NAME}.json").write_text("{")
    assert "is no record" in "\n".join(check(figures, ROOT / "notebooks"))
    (figures / f"{NAME}.json").unlink()
    assert check(figures, ROOT / "notebooks") == ["bico/fig13_merge_reduce: no committed record"]


def test_a_changed_parameter_makes_a_record_stale(figures):
    record = _edit(figures)
    _edit(figures, parameters=record["parameters"] | {"n_seeds": 3})
    (found,) = stale(figures, ROOT / "notebooks")
    assert found.reason == "parameters n_seeds"
    assert found.minutes > 0
