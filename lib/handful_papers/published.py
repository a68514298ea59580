"""Every number that the papers print, as data frames."""

import csv
from functools import cache
from pathlib import Path

ROOMS = Path(__file__).parent


@cache
def _rows(paper):
    path = ROOMS / paper / "published.csv"
    if not path.is_file():
        raise KeyError(f"the paper {paper!r} has no published.csv.")
    return tuple(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def published(paper, item):
    """The numbers that a paper prints in one of its tables or figures.

    Parameters
    ----------
    paper : "bico", "vrm" or "vcgmm"; the text of "svm" prints none
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

    rows = _rows(paper)
    chosen = [r for r in rows if r["item"] == item] or [r for r in rows if r["item"].startswith(f"{item} (")]
    if not chosen:
        known = sorted({r["item"] for r in rows})
        raise KeyError(f"{paper!r} prints no numbers in {item!r}; it does in: {', '.join(known)}.")
    return pd.DataFrame([_as_numbers(r) for r in chosen])


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
