"""Every number that the papers print, as data frames, and as settings of a rule."""

import math
import re
from functools import cache

import numpy as np

from handful_papers.claims import HOME, Summary
from handful_papers.entries import papers

# Columns of a printed table that say what the data are, and nothing of a result.
DESCRIPTIONS = ("points", "features")


@cache
def _published(paper):
    import pandas as pd

    table = pd.read_csv(HOME / paper / "published.csv", dtype=str, keep_default_na=False)
    table["bound"] = table.value.str.extract("^(<?)", expand=False)
    parts = table.value.str.removeprefix("<").str.split(":")
    timed = table.unit == "min:s"
    table["value"] = [
        60 * float(p[0]) + float(p[1]) if t else float(p[0]) for p, t in zip(parts, timed)
    ]
    table["unit"] = table.unit.mask(timed, "seconds")
    # A standard deviation is printed beside a number, or a standard error of so many runs.
    n_runs = papers().get(paper, {}).get("standard_errors_of", 1)
    return table.assign(sd=[math.sqrt(n_runs) * float(sd or "nan") for sd in table.sd])


def published(paper, item):
    """The numbers that a paper prints in one of its tables or figures.

    Parameters
    ----------
    paper : "bico", "vrm" or "vcgmm"; the text of "svm" prints none
    item : "Table 3", "Figure 8", ...; "Table 7" gives the rows of all of "Table 7 (Spoken Digit)",
        ...

    Returns
    -------
    pandas.DataFrame with columns item, row, column, value, sd, unit, bound: `value` and `sd` are
        floats in `unit` (times printed as minutes:seconds become seconds); `sd` is NaN where the
        paper gives none; `bound` is "<" where the paper prints "<1" instead of a number, else ""

    Raises
    ------
    KeyError
        if the paper prints no numbers in that item.
    """
    table = _published(paper)
    chosen = table["item"] == item
    chosen = chosen if chosen.any() else table["item"].str.startswith(f"{item} (")
    if not chosen.any():
        raise KeyError(
            f"{paper!r} prints no numbers in {item!r}; it does in: "
            f"{', '.join(sorted(set(table['item'])))}."
        )
    return table[chosen].reset_index(drop=True)


def printed_values(paper, label):
    """The numbers that a paper prints in the item with this label, such as "Figure 2 (right)" or
    "Table 7"; a list.

    Bounds are left out, and what only describes the data.
    """
    if not (HOME / paper / "published.csv").is_file():
        return []
    table = _published(paper)
    words = re.escape(re.sub("[()]", "", label))
    of_item = table["item"].str.replace("[()]", "", regex=True).str.fullmatch(f"{words}( .*)?")
    shown = of_item & (table.bound == "") & ~table.column.isin(DESCRIPTIONS)
    return table.value[shown].to_list()


def beside(paper, declared, rows):
    """The numbers that a paper prints, with ours of the same cells.

    Parameters
    ----------
    declared : list of dict, `beside` of a figure's .toml: formats `item`, `row` and `column` that
        name the paper's cell from the columns of `rows`; `names`, column -> our word -> the
        paper's; `value`, the column with our number; `best`, a column of which the value with the
        highest mean counts, as in the paper
    rows : pandas.DataFrame, of a record

    Returns
    -------
    pandas.DataFrame with columns item, row, column, ours, ours_sd (over seeds), value, sd; no row
    for a bound
    """
    import pandas as pd

    cell = ["item", "row", "column"]
    found = []
    for how in declared:
        named = rows.replace(how.get("names", {})).dropna(subset=how["value"])
        each = pd.DataFrame(
            [{k: how[k].format(**row) for k in cell} for row in named.to_dict("records")]
        )
        best = named[how["best"]].fillna(0).to_numpy() if "best" in how else 0
        each = each.assign(
            best=best, seed=named.seed.to_numpy(), ours=named[how["value"]].to_numpy(float)
        )
        runs = (
            each.groupby([*cell, "best", "seed"])
            .ours.mean()
            .groupby(level=[*cell, "best"])
            .agg(["mean", "std"])
        )
        found.append(runs.loc[runs["mean"].groupby(level=cell).idxmax()].reset_index())
    ours = pd.concat(found).rename(columns={"mean": "ours", "std": "ours_sd"})
    printed = _published(paper)
    return ours.merge(printed[printed.bound == ""], on=cell)[
        [*cell, "ours", "ours_sd", "value", "sd"]
    ]


def printed_settings(printed, paper):
    """The paper's printed numbers as settings of a rule.

    Parameters
    ----------
    printed : dict with `item` of published.csv; `a`, a row or a list of rows; `columns`, a list,
        default all that `a` has; `n`, over how many seeds the paper averages. With `b`, a row or a
        list of rows: differences a - b, one setting a row of `b` and column; with `against`, a
        column: differences of each other column to it in the same row; with ``ratio = true``:
        ratios. Or `values`, a list of numbers that the text prints.
    """
    if "values" in printed:
        return {f"printed {i}": Summary(value) for i, value in enumerate(printed["values"])}
    cell = _cells(paper, printed["item"], printed.get("n", 1))
    rows = _listed(printed["a"])
    columns = printed.get("columns") or [column for row, column in cell if row == rows[0]]
    if "against" in printed:
        pairs = _pairs_of_columns(cell, rows, columns, printed["against"])
    elif "b" in printed:
        pairs = _pairs_of_rows(cell, rows, _listed(printed["b"]), columns)
    else:
        return {(row, column): cell[row, column] for row in rows for column in columns}
    if printed.get("ratio"):
        return {name: Summary(one.mean / other.mean) for name, (one, other) in pairs.items()}
    return {name: _difference(one, other) for name, (one, other) in pairs.items()}


def _listed(given):
    return [given] if isinstance(given, str) else given


def _cells(paper, item, n):
    """(row, column) -> the `Summary` over n seeds that an item prints there."""
    return {
        (cell.row, cell.column): Summary(cell.value, None if np.isnan(cell.sd) else cell.sd, n)
        for cell in published(paper, item).itertuples()
    }


def _pairs_of_columns(cell, rows, columns, against):
    others = [column for column in columns if column != against]
    return {
        (row, against, column): (cell[row, column], cell[row, against])
        for row in rows
        for column in others
    }


def _pairs_of_rows(cell, rows, others, columns):
    return {
        (row, other, column): (cell[row, column], cell[other, column])
        for row in rows
        for other in others
        for column in columns
    }


def _difference(one, other):
    sds = [summary.sd for summary in (one, other) if summary.sd is not None]
    sd = float(np.hypot.reduce(sds)) if sds else None
    return Summary(one.mean - other.mean, sd, one.n)
