"""How figures look: the page they are drawn for, and one label, colour, marker and line for each
method.

Colours are Okabe and Ito's, safe for the colour-blind; markers and dashes tell methods apart in
grey. Baselines are grey. Each paper's method has one hue, its variants differ by shade, marker and
dash; extensions of ours share another. A paper's methods stand in its ``paper.toml``.
"""

import io
import tomllib

from handful_papers.claims import HOME
from handful_papers.spread import has_spread

# Width of a column and of a page of the papers, in inches.
WIDTHS = {"single": 3.35, "double": 6.9}
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
RED = "#D55E00"
PURPLE = "#CC79A7"
BLACK = "#222222"
GREY = "#777777"
PALE = "#9a9a9a"
# The colours of the paper's method, and of ours.
REPRODUCED = BLUE
EXTENSION = RED
# Shades of the paper's method, where a figure has many of its variants.
LIGHT = "#6aaed6"
DARK = "#00395c"
_COLOURS = dict(
    black=BLACK,
    grey=GREY,
    pale=PALE,
    reproduced=REPRODUCED,
    extension=EXTENSION,
    light=LIGHT,
    dark=DARK,
)
# A line's name -> what matplotlib takes, and seaborn: lengths of dashes and gaps.
_LINES = {
    "": ("", ""),
    "-": ("-", ""),
    ":": (":", (1, 1.65)),
    "--": ("--", (3.7, 1.6)),
    "-.": ("-.", (6.4, 1.6, 1, 1.6)),
    "-..": ((0, (3, 1, 1, 1, 1, 1)), (3, 1, 1, 1, 1, 1)),
    "=.": ((0, (3, 1, 1, 1)), (3, 1, 1, 1)),
}
# What every paper compares with: label, colour, marker, line, and what is drawn on top.
BASELINES = {
    "full": ["Full data", "black", "", "-", 1.5],
    "uniform": ["Uniform", "grey", "o", ":"],
    "kmeans++": ["k-means++", "grey", "^", "--"],
    "kcenter": ["k-center", "pale", "v", "-."],
}
# What figures call data sets that the registry has under a key.
DATA_NAMES = tomllib.loads((HOME / "data_names.toml").read_text(encoding="utf-8"))


def data_name(key):
    """What a figure calls a data set: "cod-rna" for "cod_rna"; others are called by their key, in
    words."""
    return DATA_NAMES.get(key, key.replace("_", " "))


def methods(paper):
    """The `Methods` of a paper: the baselines, and those of its ``paper.toml``."""
    rows = BASELINES | tomllib.loads((HOME / paper / "paper.toml").read_text(encoding="utf-8")).get(
        "methods", {}
    )
    keys = ("label", "color", "marker", "ls", "zorder")
    found = {method: dict(zip(keys, [*row, 2][:5])) for method, row in rows.items()}
    dashes = {method: _LINES[one["ls"]][1] for method, one in found.items()}
    for one in found.values():
        one |= {"color": _COLOURS[one["color"]], "ls": _LINES[one["ls"]][0]}
    return Methods(found, dashes)


class Methods(dict):
    """Method -> keyword arguments of `Axes.plot` that make its style, for the figures of one
    paper."""

    def __init__(self, found, dashes):
        super().__init__(found)
        self._dashes = dashes

    def style(self, method, **changes):
        """The style of a method, with changes: ``ax.plot(x, y, **METHODS.style("uniform",
        lw=2))``."""
        if method not in self:
            raise KeyError(
                f"method {method!r} has no style; add it to the paper's paper.toml: "
                f"{', '.join(self)}."
            )
        return {**self[method], **changes}

    def labels(self):
        """Method -> label, for a column of names that a reader sees."""
        return {method: one["label"] for method, one in self.items()}

    def palette(self):
        """Method -> colour: seaborn's `palette`."""
        return {method: one["color"] for method, one in self.items()}

    def facets(
        self,
        rows,
        x,
        y,
        panel,
        methods,
        *,
        labels,
        ncols=None,
        ratio=0.75,
        width="double",
        level=None,
    ):
        """A panel for each value of a column, in it the median over seeds of each method with a
        band of quartiles.

        A single seed has no band.

        Parameters
        ----------
        rows : pandas.DataFrame, one row per (panel, method, x, seed); every seed counts once
        x, y, panel : str, columns
        methods : list of str, in the order of the legend; the last is drawn on top
        labels : (str, str), of the axes
        ncols : int, panels side by side
        ratio, width : see `figure`
        level : str or None, a method whose mean is drawn as a line across each panel

        Returns
        -------
        fig : matplotlib Figure, its legend below the panels
        axes : dict, value of `panel` -> its Axes
        """
        import seaborn as sns

        use_style()
        values = list(rows[panel].unique())
        ncols = min(ncols or len(values), len(values))
        side = WIDTHS.get(width, width) / ncols
        marks = {method: self.style(method)["marker"] for method in methods}
        dashes = {method: self._dashes[method] for method in methods}
        options = dict(
            x=x, y=y, col=panel, col_order=values, col_wrap=ncols, hue="method", style="method"
        )
        options |= dict(
            hue_order=methods,
            style_order=methods,
            palette=self.palette(),
            markers=marks,
            dashes=dashes,
        )
        shown = rows[rows.method.isin(methods)]
        band = dict(errorbar=None)
        if has_spread(shown, [panel, "method", x]):
            band = dict(errorbar=("pi", 50), err_kws=dict(alpha=0.15, lw=0))
        options |= dict(estimator="median", legend=False) | band
        options |= dict(
            markeredgecolor="auto", markeredgewidth=1, facet_kws=dict(sharex=False, sharey=False)
        )
        grid = sns.relplot(shown, kind="line", height=side * ratio, aspect=1 / ratio, **options)
        fig = grid.figure
        fig.set_size_inches(WIDTHS.get(width, width), side * ratio * -(-len(values) // ncols))
        fig.set_layout_engine("constrained")
        grid.set_axis_labels(*labels)
        handles = [self.line(method) for method in ([level] if level else []) + list(methods)]
        for value, ax in grid.axes_dict.items():
            ax.set_title(DATA_NAMES.get(value, value))
            if level:
                mean = rows[(rows[panel] == value) & (rows.method == level)][y].mean()
                ax.axhline(mean, color=self[level]["color"], lw=0.8, zorder=1.5)
        fig.legend(handles=handles, loc="outside lower center", ncols=4 if width == "double" else 2)
        return fig, grid.axes_dict

    def strips(self, ax, rows, x, y, methods, order):
        """Every value of `y` as a small mark and the means as large ones, for each method beside
        each `x`."""
        import seaborn as sns

        options = dict(
            data=rows,
            x=x,
            y=y,
            order=order,
            hue="method",
            hue_order=methods,
            palette=self.palette(),
            ax=ax,
        )
        sns.stripplot(**options, dodge=True, jitter=False, size=3, alpha=0.4, legend=False)
        side_by_side = dict(
            dodge=0.8 - 0.8 / len(methods), markers=[self[m]["marker"] or "o" for m in methods]
        )
        sns.pointplot(
            **options, **side_by_side, errorbar=None, linestyle="none", markersize=5, legend=False
        )
        edges = (-0.7, len(order) - 0.3)
        ax.set(xlim=edges) if rows[y].dtype.kind in "biuf" else ax.set(ylim=edges[::-1])

    def line(self, method, **changes):
        """A method's entry in a legend."""
        from matplotlib.lines import Line2D

        style = self.style(method, **changes)
        return Line2D([], [], **{key: style[key] for key in style if key != "zorder"})

    def band(self, ax, frame, x, y, method, **changes):
        """Draw the median over seeds of `y` against `x`, with a band from the lower to the upper
        quartile.

        A single seed has no band.

        Parameters
        ----------
        ax : matplotlib.axes.Axes
        frame : pandas.DataFrame, one row per (x, seed) of this method; every seed counts once
        x, y : str, columns
        changes : of the method's style, such as ``label=``

        Returns
        -------
        matplotlib.lines.Line2D : the median
        """
        quartiles = frame.groupby(x)[y].quantile([0.25, 0.5, 0.75]).unstack()
        one = self.style(
            method, **{key: value for key, value in changes.items() if value is not None}
        )
        (line,) = ax.plot(quartiles.index, quartiles[0.5], **one)
        if has_spread(frame, [x]):
            under = dict(color=one["color"], alpha=0.15, lw=0, zorder=one["zorder"] - 1)
            ax.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], **under)
        return line


def figure(width="single", ratio=0.72, *, nrows=1, ncols=1, **options):
    """A figure and its axes at the width of a column ("single"), of the page ("double") or in
    inches.

    Sets the session's style (`use_style`), so that what is drawn into the figure later follows it
    as well.

    Parameters
    ----------
    ratio : height of one panel over its width
    options : further arguments of `matplotlib.pyplot.subplots`
    """
    import matplotlib.pyplot as plt

    inches = WIDTHS.get(width, width)
    use_style()
    return plt.subplots(
        nrows,
        ncols,
        figsize=(inches, inches / ncols * ratio * nrows),
        layout="constrained",
        **options,
    )


def panels(n, *, most=3, ratio=0.72):
    """A page-wide figure of n panels, at most so many side by side: the figure, and its axes in
    rows and columns."""
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
    """Few and plain marks on a logarithmic axis: powers of ten; 2 and 5 times these, or more, where
    few of them fit."""
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    subs = (
        (1.0,)
        if high >= 100 * low
        else (1.0, 2.0, 5.0)
        if high >= 10 * low
        else (1.0, 2.0, 3.0, 5.0, 7.0)
    )
    axis.set_major_locator(LogLocator(subs=subs, numticks=7))
    plain = low >= 0.001 and high <= 10_000
    power = LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(9, 9))
    axis.set_major_formatter((lambda x, _: f"{x:g}") if plain else power)
    axis.set_minor_formatter(NullFormatter())


def render(fig):
    """A figure as bytes, suffix by suffix ("png", "pdf"), without dates or version stamps: same
    figure, same bytes."""
    from matplotlib import rc_context

    found = {}
    with rc_context(rc()):
        # The layout settles here, so that a figure that was shown before it is saved is the same.
        for _ in range(3):
            fig.draw_without_rendering()
        for suffix, stamps in (
            ("png", ["Software"]),
            ("pdf", ["CreationDate", "Producer", "Creator"]),
        ):
            buffer = io.BytesIO()
            fig.savefig(buffer, format=suffix, metadata=dict.fromkeys(stamps))
            found[suffix] = buffer.getvalue()
    return found


def rc():
    """The rcParams of every figure, from ``handful.mplstyle``."""
    from matplotlib import rc_params_from_file

    return rc_params_from_file(HOME / "handful.mplstyle", use_default_template=False)


def use_style():
    """Set `rc()` for the whole session."""
    import matplotlib as mpl

    mpl.rcParams.update(rc())
