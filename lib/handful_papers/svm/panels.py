"""Panels of the SVM paper's figures: one for each data set."""

from handful_papers import style
from handful_papers.svm import METHODS
from handful_papers.svm.comparisons import FLOOR
from handful_papers.svm.errors import TRAINED_BY_SVC

# Of the two solvers whose times are drawn: the paper's, which trains on all points, and ours.
SOLVER_COLOURS = {"SVC": style.BLACK, "LinearSVM": style.EXTENSION}


def panels(rows, ylabel, draw):
    """A figure with a panel for each data set, error or time against the sample size, both
    logarithmic.

    Parameters
    ----------
    rows : pandas.DataFrame with dataset and size, NaN for all points
    ylabel : str
    draw : function of axes and the rows of one data set
    """
    labels = list(rows.dataset.unique())
    fig, axes = style.panels(len(labels), ratio=0.85)
    for ax, label in zip(axes.flat, labels):
        part = rows[rows.dataset == label]
        draw(ax, part)
        sizes = sorted(part["size"].dropna().unique())
        ax.set(
            title=label,
            xscale="log",
            yscale="log",
            xlabel="sample size m",
            ylabel=ylabel,
        )
        ax.set_xticks(sizes[:: max(1, len(sizes) // 3)], minor=False)
        ax.set_xticks([], minor=True)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        style.log_ticks(ax.yaxis)
    style.legend_below(fig, ncols=3)
    return fig


def draw_errors(ax, rows):
    """The mean error of each method against the sample size, with its median absolute deviation, as
    in the paper."""
    for method in rows.method.unique():
        mine = rows[rows.method == method]
        by_size = mine.assign(error=mine.error.clip(lower=FLOOR)).groupby("size").error
        mean = by_size.mean()
        deviation = by_size.agg(_median_absolute_deviation)
        several = by_size.size().max() > 1
        bars = [deviation.clip(upper=0.9 * mean), deviation] if several else None
        ax.errorbar(
            mean.index,
            mean,
            yerr=bars,
            elinewidth=0.7,
            **METHODS.style(method),
        )


def _median_absolute_deviation(errors):
    return (errors - errors.median()).abs().median()


def draw_times(ax, rows):
    """CPU seconds to choose a sample and to train on it, medians with quartiles over trials,
    against its size, by the paper's solver and by ours; and to train on all points, as levels.

    A level of points that look up is a training that was stopped there.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    rows : pandas.DataFrame with method, size, select, train, train_svc; those of training on all
        points have size NaN, seconds and stopped, and their solver as method
    """
    samples = rows.dropna(subset=["size"])
    for solver, column in {"SVC": "train_svc", "LinearSVM": "train"}.items():
        for method in TRAINED_BY_SVC:
            mine = samples[samples.method == method]
            total = mine["select"] + mine[column]
            _draw_quartiles(ax, total.groupby(mine["size"]), _look(method, solver))
    for row in rows[rows["size"].isna()].itertuples():
        if row.method in SOLVER_COLOURS:
            _draw_level(ax, row, sorted(samples["size"].unique()))


def _look(method, solver):
    """Of a method that one of two solvers trains: marks and dashes are the method's, ours has the
    colour of an extension."""
    name = METHODS[method]["label"]
    look = METHODS.style(method, label=f"{name}, {solver}")
    if solver == "LinearSVM":
        look["color"] = SOLVER_COLOURS[solver]
        look["mfc"] = "white"
    return look


def _draw_quartiles(ax, by_size, look):
    low = by_size.quantile(0.25)
    middle = by_size.median()
    high = by_size.quantile(0.75)
    several = by_size.size().max() > 1
    bars = [middle - low, high - middle] if several else None
    ax.errorbar(middle.index, middle, yerr=bars, elinewidth=0.7, **look)


def _draw_level(ax, row, sizes):
    stopped = row.stopped == 1
    label = METHODS[row.method]["label"].removesuffix(" (extension)")
    ax.plot(
        sizes,
        [row.seconds] * len(sizes),
        color=SOLVER_COLOURS[row.method],
        marker="^" if stopped else "",
        ls="-",
        lw=0.8,
        label=f"{label}, stopped there" if stopped else label,
        zorder=1.5,
    )
