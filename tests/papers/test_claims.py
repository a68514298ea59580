"""Declared claims: what a row must have, what the papers' own numbers say of it, and judging again."""

import json
import math
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from handful_papers import claims as claims_module
from handful_papers.catalogue import catalogue
from handful_papers.claims import Claim, Evidence, Run, declared, judge, judge_all, printed_settings, printed_verdict
from handful_papers.published import published
from handful_papers.verdicts import FAILS, HOLDS, NOT_TESTED

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {"bico": "bico.txt", "svm": "svm-coresets.txt", "vrm": "vrm.txt", "vcgmm": "vcgmm.txt"}
DECLARED = [
    (paper.key, notebook, claim)
    for paper in catalogue()
    for notebook in dict.fromkeys(item.notebook for item in paper.items)
    for claim in declared(paper.key, notebook)
]


def _claim(**changes):
    own = dict(id="a", item="Figure 1", text="It works", whose="own", measured="a lead", unit="points", rule="above")
    return Claim(**own | changes)


@cache
def _text(paper):
    """A paper's text with single spaces, where it lies beside the checkout."""
    folder = Path(os.environ.get("HANDFUL_DATA", ROOT / "data")).parent / "papers"
    if not (folder / TEXTS[paper]).is_file():
        pytest.skip("the papers' texts are not here")
    return _plain((folder / TEXTS[paper]).read_text(encoding="utf-8", errors="replace"))  # lines cut through letters


def _plain(text):
    return re.sub(r"\s+", " ", text)


def test_ids_are_unique_and_items_exist():
    counts = Counter(claim.id for _, _, claim in DECLARED)
    assert [id for id, n in counts.items() if n > 1] == []
    labels = {(paper.key, item.notebook, item.label) for paper in catalogue() for item in paper.items}
    assert [c.id for paper, notebook, c in DECLARED if (paper, notebook, c.item) not in labels] == []


@pytest.mark.parametrize(("paper", "notebook", "claim"), DECLARED, ids=lambda v: getattr(v, "id", ""))
def test_the_papers_words_stand_in_its_text(paper, notebook, claim):
    if claim.whose == "own" and not claim.quote:
        return
    assert _plain(claim.quote) in _text(paper), claim.quote


@pytest.mark.parametrize(
    ("paper", "notebook", "claim"), [c for c in DECLARED if c[2].printed], ids=lambda v: getattr(v, "id", "")
)
def test_the_papers_own_numbers_pass_the_rule_or_the_claim_says_that_they_do_not(paper, notebook, claim):
    assert printed_verdict(claim, paper) == claim.printed_verdict


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"whose": "theirs"}, "whose must be one of paper, own"),
        ({"rule": "surely"}, "rule must be one of"),
        ({"show": "best"}, "show must be one of"),
        ({"whose": "paper"}, "needs its words"),
        ({"measured": ""}, "say in `measured`"),
        ({"unit": ""}, "say in `unit`"),
    ],
)
def test_a_claim_that_lacks_something_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        _claim(**changes)


def test_a_run_that_lacks_what_a_claim_needs_does_not_test_it():
    claim = _claim(needs={"train_accuracy": 95, "network": ["wrn-16-4"], "seeds": 3})
    facts = {"train_accuracy": 97.0, "network": "wrn-16-4"}
    assert judge(claim, [1.0, 1.1, 0.9], facts)["verdict"] == HOLDS
    for less in ({"train_accuracy": 51.0}, {"network": "wrn-10-1"}, {"train_accuracy": None}):
        judged = judge(claim, [1.0, 1.1, 0.9], facts | less)
        assert judged["verdict"] == NOT_TESTED
        assert judged["why"].startswith("needs ")
        assert judged["ours"] == pytest.approx(1.0)  # the number is shown all the same
    assert judge(claim, [1.0, 1.1], facts)["verdict"] == NOT_TESTED
    assert judge(claim, Evidence(lacks="no GPU"), facts)["why"] == "no GPU"
    own = Evidence({"": [1.0, 1.1, 0.9]}, facts={"train_accuracy": 20})
    assert judge(claim, own, facts)["verdict"] == NOT_TESTED


def test_the_number_shown_is_the_mean_or_an_end_of_the_settings():
    settings = {"x": [1.0, 3.0], "y": [5.0, 7.0]}
    assert judge(_claim(), settings, {})["ours"] == 4.0
    assert judge(_claim(show="least"), settings, {})["ours"] == 2.0
    assert judge(_claim(show="greatest"), settings, {})["ours"] == 6.0
    assert judge(_claim(), settings, {})["spread"] == pytest.approx(2**0.5)
    assert judge(_claim(), Evidence(settings, shown="4 of 5"), {})["ours"] == "4 of 5"


def test_ratios_are_shown_by_their_geometric_mean():
    claim = _claim(numbers={"limit": 1.0, "scale": "log"})
    found = judge(claim, {"x": [0.25, 4.0], "y": [1.0, 1.0]}, {})
    assert found["ours"] == pytest.approx(1)
    assert found["spread"] == pytest.approx(math.log(4) / 2**0.5)  # to first order: that of half the logarithms


@pytest.mark.parametrize("numbers", [{}, {"scale": "log", "limit": 1}], ids=["differences", "ratios"])
def test_a_record_says_the_same_where_another_processor_rounds_otherwise(numbers):
    values = np.array([0.1, 0.3, 0.7]) / 3
    assert judge(_claim(numbers=numbers), values, {}) == judge(_claim(numbers=numbers), values * (1 + 1e-15), {})


def test_a_difference_below_rounding_is_zero_and_a_small_ratio_is_none():
    assert judge(_claim(), [-9.9e-16, -1.2e-15], {})["settings"] == {"": [0.0, 0.0]}
    assert judge(_claim(numbers={"scale": "log", "limit": 1}), [1e-15, 3e-15], {})["settings"] == {"": [1e-15, 3e-15]}


def test_evidence_and_claims_match_one_to_one(monkeypatch):
    monkeypatch.setattr(claims_module, "declared", lambda paper, notebook: [_claim(), _claim(id="b")])
    run = Run(pd.DataFrame(), {}, {}, "quick")
    with pytest.raises(ValueError, match=r"no evidence for \['b'\], no claim for \['c'\]"):
        judge_all("bico/x", run, lambda run: {"a": [1.0, 2.0], "c": [1.0, 2.0]})
    found = judge_all("bico/x", run, lambda run: {"b": [1.0, 1.1], "a": [-1.0, -1.1]})
    assert [c["verdict"] for c in found] == [FAILS, HOLDS]
    assert json.loads(json.dumps(found)) == found


def test_printed_numbers_become_the_same_comparison():
    table = published("bico", "Table 3").set_index(["row", "column"]).value
    found = printed_settings({"item": "Table 3", "a": "BiCo", "b": "Uniform sampling", "n": 5}, "bico")
    for (a, b, column), summary in found.items():
        assert summary.mean == pytest.approx(table[a, column] - table[b, column])
        assert summary.n == 5
    assert len(found) == 3


def test_printed_numbers_are_compared_within_a_column_or_within_a_row():
    rows = {"item": "Table 1", "a": "BiCo", "b": "Uniform", "columns": ["SVHN/VGG16"], "n": 5}
    [gap] = printed_settings(rows, "bico").values()
    assert (gap.mean, gap.sd, gap.n) == pytest.approx((95.43 - 94.24, np.hypot(0.15, 0.26), 5))
    columns = {"item": "Table 2", "a": ["SVHN/VGG16"], "against": "BiCo WRN", "n": 5}
    [gap] = printed_settings(columns, "bico").values()
    assert (gap.mean, gap.sd) == pytest.approx((95.75 - 95.43, np.hypot(0.14, 0.15)))
    times = {"item": "Table 8 (right)", "a": "Coreset 100", "against": "SCNN", "ratio": True}
    [ratio] = printed_settings(times, "bico").values()
    assert ratio.mean == pytest.approx(31.0 / 29.8)
