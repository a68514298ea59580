"""The page of changed verdicts says of each claim what its record says today."""

import re
from pathlib import Path

import pytest
from handful_papers import site
from handful_papers.entries import figure_entry, names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w-]+)` \|.*\| (?:`([\w-]+)`|none) \| ([^|]+) \|$", re.MULTILINE)


def verdicts_on_record():
    """The verdict of each claim, with its reason, by the claim's id."""
    found = {}
    for row in site.item_rows()[0]:
        for claim in row["claims"]:
            reason = f" ({claim['reason']})" if claim["reason"] else ""
            found[claim["id"]] = claim["verdict"] + reason
    return found


@pytest.fixture(scope="module")
def rows():
    return ROW.findall(PAGE)


def test_each_verdict_of_today_is_the_records(rows):
    now = verdicts_on_record()
    said = {today: verdict for _, today, verdict in rows if today}
    assert said == {today: now.get(today) for today in said}


def test_a_claim_that_is_gone_has_no_record(rows):
    now = verdicts_on_record()
    gone = [first for first, today, _ in rows if first != today]
    assert gone
    assert not set(gone) & set(now)


def test_the_claims_that_count_as_milder_are_those_that_the_page_calls_softer():
    said = set()
    softer = False
    for line in PAGE.partition("## The papers' words")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 7 or not cells[1].startswith("`"):
            continue
        softer = cells[3].startswith("softer") or (softer and cells[3].startswith("the same"))
        said |= {cells[4].strip("`")} if softer else set()
    said |= set(re.findall(r"^\| `([\w-]+)` \|[^|]+\|[^|]+\| softer", PAGE, re.MULTILINE))
    assert said - {"none"} == {
        claim.id for name in names() for claim in figure_entry(name)["claim"] if claim.softened
    }


def test_the_tally_is_that_of_the_records():
    now = {
        name: verdict for name, verdict in verdicts_on_record().items() if name in papers_claims()
    }
    told = site.summary(site.item_rows()[0])
    first = ROW.findall(PAGE.partition("## Disagreed at other times")[0])
    assert not [claim for claim, _, verdict in first if verdict == "agrees"]
    assert "made milder" not in told
    counts = [int(n) for n in re.findall(r"\d+", told)]
    assert sum(counts) == len(now)
    assert [sum(counts[i::3]) for i in range(3)] == [
        sum(verdict.startswith(word) for verdict in now.values())
        for word in ("agrees", "disagrees", "cannot tell")
    ]


def papers_claims():
    """Ids of the claims in the words of the four papers; those of others' benchmarks are none."""
    return {
        claim.id
        for name in names()
        if name.split("/")[0] in ("bico", "svm", "vrm", "vcgmm")
        for claim in figure_entry(name)["claim"]
        if claim.whose == "paper"
    }


def test_the_counts_at_the_top_are_those_of_the_tables(rows):
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    counts = [len(ROW.findall(section)) for section in sections[:3]]
    words = "None One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve Thirteen Fourteen"
    pattern = r"\*\*(\w+) still disagree,.* (\w+) are now \"cannot tell\".* (\w+) are\s+no claim"
    told = re.search(pattern, PAGE, re.DOTALL).groups()
    assert counts == [words.split().index(word) for word in told]
    assert sum(counts) == 24
    first = {first for first, *_ in rows}
    assert len(first) == len(rows)


def test_a_verdict_that_moved_with_the_rules_is_said_as_it_is_now():
    now = verdicts_on_record()
    moved = re.findall(r"^\| `([\w-]+)` \| ([^|`]+) \| ([^|`]+) \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert len(moved) > 20
    renamed = {"vcgmm-fig01-work-to-lwcs-error": "vcgmm-fig01-time-to-lwcs-error"}
    for claim, before, after in moved:
        assert before != after
        assert now.get(renamed.get(claim, claim), "dropped") == after
