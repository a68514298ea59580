"""The page that figures are drawn for: its widths, type sizes and grid. How methods look stands in `looks`."""

# Width of a column and of a page of the papers, in inches.
WIDTHS = {"single": 3.35, "double": 6.9}


def figure(width="single", ratio=0.72, *, nrows=1, ncols=1, **options):
    """A figure and its axes at the width of a column ("single"), of the page ("double") or in inches.

    Sets the session's style (`use_style`), so that what is drawn into the figure later follows it as well.

    Parameters
    ----------
    ratio : height of one panel over its width
    options : further arguments of `matplotlib.pyplot.subplots`
    """
    import matplotlib.pyplot as plt

    inches = WIDTHS.get(width, width)
    use_style()
    return plt.subplots(nrows, ncols, figsize=(inches, inches / ncols * ratio * nrows), layout="constrained", **options)


def panels(n, *, most=3, ratio=0.72):
    """A page-wide figure of n panels, at most so many side by side: the figure, and its axes in rows and columns."""
    ncols = min(most, n)
    fig, axes = figure("double", ratio, nrows=-(-n // ncols), ncols=ncols, squeeze=False)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    return fig, axes


def legend_below(fig, *, ncols):
    """One legend below all panels of a figure, with each label once."""
    handles = {h.get_label(): h for ax in fig.axes for h in ax.get_legend_handles_labels()[0]}
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols)


def log_ticks(axis):
    """Few and plain marks on a logarithmic axis: powers of ten; 2 and 5 times these, or more, where few of them fit."""
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    subs = (1.0,) if high >= 100 * low else (1.0, 2.0, 5.0) if high >= 10 * low else (1.0, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=7))
    axis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(9, 9)))
    axis.set_minor_formatter(NullFormatter())


def rc():
    """The rcParams of every figure: the column's type size, a faint grid, no top or right spine."""
    return {
        "figure.dpi": 150,
        "savefig.dpi": 200,
        "font.family": "DejaVu Sans",  # ships with matplotlib: the same letters on every machine
        "mathtext.fontset": "dejavusans",
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "legend.fontsize": 7,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "lines.linewidth": 1.3,
        "lines.markersize": 3.5,
        "pdf.fonttype": 42,
        "svg.hashsalt": "handful",
    }


def use_style():
    """Set `rc()` for the whole session."""
    import matplotlib as mpl

    mpl.rcParams.update(rc())
