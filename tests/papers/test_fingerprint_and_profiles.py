"""Notebook sources: parameters, profiles, lint, and what makes a run stale."""

import json

import pytest
from handful_papers import fingerprint as fp
from handful_papers.notebooks import NotebookError, find_notebooks, lint, plan, read_notebook
from tiny_notebooks import PARAMETERS, profiles_for, saving, write_checkout, write_notebook


@pytest.fixture
def root(tmp_path):
    write_checkout(tmp_path, profiles_for("demo/a", "demo/b"))
    for name in ("demo/a", "demo/b"):
        write_notebook(tmp_path, name, *saving(name))
    return tmp_path


def test_a_run_gets_its_profiles_values_and_the_profile(root):
    runs = plan(root / "notebooks", "laptop")
    assert [(r.name, r.parameters, r.minutes) for r in runs] == [
        ("demo/a", {"n": 5, "profile": "laptop"}, 1.0),
        ("demo/b", {"n": 5, "profile": "laptop"}, 1.0),
    ]
    assert runs[0].notebook.parameters() == {"profile": "quick", "n": 3, "seed": 0}
    assert runs[0].notebook.title == "A demonstration"


@pytest.mark.parametrize("only", [["demo/b"], ["b"], ["*/b"], ["demo/[b]"], ["[b]"], ["demo/b", "b"]])
def test_only_takes_parts_of_names_or_patterns(root, only):
    assert [n.name for n in find_notebooks(root / "notebooks", only)] == ["demo/b"]


def test_only_that_matches_nothing_names_the_notebooks(root):
    with pytest.raises(NotebookError, match=r"no notebook matches 'fig99'.*demo/a, demo/b"):
        plan(root / "notebooks", "quick", ["demo", "fig99"])


def test_an_unknown_parameter_is_refused_with_the_known_ones(root):
    write_checkout(root, profiles_for("demo/b") + '["demo/a"]\nquick = { minutes = 1, n_seed = 3 }\n')
    with pytest.raises(NotebookError, match=r"unknown parameter n_seed.*profile, n, seed"):
        plan(root / "notebooks", "quick")


def test_all_that_is_wrong_is_told_at_once(root):
    write_checkout(root, '["demo/a"]\nquick = { minutes = 0 }\n')
    with pytest.raises(NotebookError, match="needs `minutes` > 0") as caught:
        plan(root / "notebooks", "quick")
    assert 'demo/b: profiles.toml has no ["demo/b".quick]' in str(caught.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("n: int = 3", "has an annotation"),
        ("total = 10 * n", "is computed"),
        ("sizes = list(range(3))", "is computed"),
        ("a = b = 3", "no plain"),
        ("a, b = 1, 2", "no plain"),
        ("import numpy", "no plain"),
        ("n = 4", "a second time"),
        ("n = ", "not Python"),
    ],
)
def test_a_parameters_cell_that_papermill_would_misread_is_refused(root, line, reason):
    write_notebook(root, "demo/a", parameters=PARAMETERS + line + "\n")
    with pytest.raises(NotebookError, match=f"demo/a.*{reason}"):
        plan(root / "notebooks", "quick")


def test_literals_of_all_kinds_are_parameters(root):
    literals = 'profile = "quick"\nsizes = [50, -1.5]  # n = 3\nnames = {"a": None}\nflag = True\n'
    path = write_notebook(root, "demo/a", parameters=literals)
    values = read_notebook(path).parameters()
    assert values == {"profile": "quick", "sizes": [50, -1.5], "names": {"a": None}, "flag": True}


def test_a_cell_without_profile_is_refused(root):
    write_notebook(root, "demo/a", parameters="n = 3\n")
    with pytest.raises(NotebookError, match="unknown parameter profile"):
        plan(root / "notebooks", "quick")


def test_exactly_one_cell_is_tagged(root):
    path = root / "notebooks" / "demo" / "a.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][2]["metadata"]["tags"] = ["parameters"]
    path.write_text(json.dumps(notebook))
    with pytest.raises(NotebookError, match="exactly one code cell must be tagged"):
        plan(root / "notebooks", "quick")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xe9",
        b'{"cells": 3}',
        b'{"cells": [3]}',
        b'{"cells": [{}]}',
        b'{"cells": [{"cell_type": "code", "source": 3}]}',
        b'{"cells": [{"cell_type": "code", "source": "", "metadata": 3}]}',
        b'{"cells": [{"cell_type": "code", "source": "", "metadata": {"tags": 3}}]}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_notebook_is_named(root, content):
    (root / "notebooks" / "demo" / "a.ipynb").write_bytes(content)
    with pytest.raises(NotebookError, match=r"^demo/a: .*a\.ipynb is not a notebook.*\.$"):
        plan(root / "notebooks", "quick")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"demo/a" = 3', r"\[\"demo/a\"\] = 3; a table stands there"),
        ('["demo/a"]\nquick = 3', r"\[\"demo/a\"\] quick = 3; a table stands there"),
        ('["demo/a"]\nquick = [3]', r"\[\"demo/a\"\] quick = \[3\]; a table stands there"),
        ("not_protocol = 3", r"\[\"not_protocol\"\] = 3; a list stands there"),
        ('["demo/a"]\nquick = { minutes = nan }', r"needs `minutes` > 0, got nan"),
        ('["demo/a"]\nquick = { minutes = inf }', r"needs `minutes` > 0, got inf"),
        ('["demo/a"]\nquick = { minutes = "1" }', r"needs `minutes` > 0, got '1'"),
        ('["demo/a"]\nquick = { minutes = 1, n = 2026-01-02 }', "holds the date 2026-01-02; write it as a string"),
        ('["demo/a"]\nquick = { minutes = 1, n = [{ m = 07:30:00 }] }', "holds the date 07:30:00; write it"),
        ('["demo/a"\n', "profiles.toml: "),
        ("# caf\xe9\n", "profiles.toml: 'utf-8' codec"),
    ],
)
def test_a_wrong_entry_of_profiles_toml_is_one_sentence(root, text, reason):
    path = root / "notebooks" / "profiles.toml"
    path.write_bytes((profiles_for("demo/b") + text).encode("latin-1"))
    if text[0] == '"' or text[0] == "n":  # a key of the top level comes before all tables
        path.write_text(text + "\n" + profiles_for("demo/b"))
    with pytest.raises(NotebookError, match=reason) as caught:
        plan(root / "notebooks", "quick", ["demo/a"])
    assert "\n" not in str(caught.value)


def test_lint_passes_a_clean_checkout(root):
    assert lint(root / "notebooks") == []


def test_lint_finds_outputs_length_missing_profiles_and_orphans(root):
    path = write_notebook(root, "demo/a", "x = 1\n" * 201)
    notebook = json.loads(path.read_text())
    notebook["cells"][2]["execution_count"] = 1
    path.write_text(json.dumps(notebook))
    entries = '["demo/a"]\nquick = { minutes = 1, n = 4 }\nfast = {}\n["demo/gone"]\n'
    write_checkout(root, profiles_for("demo/b") + entries)
    found = "\n".join(lint(root / "notebooks"))
    for part in (
        "demo/a: has outputs",
        "demo/a: 204 lines of code",  # three in the parameters cell
        "demo/a: the cell must hold the quick values; it differs in n",
        'has no ["demo/a".laptop]',
        'has no ["demo/a".paper]',
        "demo/a has the unknown profile fast",
        "demo/gone is no notebook",
    ):
        assert part in found
    assert "demo/b" not in found


# --- what makes a run stale

MODULE_A = '''"""Doc."""
import numpy


class A:
    """Doc."""

    def f(self):
        from handful.sub.lazy import g

        return g()  # a comment
'''


@pytest.fixture
def package(tmp_path):
    """A package `handful` of a few modules that reach each other in every way the real one may."""
    files = {
        "__init__.py": "from handful.a import A\nfrom handful.b import B as Bee\n",
        "a.py": MODULE_A,
        "b.py": "B = 1\n",
        "sub/__init__.py": "from handful.sub.other import h\n",
        "sub/lazy.py": "from . import helper\n\n\ndef g():\n    return helper.VALUE\n",
        "sub/helper.py": "VALUE = 1\n",
        "sub/other.py": "def h():\n    return 2\n",
        "sub/table.csv": "1\n",
        "computed.py": "import importlib\n\n\ndef load(name):\n    return importlib.import_module(name)\n",
        "process.py": 'ARGS = ["python", "-m", "handful.b"]\n',
    }
    root = tmp_path / "lib" / "handful"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("code", "reached"),
    [
        ("import numpy", set()),
        ("from handful import A", {"a", "sub.lazy", "sub.helper"}),
        ("from handful import Bee", {"b"}),
        ("def f():\n    from handful import Bee", {"b"}),
        ("from handful.sub import h", {"sub.other"}),
        ("from handful.sub import helper as x", {"sub.helper"}),
        ("import handful.sub.lazy as lazy", {"sub.lazy", "sub.helper"}),
        ("from handful.process import ARGS", {"process", "b"}),
        ("%matplotlib inline\nfrom handful.b import B", {"b"}),
        ("from handful import nothing_known", {"", "a", "b", "sub.lazy", "sub.helper"}),
        ("import handful", {"", "a", "b", "sub.lazy", "sub.helper"}),
        ("from handful import *", {"", "a", "b", "sub.lazy", "sub.helper"}),
    ],
)
def test_a_notebook_reaches_what_its_imports_lead_to(package, code, reached):
    assert set(fp.reachable(code, package.parent)) == {f"handful.{name}".rstrip(".") for name in reached}


@pytest.mark.parametrize("code", ["from handful.computed import load", "__import__(name)", "exec(text)"])
def test_where_imports_cannot_be_followed_everything_counts(package, code):
    assert len(fp.reachable(code, package.parent)) == 9


def _fingerprint(root, package, code="from handful import A", parameters=None):
    path = write_notebook(root, "demo/a", code)
    return fp.fingerprint(read_notebook(path), parameters or {"n": 3}, package.parent)


def test_what_is_reached_makes_a_run_stale_and_nothing_else(tmp_path, package):
    def changes(name, old, new):
        before = _fingerprint(tmp_path, package)
        text = (package / name).read_text()
        assert old in text
        (package / name).write_text(text.replace(old, new))
        return _fingerprint(tmp_path, package) != before

    assert changes("a.py", "return g()", "return 2 * g()")
    assert changes("sub/helper.py", "VALUE = 1", "VALUE = 2")
    assert changes("sub/table.csv", "1", "2")  # lies beside a module that is reached
    assert changes("__init__.py", "from handful.a import A", "from handful.b import B as A")
    assert not changes("__init__.py", "from handful.b import B as A", "from handful.b import B as A  # why")
    assert not changes("sub/other.py", "return 2", "return 3")


def test_a_package_whose_init_does_something_counts_for_its_modules(tmp_path, package):
    code = "from handful.sub.other import h"
    assert set(fp.reachable(code, package.parent)) == {"handful.sub.other"}
    (package / "sub/__init__.py").write_text('"""Doc."""\nfrom handful.b import B\n__all__ = ["B"]\n')
    assert set(fp.reachable(code, package.parent)) == {"handful.sub.other"}
    (package / "sub/__init__.py").write_text("import numpy\nfrom handful.b import B\nnumpy.seterr(all='raise')\n")
    assert set(fp.reachable(code, package.parent)) == {"handful.sub.other", "handful.sub", "handful.b"}


def test_names_that_a_package_looks_up_when_asked_lead_to_their_module(package):
    (package / "sub/__init__.py").write_text(
        'from handful.b import lazy\n__getattr__, __dir__ = lazy(__name__, {"g": "handful.sub.lazy"})\n'
    )
    assert set(fp.reachable("from handful.sub import g", package.parent)) == {
        "handful.sub.lazy",
        "handful.sub.helper",
    }
    assert set(fp.reachable("from handful.sub.other import h", package.parent)) == {"handful.sub.other"}


def test_comments_docstrings_and_layout_do_not_make_a_run_stale(tmp_path, package):
    before = _fingerprint(tmp_path, package)
    text = (package / "a.py").read_text()
    (package / "a.py").write_text(text.replace("Doc.", "Other.").replace("  # a comment", "").replace("\n\n\n", "\n"))
    assert _fingerprint(tmp_path, package) == before


def test_annotations_of_functions_do_not_make_a_run_stale(tmp_path, package):
    text = (package / "a.py").read_text()
    (package / "a.py").write_text(text + "\n\ndef f(x, *, y=1):\n    return x\n")
    before = _fingerprint(tmp_path, package)
    (package / "a.py").write_text(text + "\n\ndef f(x: int, *, y: float = 1) -> int:\n    return x\n")
    assert _fingerprint(tmp_path, package) == before
    (package / "a.py").write_text(text + "\n\ndef f(x: int, *, y: float = 2) -> int:\n    return x\n")
    assert _fingerprint(tmp_path, package) != before


def test_source_and_parameters_make_a_run_stale_and_outputs_do_not(tmp_path, package):
    before = _fingerprint(tmp_path, package)
    assert _fingerprint(tmp_path, package, parameters={"n": 4}) != before
    assert _fingerprint(tmp_path, package, code="from handful import A as B") != before
    assert _fingerprint(tmp_path, package, code="from handful import A  # why") == before
    path = write_notebook(tmp_path, "demo/a", "from handful import A")
    notebook = json.loads(path.read_text())
    notebook["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "hello"}]
    path.write_text(json.dumps(notebook))
    assert fp.fingerprint(read_notebook(path), {"n": 3}, package.parent) == before


def test_the_real_package_is_followed_to_what_a_notebook_uses():
    reached = set(fp.reachable("from handful_papers import Experiment"))
    assert {
        "handful_papers.style",
        "handful_papers.record",
        "handful_papers.provenance",
    } <= reached
    assert not {m for m in reached if "runner" in m or "report" in m or "cli" in m}


def test_a_data_sets_registry_entry_stands_for_its_data():
    assert fp.data_fingerprint("phishing") != fp.data_fingerprint("cod_rna")
    assert fp.data_fingerprint("phishing[0,1]") == fp.data_fingerprint("phishing")
    assert fp.data_fingerprint("no such data") is None
