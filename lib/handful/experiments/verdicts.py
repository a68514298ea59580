"""Verdicts on the papers' claims, computed from numbers.

A `Verdict` is a string, one of `VERDICTS`, that carries the comparison it came from (`why`). Only the
functions here make one, and `Experiment.claim` takes nothing else, so that no verdict is typed in.
"""

import math

import numpy as np

HOLDS, WEAKER, FAILS, NOT_TESTED = VERDICTS = (
    "holds",
    "holds weaker",
    "does not hold",
    "not tested at this profile",
)


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

    def __reduce__(self):
        return Verdict, (str(self), self.why)


def judge(holds, *, weaker=False, tested=True, why):
    """The verdict of a comparison that the other helpers do not know.

    Parameters
    ----------
    holds : bool, computed from the run: the claim as the paper makes it
    weaker : bool, computed from the run: the claim in a weaker form, which `why` states
    tested : bool, False where this profile does not run what the claim is about
    why : str, the comparison and its numbers, shown in the report
    """
    if not tested:
        return Verdict(NOT_TESTED, why)
    return Verdict(HOLDS if _flag(holds, "holds") else WEAKER if _flag(weaker, "weaker") else FAILS, why)


def verdict(ours, target, *, direction=">=", weaker=None, tested=True):
    """Whether our number reaches a target.

    `holds` if ``ours >= target`` (``<=`` with ``direction="<="``), `holds weaker` if it reaches only
    `weaker`, otherwise `does not hold`; the rule looks at the mean, so that more spread never helps a claim.

    Parameters
    ----------
    ours : float, or one value per seed, of which the mean is taken
    target : float, what the claim demands
    direction : ">=" or "<="
    weaker : float or None, a laxer target; None: the claim holds or it does not
    tested : False where this profile does not run what the claim is about; `ours` may then be None

    Raises
    ------
    ValueError
        for NaN, or a `weaker` that is not laxer than `target`.
    """
    if not tested:
        return Verdict(NOT_TESTED, "not run at this profile")
    if direction not in (">=", "<="):
        raise ValueError(f"direction must be '>=' or '<=', got {direction!r}.")
    sign, enough, short = (1, "at least", "below") if direction == ">=" else (-1, "at most", "above")
    mean, target = _mean(ours, "ours"), _mean(target, "target")
    if weaker is not None and sign * weaker >= sign * target:
        raise ValueError(f"weaker must be laxer than the target {target} for {direction}, got {weaker}.")
    if sign * mean >= sign * target:
        return Verdict(HOLDS, f"{number(mean)} is {enough} {number(target)}")
    why = f"{number(mean)} is {short} {number(target)}"
    if weaker is None:
        return Verdict(FAILS, why)
    if sign * mean >= sign * _mean(weaker, "weaker"):
        return Verdict(WEAKER, f"{why} but {enough} {number(weaker)}")
    return Verdict(FAILS, f"{why} and {short} {number(weaker)}")


def verdict_near(ours, paper, *, within, weaker=None, tested=True):
    """Whether our number is the paper's: `holds` within `within` of it, `holds weaker` within `weaker`.

    Parameters
    ----------
    ours : float, or one value per seed, of which the mean is taken
    paper : float, the published value
    within : float, largest absolute difference for `holds`; say in the claim where it comes from
    weaker : float or None, a larger one for `holds weaker`
    """
    if not tested:
        return Verdict(NOT_TESTED, "not run at this profile")
    difference = abs(_mean(ours, "ours") - _mean(paper, "paper"))
    result = verdict(difference, within, direction="<=", weaker=weaker)
    return Verdict(str(result), f"the difference of {result.why}")


def verdict_everywhere(differences, *, margin=0.0, alpha=0.05, tested=True):
    """Whether "A is at or above B in every setting" holds, from paired differences A - B.

    `holds`: the mean difference is at least ``-margin`` in every setting.
    `holds weaker`: it is so on average over the settings, and in none is it below by more than the noise (a
    one-sided t-test on the paired differences at level `alpha`, divided by the number of settings;
    a setting with a single seed has no noise to hide behind, there the sign decides).
    Otherwise `does not hold`.

    Parameters
    ----------
    differences : dict, setting -> A - B, one value per seed (positive: A is better); see `paired_differences`
    margin : float >= 0, a difference too small to matter, in the unit of the values
    """
    if not tested:
        return Verdict(NOT_TESTED, "not run at this profile")
    if not differences:
        raise ValueError("no settings to compare: `differences` is empty.")
    if margin < 0:
        raise ValueError(f"margin must not be negative, got {margin}.")
    from scipy import stats

    means, clearly_below = {}, []
    for setting, values in differences.items():
        values = np.atleast_1d(np.asarray(values, dtype=float))
        means[setting] = mean = _mean(values, f"differences[{setting!r}]")
        noise = 0.0
        if len(values) > 1:
            quantile = stats.t.ppf(1 - alpha / len(differences), len(values) - 1)
            noise = quantile * values.std(ddof=1) / math.sqrt(len(values))
        if mean + noise < -margin:
            clearly_below.append(setting)
    n_kept = sum(m >= -margin for m in means.values())
    worst = min(means, key=means.get)
    why = f"at or above in {n_kept} of {len(means)} settings"
    if n_kept < len(means):
        why += f", clearly below in {len(clearly_below)}; worst {means[worst]:+.3g} at {_name(worst)}"
    overall = float(np.mean(list(means.values())))
    partly = not clearly_below and overall >= -margin
    return Verdict(HOLDS if n_kept == len(means) else WEAKER if partly else FAILS, why)


def paired_differences(rows, *, a, b, value, by, method="method", seed="seed", higher_is_better=True):
    """Differences between method `a` and one or several others, seed by seed, for `verdict_everywhere`.

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


def mean_sd(values):
    """Mean and standard deviation (ddof=1; None for one value) over seeds: a claim's `ours` and `spread`."""
    values = np.atleast_1d(np.asarray(values, dtype=float))
    mean = _mean(values, "values")
    return mean, float(values.std(ddof=1)) if len(values) > 1 else None


def number(value):
    """A number as a reader wants it: four significant digits, no more zeros than it needs."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _mean(values, name):
    array = np.asarray(values, dtype=float)
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers, got {values!r}; a failed run is not a result.")
    return float(array.mean())


def _flag(value, name):
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool computed from the run, got {value!r}.")
    return bool(value)


def _name(setting):
    return " / ".join(map(str, setting)) if isinstance(setting, tuple) else str(setting)
