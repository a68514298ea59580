"""The page of changed verdicts says of each claim what its record says today."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w-]+)` \|.*\| (?:`([\w-]+)`|none) \| ([^|]+) \|$", re.MULTILINE)


def verdicts_on_record():
    """The verdict of each claim, with its reason, by the claim's id."""
    found = {}
    for path in (ROOT / "figures" / "laptop").rglob("*.json"):
        for claim in json.loads(path.read_text(encoding="utf-8")).get("claims", []):
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


def test_the_counts_at_the_top_are_those_of_the_tables(rows):
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    counts = [len(ROW.findall(section)) for section in sections[:4]]
    assert counts == [8, 6, 6, 4]
    assert len(rows) == 24
    first = {first for first, *_ in rows}
    assert len(first) == 24
