"""Verdicts: intervals against closed forms, rules that could have come out otherwise, and the
schema of a record."""

import copy
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from handful_papers import site
from handful_papers.claims import (
    AGREES,
    CANNOT_TELL,
    DATA,
    DISAGREES,
    NOISE,
    READING,
    SIZE,
    Claim,
    Evidence,
    Run,
)
from handful_papers.committed import FIGURES, judge_again, records
from handful_papers.effects import Estimator, mean_effect, paired_differences
from handful_papers.entries import figure_entry, names, reductions
from handful_papers.levels import level
from handful_papers.published import printed_settings, published
from handful_papers.run import plan, stale
from handful_papers.texts import ours_text
from handful_papers.verdicts import decide, judge, judge_all
from scipy import stats

NOISY = np.array([0.9, 1.1, 1.4, 0.6, 1.0])
CLAIM = dict(
    id="x", text="t", measured="m", unit="points", quote="q", where="Section 1", rule={"above": 0.0}
)
RUN = Run(None, {}, {}, "laptop")


def verdict(settings, **rule):
    return decide({s: np.asarray(v, float) for s, v in settings.items()}, **rule)[:2]


def test_the_interval_is_students_and_the_verdict_reads_it():
    _, _, effect, low, high, why, _ = decide({"": NOISY}, above=0.5)
    expected = stats.t.interval(0.95, 4, loc=NOISY.mean(), scale=stats.sem(NOISY))
    assert (effect, low, high) == pytest.approx((NOISY.mean(), *expected))
    assert why == "mean 1 [0.638, 1.362]; claimed: above 0.5"
    assert verdict({"": NOISY}, above=0.5) == (AGREES, "")
    assert verdict({"": NOISY}, above=0.9) == (CANNOT_TELL, NOISE)
    assert verdict({"": NOISY}, above=1.5) == (DISAGREES, "")
    assert verdict({"": NOISY}, below=1.5) == (AGREES, "")
    assert verdict({"": NOISY}, above=0.5, below=1.2) == (CANNOT_TELL, NOISE)
    assert verdict({"": NOISY}, above=0.5, below=1.5) == (AGREES, "")
    assert verdict({"": NOISY}, above=2, below=3) == (DISAGREES, "")


def test_one_seed_and_no_difference_tell_nothing():
    assert verdict({"": [3.0]}, above=0) == (CANNOT_TELL, NOISE)
    assert verdict({"": [0.0, 0.0]}, above=0) == (CANNOT_TELL, NOISE)
    assert verdict({"": [0.0, 0.0]}, above=0, exact=True) == (AGREES, "")


@pytest.mark.parametrize("rule", [dict(above=0.0), dict(below=0.0), dict(above=0.0, over="every")])
def test_where_only_noise_decides_a_wrong_verdict_is_rare(rule, rng):
    drawn = [verdict({"": rng.normal(size=5)}, **rule)[0] for _ in range(2000)]
    for one in (AGREES, DISAGREES):
        assert abs(drawn.count(one) / 2000 - 0.025) < 4 * math.sqrt(0.025 * 0.975 / 2000)


def test_settings_are_averaged_seed_by_seed_and_those_that_lean_the_other_way_are_named():
    # of the seeds, alike in both settings: it cancels in neither
    shared = np.array([2.0, -1.0, 0.5])
    settings = {"a": 3 + shared, "b": -1 - shared}
    found = decide(settings, above=0)
    assert found[:3] == (AGREES, "", 1.0)
    assert found[5].endswith("the other way: b")
    assert verdict(settings, above=0, over="every") != (AGREES, "")
    # of unequal seeds: Welch and Satterthwaite
    assert verdict({"a": NOISY, "b": NOISY[:3]}, above=0)[0] == AGREES
    assert decide(settings, below=9, over="every")[2] == pytest.approx(3.5)


def test_a_claim_on_every_setting_is_that_of_the_worst_by_intervals_that_hold_at_once(rng):
    settings = {name: rng.normal(loc, 0.3, 8) for name, loc in (("a", 3), ("b", 6), ("c", 9))}
    low, high = np.sort(
        [
            stats.t.interval(1 - 0.05 / 3, 7, loc=x.mean(), scale=stats.sem(x))
            for x in settings.values()
        ],
        axis=0,
    ).T
    least = decide(settings, above=0, over="every")
    assert least[3:5] == pytest.approx((low[0], high[0]))
    # The average stands beside the worst setting, which alone decides.
    mean = decide(settings, above=0)
    assert least.average == pytest.approx(mean[2:5])
    assert verdict(settings, above=5, over="every") == (DISAGREES, "")
    assert verdict(settings, above=5) != (DISAGREES, "")
    # Bounds on both sides are held against the least and the greatest setting.
    assert verdict(settings, above=0, below=5, over="every") == (DISAGREES, "")
    assert verdict(settings, above=0, below=99, over="every") == (AGREES, "")
    # Two of three are above 4.5, and not all.
    assert verdict(settings, above=4.5, over="most") == (AGREES, "")
    assert verdict(settings, above=4.5, over="every") != (AGREES, "")


@pytest.mark.parametrize("n_settings", [2, 12])
def test_of_settings_that_do_not_differ_the_worst_seldom_gives_a_wrong_verdict(n_settings, rng):
    wrong = 0
    for _ in range(300):
        drawn = {name: rng.normal(size=5) for name in range(n_settings)}
        wrong += verdict(drawn, above=0, over="every")[0] != CANNOT_TELL
    assert wrong / 300 < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 300)


def test_a_claim_that_no_method_is_ahead_everywhere_needs_a_setting_of_each_where_it_is_not():
    shift = np.array([-0.1, 0.0, 0.1, 0.05, -0.05])
    ahead_once = {("a", 1): 5 + shift, ("a", 2): -5 + shift, ("b", 1): -3 + shift}
    assert verdict(ahead_once, below=0, over="not every") == (AGREES, "")
    # names that begin with the same letter are groups of their own
    apart = {"kmeans": NOISY, "kcenter": -NOISY}
    assert verdict(apart, below=0, over="not every") == (DISAGREES, "")
    assert verdict(ahead_once | {("c", 1): 2 + shift}, below=0, over="not every") == (DISAGREES, "")


def test_a_text_that_can_be_read_in_two_ways_is_decided_where_both_say_the_same():
    near = NOISY
    far = NOISY + 5
    assert verdict({"one": far, "other": far + 1}, above=2, over="readings") == (AGREES, "")
    assert verdict({"one": near, "other": near}, above=2, over="readings") == (DISAGREES, "")
    assert verdict({"one": far, "other": near}, above=2, over="readings") == (CANNOT_TELL, READING)
    both_open = {"one": near, "other": near + 0.1}
    assert verdict(both_open, above=1, over="readings") == (CANNOT_TELL, NOISE)
    why = decide({"one": far, "other": near}, above=2, over="readings").why
    assert "one: 6" in why
    assert "other: 1" in why


def test_what_a_claim_needs_is_that_of_its_sorts_and_its_own():
    claim = Claim(**CLAIM | dict(sorts=["svm"], needs={"seeds": 5}))
    assert claim.all_needs == {"data_sets": 6, "seeds": 5}
    with pytest.raises(ValueError, match="no sort odd"):
        Claim(**CLAIM | dict(sorts=["odd"]))


def test_overlapping_splits_widen_the_interval_as_nadeau_and_bengio_say():
    widths = [np.diff(decide({"": NOISY}, above=0, overlap=o)[3:5])[0] for o in (0, 1 / 9)]
    assert widths[1] / widths[0] == pytest.approx(math.sqrt((1 / 5 + 1 / 9) / (1 / 5)))


def test_an_average_of_unequal_numbers_of_seeds_that_move_together_is_no_surer_than_one_setting():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        common = rng.normal(size=10)
        settings = {
            k: (common + 0.2 * rng.normal(size=10))[: 10 - k % 2].tolist() for k in range(10)
        }
        effect = mean_effect(settings, Estimator())
        covered += effect.low < 0 < effect.high
    assert covered / 400 > 0.92


def test_what_is_exact_is_judged_by_its_worst_value():
    settings = {"a": [40.0] * 9 + [60.0], "b": [30.0]}
    found = decide(settings, below=50, over="every", exact=True)
    assert (found.verdict, found.effect) == (DISAGREES, 60)
    assert decide(settings, below=61, over="every", exact=True).verdict == AGREES


def test_settings_without_a_name_are_paired_too():
    rows = pd.DataFrame(
        {
            "method": ["a", "b"] * 2,
            "kind": ["x", "x", np.nan, np.nan],
            "seed": 0,
            "y": [1.0, 2.0, 5.0, 3.0],
        }
    )
    found = paired_differences(rows, a="a", b="b", value="y", by="kind")
    assert sorted(float(v[0]) for v in found.values()) == [-1, 2]


def test_standard_errors_that_a_paper_prints_are_not_taken_for_deviations():
    cell = published("vcgmm", "Table 1").query("sd == sd").iloc[0]
    assert (cell.value, cell.sd) == (0.0, pytest.approx(0.04 * math.sqrt(50)))


def test_ratios_are_averaged_as_logarithms_cases_counted_and_theorems_compared_without_noise():
    assert decide({"": [2.0, 8.0]}, above=1, scale="log")[2] == pytest.approx(4)
    with pytest.raises(ValueError, match="ratios above 0"):
        decide({"": [1.0, 0.0]}, above=1, scale="log")
    ones = np.r_[np.ones(9), 0]
    expected = stats.binomtest(9, 10).proportion_ci(0.95)
    assert decide({"": ones}, above=0.5, over="cases")[2:5] == pytest.approx((0.9, *expected))
    with pytest.raises(ValueError, match="0 or 1"):
        decide({"": NOISY}, above=0.5, over="cases")
    assert verdict({"": [1.0, 2.0 - 1e-9]}, above=1, over="each") == (AGREES, "")
    assert verdict({"": [1 - 1e-9]}, above=1, over="each", tol=1e-6) == (AGREES, "")
    assert verdict({"": [1 - 1e-3]}, above=1, over="each", tol=1e-6) == (DISAGREES, "")
    with pytest.raises(ValueError, match="finite"):
        decide({"": [1.0, math.nan]}, above=0)


@pytest.mark.parametrize(
    ("claim", "evidence", "reason", "why"),
    [
        (
            dict(needs={"rows": 100}),
            Evidence({"": NOISY}, facts={"rows": 99}),
            SIZE,
            "needs rows of at least 100, got",
        ),
        (dict(needs={"rows": 100}), NOISY, SIZE, "not told by the run"),
        (
            dict(needs={"data": ["svhn"]}),
            Evidence({"": NOISY}, facts={"data": "mnist"}),
            DATA,
            "data svhn, got mnist",
        ),
        (dict(needs={"seeds": 6}), NOISY, SIZE, "got 5"),
        (dict(on=["song"]), NOISY, DATA, "song, which the run did not take"),
        ({}, Evidence(lacks="nothing was run", reason=DATA), DATA, "nothing was run"),
    ],
)
def test_what_a_run_lacks_is_no_verdict_and_its_reason_is_said(claim, evidence, reason, why):
    judged = judge(Claim(**CLAIM | claim), evidence, RUN)
    assert (judged["verdict"], judged["reason"]) == (CANNOT_TELL, reason)
    assert why in judged["why"]


def test_a_number_that_is_shown_in_place_of_the_tested_one_has_no_interval():
    tested = judge(Claim(**CLAIM), Evidence({"": NOISY}), RUN)
    assert tested["low"] < tested["ours"] < tested["high"]
    judged = judge(Claim(**CLAIM), Evidence({"": NOISY}, shown=7.0), RUN)
    assert [judged[key] for key in ("ours", "low", "high")] == [7.0, None, None]
    assert judged["why"] == tested["why"]


def test_claims_and_evidence_match_one_to_one_and_a_claim_says_all_that_it_must():
    claim = Claim(**CLAIM)
    assert judge_all([claim], RUN, lambda run: {"x": NOISY})[0]["verdict"] == AGREES
    for claims, ids in (([claim], "y"), ([claim], ""), ([claim, claim], "x")):
        with pytest.raises(ValueError, match="an id stands once"):
            judge_all(claims, RUN, lambda run, ids=ids: {i: NOISY for i in ids})
    for wrong in (
        dict(quote=""),
        dict(unit=""),
        dict(rule={"over": "mean"}),
        dict(where=""),
        dict(kind="odd"),
    ):
        with pytest.raises(ValueError, match="claim x"):
            Claim(**CLAIM | wrong)
    ours = CLAIM | dict(quote="", where="")
    assert (claim.whose, Claim(**ours).whose) == ("paper", "own")
    # a number of the paper with none of its words
    with pytest.raises(ValueError, match="claim x"):
        Claim(**ours | dict(paper=1.5))


def test_differences_are_paired_by_seed_or_refused():
    import pandas as pd

    rows = pd.DataFrame(
        {"method": list("aabb"), "m": 5, "seed": [0, 1, 1, 0], "y": [1.0, 2.0, 5.0, 3.0]}
    )
    assert paired_differences(rows, a="b", b="a", value="y", by="m")["a", 5].tolist() == [2, 3]
    worse = paired_differences(rows, a="b", b="a", value="y", by="m", higher_is_better=False)
    assert worse["a", 5].tolist() == [-2, -3]
    for part, message in (
        (rows[:3], "a value is missing"),
        (pd.concat([rows, rows]), "more than one row"),
    ):
        with pytest.raises(ValueError, match=message):
            paired_differences(part, a="b", b="a", value="y", by="m")
    with pytest.raises(ValueError, match="no rows for 'c'"):
        paired_differences(rows, a="b", b="c", value="y", by="m")


# --- what is declared and what is on record

CLAIMS = [(name, claim) for name in names() for claim in figure_entry(name)["claim"]]


def test_no_claim_stands_twice_and_each_belongs_to_an_item():
    ids = [claim.id for _, claim in CLAIMS]
    assert len(ids) == len(set(ids))
    assert [
        c.id
        for name, c in CLAIMS
        if c.item not in {item["label"] for item in figure_entry(name)["item"]}
    ] == []


def test_what_is_measured_in_seconds_is_a_check_and_counted_apart():
    assert [c.id for _, c in CLAIMS if "seconds" in c.measured and c.kind != "check"] == []


@pytest.mark.parametrize(
    ("level", "item"),
    [
        ("the paper's", "bico/fig10_active_learning"),
        ("the paper's", "svm/fig04_sensitivities"),
        ("part", "svm/fig01_offline_error"),
        ("generated", "bico/fig05_gmm_error"),
        ("generated", "vrm/fig02_kdpp"),
        ("generated", "bico/fig10_active_learning"),
    ],
)
def test_a_claim_counts_on_the_papers_data_only_with_all_of_them_and_the_papers_model(level, item):
    def record(item, level):
        return dict(item=item, level={"kind": level}, reductions=[])

    claim = dict(whose="paper", kind="result")
    assert site.stratum(claim, record(item, level)) == site.STRATA[1]
    for whole, kind in [
        ("svm/fig03_streaming_error", "the paper's"),
        ("vrm/fig02_blobs", "generated"),
    ]:
        assert (
            site.stratum(claim, record(whole, kind)) == "on the paper's data, or drawn as it says"
        )
    assert site.stratum(claim | {"kind": "check"}, record(item, level)) == site.STRATA[2]


@pytest.mark.parametrize(
    ("name", "claim"), [(n, c) for n, c in CLAIMS if c.printed], ids=lambda x: getattr(x, "id", "")
)
def test_the_papers_own_numbers_pass_the_rule_or_the_claim_says_that_they_do_not(name, claim):
    settings = printed_settings(claim.printed, name.split("/")[0])
    found = decide(settings, **claim.rule)
    assert found.verdict == claim.printed_verdict
    if not isinstance(claim.paper, str):
        value, *_ = found.average or [found.effect]
        digits = len(str(claim.paper).partition(".")[2])
        assert abs(claim.paper - value) < 0.51 * 10.0**-digits


def test_every_claim_of_a_paper_that_disagrees_has_its_letter_and_no_other_claim_has_one():
    judged = {
        c["id"]: c["verdict"] for _, r in records()[0] for c in r["claims"] if c["whose"] == "paper"
    }
    page = site.disagreements_page()
    letters = {c.id: c.letter for _, c in CLAIMS if c.letter}
    assert set(letters) == {id for id, verdict in judged.items() if verdict == DISAGREES}
    for _, record in records()[0]:
        for claim in record["claims"]:
            # the numbers are the record's, the words the declared ones
            if claim["id"] in letters:
                assert all(
                    site._plain(words) in page for words in (claim["quote"], ours_text(claim))
                )


def test_the_committed_records_are_whole_current_clean_and_their_verdicts_follow_from_their_rows(
    tmp_path,
):
    found, refused = records()
    assert refused == []
    assert [
        r["item"] for _, r in found if stale(r, plan(r["profile"], [r["item"]])[0]) or r["dirty"]
    ] == []
    for path, record in found:
        for file in path.parent.glob(f"{path.stem}*"):
            shutil.copy(file, tmp_path / file.name) if file.suffix != ".pdf" else None
        copied = tmp_path / path.parent.name / path.name
        copied.parent.mkdir(exist_ok=True)
        for file in tmp_path.glob("*.*"):
            shutil.move(file, copied.parent / file.name)
        assert not judge_again(copied), f"{record['item']}: handful report --judge"
    page = FIGURES.parent / "docs" / "field.md"
    text = page.read_text(encoding="utf-8")
    assert site.with_claims(text) == text, "docs/field.md: handful report --judge"


def test_the_sites_copy_of_a_notebook_has_the_verdicts_on_record_and_is_else_what_ran():
    (path, record), *_ = records()[0]
    ran = path.with_suffix(".ipynb").read_text(encoding="utf-8")
    source = (FIGURES.parent / "notebooks" / f"{record['item']}.ipynb").read_text(encoding="utf-8")
    claims = [
        claim | {"verdict": "cannot tell", "reason": "noise", "why": "<as judged again>"}
        for claim in record["claims"]
    ]
    shown = json.loads(site.as_of_today(ran, claims, source))
    for cell, before in zip(shown["cells"], json.loads(ran)["cells"]):
        if "".join(cell["source"]).endswith("exp.claims_table()"):
            told = "".join(cell["outputs"][-1]["data"]["text/plain"])
            assert told.count("as judged again") == told.count("cannot tell (noise)") == len(claims)
        else:
            assert cell == before


@pytest.mark.parametrize("code", ["size = 1", "size = 2"])
def test_the_sites_copy_of_a_notebook_has_the_prose_of_today_where_its_code_is_what_ran(code):
    ran = notebook_of(("markdown", "KDD is a stand-in."), ("code", "size = 1"))
    put_in = ran["cells"][1] | {"metadata": {"tags": ["injected-parameters"]}, "source": "size = 3"}
    ran["cells"].insert(2, put_in)
    today = notebook_of(("markdown", "KDD ran."), ("code", code))
    shown = json.loads(site.as_of_today(json.dumps(ran), [], json.dumps(today)))
    revised = copy.deepcopy(ran)
    if code == "size = 1":
        revised["cells"][0]["source"] = "KDD ran."
    assert shown == revised


def notebook_of(*cells):
    empty = dict(metadata={}, outputs=[])
    return {"cells": [dict(cell_type=kind, source=text) | empty for kind, text in cells]}


def test_reductions_look_into_dicts_and_leave_out_what_is_no_protocol():
    parameters = plan("laptop", ["fig06"])[0].parameters | {
        "n_seeds": 5,
        "n_jobs": 7,
        "show": "another",
    }
    told = reductions("bico/fig06_binary_logistic", parameters)
    assert "n_seeds = 5 instead of 10" in told
    assert not any("n_jobs" in sentence or "show" in sentence for sentence in told)
    assert not any(
        "n_seeds" in sentence
        for sentence in reductions("bico/fig06_binary_logistic", {"n_seeds": 12})
    )
    told = reductions("bico/tab03_continual", plan("laptop", ["tab03"])[0].parameters)
    assert "n_epochs.SMNIST = 100 instead of 400" in told


def test_the_level_of_data_is_that_of_the_lowest_set():
    sha = {"sha256": "x"}
    assert level({"phishing": sha}, ["phishing"])["kind"] == "the paper's"
    assert (
        level({"phishing": sha, "covtype_subset": sha}, ["phishing", "covtype"])["text"]
        == "part: 16 % of Covertype"
    )
    assert level({"mnist": sha | {"rows": 35000}}, ["mnist"])["text"] == "part: 50 % of MNIST"
    assert (
        level({"mnist": sha | {"instead_of": "SVHN"}}, ["svhn"])["text"]
        == "stand-in: MNIST for SVHN"
    )
    assert level({"made": {"sha256": None}}, [])["kind"] == "generated"
    assert level({"digits": sha}, [])["kind"] == "stand-in"
    beside = {"covtype_subset": sha | {"rows": 1000}, "blobs": {"sha256": None}}
    assert level(beside, ["covtype_subset"])["kind"] == "part"
    assert level({"blobs": {"sha256": None}}, ["phishing"])["kind"] == "stand-in"
