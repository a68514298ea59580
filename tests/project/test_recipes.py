"""Recipes and the examples of methods run as they stand and print what is shown; what a recipe's
advice rests on holds."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "recipes.md").read_text(encoding="utf-8")
METHODS = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("methods/*.md"))
}
# Code that is followed by what it prints.
EXAMPLE = re.compile(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", re.DOTALL)
RECIPES = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
# What must hold of a recipe's variables for its advice, with room for the noise between machines.
HOLDS = {
    "Undersample and stay calibrated": [
        # of boosting: mean probability over the share, and log-loss
        "np.mean(found, axis=0)[0, 0] > 5",
        "np.mean(found, axis=0)[2, 1] < np.mean(found, axis=0)[[0, 1, 3], 1].min()",
    ],
    "A generalised linear model with the standard errors of all rows": [
        "np.allclose(fits['matched'][:2], fits['all'][:2], rtol=1e-3)",
        "np.isclose(fits['matched'][3], fits['all'][3], rtol=1e-3)",
        "fits['matched'][2] > 2 * fits['all'][2]",
        "abs(fits['random'][0] - fits['all'][0]) > 5 * fits['random'][1]",
    ],
    "Draw from more than 2^24 weights in torch": [
        "len(weights) > 2**24",
        "rows.max() >= 0.99 * len(weights)",
        "abs(weights[rows].mean() - 2) < 0.03",
        "abs((w * weights[rows]).mean() - 1) < 0.03",
    ],
    "Cells of VCGMM into a weighted HDBSCAN or DBSCAN": [
        "min(scores[f'DBSCAN of cells, {m} rows around'] for m in (250, 500)) > 0.95",
        "scores['HDBSCAN of 300 random rows'] < 0.85",
    ],
    "Inducing points for GPflow and GPy": [
        "np.argmax(np.mean(found, axis=0)[:, 0]) == 3",
    ],
    "A context of 10,000 rows for TabPFN and its like": [
        "(np.abs(np.bincount(y[rows]) - np.bincount(y) / 10) <= 1).all()",
        "np.abs(X[rows].mean(axis=0) - X.mean(axis=0)).max() < 0.005",
    ],
    "Thin a chain to a few weighted draws": [
        "np.allclose(w @ moments[rows], moments.sum(axis=0))",
        "len(rows) <= 67",
    ],
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_prints_what_is_shown_and_its_advice_holds(name):
    pytest.importorskip("torch", reason="one recipe is of torch")
    [(code, shown)] = EXAMPLE.findall(RECIPES[name])
    names = {}
    printed = _printed(code, f"recipes.md, {name}", names)
    # which exact rows are found hangs on rounding
    assert _unlike(printed, shown, rtol=0.3, atol=0.05) == [], printed
    assert [claim for claim in HOLDS[name] if not eval(claim, names)] == []


def test_a_recipe_is_short_and_every_one_has_advice_that_is_checked():
    assert list(RECIPES) == list(HOLDS)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    lengths = [len([line for line in block.splitlines() if line]) for block in blocks]
    assert max(lengths) <= 32, "about thirty lines of code"


@pytest.mark.parametrize("page", [page for page, text in METHODS.items() if EXAMPLE.search(text)])
def test_an_example_of_a_method_prints_what_is_shown(page):
    for code, shown in EXAMPLE.findall(METHODS[page]):
        printed = _printed(code, f"{page}.md", {})
        assert _unlike(printed, shown, rtol=0.1, atol=0.005) == [], printed


def _printed(code, page, names):
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, page, "exec"), names)
    return printed.getvalue()


def _unlike(printed, shown, **tolerance):
    """The pairs of words that differ, of numbers beyond a tolerance; all words where their counts
    differ."""
    ours = printed.split()
    theirs = shown.split()
    if len(ours) != len(theirs):
        return [ours, theirs]
    return [pair for pair in zip(ours, theirs) if not _alike(*pair, **tolerance)]


def _alike(ours, theirs, **tolerance):
    """Whether two words are the same, or two numbers near."""
    pair = [re.sub(r"[^\d.]", "", word) for word in (ours, theirs)]
    if not all(re.fullmatch(r"\d*\.?\d+|\d+\.", number) for number in pair):
        return ours == theirs
    return bool(np.isclose(*map(float, pair), **tolerance))
