"""The rules of the papers' claims are those of the commit at which they were frozen, before the
records were run; a rule that changed later is told on the page of changed verdicts."""

import re
import tomllib
from pathlib import Path

import pytest
from handful_papers.provenance import git
from handful_papers.verification import in_history

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = "lib/handful_papers"
NEEDS = f"{CLAIMS}/needs.toml"
# What decides a verdict, beside the rows.
DECIDES = ("quote", "measured", "rule", "needs", "sorts", "on")
PAGE = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")
FROZEN = re.search(r"frozen at\s+commit `(\w+)`", PAGE).group(1)


def rules(texts):
    """Claim's id -> what decides it, of the entries of figures as texts; claims of the papers
    alone."""
    found = {}
    for text in texts:
        for claim in tomllib.loads(text).get("claim", []):
            if "quote" in claim:
                found[claim["id"]] = {key: claim.get(key) for key in DECIDES}
    return found


def changed(before, today):
    """Ids of the claims that were taken away, added, or are decided in another way."""
    return sorted(name for name in before | today if before.get(name) != today.get(name))


def entries_of_today():
    return [path.read_text(encoding="utf-8") for path in (ROOT / CLAIMS).rglob("*.toml")]


@pytest.fixture(scope="module")
def frozen():
    """The text of each .toml of the reproduction at the commit, by its path."""
    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not here")
    assert in_history(FROZEN), f"{FROZEN} is in no history"
    names = git("ls-tree", "-r", "--name-only", FROZEN, CLAIMS).splitlines()
    return {name: git("show", f"{FROZEN}:{name}") for name in names if name.endswith(".toml")}


def test_each_rule_is_the_frozen_one_or_the_page_tells_why(frozen):
    moved = changed(rules(frozen.values()), rules(entries_of_today()))
    later = PAGE.partition("### Changed since then")[2].partition("\n## ")[0]
    assert moved == sorted(re.findall(r"^\| `([\w-]+)` \|", later, re.MULTILINE))


def test_what_claims_of_a_sort_need_is_as_it_was_frozen(frozen):
    today = (ROOT / NEEDS).read_text(encoding="utf-8")
    assert tomllib.loads(frozen[NEEDS]) == tomllib.loads(today)


@pytest.mark.parametrize(
    ("old", "new"),
    [("above = 5", "above = 4"), ('over = "every"', 'over = "mean"'), ("every set", "each set")],
)
def test_a_rule_that_moves_is_seen(old, new):
    text = '[[claim]]\nid = "one"\nquote = "every set"\nrule = { above = 5, over = "every" }'
    assert changed(rules([text]), rules([text])) == []
    assert changed(rules([text]), rules([text.replace(old, new)])) == ["one"]
    assert changed(rules([text]), rules([""])) == ["one"]
