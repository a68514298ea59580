"""Verdicts on claims: what the rule says of the evidence, and what the run lacks for it."""

from typing import NamedTuple

import numpy as np

from handful_papers.claims import (
    AGREES,
    CANNOT_TELL,
    DATA,
    DISAGREES,
    NOISE,
    READING,
    SIZE,
    Evidence,
)
from handful_papers.effects import (
    Estimator,
    center,
    finite_values,
    has_one_seed,
    lead_that_is_not_everywhere,
    least_value,
    mean_effect,
    ranked_effect,
    share_of_cases,
    single_values,
)
from handful_papers.texts import interval_text, number_text, setting_text, steady

OVER = ("mean", "every", "most", "not every", "readings", "cases", "each")
# What takes the noise of each setting into account.
BY_SETTINGS = ("mean", "every", "most", "not every")
SCALES = ("linear", "log")
# What a record repeats of the declared claim.
DECLARED = (
    "id",
    "item",
    "text",
    "whose",
    "kind",
    "measured",
    "unit",
    "paper",
    "quote",
    "where",
    "note",
)
# A fact of the run that names data and not their size.
NAMES_OF_DATA = ("data", "mnist_rows")


class Decision(NamedTuple):
    """What a rule says of some settings: verdict and reason, the effect with its 95 % interval
    (None where there is none), why, and beside a rule on every setting their average with its
    interval, (value, low, high)."""

    verdict: str
    reason: str
    effect: float
    low: float | None
    high: float | None
    why: str
    average: tuple | None = None


class Bounds(NamedTuple):
    """What is claimed of an effect: that it lies above and below; None where nothing is."""

    above: float | None
    below: float | None

    def exclude(self, effect, tol):
        """Whether the whole interval of an effect lies beyond a bound."""
        too_low = self.above is not None and effect.high < self.above - tol
        too_high = self.below is not None and effect.low > self.below + tol
        return too_low or too_high

    def contain(self, effect, tol, exact):
        """Whether the whole interval of an effect lies inside, of an exact one its ends
        included."""
        beyond = np.greater_equal if exact else np.greater
        above = self.above is None or beyond(effect.low + tol, self.above)
        below = self.below is None or beyond(self.below, effect.high - tol)
        return above and below

    def exclude_value(self, value):
        """Whether a single number lies beyond a bound."""
        too_low = self.above is not None and value < self.above
        too_high = self.below is not None and value > self.below
        return too_low or too_high

    def as_text(self):
        """The bounds as text: "above 0 and below 2"."""
        stated = {word: bound for word, bound in self._asdict().items() if bound is not None}
        return " and ".join(f"{word} {number_text(bound)}" for word, bound in stated.items())


def decide(
    settings,
    *,
    above=None,
    below=None,
    over="mean",
    scale="linear",
    exact=False,
    tol=0.0,
    overlap=0.0,
):
    """The verdict on an effect, by its 95 % interval.

    It agrees if the whole interval is above `above` and below `below`, disagrees if the whole
    interval is beyond one of them, and cannot tell (noise) otherwise.

    Parameters
    ----------
    settings : dict, setting -> values, one a seed, or a `Summary`
    above, below : float, what is claimed of the effect
    over : what the effect is. "mean": the average over the settings, seed by seed where all have
        the same seeds. "every": the worst setting, by intervals that hold for all settings at once;
        the average stands beside it. "most": the median setting, by such intervals. "not every":
        for settings whose names begin with a group, the group whose least setting is the greatest,
        for a claim that none of the groups is ahead everywhere. "readings": each setting is a
        reading of the text, and only a verdict that all of them give is one. "cases": the share of
        ones among values 0 and 1 (Clopper and Pearson). "each": the least single value, without
        noise, for a theorem
    scale : "log" averages logarithms, for ratios
    exact : the values carry no noise
    tol : rounding that an exact comparison forgives
    overlap : rows of a test set over rows of a training set where seeds are overlapping random
        splits: the variance of a mean over n is then (1/n + overlap) times the sample's (Nadeau and
        Bengio 2003)

    Returns
    -------
    Decision
    """
    if over not in OVER or scale not in SCALES:
        raise ValueError(
            f"over is one of {', '.join(OVER)}, scale linear or log; got {over!r} and {scale!r}."
        )
    if over == "readings":
        rule = dict(above=above, below=below, scale=scale, exact=exact, tol=tol, overlap=overlap)
        return _by_readings(settings, rule)
    exact = exact or over == "each"
    if exact and over == "every":
        settings = single_values(settings)
    estimator = Estimator(log=scale == "log", exact=exact, overlap=overlap)
    if over in BY_SETTINGS and has_one_seed(settings, estimator):
        return _undecided_by_one_seed(settings, estimator)
    bounds = Bounds(above, below)
    tested = _tested(settings, over, estimator, bounds)
    verdicts = [_verdict(effect, part, tol, exact) for effect, part in tested]
    verdict = _worst(verdicts)
    effect, _ = tested[verdicts.index(verdict)]
    interval = "" if exact else interval_text(effect.low, effect.high)
    why = f"{effect.what} {number_text(effect.value)}{interval}; claimed: {bounds.as_text()}"
    if over in ("mean", "every", "most"):
        why += _other_way(settings, bounds, estimator)
    average, told = _average(settings, over, estimator)
    why += told
    return Decision(
        verdict,
        NOISE if verdict == CANNOT_TELL else "",
        float(effect.value),
        float(effect.low),
        float(effect.high),
        why,
        average,
    )


def _average(settings, over, estimator):
    """What stands beside the worst setting: the average with its interval, and as the end of a
    sentence; None and nothing where there is none."""
    # Numbers without noise are bounds, of which the worst counts.
    is_one = len(settings) == 1 or estimator.exact
    if is_one or over not in ("every", "most"):
        return None, ""
    mean = mean_effect(settings, estimator)
    found = (float(mean.value), float(mean.low), float(mean.high))
    return found, f"; on average {number_text(mean.value)}{interval_text(mean.low, mean.high)}"


def _worst(verdicts):
    """What a rule with several parts says: a part that fails decides, then one that is open."""
    return next(one for one in (DISAGREES, CANNOT_TELL, AGREES) if one in verdicts)


def _by_readings(settings, rule):
    """The verdict on which all readings of a text agree; the number shown is that of the first."""
    found = {name: decide({name: values}, **rule) for name, values in settings.items()}
    told = "; ".join(
        f"{setting_text(name)}: {number_text(one.effect)}{_interval_of(one)}, {one.verdict}"
        for name, one in found.items()
    )
    bounds = Bounds(rule["above"], rule["below"])
    why = f"the text can be read in {len(found)} ways. {told}; claimed: {bounds.as_text()}"
    first = next(iter(found.values()))
    if len({one.verdict for one in found.values()}) == 1:
        return first._replace(why=why)
    return first._replace(verdict=CANNOT_TELL, reason=READING, why=why)


def _interval_of(decision):
    return "" if decision.low is None else interval_text(decision.low, decision.high)


def _undecided_by_one_seed(settings, estimator):
    shown = next(
        estimator.center(values, name) for name, values in settings.items() if np.size(values) == 1
    )
    told = "one seed tells nothing of the noise"
    return Decision(CANNOT_TELL, NOISE, shown, None, None, told)


def _tested(settings, over, estimator, bounds):
    """What a rule tests: a list of an `Effect` and the `Bounds` that it is held against."""
    if over == "cases":
        return [(share_of_cases(settings), bounds)]
    if over == "each":
        return [(least_value(settings), bounds)]
    if over == "mean":
        return [(mean_effect(settings, estimator), bounds)]
    if over == "not every":
        return [(lead_that_is_not_everywhere(settings, estimator), bounds)]
    # Of most settings the median one, with as many settings on its side of a bound as more than
    # half of them.
    n = len(settings)
    from_below = 0 if over == "every" else (n - 1) // 2
    from_above = -1 if over == "every" else n // 2
    found = []
    if bounds.above is not None:
        least = ranked_effect(settings, from_below, estimator)
        found.append((least, Bounds(bounds.above, None)))
    if bounds.below is not None:
        greatest = ranked_effect(settings, from_above, estimator)
        found.append((greatest, Bounds(None, bounds.below)))
    return found


def _verdict(effect, bounds, tol, exact):
    if bounds.exclude(effect, tol):
        return DISAGREES
    return AGREES if bounds.contain(effect, tol, exact) else CANNOT_TELL


def _other_way(settings, bounds, estimator):
    """Which of several settings lean the other way, as the end of a sentence; "" for none and for
    all."""
    centers = {name: estimator.center(values, name) for name, values in settings.items()}
    lean = [setting_text(name) for name, value in centers.items() if bounds.exclude_value(value)]
    return f"; the other way: {', '.join(lean)}" if 0 < len(lean) < len(settings) else ""


def judge_all(claims, run, evidence):
    """Every claim of a figure, judged: a list of dict as they stand in a record.

    Parameters
    ----------
    claims : list of Claim
    run : Run
    evidence : function of a `Run`: claim id -> `Evidence`, or a dict of settings, or the values of
        one setting

    Raises
    ------
    ValueError
        if evidence and claims do not match one to one.
    """
    given = dict(evidence(run))
    ids = [claim.id for claim in claims]
    if len(ids) != len(set(ids)) or set(ids) != set(given):
        lost = sorted(set(ids) - set(given))
        new = sorted(set(given) - set(ids))
        raise ValueError(
            f"no evidence for {lost or 'none'}, no claim for {new or 'none'}; an id stands once."
        )
    return [judge(claim, given[claim.id], run) for claim in claims]


def judge(claim, given, run):
    """A claim with its verdict, as it stands in a record (see ``record.schema.json``)."""
    if not isinstance(given, Evidence):
        given = Evidence(given if isinstance(given, dict) else {"": given})
    log = claim.rule.get("scale") == "log"
    settings = {name: _steady(values, name, log) for name, values in given.settings.items()}
    n_seeds = min(map(len, settings.values()), default=0)
    facts = run.facts | {"profile": run.profile} | given.facts | {"seeds": n_seeds}
    reason, why = _lacks(claim, given, run, facts)
    verdict = CANNOT_TELL
    shown = given.shown
    low = None
    high = None
    average = None
    if settings:
        found = decide(settings, **claim.rule)
        # Of a number that is not what the rule looks at there is no interval.
        if shown is None:
            shown = found.effect
            low = found.low
            high = found.high
        average = found.average
        if not reason:
            verdict = found.verdict
            reason = found.reason
            why = found.why
    if claim.printed_verdict == DISAGREES and not given.lacks:
        why += ". The paper's own printed numbers do not show this claim"
    judged = {key: getattr(claim, key) for key in DECLARED} | {
        "ours": steady(shown),
        "low": steady(low),
        "high": steady(high),
        "seeds": n_seeds,
        "verdict": verdict,
        "reason": reason,
        "why": why,
        "settings": {
            setting_text(name): steady(center(values, log)) for name, values in settings.items()
        },
    }
    if average is not None:
        judged["average"] = [steady(value) for value in average]
    return judged


def _steady(values, setting, log):
    """A setting's values, to digits that are the same on any processor."""
    if log:
        # Small ratios count as much as large ones.
        values = np.atleast_1d(np.asarray(values, float))
    else:
        # 5e-13 is rounding.
        values = np.round(finite_values(values, setting), 12)
    return np.array([steady(value) for value in values])


def _lacks(claim, given, run, facts):
    """(reason, sentence) of what the run lacks to decide a claim; both "" where it lacks
    nothing."""
    if given.lacks:
        return given.reason, given.lacks
    absent = [name for name in claim.on if name not in run.data]
    if absent:
        return DATA, f"a claim on {' and '.join(absent)}, which the run did not take"
    for need, wanted in claim.all_needs.items():
        if not _is_met(wanted, facts.get(need)):
            names_data = need.startswith(NAMES_OF_DATA)
            return DATA if names_data else SIZE, _unmet(need, wanted, facts.get(need))
    return "", ""


def _is_met(wanted, got):
    if got is None:
        return False
    return got in wanted if isinstance(wanted, list) else got >= wanted


def _unmet(need, wanted, got):
    if isinstance(wanted, list):
        least = " or ".join(map(str, wanted))
    else:
        least = f"of at least {number_text(wanted)}"
    told = "not told by the run" if got is None else f"got {number_text(got)}"
    return f"needs {need.replace('_', ' ')} {least}, {told}"
