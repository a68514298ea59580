"""Does VCGMM end where simple peers find a good optimum? Families of mixtures, and what peers need
(ours)."""

import numpy as np
from handful.data.synthetic import gaussian_mixture

from handful_papers.style import panels
from handful_papers.vcgmm import METHODS
from handful_papers.vcgmm.arms import ASSIGNMENTS, Setting, next_seed, seed_rows
from handful_papers.vcgmm.data import Problem, clustering_problem

# Options of `gaussian_mixture`; centres lie sqrt(2 d) apart, so that balls of 1 standard deviation
# overlap.
FAMILIES = {
    "balanced": dict(overlap=0.5),
    "Pareto weights": dict(overlap=0.5, imbalance=1.0, tail=4.0),
    "heavy tails": dict(overlap=0.5, tail=2.5),
    "overlapping": dict(overlap=1.5),
}
# How near the best reference's error a peer has to come.
WITHIN = 1.02
TIME_MARKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


def mixture_problem(
    family,
    *,
    rows,
    dimensions,
    components,
    seed=0,
):
    """The `Problem` of a family of mixtures; generated, so without a data set to cite."""
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    X, _ = gaussian_mixture(
        rows, dimensions, components, dtype=np.float32, rng=rng, **FAMILIES[family]
    )
    return Problem(family, X - X.mean(axis=0), None)


def arms(size, references):
    """The settings to compare: references on all rows; the paper's vc-GMM, and ours, on a coreset;
    ours on all rows."""
    peers = [Setting(name) for name in references]
    own = [Setting(method, size=n) for method in ASSIGNMENTS for n in (size, None)]
    return [*peers, Setting("vcgmm", size=size), *own]


def problem_rows(
    problem,
    seed,
    *,
    first,
    n_seeds,
    references,
    size,
):
    """Every arm on one problem with one seed: a task of the sweep.

    Parameters
    ----------
    problem : dict of `rows` and `clusters`, with either `family`, `dimensions` and `components` or
        `data`
    seed : int; `first`, the first of `n_seeds`, and that of the data
    references, size : as in `arms`
    """
    made = make_problem(problem, seed=first)
    return seed_rows(
        made,
        problem["clusters"],
        arms(size, references),
        seed=seed,
        other=next_seed(seed, first, n_seeds),
    )


def make_problem(problem, *, seed):
    """The `Problem` that a dict of `problem_rows` describes."""
    if "data" in problem:
        return clustering_problem(problem["data"], rows=problem["rows"], seed=seed)
    sizes = {name: problem[name] for name in ("rows", "dimensions", "components")}
    return mixture_problem(problem["family"], **sizes, seed=seed)


def against_best_by_seed(rows, references):
    """Each run against the best reference of its problem.

    Parameters
    ----------
    rows : DataFrame, from `problem_rows`
    references : methods that set the bar

    Returns
    -------
    DataFrame : `rows` with ratio (of the error to the least mean error of the references) and
        time_ratio (of seconds to the mean of the fastest reference whose mean error is within 2 %
        of the best)
    """
    by_method = rows[rows.method.isin(references)].groupby(["dataset", "method"])
    means = by_method[["error", "seconds"]].mean()
    best = means.error.groupby("dataset").min()
    near = means[means.error <= WITHIN * best.reindex(means.index, level="dataset")]
    fastest = near.seconds.groupby("dataset").min()
    return rows.assign(
        ratio=rows.error / rows.dataset.map(best),
        time_ratio=rows.seconds / rows.dataset.map(fastest),
    )


def against_best(rows, references):
    """The means of `against_best_by_seed` over seeds, a row for each dataset, method and setting,
    with ratio_sem."""
    each = against_best_by_seed(rows, references)
    groups = each.groupby(["dataset", "method", "setting"], sort=False)
    table = groups[["error", "seconds", "ratio", "time_ratio"]].mean()
    return table.assign(ratio_sem=groups.ratio.sem()).reset_index()


def draw_against_best(table, titles):
    """Error over the best reference's against time over that of the fastest that gets there; the
    bar is shaded.

    Parameters
    ----------
    table : from `against_best`
    titles : dict, data set -> title of its panel

    Returns
    -------
    matplotlib Figure
    """
    fig, axes = panels(len(titles), most=4, ratio=0.95)
    for ax, (dataset, title) in zip(axes.flat, titles.items()):
        part = table[table.dataset == dataset]
        excess = 100 * (part.ratio - 1)
        low = 1.3 * min(excess.min(), -2.0)
        top = 1.3 * max(excess.max(), 12.0)
        left = 0.6 * part.time_ratio.min()
        ax.axhspan(
            low,
            100 * (WITHIN - 1),
            xmin=0,
            xmax=1,
            color="#e4e4e4",
            lw=0,
            zorder=0,
        )
        ax.axvline(
            0.5,
            color="#9a9a9a",
            lw=0.8,
            ls=":",
            zorder=1,
        )
        for line in part.itertuples():
            _draw_mark(ax, line)
        right = 1.6 * part.time_ratio.max()
        marks = [m for m in TIME_MARKS if left <= m <= right]
        ax.set(
            title=title,
            xscale="log",
            xlim=(left, right),
        )
        ax.set_yscale("symlog", linthresh=10, linscale=1.5)
        heights = (0, 10, 100) if top > 20 else (-5, 0, 5, 10)
        ax.set(ylim=(low, top), yticks=[mark for mark in heights if low <= mark <= top])
        ax.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        ax.set_xticks(marks, [f"{m:g}" for m in marks])
        ax.minorticks_off()
    for ax in axes[-1]:
        ax.set_xlabel("time ratio")
    for line in axes:
        line[0].set_ylabel("excess error (%)")
    lines = [METHODS.line(method, ls="") for method in table.method.unique()]
    line = METHODS.line("uniform", ls="", mfc="white", label="on a coreset")
    lines.append(line)
    fig.legend(handles=lines, loc="outside lower center", ncols=3)
    return fig


def _draw_mark(ax, line):
    look = METHODS.style(line.method, ls="none")
    if line.setting:
        # It runs on a coreset.
        look["markerfacecolor"] = "white"
    # A single seed has no standard error.
    bar = None if np.isnan(line.ratio_sem) else 100 * line.ratio_sem
    ax.errorbar(
        line.time_ratio,
        100 * (line.ratio - 1),
        yerr=bar,
        **look,
    )


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    there = set(run.rows.method)
    references = [name for name in run.parameters["references"] if name in there]
    rows = against_best_by_seed(run.rows, references)
    # Without a setting they run on all rows.
    whole = rows[(rows.method == "vcgmm hardened") & (rows.setting.fillna("") == "")]
    by_set = whole.groupby("dataset", sort=False)
    return {"vcgmm-own-time-hardened": {name: mine.time_ratio.to_numpy() for name, mine in by_set}}
