"""The examples on the pages of the methods run as they stand and print what they show."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "methods"
# Code that is followed by what it prints.
EXAMPLE = re.compile(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", re.DOTALL)
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if EXAMPLE.search(text)])
def test_an_example_prints_what_is_shown(page):
    for code, shown in EXAMPLE.findall(PAGES[page]):
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, f"{page}.md", "exec"), {})
        ours = printed.getvalue().split()
        theirs = shown.split()
        assert len(ours) == len(theirs), printed.getvalue()
        assert [pair for pair in zip(ours, theirs) if not _alike(*pair)] == [], printed.getvalue()


def _alike(ours, theirs):
    """Whether two words are the same, or two numbers near: the last digit hangs on rounding."""
    try:
        ours, theirs = (float(word.strip(",").replace(",", "")) for word in (ours, theirs))
    except ValueError:
        return ours == theirs
    return bool(np.isclose(ours, theirs, rtol=0.1, atol=0.005))
