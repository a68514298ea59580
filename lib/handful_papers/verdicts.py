"""Verdicts on claims: what the rule says of the evidence, and what the run lacks for it."""

from typing import NamedTuple

import numpy as np

from handful_papers.claims import (
    AGREES,
    CANNOT_TELL,
    DATA,
    DISAGREES,
    NOISE,
    SIZE,
    Evidence,
)
from handful_papers.effects import (
    Estimator,
    center,
    extreme_effect,
    finite_values,
    has_one_seed,
    least_value,
    mean_effect,
    share_of_cases,
)
from handful_papers.texts import interval_text, number_text, setting_text, steady

OVER = ("mean", "least", "greatest", "cases", "each")
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
    (None where there is none), and why."""

    verdict: str
    reason: str
    effect: float
    low: float | None
    high: float | None
    why: str


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
        the same seeds. "least", "greatest": the setting where it is least or greatest, for a claim
        on every or on one setting; its interval is Bonferroni's on the side where the choice of the
        setting helps. "cases": the share of ones among values 0 and 1 (Clopper and Pearson).
        "each": the least single value, without noise, for a theorem
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
    exact = exact or over == "each"
    estimator = Estimator(log=scale == "log", exact=exact, overlap=overlap)
    averages = over in ("mean", "least", "greatest")
    if averages and has_one_seed(settings, estimator):
        return _undecided_by_one_seed(settings, estimator)
    effect = _tested(settings, over, estimator)
    bounds = Bounds(above, below)
    verdict = _verdict(effect, bounds, tol, exact)
    interval = "" if exact else interval_text(effect.low, effect.high)
    why = f"{effect.what} {number_text(effect.value)}{interval}; claimed: {bounds.as_text()}"
    if over == "mean":
        why += _other_way(settings, bounds, estimator)
    return Decision(
        verdict,
        NOISE if verdict == CANNOT_TELL else "",
        float(effect.value),
        float(effect.low),
        float(effect.high),
        why,
    )


def _undecided_by_one_seed(settings, estimator):
    shown = next(
        estimator.center(values, name) for name, values in settings.items() if np.size(values) == 1
    )
    told = "one seed tells nothing of the noise"
    return Decision(CANNOT_TELL, NOISE, shown, None, None, told)


def _tested(settings, over, estimator):
    if over == "cases":
        return share_of_cases(settings)
    if over == "each":
        return least_value(settings)
    if over == "mean":
        return mean_effect(settings, estimator)
    return extreme_effect(settings, over, estimator)


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
    if settings:
        found = decide(settings, **claim.rule)
        shown = found.effect if shown is None else shown
        low = found.low
        high = found.high
        if not reason:
            verdict = found.verdict
            reason = found.reason
            why = found.why
    if claim.printed_verdict == DISAGREES and not given.lacks:
        why += ". The paper's own printed numbers do not show this claim"
    return {key: getattr(claim, key) for key in DECLARED} | {
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
    for need, wanted in claim.needs.items():
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
