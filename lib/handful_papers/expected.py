"""Rows that should be as they were: the rules by which columns are compared, and what differs."""

from fnmatch import fnmatchcase
from numbers import Real

import numpy as np

# What an audit allows, where the figure's own rules are there for other machines.
AUDIT = {"rtol": 1e-6, "atol": 1e-12, "reason": "audit"}
# Columns that no rule has to name.
TIMES = {"*seconds*": "time"}


def at_equal_keys(rows, record, rules):
    """What `compare` takes to audit rows: those whose keys stand in a record, the record's, and the
    rules, which are `AUDIT` for each number that the figure's rules compare."""
    keys = [key for key in rules["keys"] if key in rows and key in record]
    compared = [column for column in compared_columns(rows, rules) if column in record]
    ours = _by_key(rows, keys)[compared]
    theirs = _by_key(record, keys)[compared]
    both = ours.index[ours.index.isin(theirs.index)]
    mine = ours.loc[both].reset_index(drop=True)
    recorded = theirs.loc[both].reset_index(drop=True)
    return mine, recorded, dict.fromkeys(compared, AUDIT)


def compared_columns(rows, rules):
    """Names of the columns of rows whose numbers a figure's rules compare, a list of str."""
    return [column for column, rule in by_column(rules, rows).items() if isinstance(rule, dict)]


def untimed(rows, rules):
    """Rows but those of arms that are `timed`: what takes as many draws as fit in a time takes
    others in each run, and no audit can ask for the same."""
    for column, arms in rules.get("timed", {}).items():
        if column in rows:
            rows = rows[~rows[column].isin(arms)]
    return rows


def can_stand_in(rows, record, rules):
    """Whether rows of a sweep have all keys by which a record tells its rows apart. The notebook
    makes its own rows of those that have not."""
    absent = [key for key in rules["keys"] if key in record and key not in rows]
    return all(record[key].nunique(dropna=False) <= 1 for key in absent)


def largest_difference(ours, theirs):
    """The largest relative difference of two tables of numbers, of `at_equal_keys`; 0 where nothing
    is compared, 1 for a number beside a gap."""
    ours = ours.to_numpy(float)
    theirs = theirs.to_numpy(float)
    scale = np.maximum(np.abs(theirs), AUDIT["atol"] / AUDIT["rtol"])
    apart = np.nan_to_num(np.abs(ours - theirs) / scale, nan=1.0, posinf=1.0)
    apart[np.isnan(ours) & np.isnan(theirs)] = 0.0
    return float(apart.max(initial=0.0))


def _by_key(frame, keys):
    # Rows whose keys are the same are told apart by their order.
    texts = frame.assign(**{key: frame[key].map(_as_written) for key in keys})
    place = texts.groupby(keys).cumcount().rename("place")
    return texts.set_index([*(texts[key] for key in keys), place])


def _as_written(value):
    """A key as text, the same before it is written to a file of rows and after it is read back."""
    if value is None or (isinstance(value, str) and not value):
        return "nan"
    return f"{value:.10g}" if isinstance(value, Real) else str(value)


def by_column(rules, columns):
    """Column -> its rule: that of its name, else of the first pattern with * that it matches;
    seconds are ignored."""
    keys = rules.get("keys", [])
    found = {column: _rule(rules, column) for column in columns if column not in keys}
    return {column: rule for column, rule in found.items() if rule is not None}


def _rule(rules, column):
    if rules.get(column):
        return rules[column]
    patterns = rules | TIMES
    return next((rule for name, rule in patterns.items() if fnmatchcase(column, name)), None)


def compare(rows, reference, rules):
    """What differs between rows and the expected ones, as a list of sentences.

    Parameters
    ----------
    rows, reference : pandas.DataFrame
    rules : dict, `keys`, a list of columns that must be equal row by row; perhaps `timed`, by
        column the arms that an audit leaves out, see `untimed`; and for other columns or
        patterns of them, but those of seconds, a dict with rtol, atol, off (the share of rows that
        may be off by more) and reason, or a str: why they are ignored
    """
    columns = by_column(rules, rows)
    problems = [
        f"the rule for {column} gives no reason"
        for column, rule in columns.items()
        if not _has_reason(rule)
    ]
    misfit = _misfit(rows, reference, rules, columns)
    if misfit:
        return [*problems, misfit]
    for key in rules.get("keys", []):
        problems += _other_keys(key, rows[key], reference[key])
    for column, rule in columns.items():
        if isinstance(rule, dict):
            problems += _other_numbers(column, rows[column], reference[column], rule)
    return problems


def _has_reason(rule):
    return isinstance(rule, str) or bool(rule.get("reason"))


def _misfit(rows, reference, rules, columns):
    """Why two tables cannot be compared row by row, "" where they can."""
    keys = rules.get("keys", [])
    idle = [
        pattern
        for pattern in rules
        if pattern not in ("keys", "timed")
        and not any(_fits(column, pattern) for column in columns)
    ]
    ruled = [*keys, *columns, *idle]
    if sorted(ruled) != sorted(rows) or list(rows) != list(reference):
        return f"columns differ: {list(rows)}, expected {list(reference)}, rules for {ruled}"
    if len(rows) != len(reference):
        return f"{len(rows)} rows, expected {len(reference)}"
    return ""


def _fits(column, pattern):
    # A name may hold brackets, which a pattern reads in its own way.
    return column == pattern or fnmatchcase(column, pattern)


def _other_keys(key, ours, theirs):
    if ours.equals(theirs):
        return []
    at = int((ours != theirs).idxmax())
    return [f"{key} differs, first in row {at}: {ours[at]!r}, expected {theirs[at]!r}"]


def _other_numbers(column, ours, theirs, rule):
    ours = ours.to_numpy(float)
    theirs = theirs.to_numpy(float)
    rtol = rule.get("rtol", 0)
    atol = rule.get("atol", 0)
    close = np.isclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    n_off = (~close).sum()
    if n_off <= rule.get("off", 0.0) * len(ours):
        return []
    worst = int(np.nanargmax(np.where(close, -1, np.abs(ours - theirs))))
    told = f"most in row {worst}: {ours[worst]}, expected {theirs[worst]}"
    return [f"{column} differs in {n_off} of {len(ours)} rows, {told}"]
