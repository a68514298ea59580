"""Verdicts on claims, computed from numbers by named rules that know noise.

A rule gets ``{setting: one value a seed}`` and the numbers that its claim declares, and gives a `Verdict`. Only rules
make verdicts. "Holds" and "does not hold" are both tests at level .05 over all settings of a claim: if nothing but
noise separates a claim from its opposite, each of the two comes out in at most 5 % of the cases, and the rest is
"undecided".
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

HOLDS, WEAKER, FAILS, UNDECIDED, NOT_TESTED = VERDICTS = (
    "holds",
    "holds weaker",
    "does not hold",
    "undecided",
    "not tested at this size",
)
LEVEL = 0.05
RULES = {}


class Verdict(str):
    """One of `VERDICTS`, with the comparison that gave it in `why`."""

    __slots__ = ("why",)

    def __new__(cls, value, why):
        if value not in VERDICTS:
            raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}; got {value!r}.")
        if not why:
            raise ValueError("a verdict needs its `why`: the comparison that gave it, with its numbers.")
        self = super().__new__(cls, value)
        self.why = str(why)
        return self


@dataclass(frozen=True)
class Summary:
    """A mean that a paper prints, with its standard deviation over n runs (None: it prints none)."""

    mean: float
    sd: float | None = None
    n: int = 1


def rule(function):
    """Register a rule under the name of its function; claims name it."""
    RULES[function.__name__] = function
    return function


@rule
def above(settings, *, limit=0.0, least=None, scale="linear", exact=False, weaker=None, weaker_limit=None):
    """Whether the mean over seeds is above `limit` in all settings, or in at least `least` of them.

    Holds if one-sided t-tests say so at level .05 (of the partial conjunction of Benjamini and Heller 2008: the
    `least`-th smallest p-value, times the number of settings left over, plus one). Does not hold if so many settings
    lie below the limit beyond noise that `least` cannot be above it, by the same test of the opposite.

    Parameters
    ----------
    settings : dict, setting -> values, one a seed, or a `Summary`
    limit : float; give a negative one for "not worse by more than"
    least : int, default all settings
    scale : "log" tests the mean of the logarithms: for ratios
    exact : the values carry no noise (a theorem checked on given numbers): they are compared as they are
    weaker : "mean" tests the average over the settings, if the claim is not contradicted
    weaker_limit : a laxer limit, tested where the claim is not met
    """
    return _one_sided(settings, 1, limit, least, scale, exact, weaker, weaker_limit)


@rule
def below(settings, *, limit=0.0, least=None, scale="linear", exact=False, weaker=None, weaker_limit=None):
    """Whether the mean over seeds is below `limit`; all else as in `above`."""
    return _one_sided(settings, -1, limit, least, scale, exact, weaker, weaker_limit)


@rule
def between(settings, *, low, high, least=None, scale="linear", exact=False, weaker_low=None, weaker_high=None):
    """Whether the mean over seeds lies between `low` and `high`: an equivalence test, two one-sided t-tests a setting.

    Does not hold if a setting lies outside beyond noise. `weaker_low`, `weaker_high` are a wider range.
    """
    over = _one_sided(settings, 1, low, least, scale, exact, None, None)
    under = _one_sided(settings, -1, high, least, scale, exact, None, None)
    why = f"{over.why}; {under.why}"
    if FAILS in (over, under):
        result = FAILS
    else:
        result = HOLDS if over == under == HOLDS else UNDECIDED if NOT_TESTED not in (over, under) else NOT_TESTED
    if result in (HOLDS, NOT_TESTED) or (weaker_low is None and weaker_high is None):
        return Verdict(result, why)
    low, high = (low if weaker_low is None else weaker_low), (high if weaker_high is None else weaker_high)
    wider = between(settings, low=low, high=high, least=least, scale=scale, exact=exact)
    return (
        Verdict(WEAKER, f"{why}; but between {number(low)} and {number(high)}")
        if wider == HOLDS
        else Verdict(result, why)
    )


@rule
def share(settings, *, least, weaker_least=None):
    """Whether more than a share `least` of all cases (values 0 or 1, of all settings) have a property.

    Exact binomial tests at level .05 (Clopper and Pearson). Where all cases were tried, and not a sample of them, use
    `every`.
    """
    cases = np.concatenate([_values(v, s) for s, v in settings.items()])
    if not np.isin(cases, (0, 1)).all():
        raise ValueError("the rule `share` counts cases: every value must be 0 or 1.")
    hits, n = int(cases.sum()), len(cases)
    why = f"{hits} of {n} cases"

    def p(limit, alternative):
        return stats.binomtest(hits, n, limit, alternative=alternative).pvalue

    if p(least, "greater") <= LEVEL:
        return Verdict(HOLDS, f"{why}: more than {least:.0%} (p = {p(least, 'greater'):.2g})")
    if weaker_least is not None and p(weaker_least, "greater") <= LEVEL:
        return Verdict(WEAKER, f"{why}: not clearly more than {least:.0%}, but more than {weaker_least:.0%}")
    if p(least, "less") <= LEVEL:
        return Verdict(FAILS, f"{why}: less than {least:.0%} (p = {p(least, 'less'):.2g})")
    return Verdict(UNDECIDED, f"{why}: neither more nor less than {least:.0%} beyond chance")


@rule
def every(settings, *, limit=0.0, tol=0.0):
    """Whether every single value is at least `limit`, up to `tol` for rounding: what a theorem says of each case."""
    worst, where, n = math.inf, None, 0
    for setting, values in settings.items():
        values = _values(values, setting)
        n += len(values)
        if values.min() < worst:
            worst, where = float(values.min()), setting
    of = f" ({name(where)})" if name(where) else ""
    why = f"smallest of {n} values: {number(worst)}{of}, at least {number(limit)} is claimed"
    return Verdict(HOLDS if worst >= limit - tol else FAILS, why)


def not_tested(why):
    """The verdict where the run does not give what the claim needs."""
    return Verdict(NOT_TESTED, why)


def _one_sided(settings, sign, limit, least, scale, exact, weaker, weaker_limit):
    if not settings:
        raise ValueError("no settings to judge: hand over numbers, or say what the run lacks with `not_tested`.")
    if scale not in ("linear", "log"):
        raise ValueError(f"scale must be 'linear' or 'log', got {scale!r}.")
    if weaker not in (None, "mean"):
        raise ValueError(f"weaker must be 'mean' or left out, got {weaker!r}.")
    found = {s: _estimate(v, s, scale, exact) for s, v in settings.items()}
    if lone := [s for s, (_, se, _) in found.items() if se is None]:
        return not_tested(f"{name(lone[0])} has one seed, which tells nothing of the noise")
    k, least = len(found), len(found) if least is None else least
    if not 1 <= least <= k:
        raise ValueError(f"least must be 1 to {k}, the number of settings, got {least}.")
    side, opposite = ("above", "below") if sign > 0 else ("below", "above")
    goal = math.log(limit) if scale == "log" else limit
    with_it = sorted((_p(sign, *e, goal), s) for s, e in found.items())
    against = sorted((_p(-sign, *e, goal), s) for s, e in found.items())
    p_holds = min(1.0, with_it[least - 1][0] * (k - least + 1))
    p_fails = min(1.0, against[k - least][0] * least)
    if p_holds <= LEVEL:
        text = _shown(found, with_it[least - 1][1], scale)
        weakest = f"weakest of {least}: " if least > 1 else ""
        return Verdict(HOLDS, f"{side} {number(limit)}: {weakest}{text}{_p_text(p_holds, exact)}")
    decisive = against[k - least][1]
    contradicted = p_fails <= LEVEL
    if contradicted:
        why = f"{opposite} {number(limit)}: {_shown(found, decisive, scale)}{_p_text(p_fails, exact)}"
    else:
        last = with_it[least - 1][1]
        why = f"not clearly {side} or {opposite} {number(limit)}: {_shown(found, last, scale)}{_p_text(p_holds, exact)}"
    if weaker_limit is not None:
        lax = _one_sided(settings, sign, weaker_limit, least, scale, exact, None, None)
        if lax == HOLDS:
            return Verdict(WEAKER, f"{why}; but {lax.why}")
    if weaker == "mean" and not contradicted and k > 1:
        pooled = _average(settings, found, scale, exact)
        if (p := _p(sign, *pooled, goal)) <= LEVEL:
            average = _shown({"average": pooled}, "average", scale)
            return Verdict(WEAKER, f"{why}; but {side} it on average over {k} settings: {average}{_p_text(p, exact)}")
    return Verdict(FAILS if contradicted else UNDECIDED, why)


def _estimate(values, setting, scale, exact):
    """(mean, its standard error, degrees of freedom) of a setting; the error is None for a single seed."""
    if isinstance(values, Summary):
        mean, sd = float(values.mean), values.sd
        if scale == "log":  # the standard deviation of a logarithm is the relative one, to first order
            mean, sd = math.log(mean), None if sd is None else sd / mean
        return (mean, 0.0, math.inf) if sd is None else (mean, sd / math.sqrt(values.n), values.n - 1)
    values = _values(values, setting)
    if scale == "log":
        if (values <= 0).any():
            raise ValueError(f"{name(setting)}: the logarithm wants ratios above 0, got {values.min()}.")
        values = np.log(values)
    if exact:
        return float(values.mean()), 0.0, math.inf
    if len(values) == 1:
        return float(values[0]), None, 0
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))), len(values) - 1


def _p(sign, mean, se, df, limit):
    """One-sided p-value of "the true mean is on the `sign` side of the limit"."""
    distance = sign * (mean - limit)
    if se == 0:
        return 0.0 if distance > 0 else 0.5 if distance == 0 else 1.0
    return float(stats.t.sf(distance / se, df) if math.isfinite(df) else stats.norm.sf(distance / se))


def _average(settings, found, scale, exact):
    """The estimate of the average over settings: seed by seed where all have as many, as settings may share seeds."""
    lengths = {None if isinstance(v, Summary) else np.size(v) for v in settings.values()}
    if len(lengths) == 1 and lengths != {None}:
        values = np.array([_values(v, s) for s, v in settings.items()])
        values = np.exp(np.log(values).mean(axis=0)) if scale == "log" else values.mean(axis=0)
        return _estimate(values, "average", scale, exact)
    means, errors, dfs = map(np.array, zip(*found.values()))
    variance = (errors**2).sum() / len(means) ** 2
    spread = sum(e**4 / d for e, d in zip(errors, dfs) if e > 0) / len(means) ** 4
    # Welch and Satterthwaite's degrees of freedom
    return float(means.mean()), math.sqrt(variance), variance**2 / spread if spread else math.inf


def _shown(found, setting, scale):
    mean, se, _ = found[setting]
    where = f"{name(setting)}: " if len(found) > 1 else ""
    if scale == "log":
        return f"{where}{number(math.exp(mean))}" + (f" (x/÷ {number(math.exp(se))})" if se else "")
    return f"{where}{number(mean)}" + (f" ± {number(se)} (standard error)" if se else "")


def _p_text(p, exact):
    return "" if exact or p == 0 else f", p = {p:.2g}"


def paired_differences(rows, *, a, b, value, by, method="method", seed="seed", higher_is_better=True):
    """Differences between method `a` and one or several others, seed by seed.

    Parameters
    ----------
    rows : pandas.DataFrame, one row per (method, setting, seed)
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
    by = [by] if isinstance(by, str) else list(by)
    others = [b] if isinstance(b, str) else list(b)
    known = set(rows[method])
    if missing := [m for m in (a, *others) if m not in known]:
        raise ValueError(f"no rows for {', '.join(map(repr, missing))}; methods: {', '.join(sorted(known))}.")
    if rows.duplicated([method, *by, seed]).any():
        raise ValueError(f"more than one row for a ({', '.join([method, *by, seed])}): name every column that differs.")
    wide = rows.pivot(index=[*by, seed], columns=method, values=value)[[a, *others]]
    if wide.isna().any().any():
        setting = wide.index[wide.isna().any(axis=1)][0]
        raise ValueError(f"methods cannot be paired: a value is missing at {dict(zip([*by, seed], setting))}.")
    sign = 1 if higher_is_better else -1
    out = {}
    for other in others:
        for key, group in (sign * (wide[a] - wide[other])).groupby(level=by if len(by) > 1 else by[0]):
            out[(other, *(key if isinstance(key, tuple) else (key,)))] = group.to_numpy()
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


def _values(values, setting):
    array = np.atleast_1d(np.asarray(values, dtype=float))
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name(setting)} must be finite numbers, one a seed, got {values!r}; a failed run is no result."
        )
    return array
