"""What a record vouches for: each of its files, its commit and its notebook's source, one changed
at a time."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from calls import files_entered
from handful_papers import verification
from handful_papers.committed import FIGURES, judge_again
from handful_papers.entries import names
from handful_papers.parameters import NOTEBOOKS
from handful_papers.provenance import expected_hash, to_json
from handful_papers.records import read_record
from handful_papers.run import Planned, stale
from handful_papers.tasks import task_rows
from handful_papers.verification import (
    LOST,
    OLDER,
    changed,
    doubts,
    hashes,
    needs_audit,
    statements,
    unverified,
    vouch_for,
)

ITEM = "svm/fig04_sensitivities"
LIB = Path(verification.__file__).parents[1]


def git(folder, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(
        ["git", "-C", folder, *names, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def forget():
    """Have git asked again."""
    for asked in ("in_history", "sources_at", "has_code_of_today", "says_the_same"):
        getattr(verification, asked).cache_clear()


@pytest.fixture
def record(tmp_path, monkeypatch):
    """The path of a record that a run of the last commit but one has left in a repository of its
    own."""
    root = tmp_path / "checkout"
    source = root / "notebooks" / f"{ITEM}.ipynb"
    folder = root / "figures" / "laptop" / "svm"
    source.parent.mkdir(parents=True)
    folder.mkdir(parents=True)
    shutil.copy(NOTEBOOKS / f"{ITEM}.ipynb", source)
    git(tmp_path, "init", "--quiet", root)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "one")
    made_by = git(root, "rev-parse", "HEAD")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "two")
    for file in (FIGURES / "laptop" / "svm").glob("fig04_sensitivities.*"):
        shutil.copy(file, folder)
    path = folder / "fig04_sensitivities.json"
    executed = json.loads(source.read_text(encoding="utf-8"))
    injected = {
        "cell_type": "code",
        "source": ["n = 1"],
        "metadata": {"tags": ["injected-parameters"]},
        "outputs": [],
    }
    executed["cells"].insert(2, injected)
    path.with_suffix(".ipynb").write_text(json.dumps(executed), encoding="utf-8")
    files = hashes(path.with_suffix(suffix) for suffix in (".csv", ".png"))
    path.write_text(
        to_json(read_record(path) | {"commit": made_by, "files": files}), encoding="utf-8"
    )
    for module in ("provenance", "verification"):
        monkeypatch.setattr(f"handful_papers.{module}.ROOT", root)
    forget()
    yield path
    forget()


def test_a_record_vouches_for_its_files_once_it_has_the_hash_of_each(record):
    assert (
        unverified(record, read_record(record)) == "it holds no hash of fig04_sensitivities.ipynb"
    )
    vouch_for(record, record.with_suffix(".ipynb"))
    assert unverified(record, read_record(record)) == ""
    assert not judge_again(record)
    older = {key: value for key, value in read_record(record).items() if key != "files"}
    assert (unverified(record, older), changed(record, older)) == ("", [])
    assert OLDER in doubts(older)
    assert OLDER not in doubts(read_record(record))


@pytest.mark.parametrize("suffix", [".csv", ".png", ".ipynb"])
@pytest.mark.parametrize("how", ["a byte more", "gone"])
def test_a_file_that_is_not_what_the_run_left_is_named(suffix, how, record):
    vouch_for(record, record.with_suffix(".ipynb"))
    known = read_record(record)
    file = record.with_suffix(suffix)
    file.unlink() if how == "gone" else file.write_bytes(file.read_bytes() + b" ")
    assert unverified(record, known) == f"{file.name}: not what the run left"
    assert changed(record, known) == [file.name]


def test_rows_that_the_run_did_not_leave_are_not_judged(record):
    file = record.with_suffix(".csv")
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(
        ValueError, match=r"fig04_sensitivities\.csv cannot be judged: it is not what the run left"
    ):
        judge_again(record)


def test_a_notebook_with_other_cells_and_a_commit_of_no_history_are_told(record):
    executed = record.with_suffix(".ipynb")
    vouch_for(record, executed)
    known = read_record(record)
    assert unverified(record, known | {"commit": None}) == "its commit is in no history"
    assert unverified(record, known | {"commit": "0" * 40}) == "its commit is in no history"
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    notebook["cells"][-1]["source"] = ["another"]
    executed.write_text(json.dumps(notebook), encoding="utf-8")
    vouch_for(record, executed)
    told = unverified(record, read_record(record))
    assert told == "fig04_sensitivities.ipynb is not a run of the notebook at its commit"


def test_a_record_of_older_code_needs_an_audit_by_the_code_of_today_that_found_no_difference(
    record,
):
    root = record.parents[3]
    known = read_record(record)
    # The committed record may have one of its own.
    known.pop("audit", None)
    assert needs_audit(known) == ""
    library = root / "lib" / "handful"
    library.mkdir(parents=True)
    (library / "coreset.py").write_text("1\n")
    git(root, "add", "lib")
    git(root, "commit", "--quiet", "-m", "three")
    forget()
    assert needs_audit(known) == "made by older code, and not audited"
    audit = {"commit": git(root, "rev-parse", "HEAD"), "share": 0.1, "worst": 0.0}
    assert needs_audit(known | {"audit": audit}) == ""
    told = needs_audit(known | {"audit": audit | {"worst": 0.06}})
    assert told == "made by older code, and its audit found a difference of 0.06"
    for own_code, wanted in ((0.0, ""), (0.06, told)):
        moved = audit | {"worst": 0.5, "own_code": own_code}
        assert needs_audit(known | {"audit": moved}) == wanted
    # Tasks of another commit, which is in no history.
    of_today = known | {"commit": audit["commit"], "commits_of_tasks": ["0" * 40]}
    assert doubts(of_today) == [LOST, "made by older code, and not audited"]
    assert doubts(of_today | {"audit": audit}) == [LOST]
    assert doubts(known | {"commits_of_tasks": [known["commit"]], "audit": audit}) == []
    by_older = needs_audit(known | {"audit": audit | {"commit": known["commit"]}})
    assert by_older == "made by older code, and audited by older code"


@pytest.mark.parametrize(
    ("name", "is_older"),
    [
        ("handful_papers/svm/fig04_sensitivities.toml", False),
        ("handful_papers/svm/fig01_offline_error.py", False),
        ("handful_papers/own/posterior.py", False),
        ("handful_papers/picture.py", False),
        ("handful_papers/verification.py", False),
        ("handful_papers/svm/fig04_sensitivities.py", True),
        ("handful_papers/svm/errors.py", True),
        ("handful_papers/svm/__init__.py", True),
        ("handful_papers/tasks.py", True),
        ("handful/svm/linear_svm.py", True),
        ("handful/coreset.py", True),
        ("handful/svm/__init__.py", True),
        ("handful/__init__.py", True),
        ("handful/matching/matched_coreset.py", False),
        ("handful/cli.py", False),
    ],
)
def test_what_a_figure_does_not_import_and_texts_and_rules_of_claims_make_no_record_older(
    record, name, is_older
):
    root = record.parents[3]
    known = read_record(record)
    known.pop("audit", None)
    file = root / "lib" / name
    file.parent.mkdir(parents=True)
    file.write_text("one = 1\n")
    git(root, "add", "lib")
    git(root, "commit", "--quiet", "-m", "three")
    forget()
    assert needs_audit(known) == ("made by older code, and not audited" if is_older else "")


@pytest.mark.parametrize(
    ("source", "is_older"),
    [
        (
            '"""Another sentence."""\n\n\ndef one(x):\n    return "a" + x  # what is asked for\n',
            False,
        ),
        ('def one(x):\n    """Add one."""\n    return (\n        "a" + x\n    )\n', False),
        ('"""A module."""\n\ndef one(x):\n    return "b" + x\n', True),
        ("", True),
    ],
    ids=["comments", "docstrings and layout", "a statement", "emptied"],
)
def test_comments_docstrings_and_layout_make_no_record_older(record, source, is_older):
    root = record.parents[3]
    file = root / "lib" / "handful" / "coreset.py"
    file.parent.mkdir(parents=True)
    file.write_text('"""A module."""\n\ndef one(x):\n    return "a" + x\n')
    git(root, "add", "lib")
    git(root, "commit", "--quiet", "-m", "three")
    known = read_record(record) | {"commit": git(root, "rev-parse", "HEAD")}
    known.pop("audit", None)
    file.write_text(source)
    forget()
    assert needs_audit(known) == ("made by older code, and not audited" if is_older else "")


SPEAKS = """
class Report:
    def __str__(self):
        return f"{self.n} rows"

    def share(self):
        return f"{self.n}"

def one(x):
    if x < 0:
        raise ValueError(f"x must be positive, got {x}", 1)
    warn("x is large")
    return x
"""


@pytest.mark.parametrize(
    ("was", "is_now", "same"),
    [
        ('f"{self.n} rows"', '"so many rows"', True),
        ('f"x must be positive, got {x}"', '"not" f"{x}"', True),
        ('"x is large"', 'f"{x} is large"', True),
        ('f"{self.n}"', 'f"{self.n} %"', False),
        ("x < 0", "x <= 0", False),
        (", 1)", ", 2)", False),
        ("ValueError", "TypeError", False),
        ("    warn(", "    tell(", False),
        ("__str__", "text", False),
    ],
)
def test_what_code_says_in_words_is_not_what_it_does(was, is_now, same):
    changed = SPEAKS.replace(was, is_now)
    assert changed != SPEAKS
    assert (statements(changed) == statements(SPEAKS)) is same


@pytest.mark.parametrize(("kind", "is_older"), [("markdown", False), ("code", True)])
def test_the_code_of_its_notebook_makes_a_record_older_and_its_prose_does_not(
    record, monkeypatch, kind, is_older
):
    known = read_record(record)
    known.pop("audit", None)
    cells = [list(cell) for cell in verification.sources_of(ITEM)]
    next(cell for cell in cells if cell[0] == kind)[1] += "\n1"
    monkeypatch.setattr(verification, "sources_of", lambda item: [tuple(cell) for cell in cells])
    forget()
    assert needs_audit(known) == ("made by older code, and not audited" if is_older else "")


IMPORTS = """
import ast, json, sys
from pathlib import Path
cells = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]
for cell in cells:
    for node in ast.walk(ast.parse("".join(cell["source"]) if cell["cell_type"] == "code" else "")):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            exec(compile(ast.Module([node], []), "cell", "exec"))
print(*(m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)), sep="\\n")
"""


@pytest.mark.parametrize("item", ["bico/tab10_proxies", "own/tuning", "vcgmm/figS2_more_data"])
def test_modules_of_a_figure_are_at_least_those_that_its_notebook_loads(item):
    command = [sys.executable, "-c", IMPORTS, NOTEBOOKS / f"{item}.ipynb"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    files = [
        Path(line) for line in said.splitlines() if line.startswith(str(LIB / "handful_papers"))
    ]
    loaded = {file.relative_to(LIB).as_posix() for file in files}
    assert f"handful_papers/{item}.py" in loaded
    # `expected` says how rows are compared, which is asked for by this module alone; `published` is
    # loaded by the package, whoever uses it.
    extra = {verification.THIS, "handful_papers/expected.py"}
    unused = loaded - verification.modules_of(item)
    assert extra <= unused <= extra | {"handful_papers/published.py"}


@pytest.mark.parametrize(
    ("item", "function", "arguments"),
    [
        (
            "bico/fig13_merge_reduce",
            "bico.fig13_merge_reduce:built_rows",
            dict(n_steps=3, slots=3, batch_size=20, slot_size=5, seed=0),
        ),
        (
            "bico/fig04_gmm_selection",
            "bico.gmm:component_rows",
            dict(
                law="elongated", n=99, sizes=[10], methods=["bico"], prior=0.001, n_init=1, seed=0
            ),
        ),
        (
            "bico/fig01_penalty",
            "bico.fig01_penalty:path_rows",
            dict(
                dataset="digits", l2=1e-4, share=15, n_train=60, n_landmarks=16, gamma=0.02, seed=0
            ),
        ),
        (
            "vrm/fig02_kdpp",
            "vrm.regression:kdpp_rows",
            dict(method="vrm", n=40, d=3, batch_size=5, epochs=2, seed=0),
        ),
    ],
)
def test_what_a_task_calls_in_the_library_is_among_the_modules_of_its_figure(
    item, function, arguments
):
    module, _, name = function.partition(":")
    call = getattr(import_module(f"handful_papers.{module}"), name)
    called = {f"handful/{name}" for name in files_entered(lambda: task_rows(call, arguments))}
    assert called
    assert called <= verification.modules_of(item)


def test_imports_are_found_where_they_stand_in_any_form():
    code = """
import numpy, handful_papers.svm.errors
from handful_papers import picture, paired_differences
from handful import BilevelCoreset, data
from handful.models import Network
home = import_module("handful.proxies.conv")
def late():
    from handful_papers.bico.gmm import of_rows as named
"""
    used = ["handful_papers/svm/errors", "handful_papers/picture", "handful_papers/effects"]
    used += ["handful_papers/bico/gmm", "handful/bilevel/bilevel_coreset", "handful/data/__init__"]
    used += ["handful/models/network", "handful/proxies/conv"]
    assert verification.used_by(code) == {f"{name}.py" for name in used}
    # Relative imports are not looked for.
    texts = [path.read_text(encoding="utf-8") for path in LIB.glob("handful*/**/*.py")]
    assert len(texts) > 200
    assert not [text for text in texts if "from ." in text]


def test_modules_that_serve_several_figures_age_them_all_and_a_figures_own_that_one_alone():
    serves = {}
    for item in names():
        for module in verification.modules_of(item):
            serves.setdefault(module, set()).add(item)
    assert serves["handful_papers/experiment.py"] == set(names())
    assert serves["handful_papers/bico/gmm.py"] == {
        "bico/fig04_gmm_selection",
        "bico/fig05_gmm_error",
    }
    assert serves["handful_papers/own/posterior.py"] == {
        "own/hundred_rows",
        "own/posterior",
        "own/tuning",
    }
    assert serves["handful_papers/svm/fig01_offline_error.py"] == {"svm/fig01_offline_error"}
    assert serves["handful/checks.py"] == serves["handful/__init__.py"] == set(names())
    assert "svm/fig01_offline_error" not in serves["handful/clustering/vcgmm.py"]
    assert not {f"handful_papers/{name}.py" for name in ("site", "picture", "audit")} & set(serves)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("n_jobs", 16, ""),
        ("device", "cuda", ""),
        ("show", None, ""),
        ("n_seeds", 6, "parameters n_seeds changed"),
        ("unheard_of", 1, "parameters unheard_of changed"),
    ],
)
def test_a_record_of_other_processes_or_another_device_is_current_and_of_other_seeds_is_not(
    key, value, reason
):
    planned = Planned(ITEM, "laptop", {}, {"n_seeds": 3, "n_jobs": 1, "device": None}, 1.0)
    made = {"parameters": planned.parameters | {key: value}, "expected": expected_hash(ITEM)}
    assert stale(made, planned) == reason
