"""Stale means stale: what a change in one room does to the notebooks of the others."""

import shutil
from pathlib import Path

import pytest
from handful_papers import fingerprint as fp
from handful_papers.check import stale
from handful_papers.notebooks import find_notebooks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of both packages, to change."""
    folder = tmp_path_factory.mktemp("lib")
    for package in fp.PACKAGES:
        shutil.copytree(ROOT / "lib" / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _prints(sources):
    return {n.name: fp.fingerprint(n, n.parameters(), sources) for n in find_notebooks(ROOT / "notebooks")}


def _touched(sources, path, old, new):
    """Notebooks that become stale when a file is changed; the file is as it was again afterwards."""
    before, text = _prints(sources), (sources / path).read_text(encoding="utf-8")
    assert old in text
    (sources / path).write_text(text.replace(old, new, 1), encoding="utf-8")
    after = _prints(sources)
    (sources / path).write_text(text, encoding="utf-8")
    return [name for name in before if before[name] != after[name]]


@pytest.mark.parametrize(
    ("path", "old", "new", "papers"),
    [
        (
            "handful/bilevel/numerics/newton.py",
            "import numpy as np",
            "import numpy as np\n\nTOUCHED = 1",
            ["bico", "own"],
        ),
        ("handful/clustering/vcgmm.py", "class VCGMM(", "TOUCHED = 1\n\n\nclass VCGMM(", ["vcgmm"]),
        ("handful_papers/bico/looks.py", '"Forgetting"', '"Forgotten"', ["bico"]),
        ("handful_papers/svm/looks.py", '"svm paper"', '"svm printed"', ["svm"]),
        ("handful_papers/vrm/published.csv", "item,", "item ,", ["vrm"]),
        ("handful_papers/bico/items/fig06_binary_logistic.toml", "limit = 12.2", "limit = 13.2", []),
        ("handful_papers/bico/items/fig06_binary_logistic.py", "TWO_PERCENT = 2.0", "TWO_PERCENT = 3.0", []),
        ("handful_papers/verdicts.py", "LEVEL = 0.05", "LEVEL = 0.01", []),
        ("handful_papers/sweep.py", "import os", "import os\n\nTOUCHED = 1", []),
    ],
)
def test_a_change_reaches_no_notebook_of_another_paper(sources, path, old, new, papers):
    assert {name.split("/")[0] for name in _touched(sources, path, old, new)} <= set(papers)


def test_notebooks_that_do_not_use_an_algorithm_do_not_see_it_change(sources):
    doc = '"""BilevelCoreset'
    touched = _touched(sources, "handful/bilevel/selector.py", doc, f"TOUCHED = 1\n{doc}")
    assert 0 < len(touched) < len(_prints(sources)) * 0.6


def test_a_committed_record_whose_code_is_unknown_is_stale():
    found = {(one.name, one.profile): one.reason for one in stale(ROOT / "figures", ROOT / "notebooks")}
    assert all(found.values())
