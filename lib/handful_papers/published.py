"""Every number that the papers print, as data frames."""

from functools import cache
from pathlib import Path

ROOMS = Path(__file__).parent


@cache
def _table(paper):
    import pandas as pd

    path = ROOMS / paper / "published.csv"
    if not path.is_file():
        raise KeyError(f"the paper {paper!r} has no published.csv.")
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return pd.DataFrame([row | _as_numbers(**row) for row in table.to_dict("records")])


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
    table = _table(paper)
    chosen = table["item"] == item
    if not chosen.any():
        chosen = table["item"].str.startswith(f"{item} (")
    if not chosen.any():
        known = ", ".join(sorted(set(table["item"])))
        raise KeyError(f"{paper!r} prints no numbers in {item!r}; it does in: {known}.")
    return table[chosen].reset_index(drop=True)


def _as_numbers(value, sd, unit, **_):
    bound = "<" if value.startswith("<") else ""
    value = value.removeprefix("<")
    if unit == "min:s":
        minutes, seconds = value.split(":")
        value, unit = 60 * int(minutes) + int(seconds), "seconds"
    return {"value": float(value), "sd": float(sd or "nan"), "unit": unit, "bound": bound}
