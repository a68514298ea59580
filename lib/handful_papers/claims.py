"""Claims: what a paper says, and the rule that judges it.

A claim is declared in its figure's ``.toml``. The function ``evidence(run)`` of the figure's module
says which numbers of the rows decide it; it sees what the run left on disk and nothing else, so
that a verdict can be computed again at any time. Only `judge` makes verdicts.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

HOME = Path(__file__).parent
AGREES, DISAGREES, CANNOT_TELL = VERDICTS = ("agrees", "disagrees", "cannot tell")
NOISE = "noise"
SIZE = "size"
DATA = "data"
OVER = ("mean", "least", "greatest", "cases", "each")
LEVEL = 0.05
PROFILES = ("quick", "laptop", "paper")
# the profile of a run that `handful reproduce` has not started
BY_HAND = "by hand"


@dataclass(frozen=True)
class Claim:
    """A claim as declared.

    Attributes
    ----------
    id : str, unique over all figures: "bico-fig06-weighted-2pct"
    text : str, the claim in one sentence
    measured : str, what our number is: "lead in test accuracy, mean over baselines, data sets and
        sizes"
    unit : str, of both numbers: "%", "points", "x"
    rule : dict, the arguments of `decide`: ``{ above = 0.0 }``
    item : str, label of the item it belongs to ("Figure 6"; "" for an item of ours)
    kind : "result", or "check" for mathematics and timing, which are counted apart
    quote, where : str, the paper's words and their section; a claim that has neither is ours, see
        `whose`
    paper : number or str, the paper's value; "" where it prints none
    needs : dict, what makes the claim testable, from the paper: facts of the run by least value, or
        as a list of allowed values; at less the verdict is "cannot tell" for size, or for data
        where the fact names data
    on : list of str, data sets that the claim names; where the run did not take them, it is "cannot
        tell" for data
    printed : dict or None, which printed numbers make the same comparison in the paper; see
        `printed_settings`
    printed_verdict : str, what the rule says of them; "disagrees" says that the paper's own table
        does not show it
    softened : bool, whether its rule was made milder after its result was known; `docs/history.md`
        says how
    note : str, what a reader must know beside it
    letter : str, what we think is the reason, as one would write it to the authors, where the claim
        disagrees
    """

    id: str
    text: str
    measured: str
    unit: str
    rule: dict
    item: str = ""
    kind: str = "result"
    quote: str = ""
    where: str = ""
    paper: object = ""
    needs: dict = field(default_factory=dict)
    on: list = field(default_factory=list)
    printed: dict | None = None
    printed_verdict: str = AGREES
    softened: bool = False
    note: str = ""
    letter: str = ""

    def __post_init__(self):
        allowed = dict(kind=("result", "check"), printed_verdict=VERDICTS)
        for key, words in allowed.items():
            if getattr(self, key) not in words:
                raise ValueError(
                    f"claim {self.id}: {key} is one of {', '.join(words)}; got "
                    f"{getattr(self, key)!r}."
                )
        if not (self.quote and self.where) and (self.quote or self.where or self.paper != ""):
            raise ValueError(
                f"claim {self.id}: a claim of the paper needs its words (`quote`) and where they "
                "stand."
            )
        if not (self.measured and self.unit):
            raise ValueError(f"claim {self.id}: say in `measured` and `unit` what the number is.")
        if not {"above", "below"} & set(self.rule):
            raise ValueError(
                f"claim {self.id}: its rule needs `above`, `below` or both; got {self.rule}."
            )

    @property
    def whose(self):
        """Either "paper", for a claim in the paper's words, or "own", for ours; the two are counted
        apart."""
        return "paper" if self.quote else "own"


@dataclass(frozen=True)
class Evidence:
    """The numbers that decide a claim.

    Attributes
    ----------
    settings : dict, setting -> one value a seed, paired by seed where methods are compared
    shown : the number or words to show, if the tested effect is not what a reader wants
    facts : dict, facts of this claim alone beside the run's
    lacks : str, why the run cannot decide the claim; then there are no settings
    reason : "size" or "data", of what it lacks
    """

    settings: dict = field(default_factory=dict)
    shown: object = None
    facts: dict = field(default_factory=dict)
    lacks: str = ""
    reason: str = SIZE


@dataclass(frozen=True)
class Run:
    """What `evidence(run)` sees: rows (the record's CSV as a data frame), parameters, facts,
    profile, names of data.

    Facts that all its claims may need it adds by ``run.facts.update``.
    """

    rows: object
    parameters: dict
    facts: dict
    profile: str
    data: tuple = ()


@dataclass(frozen=True)
class Summary:
    """A mean that a paper prints, with its standard deviation over n runs (None: it prints
    none)."""

    mean: float
    sd: float | None = None
    n: int = 1


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
    # there, small values count as much as large ones; else 5e-13 is rounding
    log = claim.rule.get("scale") == "log"
    settings = {
        s: _steady(v if log else np.round(_values(v, s), 12)) for s, v in given.settings.items()
    }
    verdict = CANNOT_TELL
    reason = ""
    why = ""
    ours = None
    low = None
    high = None
    seeds = min(map(len, settings.values()), default=0)
    facts = run.facts | {"profile": run.profile} | given.facts | {"seeds": seeds}
    if given.lacks:
        reason = given.reason
        why = given.lacks
    elif absent := [name for name in claim.on if name not in run.data]:
        reason = DATA
        why = f"a claim on {' and '.join(absent)}, which the run did not take"
    elif unmet := next(
        (m for need, wanted in claim.needs.items() if (m := _unmet(need, wanted, facts))), None
    ):
        reason, why = unmet
    if settings:
        found, no_verdict, ours, low, high, told = decide(settings, **claim.rule)
        if not reason:
            verdict = found
            reason = no_verdict
            why = told
    if claim.printed_verdict == DISAGREES and not given.lacks:
        why += ". The paper's own printed numbers do not show this claim"
    names = (
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
    return {key: getattr(claim, key) for key in names} | {
        "ours": steady(ours if given.shown is None else given.shown),
        "low": steady(low),
        "high": steady(high),
        "seeds": seeds,
        "verdict": verdict,
        "reason": reason,
        "why": why,
        "settings": {name(s): steady(_center(v, log)) for s, v in settings.items()},
    }


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
    verdict, reason, effect, low, high, why : str, str, float, float or None, float or None, str
    """
    if over not in OVER or scale not in ("linear", "log"):
        raise ValueError(
            f"over is one of {', '.join(OVER)}, scale linear or log; got {over!r} and {scale!r}."
        )
    log = scale == "log"
    many = f"{over} of {len(settings)} settings" if len(settings) > 1 else "mean"
    exact = exact or over == "each"
    if over == "cases":
        cases = np.concatenate([_values(v, s) for s, v in settings.items()])
        if not np.isin(cases, (0, 1)).all():
            raise ValueError("`cases` counts: every value must be 0 or 1.")
        test = stats.binomtest(int(cases.sum()), len(cases))
        effect = cases.mean()
        (low, high) = test.proportion_ci(1 - LEVEL)
        many = f"share of {len(cases)} cases"
    elif over == "each":
        effect = low = high = min(_values(v, s).min() for s, v in settings.items())
        many = f"least of {sum(np.size(v) for v in settings.values())} values"
    else:
        found = {s: _estimate(v, s, log, exact, overlap) for s, v in settings.items()}
        if any(se is None for _, se, _ in found.values()):
            one = next(_center(_values(v, s), log) for s, v in settings.items() if np.size(v) == 1)
            return CANNOT_TELL, NOISE, one, None, None, "one seed tells nothing of the noise"
        if over == "mean":
            effect, low, high = _interval(*_average(settings, found, log, exact, overlap))
        else:
            sign = 1 if over == "least" else -1
            plain = [sorted(sign * np.array(_interval(*e))) for e in found.values()]
            wide = [
                sorted(sign * np.array(_interval(*e, parts=len(found)))) for e in found.values()
            ]
            ends = min(e[0] for e in plain), min(e[1] for e in plain), min(e[2] for e in wide)
            low, effect, high = sorted(sign * end for end in ends)
        if log:
            effect, low, high = np.exp([effect, low, high])
    beyond = (above is not None and high < above - tol) or (below is not None and low > below + tol)
    kept = np.greater_equal if exact else np.greater
    inside = (above is None or kept(low + tol, above)) and (
        below is None or kept(below, high - tol)
    )
    verdict = DISAGREES if beyond else AGREES if inside else CANNOT_TELL
    claimed = " and ".join(
        f"{word} {number(x)}" for word, x in (("above", above), ("below", below)) if x is not None
    )
    why = (
        f"{many} {number(effect)}"
        + ("" if exact else f" [{number(low)}, {number(high)}]")
        + f"; claimed: {claimed}"
    )
    if over == "mean" and len(settings) > 1:
        centers = {
            s: v.mean if isinstance(v, Summary) else _center(_values(v, s), log)
            for s, v in settings.items()
        }
        lean = [
            s
            for s, c in centers.items()
            if (above is not None and c < above) or (below is not None and c > below)
        ]
        why += (
            f"; the other way: {', '.join(map(name, lean))}"
            if lean and len(lean) < len(settings)
            else ""
        )
    return (
        verdict,
        NOISE if verdict == CANNOT_TELL else "",
        float(effect),
        float(low),
        float(high),
        why,
    )


def _estimate(values, setting, log, exact, overlap):
    """(mean, its standard error, degrees of freedom) of a setting; the error is None for a single
    seed."""
    if isinstance(values, Summary):
        mean = float(values.mean)
        sd = values.sd
        # the standard deviation of a logarithm is the relative one, to first order
        if log:
            mean, sd = math.log(mean), None if sd is None else sd / mean
        return (
            (mean, 0.0, math.inf) if sd is None else (mean, sd / math.sqrt(values.n), values.n - 1)
        )
    values = _values(values, setting)
    if log and (values <= 0).any():
        raise ValueError(
            f"{name(setting)}: the logarithm wants ratios above 0, got {values.min()}."
        )
    values, n = np.log(values) if log else values, len(values)
    if exact:
        return float(values.mean()), 0.0, math.inf
    se = None if n == 1 else float(values.std(ddof=1) * math.sqrt(1 / n + overlap))
    return float(values.mean()), se, n - 1


def _average(settings, found, log, exact, overlap):
    """The estimate of the average over settings: seed by seed where all have as many, as settings
    may share seeds."""
    lengths = {None if isinstance(v, Summary) else np.size(v) for v in settings.values()}
    if len(lengths) == 1 and lengths != {None}:
        values = np.array([_values(v, s) for s, v in settings.items()])
        values = np.exp(np.log(values).mean(axis=0)) if log else values.mean(axis=0)
        return _estimate(values, "average", log, exact, overlap)
    means, errors, dfs = map(np.array, zip(*found.values()))
    variance = (errors**2).sum() / len(means) ** 2
    spread = sum(e**4 / d for e, d in zip(errors, dfs) if e > 0) / len(means) ** 4
    # Welch and Satterthwaite's degrees of freedom
    return float(means.mean()), math.sqrt(variance), variance**2 / spread if spread else math.inf


def _interval(mean, se, df, parts=1):
    half = stats.t.isf(LEVEL / 2 / parts, df) * se if se else 0.0
    return mean, mean - half, mean + half


def _center(values, log):
    return float(np.exp(np.log(values).mean()) if log else np.mean(values))


def _unmet(need, wanted, facts):
    """(reason, sentence) where a fact that the claim needs is not given; None where it is."""
    got = facts.get(need)
    reason = DATA if need.startswith("data") or need == "mnist_rows" else SIZE
    listed = isinstance(wanted, list)
    if got is not None and (got in wanted if listed else got >= wanted):
        return None
    least = " or ".join(map(str, wanted)) if listed else f"of at least {number(wanted)}"
    told = "not told by the run" if got is None else f"got {number(got)}"
    return reason, f"needs {need.replace('_', ' ')} {least}, {told}"


def _values(values, setting):
    array = np.atleast_1d(np.asarray(values, dtype=float))
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name(setting)}: finite numbers, one a seed, not {values!r}; leave out rows of "
            "failed runs."
        )
    return array


def steady(value):
    """A number to ten digits, so that a record says the same on any processor; words as they
    are."""
    if value is None or isinstance(value, str):
        return value
    # no -0.0
    return float(f"{float(value):.10g}") + 0.0


def _steady(values):
    return np.array([steady(v) for v in np.atleast_1d(np.asarray(values, float))])


def paired_differences(
    rows, *, a, b, value, by, method="method", seed="seed", higher_is_better=True
):
    """Differences between method `a` and one or several others, seed by seed.

    Parameters
    ----------
    rows : pandas.DataFrame, one row per (method, setting, seed); rows of further methods do not
        matter
    a : str, the method that the claim is about
    b : str or list of str, what it is compared with
    value : str, the column that is compared
    by : str or list of str, the columns that make a setting
    higher_is_better : False turns the sign, so that positive always means that `a` is better

    Returns
    -------
    dict : (method b, *setting) -> array of differences, one per seed

    Raises
    ------
    ValueError
        if a method is missing, or a setting does not have exactly one row per method and seed.
    """
    by, others = ([given] if isinstance(given, str) else list(given) for given in (by, b))
    if missing := [m for m in (a, *others) if m not in set(rows[method])]:
        raise ValueError(
            f"no rows for {', '.join(map(repr, missing))}; methods: "
            f"{', '.join(sorted(set(rows[method])))}."
        )
    rows = rows[rows[method].isin([a, *others])]
    if rows.duplicated([method, *by, seed]).any():
        raise ValueError(
            f"more than one row for a ({', '.join([method, *by, seed])}): name every column that "
            "differs."
        )
    wide = rows.pivot(index=[*by, seed], columns=method, values=value)
    if wide.isna().any().any():
        setting = wide.index[wide.isna().any(axis=1)][0]
        raise ValueError(
            f"methods cannot be paired: a value is missing at {dict(zip([*by, seed], setting))}."
        )
    sign = 1 if higher_is_better else -1
    out = {}
    for other in others:
        for key, group in (sign * (wide[a] - wide[other])).groupby(by):
            out[(other, *key)] = group.to_numpy()
    return out


def number(value):
    """A number as a reader wants it: four significant digits, no more zeros than it needs."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def name(setting):
    """A setting as text: "uniform / covtype / 50"."""
    return " / ".join(map(str, setting)) if isinstance(setting, tuple) else str(setting)
