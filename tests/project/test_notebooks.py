"""Every notebook runs at profile quick and leaves the numbers in tests/expected/ (see the README
there)."""

import json
import shutil

import pandas as pd
import pytest
from cells import run_cells
from handful_papers.audit import _beside_own, _comparable, _compared
from handful_papers.claims import PROFILES
from handful_papers.committed import FIGURES
from handful_papers.entries import GPU, PROFILES_FOLDER, ROOT, figure_entry, names
from handful_papers.expected import at_equal_keys, by_column, compare, largest_difference
from handful_papers.parameters import NOTEBOOKS, cell_parameters
from handful_papers.records import read_record
from handful_papers.run import plan
from papermill.iorw import read_yaml_file

EXPECTED = ROOT / "tests" / "expected"
NAMES = names()
# Begun first, so that no process ends the suite alone with a long one: half a minute or more on a
# quiet core.
LONG = [
    "bico/tab07_few_labels",
    "bico/fig12_dictionary",
    "svm/bounds_printed_tight_true",
    "bico/fig08_networks",
    "bico/fig10_active_learning",
    "svm/fig04_sensitivities",
]
# So many seeds are run of those that take long; the others would go the same way. Their expected
# rows stay, and so do their records, which hang on them.
FIRST_SEEDS = {
    "bico/fig02_imbalanced_stream": 1,
    "bico/fig03_variants": 1,
    "bico/fig04_gmm_selection": 1,
    "bico/fig05_gmm_error": 1,
    "bico/fig06_binary_logistic": 1,
    "bico/fig07_multiclass": 1,
    "bico/fig08_networks": 1,
    "bico/fig10_active_learning": 1,
    "bico/tab03_continual": 1,
    "bico/tab04_vcl": 1,
    "bico/tab05_streaming": 1,
    "bico/tab07_few_labels": 1,
    "bico/tab09_memory_sizes": 1,
    "bico/tab10_proxies": 1,
    "own/beyond_memory": 1,
    "svm/fig01_offline_error": 4,
    "vrm/fig02_blobs": 3,
    "vrm/fig02_kdpp": 1,
}


def test_each_notebook_has_its_entry_its_expected_numbers_and_a_link_in_the_index():
    notebooks = {f"{path.parent.name}/{path.stem}" for path in NOTEBOOKS.glob("*/*.ipynb")}
    expected = {f"{path.parent.name}/{path.stem}" for path in EXPECTED.glob("*/*.csv")}
    assert set(NAMES) == notebooks == expected
    index = (NOTEBOOKS / "index.ipynb").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"({name}.ipynb)" not in index] == []


def lint(name):
    """What is wrong with a notebook's source and its figure's entry: a list of sentences."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    wrong = []
    if any(c.get("outputs") or c.get("execution_count") for c in code):
        wrong.append("has outputs; strip them: nbstripout")
    if (lines := sum(len("".join(c["source"]).splitlines()) for c in code)) > 200:
        wrong.append(f"{lines} lines of code, more than 200; move some to the figure's module")
    runs = {profile: plan(profile, [name])[0] for profile in PROFILES}
    if runs["quick"].given:
        wrong.append("the cell holds the quick values: profile quick has no file of parameters")
    if lost := sorted(
        set(runs["laptop"].given) - set(runs["paper"].given) - {"n_jobs", "show", "device"}
    ):
        wrong.append(f"profile paper does not say its {', '.join(lost)}")
    return [f"{name}: {sentence}" for sentence in wrong]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebooks_source_is_clean_and_its_profiles_fit(name):
    assert lint(name) == []


def test_each_file_of_a_profile_belongs_to_a_figure_and_papermill_reads_it_as_we_do():
    files = {
        path.relative_to(PROFILES_FOLDER).with_suffix("").as_posix(): path
        for path in PROFILES_FOLDER.rglob("*.*")
    }
    runs = [run for profile in (*PROFILES, GPU) for run in plan(profile) if run.given]
    assert set(files) == {f"{run.profile}/{run.name}" for run in runs}
    for run in runs:
        assert read_yaml_file(str(files[f"{run.profile}/{run.name}"])) == run.given


def code_cells(name):
    """The sources of a notebook's cells, which run the first seeds only where it takes long."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in code]
    if name in FIRST_SEEDS:
        tagged = ["parameters" in cell["metadata"].get("tags", []) for cell in code]
        sources.insert(tagged.index(True) + 1, f"n_seeds = {FIRST_SEEDS[name]}")
    return sources


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", sorted(NAMES, key=lambda name: name not in LONG))
def test_a_notebook_runs_at_quick_and_leaves_the_expected_numbers(name, tmp_path):
    folder = tmp_path / "quick"
    folder.mkdir()
    run_cells(code_cells(name), NOTEBOOKS / name.split("/")[0], folder)
    assert read_record(folder / f"{name}.json")["profile"] == "quick"
    rows = pd.read_csv(folder / f"{name}.csv")
    expected = pd.read_csv(EXPECTED / f"{name}.csv")
    if name in FIRST_SEEDS:
        expected = expected[expected.seed < FIRST_SEEDS[name]].reset_index(drop=True)
    assert compare(rows, expected, figure_entry(name)["expected"]) == []


@pytest.mark.parametrize(
    "name", [name for name in NAMES if (FIGURES / "laptop" / f"{name}.ipynb").is_file()]
)
def test_a_committed_executed_notebook_holds_its_title_figure(name):
    path = FIGURES / "laptop" / f"{name}.ipynb"
    cells = [
        c
        for c in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if "figure" in c["metadata"].get("tags", [])
    ]
    pictured = [
        c for c in cells if any("image/png" in output.get("data", {}) for output in c["outputs"])
    ]
    assert pictured or not cells


# --- the comparison itself

ROWS = pd.DataFrame({"method": ["a", "b"], "accuracy": [0.5, 0.75], "seconds": [1.0, 2.0]})
RULES = {
    "keys": ["method"],
    "accuracy": {"atol": 0.01, "reason": "one point"},
    "seconds": "wall time",
}


def test_equal_numbers_pass_whatever_the_times():
    assert compare(ROWS.assign(seconds=9.0, accuracy=ROWS["accuracy"] + 0.009), ROWS, RULES) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracy": [0.5, 0.77]}, "accuracy differs in 1 of 2 rows, most in row 1"),
        ({"accuracy": [0.5, float("nan")]}, "accuracy differs in 1"),
        ({"method": ["a", "c"]}, "method differs, first in row 1"),
        ({"extra": [1, 2]}, "columns differ"),
    ],
)
def test_a_moved_number_is_told(change, message):
    assert message in "\n".join(compare(ROWS.assign(**change), ROWS, RULES))


def test_a_pattern_rules_columns_that_have_no_rule_of_their_own_and_seconds_need_none():
    rows = ROWS.drop(columns="seconds").assign(
        train_seconds=1.0, **{"weight a": 1.0, "weight b": 1.0}
    )
    rules = {
        "keys": ["method"],
        "accuracy": RULES["accuracy"],
        "weight *": "noise",
        "weight b": RULES["accuracy"],
    }
    assert by_column(rules, rows) == {
        "train_seconds": "time",
        "weight a": "noise",
    } | dict.fromkeys(["accuracy", "weight b"], RULES["accuracy"])
    assert compare(rows.assign(**{"train_seconds": 9.0, "weight a": 2.0}), rows, rules) == []
    assert "weight b differs" in compare(rows.assign(**{"weight b": 2.0}), rows, rules)[0]
    assert "columns differ" in compare(rows, rows, rules | {"bias *": "noise"})[0]


def test_missing_rows_and_reasons_are_told():
    assert "1 rows, expected 2" in "\n".join(compare(ROWS[:1], ROWS, RULES))
    assert "gives no reason" in compare(ROWS, ROWS, RULES | {"accuracy": {"atol": 1}})[0]


@pytest.mark.parametrize(("off", "differ"), [(1e-4, True), (1e-8, False)])
def test_an_audit_compares_the_rows_that_are_on_record_and_no_others(off, differ):
    ours = pd.DataFrame(
        {
            "method": ["b", "new"],
            "accuracy": [0.75 + off, 0.1],
            "seconds": [7.0, 7.0],
            "extra": [0, 0],
        }
    )
    mine, theirs, rules = at_equal_keys(ours, ROWS, RULES)
    assert (len(mine), theirs.accuracy.tolist()) == (1, [0.75])
    assert [
        "accuracy differs in 1 of 1" in sentence for sentence in compare(mine, theirs, rules)
    ] == [True] * differ
    n_rows, worst, sentences = _compared([ours], [ROWS], RULES)
    assert (n_rows, worst) == (1, 1.0)
    assert sentences[-1] == "1 of 2 rows of today have keys that none has there"


def test_an_audit_asks_nothing_of_arms_that_are_timed():
    ours = pd.DataFrame({"method": ["a", "timed", "b"], "accuracy": [0.1, 0.2, 0.3]})
    record = ours.assign(accuracy=[0.1, 0.9, 0.3])
    rules = RULES | {"timed": {"method": ["timed"], "no column": ["a"]}}
    found = {}
    for name, one in (("all", RULES), ("untimed", rules)):
        found[name] = _compared(_comparable([ours], one), [record], one)
    assert found["untimed"] == (2, 0.0, [])
    assert found["all"][0] == 3
    assert found["all"][1] > 0.5
    assert compare(ours, record, rules)


def test_an_audit_tells_rows_with_the_same_keys_apart_by_their_order():
    ours = pd.DataFrame({"method": ["a"] * 3, "accuracy": [0.1, 0.2, 0.3]})
    _, worst, sentences = _compared([ours], [ours.assign(accuracy=[0.1, 0.2, 0.4])], RULES)
    assert worst == pytest.approx(0.25)
    assert len(sentences) == 1


def test_an_audit_finds_a_row_by_its_keys_as_the_record_has_written_them(tmp_path):
    """A whole number beside an empty cell is read back as 3.0, a float with ten digits, and an
    empty text as a gap."""
    rows = pd.DataFrame(
        {
            "method": ["a", "b"],
            "seed": [3, None],
            "share": [0.1 + 0.2, 0.25],
            "setting": ["", "x"],
            "value": [1.0, 2.0],
        }
    ).astype({"seed": object})
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False, float_format="%.10g")
    keys = ["method", "seed", "share", "setting"]
    rules = {"keys": keys, "value": {"rtol": 0.1, "reason": "seeds"}}
    mine, theirs, _ = at_equal_keys(rows, pd.read_csv(path), rules)
    assert mine.value.tolist() == theirs.value.tolist() == [1.0, 2.0]


def test_an_audit_takes_a_number_beside_a_gap_for_a_difference_and_lost_rows_for_no_answer():
    both = pd.DataFrame({"value": [1.0, None]})
    assert largest_difference(both, both) == 0.0
    assert largest_difference(both, both.fillna(2.0)) == 1.0
    assert largest_difference(both.fillna(2.0), both) == 1.0
    rules = {"keys": ["seed"], "value": {"rtol": 0.1, "reason": "seeds"}}
    part = pd.DataFrame({"seed": [0, 1], "value": [1.0, 2.0]})
    assert _beside_own([part], [part], rules, 2) == (0.0, [])
    assert _beside_own([part], [part + 0.5], rules, 2) is None
    assert _beside_own([part], [], rules, 2) is None
    worst, sentences = _beside_own([part], [part.assign(value=[1.0, 2.5])], rules, 2)
    assert (worst, len(sentences)) == (0.2, 1)


def test_the_profiles_of_a_notebook_are_read_from_its_entry():
    (quick,) = plan("quick", ["fig06"])
    (paper,) = plan("paper", ["bico/fig06*"])
    assert quick.given == {}
    assert paper.parameters["n_seeds"] == 10
    assert paper.parameters["l2"] == quick.parameters["l2"]
    with pytest.raises(ValueError, match="no notebook matches 'fig66'"):
        plan("quick", ["fig66"])


def test_a_parameters_cell_that_papermill_would_misread_is_refused(tmp_path):
    source = shutil.copy(NOTEBOOKS / "bico" / "fig06_binary_logistic.ipynb", tmp_path)
    assert cell_parameters(source)["n_seeds"] == 5
    text = (tmp_path / "fig06_binary_logistic.ipynb").read_text(encoding="utf-8")
    for wrong in ("n_seeds = 2 * 3 + m", "n_seeds: int = 5", "n_seeds += 5"):
        (tmp_path / "wrong.ipynb").write_text(text.replace("n_seeds = 5", wrong), encoding="utf-8")
        with pytest.raises(ValueError, match=r"wrong.ipynb: one code cell is tagged `parameters`"):
            cell_parameters(tmp_path / "wrong.ipynb")
