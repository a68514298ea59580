"""Rules: what they say of clear cases, how often they err on noise, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
from handful_papers.verdicts import (
    FAILS,
    HOLDS,
    NOT_TESTED,
    UNDECIDED,
    WEAKER,
    Summary,
    Verdict,
    above,
    below,
    between,
    every,
    paired_differences,
    share,
)

CLEAR = {"a": [1.0, 1.1, 0.9, 1.2, 1.0], "b": [2.0, 2.1, 1.9, 2.2, 2.0]}
NOISY = {"a": [1.0, -1.1, 0.9, -0.5, 0.4], "b": [2.0, 2.1, 1.9, 2.2, 2.0]}
BELOW = {"a": [-1.0, -1.1, -0.9, -1.2, -1.0], "b": [2.0, 2.1, 1.9, 2.2, 2.0]}


@pytest.mark.parametrize(
    ("settings", "numbers", "verdict"),
    [
        (CLEAR, {}, HOLDS),
        (NOISY, {}, UNDECIDED),
        (BELOW, {}, FAILS),
        (NOISY, {"weaker": "mean"}, WEAKER),
        (BELOW, {"weaker": "mean"}, FAILS),  # what one setting contradicts does not hold on average either
        (NOISY, {"least": 1}, HOLDS),
        (BELOW, {"least": 1}, HOLDS),
        (BELOW, {"limit": 3.0}, FAILS),
        (BELOW, {"limit": 3.0, "weaker_limit": -2.0}, WEAKER),
        ({"a": [1.0]}, {}, NOT_TESTED),
        ({"a": [1.0]}, {"exact": True}, HOLDS),
        ({"a": [0.0, 0.0]}, {}, UNDECIDED),
        ({"a": [2.0, 2.1, 1.9]}, {"limit": 1.0, "scale": "log"}, HOLDS),
        ({"a": Summary(1.0, 0.1, 5)}, {}, HOLDS),
        ({"a": Summary(1.0, 9.0, 5)}, {}, UNDECIDED),
        ({"a": Summary(1.0)}, {}, HOLDS),
        ({"a": Summary(2.1)}, {"limit": 2.0, "scale": "log"}, HOLDS),
        ({"a": Summary(1.9)}, {"limit": 2.0, "scale": "log"}, FAILS),
        ({"a": Summary(2.1, 2.0, 5)}, {"limit": 2.0, "scale": "log"}, UNDECIDED),
    ],
)
def test_above_tells_clear_cases_from_noise(settings, numbers, verdict):
    found = above(settings, **numbers)
    assert found == verdict
    assert found.why


def test_below_is_above_with_the_signs_turned():
    for settings in (CLEAR, NOISY, BELOW):
        turned = {k: -np.array(v) for k, v in settings.items()}
        assert below(turned, limit=-0.5) == above(settings, limit=0.5)


def test_between_wants_the_mean_inside_beyond_noise():
    assert between({"a": [2.0, 2.1, 1.9]}, low=1.5, high=3) == HOLDS
    assert between({"a": [1.0, 3.9, 2.0]}, low=1.5, high=3) == UNDECIDED
    assert between({"a": [4.0, 4.1, 3.9]}, low=1.5, high=3) == FAILS
    assert between({"a": [4.0, 4.1, 3.9]}, low=1.5, high=3, weaker_high=5) == WEAKER
    assert between({"a": [2.0]}, low=1.5, high=3) == NOT_TESTED


def test_share_counts_cases_and_every_compares_each():
    assert share({"": [1] * 19 + [0]}, least=0.5) == HOLDS
    assert share({"": [1] * 11 + [0] * 9}, least=0.5) == UNDECIDED
    assert share({"": [1] + [0] * 19}, least=0.5) == FAILS
    assert share({"": [1] * 14 + [0] * 6}, least=0.8, weaker_least=0.4) == WEAKER
    assert every({"a": [0.1, 0.0], "b": [1.0]}) == HOLDS
    assert every({"a": [0.1, -1e-12], "b": [1.0]}, tol=1e-9) == HOLDS
    assert every({"a": [0.1, -0.1]}) == FAILS
    with pytest.raises(ValueError, match="0 or 1"):
        share({"": [0.5]}, least=0.5)


def _rates(rule, effect, *, n_settings, n_seeds, repeats=600, **numbers):
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(repeats, n_settings, n_seeds)) + effect
    verdicts = [rule({k: x for k, x in enumerate(draw)}, **numbers) for draw in draws]
    return {v: verdicts.count(v) / repeats for v in (HOLDS, WEAKER, FAILS, UNDECIDED)}


# 5 % may err; .077 is three standard errors above that for 600 draws.
@pytest.mark.parametrize("n_seeds", [3, 5, 10])
@pytest.mark.parametrize(("n_settings", "least"), [(1, None), (4, None), (12, None), (4, 1), (5, 3)])
def test_without_an_effect_above_errs_in_at_most_five_percent(n_seeds, n_settings, least):
    rates = _rates(above, 0.0, n_settings=n_settings, n_seeds=n_seeds, least=least, weaker="mean")
    assert rates[HOLDS] <= 0.077
    assert rates[FAILS] <= 0.077
    assert rates[HOLDS] + rates[WEAKER] <= 0.14  # two statements, each at 5 %


@pytest.mark.parametrize("edge", [1.5, 3.0])
def test_at_its_edge_between_errs_in_at_most_five_percent(edge):
    rates = _rates(between, edge, n_settings=1, n_seeds=5, low=1.5, high=3.0)
    assert rates[HOLDS] <= 0.077
    assert rates[FAILS] <= 0.077


def test_at_its_limit_share_errs_in_at_most_five_percent():
    rng = np.random.default_rng(0)
    verdicts = [share({"": (rng.random(20) < 0.5).astype(int)}, least=0.5) for _ in range(600)]
    assert verdicts.count(HOLDS) / 600 <= 0.077
    assert verdicts.count(FAILS) / 600 <= 0.077


def test_a_clear_effect_is_mostly_found():
    found = _rates(above, 2.0, n_settings=4, n_seeds=5)
    print(found)
    assert found[HOLDS] > 0.6
    assert found[FAILS] == 0


def test_rules_refuse_what_they_cannot_judge():
    for settings in ({}, {"a": []}, {"a": [np.nan, 1.0]}):
        with pytest.raises(ValueError, match=r"no settings|finite"):
            above(settings)
    with pytest.raises(ValueError, match="above 0"):
        above({"a": [-1.0, 2.0]}, limit=1.0, scale="log")
    with pytest.raises(ValueError, match="least must be 1 to 2"):
        above(CLEAR, least=3)
    with pytest.raises(ValueError, match="a verdict is one of"):
        Verdict("surely", "because")
    with pytest.raises(ValueError, match="why"):
        Verdict(HOLDS, "")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"method": method, "m": m, "seed": seed, "accuracy": 90 + m / 100 + rng.normal()}
            for method in ("uniform", "bico weighted")
            for m in (50, 100, 200)
            for seed in range(4)
        ]
    )


def test_paired_differences_pair_by_seed(rows):
    found = paired_differences(rows, a="bico weighted", b="uniform", value="accuracy", by="m")
    assert list(found) == [("uniform", 50), ("uniform", 100), ("uniform", 200)]
    wide = rows.set_index(["method", "m", "seed"])["accuracy"]
    expected = [wide["bico weighted", 100, s] - wide["uniform", 100, s] for s in range(4)]
    np.testing.assert_allclose(found["uniform", 100], expected)
    options = dict(value="accuracy", by=["m"], higher_is_better=False)
    flipped = paired_differences(rows, a="bico weighted", b=["uniform"], **options)
    np.testing.assert_allclose(flipped["uniform", 100], -np.array(expected))


def test_paired_differences_refuse_rows_that_do_not_pair(rows):
    options = dict(a="bico weighted", value="accuracy", by="m")
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_differences(rows.iloc[1:], b="uniform", **options)
    with pytest.raises(ValueError, match="more than one row"):
        paired_differences(pd.concat([rows, rows]), b="uniform", **options)
    with pytest.raises(ValueError, match="no rows for 'kcenter'"):
        paired_differences(rows, b="kcenter", **options)


def test_a_printed_ratio_is_judged_as_a_ratio():
    assert above({"": Summary(3.0)}, limit=2.0, scale="log") == "holds"
    assert above({"": Summary(1.5)}, limit=2.0, scale="log") == "does not hold"
    wide, narrow = ({"": Summary(3.0, sd, 5)} for sd in (3.0, 0.3))
    assert above(wide, limit=2.0, scale="log") == "undecided"
    assert above(narrow, limit=2.0, scale="log") == "holds"
