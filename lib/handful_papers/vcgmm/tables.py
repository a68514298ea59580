"""From the rows of `vcgmm.sweep` to Table 1 and Figures 1, S.2 and S.3 of the vc-GMM paper."""

import numpy as np
import pandas as pd

from handful_papers.published import published
from handful_papers.style import figure, legend_below, panels
from handful_papers.vcgmm import METHODS

BASELINE = "kmeans++"
KEYS = ["dataset", "clusters", "method", "setting", "size"]
# How Table 1 calls the methods: the name of a row begins with it.
PRINTED = {
    "kmeans++": "k-means++",
    "vargmm": "var-GMM-S",
    "lwcs": "LWCS",
    "vcgmm": "vc-GMM",
}
QUANTITIES = {
    "error": "relative error",
    "time": "speed-up (time)",
    "distances": "speed-up (distances)",
    "iterations": "EM iterations",
    "share": "coreset+seeding share of time",
}
# Of k-means++ these are 0 % and 1 by definition.
RELATIVE = ["error", "time", "distances"]
# The data sets of Table 1, or parts of them, by their names in the registry.
PAPERS_DATA = {
    "kdd_bio": "KDD",
    "cod_rna": "RNA",
    "cod_rna_full": "RNA",
    "cifar10": "CIFAR-10",
    "cifar10_full": "CIFAR-10",
    "susy": "SUSY",
    "song": "SONG",
}
# Methods that have a curve over coreset sizes.
CURVES = ("lwcs", "vcgmm", "vcgmm ours")
DRAWN = ("kmeans++", "afkmc2", "vargmm", *CURVES)
# In per cent: Table 1 shows the coreset size whose error comes closest to it.
TARGET = 10.0


def relative_errors(rows):
    """Rows of a sweep with the relative error `eta` (eq. 9) in per cent, against k-means++ (mean
    over its seeds)."""
    base = rows[rows.method == BASELINE].groupby("dataset").error.mean()
    return rows.assign(eta=100 * (rows.error / rows.dataset.map(base) - 1))


def summarise(rows):
    """Means over seeds of every setting: Table 1 with all sizes.

    Parameters
    ----------
    rows : DataFrame, from `arms.panel_rows`

    Returns
    -------
    DataFrame, one row per dataset, method and setting: eta and its standard error `eta_sem` (per
    cent), nmi, `nmi_sem`, iterations, seconds, speedup_time, speedup_distances (ratios of means to
    k-means++), speedup_time_sd (over seeds), share (per cent of the time that coreset and seeding
    take), n_seeds
    """
    rows = relative_errors(rows)
    rows = rows.assign(before=rows.coreset_seconds + rows.seeding_seconds)
    groups = rows.groupby(KEYS, dropna=False, sort=False)
    table = groups[["eta", "nmi", "iterations", "seconds", "distances", "before"]].mean()
    table["eta_sem"] = groups.eta.sem()
    table["nmi_sem"] = groups.nmi.sem()
    table["n_seeds"] = groups.size()
    table = table.reset_index()
    base = table[table.method == BASELINE].set_index("dataset")
    table["speedup_time"] = table.dataset.map(base.seconds) / table.seconds
    each = rows.dataset.map(base.seconds) / rows.seconds
    by_setting = each.groupby(
        [rows[key] for key in KEYS],
        dropna=False,
        sort=False,
    )
    table["speedup_time_sd"] = by_setting.std().to_numpy()
    table["speedup_distances"] = table.dataset.map(base.distances) / table.distances
    table["share"] = 100 * table.before / table.seconds
    return table.drop(columns="before")


def nearest_to_target(summary, dataset, method, target=TARGET):
    """The row of `summarise` whose coreset size comes closest to the target error."""
    part = summary[(summary.dataset == dataset) & (summary.method == method)]
    return part.loc[(part.eta - target).abs().idxmin()]


def cost_to_reach(curve, eta, *, cost="seconds"):
    """What a method with coresets spends to reach the error `eta`, between its sizes by log-linear
    lines.

    Parameters
    ----------
    curve : DataFrame, one row a coreset size, with eta and `cost`
    cost : "seconds" (of CPU time) or "distances"

    Returns
    -------
    float; NaN where its largest coreset ends above that error, or its smallest below
    """
    curve = curve.sort_values("size")
    # A larger coreset that did worse would not be taken.
    best = np.minimum.accumulate(curve.eta.to_numpy())
    if not best[-1] - 1e-9 <= eta <= best[0] + 1e-9:
        return np.nan
    log_costs = np.log(curve[cost].to_numpy())
    # `interp` wants errors that grow.
    return float(np.exp(np.interp(eta, best[::-1], log_costs[::-1])))


def same_error_ratios(
    rows, dataset, *, method="vcgmm", other="lwcs", cost="seconds", target=TARGET
):
    """How many times more `other` spends than `method` to the target error: an array, one ratio a
    seed.

    NaN where one of them does not pass that error between its smallest and its largest coreset.
    k-means++ has one cost.
    """

    def spent(name):
        mine = rows[(rows.dataset == dataset) & (rows.method == name)]
        curves = mine.groupby("seed")
        if name == BASELINE:
            return curves[cost].first().to_numpy()
        return np.array([cost_to_reach(curve, target, cost=cost) for _, curve in curves])

    return spent(other) / spent(method)


def quantities(rows, dataset, method, setting):
    """The columns of Table 1 (`QUANTITIES`) of one setting, a row a seed; speed-ups are over
    k-means++ of that seed. Errors are over its mean, whose noise they hold: each is lowered by as
    much as k-means++ of that seed lies above it.
    """
    part = rows[rows.dataset == dataset].set_index("seed")
    base = part[part.method == BASELINE]
    mine = part[(part.method == method) & (part.setting.fillna("") == setting)]
    of_baseline = base.error.loc[mine.index]
    off = of_baseline / of_baseline.mean() - 1
    columns = dict(
        error=mine.eta - (100 + mine.eta.mean()) * off,
        time=base.seconds / mine.seconds,
        distances=base.distances / mine.distances,
        iterations=mine.iterations,
        share=_share_of_time(mine),
    )
    # A seed that k-means++ alone ran with has no line.
    return pd.DataFrame(columns).loc[mine.index]


def _share_of_time(mine):
    """Per cent of the CPU seconds that coreset and seeding take."""
    return 100 * (mine.coreset_seconds + mine.seeding_seconds) / mine.seconds


def against_printed(rows, dataset, role, quantity):
    """Ours at the coreset size or G that Table 1 prints: over the printed value; for the error,
    less it.

    Parameters
    ----------
    rows : from `relative_errors`
    quantity : key of `QUANTITIES`

    Returns
    -------
    dict, method -> values by seed; without what the paper prints as a bound, and without sizes that
    did not run
    """
    found = {}
    for method in ("vargmm", "lwcs", "vcgmm"):
        line = _printed_rows(role, method).loc[quantity]
        setting = _printed_setting(line["row"])
        found_here = quantities(rows, dataset, method, setting)
        ours = found_here[quantity].to_numpy()
        if len(ours) and not line.bound:
            found[method] = ours - line.value if quantity == "error" else ours / line.value
    return found


def cells(rows):
    """Ours of the cells of Table 1 on the paper's data, from a record's rows: row, column, seed and
    value. Errors and speed-ups of k-means++ are left out, which are so by definition."""
    found = []
    here = {data: role for data, role in PAPERS_DATA.items() if (rows.dataset == data).any()}
    for data, role in here.items():
        for method in PRINTED:
            lines = _printed_rows(role, method)
            ours = quantities(rows, data, method, _printed_setting(lines["row"].iloc[0]))
            if method == BASELINE:
                lines = lines.drop(RELATIVE)
            for key, line in lines.iterrows():
                cell = dict(
                    row=line["row"],
                    column=line.column,
                    seed=ours.index,
                    value=ours[key].to_numpy(),
                )
                found.append(pd.DataFrame(cell))
    return pd.concat(found, ignore_index=True)


def _printed_setting(row):
    """The setting that a row of Table 1 names, as ours are labelled: "N'=8192" for "vc-GMM G=5
    N'=2^13", nothing for k-means++."""
    if row == PRINTED[BASELINE]:
        return ""
    last = row.split()[-1]
    return f"N'={2 ** int(last.split('^')[1])}" if "^" in last else last


def _printed_rows(data_set, method):
    """What Table 1 prints of a method, by the keys of `QUANTITIES`; no rows for a data set that it
    does not have."""
    table = published("vcgmm", "Table 1")
    of_set = table.column.str.startswith(f"{data_set} C=")
    of_method = table["row"].str.startswith(PRINTED[method])
    mine = table[of_set & of_method]
    # "RNA C=200 relative error" is the relative error.
    named = mine.set_axis(mine.column.str.split(" ", n=2).str[-1])
    keys = {name: key for key, name in QUANTITIES.items()}
    return named[named.index.isin(keys)].rename(index=keys)


def printed(data_set, method):
    """The values of `_printed_rows`, a dict."""
    return _printed_rows(data_set, method).value.to_dict()


def as_printed(summary, dataset, role, method):
    """The row of `summarise` that Table 1 shows: the coreset size nearest to 10 %, the paper's G
    for var-GMM-S."""
    if method in CURVES:
        return nearest_to_target(summary, dataset, method)
    part = summary[(summary.dataset == dataset) & (summary.method == method)]
    if method == "vargmm":
        row = _printed_rows(role, method)["row"].iloc[0]
        part = part[part.setting == row.split()[-1]]
    return part.iloc[0]


def table_1(summary, roles):
    """Table 1 with our numbers beside the paper's.

    Parameters
    ----------
    roles : dict, data set -> the data set of the paper that it is or stands in for
    """
    lines = []
    for dataset, role in roles.items():
        for method, name in PRINTED.items():
            row = as_printed(summary, dataset, role, method)
            theirs = printed(role, method)
            setting = row.setting if pd.isna(row["size"]) else f"2^{np.log2(row['size']):.0f}"
            line = {
                "data": f"{dataset} ({role}), C={row.clusters}",
                "algorithm": f"{name} {setting}".strip(),
            }
            ours = [row.eta, row.speedup_time, row.speedup_distances, row.iterations, row.share]
            titles = [
                "error %",
                "speed-up, time",
                "speed-up, distances",
                "iterations",
                "coreset + seeding %",
            ]
            for key, title, value in zip(QUANTITIES, titles, ours):
                line[title] = value
                line[f"{title} (paper)"] = theirs.get(key, np.nan)
            lines.append(line)
    return pd.DataFrame(lines).set_index(["data", "algorithm"])


# Figures -----------------------------------------------------------------------------------------

# In per cent: the axis of errors goes as far at least.
MOST_PERCENT = 35.0


def draw_tradeoff(summary, titles):
    """Figure 1: relative error against speed-up in distances and in time, and against the coreset
    size.

    Other libraries' k-means stand in the table alone.

    Parameters
    ----------
    summary : from `summarise`
    titles : dict, data set -> title of its row of panels; where we have the paper's data, open
        marks are its Table 1

    Returns
    -------
    matplotlib Figure
    """
    n = len(titles)
    fig, axes = figure(
        "double",
        ratio=0.86 if n > 1 else 1.05,
        nrows=n,
        ncols=3,
        squeeze=False,
    )
    for line, (dataset, title) in zip(axes, titles.items()):
        part = summary[summary.dataset == dataset]
        for ax, x in zip(line, ("speedup_distances", "speedup_time", "size")):
            _draw_panel(ax, part, x)
            if x != "size" and dataset in PAPERS_DATA:
                _mark_printed(ax, PAPERS_DATA[dataset], x.removeprefix("speedup_"))
        line[0].set_title(title, loc="left", fontweight="bold")
        line[0].set_ylabel("relative error (%)")
    labels = ("speed-up, distances", "speed-up, CPU time", "coreset size N'")
    for ax, label in zip(axes[-1], labels):
        ax.set_xlabel(label)
    if PAPERS_DATA.keys() & titles.keys():
        key = METHODS.style(
            BASELINE, marker="s", ls="", mfc="white", label="open: the paper's Table 1"
        )
        axes[0, 0].plot([], [], **key)
    legend_below(fig, ncols=4)
    return fig


def _mark_printed(ax, role, quantity):
    """Open marks where Table 1 has the methods that were run."""
    for method in ("vargmm", "lwcs", "vcgmm"):
        theirs = printed(role, method)
        look = METHODS.style(
            method,
            ls="",
            mfc="white",
            ms=5,
            label=None,
        )
        ax.plot(theirs[quantity], theirs["error"], **look)


def _draw_panel(ax, part, x):
    ax.axhline(0, color="#222222", lw=0.6, zorder=1)
    shown = set(DRAWN) & set(part.method)
    for method in METHODS:
        if method in shown and method in CURVES:
            _draw_curve(ax, part, method, x, "eta")
        elif method in shown and x != "size":
            mine = part[part.method == method].sort_values(x)
            if mine[x].notna().all():
                ax.plot(mine[x], mine.eta, **METHODS.style(method))
    ax.set_xscale("log")
    _percent_axis(ax, part)
    if x == "size":
        _mark_sizes(ax, part)
    else:
        _tell_of_seeding(ax, part)


def _percent_axis(ax, part):
    """Relative errors on the logarithmic axis of the errors themselves, as far as those go that do
    more than seed."""
    ax.set_yscale("function", functions=(_log_of_error, _percent_above))
    drawn = part[part.method.isin(DRAWN)]
    least = drawn.eta.min()
    top = max(MOST_PERCENT, 1.2 * drawn[drawn.method != "afkmc2"].eta.max())
    few = (0, 20, 50, 100, 200)
    marks = few if top > 100 else (-5, 0, 5, 10, 20, 30, 50)
    marks = [m for m in marks if least - 1 <= m <= top]
    ax.set_yticks(marks, [str(m) for m in marks])
    ax.minorticks_off()
    ax.set_ylim(min(-2.0, least - 1.5), top)


def _tell_of_seeding(ax, part):
    """In words, where the seeding alone, AFK-MC², leaves the axis of errors."""
    errors = part[part.method == "afkmc2"].eta
    if errors.max() > ax.get_ylim()[1]:
        ax.annotate(
            f"AFK-MC²: {errors.min():.0f} to {errors.max():,.0f} %",
            (0.03, 0.93),
            xycoords="axes fraction",
            va="top",
            color=METHODS["afkmc2"]["color"],
            fontsize=7,
        )


def _log_of_error(percent):
    return np.log1p(np.maximum(percent, -99.0) / 100)


def _percent_above(log_of_error):
    return 100 * np.expm1(log_of_error)


def _draw_curve(ax, part, method, x, y):
    """Means of a method over coreset sizes, with a band of their standard error where there are
    several seeds."""
    mine = part[part.method == method].sort_values("size")
    look = METHODS.style(method)
    ax.plot(mine[x], mine[y], **look)
    if (mine.n_seeds > 1).all():
        low = mine[y] - mine[f"{y}_sem"]
        high = mine[y] + mine[f"{y}_sem"]
        under = dict(
            color=look["color"],
            alpha=0.2,
            lw=0,
            zorder=look["zorder"] - 1,
        )
        ax.fill_between(mine[x], low, high, **under)


def _mark_sizes(ax, part):
    sizes = sorted(part["size"].dropna().unique())
    ax.set_xticks(sizes, [_power(s) for s in sizes])
    ax.minorticks_off()


def _power(size):
    return f"$2^{{{np.log2(size):.0f}}}$"


def draw_nmi(summary, titles):
    """Figure S.3: agreement with the partition of k-means++ against the coreset size."""
    fig, axes = panels(len(titles), ratio=0.95)
    for ax, (dataset, title) in zip(axes.flat, titles.items()):
        part = summary[summary.dataset == dataset]
        for method in CURVES:
            _draw_curve(ax, part, method, "size", "nmi")
        ceiling = part[part.method == BASELINE].nmi.mean()
        if np.isfinite(ceiling):
            ax.axhline(
                ceiling,
                color="#222222",
                ls=":",
                lw=1,
                label="k-means++, another seed",
            )
        ax.set_xscale("log")
        _mark_sizes(ax, part)
        ax.set(title=title.replace("\n", ", "), xlabel="coreset size N'")
    for line in axes:
        line[0].set_ylabel("NMI with k-means++")
    legend_below(fig, ncols=4)
    return fig
