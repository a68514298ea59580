"""One look for every figure: each method's label, colour, marker and line, and the page it is drawn for.

Colours are Okabe and Ito's (safe for the colour-blind); markers and dashes tell methods apart in grey.
Baselines are grey, ours come last and on top.
"""

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
BLACK, GREY, PALE = "#222222", "#777777", "#9a9a9a"

METHODS = {}

# Width of a column and of a page of the papers, in inches.
SINGLE, DOUBLE = 3.35, 6.9


def register_method(key, label, color, marker, ls, *, zorder=2):
    """Add a method to `METHODS`: one place for its label, colour, marker and line in every figure.

    Raises
    ------
    ValueError
        if the key is taken.
    """
    look = dict(label=label, color=color, marker=marker, ls=ls, zorder=zorder)
    if key in METHODS:
        raise ValueError(f"method {key!r} is registered already, as {METHODS[key]}.")
    METHODS[key] = look


def method_style(key, **changes):
    """Keyword arguments for `Axes.plot` that draw a method as everywhere else."""
    if key not in METHODS:
        raise KeyError(f"method {key!r} has no style; known: {', '.join(METHODS)}. Add it with register_method.")
    return {**METHODS[key], **changes}


# Baselines first, in grey.
register_method("full", "Full data", BLACK, "", "-", zorder=1.5)
register_method("uniform", "Uniform", GREY, "o", ":")
register_method("kmeans++", "k-means++", GREY, "^", "--")
register_method("kcenter", "k-center", PALE, "v", "-.")
register_method("forgetting", "Forgetting", PALE, "X", "--")
register_method("sensitivity", "Sensitivity", PALE, "s", (0, (3, 1, 1, 1, 1, 1)))
register_method("random measurements", "Random measurements", GREY, "o", ":")
register_method("approximate greedy", "Approximate greedy", PALE, "v", "-.")
# Bilevel coresets.
register_method("bico", "BiCo (linear)", SKY, "D", "--", zorder=4)
register_method("bico robust", "BiCo (robust)", PURPLE, "P", "-.", zorder=4)
register_method("bico quadratic", "BiCo (quadratic, ours)", BLUE, "D", "-", zorder=5)
register_method("bico batches", "BiCo Fwd 25", GREEN, "v", "-.", zorder=4)
register_method("bico exchange", "BiCo Exch", PURPLE, "P", ":", zorder=3)
register_method("bico elimination", "BiCo Elim", ORANGE, "s", "--", zorder=3)
register_method("bico regularised", "BiCo Reg", RED, "*", "-", zorder=6)
register_method("bico weighted", "BiCo w/ weights", ORANGE, "*", "--", zorder=4)
register_method("bico weighted quadratic", "BiCo w/ weights (quadratic, ours)", RED, "*", "-", zorder=6)
# Batch active learning.
register_method("supervised", "Supervised", GREY, "o", ":")
register_method("supervised augmented", "Supervised, augmented", GREY, "^", "--")
register_method("mixmatch", "MixMatch", BLUE, "D", "-", zorder=5)
register_method("max-entropy", "Max-entropy", ORANGE, "^", "--", zorder=3)
register_method("consistency", "Consistency", PURPLE, "s", (0, (3, 1, 1, 1, 1, 1)), zorder=3)
register_method("badge", "BADGE", GREEN, "P", "-.", zorder=3)
# Support vector machines.
register_method("svm paper", "Coreset (paper's bound)", SKY, "D", "--", zorder=4)
register_method("svm tight", "Coreset (tight bound, ours)", BLUE, "D", "-", zorder=5)
register_method("svm mixture", "Coreset (margin mixture, ours)", RED, "*", "-", zorder=6)
# Online variance reduction.
register_method("equal mixture", "Equal mixture", GREY, "^", "--")
register_method("vrb", "VRB", SKY, "s", "-.", zorder=4)
register_method("vrm", "VRM", RED, "D", "-", zorder=6)
# Clustering.
register_method("afkmc2", "AFK-MC²", PALE, "v", "-.")
register_method("lwcs", "k-means on LWCS", SKY, "s", "--", zorder=4)
register_method("vargmm", "var-GMM-S", GREEN, "P", "-.", zorder=4)
register_method("vcgmm", "vc-GMM", RED, "D", "-", zorder=6)
register_method("vcgmm ours", "vc-GMM, greedy seeds, moves (ours)", BLUE, "*", (0, (3, 1, 1, 1)), zorder=7)
register_method("vcgmm hard", "vc-GMM, hard assignments (ours)", PURPLE, "P", (0, (3, 1, 1, 1)), zorder=7)
# What a user would pick instead.
register_method("sklearn lloyd", "scikit-learn (Lloyd)", GREY, "<", "")
register_method("sklearn elkan", "scikit-learn (Elkan)", GREY, ">", "")
register_method("minibatch", "MiniBatchKMeans", GREY, "x", "")
register_method("faiss", "faiss", BLACK, "+", "")


def figure(width="single", ratio=0.72, *, nrows=1, ncols=1, **options):
    """A figure and its axes at the width of a column ("single"), of the page ("double") or in inches.

    Sets the session's style (`use_style`), so that what is drawn into the figure later follows it as well.

    Parameters
    ----------
    ratio : height of one panel over its width
    options : further arguments of `matplotlib.pyplot.subplots`
    """
    import matplotlib.pyplot as plt

    inches = {"single": SINGLE, "double": DOUBLE}.get(width, width)
    use_style()
    return plt.subplots(nrows, ncols, figsize=(inches, inches / ncols * ratio * nrows), layout="constrained", **options)


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


def plot_band(ax, frame, x, y, method, *, label=None, fill=True, **changes):
    """Draw the median over seeds of `y` against `x`, with a band from the lower to the upper quartile.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    frame : pandas.DataFrame, one row per (x, seed) of this method; every seed counts once
    x, y : str, columns
    method : str, key of `METHODS`
    label : str or None, another name than the method's
    fill : False draws the median alone

    Returns
    -------
    matplotlib.lines.Line2D : the median
    """
    quartiles = frame.groupby(x)[y].quantile([0.25, 0.5, 0.75]).unstack()
    look = method_style(method, **({} if label is None else {"label": label}), **changes)
    (line,) = ax.plot(quartiles.index, quartiles[0.5], **look)
    if fill:
        ax.fill_between(
            quartiles.index,
            quartiles[0.25],
            quartiles[0.75],
            color=look["color"],
            alpha=0.15,
            lw=0,
            zorder=look["zorder"] - 1,
        )
    return line


def label_lines(ax, lines=None, *, gap=1.25, x_offset=6):
    """Write each line's label at its right end, in its colour; a legend where the labels cannot fit.

    Labels that would touch are pushed apart up and down. They fit if, at `gap` type sizes apart, they take
    no more than the height of the axes.

    Parameters
    ----------
    ax : matplotlib.axes.Axes; call this when its limits are final
    lines : list of Line2D, default all labelled lines of `ax`
    gap : distance between two labels, in type sizes
    x_offset : distance from the line's end, in points

    Returns
    -------
    list of Annotation, or the Legend
    """
    import numpy as np
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    lines = [line for line in (ax.lines if lines is None else lines) if not line.get_label().startswith("_")]
    if not lines:
        raise ValueError("no labelled lines on these axes.")
    ax.figure.draw_without_rendering()  # the layout decides how tall the axes are
    size = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    step = gap * size * ax.figure.dpi / 72  # pixels
    box = ax.get_window_extent()
    if step * len(lines) > box.height:
        return ax.legend()
    ends = np.array([ax.transData.transform(_last_point(line)) for line in lines])  # (lines, 2), pixels
    order = np.argsort(ends[:, 1], kind="stable")
    heights = _spread(ends[order, 1], step, box.y0 + step / 2, box.y1 - step / 2)
    right = ends[:, 0].max()
    labels = []
    for line, height in zip([lines[i] for i in order], heights):
        labels.append(
            ax.annotate(
                line.get_label(),
                xy=ax.transAxes.inverted().transform((right, height)),
                xycoords="axes fraction",
                xytext=(x_offset, 0),
                textcoords="offset points",
                color=line.get_color(),
                fontsize=size,
                va="center",
                annotation_clip=False,
            )
        )
    return labels


def _last_point(line):
    import numpy as np

    x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    if len(x) == 2 and x[0] == 0 and x[1] == 1 and y[0] == y[1]:  # axhline: x in axes fractions
        x = np.asarray(line.axes.get_xlim(), float)
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any():
        raise ValueError(f"line {line.get_label()!r} has no finite point to label.")
    return x[known][-1], y[known][-1]


def _spread(heights, step, low, high):
    """Sorted heights, moved a little at a time until neighbours are `step` apart, within low..high."""
    import numpy as np

    out = np.clip(np.asarray(heights, float), low, high)
    for _ in range(200):
        gaps = step - np.diff(out)
        if (gaps <= 1e-6).all():
            break
        for i in np.flatnonzero(gaps > 0):
            push = max(step - (out[i + 1] - out[i]), 0) / 2
            out[i], out[i + 1] = out[i] - push, out[i + 1] + push
        out = np.clip(out, low, high)
    for i in range(1, len(out)):  # the sweeps end where limits press from both sides; this makes it exact
        out[i] = max(out[i], out[i - 1] + step)
    if len(out) and out[-1] > high:
        out[-1] = high
        for i in range(len(out) - 2, -1, -1):
            out[i] = min(out[i], out[i + 1] - step)
    return out
