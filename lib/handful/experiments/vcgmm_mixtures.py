"""Does VCGMM end where simple peers find a good optimum? Families of mixtures, and what peers need (ours)."""

import numpy as np

from handful.data.synthetic import gaussian_mixture
from handful.experiments.style import figure, method_style
from handful.experiments.vcgmm import HARD, OURS, Setting
from handful.experiments.vcgmm_data import Problem

# Options of `gaussian_mixture`; centres lie sqrt(2 d) apart, so that balls of 1 standard deviation overlap.
FAMILIES = {
    "balanced": dict(overlap=0.5),
    "Pareto weights": dict(overlap=0.5, imbalance=1.0, tail=4.0),
    "heavy tails": dict(overlap=0.5, tail=2.5),
    "overlapping": dict(overlap=1.5),
}
WITHIN = 1.02  # of the best reference
TIME_MARKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


def mixture_problem(family, *, rows, dimensions, components, seed=0):
    """The `Problem` of a family of mixtures; generated, so without a data set to cite."""
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    X, _ = gaussian_mixture(rows, dimensions, components, dtype=np.float32, rng=rng, **FAMILIES[family])
    return Problem(family, X - X.mean(axis=0), None, None, [])


def arms(size, references):
    """The settings to compare: references on all rows; the paper's vc-GMM, and ours, on a coreset; ours on all rows."""
    own = [Setting(method, size=n) for method in (OURS, HARD) for n in (size, None)]
    return [*(Setting(name) for name in references), Setting("vcgmm", size=size), *own]


def against_best(rows, references):
    """Each arm against the best reference of its problem.

    Parameters
    ----------
    rows : DataFrame, from `vcgmm.sweep`
    references : methods that set the bar

    Returns
    -------
    DataFrame, one row per dataset, method and setting: error and seconds (means over seeds), ratio (of the error to the
    least mean error of the references), ratio_sem, time_ratio (of the seconds to those of the fastest reference whose
    mean error is within 2 % of the best)
    """
    keys = ["dataset", "method", "setting"]
    groups = rows.groupby(keys, sort=False)
    table = groups[["error", "seconds"]].mean()
    table["sem"] = groups.error.sem()
    table = table.reset_index()
    for _, part in table.groupby("dataset", sort=False):
        peers = part[part.method.isin(references)]
        best = peers.error.min()
        fastest = peers[peers.error <= WITHIN * best].seconds.min()
        table.loc[part.index, "ratio"] = part.error / best
        table.loc[part.index, "ratio_sem"] = part["sem"] / best
        table.loc[part.index, "time_ratio"] = part.seconds / fastest
    return table.drop(columns="sem")


def draw_against_best(table, titles):
    """Error over the best reference's against time over that of the fastest that gets there; the bar is shaded.

    Parameters
    ----------
    table : from `against_best`
    titles : dict, data set -> title of its panel

    Returns
    -------
    matplotlib Figure
    """
    n_columns = min(4, len(titles))
    fig, axes = figure("double", ratio=0.95, nrows=-(-len(titles) // n_columns), ncols=n_columns, squeeze=False)
    for ax in axes.flat[len(titles) :]:
        ax.set_visible(False)
    for ax, (dataset, title) in zip(axes.flat, titles.items()):
        part = table[table.dataset == dataset]
        excess, error = 100 * (part.ratio - 1), 100 * part.ratio_sem
        top = min(max(12.0, 1.1 * excess.max()), 40.0)
        low = 1.2 * min(excess.min(), -2.0)
        left = 0.6 * part.time_ratio.min()
        ax.axhspan(low, 100 * (WITHIN - 1), xmin=0, xmax=1, color="#e4e4e4", lw=0, zorder=0)
        ax.axvline(0.5, color="#9a9a9a", lw=0.8, ls=":", zorder=1)
        for line, height, width in zip(part.itertuples(), excess, error):
            look = method_style(line.method, ls="none")
            if line.setting:  # on a coreset
                look["markerfacecolor"] = "white"
            ax.errorbar(line.time_ratio, min(height, 0.97 * top), yerr=width if height < top else None, **look)
        right = 1.6 * part.time_ratio.max()
        marks = [m for m in TIME_MARKS if left <= m <= right]
        ax.set(title=title, xscale="log", ylim=(low, top), xlim=(left, right))
        ax.set_xticks(marks, [f"{m:g}" for m in marks])
        ax.minorticks_off()
    for ax in axes[-1]:
        ax.set_xlabel("time ratio")
    for line in axes:
        line[0].set_ylabel("error over the best (%)")
    handles = {h.get_label(): h for ax in axes.flat for h in ax.get_legend_handles_labels()[0]}
    fig.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4)
    return fig
