"""The effect that a claim is about: what is tested of its settings, with a 95 % interval.

The settings of a claim are a dict, setting -> values, one a seed, or a `Summary` of values that a
paper prints.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from handful_papers.claims import Summary
from handful_papers.texts import setting_text

# One minus the confidence of an interval.
LEVEL = 0.05


@dataclass(frozen=True)
class Effect:
    """A number with the ends of its 95 % interval, and in words what it is: "mean of 3
    settings"."""

    value: float
    low: float
    high: float
    what: str


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error (None for a single seed) and its degrees of freedom."""

    mean: float
    error: float | None
    df: float

    def interval(self, parts=1):
        """(low, mean, high), at the confidence that Bonferroni asks of one among so many parts."""
        half = stats.t.isf(LEVEL / 2 / parts, self.df) * self.error if self.error else 0.0
        return np.array([self.mean - half, self.mean, self.mean + half])


@dataclass(frozen=True)
class Estimator:
    """How a mean over seeds is estimated: of logarithms, without noise, of overlapping splits; see
    `verdicts.decide`."""

    log: bool = False
    exact: bool = False
    overlap: float = 0.0

    def of(self, values, setting):
        """The `Estimate` of a setting."""
        if isinstance(values, Summary):
            return self._of_summary(values)
        values = finite_values(values, setting)
        if self.log and (values <= 0).any():
            raise ValueError(
                f"{setting_text(setting)}: the logarithm wants ratios above 0, got {values.min()}."
            )
        if self.log:
            values = np.log(values)
        n = len(values)
        mean = float(values.mean())
        if self.exact:
            return Estimate(mean, 0.0, math.inf)
        if n == 1:
            return Estimate(mean, None, 0)
        return Estimate(mean, float(values.std(ddof=1) * math.sqrt(1 / n + self.overlap)), n - 1)

    def _of_summary(self, printed):
        mean = float(printed.mean)
        sd = printed.sd
        if self.log:
            # The standard deviation of a logarithm is the relative one, to first order.
            sd = None if sd is None else sd / mean
            mean = math.log(mean)
        if sd is None:
            return Estimate(mean, 0.0, math.inf)
        return Estimate(mean, sd / math.sqrt(printed.n), printed.n - 1)

    def of_each(self, settings):
        """Setting -> its `Estimate`."""
        return {setting: self.of(values, setting) for setting, values in settings.items()}

    def center(self, values, setting):
        """The mean of a setting's values, of a `Summary` the printed one."""
        if isinstance(values, Summary):
            return values.mean
        return center(finite_values(values, setting), self.log)


def mean_effect(settings, estimator):
    """The `Effect` averaged over the settings, seed by seed where all have the same seeds."""
    ends = _average(settings, estimator).interval()
    return _effect(ends, estimator, _of_settings("mean", settings))


def ranked_effect(settings, rank, estimator):
    """The `Effect` of the setting at a place in ascending order: 0 for the least, -1 for the
    greatest.

    The intervals of the settings hold all at once (Bonferroni), so that the interval of their
    order statistic, which has the ends of the same order, holds whichever setting it is.
    """
    found = estimator.of_each(settings).values()
    together = np.sort([one.interval(parts=len(found)) for one in found], axis=0)
    name = {0: "least", -1: "greatest"}.get(rank, "median")
    return _effect(together[rank], estimator, _of_settings(name, settings))


def lead_that_is_not_everywhere(settings, estimator):
    """The `Effect` of the group of settings, named by their first part, whose least setting is the
    greatest.

    The intervals of all settings of all groups hold at once.
    """
    groups = {}
    for name, values in settings.items():
        group = name[0] if isinstance(name, tuple) else name
        groups.setdefault(group, []).append(estimator.of(values, name))
    leasts = [
        np.min([one.interval(parts=len(settings)) for one in group], axis=0)
        for group in groups.values()
    ]
    words = f"greatest of the least settings of {len(groups)} groups"
    return _effect(np.max(leasts, axis=0), estimator, words)


def share_of_cases(settings):
    """The share of ones among values 0 and 1, as an `Effect` with Clopper and Pearson's
    interval."""
    cases = np.concatenate([finite_values(values, name) for name, values in settings.items()])
    if not np.isin(cases, (0, 1)).all():
        raise ValueError("`cases` counts: every value must be 0 or 1.")
    test = stats.binomtest(int(cases.sum()), len(cases))
    low, high = test.proportion_ci(1 - LEVEL)
    return Effect(cases.mean(), low, high, f"share of {len(cases)} cases")


def single_values(settings):
    """The same settings, each value of ours one of its own."""
    found = {}
    for name, values in settings.items():
        if isinstance(values, Summary):
            found[name] = values
        else:
            parts = name if isinstance(name, tuple) else (name,)
            each = enumerate(finite_values(values, name))
            found |= {(*parts, i): [value] for i, value in each}
    return found


def least_value(settings):
    """The least single value of all settings, as an `Effect` without noise."""
    least = min(finite_values(values, name).min() for name, values in settings.items())
    n_values = sum(np.size(values) for values in settings.values())
    return Effect(least, least, least, f"least of {n_values} values")


def has_one_seed(settings, estimator):
    """Whether the noise of some setting cannot be told, as it has a single value."""
    return any(one.error is None for one in estimator.of_each(settings).values())


def _effect(ends, estimator, what):
    low, value, high = np.exp(ends) if estimator.log else ends
    return Effect(value, low, high, what)


def _of_settings(over, settings):
    return f"{over} of {len(settings)} settings" if len(settings) > 1 else "mean"


def _average(settings, estimator):
    """The `Estimate` of the average over settings.

    It is taken seed by seed where all settings have as many, as they may share seeds. Of unequal
    numbers the errors add up, as if all moved together. Settings that a paper prints count as
    independent, with Welch and Satterthwaite's degrees of freedom.
    """
    printed = any(isinstance(values, Summary) for values in settings.values())
    n_seeds = {np.size(values) for values in settings.values()}
    if not printed and len(n_seeds) == 1:
        values = np.array([finite_values(values, name) for name, values in settings.items()])
        return estimator.of(centers(values, estimator.log), "average")
    found = list(estimator.of_each(settings).values())
    mean = float(np.mean([one.mean for one in found]))
    if printed:
        return Estimate(mean, *_error_of_independent(found))
    errors = [one.error for one in found]
    return Estimate(mean, float(np.mean(errors)), min(one.df for one in found))


def _error_of_independent(found):
    # The standard error of the mean of some estimates, and its degrees of freedom.
    n = len(found)
    variance = sum(one.error**2 for one in found) / n**2
    spread = sum(one.error**4 / one.df for one in found if one.error > 0) / n**4
    df = variance**2 / spread if spread else math.inf
    return math.sqrt(variance), df


def center(values, log):
    """The mean of values, of logarithms the geometric one."""
    return float(centers(values, log))


def centers(values, log):
    """The means of values over the first axis, of logarithms the geometric ones."""
    return np.exp(np.log(values).mean(axis=0)) if log else np.mean(values, axis=0)


def finite_values(values, setting):
    """The values of a setting as an array; ValueError where they are not finite numbers, one a
    seed."""
    array = np.atleast_1d(np.asarray(values, dtype=float))
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{setting_text(setting)}: finite numbers, one a seed, not {values!r}; leave out rows "
            "of failed runs."
        )
    return array


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
        for key, group in (sign * (wide[a] - wide[other])).groupby(by, dropna=False):
            out[(other, *key)] = group.to_numpy()
    return out
