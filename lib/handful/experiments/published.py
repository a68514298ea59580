"""Every number that the four papers print, as data frames."""

import csv
from functools import cache
from importlib.resources import files


@cache
def _rows():
    text = (files("handful.experiments") / "published.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def published(paper, item):
    """The numbers that a paper prints in one of its tables or figures.

    Parameters
    ----------
    paper : "bico", "svm", "vrm" or "vcgmm"
    item : "Table 3", "Figure 8", ...; "Table 7" gives the rows of all of "Table 7 (Spoken Digit)", ...

    Returns
    -------
    pandas.DataFrame with columns item, row, column, value, sd, unit, bound: `value` and `sd` are floats in
        `unit` (times printed as minutes:seconds become seconds); `sd` is NaN where the paper gives none, and
        what it means (standard deviation or standard error) is the paper's; `bound` is "<" where the paper
        prints "<1" instead of a number, else ""

    Raises
    ------
    KeyError
        if the paper prints no numbers in that item.
    """
    import pandas as pd

    rows = [r for r in _rows() if r["paper"] == paper]
    chosen = [r for r in rows if r["item"] == item] or [r for r in rows if r["item"].startswith(f"{item} (")]
    if not chosen:
        known = sorted({f"{r['paper']} {r['item']}" for r in (rows or _rows())})
        raise KeyError(f"no published numbers for {paper!r}, {item!r}; there are: {', '.join(known)}.")
    return pd.DataFrame([_as_numbers(r) for r in chosen])


def published_value(paper, item, row, column):
    """One published number, as a float in the unit of its row of `published(paper, item)`.

    Raises
    ------
    KeyError
        unless exactly one number is printed at that row and column.
    """
    frame = published(paper, item)
    found = frame[(frame["row"] == row) & (frame["column"] == column)]
    if len(found) != 1:
        raise KeyError(
            f"{paper} {item} has {len(found)} values at row {row!r}, column {column!r}; "
            f"rows: {', '.join(frame['row'].unique())}; columns: {', '.join(frame['column'].unique())}."
        )
    return float(found["value"].iloc[0])


def _as_numbers(row):
    unit = row["unit"]
    bound, value = ("<", row["value"][1:]) if row["value"].startswith("<") else ("", row["value"])
    if unit == "min:s":
        minutes, seconds = value.split(":")
        value, unit = 60 * int(minutes) + int(seconds), "seconds"
    sd = float(row["sd"]) if row["sd"] else float("nan")
    return {
        "item": row["item"],
        "row": row["row"],
        "column": row["column"],
        "value": float(value),
        "sd": sd,
        "unit": unit,
        "bound": bound,
    }
