"""Panels of the SVM paper's figures: one for each data set."""

from handful_papers import style
from handful_papers.svm import METHODS
from handful_papers.svm.comparisons import FLOOR


def panels(rows, ylabel, draw):
    """A figure with a panel for each data set, error or time against the sample size, both logarithmic.

    Parameters
    ----------
    rows : pandas.DataFrame with dataset and size
    ylabel : str
    draw : function of axes and the rows of one data set
    """
    labels = list(rows.dataset.unique())
    fig, axes = style.panels(len(labels), ratio=0.85)
    for ax, label in zip(axes.flat, labels):
        part = rows[rows.dataset == label]
        draw(ax, part)
        sizes = sorted(part["size"].unique())
        ax.set(title=label, xscale="log", yscale="log", xlabel="sample size m", ylabel=ylabel)
        ax.set_xticks(sizes[:: max(1, len(sizes) // 3)], minor=False)
        ax.set_xticks([], minor=True)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        style.log_ticks(ax.yaxis)
    style.legend_below(fig, ncols=3)
    return fig


def draw_errors(ax, rows):
    """The mean error of each method against the sample size, with its median absolute deviation, as in the paper."""
    for method in rows.method.unique():
        by_size = rows[rows.method == method].assign(error=lambda r: r.error.clip(lower=FLOOR)).groupby("size").error
        mean, deviation = by_size.mean(), by_size.agg(lambda e: (e - e.median()).abs().median())
        bars = [deviation.clip(upper=0.9 * mean), deviation]
        ax.errorbar(mean.index, mean, yerr=bars, elinewidth=0.7, **METHODS.style(method))


def draw_times(ax, rows):
    """The median CPU seconds of each method against the sample size."""
    for method in rows.method.unique():
        median = rows[rows.method == method].groupby("size").seconds.median()
        ax.plot(median.index, median, **METHODS.style(method))
