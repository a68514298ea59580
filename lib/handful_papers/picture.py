"""The reproduction in one picture: ours over the printed value, and how much of each item's
protocol was run."""

import numpy as np
import pandas as pd

from handful_papers.committed import FIGURES, module_of
from handful_papers.entries import figure_entry, papers
from handful_papers.provenance import write_atomically
from handful_papers.published import beside, printed_values
from handful_papers.records import read_rows
from handful_papers.site import EXTENTS, extents, item_rows
from handful_papers.style import BLUE, GREEN, ORANGE, PURPLE, render, use_style

TARGET = FIGURES / "reproduction.png"
# The colours of the papers, in order.
HUES = (BLUE, ORANGE, GREEN, PURPLE)
# The axis ends at a fifth and at five times the printed value.
FACTOR = 5
NUMBER = {"marker": "o", "ms": 2.5}
EFFECT = {"marker": "D", "ms": 5, "mfc": "none"}
# A ratio below 0 lies beyond the left end of a logarithmic axis.
OTHER_SIGN = {"marker": "<"}
# Where the bars beside the papers' names stand, in widths of the figure.
NAMES_AT = 0.035
# Keys of matplotlib's settings that are a size of type.
TYPE_SIZES = (
    "font.size",
    "axes.labelsize",
    "xtick.labelsize",
    "ytick.labelsize",
    "legend.fontsize",
)
# Where the counts of numbers stand, left of data, size and model.
NUMBERS_AT = -1.4


def ratios(row):
    """Ours over the printed value: a row of (ratio, low, high, whether it is an effect that a claim
    is about) each.

    Of cells of tables low and high are a standard deviation over our seeds and the paper's
    together, of effects the ends of the 95 % interval. A ratio below 0 says that ours has the other
    sign.
    """
    found = [*_effects(row), *_cells(row)]
    return np.array(found, float).reshape(-1, 4)


def _effects(row):
    for claim in filter(_has_a_printed_number, row["claims"]):
        # The paper's number for several settings is their average.
        values = claim.get("average") or [claim[key] for key in ("ours", "low", "high")]
        ours, *ends = values
        if ours is not None:
            # A number without an interval is a mark alone.
            ends = [ours if end is None else end for end in ends]
            ours, *ends = np.divide([ours, *ends], claim["paper"])
            yield [ours, min(ends), max(ends), True]


def _has_a_printed_number(claim):
    # A paper that says "as good" has 0 for a difference or 1 for a ratio, which it does not print.
    return (
        claim["whose"] == "paper"
        and isinstance(claim["paper"], int | float)
        and claim["paper"] not in (0, 1)
    )


def _beside(row):
    """The printed cells that have numbers of ours beside them, with both: a list of named tuples.
    A number that is an effect of a claim is shown as such."""
    declared = figure_entry(row["name"]).get("beside")
    if not declared or not row["runs"]:
        return []
    paper = row["name"].split("/")[0]
    module = module_of(row["name"])
    of_runs = []
    for path, _ in row["runs"]:
        rows = read_rows(path.with_suffix(".csv"))
        if hasattr(module, "cells"):
            rows = module.cells(rows)
        of_runs.append(beside(paper, declared, rows))
    # A cell that several runs have is that of the largest.
    cells = pd.concat(of_runs).drop_duplicates(["item", "row", "column"])
    is_shown = ~cells.value.isin([0, *_stated(row)])
    return list(cells[is_shown].itertuples())


def _stated(row):
    return {claim["paper"] for claim in row["claims"] if _has_a_printed_number(claim)}


def _cells(row):
    for cell in _beside(row):
        ratio = cell.ours / cell.value
        spreads = np.nan_to_num([cell.ours_sd, ratio * cell.sd]) / cell.value
        spread = np.hypot(*spreads)
        yield [ratio, ratio - spread, ratio + spread, False]


def n_missing(row):
    """How many numbers that the paper prints have none of ours beside them: of cells of tables and
    of effects."""
    paper = row["name"].split("/")[0]
    effects = [claim for claim in row["claims"] if _has_a_printed_number(claim)]
    unmeasured = sum(claim["ours"] is None for claim in effects)
    stated = _stated(row)
    labels = [item["label"] for item in figure_entry(row["name"])["item"]]
    cells = [
        value for label in labels for value in printed_values(paper, label) if value not in stated
    ]
    return len(cells) - len(_beside(row)) + unmeasured


def draw(rows):
    """The figure, from rows of `site.item_rows`; a line for each notebook that makes an item of a
    paper."""
    import matplotlib.pyplot as plt

    colours = dict(zip((key for key, paper in papers().items() if "short" in paper), HUES))
    labelled = [
        row for row in rows if any(item["label"] for item in figure_entry(row["name"])["item"])
    ]
    rows = [row for row in labelled if row["name"].split("/")[0] in colours]
    use_style()
    plt.rcParams.update(dict.fromkeys(TYPE_SIZES, 8.5))
    size = (5.7, 0.19 * len(rows) + 2.3)
    fig, (left, right) = plt.subplots(
        1, 2, figsize=size, sharey=True, width_ratios=(5, 4.2), layout="constrained"
    )
    left.axvline(1, color="0.2", lw=1)
    for height, row in enumerate(rows):
        _line(left, right, height, row, colours[row["name"].split("/")[0]])
    left.set_yticks(
        range(len(rows)),
        [_short(item["label"] for item in figure_entry(row["name"])["item"]) for row in rows],
    )
    left.set(xscale="log", xlim=(0.95 / FACTOR, 1.05 * FACTOR), ylim=(len(rows) - 0.4, -0.6))
    left.set_xticks([0.2, 0.5, 1, 2, 5], ["≤ 0.2", "0.5", "1", "2", "≥ 5"])
    left.minorticks_off()
    right.set_xticks([NUMBERS_AT, 0, 1, 2], ["numbers", "data", "size", "model"])
    right.set(xlim=(NUMBERS_AT - 0.9, 2.5))
    right.grid(False)
    for ax, words in ((left, "ours / printed"), (right, "what was run")):
        ax.set(xlabel=words)
        ax.tick_params(axis="x", top=True, labeltop=True)
        ax.set_title(words, fontsize=8.5)
    fig.get_layout_engine().set(rect=(NAMES_AT, 0, 1 - NAMES_AT, 1))
    _name_papers(left, rows, colours)
    for place in ("upper", "lower"):
        fig.legend(handles=_legend(), loc=f"outside {place} center", ncols=2)
    return fig


def _line(left, right, height, row, colour):
    """One notebook: its ratios, what is missing of them, and what was run."""
    found = ratios(row) if row["record"] else np.empty((0, 4))
    for effect in (False, True):
        mine = found[found[:, 3] == effect]
        spread = np.linspace(-0.25, 0.25, len(mine)) if len(mine) > 1 else np.zeros(len(mine))
        for (ratio, *ends, _), at in zip(mine, height + spread):
            mark = EFFECT if effect else NUMBER
            x, low, high = np.clip([ratio, *ends], 1 / FACTOR, FACTOR)
            left.hlines(at, low, high, color=colour, lw=0.7, alpha=0.5)
            left.plot(
                x, at, color=colour, clip_on=False, **mark if ratio > 0 else mark | OTHER_SIGN
            )
    missing = n_missing(row)
    if len(found) + missing:
        counts = f"{len(found)}/{len(found) + missing}"
        right.text(NUMBERS_AT, height, counts, ha="center", va="center", fontsize=7.5)
    if not len(found):
        told = "not run" if missing or row["record"] is None else "no printed number"
        left.text(1.1, height, told, va="center", fontsize=7.5, color="0.35")
    if row["record"] is None:
        return
    for place, word in enumerate(extents(row["record"])):
        style = ("full", "left", "none")[EXTENTS.index(word)]
        right.plot(
            place,
            height,
            "o",
            ms=7,
            color=colour,
            fillstyle=style,
            mew=0.8,
            markerfacecoloralt="white",
        )


def _short(labels):
    """Labels of items in little room: "Fig. 8, Tab. 1, 2" for Figure 8, Table 1 and Table 2."""
    words = []
    last = None
    for label in labels:
        kind, number = label.split(" ", 1)
        words.append(number if kind == last else f"{kind[:3]}. {number}")
        last = kind
    return ", ".join(words)


def _name_papers(ax, rows, colours):
    """The papers' names, upright at the left of their lines, each with a bar over all of them."""
    from matplotlib.transforms import blended_transform_factory

    names = [row["name"].split("/")[0] for row in rows]
    across = dict(
        transform=blended_transform_factory(ax.figure.transFigure, ax.transData), clip_on=False
    )
    for key, colour in colours.items():
        mine = [height for height, name in enumerate(names) if name == key]
        if mine:
            ax.plot(
                [NAMES_AT] * 2,
                [mine[0] - 0.4, mine[-1] + 0.4],
                color=colour,
                lw=2,
                in_layout=False,
                **across,
            )
            middle = (mine[0] + mine[-1]) / 2
            words = dict(
                rotation=90,
                ha="right",
                va="center",
                color=colour,
                fontweight="bold",
                in_layout=False,
            )
            ax.text(NAMES_AT - 0.005, middle, papers()[key]["short"], **words, **across)


def _legend():
    import matplotlib.pyplot as plt

    marks = [NUMBER | {"label": "printed number"}, EFFECT | {"label": "effect of a claim"}]
    marks.append(EFFECT | OTHER_SIGN | {"label": "ours has the other sign"})
    circles = [
        dict(marker="o", ms=7, fillstyle=style, markerfacecoloralt="white", label=word)
        for style, word in zip(("full", "left", "none"), EXTENTS)
    ]
    return [plt.Line2D([], [], color="0.3", ls="", **mark) for mark in marks + circles]


def write():
    """Draw `TARGET` from the committed records."""
    write_atomically(TARGET, render(draw(item_rows()[0]))["png"])
