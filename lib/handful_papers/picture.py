"""The reproduction in one picture: ours over the printed value, and how much of each item's protocol was run."""

import importlib

import numpy as np

from handful_papers.experiment import figure, papers, read_rows
from handful_papers.provenance import GENERATED, OWN, PART, write_atomically
from handful_papers.published import beside
from handful_papers.run import FIGURES
from handful_papers.site import item_rows
from handful_papers.style import BLUE, GREEN, ORANGE, PURPLE, render, use_style

TARGET = FIGURES / "reproduction.png"
HUES = (BLUE, ORANGE, GREEN, PURPLE)  # of the papers, in order
WORDS = ("as printed", "reduced", "replaced")
FACTOR = 5  # the axis ends at a fifth and at five times the printed value


def extents(record):
    """What a run has of the paper's (data, size, model): one of `WORDS` each. Size: rows, steps, grids and seeds."""
    about, kind = figure(record["item"]), record["level"]["kind"]
    whole = kind == OWN or (kind == GENERATED and not any(item.get("data") for item in about["item"]))
    data = WORDS[0] if whole else WORDS[1] if kind == PART else WORDS[2]
    return data, WORDS[1] if record["reductions"] else WORDS[0], about.get("model", WORDS[0])


def ratios(row):
    """Ours over the printed value: a row of (ratio, low, high, whether it is an effect that a claim is about) each.

    Of cells of tables low and high are a standard deviation over our seeds and the paper's together, of effects the
    ends of the 95 % interval. What has no ratio, as one of them is not above 0, is left out.
    """
    paper, found = row["name"].split("/")[0], []
    for c in row["claims"]:
        values = [c[key] for key in ("ours", "low", "high", "paper")]
        printed = c["whose"] == "paper" and c["paper"] != 1  # 1 stands for a bound, or for once a printed number
        if printed and all(isinstance(v, (int, float)) for v in values) and min(values[0], values[3]) > 0:
            found.append([*np.divide(values[:3], values[3]), True])
    declared = figure(row["name"]).get("beside")
    if declared:
        rows = read_rows(row["path"].with_suffix(".csv"))
        module = importlib.import_module(f"handful_papers.{row['name'].replace('/', '.')}")
        for cell in beside(paper, declared, getattr(module, "cells", lambda rows: rows)(rows)).itertuples():
            if min(cell.ours, cell.value) > 0:
                ratio = cell.ours / cell.value
                spread = ratio * np.nan_to_num(np.hypot(cell.ours_sd / cell.ours, np.nan_to_num(cell.sd) / cell.value))
                found.append([ratio, ratio - spread, ratio + spread, False])
    return np.array(found, float).reshape(-1, 4)


def draw(rows):
    """The figure, from rows of `site.item_rows`; a line for each notebook that makes an item of a paper."""
    import matplotlib.pyplot as plt

    colours = dict(zip((key for key, paper in papers().items() if "short" in paper), HUES))
    labelled = [row for row in rows if row["record"] and any(item["label"] for item in figure(row["name"])["item"])]
    rows = [row for row in labelled if row["name"].split("/")[0] in colours]
    use_style()
    plt.rcParams.update(
        dict.fromkeys(("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 8.5)
    )
    size = (5.2, 0.19 * len(rows) + 1.3)
    fig, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(5, 2.2), layout="constrained")
    left.axvline(1, color="0.2", lw=1)
    for height, row in enumerate(rows):
        colour, found = colours[row["name"].split("/")[0]], ratios(row)
        for effect, marker in ((0, "o"), (1, "D")):
            mine = found[found[:, 3] == effect]
            at = height + np.linspace(-0.25, 0.25, len(mine)) if len(mine) > 1 else [height] * len(mine)
            x, low, high = np.clip(mine[:, :3], 1 / FACTOR, FACTOR).T
            left.hlines(at, low, high, color=colour, lw=0.7, alpha=0.5)
            left.plot(x, at, marker, color=colour, ms=5 if effect else 2.5, mfc="none" if effect else colour)
        for place, word in enumerate(extents(row["record"])):
            style = ("full", "left", "none")[WORDS.index(word)]
            right.plot(place, height, "o", ms=7, color=colour, fillstyle=style, mew=0.8, markerfacecoloralt="white")
    short = [", ".join(item["label"] for item in figure(row["name"])["item"]) for row in rows]
    left.set_yticks(range(len(rows)), [text.replace("Figure", "Fig.").replace("Table", "Tab.") for text in short])
    left.set(xscale="log", xlabel="ours / printed", xlim=(0.95 / FACTOR, 1.05 * FACTOR), ylim=(len(rows) - 0.4, -0.6))
    left.set_xticks([0.2, 0.5, 1, 2, 5], ["≤ 0.2", "0.5", "1", "2", "≥ 5"])
    left.minorticks_off()
    right.set_xticks(range(3), ["data", "size", "model"])
    right.set(xlim=(-0.6, 2.6))
    right.grid(False)
    handles = [
        plt.Line2D([], [], color=hue, marker="s", ls="", label=papers()[key]["short"]) for key, hue in colours.items()
    ]
    handles += [plt.Line2D([], [], color="0.3", marker="o", ls="", ms=2.5, label="printed number")]
    handles += [plt.Line2D([], [], color="0.3", marker="D", ls="", mfc="none", label="effect of a claim")]
    handles += [
        plt.Line2D(
            [], [], color="0.3", marker="o", ls="", ms=7, fillstyle=style, markerfacecoloralt="white", label=word
        )
        for style, word in zip(("full", "left", "none"), WORDS)
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=3)
    return fig


def write():
    """Draw `TARGET` from the committed records."""
    write_atomically(TARGET, render(draw(item_rows()[0]))["png"])
