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
# inches of a panel, type size: legible where both panels share 390 pixels
SIDE = 2.75
POINTS = 9.5
# nats; what is less is rounding, and stands at this line
FLOOR = 1e-12


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
    plt.rcParams.update(
        {
            key: POINTS
            for key in ("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize")
        }
    )
    plt.rcParams.update({"axes.titlesize": POINTS})
    fig, (left, right) = plt.subplots(
        1,
        2,
        figsize=(2 * SIDE, SIDE),
        layout="constrained",
    )
    chosen, random, matched = (METHODS[m]["color"] for m in ("bilevel", "uniform", "matched"))

    quartiles = excess(hundred)
    for method, colour in (("uniform", random), ("bilevel", chosen)):
        one = quartiles.loc[method]
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
    left.plot(
        least.rows, least.excess, color=matched, ls="", marker="D", ms=5, zorder=5, clip_on=False
    )
    left.axhline(
        0,
        color=METHODS["full"]["color"],
        lw=1,
    )
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
    left.annotate(
        "random",
        (middle.index[1], middle.iloc[1]),
        (4, 6),
        textcoords="offset points",
        color=random,
    )
    left.annotate(
        "chosen",
        (sizes[0], 0),
        (0, 6),
        textcoords="offset points",
        color=chosen,
    )
    left.annotate(
        "matched",
        (least.rows.max(), 0),
        (0, -7),
        textcoords="offset points",
        color=matched,
        ha="right",
        va="top",
    )

    measured = divergences(posterior)
    for _, one in measured.loc["matched"].groupby("what"):
        right.plot(
            one.rows,
            one.kl.clip(lower=FLOOR),
            color=matched,
            lw=1,
            marker="D",
            ms=3,
        )
    right.plot(
        measured.loc["uniform"].rows,
        measured.loc["uniform"].kl,
        color=random,
        ls="",
        marker="o",
        ms=4,
    )
    right.set(
        xscale="log", yscale="log", xlabel="rows", ylabel="nats from the posterior of all rows"
    )
    right.set(xlim=(8, 6000), ylim=(FLOOR / 10, 1e5))
    powers = ["≤ $10^{-12}$", "$10^{-9}$", "$10^{-6}$", "0.001", "1", "1000"]
    right.set_yticks([FLOOR, 1e-9, 1e-6, 1e-3, 1, 1e3], powers)
    right.set_xticks([10, 100, 1000], ["10", "100", "1000"])
    right.minorticks_off()
    right.text(2000, 20, "random", color=random, ha="right")
    right.text(10, 0.3, "matched", color=matched, ha="left")
    for ax in (left, right):
        ax.grid(False)
    return fig


def write():
    """Draw `TARGET` from the records of profile laptop."""
    import pandas as pd

    rows = [
        pd.read_csv(FIGURES / "laptop" / "own" / f"{name}.csv")
        for name in ("hundred_rows", "posterior")
    ]
    write_atomically(TARGET, render(draw(*rows))["png"])
