"""Every notebook runs at profile quick and leaves the numbers in tests/expected/ (see the README there)."""

import json
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from handful_papers.catalogue import catalogue
from handful_papers.notebooks import NotebookError, find_notebooks, lint, plan, read_notebook
from handful_papers.redraw import drawing, redraw
from handful_papers.runner import reproduce

ROOT = Path(__file__).resolve().parents[1]
EXPECTED = ROOT / "tests" / "expected"


def _names():
    try:
        return [n.name for n in find_notebooks(ROOT / "notebooks")]
    except NotebookError:
        return []  # test_there_are_notebooks says so


NAMES = _names()


def test_there_are_notebooks_with_clean_sources():
    assert NAMES
    assert lint(ROOT / "notebooks") == []


def test_every_notebook_is_in_the_catalogue_and_every_entry_is_there():
    listed = {item.name for paper in catalogue() for item in paper.items}
    assert listed == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_of_contents_names_the_notebook(name):
    assert name.split("/")[1] in (ROOT / "notebooks" / "index.ipynb").read_text(encoding="utf-8")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_at_quick_and_leaves_the_expected_numbers(name, tmp_path):
    (run,) = plan(ROOT / "notebooks", "quick", [name])
    (outcome,) = reproduce([run], figures=tmp_path)
    problem = outcome.error or {}
    assert outcome.status == "done", f"cell {problem.get('cell')}: {problem.get('error')}\n{problem.get('traceback')}"
    assert compare(pd.read_csv(tmp_path / "quick" / f"{name}.csv"), EXPECTED / name) == []
    record = tmp_path / "quick" / f"{name}.json"
    assert json.loads(record.read_text())["unreadable"] == []
    assert moved_pictures(record, run) == []


def moved_pictures(record, run):
    """The pictures of a record that come out otherwise when they are drawn again from its rows."""
    before = {path.stem: plt.imread(path) for path in record.parent.glob("*.png")}
    after = {name: plt.imread(record.with_name(f"{name}.png")) for name in redraw(record, run)}
    # Rows are saved with ten digits, which can move the edge of a line by a shade.
    return [name for name in after if not _alike(before[name], after[name])]


def _alike(one, other):
    return one.shape == other.shape and (np.abs(one - other).max(axis=2) > 0.1).mean() < 0.001


@pytest.mark.parametrize("name", NAMES)
def test_cells_that_draw_figures_read_rows_parameters_and_imports_alone(name):
    plan = drawing(read_notebook(ROOT / "notebooks" / f"{name}.ipynb"))
    assert plan is None or (plan.figures and plan.missing == [])


def compare(rows, expected):
    """What differs between rows and the expected ones, as a list of sentences.

    Parameters
    ----------
    rows : pandas.DataFrame
    expected : path without suffix of the expected .csv and the .toml of rules
    """
    if not expected.with_suffix(".csv").is_file():
        return [f"no expected numbers: python tests/expected/update.py {expected.parent.name}/{expected.name}"]
    reference = pd.read_csv(expected.with_suffix(".csv"))
    rules = tomllib.loads(expected.with_suffix(".toml").read_text(encoding="utf-8"))
    keys, columns, ignored = rules.get("keys", []), rules.get("columns", {}), rules.get("ignore", {})
    ruled = [*keys, *columns, *ignored]
    problems = [f"the rule for {c} gives no reason" for c, r in columns.items() if not r.get("reason")]
    problems += [f"{c} is ignored without a reason" for c, reason in ignored.items() if not reason]
    if sorted(ruled) != sorted(rows.columns) or list(rows.columns) != list(reference.columns):
        return [*problems, f"columns differ: {list(rows)}, expected {list(reference)}, rules for {ruled}"]
    if len(rows) != len(reference):
        return [*problems, f"{len(rows)} rows, expected {len(reference)}"]
    for key in keys:
        if not rows[key].equals(reference[key]):
            at = int((rows[key] != reference[key]).idxmax())
            problems.append(f"{key} differs, first in row {at}: {rows[key][at]!r}, expected {reference[key][at]!r}")
    for column, rule in columns.items():
        ours, theirs = rows[column].to_numpy(float), reference[column].to_numpy(float)
        close = np.isclose(ours, theirs, rtol=rule.get("rtol", 0), atol=rule.get("atol", 0), equal_nan=True)
        if (~close).mean() > rule.get("off", 0.0):
            worst = int(np.nanargmax(np.where(close, -1, np.abs(ours - theirs))))
            problems.append(
                f"{column} differs in {(~close).sum()} of {len(rows)} rows, most in row {worst}: "
                f"{ours[worst]}, expected {theirs[worst]}"
            )
    return problems


# --- the comparison itself


@pytest.fixture
def expected(tmp_path):
    rows = pd.DataFrame({"method": ["a", "b"], "accuracy": [0.5, 0.75], "seconds": [1.0, 2.0]})
    rows.to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "x.toml").write_text(
        'keys = ["method"]\n[columns.accuracy]\natol = 0.01\nreason = "one point"\n[ignore]\nseconds = "wall time"\n'
    )
    return rows, tmp_path / "x"


def test_equal_numbers_pass_whatever_the_times(expected):
    rows, path = expected
    assert compare(rows.assign(seconds=9.0, accuracy=rows["accuracy"] + 0.009), path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracy": [0.5, 0.77]}, "accuracy differs in 1 of 2 rows, most in row 1"),
        ({"accuracy": [0.5, np.nan]}, "accuracy differs in 1"),
        ({"method": ["a", "c"]}, "method differs, first in row 1"),
        ({"extra": [1, 2]}, "columns differ"),
    ],
)
def test_a_moved_number_is_told(expected, change, message):
    rows, path = expected
    assert message in "\n".join(compare(rows.assign(**change), path))


def test_a_share_of_rows_may_be_off_where_the_rule_says_so(expected):
    rows, path = expected
    moved = rows.assign(accuracy=[0.5, 0.9])
    for share, problems in ((0.4, 1), (0.5, 0)):
        rules = path.with_suffix(".toml").read_text().replace("atol = 0.01", f"atol = 0.01\noff = {share}")
        path.with_name("x.toml").write_text(rules)
        assert len(compare(moved, path)) == problems
        path.with_name("x.toml").write_text(rules.replace(f"off = {share}\n", ""))


def test_missing_rows_files_and_reasons_are_told(expected):
    rows, path = expected
    assert "1 rows, expected 2" in "\n".join(compare(rows[:1], path))
    assert "update.py" in compare(rows, path.with_name("y"))[0]
    path.with_suffix(".toml").write_text(path.with_suffix(".toml").read_text().replace("one point", ""))
    assert "gives no reason" in compare(rows, path)[0]
