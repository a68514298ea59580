"""The picture that leads the README and the site: what few rows lose, and how far their posterior
is from that of all.

``python -c 'from handful_papers.own import lead; lead.write()'`` draws it from the rows on record
of `hundred_rows` and `posterior`.
"""

from handful_papers.committed import FIGURES
from handful_papers.own import METHODS
from handful_papers.provenance import write_atomically
from handful_papers.style import render, use_style

TARGET = FIGURES / "lead.png"
# Inches of a panel, and the type size: legible where both panels share 390 pixels.
SIDE = 2.75
POINTS = 9.5
# In nats: what is less is rounding, and stands at this line.
FLOOR = 1e-12
RANDOM = METHODS["uniform"]["color"]
MATCHED = METHODS["matched"]["color"]
# Keys of matplotlib's settings that are a size of type.
TYPE_SIZES = ("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "axes.titlesize")


def excess(rows):
    """Held-out loss above all rows at the trainer's own penalty: (method, size) -> quartiles over
    tables and splits."""
    own = rows[(rows.way == "l2 x 1") & rows.method.isin(["uniform", "bilevel"])]
    return own.groupby(["method", "m"]).excess.quantile([0.25, 0.5, 0.75]).unstack()


def least_matched(rows):
    """For each table the fewest matched rows, and their median excess: a frame with columns rows
    and excess."""
    own = rows[(rows.way == "l2 x 1") & (rows.method == "matched")]
    least = own[own.m == own.groupby(["dataset", "seed"]).m.transform("min")]
    return least.groupby("dataset")[["rows", "excess"]].median()


def divergences(rows):
    """Median rows and divergence (nats) of matched and random rows, for each model and table, more
    rows after fewer."""
    shown = rows[rows.method.isin(["matched", "uniform"]) & ~rows.what.isin(["NUTS", "marginal"])]
    shown = shown.assign(multiple=shown.multiple.fillna(0))
    return shown.groupby(["method", "what", "multiple"])[["rows", "kl"]].median()


def draw(hundred, posterior):
    """The figure, from the rows of both records."""
    import matplotlib.pyplot as plt

    use_style()
    plt.rcParams.update(dict.fromkeys(TYPE_SIZES, POINTS))
    fig, (left, right) = plt.subplots(
        1,
        2,
        figsize=(2 * SIDE, SIDE),
        layout="constrained",
    )
    _draw_losses(left, hundred)
    _draw_divergences(right, posterior)
    for ax in (left, right):
        ax.grid(False)
    return fig


def _draw_losses(left, hundred):
    """The panel of held-out losses, from the rows of `hundred_rows`."""
    quartiles = excess(hundred)
    for method in ("uniform", "bilevel"):
        one = quartiles.loc[method]
        colour = METHODS[method]["color"]
        left.plot(
            one.index,
            one[0.5],
            color=colour,
            lw=2.2,
            marker="o",
            ms=4,
        )
        left.fill_between(
            one.index,
            one[0.25],
            one[0.75],
            color=colour,
            alpha=0.15,
            lw=0,
        )
    least = least_matched(hundred)
    marks = dict(
        color=MATCHED,
        ls="",
        marker="D",
        ms=5,
        zorder=5,
        clip_on=False,
    )
    left.plot(least.rows, least.excess, **marks)
    left.axhline(0, color=METHODS["full"]["color"], lw=1)
    left.set(
        xscale="log",
        xlabel="training rows",
        ylabel="held-out loss above all rows",
        ylim=(-0.24, 1.5),
    )
    sizes = quartiles.loc["uniform"].index[::2]
    left.set_xticks(sizes, [str(m) for m in sizes])
    left.set_yticks([0, 0.5, 1, 1.5])
    left.minorticks_off()
    middle = quartiles.loc["uniform"][0.5]
    second = (middle.index[1], middle.iloc[1])
    beside = dict(textcoords="offset points")
    left.annotate(
        "random",
        second,
        (4, 6),
        color=RANDOM,
        **beside,
    )
    left.annotate(
        "chosen",
        (sizes[0], 0),
        (0, 6),
        color=METHODS["bilevel"]["color"],
        **beside,
    )
    below = dict(
        color=MATCHED,
        ha="right",
        va="top",
        **beside,
    )
    left.annotate("matched", (least.rows.max(), 0), (0, -7), **below)


def _draw_divergences(right, posterior):
    """The panel of divergences, from the rows of `posterior`."""
    measured = divergences(posterior)
    for _, one in measured.loc["matched"].groupby("what"):
        shown = one.kl.clip(lower=FLOOR)
        right.plot(
            one.rows,
            shown,
            color=MATCHED,
            lw=1,
            marker="D",
            ms=3,
        )
    drawn = measured.loc["uniform"]
    right.plot(
        drawn.rows,
        drawn.kl,
        color=RANDOM,
        ls="",
        marker="o",
        ms=4,
    )
    right.set(xscale="log", yscale="log", xlabel="rows")
    right.set_ylabel("nats from the posterior of all rows")
    right.set(xlim=(8, 6000), ylim=(FLOOR / 10, 1e5))
    powers = ["≤ $10^{-12}$", "$10^{-9}$", "$10^{-6}$", "0.001", "1", "1000"]
    right.set_yticks([FLOOR, 1e-9, 1e-6, 1e-3, 1, 1e3], powers)
    right.set_xticks([10, 100, 1000], ["10", "100", "1000"])
    right.minorticks_off()
    right.text(
        2000,
        20,
        "random",
        color=RANDOM,
        ha="right",
    )
    right.text(
        10,
        0.3,
        "matched",
        color=MATCHED,
        ha="left",
    )


def write():
    """Draw `TARGET` from the records of profile laptop."""
    import pandas as pd

    rows = [
        pd.read_csv(FIGURES / "laptop" / "own" / f"{name}.csv")
        for name in ("hundred_rows", "posterior")
    ]
    write_atomically(TARGET, render(draw(*rows))["png"])
