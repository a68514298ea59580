"""From the rows of `vcgmm.sweep` to Table 1 and Figures 1, S.2 and S.3 of the vc-GMM paper."""

import numpy as np
import pandas as pd

from handful.experiments.published import published
from handful.experiments.style import figure, method_style
from handful.experiments.verdicts import judge, paired_differences, verdict_everywhere

BASELINE = "kmeans++"
KEYS = ["dataset", "clusters", "method", "setting", "size"]
# how Table 1 calls the methods: the row's name begins with it
PRINTED = {"kmeans++": "k-means++", "vargmm": "var-GMM-S", "lwcs": "LWCS", "vcgmm": "vc-GMM"}
QUANTITIES = {
    "error": "relative error",
    "time": "speed-up (time)",
    "distances": "speed-up (distances)",
    "iterations": "EM iterations",
    "share": "coreset+seeding share of time",
}
PAPER_ROWS = {"KDD": 145_751, "RNA": 488_565, "CIFAR-10": 50_000, "SUSY": 5_000_000, "SONG": 515_345}  # N, Table 1
CURVES = ("lwcs", "vcgmm", "vcgmm ours")  # over coreset sizes
TARGET = 10.0  # per cent: Table 1 shows the coreset size whose error comes closest


def relative_errors(rows):
    """`rows` with the relative error `eta` of eq. (9) in per cent, against the mean of k-means++ over its seeds."""
    base = rows[rows.method == BASELINE].groupby("dataset").error.mean()
    return rows.assign(eta=100 * (rows.error / rows.dataset.map(base) - 1))


def summarise(rows):
    """Means over seeds of every setting: Table 1 with all sizes.

    Parameters
    ----------
    rows : DataFrame, from `vcgmm.sweep`

    Returns
    -------
    DataFrame, one row per dataset, method and setting: eta and its standard error `eta_sem` (per cent), nmi,
    `nmi_sem`, iterations, seconds, speedup_time, speedup_distances (ratios of means to k-means++), speedup_time_sd
    (over seeds), share (per cent of the time that coreset and seeding take), n_seeds
    """
    rows = relative_errors(rows)
    rows = rows.assign(before=rows.coreset_seconds + rows.seeding_seconds)
    groups = rows.groupby(KEYS, dropna=False, sort=False)
    table = groups[["eta", "nmi", "iterations", "seconds", "distances", "before"]].mean()
    table["eta_sem"], table["nmi_sem"], table["n_seeds"] = groups.eta.sem(), groups.nmi.sem(), groups.size()
    table = table.reset_index()
    base = table[table.method == BASELINE].set_index("dataset")
    table["speedup_time"] = table.dataset.map(base.seconds) / table.seconds
    each = rows.dataset.map(base.seconds) / rows.seconds
    table["speedup_time_sd"] = each.groupby([rows[key] for key in KEYS], dropna=False, sort=False).std().to_numpy()
    table["speedup_distances"] = table.dataset.map(base.distances) / table.distances
    table["share"] = 100 * table.before / table.seconds
    return table.drop(columns="before")


def nearest_to_target(summary, dataset, method, target=TARGET):
    """The row of `summarise` whose coreset size comes closest to the target error."""
    part = summary[(summary.dataset == dataset) & (summary.method == method)]
    return part.loc[(part.eta - target).abs().idxmin()]


def seconds_to_reach(summary, dataset, method, eta):
    """CPU seconds after which a method with coresets reaches the error `eta`, between its sizes by log-linear lines.

    NaN where its largest coreset ends above it; its smallest coreset's seconds where that ends below already.
    """
    part = summary[(summary.dataset == dataset) & (summary.method == method)].sort_values("size")
    best = np.minimum.accumulate(part.eta.to_numpy())  # a larger coreset that did worse would not be taken
    if eta < best[-1] - 1e-9:
        return np.nan
    return float(np.exp(np.interp(eta, best[::-1], np.log(part.seconds.to_numpy())[::-1])))


def same_error_ratio(summary, dataset, *, method="vcgmm", other="lwcs", target=TARGET):
    """How many times longer `other` takes than `method`, both to the target error or the least above that both reach.

    Returns
    -------
    ratio, eta : floats
    """
    part = summary[summary.dataset == dataset].groupby("method").eta.min()
    eta = max(target, part[method], part[other])
    times = [seconds_to_reach(summary, dataset, name, eta) for name in (other, method)]
    return times[0] / times[1], float(eta)


def scaled_speedup(data_set, quantity, n_rows):
    """What Table 1 prints for vc-GMM, times our rows over the paper's: at one coreset size speed-ups grow like N."""
    return printed(data_set, "vcgmm")[quantity] * n_rows / PAPER_ROWS[data_set]


def _printed_rows(data_set, method):
    table = published("vcgmm", "Table 1")
    return table[table.column.str.startswith(f"{data_set} C=") & table["row"].str.startswith(PRINTED[method])]


def printed(data_set, method):
    """What Table 1 prints, a dict with the keys of `QUANTITIES`; empty for a data set that it does not have."""
    found = {}
    for key, name in QUANTITIES.items():
        for line in _printed_rows(data_set, method).itertuples():
            if line.column.endswith(f" {name}"):
                found[key] = line.value
    return found


def as_printed(summary, dataset, role, method):
    """The row of `summarise` that Table 1 shows: the coreset size nearest to 10 %, the paper's G for var-GMM-S."""
    if method in CURVES:
        return nearest_to_target(summary, dataset, method)
    part = summary[(summary.dataset == dataset) & (summary.method == method)]
    if method == "vargmm":
        part = part[part.setting == _printed_rows(role, method)["row"].iloc[0].split()[-1]]
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
            row, theirs = as_printed(summary, dataset, role, method), printed(role, method)
            setting = row.setting if pd.isna(row["size"]) else f"2^{np.log2(row['size']):.0f}"
            line = {"data": f"{dataset} ({role}), C={row.clusters}", "algorithm": f"{name} {setting}".strip()}
            ours = [row.eta, row.speedup_time, row.speedup_distances, row.iterations, row.share]
            titles = ["error %", "speed-up, time", "speed-up, distances", "iterations", "coreset + seeding %"]
            for key, title, value in zip(QUANTITIES, titles, ours):
                line[title], line[f"{title} (paper)"] = value, theirs.get(key, np.nan)
            lines.append(line)
    return pd.DataFrame(lines).set_index(["data", "algorithm"])


# Claims -------------------------------------------------------------------------------------------------------------


def claim_against_lwcs(exp, rows, summary, datasets, *, item, prefix, paper):
    """State the two claims of Figures 1 and S.2 on vc-GMM against k-means on the same kind of coreset.

    Parameters
    ----------
    exp : Experiment
    rows : from `relative_errors`
    summary : from `summarise`
    datasets : names
    item : "Figure 1"; prefix : of the claims' ids; paper : ratio of times in the paper, or ""
    """
    found = {d: same_error_ratio(summary, d) for d in datasets}
    ratios = [ratio for ratio, _ in found.values()]
    exp.claim(
        f"{prefix}-time-to-lwcs-error",
        "vc-GMM reaches the error of LWCS in up to an order of magnitude less time (both at 10 %, or the least error "
        "above it that both reach: largest ratio over the data sets at least 10, all above 1; weaker: largest at "
        "least 3)",
        paper=paper,
        ours=float(max(ratios)),
        unit="x",
        item=item,
        verdict=judge(
            bool(min(ratios) > 1 and max(ratios) >= 10),
            weaker=bool(max(ratios) >= 3),
            why=", ".join(f"{d} {ratio:.1f} x at {eta:.0f} %" for d, (ratio, eta) in found.items()),
        ),
    )
    curves = rows[rows.method.isin(["lwcs", "vcgmm"])]
    differences = paired_differences(
        curves, a="vcgmm", b="lwcs", value="eta", by=["dataset", "size"], higher_is_better=False
    )
    exp.claim(
        f"{prefix}-error-below-lwcs",
        "At the same coreset size the error of vc-GMM is not above that of LWCS (mean difference; within half a point)",
        paper="lower",
        ours=float(np.mean([-v.mean() for v in differences.values()])),
        unit="points",
        item=item,
        verdict=verdict_everywhere(differences, margin=0.5),
    )


# Figures ------------------------------------------------------------------------------------------------------------

CLOUDS = ("afkmc2", "vargmm")  # over m or G
LINEAR = 10.0  # per cent: the axis of errors is linear up to here, logarithmic beyond


def draw_tradeoff(summary, titles):
    """Figure 1: relative error against speed-up in distances and in time, and against the coreset size.

    Parameters
    ----------
    summary : from `summarise`
    titles : dict, data set -> title of its row of panels

    Returns
    -------
    matplotlib Figure
    """
    n = len(titles)
    fig, axes = figure("double", ratio=0.86 if n > 1 else 1.05, nrows=n, ncols=3, squeeze=False)
    for line, (dataset, title) in zip(axes, titles.items()):
        part = summary[summary.dataset == dataset]
        for ax, x in zip(line, ("speedup_distances", "speedup_time", "size")):
            _draw_panel(ax, part, x)
        line[0].set_title(title, loc="left", fontweight="bold")
        line[0].set_ylabel("relative error (%)")
    for ax, label in zip(axes[-1], ("speed-up, distances", "speed-up, CPU time", "coreset size N'")):
        ax.set_xlabel(label)
    handles = {h.get_label(): h for ax in axes.flat for h in ax.get_legend_handles_labels()[0]}
    fig.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4)
    return fig


def _draw_panel(ax, part, x):
    ax.axhline(0, color="#222222", lw=0.6, zorder=1)
    for method in part.method.unique():
        mine = part[part.method == method].sort_values("size" if method in CURVES else x)
        look = method_style(method)
        if x == "size" and method not in CURVES:
            continue
        if method in CURVES:
            ax.plot(mine[x], mine.eta, **look)
            if (mine.n_seeds > 1).all():
                low, high = mine.eta - mine.eta_sem, mine.eta + mine.eta_sem
                ax.fill_between(mine[x], low, high, color=look["color"], alpha=0.2, lw=0, zorder=look["zorder"] - 1)
        elif mine[x].notna().all():
            ax.plot(mine[x], mine.eta, **look)
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=LINEAR, linscale=1.0)
    top = max(LINEAR, part.eta.max())
    marks = [m for m in (-5, 0, 5, 10, 30, 100, 300, 1000) if part.eta.min() - 1 <= m <= 1.2 * top]
    ax.set_yticks(marks, [str(m) for m in marks])
    ax.set_ylim(min(-2.0, part.eta.min() - 1.5), 1.5 * top)
    ax.minorticks_off()
    if x == "size":
        sizes = sorted(part["size"].dropna().unique())
        ax.set_xticks(sizes, [f"$2^{{{np.log2(s):.0f}}}$" for s in sizes])
        ax.minorticks_off()


def draw_nmi(summary, titles):
    """Figure S.3: agreement with the partition of k-means++ against the coreset size."""
    fig, axes = figure("double", ratio=0.95, nrows=-(-len(titles) // 3), ncols=min(3, len(titles)), squeeze=False)
    for ax in axes.flat[len(titles) :]:
        ax.set_visible(False)
    for ax, (dataset, title) in zip(axes.flat, titles.items()):
        part = summary[summary.dataset == dataset]
        for method in CURVES:
            mine = part[part.method == method].sort_values("size")
            look = method_style(method)
            ax.plot(mine["size"], mine.nmi, **look)
            low, high = mine.nmi - mine.nmi_sem, mine.nmi + mine.nmi_sem
            ax.fill_between(mine["size"], low, high, color=look["color"], alpha=0.2, lw=0, zorder=look["zorder"] - 1)
        ceiling = part[part.method == BASELINE].nmi.mean()
        if np.isfinite(ceiling):
            ax.axhline(ceiling, color="#222222", ls=":", lw=1, label="k-means++, another seed")
        ax.set_xscale("log")
        sizes = sorted(part["size"].dropna().unique())
        ax.set_xticks(sizes, [f"$2^{{{np.log2(s):.0f}}}$" for s in sizes])
        ax.minorticks_off()
        ax.set(title=title.replace("\n", ", "), xlabel="coreset size N'")
    for line in axes:
        line[0].set_ylabel("NMI with k-means++")
    handles = {h.get_label(): h for ax in axes.flat for h in ax.get_legend_handles_labels()[0]}
    fig.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4)
    return fig
